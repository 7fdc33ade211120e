"""Queries of a tensor's device, layout and memory: there is no device but the CPU, and no layout but strides."""

from __future__ import annotations

from typing import Any

import numpy as np

from adjoint.core.dtype.dtype import DTYPES
from adjoint.core.graph.source_location import warn_user
from adjoint.core.tensor.as_strided import owner
from adjoint.core.tensor.memory_format import memory_format, strided
from adjoint.core.tensor.tensor import Tensor, method
from adjoint.functions.api.dim_args import parse_shape
from adjoint.functions.creation.typed_storage import TYPED_CONSTRUCTORS, TypedStorage, UntypedStorage
from adjoint.ops.elementwise import select
from adjoint.ops.movement.as_strided import geometry_of
from adjoint.ops.reduction import reduction

__all__ = [
    "get_device", "is_conj", "is_distributed", "is_floating_point", "is_neg", "is_nonzero",
    "is_same_size", "is_signed", "is_storage", "is_tensor", "numel", "typename",
]  # fmt: skip

ABSENT_BACKEND_FLAGS = """
    is_cuda is_ipu is_maia is_mkldnn is_mps is_mtia is_nested is_quantized is_sparse is_sparse_csr is_vulkan is_xla
    is_xpu
"""
for _name in ABSENT_BACKEND_FLAGS.split():
    setattr(Tensor, _name, False)
for _name, _value in {"layout": strided, "name": None}.items():
    setattr(Tensor, _name, _value)


def is_tensor(obj: Any, /) -> bool:
    """True for a tensor."""
    return isinstance(obj, Tensor)


def is_storage(obj: Any, /) -> bool:
    """True for what `Tensor.untyped_storage` gives."""
    return isinstance(obj, UntypedStorage)


def typename(obj: Any, /) -> str:
    """Return the type of a tensor as `Tensor.type` does; of anything else its class, or its own name if it has one."""
    if isinstance(obj, Tensor):
        kind: str = obj.type()
        return kind
    named = obj if hasattr(obj, "__qualname__") else type(obj)
    module = getattr(named, "__module__", None) or ""
    return named.__qualname__ if module in ("", "builtins", "__builtin__") else f"{module}.{named.__qualname__}"


def numel(input: Tensor) -> int:
    """Number of elements."""
    return input.numel()


def is_floating_point(input: Tensor) -> bool:
    """True for a floating dtype."""
    return input.is_floating_point()


@method
def is_signed(input: Tensor) -> bool:
    """True if the dtype has negative numbers."""
    return bool(DTYPES[input.array.dtype].is_signed)


@method
def is_conj(input: Tensor) -> bool:
    """False: conjugates are computed at once."""
    return False


@method
def is_neg(input: Tensor) -> bool:
    """False: negatives are computed at once."""
    return False


@method
def is_distributed(input: Tensor) -> bool:
    """Return False: a tensor is in one process."""
    return False


@method
def is_nonzero(input: Tensor) -> bool:
    """Return whether the only element is not zero. Raises RuntimeError for more or fewer elements."""
    if input.numel() != 1:
        some = "no values" if not input.numel() else "more than one value"
        raise RuntimeError(f"Boolean value of Tensor with {some} is ambiguous")
    return bool(input)


@method
def is_same_size(input: Tensor, other: Tensor) -> bool:
    """Return whether both have the same shape."""
    return bool(input.array.shape == other.array.shape)


@method
def get_device(input: Tensor) -> int:
    """Return -1, the CPU."""
    return -1


@method
def is_set_to(self: Tensor, tensor: Tensor) -> bool:
    """Return whether both see the same memory with the same shape and strides."""
    x, y = (t.numpy_view("is_set_to()") for t in (self, tensor))
    return bool(x.ctypes.data == y.ctypes.data and x.shape == y.shape and x.strides == y.strides)


@method
def is_pinned(self: Tensor, device: object = None) -> bool:
    """Return False: there is no other device for which memory could be pinned."""
    return False


@method
def is_coalesced(self: Tensor) -> bool:
    """Return False: the tensor is not sparse."""
    return False


