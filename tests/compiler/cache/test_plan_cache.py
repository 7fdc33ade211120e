"""Plans kept on disk: the same program in another process, made anew where anything is damaged or other."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite")

from tests.compiler.cache.test_object_cache_processes import start

import adjoint as ad
import adjoint.nn.functional as F
from adjoint import nn, optim
from adjoint.compiler import pipeline
from adjoint.compiler.cache import plan_cache
from adjoint.compiler.cache.disk_cache import DiskCache
from adjoint.compiler.ir.graph import Value
from adjoint.compiler.llvm.jit import elf_loader
from adjoint.core.op.families import unary

PROGRAM = """
import hashlib, sys
import adjoint as ad
from adjoint import nn, optim
ad.manual_seed(0)
model = nn.Sequential(nn.Linear(5, 7), nn.GELU(), nn.LayerNorm(7), nn.Linear(7, 3))
table = nn.Embedding(4, 5)
optimizer = optim.AdamW([*model.parameters(), *table.parameters()], lr=0.01)
@ad.compile
def step(rows, y):
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(table(rows)), y)
    loss.backward()
    optimizer.step()
    return loss
rows, y = ad.tensor([0, 1, 2, 1]), ad.tensor([0, 1, 2, 1])
digest = hashlib.sha256()
for _ in range(3):
    digest.update(step(rows, y).detach().numpy().tobytes())
for p in model.parameters():
    digest.update(p.detach().numpy().tobytes())
try:
    step(ad.tensor([0, 9, 2, 1]), y)
except IndexError as error:
    digest.update(str(error).encode())
print(digest.hexdigest())
print("adjoint.compiler.pipeline" in sys.modules, "llvmlite.binding" in sys.modules)
print(hashlib.sha256((str(step.explain()) + str(step.memory()) + str(step.graph)).encode()).hexdigest())
print(hashlib.sha256(step.source().encode()).hexdigest())
"""


def said(directory: Path, program: str = PROGRAM, **more: str) -> list[str]:
    process = start(directory, program, **more)
    out, error = process.communicate(timeout=300)
    assert not process.returncode, error
    return out.split("\n")


def kept(directory: Path) -> list[Path]:
    return sorted(directory.glob("*.plan"))


@pytest.fixture(scope="module")
def first_run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """A cache that one process has filled, which tests copy, and what that process said."""
    directory = tmp_path_factory.mktemp("first") / "cache"
    return directory, said(directory, PYTHONHASHSEED="1")


@pytest.fixture
def filled(first_run: tuple[Path, list[str]], tmp_path: Path) -> Path:
    return shutil.copytree(first_run[0], tmp_path / "cache")


def test_another_process_takes_the_plan_and_needs_neither_passes_nor_llvm(
    first_run: tuple[Path, list[str]], filled: Path
) -> None:
    first = first_run[1]
    assert len(kept(filled)) == 1
    second = said(filled, PYTHONHASHSEED="2")
    assert first[1] == "True True"
    assert second[1] == f"False {not elf_loader.SUPPORTED_HOST}"
    assert first[0] == second[0]
    assert first[2:] == second[2:]


def test_what_is_damaged_is_made_again(first_run: tuple[Path, list[str]], filled: Path) -> None:
    first = first_run[1]
    (path,) = kept(filled)
    whole = path.read_bytes()
    path.write_bytes(whole[:-100] + bytes(100))
    second = said(filled)
    assert second[1].startswith("True")
    assert (first[0], first[2:]) == (second[0], second[2:])
    assert kept(filled) == [path]
    assert said(filled)[1].startswith("False")


def test_a_kernel_that_is_gone_is_written_again(first_run: tuple[Path, list[str]], filled: Path) -> None:
    first = first_run[1]
    for path in filled.iterdir():
        if "." not in path.name:
            path.unlink()
    second = said(filled)
    assert second[1] == "False True"
    assert (first[0], first[2:]) == (second[0], second[2:])


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache of this process's plans, which are kept however small."""
    found = DiskCache.open(tmp_path / "plans")
    monkeypatch.setattr(plan_cache, "default_disk_cache", lambda: found)
    monkeypatch.setattr(plan_cache, "MIN_EQUATIONS_TO_CACHE", 1)
    return tmp_path / "plans"


