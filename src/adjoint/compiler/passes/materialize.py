"""Deciding what lies in memory: movements become views, and copies are put where a view cannot say it."""

from __future__ import annotations

from functools import cache

from adjoint.compiler.ir.graph import Graph, Value, op_of
from adjoint.compiler.ir.strided_view import StridedView, strided_view_of
from adjoint.compiler.kernels.kernel_kinds import KERNEL_KINDS, ROWS
from adjoint.core.typing import NumpyDtype
from adjoint.ops.elementwise.select import copy

COPY_OP = op_of(copy)
WHOLE_ARRAY_FAMILIES = ("convolution", "pooling")  # whose kernels take whole arrays
BFLOAT16_OPS = ("cast", "copy", "where")  # what kernels do with bfloat16, of which they compute nothing
GENERATED_FAMILIES = ("full", "iota")  # values which a kernel makes from the index, without memory


def is_view_or_generated(value: Value) -> bool:
    """True if the value needs no memory of its own: a view, a constant fill, a range."""
    op = value.op
    return op is not None and (op.index is not None or (op.family in GENERATED_FAMILIES and is_generated(value)))


def is_generated(value: Value) -> bool:
    """True for a constant fill or a range of a type that kernels compute; NumPy makes those of other types."""
    return value.op is not None and value.op.family in GENERATED_FAMILIES and _are_kernel_types(True, value.dtype)


def materialize_views(graph: Graph) -> Graph:
    """The graph with copies where needed: before a reshape that strides cannot express, and where an output, or the
    operand of a call, would be virtual.
    """
    out = Graph(graph.name, graph.sizes)
    out.inputs = graph.inputs
    renamed: dict[Value, Value] = {v: v for v in graph.inputs}
    views: dict[Value, StridedView] = {}
    copies: dict[Value, Value] = {}

    def in_memory(value: Value) -> Value:
        if value not in copies:
            copies[value] = out.add(COPY_OP, (value,), {}, value, value.origin)
        return copies[value]

    for v in graph.equations:
        inputs = tuple([renamed[i] if isinstance(i, Value) else i for i in v.inputs])
        if v.op.index is not None:
            made = Value(v.op, inputs, v.params, v, v.origin)
            if strided_view_of(made, views) is None:
                made = Value(v.op, (in_memory(inputs[0]),), v.params, v, v.origin)
                assert strided_view_of(made, views) is not None, f"{v.op.name} of a contiguous array is no view"
            out.equations.append(made)
        else:
            if not is_kernel_op(v):
                inputs = tuple(
                    in_memory(i) if isinstance(i, Value) and not _can_read_in_place(v, i, views) else i for i in inputs
                )
            made = out.add(v.op, inputs, v.params, v, v.origin)
        renamed[v] = made
    given: set[Value] = set()
    for v in graph.outputs:
        made = renamed[v]
        if made in given or is_view_or_generated(made) or made.op is None:
            copies.pop(made, None)  # results that happen to be equal still have memory of their own
            made = in_memory(made)
        given.add(made)
        out.outputs.append(made)
    return out


def _can_read_in_place(v: Value, operand: Value, views: dict[Value, StridedView]) -> bool:
    """True if an equation that is no loop can take an operand where it lies."""
    view = strided_view_of(operand, views)
    if view is None or is_generated(view.base):
        return view is None
    if v.op.family in WHOLE_ARRAY_FAMILIES:
        return view.is_linear
    if KERNEL_KINDS.get(v.op.name) is ROWS:
        from adjoint.compiler.kernels.rows.plan import can_read_lines

        return can_read_lines(view, v.params)
    return v.op.family != "attention" or not view.strides or view.strides[-1] == 1 or view.shape[-1] == 1


def is_kernel_op(value: Value) -> bool:
    """True if native code computes this equation; False if NumPy is called."""
    op = value.op
    if op.effect or (op.scalar is None and op.combine is None) or (op.raises and may_raise(value)):
        return False
    return _are_kernel_types(op.name in BFLOAT16_OPS, value.dtype, *[v.dtype for v in value.operands])


def may_raise(value: Value) -> bool:
    """True if values can make the equation's NumPy function raise, which native code cannot."""
    raises = value.op.raises
    return bool(raises(*value.inputs, **value.params)) if callable(raises) else raises


@cache
def _are_kernel_types(moves: bool, *types: NumpyDtype) -> bool:
    """True if native code has all of these types; bfloat16 only where it `moves` numbers."""
    kinds = "biuV" if moves else "biu"
    return all(t.kind in kinds or (t.kind == "f" and t.itemsize in (4, 8)) for t in types)
