"""Operands of matrix products that are computed as they are packed: which, and that the bits are the same."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from itertools import groupby
from typing import Any

import numpy as np
import pytest
from tests.support.tracing import fused, ops

import adjoint as ad
from adjoint.compiler.cache import plan_cache
from adjoint.compiler.llvm.jit.target import host
from adjoint.compiler.passes.fusion import fuse
from adjoint.compiler.passes.fusion_rules import GroupMap
from adjoint.compiler.passes.inline_producers import inline_producers

pytest.importorskip("llvmlite")

Array = np.ndarray[Any, Any]
Tree = Callable[..., Any]

# Each of w, a mask like it, a row, a column and a number of another type.
TREES: dict[str, Tree] = {
    "scaled": lambda w, mask, row, column, other: w * 2.5,
    "masked": lambda w, mask, row, column, other: ad.where(mask, w, 0.0),
    "relu": lambda w, mask, row, column, other: ad.relu(w),
    "normalised": lambda w, mask, row, column, other: w * column + row,
    "cast": lambda w, mask, row, column, other: other.to(w.dtype),
    "squared": lambda w, mask, row, column, other: (w * w - row).abs() * 0.5,
    "made": lambda w, mask, row, column, other: ad.maximum(w, ad.full_like(w, -0.25)),
    "transposed leaf": lambda w, mask, row, column, other: w * 0.5 + (w.t().contiguous() * 1.0).sin().t() * 1.0,
}


def leaves(m: int, n: int, dtype: Any) -> list[Array]:
    rng = np.random.default_rng(m * n)
    w = rng.normal(size=(m, n)).astype(dtype)
    return [
        w, rng.random((m, n)) < 0.5, rng.normal(size=(1, n)).astype(dtype), rng.normal(size=(m, 1)).astype(dtype),
        rng.integers(-9, 9, (m, n)).astype(np.int16),
    ]  # fmt: skip


def results(function: Tree, arrays: list[Array]) -> tuple[list[Array], list[list[str]]]:
    """What the compiled function gives, and the ops of its kernels."""
    compiled = ad.compile(function)
    made = compiled(*(ad.from_numpy(a) for a in arrays))
    program = compiled._program()
    made = made if isinstance(made, tuple) else (made,)
    return [t.numpy() for t in made], [ops(g) for g in program.fusion.order]


def check(function: Tree, arrays: list[Array], monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The kernels of a function, whose results have the bits that they have where every operand is stored."""
    got, kernels = results(function, arrays)
    with monkeypatch.context() as patch:
        patch.setattr(GroupMap, "times_packed", lambda *_: 0)
        patch.setattr(plan_cache, "MIN_EQUATIONS_TO_CACHE", sys.maxsize)
        expected, apart = results(function, arrays)
    assert len(apart) > len(kernels)
    for x, y in zip(got, expected, strict=True):
        np.testing.assert_array_equal(x, y)
    return kernels


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(70, 40, 130), (96, 16, 64), (7, 33, 19), (130, 300, 200)])
@pytest.mark.parametrize("tree", TREES)
def test_a_right_operand_that_is_transposed(
    tree: str, shape: tuple[int, int, int], dtype: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    m, k, n = shape
    x = np.random.default_rng(0).normal(size=(m, k)).astype(dtype)
    arrays = [x, *leaves(n, k, dtype)]
    times_packed, counts = GroupMap.times_packed, []

    def count_packings(*arguments: Any) -> int:
        counts.append(times_packed(*arguments))
        return counts[-1]

    with monkeypatch.context() as patch:
        patch.setattr(plan_cache, "MIN_EQUATIONS_TO_CACHE", sys.maxsize)
        patch.setattr(GroupMap, "times_packed", count_packings)
        got, kernels = results(lambda x, *given: x @ TREES[tree](*given).t(), arrays)
        patch.setattr(GroupMap, "times_packed", lambda *_: 0)
        expected, _ = results(lambda x, *given: x @ TREES[tree](*given).t(), arrays)
    np.testing.assert_array_equal(got[0], expected[0])
    if min(shape) > 16 and tree != "transposed leaf":
        # some processors' blocks read float64 where it lies, and those with narrow vectors float32 too
        assert all(counts) or dtype is np.float64 or host().vector_bits < 256
        assert len(kernels) == (1 if all(counts) else 2)
        assert kernels[-1][-1] == "mm"


@pytest.mark.parametrize("tree", [t for t in TREES if t != "transposed leaf"])
def test_a_right_operand_whose_rows_push_each_other_out(tree: str, monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.random.default_rng(0).normal(size=(100, 30)).astype(np.float32)
    kernels = check(lambda x, *given: x @ TREES[tree](*given), [x, *leaves(30, 1024, np.float32)], monkeypatch)
    assert [k[-1] for k in kernels] == ["mm"]


@pytest.mark.parametrize("tree", [t for t in TREES if t != "transposed leaf"])
def test_a_left_operand_that_runs_down_its_columns(tree: str, monkeypatch: pytest.MonkeyPatch) -> None:
    y = np.random.default_rng(0).normal(size=(131, 200)).astype(np.float32)
    kernels = check(lambda y, *given: TREES[tree](*given).t() @ y, [y, *leaves(131, 4096, np.float32)], monkeypatch)
    assert [k[-1] for k in kernels] == ["mm"]


def test_both_operands(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    x, y = (rng.normal(size=s) for s in ((140, 2048), (100, 140)))
    kernels = check(lambda x, y: (x * 0.5).t() @ (y + 1.0).t(), [x, y], monkeypatch)
    assert [sorted(k[:-1]) for k in kernels] == [["add", "mul"]]


@pytest.mark.parametrize("shape", [(40, 24), (1, 24)])
def test_batches(shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(3, 50, 24)).astype(np.float32)
    y, column = rng.normal(size=(3, 40, 24)).astype(np.float32), rng.normal(size=(3, 40, 1)).astype(np.float32)
    row = rng.normal(size=shape).astype(np.float32)
    kernels = check(lambda x, y, c, r: x @ (y * c + r).transpose(1, 2), [x, y, column, row], monkeypatch)
    assert kernels == [["mul", "add", "bmm"]]


def test_an_operand_that_all_of_a_batch_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(3, 5, 50, 24)).astype(np.float32), rng.normal(size=(5, 40, 24)).astype(np.float32)
    kernels = check(lambda x, y: x @ (y * 3.0 - 1.0).transpose(1, 2), [x, y], monkeypatch)
    assert kernels == [["mul", "sub", "bmm"]]


def test_products_of_one_operand_compute_it_each() -> None:
    rng = np.random.default_rng(0)
    x, y, w = (rng.normal(size=s).astype(np.float32) for s in ((60, 48), (70, 48), (90, 48)))
    (first, second), kernels = results(lambda x, y, w: (x @ (w * 2.0).t(), y @ (w * 2.0).t()), [x, y, w])
    assert kernels == [["mul", "mm"], ["mul", "mm"]]
    np.testing.assert_allclose(first, x @ (w * 2).T, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(second, y @ (w * 2).T, rtol=1e-4, atol=1e-4)


def test_an_operand_read_where_it_lies_is_stored() -> None:
    """Every element of the left one would be computed for each panel of columns."""
    x, w = (np.ones(s, np.float32) for s in ((60, 48), (90, 48)))
    _, kernels = results(lambda x, w: (x * 2.0) @ w.t(), [x, w])
    assert kernels == [["mul"], ["mm"]]


def test_an_operand_that_takes_long_or_that_is_a_result_is_stored() -> None:
    x, w = (np.ones(s, np.float32) for s in ((60, 48), (90, 48)))
    assert results(lambda x, w: x @ w.exp().t(), [x, w])[1] == [["exp"], ["mm"]]

    def returned(x: Any, w: Any) -> Any:
        twice = w * 2.0
        return x @ twice.t(), twice

    assert results(returned, [x, w])[1] == [["mul"], ["mm"]]


def test_an_operand_that_the_product_also_adds_is_stored() -> None:
    def function(x: Any, w: Any) -> Any:
        twice = w * 2.0
        return x @ twice.t() + twice

    x, w = (np.ones((48, 48), np.float32) for _ in range(2))
    assert results(function, [x, w])[1] == [["mul"], ["mm", "add"]]


def test_what_the_step_overwrites_is_read_before() -> None:
    """A kernel that computes an operand from w cannot write w: other tiles still read it."""
    w = ad.from_numpy(np.random.default_rng(0).normal(size=(64, 64)).astype(np.float32))
    x = ad.from_numpy(np.eye(64, dtype=np.float32))

    def step(x: Any) -> Any:
        w.copy_(x @ (w * 2.0).t() + 1.0)
        return w.sum()

    before = w.numpy().copy()
    compiled = ad.compile(step)
    for _ in range(3):
        compiled(x)
        before = (before * 2).T + 1
        np.testing.assert_allclose(w.numpy(), before, rtol=1e-6)


def test_the_reason_is_told() -> None:
    arrays = [np.ones(s, np.float32) for s in ((60, 48), (90, 48))]
    graph = fused(lambda x, w: x @ (w * 2.0).t(), *arrays).graph
    made = inline_producers(graph, ())
    (group,) = fuse(made.graph, made.inlined).order
    assert group.reason.endswith("; mul computed as it is packed, which takes less time than to store it")


def test_rounded_operands_are_computed_as_well() -> None:
    arrays = [np.ones(s, np.float32) for s in ((60, 48), (90, 48))]
    graph = fused(lambda x, w: x @ (w * 2.0).t(), *arrays).graph
    assert inline_producers(graph, (), "medium").inlined


def test_a_product_prefetches_what_follows_it_reads() -> None:
    x, w, r = (ad.tensor(np.ones(s, np.float32)) for s in [(64, 48), (48, 80), (64, 80)])
    texts = {}
    for name, step in {
        "alone": lambda x, w, r: x @ w,
        "bias": lambda x, w, r: x @ w + r[0],
        "sum": lambda x, w, r: x @ w + r,
    }.items():
        compiled = ad.compile(step)
        compiled(x, w, r)
        texts[name] = "".join(kernel.text for kernel in compiled._program().kernels.values())
    assert "prefetch" in texts["sum"]
    assert "prefetch" not in texts["alone"] + texts["bias"]


def test_what_follows_a_product_loads_a_row_of_a_block_before_it_stores_it() -> None:
    x, w, r, s = (ad.tensor(np.ones(s, np.float32)) for s in [(64, 48), (48, 80), (64, 80), (64, 80)])

    def step(x: Any, w: Any, r: Any, s: Any) -> Any:
        product = x @ w
        return product, s + product * r

    compiled = ad.compile(step)
    compiled(x, w, r, s)
    (kernel,) = compiled._program().kernels.values()
    accesses = re.findall(r"(load|store) <\d+ x float>", kernel.text)
    stores = [len([*turn]) for name, turn in groupby(accesses) if name == "store"]
    assert min(stores) >= 4  # two for each of two registers at least


def test_a_product_whose_gates_are_finished_together_prefetches_as_well() -> None:
    cell = ad.nn.LSTM(32, 64)
    compiled = ad.compile(lambda x: cell(x)[0])
    compiled(ad.ones(6, 8, 32))
    texts = {k.group.root.op.name: k.text for k in compiled._program().kernels.values() if k.group.root is not None}
    assert "prefetch" in texts["gated_mm"]
