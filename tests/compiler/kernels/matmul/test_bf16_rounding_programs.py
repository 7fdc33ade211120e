"""Programs whose products round their operands: computed operands, training steps, bfloat16; also in tile registers."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from tests.compiler.kernels.matmul.test_prologue import TREES, leaves, results
from tests.support.kernels.tile_registers import TileRegisters

import adjoint as ad
import adjoint.nn.functional as F
from adjoint import nn, optim
from adjoint.compiler.cache import plan_cache
from adjoint.compiler.kernels.matmul.bf16_rounding import choose_rounding
from adjoint.compiler.llvm.jit import target
from adjoint.compiler.llvm.types import F32
from adjoint.compiler.passes.fusion_rules import GroupMap
from adjoint.core.op.matmul_precision import setting

rounds = pytest.mark.skipif(choose_rounding(target.host(), F32, "medium") is None, reason="this machine rounds nothing")
UNIT = 2.0**-7

# The same tests in a process of its own, whose machine has tile registers that are memory, for one thread.
EMULATED = """
import sys
import pytest
from adjoint.compiler.llvm.jit import target
from tests.support.kernels.tile_registers import TileRegisters

machine = TileRegisters()
target.host = lambda: machine
import adjoint
adjoint.set_num_threads(1)
sys.exit(pytest.main(["-q", "-x", "-p", "no:cacheprovider", "-p", "no:xdist", *sys.argv[1:]]))
"""


@pytest.fixture(autouse=True)
def put_back() -> Iterator[None]:
    before = setting["matmul"]
    yield
    setting["matmul"] = before


def is_emulated() -> bool:
    return isinstance(target.host(), TileRegisters)


@pytest.mark.skipif(is_emulated(), reason="is what this starts")
def test_all_of_these_in_tile_registers() -> None:
    done = subprocess.run([sys.executable, "-c", EMULATED, __file__], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]


# LLVM takes long for vectors that are wider than the host's, and two parts do what one does
few_if_emulated = pytest.mark.skipif(
    is_emulated() and os.environ.get("ADJOINT_NIGHTLY") != "1", reason="slow: set ADJOINT_NIGHTLY=1"
)


@rounds
@pytest.mark.parametrize("precision", [pytest.param("medium", marks=few_if_emulated), "high"])
@pytest.mark.parametrize(
    "tree",
    [
        pytest.param(tree, marks=() if tree in ("masked", "normalised", "cast") else few_if_emulated)
        for tree in TREES
        if tree != "transposed leaf"
    ],
)
def test_operands_computed_as_they_are_packed(tree: str, precision: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if choose_rounding(target.host(), F32, precision) is None:
        pytest.skip("float32 on this machine")
    ad.set_float32_matmul_precision(precision)
    rng = np.random.default_rng(0)
    x, y = (rng.normal(size=shape).astype(np.float32) for shape in ((112, 141), (141, 130)))
    made, functions = TREES[tree], []
    functions.append((lambda x, *given: x @ made(*given), [x, *leaves(141, 130, np.float32)]))
    functions.append((lambda x, *given: x @ made(*given).t(), [x, *leaves(130, 141, np.float32)]))
    functions.append((lambda y, *given: made(*given) @ y, [y, *leaves(112, 141, np.float32)]))
    functions.append((lambda y, *given: made(*given).t() @ y, [y, *leaves(141, 112, np.float32)]))
    computed = 0
    for function, arrays in functions:
        got, kernels = results(function, arrays)
        with monkeypatch.context() as patch:
            patch.setattr(GroupMap, "times_packed", lambda *_: 0)
            patch.setattr(plan_cache, "MIN_EQUATIONS_TO_CACHE", sys.maxsize)
            expected, apart = results(function, arrays)
        np.testing.assert_array_equal(got[0], expected[0])
        computed += len(kernels) < len(apart)
    assert computed >= 2


@rounds
@pytest.mark.parametrize("precision", ["medium", "high"])
def test_computed_operands_are_zero_beyond_the_depth(precision: str) -> None:
    """1 / 0 of what is not there must not reach the sums."""
    ad.set_float32_matmul_precision(precision)
    x, w = ad.rand(40, 37) + 1, ad.rand(64, 37) + 1
    for function in (lambda x, w: x @ (1 / w).t(), lambda x, w: (1 / x) @ w.t(), lambda x, w: (1 / x) @ (1 / w).t()):
        expected = function(x.double(), w.double())
        assert ((ad.compile(function)(x, w) - expected).abs() <= 1.01 * UNIT * expected).all()


@rounds
def test_products_of_bfloat16_are_taken_as_they_are() -> None:
    x, y = (ad.randn(100, 130).to(ad.bfloat16), ad.randn(130, 90).to(ad.bfloat16))
    product = ad.compile(lambda x, y: x @ y)
    result = product(x, y)
    exact = x.double() @ y.double()
    terms = x.double().abs() @ y.double().abs()
    assert result.dtype == ad.bfloat16
    assert ((result.double() - exact).abs() <= 2.0**-8 * exact.abs() + 1e-6 * terms).all()
    reason = product.explain().entries[-1].reason
    how = choose_rounding(target.host(), F32, "medium")
    assert ("tile registers" in reason) == (is_emulated() or (how is not None and how.is_tiled))
    assert "bfloat16" in reason


@rounds
def test_a_training_step_in_bfloat16(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan_cache, "MIN_EQUATIONS_TO_CACHE", sys.maxsize)

    def losses(compiled: bool) -> list[float]:
        ad.manual_seed(0)
        model = nn.Sequential(nn.Linear(96, 128), nn.GELU(), nn.LayerNorm(128), nn.Linear(128, 40))
        optimizer = optim.AdamW(model.parameters(), lr=3e-3)
        x, y = ad.randn(64, 96), ad.randint(0, 40, (64,))

        def step(x: Any, y: Any) -> Any:
            optimizer.zero_grad()
            with ad.autocast("cpu", dtype=ad.bfloat16):
                loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            return loss

        run = ad.compile(step) if compiled else step
        return [run(x, y).item() for _ in range(20)]

    expected = losses(compiled=False)
    np.testing.assert_allclose(losses(compiled=True), expected, rtol=2e-2)
    assert expected[-1] < 0.7 * expected[0]


@rounds
def test_a_weight_is_rounded_as_it_lies() -> None:
    def step(x: Any, w: Any) -> Any:
        with ad.autocast("cpu", dtype=ad.bfloat16):
            return F.linear(x, w).float().sum()

    compiled = ad.compile(step)
    x, w = ad.randn(64, 96, requires_grad=True), ad.randn(80, 96, requires_grad=True)
    compiled(x, w).backward()
    got = x.grad.clone()
    x.grad = None
    step(x, w).backward()
    assert ad.allclose(got, x.grad, rtol=2e-2, atol=2e-2)
    shapes = [v.shape for g in compiled._program().fusion.order for v in g.equations if v.op.name == "cast"]
    assert (96, 80) not in shapes


@rounds
@pytest.mark.parametrize(("precision", "unit"), [("medium", UNIT), ("high", 2.0**-15)])
def test_gradients_of_a_step(precision: str, unit: float) -> None:
    def gradients(dtype: Any) -> list[Any]:
        ad.manual_seed(0)
        model = nn.Sequential(nn.Linear(96, 128), nn.Tanh(), nn.Linear(128, 64)).to(dtype)

        def step(x: Any) -> Any:
            return model(x).square().mean()

        x = ad.randn(160, 96).to(dtype)
        (ad.compile(step) if dtype is ad.float32 else step)(x).backward()
        return [p.grad.numpy() for p in model.parameters() if p.grad is not None]

    ad.set_float32_matmul_precision(precision)
    for g, expected in zip(gradients(ad.float32), gradients(ad.float64), strict=True):
        assert np.linalg.norm(g - expected) < unit * np.linalg.norm(expected)
