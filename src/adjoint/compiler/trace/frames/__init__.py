"""The frame observer: a step's reads and writes of Python objects, seen while it is traced.

Modules, in reading order:

- `constants`: Plain values, which have no identity: numbers, strings, and tuples of them.
- `trace_rules`: The code to observe: the user's, as opposed to that of Python, NumPy and this library, which is
  relied upon.
- `container_snapshot`: Snapshots of containers: what they hold, by value where it is plain and by identity elsewhere.
- `sources`: Sources: the places in Python's objects that a step may read or write.
- `attribute_sources`: Sources that are attributes: of objects, of their classes, and of the classes above these.
- `impure_calls`: The calls that a compiled step cannot repeat: what they do, told by the object called.
- `preexisting`: Preexisting objects: those that the step reached through the places it read, and all that they hold.
- `static_getattr`: Static attribute lookup: the result of `getattr`, without running the user's code.
- `observations`: The reads and writes of a step, and the rules for which of them count: each place once, as it was
  before.
- `shadow_frame`: A frame of the user's while it runs: a shadow of its stack, moved by each instruction before that is
  executed.
- `attributes_items`: Attribute access and subscripts: their reads and writes.
- `calls`: Calls: their reads and writes.
- `bytecode`: The instructions of Python's bytecode, by name: their effect on the stack.
- `load_store`: The instructions that read and write: names, attributes, items, operators.
- `decode`: A function's instructions with what each does, from the handlers of all: decoded once, however often it
  runs.
- `frame_observer`: The witness of a trace: what the user's Python read from outside of the step, and what it wrote
  there.
- `host_functions`: Host functions: those that act outside of a step, such as `print`.
- `late_texts`: Texts of numbers that each call computes, and what may be done with them.
- `cached_calls`: Calls of functions under `functools.lru_cache`: what C code keeps of earlier calls is read, and
  never filled.
- `replaced_container`: Lists and dicts that a step replaces by new ones: each call finds their parts by the place,
  whatever is there.
"""

from adjoint.compiler.trace.frames.attribute_sources import AttributeSource, DefinitionSource
from adjoint.compiler.trace.frames.constants import is_same_constant
from adjoint.compiler.trace.frames.frame_observer import FrameObserver
from adjoint.compiler.trace.frames.observations import ObservedRead, ObservedWrite
from adjoint.compiler.trace.frames.sources import MISSING, CellSource, ContentsSource, GlobalSource, ItemSource, Source

__all__ = [
    "AttributeSource", "CellSource", "ContentsSource", "DefinitionSource", "FrameObserver", "GlobalSource",
    "ItemSource", "MISSING", "ObservedRead", "ObservedWrite", "Source", "is_same_constant",
]  # fmt: skip
