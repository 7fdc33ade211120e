"""Sizes known only when a program is called: polynomials of symbols that behave as the integers they stand for.

A size is a sum of products of symbols, with `//` and `%` of such sums among their factors. Equal sizes have equal
terms, so most questions have one answer for all calls: `n + 1 > n`, `16 * n % 16 == 0`, and `n * 8 >= 2`, since a
symbol is at least 2 (a size of 0 or 1 is a program of its own, as in PyTorch). Where only the call can tell, the answer
of the call that is traced becomes a guard. Whoever takes a size for a plain number (`range`, NumPy) gets the number of
this call, and with it the guard that the program is for this number alone.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import cast

from adjoint.compiler.ir.size_terms import (
    Terms,
    add_terms,
    divide_by_common_symbols,
    divide_terms,
    evaluate_terms,
    expand_rests,
    find_bounds,
    find_names,
    format_terms,
    multiply_terms,
    split_by_sign,
    substitute_terms,
)
from adjoint.core.tensor.size import SymbolicScalar
from adjoint.core.typing import Function, Operand

MAX_COMPARED_VALUES = 130  # of a symbol, to tell a relation that many fulfil, as `n % 128 == 0`, from one number
SYMBOL_NAME = re.compile(r"\bs\d+\b")


def ignore_guard(code: str, answer: bool) -> None:
    """Tell nobody of a guard."""


class SizeRelations:
    """The symbols of a program, with their values in the call that is traced, later in the last, and guards on them.

    `guards`: comparisons as Python code, with their answers. `on_guard` is told of each new one. `make_number` gives
    the number that a size is to floating-point arithmetic. `is_traced`: the step has run; to passes, sizes are equal
    only if they are so in every call. `is_sealed`: the guards are written, and there may be no more.
    """

    def __init__(self) -> None:
        self.values: dict[str, int] = {}
        self.places: dict[str, list[tuple[int, int]]] = {}  # of each symbol: leaves of the arguments, their dimensions
        self.guards: dict[str, bool] = {}
        self.on_guard: Callable[[str, bool], None] = ignore_guard
        self.make_number: Callable[[SymbolicSize], Operand] | None = None
        self.pinned: set[str] = set()  # symbols of which the program takes one value alone
        self._known: dict[str, Terms] = {}  # symbols that are other sizes
        self.is_traced = False
        self.is_sealed = False
        self.are_bounds = False  # what sizes show of themselves, in place of their values

    def add_symbol(self, value: int) -> SymbolicSize:
        """A new symbol: `value` in this call."""
        name = f"s{len(self.values)}"
        self.values[name] = value
        return SymbolicSize(self, ((((name,), 1)),))

    def unseal(self, on_guard: Callable[[str, bool], None]) -> None:
        """Take guards, of which `on_guard` is told."""
        self.is_sealed, self.on_guard = False, on_guard

    def seal(self) -> None:
        """Take no further guard: they are written."""
        self.is_sealed = True
        self.on_guard, self.make_number = ignore_guard, None

    def note_equal(self, difference: Terms) -> None:
        """Take note that a difference of sizes is 0: a symbol is another size, or has one value alone."""
        difference = expand_rests(difference)
        for monomial, coefficient in difference:
            name = monomial[0] if len(monomial) == 1 else None
            rest = tuple((m, -c) for m, c in difference if m != monomial)
            if not isinstance(name, str) or any(c % coefficient for _, c in rest):
                continue
            rest = tuple((m, c // coefficient) for m, c in rest)
            # in its own terms, as n is 8 * (n // 8) where 8 divides it, it must stay so
            if substitute_terms(rest, name, rest) == rest:
                self._known = {known: substitute_terms(terms, name, rest) for known, terms in self._known.items()}
                self._known[name] = rest
                if find_names(rest):
                    return
                break
        for name in find_names(difference):
            values = ({**self.values, name: self.values[name] + n} for n in range(1, MAX_COMPARED_VALUES))
            if not any(evaluate_terms(difference, other) == 0 for other in values):
                self.pinned.add(name)

    def settle(self, terms: Terms, value: int) -> None:
        """Take note that a size is one number in every call of the program."""
        self.note_equal(add_terms(terms, (((), value),) if value else (), -1))
        self.pinned |= find_names(terms)

    def simplify(self, terms: Terms) -> Terms:
        """Return a size without the symbols that are known to be others."""
        for name, known in self._known.items():
            terms = substitute_terms(terms, name, known)
        return terms

    @contextmanager
    def taking(self, values: Mapping[str, int]) -> Iterator[None]:
        """Let the symbols have these values meanwhile."""
        kept, self.values = self.values, dict(values)
        try:
            yield
        finally:
            self.values = kept

    @contextmanager
    def bounding(self, highest: Mapping[str, int]) -> Iterator[None]:
        """Let sizes be the most that they can be while no symbol is more than this: 64 - n is most for the least n."""
        self.are_bounds = True
        try:
            with self.taking(highest):
                yield
        finally:
            self.are_bounds = False

    def find_value(self, terms: Terms) -> int:
        """Return the number that a size is in the call that is traced, or the most that it can be."""
        return find_bounds(terms, self.values)[1] if self.are_bounds else evaluate_terms(terms, self.values)

    def rely_on(self, code: str, answer: bool) -> bool:
        """Rely on this answer of a comparison from now on."""
        if code not in self.guards:
            if self.is_sealed:
                raise AssertionError(f"a program relies on {code} being {answer}, which no call checks")
            self.guards[code] = answer
            self.on_guard(code, answer)
        return answer


class SymbolicSize(SymbolicScalar):
    """An integer that differs from call to call: an int for whoever asks `isinstance`."""

    __slots__ = ("relations", "terms")

    def __init__(self, relations: SizeRelations, terms: Terms) -> None:
        self.relations = relations
        self.terms = terms

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return int

    @property
    def value(self) -> int:
        """The number in the call that is traced; what it decides must be right for every other."""
        return self.relations.find_value(self.terms)

    def as_size(self) -> int:
        """Return the size itself."""
        return cast("int", self)

    def specialize(self) -> int:
        """Return the number of the call that is traced, on which the program relies from now on."""
        value = self.value
        self.relations.settle(self.terms, value)
        self.relations.rely_on(f"{self!r} == {value}", True)
        return value

    def as_number(self) -> Operand:
        """Return the size as a number of the step's arithmetic on Python numbers."""
        make = self.relations.make_number
        return self.specialize() if make is None or self.relations.is_traced else make(self)

    def __repr__(self) -> str:
        return format_terms(self.terms)

    def __str__(self) -> str:
        return str(self.as_number())

    def __format__(self, spec: str) -> str:
        return format(self.as_number(), spec)

    def __hash__(self) -> int:
        return hash((id(self.relations), self.terms))

    def __bool__(self) -> bool:
        return self != 0

    def __reduce__(self) -> tuple[type, tuple[int]]:
        return int, (self.specialize(),)

    def __getattr__(self, name: str) -> Operand:
        if name[:2] == "__" or not hasattr(int, name):
            raise AttributeError(f"'int' object has no attribute {name!r}")
        return getattr(self.specialize(), name)

    def __eq__(self, other: object) -> bool:
        return self._compare("==", operator.eq, other)

    def __ne__(self, other: object) -> bool:
        return not self._compare("==", operator.eq, other)

    def _compare(self, symbol: str, function: Function, other: object) -> Operand:
        terms = _terms_of(other, self.relations)
        if terms is None and type(other) is float:
            return self._compare_with_float(symbol, function, other)
        if terms is None:
            return NotImplemented if symbol != "==" else False
        given = divide_by_common_symbols(add_terms(self.terms, terms, -1))
        difference = divide_by_common_symbols(self.relations.simplify(given))
        for known in (given, difference):  # a symbol is at least 2, which what is known of it may hide
            least, most = find_bounds(known)
            if symbol == "==" and (least > 0 or most < 0):
                return False
            if function(least, 0) is function(most, 0) and (symbol != "==" or least == most):
                return function(least, 0)  # at both ends, and so between them
        if symbol == "==" and self.relations.is_traced:
            return False
        left, right = split_by_sign(difference)
        answer = function(evaluate_terms(difference, self.relations.values), 0)
        if answer and symbol == "==":
            self.relations.note_equal(difference)
        return self.relations.rely_on(f"{format_terms(left)} {symbol} {format_terms(right)}", answer)

    def _compare_with_float(self, symbol: str, function: Function, other: float) -> Operand:
        if not math.isfinite(other):
            return function(0, other)
        answer = function(self.value, other)
        if answer and symbol == "==":
            self.relations.settle(self.terms, self.value)
        return self.relations.rely_on(f"{self!r} {symbol} {other!r}", answer)


