"""The kind of an equation, which the turns of a loop share, and the places in its parameters, in which they differ."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from operator import length_hint

from adjoint.compiler.ir.graph import Value, ValueOrigin
from adjoint.core.typing import Params

PLACES = {  # parameters that say where, by op
    "select": ("at",),
    "slice": ("bounds",),
    "unslice": ("bounds",),
    "put_slice": ("bounds",),
}


class EquationKinds:
    """The kinds of equations as keys, for graphs whose equations may have origins in common."""

    def __init__(self) -> None:
        self._origins: dict[int, tuple[ValueOrigin | None, int]] = {}  # by identity: many equations share one
        self._numbers: dict[Hashable, int] = {}  # of origins that are alike

    def kind_of(self, value: Value) -> tuple[Hashable, list[int]]:
        """Return an equation's kind, without the numbers of what it reads, and the places in its parameters."""
        op, operands, inputs = value.op, value.operands, value.inputs
        origin = self._origins.get(id(value.origin))
        number = self._add_origin(value.origin) if origin is None else origin[1]
        if not value.params and len(operands) == len(inputs):
            return (op, value.shape, value.dtype, len(operands), number), []
        places = [x for name in PLACES.get(op.name, ()) for x in _flatten(value.params[name])]
        literals = tuple([None if type(x) is Value else (type(x), repr(x)) for x in inputs])
        told = _freeze_params(value), len(places), literals
        return (op, value.shape, value.dtype, len(operands), number, told), places

    def kind_without_shape(self, value: Value) -> Hashable:
        """Return an equation's kind, however many operands it has and of whatever shape they are."""
        literals = [(i, type(x), repr(x)) for i, x in enumerate(value.inputs) if type(x) is not Value]
        return value.op, value.dtype, tuple(literals), _freeze_params(value), self._add_origin(value.origin)

    def _add_origin(self, origin: ValueOrigin | None) -> int:
        """The number of an origin; those of a loop's turns are alike."""
        # the calls of `checkpoint` are numbered, whichever turn they are in
        merged = () if origin is None else tuple([other[:3] for other in origin.merged_origins])
        key = None if origin is None else (*origin[:3], origin.of, merged, origin.rematerialized)
        number = self._numbers.setdefault(key, len(self._numbers))
        self._origins[id(origin)] = origin, number
        return number


def move_places(value: Value, numbers: Sequence[int], at: int) -> tuple[Params, int]:
    """The parameters of an equation like `value` at the places that begin at `at` in `numbers`; and where they end."""
    taken = iter(numbers[at:])
    params = {**value.params, **{name: _unflatten(value.params[name], taken) for name in PLACES[value.op.name]}}
    return params, len(numbers) - length_hint(taken)


def _flatten(x: object) -> list[int]:
    if isinstance(x, tuple):
        return [number for part in x for number in _flatten(part)]
    assert isinstance(x, int)
    return [x]


def _unflatten(like: object, places: Iterator[int]) -> object:
    return tuple([_unflatten(part, places) for part in like]) if isinstance(like, tuple) else next(places)


def _freeze_params(value: Value) -> Hashable:
    moving = PLACES.get(value.op.name, ())
    return tuple([(name, _freeze(x)) for name, x in value.params.items() if name not in moving])


def _freeze(x: object) -> Hashable:
    """Return a key for a parameter: a number's digits, since 0.0 equals -0.0 and True equals 1."""
    if isinstance(x, (int, float)):
        return type(x), repr(x)
    try:
        hash(x)
    except TypeError:
        return id(x)
    return x
