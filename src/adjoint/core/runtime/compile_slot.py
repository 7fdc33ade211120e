"""The compiler for those below it: a module compiles its own calls, and a program's runner its training steps."""

from __future__ import annotations

from adjoint.core.runtime.slot import Slot
from adjoint.core.typing import Function

compile_slot: Slot[Function] = Slot("compile")
compile_source_slot: Slot[Function] = Slot("compile_source")
