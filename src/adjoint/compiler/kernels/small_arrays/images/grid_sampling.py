"""Images looked up bilinearly at the places of a grid, and the gradients in the images and in the grid."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import product
from typing import TYPE_CHECKING, NamedTuple

from adjoint.compiler.kernels.small_arrays.entry import ALL_DIMS, UNLIMITED, ArrayOperand, SmallArrayEntry, sweep
from adjoint.compiler.llvm.types import F64, I64, Reg, Type

if TYPE_CHECKING:
    from adjoint.compiler.llvm.builder import Builder
    from adjoint.compiler.llvm.control import Loop

MAX_GATHERED_LANES = 8
ZEROS, BORDER, REFLECTION = range(3)  # what lies outside of an image


class _Corner(NamedTuple):
    """One of the elements around each place: its offset in the image, its weight, and whether it lies inside."""

    offset: Reg
    weight: Reg
    inside: Reg


class _Along(NamedTuple):
    """Places along one dimension: weights of the elements before and after, and the slope in the grid."""

    taps: list[_Corner]
    slope: Reg


class _Images(NamedTuple):
    """The images (N, C, H, W) and what is looked up in them (N, C, P), of which some places are at hand."""

    b: Builder
    kind: Type
    lanes: int
    channels: Reg
    sides: tuple[Reg, Reg]
    image: Reg
    places: Reg  # their number in an image
    first: Reg  # of the places at hand
    mask: Reg | None
    along: tuple[_Along, _Along]

    @contextmanager
    def each_channel(
        self, pixels: ArrayOperand, values: ArrayOperand, carried: list[Reg]
    ) -> Iterator[tuple[Reg, Reg, Loop]]:
        """Loop over the channels: the addresses of the image and of the values, and the loop."""
        b = self.b
        with b.loop(0, self.channels, 1, carried) as loop:
            row = b.add(b.mul(self.image, self.channels), loop.index)
            source = b.gep(pixels.data, b.mul(row, b.mul(*self.sides)), self.kind)
            yield source, b.gep(values.data, b.add(b.mul(row, self.places), self.first), self.kind), loop

    def corners(self) -> list[_Corner]:
        """Return the four elements around each place, row by row."""
        b = self.b
        return [
            _Corner(
                b.add(b.mul(y.offset, self.sides[1]), x.offset),
                b.mul(y.weight, x.weight),
                b.logical_and(y.inside, x.inside),
            )
            for y, x in product(*(along.taps for along in self.along))
        ]


def _visit_places(
    b: Builder,
    kind: Type,
    lanes: int,
    images: ArrayOperand,
    values: ArrayOperand,
    grid: ArrayOperand,
    padding: Reg,
    aligned: Reg,
    body: Callable[[_Images], None],
) -> None:
    """Call `body` for some places at a time of each image."""
    lanes, count = min(lanes, MAX_GATHERED_LANES), values.last
    number = b.floor_divide(grid.size, b.mul(count, 2))
    channels = b.floor_divide(values.size, b.mul(number, count))
    sides = b.floor_divide(images.size, b.mul(b.mul(number, channels), images.last)), images.last
    is_aligned = b.ne(aligned, 0.0)
    with b.loop(0, number) as image:
        pairs = b.gep(grid.data, b.mul(b.mul(image.index, count), 2), kind)

        def visit(index: Reg, mask: Reg | None) -> list[Reg]:
            along = []
            for component, side in zip((1, 0), sides, strict=True):
                offsets = b.add(b.mul(b.add(b.broadcast(index, lanes), b.iota(lanes)), 2), component)
                given = b.gather(pairs, offsets, kind.of(lanes), mask)
                along.append(_locate(b, kind, given, side, padding, is_aligned))
            body(_Images(b, kind, lanes, channels, sides, image.index, count, index, mask, (along[0], along[1])))
            return []

        sweep(b, count, lanes, [], visit)


def _locate(b: Builder, kind: Type, given: Reg, side: Reg, padding: Reg, is_aligned: Reg) -> _Along:
    """Return where numbers from -1 to 1 lie along a dimension of `side` elements."""
    lanes = given.type.lanes
    size, raised = b.cast(side, kind), b.add(given, 1.0)
    end = b.sub(size, 1.0)
    # rounded once: at an element itself the last bit decides between which two a place stands
    exact = b.sub(b.mul(b.cast(raised, F64.of(lanes)), b.cast(side, F64)), 1.0)
    with b.when(is_aligned, [b.cast(b.mul(exact, 0.5), kind.of(lanes))]) as between_centers:
        between_centers.yields(b.mul(raised, b.mul(end, 0.5)))
    at = between_centers.results[0]
    span, start = b.select(is_aligned, end, size), b.select(is_aligned, b.constant(0.0, kind), -0.5)
    slope = b.broadcast(b.mul(span, 0.5), lanes)
    with b.when(b.eq(padding, float(REFLECTION)), [at, slope]) as reflected:
        reflected.yields(*_reflect(b, at, slope, span, start))
    with b.when(b.ne(padding, float(ZEROS)), reflected.results) as clipped:
        at, slope = reflected.results
        is_above = b.gt(at, 0.0)
        at = b.select(is_above, at, 0.0)
        is_beyond = b.ge(at, end)
        inner = b.logical_and(is_above, b.logical_not(is_beyond))
        clipped.yields(b.select(is_beyond, b.broadcast(end, lanes), at), b.select(inner, slope, 0.0))
    at, slope = clipped.results
    low = b.floor(at)
    share = b.sub(at, low)
    taps = []
    for place, weight in ((low, b.sub(b.constant(1.0, kind.of(lanes)), share)), (b.add(low, 1.0), share)):
        inside = b.logical_and(b.ge(place, 0.0), b.lt(place, size))
        taps.append(_Corner(b.cast(b.select(inside, place, 0.0), I64.of(lanes)), weight, inside))
    return _Along(taps, slope)


def _reflect(b: Builder, at: Reg, slope: Reg, span: Reg, low: Reg) -> tuple[Reg, Reg]:
    """Return places and slopes reflected at `low` and `low` + `span`; 0 without a span."""
    offset = b.sub(at, low)
    beyond = b.abs(offset)
    turns = b.floor(b.div(beyond, span))
    rest = b.sub(beyond, b.mul(turns, span))
    is_even = b.eq(b.mul(b.floor(b.mul(turns, 0.5)), 2.0), turns)
    inner = b.add(b.select(is_even, rest, b.sub(b.broadcast(span, at.type.lanes), rest)), low)
    turned = b.mul(slope, b.mul(b.sign(offset), b.select(is_even, b.constant(1.0, at.type), -1.0)))
    is_wide = b.broadcast(b.gt(span, 0.0), at.type.lanes)
    return b.select(is_wide, inner, 0.0), b.select(is_wide, turned, 0.0)


def _sample(
    b: Builder,
    kind: Type,
    lanes: int,
    x: ArrayOperand,
    grid: ArrayOperand,
    out: ArrayOperand,
    padding: Reg,
    aligned: Reg,
    done: ArrayOperand,
) -> None:
    """out[n, c, p] = Σ of the weights of the corners of place p times the elements of x there."""

    def body(images: _Images) -> None:
        corners, wide = images.corners(), kind.of(images.lanes)
        with images.each_channel(x, out, []) as (source, target, _):
            total = b.constant(0.0, wide)
            for corner in corners:
                found = b.gather(source, corner.offset, wide, corner.inside)
                total = b.add(total, b.mul(found, corner.weight))
            b.store(total, target, images.mask)

    _visit_places(b, kind, lanes, x, out, grid, padding, aligned, body)


def _sample_dx(
    b: Builder,
    kind: Type,
    lanes: int,
    g: ArrayOperand,
    grid: ArrayOperand,
    dx: ArrayOperand,
    padding: Reg,
    aligned: Reg,
    done: ArrayOperand,
) -> None:
    """Add the gradient to `dx`, element by element, since places may share corners."""

    def body(images: _Images) -> None:
        corners, wide = images.corners(), kind.of(images.lanes)
        with images.each_channel(dx, g, []) as (target, source, _):
            arrived = b.load(source, wide, images.mask)
            for corner in corners:
                shares = b.select(corner.inside, b.mul(arrived, corner.weight), 0.0)
                for lane in range(images.lanes):
                    place = b.gep(target, b.extract(corner.offset, lane), kind)
                    b.store(b.add(b.load(place, kind), b.extract(shares, lane)), place)

    _visit_places(b, kind, lanes, dx, g, grid, padding, aligned, body)


def _sample_dgrid(
    b: Builder,
    kind: Type,
    lanes: int,
    g: ArrayOperand,
    x: ArrayOperand,
    grid: ArrayOperand,
    dgrid: ArrayOperand,
    padding: Reg,
    aligned: Reg,
    done: ArrayOperand,
) -> None:
    """Write the gradient in the grid: differences of what the corners hold, times the slopes."""

    def body(images: _Images) -> None:
        corners, wide = images.corners(), kind.of(images.lanes)
        zero = b.constant(0.0, wide)
        with images.each_channel(x, g, [zero] * len(corners)) as (source, values, loop):
            arrived = b.load(values, wide, images.mask)
            found = [b.gather(source, corner.offset, wide, corner.inside) for corner in corners]
            loop.yields(*[b.add(t, b.mul(arrived, v)) for t, v in zip(loop.carried, found, strict=True)])
        above, right_above, below, right_below = loop.results
        (y, x_), offsets = images.along, b.mul(b.add(b.broadcast(images.first, images.lanes), b.iota(images.lanes)), 2)
        left, right = (tap.weight for tap in x_.taps)
        upper, lower = (tap.weight for tap in y.taps)
        across = b.add(b.mul(b.sub(right_above, above), upper), b.mul(b.sub(right_below, below), lower))
        down = b.add(b.mul(b.sub(below, above), left), b.mul(b.sub(right_below, right_above), right))
        pairs = b.gep(dgrid.data, b.mul(b.mul(images.image, images.places), 2), kind)
        for component, (total, along) in enumerate(((across, x_), (down, y))):
            # exactly 0 without a slope, even where an element is not finite
            moved = b.select(b.eq(along.slope, 0.0), 0.0, b.mul(total, along.slope))
            b.scatter(moved, pairs, b.add(offsets, component), images.mask)

    _visit_places(b, kind, lanes, x, g, grid, padding, aligned, body)


ROUTINES = {
    "sample_grid": SmallArrayEntry("xxxff", _sample, less=ALL_DIMS, most=UNLIMITED),
    "sample_grid_dx": SmallArrayEntry("xxxff", _sample_dx, less=ALL_DIMS, most=UNLIMITED),
    "sample_grid_dgrid": SmallArrayEntry("xxxxff", _sample_dgrid, less=ALL_DIMS, most=UNLIMITED),
}