def is_symbolic_size(x: object) -> bool:
    """True for a size that is known only when a program is called."""
    return type(x) is SymbolicSize


def as_number(x: Operand) -> Operand:
    """Return a size as a number of the step's arithmetic on Python numbers; anything else as it is."""
    return x.as_number() if type(x) is SymbolicSize else x


def has_symbols(x: object) -> bool:
    """True if a size, or one among nested tuples of them, is symbolic."""
    return any(map(has_symbols, x)) if isinstance(x, tuple) else type(x) is SymbolicSize


def find_symbols(*facts: object) -> list[str]:
    """Return the names of the symbols in the sizes among these facts, and among nested sequences of them."""
    found, waiting = set[str](), list[object](facts)
    while waiting:
        x = waiting.pop()
        if type(x) is SymbolicSize:
            found |= find_names(x.terms)
        elif isinstance(x, (tuple, list)):
            waiting.extend(x)
    return sorted(found)


def size_value(x: Operand) -> int:
    """Return a size in the call that is traced, for a decision that must be right for every other call too."""
    value: int = x.value if type(x) is SymbolicSize else x
    return value


def concrete_sizes(x: Operand) -> Operand:
    """Return what holds sizes, as tuples and dicts do, with those of the last call in place of symbolic ones."""
    if isinstance(x, dict):
        return {key: concrete_sizes(value) for key, value in x.items()}
    return tuple(map(concrete_sizes, x)) if type(x) is tuple else size_value(x)


