"""The programs of a signature, tried in turn until one fits a call."""

from __future__ import annotations

import time
from operator import itemgetter
from typing import TYPE_CHECKING, cast

from adjoint.compiler.report.advice import RENEWED
from adjoint.compiler.runtime.call_turn import COMPUTATION_FAILED

if TYPE_CHECKING:
    from adjoint.compiler.build import CompiledEntry
    from adjoint.compiler.cuts.staged_entry import StagedEntry
    from adjoint.compiler.report.advice import CallCosts
    from adjoint.compiler.trace.signature import Signature, SignatureKey
    from adjoint.core.runtime.exchange_log import CallLog
    from adjoint.core.typing import Operand

MIN_HANDOVERS = 3  # from one program to another and back, before the next call is taken to go on so
HANDOVERS_BETWEEN_TRIALS = 30  # where it then did not


class Alternation:
    """Two direct programs that run in strict turn: the next is called at once, and the last where it does not fit."""

    __slots__ = ("count", "last", "next")
    direct, unpack = True, None
    rebuild = itemgetter(0)  # of what `run` gives: a tuple of the call's result

    def __init__(self, last: CompiledEntry, next: CompiledEntry) -> None:
        self.last, self.next, self.count = last, next, next.count

    def run(self, *given: Operand) -> Operand:
        """Return what the next program gives, and change places; what is no tuple if it does not fit."""
        entry = self.next
        leaves = entry.run(*given)
        if type(leaves) is not tuple:
            return leaves
        self.last, self.next = entry, self.last
        return (entry.rebuild(leaves),)


def hand_over(latest: CompiledEntry | StagedEntry, follower: CompiledEntry) -> CompiledEntry | Alternation:
    """Return what the next call is to try, when the follower of the latest program has run."""
    if latest.is_asking:
        return follower
    latest = cast("CompiledEntry", latest)
    latest.handovers += 1
    back = follower.follower
    if latest.handovers < MIN_HANDOVERS or back is None or back() is not latest or latest.count != follower.count:
        return follower
    latest.handovers = follower.handovers = -HANDOVERS_BETWEEN_TRIALS
    return Alternation(follower, latest)


def run_direct(
    signature: Signature, key: SignatureKey, given: list[Operand], costs: CallCosts
) -> tuple[CompiledEntry | None, Operand, bool]:
    """Return the program that fits and its leaves, of a step that asks for no values.

    The third result tells whether some program is for the present state of Python.
    """
    is_state_known = False
    entries = cast("list[CompiledEntry]", signature.entries)
    for renewed in False, True:  # most often one fits as it is: what fails is looked at again, and settled
        for entry in reversed(entries):
            if renewed and not renew(entry, costs):
                continue
            is_state_known |= renewed
            start = time.perf_counter()
            found = entry.run(*given)
            if type(found) is tuple:
                if entry.observed is None:
                    costs.finish_call(time.perf_counter() - start, key)
                return entry, found, True
            if found is COMPUTATION_FAILED:  # for eager code, which raises as it stands
                return None, found, True
    return None, None, is_state_known


def renew(entry: CompiledEntry, costs: CallCosts) -> bool:
    """Let a program settle on objects that mean the same; False if it does not fit."""
    moved = entry.program.moved_objects()
    start = time.perf_counter()
    fits = entry.renew()
    costs.add_change("comparing all guards", moved, RENEWED, time.perf_counter() - start)
    return fits


def run_path(
    signature: Signature, latest: CompiledEntry | StagedEntry | None, given: list[Operand], log: CallLog
) -> tuple[CompiledEntry | StagedEntry | None, Operand]:
    """Return the entry that a call goes along and its leaves, of a step that asks for values.

    What takes place is added to `log`. Where that raised, there is no entry, and the error.
    """
    tried = {id(latest)} if log else set[int]()  # what has begun the call was the latest one, and went another way
    again = True
    while again:
        again = False
        is_last_first = not (latest is not None and latest.is_asking and cast("StagedEntry", latest).is_brief)
        for entry in sorted(signature.entries, key=lambda e: (e is latest) is not is_last_first):
            if id(entry) in tried or not entry.fits(log):
                continue
            tried.add(id(entry))
            found = entry.attempt(given, log)
            if type(found) is tuple:
                _note_way(latest, entry)
                return entry, found
            if found is not None:
                log[:] = found.log
                if found.error is not None:
                    return None, found.error
                again = True
                break
    return None, None


def _note_way(latest: CompiledEntry | StagedEntry | None, entry: CompiledEntry | StagedEntry) -> None:
    """Note that a call went this way after the latest one: a way of single calls is tried last after itself."""
    if entry is not latest and latest is not None and latest.is_asking:
        left = cast("StagedEntry", latest)
        left.is_brief = left.taken == left.came_at
    if entry.is_asking:
        way = cast("StagedEntry", entry)
        if entry is latest:
            way.is_brief = False
        else:
            way.came_at = way.taken
        way.is_expected = not way.is_brief
