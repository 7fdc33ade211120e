"""The user's line: the innermost frame outside the library."""

from __future__ import annotations

import linecache
import os
import sys
import warnings
from collections.abc import Callable
from itertools import islice
from types import CodeType, FrameType
from typing import NamedTuple

PACKAGE = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", "..")) + os.sep


class Site(NamedTuple):
    """A place in the user's program."""

    file: str
    line: int
    function: str

    def __str__(self) -> str:
        return describe_cell_line(self.file, self.line) or f"{self.file}:{self.line}"

    def describe_briefly(self) -> str:
        """Return the place without the folders of its file."""
        return describe_cell_line(self.file, self.line) or f"{os.path.basename(self.file)}:{self.line}"


def describe_cell_line(file: str, line: int) -> str | None:
    """Return IPython's words for a line of a notebook, such as "Cell In[26], line 1"; None for a line of a file."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    named = None if shell is None else shell.compile.format_code_name(file)
    return None if named is None else f"{' '.join(named)}, line {line}"


# A code, and the offset of an instruction in it: a `Site` that nobody has asked for yet.
InstructionLocation = tuple[CodeType, int]


class _LibraryFiles(dict[str, bool]):
    """A dictionary that tells of each file whether it belongs to the library."""

    def __missing__(self, file: str) -> bool:
        self[file] = found = file.startswith(PACKAGE)
        return found


library_files = _LibraryFiles()


class RecordedPass:
    """The end of a search for the user's line in a backward pass that is recorded: its line is known.

    Ops are called seven frames below it, which would take as long to walk as half of an op.
    """

    __slots__ = ("code", "find_line")

    def __init__(self) -> None:
        self.code: CodeType | None = None  # of the function of the pass that calls the rules of ops
        self.find_line: Callable[[], InstructionLocation] = user_instruction  # of the pass that this thread runs

    def set(self, code: CodeType, find_line: Callable[[], InstructionLocation]) -> None:
        """Let searches of recorded ops end at the frames of `code`. Its file holds no code that the user's calls."""
        self.code, self.find_line = code, find_line
        recorder_files[code.co_filename] = False


# As `library_files`, for the search that each recorded op makes, which ends at `RecordedPass.code`, too.
recorder_files = _LibraryFiles()


def user_frame(frame: FrameType) -> FrameType:
    """Return the first frame from `frame` outward that runs code outside the library; the outermost if none does."""
    while library_files[frame.f_code.co_filename]:
        below = frame.f_back
        if below is None:
            break
        frame = below
    return frame


def user_site() -> Site:
    """Return the user's line that called into the library, from the stack of the calling thread."""
    frame = user_frame(sys._getframe(1))
    return Site(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name)


def user_instruction(depth: int = 1) -> InstructionLocation:
    """Return the user's line as a node stores it: code and offset. The innermost `depth` frames are the library's."""
    frame = user_frame(sys._getframe(depth))
    return frame.f_code, frame.f_lasti


recorded_pass = RecordedPass()


def warn_user(message: str, kind: type[Warning] = UserWarning) -> None:
    """Warn of the user's line, however many frames of the library lie between."""
    frame, level = sys._getframe(1), 2
    while library_files[frame.f_code.co_filename] and frame.f_back is not None:
        frame, level = frame.f_back, level + 1
    warnings.warn(message, kind, stacklevel=level)


def definition_site(code: CodeType) -> Site:
    """Return the line at which a function begins, below its decorators."""
    line = code.co_firstlineno
    while linecache.getline(code.co_filename, line).lstrip().startswith("@"):
        line += 1
    return Site(code.co_filename, line, code.co_name)


def site_of(code: CodeType, at: int) -> Site:
    """Return the line of the instruction `at` (a byte offset, `frame.f_lasti`) of a function's code."""
    line = next((row[0] for row in islice(code.co_positions(), at // 2, None)), None)
    return Site(code.co_filename, line or code.co_firstlineno, code.co_name)
