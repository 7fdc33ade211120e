"""The saved values of a node, and the other arguments of its gradient rules."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from adjoint.autograd.engine.graph_task import GraphTask
from adjoint.core.graph.node import FREED, GraphNode, Node, PackedValue, SavedValues, freed_error
from adjoint.core.op.op import Op, Rule
from adjoint.core.tensor.mutation_log import check_version, mutation_log
from adjoint.core.tensor.tensor import restore_saved
from adjoint.core.typing import Function, Operand, Operands

if TYPE_CHECKING:
    from adjoint.core.graph.tensor_like import TensorLike


def saved_arrays(gradients: GraphTask, node: Node) -> Any:
    """Return the arrays and numbers that the node saved. Raises as `check_saved` does."""
    saved = unpack_node_values(gradients, node)
    if type(saved) is SavedValues:
        return tuple(value.unpack().array if isinstance(value, PackedValue) else value for value in saved)
    return saved


def unpack_node_values(gradients: GraphTask, node: Node) -> Any:
    """Return the saved values; packed ones are opened once while the node runs. Raises as `check_saved` does."""
    saved = check_saved(node)
    if type(saved) is not SavedValues:
        return saved
    if gradients.unpacked_values[0] is not node:
        gradients.unpacked_values = (
            node,
            SavedValues(CachedUnpack(value) if isinstance(value, PackedValue) else value for value in saved),
        )
    return gradients.unpacked_values[1]


class CachedUnpack(PackedValue):
    """A packed value, and from the first time on what it was opened to."""

    __slots__ = ("packed", "tensor")

    def __init__(self, packed: PackedValue) -> None:
        self.packed = packed
        self.tensor: TensorLike | None = None

    def unpack(self) -> TensorLike:
        """Return the tensor that was saved."""
        if self.tensor is None:
            self.tensor = self.packed.unpack()
        return self.tensor


def check_saved(node: Node) -> tuple[Operand, ...] | SavedValues | None:
    """Return the saved values. Raises RuntimeError if they were freed, or written in place since."""
    if node.saved_values is FREED:
        raise freed_error(node, "recorded")
    if node.sequence_nr < mutation_log.last:
        for value in node.saved_values or ():
            for array in value.arrays() if isinstance(value, PackedValue) else (value,):
                if hasattr(array, "dtype"):
                    check_version(array, node)
    return node.saved_values


def saved_as_tensors(node: Node, saved: Operands, create_graph: bool) -> tuple[Operand, ...]:
    """Return the saved values as tensors; with their history if the backward pass itself is to be recorded."""
    makers = (*node.parents, node) if create_graph else (None,) * len(saved)
    pairs = zip(saved, makers, strict=True)
    return tuple([None if value is None else restore_saved(value, maker) for value, maker in pairs])


def free_saved_values(node: GraphNode, keep_numbers: bool) -> None:
    """Free what a node has saved, at the end of its part of a pass that frees the graph.

    A recorded pass keeps numbers: a composite saves them where the op that it stands for saves nothing.
    """
    saved = node.saved_values
    if not keep_numbers or type(saved) is not tuple or any(hasattr(value, "dtype") for value in saved):
        node.saved_values = FREED


def rule_arguments(node: Node, rule: Rule, saved: Any, i: int = 0) -> Sequence[Operand]:
    """Return the arguments that a rule asks for by name, besides the gradient."""
    return _argument_getter(node.op, rule)(node, saved, i)


def make_rule_call(op: Op, i: int) -> RuleCall:
    """Make the call of the rule of input `i` with all that it asks for, written out, and keep it with the op."""
    at = min(i, len(op.rules) - 1)
    rule = op.rules[at]
    assert rule is not None
    words, names = _argument_words(op, rule)
    text = f"lambda g, node, saved, i: rule(g, {', '.join(words)})"
    op.rule_calls[at] = made = _evaluate(text, op, {"rule": rule, **names})
    return made


SAVED, SHAPE, POSITION, PARAMETER = range(4)
ArgumentSource = tuple[int, Any, object]  # a part of the node, the key there, and a default
ArgumentGetter = Callable[[Node, Any, int], Sequence[Operand]]
RuleCall = Callable[[Operand, Node, Any, int], Operand]  # of the gradient, the node, its saved values and the input


@cache
def _argument_getter(op: Op, rule: Rule) -> ArgumentGetter:
    """Return the function that finds a rule's arguments, written out: a third of the time of a loop."""
    words, names = _argument_words(op, rule)
    return _evaluate(f"lambda node, saved, i: [{', '.join(words)}]", op, names)


def _evaluate(text: str, op: Op, names: dict[str, object]) -> Function:
    """Evaluate text as code of a file in this folder: it is no line of the user's, and no trace follows it."""
    code = compile(text, os.path.join(os.path.dirname(__file__), f"<rule of {op.name}>"), "eval")
    function: Function = eval(code, names)
    return function


def _argument_words(op: Op, rule: Rule) -> tuple[list[str], dict[str, object]]:
    """Return the text of each argument of a rule, and the values that it names."""
    words: list[str] = []
    defaults: list[object] = []
    for source, key, default in _argument_plan(op, rule):
        if source == SAVED:
            words.append(f"saved[{_subscript(key)}]")
        elif source == SHAPE:
            words.append(f"node.shapes[{_subscript(key)}]")
        elif source == POSITION:
            words.append(f"i - {key}")
        elif default is inspect.Parameter.empty:
            words.append(f"node.params[{key!r}]")
        else:
            words.append(f"({{}} if node.params is None else node.params).get({key!r}, defaults[{len(defaults)}])")
            defaults.append(default)
    return words, {"defaults": defaults}


def _subscript(key: int | slice | None) -> str:
    return f"{key.start}:{'' if key.stop is None else key.stop}" if isinstance(key, slice) else f"{key}"


@cache
def _argument_plan(op: Op, rule: Rule) -> tuple[ArgumentSource, ...]:
    """Return the source of each argument of a rule."""
    last = len(op.inputs) - 1
    defaults = inspect.signature(op.evaluate).parameters
    plan: list[ArgumentSource] = []
    for name in op.needs[op.rules.index(rule)]:
        stem = name.removesuffix("_shape")
        place = op.inputs.index(stem) if stem in op.inputs else None
        many = op.variadic and place == last
        if name == "out":
            plan.append((SAVED, -1, None))
        elif name == "i":
            plan.append((POSITION, last, None))
        elif name in op.inputs:
            plan.append((SAVED, slice(place, -1) if many else place, None))
        elif place is not None:
            plan.append((SHAPE, slice(place, None) if many else place, None))
        else:
            plan.append((PARAMETER, name, defaults[name].default))
    return tuple(plan)
