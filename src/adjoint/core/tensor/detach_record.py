"""The record of the line at which a tensor lost its history, which `why_no_grad` shows."""

from __future__ import annotations

import sys
from types import CodeType
from typing import Any

from adjoint.core.graph.source_location import Site, site_of, user_frame


class DetachRecord:
    """The call that ended recording, such as `detach()`, and the user's line.

    `mode.detach_record` has one for a whole block; results of the block then take its `memory`.
    """

    __slots__ = ("instruction_offset", "code", "memory", "what")
    what: str
    code: CodeType
    instruction_offset: int
    memory: Any  # `INFERENCE` for a block of inference mode, else None

    @property
    def site(self) -> Site:
        """The user's line."""
        return site_of(self.code, self.instruction_offset)

    def __repr__(self) -> str:
        return f"{self.what} at {self.site}"


def detach_record_at(what: str, code: CodeType, at: int = 0, memory: object = None) -> DetachRecord:
    """Make a record of an instruction of `code`."""
    cut = DetachRecord()
    cut.what, cut.code, cut.instruction_offset, cut.memory = what, code, at, memory
    return cut


def detach_record_here(what: str) -> DetachRecord:
    """Make a record of the user's line that called the calling function."""
    frame = user_frame(sys._getframe(2))
    cut = DetachRecord()
    cut.what, cut.code, cut.instruction_offset, cut.memory = what, frame.f_code, frame.f_lasti, None
    return cut


def detach_record_of(tensor: object) -> DetachRecord | None:
    """Return the record of where the tensor lost its history, if it did."""
    return getattr(tensor, "_detach_record", None)
