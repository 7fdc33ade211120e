"""The lowering of guards to pointer checks at the objects that decide them, so that Python need not ask again.

Checks are stricter than the guards: they hold only while the objects are the very ones they were. Where one fails, the
guards decide. Guards that have no checks stay with Python at each call.
"""

from __future__ import annotations

import builtins
import gc
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import CellType, FunctionType, MemberDescriptorType, ModuleType
from typing import Any

from adjoint.compiler.runtime import cpython_layout
from adjoint.compiler.runtime.cpython_layout import function_field_offsets, slot_offset
from adjoint.compiler.runtime.object_checks import (
    PointerCheck,
    check_attribute,
    check_class_version,
    check_entries,
    check_item,
    check_key_absent,
    check_method,
    check_nonzero,
    check_slot,
    check_version,
)
from adjoint.compiler.trace.frames.attribute_sources import AttributeSource, DefinitionSource, SuperSource
from adjoint.compiler.trace.frames.container_snapshot import flat_elements
from adjoint.compiler.trace.frames.sources import (
    MISSING,
    BuiltinSource,
    CellSource,
    ContentsSource,
    ElementsSource,
    GlobalSource,
    ItemSource,
    Source,
    class_dict_of,
    classes_above,
    find_class_entry,
    mro_of,
)
from adjoint.compiler.trace.frames.trace_rules import is_own_class, is_user_function
from adjoint.compiler.trace.guards import Guard, ProbeGuard, SourceGuard, ViewGuard
from adjoint.core.runtime.lazy_import import names_of
from adjoint.core.tensor.storage import view_of

Contents = Sequence[tuple[Mapping[str, object], frozenset[str]]]  # dicts, and the keys in each that do not count
REGISTRIES = ("_parameters", "_buffers", "_modules")  # of a module: in which its `__getattr__` looks, in this order
PLAIN_MAPPINGS = (dict, defaultdict, OrderedDict)  # whose items are what a check finds


def checks_of_guard(guard: Guard) -> list[PointerCheck] | None:
    """Return checks under which the guard holds as it does now; None if there are none.

    The guard must hold now.
    """
    try:
        if isinstance(guard, SourceGuard):
            return checks_of_source(guard.place)
        if isinstance(guard, ViewGuard):
            return _checks_of_view(guard)
        return _checks_of_probe(guard) if isinstance(guard, ProbeGuard) else None
    except (LookupError, AttributeError, TypeError, ValueError):  # something is gone
        return None


def checks_of_source(place: Source) -> list[PointerCheck] | None:
    """Return checks that the place has the object that it has now."""
    holder, name = place.holder, place.name
    if type(place) is ContentsSource:  # one in which no other lies, so that its elements tell all
        return None if flat_elements(holder) is None else _list_if_any(check_entries(holder))
    if type(place) is ElementsSource:
        return _list_if_any(check_entries(holder)) if type(holder) in (list, *PLAIN_MAPPINGS) else None
    # Each kind of place has the one cheapest check: a slot of an object where CPython keeps it at a fixed offset, an
    # item of a dict, or the version of a class. What has none is checked by Python.
    value = place.read()
    if type(place) is GlobalSource or (
        type(place) is ItemSource and type(holder) in PLAIN_MAPPINGS and type(name) in (str, int)
    ):
        return [check_key_absent(holder, name) if value is MISSING else check_item(holder, name, value)]
    if value is MISSING:
        return None
    if type(place) is BuiltinSource and name not in holder:
        return [check_key_absent(holder, name), check_item(vars(builtins), name, value)]
    if type(place) is DefinitionSource:
        return _checks_of_entry(mro_of(holder), name, value)
    if type(place) is SuperSource:
        return _checks_of_entry(classes_above(holder, place.this), name, value)
    if type(place) is ItemSource and type(holder) is list:
        return _list_if_any(check_entries(holder))
    if type(place) is CellSource and type(holder) is CellType:
        return [check_slot(holder, cpython_layout.CELL, value)]
    if type(place) is AttributeSource and type(holder) is FunctionType and name in function_field_offsets():
        return [check_slot(holder, function_field_offsets()[name], value)]
    if type(place) is AttributeSource and isinstance(holder, ModuleType):
        return [check_item(names_of(holder), name, value)] if name in names_of(holder) else None
    # A method of a class of ours that no attribute of the object hides: the object's class, the absent attribute and
    # the class's entry say all that Python would look at.
    if type(place) is AttributeSource and place.bound and is_own_class(type(holder)) and name not in vars(holder):
        itself = check_slot(holder, cpython_layout.TYPE, type(holder))
        entry = find_class_entry(type(holder), name)
        found = _checks_of_entry(mro_of(type(holder)), name, entry)
        return [itself, check_key_absent(vars(holder), name), *found] if entry is value else None
    registered = (
        None if type(place) is not AttributeSource or place.bound else _checks_of_registered(holder, name, value)
    )
    if registered is not None:
        return registered
    if type(place) is AttributeSource:
        return (
            [(check_method if place.bound else check_attribute)(holder, name, value)]
            if _is_stable_attribute(holder, place, value)
            else None
        )
    return None


