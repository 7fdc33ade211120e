"""What a step reads from Python, and what it writes there, observed while it is traced.

Modules, in reading order:

- `constants`: Plain values, which have no identity: numbers, strings, and tuples of them.
- `trace_rules`: Whose code it is: the user's, which is observed, or that of Python, NumPy and this library, which is
  relied upon.
- `container_snapshot`: Snapshots of containers: what they hold, by value where it is plain and by identity elsewhere.
- `sources`: Where Python keeps a value that a step may read or write.
- `impure_calls`: The calls that a compiled step cannot repeat: what they do, told by the object called.
- `preexisting`: What existed before the step: what was reached through the places it read, and all that is held by
  such things.
- `static_getattr`: What `getattr` would find, without running the user's code for it.
- `observations`: What a step was seen to read and write, and the rules for what of it counts: each place once, as it
  was before.
- `shadow_frame`: A frame of the user's while it runs: a shadow of its stack, moved by each instruction before that is
  executed.
- `attributes_items`: What attribute access and subscripts read and write.
- `calls`: What calls read and write.
- `bytecode`: What each instruction of Python's bytecode does to the stack, by its name.
- `load_store`: The instructions that read and write: names, attributes, items, operators.
- `decode`: A function's instructions with what each does, from the handlers of all: decoded once, however often it
  runs.
- `frame_observer`: The witness of a trace: what the user's Python read from outside of the step, and what it wrote
  there.
"""

from adjoint.compiler.trace.frames.constants import is_same_constant
from adjoint.compiler.trace.frames.frame_observer import FrameObserver
from adjoint.compiler.trace.frames.observations import ObservedRead, ObservedWrite
from adjoint.compiler.trace.frames.sources import (
    MISSING,
    AttributeSource,
    CellSource,
    ContentsSource,
    DefinitionSource,
    GlobalSource,
    ItemSource,
    Source,
)

__all__ = [
    "AttributeSource", "CellSource", "ContentsSource", "DefinitionSource", "FrameObserver", "GlobalSource",
    "ItemSource", "MISSING", "ObservedRead", "ObservedWrite", "Source", "is_same_constant",
]  # fmt: skip
