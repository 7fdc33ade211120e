"""Eager kernels kept on disk: another process runs the same code without the passes and LLVM, or makes its own."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support.scripts import output_of

from adjoint.core.op.eager_kernels import KernelFunction, KernelOperand, kernel_provider
from adjoint.core.op.families import unary
from adjoint.functions.elementwise import activation
from adjoint.ops.nn import convolution

pytest.importorskip("llvmlite")
from adjoint.compiler.eager import kernels, recipes

CONV: Any = {"stride": (1, 1), "padding": (1, 1), "dilation": (1, 1), "groups": 1}
STEP = """
import json, sys
import adjoint as ad
from adjoint import nn, optim
import adjoint.nn.functional as F
from adjoint.core.op.eager_kernels import kernel_provider
kernel_provider.strict, kernel_provider.min_seconds = True, 0.0
ad.manual_seed(0)
net = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(36, 5))
adam = optim.Adam(net.parameters(), lr=0.01)
x, y = ad.randn(6, 1, 8, 8), ad.tensor([0, 1, 2, 3, 4, 0])
for _ in range(3):
    adam.zero_grad()
    F.cross_entropy(net(x), y).backward()
    adam.step()
found = [p.detach().numpy().tobytes().hex() for p in net.parameters()]
print(json.dumps([found, [m for m in ("adjoint.compiler.eager.recipes", "llvmlite.binding") if m in sys.modules]]))
"""


def run(folder: Path, program: str = STEP) -> Any:
    """What a new process prints that keeps its kernels in a folder."""
    return json.loads(output_of(program, ADJOINT_CACHE_DIR=str(folder / "kept"), ADJOINT_NO_CACHE="0"))


def kept(folder: Path) -> list[Path]:
    """The files of recipes."""
    return sorted((folder / "kept").glob(f"*{kernels.RECIPE_SUFFIX}"))


def test_another_process_takes_the_same_code(tmp_path: Path) -> None:
    first, loaded = run(tmp_path)
    assert "adjoint.compiler.eager.recipes" in loaded
    files = kept(tmp_path)
    assert len(files) > 5
    second, loaded = run(tmp_path)
    assert second == first
    assert loaded == []
    assert kept(tmp_path) == files


def test_a_damaged_file_is_made_again(tmp_path: Path) -> None:
    first, _ = run(tmp_path)
    for file in kept(tmp_path):
        file.write_bytes(file.read_bytes()[:-1])
    second, loaded = run(tmp_path)
    assert second == first
    assert "adjoint.compiler.eager.recipes" in loaded
    assert run(tmp_path) == [first, []]


def test_what_decides_a_recipe_is_in_its_key(monkeypatch: pytest.MonkeyPatch) -> None:
    gelu: KernelFunction = activation._gelu.op.native
    softmax: KernelFunction = activation._softmax.op.native
    x = KernelOperand((4, 5), np.dtype("float32"), None)
    keys = [
        kernels._recipe_key(gelu, [x], {}),
        kernels._recipe_key(softmax, [x], {}),
        kernels._recipe_key(gelu, [x._replace(shape=(5, 4))], {}),
        kernels._recipe_key(gelu, [x._replace(dtype=np.dtype("float64"))], {}),
        kernels._recipe_key(gelu, [x._replace(dim_order=(1, 0))], {}),
        kernels._recipe_key(gelu, [x, 1], {}),
        kernels._recipe_key(gelu, [x, 1.0], {}),
        kernels._recipe_key(gelu, [x, True], {}),
        kernels._recipe_key(gelu, [x], {"axis": 1}),
    ]
    assert kernels._recipe_key(gelu, [x], {}) == keys[0]
    monkeypatch.setattr(kernels, "source_fingerprint", lambda *_: "other files")
    keys.append(kernels._recipe_key(gelu, [x], {}))
    assert None not in keys
    assert len({*keys}) == len(keys)


def test_a_users_function_has_no_key() -> None:
    @unary(scalar="neg", dx=lambda g: -g)
    def opposite(x: Any) -> Any:
        """-x."""
        return np.negative(x)

    x = KernelOperand((4, 5), np.dtype("float32"), None)
    assert kernels._recipe_key(KernelFunction("opposite", lambda x: opposite(x), 1.0), [x], {}) is None
    scale = 2.0
    assert kernels._recipe_key(KernelFunction("scaled", lambda x: x * scale, 1.0), [x], {}) is None


def test_a_recipe_says_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel bound from what was read computes what NumPy does, also where it has memory of its own."""
    monkeypatch.setattr(kernel_provider, "strict", True)
    rng = np.random.default_rng(0)
    x = rng.standard_normal((2, 3, 9, 9)).astype(np.float32)
    weight = rng.standard_normal((5, 3, 3, 3)).astype(np.float32)
    slot = convolution.convolution.op.native  # type: ignore[attr-defined]
    operands: list[Any] = [KernelOperand(a.shape, a.dtype, None) for a in (x, weight)]
    made = recipes.make_recipe(slot, operands, CONV)
    read = kernels.Recipe(*pickle.loads(pickle.dumps(tuple(made))))
    assert read.objects == made.objects
    assert read.steps == made.steps
    found = kernels.LoadedKernel(read)([x, weight])
    wanted = convolution.convolution.op.evaluate(x, weight, **CONV)  # type: ignore[attr-defined]
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)


def test_that_numpy_is_to_do_it_is_kept_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "default_disk_cache", lambda: eager_disk(tmp_path))
    asked = []

    def none(*_: Any) -> kernels.Recipe:
        asked.append(1)
        return kernels.Recipe()

    monkeypatch.setattr(recipes, "make_recipe", none)
    x: list[Any] = [KernelOperand((4, 5), np.dtype("float32"), None)]
    assert kernels.make_kernel(activation._gelu.op.native, x, {}) is None
    assert kernels.make_kernel(activation._gelu.op.native, x, {}) is None
    assert asked == [1]


def eager_disk(folder: Path) -> Any:
    """A cache directory of this test."""
    from adjoint.compiler.cache.disk_cache import DiskCache

    return DiskCache.open(folder / "kept")
