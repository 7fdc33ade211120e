"""The sizes of arguments that differ from call to call: symbols of the step, found anew in each call."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from functools import partial
from weakref import WeakMethod

from adjoint.compiler.ir.graph import StaticSizeError
from adjoint.compiler.ir.size_terms import MIN_SYMBOL, format_terms
from adjoint.compiler.ir.symbolic_size import SizeRelations, SymbolicSize
from adjoint.compiler.trace.numbers.symbolic_number import NumberArithmetic, ScalarExpr, SymbolicNumber, fixed_code
from adjoint.core.graph.source_location import user_site
from adjoint.core.tensor.size import as_size
from adjoint.core.typing import Function, Operand


class ArgumentSizes:
    """The symbols of a trace. Sizes that are equal in the call that is traced are one symbol, as in PyTorch."""

    def __init__(self, arithmetic: NumberArithmetic) -> None:
        self.arithmetic = arithmetic
        self.relations = SizeRelations()
        self.guard_in(arithmetic)
        # weakly: the relations live on with the program, and a cycle would have it wait for the collector
        make_number = WeakMethod(self._make_number)
        self.relations.make_number = lambda size: _call_living(make_number, size)
        find_size = WeakMethod(self._find_size)
        arithmetic.find_size = lambda number: _call_living(find_size, number)
        self._symbols: dict[int, SymbolicSize] = {}  # by their values in this call
        self._number_symbols: dict[str, int] = {}  # by the names of the numbers that they are
        self._numbers: dict[object, Operand] = {}

    def guard_in(self, arithmetic: NumberArithmetic) -> None:
        """Let each new guard be a line of this arithmetic: that of the program which is made next."""
        add_guard = WeakMethod(self._add_guard)
        self._guarded = arithmetic
        self.relations.unseal(lambda code, answer: _call_living(add_guard, code, answer))

    def make_shape(self, shape: tuple[int, ...], argument: int, leaf: int, dims: Sequence[int]) -> tuple[int, ...]:
        """Return the shape of an argument, one of the leaves, with symbols for its sizes in `dims`."""
        made: list[Operand] = list(shape)
        for d in dims:
            if shape[d] not in self._symbols:
                symbol = self._symbols[shape[d]] = self.relations.add_symbol(shape[d])
                name, what = repr(symbol), f"size {d} of argument {argument}"
                self.arithmetic.add_source(name, shape[d], partial(fixed_code, f"x{argument}.array.shape[{d}]"), what)
            self.relations.places.setdefault(repr(self._symbols[shape[d]]), []).append((leaf, d))
            made[d] = self._symbols[shape[d]]
        return tuple(made)

    def make_result_shape(self, shape: tuple[int, ...], slot: int, known: dict[int, SymbolicSize]) -> tuple[int, ...]:
        """Return the shape of a tensor that a call outside gave, with a symbol for how many elements it has.

        `slot`: its number among the program's arguments. `known`: the symbols of other results, by their values.
        """
        if not shape or shape[0] < MIN_SYMBOL or self.arithmetic.find_size is None:
            return shape
        if shape[0] not in known:
            symbol = known[shape[0]] = self.relations.add_symbol(shape[0])
            code = partial(fixed_code, f"x{slot}.array.shape[0]")
            self.arithmetic.add_source(repr(symbol), shape[0], code, "the size of a result", by_host=True)
        return (as_size(known[shape[0]]), *shape[1:])

    def refuse_symbols(self) -> None:
        """Raise StaticSizeError if there are symbols."""
        if self.relations.places:
            raise StaticSizeError(place for places in self.relations.places.values() for place in places)

    def check_symbols(self) -> None:
        """Raise StaticSizeError if the program is for one value of some symbol alone."""
        needed = self.relations.pinned | self._find_settled_symbols()
        if found := [place for name in sorted(needed) for place in self.relations.places.get(name, ())]:
            raise StaticSizeError(found)

    def _find_settled_symbols(self) -> set[str]:
        """Return the symbols on which numbers depend that the step's other arithmetic has settled."""
        symbols, settled = {name: {name} for name in self.relations.places}, set[str]()
        for line in self.arithmetic.lines:
            found = set[str]().union(*(symbols.get(name, ()) for name in line.needs))
            if line.name:
                symbols[line.name] = found
            elif type(line.expected_value) is not bool:
                settled |= found
        return settled

    def _add_guard(self, code: str, answer: bool) -> None:
        names = tuple(self.relations.values)
        self._guarded.lines.append(ScalarExpr("", code, names, user_site(), answer))
        if self.relations.pinned:
            self.check_symbols()  # the rest of the trace would be in vain

    def _make_number(self, size: SymbolicSize) -> Operand:
        """Return the number that a size is to the step's other arithmetic: one for equal sizes."""
        if size not in self._numbers:
            names = tuple(self.relations.values)
            parts = operator.pos, (size,)
            self._numbers[size] = self.arithmetic.derive(format_terms(size.terms), names, size.value, parts)
        return self._numbers[size]

    def _find_size(self, number: SymbolicNumber) -> int:
        """Return the size that a number is: what follows from others is an expression of these.

        A number less than the smallest symbol is settled; of one that is negative, the symbol is its opposite.
        """
        if number.parts is not None:
            function, operands = number.parts
            return as_size(function(*map(as_size, operands)))
        known = self._number_symbols.get(number.name)
        if known is None:
            known = self._number_symbols[number.name] = self._make_size(number)
        return known

    def _make_size(self, number: SymbolicNumber) -> int:
        """Return a new symbol for a number, or the number that it is from now on."""
        if number.name in self.arithmetic.late_names:
            if self.arithmetic.bring is None:
                return operator.index(number.specialize())
            number = self.arithmetic.bring(number)
        value = int(number.value)
        if abs(value) < MIN_SYMBOL:
            self.arithmetic.is_small_size = True
            self.arithmetic.lines.append(ScalarExpr("", number.name, (number.name,), user_site(), value))
            return value
        symbol = self.relations.add_symbol(abs(value))
        name, code = repr(symbol), number.name if value > 0 else f"-{number.name}"
        self.arithmetic.lines.append(ScalarExpr(name, code, (number.name,), user_site()))
        self.relations.rely_on(f"{name} >= {MIN_SYMBOL}", True)
        size = as_size(symbol)
        return size if value > 0 else -size


def _call_living(held: WeakMethod[Function], *arguments: object) -> Operand:
    """Call a method of a trace that goes on."""
    method = held()
    assert method is not None, "sizes are asked for something when the program is complete"
    return method(*arguments)