def _checks_of_registered(holder: object, name: str, value: object) -> list[PointerCheck] | None:
    """Return checks of an attribute that a module has in one of its registries: no call of `__getattr__` is needed.

    They are that this dict has it, and that nothing which Python looks at before it has got the name. None if the
    attribute is no such one.
    """
    kind = type(holder)
    held, finder = getattr(holder, "__dict__", None), find_class_entry(kind, "__getattr__")
    if type(held) is not dict or not is_own_class(kind.__mro__[-2]) or is_user_function(finder):
        return None
    tables = [held.get(table) for table in REGISTRIES]
    owner = next((i for i, table in enumerate(tables) if type(table) is dict and name in table), None)
    if owner is None or name in held or not all(type(table) is dict for table in tables[: owner + 1]):
        return None
    found = [check_slot(holder, cpython_layout.TYPE, kind), check_key_absent(held, name)]
    found.append(check_attribute(kind, "__mro__", mro_of(kind)))
    for base in mro_of(kind)[:-1]:
        version = check_class_version(base) if is_own_class(base) else None
        if version is not None:
            found.append(version)
            continue
        (entries,) = gc.get_referents(class_dict_of(base))  # behind the proxy
        found += [check_key_absent(entries, key) for key in (name, "__getattr__", "__getattribute__")]
    for key, table in zip(REGISTRIES, tables[: owner + 1], strict=False):
        assert type(table) is dict
        found.append(check_item(held, key, table))
        found.append(check_item(table, name, value) if name in table else check_key_absent(table, name))
    return found


def _checks_of_view(guard: ViewGuard) -> list[PointerCheck] | None:
    """Return checks that neither the view nor its base was given other memory, or the view another history."""
    slots = cpython_layout.find_slot_offsets()
    if slots is None or view_of(guard.tensor) is not guard.view:
        return None
    base = guard.view.base
    return [
        check_slot(guard.tensor, slots.array, guard.tensor.array),
        check_slot(guard.tensor, slots.node, guard.tensor.node),
        check_slot(base, slots.array, base.array),
    ]


def _checks_of_entry(classes: tuple[type, ...], name: str, entry: object) -> list[PointerCheck]:
    """Return checks that the first of the classes to have the name has it, and has this; and that its bases are so."""
    found = [] if is_own_class(classes[0]) else [check_attribute(classes[0], "__mro__", mro_of(classes[0]))]
    for kind in classes:
        version = check_class_version(kind) if is_own_class(kind) else None  # nobody writes to these but to patch them
        if version is not None:
            found.append(version)
            if name in class_dict_of(kind):
                return found
            continue
        (held,) = gc.get_referents(class_dict_of(kind))  # behind the proxy
        if name in held:
            return [*found, check_item(held, name, entry)]
        found.append(check_key_absent(held, name))
    raise LookupError(name)


def _is_stable_attribute(holder: object, place: AttributeSource, value: object) -> bool:
    """True if a read of the attribute gives the same object each time."""
    if place.bound:
        return type(value) is FunctionType
    if isinstance(holder, (FunctionType, type)):
        return True
    return getattr(holder, place.name, MISSING) is value and getattr(holder, place.name, MISSING) is value


