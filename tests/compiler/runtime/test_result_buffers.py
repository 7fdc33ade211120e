"""Memory of large results comes back when nobody holds it, and never while somebody does."""

from __future__ import annotations

import gc

import numpy as np
import pytest

import adjoint as ad
from adjoint.compiler.runtime.result_buffers import MAX_ARRAYS_PER_RESULT, MIN_REUSED_BYTES

pytest.importorskip("llvmlite")
COUNT = MIN_REUSED_BYTES // 4


def address(tensor: ad.Tensor) -> int:
    return tensor.data_ptr()


def test_a_loop_that_holds_the_last_result_takes_two_memories_in_turn() -> None:
    double = ad.compile(lambda x: x * 2)
    seen = []
    for i in range(6):
        out = double(ad.full((COUNT,), float(i)))
        assert out[7].item() == 2.0 * i
        seen.append(address(out))
    assert len(set(seen)) == MAX_ARRAYS_PER_RESULT


def test_what_is_held_is_never_written_again() -> None:
    double = ad.compile(lambda x: x * 2)
    held = [double(ad.full((COUNT,), float(i))) for i in range(5)]
    views = [double(ad.full((COUNT,), float(i)))[3:5] for i in range(5)]
    arrays = [double(ad.full((COUNT,), float(i))).numpy() for i in range(5)]
    pieces = [double(ad.full((COUNT,), float(i))).numpy()[3:5] for i in range(5)]
    gc.collect()
    for i in range(5):
        assert {x[4 if len(x) > 2 else 1].item() for x in (held[i], views[i], arrays[i], pieces[i])} == {2.0 * i}


def test_a_result_that_was_written_keeps_its_memory() -> None:
    double = ad.compile(lambda x: x * 2)
    out = double(ad.ones(COUNT))
    out.add_(1)
    assert out._version == 1
    used = address(out)
    del out
    for _ in range(3):
        fresh = double(ad.ones(COUNT))
        assert fresh._version == 0
        assert address(fresh) != used or np.all(fresh.numpy() == 2)


def test_what_backward_needs_is_kept_until_it_has_run() -> None:
    square = ad.compile(lambda x: ad.exp(x))
    x = ad.zeros(COUNT, requires_grad=True)
    first = square(x)
    for _ in range(3):
        square(ad.ones(COUNT, requires_grad=True))
    first.sum().backward()
    assert x.grad[5].item() == 1.0
