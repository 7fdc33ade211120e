"""The order in which a loop nest folds: over how many lanes, in which blocks, and how many registers hold a row."""

from __future__ import annotations

from typing import NamedTuple

from adjoint.compiler.ir.symbolic_size import is_symbolic_size
from adjoint.compiler.kernels.index_arithmetic import is_zero
from adjoint.compiler.kernels.loop_nest.reduction_stages import ReductionStages
from adjoint.compiler.kernels.loop_nest.size_questions import SizeQuestions
from adjoint.compiler.kernels.loop_nest.tiling import choose_lanes
from adjoint.compiler.llvm.jit.target import Target

SUM_BLOCK = 32  # additions after which a float32 sum is emptied into float64
MAX_REGISTER_ROW_STEPS = 8  # steps of a row that stays in registers from stage to stage
MAX_REGISTER_ROW_WORK = 320  # equations, each counted once for each such step, that are written out
MAX_SYMBOLIC_ROW_STEPS = 2  # the same of a row of unknown length, whose kernel is written for each number of steps


class SumOrder(NamedTuple):
    """The order in which a nest folds: over so many lanes, in blocks of a loop if one is named.

    `inside`: the additions in one step of that loop. `register_steps`: the steps of a row that stays in registers from
    stage to stage, 0 if it does not.
    """

    lanes: int
    blocked_loop: int | None
    inside: int
    register_steps: int


def choose_sum_order(stages: ReductionStages, target: Target, ask: SizeQuestions) -> SumOrder:
    """The order of a nest's sums: long ones, of float32 for one, cut a loop into blocks, short ones none."""
    space = stages.space
    loops, lanes = space.loops, choose_lanes(space, target, ask)
    if steps := _count_register_row_steps(stages, lanes, ask):
        half = steps == 1 and not ask.is_greater(loops[-1].size, lanes // 2)  # in which the sums are the same
        return SumOrder(lanes // 2 if half else lanes, None, 1, steps)
    inside = 1  # additions in one step of the loop
    cut, in_block = len(loops), 1
    for depth in reversed(range(space.first_reduced, len(loops))):
        if not ask.is_greater(inside, SUM_BLOCK):
            cut, in_block = depth, inside
        inside *= -(-loops[depth].size // lanes) if loops[depth].vector else loops[depth].size
    return SumOrder(lanes, cut, in_block, 0) if ask.is_greater(inside, 4 * SUM_BLOCK) else SumOrder(lanes, None, 1, 0)


def _count_register_row_steps(stages: ReductionStages, lanes: int, ask: SizeQuestions) -> int:
    """The steps of a row that stays in registers from stage to stage, 0 if it does not."""
    space, row = stages.space, stages.space.loops[-1]
    if stages.count == 1 or space.first_reduced != len(space.loops) - 1 or not row.vector or is_zero(row.size):
        return 0
    most = MAX_SYMBOLIC_ROW_STEPS if is_symbolic_size(row.size) else MAX_REGISTER_ROW_STEPS
    most = min(most, MAX_REGISTER_ROW_WORK // max(count_work(stages), 1))
    return next((steps for steps in range(1, most + 1) if not ask.is_greater(row.size, steps * lanes)), 0)


def count_work(stages: ReductionStages) -> int:
    """The equations that are computed in each step of a row."""
    return sum(not stages.is_small(v) for v in stages.space.group.equations)