def _checks_of_probe(guard: ProbeGuard) -> list[PointerCheck] | None:
    """Return checks of what the probe's answer depends on, as declared; a probe of a dict is watched as it reads it."""
    dependencies = getattr(guard.probe, "depends_on", None)
    if dependencies is not None:
        contents = getattr(guard.contents, "depends_on", None)
        parts = None if contents is None else contents(guard.subject, guard.ignored)
        return checks_of_facts(dependencies(guard.subject), parts)
    return _checks_of_items(guard.subject, guard.probe) if type(guard.subject) in PLAIN_MAPPINGS else None


def checks_of_facts(facts: Iterable[object], contents: Contents | None = None) -> list[PointerCheck] | None:
    """Of (dict, key) the item; of (dict, key, None) the item, or that there is none; of a list or dict all it holds.

    With `contents` an item is a version, which stands for these dicts; the keys that go with each do not count.

    Of (object, name) its slot of that name; of (class, name) the attribute of the class or one above it.
    """
    found: list[PointerCheck | None] = []
    skipped = {id(part): keys for part, keys in contents or ()}
    for fact in facts:
        if not isinstance(fact, tuple):
            found.append(check_entries(fact, skipped.get(id(fact), frozenset())))
            continue
        holder, key = fact[:2]
        if contents is not None and type(holder) in PLAIN_MAPPINGS and len(fact) == 2:
            found.append(check_version(holder, key, contents))
            continue
        if isinstance(find_class_entry(type(holder), key), MemberDescriptorType) and len(fact) == 2:
            found.append(check_slot(holder, slot_offset(type(holder), key), getattr(holder, key)))
            continue
        if isinstance(holder, type):
            found += _checks_of_entry(mro_of(holder), key, find_class_entry(holder, key))
            continue
        if type(holder) not in PLAIN_MAPPINGS or (key not in holder and len(fact) == 2):
            return None
        found.append(check_item(holder, key, holder[key]) if key in holder else check_key_absent(holder, key))
    return None if None in found else [check for check in found if check is not None]


def _checks_of_items(subject: Mapping[Any, Any], probe: Callable[[Any], object]) -> list[PointerCheck] | None:
    """Return checks of the items that the probe reads, if it does nothing else with the dict.

    The check of a float asks no more than if it is 0, where the probe asks no more.
    """
    spy, careful = _ReadRecorder(subject, float), _ReadRecorder(subject, _ZeroTestedFloat)
    try:
        answer = probe(spy)
    except (LookupError, TypeError, AttributeError):
        return None
    try:
        alike = probe(careful) is answer and [*careful.read] == [*spy.read]
    except (LookupError, TypeError, AttributeError):
        alike = False
    checks = []
    for key in spy.read:
        value = subject[key]
        if alike and type(value) is float and value:
            checks.append(check_nonzero(subject, key))
        elif _is_immutable(value):
            checks.append(check_item(subject, key, value))
        else:
            return None
    return checks or None


def _is_immutable(value: float | Sequence[float | None] | str | None) -> bool:
    """True for None, numbers, strings, and tuples of these: the same object says the same."""
    if type(value) is tuple:
        return all(map(_is_immutable, value))
    return value is None or type(value) in (bool, int, float, str)


class _ReadRecorder:
    """Stands for a dict, and notes which items are read, floats as `kind`. Anything else that is asked of it fails."""

    __slots__ = ("kind", "read", "subject")

    def __init__(self, subject: Mapping[Any, Any], kind: Callable[[float], object]) -> None:
        self.subject, self.kind = subject, kind
        self.read: dict[str, object] = {}

    def __getitem__(self, key: str) -> object:
        value = self.subject[key]
        return self.read.setdefault(key, self.kind(value) if type(value) is float else value)


class _ZeroTestedFloat:
    """Stands for a float that may be asked if it is 0, and nothing else."""

    __slots__ = ("_value",)

    def __init__(self, value: float) -> None:
        self._value = value

    def __bool__(self) -> bool:
        return bool(self._value)

    def __eq__(self, other: object) -> bool:
        if type(other) not in (int, float) or other != 0:
            raise TypeError("more is asked of a number than if it is 0")
        return self._value == other

    def __hash__(self) -> int:
        raise TypeError("more is asked of a number than if it is 0")


def _list_if_any(check: PointerCheck | None) -> list[PointerCheck] | None:
    return None if check is None else [check]
