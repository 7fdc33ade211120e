"""One equation, one load, of a kernel: from operands in registers to the register of the result."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import TYPE_CHECKING, NamedTuple

from adjoint.compiler.ir.graph import Value
from adjoint.compiler.ir.interpreter import literal_value, operand_dtype
from adjoint.compiler.ir.symbolic_size import is_symbolic_size
from adjoint.compiler.kernels.index_arithmetic import lane_offsets
from adjoint.compiler.llvm.types import F64, I64, Reg, from_dtype
from adjoint.compiler.passes.materialize import is_generated
from adjoint.core.typing import Operand

if TYPE_CHECKING:
    from adjoint.compiler.llvm.builder import Builder

Shape = tuple[int, ...]


class Access(NamedTuple):
    """A value that a kernel reads or writes: its array, the element at the origin, the step along each dimension."""

    base: Value
    offset: int
    strides: Shape


class Accesses:
    """The accesses of a kernel: `bases`, the values in its table, and `with_offset`, what does not begin where
    its array does: that is not in the text, but one of the kernel's `numbers`. A symbolic offset is in the text.
    """

    def __init__(self, accesses: Iterable[Access]) -> None:
        found = [a for a in dict.fromkeys(accesses) if not is_generated(a.base)]
        self.bases = list(dict.fromkeys(a.base for a in found))
        self.with_offset = [a for a in found if not is_symbolic_size(a.offset) and a.offset]
        self.numbers = [a.offset for a in self.with_offset]

    def make_fingerprinter(self) -> Callable[[Access], Hashable]:
        """The facts of each access that the text depends on, values told apart by their place in the table."""
        places = {base: i for i, base in enumerate(self.bases)}
        shifted = {access: i for i, access in enumerate(self.with_offset)}

        def place(access: Access) -> Hashable:
            base = access.base
            if base not in places:
                return base.dtype.str, access.offset, access.strides, fingerprint(base)
            offset = access.offset if is_symbolic_size(access.offset) else shifted.get(access)
            return base.dtype.str, offset, access.strides, places[base]

        return place


def compute(b: Builder, value: Value, operands: list[Reg]) -> Reg:
    """An elementwise equation; `operands`: the registers of its operands that are values, in order."""
    given = iter(operands)
    registers = [next(given) if isinstance(x, Value) else _literal(b, value, i) for i, x in enumerate(value.inputs)]
    lanes = max((r.type.lanes for r in registers), default=1)
    registers = [b.broadcast(r, lanes) for r in registers]
    scalar = value.op.scalar
    if scalar == "cast":
        return b.cast(registers[0], from_dtype(value.dtype))
    if scalar == "pow" and not isinstance(value.inputs[1], Value):
        return b.pow(registers[0], value.inputs[1])  # x^½ of a number ½ is √x, of an element that holds ½ it is not
    made: Reg = scalar(b, *registers) if callable(scalar) else getattr(b, scalar)(*registers)
    return made


def _literal(b: Builder, value: Value, i: int) -> Reg:
    """The number that is input `i` of an equation; a size is that of the call."""
    x, kind = value.inputs[i], from_dtype(operand_dtype(value, i))
    return b.cast(b.constant(x, I64), kind) if is_symbolic_size(x) else b.constant(literal_value(value, i, x), kind)


def load(b: Builder, base: Value, place: Reg, stride: int, lanes: int, mask: Reg | int | None) -> Reg:
    """Elements of `base` at an address, or, of one that is made, from an index; `stride` between neighbouring lanes."""
    kind = from_dtype(base.dtype)
    if is_generated(base):
        return _generate_element(b, base, place, stride, lanes)
    if not stride:
        return b.load(place, kind)
    if stride == 1 or lanes == 1:
        return b.load(place, kind.of(lanes), mask)
    return b.gather(place, lane_offsets(b, lanes, stride), kind, mask)


def _generate_element(b: Builder, value: Value, index: Reg, stride: int, lanes: int) -> Reg:
    """An element of a fill or a range, from its index."""
    kind = from_dtype(value.dtype)
    if value.op.family == "full":
        return b.constant(value.dtype.type(value.params["value"]).item(), kind)
    if stride and lanes > 1:
        index = b.add(lane_offsets(b, lanes, stride), index)
    first, step = value.params["start"], value.params["step"]
    if isinstance(first, int) and isinstance(step, int):
        return b.cast(b.add(b.mul(index, step), first), kind)
    return b.cast(b.add(b.mul(b.cast(index, F64), float(step)), float(first)), kind)


def fingerprint(x: Operand) -> Hashable:
    """Return a key that tells a number, or a value made from the index, from others."""
    if isinstance(x, Value):
        return x.op, x.shape, tuple((key, type(v), repr(v)) for key, v in sorted(x.params.items()))
    return type(x), repr(x)
