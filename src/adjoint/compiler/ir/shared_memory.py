"""Memory that a step reads by several symbols: a write through one tensor is seen by all that lie there.

Tensors that NumPy made of one array, detached pieces of one memory, arguments that are views of one another: each has a
symbol of its own. A write into one gives the others the values that they have then; only the one is written by a call.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator
from operator import is_
from typing import NamedTuple, Protocol
from weakref import ref

import numpy as np
from numpy.lib.array_utils import byte_bounds

from adjoint.compiler.ir.graph import Argument, Graph, StateInput, Value, op_of
from adjoint.core.op.op import Op
from adjoint.core.tensor.as_strided import address
from adjoint.core.tensor.external_aliases import is_externally_aliased
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Array, Function, Operands, Params
from adjoint.ops.indexing.indexing import gather
from adjoint.ops.movement.movement import cat, reshape, slice

RESHAPE, SLICE, CAT, GATHER = map(op_of, (reshape, slice, cat, gather))
MAX_CONTIGUOUS_PARTS = 8  # of which the new values are joined; of more they are gathered one by one


class CapturedRegion(NamedTuple):
    """The memory of an argument or a captured tensor: the tensor, its array before the step, its symbol."""

    tensor: Tensor
    array: Array
    symbol: Value


class MemoryRelation(NamedTuple):
    """Two inputs whose memory overlaps, and how it did when the step was traced."""

    first: Value
    second: Value
    layout: object


class MemoryFacts(NamedTuple):
    """The inputs that a step writes, all that it has, and the overlaps that it was traced for: no others may be.

    `exported` are those of which backward sees the values from before a write, since NumPy has their memory, too.
    """

    written: frozenset[Value] = frozenset()
    inputs: tuple[Value, ...] = ()
    relations: tuple[MemoryRelation, ...] = ()
    exported: tuple[Value, ...] = ()

    def partners(self, v: Value) -> list[Value]:
        """Return the inputs whose memory must be apart from that of `v`."""
        related = {frozenset(relation[:2]) for relation in self.relations}
        others = self.inputs if v in self.written else self.written
        return [x for x in self.inputs if x in others and x is not v and frozenset((v, x)) not in related]


class GraphWriter(Protocol):
    """Adds equations to the graph of a step."""

    graph: Graph

    def emit(self, op: Op, inputs: Operands, params: Params) -> Value: ...


class MemoryBlocks:
    """The regions of memory that a step has met, parted into blocks that do not overlap."""

    def __init__(self) -> None:
        self._lows: list[int] = []
        self._highs: list[int] = []
        self._regions: list[list[CapturedRegion]] = []
        self.carried: set[Value] = set()  # symbols that saw writes through others
        self.written: set[Value] = set()  # those of them that were written themselves, too
        self.exported: dict[int, None] = {}  # ids of tensors whose values backward keeps as copies, as NumPy has them
        self.shared: dict[int, list[CapturedRegion]] = {}  # the blocks of more than one region, by their beginnings

    def add(self, region: CapturedRegion) -> list[CapturedRegion]:
        """Return the regions of the block that the new one is in now, without itself."""
        if not region.array.size:
            return []
        low, high = byte_bounds(region.array)
        begin = bisect_right(self._lows, low)
        begin -= begin > 0 and self._highs[begin - 1] > low
        end = bisect_left(self._lows, high, begin)
        others = [other for block in self._regions[begin:end] for other in block]
        for i in range(begin, end):
            self.shared.pop(self._lows[i], None)
            low, high = min(low, self._lows[i]), max(high, self._highs[i])
        self._lows[begin:end], self._highs[begin:end] = [low], [high]
        self._regions[begin:end] = [[*others, region]]
        if others:
            self.shared[low] = self._regions[begin]
        return others

    def note_carried(self, region: CapturedRegion, is_written: bool) -> None:
        """Take note that a region saw a write through another; `is_written`: it was written itself before."""
        if is_written and region.symbol not in self.carried:
            self.written.add(region.symbol)
        self.carried.add(region.symbol)

    def is_written(self, symbol: Value) -> bool:
        """True for a symbol with a new value unless it only saw writes through others."""
        return symbol not in self.carried or symbol in self.written


def carry_values(writer: GraphWriter, source: Value, source_array: Array, target: Value, target_array: Array) -> Value:
    """The value `target` with the elements of `source` where both lie in one place; `target` itself if nowhere.

    Raises ValueError where an element of one lies across elements of the other.
    """
    if describe_overlap(source_array, source_array) == describe_overlap(source_array, target_array):
        return source
    places = find_common_elements(source_array, target_array)
    if places is None:
        return target
    places = np.where(places < 0, np.arange(target.size), target.size + places)
    flat = [writer.emit(RESHAPE, (v,), {"shape": (v.size,)}) for v in (target, source)]
    cuts = np.flatnonzero((np.diff(places) != 1) | (places[1:] == target.size)) + 1
    if len(cuts) < MAX_CONTIGUOUS_PARTS:
        parts = []
        for run in np.split(places, cuts):
            is_new = bool(run[0] >= target.size)
            first = int(run[0]) - is_new * target.size
            parts.append(writer.emit(SLICE, (flat[is_new],), {"bounds": ((first, first + len(run), 1),)}))
        made = writer.emit(CAT, tuple(parts), {"axis": 0}) if len(parts) > 1 else parts[0]
    else:
        whole = writer.emit(CAT, tuple(flat), {"axis": 0})
        made = writer.emit(GATHER, (whole, writer.graph.constant(places)), {"axis": 0})
    return writer.emit(RESHAPE, (made,), {"shape": target.shape})


def find_common_elements(source: Array, target: Array) -> Array | None:
    """For each element of `target` the number of that of `source` in its place, or -1; None where all are apart."""
    if source.dtype != target.dtype or (address(source) - address(target)) % source.itemsize:
        may_share: Function = np.may_share_memory  # as far as it can tell by some work
        if not may_share(source, target, max_work=1000):
            return None
        raise ValueError("elements that overlap in part")
    at, wanted = _element_addresses(source), _element_addresses(target)
    order = np.argsort(at, kind="stable")
    near = np.minimum(np.searchsorted(at[order], wanted), len(at) - 1)
    found = np.where(at[order][near] == wanted, order[near], -1)
    return None if (found < 0).all() else found


def _element_addresses(array: Array) -> Array:
    """The address of each element, in row-major order."""
    places = np.asarray(address(array))
    for n, stride in zip(array.shape, array.strides, strict=True):
        places = np.add.outer(places, np.arange(n) * stride)
    return places.reshape(-1)


def describe_overlap(first: Array, second: Array) -> object:
    """Describe how two arrays lie in memory: equal descriptions are equal overlaps."""
    layouts = [(array.shape, array.strides, array.dtype) for array in (first, second)]
    return address(second) - address(first), *layouts


def overlapping_inputs(memories: Iterable[tuple[Value, Array]]) -> Iterator[tuple[Value, Value]]:
    """Yield the pairs of inputs whose memory overlaps, told by where it begins and ends."""
    arrays = {symbol: array for symbol, array in memories if array.size}
    spans = sorted(((*find_bounds(array), symbol) for symbol, array in arrays.items()), key=lambda span: span[:2])
    before: list[tuple[int, Value]] = []
    for low, high, symbol in spans:
        before = [(end, other) for end, other in before if end > low]
        yield from ((symbol, other) for _, other in before)
        before.append((high, symbol))


def have_overlaps(relations: tuple[MemoryRelation, ...], arguments: Operands) -> bool:
    """True if the inputs lie in memory as they did when the step was traced; `arguments`: of this call."""
    return all(
        describe_overlap(_array_of(first, arguments), _array_of(second, arguments)) == layout
        for first, second, layout in relations
    )


def are_exported(inputs: tuple[Value, ...], arguments: Operands) -> bool:
    """True if NumPy has the memory of these inputs."""
    return all(is_externally_aliased(_array_of(v, arguments)) for v in inputs)


def _array_of(v: Value, arguments: Operands) -> Array:
    tensor = v.source.locate() if isinstance(v.source, StateInput) else arguments[v.source.number]
    array: Array = tensor.array
    return array


def find_bounds(array: Array) -> tuple[int, int]:
    """Return where the memory of an array begins and ends."""
    if array.flags.c_contiguous:  # in a fifth of the time
        low = address(array)
        return low, low + array.nbytes
    return byte_bounds(array)


class BoundMemory:
    """The memory of captured tensors that lie where a program found them, until it calls `forget`."""

    def __init__(self, tensors: list[Value]) -> None:
        self._tensors = tensors
        self._ends: list[int] | None = None  # where each stretch of it begins and ends, from low to high

    def forget(self) -> None:
        """Measure anew: the tensors may lie elsewhere."""
        self._ends = None

    def may_share(self, array: Array) -> bool:
        """Tell whether an array lies between the ends of a tensor's memory."""
        ends = self._measure() if self._ends is None else self._ends
        low, high = find_bounds(array)
        place = bisect_right(ends, low)
        return bool(place % 2) or (place < len(ends) and ends[place] < high)

    def _measure(self) -> list[int]:
        """Find where the memory of the tensors lies, each stretch of it once."""
        ends = self._ends = list[int]()
        found = [tensor for v in self._tensors if (tensor := v.source.locate()) is not None]
        for low, high in sorted(find_bounds(tensor.array) for tensor in found):
            if ends and low <= ends[-1]:
                ends[-1] = max(ends[-1], high)
            else:
                ends += (low, high)
        return ends


