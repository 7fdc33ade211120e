"""Signal handlers that interrupt a trace: nothing of them is traced, and they see all as it was before the step.

Python runs them between any two instructions of the main thread. For their time the tensors that hold symbols, and the
places that the step wrote, have what they had. Where a handler changes any of that, the trace tells of a state that is
no more: it is given up, and the call runs eagerly.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING

from adjoint.compiler.trace.frames import ContentsSource, FrameObserver, Source
from adjoint.compiler.trace.frames.container_snapshot import copy_container
from adjoint.core.runtime.mode import INHERITED_BY_THREADS, ModeScope, mode
from adjoint.core.runtime.signal_handlers import Handler, handlers_replaced

if TYPE_CHECKING:
    from types import FrameType

    from adjoint.compiler.trace.tracer import Tracer

Suspend = Callable[[], AbstractContextManager[object]]


class TraceSuspension:
    """Suspends a trace. `numbers`: the places where the trace has put symbols, and the numbers that were there.

    `was_disturbed`: what the trace began with was changed meanwhile.
    """

    def __init__(self, tracer: Tracer, observer: FrameObserver, numbers: list[tuple[Source, object]]) -> None:
        self.tracer, self.observer, self.numbers = tracer, observer, numbers
        self.modes = {name: mode.__dict__[name] for name in INHERITED_BY_THREADS}  # as they are outside
        self.was_disturbed = False
        self.handler_errors: list[Exception] = []

    @contextmanager
    def suspend(self) -> Iterator[None]:
        """A block, outside of the trace, of the thread that traces."""
        places = [(write.place, write.before) for write in reversed(self.observer.writes)] + self.numbers
        held = [(place, _copy_held(place)) for place, _ in places]
        slots = self.tracer.outside_slots()
        symbols = [(tensor, slot, getattr(tensor, slot)) for tensor, slot, _ in slots]
        for place, before in places:
            place.write(before)
        for tensor, slot, outside in slots:
            setattr(tensor, slot, outside)
        try:
            with self.outer_modes():
                yield
        except Exception as error:
            self.handler_errors.append(error)
            raise
        finally:
            for (tensor, slot, symbol), (_, _, outside) in zip(symbols, slots, strict=True):
                now = getattr(tensor, slot)
                if now is not outside:
                    self.was_disturbed = True
                    self.tracer.change_outside(tensor, slot, now)
                if symbol is not outside:
                    setattr(tensor, slot, symbol)
            for (place, value), (_, before) in zip(reversed(held), reversed(places), strict=True):
                now = _copy_held(place)
                if not _is_same(now, before):
                    self.was_disturbed = True
                    self.observer.change_before(place, now)
                if not _is_same(value, before):
                    place.write(value)

    def outer_modes(self) -> ModeScope:
        """Return a block in the modes in which the trace began."""
        return ModeScope(**self.modes)


def _copy_held(place: Source) -> object:
    return copy_container(place.holder) if isinstance(place, ContentsSource) else place.read()


def _is_same(now: object, before: object) -> bool:
    """Return whether a place holds the same objects."""
    if isinstance(now, dict) and isinstance(before, dict):
        return _is_same([*now, *now.values()], [*before, *before.values()])
    if isinstance(now, list) and isinstance(before, list):
        return [*map(id, now)] == [*map(id, before)]
    return now is before


def handlers_outside(suspend: Suspend) -> AbstractContextManager[None]:
    """A block of a trace, in which signal handlers run in a block of `suspend()`, and unobserved."""

    def run_outside(handler: Handler, number: int, frame: FrameType | None) -> object:
        watching = sys.gettrace()
        try:
            if watching is not None:
                sys.settrace(None)
            with suspend():
                return handler(number, frame)
        finally:
            if watching is not None:
                sys._getframe().f_trace_opcodes = True  # see FrameObserver.observe
                sys.settrace(watching)

    return handlers_replaced(run_outside)
