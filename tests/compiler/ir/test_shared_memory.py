"""Which elements two arrays have in common, and the partition of memory into blocks."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.compiler.ir.graph import Argument, Graph
from adjoint.compiler.ir.interpreter import evaluate_equation
from adjoint.compiler.ir.shared_memory import CapturedRegion, MemoryBlocks, carry_values, find_common_elements
from adjoint.compiler.trace.tracer import Tracer


def random_view(memory: Any, rng: random.Random) -> Any:
    """A view of a part of one-dimensional memory, in one or two dimensions, forwards or backwards."""
    low, high = sorted(rng.sample(range(len(memory) + 1), 2))
    view = memory[low : high : rng.choice([1, 1, 2, 3])]
    if rng.random() < 0.3:
        view = view[::-1]
    if view.size % 2 == 0 and rng.random() < 0.4:
        view = view.reshape(2, -1) if view.flags.c_contiguous else view
        view = view.T if rng.random() < 0.5 else view
    return view


@pytest.mark.parametrize("seed", range(60))
def test_values_are_carried_to_the_elements_in_one_place(seed: int) -> None:
    rng = random.Random(seed)
    memory = np.arange(16, dtype=np.float32)
    source, target = random_view(memory, rng), random_view(memory, rng)
    tracer = Tracer("step")
    symbols = [tracer.graph.input(array, Argument(i, str(i))) for i, array in enumerate((source, target))]
    value = carry_values(tracer, symbols[0], source, symbols[1], target)
    known = {symbols[0]: source + 100, symbols[1]: target.copy()}
    for v in tracer.graph.equations:
        known[v] = evaluate_equation(v, {**known, **{x: x.source.array for x in v.operands if x not in known}})
    source += 100
    np.testing.assert_array_equal(known[value], target)


def test_elements_that_overlap_in_part_are_refused_and_interleaved_ones_are_apart() -> None:
    memory = np.zeros(16, np.int8)
    assert find_common_elements(memory[::2], memory[1::2]) is None
    assert find_common_elements(memory[:4].view(np.int32), memory[4:].view(np.int32)) is None
    for other in (memory[2:10].view(np.int32), memory[:8].view(np.int64), memory[3:5]):
        with pytest.raises(ValueError, match="in part"):
            find_common_elements(memory[:8].view(np.int32), other)


@pytest.mark.parametrize("seed", range(20))
def test_blocks_part_regions_that_do_not_overlap(seed: int) -> None:
    rng = random.Random(seed)
    memory, graph, blocks = np.zeros(64, np.float32), Graph("step"), MemoryBlocks()
    spans: list[tuple[int, int]] = []
    parts: list[set[int]] = []
    for i in range(12):
        low = rng.randrange(60)
        spans.append((low, low + rng.randrange(1, 5)))
        array = memory[slice(*spans[-1])]
        region = CapturedRegion(ad.from_numpy(array), array, graph.input(array, Argument(i, str(i))))
        met = {other.symbol.source.number for other in blocks.add(region)}
        touched = [part for part in parts if any(spans[j][0] < spans[i][1] and spans[i][0] < spans[j][1] for j in part)]
        assert met == set().union(*touched)
        parts = [part for part in parts if part not in touched] + [met | {i}]
    assert sorted(map(len, blocks.shared.values())) == sorted(len(part) for part in parts if len(part) > 1)
