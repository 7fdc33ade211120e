"""The call of an op: evaluate, wrap, record."""

from __future__ import annotations

import numpy as np

from adjoint.core.dtype.dtype import FLOATING, default
from adjoint.core.graph.node import GraphNode, Node, Parents, SavedValues, next_sequence_nr
from adjoint.core.graph.not_implemented import Undifferentiable
from adjoint.core.graph.source_location import user_instruction
from adjoint.core.op import bfloat16
from adjoint.core.op.evaluation import _promote_operands, compute, evaluate
from adjoint.core.op.op import Op
from adjoint.core.op.op_errors import EVALUATION_ERRORS, retry_ignoring_fp_errors
from adjoint.core.op.op_timer import find_op_timer
from adjoint.core.op.recorder import allocate_tensor, attach_node
from adjoint.core.runtime.interpreter import Interpreter
from adjoint.core.runtime.mode import ModeScope, mode, nondefault, recorded_by_caller
from adjoint.core.tensor.external_aliases import copy_if_aliased, externally_aliased
from adjoint.core.tensor.meta import any_meta
from adjoint.core.tensor.shape_tracer import call_on_meta
from adjoint.core.tensor.storage import InferenceLeaf, is_inference
from adjoint.core.tensor.tensor import Tensor, restore_saved, wrap
from adjoint.core.typing import Operand, Operands, Params

ndarray, generic = np.ndarray, np.generic  # 0-d gradients between NumPy's functions are scalars
NO_PARAMS: Params = {}


def apply(op: Op, inputs: Operands, params: Params) -> Tensor:
    """Call an op with any number of inputs (tensors, arrays, numbers, None): promote, trace, evaluate, record."""
    modes = mode.__dict__ if nondefault.count else None  # this thread's: 13 ns against 33 for one attribute of it
    if default.narrow or (modes is not None and (modes["alters_ops"] or nondefault.meta_tensors)):
        return _apply_slow(op, inputs, params)
    given, found, recorded = [], [], False
    for x in inputs:  # a loop, twice as fast as a comprehension in Python 3.11
        if type(x) is Tensor or isinstance(x, Tensor):
            given.append(x.array)
            node = x.node
            found.append(node)
            if node is not None:
                recorded = True
        else:
            given.append(_scalar(op, inputs, x) if type(x) is not ndarray and isinstance(x, generic) else x)
            found.append(None)
    arrays = tuple(given)
    operands = arrays if op.promotion is None else _promote_operands(op, arrays)
    if op.native is None:
        try:
            data = op.evaluate(*operands, **params)  # as `evaluate` does it, which would be one more call
        except EVALUATION_ERRORS as error:
            data = retry_ignoring_fp_errors(op, operands, params, error)
        if type(data) is not ndarray:
            data = np.asarray(data)
    else:
        data = compute(op, operands, params)
    out = allocate_tensor()
    out.array = data
    out.node = out._grad = out.storage_ = None
    if modes is not None:
        cut = modes["detach_record"]
        if cut is not None:
            out._detach_record, out.storage_ = cut, cut.memory
        recorded = recorded and modes["recording"]
    if recorded:
        _record_with_nodes(op, inputs, arrays, params, out, tuple(found))
    return out


def _scalar(op: Op, inputs: Operands, x: np.generic) -> Operand:
    """Return a scalar of NumPy's as a Python number beside tensors; between arrays it stands for one."""
    return x.item() if op.promotion is not None and any(isinstance(y, Tensor) for y in inputs) else np.asarray(x)


def _apply_slow(op: Op, inputs: Operands, params: Params) -> Tensor:
    """Call an op where a thread has left the default modes, or where arrays may be bfloat16."""
    modes = mode.__dict__ if nondefault.count else None  # this thread's: 13 ns against 33 for one attribute of it
    special = modes is not None and modes["is_intercepted"]
    if special and mode.forward_levels is not None:
        pushed = mode.forward_levels.call(op, inputs, params)
        if pushed is not None:
            return pushed
    if default.narrow:
        op = bfloat16.float32_variant_of(op, inputs)
    interpreter = mode.interpreter if special else None
    if interpreter is None and nondefault.meta_tensors and any_meta(inputs):
        return call_on_meta(_apply_slow, op, inputs, params)
    if interpreter is not None:
        if op.runs_user_code or mode.saved_tensor_hooks or any(map(callable, params.values())):
            return _apply_intercepted(interpreter, op, inputs, params)
        return interpreter.run_library_code(_apply_intercepted, interpreter, op, inputs, params)
    if special and (timer := find_op_timer()) is not None:
        timer.begin_op(op.name)
    arrays = tuple(
        [x.array if isinstance(x, Tensor) else _scalar(op, inputs, x) if isinstance(x, generic) else x for x in inputs]
    )
    operands = arrays if op.promotion is None else _promote_operands(op, arrays)
    out = wrap(evaluate(op, operands, params) if op.native is None else compute(op, operands, params))
    if modes is not None and modes["detach_record"] is not None:
        out._detach_record = modes["detach_record"]
        out.storage_ = modes["detach_record"].memory
    if modes is None or modes["recording"]:
        _record(op, inputs, arrays, params, out)
    if special and mode.anomaly_detector is not None:
        mode.anomaly_detector.observe_op(op, inputs, out)
    return out


