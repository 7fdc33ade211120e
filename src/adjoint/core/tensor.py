"""The tensor: an array, and the node that made it. It knows no ops: the functions above attach themselves."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any, Self, TypeVar

import numpy as np

from adjoint.core.device import CPU, device
from adjoint.core.dtype import DTYPES, dtype, is_floating
from adjoint.core.hooks import hooks_of
from adjoint.core.mode import mode, touch_gradient, unusual
from adjoint.core.node import Leaf, Node, Output, edge
from adjoint.core.printing import format_tensor
from adjoint.core.reading import Readable
from adjoint.core.size import Size
from adjoint.core.storage import InferenceStorage, share, storage_of, view_of
from adjoint.core.wrap import as_array

ndarray = np.ndarray
new = object.__new__
Function = TypeVar("Function", bound=Callable[..., Any])


class Tensor(Readable):
    """A multi-dimensional array of one dtype that remembers how it was computed.

    `Tensor(data)` wraps an array (its memory is shared) or converts nested lists of numbers; people use
    `adjoint.tensor`, which copies.
    """

    # `array` is an ndarray, or a symbolic value while a step is traced. `node` is None when no gradient is wanted.
    # `__dict__` costs nothing until somebody sets an attribute of their own. `_tangents` is left unset, but for tensors
    # that carry tangents of forward mode.
    __slots__ = ("__dict__", "__weakref__", "_grad", "_tangents", "array", "node", "storage")
    _tangents: Any

    def __init__(self, data: Any, requires_grad: bool = False) -> None:
        self.array: Any = as_array(data)
        self.node: Any = None
        self._grad: Tensor | None = None
        self.storage: Any = None
        if requires_grad:
            self.requires_grad_()

    @property
    def shape(self) -> Size:
        """Sizes of the dimensions."""
        return Size(self.array.shape)

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
        """The CPU."""
        return CPU

    @property
    def requires_grad(self) -> bool:
        """True if a gradient with respect to this tensor, or to something it was made from, is wanted."""
        return self.node is not None

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        self.requires_grad_(value)

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Ask for this leaf's gradient, or no longer.

        Raises RuntimeError for elements that are not floating, and when switching a non-leaf off.
        """
        if requires_grad and self.node is None:
            if not is_floating(self.array):
                raise RuntimeError(
                    f"only Tensors of floating point dtype can require gradients, this one is {self.dtype}"
                )
            self.node = Leaf(self)
        elif not requires_grad and self.node is not None:
            if not self.is_leaf:
                raise RuntimeError(
                    "you can only change requires_grad flags of leaf variables. If you want to use a computed variable "
                    "in a subgraph that doesn't require differentiation use var_no_grad = var.detach()."
                )
            self.node = None
        return self

    @property
    def is_leaf(self) -> bool:
        """True if no recorded op made this tensor."""
        return self.node is None or type(self.node) is Leaf

    @property
    def grad_fn(self) -> Any:
        """The node that made this tensor; None for a leaf."""
        return None if self.is_leaf else edge(self.node)[0]

    @property
    def output_nr(self) -> int:
        """Which output of `grad_fn` this is."""
        return edge(self.node)[1]

    @property
    def grad(self) -> Tensor | None:
        """The gradient that `backward()` accumulated; None before. Only leaves and `retain_grad()` tensors have one."""
        touch_gradient(self, "read")
        if self._grad is None and not self.is_leaf and not self.retains_grad:
            warnings.warn(
                "The .grad attribute of a Tensor that is not a leaf Tensor is being accessed. Its .grad attribute "
                "won't be populated during autograd.backward(). If you indeed want the .grad field to be populated for "
                "a non-leaf Tensor, use .retain_grad() on the non-leaf Tensor.",
                UserWarning,
                stacklevel=2,
            )
        return self._grad

    @grad.setter
    def grad(self, value: Tensor | None) -> None:
        if value is not None:
            if not isinstance(value, Tensor):
                raise TypeError(f"assigned grad expected to be a Tensor or None but got {type(value).__name__}")
            if value is self:
                raise RuntimeError("can't assign a Tensor as its own grad")
            if value.array.shape != self.array.shape:
                raise RuntimeError(
                    f"assigned grad has data of a different size: attempting to assign a gradient of size "
                    f"{list(value.shape)} to a tensor of size {list(self.shape)}"
                )
            if value.array.dtype != self.array.dtype:
                raise RuntimeError(f"assigned grad has data of a different type: {value.dtype} for {self.dtype}")
        touch_gradient(self, "write")
        self._grad = value

    @grad.deleter
    def grad(self) -> None:
        touch_gradient(self, "write")
        self._grad = None

    def retain_grad(self) -> None:
        """Keep `.grad` of this non-leaf too. Does nothing to a leaf; raises RuntimeError without requires_grad."""
        if self.node is None:
            raise RuntimeError("can't retain_grad on Tensor that has requires_grad=False")
        if type(self.node) is not Leaf:
            import weakref

            hooks_of(self.node).retained_by = weakref.ref(self)

    @property
    def retains_grad(self) -> bool:
        """True for a non-leaf on which `retain_grad()` was called."""
        hooks = None if self.is_leaf else self.node.hooks
        return hooks is not None and hooks.retained_by is not None

    @property
    def data(self) -> Tensor:
        """The same memory without history; assigning replaces the memory and keeps the history."""
        return detach(self)

    @data.setter
    def data(self, value: Tensor) -> None:
        if unusual.count and mode.tracer is not None:
            mode.tracer.adopt(self)
            mode.tracer.adopt(value)
        if self.node is not None and not is_floating(value.array):
            raise RuntimeError(
                f"data set to a tensor that requires gradients must be floating point or complex dtype, not {value.dtype}"
            )
        version = 0 if self.storage is None else self._version
        self.array = value.array
        self.storage = None
        storage_of(self).version = version
        if type(self.node) is Leaf:
            self.node.shape, self.node.dtype = value.array.shape, value.array.dtype
        if value.storage is not None or not value.is_leaf:
            share(value, self)

    def detach(self) -> Tensor:
        """The same memory, without history."""
        return detach(self)

    def detach_(self) -> Self:
        """Forget how this tensor was made; it becomes a leaf that wants no gradient. Raises RuntimeError for a view."""
        if view_of(self) is not None:
            raise RuntimeError(
                "Can't detach views in-place: their base is not detached with them. Use detach() instead."
            )
        self.node = None
        return self

    @property
    def _version(self) -> int:
        if isinstance(self.storage, InferenceStorage):
            raise RuntimeError("Inference tensors do not track version counter.")
        return 0 if self.storage is None else storage_of(self).version

    @property
    def _base(self) -> Tensor | None:
        """The tensor whose memory this one is a view of; None for one that owns its memory."""
        view = view_of(self)
        return None if view is None else view.base

    def _is_view(self) -> bool:
        """True for a view of another tensor."""
        return view_of(self) is not None

    def is_inference(self) -> bool:
        """True for a tensor made in inference mode."""
        return isinstance(self.storage, InferenceStorage)

    def dim(self) -> int:
        """Number of dimensions."""
        return len(self.array.shape)

    def size(self, dim: int | None = None) -> Any:
        """The shape, or the size of one dimension."""
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
        return self.shape.numel()

    def element_size(self) -> int:
        """Bytes of one element."""
        return int(self.array.dtype.itemsize)

    def stride(self, dim: int | None = None) -> Any:
        """Elements to step over in memory from one index to the next, for each dimension or one."""
        array = self.array
        strides = array.strides if type(array) is ndarray else np.empty(array.shape, array.dtype).strides
        steps = tuple(s // array.dtype.itemsize for s in strides)
        return steps if dim is None else steps[dim]

    def is_contiguous(self) -> bool:
        """True if the elements lie in memory in row-major order."""
        return type(self.array) is not ndarray or bool(self.array.flags.c_contiguous)

    def data_ptr(self) -> int:
        """Address of the first element."""
        return int(self.numpy_view("data_ptr()").ctypes.data)

    def is_floating_point(self) -> bool:
        """True for a floating dtype."""
        return bool(self.array.dtype.kind == "f")

    def __len__(self) -> int:
        if not self.array.shape:
            raise TypeError("len() of a 0-d tensor")
        return int(self.array.shape[0])

    def __iter__(self) -> Iterator[Tensor]:
        if not self.array.shape:
            raise TypeError("iteration over a 0-d tensor")
        return iter(self.unbind(0))  # type: ignore[attr-defined]

    def __hash__(self) -> int:
        return id(self)

    def __repr__(self, **_: Any) -> str:
        return format_tensor(self)

    def __format__(self, spec: str) -> str:
        return format(self.item(), spec) if not self.array.shape and spec else repr(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        if not self.is_leaf:
            raise RuntimeError(
                "Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol"
            )
        import copy

        twin = new(type(self))
        memo[id(self)] = twin
        fill(twin, self.numpy_view("deepcopy()").copy())
        if self._grad is not None:
            twin._grad = copy.deepcopy(self._grad, memo)
        if self.node is not None:
            twin.node = Leaf(twin)
        twin.__dict__.update(copy.deepcopy(self.__dict__, memo))
        return twin

    def __reduce_ex__(self, protocol: Any) -> Any:
        return rebuild, (type(self), self.numpy_view("pickle"), self.requires_grad, self.__dict__ or None)


def fill(tensor: Tensor, array: Any) -> Tensor:
    """Set the slots of a bare tensor object: `array`, no history."""
    tensor.array = array
    tensor.node = None
    tensor._grad = None
    tensor.storage = None
    return tensor


def wrap(array: Any) -> Tensor:
    """A tensor without history around `array`."""
    return fill(new(Tensor), array)


def twin(x: Tensor) -> Tensor:
    """The same memory and tangents in a tensor object of its own, without history."""
    out = fill(new(Tensor), x.array)
    out.storage = x.storage
    tangents = tangents_of(x)
    if tangents is not None:
        out._tangents = tangents
    return out


def tangents_of(x: Any) -> Any:
    """What forward mode attached to a tensor, or None."""
    return getattr(x, "_tangents", None)


def constant(array: Any) -> Tensor:
    """A tensor whose values are fixed by the program text; while tracing, a constant of the graph."""
    tracer = mode.tracer if unusual.count else None
    return wrap(array if tracer is None else tracer.constant(array))


def detach(x: Tensor) -> Tensor:
    """The memory of `x` without its history."""
    if unusual.count and mode.tracer is not None:
        mode.tracer.adopt(x)
    out = wrap(x.array)
    share(x, out)
    return out


def rebuild(kind: type[Tensor], array: Any, requires_grad: bool, attributes: dict[str, Any] | None) -> Tensor:
    """A tensor from its pickled parts."""
    tensor = fill(new(kind), array)
    if requires_grad:
        tensor.requires_grad_()
    if attributes:
        tensor.__dict__.update(attributes)
    return tensor


def method(function: Function) -> Function:
    """Make `function` a method of Tensor too, under its own name."""
    setattr(Tensor, function.__name__, function)
    return function


__all__ = ["Node", "Output", "Tensor", "constant", "detach", "fill", "method", "wrap"]
