"""The scratch memory of a matrix product: what one thread keeps of its tile between packing and finishing."""

from __future__ import annotations

import math
from typing import NamedTuple

from adjoint.compiler.ir.symbolic_size import is_symbolic_size, size_value
from adjoint.compiler.kernels.matmul.amx_tiles import TILE_CONFIG_BYTES, PartStrides
from adjoint.compiler.kernels.matmul.blocking import round_up
from adjoint.compiler.kernels.matmul.product import MatmulPlan


class Scratch(NamedTuple):
    """The layout of a thread's scratch memory, in bytes."""

    left: int
    right: int
    sums: int
    tiles: int  # the settings of tile registers, and what these are written to
    size: int
    part_strides: PartStrides  # elements from the first part of a rounded operand to the second; 0: there is one

    @classmethod
    def of(cls, product: MatmulPlan) -> Scratch:
        plane, blocking, item = product.plane, product.blocking, product.type.itemsize
        register, parts = product.lanes * item, blocking.parts
        depth = product.longest
        rows, columns = largest_tile(product)
        left = right = 0  # bytes of one part
        if blocking.pack_left:
            panels = -(-rows // blocking.rows)
            left = round_up(max(rows * product.line, panels * product.left_panel) * item + register, 64)
        at = parts * left
        if blocking.pack_right and not blocking.along_depth and not blocking.is_paired:
            at += round_up(
                blocking.width * register, 64
            )  # written by the last square of `pack_transposed`, and not read
        after_left = at
        if blocking.pack_right:
            right = round_up(blocking.width * round_up(depth, product.lanes) * item + register, 64)
            at += parts * right
        stride = round_up(blocking.width, product.lanes)
        panels = -(-columns // blocking.width)
        any_height = blocking.is_tiled or is_symbolic_size(plane.m)
        block = blocking.rows if any_height else min(blocking.rows, max(plane.m, 1))
        after_right, at = at, at + (rows * panels if product.split else block) * stride * item
        tiles = round_up(at, 64)
        if blocking.is_tiled:
            at = tiles + TILE_CONFIG_BYTES + parts * block * stride * item
        apart = PartStrides(left // item, right // item) if parts > 1 else PartStrides(0, 0)
        return cls(0, after_left, after_right, tiles, round_up(at, 64), apart)


def largest_tile(product: MatmulPlan) -> tuple[int, int]:
    """The most rows and columns of the plane that a tile has, or one strip of it."""
    plane, blocking = product.plane, product.blocking
    if not plane.m or not plane.n:
        return 0, 0
    _, down, across = product.grid
    panels, rows, longer = blocking.panels(size_value(plane.m))
    tall = product.strip * blocking.rows or math.ceil(panels / down) * (rows + (longer > 0))
    return tall, math.ceil(math.ceil(size_value(plane.n) / blocking.width) / across) * blocking.width
