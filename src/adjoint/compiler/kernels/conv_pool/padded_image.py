"""A framed image: what a convolution reads of one image, copied so that every tap's elements are neighbours.

Images have slices, rows and columns. A plane holds the elements that some taps see, one for each place: element
(z, r, x) of it is the image's (slice + z * stride, row + r * stride, column + x * stride), zero outside. Taps whose
slices, rows or columns differ by whole strides share a plane.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from adjoint.compiler.ir.symbolic_size import has_symbols, is_known_less
from adjoint.compiler.kernels.conv_pool.window_geometry import Triple
from adjoint.compiler.kernels.index_arithmetic import (
    Index,
    add_index,
    add_strided,
    as_index,
    mask_left,
    max_index,
    min_index,
    modulo_index,
    require_known,
    scale_index,
    subtract_index,
)
from adjoint.compiler.llvm.builder import Builder
from adjoint.compiler.llvm.types import BOOL, I64, PTR, Reg, Type

MAX_SHUFFLED_STEP = 4  # between elements, up to which those of a register are chosen from others
MAX_UNROLLED_REGISTERS = 3  # registers of a row that are written alike, up to which they are written out


class PaddedImage(NamedTuple):
    """The places of an image's elements for each tap, `offsets` counted from a channel's first element."""

    channels: int
    image: Triple
    stride: Triple
    planes: tuple[Triple, ...]  # the image's slice, row and column at each plane's origin
    slices: int
    rows: int
    width: int
    offsets: tuple[int, ...]  # one for each tap
    in_place: bool  # the image itself serves
    max_width: int = 0  # in a call for which a part of the code is; 0: any

    @property
    def slice(self) -> int:
        """Elements from one slice to the next."""
        return self.rows * self.width

    @property
    def plane(self) -> int:
        return self.slices * self.slice

    @property
    def channel(self) -> int:
        """Elements from one channel to the next."""
        return self.image.size if self.in_place else self.plane * len(self.planes)

    def size(self, lanes: int) -> int:
        """Elements of memory the frame needs; a register may begin at its last element."""
        return 0 if self.in_place else (-(-self.channels * self.channel // lanes) + 1) * lanes


def plan_padded_image(
    image: Triple, channels: int, places: Triple, stride: Triple, starts: Sequence[Triple], dense: bool, whole: Triple
) -> PaddedImage:
    """The frame for taps which at the first place see the elements at `starts`.

    `dense`: rows of a plane follow each other without a gap, so that places are neighbours across them; then taps in
    other columns have planes of their own. `whole`: the places of all frames of an image.
    """
    ahead = [max(s[d] for s in starts) + whole[d] for d in range(3)]
    fits = min(map(min, starts)) >= 0 and all(is_known_less(a, n + 1) for a, n in zip(ahead, image, strict=True))
    if stride == (1, 1, 1) and fits and (not dense or image.columns == places.columns):
        offsets = tuple((z * image.rows + row) * image.columns + column for z, row, column in starts)
        return PaddedImage(channels, image, stride, (Triple(0, 0, 0),), *image, offsets, True)
    first = []  # in each dimension, the least start that differs from each by whole strides
    for d in range(3):
        at = {start[d] for start in starts}
        first.append({s: min(t for t in at if (t - s) % stride[d] == 0) for s in at})
    if dense:
        first[2] = {s.columns: s.columns for s in starts}
    origins = {start: Triple(*(first[d][start[d]] for d in range(3))) for start in starts}
    planes = sorted(set(origins.values()))
    steps = {s: [(s[d] - o[d]) // stride[d] for d in range(3)] for s, o in origins.items()}
    sizes = [places[d] + max(by[d] for by in steps.values()) for d in range(3)]
    frame = PaddedImage(channels, image, stride, tuple(planes), sizes[0], sizes[1], sizes[2], (), False)
    offsets = tuple(
        planes.index(origins[s]) * frame.plane + steps[s][0] * frame.slice + steps[s][1] * frame.width + steps[s][2]
        for s in starts
    )
    return frame._replace(offsets=offsets)


def write_padded_image(
    b: Builder, frame: PaddedImage, image: Reg, memory: Reg, type: Type, first: tuple[Index, Index] = (0, 0)
) -> Reg:
    """Copy all channels of `image`, beginning with the slice and row that place `first` sees; the frame's address."""
    _, rows, columns = frame.image
    if frame.in_place:
        return b.gep(image, add_strided(b, scale_index(b, first[1], columns), first[0], rows * columns), type)
    if not has_symbols((columns, frame.width)):
        _write_channels(b, frame, image, memory, type, first)
        return memory
    is_narrow = b.le(b.constant(frame.width, I64), type.lanes)  # so that each row is a register, without loops
    for width, condition in ((type.lanes, is_narrow), (0, b.logical_not(is_narrow))):
        with b.when(condition):
            _write_channels(b, frame._replace(max_width=width), image, memory, type, first)
    return memory


