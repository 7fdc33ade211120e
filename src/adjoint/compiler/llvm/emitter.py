"""The text of one LLVM module as it grows: lines, fresh names, constants, declarations."""

from __future__ import annotations

import ctypes
import math
import operator
import platform
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple, SupportsIndex, cast, overload

import numpy as np

from adjoint.compiler.ir.size_terms import Factor, Quotient, Terms, find_bounds, find_names
from adjoint.compiler.ir.symbolic_size import SymbolicSize, is_symbolic_size
from adjoint.compiler.llvm.types import I64, Operand, Reg, Type
from adjoint.core.dtype.dtype import bfloat16

if TYPE_CHECKING:
    from adjoint.compiler.llvm.jit.target import Target

NAN = "0x7FF8000000000000"
HOST_IS_X86 = platform.machine().lower() in ("x86_64", "amd64", "i386", "i686", "x86")


class _EntrySizes(NamedTuple):
    """The code at the beginning of a kernel that computes the sizes of a call, and the text that takes it in."""

    place: int
    lines: list[str]
    symbols: dict[str, Reg]
    known: dict[Terms, Reg]


class Emitter:
    """Appends instructions to the function being written; `text()` is the module.

    The text depends on nothing but the calls made, so equal kernels have equal text. No instruction carries a
    fast-math flag: `a * b + c` rounds twice, as NumPy's does.
    """

    def __init__(self, target: Target | None = None, has_fma: bool = True) -> None:
        """`target`: the machine whose own instructions may be used; without one, none but, perhaps, that of `fma`."""
        self.register = target.vector_bits if target is not None else 0
        self.has_fma = has_fma if target is None else target.has_fma
        # Whether NumPy's maximum there is the instruction that takes 0.0 for larger than -0.0; x86 has none.
        self.orders_zeros = not (target.is_x86 if target is not None else HOST_IS_X86)
        self._lines: list[str] = []
        self._subroutines: list[str] = []
        self._declarations: dict[str, str] = {}
        self._globals: dict[str, str] = {}
        self._count = 0
        self._block = ""
        self.symbols: dict[str, Reg] = {}  # the sizes of this call, by their names
        self._entry: _EntrySizes | None = None  # of the kernel that is written

    def text(self) -> str:
        """The whole module as LLVM assembly."""
        if self._block:
            raise RuntimeError("the module's text was asked for inside a function")
        parts = [*self._globals.values(), *self._subroutines, *self._lines, *self._declarations.values()]
        return "\n".join([*parts, "attributes #0 = { nounwind }", ""])

    def constant(self, value: float | int | bool, type: Type) -> Reg:
        """`value` in every lane; floats are rounded to the type, integers must fit it.

        A symbolic size is no constant: it is computed of the symbols, which the function must have.
        """
        if is_symbolic_size(value):
            return self.broadcast(self._compute_terms(cast("SymbolicSize", value).terms), type.lanes)
        scalar = _literal(value, type)
        return Reg(scalar if type.lanes == 1 else f"splat ({type.scalar.text} {scalar})", type)

    def bind_symbols(self, names: Sequence[str]) -> None:
        """Load symbols at the beginning of a kernel: any other is loaded wherever it is used."""
        self.symbols = {name: self._load_symbol(name) for name in names}

    def _load_symbol(self, name: str) -> Reg:
        """The value of a symbol in this call: in front of the kernel's table, the last one first."""
        place = self.emit(f"getelementptr inbounds i64, ptr %args, i64 {-1 - int(name[1:])}", I64)
        return self.emit(f"load i64, ptr {place.name}, align 8, !invariant.load !{{}}", I64)

    @contextmanager
    def sizes_at_entry(self) -> Iterator[None]:
        """Compute sizes once, at the beginning of the kernel that begins here."""
        self._entry = _EntrySizes(len(self._lines), [], {}, {})
        yield
        self._lines[self._entry.place : self._entry.place] = self._entry.lines
        self._entry = None

    def _compute_terms(self, terms: Terms) -> Reg:
        """The number (i64) that a sum of products of symbols is in this call.

        Within a loop LLVM would divide in every turn, as it knows of no divisor that it is not 0.
        """
        entry = self._entry
        if entry is None or not _divides_by_positives(terms):
            return self._emit_terms(terms)
        if terms not in entry.known:
            outside = self._lines, self.symbols
            self._lines, self.symbols = entry.lines, entry.symbols
            for name in sorted(find_names(terms) - entry.symbols.keys()):
                entry.symbols[name] = self._load_symbol(name)
            entry.known[terms] = self._emit_terms(terms)
            self._lines, self.symbols = outside
        return entry.known[terms]

    def _emit_terms(self, terms: Terms) -> Reg:
        total: Reg | None = None
        for monomial, coefficient in terms:
            product: Reg | None = None
            for factor in map(self._compute_factor, monomial):
                product = factor if product is None else self.emit(f"mul i64 {product.name}, {factor.name}", I64)
            if product is None or coefficient != 1:
                product = (
                    Reg(str(coefficient), I64)
                    if product is None
                    else self.emit(f"mul i64 {product.name}, {coefficient}", I64)
                )
            total = product if total is None else self.emit(f"add i64 {total.name}, {product.name}", I64)
        assert total is not None
        return total

    def _compute_factor(self, factor: Factor) -> Reg:
        if isinstance(factor, str):
            return self.symbols.get(factor) or self._load_symbol(factor)
        dividend, divisor = self._emit_terms(factor.dividend), self._emit_terms(factor.divisor)
        if find_bounds(factor.dividend)[0] >= 0:
            return self.emit(f"{'urem' if factor.is_rest else 'udiv'} i64 {dividend.name}, {divisor.name}", I64)
        # rounded down, as Python divides: one less where there is a rest below zero
        rest = self.emit(f"srem i64 {dividend.name}, {divisor.name}", I64)
        below = self.emit(f"ashr i64 {rest.name}, 63", I64)  # -1 or 0
        if factor.is_rest:
            more = self.emit(f"and i64 {divisor.name}, {below.name}", I64)
            return self.emit(f"add i64 {rest.name}, {more.name}", I64)
        quotient = self.emit(f"sdiv i64 {dividend.name}, {divisor.name}", I64)
        return self.emit(f"add i64 {quotient.name}, {below.name}", I64)

    def vector(self, values: Sequence[float | int | bool], type: Type) -> Reg:
        """A constant whose lanes differ, one value for each."""
        scalar = type.scalar
        if len(values) == 1:
            return self.constant(values[0], scalar)
        lanes = ", ".join(f"{scalar.text} {_literal(value, scalar)}" for value in values)
        return Reg(f"<{lanes}>", scalar.of(len(values)))

    def table(self, values: Sequence[float], type: Type) -> Reg:
        """The address of a constant array; equal arrays are stored once."""
        items = ", ".join(f"{type.text} {_literal(value, type)}" for value in values)
        if items not in self._globals:
            name = f"@table{len(self._globals)}"
            self._globals[items] = (
                f"{name} = private unnamed_addr constant [{len(values)} x {type.text}] [{items}], align 64"
            )
        return Reg(self._globals[items].split(" ", 1)[0], Type("ptr", 64))

    def emit(self, instruction: str, type: Type) -> Reg:
        """Append an instruction that has a value; the register which holds it."""
        self._count += 1
        name = f"%v{self._count}"
        self._lines.append(f"  {name} = {instruction}")
        return Reg(name, type)

    def command(self, instruction: str) -> None:
        """Append an instruction without a value."""
        self._lines.append(f"  {instruction}")

    @overload
    def call(self, callee: str | Reg, arguments: Sequence[Reg], result: Type) -> Reg: ...
    @overload
    def call(self, callee: str | Reg, arguments: Sequence[Reg], result: None = None) -> None: ...

    def call(self, callee: str | Reg, arguments: Sequence[Reg], result: Type | None = None) -> Reg | None:
        """Call a function of this module by name, or any function by its address."""
        name = f"@{callee}" if isinstance(callee, str) else callee.name
        given = ", ".join(f"{argument.type.text} {argument.name}" for argument in arguments)
        if result is None:
            self.command(f"call void {name}({given})")
            return None
        return self.emit(f"call {result.text} {name}({given})", result)

    def external(self, name: str, arguments: Sequence[Reg], result: Type) -> Reg:
        """Call a function of the C library or an LLVM intrinsic, declaring it."""
        return self.emit(self._call_of(name, arguments, result), result)

    def external_command(self, name: str, arguments: Sequence[Reg]) -> None:
        """Call such a function that has no value."""
        self.command(self._call_of(name, arguments, None))

    def intrinsic(self, name: str, *arguments: Reg) -> Reg:
        """`llvm.name` overloaded on the type its arguments and result share."""
        type = arguments[0].type
        return self.external(f"llvm.{name}.{type.suffix}", arguments, type)

    def operands(self, x: Operand, y: Operand) -> tuple[Reg, Reg]:
        """Both as registers of one type: numbers become constants, a scalar is spread over the other's lanes."""
        if isinstance(x, Reg) and isinstance(y, Reg) and x.type == y.type:
            return x, y
        if not isinstance(x, Reg):
            if not isinstance(y, Reg):
                raise TypeError(f"an operation needs a register, got {x!r} and {y!r}")
            return self.constant(x, y.type), y
        if not isinstance(y, Reg):
            return x, self.constant(y, x.type)
        if x.type.scalar != y.type.scalar or 1 not in (x.type.lanes, y.type.lanes):
            raise TypeError(f"operand types differ, {x.type} and {y.type}")
        return (self.broadcast(x, y.type.lanes), y) if x.type.lanes == 1 else (x, self.broadcast(y, x.type.lanes))

    def broadcast(self, x: Reg, lanes: int) -> Reg:
        """A scalar repeated in every lane."""
        if x.type.lanes == lanes:
            return x
        if x.type.lanes != 1:
            raise TypeError(f"only a scalar can be broadcast, got {x.type}")
        type = x.type.of(lanes)
        if x.is_constant and x.name[0] != "@":
            return Reg(f"splat ({x.type.text} {x.name})", type)
        first = self.emit(f"insertelement {type.text} poison, {x.type.text} {x.name}, i64 0", type)
        return self.emit(
            f"shufflevector {type.text} {first.name}, {type.text} poison, <{lanes} x i32> zeroinitializer", type
        )

    def bitcast(self, x: Reg, type: Type) -> Reg:
        """The same bits read as another type of equal size, lane by lane."""
        type = type.of(x.type.lanes)
        return self.emit(f"bitcast {x.type.text} {x.name} to {type.text}", type)

    def _call_of(self, name: str, arguments: Sequence[Reg], result: Type | None) -> str:
        value = result.text if result else "void"
        # Found by name alone: a name has one signature in a module.
        if name not in self._declarations:
            types = ", ".join(argument.type.text for argument in arguments)
            self._declarations[name] = f"declare {value} @{name}({types})"
        given = ", ".join(f"{argument.type.text} {argument.name}" for argument in arguments)
        return f"call {value} @{name}({given})"

    def _start_block(self, label: str) -> None:
        self._lines.append(f"{label}:")
        self._block = label

    def _label(self, word: str) -> str:
        self._count += 1
        return f"{word}{self._count}"


