"""The keys of kernels' texts: equal in every process, different for all that a text depends on; texts written late."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.compiler.cache.test_object_cache_processes import start
from tools.op_table import declared_ops

import adjoint as ad
from adjoint.compiler.cache import source_fingerprint as files
from adjoint.compiler.kernels import kernel_text
from adjoint.compiler.kernels.kernel_text import NAME_PLACEHOLDER, KernelText, make_kernel_text
from adjoint.compiler.llvm.jit.target import Target, host
from adjoint.core.op.families import unary
from adjoint.core.op.op import Op
from adjoint.ops.elementwise.arithmetic import add, mul

ADD, MUL = add.op, mul.op  # type: ignore[attr-defined]

STEP = """
import hashlib
import adjoint as ad
from adjoint import nn, optim
from adjoint.compiler.kernels.kernel_text import KernelText
written = []
text = KernelText.__str__
KernelText.__str__ = lambda self: (written.append(self.key), text(self))[1]
ad.manual_seed(0)
model = nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.LayerNorm(7), nn.Linear(7, 3))
optimizer = optim.Adam(model.parameters())
@ad.compile
def step(x, y):
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    return loss
x, y = ad.randn(4, 5), ad.tensor([0, 1, 2, 1])
print([step(x, y).item() for _ in range(3)], sorted({k["name"] for k in step.kernels}))
print(len(written))
print(hashlib.sha256(step.source().encode()).hexdigest())
"""


def written(times: list[int]) -> str:
    times.append(1)
    return f"define void @{NAME_PLACEHOLDER}(ptr %args) {{}}"


def test_a_text_is_written_when_it_is_read_and_then_kept() -> None:
    times: list[int] = []
    name, made = make_kernel_text("nest", ((1, 2), "add"), [ADD], host(), lambda: written(times))
    assert isinstance(made, KernelText)
    assert name.startswith("nest_")
    assert not times
    assert str(made) == str(made) == f"define void @{name}(ptr %args) {{}}"
    assert len(times) == 1


def test_the_key_tells_all_that_a_text_depends_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def key(kind: str = "nest", structure: Any = ((1, 2), 0.0), op: Op = ADD, target: Target | None = None) -> str:
        made = make_kernel_text(kind, structure, [op], target or host(), lambda: "")[1]
        assert isinstance(made, KernelText)
        return made.key

    assert key() == key()
    lesser = Target(host().triple, "", "")
    others = [key("row"), key(structure=((1, 2), -0.0)), key(op=MUL), key(target=lesser)]
    monkeypatch.setattr(kernel_text, "source_fingerprint", lambda: "other files")
    assert len({key(), *others}) == 5


def test_every_op_of_the_library_is_told_from_the_others_and_a_users_op_is_not_told() -> None:
    ops = [op for _, declared in declared_ops() for op in declared]
    told = [kernel_text._fingerprint_op(op) for op in ops if op.scalar is not None or op.combine is not None]
    assert None not in told
    assert len(told) > 50
    assert len(set(told)) == len(told)

    @unary(scalar="neg")
    def opposite(x: Any) -> Any:
        """-x."""
        return np.negative(x)

    name, text = make_kernel_text("nest", (), [opposite.op], host(), lambda: written([]))  # type: ignore[attr-defined]
    assert text == f"define void @{name}(ptr %args) {{}}"


def test_changed_files_make_other_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ops").mkdir()
    (tmp_path / "ops" / "one.py").write_text("x = 1")
    monkeypatch.setattr(files, "PACKAGE", str(tmp_path))
    before = files._layer_state.__wrapped__("ops")
    assert files._layer_state.__wrapped__("ops") == before
    (tmp_path / "ops" / "one.py").write_text("x = 11")
    assert files._layer_state.__wrapped__("ops") != before


def test_another_process_has_the_same_names_and_writes_nothing(tmp_path: Path) -> None:
    outputs = []
    for seed in ("1", "2"):
        process = start(tmp_path, STEP, PYTHONHASHSEED=seed)
        out, error = process.communicate(timeout=120)
        assert not process.returncode, error
        outputs.append(out.splitlines())
    first, second = outputs
    assert first[0] == second[0]
    assert int(first[1]) > 0
    assert second[1] == "0"
    assert first[2] == second[2]  # written now, it is what was compiled then


def test_kernels_that_differ_in_where_they_read_share_their_code() -> None:
    weight = ad.randn(8, 8)

    @ad.compile
    def step(x: Any) -> Any:
        return [((row @ weight) * x[i + 1]).tanh() for i, row in enumerate(x[:-1])]

    x = ad.randn(7, 4, 8)
    for i, (ours, theirs) in enumerate(zip(step(x), step.function(x), strict=True)):
        np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=2e-6, atol=1e-6, err_msg=str(i))
    assert len(step.kernels) >= 6
    assert len({kernel["name"] for kernel in step.kernels}) <= 2 + len(step.kernels) // 4
