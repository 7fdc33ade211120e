"""Arithmetic on indices, which are registers or numbers known now: no instruction where none is needed."""

from __future__ import annotations

from collections.abc import Sequence

from adjoint.compiler.ir.symbolic_size import is_multiple, is_symbolic_size
from adjoint.compiler.llvm.builder import Builder
from adjoint.compiler.llvm.types import I64, Reg, Type

Index = Reg | int  # a number may be a symbolic size, which becomes a register where it is used


def as_index(b: Builder, x: Index) -> Reg:
    """Return a number as an operand of i64."""
    return x if isinstance(x, Reg) else b.constant(x, I64)


def add_index(b: Builder, x: Index, y: Index) -> Reg:
    """Return x + y."""
    x, y = as_index(b, x), as_index(b, y)
    if x.is_constant and y.is_constant:
        return b.constant(int(x.name) + int(y.name), I64)
    return y if x.name == "0" else x if y.name == "0" else b.add(x, y)


def subtract_index(b: Builder, x: Index, y: Index) -> Index:
    """Return x - y."""
    return x - y if isinstance(x, int) and isinstance(y, int) else b.sub(as_index(b, x), as_index(b, y))


def scale_index(b: Builder, index: Index, stride: int) -> Index:
    """Return index * stride."""
    if isinstance(index, int) or not stride:
        return index * stride if isinstance(index, int) else 0
    return index if stride == 1 else b.mul(index, stride)


def split_size(size: int, step: int) -> tuple[int, int]:
    """Return the part of a size that is whole steps, and the rest, which may be symbolic."""
    if step == 1 or (is_symbolic_size(size) and is_multiple(size, step)):
        return size, 0
    rest = size % step
    return size - rest, rest


def is_zero(x: Index) -> bool:
    """True for a number that is 0 in every call; a symbolic size is none, and a register is not."""
    return not is_symbolic_size(x) and x == 0


def is_one(x: Index) -> bool:
    """True for a number that is 1 in every call."""
    return not is_symbolic_size(x) and x == 1


def add_strided(b: Builder, offset: Index, index: Index, stride: int) -> Reg:
    """Return offset + index * stride."""
    return add_index(b, scale_index(b, index, stride), offset)


def lane_offsets(b: Builder, lanes: int, stride: int) -> Reg:
    """Return the distance of each lane's element from the first one's."""
    return b.mul(b.iota(lanes), b.constant(stride, I64) if is_symbolic_size(stride) else stride)


def min_index(b: Builder, x: Index, y: Index) -> Index:
    """Return the smaller of the two."""
    if is_symbolic_size(x) or is_symbolic_size(y):
        return b.minimum(as_index(b, x), as_index(b, y))
    return min(x, y) if isinstance(x, int) and isinstance(y, int) else b.minimum(x, y)


def max_index(b: Builder, x: Index, y: Index) -> Index:
    """Return the larger of the two."""
    if is_symbolic_size(x) or is_symbolic_size(y):
        return b.maximum(as_index(b, x), as_index(b, y))
    return max(x, y) if isinstance(x, int) and isinstance(y, int) else b.maximum(x, y)


def require_known(x: Index) -> int:
    """Return an index that is a number."""
    assert isinstance(x, int), "an index of which code of its own is written is known"
    return x


def mask_left(b: Builder, size: Index, place: Index, lanes: int) -> Reg:
    """Return the mask of lanes that are elements, where an array of a size goes on from a place."""
    return b.lane_mask(as_index(b, subtract_index(b, size, place)), lanes)


def floor_div_index(b: Builder, x: Reg, y: Index) -> Reg:
    """Return x // y of a number that is not negative."""
    return x if is_one(y) else b.emit(f"udiv i64 {x.name}, {as_index(b, y).name}", I64)


def modulo_index(b: Builder, x: Reg, y: int) -> Reg:
    """Return x % y of a number that is not negative."""
    return b.constant(0, I64) if is_one(y) else b.emit(f"urem i64 {x.name}, {as_index(b, y).name}", I64)


def divmod_index(b: Builder, x: Reg, y: int) -> tuple[Reg, Reg]:
    """Return x // y and x % y of a number that is not negative."""
    whole = floor_div_index(b, x, y)
    return whole, b.constant(0, I64) if is_one(y) else b.sub(x, b.mul(whole, y))


def unravel_index(b: Builder, x: Reg, sizes: Sequence[int]) -> list[Reg]:
    """Return an index into each dimension, from that of an element in row-major order."""
    digits = []
    for size in reversed(sizes[1:]):
        x, digit = divmod_index(b, x, size)
        digits.append(digit)
    return [*([x] if sizes else []), *reversed(digits)]


def advance_address(b: Builder, pointer: Reg, index: Index, stride: int, type: Type) -> Reg:
    """Return the address `index` strides further."""
    by = scale_index(b, index, stride)
    return pointer if is_zero(by) else b.gep(pointer, by, type)
