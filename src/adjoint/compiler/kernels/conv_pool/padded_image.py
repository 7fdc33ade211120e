"""A framed image: what a convolution reads of one image, copied so that every tap's elements are neighbours.

A plane holds the elements that some taps see, one for each place: element (r, x) of it is the image's
(row + r * stride, column + x * stride), zero outside. Taps whose rows or columns differ by whole strides share a plane.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from adjoint.compiler.kernels.index_arithmetic import (
    add_strided,
    max_index,
    min_index,
    scale_index,
    subtract_index,
)
from adjoint.compiler.llvm.builder import Builder
from adjoint.compiler.llvm.types import BOOL, I64, PTR, Reg, Type

MAX_UNROLLED_REGISTERS = 3  # registers in a row, up to which a copy of it is written out


class PaddedImage(NamedTuple):
    """The places of an image's elements for each tap, `offsets` counted from a channel's first element."""

    channels: int
    image: tuple[int, int]  # (H, W)
    stride: tuple[int, int]
    planes: tuple[tuple[int, int], ...]  # the image's row and column at each plane's origin
    rows: int
    width: int
    offsets: tuple[int, ...]  # one for each tap
    in_place: bool  # the image itself serves

    @property
    def plane(self) -> int:
        return self.rows * self.width

    @property
    def channel(self) -> int:
        """Elements from one channel to the next."""
        return self.image[0] * self.image[1] if self.in_place else self.plane * len(self.planes)

    def size(self, lanes: int) -> int:
        """Elements of memory the frame needs; a register may begin at its last element."""
        return 0 if self.in_place else (-(-self.channels * self.channel // lanes) + 1) * lanes


def plan_padded_image(
    image: tuple[int, int],
    channels: int,
    places: tuple[int, int],
    stride: tuple[int, int],
    starts: Sequence[tuple[int, int]],
    dense: bool,
) -> PaddedImage:
    """The frame for taps which at the first place see the elements at `starts`.

    `dense`: rows of a plane follow each other without a gap, so that places are neighbours across them; then taps in
    other columns have planes of their own.
    """
    height, width = image
    ahead = [max(s[d] for s in starts) + places[d] for d in (0, 1)]
    behind = [min(s[d] for s in starts) for d in (0, 1)]
    fits = min(behind) >= 0 and ahead[0] <= height and ahead[1] <= width
    if stride == (1, 1) and fits and (not dense or width == places[1]):
        offsets = tuple(row * width + column for row, column in starts)
        return PaddedImage(channels, image, stride, ((0, 0),), height, width, offsets, True)
    first_row = _least_by_phase([row for row, _ in starts], stride[0])
    first_column = {c: c for _, c in starts} if dense else _least_by_phase([column for _, column in starts], stride[1])
    planes = sorted({(first_row[row], first_column[column]) for row, column in starts})
    down = [(row - first_row[row]) // stride[0] for row, _ in starts]
    right = [(column - first_column[column]) // stride[1] for _, column in starts]
    frame = PaddedImage(
        channels, image, stride, tuple(planes), places[0] + max(down), places[1] + max(right), (), False
    )
    offsets = tuple(
        planes.index((first_row[row], first_column[column])) * frame.plane + d * frame.width + r
        for (row, column), d, r in zip(starts, down, right, strict=True)
    )
    return frame._replace(offsets=offsets)


def write_padded_image(b: Builder, frame: PaddedImage, image: Reg, memory: Reg, type: Type, first: Reg | int) -> Reg:
    """Copy all channels of `image`, beginning with the row that place `first` sees; the address of the frame."""
    height, width = frame.image
    step = frame.stride[0]
    if frame.in_place:
        return b.gep(image, scale_index(b, first, width), type)
    with b.loop(0, frame.channels) as channel:
        source = b.gep(image, b.mul(channel.index, height * width), type)
        target = b.gep(memory, b.mul(channel.index, frame.channel), type)
        for row in dict.fromkeys(row for row, _ in frame.planes):
            edges = [subtract_index(b, -(-edge // step), first) for edge in (-row, height - row)]
            low, high = (min_index(b, max_index(b, edge, 0), frame.rows) for edge in edges)
            columns = [(i, column) for i, (r, column) in enumerate(frame.planes) if r == row]
            for begin, end in ((0, low), (high, frame.rows)):
                if begin != end:
                    with b.loop(begin, end) as outside:
                        for i, _ in columns:
                            _write_row(b, frame, None, _row(b, frame, target, i, outside.index, type), 0, type)
            with b.loop(low, high) as inside:
                at = b.add(b.mul(b.add(inside.index, first), step), row)
                line = b.gep(source, b.mul(at, width), type)
                for i, column in columns:
                    _write_row(b, frame, line, _row(b, frame, target, i, inside.index, type), column, type)
    return memory


def _row(b: Builder, frame: PaddedImage, target: Reg, plane: int, row: Reg, type: Type) -> Reg:
    return b.gep(target, b.add(b.mul(row, frame.width), plane * frame.plane), type)


def _write_row(b: Builder, frame: PaddedImage, line: Reg | None, target: Reg, column: int, type: Type) -> None:
    """One row of a plane from a line of the image, from `column` on; zeros without a line."""
    lanes, width, step = type.lanes, frame.width, frame.stride[1]
    high = min(width, max(0, -(-(frame.image[1] - column) // step)))
    low = min(-(-max(-column, 0) // step), high)
    if -(-width // lanes) <= MAX_UNROLLED_REGISTERS:
        for x in range(0, width, lanes):
            value = _zero(b, type)
            if line is not None and max(low, x) < min(high, x + lanes):
                value = load_places(b, line, x, column, step, (low, high), type)
            b.store(value, b.gep(target, x, type), width - x)
        return
    with b.loop(0, width, lanes) as loop:
        value = _zero(b, type)
        if line is not None:
            value = load_places(b, line, loop.index, column, step, (low, high), type)
        left = b.sub(width, loop.index)
        b.store(value, b.gep(target, loop.index, type), b.lane_mask(left, lanes) if width % lanes else None)


def load_places(
    b: Builder, line: Reg, place: Reg | int, column: int, step: int, inside: tuple[int, int] | None, type: Type
) -> Reg:
    """The elements that places see from `place` on, one every `step` from `column`; zero for places not `inside`.

    None for `inside`: all are.
    """
    lanes = type.lanes
    # Not `inbounds`: the first lanes may lie before the array, off the mask.
    index = add_strided(b, column, place, step)
    pointer = b.emit(f"getelementptr {type.scalar.text}, ptr {line.name}, i64 {index.name}", PTR)
    if step == 1:
        return b.load(pointer, type, _inside(b, place, list(range(lanes)), inside))
    if step > 2 or lanes == 2:
        places = b.mul(b.iota(lanes), step)
        return b.gather(pointer, places, type.scalar, _inside(b, place, list(range(lanes)), inside))
    halves = []
    for start in (0, lanes):
        # What lies between may be beyond the image.
        seen = [None if lane % 2 else (start + lane) // 2 for lane in range(lanes)]
        mask = _inside(b, place, seen, inside)
        halves.append(b.load(b.gep(pointer, start, type), type, mask))
    chosen = ", ".join(f"i32 {2 * lane}" for lane in range(lanes))
    first, second = (f"{type.text} {half.name}" for half in halves)
    return b.emit(f"shufflevector {first}, {second}, <{lanes} x i32> <{chosen}>", type)


def _inside(b: Builder, place: Reg | int, ahead: Sequence[int | None], inside: tuple[int, int] | None) -> Reg | None:
    """Lanes whose place, so much `ahead` of `place`, is inside, and never those of None; no mask for all."""
    if inside is None:
        inside, place = (0, len(ahead)), 0
    low, high = inside
    if isinstance(place, int):
        lanes = [a is not None and low <= place + a < high for a in ahead]
        return None if all(lanes) else b.vector(lanes, BOOL)
    places = b.add(b.vector([2**31 if a is None else a for a in ahead], I64), place)
    return b.logical_and(b.ge(places, low), b.lt(places, high))


def _least_by_phase(starts: Sequence[int], stride: int) -> dict[int, int]:
    """Map each start to the least one that differs from it by whole strides."""
    return {s: min(t for t in starts if (t - s) % stride == 0) for s in starts}


def _zero(b: Builder, type: Type) -> Reg:
    return b.constant(0.0, type)
