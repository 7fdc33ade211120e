"""Lists, dicts and objects that a compiled function takes, and may change: a trace works on copies of them.

A compiled step must not change its arguments, of which each call brings others. The statements of a loop may: so they
run on copies, and the results tell which of the caller's containers is to hold what.
"""

from __future__ import annotations

import functools
from collections.abc import Container, Iterator, Sequence

from adjoint.compiler.ir.graph import TraceError
from adjoint.compiler.trace.frames.trace_rules import is_user_class
from adjoint.core.runtime import pytree
from adjoint.core.runtime.mode import mode
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Function, Operand, Operands


class ContainerRef:
    """Stands in a result for the n-th container that the function has taken."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __repr__(self) -> str:
        return f"<container {self.number}>"


_refs: list[ContainerRef] = []  # one for each number: programs compare them by identity


class RecordParts:
    """The attributes of a record as a tree: of each class of records there is a subclass, for `kind`."""

    kind: type

    def __init__(self, held: dict[str, Operand]) -> None:
        self.held = held

    def tree_part(self) -> dict[str, Operand]:
        """The attributes."""
        return self.held

    @classmethod
    def rebuild_tree(cls, held: dict[str, Operand]) -> Operand:
        """A record with these attributes."""
        made: Operand = object.__new__(cls.kind)
        made.__dict__.update(held)
        return made


class TakenContainers:
    """The containers within the values that a function takes: `values` are copies, on which it is to work."""

    def __init__(self, given: Sequence[Operand]) -> None:
        self.values = [_copy(value) for value in given]
        self._containers = list(find_containers(tuple(self.values)))
        self._before = [[*_items_of(container)] for container in self._containers]

    def pack(self, results: Operands) -> tuple[Operands, Operands | None]:
        """The results, and what changed: for each such container its number and what it holds; None if it is nothing.

        In both, a container that was taken is told by its number.
        """
        numbers = {id(container): i for i, container in enumerate(self._containers)}
        changed = [
            (i, container)
            for i, (container, before) in enumerate(zip(self._containers, self._before, strict=True))
            if [*map(id, _items_of(container))] != [*map(id, before)]
        ]
        has_records = False  # which are told by their parts: a step that returns objects returns others in each call
        outside = () if mode.interpreter is None else mode.interpreter.kept_values()
        kept = {id(container) for value in outside for container in find_containers(value)}
        met = set[int]()
        for container in find_containers((*results, *[tuple(_items_of(held)) for _, held in changed]), known=numbers):
            if id(container) in kept or (id(container) in met and id(container) not in numbers):
                raise TraceError("a list or dict is in two places when a turn of the loop ends, and copies would part")
            met.add(id(container))
            has_records = has_records or (is_record(container) and id(container) not in numbers)
        contents = [
            (i, [*container] if isinstance(container, list) else dict(_attributes_or_items(container)))
            for i, container in changed
        ]
        held = [(i, _name_containers(whole, numbers)) for i, whole in contents]
        named = tuple([_name_containers(result, numbers) for result in results])
        return named, tuple(held) if held or has_records or not met.isdisjoint(numbers) else None


def take_containers(given: Operands) -> TakenContainers:
    """The containers of what a function takes."""
    return TakenContainers(given)


def settle_containers(
    given: Sequence[Operand], results: Operands, changed: Sequence[tuple[int, Operand]]
) -> tuple[Operand, ...]:
    """Let the containers among `given` hold what they are to hold; the results, with these containers in them."""
    containers = list(find_containers(tuple(given)))
    for number, held in changed:
        container, held = containers[number], _find_named(held, containers)
        if isinstance(container, list):
            container[:] = held
        else:
            items = _attributes_or_items(container)
            items.clear()
            items.update(held)
    return tuple([_find_named(result, containers) for result in results])


def run_on_copies(function: Function, given: Operands, records: Container[int]) -> Operand:
    """The result of a function that looks at the records among its arguments, which stand at these positions.

    Raises: TraceError if it changes or keeps one: it has copies of them.
    """
    taken = TakenContainers([value for i, value in enumerate(given) if i in records])
    copies = iter(taken.values)
    result = function(*[next(copies) if i in records else value for i, value in enumerate(given)])
    if taken.pack((result,))[1] is not None:
        raise TraceError("an object of which each call brings another is changed or kept, and a program has its parts")
    return result


def is_batch(value: Operand) -> bool:
    """True for a record that holds nothing but tensors, numbers and texts, in lists and dicts maybe: a batch."""
    if not is_record(value) or any(map(is_record, _parts_of(value))):
        return False
    leaves = pytree.flatten(vars(value))[0]
    return all(isinstance(leaf, Tensor | float | int | str | None) for leaf in leaves)


def find_containers(value: Operand, around: tuple[int, ...] = (), known: Container[int] = ()) -> Iterator[Operand]:
    """The lists, dicts and records of a tree, outer ones before those in them; what holds itself comes twice.

    What lies in `known` ones, by their ids, does not come.
    """
    if isinstance(value, list | dict) or is_record(value):
        yield value
        if id(value) in around or id(value) in known:
            return
        around = (*around, id(value))
    for part in _parts_of(value):
        yield from find_containers(part, around, known)


def is_record(value: Operand) -> bool:
    """True for an object of a class of the program's that is nothing but its attributes."""
    kind: Operand = type(value)
    return not isinstance(value, type) and _is_record_class(kind)


