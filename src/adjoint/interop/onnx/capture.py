"""Capture of a model as a graph: one trace for each of a few sizes of the free axes, merged into one."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from typing import NamedTuple, NoReturn

import numpy as np

from adjoint.autograd.grad_mode import no_grad
from adjoint.compiler.ir.graph import Graph, StateInput, TraceError, Value
from adjoint.compiler.trace.tracer import Tracer
from adjoint.core.graph.source_location import user_site
from adjoint.core.op.apply import apply
from adjoint.core.op.op import Op
from adjoint.core.op.spec import Spec
from adjoint.core.runtime.pytree import Structure, flatten, unflatten
from adjoint.core.tensor.tensor import Tensor, wrap
from adjoint.core.typing import Operand, Operands
from adjoint.interop.onnx.modes import OnnxExporterError


def refuse_to_run(*operands: Operand, **params: Operand) -> NoReturn:
    """Raise AssertionError: these ops are translated, and never run."""
    raise AssertionError("an op of the export does not run")


def _resize(x: Operand, *, shape: tuple[int, ...], scales: Operand, mode: str, aligned: bool) -> NoReturn:
    refuse_to_run(x)


def _recurrence(*operands: Operand, kind: str, steps: int, reverse: bool) -> NoReturn:
    refuse_to_run(*operands)


def recurrence_state(x: Operand, start: Operand, *, part: int) -> NoReturn:
    """Stand for a last state."""
    refuse_to_run(x)


# (N, C, *sizes) resampled to `shape`.
RESIZE = Op(_resize, {}, call=apply, family="call", spec=lambda x, *, shape, **_: Spec(shape, x.dtype))
# The outputs (T·B, H) of one direction of a recurrent layer, of rows (T·B, I), W, R, biases or None, first states.
RECURRENCE = Op(
    _recurrence,
    {},
    call=apply,
    family="call",
    spec=lambda x, *others, **_: Spec((x.shape[0], others[1].shape[1]), x.dtype),
)
# The last state of a recurrence that began with `start`.
RECURRENCE_STATE = Op(
    recurrence_state, {}, call=apply, family="call", spec=lambda x, start, *, part: Spec(start.shape, start.dtype)
)


class ExportTracer(Tracer):
    """Traces a model for ONNX: layers that it has nodes for are kept whole, and values are nowhere known."""

    def __init__(self, named: Container[int]) -> None:
        super().__init__("export")
        self._named = named

    def adopt(self, tensor: Tensor) -> Value:
        """Return the tensor's symbol; a parameter or buffer is an input of its own, even if it is a view."""
        if type(tensor.array) is np.ndarray and id(tensor) in self._named:
            self._capture_array(tensor, StateInput(lambda: tensor, "", None))
        return super().adopt(tensor)

    def read_values(self, tensor: Tensor, reader: str) -> NoReturn:
        raise OnnxExporterError(
            f"torch.onnx.export: {reader} reads the value of a tensor of shape {list(tensor.shape)} at {user_site()}, "
            "which is known only when the exported model runs. Choose between values with torch.where"
        )

    def item(self, tensor: Tensor) -> NoReturn:
        self.read_values(tensor, "item()")

    def resize(self, x: Tensor, new: Sequence[int], scales: Operands, mode: str, aligned: bool) -> Tensor | None:
        if mode == "nearest-exact" and x.array.dtype.kind != "f":
            return None
        params = {"shape": (*x.array.shape[:2], *new), "scales": tuple(scales), "mode": mode, "aligned": aligned}
        return wrap(self.emit(RESIZE, (x,), params))

    def sweep(
        self, kind: str, input: Tensor, sizes: Sequence[int], start: Operands, weights: Operands, reverse: bool
    ) -> tuple[Tensor, Operands] | None:
        has_projection = weights[4] is not None
        if len(set(sizes)) > 1 or has_projection or input.array.dtype.kind != "f":
            return None
        params = {"kind": kind, "steps": len(sizes), "reverse": reverse}
        output = self.emit(RECURRENCE, (input, *weights[:4], *start), params)
        last = tuple(wrap(self.emit(RECURRENCE_STATE, (output, s), {"part": i})) for i, s in enumerate(start))
        return wrap(output), last


class Capture(NamedTuple):
    """One trace: its graph, the values of the inputs and outputs, and the tensors behind the graph's states."""

    graph: Graph
    inputs: list[Value]
    outputs: list[Value]
    output_structure: Structure
    tensors: dict[Value, Tensor]


def capture(call: Callable[..., Operand], leaves: Sequence[Operand], structure: Structure) -> Capture:
    """Trace `call(*args, **kwargs)`, whose tensors are the `leaves` of the arguments, once."""
    tensors_of = (getattr(call, "parameters", None), getattr(call, "buffers", None))
    tracer = ExportTracer({id(x) for generate in tensors_of if generate is not None for x in generate()})
    stand_ins = [wrap(x) if isinstance(x, np.ndarray) else x for x in leaves]
    args, kwargs = unflatten(structure, iter(stand_ins))
    tensors = [x for x in stand_ins if isinstance(x, Tensor)]
    try:
        with no_grad():
            for i, tensor in enumerate(tensors):
                tracer.bind_argument(tensor, i, f"input {i}")
            inputs = [tensor.array for tensor in tensors]
            result = tracer.trace(call, args, kwargs)
            parts, out_structure = flatten(result)
            outputs = [tracer.adopt(_check_output(x)) for x in parts if x is not None]
    except TraceError as error:
        raise OnnxExporterError(f"torch.onnx.export: the model cannot be traced: {error}") from error
    finally:
        tracer.restore()
    states = {symbol: tensor for tensor, _, symbol in reversed(tracer.state)}
    return Capture(tracer.graph, inputs, outputs, out_structure, states)


def _check_output(x: Operand) -> Tensor:
    if not isinstance(x, Tensor):
        raise OnnxExporterError(
            f"torch.onnx.export: the model returns {x!r}, of type {type(x).__name__}: the outputs of an exported model "
            "are tensors, in tuples, lists or dicts"
        )
    return x
