"""The user's line: the innermost frame outside the library."""

from __future__ import annotations

import os
import sys
from itertools import islice
from types import CodeType, FrameType
from typing import NamedTuple

PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


class Site(NamedTuple):
    """A place in the user's program."""

    file: str
    line: int
    function: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


users: set[str] = set()  # the files outside the library that were met so far


def user_frame(frame: FrameType) -> FrameType:
    """`frame`, or the innermost one below it that runs code outside the library; the outermost if all is library."""
    while frame.f_back is not None:
        file = frame.f_code.co_filename
        if file in users:
            break
        if not file.startswith(PACKAGE):
            users.add(file)
            break
        frame = frame.f_back
    return frame


def user_site() -> Site:
    """Where the user's code called into the library, seen from the calling thread's stack."""
    frame = user_frame(sys._getframe(1))
    return Site(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name)


def user_place() -> tuple[CodeType, int]:
    """`user_site` as a node keeps it, for `site_of` to tell: the code, and the offset of the instruction in it."""
    frame = user_frame(sys._getframe(1))
    return frame.f_code, frame.f_lasti


def site_of(code: CodeType, at: int) -> Site:
    """The place of the instruction `at` (a byte offset, `frame.f_lasti`) of a function's code."""
    line = next((row[0] for row in islice(code.co_positions(), at // 2, None)), None)
    return Site(code.co_filename, line or code.co_firstlineno, code.co_name)
