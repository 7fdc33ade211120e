"""Convolution of small images, forward and towards the input, with lanes that are the result's channels.

A tile is a chunk of the result's channels for some images. It turns the weights of its channels once, and frames some
images at a time, whose channels are neighbours then. Blocks of places, of whichever of these images, stay in registers
while all taps and channels are added up: tables say where a place sees its image and where its results are put. These
are turned back, and finished channel by channel.
"""

from __future__ import annotations

from collections.abc import Sequence

from adjoint.compiler.kernels.conv_pool.channel_lanes.channel_conv_plan import ChannelConvolutionPlan
from adjoint.compiler.kernels.conv_pool.channel_lanes.channels_last import (
    Turning,
    clear,
    count_group,
    finish_lines,
    split_scratch,
    turn_lines_back,
)
from adjoint.compiler.kernels.index_arithmetic import floor_div_index, modulo_index
from adjoint.compiler.kernels.kernel import Finish
from adjoint.compiler.llvm.builder import Builder
from adjoint.compiler.llvm.types import I64, Reg


def write_channel_convolution(
    b: Builder, plan: ChannelConvolutionPlan, x: Reg, weight: Reg, scratch: Reg, tile: Reg, finish: Finish
) -> None:
    """The results of one tile, given to `finish`; `scratch` is the calling thread's own."""
    type, frame, width = plan.type, plan.frame, plan.width
    vector = type.of(frame.lanes)
    weights, frames, results, lines = split_scratch(b, scratch, plan.regions, type)
    turn = Turning(b, vector, min(frame.places, plan.window % frame.lanes or frame.lanes))
    first = b.mul(modulo_index(b, tile, plan.chunks), width)
    start = b.mul(floor_div_index(b, tile, plan.chunks), plan.per_tile)
    end = b.minimum(b.add(start, plan.per_tile), plan.images)
    _write_weights(b, plan, turn, weight, first, weights)
    clear(b, frames, plan.group * frame.elements, vector)
    channels = b.minimum(b.sub(plan.result[0], first), width)
    _, height, length = plan.result
    with b.loop(start, end, plan.group) as group:
        count = count_group(b, group.index, end, plan.group, plan.has_whole_groups)
        with b.loop(0, count) as image:
            source = b.gep(x, b.mul(b.add(group.index, image.index), frame.channels * frame.places), type)
            frame.write(b, turn, source, b.gep(frames, b.mul(image.index, frame.elements), type))
        _write_phases(b, plan, frames, weights, results)
        with b.loop(0, count) as image:
            own = b.gep(results, b.mul(image.index, plan.places * width), type)
            turn_lines_back(b, turn, own, range(0, plan.places * width, width), lines, plan.line, width)
            with b.loop(0, channels) as channel:
                line = b.gep(lines, b.mul(channel.index, plan.line), type)
                origin = [b.add(group.index, image.index), b.add(first, channel.index)]
                each, size = ((height,), length) if plan.apart else ((), plan.places)
                finish_lines(b, line, each, size, origin, b.constant(0, I64), finish, vector)


def _write_weights(
    b: Builder, plan: ChannelConvolutionPlan, turn: Turning, weight: Reg, first: Reg, weights: Reg
) -> None:
    """The weights of a chunk: for each tap and summed channel, those of the result's channels; taps phase by phase."""
    type, lanes, width = plan.type, plan.frame.lanes, plan.width
    lines = b.table([min(o, plan.result[0] - 1) * plan.weight[0] for o in range(plan.chunks * width)], I64)
    order = [tap for phase in plan.phases for tap in phase.order]
    each = plan.frame.channels * width
    places = [order.index(tap) * each if tap in order else plan.window * each for tap in range(plan.window)]
    columns = b.table(places + [plan.window * each] * (-len(places) % lanes), I64)
    with b.loop(0, width, lanes) as channel:
        rows = b.gep(lines, b.add(first, channel.index), I64)
        with b.loop(0, plan.frame.channels) as summed:
            own = b.gep(weight, b.mul(summed.index, plan.weight[1]), type)
            target = b.gep(weights, b.add(b.mul(summed.index, width), channel.index), type)
            for tap in range(0, plan.window, lanes):
                count = min(lanes, plan.window - tap)
                turn(b.gep(own, tap, type), rows, target, b.gep(columns, tap, I64), count)


