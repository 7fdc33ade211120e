"""Positions in sorted order along a dimension: all of them, the first ones, or those from a rank on.

Five ways, by the number of rows and their length: a network of exchanges in which each lane has a row; a sorted list of
the first few, in registers or in memory, while rows are read once; the selection of those whose leading bits allow the
wanted ranks; a radix sort.
"""

from __future__ import annotations

from adjoint.compiler.ir.symbolic_size import has_symbols, size_value
from adjoint.compiler.kernels.rows.order_writer import OrderWriter
from adjoint.compiler.kernels.rows.plan import (
    INT64,
    LineTable,
    RowOperand,
    RowPlan,
    find_lines,
    split_units,
    type_of,
    unit_range,
)
from adjoint.compiler.kernels.rows.radix_sort import VALUES
from adjoint.compiler.kernels.rows.sort_across import AcrossWriter
from adjoint.compiler.kernels.rows.sort_along import BINS, MAX_SHORTLIST, AlongWriter
from adjoint.compiler.kernels.rows.sort_keys import DoubleKeys, SortKeys
from adjoint.compiler.kernels.rows.sort_network import BLOCK_ITEMS
from adjoint.compiler.llvm.builder import Builder
from adjoint.compiler.llvm.jit.target import Target
from adjoint.compiler.llvm.types import I64, Reg, from_dtype

NETWORK, SHORTLIST, SELECTION, RADIX = "network", "shortlist", "selection", "radix"
LEADERS = "leaders"
MAX_LEADERS = 8  # positions for which each lane keeps a sorted list in registers
MAX_LEADERS_LENGTH = 256
MAX_NETWORK_LENGTH = 96  # elements of a row for which a network is best, however few rows there are
MAX_FULL_NETWORK_LENGTH = 1024  # where there are rows for half of the lanes
MIN_SHORTLIST_SHARE = 8  # elements in a row for each position
MIN_SELECTION_LENGTH = 256
MIN_SELECTION_SHARE = 4
# Of a register of items, a mask, and what is carried; it gives what is carried on.
SECONDS_PER_ELEMENT = {NETWORK: 4e-9, LEADERS: 3e-9, SHORTLIST: 1e-9, SELECTION: 3e-9, RADIX: 1e-8}


def plan_order(
    x: RowOperand, axis: int, first: int, count: int, descending: bool, target: Target, median: str = ""
) -> RowPlan | None:
    """Plan the positions from rank `first` on of a stable sort along `axis`; None if there is no kernel.

    `median`: which one is wanted in place of a rank.
    """
    lines, source = find_lines(x, axis), type_of(x.dtype)
    if lines is None or source is None or not 0 < lines.length < 2**31 or not lines.lines or not count:
        return None
    n, keys, lanes = lines.length, SortKeys(source, descending), target.lanes(I64)
    form = _form_of(n, lines.lines, n // 2 if median else first, count, lanes)
    if median and form == LEADERS:
        form = NETWORK
    units, own = lines.lines, 8 * keys.words * n
    if form in (NETWORK, LEADERS):
        units, scratch = -(-units // lanes), 8 * keys.words * (n + BLOCK_ITEMS) * lanes if form == NETWORK else 0
    elif form == SHORTLIST:
        scratch = 8 * keys.words * (MAX_SHORTLIST + lanes)
    else:
        scratch = 2 * (own + 8 * keys.words) + 8 * VALUES * keys.digits + (8 * BINS if form == SELECTION else 0)
    seconds = SECONDS_PER_ELEMENT[form] * size_value(lines.lines * n) * keys.words
    if form in (NETWORK, LEADERS, SHORTLIST):  # in vectors
        seconds *= target.slowdown
    tiles, each = split_units(units, seconds)
    strides = (lines.outer_stride, lines.stride, lines.inner_stride)
    numbers = (units, each, lines.lines, n, lines.inner, *strides, first, count)
    shape = (*x.shape[:axis], count, *x.shape[axis + 1 :])
    dense = lines.inner == 1 and lines.stride == 1
    structure = (x.dtype.str, descending, form, dense, median, *((first, count) if form == LEADERS else ()))
    return RowPlan("order", structure, numbers, shape, INT64, tiles, -(-scratch // 64) * 64, seconds)


def _form_of(n: int, lines: int, first: int, count: int, lanes: int) -> str:
    last = first + count
    if not has_symbols(last) and last <= MAX_LEADERS and 2 * last <= n <= MAX_LEADERS_LENGTH:
        return LEADERS
    if n <= MAX_NETWORK_LENGTH:
        return NETWORK
    if not first and count <= MAX_SHORTLIST and count * MIN_SHORTLIST_SHARE <= n:
        return SHORTLIST
    if n >= MIN_SELECTION_LENGTH and count * MIN_SELECTION_SHARE <= n:
        return SELECTION
    return NETWORK if n <= MAX_FULL_NETWORK_LENGTH and 2 * lines >= lanes else RADIX


def write_order(b: Builder, table: LineTable, tile: Reg, target: Target, structure: tuple[object, ...]) -> None:
    """The body of a kernel that `plan_order` has planned."""
    source, descending, form, dense, median, *given = structure
    kind, ranks = from_dtype(str(source)), [int(str(rank)) for rank in given]
    writer: OrderWriter
    if form in (NETWORK, LEADERS):
        keys = (DoubleKeys if kind.bits <= 32 else SortKeys)(kind, bool(descending))
        writer = across = AcrossWriter(b, table, target, keys, bool(dense), str(median), ranks)
        write = across.write_network if form == NETWORK else across.write_leaders
    else:
        keys = SortKeys(kind, bool(descending))
        writer = along = AlongWriter(b, table, target, keys, bool(dense), str(median), ranks)
        ways = {SHORTLIST: along.write_shortlist, SELECTION: along.write_selection, RADIX: along.write_radix}
        write = ways[str(form)]
    low, high = unit_range(b, tile, writer.units, writer.each)
    with b.loop(low, high) as unit:
        write(unit.index)