@functools.lru_cache(maxsize=256)
def _is_record_class(kind: Operand) -> bool:
    bases = kind.__mro__[:-1]
    if not all(map(is_user_class, bases)) or not hasattr(kind, "__dict__") or issubclass(kind, Tensor):
        return False
    special = ("__slots__", "__getattribute__", "__setattr__", "__new__", "__del__", "__call__")
    has_special = any(name in vars(base) for base in bases for name in special)
    return bool(bases) and kind.__dictoffset__ != 0 and not has_special


@functools.lru_cache(maxsize=256)
def _make_parts_class(kind: Operand) -> type[RecordParts]:
    return type(f"{kind.__name__}Parts", (RecordParts,), {"kind": kind})


def _parts_class(record: Operand) -> type[RecordParts]:
    """The class of the parts of a record."""
    kind: Operand = type(record)
    return _make_parts_class(kind)


def lower_records(value: Operand) -> Operand:
    """A tree with the attributes of each record in its place."""
    if is_record(value):
        return _parts_class(value)({name: lower_records(part) for name, part in vars(value).items()})
    return _rebuild(value, lower_records)


def _copy(value: Operand) -> Operand:
    """A copy of a tree: other containers around the same leaves."""
    if isinstance(value, RecordParts):
        return value.rebuild_tree({name: _copy(part) for name, part in value.held.items()})
    if is_record(value):
        return _parts_class(value).rebuild_tree({name: _copy(part) for name, part in vars(value).items()})
    return _rebuild(value, _copy)


def _parts_of(value: Operand) -> Sequence[Operand]:
    """The parts of a container or tuple."""
    if isinstance(value, dict):
        return [*value.values()]
    if isinstance(value, list | tuple):
        return value
    return [*vars(value).values()] if is_record(value) else ()


def _items_of(container: Operand) -> Iterator[Operand]:
    """The keys of a container, and what lies in it."""
    if isinstance(container, list):
        yield from container
    else:
        yield from _attributes_or_items(container)
        yield from _attributes_or_items(container).values()


def _attributes_or_items(container: Operand) -> dict[Operand, Operand]:
    """A dict itself, the attributes of a record."""
    found: dict[Operand, Operand] = container if isinstance(container, dict) else container.__dict__
    return found


def _name_containers(value: Operand, numbers: dict[int, int]) -> Operand:
    """A tree in which containers that were taken are told by their numbers, and new records by their parts."""
    number = numbers.get(id(value))
    if number is not None:
        while len(_refs) <= number:
            _refs.append(ContainerRef(len(_refs)))
        return _refs[number]
    if is_record(value):
        parts = {name: _name_containers(part, numbers) for name, part in vars(value).items()}
        return _parts_class(value)(parts)
    return _rebuild(value, lambda part: _name_containers(part, numbers))


def _find_named(value: Operand, containers: list[Operand]) -> Operand:
    """A tree with the containers in place of their numbers."""
    if type(value) is ContainerRef:
        return containers[value.number]
    if is_record(value) or isinstance(value, RecordParts):
        parts = vars(value) if is_record(value) else value.held
        kind = _parts_class(value) if is_record(value) else value
        return kind.rebuild_tree({name: _find_named(part, containers) for name, part in parts.items()})
    return _rebuild(value, lambda part: _find_named(part, containers))


def _rebuild(value: Operand, change: Operand) -> Operand:
    """A list, tuple or dict with its parts changed, anything else itself."""
    if isinstance(value, dict):
        return type(value)((key, change(part)) for key, part in value.items())
    if type(value) in (list, tuple):
        return type(value)([change(part) for part in value])
    return type(value)(*map(change, value)) if isinstance(value, tuple) and hasattr(value, "_fields") else value
