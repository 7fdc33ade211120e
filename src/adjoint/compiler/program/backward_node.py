"""The node of what a compiled step returns: its backward half, compiled when it is first needed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from types import CodeType
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, NoReturn, Protocol, TypeVar

import numpy as np

from adjoint.compiler.ir.graph import Constant, Graph, Value
from adjoint.compiler.passes.partition import BackwardGraph
from adjoint.core.graph.hooks import NodeHooks
from adjoint.core.graph.iterative_dealloc import with_iterative_dealloc
from adjoint.core.graph.node import FREED, GraphNode, Leaf, OutputSlot, next_sequence_nr
from adjoint.core.graph.source_location import user_instruction
from adjoint.core.op.apply import apply
from adjoint.core.runtime.fork_safety import reset_after_fork
from adjoint.core.runtime.mode import ModeScope, mode, nondefault
from adjoint.core.runtime.signal_handlers import handlers_deferred
from adjoint.core.tensor.mutation_log import check_version
from adjoint.core.tensor.tensor import wrap
from adjoint.core.typing import Array, Function, NumpyDtype, Operand, Operands, Shape

if TYPE_CHECKING:
    from adjoint.core.tensor.tensor import Tensor


class Runnable(Protocol):
    """A native program, as the node sees it: something to run."""

    run: Function

    def is_running(self) -> bool: ...


P = TypeVar("P", bound=Runnable)


class BackwardProgram(Generic[P]):
    """The backward half of one program. `leaves`: for each saved value that is a leaf of the step, its number there.

    `precision`: of products of float32 matrices, as in the step itself. `build` makes the half's native program.
    `made`: of the leaves that the step made, by their numbers, what stands for them in the graph `from_leaves`, which
    is what is differentiated again then; None where that cannot be.
    """

    def __init__(
        self,
        half: BackwardGraph,
        leaves: dict[int, int],
        step: str,
        specs: list[Value],
        precision: str,
        build: Callable[[BackwardGraph, str], P],
        made: dict[int, Value | None] | None = None,
        from_leaves: Graph | None = None,
    ) -> None:
        self.made = made or {}
        self.from_leaves = from_leaves
        self.half = half
        self.leaves = leaves
        self.step = step
        self.precision = precision
        self.specs = specs  # of the results that have a history, in order
        self._lock = reset_after_fork(threading.RLock())
        self._build = build
        self._program: P | None = None

    @property
    def program(self) -> P:
        """The native program, made on first use."""
        with self._lock:
            if self._program is None:
                with handlers_deferred():  # passes trace patterns
                    self._program = self._build(self.half, self.precision)
            return self._program

    def run(self, arrays: Sequence[Array], incoming: Sequence[Tensor]) -> tuple[Tensor, ...]:
        """The gradients, as tensors without history."""
        with ModeScope(recording=False):
            gradients = self.program.run(*map(wrap, arrays[: len(self.half.saved)]), *incoming)
            if type(gradients) is tuple:
                return gradients
            assert self.program.is_running(), "the backward half of a compiled step was run with other inputs"
            return tuple(self.replay([*map(wrap, arrays)], incoming, {}))  # for a signal handler

    def replay(
        self, tensors: Sequence[Tensor], incoming: Sequence[Tensor], leaves: dict[Value, Tensor]
    ) -> list[Tensor]:
        """The gradients from the saved tensors, op by op, so that what is done is recorded; `leaves`: made ones."""
        half = self.half
        whole = self.from_leaves if leaves and self.from_leaves is not None else half.whole
        known: dict[Value, Tensor] = dict(zip((*half.saved, *half.further), tensors, strict=True))
        made = set(whole.equations)
        known = {v: x for v, x in known.items() if v not in made} | leaves
        for v in whole.inputs:
            if isinstance(v.source, Constant):
                known[v] = wrap(v.source.array)
        known.update(zip(half.incoming, incoming, strict=True))
        for v in whole.equations:
            known[v] = apply(v.op, tuple(known[x] if isinstance(x, Value) else x for x in v.inputs), v.params)
        return [known[v] for v in whole.outputs]

    def can_replay(self, leaves: dict[Value, Tensor]) -> bool:
        """True if the gradients can be differentiated by these of the leaves that the step made, and all others."""
        if not self.made:
            return True
        half = self.half
        known = {*half.saved, *half.further, *half.incoming}
        return (
            self.from_leaves is not None
            and len(leaves) == len(self.made)
            and all(v in known or isinstance(v.source, Constant) for v in self.from_leaves.inputs)
        )


@with_iterative_dealloc
class CompiledBackward(GraphNode):
    """One call of a compiled step in the recorded graph."""

    op = None
    __slots__ = (
        "__weakref__", "instruction_offset", "backward", "code", "dtype", "hooks", "sequence_nr",
        "outputs", "parents", "saved_values", "shape",
    )  # fmt: skip
    code: CodeType
    outputs: int
    hooks: NodeHooks | None

    def __init__(self, backward: BackwardProgram[Any], saved: Operands, parents: tuple[Any, ...]) -> None:
        self.backward = backward
        self.saved_values: Any = saved
        self.parents = parents
        self.hooks = None
        self.code, self.instruction_offset = user_instruction()
        self.sequence_nr = next_sequence_nr()
        specs = backward.specs
        self.outputs = len(specs)
        self.shape = specs[0].shape
        self.dtype = specs[0].dtype

    def make_output_nodes(self) -> list[CompiledBackward | OutputSlot]:
        """Make the nodes of the results. They hold this one; if it held them it would wait for the collector."""
        specs = self.backward.specs
        return [self] if len(specs) == 1 else [OutputSlot(self, i, s.shape, s.dtype) for i, s in enumerate(specs)]

    def name(self) -> str:
        """`CompiledBackward`."""
        return "CompiledBackward"

    def pull(self, given: Sequence[Tensor | None]) -> list[Tensor]:
        """The gradients of the tensors that the step used, from those of its results.

        Raises RuntimeError if the saved values were freed by an earlier pass, or written in place since.
        """
        if self.saved_values is FREED:
            raise RuntimeError(
                "Trying to backward through the graph a second time: the values which the compiled step "
                f"{self.backward.step!r} saved were freed. Specify retain_graph=True in the first backward(). (At "
                f"{self.name()}, called at {self.site}.)"
            )
        again = mode.recording or (nondefault.count and mode.is_intercepted)
        leaves = self._made_leaves() if again else {}
        if again and not self.backward.can_replay(leaves):
            raise RuntimeError(
                f"the compiled step {self.backward.step!r} made a leaf, and uses detached tensors or draws, or that "
                "was written or is gone: the gradient cannot be differentiated again outside; take both derivatives "
                "inside of the step, or make the leaf outside"
            )
        for leaf in leaves.values():
            check_version(leaf.array, self)
        for array in self.saved_values if again else self.saved_values[: len(self.backward.half.saved)]:
            check_version(array, self)
        incoming = [
            wrap(np.zeros(spec.shape, spec.dtype)) if g is None else g
            for g, spec in zip(given, self.backward.specs, strict=True)
        ]
        if again:
            return self.backward.replay(self._saved_tensors(), incoming, leaves)
        return list(self.backward.run(self.saved_values, [wrap(g.array) for g in incoming]))

    def _made_leaves(self) -> dict[Value, Tensor]:
        """Return the leaves that the step made and somebody holds, by what stands for them in its graph."""
        found: dict[Value, Any] = {}
        for number, v in self.backward.made.items():
            parent = self.parents[number]
            leaf = parent.reference() if type(parent) is Leaf else None
            if leaf is not None and v is not None:
                found[v] = leaf
        return found

    def _saved_tensors(self) -> list[Tensor]:
        """Return the saved tensors, with their history."""
        tensors: list[Operand] = []
        for i, array in enumerate(self.saved_values):
            parent = self.parents[self.backward.leaves[i]] if i in self.backward.leaves else None
            leaf = parent.reference() if type(parent) is Leaf else None
            if leaf is not None and leaf.array is array:
                tensors.append(leaf)
                continue
            tensor = wrap(array)
            tensor.node = parent
            tensors.append(tensor)
        return tensors


class HistoryFacts(NamedTuple):
    """The facts that the nodes of one result share from call to call. `why`: the error of its backward."""

    step: str
    shape: Shape
    dtype: NumpyDtype
    why: Exception | None = None


class ConsumedHistory:
    """The node of a result whose history was used up inside a compiled step, or that has no gradient.

    Each call makes one for each such result, so it holds only what differs.
    """

    __slots__ = ("__weakref__", "facts", "hooks", "sequence_nr")
    next_functions: tuple[object, ...] = ()
    parents: tuple[Any, ...] = ()
    op = saved_values = None

    def __init__(self, facts: HistoryFacts) -> None:
        self.facts, self.hooks, self.sequence_nr = facts, None, next_sequence_nr()

    @property
    def shape(self) -> Shape:
        """The shape of the result, and of its gradient."""
        return self.facts.shape

    @property
    def dtype(self) -> NumpyDtype:
        """The dtype of the result, and of its gradient."""
        return self.facts.dtype

    def name(self) -> str:
        """`CompiledBackward`."""
        return "CompiledBackward"

    def pull(self, g: Sequence[Tensor]) -> NoReturn:
        """Raise RuntimeError: the way back was gone already, or there is none."""
        step, _, _, why = self.facts
        if why is not None:
            raise type(why)(*why.args)
        raise RuntimeError(
            "Trying to backward through the graph a second time: the history of this tensor was used up by backward() "
            f"inside the compiled step {step!r}. Specify retain_graph=True there if you need it again."
        )

    def __repr__(self) -> str:
        return f"<CompiledBackward object of {self.facts.step}>"
