"""The facts on which a program relies, each with its test in generated code, and what to say when it has changed."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import combinations
from typing import Any, NamedTuple, Protocol

import numpy as np

from adjoint.compiler.trace.frames.constants import is_interchangeable, is_same_constant
from adjoint.compiler.trace.frames.container_snapshot import Snapshot
from adjoint.compiler.trace.frames.sources import MISSING, ContentsSource, NameOf, Source
from adjoint.compiler.trace.numbers.symbolic_number import ScalarExpr, constant_code
from adjoint.core.dtype.dtype import default
from adjoint.core.graph.source_location import Site
from adjoint.core.runtime.mode import depends_on
from adjoint.core.runtime.text_table import pluralize
from adjoint.core.tensor.as_strided import fills_memory
from adjoint.core.tensor.storage import View, view_of
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Function


class GuardFailure(NamedTuple):
    """Why a program could not be used: what had changed, from what to what, and the line that relies on it."""

    what: str
    old: str
    new: str
    site: Site | None

    def __str__(self) -> str:
        where = f", read at {self.site}" if self.site is not None else ""
        return f"{self.what}: {self.old} → {self.new}{where}"


class Guard(Protocol):
    """A fact on which a program relies."""

    @property
    def what(self) -> str:
        """The fact in words."""

    @property
    def site(self) -> Site | None:
        """The user's line that relies on it."""

    @property
    def expected_value(self) -> Any:
        """The last observation."""

    def code(self, name: Callable[[object], str], expected: str) -> str:
        """An expression that is true while the fact is as expected; `name` gives an object a variable."""

    def holds(self) -> bool:
        """True if the fact is the same in meaning, whatever objects tell it; settles on them."""

    def change(self) -> GuardFailure:
        """The fact as it was traced, and as it is."""


class ProbeGuard:
    """A fact that the library's own code told the tracer: `probe(subject)` is as it was."""

    __slots__ = ("contents", "expected_value", "held", "ignored", "probe", "at_end", "site", "subject", "what")

    def __init__(
        self,
        subject: Any,
        probe: Function,
        what: str,
        site: Site | None = None,
        at_end: bool = False,
        contents: Function | None = None,
    ) -> None:
        self.subject = subject
        self.probe = probe
        self.what = what
        self.site = site
        self.at_end = at_end
        self.contents = contents
        self.ignored: frozenset[str] = frozenset()  # attributes that the step itself sets
        self.update_expected()

    def update_expected(self) -> None:
        """Expect the fact as it is now."""
        self.expected_value = self.probe(self.subject)
        self.held = self._read_contents()

    def _read_contents(self) -> list[object] | None:
        return None if self.contents is None else self.contents(self.subject, self.ignored)

    def code(self, name: Callable[[object], str], expected: str) -> str:
        return f"{name(self.probe)}({name(self.subject)}) == {expected}"

    def holds(self) -> bool:
        """True while the fact is as it was; a version that moved is looked through."""
        now = self.probe(self.subject)
        if is_same_constant(now, self.expected_value):
            return True
        held = self._read_contents()
        if held is None or self.held is None or len(held) != len(self.held):
            return False
        if not all(map(is_same_constant, held, self.held)):  # numbers and strings by value
            return False
        self.expected_value = now
        return True

    def change(self) -> GuardFailure:
        old, new = self.expected_value, self.probe(self.subject)
        if self.contents is not None and self.held is not None:
            old, new = _first_list_difference(self.held, self._read_contents() or [])
        return GuardFailure(self.what, describe_object(old), describe_object(new), self.site)


class SourceGuard:
    """A place in which Python keeps a value has the same one."""

    __slots__ = ("expected_value", "place", "site")

    def __init__(self, place: Source, value: object, site: Site | None) -> None:
        self.place = place
        self.expected_value = value
        self.site = site

    @property
    def what(self) -> str:
        return self.place.what

    def code(self, name: Callable[[object], str], expected: str) -> str:
        return self.place.guard(self.expected_value, name)

    def holds(self) -> bool:
        return self.place.holds(self.expected_value)

    def change(self) -> GuardFailure:
        if isinstance(self.expected_value, Snapshot):
            return GuardFailure(
                self.what,
                *_first_element_difference(self.expected_value.elements, self.place.read().elements),
                self.site,
            )
        return GuardFailure(
            self.what, describe_object(self.expected_value), describe_object(self.place.read()), self.site
        )


class FactOfCall:
    """A fact that only a call can tell, which brings the arguments."""

    __slots__ = ()

    def holds(self) -> bool:
        """Take it as true before the call."""
        return True