@method
def pin_memory(self: Tensor, device: object = None) -> Tensor:
    """Return the tensor itself: there is no other device for which memory could be pinned."""
    return self


@method
def nelement(self: Tensor) -> int:
    """Return the number of elements."""
    return self.numel()


@method
def ndimension(self: Tensor) -> int:
    """Return the number of dimensions."""
    return self.ndim


@method
def storage_offset(self: Tensor) -> int:
    """Return the offset of the first element in the memory that the tensor is a view of."""
    return geometry_of(self, "storage_offset()")[1]


@method
def dim_order(self: Tensor, *, ambiguity_check: Any = False) -> tuple[int, ...]:
    """Return the dimensions as they lie in memory, from the largest stride to the smallest; ties stay in order.

    `ambiguity_check=True` raises RuntimeError where two dimensions have one step, or one has the size 1; a list of
    memory formats where the elements do not lie as exactly one of them says. Raises TypeError for any other check.
    """
    formats = ambiguity_check if isinstance(ambiguity_check, list) else None
    if ambiguity_check not in (False, True) and not all(isinstance(f, memory_format) for f in formats or (None,)):
        raise TypeError("The ambiguity_check argument must be a bool or a list of memory formats.")
    steps, shape = self.stride(), self.array.shape
    order = tuple(sorted(range(self.ndim), key=lambda d: -steps[d]))
    if formats is not None:
        ambiguous = sum(self.is_contiguous(memory_format=f) for f in formats) != 1
    else:
        ambiguous = ambiguity_check and self.ndim > 1 and (len(set(steps)) < self.ndim or 1 in shape or 0 in steps)
    if ambiguous:
        raise RuntimeError(
            "The tensor does not have unique dim order, or cannot map to exact one of the given memory formats."
        )
    return order


@method
def dense_dim(self: Tensor) -> int:
    """Return the number of dimensions."""
    return self.ndim


@method
def sum_to_size(self: Tensor, *size: Any) -> Tensor:
    """Sum to a shape that broadcasts to this one. Raises RuntimeError if it does not."""
    wanted = parse_shape(size)
    lead = self.ndim - len(wanted)
    if lead < 0 or any(n not in (1, m) for n, m in zip(wanted, self.array.shape[max(lead, 0) :], strict=False)):
        raise RuntimeError(f"size {list(wanted)} is not expandable to size {list(self.array.shape)}.")
    summed = self.array.dtype.kind in "iub" and (tuple(self.array.shape) != wanted or not wanted)
    out: Tensor = reduction.sum_to(select.cast(self, dtype=np.dtype(np.int64)) if summed else self, wanted)
    return out


def _nbytes(self: Tensor) -> int:
    """Return the size of all elements in bytes."""
    return self.numel() * self.element_size()


def _itemsize(self: Tensor) -> int:
    """Return the size of one element in bytes."""
    return self.element_size()


def _volatile(self: Tensor) -> bool:
    """Return False. The setting was replaced by `no_grad`."""
    warn_user("volatile was removed (Variable.volatile is always False)", UserWarning)
    return False


for _name, _getter in {"nbytes": _nbytes, "itemsize": _itemsize, "volatile": _volatile}.items():
    setattr(Tensor, _name, property(_getter))


@method
def storage(self: Tensor) -> TypedStorage:
    """Return the memory that the tensor sees, as elements of its type."""
    memory = owner(self.numpy_view("storage()"))
    kind = self.array.dtype
    return TypedStorage(memory if memory.dtype == kind else memory.reshape(-1, order="A").view(kind))


@method
def storage_type(self: Tensor) -> Any:
    """Return the constructor of its kind of storage, such as `FloatStorage`."""
    return next(made for made in TYPED_CONSTRUCTORS.values() if made.dtype is self.dtype)


@method
def untyped_storage(self: Tensor) -> UntypedStorage:
    """Return the memory that the tensor sees, as bytes."""
    return UntypedStorage(owner(self.numpy_view("untyped_storage()")))


@method
def to_dense(self: Tensor) -> Tensor:
    """Return the tensor itself: it is dense."""
    return self
