"""The user's frames, of calls that run and of calls that an error has ended."""

from __future__ import annotations

import inspect
import sys
import sysconfig
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from types import FrameType, TracebackType

from adjoint.core.graph.source_location import library_files

# folders of the standard library and of installed packages, whose lines are none of the user's
INSTALLED = tuple({sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")})


@dataclass(frozen=True)
class UserFrame:
    """A frame of the user's code, the instruction at which it is, and the library's frames that it has called.

    Those go from the outer to the next of the user's, or to the end.
    """

    frame: FrameType
    offset: int
    called: tuple[FrameType, ...]


Stack = Sequence[UserFrame]  # innermost first
REFERENCES_TO_SNAPSHOT = 3  # the frame's, that of the name that reads it, and that of the call that counts


class _UserFiles(dict[str, bool]):
    """A dictionary that tells of each file whether the user has written it."""

    def __missing__(self, file: str) -> bool:
        is_compiled = file.endswith((".pyx", ".pxd"))  # of a package in Cython, whose frames have no file here
        self[file] = not library_files[file] and not is_compiled and not file.startswith((*INSTALLED, "<frozen"))
        return self[file]


user_files = _UserFiles()


def find_stack(trace: TracebackType | None) -> Stack:
    """Return the user's frames that an error has left, and those that go on, from the line that raised it outward."""
    ended = []
    while trace is not None:
        ended.append((trace.tb_frame, trace.tb_lasti))
        trace = trace.tb_next
    running = []
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        running.append((frame, frame.f_lasti))
        frame = frame.f_back
    if ended:  # the outermost of those still runs
        frames = [each for each, _ in running]
        outside = frames.index(ended[0][0]) + 1 if ended[0][0] in frames else len(frames)
        running = running[outside:]
    return _select_user_frames([*reversed(ended), *running])


def _select_user_frames(frames: Iterable[tuple[FrameType, int]]) -> Stack:
    """Return the frames of the user's files; if there are none, those outside of the library."""
    frames = list(frames)
    wanted: list[Callable[[str], bool]] = [lambda file: user_files[file], lambda file: not library_files[file]]
    for is_wanted in wanted:
        found: list[UserFrame] = []
        called: list[FrameType] = []
        for frame, offset in frames:
            if is_wanted(frame.f_code.co_filename):
                found.append(UserFrame(frame, offset, tuple(called[::-1])))
                called = []
            else:
                called.append(frame)
        if found:
            return found
    return []


def release_locals(stack: Stack) -> None:
    """Empty the copies of local variables that reading `f_locals` has left in the frames of a stack.

    CPython before 3.13 keeps such a copy until the call ends: a tensor that the user deletes would stay alive, with
    its graph. A copy that the program holds too, by `locals()`, stays as it is, and so do all under a debugger, which
    writes them back.
    """
    if sys.version_info >= (3, 13) or sys.gettrace() is not None:
        return
    for place in stack:
        for frame in (place.frame, *place.called):
            if frame.f_code.co_flags & inspect.CO_OPTIMIZED:  # those of a module or class are no copy
                snapshot = frame.f_locals
                if sys.getrefcount(snapshot) == REFERENCES_TO_SNAPSHOT:
                    snapshot.clear()
