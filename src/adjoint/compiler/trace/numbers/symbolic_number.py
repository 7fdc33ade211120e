"""Python numbers that may differ from call to call: a step does arithmetic with them, and the program does it again.

The arithmetic is Python's own, so it is written down as lines of Python which each call runs before the kernels. Where
the step asks something that only one number can answer (`if n > 3`, `range(n)`), the answer becomes a guard.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from adjoint.compiler.trace.numbers.number_text import NumberTexts
from adjoint.core.graph.source_location import Site, user_site
from adjoint.core.tensor.size import SymbolicScalar
from adjoint.core.typing import Array, Function, NumpyDtype, Operand, Operands

if TYPE_CHECKING:
    from adjoint.core.tensor.tensor import Tensor


Parts = tuple[Function, Operands]  # of a number: an operator, and what it was applied to


class ScalarExpr(NamedTuple):
    """One line of the program's arithmetic: a `name` for an expression, or a guard on one if the name is empty."""

    name: str
    code: str
    needs: tuple[str, ...]
    site: Site
    expected_value: bool | float | None = None


class NumberSource(NamedTuple):
    """A number that each call brings: the Python expression that finds it, given names for objects."""

    name: str
    kind: type
    code: Callable[[Callable[[object], str]], str]
    what: str


class NumberArithmetic:
    """The arithmetic of a step on numbers that each call brings, in order.

    `ask(code, needs)` answers what only the call itself can tell, and remembers the question; `read_number(tensor)`
    gives the element of a tensor in the call that is traced.
    """

    def __init__(self) -> None:
        self.sources: list[NumberSource] = []
        self.lines: list[ScalarExpr] = []
        self.pending: dict[str, Tensor] = {}  # numbers read from tensors of the step: known when the program has run
        self.late_names: set[str] = set()  # these, and what follows from them
        self.host_names: set[str] = set()  # numbers that calls outside of the program gave, and what follows from them
        # the size that a number is; None where numbers are no sizes
        self.find_size: Callable[[SymbolicNumber], int] | None = None
        self.is_small_size = False  # a number is used as a size, and was too small for a symbol in the traced call
        # the number of a call outside that gives a late number, which is none for what follows
        self.bring: Callable[[SymbolicNumber], SymbolicNumber] | None = None
        self.ask: Callable[[str, tuple[str, ...]], Operand] | None = None
        self.read_number: Callable[[Tensor], Operand] | None = None
        self.texts = NumberTexts()
        self._known: dict[str, Operand] = {}  # numbers, by their names, in the call that is traced
        self._specialized_codes: set[str] = set()

    def add_source(
        self, name: str, value: float, code: Callable[[Callable[[object], str]], str], what: str, by_host: bool = False
    ) -> SymbolicNumber:
        """The number that each call finds by `code`, and from then on under `name`."""
        self.sources.append(NumberSource(name, type(value), code, what))
        self._known[name] = value
        if by_host:
            self.host_names.add(name)
        return SymbolicNumber(self, name, value)

    def read(self, tensor: Tensor) -> SymbolicNumber:
        """The element of a tensor of the step: `tensor.item()`, for which `value` only shows the type."""
        name = f"i{len(self.pending)}"
        self.pending[name] = tensor
        self.late_names.add(name)
        kind = {"b": bool, "f": float, "V": float}.get(tensor.array.dtype.kind, int)
        return SymbolicNumber(self, name, kind(1))

    def derive(self, code: str, needs: Iterable[str], value: float, parts: Parts | None = None) -> Operand:
        """The number that an expression gives: `value` in this call. `parts`: of what it is made, as a size."""
        needs = tuple(needs)
        if type(value) not in (int, float) and not (isinstance(value, np.generic) and is_number(value)):
            # a complex root, say: settled, so it is as good as a constant
            return self.specialize(code, needs, value)
        return SymbolicNumber(self, self.name_line(code, needs), value, parts)

    def name_line(self, code: str, needs: tuple[str, ...]) -> str:
        """The name of a new line of the arithmetic."""
        name = f"n{len(self.lines)}"
        self.lines.append(ScalarExpr(name, code, needs, user_site()))
        for names in (self.late_names, self.host_names):
            if not names.isdisjoint(needs):
                names.add(name)
        return name

    def is_asked(self, needs: Iterable[str]) -> bool:
        """True where a number with these needs is known only in the course of a call."""
        return not (self.late_names.isdisjoint(needs) and self.host_names.isdisjoint(needs))

    def evaluate(self, code: str, needs: Iterable[str]) -> Operand:
        """The value of an expression in the call that is traced."""
        for line in self.required_lines(needs):
            if line.name and line.name not in self._known:
                self._known[line.name] = self._evaluate_line(line.code, line.needs)
        return self._evaluate_line(code, needs)

    def _evaluate_line(self, code: str, needs: Iterable[str]) -> Operand:
        for name in needs:
            if name not in self._known and name in self.pending and self.read_number is not None:
                self._known[name] = self.read_number(self.pending[name])
        return eval(code, dict(GUARD_NAMES), self._known)

    def show_text(self, code: str, needs: tuple[str, ...]) -> str:
        """A text that stands for the one that an expression gives in each call."""
        return self.texts.mark(self.name_line(code, needs))

    def name_text(self, text: str) -> str:
        """The name of the text that each call makes where `text` was made in the trace."""
        return self.texts.name(text, self.name_line)

    def until(self, sources: int, lines: int) -> NumberArithmetic:
        """The part of the arithmetic that a trace had met with so many sources and lines."""
        part = NumberArithmetic()
        part.sources, part.lines = self.sources[:sources], self.lines[:lines]
        part.pending, part.late_names = self.pending, self.late_names
        return part

    def specialize(self, code: str, needs: Iterable[str], value: Operand) -> Operand:
        """Rely on an expression having this value; where only the running program knows it, on the answer of a call."""
        needs = tuple(needs)
        if self.is_asked(needs):
            if self.ask is None:
                next(iter(self.pending.values())).array.refuse(f"a decision on item(), {self.describe_code(code)},")
            else:
                return self.ask(code, needs)
        if code not in self._specialized_codes:
            self._specialized_codes.add(code)
            self.lines.append(ScalarExpr("", code, needs, user_site(), value))
        return value

    def describe_code(self, code: str) -> str:
        """An expression in terms of what the numbers are."""
        names: dict[str, str] = {source.name: source.what for source in self.sources}
        names.update(dict.fromkeys(self.pending, "item()"))
        for line in self.lines:
            if line.name:
                names[line.name] = f"({_substitute_names(line.code, names)})"
        return _substitute_names(code, names)

    def required_lines(self, wanted: Iterable[str]) -> list[ScalarExpr]:
        """The lines that lead to these names or to guards."""
        names = set(wanted)
        kept = []
        for line in reversed(self.lines):
            if not line.name or line.name in names:
                kept.append(line)
                names.update(line.needs)
        return kept[::-1]


