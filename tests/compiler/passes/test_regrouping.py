"""Groups that take in the copies they read are those that would be found anew."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite")

from tests.compiler.kernels.test_lowerings import PROGRAMS, X, compile_with_gradients, differ_in_a_shape, normalize_rows

import adjoint as ad
import adjoint.nn.functional as F
from adjoint import nn
from adjoint.compiler.passes import inline_producers
from adjoint.compiler.passes.cost_model import bytes_read, bytes_written
from adjoint.compiler.program.program import Program

CELL, GRU = nn.LSTMCell(4, 16), nn.GRUCell(4, 4)


def run_lstm(x: Any, xs: Any, w: Any, b: Any) -> Any:
    h = c = ad.zeros(8, 16)
    for t in range(6):
        h, c = CELL(xs[:, t] + x, (h, c))
    return h


def run_gru(x: Any, xs: Any, w: Any, b: Any) -> Any:
    for t in range(6):
        x = GRU(xs[:, t], x)
    return x


def pass_through_gates(x: Any, xs: Any, w: Any, b: Any) -> Any:
    for t in range(5):
        x = F.dropout(F.relu(x @ w), 0.5, training=False) * (x > 0) + F.hardtanh(x @ w + b) * xs[:, t].abs()
    return x


def fold_what_is_cheap(x: Any, xs: Any, w: Any, b: Any) -> Any:
    for t in range(5):
        scaled = (x - xs[:, t]) * (x > b)
        x = (scaled - scaled.mean(1, keepdim=True)) @ w + scaled.reshape(4, 8).t() + scaled.sum(0)
    return x


def draw_numbers(x: Any, xs: Any, w: Any, b: Any) -> Any:
    for _ in range(4):
        x = F.dropout(x @ w, 0.5) * (1 - x * x) + ad.rand(8, 4)
    return x


def recompute(x: Any, xs: Any, w: Any, b: Any) -> Any:
    for _ in range(4):
        x = ad.utils.checkpoint.checkpoint(lambda x: F.relu((x @ w).tanh() - b) * x, x, use_reentrant=False)
    return x


BETTER = [differ_in_a_shape, normalize_rows, fold_what_is_cheap]  # where anew, copies would be in the way of joining
OTHERS = [run_lstm, run_gru, pass_through_gates, fold_what_is_cheap, draw_numbers, recompute]


def compile_one(function: Callable[..., Any], minimum: int) -> tuple[Program, list[Any], bool]:
    """The program of a loop of so many equations or more, its results, and whether groups were sought once."""
    found = []
    inline = inline_producers.inline_producers
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("adjoint.compiler.cache.plan_cache.default_disk_cache", lambda: None)
        patch.setattr(inline_producers, "MIN_EQUATIONS_TO_REGROUP", minimum)
        patch.setattr(
            "adjoint.compiler.pipeline.inline_producers", lambda *given: (found.append(inline(*given)), found[-1])[1]
        )
        ad.manual_seed(0)
        CELL.zero_grad()
        GRU.zero_grad()
        compiled, _ = compile_with_gradients(function)
        results = compiled(X)
    return compiled._program(), results, found[-1].fusion is not None


@pytest.mark.parametrize("function", [*PROGRAMS, *OTHERS])
def test_groups_are_as_good_as_those_that_would_be_found_anew(function: Callable[..., Any]) -> None:
    (kept, results, _), (anew, wanted, _) = (compile_one(function, minimum) for minimum in (0, 1 << 30))
    for x, y in zip(results, wanted, strict=True):
        np.testing.assert_array_equal(x.numpy(), y.numpy())
    assert len(kept.kernels) <= len(anew.kernels)
    one_value = 128  # bytes; in another order of the groups, a value may find no place between others
    assert kept.binding.plan.size <= anew.binding.plan.size + (one_value if function in BETTER else 0)
    assert count_bytes(kept) <= 1.001 * count_bytes(anew)
    if function not in BETTER:
        assert [kernel.name for kernel in kept.kernels.values()] == [kernel.name for kernel in anew.kernels.values()]
        assert [group.reason for group in kept.fusion.order] == [group.reason for group in anew.fusion.order]


def count_bytes(program: Program) -> int:
    """The bytes that all groups of a program read and write."""
    fusion = program.fusion
    return sum(bytes_read(group, fusion) + bytes_written(group) for group in fusion.order)


def test_a_loop_of_products_is_grouped_once() -> None:
    assert compile_one(PROGRAMS[0], 0)[2]
    assert not compile_one(PROGRAMS[0], 1 << 30)[2]


def test_where_nothing_is_copied_the_groups_are_kept() -> None:
    def double(x: Any, xs: Any, w: Any, b: Any) -> Any:
        return x * 2

    assert compile_one(double, 1 << 30)[2]
