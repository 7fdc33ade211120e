"""`adjoint.compile` for those below it: a module compiles its own calls."""

from __future__ import annotations

from adjoint.core.runtime.slot import Slot
from adjoint.core.typing import Function

compile_slot: Slot[Function] = Slot("compile")
