"""The array of a sparse tensor, which is a sparse gradient in the backward walk too: values, and where they stand."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from adjoint.core.op.spec import Shaped
from adjoint.core.runtime.slot import Slot
from adjoint.core.tensor.tensor import wrap
from adjoint.core.typing import Array, NumpyDtype, Operand

if TYPE_CHECKING:
    from adjoint.core.tensor.tensor import Tensor

sparse_tensor_slot: Slot[Callable[[SparseArray], Operand]] = Slot("sparse_tensor")
sparse_gradient_slot: Slot[Callable[[Operand, Operand, tuple[int, ...], int | None], Operand]] = Slot("sparse_gradient")
sparse_zeros_slot: Slot[Callable[[Operand, Operand, Operand], Operand]] = Slot("sparse_zeros")
sparse_store_slot: Slot[Callable[[tuple[int, ...], bool, Operand], None]] = Slot("sparse_store")
MAKERS: dict[str, Operand] = {
    "wrap_sparse": sparse_tensor_slot,
    "make_sparse_gradient": sparse_gradient_slot,
    "make_sparse_zeros": sparse_zeros_slot,
    "store_sparse_gradient": sparse_store_slot,
}


class SparseArray(Shaped):
    """Values (n, …) that stand at the columns of `indices` (sparse dimensions, n); zero elsewhere.

    Columns may repeat: their values add up. The walk adds gradients with `+` and `np.add`, so the protocols of NumPy
    for both are here: two sparse arrays are concatenated, a dense one takes the values in.
    """

    __slots__ = ("dtype", "indices", "is_coalesced", "shape", "values")
    base = None  # no array's memory is shared, as far as the walk can ask

    def __init__(
        self,
        shape: tuple[int, ...],
        indices: Operand,
        values: Operand,
        is_coalesced: bool = False,
    ) -> None:
        self.shape, self.dtype = tuple(shape), values.dtype
        self.indices, self.values, self.is_coalesced = indices, values, is_coalesced

    @property
    def nbytes(self) -> int:
        """Bytes of the values and indices."""
        return int(self.values.nbytes + self.indices.nbytes)

    def without_gaps(self) -> SparseArray:
        """Return the array without the entries of the index -1, which stands for none."""
        held = np.flatnonzero(self.indices[0] >= 0)
        return SparseArray(self.shape, self.indices[:, held], self.values[held])

    def copy(self) -> SparseArray:
        """Return a copy in memory of its own."""
        return SparseArray(self.shape, self.indices.copy(), self.values.copy(), self.is_coalesced)

    def astype(self, dtype: NumpyDtype) -> SparseArray:
        """Return the array with its values in another type."""
        return SparseArray(self.shape, self.indices, self.values.astype(dtype), self.is_coalesced)

    def add_to(self, dense: Array) -> Array:
        """Add the values into `dense`, in place, and return it."""
        np.add.at(dense, tuple(self.indices), self.values)
        return dense

    def __add__(self, other: Operand) -> Operand:
        if isinstance(other, SparseArray):
            indices = np.concatenate([self.indices, other.indices], 1)
            return SparseArray(self.shape, indices, np.concatenate([self.values, other.values]))
        return self.add_to(np.array(other)) if isinstance(other, np.ndarray) else NotImplemented

    __radd__ = __add__

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *operands: Operand, **options: Operand) -> Operand:
        """Add to a dense array; every other function of NumPy sees the dense array of the values."""
        if ufunc is np.add and method == "__call__":
            (out,) = options.get("out") or (None,)
            first, second = operands
            if first is out and out is not None:
                return second.add_to(out)
            if out is None:
                return first + second if isinstance(first, SparseArray) else second + first
        dense = [x.to_dense() if isinstance(x, SparseArray) else x for x in operands]
        return getattr(ufunc, method)(*dense, **options)

    def to_dense(self) -> Array:
        """Return the dense array."""
        return self.add_to(np.zeros(self.shape, self.dtype))

    def __array__(self, dtype: NumpyDtype | None = None, copy: bool | None = None) -> Array:
        return np.asarray(self.to_dense(), dtype)


def tensor_of_gradient(array: Operand) -> Tensor:
    """Return a gradient of the walk on arrays as a tensor, sparse for a `SparseArray`."""
    return sparse_tensor_slot.call(array) if type(array) is SparseArray else wrap(array)


def is_sparse(x: object) -> bool:
    """Return whether an array or a tensor is sparse."""
    return type(x) is SparseArray or type(getattr(x, "array", None)) is SparseArray