class CapturedMemory:
    """The captured tensors with which an argument may share no memory: `bound` where they lie, or `moving`."""

    def __init__(self, bound: list[Value], moving: list[Value]) -> None:
        self._bound, self._moving = bound, moving
        self._memory = BoundMemory(bound)

    def forget(self) -> None:
        """Compare anew: the bound tensors may lie elsewhere."""
        self._memory.forget()

    def shares(self, array: Array) -> bool:
        """True if one of the tensors lies in the memory of this array."""
        if self._moving and self._is_shared(array, self._moving):
            return True
        return self._memory.may_share(array) and self._is_shared(array, self._bound)

    @staticmethod
    def _is_shared(array: Array, captured: list[Value]) -> bool:
        tensors = [v.source.locate() for v in captured]
        return any(np.may_share_memory(array, x.array) for x in tensors if x is not None)


class RelocatedMemory:
    """The captured tensors that each call finds anew. None may share memory with its `partners`.

    `bound` are partners that lie where the program found them, until it calls `forget`.
    """

    def __init__(self, partners: dict[Value, list[Value]], bound: set[Value]) -> None:
        self._partners = partners
        others = dict.fromkeys(v for found in partners.values() for v in found if v not in partners)
        self._bound = [v for v in others if v in bound]
        self._unbound = [(v, [s for s in partners if v in partners[s]]) for v in others if v not in bound]
        self._memory = BoundMemory(self._bound)
        self._apart: list[Callable[[], Array | None]] = []  # the arrays that were compared with the bound ones last

    def forget(self) -> None:
        """Compare anew: the bound tensors may lie elsewhere."""
        self._memory.forget()
        self._apart = []

    def is_shared(self, tensors: tuple[Tensor, ...], arguments: Operands) -> bool:
        """True if one of the tensors lies in memory of a partner; `arguments`: of this call."""
        arrays = {v: tensor.array for v, tensor in zip(self._partners, tensors, strict=True)}
        for v, partners in self._unbound:
            tensor = arguments[v.source.number] if isinstance(v.source, Argument) else v.source.locate()
            if tensor is not None and any(np.may_share_memory(tensor.array, arrays[s]) for s in partners):
                return True
        if self._apart and all(map(is_, [found() for found in self._apart], arrays.values())):
            return False
        near = self._bound if any(map(self._memory.may_share, arrays.values())) else []
        bound = [(v, tensor.array) for v in near if (tensor := v.source.locate()) is not None]
        for a, b in overlapping_inputs([*arrays.items(), *bound]):
            if b in self._partners.get(a, ()) or a in self._partners.get(b, ()):
                return True
        self._apart = [ref(array) for array in arrays.values()]
        return False


def is_memory_shared(x: Tensor, others: tuple[Tensor, ...], captured: CapturedMemory) -> bool:
    """True if the memory of an argument is also that of another one, or of a captured tensor."""
    array = x.array
    is_owner = array.base is None and array.flags.owndata
    for other in others:
        its = other.array
        if its is array or ((its.base is not None or not is_owner) and np.may_share_memory(array, its)):
            return True
    return captured.shares(array)
