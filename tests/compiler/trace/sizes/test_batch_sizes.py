"""Sizes that change: few programs, each paid by those before it, and always eager's numbers."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.support.steps import mlp, same_state, training

import adjoint as ad
from adjoint import optim
from adjoint.compiler.trace.sizes.batch_sizes import MAX_SPECIALIZED_SIZES, BatchSizes, SizeAccount
from adjoint.core.runtime import pytree

pytest.importorskip("llvmlite")


def pairs(x: Any, y: Any) -> Any:
    """A step on two batches of one size."""
    return (x * y).sum(1).mean()


class Clock:
    """A clock that shows `now`."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def timed(step: Any, eager: float = 1.0, compilation: float = 0.0) -> Any:
    """A compiled step whose eager calls and compilations seem to take so many seconds, and a program's call none."""
    clock = Clock()

    def run(*args: Any) -> Any:
        if not ad.compiler.is_compiling():
            clock.now += eager
        return step(*args)

    compiled = ad.compile(run, dynamic=False)
    compiled._sizes = BatchSizes(clock)
    trace = compiled._trace

    def trace_slowly(*args: Any) -> Any:
        clock.now += compilation
        return trace(*args)

    compiled._trace = trace_slowly
    return compiled


def test_ever_new_sizes_are_no_stream_of_compilations() -> None:
    compiled = ad.compile(pairs, dynamic=False)
    for n in range(1, 30):
        x, y = ad.randn(n, 3), ad.randn(n, 3)
        np.testing.assert_allclose(compiled(x, y).item(), pairs(x, y).item(), rtol=1e-5, atol=1e-6)
    assert compiled.compilations == 2
    assert compiled.sizes == dict.fromkeys(range(1, 30), 1)


@pytest.mark.parametrize(
    "shape",
    [lambda n: (n, 3), lambda n: (3, n), lambda n: (2, n, 3), lambda n: (n, n)],
    ids=["leading", "last", "middle", "two"],
)
def test_any_dimension_counts_as_a_size(shape: Callable[[int], tuple[int, ...]]) -> None:
    compiled = timed(pairs, compilation=100.0)
    for n in [*range(1, 13)] * 3:
        x = ad.randn(*shape(n))
        np.testing.assert_allclose(compiled(x, x).item(), pairs(x, x).item(), rtol=1e-5)
    assert compiled.compilations == 2
    assert sorted(compiled.sizes) == [*range(1, 13)]


def test_a_size_that_comes_again_is_compiled_from_saved_time_up_to_a_limit() -> None:
    compiled = timed(pairs)
    sizes = range(1, MAX_SPECIALIZED_SIZES + 4)

    def go_through() -> None:
        for n in [*sizes, *sizes]:
            x = ad.randn(n, 3)
            np.testing.assert_allclose(compiled(x, x).item(), pairs(x, x).item(), rtol=1e-5)

    limit = f"was compiled for {MAX_SPECIALIZED_SIZES} sizes .* such as \\[{MAX_SPECIALIZED_SIZES + 1}, 3\\]"
    with pytest.warns(RuntimeWarning, match=limit):
        go_through()
    assert compiled.compilations == MAX_SPECIALIZED_SIZES
    x = ad.randn(sizes[-1], 3)
    compiled(x, x)
    assert compiled.compilations == MAX_SPECIALIZED_SIZES


def test_a_third_size_waits_until_programs_have_saved_what_it_costs() -> None:
    compiled = timed(pairs, eager=1.0, compilation=5.0)
    batches = [ad.randn(n, 3) for n in (6, 5, 4)]
    counts = []
    for _ in range(4):
        for batch in batches:
            compiled(batch, batch)
        counts.append(compiled.compilations)
    assert counts == [2, 2, 2, 3]  # a round saves two seconds


def test_integers_that_select_programs_are_paid_too() -> None:
    def power(x: Any, n: int) -> Any:
        for _ in range(n):
            x = x * 0.5
        return x

    dear, cheap = timed(power, compilation=1e6), timed(power)
    for n in [3, 5, 8, 2, 7, 4, 6] * 2:
        for compiled in (dear, cheap):
            assert compiled(ad.ones(2), n).tolist() == [0.5**n] * 2
    assert dear.compilations == 2
    assert cheap.compilations > 5