def _write_channels(
    b: Builder, frame: PaddedImage, image: Reg, memory: Reg, type: Type, first: tuple[Index, Index]
) -> None:
    slices, rows, columns = frame.image
    with b.loop(0, frame.channels) as channel:
        source = b.gep(image, b.mul(channel.index, frame.image.size), type)
        target = b.gep(memory, b.mul(channel.index, frame.channel), type)
        for origin in dict.fromkeys(plane.slices for plane in frame.planes):
            planes = [(i, plane) for i, plane in enumerate(frame.planes) if plane.slices == origin]
            for z, seen in _lines(b, origin, frame.stride.slices, slices, first[0], frame.slices):
                own = b.gep(target, scale_index(b, z, frame.slice), type)
                theirs = None if seen is None else b.gep(source, scale_index(b, seen, rows * columns), type)
                _write_slice(b, frame, planes, theirs, own, first[1], type)


def _write_slice(
    b: Builder,
    frame: PaddedImage,
    planes: Sequence[tuple[int, Triple]],
    source: Reg | None,
    target: Reg,
    first: Index,
    type: Type,
) -> None:
    """One slice of some planes from one of the image, zeros without it."""
    for origin in dict.fromkeys(plane.rows for _, plane in planes):
        columns = [(i, plane.columns) for i, plane in planes if plane.rows == origin]
        if source is None:
            with b.loop(0, frame.rows) as row:
                for i, column in columns:
                    _write_row(b, frame, None, _row(b, frame, target, i, row.index, type), column, type)
            continue
        for line, seen in _lines(b, origin, frame.stride.rows, frame.image.rows, first, frame.rows):
            theirs = None if seen is None else b.gep(source, scale_index(b, seen, frame.image.columns), type)
            for i, column in columns:
                _write_row(b, frame, theirs, _row(b, frame, target, i, line, type), column, type)