SIZE_OPERATORS = frozenset(["+", "-", "*", "//", "%"])  # that give sizes where they are applied to sizes
SCALAR_FACTS = frozenset(("dtype", "itemsize", "nbytes", "ndim", "shape", "size"))  # which the type of a scalar tells


def _substitute_names(code: str, names: dict[str, str]) -> str:
    return re.sub(r"\b[nxpis]\d+\b", lambda found: names.get(found[0], found[0]), code)


def fixed_code(code: str, name_object: Callable[[object], str]) -> str:
    """Return the expression of a number source that needs no names for objects."""
    return code


def is_number(x: object) -> bool:
    """True for a real number of Python's or NumPy's."""
    return type(x) in (bool, int, float) or (isinstance(x, np.generic) and x.dtype.kind in "biuf")


GUARD_NAMES: dict[str, Operand] = {
    "_unordered": lambda x: type(x) is float and x != x,
    "_signed": lambda x: math.copysign(1.0, x),
    "floor": math.floor,
    "ceil": math.ceil,
    "trunc": math.trunc,
    "inf": math.inf,
    "nan": math.nan,
    "np": np,
}


class SymbolicNumber(SymbolicScalar):
    """Stands for a float or int of the step, of which it has the type for whoever asks `isinstance`.

    `parts`: an operator on integers, if one gave the number.
    """

    __slots__ = ("arithmetic", "name", "parts", "value")

    def __init__(self, arithmetic: NumberArithmetic, name: str, value: float, parts: Parts | None = None) -> None:
        self.arithmetic = arithmetic
        self.name = name
        self.value = value
        self.parts = parts

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return type(self.value)

    @property
    def plain_value(self) -> Operand:
        """The value as a number of Python's."""
        return self.value.item() if isinstance(self.value, np.generic) else self.value

    def as_size(self) -> int:
        """The size that it is, which may be a symbol."""
        find = self.arithmetic.find_size
        return operator.index(self.specialize()) if find is None or type(self.value) is not int else find(self)

    def specialize(self) -> Operand:
        """The plain number, on which the program relies from now on."""
        return self.arithmetic.specialize(self.name, (self.name,), self.value)

    def __bool__(self) -> bool:
        return bool(self.arithmetic.specialize(f"{self.name} != 0", (self.name,), self.value != 0))

    def __format__(self, spec: str) -> str:
        if self.arithmetic.texts.are_shown:
            return self.arithmetic.show_text(f"format({self.name}, {spec!r})", (self.name,))
        return format(self.specialize(), spec)

    def __repr__(self) -> str:
        if self.arithmetic.texts.are_shown:
            return self.arithmetic.show_text(f"repr({self.name})", (self.name,))
        return repr(self.specialize())

    def __str__(self) -> str:
        if self.arithmetic.texts.are_shown:
            return self.arithmetic.show_text(f"str({self.name})", (self.name,))
        return str(self.specialize())

    def __reduce__(self) -> tuple[type, tuple[float]]:
        value = self.specialize()
        return type(value), (value,)

    def __getattr__(self, name: str) -> Any:
        if name[:2] == "__" or not hasattr(
            type(self.value), name
        ):  # a protocol that is not defined here, or a question
            raise AttributeError(f"{type(self.value).__name__!r} object has no attribute {name!r}")
        if isinstance(self.value, np.generic) and name in SCALAR_FACTS:
            return getattr(self.value, name)
        if isinstance(self.value, np.generic) and name in ("item", "tolist"):
            return lambda: self.arithmetic.derive(f"{self.name}.item()", (self.name,), self.value.item())
        return getattr(self.specialize(), name)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Operand, **options: Operand) -> Operand:
        parts = [_operand_code(x) for x in inputs]
        if method != "__call__" or options or ufunc.nout > 1 or getattr(np, ufunc.__name__, None) is not ufunc:
            return getattr(ufunc, method)(*map(specialize_numbers, inputs), **options)
        known = [part for part in parts if part is not None]
        if len(known) < len(parts):
            arrays = all(part is not None or type(x) is np.ndarray for part, x in zip(parts, inputs, strict=True))
            return ufunc(*map(specialize_numbers, inputs)) if arrays else NotImplemented
        with np.errstate(all="ignore"):
            value = ufunc(*[value for _, value, _ in known])
        code = f"np.{ufunc.__name__}({', '.join(code for code, *_ in known)})"
        return self.arithmetic.derive(code, [name for *_, names in known for name in names], value)

    def __array__(self, dtype: NumpyDtype | None = None, copy: bool | None = None) -> Array:
        return np.asarray(self.specialize(), dtype)

    def __round__(self, digits: int | None = None) -> Operand:
        value = round(self.value, digits)
        return self.arithmetic.derive(f"round({self.name}, {digits})", (self.name,), value)

    def __divmod__(self, other: Operand) -> Operands:
        return self // other, self % other

    def __rdivmod__(self, other: Operand) -> Operands:
        return other // self, other % self


