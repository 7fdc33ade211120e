"""The type of a leaf's gradient: the tensor's own unless the user asked for another, or for any."""

from __future__ import annotations

from weakref import WeakKeyDictionary

import numpy as np

from adjoint.core.dtype.dtype import DTYPES, dtype, float16, float32, float64
from adjoint.core.dtype.dtype_info import NAMES
from adjoint.core.graph.node import Leaf
from adjoint.core.graph.tensor_like import TensorLike
from adjoint.core.typing import NumpyDtype

ANY_DTYPE = np.dtype(object)  # as the type of a leaf: gradients come to rest in the type in which they arrive
_requested_dtypes: WeakKeyDictionary[Leaf, NumpyDtype] = WeakKeyDictionary()


def leaf_grad_dtype(leaf: Leaf, own: NumpyDtype) -> NumpyDtype:
    """Return the type of the gradient of `leaf`, whose tensor has elements of type `own`."""
    return _requested_dtypes.get(leaf, own) if _requested_dtypes else own


def get_grad_dtype(tensor: TensorLike) -> dtype | None:
    """Return the dtype of this leaf's gradient; None for any. Raises RuntimeError for a tensor that is no leaf."""
    if not tensor.is_leaf:
        raise RuntimeError("grad_dtype can only be accessed on leaf tensors.")
    leaf = _leaf_of(tensor)
    kind = tensor.array.dtype if leaf is None else leaf_grad_dtype(leaf, tensor.array.dtype)
    return None if kind is ANY_DTYPE else DTYPES[kind]


def set_grad_dtype(tensor: TensorLike, wanted: dtype | None) -> None:
    """Set the type of this leaf's gradient to `wanted`, or to any if that is None.

    Raises RuntimeError if the tensor is no leaf, `wanted` is no dtype, or there is a gradient of another type.
    """
    if not tensor.is_leaf:
        raise RuntimeError("grad_dtype can only be set on leaf tensors.")
    if wanted is not None and not isinstance(wanted, dtype):
        raise RuntimeError(f"grad_dtype must be an adjoint.dtype or None, but got {type(wanted).__name__}")
    have = tensor._grad
    if wanted is not None and have is not None and have.dtype is not wanted:
        raise RuntimeError(
            f"Cannot set grad_dtype to '{_scalar_type_name(wanted)}' because there is already a gradient with dtype "
            f"'{have.dtype.name}'. Please clear the gradient (.grad = None) before changing grad_dtype, or ensure the "
            "new grad_dtype matches the existing gradient's dtype."
        )
    leaf = _leaf_of(tensor)
    if leaf is None:
        leaf = tensor._leaf = Leaf(tensor)  # what requires_grad_() will take
    _requested_dtypes[leaf] = leaf.dtype = ANY_DTYPE if wanted is None else wanted.numpy


def check_assigned_gradient(tensor: TensorLike, value: TensorLike) -> None:
    """Raise RuntimeError unless `value` has the type of the gradient of `tensor`."""
    leaf = _leaf_of(tensor) if _requested_dtypes else None
    kind = tensor.array.dtype if leaf is None else leaf_grad_dtype(leaf, tensor.array.dtype)
    if kind is not ANY_DTYPE and value.array.dtype != kind:
        raise RuntimeError(
            f"attempting to assign a gradient with dtype '{value.dtype.name}' to a tensor with grad_dtype "
            f"'{_scalar_type_name(DTYPES[kind])}'. The gradient must match the tensor's grad_dtype (its own dtype "
            "unless you set another, or None, which allows any)."
        )


def _leaf_of(tensor: TensorLike) -> Leaf | None:
    return tensor.node if type(tensor.node) is Leaf else getattr(tensor, "_leaf", None)


def _scalar_type_name(kind: dtype) -> str:
    return NAMES[kind.name] if kind.is_complex or kind in (float16, float32, float64) else kind.name