def is_multiple(x: Operand, of: int) -> bool:
    """True if a size is known to be a multiple of a number, in every call."""
    return all(factor % of == 0 for _, factor in x.terms) if type(x) is SymbolicSize else bool(x % of == 0)


def is_known_less(x: int, y: int) -> bool:
    """True if `x` is known to be less than `y`, in every call."""
    difference: Operand = x - y
    if type(difference) is not SymbolicSize:
        return bool(difference < 0)
    return find_bounds(difference.terms)[1] < 0


def evaluate_size(x: Operand, values: Mapping[str, int]) -> int:
    """Return what a size is where its symbols have these values."""
    value: int = evaluate_terms(x.terms, values) if type(x) is SymbolicSize else x
    return value


def _terms_of(x: object, relations: SizeRelations) -> Terms | None:
    if type(x) is SymbolicSize:
        return x.terms if x.relations is relations else None
    if type(x) is int or type(x) is bool:
        return (((), int(x)),) if x else ()
    return None


def _arithmetic_method(function: Callable[[Terms, Terms], Terms], plain: Function) -> tuple[Function, Function]:
    def forward(self: SymbolicSize, other: object) -> Operand:
        terms = _terms_of(other, self.relations)
        if terms is None:
            return plain(self.as_number(), other)
        return _simplify(self.relations, function(self.terms, terms))

    def backward(self: SymbolicSize, other: object) -> Operand:
        terms = _terms_of(other, self.relations)
        if terms is None:
            return plain(other, self.as_number())
        return _simplify(self.relations, function(terms, self.terms))

    return forward, backward


def _simplify(relations: SizeRelations, terms: Terms) -> Operand:
    """Return a plain number where no symbol is left."""
    if not terms:
        return 0
    if terms[0][0]:
        return SymbolicSize(relations, terms)
    return terms[0][1]


def _number_method(function: Function, reflected: bool = False) -> Function:
    def call(self: SymbolicSize, *others: object) -> Operand:
        number = self.as_number()
        return function(*others, number) if reflected else function(number, *others)

    return call


def _comparison_method(symbol: str, function: Function) -> Function:
    return lambda self, other: self._compare(symbol, function, other)


def _power(self: Operand, exponent: int) -> Operand:
    if type(exponent) is int and exponent > 0:
        return self * self ** (exponent - 1) if exponent > 1 else self
    return self.as_number() ** exponent


for _name, _function, _plain in (
    ("add", add_terms, operator.add),
    ("sub", lambda a, b: add_terms(a, b, -1), operator.sub),
    ("mul", multiply_terms, operator.mul),
    ("floordiv", lambda a, b: divide_terms(a, b, is_rest=False), operator.floordiv),
    ("mod", lambda a, b: divide_terms(a, b, is_rest=True), operator.mod),
):
    _forward, _backward = _arithmetic_method(_function, _plain)
    setattr(SymbolicSize, f"__{_name}__", _forward)
    setattr(SymbolicSize, f"__r{_name}__", _backward)
for _name in ("truediv", "and_", "or_", "xor", "lshift", "rshift"):
    _plain = getattr(operator, _name)
    setattr(SymbolicSize, f"__{_name.rstrip('_')}__", _number_method(_plain))
    setattr(SymbolicSize, f"__r{_name.rstrip('_')}__", _number_method(_plain, reflected=True))
for _name, _symbol in {"lt": "<", "le": "<=", "gt": ">", "ge": ">="}.items():
    setattr(SymbolicSize, f"__{_name}__", _comparison_method(_symbol, getattr(operator, _name)))
for _name in ("pos", "abs", "trunc", "floor", "ceil", "round"):
    setattr(SymbolicSize, f"__{_name}__", lambda self, digits=None: self)
for _name, _convert in {"index": int, "int": int, "float": float, "complex": complex}.items():
    setattr(SymbolicSize, f"__{_name}__", lambda self, _c=_convert: _c(self.specialize()))
for _name, _method in {
    "neg": lambda self: self * -1,
    "invert": lambda self: ~self.specialize(),
    "pow": _power,
    "rpow": _number_method(pow, reflected=True),
    "divmod": lambda self, other: (self // other, self % other),
    "rdivmod": lambda self, other: (other // self, other % self),
}.items():
    setattr(SymbolicSize, f"__{_name}__", _method)
