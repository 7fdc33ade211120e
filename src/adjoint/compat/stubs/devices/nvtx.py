"""`adjoint.cuda.nvtx`: marks for a profiler of CUDA devices, which nobody reads here."""

from __future__ import annotations

from contextlib import ContextDecorator
from typing import Any

from adjoint.compat.absent_device import NoStream, constant_functions

globals().update(
    constant_functions("adjoint.cuda.nvtx", {"mark": None, "range_end": None, "range_pop": -1, "range_push": -1})
)


class range(ContextDecorator, NoStream):
    """`with range(message)`, or a decorator: the block, or the function, runs as without."""

    def __init__(self, msg: str, *args: Any, **kwargs: Any) -> None:
        super().__init__()