def is_symbolic_number(x: object) -> bool:
    """True for a `SymbolicNumber`, which says of itself that it is a float or an int."""
    return type(x) is SymbolicNumber


def specialize_numbers(x: object) -> Any:
    """The value of a `SymbolicNumber`, on which the program relies from now on; anything else as it is, tuples inside
    too.
    """
    if type(x) is SymbolicNumber:
        return x.specialize()
    if type(x) is tuple:
        return tuple(map(specialize_numbers, x))
    if type(x) is list:
        return list(map(specialize_numbers, x))
    return x


def _operand_code(x: Operand) -> tuple[str, Any, tuple[str, ...]] | None:
    """The code, the value and the names of an operand; None for what is no number."""
    if type(x) is SymbolicNumber:
        return x.name, x.value, (x.name,)
    return (constant_code(x), x, ()) if is_number(x) else None


def constant_code(x: Operand) -> str:
    """The code of a number that is the same in each call."""
    return f"np.dtype({x.dtype.str!r}).type({x.item()!r})" if isinstance(x, np.generic) else f"({x!r})"


def _conversion_method(function: Function) -> Callable[[SymbolicNumber], object]:
    return lambda self: function(self.specialize())


def _real_method(kind: type) -> Callable[[SymbolicNumber], object]:
    """As `_conversion_method`, for an int or a float, which may be for a text."""

    def convert(self: SymbolicNumber) -> object:
        placed = self.arithmetic.texts.place(kind, self.name)
        return kind(self.specialize()) if placed is None else placed

    return convert


def _comparison_method(symbol: str, function: Function) -> Callable[[SymbolicNumber, object], object]:
    def compare(self: SymbolicNumber, other: object) -> object:
        b = _operand_code(other)
        if b is None:
            return NotImplemented
        code = f"{self.name} {symbol} {b[0]}"
        return self.arithmetic.specialize(code, (self.name, *b[2]), function(self.value, b[1]))

    return compare


