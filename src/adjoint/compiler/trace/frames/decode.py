"""A function's instructions with what each does, from the handlers of all: decoded once, however often it runs.

`HANDLERS` is the table of all instructions that are known, of Python 3.11 to 3.15. Code with any other is not followed.
"""

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
        found = _decoded_codes[code] = DecodedCode(code, HANDLERS)
    return found
