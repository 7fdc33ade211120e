"""Tensors of the device "meta": shape and type, no memory and no values.

Such a tensor has a `MetaArray`. The specs of ops infer the results (`shape_tracer`). Op calls check for it only
while one exists.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

from adjoint.core.op.spec import Shaped, Spec, describe
from adjoint.core.runtime.mode import nondefault
from adjoint.core.runtime.slot import Slot
from adjoint.core.tensor.as_strided import dense_strides, strided_view
from adjoint.core.tensor.storage import view_of
from adjoint.core.typing import Array, NumpyDtype, Operands

META_TO_NUMPY_ERROR = (
    "can't convert meta device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host memory first."
)
replay_slot: Slot[Callable[[Any, Any], Any]] = Slot("replay")  # the steps of a view, on another array


class MetaArray(Spec, Shaped):
    """The array of a tensor that has no values."""

    __slots__ = ("__weakref__", "counted")

    def __init__(self, shape: tuple[int, ...], dtype: NumpyDtype) -> None:
        super().__init__(tuple(shape), dtype)
        self.counted = True
        with nondefault.lock:
            nondefault.count += 1
            nondefault.meta_tensors += 1

    def __del__(self) -> None:
        # A collection may run this while the lock is held: then the calls that look out go on doing so.
        if self.counted and nondefault.lock.acquire(blocking=False):
            try:
                nondefault.count -= 1
                nondefault.meta_tensors -= 1
            finally:
                nondefault.lock.release()

    @property
    def nbytes(self) -> int:
        """Bytes of memory that the elements would take."""
        return self.size * int(self.dtype.itemsize)

    def refuse(self, reader: str) -> NoReturn:
        """Raise NotImplementedError, or RuntimeError where one number was asked for: there are no values."""
        if reader in ("item()", "bool()", "float()", "int()", "complex()", "index()"):
            raise RuntimeError("Tensor.item() cannot be called on meta tensors")
        if reader == "numpy()":
            raise TypeError(META_TO_NUMPY_ERROR)
        raise NotImplementedError("Cannot copy out of meta tensor; no data!")

    def __array__(self, *_: Any, **__: Any) -> NoReturn:
        raise TypeError(META_TO_NUMPY_ERROR)

    def __repr__(self) -> str:
        return f"<{describe(self)}, on meta>"

    __eq__ = object.__eq__
    __hash__ = object.__hash__


def any_meta(inputs: Operands) -> bool:
    """Return whether one of the inputs of an op is a tensor without values."""
    return any(type(getattr(x, "array", x)) is MetaArray for x in inputs)


def layout_without_values(x: Any) -> Array:
    """Return an array that has the shape and strides of the tensor, and no meaningful values."""
    view = view_of(x)
    shape = (x if view is None else view.base).array.shape
    lying = strided_view(np.empty(1, x.array.dtype), shape, dense_strides(shape), 0)
    return lying if view is None or type(x.array) is not MetaArray else replay_slot.call(lying, view.steps)
