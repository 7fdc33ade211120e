"""The end of the function that each call of a program runs: the tensors that it hands out."""

from __future__ import annotations

from itertools import chain

from adjoint.compiler.ir.graph import Argument, Constant, ScalarInput, Setting, Value
from adjoint.compiler.ir.symbolic_size import has_symbols
from adjoint.compiler.passes.partition import BackwardGraph
from adjoint.compiler.program.backward_node import HistoryFacts
from adjoint.compiler.program.check_codegen import BoundStep, CheckCodegen
from adjoint.compiler.program.effect_codegen import effect_code
from adjoint.compiler.runtime.native_entry import Segment
from adjoint.compiler.runtime.new_tensors import (
    copy_hooks,
    give_facts,
    make_alias,
    rebind_memory,
)
from adjoint.compiler.trace.numbers.symbolic_number import ScalarExpr
from adjoint.compiler.trace.step_outputs import MadeLeaf, OutputRef, Parent
from adjoint.core.graph.node import Leaf as AccumulateGrad
from adjoint.core.runtime.mode import mode
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Shape


class ResultCodegen(CheckCodegen):
    """Writes what a call hands out: its results, their history, what shares memory, and what Python objects get."""

    def __init__(self, step: BoundStep, names: dict[str, object]) -> None:
        super().__init__(step, names)
        self.fusion, self.binding = step.fusion, step.binding
        self._made_aliases: set[int] = set()  # those whose variables are set
        self._segments: list[Segment] = []  # kept alive: their functions point into them
        self._state_names: dict[object, str] = {}  # the tensors from before the call: the names of what finds them
        self._late_exprs: list[ScalarExpr] = []  # arithmetic on numbers that are known when the kernels have run

    def _results(self, parents: list[Parent]) -> None:
        for i, history in enumerate(self.outcome.history):
            array = self.binding.result_names[i]
            facts = self.outcome.result_facts[i]
            if facts.permutation is not None:
                array += f".transpose({self.name(facts.permutation, 'order')})"
            self._emit_line(f"r{i} = new(Tensor); r{i}.array = {array}; r{i}.node = r{i}._grad = r{i}.storage_ = None")
            if facts[:3] != (Tensor, None, 0):
                self._emit_line(f"{self.name(give_facts)}(r{i}, {self.name(facts, 'facts')})")
            if history == "lost":
                self._consume_history(f"r{i}", self.outcome.results[i], facts.permutation)
            elif history == "leaf":
                self._emit_line(f"r{i}.node = {self.name(AccumulateGrad, 'Leaf')}(r{i})")
            elif isinstance(history, RuntimeError):
                self._consume_history(f"r{i}", self.outcome.results[i], facts.permutation, history)
        if mode.inference and not mode.recording:
            made = "".join(f"r{i}, " for i in range(len(self.outcome.history)))
            self._emit_line(f"mark_inference_results(({made}))")
        if self.step.half is not None:
            self._history(self.step.half, parents)
        for i, facts in enumerate(self.outcome.result_facts):
            if facts.retains_grad:
                self._emit_line(f"r{i}.retain_grad()")
        for i in range(len(self.outcome.aliases)):
            self._alias(i)
        for ref, gradient in self.outcome.result_gradients:
            self._emit_line(f"{self._leaf(ref)}._grad = {self._leaf(gradient)}")
        for ref, hooks in self.outcome.leaf_hooks:
            self._emit_line(f"{self.name(copy_hooks)}({self._leaf(ref)}, {self.name(hooks, 'hooks')})")
        for name, number in self.outcome.pending.items():
            self._emit_line(f"{name} = r{number}.item()")
        for line in self._late_exprs:
            self._emit_line(f"{line.name} = {line.code}")
        # all values first: an effect may change what another looks at
        self._emit_line(f"leaves = ({''.join(f'{self._leaf(leaf)}, ' for leaf in self.outcome.leaves)})")
        codes = [effect_code(x, f"e{i}", self._leaf, self.name) for i, x in enumerate(self.outcome.effects)]
        for code in [*chain(*(values for values, _ in codes)), *chain(*(writes for _, writes in codes))]:
            self._emit_line(code)
        for place, value in self.outcome.rebindings:
            tensor = f"x{place}" if isinstance(place, int) else self.name(place, "t")
            self._emit_line(f"{self.name(rebind_memory)}({tensor}, {self._leaf(value)})")
        self._emit_line("return leaves")

    def _consume_history(
        self, tensor: str, value: Value, order: Shape | None = None, why: Exception | None = None
    ) -> None:
        """Give a tensor the node of a history that is used up. `order`: that of the value's axes in the tensor."""
        shape = value.shape if order is None else tuple(value.shape[i] for i in order)
        facts = self.name(HistoryFacts(self.graph.name, shape, value.dtype, why), "history")
        shown = f"{facts}._replace(shape={shape!r})" if has_symbols(shape) else facts
        self._emit_line(f"{tensor}.node = ConsumedHistory({shown})")

    def _history(self, half: BackwardGraph, parents: list[Parent]) -> None:
        """The node of the results, with what its backward half needs of this call."""
        computed = iter(self.binding.saved_names)
        kept = (*half.saved, *half.further)
        written = self.outcome.changed_inputs()
        sources = "".join(
            f"{next(computed) if v.op is not None or v in written else self._input_array(v)}, " for v in kept
        )
        nodes = "".join(f"{self._parent(p)}.node, " for p in parents)
        sizes = "".join(f"{name}, " for name in self.graph.symbols)
        self._emit_line(f"nodes = CompiledBackward(half, ({sources}), ({nodes}), ({sizes})).make_output_nodes()")
        for i, history in enumerate(self.outcome.history):
            if isinstance(history, int):
                self._emit_line(f"r{i}.node = nodes[{history}]")

    def _alias(self, i: int) -> str:
        """The variable of a tensor that shares memory, which is made when it is first spoken of."""
        if i not in self._made_aliases:
            self._made_aliases.add(i)
            alias = self.outcome.aliases[i]
            self._emit_line(f"v{i} = {self.name(make_alias)}({self._leaf(alias.base)}, {self.name(alias, 'alias')})")
        return f"v{i}"

    def _parent(self, parent: Parent) -> str:
        if isinstance(parent, MadeLeaf):
            return self._leaf(parent.ref)
        return f"x{parent}" if isinstance(parent, int) else self.name(parent, "t")

    def _input_array(self, v: Value) -> str:
        """The array of an input, as the call found it; a number is copied out of the memory it shares."""
        if isinstance(v.source, Argument):
            return f"a{v.source.number}"
        if isinstance(v.source, (Setting, ScalarInput)):
            return f"array({self.binding.array_of(v, self.names)}, {self.name(v.dtype)})"
        assert not isinstance(v.source, Constant)
        if v in self.binding.local_names:
            return self.binding.local_names[v]
        return f"{self.name(v.source.locate, 'locate')}().array"

    def _states(self) -> None:
        """The tensors from before the call that it returns or keeps, found before it puts others in their places."""
        for k in self.step.relocated:
            self._state_names[self.outcome.state[k][2].source.locate] = f"h{k}"
        for leaf in self.outcome.all_output_refs():
            if leaf.kind == "state" and leaf.of not in self._state_names:
                self._state_names[leaf.of] = f"state{len(self._state_names)}"
                self._emit_line(f"{self._state_names[leaf.of]} = {self.name(leaf.of)}()")

    def _leaf(self, leaf: OutputRef) -> str:
        if leaf.kind == "result":
            return f"r{leaf.of}"
        if leaf.kind == "argument":
            return f"x{leaf.of}"
        if leaf.kind == "number":
            return str(leaf.of)
        if leaf.kind == "gradient":
            return f"x{leaf.of}._grad" if isinstance(leaf.of, int) else f"{self.name(leaf.of, 't')}._grad"
        if leaf.kind == "alias":
            return self._alias(leaf.of)
        return self._state_names[leaf.of] if leaf.kind == "state" else self.name(leaf.of)
