"""What lies in memory: copies stand just where a view cannot."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.support.checks import raises
from tests.support.tracing import graph_of, names, values

import adjoint as ad
from adjoint.compiler.passes.materialize import is_generated, is_kernel_op, is_view_or_generated, materialize_views
from adjoint.compiler.passes.simplify import rewrite

pytest.importorskip("llvmlite")
X = np.arange(12.0, dtype=np.float32).reshape(3, 4)


def laid_out(function: Any, *arrays: Any) -> Any:
    graph = materialize_views(rewrite(graph_of(function, *arrays)))
    graph.verify()
    for ours, theirs in zip(values(graph, *arrays), values(graph_of(function, *arrays), *arrays), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    return graph


def test_movements_between_computed_values_need_no_copy() -> None:
    graph = laid_out(lambda x: (x.T.reshape(2, 2, 3).flip(0)[1:] * 2).sum(), X)
    assert "copy" not in names(graph)
    assert [is_view_or_generated(v) for v in graph.equations] == [v.op.index is not None for v in graph.equations]


def test_a_reshape_that_strides_cannot_say_copies_what_it_reads() -> None:
    graph = laid_out(lambda x: x.T.reshape(12) + 1, X)
    assert names(graph) == ["permute", "copy", "reshape", "add"]
    assert graph.equations[1].inputs == (graph.equations[0],)


def test_outputs_that_are_views_inputs_or_fills_are_copied() -> None:
    graph = laid_out(lambda x: (x.T, x, ad.zeros(2), ad.arange(3)), X)
    assert [v.op.name for v in graph.outputs] == ["copy"] * 4


def test_one_copy_serves_two_readers() -> None:
    graph = laid_out(lambda x: (x.T.reshape(12) + 1, x.T.reshape(6, 2) * 2), X)
    assert names(graph).count("copy") == 1


def test_results_that_are_equal_have_memory_of_their_own() -> None:
    graph = laid_out(lambda x: (x * 2, x * 2, x * 2), X)
    assert len(set(graph.outputs)) == 3
    first, second, third = ad.compile(lambda x: (x * 2, x * 2, x * 2))(ad.from_numpy(X))
    first.add_(1)
    second.mul_(0)
    np.testing.assert_array_equal(third.numpy(), X * 2)
    np.testing.assert_array_equal(first.numpy(), X * 2 + 1)


def test_a_view_returned_twice_is_copied_twice() -> None:
    graph = laid_out(lambda x: (x.T, x.T), X)
    assert len(set(graph.outputs)) == 2


def test_a_call_gets_fills_in_memory() -> None:
    graph = laid_out(lambda x: ad.cat([x, ad.zeros(1, 4)]), X)
    cat = next(v for v in graph.equations if v.op.name == "cat")
    assert [i.op and i.op.name for i in cat.inputs] == [None, "copy"]
    assert is_generated(cat.inputs[1].inputs[0])


@pytest.mark.parametrize(
    ("function", "native"),
    [
        (lambda x, i: x + x, True),
        (lambda x, i: i + i, True),
        (lambda x, i: x // x, True),
        (lambda x, i: i // 3, True),
        (lambda x, i: i % -3, True),
        (lambda x, i: i**2, True),
        (lambda x, i: i**3, True),
        (lambda x, i: i // i, False),
        (lambda x, i: i % i, False),
        (lambda x, i: i**i, False),
        (lambda x, i: 7 // i, False),
        (lambda x, i: x.to(ad.float16) * 2, False),
        (lambda x, i: x.cumsum(0), False),
    ],
)
def test_kernels_take_what_native_code_computes_and_cannot_fail(function: Any, native: bool) -> None:
    last = rewrite(graph_of(function, X, np.arange(1, 5))).equations[-1]
    assert is_kernel_op(last) == native


@pytest.mark.parametrize("function", [lambda x, y: x // y, lambda x, y: x % y])
def test_integers_that_cannot_be_divided_are_refused_as_eagerly(function: Any) -> None:
    x, bad, good = ad.tensor([4, 5]), ad.tensor([0, 2]), ad.tensor([1, 2])
    compiled = ad.compile(function)
    assert compiled(x, good).tolist() == function(x, good).tolist()
    raises(RuntimeError, "integers by zero", lambda: function(x, bad))
    raises(RuntimeError, "integers by zero", lambda: compiled(x, bad))
    assert compiled(x, good).tolist() == function(x, good).tolist()


DTYPES = [
    ad.bool, ad.uint8, ad.int8, ad.int16, ad.int32, ad.int64, ad.float16, ad.bfloat16, ad.float32, ad.float64,
    ad.complex64, ad.complex128,
]  # fmt: skip


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(), (3,)])
def test_fills_and_ranges_of_every_dtype(dtype: Any, shape: tuple[int, ...]) -> None:
    def made() -> Any:
        ones = ad.ones(shape, dtype=dtype)
        ranges = () if dtype.is_complex or dtype == ad.bool else (ad.arange(3, dtype=dtype).float(),)
        return ones, ones.to(ad.complex64), ad.zeros_like(ones).bool(), *ranges

    for ours, theirs in zip(ad.compile(made)(), made(), strict=True):
        assert ours.dtype == theirs.dtype
        assert ours.tolist() == theirs.tolist()