def _binary_methods(symbol: str, function: Function) -> tuple[Function, Function]:
    def forward(self: SymbolicNumber, other: Operand) -> Operand:
        b = _operand_code(other)
        if b is None:
            return NotImplemented
        _raise_if_zero(symbol, function, other)
        value = _compute_or_sample(function, self, self.value, b[1])
        parts = (function, (self, other)) if symbol in SIZE_OPERATORS else None
        return self.arithmetic.derive(f"{self.name} {symbol} {b[0]}", (self.name, *b[2]), value, parts)

    def backward(self: SymbolicNumber, other: float) -> Operand:
        b = _operand_code(other)
        if b is None:
            return NotImplemented
        _raise_if_zero(symbol, function, self)
        value = _compute_or_sample(function, self, b[1], self.value)
        parts = (function, (other, self)) if symbol in SIZE_OPERATORS else None
        return self.arithmetic.derive(f"{b[0]} {symbol} {self.name}", (self.name, *b[2]), value, parts)

    return forward, backward


def _raise_if_zero(symbol: str, function: Function, divisor: Operand) -> None:
    """Raise ZeroDivisionError here, as eager code does, for a number of which only the call knows whether it is 0."""
    divides = symbol in ("/", "//", "%") and type(divisor) is SymbolicNumber
    divides = divides and not isinstance(divisor.value, np.generic)
    if divides and divisor.arithmetic.is_asked((divisor.name,)) and not divisor:
        function(type(divisor.value)(1), type(divisor.value)(0))


def _compute_or_sample(function: Function, number: SymbolicNumber, a: float, b: float) -> float:
    """The value; of a number that only shows its type, some value of the result's type."""
    try:
        return function(a, b)
    except ArithmeticError:
        if number.name not in number.arithmetic.late_names:
            raise
        return function(1, 1) * type(a * b)(1)


def _unary_method(template: str, function: Function) -> Callable[[SymbolicNumber], Operand]:
    def call(self: SymbolicNumber) -> Operand:
        parts = (function, (self,)) if function is operator.neg else None
        return self.arithmetic.derive(template.format(self.name), (self.name,), function(self.value), parts)

    return call


def _power_methods() -> tuple[Function, Function]:
    """As `_binary_methods`; whether the power of two ints is an int depends on the exponent, which is settled then."""
    forward, backward = _binary_methods("**", operator.pow)

    def power(self: SymbolicNumber, other: int) -> Operand:
        ints = type(self.value) is int and type(getattr(other, "value", other)) is int
        return forward(self, specialize_numbers(other) if ints else other)

    def reflected_power(self: SymbolicNumber, other: float) -> Operand:
        if type(self.value) is int and type(other) is int:
            return other ** self.specialize()
        return backward(self, other)

    return power, reflected_power


_CONVERSIONS: tuple[Function, ...] = (operator.index, complex, hash)
for _conversion in _CONVERSIONS:
    setattr(SymbolicNumber, f"__{_conversion.__name__}__", _conversion_method(_conversion))
for _kind in (int, float):
    setattr(SymbolicNumber, f"__{_kind.__name__}__", _real_method(_kind))
for _name, _symbol in {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}.items():
    setattr(SymbolicNumber, f"__{_name}__", _comparison_method(_symbol, getattr(operator, _name)))
_NAMES = "add sub mul mod truediv floordiv and or xor lshift rshift"
_SYMBOLS = "+ - * % / // & | ^ << >>"
for _name, _symbol in zip(_NAMES.split(), _SYMBOLS.split(), strict=True):
    _forward, _backward = _binary_methods(_symbol, getattr(operator, f"__{_name}__"))
    setattr(SymbolicNumber, f"__{_name}__", _forward)
    setattr(SymbolicNumber, f"__r{_name}__", _backward)
for _name, _template, _one in (
    ("neg", "(-{})", operator.neg),
    ("pos", "(+{})", operator.pos),
    ("abs", "abs({})", abs),
    ("invert", "(~{})", operator.invert),
    ("floor", "floor({})", math.floor),
    ("ceil", "ceil({})", math.ceil),
    ("trunc", "trunc({})", math.trunc),
):
    setattr(SymbolicNumber, f"__{_name}__", _unary_method(_template, _one))
for _name, _method in zip(("__pow__", "__rpow__"), _power_methods(), strict=True):
    setattr(SymbolicNumber, _name, _method)