class ArgumentGuard(FactOfCall):
    """A place has the very tensor that is passed as an argument."""

    __slots__ = ("expected_value", "number", "place", "site", "what")

    def __init__(self, place: Source, number: int, site: Site) -> None:
        self.place, self.number, self.site = place, number, site
        self.expected_value = None
        self.what = f"{place.what} is argument {number}"

    def code(self, name: Callable[[object], str], expected: str) -> str:
        """A comparison with the argument, by its name in the generated function."""
        return f"{self.place.expression(name)} is x{self.number}"

    def change(self) -> GuardFailure:
        """Return the failure; only the call's arguments tell whether it happened."""
        return GuardFailure(self.what, "True", "False", self.site)


class ArgumentAttributeGuard(FactOfCall):
    """An argument has the same attribute that somebody has put on it, or none."""

    __slots__ = ("expected_value", "name", "number", "site", "what")

    def __init__(self, name: str, value: object, number: int, site: Site) -> None:
        self.name, self.number, self.site = name, number, site
        self.expected_value = value
        self.what = f"attribute {name!r} of argument {number}"

    def code(self, name: NameOf, expected: str) -> str:
        """A comparison with what the argument of this call has."""
        return f"{name(is_same_constant)}(x{self.number}.__dict__.get({self.name!r}, {name(MISSING)}), {expected})"

    def change(self) -> GuardFailure:
        """Return the failure; only the call's arguments tell whether it happened."""
        return GuardFailure(self.what, describe_object(self.expected_value), "another", self.site)


class ArgumentGradientGuard(FactOfCall):
    """An argument has a `.grad` when the step begins, or none, as in the call that was traced."""

    __slots__ = ("expected_value", "had_gradient", "number", "site", "what")

    def __init__(self, number: int, had_gradient: bool) -> None:
        self.number, self.had_gradient, self.site = number, had_gradient, None
        self.expected_value = None
        self.what = f"whether argument {number} has a .grad when the step begins"

    def code(self, name: NameOf, expected: str) -> str:
        """A look at the tensor of this call."""
        return f"x{self.number}._grad is {'not ' * self.had_gradient}None"

    def change(self) -> GuardFailure:
        """Return the failure; only the call's arguments tell whether it happened."""
        return GuardFailure(self.what, f"{self.had_gradient}", f"{not self.had_gradient}", self.site)


class MemoryGuard:
    """An argument, by its number, or a captured tensor is all that its memory holds."""

    __slots__ = ("expected_value", "site", "subject", "what")

    def __init__(self, subject: int | Tensor, site: Site) -> None:
        self.subject, self.site = subject, site
        self.expected_value = None
        whose = "a captured tensor" if isinstance(subject, Tensor) else f"argument {subject}"
        self.what = f"{whose} fills its memory"

    def code(self, name: NameOf, expected: str) -> str:
        """A look at the tensor of this call."""
        tensor = name(self.subject) if isinstance(self.subject, Tensor) else f"x{self.subject}"
        return f"{name(fills_memory)}({tensor}.array)"

    def holds(self) -> bool:
        """Return what can be told before a call, which brings the arguments."""
        return not isinstance(self.subject, Tensor) or fills_memory(self.subject.array)

    def change(self) -> GuardFailure:
        """Return the failure; only the call's arguments tell whether it happened."""
        return GuardFailure(self.what, "True", "False", self.site)


MAX_COMPARED_ARGUMENTS = 5  # tensors, pair by pair; a set of the ids of more is cheaper


def repeated_argument_code(numbers: list[int]) -> str:
    """Return an expression that is true if two of the arguments with these numbers are one; "" for fewer than two."""
    if len(numbers) <= MAX_COMPARED_ARGUMENTS:
        return " or ".join(f"x{i} is x{j}" for i, j in combinations(numbers, 2))
    return f"len({{{', '.join(f'id(x{i})' for i in numbers)}}}) < {len(numbers)}"


class SameTensorGuard:
    """Two places have one tensor, whichever it is: one of them is where each call finds it."""

    __slots__ = ("expected_value", "located", "place", "site", "what")

    def __init__(self, place: Source, located: Source, site: Site | None) -> None:
        self.place, self.located, self.site = place, located, site
        self.expected_value = None
        self.what = f"{place.what} is {located.what}"

    def code(self, name: NameOf, expected: str) -> str:
        """A comparison of both."""
        return f"{self.place.expression(name)} is {self.located.expression(name)}"

    def holds(self) -> bool:
        """True while it is so."""
        return self.place.read() is self.located.read()

    def change(self) -> GuardFailure:
        """Return the failure: they are two now."""
        return GuardFailure(self.what, "True", "False", self.site)