def _divides_by_positives(terms: Terms) -> bool:
    """True if all that a size divides by is positive whatever the symbols are."""
    quotients = (factor for monomial, _ in terms for factor in monomial if isinstance(factor, Quotient))
    return all(
        find_bounds(each.divisor)[0] >= 1 and all(map(_divides_by_positives, (each.dividend, each.divisor)))
        for each in quotients
    )


def _literal(value: float, type: Type) -> str:
    if type.kind == "f":
        number = float(value)
        if math.isnan(number):
            return NAN
        if type.bits == 32:
            # LLVM writes a float constant as the double of equal value. ctypes rounds to it without warning.
            number = ctypes.c_float(number).value
        return f"0x{struct.unpack('<Q', struct.pack('<d', number))[0]:016X}"
    if type.kind == "n":
        return str(np.array(value, np.float32).astype(bfloat16.numpy).view(np.int16).item())
    if type.kind == "b":
        return "true" if value else "false"
    if type.kind == "ptr":
        raise TypeError("a pointer has no constants")
    return _integer(value, type)


@lru_cache(maxsize=1024, typed=True)
def _integer(value: float, type: Type) -> str:
    try:
        integer = operator.index(cast("SupportsIndex", value))
    except TypeError:
        raise TypeError(f"{value!r} is no constant of an integer type {type}") from None
    low, high = (0, 2**type.bits - 1) if type.kind == "u" else (-(2 ** (type.bits - 1)), 2 ** (type.bits - 1) - 1)
    if not low <= integer <= high:
        raise OverflowError(f"{integer} does not fit {type}")
    return str(integer)
