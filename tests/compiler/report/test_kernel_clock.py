"""The clock of a program: spans of its kernels by thread, and the program as it was afterwards."""

from itertools import pairwise

import numpy as np
import pytest

import adjoint as ad
from adjoint.compiler.report.kernel_clock import KernelClock, KernelSpan, clock_address

pytestmark = pytest.mark.skipif(not clock_address(), reason="no clock that kernels can read")


@pytest.mark.parametrize("threads", [1, 2])
def test_each_kernel_has_its_tiles_in_order_within_the_call(threads: int) -> None:
    before = ad.get_num_threads()
    ad.set_num_threads(threads)
    try:
        w = ad.randn(256, 256)

        @ad.compile
        def step(x: ad.Tensor) -> ad.Tensor:
            return ((x @ w).relu() @ w).softmax(1)

        x = ad.randn(512, 256)
        expected = step(x).numpy().copy()
        program = step._program()
        calls: list[list[KernelSpan]] = []
        clock = KernelClock(program, lambda _, spans: calls.append(spans))
        clock.install()
        np.testing.assert_array_equal(step(x).numpy(), expected)
        clock.remove()
        spans = [span for call in calls for span in call]
        for number, group in enumerate(program.fusion.order):
            found = [span for span in spans if span.entry == number]
            assert sum(span.tiles for span in found) == max(1, program.kernels[group].tiles)
            assert len({span.thread for span in found}) == len(found)
        for thread in {span.thread for span in spans}:
            own = [span for span in spans if span.thread == thread]
            assert all(a.end <= b.begin for a, b in pairwise(own))
            assert all(span.begin <= span.end for span in own)
        step(x)
        assert len(calls) == len(program.native_calls)
        assert not any(program.names[name] is call for name, call in clock.timed.items())
    finally:
        ad.set_num_threads(before)


def test_numpy_calls_have_spans_too() -> None:
    @ad.compile
    def step(x: ad.Tensor) -> ad.Tensor:
        return ad.linalg.qr(x)[1] + 1

    x = ad.eye(4) * 2
    step(x)
    program, spans = step._program(), list[KernelSpan]()
    clock = KernelClock(program, lambda _, found: spans.extend(found))
    clock.install()
    step(x)
    clock.remove()
    assert {span.entry for span in spans} == set(range(len(program.fusion.order)))
