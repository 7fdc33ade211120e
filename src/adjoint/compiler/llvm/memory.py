"""Loads and stores: whole registers, masked tails, gathers and scatters, and the table of arguments."""

from __future__ import annotations

from functools import lru_cache

from adjoint.compiler.llvm.division import Division
from adjoint.compiler.llvm.types import BOOL, I32, I64, NULL, PTR, U8, Operand, Reg, Type


class Memory(Division):
    """Access to arrays. A mask is a bool register, or a number n for the first n lanes; lanes off it touch nothing.

    Addresses are aligned to one element and no more. A bool is one byte in memory, and any byte but 0 is true.
    """

    def argument(self, args: Reg, index: Operand) -> Reg:
        """The pointer in row `index` of the kernel's table of arguments."""
        return self.load(self.gep(args, index, PTR), PTR)

    def number(self, args: Reg, index: Operand) -> Reg:
        """The number (i64) in row `index` of the kernel's table of arguments."""
        return self.load(self.gep(args, index, I64), I64)

    def field(self, pointer: Reg, offset: int, type: Type) -> Reg:
        """The field of an object at an offset in bytes."""
        return self.load(self.gep(pointer, offset, U8), type)

    def stack(self, count: int, type: Type) -> Reg:
        """The address of room for `count` values until the function returns."""
        return self.emit(f"alloca {type.text}, i64 {count}", PTR)

    def gep(self, pointer: Reg, index: Operand, type: Type) -> Reg:
        """The address of element `index` of an array of `type`'s scalar."""
        index = index if isinstance(index, Reg) else self.constant(index, I64)
        return self._address(pointer, index, type)

    def load(self, pointer: Reg, type: Type, mask: Reg | int | None = None) -> Reg:
        """`type.lanes` neighbouring elements; 0 in the lanes off the mask."""
        stored = _memory_type(type)
        mask = self._mask(mask, type.lanes)
        if mask is None:
            loaded = self.emit(f"load {stored.text}, ptr {pointer.name}, align {type.itemsize}", stored)
        elif type.lanes == 1:
            with self.when(mask, [NULL if type.kind == "ptr" else self.constant(0, type)]) as inside:
                inside.yields(self.load(pointer, type))
            return inside.results[0]
        else:
            loaded = self.external(
                f"llvm.masked.load.{stored.suffix}.p0",
                [pointer, _alignment(type), mask, Reg("zeroinitializer", stored)],
                stored,
            )
        return self._from_memory(loaded, type)

    def store(self, value: Reg, pointer: Reg, mask: Reg | int | None = None) -> None:
        """Write each lane on the mask to neighbouring elements."""
        if mask == 1:
            # One lane goes by itself: LLVM 22.1 narrows a register under a mask of one lane, on AVX-512, and stores
            # that lane in its former width, over the neighbour (llvm-project#179489).
            value, mask = self.extract(value, 0), None
        mask = self._mask(mask, value.type.lanes)
        if mask is not None and value.type.lanes == 1:
            with self.when(mask):
                self.store(value, pointer)
            return
        stored = self._to_memory(value)
        if mask is None:
            self.command(f"store {stored.type.text} {stored.name}, ptr {pointer.name}, align {stored.type.itemsize}")
        else:
            self.external_command(
                f"llvm.masked.store.{stored.type.suffix}.p0", [stored, pointer, _alignment(stored.type), mask]
            )

    def prefetch(self, pointer: Reg) -> None:
        """Begin to bring a cache line near; any address will do."""
        rest = [Reg(str(number), I32) for number in (0, 3, 1)]  # for reading, to the first cache, as data
        self.external_command("llvm.prefetch.p0", [pointer, *rest])

    def gather(self, pointer: Reg, offsets: Reg, type: Type, mask: Reg | int | None = None) -> Reg:
        """One element for each lane, `offsets` (i32 or i64) counted in elements from the pointer."""
        lanes = offsets.type.lanes
        type = type.of(lanes)
        if lanes == 1:
            return self.load(self.gep(pointer, offsets, type), type, mask)
        stored = _memory_type(type)
        chosen = self._mask(mask, lanes) or self.constant(True, BOOL.of(lanes))
        # A target without the instruction gets one load for each lane from this.
        loaded = self.external(
            f"llvm.masked.gather.{stored.suffix}.v{lanes}p0",
            [self._address(pointer, offsets, type), _alignment(type), chosen, Reg("zeroinitializer", stored)],
            stored,
        )
        return self._from_memory(loaded, type)

    def scatter(self, value: Reg, pointer: Reg, offsets: Reg, mask: Reg | int | None = None) -> None:
        """Write each lane to its own element; of lanes with one offset the last stays."""
        lanes = offsets.type.lanes
        value = self.broadcast(value, lanes)
        if lanes == 1:
            self.store(value, self.gep(pointer, offsets, value.type), mask)
            return
        stored = self._to_memory(value)
        chosen = self._mask(mask, lanes) or self.constant(True, BOOL.of(lanes))
        self.external_command(
            f"llvm.masked.scatter.{stored.type.suffix}.v{lanes}p0",
            [stored, self._address(pointer, offsets, value.type), _alignment(stored.type), chosen],
        )

    def atomic_load(self, pointer: Reg, type: Type, order: str) -> Reg:
        """A load that other threads' atomic writes are ordered with: `monotonic`, `acquire` or `seq_cst`."""
        return self.emit(f"load atomic {type.text}, ptr {pointer.name} {order}, align {type.itemsize}", type)

    def atomic_store(self, value: Reg, pointer: Reg, order: str) -> None:
        """A store that other threads' atomic reads are ordered with: `monotonic`, `release` or `seq_cst`."""
        type = value.type
        self.command(f"store atomic {type.text} {value.name}, ptr {pointer.name} {order}, align {type.itemsize}")

    def atomic_update(self, operation: str, pointer: Reg, value: Reg, order: str) -> Reg:
        """The former value of a number, which becomes `operation` of it and `value`: `add`, `sub` or `xchg`."""
        type = value.type
        return self.emit(f"atomicrmw {operation} ptr {pointer.name}, {type.text} {value.name} {order}", type)

    def compare_exchange(self, pointer: Reg, expected: Reg, value: Reg, order: str, order_if_not: str) -> Reg:
        """True if a number was as expected, and is `value` now."""
        type = value.type.text
        operands = f"ptr {pointer.name}, {type} {expected.name}, {type} {value.name}"
        pair = self.emit(f"cmpxchg {operands} {order} {order_if_not}", value.type)
        return self.emit(f"extractvalue {{ {type}, i1 }} {pair.name}, 1", BOOL)

    def _mask(self, mask: Reg | int | None, lanes: int) -> Reg | None:
        if isinstance(mask, int):
            return None if mask >= lanes else self.lane_mask(mask, lanes)
        if mask is not None and mask.type != BOOL.of(lanes):
            raise TypeError(f"a mask for {lanes} lanes was given as {mask.type}")
        return mask

    def _address(self, pointer: Reg, index: Reg, type: Type) -> Reg:
        return self.emit(
            f"getelementptr inbounds {_element(type)}, ptr {pointer.name}, {index.type.text} {index.name}",
            PTR.of(index.type.lanes),
        )

    def _from_memory(self, loaded: Reg, type: Type) -> Reg:
        return self.ne(loaded, 0) if type.is_bool else Reg(loaded.name, type)

    def _to_memory(self, value: Reg) -> Reg:
        return self.cast(value, U8) if value.type.is_bool else value


@lru_cache(maxsize=256)
def _element(type: Type) -> str:
    """The spelling of an array's element."""
    return _memory_type(type.scalar).text


def _memory_type(type: Type) -> Type:
    return U8.of(type.lanes) if type.is_bool else type


def _alignment(type: Type) -> Reg:
    # The alignment is an operand in the older form of these intrinsics, which every LLVM reads.
    return Reg(str(type.itemsize), Type("i", 32))