def _lines(
    b: Builder, origin: int, step: int, length: int, first: Index, count: int
) -> Iterator[tuple[Index, Index | None]]:
    """Write the loops over a plane's lines, which are its slices or its rows.

    Gives each with the image's line of which it is the copy, None for one outside the image. `first`: the place that
    the plane's first line belongs to.
    """
    if count == 1 and isinstance(first, int):
        seen = origin + first * step
        yield 0, seen if 0 <= seen < length else None
        return
    edges = [subtract_index(b, -(-edge // step), first) for edge in (-origin, length - origin)]
    low, high = (min_index(b, max_index(b, edge, 0), count) for edge in edges)
    for begin, end in ((0, low), (high, count)):
        if begin != end:
            with b.loop(begin, end) as outside:
                yield outside.index, None
    with b.loop(low, high) as inside:
        yield inside.index, add_strided(b, origin, add_index(b, inside.index, first), step)


def _row(b: Builder, frame: PaddedImage, target: Reg, plane: int, row: Index, type: Type) -> Reg:
    return b.gep(target, add_strided(b, plane * frame.plane, row, frame.width), type)


def _write_row(b: Builder, frame: PaddedImage, line: Reg | None, target: Reg, column: int, type: Type) -> None:
    """One row of a plane from a line of the image, from `column` on; zeros without a line.

    The last register ends with the row and shares elements with the one before: many machines store part of a register
    much slower than all of it.
    """
    lanes, width, step = type.lanes, frame.width, frame.stride.columns
    if has_symbols((frame.image.columns, width)):
        _write_row_of_any_width(b, frame, line, target, column, type)
        return
    high = min(width, max(0, -(-(frame.image.columns - column) // step)))
    low = min(-(-max(-column, 0) // step), high)

    def load(place: Index, is_seen: bool) -> Reg:
        if line is None or not is_seen:
            return b.constant(0.0, type)
        within = None if isinstance(place, Reg) or low <= place <= high - lanes else (low, high)
        return load_places(b, line, place, column, step, within, type)

    def kind(place: int) -> tuple[bool, bool]:
        is_seen = line is not None and max(low, place) < min(high, place + lanes)
        return is_seen, not is_seen or low <= place <= high - lanes

    for (is_seen, alike), run in groupby(range(0, width - lanes + 1, lanes), kind):
        starts = list(run)
        if alike and len(starts) > MAX_UNROLLED_REGISTERS:
            with b.loop(starts[0], starts[-1] + lanes, lanes) as loop:
                b.store(load(loop.index, is_seen), b.gep(target, loop.index, type))
            continue
        for start in starts:
            b.store(load(start, is_seen), b.gep(target, start, type))
    if width % lanes:
        start = max(0, width - lanes)
        b.store(load(start, kind(start)[0]), b.gep(target, start, type), min(width, lanes))


def _write_row_of_any_width(
    b: Builder, frame: PaddedImage, line: Reg | None, target: Reg, column: int, type: Type
) -> None:
    """One row of a plane whose width is a symbol: registers at its ends are read and written under masks."""
    lanes, width, step = type.lanes, frame.width, frame.stride.columns

    def write(place: Index, inside: tuple[Index, Index] | None) -> None:
        value = b.constant(0.0, type) if line is None else load_places(b, line, place, column, step, inside, type)
        mask = None if inside is None else mask_left(b, width, place, lanes)
        b.store(value, b.gep(target, place, type), mask)

    low = -(-max(-column, 0) // step)
    high = as_index(b, min_index(b, width, max_index(b, -((column - frame.image.columns) // step), 0)))
    if frame.max_width == lanes:
        write(0, (low, high))
        return
    first = -(-low // lanes) * lanes  # all of a register from here on is inside, up to `last`
    rest = b.sub(b.maximum(high, first), first)
    last = b.sub(b.add(rest, first), modulo_index(b, rest, lanes))
    for left in range(0, first, lanes):
        write(left, (low, high))
    with b.loop(first, last, lanes) as middle:
        write(middle.index, None)
    with b.when(b.lt(last, width)):  # no loop: its masks are the same for all rows
        write(last, (low, high))
    with b.loop(b.add(last, lanes), width, lanes) as right:
        write(right.index, (low, high))


def load_places(
    b: Builder, line: Reg, place: Index, column: Index, step: int, inside: tuple[Index, Index] | None, type: Type
) -> Reg:
    """The elements that places see from `place` on, one every `step` from `column`; zero for places not `inside`.

    None for `inside`: all are.
    """
    lanes = type.lanes
    # Not `inbounds`: the first lanes may lie before the array, off the mask.
    index = add_strided(b, column, place, step)
    pointer = b.emit(f"getelementptr {type.scalar.text}, ptr {line.name}, i64 {index.name}", PTR)
    if step == 1:
        return b.load(pointer, type, find_lanes_inside(b, place, lanes, inside))
    if step > MAX_SHUFFLED_STEP or lanes == 2:
        places = b.mul(b.iota(lanes), step)
        return b.gather(pointer, places, type.scalar, find_lanes_inside(b, place, lanes, inside))
    # Whole registers are read, and the lanes that places see are put beside those of the registers before.
    taken = None
    for start in range(0, step * lanes, lanes):
        mask = find_lanes_inside(b, place, lanes, inside, step, start)
        value = b.load(b.gep(pointer, start, type), type, mask)
        if taken is None:
            taken = value
            continue
        wanted = [step * lane for lane in range(lanes)]
        known = wanted if start == lanes else range(lanes)
        taken = b.shuffle(
            taken, value, [i if at < start else at % lanes + lanes for i, at in zip(known, wanted, strict=True)]
        )
    assert taken is not None
    return taken


def find_lanes_inside(
    b: Builder, place: Index, lanes: int, inside: tuple[Index, Index] | None, every: int = 1, start: int = 0
) -> Reg | None:
    """Lanes whose place is inside, from `place` on; no mask for all.

    With `every` of 2 and more these are the elements that places see, from number `start` on. What lies between two of
    them may be beyond the image, unless both are seen.
    """
    if inside is None:
        inside, place = (0, lanes), 0
    low, high = inside
    if all(type(at) is int for at in (place, low, high)):
        known = range(require_known(low), require_known(high))
        ahead = [divmod(start + lane, every) for lane in range(lanes)]
        seen = [not between and require_known(place) + number in known for number, between in ahead]
        return None if all(seen) else b.vector(seen, BOOL)
    until = as_index(b, scale_index(b, subtract_index(b, high, place), every))
    found = b.lane_mask(b.sub(until, start + every - 1), lanes)
    if type(low) is int and (low == 0 or (type(place) is int and place >= low)):
        return found
    before = as_index(b, scale_index(b, subtract_index(b, low, place), every))
    return b.logical_and(found, b.logical_not(b.lane_mask(b.sub(before, start), lanes)))
