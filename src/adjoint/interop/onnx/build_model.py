"""The way from a captured graph to an ONNX model: inputs, weights under their names, nodes, outputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from adjoint.compiler.ir.graph import Value
from adjoint.compiler.ir.interpreter import evaluate_equation
from adjoint.core.typing import Array, Operand
from adjoint.interop.onnx import creation, elementwise, indexing, layers, reduction  # their translations
from adjoint.interop.onnx.free_numbers import FreeNumber, TracedValue, has_free_number
from adjoint.interop.onnx.graph_writer import OnnxWriter
from adjoint.interop.onnx.merge_captures import MergedGraph
from adjoint.interop.onnx.modes import OnnxExporterError
from adjoint.interop.onnx.size_constants import make_constant
from adjoint.interop.onnx.translation import translate

MAX_FOLDED_BYTES = 2**16  # of results that are computed now, of constants alone

Key = tuple[int, ...]


def build_model(
    graph: MergedGraph,
    names: Mapping[int, str],
    input_names: Sequence[str],
    output_names: Sequence[str],
    labels: Mapping[tuple[int, int], str],
    output_labels: Mapping[tuple[str, int], str],
    opset: int,
    fold: bool,
) -> Operand:
    """Return the `onnx.ModelProto`. `names`: of the model's tensors, by their identities."""
    from onnx import helper

    w = OnnxWriter(opset)
    for name in (*input_names, *output_names, *names.values()):
        w.new_name(name)
    for value, name in zip(graph.inputs, input_names, strict=True):
        w.define(value, name)
    constants = _define_states(w, graph, names)
    for value in graph.equations:
        if fold and _fold(value, constants):
            w.pending[_key(value)] = constants[value.traces[0]]
        else:
            w.define(value, translate(w, value))
    _name_outputs(w, graph, input_names, output_names)
    inputs = [
        _describe_tensor(name, value, {axis: label for (i, axis), label in labels.items() if i == number})
        for number, (name, value) in enumerate(zip(input_names, graph.inputs, strict=True))
    ]
    vectors = {graph.inputs[i].shape[axis]: label for (i, axis), label in labels.items()}
    outputs = []
    for name, value in zip(output_names, graph.outputs, strict=True):
        known = {
            axis: output_labels.get((name, axis)) or vectors.get(n) or f"{name}_dim_{axis}"
            for axis, n in enumerate(value.shape)
        }
        outputs.append(_describe_tensor(name, value, known))
    proto = helper.make_graph(w.nodes, "main_graph", inputs, outputs, _make_initializers(w))
    versions = [helper.make_opsetid("", opset)]
    return helper.make_model(
        proto, producer_name="adjoint", opset_imports=versions, ir_version=helper.find_min_ir_version_for(versions)
    )


def _key(value: TracedValue) -> Key:
    return tuple(map(id, value.traces))


def _define_states(w: OnnxWriter, graph: MergedGraph, names: Mapping[int, str]) -> dict[Value, Array]:
    """Give the model's tensors their names; return the arrays of what has none, which may be computed with now."""
    constants: dict[Value, Array] = {}
    for value in graph.states:
        arrays = graph.arrays[_key(value)]
        tensor = graph.tensors.get(_key(value))
        name = None if tensor is None else names.get(id(tensor))
        if name is not None:
            w.constants[name] = np.array(arrays[0], order="C")
            w.define(value, name)
        elif all(a is arrays[0] or (a.shape == arrays[0].shape and a.tobytes() == arrays[0].tobytes()) for a in arrays):
            constants[value.traces[0]] = w.pending[_key(value)] = np.ascontiguousarray(arrays[0]).reshape(
                arrays[0].shape
            )
        else:
            w.define(value, make_constant(w, value, arrays))
    return constants


def _fold(value: TracedValue, constants: dict[Value, Array]) -> bool:
    """Compute an equation of constants alone, if its result is small; return whether that was done."""
    first = value.traces[0]
    if (
        value.op is None
        or value.op.family in ("random", "collective")
        or value.op.effect
        or first.nbytes > MAX_FOLDED_BYTES
        or has_free_number((value.shape, tuple(value.params.values()), value.inputs))
        or value.params.get("kind") is not None
        or not all(x in constants for x in first.operands)
    ):
        return False
    constants[first] = np.asarray(evaluate_equation(first, constants))
    return True


def _name_outputs(w: OnnxWriter, graph: MergedGraph, input_names: Sequence[str], output_names: Sequence[str]) -> None:
    """Give the values that are outputs the wanted names; an input or a weight, or one named already, by a copy."""
    renamed: dict[str, str] = {}
    fixed = {*input_names, *w.constants}
    copies = []
    for value, name in zip(graph.outputs, output_names, strict=True):
        current = w.name_of(value)
        if current in fixed or current in w.constants or current in renamed:
            copies.append((current, name))
        else:
            renamed[current] = name
    for node in w.nodes:
        node.input[:] = [renamed.get(x, x) for x in node.input]
        node.output[:] = [renamed.get(x, x) for x in node.output]
    from onnx import helper

    for current, name in copies:
        node_name = w.new_name(f"{name}_copy")
        w.nodes.append(helper.make_node("Identity", [renamed.get(current, current)], [name], name=node_name))


def _make_initializers(w: OnnxWriter) -> list[Operand]:
    from onnx import numpy_helper

    used = {x for node in w.nodes for x in node.input}
    return [numpy_helper.from_array(array, name) for name, array in w.constants.items() if name in used]


def _describe_tensor(name: str, value: TracedValue, labels: Mapping[int, str]) -> Operand:
    from onnx import helper

    if value.dtype.kind == "c":
        raise OnnxExporterError(f"torch.onnx.export: {name!r} has complex numbers, which ONNX's operators do not take")
    dims = [labels.get(axis) if isinstance(n, FreeNumber) else n for axis, n in enumerate(value.shape)]
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype), dims)


__all__ = ["build_model", "creation", "elementwise", "indexing", "layers", "reduction"]
