"""What counts as written: by `data` no more than what was."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.support.checks import raises
from tests.support.scripts import start

import adjoint as ad

REFUSED = "modified by an inplace operation"


def _recorded() -> tuple[Any, Any, Any]:
    kept, b = ad.zeros(1, 2, 6), ad.ones(3, requires_grad=True)
    return kept, b, (kept[..., :3] * b).sum()


@pytest.mark.parametrize("where", [(..., 3), (..., slice(3, 6)), (0, slice(None), 4), (0, 1, 5)])
def test_what_lies_beside_may_be_written_by_data(where: Any) -> None:
    kept, b, y = _recorded()
    kept.data[where] = 1.0
    kept.data[..., 5] = 2.0
    y.backward()
    assert b.grad.tolist() == [0, 0, 0]


@pytest.mark.parametrize("where", [(..., 1), (0,), (..., slice(2, 4)), (0, 1, 0)])
def test_what_was_kept_may_not(where: Any) -> None:
    kept, _, y = _recorded()
    kept.data[where] = 1.0
    kept.data[..., 5] = 2.0
    raises(RuntimeError, REFUSED, y.backward)


@pytest.mark.parametrize("whole_first", [False, True])
def test_writes_of_the_whole_count_beside_those(whole_first: bool) -> None:
    kept, _, y = _recorded()
    if whole_first:
        kept.add_(1)
    kept.data[..., 4] = 1.0
    if not whole_first:
        kept.add_(1)
    raises(RuntimeError, REFUSED, y.backward)


def test_many_parts_count_as_the_whole() -> None:
    kept, b = ad.zeros(200), ad.ones(3, requires_grad=True)
    kept.data[0] = 1.0
    y = (kept[:3] * b).sum()
    for i in range(3, 10):
        kept.data[i] = 1.0
    y.backward(retain_graph=True)
    assert b.grad.tolist() == [1, 0, 0]
    for i in range(10, 200):
        kept.data[i] = 1.0
    raises(RuntimeError, REFUSED, y.backward)


@pytest.mark.needs_processes
def test_arrays_that_are_alive_at_exit_say_nothing(tmp_path: Path) -> None:
    program = """
import adjoint as ad, numpy as np

def slope(x):
    x = x.detach().requires_grad_()
    (1.5**x).sum().backward()
    return x.grad

data = np.ones(1000, "f")
compiled, eager = ad.compile(slope)(ad.from_numpy(data)).numpy(), slope(ad.from_numpy(data)).numpy()
"""
    done = start(tmp_path, "-c", program)
    assert (done.status, done.out, done.error) == (0, "", "")
