"""The sizes of arguments that differ from call to call: symbols of the step, found anew in each call."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from weakref import WeakMethod

from adjoint.compiler.ir.graph import StaticSizeError
from adjoint.compiler.ir.size_terms import format_terms
from adjoint.compiler.ir.symbolic_size import SizeRelations, SymbolicSize
from adjoint.compiler.trace.symbolic_number import NumberArithmetic, ScalarExpr, fixed_code
from adjoint.core.graph.source_location import user_site
from adjoint.core.typing import Function, Operand


class ArgumentSizes:
    """The symbols of a trace. Sizes that are equal in the call that is traced are one symbol, as in PyTorch."""

    def __init__(self, arithmetic: NumberArithmetic) -> None:
        self.arithmetic = arithmetic
        self.relations = SizeRelations()
        # weakly: the relations live on with the program, and a cycle would have it wait for the collector
        add_guard, make_number = WeakMethod(self._add_guard), WeakMethod(self._make_number)
        self.relations.on_guard = lambda code, answer: _call_living(add_guard, code, answer)
        self.relations.make_number = lambda size: _call_living(make_number, size)
        self._symbols: dict[int, SymbolicSize] = {}  # by their values in this call
        self._numbers: dict[object, Operand] = {}

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

    def refuse_symbols(self) -> None:
        """Raise StaticSizeError if there are symbols."""
        if self.relations.places:
            raise StaticSizeError(place for places in self.relations.places.values() for place in places)

    def check_symbols(self) -> None:
        """Raise StaticSizeError if the program is for one value of some symbol alone."""
        needed = self.relations.pinned | self._find_settled_symbols()
        if found := [place for name in sorted(needed) for place in self.relations.places[name]]:
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
        self.arithmetic.lines.append(ScalarExpr("", code, names, user_site(), answer))
        if self.relations.pinned:
            self.check_symbols()  # the rest of the trace would be in vain

    def _make_number(self, size: SymbolicSize) -> Operand:
        """Return the number that a size is to the step's other arithmetic: one for equal sizes."""
        if size not in self._numbers:
            names = tuple(self.relations.values)
            self._numbers[size] = self.arithmetic.derive(format_terms(size.terms), names, size.value)
        return self._numbers[size]


def _call_living(held: WeakMethod[Function], *arguments: object) -> Operand:
    """Call a method of a trace that goes on."""
    method = held()
    assert method is not None, "sizes are asked for something when the program is complete"
    return method(*arguments)
