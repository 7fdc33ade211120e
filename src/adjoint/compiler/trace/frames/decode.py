"""A function's instructions with what each does, from the handlers of all: decoded once, however often it runs."""

from __future__ import annotations

from types import CodeType
from weakref import WeakKeyDictionary

from adjoint.compiler.trace.frames import bytecode, load_store
from adjoint.compiler.trace.frames.shadow_frame import Decoded, Handlers

HANDLERS = Handlers({**bytecode.HANDLERS, **load_store.HANDLERS})
_decoded: WeakKeyDictionary[CodeType, Decoded] = WeakKeyDictionary()


def decode(code: CodeType) -> Decoded:
    """The code's instructions, decoded once."""
    found = _decoded.get(code)
    if found is None:
        found = _decoded[code] = Decoded(code, HANDLERS, bytecode.generic)
    return found
