"""The geometry of windows over images: their slices, rows and columns, and dimensions that are one to a kernel."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import NamedTuple

from adjoint.compiler.llvm.jit.target import Target
from adjoint.compiler.llvm.types import Type

Shape = tuple[int, ...]


class Triple(NamedTuple):
    """A number for each spatial dimension. Images of one or two dimensions have one slice, and one row."""

    slices: int
    rows: int
    columns: int

    @property
    def size(self) -> int:
        return self.slices * self.rows * self.columns


def make_triple(sizes: Shape, absent: int) -> Triple:
    """The sizes of the spatial dimensions, `absent` for those before them."""
    return Triple(*(absent,) * (3 - len(sizes)), *sizes)


def iterate_places(sizes: Triple) -> Iterator[Triple]:
    """Yield all places of an array of these sizes, in their order."""
    return (Triple(*place) for place in product(*map(range, sizes)))


class ConvolutionSettings(NamedTuple):
    """The settings by which convolutions of equal shapes differ, and those for which a kernel of one is written.

    `flat`: nothing that follows tells the last dimensions of the result apart.
    """

    stride: Shape
    padding: Shape
    dilation: Shape
    groups: int
    type: Type
    target: Target
    flat: bool = True

    @property
    def lanes(self) -> int:
        """Elements of a register."""
        return self.target.lanes(self.type)

    def count_places(self, image: Shape, window: Shape) -> Shape:
        """The sizes of a result: how many windows fit beside each other."""
        sizes = zip(image, window, self.stride, self.padding, self.dilation, strict=True)
        return tuple((n + 2 * p - d * (k - 1) - 1) // s + 1 for n, k, s, p, d in sizes)

    def sweep(self, large: Shape, small: Shape, window: Shape) -> tuple[Triple, ...]:
        """The triples of a sweep, over fewer dimensions if the result is `flat`."""
        sweep = WindowSweep(large, small, window, self.stride, self.padding, self.dilation)
        return (sweep.merge_dimensions() if self.flat else sweep).triples


class WindowSweep(NamedTuple):
    """Windows over one image: `small` places of windows of `taps` elements, over `large` elements."""

    large: Shape
    small: Shape
    taps: Shape
    stride: Shape
    padding: Shape
    dilation: Shape

    @property
    def triples(self) -> tuple[Triple, ...]:
        """Each of these for slices, rows and columns."""
        absent = (1, 1, 1, 1, 0, 1)
        return tuple(map(make_triple, self, absent))

    def merge_dimensions(self) -> WindowSweep:
        """The same windows over two dimensions instead of three, where two of them are one to a kernel.

        A dimension in which windows have one element, and are everywhere, is part of the one before it, whose taps then
        are further apart.
        """
        dims = list(zip(*self, strict=True))
        for at in range(len(dims) - 1, 0, -1) if len(dims) == 3 else ():
            large, small, taps, stride, padding, _ = dims[at]
            before = dims[at - 1]
            if taps == stride == 1 and padding == 0 and large == small and before[3] == 1:
                merged = (before[0] * large, before[1] * large, before[2], 1, before[4] * large, before[5] * large)
                dims[at - 1 : at + 1] = [merged]
                break
        return WindowSweep(*map(tuple, zip(*dims, strict=True)))
