"""Functions of the library that the user's line calls, found among the frames of the stack."""

from __future__ import annotations

import sys
from types import FrameType

from adjoint.core.graph.source_location import library_files

MAX_DEPTH = 24


def find_library_call(*names: str) -> FrameType | None:
    """Return the frame of a library's function of one of these names, within the user's innermost line."""
    frame: FrameType | None = sys._getframe(1)
    for _ in range(MAX_DEPTH):
        if frame is None or not library_files[frame.f_code.co_filename]:
            return None
        if frame.f_code.co_name in names:
            return frame
        frame = frame.f_back
    return None
