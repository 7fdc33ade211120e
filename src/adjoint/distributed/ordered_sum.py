"""Sums over ranks in one order, so that their bits depend neither on MPI, nor on the sizes of messages or buckets.

Values of ranks are added pairwise, neighbours first: a tree whose lower part is the same for half as many ranks that
hold the sums of two. Each rank adds its share of the elements and gets the others' sums. From `MIN_HALVING_RANKS` on
the same tree is walked by recursive halving, with twice log2(n) messages in place of n.

Source: R. Thakur, R. Rabenseifner, W. Gropp, "Optimization of Collective Communication Operations in MPICH" (2005).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np

from adjoint.core.typing import Array
from adjoint.distributed.mpi import Communicator, bytes_of, exchange_pairwise

MAX_GATHERED_BYTES = 1 << 19  # of all ranks, up to which each rank gets all values: one exchange in place of two
PIECE_BYTES = 1 << 20  # which are exchanged and added while they lie in the cache
MIN_HALVING_RANKS = 8
FP_ERRORS = (RuntimeWarning, FloatingPointError)  # of overflow, which is no error here

Allocate = Callable[[int], Array]  # so many bytes of the communicator's scratch memory


def add_pairwise(rows: Sequence[Array] | Array, out: Array | None = None) -> Array:
    """Return the sum of the rows, neighbours first, in `out` if it is given.

    Types of two bytes are added in float32, and rounded once.
    """
    dtype = rows[0].dtype
    if len(rows) == 2 and out is not None and dtype.itemsize > 2:
        return np.add(rows[0], rows[1], out=out)
    parts = [row.astype(np.float32) for row in rows] if dtype.itemsize == 2 and dtype.kind in "fV" else list(rows)
    whole = add_neighbours(parts, out)
    if out is None:
        return whole.astype(dtype)
    if whole is not out:
        np.copyto(out, whole, casting="unsafe")
    return out


def add_neighbours(parts: list[Array], out: Array | None = None) -> Array:
    """Return the sum of the parts in their own type, neighbours first; in `out` where that has the type."""
    while len(parts) > 1:
        into = out if len(parts) == 2 and out is not None and out.dtype == parts[0].dtype else None
        sums = [np.add(a, b, out=into) for a, b in zip(parts[::2], parts[1::2], strict=False)]
        parts = sums + parts[len(parts) & ~1 :]
    return parts[0]


def sum_over_ranks(comm: Communicator, out: Array, x: Array, allocate: Allocate) -> None:
    """Write the sum of all ranks' x into `out`, which may be x.

    Shapes: both the same, without gaps.
    """
    count, values, target = comm.size, x.reshape(-1), out.reshape(-1)
    if count * x.nbytes <= MAX_GATHERED_BYTES:
        gathered = allocate(count * x.nbytes)
        comm.Allgather(bytes_of(values), gathered)
        rows = gathered.view(x.dtype).reshape(count, values.size)
        try:
            add_pairwise(rows, target)
        except FP_ERRORS:  # a block of errstate takes longer than the sum
            with np.errstate(all="ignore"):
                add_pairwise(rows, target)
        return
    sum_large = _sum_by_shares
    if count >= MIN_HALVING_RANKS and count & (count - 1) == 0 and x.dtype.itemsize > 2:
        sum_large = _sum_by_halving
    with np.errstate(all="ignore"):  # an error between messages would leave the other ranks alone
        sum_large(comm, target, values, allocate)


def _sum_by_shares(comm: Communicator, target: Array, values: Array, allocate: Allocate) -> None:
    """Let each rank add its share of the elements, piece by piece; exchange the shares before and the sums after."""
    count, rank = comm.size, comm.rank
    bounds = [values.size * i // count for i in range(count + 1)]
    longest, length = -(-values.size // count), PIECE_BYTES // values.itemsize
    rows = allocate(count * min(length, longest) * values.itemsize).view(values.dtype).reshape(count, -1)
    for begin in range(0, longest, length):
        pieces = [slice(min(low + begin, high), min(low + begin + length, high)) for low, high in pairwise(bounds)]
        own = pieces[rank]
        parts = [row[: own.stop - own.start] for row in rows]
        parts[rank] = values[own]
        exchange_pairwise(comm, [values[piece] for piece in pieces], parts)
        add_pairwise(parts, target[own])
    sums = [target[low:high] for low, high in pairwise(bounds)]
    exchange_pairwise(comm, [sums[rank]] * count, sums)


def _sum_by_halving(comm: Communicator, target: Array, values: Array, allocate: Allocate) -> None:
    """Exchange halves with the neighbour, quarters with the neighbours' neighbour, and so on, and the sums back."""
    if target is not values:
        np.copyto(target, values)
    received = allocate((values.size // 2 + 1) * values.itemsize).view(values.dtype)
    begin, end, mask = 0, values.size, 1
    steps = []
    while mask < comm.size:
        peer, middle = comm.rank ^ mask, (begin + end) // 2
        lower, upper = (begin, middle), (middle, end)
        keep, give = (upper, lower) if comm.rank & mask else (lower, upper)
        steps.append((peer, keep, give))
        into = received[: keep[1] - keep[0]]
        comm.Sendrecv(bytes_of(target[slice(*give)]), peer, 0, bytes_of(into), peer, 0)
        kept = target[slice(*keep)]
        # the lower rank's value comes first: a sum of NaNs has the bits of its first operand
        np.add(*((into, kept) if comm.rank & mask else (kept, into)), out=kept)
        (begin, end), mask = keep, 2 * mask
    for peer, keep, give in reversed(steps):
        comm.Sendrecv(bytes_of(target[slice(*keep)]), peer, 1, bytes_of(target[slice(*give)]), peer, 1)
