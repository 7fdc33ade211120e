"""The plan of a matrix product: everything that is decided from its shape before its code is written."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

from adjoint.compiler.ir.symbolic_size import has_symbols, is_symbolic_size, size_value
from adjoint.compiler.kernels.matmul.bf16_rounding import choose_rounding
from adjoint.compiler.kernels.matmul.blocking import (
    L2_BYTES_PER_CYCLE,
    MAX_L1_PANEL_BYTES,
    STARTS_PER_CYCLE,
    STRETCH_STEPS,
    Blocking,
    Machine,
    MatrixStrides,
    blockings,
    left_packing_cycles,
    pair_packing_costs,
    right_packing_cycles,
    round_up,
)
from adjoint.compiler.kernels.matmul.product import MatmulPlan, Plane, depth_steps, steps_per_turn
from adjoint.compiler.kernels.matmul.scratch import Scratch
from adjoint.compiler.llvm.jit.target import Target
from adjoint.compiler.llvm.types import Type
from adjoint.core.typing import Function

Shape = tuple[int, ...]

FLOPS_PER_MICROSECOND = 100e3  # float32 operations in a microsecond of a core with 512-bit registers
TILE_SPEEDUP = 6.0  # times as many of tile registers
BYTES_PER_MICROSECOND = 50e3  # bytes that arrive in a microsecond
MAX_CACHED_BYTES = 1 << 19  # of an operand that a later tile still finds in the second cache
REREAD_BYTES_PER_MICROSECOND = 10e3  # of one that it reads again from beyond, row by row
MIN_TILE_MICROSECONDS = 15.0  # microseconds that are worth a tile
MAX_TILES = 16
MIN_ROUNDING_SPEEDUP = 1.15  # what rounded operands must gain
MAX_ROW_STREAMS = 12  # rows of a matrix that is read once, side by side: more are not foreseen
MAX_UNROLLED_REGISTERS = 6  # registers of a row that are finished one after another, and not in a loop
MAX_ANY_WIDTH = 4  # registers of a panel whose last one may have any number of columns: each is a branch
MAX_TILE_ELEMENTS = 1 << 20  # elements of the result in a tile


def plan_matmul(
    batch: Shape, m: int, n: int, k: int, left: MatrixStrides, right: MatrixStrides, *machine: object, **how: object
) -> MatmulPlan:
    """The plan that `plan_product` makes, found once for sizes that are numbers."""
    # symbolic ones are of no other program: kept, they would keep what they are made of
    plan: Function = plan_product if has_symbols((batch, m, n, k, left, right)) else _plan_once
    made: MatmulPlan = plan(batch, m, n, k, left, right, *machine, **how)
    return made


def plan_product(
    batch: Shape,
    m: int,
    n: int,
    k: int,
    left: MatrixStrides,
    right: MatrixStrides,
    type: Type,
    target: Target,
    *,
    direct: bool = False,
    precision: str = "highest",
    parts: int = 1,
    lanes: int = 0,
    computed: tuple[bool, bool] = (False, False),
) -> MatmulPlan:
    """The plan of a product; `direct`: what follows it is short enough to write for every register of a block.

    `precision`: of float32, as `set_float32_matmul_precision` has it. `parts`: neighbouring registers of a row that are
    to be finished together; their columns lie as registers of so many `lanes` want them, which are the machine's own if
    that is 0. `computed`: whether the left and the right operand are computed as they are packed.
    """
    machine = Machine.of(target, type, lanes)
    merged, flat = (
        (0, Plane(batch, m, n, left, right)) if any(computed) else _merge_batch_dims(batch, m, n, left, right)
    )
    flat = _normalize_strides(flat, k)
    other = Plane(flat.batch, flat.n, flat.m, flat.right.swapped_strides, flat.left.swapped_strides)
    any_height, any_width, any_depth = map(is_symbolic_size, (flat.m, n, k))
    seen, seen_k = (flat.as_traced, size_value(k)) if any_depth or has_symbols(flat) else (flat, k)
    rounds = choose_rounding(target, type, precision)
    columns = max(seen.n, MAX_ANY_WIDTH * machine.lanes) if any_width else seen.n
    ways = blockings(machine, seen.m, columns, seen_k, seen.left, seen.right, rounds)
    choices = [(b.cycles * (MIN_ROUNDING_SPEEDUP if b.is_paired else 1.0), False, b) for b in ways]
    if not any_width and n <= 4 and n < machine.lanes and seen.m > n and not any_height:
        turned = blockings(machine, other.m, seen.m, seen_k, seen.right.swapped_strides, seen.left.swapped_strides)
        late = seen.m * (2.0 if n == 1 else 10.0)  # its elements leave one by one
        choices += [(b.cycles + late, True, b) for b in turned if b.rows == n]
    if any(computed):
        choices = [choice for choice in choices if _packs(computed, *choice[1:])]
    if parts > 1:
        choices = [choice for choice in choices if _keeps_together(parts, machine.lanes, *choice[1:])]
    assert choices or not any(computed) or not math.prod(batch) * m * n, "an operand that is computed must be packed"
    if not choices:  # no elements
        choices = [(0.0, False, Blocking(False, 1, machine.lanes, 1, 1, False, False, 0.0))]
    _, swapped, blocking = min(choices, key=lambda choice: choice[0])
    if any_height or any_width or any_depth:
        paired = blocking.is_paired
        choices = list(_serve_any_size(choices, machine, any_height, any_width, any_depth))
        _, swapped, blocking = min(choices, key=lambda choice: choice[0])
        # How a left operand is packed depends on its size.
        split_across = any_width and _depth(machine, flat, blocking, k)[2]  # sums of all columns wait at once
        gated = any_width and parts > 1
        if paired or computed[0] or gated or split_across:
            *outer, m, n, k = _specialize((*batch, m, n, k))
            how: dict[str, Any] = {"direct": direct, "precision": precision, "parts": parts, "lanes": lanes}
            sides = [MatrixStrides(_specialize(s.batch), *_specialize((s.row, s.column))) for s in (left, right)]
            return plan_product(tuple(outer), m, n, k, sides[0], sides[1], type, target, computed=computed, **how)
    plane = other if swapped else flat
    steps = depth_steps(blocking, k)
    depth, longest, split = _depth(machine, plane, blocking, steps, parts)
    grid = _grid(machine, plane if seen is flat else plane.as_traced, blocking, depth_steps(blocking, seen_k))
    strip = -(-blocking.panels(seen.m)[0] // grid[1]) if any_height and split else 0
    tiles = math.prod(grid) if math.prod(batch) * m * n else 0
    product = MatmulPlan(
        batch, m, n, k, left, right, type, plane, merged, swapped, machine.lanes, blocking, depth,
        direct and not split and not (blocking.along_depth or blocking.is_tiled or swapped), grid, tiles,
        split, longest, strip, 0, "",
    )  # fmt: skip
    return product._replace(scratch=Scratch.of(product).size, reason=_reason(product))


def _specialize(sizes: Shape) -> Shape:
    """Return sizes as they are in the call that is traced, for which alone the plan is then."""
    return tuple(map(operator.index, sizes))


def _serve_any_size(
    choices: Sequence[tuple[float, bool, Blocking]],
    machine: Machine,
    any_height: bool,
    any_width: bool,
    any_depth: bool,
) -> Iterator[tuple[float, bool, Blocking]]:
    """The choices for a product of any number of rows or columns, or of any depth: they pack alike for all."""
    for cycles, swapped, blocking in choices:
        packed = blocking.pack_left or (any_depth and blocking.pack_right)
        if blocking.is_paired or (blocking.along_depth and (packed or any_width)):
            continue
        if blocking.width > MAX_ANY_WIDTH * machine.lanes and any_width:
            continue
        high = blocking.fill_registers(machine) if any_height else blocking
        yield cycles, swapped, high._replace(pack_left=False)


_plan_once = lru_cache(256)(plan_product)


def _packs(computed: tuple[bool, bool], swapped: bool, blocking: Blocking) -> bool:
    """True if the operands that are to be computed are packed, element by element."""
    packed = blocking.pack_left >= computed[0] and blocking.pack_right >= computed[1]
    return packed and not (swapped or blocking.along_depth)


def _keeps_together(parts: int, lanes: int, swapped: bool, blocking: Blocking) -> bool:
    """True if a block's rows are made of so many registers, few enough for all to be finished at once."""
    registers, rest = divmod(blocking.width, lanes)
    whole = rest == registers % parts == 0 and registers <= MAX_UNROLLED_REGISTERS
    return whole and not swapped and not blocking.along_depth


