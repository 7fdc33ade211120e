"""Sources that are attributes: of objects, of their classes, and of the classes above these."""

from __future__ import annotations

from contextlib import suppress
from types import FunctionType, ModuleType

from adjoint.compiler.trace.frames.sources import (
    MISSING,
    NameOf,
    Source,
    class_dict_of,
    classes_above,
    find_class_entry,
    find_entry_above,
)
from adjoint.compiler.trace.frames.trace_rules import is_user_function
from adjoint.core.runtime.lazy_import import names_of
from adjoint.core.typing import Operand


class AttributeSource(Source):
    """An attribute, as `getattr` finds it; of a method bound to the holder, the function.

    That notices a method replaced in the object, in its class or in a class above.
    """

    __slots__ = ("bound",)

    def __init__(self, holder: object, name: str, bound: bool = False) -> None:
        self.holder = holder
        self.name = name
        self.bound = bound

    @property
    def what(self) -> str:
        """`attribute 'scale' of Model`."""
        kind = "method" if self.bound else "attribute"
        if isinstance(self.holder, type):
            return f"{kind} {self.name!r} of class {self.holder.__name__}"
        if isinstance(self.holder, ModuleType):
            return f"{kind} {self.name!r} of module {self.holder.__name__}"
        named = self.holder if isinstance(self.holder, FunctionType) else type(self.holder)
        return f"{kind} {self.name!r} of {named.__name__}"

    def read(self) -> object:
        value: object = getattr(self.holder, self.name, MISSING)
        if not self.bound:
            return value
        # another callable took the method's place: it is the value, and differs from the function
        function: object = getattr(value, "__func__", value)
        return function

    def read_own(self) -> object:
        kind, name = type(self.holder), self.name
        if isinstance(self.holder, type):
            return class_dict_of(self.holder).get(name, MISSING)
        held = names_of(self.holder) if isinstance(self.holder, ModuleType) else getattr(self.holder, "__dict__", {})
        if name in held:
            found: object = held[name]
            return found
        entry = find_class_entry(kind, name)
        slotted = entry is not MISSING and find_class_entry(type(entry), "__set__") is not MISSING
        registered = entry is MISSING and not is_user_function(find_class_entry(kind, "__getattr__"))  # in a Module
        value: object = getattr(self.holder, name, MISSING) if slotted or registered else MISSING
        return value

    def delete(self) -> None:
        with suppress(AttributeError):
            delattr(self.holder, self.name)

    def expression(self, name: NameOf) -> str:
        """`o.scale`; of a method `o.scale.__func__`."""
        source = f"{name(self.holder)}.{self.name}"
        if not self.name.isidentifier():
            source = f"getattr({name(self.holder)}, {self.name!r})"
        return f"{source}.__func__" if self.bound else source

    def _set(self, value: Operand) -> None:
        setattr(self.holder, self.name, value)


class DirectAttributeSource(AttributeSource):
    """An entry of an object's own `__dict__`, beside the `__getattribute__` of its class."""

    __slots__ = ()

    def read(self) -> object:
        found: object = object.__getattribute__(self.holder, "__dict__").get(self.name, MISSING)
        return found

    def read_own(self) -> object:
        return self.read()

    def delete(self) -> None:
        with suppress(AttributeError):
            object.__delattr__(self.holder, self.name)

    def expression(self, name: NameOf) -> str:
        """`object_getattribute(o, 'scale')`."""
        return f"{name(object.__getattribute__)}({name(self.holder)}, {self.name!r})"

    def _set(self, value: Operand) -> None:
        object.__setattr__(self.holder, self.name, value)


class DefinitionSource(Source):
    """The attribute of a class or one above it under a name, such as a descriptor."""

    __slots__ = ()

    @property
    def what(self) -> str:
        """`definition of 'size' in class Model`."""
        return f"definition of {self.name!r} in class {self.holder.__name__}"

    def read(self) -> object:
        return find_class_entry(self.holder, self.name)

    def delete(self) -> None:
        with suppress(AttributeError):
            delattr(self.holder, self.name)

    def expression(self, name: NameOf) -> str:
        """`find_class_entry(o, 'size')`."""
        return f"{name(find_class_entry)}({name(self.holder)}, {self.name!r})"

    def _set(self, value: object) -> None:
        setattr(self.holder, self.name, value)


class SuperSource(Source):
    """The attribute that `super(this, …).name` finds for objects of the class `holder`, unbound."""

    __slots__ = ("this",)

    def __init__(self, holder: type, this: type, name: str) -> None:
        self.holder, self.this, self.name = holder, this, name

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SuperSource) and self.key == other.key

    __hash__ = Source.__hash__

    @property
    def key(self) -> tuple[object, ...]:
        """The class of the object, the class in whose code `super()` stands, and the name."""
        return type(self), id(self.holder), id(self.this), self.name

    @property
    def what(self) -> str:
        """`attribute 'scale' above class Model`."""
        return f"attribute {self.name!r} above class {self.this.__name__}"

    def read(self) -> object:
        return find_entry_above(self.holder, self.this, self.name)

    def read_own(self) -> object:
        return class_dict_of(self._owner()).get(self.name, MISSING)

    def delete(self) -> None:
        with suppress(AttributeError):
            delattr(self._owner(), self.name)

    def expression(self, name: NameOf) -> str:
        """`find_entry_above(K, Model, 'scale')`."""
        return f"{name(find_entry_above)}({name(self.holder)}, {name(self.this)}, {self.name!r})"

    def _owner(self) -> type:
        above = classes_above(self.holder, self.this)
        return next((base for base in above if self.name in class_dict_of(base)), above[0])

    def _set(self, value: object) -> None:
        setattr(self._owner(), self.name, value)
