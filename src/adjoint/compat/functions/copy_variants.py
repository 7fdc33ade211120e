"""Copies where other functions return views or write in place: `view_copy`, `fill`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from adjoint.core.dtype.dtype import numpy_dtype
from adjoint.core.runtime.deterministic import poison_uninitialized
from adjoint.core.tensor.tensor import Tensor, constant
from adjoint.core.typing import Function
from adjoint.functions.api.dim_args import one_dim
from adjoint.functions.api.out import with_out
from adjoint.functions.api.publish import public
from adjoint.functions.creation import creation
from adjoint.functions.elementwise import complex as numbers
from adjoint.functions.elementwise import dtype_conversion
from adjoint.functions.indexing.scatter import _scatter_into_view
from adjoint.functions.shape import as_strided, diag_tril, shape
from adjoint.functions.shape import split as sections
from adjoint.functions.shape.split import split_with_sizes
from adjoint.ops.elementwise import select
from adjoint.ops.movement import movement

__all__ = [
    "alias_copy", "as_strided_copy", "as_strided_scatter", "constant_pad_nd", "detach_copy", "diagonal_copy",
    "empty_permuted", "expand_copy", "fill", "permute_copy", "select_copy", "slice_copy", "split_copy",
    "split_with_sizes_copy", "squeeze_copy", "t_copy", "transpose_copy", "unbind_copy", "unfold_copy",
    "unsqueeze_copy", "view_as_complex_copy", "view_as_real_copy", "view_copy",
]  # fmt: skip


def _slice_dim(input: Tensor, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1) -> Tensor:
    d = one_dim(dim, input.ndim)
    bounds = slice(start, end, step).indices(input.array.shape[d])
    return movement.slice(input, bounds=tuple(bounds if i == d else (0, n, 1) for i, n in enumerate(input.array.shape)))


def _make_copy_variant(view: Function, name: str) -> Function:
    """Return a function that copies the result of `view`, or each of its results."""

    def call(input: Tensor, *args: Any, **kwargs: Any) -> Any:
        out = view(input, *args, **kwargs)
        return tuple(map(select.copy, out)) if isinstance(out, tuple) else select.copy(out)

    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"`{name.removesuffix('_copy')}` in memory of its own."
    return with_out(call)


alias_copy = _make_copy_variant(lambda input: input, "alias_copy")
as_strided_copy = _make_copy_variant(as_strided.as_strided, "as_strided_copy")
detach_copy = _make_copy_variant(Tensor.detach, "detach_copy")
diagonal_copy = _make_copy_variant(diag_tril.diagonal, "diagonal_copy")
expand_copy = _make_copy_variant(shape.expand, "expand_copy")
permute_copy = _make_copy_variant(shape.permute, "permute_copy")
select_copy = _make_copy_variant(shape.select, "select_copy")
slice_copy = _make_copy_variant(_slice_dim, "slice_copy")
split_copy = _make_copy_variant(sections.split, "split_copy")
split_with_sizes_copy = _make_copy_variant(split_with_sizes, "split_with_sizes_copy")
squeeze_copy = _make_copy_variant(shape.squeeze, "squeeze_copy")
t_copy = _make_copy_variant(shape.t, "t_copy")
transpose_copy = _make_copy_variant(shape.transpose, "transpose_copy")
unbind_copy = _make_copy_variant(sections.unbind, "unbind_copy")
unfold_copy = _make_copy_variant(as_strided.unfold, "unfold_copy")
unsqueeze_copy = _make_copy_variant(shape.unsqueeze, "unsqueeze_copy")
view_as_complex_copy = _make_copy_variant(numbers.view_as_complex, "view_as_complex_copy")
view_as_real_copy = _make_copy_variant(numbers.view_as_real, "view_as_real_copy")
view_copy = _make_copy_variant(
    lambda input, size: shape.view(input, size) if isinstance(size, Sequence) else input.view(size), "view_copy"
)


@public()
def as_strided_scatter(input: Tensor, src: Tensor, size: Any, stride: Any, storage_offset: int | None = None) -> Tensor:
    """Copy `input` and write `src` into the elements that `as_strided` selects."""
    return _scatter_into_view(input, src, lambda x: as_strided.as_strided(x, size, stride, storage_offset))


@with_out
def constant_pad_nd(input: Tensor, pad: Sequence[int], value: float = 0) -> Tensor:
    """Pad the last dimensions with `value`, (before, after) for each, the last first; negative numbers crop."""
    from adjoint.functions.nn.pad import pad as padded

    return padded(input, pad, "constant", value)


@with_out
def fill(input: Tensor, value: Any) -> Tensor:
    """Return a tensor of the shape and type of `input`, filled with a number or a 0-d tensor.

    Raises: RuntimeError for a value with dimensions.
    """
    if isinstance(value, Tensor) and value.ndim:
        raise RuntimeError(f"fill only supports 0-dimension value tensor but got tensor with {value.ndim} dimensions.")
    return dtype_conversion.fill_(select.copy(input), value)


def empty_permuted(
    size: Sequence[int],
    physical_layout: Sequence[int],
    *,
    dtype: Any = None,
    layout: object = None,
    device: object = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """Return an uninitialized tensor whose dimensions lie in memory in the order `physical_layout`.

    Raises RuntimeError unless each dimension is named once.
    """
    if len(physical_layout) != len(size):
        raise RuntimeError(
            "Number of dimensions in size does not match the length of the physical_layout; i.e. len(size) = "
            f"{len(size)} is not equal to len(physical_layout) = {len(physical_layout)}"
        )
    order = list(physical_layout)
    for i, d in enumerate(order):
        if not 0 <= d < len(size):
            raise RuntimeError(
                f"Dimension out of range (expected to be between 0 and {len(size) - 1}, but got {d} at index {i})"
            )
    if len(set(order)) != len(order):
        raise RuntimeError("Duplicate dim not allowed")
    kind = numpy_dtype(dtype) if dtype is not None else creation.empty(0).array.dtype
    memory = poison_uninitialized(np.zeros([size[d] for d in order], kind))
    out = constant(memory.transpose(np.argsort(order)) if order else memory)
    return out.requires_grad_() if requires_grad else out