def _merge_batch_dims(batch: Shape, m: int, n: int, left: MatrixStrides, right: MatrixStrides) -> tuple[int, Plane]:
    """Merge the last batch dimensions into the rows where their strides agree; gives their number and the product."""
    merged, rows, stride = 0, m, left.row
    for size, by_left, by_right in zip(batch[::-1], left.batch[::-1], right.batch[::-1], strict=True):
        if size != 1:
            if by_right or (rows != 1 and by_left != rows * stride):
                break
            stride = by_left if rows == 1 else stride
        rows *= size
        merged += 1
    kept = len(batch) - merged
    plane = Plane(
        batch[:kept],
        rows,
        n,
        left._replace(batch=left.batch[:kept], row=stride),
        right._replace(batch=right.batch[:kept]),
    )
    return merged, plane


def _normalize_strides(plane: Plane, k: int) -> Plane:
    """Set the strides along dimensions of one element to what is easiest."""
    left, right = plane.left, plane.right
    if k == 1:
        left, right = left._replace(column=1), right._replace(row=0)
    if plane.n == 1:
        right = right._replace(column=1)
    return plane._replace(left=left, right=right)


def _depth(machine: Machine, plane: Plane, blocking: Blocking, k: int, parts: int = 1) -> tuple[int, int, bool]:
    """Steps to sum in registers: as many as their rounding and the second cache allow, in equal stretches.

    With them how many they can be, if `k` is symbolic, and whether there are more of them; that there are not is a
    guard then.

    A matrix that is read once, for a row or two, is read in whole rows: few of them for one panel after the other.
    Where registers are finished together in `parts`, a block may have few rows: these take more of a panel in a cycle
    than the second cache gives, so that its part of a stretch is to stay in the first one.
    """
    stretch = STRETCH_STEPS * (machine.lanes if blocking.along_depth else 1)
    if parts > 1 and blocking.rows * L2_BYTES_PER_CYCLE < STARTS_PER_CYCLE * machine.lanes * machine.itemsize:
        stretch = min(stretch, MAX_L1_PANEL_BYTES // 2 // (blocking.width * machine.itemsize))
    once = not has_symbols((plane.m, plane.n)) and plane.m <= 2 and plane.n > blocking.width
    in_rows = once and not blocking.along_depth and not blocking.pack_right
    if in_rows and k * plane.n * machine.itemsize >= 1 << 19:
        stretch = operator.index(max(MAX_ROW_STREAMS, k // 2048))
    # A depth that is cut into stretches may be any in other calls; a short one, which is not, must stay short.
    if size_value(k) <= 2 * stretch and k <= 2 * stretch:
        return (k, 2 * stretch, False) if is_symbolic_size(k) else (max(k, 1), k, False)
    stretches = -(-k // stretch)
    turn = steps_per_turn(blocking, machine.lanes)
    depth = round_up((k + stretches - 1) // stretches, turn)
    if is_symbolic_size(k):
        return depth, round_up(stretch, turn), True
    return depth, min(depth, k), depth < k


def _grid(machine: Machine, plane: Plane, blocking: Blocking, k: int) -> tuple[int, int, int]:
    """In how many parts batch, rows and columns are cut."""
    batch, m, n = math.prod(plane.batch), plane.m, plane.n
    if not batch * m * n:
        return 1, 1, 1
    pace = FLOPS_PER_MICROSECOND * machine.lanes / 16
    if blocking.rounding is not None and blocking.is_tiled:
        pace *= TILE_SPEEDUP / blocking.rounding.products
    one = max(2.0 * m * n * k / pace, (m * k + k * n + m * n) * machine.itemsize / BYTES_PER_MICROSECOND)
    wanted = max(min(int(one * batch / MIN_TILE_MICROSECONDS), MAX_TILES), -(-batch * m * n // MAX_TILE_ELEMENTS))
    if wanted <= 1 or batch >= wanted:
        return min(wanted, batch) or 1, 1, 1
    each = -(-wanted // batch)
    rows, columns = blocking.panels(m)[0], -(-n // blocking.width)
    sizes = m * k * machine.itemsize, k * n * machine.itemsize
    reread_left, reread_right = (
        size / REREAD_BYTES_PER_MICROSECOND / one if size > MAX_CACHED_BYTES else 0.0 for size in sizes
    )
    # The share of the time that packing takes once.
    whole = m * n * k / (STARTS_PER_CYCLE * machine.lanes)
    of_left = left_packing_cycles(machine, m, k, blocking.rows) / whole if blocking.pack_left else 0.0
    of_right = right_packing_cycles(machine, n, k, plane.right) / whole if blocking.pack_right else 0.0
    pair_left, pair_right = pair_packing_costs(plane.left, plane.right)
    best = (1, 1)
    least_time = math.inf
    for down in range(1, min(rows, each) + 1):
        for across in range(1, min(columns, -(-each // down)) + 1):
            parts = down * across
            longest = -(-rows // down) * -(-columns // across) / (rows * columns)
            # The share of packing and reading, which rows do for their columns again and columns for their rows.
            again = reread_left * (across - 1) + reread_right * (down - 1)
            if blocking.is_paired:
                again += 2 * pair_right * down / m + 2 * pair_left * across / n
            else:
                again += of_right * (down - 1) + of_left * (across - 1)
            # Two threads share an even number best; tiles beyond theirs, for more threads, count for less.
            time = -(-parts // 2) * longest * 0.5 + again + 0.5 / parts
            if time < least_time:
                best, least_time = (down, across), time
    return batch, *best


def _reason(product: MatmulPlan) -> str:
    """One line for `explain`."""
    blocking = product.blocking
    if not product.tiles:
        return "no elements"
    along = "k" if blocking.along_depth else "m" if product.swapped else "n"
    words = [f"{blocking.rows}×{blocking.width} block, lanes along {along}"]
    if blocking.rounding is not None:
        words.append(f"inputs rounded to {blocking.rounding.description}")
    if blocking.is_tiled:
        words.append("multiplied in tile registers")
    if product.merged:
        words.append(f"{product.merged} batch dimensions taken as rows")
    if product.swapped:
        words.append("transposed as n is small")
    sides = ("right", "left") if product.swapped else ("left", "right")
    for side, packed in zip(sides, (blocking.pack_left, blocking.pack_right), strict=True):
        if packed:
            matrix = product.left if side == "left" else product.right
            words.append(f"{side} packed as its strides are ({matrix.row!r}, {matrix.column!r})")
    if product.split:
        words.append(f"{-(-product.steps // product.depth)!r} stretches of k")
    batches, down, across = product.grid
    words.append(f"{product.tiles} tiles: batch/{batches} m/{down} n/{across}" if product.tiles > 1 else "one tile")
    return "; ".join(words)
