"""Tensors joined along a dimension, an existing or a new one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from adjoint.core.dtype.dtype import default, promote
from adjoint.core.op.eager_kernels import BIT_TWINS, LateKernel, call_with_bits, kernel_provider
from adjoint.core.op.families import with_eager_fast_path
from adjoint.core.op.op import Op, op_of
from adjoint.core.op.recorder import record_output, wrap_unrecorded
from adjoint.core.runtime.mode import mode, nondefault
from adjoint.core.tensor.storage import is_inference
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Array, Operands
from adjoint.functions.api.dim_args import one_dim
from adjoint.functions.api.out import with_out
from adjoint.functions.api.publish import public
from adjoint.functions.shape import shape as shapes
from adjoint.functions.shape.shape import as_tensor_list, ravel, reshape, unsqueeze
from adjoint.ops.elementwise import select
from adjoint.ops.movement import movement

__all__ = ["atleast_1d", "atleast_2d", "atleast_3d", "cat", "column_stack", "concat", "concatenate", "dstack", "hstack"]
__all__ += ["row_stack", "stack", "vstack"]

_CAT = op_of(movement.cat)
CAT, STACK = LateKernel("cat"), LateKernel("stack")
ndarray = np.ndarray


@public(method=False)
def cat(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    """Return the tensors joined along an existing dimension.

    Args:
        tensors: list or tuple of tensors, equal in all sizes but that of `dim`; different dtypes are promoted.
        dim: dimension to join along. Default: 0.
        out: tensor that takes the result.

    Raises: RuntimeError, with the two sizes, if they do not fit; ValueError for an empty list.

    Example:
        >>> ad.cat([ad.zeros(1, 2), ad.ones(1, 2)], dim=1)
        tensor([[0., 0., 1., 1.]])
    """
    if (type(tensors) is list or type(tensors) is tuple) and tensors and type(dim) is int:
        joined = _try_join(_CAT, CAT, tensors, dim, is_new=False)
        if joined is not None:
            return joined
    if isinstance(tensors, Tensor):
        raise TypeError("cat(): argument 'tensors' (position 1) must be tuple of Tensors, not Tensor")
    if not len(tensors):
        raise ValueError("cat(): expected a non-empty list of Tensors")
    for i, part in enumerate(tensors):
        if not isinstance(part, Tensor):
            raise TypeError(f"cat(): expected Tensor as element {i} in argument 0, but got {type(part).__name__}")
    kinds = {p.array.dtype for p in tensors}
    target = kinds.pop() if len(kinds) == 1 else promote(p.array for p in tensors)
    # an empty vector joins with anything, for it is how people start a list
    parts = [p for p in tensors if p.array.shape != (0,)] or list(tensors[:1])
    first = parts[0].array.shape
    if not first:
        raise RuntimeError("zero-dimensional tensor (at position 0) cannot be concatenated")
    axis = 0 if first == (0,) else one_dim(dim, len(first))
    before, after = first[:axis], first[axis + 1 :]
    for i, part in enumerate(parts):
        shape = part.array.shape
        if shape[:axis] == before and shape[axis + 1 :] == after:
            continue
        if len(shape) != len(first):
            raise RuntimeError(f"Tensors must have same number of dimensions: got {len(first)} and {len(shape)}")
        for d, (a, b) in enumerate(zip(first, shape, strict=True)):
            if a != b and d != axis:
                raise RuntimeError(
                    f"Sizes of tensors must match except in dimension {axis}. Expected size {a} but got size {b} for "
                    f"tensor number {i} in the list."
                )
    parts = [p if p.array.dtype == target else select.cast(p, dtype=target) for p in parts]
    return movement.cat(*parts, axis=axis)


def _try_join(op: Op, native: LateKernel, parts: Sequence[Tensor], dim: int, is_new: bool) -> Tensor | None:
    """Join tensors of one type that go together as they are; return None for all others, and where a mode is on.

    It does what the call of the op does, in which any of the parts might be no tensor.
    """
    if nondefault.count and mode.alters_ops:
        return None
    arrays: list[Array] = []
    recorded = False
    for part in parts:
        if type(part) is not Tensor or type(part.array) is not ndarray:
            return None
        arrays.append(part.array)
        if part.node is not None:
            recorded = True
    recorded = recorded and not (nondefault.count and not mode.recording)
    if recorded and nondefault.inference_used and any(map(is_inference, parts)):
        return None
    rank = len(arrays[0].shape) + is_new
    if not -rank <= dim < rank:
        return None
    axis = dim % rank
    data = native.call(float(axis), *arrays) if kernel_provider.enabled else None
    if data is None and kernel_provider.enabled and arrays[0].dtype in BIT_TWINS:
        data = call_with_bits(native, arrays, before=(float(axis),))
    if data is None:
        if default.narrow or not _go_together(arrays, axis, is_new):
            return None
        data = op.evaluate(*arrays, axis=axis)
    if recorded:
        sizes = tuple([array.shape for array in arrays]) if op.saves_shapes else None
        return record_output(data, op, tuple([part.node for part in parts]), {"axis": axis}, sizes, None)
    return wrap_unrecorded(data)


def _go_together(arrays: list[Array], axis: int, is_new: bool) -> bool:
    """Return whether arrays have one type, and sizes that are equal but along an axis that is not new."""
    shape, dtype = arrays[0].shape, arrays[0].dtype
    rest = shape if is_new else (*shape[:axis], *shape[axis + 1 :])
    for array in arrays:
        own = array.shape
        if array.dtype is not dtype or len(own) != len(shape):
            return False
        if own != shape and (is_new or (*own[:axis], *own[axis + 1 :]) != rest):
            return False
    return True


concat = concatenate = cat


@public(method=False)
def stack(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    """Return tensors of one shape joined along a new dimension.

    Args:
        tensors: list or tuple of tensors.
        dim: place of the new dimension in the result. Default: 0.
        out: tensor that takes the result.

    Raises: RuntimeError if the shapes differ and for an empty list.

    Example:
        >>> ad.stack([ad.tensor([1, 2]), ad.tensor([3, 4])], dim=1)
        tensor([[1, 3],
                [2, 4]])
    """
    if (type(tensors) is list or type(tensors) is tuple) and tensors and type(dim) is int:
        joined = _try_join(op_of(_stack), STACK, tensors, dim, is_new=True)
        if joined is not None:
            return joined
    check_tensor_list("stack", tensors)
    shape, dtype, mixed = tensors[0].array.shape, tensors[0].array.dtype, False
    for i, part in enumerate(tensors):
        if part.array.shape != shape:
            raise RuntimeError(
                f"stack expects each tensor to be equal size, but got {list(shape)} at entry 0 and "
                f"{list(part.array.shape)} at entry {i}"
            )
        mixed = mixed or part.array.dtype != dtype
    axis = one_dim(dim, len(shape) + 1)
    if mixed:
        return cat([unsqueeze(part, axis) for part in tensors], axis)
    return _stack(*tensors, axis=axis)


@with_eager_fast_path(
    composite=lambda *tensors, axis: movement.cat(*[unsqueeze(part, axis) for part in tensors], axis=axis),
    node="StackBackward0",
    linear=True,
    dtensors=lambda g, i, axis: (
        op_of(movement.select).evaluate(g, axis=axis, at=i)
        if movement.is_bare(g)
        else movement.select(g, axis=axis, at=i)
    ),
)
def _stack(*tensors: Array, axis: int) -> Array:
    shape = tensors[0].shape
    if not axis and len(tensors) < 8 and all(part.flags.c_contiguous for part in tensors):
        return np.array(tensors)  # half the time for few of them, but no way to copy what lies otherwise
    column = (*shape[:axis], 1, *shape[axis:])
    return np.asarray(np.concatenate([part.reshape(column) for part in tensors], axis), order="C")


@with_out
def hstack(tensors: Sequence[Tensor]) -> Tensor:
    """Join along dimension 1, vectors along dimension 0; numbers become vectors."""
    check_tensor_list("hstack", tensors)
    parts = [part if part.ndim else ravel(part) for part in tensors]
    return cat(parts, 0 if parts and parts[0].ndim < 2 else 1)


@with_out
def column_stack(tensors: Sequence[Tensor]) -> Tensor:
    """Join along dimension 1; vectors become columns."""
    check_tensor_list("column_stack", tensors)
    return cat([shapes.reshape(p, (p.numel(), 1)) if p.ndim < 2 else p for p in tensors], 1)


@with_out
def vstack(tensors: Sequence[Tensor]) -> Tensor:
    """Join along dimension 0; vectors become rows."""
    check_tensor_list("vstack", tensors)
    return cat([movement.reshape(part, shape=(1, part.numel())) if part.ndim < 2 else part for part in tensors], 0)


def row_stack(tensors: Sequence[Tensor]) -> Tensor:
    """Return `vstack`."""
    return vstack(tensors)


@with_out
def dstack(tensors: Sequence[Tensor]) -> Tensor:
    """Join along dimension 2, after `atleast_3d`."""
    check_tensor_list("dstack", tensors)
    return cat([atleast_3d(part) for part in tensors], 2)


def check_tensor_list(name: str, tensors: Sequence[Tensor]) -> None:
    """Raise RuntimeError for an empty list, TypeError for anything but a list or tuple of tensors."""
    if not isinstance(tensors, (list, tuple)):
        raise TypeError(
            f"{name}(): argument 'tensors' (position 1) must be tuple of Tensors, not {type(tensors).__name__}"
        )
    for i, part in enumerate(tensors):
        if not isinstance(part, Tensor):
            raise TypeError(f"{name}(): expected Tensor as element {i} in argument 0, but got {type(part).__name__}")
    if not len(tensors):
        raise RuntimeError(f"{name} expects a non-empty TensorList")


def _raise_rank(n: int, tensors: Operands, wrap: Callable[[Tensor], Tensor]) -> Any:
    out = tuple(wrap(part) if part.ndim < n else part for part in as_tensor_list(tensors))
    return out[0] if len(tensors) == 1 and isinstance(tensors[0], Tensor) else out


def atleast_1d(*tensors: Tensor | Sequence[Tensor]) -> Any:
    """Return tensors with at least one dimension."""
    return _raise_rank(1, tensors, lambda x: reshape(x, (1,)))


def atleast_2d(*tensors: Tensor | Sequence[Tensor]) -> Any:
    """Return tensors with at least two dimensions; vectors become rows."""
    return _raise_rank(2, tensors, lambda x: unsqueeze(x, 0) if x.ndim else reshape(x, (1, 1)))


def atleast_3d(*tensors: Tensor | Sequence[Tensor]) -> Any:
    """Return tensors with at least three dimensions; a vector gets one on either side, a matrix one behind."""

    def wrap(x: Tensor) -> Tensor:
        return unsqueeze(x, -1) if x.ndim == 2 else reshape(x, (1, x.numel(), 1))

    return _raise_rank(3, tensors, wrap)
