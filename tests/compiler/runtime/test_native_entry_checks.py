"""Checks of values, such as class labels, run among the kernels of a native call; what they refuse leaves no trace."""

from __future__ import annotations

import re
from typing import Any

import pytest

import adjoint as ad
import adjoint.nn.functional as F

pytest.importorskip("llvmlite")


def native_calls(compiled: Any) -> int:
    return len(re.findall(r"\bsegment_\d+\(", compiled._latest.program.source))


def test_a_step_with_labels_is_one_native_call() -> None:
    w, calls = ad.full((1, 3), 0.5, requires_grad=True), ad.zeros(())

    @ad.compile
    def step(x: Any, y: Any) -> Any:
        w.grad = None
        calls.add_(1.0)
        loss = F.cross_entropy(x * w, y)
        loss.backward()
        with ad.no_grad():
            w.sub_(w.grad)
        return loss

    x = ad.ones(2, 3)
    step(x, ad.tensor([0, 2]))
    assert native_calls(step) == 1
    before = w.tolist(), w._version
    for k, bad in enumerate((3, -1), 2):
        with pytest.raises(IndexError, match=f"Target {bad} is out of bounds"):
            step(x, ad.tensor([0, bad]))
        assert (w.tolist(), w._version) == before
        assert (w.grad, calls.item()) == (None, k)  # as the eager step leaves it
    step(x, ad.tensor([1, 1]))
    assert calls.item() == 4.0
    assert step.compilations == 1


def test_of_several_checks_the_first_that_fails_raises() -> None:
    compiled = ad.compile(lambda i, j: F.one_hot(i, 3).sum(0) + F.one_hot(j, 4).sum(0)[1:])
    assert compiled(ad.tensor([0, 1, 2]), ad.tensor([0, 3, 3])).tolist() == [1, 1, 3]
    assert native_calls(compiled) == 1
    for i, j, bad in (([0, 1, 5], [0, 1, 2], 5), ([0, 1, 2], [0, -7, 2], -7), ([0, 9, 2], [8, 1, 2], 9)):
        with pytest.raises(RuntimeError, match=f"smaller than num_classes, but got {bad}"):
            compiled(ad.tensor(i), ad.tensor(j))
    assert compiled(ad.tensor([0, 1, 2]), ad.tensor([0, 3, 3])).tolist() == [1, 1, 3]
    assert compiled.compilations == 1
