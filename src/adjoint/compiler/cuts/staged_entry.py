"""One path through the decisions of a step: its programs run in turn, with the questions and calls between them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from adjoint.compiler.program.program import Program
from adjoint.compiler.program.tree_codegen import Unpack, write_rebuilder
from adjoint.compiler.report.example_arguments import ExampleArguments
from adjoint.compiler.runtime.call_turn import CallTurn, Unfinished
from adjoint.compiler.trace.events.step_events import Outcome, StepEvent, fits_result, is_same_answer
from adjoint.compiler.trace.guards import GuardFailure, describe_object
from adjoint.core.random.generator_state import put_back, take_places
from adjoint.core.runtime import pytree
from adjoint.core.runtime.exchange_log import CallLog, log_exchanges
from adjoint.core.typing import Function, Operand, Operands


class PathStage(NamedTuple):
    """A program, the numbers of the arguments that take its first leaves, and the event that takes the others."""

    program: Program
    slots: tuple[int, ...]
    event: StepEvent | None


class WriteFlag:
    """Tells whether a call has written something, after which it cannot begin again."""

    __slots__ = ("is_set",)

    def __init__(self) -> None:
        self.is_set = False

    def set(self, _: object) -> None:
        """Note that the call has written."""
        self.is_set = True


class StagedEntry:
    """The programs of one path. `commit` is the number of the one that writes; `count`, of the step's arguments.

    `direct` and `unpack` are those of a `CompiledEntry`. `is_expected`: the last call that came here went this way.
    """

    is_asking = True

    def __init__(
        self,
        stages: list[PathStage],
        commit: int,
        count: int,
        slots: int,
        structure: pytree.Structure,
        events: list[StepEvent],
        generators: list[Operand],
        written: WriteFlag,
    ) -> None:
        self.stages, self.commit, self.slots, self.events, self.written = stages, commit, slots, events, written
        self.count = count
        self.generators = generators  # from which programs draw before it is known that the call goes this way
        self.program = stages[commit].program
        self.has_exchanges = any(v.op.family == "collective" for stage in stages for v in stage.program.graph.equations)
        self.direct = not self.has_exchanges  # whose log is that of a whole call
        self.unpack: Unpack | None = None
        self.example: ExampleArguments | None = None
        self.follower: Function | None = None
        self.taken = 0  # how often the call went this way
        self.is_expected = False
        self.came_at = 0  # `taken` when a call went this way after another one
        self.is_brief = False  # the next call went another way again
        self._turn = CallTurn()
        self.rebuild: Callable[[Operands], Operand] = write_rebuilder(structure)

    @property
    def programs(self) -> list[Program]:
        """All programs, in order."""
        return [stage.program for stage in self.stages]

    def as_path(self) -> StagedEntry:
        """Return the entry: one way through the decisions of a step."""
        return self

    def kept_bytes(self) -> int:
        """The bytes that programs keep for those after them."""
        return sum(v.nbytes for stage in self.stages for v in stage.program.outcome.results[: len(stage.slots)])

    def share_turn(self, turn: CallTurn) -> None:
        """Run in turn with the other programs of a compiled function."""
        self._turn = turn
        for program in self.programs:
            program.share_turn(turn)

    def run(self, *given: Operand) -> Operand:
        """As `attempt` when it is the call's turn, where it is expected to go this way; None where it is not."""
        turn = self._turn
        with turn.lock:
            if turn.is_taken() or not self.is_expected:
                return None
            turn.is_dispatching = True
            try:
                return self.attempt(given)
            finally:
                turn.is_dispatching = False

    def fits(self, log: Sequence[Outcome]) -> bool:
        """True where a call in which this took place may go this way."""
        if len(log) > len(self.events):
            return False
        for outcome, event in zip(log, self.events, strict=False):
            if (outcome.kind == "decision") is not (event.kind == "decision"):
                return False
            if outcome.kind == "decision" and not is_same_answer(outcome.value, event.answer):
                return False
            if outcome.kind == "returned" and fits_result(event, outcome.value) is None:
                return False
            if outcome.kind == "raised":
                return False
        return True

    def changes(self, given: list[Operand], log: Sequence[Outcome]) -> list[GuardFailure]:
        """Return where a call went another way than this one, or else what makes a program unfit for it."""
        for outcome, event in zip(log, self.events, strict=False):
            if outcome.kind == "decision" and not is_same_answer(outcome.value, event.answer):
                then, now = describe_object(event.answer), describe_object(outcome.value)
                return [GuardFailure(f"the answer to {event.what}", then, now, event.site)]
        known = [*given, *[None] * (self.slots - len(given))]
        found = [program.changes(known) for program in self.programs[: self.commit + 1]]
        results = {
            source.what for source in self.program.outcome.arithmetic.sources if is_host_result(source.name, given)
        }
        told = [[failure for failure in failures if failure.what not in results] for failures in found]
        return max(told, key=len, default=[])

    def attempt(self, given: Sequence[Operand], log: Sequence[Outcome] = (), first_call: bool = False) -> Operand:
        """A tuple of leaves; None where this is for another state; `Unfinished` if something took place first.

        What `log` has does not take place again. Nothing was written unless there are leaves.
        """
        slots: list[Operand] = [*given, *[None] * (self.slots - len(given))]
        places = take_places(self.generators)
        outcomes = list(log)
        self.written.is_set = self.is_expected = False
        try:
            if self.has_exchanges and isinstance(log, CallLog):
                with log_exchanges(log.exchanges):
                    leaves = self._run_stages(slots, outcomes, first_call)
            else:
                leaves = self._run_stages(slots, outcomes, first_call)
        except Exception as error:
            if self.written.is_set:
                raise
            put_back(places)
            return Unfinished(outcomes, error)
        if type(leaves) is tuple:
            self.taken += 1
            self.is_expected = True
            return leaves
        put_back(places)
        return Unfinished(outcomes) if outcomes else None

    def _run_stages(self, slots: list[Operand], outcomes: list[Outcome], first_call: bool) -> Operand:
        """The leaves of the last program; None where the call goes another way."""
        events, leaves = 0, None
        for number, stage in enumerate(self.stages):
            leaves = stage.program.run(*slots, first_call=first_call)
            if type(leaves) is not tuple and not first_call and not self.written.is_set and stage.program.holds():
                leaves = stage.program.run(*slots)
            if type(leaves) is not tuple:
                return None
            self.written.is_set = self.written.is_set or number == self.commit
            for slot, leaf in zip(stage.slots, leaves, strict=False):
                slots[slot] = leaf
            event = stage.event
            if event is None:
                continue
            if events == len(outcomes):
                outcomes.append(event.take_place(leaves[len(stage.slots) :]))
            outcome = outcomes[events]
            events += 1
            if not self._accept(event, outcome, slots):
                return None
        return leaves

    def _accept(self, event: StepEvent, outcome: Outcome, slots: list[Operand]) -> bool:
        """Take what an event brought; False where the call goes another way from here."""
        if event.function is None:
            return is_same_answer(outcome.value, event.answer)
        if outcome.kind == "raised":
            raise outcome.value
        found = fits_result(event, outcome.value)
        if found is None:
            return False
        for slot, leaf in zip(event.slots, found, strict=True):
            if slot is not None:
                slots[slot] = leaf
        return True


def is_host_result(name: str, given: list[Operand]) -> bool:
    """True for the number that a host call gave: a guard on it tells nothing before the call."""
    return name[0] == "x" and int(name[1:]) >= len(given)
