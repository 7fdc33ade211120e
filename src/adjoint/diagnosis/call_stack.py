"""The user's frames, of calls that run and of calls that an error has ended."""

from __future__ import annotations

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


class _UserFiles(dict[str, bool]):
    """A dictionary that tells of each file whether the user has written it."""

    def __missing__(self, file: str) -> bool:
        self[file] = found = not library_files[file] and not file.startswith((*INSTALLED, "<frozen"))
        return found


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