class ViewGuard:
    """A captured tensor is the view of its base that it was, with the history that it had.

    Its base is what the program reads and writes.
    """

    __slots__ = ("expected_value", "site", "tensor", "view")
    what = "whether a captured tensor is a view"

    def __init__(self, tensor: Tensor, view: View[Tensor], site: Site | None) -> None:
        self.tensor, self.view, self.site = tensor, view, site
        self.expected_value = tensor.node

    def code(self, name: NameOf, expected: str) -> str:
        """A comparison of the view, of its history, and of the storage of its base."""
        tensor, view = name(self.tensor), name(self.view)
        same = f"{tensor}.storage_ is {view} and {tensor}.node is {expected}"
        return f"({same} and {name(view_of)}({tensor}) is {view})"

    def holds(self) -> bool:
        """True while it is so."""
        return view_of(self.tensor) is self.view and self.tensor.node is self.expected_value

    def change(self) -> GuardFailure:
        """Return the failure: the tensor was given other memory, or its base was, or the history differs."""
        if view_of(self.tensor) is not self.view:
            return GuardFailure(self.what, "a view", "memory of its own", self.site)
        old, new = ("no history" if n is None else "a history" for n in (self.expected_value, self.tensor.node))
        return GuardFailure("a captured view", old, new if old != new else "another", self.site)


class ValuesGuard:
    """A captured tensor has the values that it had: the step chose by them."""

    __slots__ = ("expected_value", "site", "tensor")
    what = "the values of a captured mask or index"

    def __init__(self, tensor: Tensor, values: bytes, site: Site | None) -> None:
        self.tensor, self.site = tensor, site
        self.expected_value = values

    def code(self, name: NameOf, expected: str) -> str:
        """A comparison of all elements."""
        return f"{name(self.tensor)}.array.tobytes() == {expected}"

    def holds(self) -> bool:
        """True while all elements are as they were."""
        return bool(self.tensor.array.tobytes() == self.expected_value)

    def change(self) -> GuardFailure:
        """Return the failure: some element differs."""
        return GuardFailure(self.what, "as they were", "others", self.site)


def _first_list_difference(before: list[object], now: list[object]) -> tuple[_Description, _Description]:
    """The first entries that differ, with the name that stands before them."""
    for i, (a, b) in enumerate(zip(before, now, strict=False)):
        if not is_same_constant(a, b):
            name = f"{before[i - 1]} = " if i and isinstance(before[i - 1], str) else ""
            return _Description(f"{name}{describe_object(a)}"), _Description(f"{name}{describe_object(b)}")
    return _Description(f"{pluralize(len(before), 'attribute')}"), _Description(f"{pluralize(len(now), 'attribute')}")


class _Description(str):
    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def describe_object(value: object) -> str:
    """A value in a message: tensors by their shape, long texts cut."""
    if isinstance(value, Tensor):
        return f"a tensor of shape {tuple(value.shape)}"
    if callable(value) and hasattr(value, "__qualname__"):
        return f"{type(value).__name__} {value.__qualname__}"
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001  the user's own repr, in a message about something else
        text = f"a {type(value).__name__}"
    return text if len(text) <= 60 else text[:57] + "…"


def _first_element_difference(then: list[object], now: list[object]) -> tuple[str, str]:
    """The first elements of two snapshots that differ."""
    for a, b in zip(then, now, strict=False):
        if not is_interchangeable(b, a):
            return describe_object(a), describe_object(b)
    return f"{pluralize(len(then), 'entry', 'entries')}", f"{pluralize(len(now), 'entry', 'entries')}"


def guard_code(line: ScalarExpr) -> str:
    """A Python expression that is true where a guard on numbers holds."""
    value = line.expected_value
    if isinstance(value, np.generic):
        kind = f"np.dtype({value.dtype.str!r}).type"
        compared = f"({line.code}) {'==' if value == value else '!='} {constant_code(value)}"
        return f"type({line.code}) is {kind} and {compared}"
    if type(value) is bool or value is None:
        return f"({line.code}) is {value}"
    if type(value) is float and value != value:
        return f"_unordered({line.code})"
    same_sign = (
        f" and _signed({line.code}) == {math.copysign(1.0, value)}" if value == 0 and type(value) is float else ""
    )
    return f"type({line.code}) is {type(value).__name__} and ({line.code}) == {value!r}{same_sign}"


def find_dynamic_sources(changes: Sequence[Guard]) -> dict[object, Source]:
    """The places of numbers among the guards that failed."""
    found: dict[object, Source] = {}
    for guard in changes:
        if isinstance(guard, SourceGuard) and not isinstance(guard.place, ContentsSource):
            now = guard.place.read()
            if type(now) in (int, float) and type(guard.expected_value) is type(now):
                found[guard.place.key] = guard.place
    return found


def guard_default_dtype() -> ProbeGuard:
    """The guard of the type that `set_default_dtype` sets: of what a step makes, and of the floats of integers."""
    return ProbeGuard(default, _read_default_dtype, "the default dtype")


@depends_on(lambda holder: [(holder, "floating")])
def _read_default_dtype(holder: Any) -> object:
    return holder.floating