def test_a_last_smaller_batch_in_training() -> None:
    models = [mlp(), mlp()]
    models[1].load_state_dict(models[0].state_dict())
    steps = [training(m, optim.SGD(m.parameters(), lr=0.1, momentum=0.9)) for m in models]
    compiled = ad.compile(steps[0])
    ad.manual_seed(0)
    for n in (16, 16, 16, 5, 16, 16, 5, 7, 16):
        x, y = ad.randn(n, 12), ad.randint(0, 3, (n,))
        np.testing.assert_allclose(compiled(x, y).item(), steps[1](x, y).item(), rtol=1e-4)
    same_state(*models, rough=1e-5)
    assert compiled.compilations == 2


def test_sizes_are_told_by_shapes_where_several_dimensions_differ() -> None:
    compiled = ad.compile(pairs, dynamic=False)
    for shape in (2, 3), (2, 4), (5, 3):
        compiled(ad.randn(*shape), ad.randn(*shape))
    assert compiled.sizes == {(s, s): 1 for s in ((2, 3), (2, 4), (5, 3))}


STREAMS: dict[str, Callable[[random.Random, int], int]] = {
    "uniform": lambda numbers, i: numbers.randint(5, 40),
    "ever new": lambda numbers, i: 5 + i,
    "few": lambda numbers, i: numbers.choice([8, 16, 24, 32]),
    "two and a rare one": lambda numbers, i: numbers.choice([8, 16] * 10 + [32]),
    "drifting": lambda numbers, i: 5 + i // 60,
    "one after another": lambda numbers, i: 5 + i % 36,
}
SECONDS = {"fast eager": (0.1, 0.001), "slow eager": (0.002, 0.05), "not faster": (0.01, 0.01)}


@pytest.mark.parametrize("seconds", SECONDS)
@pytest.mark.parametrize("stream", STREAMS)
@pytest.mark.parametrize("compilation", [0.02, 0.5, 8.0])
def test_any_hundred_calls_take_little_more_than_eager_ones_and_two_compilations(
    stream: str, seconds: str, compilation: float
) -> None:
    numbers, clock = random.Random(0), Clock()
    base, each = SECONDS[seconds]
    sizes, programs = BatchSizes(clock), set[int]()
    key: Callable[[int], Any] = lambda n: (  # noqa: E731
        pytree.flatten(((1,), {}))[1], (((n, 3), np.dtype(np.float32), False, 0),), (0,), True, None,
    )  # fmt: skip
    eager, taken, dearest = [], [], 0.0
    for i in range(1500):
        n = STREAMS[stream](numbers, i)
        eager.append(base + each * n)
        start = since = clock.now
        if n in programs:
            clock.now += eager[-1] if seconds == "not faster" else eager[-1] / 20
            sizes.note_compiled_call(key(n), since)
        elif sizes.count(key(n))[0]:
            clock.now += compilation * numbers.uniform(0.8, 1.2)
            dearest = max(dearest, clock.now - since)
            sizes.note_compilation(key(n), since)
            programs.add(n)
        else:
            clock.now += eager[-1]
            sizes.note_eager_call(key(n), since)
        taken.append(clock.now - start)
    for i in range(len(taken) - 99):
        assert sum(taken[i : i + 100]) <= 1.2 * sum(eager[i : i + 100]) + 2 * dearest


def test_what_a_program_saves_is_not_overestimated() -> None:
    account = SizeAccount()
    account.note_eager_call(((10,),), 2.0)
    account.note_eager_call(((20,),), 3.0)
    account.note_eager_call(((30,),), 2.5)  # the smaller ones were held up
    assert [account._estimate_eager_seconds(n) for n in (5, 10, 15, 20, 40)] == [1.0, 2.0, 2.0, 2.5, 2.5]


def test_the_ways_that_an_integer_decides_between_are_compiled_when_they_come() -> None:
    def run(wrap: Any) -> list[float]:
        w = ad.ones(3, requires_grad=True)

        def step(x: Any, i: int) -> Any:
            loss = (w * x).sum()
            loss.backward()
            if (i + 1) % 4 == 0:
                with ad.no_grad():
                    w.sub_(0.25 * w.grad)
                w.grad = None
            return loss

        call = wrap(step)
        found = [call(ad.ones(3), i).item() for i in range(8)]
        compilations = getattr(call, "compilations", 0)
        found += [call(ad.ones(3), i).item() for i in range(8, 24)]
        assert getattr(call, "compilations", 0) == compilations
        return found

    assert run(ad.compile) == run(lambda step: step)
