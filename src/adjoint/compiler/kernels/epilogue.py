"""The end of a kernel with a root: what follows its elements one by one, computed on registers, and the stores."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from adjoint.compiler.ir.graph import Value
from adjoint.compiler.ir.strided_view import StridedView, view_over
from adjoint.compiler.kernels import elementwise
from adjoint.compiler.kernels.elementwise import Access, Accesses, fingerprint
from adjoint.compiler.kernels.index_arithmetic import lane_offsets
from adjoint.compiler.kernels.kernel import ResultRegister
from adjoint.compiler.llvm.builder import Builder
from adjoint.compiler.llvm.types import I64, Reg, from_dtype
from adjoint.compiler.passes.materialize import is_generated
from adjoint.core.typing import Operand

if TYPE_CHECKING:
    from adjoint.compiler.passes.fusion import Fusion
    from adjoint.compiler.passes.fusion_group import Group

Shape = tuple[int, ...]
CACHE_LINE_BYTES = 64


class Epilogue:
    """The equations of a group after its root, over the root's result seen as an array of `shape`.

    `structure`: all of it that the text is made from, with numbers for values. Where an access begins in its array is
    not in the text: it is one of the kernel's `numbers`, unless it is 0.
    """

    def __init__(self, group: Group, fusion: Fusion, shape: Shape) -> None:
        assert group.root is not None
        assert group.shape is not None
        self.roots: tuple[Value, ...] = (group.root,)
        self.shape = shape
        apart = {group.root, *group.concatenations, *group.prologue}
        self.equations = [v for v in group.equations if v not in apart]
        self._views = fusion.views
        self.reads: dict[Value, Access] = {}
        for value in self.equations:
            for operand in value.operands:
                view = fusion.views[operand]
                if fusion.maker.get(view.base) is not group:
                    self.reads[operand] = self._access(view, value.shape)
        self.writes = [
            (v, self._access(StridedView.whole(v), v.shape)) for v in group.stored if v not in group.concatenations
        ]
        self.writes += [
            (part, self._access(place, part.shape))
            for whole in group.concatenations
            for part, place in _split_concat(whole)
        ]
        self._derive_fields()

    def _derive_fields(self) -> None:
        self.accesses = Accesses((*self.reads.values(), *(access for _, access in self.writes)))
        self._varying_dims = self._find_varying_dims()
        self.structure = self._structure()

    @staticmethod
    def over(group: Group, fusion: Fusion, shape: Shape) -> Epilogue | None:
        """The epilogue over the root's elements in another shape; None if strides cannot say what it reads there."""
        try:
            return Epilogue(group, fusion, shape)
        except ValueError:
            return None

    def finish(self, b: Builder, pointers: dict[Value, Reg], numbers: Sequence[Reg] = ()) -> EpilogueWriter:
        """The function which a kernel calls with each block of its result."""
        return EpilogueWriter(self, b, pointers, dict(zip(self.accesses.with_offset, numbers, strict=True)))

    def source(self, operand: Value) -> Value:
        """Return the key of an operand's register: itself if loaded, else the equation that made it."""
        return operand if operand in self.reads else self._views[operand].base

    def varying_dims(self, source: Value) -> Sequence[int]:
        """The dimensions along which a value differs."""
        return self._varying_dims[source]

    def _access(self, view: StridedView, shape: Shape) -> Access:
        seen = view_over(view, shape, self.shape)
        if seen is None:
            raise ValueError(f"{view} cannot be read over {self.shape}")
        return Access(
            seen.base, seen.offset, tuple(0 if n == 1 else s for n, s in zip(seen.shape, seen.strides, strict=True))
        )

    def _find_varying_dims(self) -> dict[Value, list[int]]:
        every = list(range(len(self.shape)))
        reach = {o: [d for d in every if a.strides[d]] for o, a in self.reads.items()}
        reach.update(dict.fromkeys(self.roots, every))
        for value in self.equations:
            found = {d for operand in value.operands for d in reach[self.source(operand)]}
            reach[value] = sorted(found)
        return reach

    def _structure(self) -> Hashable:
        numbers = {v: i for i, v in enumerate((*self.reads, *self.roots, *self.equations))}
        place = self.accesses.make_fingerprinter()

        def source(x: Operand) -> Hashable:
            return numbers[self.source(x)] if isinstance(x, Value) else fingerprint(x)

        return (
            self.shape,
            tuple(map(place, self.reads.values())),
            tuple((v.op, v.dtype.str, *map(source, v.inputs)) for v in self.equations),
            tuple((numbers[v], place(access)) for v, access in self.writes),
        )


def _split_concat(whole: Value) -> Iterator[tuple[Value, StridedView]]:
    """Return the parts that a value joins, each with its place in the value's memory."""
    start, axis = 0, whole.params["axis"]
    for part in whole.operands:
        bounds = [(0, n, 1) for n in whole.shape]
        bounds[axis] = start, start + part.shape[axis], 1
        yield part, StridedView.whole(whole).slice(tuple(bounds))
        start += part.shape[axis]


