"""A function's instructions with what each does, from the handlers of all: decoded once, however often it runs."""

from __future__ import annotations

from types import CodeType
from weakref import WeakKeyDictionary

from adjoint.compiler.trace.frames import bytecode, load_store
from adjoint.compiler.trace.frames.shadow_frame import DecodedCode, Handlers

HANDLERS = Handlers({**bytecode.HANDLERS, **load_store.HANDLERS})
_decoded_codes: WeakKeyDictionary[CodeType, DecodedCode] = WeakKeyDictionary()


def decode(code: CodeType) -> DecodedCode:
    """The code's instructions, decoded once."""
    found = _decoded_codes.get(code)
    if found is None:
        found = _decoded_codes[code] = DecodedCode(code, HANDLERS, bytecode.refuse_unknown)
    return found
