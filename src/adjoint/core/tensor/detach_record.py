"""Where a tensor lost its history: kept by the tensor itself, for those who ask why it has no gradient."""

from __future__ import annotations

import sys
from types import CodeType
from typing import Any

from adjoint.core.graph.source_location import Site, site_of, user_frame


class DetachRecord:
    """What ended the recording, `detach()` say, and the place in the user's program.

    In `mode.cut`, one for a whole block: `memory` is then what the results made in the block get for theirs.
    """

    __slots__ = ("at", "code", "memory", "what")
    what: str
    code: CodeType
    at: int
    memory: Any

    @property
    def site(self) -> Site:
        """The user's line."""
        return site_of(self.code, self.at)

    def __repr__(self) -> str:
        return f"{self.what} at {self.site}"


def detach_record_at(what: str, code: CodeType, at: int = 0, memory: Any = None) -> DetachRecord:
    """A cut at an instruction of `code`."""
    cut = DetachRecord()
    cut.what, cut.code, cut.at, cut.memory = what, code, at, memory
    return cut


def detach_record_here(what: str) -> DetachRecord:
    """A cut at the line of the user's program that called the function which calls this."""
    frame = user_frame(sys._getframe(2))
    cut = DetachRecord()
    cut.what, cut.code, cut.at, cut.memory = what, frame.f_code, frame.f_lasti, None
    return cut


def detach_record_of(tensor: Any) -> DetachRecord | None:
    """Where the tensor lost its history, if anybody took it away."""
    return getattr(tensor, "_cut", None)
