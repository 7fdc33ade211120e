"""Arrays of NumPy's that a traced step computes on: each call of the step makes NumPy's calls with its own values.

`x.numpy()` of a tensor without values gives a `HostArray`. What NumPy computes of it is a host call, once in each call
of the step, and its result an input of what follows: another `HostArray`, or a number. Where a program needs the values
themselves, those of a few integers are an answer, for which what follows holds; of others there is no such program.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from functools import partial
from typing import Protocol

import numpy as np

from adjoint.compiler.ir.graph import Value
from adjoint.core.tensor.external_aliases import export_array
from adjoint.core.tensor.tensor import Tensor, wrap
from adjoint.core.typing import Array, Function, NumpyDtype, Operand, Operands
from adjoint.ops.movement.movement import select

MAX_LISTED_ELEMENTS = 64  # of an array whose elements become numbers that a program reads one by one
MAX_DECIDED_ELEMENTS = 64  # of a tensor whose values, all of them, decide how a step goes on
ATTRIBUTES = frozenset(("shape", "dtype", "ndim", "size", "itemsize", "nbytes"))  # which shapes and types tell
CHANGING_METHODS = frozenset(
    ("byteswap", "fill", "itemset", "partition", "put", "resize", "setfield", "setflags", "sort")
)


class NumpyCalls(Protocol):
    """Calls NumPy for a step that is traced, in each of its calls."""

    def call(self, function: Function, args: Operands, kwargs: dict[str, Operand] | None = None) -> Operand: ...

    def decide_values(self, tensor: Tensor, reader: str) -> Array: ...

    def refuse(self, refuse: Callable[[], None]) -> None: ...


class HostArray(np.lib.mixins.NDArrayOperatorsMixin):
    """Stands for the array of a tensor while a step is traced."""

    __slots__ = ("_calls", "traced_tensor")
    __array_priority__ = 1000.0

    def __init__(self, tensor: Tensor, calls: NumpyCalls) -> None:
        self.traced_tensor, self._calls = tensor, calls

    @staticmethod
    def rebuild_tree(tensor: Tensor) -> Array:
        """Return what a call of the step has in place of this: the array of its tensor."""
        array: Array = tensor.array if tensor.storage_ is None else export_array(tensor)
        return array

    def tree_part(self) -> Tensor:
        """Return the tensor, as what a program makes of this."""
        return self.traced_tensor

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Operand, **options: Operand) -> Operand:
        if options.get("out") is not None:
            self._refuse("a write into its array")
        return self._calls.call(getattr(ufunc, method), inputs, options)

    def __array_function__(
        self, function: Function, _: Operand, args: Operands, options: dict[str, Operand]
    ) -> Operand:
        if options.get("out") is not None:
            self._refuse("a write into its array")
        return self._calls.call(function, args, options)

    def __array__(self, dtype: NumpyDtype | None = None, copy: bool | None = None) -> Array:
        return np.array(self._read("numpy()"), dtype=dtype, copy=copy)

    def __getattr__(self, name: str) -> Operand:
        if name in ATTRIBUTES:
            return getattr(self.traced_tensor.array, name, None) if name != "ndim" else len(self.shape)
        if name[:2] == "__" or not hasattr(np.ndarray, name):
            raise AttributeError(f"'numpy.ndarray' object has no attribute {name!r}")
        if name in CHANGING_METHODS:
            self._refuse(f"{name}() of its array")
        if callable(getattr(np.ndarray, name)):
            return lambda *args, **options: self._calls.call(call_method, (self, name, *args), options)
        if name not in ("T", "real", "imag"):
            return getattr(self._read(f"{name} of its array"), name)
        return self._calls.call(getattr, (self, name))

    def tolist(self) -> Operand:
        """Return the elements as nested lists of numbers that each call reads."""
        if has_few_integers(self.traced_tensor.array):
            return self._read("tolist()").tolist()
        if self.traced_tensor.array.size > MAX_LISTED_ELEMENTS:
            return self._calls.call(call_method, (self, "tolist"))
        return list_elements(self.traced_tensor.detach())

    def item(self, *at: Operand) -> Operand:
        """Return an element as a number that each call reads."""
        return self._calls.call(call_method, (self, "item", *at)) if at else self.traced_tensor.item()

    def __getitem__(self, key: Operand) -> Operand:
        return self._calls.call(operator.getitem, (self, key))

    def __setitem__(self, key: Operand, value: Operand) -> None:
        self._refuse("a write into its array")

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of unsized object")
        return int(self.shape[0])

    def __iter__(self) -> Iterator[Operand]:
        if has_few_integers(self.traced_tensor.array):
            return iter(self._read("numpy()"))
        return iter([self[i] for i in range(len(self))])

    def __bool__(self) -> bool:
        return bool(self.traced_tensor.detach())

    def __float__(self) -> float:
        return float(self.traced_tensor.detach())

    def __int__(self) -> int:
        return int(self.traced_tensor.detach())

    def __repr__(self) -> str:
        return repr(self._read("str() of its array"))

    def _read(self, reader: str) -> Array:
        return self._calls.decide_values(self.traced_tensor, reader)

    def _refuse(self, reader: str) -> None:
        self._calls.refuse(partial(self.traced_tensor.array.refuse, reader))


def has_few_integers(values: Value | Array) -> bool:
    """Return whether the values together, of integers or truths, can be an answer."""
    return values.size <= MAX_DECIDED_ELEMENTS and values.dtype.kind in "biu"


def call_method(array: Array, name: str, *args: Operand, **options: Operand) -> Operand:
    """Return the result of a method of an array."""
    return getattr(array, name)(*args, **options)


def list_elements(tensor: Tensor) -> Operand:
    """The elements of a tensor as nested lists of numbers."""
    if not tensor.array.shape:
        return tensor.item()
    return [list_elements(select(tensor, axis=0, at=i)) for i in range(tensor.array.shape[0])]


def is_array_result(x: Operand) -> bool:
    """True for an array, or a scalar of NumPy's, whose values a program can take."""
    return isinstance(x, (np.ndarray, np.generic)) and x.dtype.kind in "biufc" and x.dtype.isnative


def as_argument(x: Operand) -> Operand:
    """Return an input of the program for a result of NumPy's: a tensor of its values, or a number."""
    if isinstance(x, np.ndarray):
        return wrap(np.array(x, order="C"))
    return x.item() if isinstance(x, np.complexfloating) else x
