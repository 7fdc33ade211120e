"""One compiled function called by several threads at once."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.threads import in_threads

import adjoint as ad
import adjoint.nn.functional as F
from adjoint import nn
from adjoint.compiler.trace.signature import Signature
from adjoint.compiler.trace.sizes.batch_sizes import BatchSizes
from adjoint.core.runtime import pytree

pytest.importorskip("llvmlite")
THREADS, CALLS = 8, 60


def test_each_thread_gets_the_result_of_its_own_arguments() -> None:
    compiled = ad.compile(lambda x, w: ((x @ w).tanh() * x.sum(), x + 1))

    def work(number: int) -> None:
        x, w = ad.full((5, 4), 1.0 + number), ad.full((4, 3), 0.1)
        want = ((x @ w).tanh() * x.sum()).tolist(), (x + 1).tolist()
        for _ in range(CALLS):
            product, after = compiled(x, w)
            assert after.tolist() == want[1]
            assert product.tolist() == [[pytest.approx(v, rel=1e-6) for v in row] for row in want[0]]

    in_threads(work)
    assert compiled.compilations == 1


@pytest.mark.parametrize(("dynamic", "compilations"), [(False, 4), (None, 2)])
def test_threads_with_shapes_of_their_own(dynamic: bool | None, compilations: int) -> None:
    compiled = ad.compile(lambda x: (x * 2).cumsum(0) - x.mean(), dynamic=dynamic)
    compiled._sizes = BatchSizes(clock=lambda: 0.0)  # nothing takes time: each size is compiled when it comes again

    def work(number: int) -> None:
        x = ad.arange(3.0 + number % 4) + number
        want = ((x * 2).cumsum(0) - x.mean()).tolist()
        for _ in range(CALLS):
            assert compiled(x).tolist() == pytest.approx(want, rel=1e-6)

    in_threads(work)
    assert compiled.compilations == compilations


def test_sizes_that_wait_for_their_turn_share_the_program_made_meanwhile() -> None:
    compiled = ad.compile(lambda x: (x * 2).cumsum(0))
    compiled(ad.arange(3.0))
    waiting = ad.arange(5.0)
    key, _ = compiled.integers.make_key(*pytree.flatten(((waiting,), {})))
    compiled._programs[key] = Signature()  # as a thread leaves it which waits for another's trace
    compiled(ad.arange(4.0))
    compiled(ad.arange(3.0))  # the latest program, which every call tries first, is for another size
    assert compiled(waiting).tolist() == [0.0, 2.0, 6.0, 12.0, 20.0]
    assert list(compiled.sizes) == [3, 4]  # there was a program for it
    assert compiled.compilations == 2


def test_no_write_to_shared_state_is_lost() -> None:
    total, calls = ad.zeros(1000), ad.zeros(())

    @ad.compile
    def add(x: Any) -> Any:
        total.add_(x)
        calls.add_(1.0)
        return x * 2

    def work(number: int) -> None:
        x = ad.full((1000,), float(number))
        for _ in range(CALLS):
            assert add(x)[0].item() == 2.0 * number

    in_threads(work)
    assert calls.item() == THREADS * CALLS
    assert set(total.tolist()) == {CALLS * sum(range(THREADS))}


def test_training_steps_of_many_threads_are_steps_one_after_another() -> None:
    x, y = ad.ones(6, 5), ad.tensor([0, 1, 2, 0, 1, 2])

    def trained(in_turn: bool) -> list[float]:
        ad.manual_seed(0)
        model = nn.Sequential(nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, 3))

        @ad.compile
        def step(x: Any, y: Any) -> Any:
            for p in model.parameters():
                p.grad = None
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            with ad.no_grad():
                for p in model.parameters():
                    p -= 0.1 * p.grad
            return loss

        def work(number: int) -> None:
            for _ in range(CALLS):
                step(x, y)

        if in_turn:
            for i in range(THREADS):
                work(i)
        else:
            in_threads(work)
        return [v for p in model.parameters() for v in p.reshape(-1).tolist()]

    assert trained(in_turn=False) == trained(in_turn=True)