def _apply_intercepted(interpreter: Interpreter, op: Op, inputs: Operands, params: Params) -> Tensor:
    """Call an op that an interpreter receives in place of NumPy."""
    if op.composite is None:
        data = interpreter.emit(op, inputs, params)
        if data is None:  # it leaves to NumPy what it need not see
            with ModeScope(interpreter=None, recording=False):
                data = apply(op, inputs, params).array
    elif (op.family == "fused" or op is op.float32_variant) and mode.recording:
        with recorded_by_caller():
            data = _apply_composite(op, inputs, params, interpreter).array
    else:
        return _apply_composite(op, inputs, params, interpreter)
    arrays = interpreter.symbols(inputs)
    out = wrap(data)
    if mode.recording:
        _record(op, inputs, arrays, params, out)
    if mode.anomaly_detector is not None:
        mode.anomaly_detector.observe_op(op, inputs, out)
    return out


def _apply_composite(op: Op, inputs: Operands, params: Params, tracer: Interpreter) -> Tensor:
    """Call the composite of an op, which consists of other ops."""
    assert op.composite is not None
    composed: Tensor = op.composite(*inputs, **params)
    if not op.preserves_strides and (op.family == "fused" or op.native is not None):
        tracer.mark_row_major(composed)
    return composed


def _record(op: Op, inputs: Operands, arrays: Operands, params: Params, out: Tensor) -> None:
    """Give `out` its node."""
    _record_with_nodes(
        op, inputs, arrays, params, out, tuple([x.node if isinstance(x, Tensor) else None for x in inputs])
    )


def _record_with_nodes(op: Op, inputs: Operands, arrays: Operands, params: Params, out: Tensor, nodes: Parents) -> None:
    if nondefault.count and mode.level_floor >= 0:
        nodes = tuple([None if n is None or n.sequence_nr < mode.level_floor else n for n in nodes])
    if not any(nodes):
        return
    mixed = (
        nondefault.inference_used and not mode.in_transform and not all(nodes) and any(is_inference(x) for x in inputs)
    )
    if mixed:
        nodes = tuple(
            x.storage_.leaf if n is None and isinstance(x, Tensor) and type(x.storage_) is InferenceLeaf else n
            for x, n in zip(inputs, nodes, strict=True)
        )
    data = out.array
    if data.dtype.kind not in FLOATING:
        return
    parents = nodes
    for i in op.inputs_without_rule:
        if nodes[i] is not None or (op.variadic and i == len(op.rules) - 1 and any(nodes[i:])):
            parents = tuple([
                n if n is None or op.rule(i) is not None else Undifferentiable(op, n, arrays[i])
                for i, n in enumerate(nodes)
            ])  # fmt: skip
            break
    saved = None
    if op.saves:
        keeps = op.saved_mask(tuple(map(bool, parents)))
        if keeps is not None:
            if mixed and any(kept and is_inference(x) for kept, x in zip(keeps, inputs, strict=False)):
                raise RuntimeError(INFERENCE_SAVED_ERROR)
            saved = _collect_saved(keeps, inputs, arrays, data)
    shapes = tuple([getattr(a, "shape", ()) for a in arrays]) if op.saves_shapes else None
    node = attach_node(out, op, parents, params, shapes, saved)
    if saved is not None and nondefault.count and mode.saved_tensor_hooks:
        node.saved_values = _pack_saved(node, inputs)


INFERENCE_SAVED_ERROR = (
    "Inference tensors cannot be saved for backward. Please do not use Tensors created in inference mode in "
    "computation tracked by autograd. To work around this, you can make a clone to get a normal tensor and use it in "
    "autograd, or use `no_grad()` instead of `inference_mode()`."
)


def make_node(
    op: Op,
    parents: Parents,
    params: Params,
    shapes: tuple[tuple[int, ...], ...] | None,
    like: Operand,
    shape: tuple[int, ...] | None = None,
) -> GraphNode | None:
    """Make a node of an op whose rules need no values, without evaluating it; None if no parent wants a gradient.

    The output has the type of `like`, and its shape unless `shape` is given.
    """
    if not any(parents):
        return None
    node = Node()  # 49 ns, where `object.__new__(Node)` takes 75
    node.op, node.parents, node.params, node.shapes = op, parents, params, shapes
    node.shape, node.dtype = like.shape if shape is None else shape, like.dtype
    node.code, node.instruction_offset = user_instruction(2)
    node.saved_values = node.hooks = None
    node.sequence_nr = next_sequence_nr()
    return node


def _collect_saved(keeps: tuple[bool, ...], inputs: Operands, arrays: Operands, data: Operand) -> tuple[Operand, ...]:
    kept = []
    for keep, a, given in zip(keeps, arrays, inputs):  # noqa: B905  the last of `keeps` is for `data`
        if not keep:
            a = None
        elif a is given and type(a) is ndarray:
            a = a.copy()  # the user's, who may write it
        kept.append(a)
    kept.append(data if keeps[-1] else None)
    return tuple([copy_if_aliased(a) for a in kept] if externally_aliased else kept)


def _pack_saved(node: Node, inputs: Operands) -> SavedValues:
    """Pass the saved values of a node to the innermost saved-tensor hooks."""
    packer = mode.saved_tensor_hooks[-1]
    tensors = [*inputs, None]
    return SavedValues(
        packer.pack(restore_saved(kept, maker) if not isinstance(given, Tensor) else given)
        if type(kept) is ndarray or (mode.interpreter is not None and hasattr(kept, "dtype"))
        else kept
        for kept, given, maker in zip(node.saved_values, tensors, (*node.parents, None), strict=True)
    )
