"""Access to a tensor's values: as an ndarray, as Python numbers. A traced step has no values."""

from __future__ import annotations

from typing import Any

import numpy as np

from adjoint.core.graph.node import Vertex
from adjoint.core.runtime.explanation_slot import with_explanation
from adjoint.core.runtime.mode import mode, nondefault
from adjoint.core.tensor.external_aliases import export_array
from adjoint.core.tensor.protocols import ProtocolMethods
from adjoint.core.typing import Array, NumpyDtype, Operand

ndarray = np.ndarray


class DataAccess(ProtocolMethods):
    """The part of a tensor that gives access to its values."""

    __slots__ = ()
    array: Any
    node: Vertex | None

    def numpy_view(self, reader: str) -> Operand:
        """Return the ndarray itself. Raises TraceError, which names `reader` and the line, in a traced step."""
        interpreter = mode.interpreter if nondefault.count else None
        if interpreter is not None:
            interpreter.adopt(self)
        if type(self.array) is not ndarray:
            return self.array.refuse(reader) if interpreter is None else interpreter.read_values(self, reader)
        return self.array

    def numpy(self, *, force: bool = False) -> Any:
        """Return the elements as a NumPy array over this tensor's memory.

        Each of the two sees what is written into the other.

        Args:
            force: True to take the array also of a tensor that requires grad. Default: False.

        Raises: RuntimeError for a tensor that requires grad, unless `force` or in `no_grad`; TypeError for bfloat16.

        Example:
            >>> ad.tensor([1.0, 2.0]).numpy()
            array([1., 2.], dtype=float32)
        """
        if self.node is not None and mode.recording and not force:
            message = "Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead."
            raise with_explanation(RuntimeError(message))
        array = self.numpy_view("numpy()")
        if array.dtype.kind == "V":
            raise TypeError("Got unsupported ScalarType BFloat16: NumPy has no such type, float() gives one it has")
        if array is not self.array:
            return array
        del array  # hand_out counts who refers to it
        exported: Operand = self
        return export_array(exported)

    def to_numpy(self) -> Array:
        """Return `numpy()`, under the name by which matplotlib and others ask whether this is like an array."""
        return np.asarray(self.numpy())

    def __array__(self, dtype: NumpyDtype | None = None, copy: bool | None = None) -> Array:
        return np.array(self.numpy(), dtype=dtype, copy=copy)

    def item(self) -> Operand:
        """Return the only element as a Python number.

        In a step that is being compiled, each call reads the number anew; what follows a decision on it is compiled for
        each answer.

        Raises: RuntimeError unless there is exactly one element.

        Example:
            >>> ad.tensor([2.5]).item()
            2.5
        """
        array = self.array
        if type(array) is ndarray and array.size == 1 and not (nondefault.count and mode.interpreter is not None):
            return array.item()
        number = self._late_number()
        if number is not None:
            return number
        array = self.numpy_view("item()")
        if array.size != 1:
            message = f"a Tensor with {array.size} elements cannot be converted to Scalar"
            raise with_explanation(RuntimeError(message))
        return array.item()

    def _late_number(self) -> Operand:
        """Return the number of the one element of a tensor in a step that is being compiled; None elsewhere."""
        interpreter = mode.interpreter if nondefault.count else None
        if interpreter is not None and all(n == 1 for n in self.array.shape):
            return interpreter.item(self)
        return None

    def tolist(self) -> Any:
        """Return the elements as nested lists of Python numbers."""
        return self.numpy_view("tolist()").tolist()

    def __bool__(self) -> bool:
        array = self.array
        if type(array) is ndarray and array.size == 1 and not (nondefault.count and mode.interpreter is not None):
            return bool(array)
        number = self._late_number()
        if number is not None:
            return bool(number)
        array = self.numpy_view("bool()")
        if array.size != 1:
            some = "no values" if array.size == 0 else "more than one value"
            raise with_explanation(RuntimeError(f"Boolean value of Tensor with {some} is ambiguous"))
        return bool(array.reshape(()))

    def __float__(self) -> float:
        return float(self._real_number("float()"))

    def __int__(self) -> int:
        return int(self._real_number("int()"))

    def __index__(self) -> int:
        if self.array.dtype.kind not in "iub" or self.array.size != 1:
            message = "only integer tensors of a single element can be converted to an index"
            raise with_explanation(TypeError(message))
        return int(self._number("index()"))

    def __complex__(self) -> complex:
        return complex(self._number("complex()"))

    def _real_number(self, reader: str) -> Operand:
        number = self._number(reader)
        if self.array.dtype.kind != "c":
            return number
        if number.imag:
            raise RuntimeError(f"{reader}: the value {number} cannot be converted to a real number without overflow")
        return number.real

    def _number(self, reader: str) -> Operand:
        array = self.array
        if type(array) is ndarray and not array.shape and not (nondefault.count and mode.interpreter is not None):
            return array[()]
        number = self._late_number()
        if number is not None:
            return number
        array = self.numpy_view(reader)
        if array.size != 1:
            raise with_explanation(ValueError("only one element tensors can be converted to Python scalars"))
        return array.reshape(())[()]
