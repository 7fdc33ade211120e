"""What a step reads from Python, and what it writes there, observed while it is traced."""

from adjoint.compiler.capture.place import MISSING, Attribute, Cell, Contents, Definition, Global, Item, Place
from adjoint.compiler.capture.plain import unchanged
from adjoint.compiler.capture.witness import Read, Witness, Write

__all__ = [
    "Attribute",
    "Cell",
    "Contents",
    "Definition",
    "Global",
    "Item",
    "MISSING",
    "Place",
    "Read",
    "Witness",
    "Write",
    "unchanged",
]
