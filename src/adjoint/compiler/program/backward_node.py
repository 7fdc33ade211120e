"""The node of what a compiled step returns: its backward half, compiled when it is first needed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import CodeType
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, NoReturn, Protocol, TypeVar

import numpy as np

from adjoint.autograd.engine.engine import run_grad
from adjoint.compiler.ir.graph import Argument, Constant, Graph, Value
from adjoint.compiler.ir.interpreter import evaluate
from adjoint.compiler.ir.symbolic_size import evaluate_size
from adjoint.compiler.passes.partition import BackwardGraph, RowGradient
from adjoint.compiler.program.recorded_history import RecordedHistory
from adjoint.compiler.runtime.call_turn import CallTurn
from adjoint.core.graph.hooks import NodeHooks
from adjoint.core.graph.iterative_dealloc import with_iterative_dealloc
from adjoint.core.graph.node import FREED, GraphNode, Leaf, OutputSlot, next_sequence_nr
from adjoint.core.graph.source_location import user_instruction
from adjoint.core.op.op_timer import OpTimer, find_op_timer
from adjoint.core.runtime.fork_safety import reset_after_fork
from adjoint.core.runtime.mode import ModeScope, mode, nondefault
from adjoint.core.runtime.signal_handlers import handlers_deferred
from adjoint.core.tensor.mutation_log import check_version
from adjoint.core.tensor.sparse_array import SparseArray, tensor_of_gradient
from adjoint.core.tensor.tensor import wrap
from adjoint.core.typing import Array, Function, NumpyDtype, Operands, Shape

if TYPE_CHECKING:
    from adjoint.core.tensor.tensor import Tensor


class Runnable(Protocol):
    """A native program, as the node sees it: something to run."""

    run: Function

    def is_running(self) -> bool: ...

    def share_turn(self, turn: CallTurn) -> None: ...


P = TypeVar("P", bound=Runnable)


class HistoryProgram(NamedTuple):
    """The way from what a call keeps to the nodes that eager code would have recorded.

    `graph` computes the values in the nodes. `sources`: for its inputs, and draws, what stands for them in the program.
    `made`: the numbers of the leaves that the step made.
    """

    nodes: RecordedHistory
    graph: Graph
    sources: dict[Value, Value]
    made: list[int]

    def evaluate(self, kept: Mapping[Value, Array]) -> list[Array]:
        """Return the values in the nodes of one call, from those that it kept."""
        known = {v: x.source.array if isinstance(x.source, Constant) else kept[x] for v, x in self.sources.items()}
        return evaluate(self.graph, known)


class BackwardProgram(Generic[P]):
    """The backward half of one program. `history`: what a gradient is made of that is differentiated again.

    `precision`: of products of float32 matrices, as in the step itself. `build` makes the half's native program, and
    `run_timed` runs it for a profile.
    """

    def __init__(
        self,
        half: BackwardGraph,
        history: HistoryProgram,
        step: str,
        specs: list[Value],
        sparse: Sequence[RowGradient],
        precision: str,
        build: Callable[[BackwardGraph, str], P],
        run_timed: Callable[[P, OpTimer, Operands], tuple[Tensor, ...] | object],
    ) -> None:
        self.half = half
        self.history = history
        self.step = step
        self.precision = precision
        self.specs = specs  # of the results that have a history, in order
        self.turn: CallTurn | None = None  # that of the step, with which it shares the sizes of a call
        self._sparse = sparse
        self._lock = reset_after_fork(threading.RLock())
        self._build, self._run_timed = build, run_timed
        self._program: P | None = None

    @property
    def program(self) -> P:
        """The native program, made on first use."""
        with self._lock:
            if self._program is None:
                with handlers_deferred():  # passes trace patterns
                    self._program = self._build(self.half, self.precision)
                    if self.turn is not None:
                        self._program.share_turn(self.turn)
            return self._program

    def shape_of(self, i: int, sizes: Shape) -> Shape:
        """The shape of a result that has a history, in a call with these sizes."""
        shape = self.specs[i].shape
        return self._put_sizes(shape, sizes) if sizes else shape

    def name_sizes(self, sizes: Shape) -> dict[str, int]:
        """The sizes of a call, by their symbols."""
        return dict(zip(self.half.graph.symbols, sizes, strict=True))

    def _put_sizes(self, shape: Shape, sizes: Shape) -> Shape:
        known = self.name_sizes(sizes)
        return tuple([evaluate_size(n, known) for n in shape])

    def run(
        self, arrays: Sequence[Array], incoming: Sequence[Tensor], sizes: Shape, timer: OpTimer | None = None
    ) -> tuple[Tensor, ...]:
        """The gradients, as tensors without history. `timer`: of a profile that wants the times of the kernels."""
        with ModeScope(recording=False):
            program, given = self.program, (*map(wrap, arrays[: len(self.half.saved)]), *incoming, *sizes)
            gradients = program.run(*given) if timer is None else self._run_timed(program, timer, given)
            if type(gradients) is tuple:
                return self._make_sparse(gradients, sizes)
            assert self.program.is_running(), "the backward half of a compiled step was run with other inputs"
            graph, known = self.half.graph, [*arrays[: len(self.half.saved)], *(g.array for g in incoming)]
            with self.taking(sizes):
                found = evaluate(graph, {v: known[v.source.number] for v in graph.inputs_of_kind(Argument)})
            return self._make_sparse(tuple(map(wrap, found)), sizes)  # for a signal handler

    @contextmanager
    def taking(self, sizes: Shape) -> Iterator[None]:
        """Let the symbols be those of a call meanwhile, while other calls wait."""
        relations = self.half.graph.sizes
        if not sizes or relations is None or self.turn is None:
            yield
            return
        with self.turn.lock, relations.taking(self.name_sizes(sizes)):
            yield

    def _make_sparse(self, gradients: tuple[Tensor, ...], sizes: Shape) -> tuple[Tensor, ...]:
        """Put the rows of sparse gradients, which come last, to their values."""
        if not self._sparse:
            return gradients
        count = len(gradients) - len(self._sparse)
        made = list(gradients[:count])
        for each, rows in zip(self._sparse, gradients[count:], strict=True):
            array = SparseArray(self._put_sizes(each.shape, sizes), rows.array, made[each.number].array)
            made[each.number] = tensor_of_gradient(array.without_gaps() if each.has_gaps else array)
        return tuple(made)


@with_iterative_dealloc
class CompiledBackward(GraphNode):
    """One call of a compiled step in the recorded graph."""

    op = None
    __slots__ = (
        "__weakref__", "instruction_offset", "backward", "code", "dtype", "hooks", "sequence_nr",
        "outputs", "parents", "saved_values", "shape", "sizes",
    )  # fmt: skip
    code: CodeType
    outputs: int
    hooks: NodeHooks | None

    def __init__(self, backward: BackwardProgram[Any], saved: Operands, parents: tuple[Any, ...], sizes: Shape) -> None:
        self.backward = backward
        self.sizes = sizes
        self.saved_values: Any = saved
        self.parents = parents
        self.hooks = None
        self.code, self.instruction_offset = user_instruction()
        self.sequence_nr = next_sequence_nr()
        specs = backward.specs
        self.outputs = len(specs)
        self.shape = backward.shape_of(0, sizes)
        self.dtype = specs[0].dtype

    def make_output_nodes(self) -> list[CompiledBackward | OutputSlot]:
        """Make the nodes of the results. They hold this one; if it held them it would wait for the collector."""
        specs = self.backward.specs
        if len(specs) == 1:
            return [self]
        return [OutputSlot(self, i, self.backward.shape_of(i, self.sizes), s.dtype) for i, s in enumerate(specs)]

    def name(self) -> str:
        """`CompiledBackward`."""
        return "CompiledBackward"

    def pull(self, given: Sequence[Tensor | None]) -> Sequence[Tensor | None]:
        """The gradients of the tensors that the step used, from those of its results.

        Raises RuntimeError if the saved values were freed by an earlier pass, or written in place since.
        """
        if self.saved_values is FREED:
            raise RuntimeError(
                "Trying to backward through the graph a second time: the values which the compiled step "
                f"{self.backward.step!r} saved were freed. Specify retain_graph=True in the first backward(). (At "
                f"{self.name()}, called at {self.site}.)"
            )
        timer = find_op_timer()
        again = mode.recording or (nondefault.count and mode.is_intercepted and timer is None)
        for array in self.saved_values if again else self.saved_values[: len(self.backward.half.saved)]:
            check_version(array, self)
        if again:
            return self._pull_through_history(given)
        incoming = [
            wrap(np.zeros(self.backward.shape_of(i, self.sizes), spec.dtype) if g is None else g.array)
            for i, (g, spec) in enumerate(zip(given, self.backward.specs, strict=True))
        ]
        return list(self.backward.run(self.saved_values, incoming, self.sizes, timer))

    def _pull_through_history(self, given: Sequence[Tensor | None]) -> list[Tensor | None]:
        """Return the gradients by the walk through the nodes that the step recorded, with their own history."""
        half, history = self.backward.half, self.backward.history
        for number in history.made:
            parent = self.parents[number]
            leaf = parent.reference() if type(parent) is Leaf else None
            if leaf is not None:
                check_version(leaf.array, self)
        with self.backward.taking(self.sizes):
            arrays = history.evaluate(dict(zip((*half.saved, *half.further), self.saved_values, strict=True)))
        sizes = self.backward.name_sizes(self.sizes)
        roots, ends = history.nodes.revive(arrays, self.parents, self.sequence_nr, sizes)
        seeds = [(root, g) for root, g in zip(roots, given, strict=True) if g is not None]
        targets = [end for end in ends if end is not None]
        found = run_grad(seeds, retain_graph=True, create_graph=mode.recording, targets=targets)
        return [None if end is None else found.get(end) for end in ends]


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
