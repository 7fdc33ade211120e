"""The tensors that leave a traced step: made by each call, handed on, or sharing the memory of one of these."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

import numpy as np

from adjoint.compiler.ir.graph import StateInput, TraceError, Value, op_of
from adjoint.compiler.trace.frames.constants import is_plain
from adjoint.compiler.trace.frames.host_functions import HostGenerator
from adjoint.compiler.trace.numbers.number_text import is_late_text
from adjoint.compiler.trace.numbers.symbolic_number import is_symbolic_number
from adjoint.compiler.trace.step_memory import MemoryReplacement
from adjoint.compiler.trace.step_outputs import (
    AliasRef,
    Effect,
    MadeLeaf,
    OutputRef,
    Rebinding,
    ResultFacts,
    StepEffects,
    collect_gradients,
)
from adjoint.compiler.trace.symbolic_mutation import trace_views_to
from adjoint.compiler.trace.symbolic_strides import dense_dim_order, is_view
from adjoint.compiler.trace.tracer import Tracer
from adjoint.core.graph.node import Leaf, OutputSlot
from adjoint.core.op.spec import Spec
from adjoint.core.runtime import pytree
from adjoint.core.tensor.sparse_array import is_sparse, sparse_store_slot
from adjoint.core.tensor.storage import DEFAULT_CREATION, InferenceStorage, View, ViewStep, storage_of, view_of
from adjoint.core.tensor.tensor import Tensor, wrap
from adjoint.core.typing import Operand
from adjoint.ops.movement.movement import permute
from adjoint.ops.movement.split import SplitOutputs

PERMUTE_OP = op_of(permute)


class ResultTable:
    """The tensors that a call is to make or to share, each once however often it is returned or kept."""

    def __init__(self, tracer: Tracer, outcome: StepEffects, given: list[Operand]) -> None:
        self.tracer, self.outcome = tracer, outcome
        self.tensors: list[Tensor] = []
        self.made_leaves: dict[int, MadeLeaf] = {}  # by their ids
        self._numbers: dict[int, int] = {}
        self._aliases: dict[int, int] = {}
        self._roots: dict[Value, Tensor] = {}  # tensors for memories of which the step kept parts alone
        self._arguments = {id(x): i for i, x in enumerate(given) if isinstance(x, Tensor)}
        self._expected: dict[int, object] = {}  # by their ids: what the call returns or keeps
        self._states: dict[int, Value | None] = {id(t): None for t in tracer.captured_tensors()}
        self._states.update((id(t), symbol) for t, _, symbol in tracer.state)
        # what stands for the memory that a tensor had before the step replaced it: the tensor, before a call does so
        self._former = {id(r.former): r.tensor for r in tracer.replaced.values() if r.former is not None}
        self._gradients = {
            id(t._grad): self._arguments.get(id(t), t)
            for t, before, _ in tracer.gradients.values()
            if t._grad is not None and t._grad is not before and t._grad.node is None
        }

    def expect(self, value: object) -> None:
        """Take note of a tree that leaves the step: two of its tensors may share a memory that nothing else shows."""
        self._expected.update((id(x), x) for x in pytree.flatten(value)[0])

    def leaves(self, value: object) -> tuple[list[OutputRef], pytree.Structure]:
        """Return the leaves of a tree, and its structure."""
        leaves, structure = pytree.flatten(value)
        return [self._leaf(x) for x in leaves], structure

    def collect_rebindings(self) -> None:
        """Collect the tensors from before the step that were given other memory by `.data =`."""
        for replaced in self.tracer.replaced.values():
            place = self._arguments.get(id(replaced.tensor), replaced.tensor)
            if isinstance(place, Tensor) and self._may_write_over(replaced):
                self.outcome.renewed.append(place)
                replaced.former = None
            else:
                self.outcome.rebindings.append(Rebinding(place, self._leaf(replaced.value)))

    def _may_write_over(self, replaced: MemoryReplacement) -> bool:
        """True if nobody can tell new memory from the old one with new values: where nobody else sees either."""
        tensor, value = replaced.tensor, replaced.value
        assert replaced.former is not None
        if type(replaced.storage) is View or not self.tracer.is_made_here(value):
            return False
        if (tensor.array.shape, tensor.array.dtype) != (replaced.former.array.shape, replaced.former.array.dtype):
            return False
        seeing = [*self._aliases_of(replaced.former), *self._aliases_of(value)]
        return not any(t is not tensor and self._is_visible(t) for t in seeing)

    def _leaf(self, x: Operand) -> OutputRef:
        if is_symbolic_number(x):
            self._note_pending(x.name)
            return OutputRef("number", x.name)
        if is_late_text(x):
            name = self.outcome.arithmetic.name_text(x)
            self._note_pending(name)
            return OutputRef("number", name)
        if is_sparse(x):
            self.tracer.refuse_sparse_gradient("the step returns or keeps a sparse tensor that it made")
        if not isinstance(x, Tensor):
            return OutputRef("object", x.generator if type(x) is HostGenerator else x)
        x = self._former.get(id(x), x)
        if id(x) in self._arguments:
            return OutputRef("argument", self._arguments[id(x)])
        if type(x.array) is np.ndarray:
            location = self.tracer.locate(x)  # a tensor that the step only handed on
            return OutputRef("object", x) if location is None else OutputRef("state", location[0])
        if id(x) in self._states:
            source = getattr(self._states[id(x)], "source", None)
            if isinstance(source, StateInput) and source.expression is not None:
                return OutputRef("state", source.locate)
            return OutputRef("state", lambda: x)
        if id(x) in self._gradients:
            return OutputRef("gradient", self._gradients[id(x)])
        if id(x) not in self._aliases and id(x) not in self._numbers:
            alias = self._alias_ref(x)
            if alias is None:
                return OutputRef("result", self._result_number(x))
            self._expected[id(x)] = x
            self._aliases[id(x)] = len(self.outcome.aliases)
            self.outcome.aliases.append(alias)
            self._add_autograd_facts(x, OutputRef("alias", self._aliases[id(x)]))
        if id(x) in self._aliases:
            return OutputRef("alias", self._aliases[id(x)])
        return OutputRef("result", self._numbers[id(x)])

    def _result_number(self, x: Tensor) -> int:
        """Return the number of `x` among the tensors that the program makes."""
        if id(x) not in self._numbers:
            number = self._numbers[id(x)] = len(self.tensors)
            self.tensors.append(x)
            value, order = self._result_value(x)
            self.outcome.results.append(value)
            self.outcome.history.append(None if x.node is None else "leaf" if type(x.node) is Leaf else "lost")
            version = 0 if isinstance(x.storage_, InferenceStorage) else x._version
            self.outcome.result_facts.append(ResultFacts(type(x), plain_attributes(x), version, x.retains_grad, order))
            self._add_autograd_facts(x, OutputRef("result", number))
        return self._numbers[id(x)]

    def _add_autograd_facts(self, x: Tensor, ref: OutputRef) -> None:
        """Note the gradient of a new tensor, and the hooks of a new leaf."""
        if type(x.node) is Leaf:
            self.made_leaves[id(x)] = MadeLeaf(ref)
        hooks = None if type(x.node) is not Leaf else x.node.hooks
        if hooks is not None:
            for kind in (hooks.tensor_pre_hooks, hooks.before, hooks.post_accumulate_hooks):
                for hook in kind.values():
                    self._check_can_keep_hook(hook)
            self.outcome.leaf_hooks.append((ref, hooks))
        if x._grad is not None:
            self.outcome.result_gradients.append((ref, self._leaf(x._grad)))

    def _check_can_keep_hook(self, hook: object) -> None:
        cells = [cell.cell_contents for cell in getattr(hook, "__closure__", None) or ()]
        for held in (*cells, *(getattr(hook, "__defaults__", None) or ())):
            if is_symbolic_number(held) or (isinstance(held, Tensor) and self.tracer.is_made_here(held)):
                raise TraceError(
                    f"the step {self.tracer.graph.name!r} returns or keeps a leaf that it made, with a hook that uses "
                    f"values of the step: register it outside, or call backward() inside of the step"
                )

    def _result_value(self, x: Tensor) -> tuple[Value, tuple[int, ...] | None]:
        """Return the value to compute, and how it is seen: where `x` is a view, in the order of the eager result."""
        value = self.tracer.adopt(x)
        order = dense_dim_order(value)
        if order is None:
            return value, None
        spec = Spec(tuple(value.shape[d] for d in order), value.dtype)
        made = self.tracer.graph.add(PERMUTE_OP, (value,), {"axes": order}, spec, value.origin)
        return made, tuple(map(order.index, range(len(order))))

    def _note_pending(self, name: str) -> None:
        """Have the tensors made that a number is read from when the program has run."""
        arithmetic = self.outcome.arithmetic
        needed = {name} | {need for line in arithmetic.required_lines([name]) for need in line.needs}
        for late in needed & arithmetic.pending.keys():
            self.outcome.pending[late] = self._result_number(arithmetic.pending[late])

    def _is_visible(self, x: Tensor) -> bool:
        """True if others see the tensor when the call is over."""
        return id(x) in self._expected or id(x) in self.tracer.replaced or self._was_there(x)

    def _was_there(self, x: Tensor) -> bool:
        """True if each call finds the memory of `x` before it does anything."""
        found = any(id(x) in known for known in (self._arguments, self._states, self._gradients, self._former))
        return found and id(x) not in self.tracer.replaced

    def _aliases_of(self, x: Tensor) -> list[Tensor]:
        """Return the tensors that share the memory of `x`, in the order in which they came to it."""
        if x.storage_ is None or isinstance(x.storage_, InferenceStorage):
            return []
        return [t for t in storage_of(x).alive_aliases() if type(t.array) is Value and t is not x]

    def _alias_ref(self, x: Tensor) -> AliasRef | None:
        """Return how `x` shares a memory that somebody else sees, too; None if it may have one of its own."""
        others = self._aliases_of(x)
        if not any(map(self._is_visible, others)):
            return None
        is_leaf, recorded = type(x.node) is Leaf, x.node is not None and type(x.node) is not Leaf
        view = view_of(x)
        owner: Tensor | None
        if view is None:
            owner, steps = self._find_owner(x, others)
        else:
            owner, steps = view.base, view.steps
        if owner is None or (recorded and (view is None or not _is_history_of_view(x, owner, steps))):
            return None
        meta = DEFAULT_CREATION if view is None else view.creation_meta
        piece: tuple[SplitOutputs, int] | None = None
        if type(x.node) is OutputSlot and isinstance(x.node.owner, SplitOutputs):
            piece = x.node.owner, x.node.number
        facts = (view is not None, recorded, piece, is_leaf, meta, x.retains_grad)
        return AliasRef(self._leaf(owner), steps, *facts, type(x), plain_attributes(x))

    def _find_owner(self, x: Tensor, others: Iterable[Tensor]) -> tuple[Tensor | None, tuple[ViewStep, ...]]:
        """Return the tensor of which `x` is a detached part, and the steps from there.

        That is one from before the step, else the one that came first to the memory, if it came before `x`.
        """
        known: dict[Value, Tensor] = {}
        came = [t for t in storage_of(x).alive_aliases() if type(t.array) is Value]
        earlier = came[: next(i for i, t in enumerate(came) if t is x)] if any(t is x for t in came) else came
        before = [t for t in others if self._was_there(t)]
        for t in (*before, *earlier):
            if id(t) not in self.tracer.replaced:
                known.setdefault(t.array, t)
        if x.array in known:
            return known[x.array], ()
        source, steps = trace_views_to(self.tracer, x.array, known)
        if source is None:
            root = self._root_of_memory(x)
            if root is None:
                return None, ()
            source, steps = trace_views_to(self.tracer, x.array, {root.array})
            known[root.array] = root
        return (None, ()) if source is None else (known[source], steps)

    def _root_of_memory(self, x: Tensor) -> Tensor | None:
        """Return a tensor for the memory of which `x` is a part, where the step has dropped its own."""
        value, written = x.array, self.tracer.partial_writes
        while value in written or (is_view(value) and self.tracer.strides.shows_operand(value)):
            value = written[value][0] if value in written else value.operands[0]
        if value is x.array:
            return None
        root = self._roots.get(value)
        if root is None:
            root = self._roots[value] = wrap(value)
            root.storage_ = storage_of(x)
            storage_of(x).add(root)
        return root


def _is_history_of_view(x: Tensor, base: Tensor, steps: tuple[ViewStep, ...]) -> bool:
    """True if the history of `x` is what these steps from `base` record, without hooks."""
    node: Any = x.node
    for step in reversed(steps):
        hooks = node.hooks
        if hooks is not None and (hooks.tensor_pre_hooks or hooks.before or hooks.after):
            return False
        if isinstance(getattr(node, "owner", None), SplitOutputs):
            node = node.owner
        elif getattr(node, "op", None) is not step.op:
            return False
        (node,) = node.parents
    while node is not base.node and steps[0].op.name == "as_strided":  # of a view: it is one of the base
        if getattr(node, "op", None) is None or node.op.family != "movement":
            return False
        (node,) = node.parents
    return node is base.node


def plain_attributes(x: Tensor) -> dict[str, object] | None:
    """Return the attributes that were put on a tensor, as far as each call can put them there again."""
    return {name: value for name, value in x.__dict__.items() if is_plain(value)} or None


def collect_effects(
    tracer: Tracer, result: object, given: list[Operand], kept: Iterable[object] = ()
) -> tuple[StepEffects, ResultTable]:
    """The outcome of a finished trace that was called with these tensors and numbers, and which also keeps `kept`."""
    outcome = StepEffects(len(given))
    outcome.arithmetic = tracer.arithmetic
    results = ResultTable(tracer, outcome, given)
    for tree in (result, *kept):
        results.expect(tree)
    outcome.leaves, outcome.structure = results.leaves(result)
    for tensor in collect_gradients(tracer, given, outcome):
        gradient: Any = tensor._grad
        leaves, structure = results.leaves((tensor, gradient.pattern.indices, gradient.entries))
        write = partial(sparse_store_slot.call, gradient.pattern.shape, gradient.pattern.has_gaps)
        outcome.effects.append(Effect(write, structure, leaves, "a sparse .grad"))
    return outcome, results


def find_symbolic_attribute(value: object) -> str | None:
    """The attribute of an object that is a tensor without values; None if there is none."""
    for name, held in getattr(value, "__dict__", {}).items():
        if isinstance(held, Tensor) and type(held.array) is not np.ndarray and not isinstance(value, Tensor):
            return str(name)
    return None