def compared(function: Any, *arguments: Any) -> None:
    """Have a function compiled twice, the second time by the plan of the first."""
    made, again = ad.compile(function), ad.compile(function)
    want = made(*arguments)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pipeline, "run_pipeline", None)
        got = again(*arguments)
    for x, y in zip(want, got, strict=True):
        assert x.dtype == y.dtype
        assert x.tolist() == y.tolist()
    assert str(again.explain()) == str(made.explain())
    assert str(again.memory()) == str(made.memory())
    assert str(again.graph) == str(made.graph)


def test_kernels_of_every_kind(folder: Path) -> None:
    image, weight, rows = ad.randn(2, 3, 8, 8), ad.randn(4, 3, 3, 3), ad.tensor([1, 0, 2])

    def function(x: Any, y: Any) -> Any:
        h = F.max_pool2d(F.conv2d(image, weight, padding=1), 2)
        a = F.scaled_dot_product_attention(x, x * 2.0, y, is_causal=True)
        return h.sum((2, 3)), a, (x[0] @ y[1].t()).softmax(-1), y[rows[:2], :, 1], ad.cat([x, y], 1).cumsum(0)

    compared(function, ad.randn(2, 5, 8), ad.randn(2, 5, 8))
    assert len(kept(folder)) == 1


@pytest.mark.parametrize("dtype", [ad.float64, ad.bfloat16, ad.complex64, ad.int32])
def test_types(folder: Path, dtype: Any) -> None:
    x = ad.arange(12).reshape(3, 4).to(dtype)
    compared(lambda x: (x * 2 + 1, x.sum(0), x.reshape(4, 3).t() * 3), x)
    assert len(kept(folder)) == 1


def test_constants_are_told_by_their_content(folder: Path) -> None:
    for shift in (1.0, 2.0):
        added = np.array([shift, 0.0], np.float32)
        result = ad.compile(lambda x, added=added: x * 2.0 + ad.tensor(added))(ad.zeros(2))
        assert result.tolist() == [shift, 0.0]
    assert len(kept(folder)) == 2


def test_a_step_that_draws_or_has_a_users_op_keeps_none(folder: Path) -> None:
    @unary(scalar="neg")
    def opposite(x: Any) -> Any:
        """-x."""
        return np.negative(x)

    for function in (lambda x: F.dropout(x, 0.5) + 1.0, lambda x: opposite(x) * 2.0):
        assert ad.compile(function)(ad.ones(3)).shape == (3,)
    assert kept(folder) == []


def test_memory_that_moves_is_bound_anew(folder: Path) -> None:
    def training() -> Any:
        model = nn.Linear(3, 2)
        with ad.no_grad():
            model.weight.fill_(0.5)
            model.bias.fill_(0.25)
        optimizer = optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

        @ad.compile
        def step(x: Any) -> Any:
            optimizer.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            optimizer.step()
            return loss

        return step, model

    results = []
    for _ in range(2):
        step, model = training()
        losses = [step(ad.ones(4, 3)).item() for _ in range(2)]
        model.weight.data = ad.ones(2, 3)
        losses.append(step(ad.ones(4, 3)).item())
        results.append((losses, model.weight.tolist(), model.weight.grad.tolist()))
    assert results[0] == results[1]


def test_the_key_tells_what_a_plan_depends_on(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[tuple[Any, list[Value], str, Any]] = []
    monkeypatch.setattr(plan_cache, "default_disk_cache", lambda: None)
    made = plan_cache.load_or_make_plan
    monkeypatch.setattr(
        "adjoint.compiler.build.load_or_make_plan", lambda *given: (found.append(given), made(*given))[1]
    )
    keys = []
    for function, x in (
        (lambda x: x * 2.0 + 1.0, ad.ones(3)), (lambda x: x * 2.0 - 1.0, ad.ones(3)), (lambda x: x * 2 + 1, ad.ones(3)),
        (lambda x: x * 2.0 + 1.0, ad.ones(4)), (lambda x: x * 2.0 + 1.0, ad.ones(3, dtype=ad.float64)),
    ):  # fmt: skip
        ad.compile(function)(x)
        graph, written, precision, _ = found[-1]
        keys.append(plan_cache._plan_key(graph, written, precision))
        assert keys[-1] == plan_cache._plan_key(graph, written, precision)
    graph, written, *_ = found[0]
    keys += [plan_cache._plan_key(graph, written, "medium"), plan_cache._plan_key(graph, graph.inputs, "highest")]
    monkeypatch.setattr(plan_cache, "source_fingerprint", lambda: "other files")
    keys.append(plan_cache._plan_key(graph, written, "highest"))
    assert None not in keys
    assert len(set(keys)) == len(keys)
