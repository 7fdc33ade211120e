"""The recursion of connectionist temporal classification over all times, and its gradient back through them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adjoint.compiler.kernels.small_arrays.entry import ALL_DIMS, UNLIMITED, ArrayOperand, SmallArrayEntry, sweep
from adjoint.compiler.llvm.types import BOOL, Reg, Type

if TYPE_CHECKING:
    from adjoint.compiler.llvm.builder import Builder

LOG_ZERO = -1e30  # the logarithm of a probability of 0
PREDECESSORS = 3  # a state, the one before it, and the one before that


def _advance(
    b: Builder,
    kind: Type,
    lanes: int,
    x: ArrayOperand,
    skips: ArrayOperand,
    alphas: ArrayOperand,
    shares: ArrayOperand,
    _: ArrayOperand,
) -> None:
    """Write ln p of each state after each time but the first, and what each predecessor has of it.

    x (T, N, S) are the logarithms of the labels' probabilities, `skips` (N, S) tells which states may skip the one
    before. `alphas` (T + 1, N, S) has those before and after the first time; `shares` (T, 3, N, S) or nothing.
    """
    plane = skips.size
    times = b.floor_divide(x.size, b.maximum(plane, 1))
    rows = b.floor_divide(plane, b.maximum(x.last, 1))
    with b.loop(1, times) as time, b.loop(0, rows) as row:
        first = b.mul(row.index, x.last)
        place = b.add(b.mul(time.index, plane), first)
        before, after = (b.gep(alphas.data, at, kind) for at in (place, b.add(place, plane)))
        spoken, may_skip = b.gep(x.data, place, kind), b.gep(skips.data, first, BOOL)
        parts = b.gep(shares.data, b.add(b.mul(b.mul(time.index, PREDECESSORS), plane), first), kind)

        def advance(
            index: Reg,
            mask: Reg | None,
            before: Reg = before,
            after: Reg = after,
            spoken: Reg = spoken,
            may_skip: Reg = may_skip,
            parts: Reg = parts,
        ) -> list[Reg]:
            state = b.add(b.broadcast(index, lanes), b.iota(lanes))
            earlier = b.gep(before, index, kind)
            stay, one, two = (b.load(b.gep(earlier, -by, kind), kind.of(lanes), mask) for by in range(PREDECESSORS))
            skipping = b.load(b.gep(may_skip, index, BOOL), BOOL.of(lanes), mask)
            one = b.select(b.ge(state, 1), one, LOG_ZERO)
            two = b.select(b.logical_and(skipping, b.ge(state, 2)), two, LOG_ZERO)
            # ln of a sum of three powers, less the largest so that none overflows. The powers' shares of the sum are
            # what the gradient needs of this step.
            top = b.maximum(b.maximum(stay, one), two)
            powers = [b.exp(b.sub(term, top)) for term in (stay, one, two)]
            total = b.add(b.add(powers[0], powers[1]), powers[2])
            with b.when(b.gt(shares.size, 0)):
                for i, power in enumerate(powers):
                    target = b.gep(b.gep(parts, b.mul(plane, i), kind), index, kind)
                    b.store(b.div(power, total), target, mask)
            label = b.load(b.gep(spoken, index, kind), kind.of(lanes), mask)
            found = b.maximum(b.add(b.add(top, b.log(total)), label), LOG_ZERO)
            b.store(found, b.gep(after, index, kind), mask)
            return []

        sweep(b, x.last, lanes, [], advance)


def _retreat(
    b: Builder,
    kind: Type,
    lanes: int,
    arrived: ArrayOperand,
    shares: ArrayOperand,
    is_possible: ArrayOperand,
    row_of_states: ArrayOperand,
    _: ArrayOperand,
) -> None:
    """Add the gradients of later states to those of earlier ones, `arrived` (T, N, S), from the last time to the first.

    A state that is not possible has none. `row_of_states` (N, S) tells how many rows there are.
    """
    plane = row_of_states.size
    times = b.floor_divide(arrived.size, b.maximum(plane, 1))
    rows = b.floor_divide(plane, b.maximum(arrived.last, 1))
    with b.loop(1, times) as back, b.loop(0, rows) as row:
        time = b.sub(times, back.index)
        first = b.mul(row.index, arrived.last)
        place = b.add(b.mul(time, plane), first)
        later, earlier = (b.gep(arrived.data, at, kind) for at in (place, b.sub(place, plane)))
        possible = b.gep(is_possible.data, place, BOOL)
        parts = b.gep(shares.data, b.add(b.mul(b.mul(time, PREDECESSORS), plane), first), kind)

        def clear(index: Reg, mask: Reg | None, later: Reg = later, possible: Reg = possible) -> list[Reg]:
            target = b.gep(later, index, kind)
            kept = b.load(b.gep(possible, index, BOOL), BOOL.of(lanes), mask)
            value = b.load(target, kind.of(lanes), mask)
            b.store(b.mul(value, b.select(kept, b.constant(1.0, kind.of(lanes)), 0.0)), target, mask)
            return []

        sweep(b, arrived.last, lanes, [], clear)

        def add_later(
            index: Reg, mask: Reg | None, later: Reg = later, earlier: Reg = earlier, parts: Reg = parts
        ) -> list[Reg]:
            target = b.gep(earlier, index, kind)
            total = b.load(target, kind.of(lanes), mask)
            for by in range(PREDECESSORS):
                at = b.add(index, by)
                inside = b.lane_mask(b.sub(arrived.last, at), lanes)
                d = b.load(b.gep(later, at, kind), kind.of(lanes), inside)
                share = b.load(b.gep(b.gep(parts, b.mul(plane, by), kind), at, kind), kind.of(lanes), inside)
                total = b.add(total, b.select(inside, b.mul(d, share), 0.0))
            b.store(total, target, mask)
            return []

        sweep(b, arrived.last, lanes, [], add_later)


ROUTINES = {
    "ctc_steps": SmallArrayEntry("xbxx", _advance, less=ALL_DIMS, most=UNLIMITED),
    "ctc_steps_back": SmallArrayEntry("xxbb", _retreat, less=ALL_DIMS, most=UNLIMITED),
}
