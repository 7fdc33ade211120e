"""Loops whose turns are alike, perhaps but for sizes, found while a step is traced: a cache grows token by token.

Unrolled, a loop that grows has kernels of its own for each turn, and a long one is a long program. As long as no
gradient is recorded, its body can be a compiled function whose sizes are symbols, if it can be taken out of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import CodeType, FrameType, NoneType
from typing import TYPE_CHECKING, NamedTuple

from adjoint.compiler.ir.graph import TraceError
from adjoint.core.graph.node import Leaf
from adjoint.core.runtime import pytree
from adjoint.core.runtime.mode import mode
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Operand

if TYPE_CHECKING:
    from adjoint.compiler.trace.frames import FrameObserver
    from adjoint.compiler.trace.tracer import Tracer

MIN_GROWING_TURNS = 6  # in a row, before a loop is taken to go on so
MIN_GROWING_EQUATIONS = 400  # in these turns: a shorter loop compiles fast, and runs faster as one program
MIN_EQUAL_EQUATIONS = 4_000  # in turns of equal sizes, which have kernels in common
MIN_EQUATIONS_OF_EQUAL_TURN = 100  # else the call of a program for each turn costs more than it saves


class OutlineFoundError(TraceError):
    """A trace was given up: it came to a loop whose body is to be compiled apart, by this `outline`."""

    def __init__(self, outline: Operand) -> None:
        super().__init__(str(outline))
        self.outline = outline


class LoopTurn(NamedTuple):
    """The graph at the end of a turn, and what the turn has added to it."""

    equations: int
    captured: int
    ops: tuple[str, ...]
    sizes: tuple[int | str, ...]

    def is_like(self, before: LoopTurn) -> bool:
        """True for the same ops, on tensors of which none was met for the first time."""
        return bool(self.ops) and self.ops == before.ops and self.captured == before.captured


class LoopState:
    """One loop of a frame: its latest turn, how many grew in a row, and where those begin that are like the latest."""

    def __init__(self, turn: LoopTurn) -> None:
        self.latest, self.grown, self.first_equation = turn, 0, turn.equations
        self.is_rejected = False
        self.confirm: Callable[[FrameType], bool] | None = None  # asks again, at the end of the next turn
        self.outline: Operand = None


class LoopWatch:
    """Watches the loops of the user's frames.

    `find_kept()` gives what the step has put into objects from before it.
    """

    def __init__(self, tracer: Tracer, observer: FrameObserver, find_kept: Callable[[], Iterable[object]]) -> None:
        self._tracer, self._observer, self._find_kept = tracer, observer, find_kept
        self._frames: dict[CodeType, tuple[FrameType, dict[int, LoopState]]] = {}  # the latest of each code

    def end_turn(self, frame: FrameType, target: int) -> None:
        """Have the trace end where a loop that has ended a turn, after which `target` is next, is to be taken apart."""
        outline = self._note_turn(frame, target)
        if outline is not None:
            self._observer.leaving = OutlineFoundError(outline)

    def _note_turn(self, frame: FrameType, target: int) -> Operand:
        """Take note of the end of a turn; return the outline of a loop whose body is to be compiled apart."""
        known, loops = self._frames.get(frame.f_code, (None, {}))
        if known is not frame:
            loops = {}
            self._frames[frame.f_code] = frame, loops
        graph = self._tracer.graph
        state = loops.get(target)
        since = len(graph.equations) if state is None else state.latest.equations
        added = graph.equations[since:]
        turn = LoopTurn(
            len(graph.equations),
            len(self._tracer.state),
            tuple([v.op.name for v in added]),
            tuple([n if type(n) is int else repr(n) for v in added for n in v.shape]),  # to compare symbols is to ask
        )
        if state is None:
            loops[target] = LoopState(turn)
            return None
        before, state.latest = state.latest, turn
        leaves = pytree.flatten([*frame.f_locals.values()])[0] if mode.recording else ()
        recorded = any(isinstance(x, Tensor) and type(x.node) not in (NoneType, Leaf) for x in leaves)
        has_gradients = recorded or bool(mode.recording and self._tracer.gradients)
        if not turn.is_like(before) or state.is_rejected or has_gradients:
            state.grown, state.first_equation = 0, turn.equations
            return None
        state.grown = state.grown + 1 if turn.sizes != before.sizes else 0
        if not _is_worth_outlining(state):
            return None
        if state.confirm is None:
            from adjoint.compiler.scripts.loop_outline import find_outline

            callers, is_old = self._observer.find_callers(frame), self._observer.is_preexisting
            found = find_outline(frame, target, bool(state.grown), callers, is_old, self._find_kept)
            if found is None:
                state.is_rejected = True
            else:
                state.outline, state.confirm = found
            return None
        state.is_rejected = not state.confirm(frame)
        return None if state.is_rejected else state.outline


def _is_worth_outlining(state: LoopState) -> bool:
    """True for a loop that would take long to compile as one program, with kernels of its own for each turn or many."""
    equations = state.latest.equations - state.first_equation
    if state.grown >= MIN_GROWING_TURNS and equations >= MIN_GROWING_EQUATIONS:
        return True
    return equations >= MIN_EQUAL_EQUATIONS and len(state.latest.ops) >= MIN_EQUATIONS_OF_EQUAL_TURN
