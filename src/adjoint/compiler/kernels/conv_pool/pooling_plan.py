"""The plan of a pooling kernel: where windows stand, which are inside, where a gradient waits for its other parts."""

from __future__ import annotations

import math
from typing import NamedTuple

from adjoint.compiler.ir.symbolic_size import has_symbols, is_symbolic_size, size_value
from adjoint.compiler.kernels.conv_pool.staging import Pair, Stage
from adjoint.compiler.kernels.index_arithmetic import is_zero
from adjoint.compiler.llvm.jit.target import Target
from adjoint.compiler.llvm.types import Type

Shape = tuple[int, ...]
Tap = tuple[int, int, int]
Sizes = tuple[int, int, int]

TILE_CYCLES = 60_000
MAX_UNROLLED_TAPS = 600  # taps written out at most
REGISTERS_PER_FINISH = 2  # registers finished at a time


class Axis(NamedTuple):
    """One dimension: place i sees elements i * stride - padding + k * dilation for each tap k < taps."""

    length: int
    places: int
    taps: int
    stride: int
    padding: int
    dilation: int
    extra: int = 0  # elements behind the padding

    @property
    def is_symbolic(self) -> bool:
        """True if sizes are known only when the kernel is called."""
        return has_symbols((self.length, self.places))

    def valid_range(self, tap: int) -> Pair:
        """The places, from and to, at which a tap is inside."""
        start = tap * self.dilation - self.padding
        low = max(0, -(start // self.stride))
        return low, max(low, min(self.places, (self.length - 1 - start) // self.stride + 1))

    @property
    def inner(self) -> Pair:
        """The places at which all taps are inside."""
        low, high = self.valid_range(0)[0], self.valid_range(self.taps - 1)[1]
        return low, max(low, high)

    @property
    def has_edges(self) -> bool:
        """True if windows may reach over the beginning or the end."""
        return bool(self.padding) or self.has_upper_edge

    @property
    def has_upper_edge(self) -> bool:
        """True if the last windows may reach over the end."""
        return not is_zero((self.length - 1 - self._reach + self.padding) // self.stride + 1 - self.places)

    @property
    def _reach(self) -> int:
        return (self.taps - 1) * self.dilation

    def count_stage_places(self) -> int:
        """Count the places of a stage along this axis: of all windows, and of all elements."""
        if self.is_symbolic:  # no less than either
            return (self.length - 1 + 2 * self.padding + self.extra) // self.stride + 1
        last = self.places - 1 + self._reach // self.stride
        return max((self.length - 1 + self.padding) // self.stride, last) + 1

    def count_bodies(self) -> int:
        """Count the lines of windows that have code of their own: those at an edge, and all others together."""
        if self.is_symbolic:
            return 1 + bool(self.padding) + self.has_upper_edge
        low, high = self.inner
        return low + self.places - high + (high > low)


class PoolingPlan(NamedTuple):
    """The plan of a pooling: `largest` or summed."""

    lead: Shape
    axes: tuple[Axis, Axis, Axis]  # slices, rows, columns
    largest: bool
    type: Type
    lanes: int
    per_tile: int
    side_by_side: bool  # towards the input: windows share nothing and leave nothing between them
    apart: int  # dimensions before the last of an image that the result keeps apart: 0 if it is flat
    reason: str

    @property
    def images(self) -> int:
        return math.prod(self.lead)

    @property
    def tiles(self) -> int:
        return -(-self.images // self.per_tile)

    @property
    def large(self) -> Sizes:
        """The sizes of an image."""
        deep, down, across = self.axes
        return deep.length, down.length, across.length

    @property
    def small(self) -> Sizes:
        """The number of windows along each dimension."""
        deep, down, across = self.axes
        return deep.places, down.places, across.places

    @property
    def stage(self) -> Stage:
        """The memory in which a slice of an image's gradient is added up, towards the input."""
        _, down, across = self.axes
        rows, places = down.count_stage_places(), across.count_stage_places()
        columns = self.columns
        pitch = places + max(ahead for phase in columns for _, ahead in phase)
        plane = -(-(rows * pitch + self.lanes) // self.lanes) * self.lanes
        step, shift = (down.stride, across.stride), (down.padding, across.padding)
        return Stage(self.type, self.lanes, step, shift, pitch, plane, across.length, columns)

    @property
    def columns(self) -> tuple[tuple[Pair, ...], ...]:
        """The stage's planes for each phase of columns: one for each tap, so that none waits for another's sums."""
        across = self.axes[2]
        if across.stride > 2:
            return tuple(((i, 0),) for i in range(across.stride))
        steps = [j * across.dilation for j in range(across.taps)]
        most = steps[-1] // across.stride
        found: list[tuple[Pair, ...]] = []
        unused = across.taps
        for phase in range(across.stride):
            taps = [(j, most - s // across.stride) for j, s in enumerate(steps) if s % across.stride == phase]
            found.append(tuple(taps) or ((unused, 0),))
        return tuple(found)

    def target(self, tap: Tap) -> int:
        """Return the offset of a tap's first place in the stage of its slice."""
        _, down, across = self.axes
        stage = self.stage
        y, x = tap[1] * down.dilation, tap[2] * across.dilation
        plane, ahead = tap[2], (across.taps - 1) * across.dilation // across.stride
        if across.stride > 2:
            plane, ahead = x % across.stride, x // across.stride
        row = y % down.stride * stage.across + plane
        return row * stage.plane + y // down.stride * stage.pitch + ahead

    @property
    def scratch(self) -> int:
        """Bytes for each thread, towards the input; forward needs none."""
        if self.side_by_side:
            return 0
        elements = self.axes[0].length * self.stage.size + REGISTERS_PER_FINISH * self.lanes
        return -(-elements * self.type.itemsize // 64) * 64


def plan_pooling(
    x: Shape, *, size: Shape, stride: Shape, padding: Shape, dilation: Shape, extra: Shape, largest: bool, type: Type,
    target: Target, flat: bool = True,
) -> PoolingPlan | None:  # fmt: skip
    """The plan for an input of shape x, in both directions; None for what NumPy does as well.

    `flat`: the last dimension of what is finished is all places, or elements, of an image.
    """
    rank = len(size)
    if not type.is_float or 0 in x:
        return None
    axes = [
        Axis(n, (n + 2 * p + e - d * (k - 1) - 1) // s + 1, k, s, p, d, e)
        for n, k, s, p, d, e in zip(x[-rank:], size, stride, padding, dilation, extra, strict=True)
    ]
    deep, down, across = [Axis(1, 1, 1, 1, 0, 1)] * (3 - rank) + axes
    # Half as wide a register is half the work, on some machines, where a row does not fill it.
    lanes = target.lanes(type)
    rows = down.count_bodies() * (1 if deep.is_symbolic else deep.count_bodies())
    if across.is_symbolic:
        vectors = 2 + bool(across.padding)
    else:
        lanes = min(lanes, max(4, 1 << (across.places - 1).bit_length()))
        # At the edges and between them; a row's last vector may be at an edge too.
        low, high = across.inner
        vectors = min(-(-across.places // lanes), 2 + low // lanes + (across.places - high) // lanes)
    taps = deep.taps * down.taps * across.taps
    if rows * vectors * taps > MAX_UNROLLED_TAPS:
        return None
    side_by_side = across.taps <= 2 and all(
        a.stride == a.taps
        and a.padding == 0
        and (a.dilation == 1 or a.taps == 1)
        and (is_zero(a.extra) or (not a.is_symbolic and a.places * a.taps <= a.length))
        for a in (deep, down, across)
    )
    cycles = deep.places * down.places * -(-across.places // lanes) * taps * (12 if largest else 8)
    per_tile = max(1, min(size_value(math.prod(x[:-rank])), TILE_CYCLES // size_value(cycles)))
    if is_symbolic_size(cycles):
        per_tile = 1 + TILE_CYCLES // cycles
    reason = f"pooling, {lanes} windows of {taps} taps at a time, {per_tile!r} images a tile"
    lead, apart = x[:-rank], 0 if flat else rank - 1
    return PoolingPlan(lead, (deep, down, across), largest, type, lanes, per_tile, side_by_side, apart, reason)
