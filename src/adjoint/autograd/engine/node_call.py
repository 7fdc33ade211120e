"""One node of the backward walk: from the gradient of its outputs to those of its inputs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from adjoint.autograd.engine.graph_task import UNDEFINED, GraphTask, OutputGrads, run_gradient_hooks
from adjoint.autograd.engine.saved_values import rule_arguments, saved_arrays, saved_as_tensors, unpack_node_values
from adjoint.autograd.engine.where_masks import apply_where_mask, is_elementwise
from adjoint.core.dtype.dtype import default
from adjoint.core.graph.grad_dtype import ANY_DTYPE
from adjoint.core.graph.hooks import NodeHooks
from adjoint.core.graph.node import GraphNode, Node, OutputSlot, SavedValues, Vertex
from adjoint.core.graph.not_implemented import refuse_gradient
from adjoint.core.op.op import Op, Rule
from adjoint.core.runtime.mode import mode, set_backward_origin
from adjoint.core.tensor.mutation_log import mutation_log
from adjoint.core.tensor.sparse_array import SparseArray
from adjoint.core.tensor.tensor import Tensor, wrap
from adjoint.core.typing import Function, NumpyDtype, Operand
from adjoint.ops.elementwise.complex import conj
from adjoint.ops.elementwise.select import cast
from adjoint.ops.movement.split import SplitOutputs
from adjoint.ops.reduction.reduction import sum_array_to, sum_to

ndarray = np.ndarray


def call_node(
    gradients: GraphTask, node: GraphNode | OutputSlot, g: Operand, mask: Operand = None
) -> Sequence[Operand]:
    """Return the gradients of the node's inputs, in their shapes and dtypes; hooks on the node see both sides.

    `mask`: where `g` holds no gradient at all.
    """
    if type(node) is OutputSlot:
        slots = OutputGrads([None] * node.owner.outputs)
        slots[node.number] = None if g is UNDEFINED else g
        return (slots,)
    if node.hooks is None or not (node.hooks.before or node.hooks.after or node.hooks.outputs):
        return apply_rules(gradients, node, g, mask)
    given = [gradients.wrap_gradient(one) for one in (g if type(g) is OutputGrads else [g])]
    for number, reference in node.hooks.outputs.items():
        output = reference()
        if output is not None and output.hooks is not None and given[number] is None:
            run_gradient_hooks(output.hooks.tensor_pre_hooks, None)
    given = run_pre_hooks(node.hooks, given)
    own = [None if one is None else gradients.unwrap_gradient(one) for one in given]
    inner = OutputGrads(own) if type(g) is OutputGrads else UNDEFINED if own[0] is None else own[0]
    pulled = apply_rules(gradients, node, inner, mask)
    returned = run_post_hooks(node.hooks, [gradients.wrap_gradient(d) for d in pulled], given)
    return [gradients.unwrap_gradient(d) for d in returned]


def apply_rules(gradients: GraphTask, node: GraphNode, g: Operand, mask: Operand) -> Sequence[Operand]:
    """Return what `call_node` does, without the hooks on the node."""
    if isinstance(node, Node):
        interpreter = None if gradients.on_arrays else mode.interpreter
        if interpreter is None or node.op.runs_user_code or type(node.saved_values) is SavedValues:
            return _apply_op_rules(gradients, node, g, mask)
        return interpreter.run_library_code(_apply_op_rules, gradients, node, g, mask)
    dense = type(g) is OutputGrads and all(one is None or type(one) is ndarray for one in g)
    if dense and isinstance(node, SplitOutputs):
        return [sum_to_input(gradients, node.pull_arrays(g), node.parents[0])]
    given = [gradients.wrap_gradient(one) for one in g] if type(g) is OutputGrads else [gradients.wrap_gradient(g)]
    pulled = node.pull(given)
    return [
        UNDEFINED if d is None or parent is None else sum_to_input(gradients, gradients.unwrap_gradient(d), parent)
        for d, parent in zip(pulled, node.parents, strict=True)
    ]


def _apply_op_rules(gradients: GraphTask, node: Node, g: Operand, mask: Operand) -> Sequence[Operand]:
    if g is UNDEFINED:
        return [UNDEFINED] * len(node.parents)
    on_arrays, saved = gradients.on_arrays, node.saved_values
    if saved is not None and (type(saved) is not tuple or node.sequence_nr < mutation_log.last):
        saved = saved_arrays(gradients, node) if on_arrays else unpack_node_values(gradients, node)
    if not on_arrays:
        set_backward_origin(node)
        if saved is not None:
            saved = saved_as_tensors(node, saved, gradients.create_graph)
    op, useful = node.op, gradients.needed_nodes
    is_real = node.dtype.kind != "c"
    pulled = []
    for i, parent in enumerate(node.parents):
        if parent is None or (useful is not None and parent not in useful):
            pulled.append(UNDEFINED)
            continue
        rule = op.rule(i)
        if rule is None:
            refuse_gradient(parent)
        arguments = rule_arguments(node, rule, saved, i)
        d: Operand = rule(g, *arguments) if is_real else call_gradient_rule(op, i, node.dtype, g, arguments)
        if on_arrays:
            d = recompute_typed(gradients, node, rule, d, g, i)
        if mask is not None and is_elementwise(op):
            d = apply_where_mask(d, mask)
        array = d if on_arrays else d.array
        is_typed = type(array) is ndarray and array.dtype is parent.dtype and array.shape == parent.shape
        pulled.append(d if is_typed else sum_to_input(gradients, d, parent))
    return pulled


def deliver_to_owner(gradients: GraphTask, slot: OutputSlot, g: Operand) -> bool:
    """Add the gradient of one of several outputs to those of its node; True if it is the first that arrives there."""
    owner, have = slot.owner, gradients.input_buffers.get(slot.owner)
    if have is None or have[slot.number] is not None:
        return gradients.add_gradient(owner, call_node(gradients, slot, g)[0])
    have[slot.number] = g
    return False


def call_gradient_rule(op: Op, i: int, dtype: NumpyDtype, g: Operand, arguments: Sequence[Operand]) -> Operand:
    """Return the gradient of input `i` of an op whose output has dtype `dtype` and gradient g.

    The gradient of a real L by z = x + iy is ∂L/∂x + i ∂L/∂y, PyTorch's convention. For a function f that is
    differentiable as a complex function, the gradient by z is conj(f'(z)) g. Rules compute f'(z) g, which is the same
    for real numbers. So the rule runs on conj(g), and its result is conjugated. If a rule reads no value, f' is real
    and this is skipped.
    """
    rule: Operand = op.rule(i)
    needs = op.needs[min(i, len(op.needs) - 1)]
    if dtype.kind != "c" or not op.holomorphic or not ("out" in needs or any(name in op.inputs for name in needs)):
        return rule(g, *arguments)
    if type(g) is np.ndarray:
        d = rule(np.conjugate(g), *arguments)
        return np.conjugate(d.array if isinstance(d, Tensor) else d)
    return conj(rule(conj(g), *arguments))


def recompute_typed(gradients: GraphTask, node: Node, rule: Rule, d: Operand, g: Operand, i: int = 0) -> Operand:
    """Return the rule's result `d` on bare arrays as an array of the dtype that it gives on tensors.

    NumPy's promotion is not ours: a 0-d float64 widens a float32. Where dtypes were mixed, the rule runs again on
    tensors.
    """
    if type(d) is SparseArray:
        return d
    if type(d) is not ndarray:
        d = d.array if isinstance(d, Tensor) else np.asarray(d)
    if d.dtype != node.dtype:
        saved = (
            None if node.saved_values is None else saved_as_tensors(node, unpack_node_values(gradients, node), False)
        )
        d = call_gradient_rule(node.op, i, node.dtype, wrap(g), rule_arguments(node, rule, saved, i)).array
    return d


def sum_to_input(gradients: GraphTask, d: Operand, parent: Vertex) -> Operand:
    """Return `d` in the dtype of its input, summed to its shape where that was broadcast."""
    array = d if gradients.on_arrays else d.array
    # where shapes have symbols, those of other lengths are told apart without a question about sizes
    alike = gradients.on_arrays or len(array.shape) == len(parent.shape)
    if alike and array.shape == parent.shape and array.dtype == parent.dtype:
        return d
    if gradients.on_arrays and array.dtype == parent.dtype and not (default.narrow or mode.needs_slow_path):
        return sum_array_to(array, parent.shape)
    tensor = wrap(d) if gradients.on_arrays else d
    if not alike or array.shape != parent.shape:
        tensor = sum_to(tensor, parent.shape)
    if array.dtype != parent.dtype and parent.dtype is not ANY_DTYPE:
        tensor = cast(tensor, dtype=parent.dtype)
    return gradients.unwrap_gradient(tensor)


def run_pre_hooks(hooks: NodeHooks, given: list[Tensor | None]) -> list[Tensor | None]:
    """Let the node's prehooks see, and replace, the gradients of its outputs."""
    for hook in list(hooks.before.values()):
        given = _apply_hook_result(hook, hook(tuple(given)), given)
    return given


def run_post_hooks(hooks: NodeHooks, pulled: list[Tensor | None], given: list[Tensor | None]) -> list[Tensor | None]:
    """Let the node's hooks see the gradients on both sides, and replace those of its inputs."""
    for hook in list(hooks.after.values()):
        pulled = _apply_hook_result(hook, hook(tuple(pulled), tuple(given)), pulled)
    return pulled


def _apply_hook_result(hook: Function, returned: Operand, before: list[Tensor | None]) -> list[Tensor | None]:
    if returned is None:
        return before
    after = list(returned) if isinstance(returned, (tuple, list)) else [returned]
    if len(after) != len(before):
        name = getattr(hook, "__name__", repr(hook))
        raise RuntimeError(
            f"hook {name!r} has returned an incorrect number of values (got {len(after)}, but expected {len(before)})"
        )
    return after
