"""The interpreter of the device "meta", which infers shapes and types by the specs of ops.

Ops whose operands all have values are evaluated as usual.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any
from weakref import ref

import numpy as np

from adjoint.core.dtype.device import block_slot, is_meta
from adjoint.core.op.evaluation import target_dtype
from adjoint.core.op.op_errors import user_error
from adjoint.core.op.spec import Spec
from adjoint.core.runtime.interpreter import Interpreter
from adjoint.core.runtime.mode import ModeScope, mode, nondefault
from adjoint.core.runtime.slot import Slot
from adjoint.core.tensor.meta import MetaArray, any_meta, layout_without_values
from adjoint.core.tensor.tensor import Tensor, shallow_copy, wrap
from adjoint.core.typing import DeviceLike, Function, Operand, Operands, Params

if TYPE_CHECKING:
    from adjoint.core.op.op import Op

write_slot: Slot[Function] = Slot("write")  # the values and the history of a tensor, into another


class MetaInterpreter(Interpreter):
    """The interpreter that infers shapes and types where values are missing.

    `values`: the values of the array made last, for a factory that names the CPU in a block of "meta".
    """

    writes_symbols = True  # missing values need no write

    def __init__(self) -> None:
        self.make_values: Callable[[], Any] = _nothing
        self.values: Callable[[], Any] = _nothing

    def emit(self, op: Op, inputs: Operands, params: Params) -> Operand:
        """Return a `MetaArray` if an operand is one, or if the op has no operands; else None: NumPy evaluates."""
        made = not any(isinstance(x, (Tensor, np.ndarray)) for x in inputs)
        if not made and not any_meta(inputs):
            return None
        out = _infer_meta_array(op, tuple(x.array if isinstance(x, Tensor) else x for x in inputs), params)
        if made:
            self._note(out, lambda: np.asarray(op.evaluate(*inputs, **params)))
        return out

    def constant(self, array: Any) -> MetaArray:
        """Return a `MetaArray` with the shape and type of Python data."""
        array = np.asarray(array)
        out = MetaArray(array.shape, array.dtype)
        self._note(out, lambda: array)
        return out

    def strided_stand_in(self, tensor: Any) -> Any:
        """Return an array without values that has the tensor's shape and strides."""
        return layout_without_values(tensor)

    def _note(self, made: MetaArray, values: Callable[[], Any]) -> None:
        self.make_values, self.values = ref(made), values

    def forget_last(self) -> None:
        """Forget the array that was made last."""
        self.make_values = self.values = _nothing

    def replacement(self, x: Tensor, out: Tensor, called: str, since: int | None) -> Operand:
        """Return the written tensor without its values; None if the write took place in existing memory.

        Raises NotImplementedError if missing values would be written.
        """
        if type(x.array) is not MetaArray:
            if type(out.array) is MetaArray:
                out.array.refuse(called)
            with ModeScope(interpreter=None):
                write_slot.call(x, out, called, since)
            return None
        if type(out.array) is not MetaArray:
            node, out = out.node, shallow_copy(out)
            out.array, out.node = MetaArray(out.array.shape, out.array.dtype), node
        return out


def _infer_meta_array(op: Op, arrays: Operands, params: Params) -> MetaArray:
    target = target_dtype(op, arrays)
    specs = [
        Spec(x.shape, target or x.dtype) if hasattr(x, "dtype") else Spec((), target or np.dtype(type(x)))
        for x in arrays
        if x is not None
    ]
    try:
        spec = op.spec(*specs, **params)
    except (ValueError, TypeError, IndexError) as error:
        raise user_error(op, arrays, error) from error
    return MetaArray(spec.shape, spec.dtype)


def _nothing() -> None:
    """Return None: no array was made."""


META_INTERPRETER = MetaInterpreter()


def meta_scope() -> ModeScope:
    """Return a block of the device "meta", whose tensors have a shape and a type only."""
    return ModeScope(interpreter=META_INTERPRETER)


def call_on_meta(make: Function, *args: Any, **kwargs: Any) -> Tensor:
    """Call a factory in a block of the device "meta"."""
    with meta_scope():
        return make(*args, **kwargs)


def device_scope(meta: bool) -> AbstractContextManager[Any]:
    """Return a block of the device "meta", or of the CPU."""
    META_INTERPRETER.forget_last()
    if meta:
        return meta_scope()
    return ModeScope(interpreter=None) if mode.interpreter is META_INTERPRETER else nullcontext()


block_slot.fill(device_scope)


def on_requested_device(out: Tensor, device: DeviceLike) -> Tensor:
    """Move the tensor that a factory made to the requested device: "meta", or the CPU.

    Raises DeviceError for other devices.
    """
    if is_meta(device):
        return out if type(out.array) is MetaArray else _drop_values(out)
    if type(out.array) is MetaArray:
        if META_INTERPRETER.make_values() is not out.array:
            out.array.refuse("to()")
        out.array = META_INTERPRETER.values()
    return out


def move_to_device(x: Tensor, device: DeviceLike) -> Tensor:
    """Move a tensor to a device. Raises NotImplementedError from "meta" to the CPU: there is no data."""
    if is_meta(device):
        return x if type(x.array) is MetaArray else _drop_values(x)
    if type(x.array) is MetaArray:
        x.array.refuse("to()")
    return x


def device_like(x: Operand, device: DeviceLike) -> DeviceLike:
    """Return the requested device, or that of x if none was requested."""
    return x.device if device is None and nondefault.meta_tensors else device


def _drop_values(out: Tensor) -> Tensor:
    return wrap(MetaArray(out.array.shape, out.array.dtype))
