"""One node of the backward walk: from the gradient of its outputs to those of its inputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from adjoint.autograd.engine.complex_grads import by_rule
from adjoint.autograd.engine.graph_task import NOTHING, Gradients, Slots, call_hooks
from adjoint.autograd.engine.saved_values import arguments, as_tensors, opened, usable
from adjoint.autograd.engine.where_masks import ELEMENTWISE, held_back
from adjoint.core.graph.grad_dtype import ANY
from adjoint.core.graph.node import Node, Output
from adjoint.core.op.op import Rule
from adjoint.core.runtime.mode import follow
from adjoint.core.tensor.tensor import Tensor, wrap
from adjoint.ops.elementwise.select import cast
from adjoint.ops.reduction.reduction import sum_to

ndarray = np.ndarray


def pull(gradients: Gradients, node: Any, g: Any, mask: Any = None) -> Sequence[Any]:
    """The gradients of the node's inputs, each in its input's shape and type; hooks on the node see both sides.

    `mask`: where `g` holds no gradient at all.
    """
    if type(node) is Output:
        slots = Slots([None] * node.owner.outputs)
        slots[node.number] = None if g is NOTHING else g
        return (slots,)
    if node.hooks is None or not (node.hooks.before or node.hooks.after or node.hooks.outputs):
        return run_rules(gradients, node, g, mask)
    given = [gradients.to_tensor(one) for one in (g if type(g) is Slots else [g])]
    for number, reference in node.hooks.outputs.items():
        output = reference()
        if output is not None and output.hooks is not None and given[number] is None:
            call_hooks(output.hooks.on_gradient, None)
    given = run_before(node, given)
    own = [None if one is None else gradients.to_own(one) for one in given]
    inner = Slots(own) if type(g) is Slots else NOTHING if own[0] is None else own[0]
    pulled = run_rules(gradients, node, inner, mask)
    returned = run_after(node, [gradients.to_tensor(d) for d in pulled], given)
    return [gradients.to_own(d) for d in returned]


def run_rules(gradients: Gradients, node: Any, g: Any, mask: Any) -> Sequence[Any]:
    """As `pull`, without the hooks on the node."""
    if isinstance(node, Node):
        return _pull_op(gradients, node, g, mask)
    given = [gradients.to_tensor(one) for one in g] if type(g) is Slots else [gradients.to_tensor(g)]
    pulled = node.pull(given)
    return [
        NOTHING if d is None or parent is None else fit(gradients, gradients.to_own(d), parent)
        for d, parent in zip(pulled, node.parents, strict=True)
    ]


def _pull_op(gradients: Gradients, node: Node, g: Any, mask: Any) -> Sequence[Any]:
    if g is NOTHING:
        return [NOTHING] * len(node.parents)
    saved = usable(gradients, node) if gradients.bare else opened(gradients, node)
    if not gradients.bare:
        follow(node)
    if saved is not None and not gradients.bare:
        saved = as_tensors(node, saved, gradients.create_graph)
    op, useful = node.op, gradients.useful
    pulled = []
    for i, parent in enumerate(node.parents):
        if parent is None or (useful is not None and parent not in useful):
            pulled.append(NOTHING)
            continue
        rule: Any = op.rule(i)
        if rule is None:
            parent.refuse()
        d = by_rule(op, i, node.dtype, g, arguments(node, rule, saved, i))
        if gradients.bare:
            d = remade(gradients, node, rule, d, g, i)
        if mask is not None and node.op.family in ELEMENTWISE:
            d = held_back(d, mask)
        pulled.append(fit(gradients, d, parent))
    return pulled


def remade(gradients: Gradients, node: Node, rule: Rule, d: Any, g: Any, i: int = 0) -> Any:
    """What the rule made of bare arrays, as an array of the type it would have made of tensors.

    NumPy's promotion is not ours (a 0-d float64 widens a float32): where types were mixed, the rule runs again on
    tensors.
    """
    if type(d) is not ndarray:
        d = d.array if isinstance(d, Tensor) else np.asarray(d)
    if d.dtype != node.dtype:
        saved = None if node.saved is None else as_tensors(node, opened(gradients, node), False)
        d = by_rule(node.op, i, node.dtype, wrap(g), arguments(node, rule, saved, i)).array
    return d


def fit(gradients: Gradients, d: Any, parent: Any) -> Any:
    """`d` summed to the shape of its input, where that was broadcast, and in its type."""
    array = d if gradients.bare else d.array
    if array.shape == parent.shape and array.dtype == parent.dtype:
        return d
    tensor = wrap(d) if gradients.bare else d
    if array.shape != parent.shape:
        tensor = sum_to(tensor, parent.shape)
    if array.dtype != parent.dtype and parent.dtype is not ANY:
        tensor = cast(tensor, dtype=parent.dtype)
    return gradients.to_own(tensor)


def run_before(node: Any, given: list[Any]) -> list[Any]:
    """Let the node's prehooks see, and replace, the gradients of its outputs."""
    for hook in list(node.hooks.before.values()):
        given = _replaced(hook, hook(tuple(given)), given)
    return given


def run_after(node: Any, pulled: list[Any], given: list[Any]) -> list[Any]:
    """Let the node's hooks see the gradients on both sides, and replace those of its inputs."""
    for hook in list(node.hooks.after.values()):
        pulled = _replaced(hook, hook(tuple(pulled), tuple(given)), pulled)
    return pulled


def _replaced(hook: Any, returned: Any, before: list[Any]) -> list[Any]:
    if returned is None:
        return before
    after = list(returned) if isinstance(returned, (tuple, list)) else [returned]
    if len(after) != len(before):
        name = getattr(hook, "__name__", repr(hook))
        raise RuntimeError(
            f"hook {name!r} has returned an incorrect number of values (got {len(after)}, but expected {len(before)})"
        )
    return after
