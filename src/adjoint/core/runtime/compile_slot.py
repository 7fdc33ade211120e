"""`adjoint.compile` for those below it: a module compiles its own calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from adjoint.core.runtime.slot import Slot

compile_slot: Slot[Callable[..., Any]] = Slot("compile")
