"""The user's line: the innermost frame outside the library."""

from __future__ import annotations

import os
import sys
from types import FrameType
from typing import NamedTuple

PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


class Site(NamedTuple):
    """A place in the user's program."""

    file: str
    line: int
    function: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


def user_site() -> Site:
    """Where the user's code called into the library, seen from the calling thread's stack."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(PACKAGE):
        frame = frame.f_back
    if frame is None:
        return Site("<unknown>", 0, "<unknown>")
    return Site(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name)
