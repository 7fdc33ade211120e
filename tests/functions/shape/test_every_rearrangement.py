"""Functions that put elements in other places, repeat or split, against PyTorch: values, gradients, errors, nodes."""

from typing import Any

import numpy as np
import pytest
from tests.support.oracle import same, same_error, same_node

import adjoint as ad

torch = pytest.importorskip("torch")

X = np.cos(np.arange(24.0)).reshape(2, 3, 4)
M = np.sin(np.arange(12.0)).reshape(3, 4)
V = np.array([0.5, -1.0, 2.0, 0.0, 3.0])
W = np.array([1.0, 2.0])
S = np.array(1.5)
GIVEN = {"x": X, "m": M, "v": V, "w": W, "s": S}


@pytest.mark.parametrize("expression", [
    "v.diag()", "w.diag(1)", "w.diag(-2)", "m.diag()", "t.diag(m, 2)", "m.diag(diagonal=-1)", "t.diag_embed(m)",
    "m.diag_embed(1, 0, 2)", "v.diag_embed(-1)", "m.diagflat()", "t.diagflat(w, -1)", "m.trace()",
    "t.trace(m.t())", "t.trace(t.ones(3, 3, dtype=t.int32))", "v.roll(2)", "m.roll(-3)", "x.roll((1, -1), (0, 2))",
    "t.roll(x, 5, 1)", "m.roll(0, 0)", "m.rot90()", "t.rot90(x, 3, (1, 2))", "m.rot90(2)", "m.rot90(4)",
    "m.rot90(-1, [1, 0])", "m.fliplr()", "t.flipud(x)", "t.moveaxis(x, 0, 2)", "x.moveaxis((0, 1), (1, 2))",
    "t.meshgrid(v, w, indexing='ij')", "t.meshgrid([v, w, s], indexing='ij')", "t.meshgrid(v, w, indexing='xy')",
    "t.broadcast_tensors(m, v[:4], s)", "tuple(t.broadcast_shapes((3, 1), (2,), 1))", "t.block_diag(m, w, s)",
    "t.cartesian_prod(v, w)", "t.cartesian_prod(v)", "t.combinations(v)", "t.combinations(w, 3, True)",
    "t.combinations(v, 0)", "t.atleast_1d(s)", "t.atleast_2d(s, v)", "t.atleast_3d(m)", "t.atleast_3d([v, s])",
    "t.dstack([v, v])", "t.dstack((m, m))", "t.column_stack([v, v])", "t.column_stack([m, m])",
    "t.row_stack([v, v])", "t.tril_indices(3, 4, 1)", "t.triu_indices(3, 2, -1)",
    "x.diagonal_scatter(m[:2].t(), 0, 0, 1)", "m.select_scatter(v[:4], 0, 1)", "m.slice_scatter(m[:2], 0, 1)",
    "x.slice_scatter(x[..., ::2], 2, 0, 4, 2)", "m.tensor_split(2)", "t.tensor_split(m, 3, dim=1)",
    "v.tensor_split((1, 3))", "v.tensor_split(indices=(1, 3))", "t.tensor_split(m, sections=2, dim=1)",
    "v.tensor_split((-2, 9))", "m.tensor_split(t.tensor([1]), 1)", "x.hsplit(3)",
    "v.hsplit([2])", "m.vsplit(3)", "t.dsplit(x, 2)", "m.split_with_sizes([1, 2])",
    "t.split_with_sizes(m, (3, 1), 1)", "m.unsafe_split(2)", "m.unsafe_chunk(2, 1)",
    "m.unsafe_split_with_sizes((2, 1))", "v.kron(w)", "t.kron(m, w)", "t.kron(s, m)",
])  # fmt: skip
def test_arrangement(expression: str) -> None:
    same(expression, **GIVEN)


@pytest.mark.parametrize(
    ("expression", "head"),
    [
        ("x.diag()", "Supports 1D or 2D tensors"),
        ("m.diag_embed(0, 1, 1)", "diagonal dimensions cannot be identical 1, 1"),
        ("x.trace()", "expected a matrix"),
        ("x.roll((1, 2), (0,))", "shifts and dimensions must align. shifts: 2, dims:1"),
        ("v.rot90()", "expected total dims >= 2, but got total dims = 1"),
        ("x.rot90(1, (0, 0))", "expected rotation dims to be different, but got dim0 = 0 and dim1 = 0"),
        ("x.rot90(1, (0,))", "expected total rotation dims == 2, but got dims = 1"),
        ("v.fliplr()", "Input must be >= 2-d."),
        ("t.meshgrid(m, v)", "Expected 0D or 1D tensor in the tensor list but got"),
        ("t.broadcast_tensors(m, v)", "The size of tensor a (4) must match the size of tensor b (5)"),
        ("t.combinations(m)", "Expect a 1D vector, but got shape"),
        ("v.tensor_split(0)", "number of sections must be larger than 0"),
        ("s.tensor_split(1)", "tensor_split expected at least a 1-dimensional tensor"),
        ("v.hsplit(2)", "attempted to split along dimension 0, but the size of the dimension 5 is not divisible by"),
        ("v.vsplit(2)", "requires a tensor with at least 2 dimension, but got a tensor with 1 dimensions!"),
        ("m.select_scatter(v, 0, 1)", "expected src to have a size equal to"),
    ],
)
def test_errors(expression: str, head: str) -> None:
    same_error(expression, head, **GIVEN)


@pytest.mark.parametrize("call", ["unsafe_split(1)", "unsafe_chunk(2)", "unsafe_split_with_sizes((1, 1))"])
def test_unsafe_pieces_may_be_written(call: str) -> None:
    x: Any = ad.ones(2, 3, requires_grad=True)
    first, second = eval(f"x.{call}")
    assert first.grad_fn is not None
    first.mul_(3)
    (first.sum() + 2 * second.sum()).backward()
    assert x.grad.tolist() == [[3.0] * 3, [2.0] * 3]


@pytest.mark.parametrize("expression", [
    "m.trace()", "m.roll(1)", "m.rot90()", "m.diag_embed()", "m.unsafe_split(1)[0]",
    "m.unsafe_split_with_sizes([1, 2])[0]", "m.diagonal()", "m.as_strided((1,), (1,))", "m.unfold(0, 1, 1)",
])  # fmt: skip
def test_nodes_are_named_as_in_pytorch(expression: str) -> None:
    same_node(expression, **GIVEN)
