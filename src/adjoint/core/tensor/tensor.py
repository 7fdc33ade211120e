"""The tensor: an array, and the node that made it. It knows no ops: higher layers attach its methods."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from numbers import Number
from typing import Any, Self, TypeVar

import numpy as np

from adjoint.core.dtype.device import CPU, META, device, require_cpu
from adjoint.core.dtype.dtype import DTYPES, dtype
from adjoint.core.graph.node import Leaf, Node, OutputSlot, PackedValue, Vertex
from adjoint.core.graph.object_allocation import make_allocator
from adjoint.core.runtime.explanation_slot import with_explanation
from adjoint.core.runtime.mode import mode, nondefault
from adjoint.core.runtime.notebook import show_in_notebook
from adjoint.core.tensor.as_strided import copy_keeping_strides, dense_strides, element_strides, strided_view
from adjoint.core.tensor.autograd_meta import AutogradMeta
from adjoint.core.tensor.construction import array_from_constructor
from adjoint.core.tensor.detach_record import DetachRecord, detach_record_here
from adjoint.core.tensor.external_aliases import import_array
from adjoint.core.tensor.memory_format import memory_format
from adjoint.core.tensor.meta import MetaArray, layout_without_values
from adjoint.core.tensor.printing import format_tensor
from adjoint.core.tensor.size import Size, has_symbolic, new_tuple, settle_sizes
from adjoint.core.tensor.storage import INFERENCE, Memory, Storage, View, share_storage, storage_of
from adjoint.core.tensor.torch_function import default_torch_function, register_subclass
from adjoint.core.typing import Array, DeviceLike, Operand

ndarray = np.ndarray
new, ref = object.__new__, weakref.ref
Function = TypeVar("Function", bound=Callable[..., Any])


class Tensor(AutogradMeta):
    """A multi-dimensional array of one dtype that remembers how it was computed.

    `Tensor(data)` has nested lists and arrays in the default floating type, an array's memory is shared where it has
    that; `Tensor(2, 3)` is zeros of these sizes, `Tensor(tensor)` is one more over the same memory. People use
    `adjoint.tensor`, which keeps the type and copies. Raises TypeError for a single number that is no size.
    """

    # `array` is an ndarray, or a symbolic value while a step is traced. `node` is None when no gradient is wanted.
    # `__dict__` costs nothing until somebody sets an attribute of their own. `_tangents` is left unset, but for tensors
    # that carry tangents of forward mode, `_detach_record`, but for those whose history was cut off, and
    # `_leaf`, but for those that no longer ask for the gradient they asked for. A tensor is whole when `__new__`
    # returns, and there is no `__init__`, so that subclasses may define either.
    __slots__ = (
        "__dict__",
        "__weakref__",
        "_detach_record",
        "_grad",
        "_leaf",
        "_tangents",
        "array",
        "node",
        "storage_",
    )
    array: Any
    node: Vertex | None
    storage_: Memory
    _grad: Tensor | None
    _tangents: Any
    _detach_record: DetachRecord
    _leaf: Leaf | None

    def __new__(
        cls, *given: Operand, data: Operand = None, device: DeviceLike = None, requires_grad: bool = False
    ) -> Self:
        self = new(cls)
        given = given if data is None else (data, *given)
        self.array = array_from_constructor(given)
        if device is not None:
            require_cpu(device)
        self.node = None
        self._grad = None
        self.storage_ = None
        if len(given) == 1 and isinstance(given[0], Tensor):
            if given[0].node is not None:
                alias = given[0].as_subclass(Tensor)  # type: ignore[attr-defined]
                self.array, self.node, self.storage_ = alias.array, alias.node, alias.storage_
                storage_of(self).add(self)
            elif given[0].array is self.array:
                share_storage(given[0], self)
        elif len(given) == 1:
            import_array(self, given[0])
        if requires_grad:
            self.requires_grad_()
        return self

    __torch_function__: Any = classmethod(default_torch_function)

    def __init_subclass__(cls, **kwargs: object) -> None:
        super().__init_subclass__(**kwargs)
        register_subclass(cls, Tensor)

    @property
    def shape(self) -> Size:
        """Sizes of the dimensions."""
        return new_tuple(Size, self.array.shape)

    @property
    def dtype(self) -> dtype:
        """Type of the elements."""
        return DTYPES[self.array.dtype]

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.array.shape)

    @property
    def device(self) -> device:
        """The CPU, or "meta" for a tensor without values."""
        return CPU if type(self.array) is not MetaArray else META

    @property
    def is_meta(self) -> bool:
        """True for a tensor without values."""
        return type(self.array) is MetaArray

    @property
    def is_cpu(self) -> bool:
        """True for a tensor with values."""
        return type(self.array) is not MetaArray

    def detach(self) -> Tensor:
        """Return a tensor over the same memory that has no history and requires no gradient.

        Each of the two sees what is written into the other.

        Example:
            >>> x = ad.ones(2, requires_grad=True)
            >>> y = (2 * x).detach()
            >>> y.requires_grad, y
            (False, tensor([2., 2.]))
        """
        return detach(self)

    def dim(self) -> int:
        """Number of dimensions."""
        return len(self.array.shape)

    def size(self, dim: int | None = None) -> Any:
        """Return the shape, or the size of one dimension.

        Args:
            dim: dimension, negative to count from the last. Default: None, the whole shape.

        Raises: IndexError for a dimension that is not there.

        Example:
            >>> x = ad.zeros(2, 3)
            >>> x.size(), x.size(-1)
            (adjoint.Size([2, 3]), 3)
        """
        if dim is None:
            return self.shape
        rank = len(self.array.shape)
        if not -rank <= dim < rank:
            raise IndexError(
                f"Dimension out of range (expected to be in range of [{-rank}, {rank - 1}], but got {dim})"
            )
        return self.array.shape[dim]

    def numel(self) -> int:
        """Number of elements."""
        array = self.array
        return array.size if type(array) is ndarray else self.shape.numel()

    def element_size(self) -> int:
        """Bytes of one element."""
        return int(self.array.dtype.itemsize)

    def stride(self, dim: int | None = None) -> Any:
        """Elements to step over in memory from one index to the next, for each dimension or one."""
        array = self.array
        if type(array) is ndarray and array.size and not nondefault.count:
            strides = element_strides(array)
            return strides if dim is None else strides[dim]
        array = strided_stand_in(self)
        if array.flags.c_contiguous and has_symbolic(*self.array.shape):
            strides = dense_strides(self.array.shape)
            return strides if dim is None else strides[dim]
        settle_sizes(self.array.shape)  # strides are made of them
        strides = element_strides(array)
        if 0 in self.array.shape and not any(strides):  # NumPy gives arrays without elements none
            strides = dense_strides(self.array.shape)
        return strides if dim is None else strides[dim]

    def is_contiguous(self, *, memory_format: memory_format | None = None) -> bool:
        """True if the elements lie in memory in row-major order, or in the order of `memory_format`."""
        array, order = strided_stand_in(self), getattr(memory_format, "order", ())
        if order:
            return len(order) == array.ndim and bool(array.transpose(order).flags.c_contiguous)
        return bool(array.flags.c_contiguous)

    def data_ptr(self) -> int:
        """Address of the first element; 0 where there is none."""
        return int(self.numpy_view("data_ptr()").ctypes.data) if self.numel() and not self.is_meta else 0

    def is_floating_point(self) -> bool:
        """True for a floating dtype."""
        return bool(self.array.dtype.kind in "fV")

    def __len__(self) -> int:
        if not self.array.shape:
            raise TypeError("len() of a 0-d tensor")
        return int(self.array.shape[0])

    def __iter__(self) -> Iterator[Tensor]:
        if not self.array.shape:
            raise TypeError("iteration over a 0-d tensor")
        return iter(self.unbind(0))  # type: ignore[attr-defined]

    def __reversed__(self) -> Tensor:
        return self.flip(0) if self.array.shape else self  # type: ignore[attr-defined, no-any-return]

    def __contains__(self, element: Operand) -> bool:
        if not isinstance(element, (Tensor, Number)):
            raise RuntimeError(
                f"Tensor.__contains__ only supports Tensor or scalar, but you passed in a {type(element)}."
            )
        return bool((self == element).any())  # type: ignore[attr-defined]

    def __hash__(self) -> int:
        return id(self)

    def __repr__(self, **_: object) -> str:
        shown = mode.interpreter.show(self) if nondefault.count and mode.interpreter is not None else None
        return format_tensor(self) if shown is None else shown

    _repr_html_ = show_in_notebook

    def __dir__(self) -> list[str]:
        unset = {name for name in ("_detach_record", "_leaf", "_tangents") if not hasattr(self, name)}
        return sorted({*object.__dir__(self)} - unset)

    def __str__(self) -> str:
        if type(self.array) not in (ndarray, MetaArray) and not getattr(mode.interpreter, "traces_steps", False):
            self.numpy_view("str()")
        return repr(self)

    def __format__(self, spec: str) -> str:
        if not self.array.shape and (spec or type(self) is Tensor):
            return format(self.item(), spec)
        if spec:
            raise with_explanation(TypeError(f"unsupported format string passed to {type(self).__name__}.__format__"))
        return str(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        if not self.is_leaf:
            raise RuntimeError(
                "Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol"
            )
        import copy

        twin = new(type(self))
        memo[id(self)] = twin
        array = self.array
        if type(array) is MetaArray:
            init_slots(twin, array)
        elif nondefault.count and mode.interpreter is not None and mode.interpreter.traces_steps:
            mode.interpreter.deepcopy_memory(self, init_slots(twin, array), memo)
        else:
            init_slots(twin, copy_keeping_strides(self.numpy_view("deepcopy()"), memo))
        grad = self.grad
        if grad is not None:
            twin._grad = copy.deepcopy(grad, memo)
        if self.node is not None:
            twin.node = Leaf(twin)
        twin.__dict__.update(copy.deepcopy(self.__dict__, memo))
        return twin

    def __copy__(self) -> Self:
        if nondefault.count and mode.interpreter is not None and mode.interpreter.traces_steps:
            twin = init_slots(new(type(self)), mode.interpreter.adopt(self))
            share_storage(self, twin)
            if self.node is not None:
                twin.node = Leaf(twin)
            twin.__dict__.update(self.__dict__)
            return twin
        function, parts = self.__reduce_ex__(4)
        return function(*parts)

    def __reduce_ex__(self, protocol: object) -> tuple[object, ...]:
        return rebuild, (type(self), self.numpy_view("pickle"), self.requires_grad, self.__dict__ or None)


_allocate_tensor = make_allocator(Tensor)


def init_slots(tensor: Tensor, array: Operand) -> Tensor:
    """Set the slots of a bare tensor object to `array` and no history."""
    tensor.array = array
    tensor.node = None
    tensor._grad = None
    tensor.storage_ = None
    return tensor


def wrap(array: Operand) -> Tensor:
    """Return a tensor of `array`, without history."""
    tensor = _allocate_tensor()
    tensor.array = array
    tensor.node = tensor._grad = tensor.storage_ = None
    return tensor


def shallow_copy(x: Tensor) -> Tensor:
    """Return a new tensor of the same memory and tangents, without history."""
    out = init_slots(_allocate_tensor(), x.array)
    out.storage_ = x.storage_
    tangents = tangents_of(x)
    if tangents is not None:
        out._tangents = tangents
    return out


def restore_saved(value: Any, maker: Vertex | None) -> Operand:
    """Return a saved value as a tensor with its history; a live leaf is returned itself, a number as it is."""
    if isinstance(value, PackedValue):
        value = value.unpack()
        return with_node(value, maker)
    if not hasattr(value, "dtype"):
        return value
    if type(maker) is Leaf:
        leaf = maker.reference()
        if leaf is not None and leaf.array is value:
            return leaf
    tensor = wrap(value)
    tensor.node = maker
    return tensor


def with_node(value: Any, maker: Vertex | None) -> Tensor:
    """Return the tensor `value` with the node `maker`."""
    if value.node is maker:
        return value
    tensor = shallow_copy(value)
    tensor.node = maker
    return tensor


def strided_stand_in(x: Tensor) -> Array:
    """Return the array of `x`; in a traced step one of its shape and strides without meaningful values."""
    array = x.array
    if type(array) is not ndarray:
        if type(array) is MetaArray:
            return layout_without_values(x)
        stand_in = None if mode.interpreter is None else mode.interpreter.strided_stand_in(x)
        return strided_view(np.empty(1), array.shape, dense_strides(array.shape), 0) if stand_in is None else stand_in
    return array


def tangents_of(x: object) -> Any:
    """Return the tangents that forward mode attached to a tensor, or None."""
    return getattr(x, "_tangents", None)


def constant(array: Operand) -> Tensor:
    """Return a tensor of constant values, which in a traced step is a constant of the graph."""
    if not nondefault.count:
        return wrap(array)
    if mode.interpreter is not None:
        return wrap(mode.interpreter.constant(array))
    out = wrap(array)
    if mode.inference:
        out._detach_record, out.storage_ = mode.detach_record, INFERENCE
    return out


def detach(x: Tensor) -> Tensor:
    """Return a tensor of the memory of `x`, without its history."""
    out = wrap(x.array if not nondefault.count or mode.interpreter is None else mode.interpreter.detach_array(x))
    storage = x.storage_.storage if type(x.storage_) is View else x.storage_
    if type(storage) is Storage:  # as `share_storage` does it, which would be three more calls
        out.storage_ = storage
        storage.aliases.append(ref(out))
        if len(storage.aliases) > storage.prune_at:
            storage.prune()
    else:
        share_storage(x, out)
    if x.node is not None:
        out._detach_record = detach_record_here("detach()")
    return out


def rebuild(kind: type[Tensor], array: Array, requires_grad: bool, attributes: dict[str, Any] | None) -> Tensor:
    """Rebuild a tensor from its pickled parts."""
    DTYPES.find(array.dtype)  # the first bfloat16 of a program may come out of a pickle
    tensor = init_slots(new(kind), array)
    if requires_grad:
        tensor.requires_grad_()
    if attributes:
        tensor.__dict__.update(attributes)
    return tensor


def method(function: Function) -> Function:
    """Make `function` a method of Tensor too, under its own name."""
    setattr(Tensor, function.__name__, function)
    return function


__all__ = ["Node", "OutputSlot", "Tensor", "constant", "detach", "init_slots", "method", "wrap"]
