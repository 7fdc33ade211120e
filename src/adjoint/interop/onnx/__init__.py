"""`adjoint.onnx`: models as ONNX files, for runtimes of other languages and devices.

Modules, in reading order:

- `export`: `adjoint.onnx.export`: a model as an ONNX file, under PyTorch's name and signature.
- `free_axes`: Free axes of the inputs: how `dynamic_axes` and `dynamic_shapes` name them, and the sizes to trace them
  at.
- `traces_of_sizes`: Traces at several sizes of the free axes: which sizes a model takes is found by trying.
- `capture`: Capture of a model as a graph: one trace for each of a few sizes of the free axes, merged into one.
- `merge_captures`: One graph of several traces: the same equations, whose numbers may differ with the sizes of the
  free axes.
- `free_numbers`: Numbers of a traced graph that depend on free axes: known by their values at a few sizes of these
  axes.
- `build_model`: The way from a captured graph to an ONNX model: inputs, weights under their names, nodes, outputs.
- `graph_writer`: The ONNX graph that an export writes: nodes, constants, and free numbers as nodes that compute them.
- `size_relations`: Relations between sizes: a free number as an expression of the dimensions that a running model can
  ask for.
- `size_constants`: Constants that depend on the sizes of free axes: recognised as ranges, triangles, or positions
  beyond an edge.
- `translation`: Table of the translations: from the name of an op to the function that appends its nodes.
- `elementwise`: Translation of the ops of single elements.
- `movement`: Translation of the ops that move elements: shapes, orders, slices, padding, joins.
- `creation`: Translation of the ops that make elements.
- `reduction`: Translation of reductions, running sums, and positions in an order.
- `indexing`: Translation of indexing with tensors, gathers and scatters.
- `layers`: Translation of products, convolutions, pooling, attention, interpolation and recurrent layers.
- `onnx_program`: The exported model: its protobuf, saved with or without its weights, and run for comparison.
- `modes`: Modes of an export, under PyTorch's names, and its errors.
"""

from adjoint.interop.onnx.export import export as export
from adjoint.interop.onnx.modes import OnnxExporterError as OnnxExporterError
from adjoint.interop.onnx.modes import OnnxExporterWarning as OnnxExporterWarning
from adjoint.interop.onnx.modes import OperatorExportTypes as OperatorExportTypes
from adjoint.interop.onnx.modes import TrainingMode as TrainingMode
from adjoint.interop.onnx.modes import UnsupportedOperatorError as UnsupportedOperatorError
from adjoint.interop.onnx.modes import is_in_onnx_export as is_in_onnx_export
from adjoint.interop.onnx.modes import register_custom_op_symbolic as register_custom_op_symbolic
from adjoint.interop.onnx.modes import unregister_custom_op_symbolic as unregister_custom_op_symbolic
from adjoint.interop.onnx.onnx_program import ONNXProgram as ONNXProgram

__all__ = [
    "ONNXProgram",
    "OnnxExporterError",
    "OnnxExporterWarning",
    "OperatorExportTypes",
    "TrainingMode",
    "UnsupportedOperatorError",
    "export",
    "is_in_onnx_export",
    "register_custom_op_symbolic",
    "unregister_custom_op_symbolic",
]
