"""`view` with another type: the same bits as other numbers."""

from __future__ import annotations

from adjoint.core.dtype.dtype import dtype as DType
from adjoint.core.tensor.tensor import Tensor, detach
from adjoint.ops.movement.as_strided import geometry_of
from adjoint.ops.movement.memory_format import reinterpret


def view_as_dtype(input: Tensor, dtype: DType) -> Tensor:
    """Return the memory of `input` as elements of `dtype`, in as many bytes: no gradient flows through it.

    Where sizes differ the last dimension grows or shrinks. Raises RuntimeError where that cannot be.
    """
    kind, old, new = dtype.numpy, input.element_size(), dtype.numpy.itemsize
    if old != new:
        _check_sizes(input, dtype, old, new)
    return reinterpret(detach(input), dtype=kind)


def _check_sizes(input: Tensor, dtype: DType, old: int, new: int) -> None:
    """Raise RuntimeError unless rows of elements of `old` bytes are rows of elements of `new` bytes too."""
    named = f"to view {input.dtype.name} as {dtype.name} (different element sizes)"
    strides, start = input.stride(), geometry_of(input)[1]
    if not input.array.shape:
        raise RuntimeError(f"self.dim() cannot be 0 {named}")
    if strides[-1] != 1:
        raise RuntimeError(f"self.stride(-1) must be 1 {named}, but got {strides[-1]}")
    ratio, width = max(new // old, 1), input.array.shape[-1]
    if width % ratio:
        raise RuntimeError(f"self.size(-1) must be divisible by {ratio} {named}, but got {width}")
    if start % ratio:
        raise RuntimeError(f"self.storage_offset() must be divisible by {ratio} {named}, but got {start}")
    for d, stride in enumerate(strides[:-1]):
        if stride % ratio:
            raise RuntimeError(f"self.stride({d}) must be divisible by {ratio} {named}, but got {stride}")
