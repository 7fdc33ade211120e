"""The loops of kernels as text: loops, places in memory, passes of reductions, kernels of their own kind."""

from __future__ import annotations

from collections.abc import Callable
from inspect import cleandoc
from typing import Any

import numpy as np
import pytest
from tests.support.tracing import fused

import adjoint as ad
from adjoint.compiler.report.loop_text import format_loops

pytest.importorskip("llvmlite")


def loops(function: Callable[..., Any], *shapes: tuple[int, ...]) -> list[str]:
    """The texts of a function's kernels and calls."""
    fusion = fused(function, *(np.ones(shape, np.float32) for shape in shapes))
    names = fusion.graph.names()
    return [format_loops(group, fusion, names) for group in fusion.order]


@pytest.mark.parametrize(
    ("function", "shapes", "expected"),
    [
        (lambda x: x + 1.0, [(2, 3)], """
            for i in range(6):
              %1[i] = add(%0[i], 1.0)"""),
        (lambda x, y: x[:, 1:].T * y, [(2, 3), (2,)], """
            for i in range(2):
              for j in range(2):
                %4[2*i + j] = mul(%0[i + 3*j + 1], %1[j])"""),
        (lambda x: x.sum(), [(4,)], """
            for i in range(4):  # reduced
              %1 = sum of %0[i]
            %1[0] = %1"""),
        (lambda x: x / x.exp().sum(1, keepdim=True), [(2, 3)], """
            for i in range(2):
              for j in range(3):  # reduced, pass 1 of 2
                %1 = exp(%0[3*i + j])
                %2 = sum of %1
              for j in range(3):  # reduced, pass 2 of 2
                %3[3*i + j] = div(%0[3*i + j], %2)"""),
        (lambda x: x.sum(0, dtype=ad.float64), [(3, 2)], """
            for i in range(2):
              for j in range(3):  # reduced
                %1 = cast(%0[i + 2*j], dtype=float64)
                %2 = sum of %1
              %2[i] = %2"""),
        (lambda x: ad.special.bessel_j1(x), [(3,)], "call %1 = bessel_j1(%0)"),
        (lambda x, y: (x @ y).relu(), [(20, 30), (30, 40)], """
            mm kernel over f32[20,40]
              %2 = mm(%0, %1)
              for each element:
                %3 = relu(%2)
              store %3"""),
    ],
)  # fmt: skip
def test_loops_read_as_what_runs(function: Callable[..., Any], shapes: list[tuple[int, ...]], expected: str) -> None:
    assert loops(function, *shapes) == [cleandoc(expected)]


def test_a_concatenation_without_copies_says_so() -> None:
    texts = loops(lambda x: ad.special.bessel_j1(ad.cat([x.exp(), x.neg()])), (16, 4))
    assert "nothing to copy: %3 = cat(%1, %2, axis=0)" in texts