def _write_phases(b: Builder, plan: ChannelConvolutionPlan, frames: Reg, weights: Reg, results: Reg) -> None:
    """All results of a group's images, phase by phase and block by block."""
    width, places = plan.width, plan.places
    sources, targets, runs, rows = list[int](), list[int](), list[int](), list[int]()
    begin = 0
    for phase in plan.phases:
        first, run = len(sources), len(runs)
        for image in range(plan.group):
            sources += [image * plan.frame.elements + at for at in phase.seen]
            targets += [(image * places + r * plan.result[2] + c) * width for r, c in phase.places]
        missing = -len(sources) % plan.rows
        sources += [0] * missing
        targets += [plan.group * places * width] * missing  # behind all results
        runs += phase.runs
        depth = phase.run * plan.frame.channels
        rows += first, len(sources), run, len(runs), depth, begin
        begin += len(phase.order) * plan.frame.channels * width
    tables = [b.table(numbers or [0], I64) for numbers in (sources, targets, runs)]
    if len(plan.phases) == 1:
        _write_blocks(b, plan, tables, [b.constant(number, I64) for number in rows], frames, weights, results)
        return
    # One body for all phases: each has its own row of numbers.
    with b.loop(0, len(plan.phases)) as turn:
        row = b.gep(b.table(rows, I64), b.mul(turn.index, 6), I64)
        numbers = [b.load(b.gep(row, i, I64), I64) for i in range(6)]
        _write_blocks(b, plan, tables, numbers, frames, weights, results)


def _write_blocks(
    b: Builder,
    plan: ChannelConvolutionPlan,
    tables: Sequence[Reg],
    numbers: Sequence[Reg],
    frames: Reg,
    weights: Reg,
    results: Reg,
) -> None:
    """The results of a phase: of places from a number to another, runs from one to another, and of a depth."""
    # The plain loop: for place, run: for k in range(depth): result[place] += frame[place + run + k] * weight[run, k].
    # Unrolled: `rows` places by some registers of channels stay in registers, so that each weight serves all places.
    type, lanes, width = plan.type, plan.frame.lanes, plan.width
    vector = type.of(lanes)
    sources, targets, runs = tables
    first, end, begin, last, depth, own = numbers
    zero = (b.constant(0.0, vector),) * (plan.rows * plan.vectors)
    with b.loop(first, end, plan.rows) as block:
        at = b.gep(sources, block.index, I64)
        starts = [b.gep(frames, b.load(b.gep(at, row, I64), I64), type) for row in range(plan.rows)]
        with b.loop(begin, last, carried=zero) as run:
            offset = b.load(b.gep(runs, run.index, I64), I64)
            passed = b.mul(b.mul(b.sub(run.index, begin), depth), width)
            weight = b.gep(weights, b.add(own, passed), type)
            with b.loop(0, depth, carried=run.carried) as step:
                place = b.add(offset, step.index)
                line = b.gep(weight, b.mul(step.index, width), type)
                values = [b.load(b.gep(line, v * lanes, type), vector) for v in range(plan.vectors)]
                new = list(step.carried)
                for row, start in enumerate(starts):
                    spread = b.broadcast(b.load(b.gep(start, place, type), type), lanes)
                    for v, value in enumerate(values):
                        new[row * plan.vectors + v] = b.fma(spread, value, new[row * plan.vectors + v])
                step.yields(*new)
            run.yields(*step.results)
        to = b.gep(targets, block.index, I64)
        for row in range(plan.rows):
            place = b.gep(results, b.load(b.gep(to, row, I64), I64), type)
            for v in range(plan.vectors):
                b.store(run.results[row * plan.vectors + v], b.gep(place, v * lanes, type))