def _lies_in_rows(access: Access) -> bool:
    """True for memory of which a block has a part of each row."""
    return access.strides[-1] == 1 and access.strides[-2] != 0 and not is_generated(access.base)


class EpilogueWriter:
    """Writes the epilogue of one block after another into a kernel."""

    def __init__(self, epilogue: Epilogue, b: Builder, pointers: dict[Value, Reg], starts: dict[Access, Reg]) -> None:
        self.epilogue, self.b, self.pointers, self.starts = epilogue, b, pointers, starts

    def __call__(self, origin: Sequence[Reg], parts: Sequence[ResultRegister]) -> None:
        """Code for one block: from its elements in registers to what is stored."""
        places = self._origin_addresses(origin)
        known: dict[object, Reg] = {}
        for _, row in groupby(parts, lambda part: part.offset[:-1]):
            # All loads go before the stores: arrays often begin at one distance from a page, and a load waits for a
            # store before it whose address ends in the same twelve bits.
            stores = [
                (self.b.broadcast(self._register(value, part, places, known), part.value.type.lanes), access, part)
                for part in row
                for value, access in self.epilogue.writes
            ]
            for register, access, part in stores:
                self._store(register, access, places[access], part)

    def prefetch(self, origin: Sequence[Reg], rows: int, columns: int) -> None:
        """Begin to bring near what a block of so many rows and columns is going to read, row by row.

        With it what it writes: the loads after a store that waits for its line would wait too.
        """
        b = self.b
        reads = [access for access in self.epilogue.reads.values() if _lies_in_rows(access)]
        if not reads:
            return
        writes = [access for _, access in self.epilogue.writes if _lies_in_rows(access)]
        accesses = dict.fromkeys((*reads, *writes))
        places = self._origin_addresses(origin)
        with b.loop(0, rows) as row:
            for access in accesses:
                type = from_dtype(access.base.dtype)
                line = b.gep(places[access], b.mul(row.index, access.strides[-2]), type)
                for column in range(0, columns, CACHE_LINE_BYTES // type.itemsize):
                    b.prefetch(b.gep(line, column, type))

    def _origin_addresses(self, origin: Sequence[Reg]) -> dict[Access, Reg]:
        """Each access at the block's origin: an address, or the index of an element that is made."""
        b, places = self.b, {}
        for access in (*self.epilogue.reads.values(), *(access for _, access in self.epilogue.writes)):
            if access in places:
                continue
            index = self.starts.get(access) or b.constant(access.offset, I64)
            for at, stride in zip(origin, access.strides, strict=True):
                if stride:
                    step = at if stride == 1 else b.mul(at, stride)
                    index = step if index.name == "0" else b.add(index, step)
            made = is_generated(access.base)
            places[access] = index if made else b.gep(self.pointers[access.base], index, from_dtype(access.base.dtype))
        return places

    def _register(
        self, source: Value, part: ResultRegister, places: dict[Access, Reg], known: dict[object, Reg]
    ) -> Reg:
        """A value at the elements of a part, loaded or computed once for all parts that share it."""
        if source in self.epilogue.roots:
            return part.siblings[self.epilogue.roots.index(source)] if part.siblings else part.value
        reach = self.epilogue.varying_dims(source)
        along = (len(part.offset) - 1) in reach
        key = (source, *(part.offset[d] for d in reach), (part.mask, part.value.type.lanes) if along else None)
        if key not in known:
            if source in self.epilogue.reads:
                known[key] = self._load(self.epilogue.reads[source], places, part)
            else:
                operands = [self._register(self.epilogue.source(o), part, places, known) for o in source.operands]
                known[key] = elementwise.compute(self.b, source, operands)
        return known[key]

    def _load(self, access: Access, places: dict[Access, Reg], part: ResultRegister) -> Reg:
        lanes, base = part.value.type.lanes, access.base
        return elementwise.load(
            self.b, base, self._advance_to_part(access, places[access], part), access.strides[-1], lanes, part.mask
        )

    def _store(self, value: Reg, access: Access, place: Reg, part: ResultRegister) -> None:
        b, stride = self.b, access.strides[-1]
        place = self._advance_to_part(access, place, part)
        if stride in (0, 1) or value.type.lanes == 1:
            b.store(value, place, part.mask)
        else:
            b.scatter(value, place, lane_offsets(b, value.type.lanes, stride), part.mask)

    def _advance_to_part(self, access: Access, place: Reg, part: ResultRegister) -> Reg:
        by = sum(o * s for o, s in zip(part.offset, access.strides, strict=True))
        if not by:
            return place
        return (
            self.b.add(place, by) if is_generated(access.base) else self.b.gep(place, by, from_dtype(access.base.dtype))
        )
