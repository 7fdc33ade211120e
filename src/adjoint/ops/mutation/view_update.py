"""Replacement of a part of an array: the whole after a write through a view or `x[index] = value`."""

from __future__ import annotations

import builtins
from typing import TYPE_CHECKING, NoReturn

import numpy as np

from adjoint.core.op.apply import apply
from adjoint.core.op.families import primitive
from adjoint.core.op.op import Op, op_of
from adjoint.core.op.spec import Spec
from adjoint.core.tensor.as_strided import as_writable
from adjoint.core.tensor.storage import ViewStep
from adjoint.core.typing import Array, Operand
from adjoint.ops.indexing.indexing import index
from adjoint.ops.indexing.row_positions import Pattern
from adjoint.ops.movement.movement import Bounds, is_bare, permute, reshape, slice
from adjoint.ops.mutation.view_slice import ViewSlice

if TYPE_CHECKING:
    from adjoint.core.tensor.tensor import Tensor

Steps = tuple[ViewStep, ...]


@primitive(
    spec=lambda x, value: Spec(value.shape, value.dtype),
    node="CopyBackwards",
    linear=True,
    dx=lambda g: np.zeros_like(g) if is_bare(g) else put_slice(g, 0.0, bounds=tuple((0, n, 1) for n in g.shape)),
    dvalue=lambda g: g,
)
def replace_content(x: Array, value: Array) -> Array:
    """`value` as the new content of x; the old x stays in the graph, with a gradient of zero."""
    return value


def _make_invalid_view_op(error: str) -> Op:
    """Return the op of a view that a recorded write to its base has made invalid: its rule raises `error`."""

    def refuse(g: Array) -> NoReturn:
        raise RuntimeError(error)

    return Op(lambda x: x, {"dx": refuse}, call=apply, family="call", spec=_same_spec, node="Invalid")


def _same_spec(x: Operand, *_: object, **__: object) -> Spec:
    return Spec(x.shape, x.dtype)


invalid_no_grad_view = _make_invalid_view_op(
    "A view was created in no_grad mode and its base or another view of its base has been modified "
    "inplace with grad mode enabled: whether the gradient is to flow through the view cannot be told. Make the "
    "view and write to the base both inside of the block, or both outside."
)
invalid_function_view = _make_invalid_view_op(
    "A view was created inside a custom Function and its base or another view of its base has been modified "
    "inplace: derived from the base anew, it would bypass the Function's backward. clone() what the Function returns."
)
invalid_inference_view = _make_invalid_view_op(
    "A view was created in inference mode and its base or another view of its base has been modified inplace in "
    "normal mode: the gradient cannot go through what the view was. Make the view and write to it in the same mode."
)


def replay_view(x: Operand, steps: Steps) -> Operand:
    """The view of `x` to which the steps lead: arrays to arrays, tensors to tensors."""
    for op, params, _, _ in steps:
        x = op.evaluate(x, **params) if type(x) is np.ndarray else op.public(x, **params)
    return x


@primitive(
    spec=_same_spec,
    node="CopySlices",
    dx=lambda g, steps: op_of(put_view).evaluate(g, 0.0, steps=steps) if is_bare(g) else put_steps(g, 0.0, steps),
    dvalue=lambda g, steps: replay_view(g, steps),
)
def put_view(x: Array, value: Operand, *, steps: Steps) -> Array:
    """x with `value` in place of the view to which `steps` lead."""
    out = np.array(x, order="C")
    region = as_writable(replay_view(out, steps))
    if _lies_in(region, out):
        region[...] = value
    else:  # in row-major order a reshape among the steps had to copy
        positions = replay_view(np.arange(out.size).reshape(out.shape), steps)
        out.reshape(-1)[positions] = value
    return out


def _lies_in(region: Operand, memory: Array) -> bool:
    while region is not None:
        if region is memory:
            return True
        region = region.base
    return False


def put_steps(x: Tensor, value: Operand, steps: Steps) -> Tensor:
    """`put_view` by `put_slice`, which compiles, where the steps allow; `value` is a tensor or a number."""
    part = ViewSlice(x.shape)
    count = next((i for i, step in enumerate(steps) if not part.follow(step)), len(steps))
    if not count:
        return put_view(x, value, steps=steps)
    if count < len(steps):  # what is shown so far is changed, and then put where it was
        value = put_steps(replay_view(x, steps[:count]), value, steps[count:])
    if not isinstance(value, int | float):
        kept = part.kept_dims
        if kept != (in_order := tuple(sorted(kept))):
            value = reshape(value, shape=tuple(part.part_shape[d] for d in kept))
            value = permute(value, axes=tuple(kept.index(d) for d in in_order))
        if tuple(value.shape) != part.part_shape:
            value = reshape(value, shape=part.part_shape)
    if part.shape == tuple(x.shape):
        return put_slice(x, value, bounds=part.part)
    return reshape(put_slice(reshape(x, shape=part.shape), value, bounds=part.part), shape=tuple(x.shape))


@primitive(
    spec=_same_spec,
    node="CopySlices",
    dx=lambda g, bounds: (
        op_of(put_slice).evaluate(g, 0.0, bounds=bounds) if is_bare(g) else put_slice(g, 0.0, bounds=bounds)
    ),
    dvalue=lambda g, bounds: op_of(slice).evaluate(g, bounds=bounds) if is_bare(g) else slice(g, bounds=bounds),
)
def put_slice(x: Array, value: Operand, *, bounds: Bounds) -> Array:
    """x with `value` at one (start, stop, step) per dimension."""
    out = x.copy()
    out[tuple(builtins.slice(*b) for b in bounds)] = value
    return out


@primitive(
    spec=_same_spec,
    node="IndexPutBackward0",
    dx=lambda g, indices, pattern: put_index(g, 0.0, *indices, pattern=pattern),
    dvalue=lambda g, indices, pattern: index(g, *indices, pattern=pattern),
)
def put_index(x: Array, value: Operand, *indices: Array, pattern: Pattern) -> Array:
    """x with `value` at integer index arrays; at a repeated position the last one stays."""
    out = x.copy()
    out[tuple(builtins.slice(None) if slot is None else indices[slot] for slot in pattern)] = value
    return out
