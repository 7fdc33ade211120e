"""Groups that are alike are lowered once: to the kernels that each would have by itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite")

import adjoint as ad
import adjoint.nn.functional as F
from adjoint.compiler.kernels import lowerings
from adjoint.compiler.llvm.jit.target import host

STEPS = 24
X, XS, W, B = ad.randn(8, 4), ad.randn(8, STEPS, 4), ad.randn(4, 4), ad.randn(4)


def take_steps(x: Any, xs: Any, w: Any, b: Any) -> Any:
    for t in range(STEPS):
        x = x + 0.1 * (x @ w + b).tanh() * xs[:, t]
    return x


def differ_in_a_constant(x: Any, xs: Any, w: Any, b: Any) -> Any:
    for t in range(STEPS):
        x = x + (0.1 if t % 3 else -0.0 if t % 2 else 0.0) * (x @ w).sin() + t
    return x


def differ_in_a_shape(x: Any, xs: Any, w: Any, b: Any) -> Any:
    return ad.cat([(xs[: 1 + t % 4, t] @ w).tanh().sum(0, keepdim=True) for t in range(STEPS)])


def read_two_times(x: Any, xs: Any, w: Any, b: Any) -> Any:
    for t in range(STEPS - 5):  # the two places are the same one, the first one, or apart
        x = x + xs[:, t] * xs[:, t if t % 2 else 0] - xs[:, t % 4].exp() * xs[:, t + 5]
    return x


def read_what_is_turned(x: Any, xs: Any, w: Any, b: Any) -> Any:
    for t in range(STEPS):
        x = (x + w.t()[t % 4]) @ (w if t % 2 else w.t()) * 0.3 + xs[:, t].t().flip(1 if t % 3 else 0).t()
    return x


def differ_in_what_is_kept(x: Any, xs: Any, w: Any, b: Any) -> Any:
    kept = []
    for t in range(STEPS):
        h = (x @ w + b).tanh()
        x = x + 0.5 * h
        kept += [h] if t % 5 == 0 else []
    return ad.stack([*kept, x])


def normalize_rows(x: Any, xs: Any, w: Any, b: Any) -> Any:
    for t in range(STEPS):
        x = F.layer_norm(x + xs[:, t], (4,), b if t % 2 else None).softmax(-1 if t % 3 else 0)
    return x


def add_what_is_made(x: Any, xs: Any, w: Any, b: Any) -> Any:
    for t in range(STEPS):
        x = x * 0.9 + ad.full((8, 4), float(t % 3)) * ad.arange(4) + ad.arange(t % 2, 4 + t % 2)
    return x


def write_each_turn(x: Any, xs: Any, w: Any, b: Any) -> Any:
    out = ad.zeros(8, STEPS, 4) * w[0]
    for t in range(STEPS):
        x = x + 0.1 * (x @ w)
        out[:, t] = x
        out[2:5, t, 1:3] += xs[2:5, (t * 7) % STEPS, :2]
    return out


def write_at_positions(x: Any, xs: Any, w: Any, b: Any) -> Any:
    rows, total = ad.tensor([3, 1, 3]), x * b
    for t in range(STEPS):
        total = total.index_add(0, rows, xs[rows, t]) + F.pad(xs[1:, t, 1:3], (t % 3, 2 - t % 3, 1, 0))
    return total


def join_what_is_cut(x: Any, xs: Any, w: Any, b: Any) -> Any:
    return ad.cat([ad.cat([xs[:, t], xs[:, t // 2], xs[:, -1 - t]], 1) @ w.tile(3, 1) for t in range(STEPS)], 1)


def run_in_other_types(x: Any, xs: Any, w: Any, b: Any) -> Any:
    total = x.double()
    for t in range(STEPS):
        total = total + (x @ w).to(ad.float64 if t % 2 else ad.float32) * (xs[:, t] > 0)
    return total


PROGRAMS: list[Callable[..., Any]] = [
    take_steps, differ_in_a_constant, differ_in_a_shape, read_two_times, read_what_is_turned, differ_in_what_is_kept,
    normalize_rows, add_what_is_made, run_in_other_types, write_each_turn, write_at_positions, join_what_is_cut,
]  # fmt: skip


def compile_with_gradients(function: Callable[..., Any], precision: str = "highest") -> tuple[Any, Callable[..., Any]]:
    """A compiled training step of a loop, and the step itself."""
    leaves = [v.detach().clone().requires_grad_() for v in (X, XS, W, B)]

    def step(x: Any) -> Any:
        for leaf in leaves:
            leaf.grad = None
        out = function(x * leaves[0], *leaves[1:])
        out.square().mean().backward()
        return [out.detach(), *(leaf.grad.clone() for leaf in leaves if leaf.grad is not None)]

    return ad.compile(step), step


@pytest.mark.parametrize("function", PROGRAMS)
def test_kernels_of_groups_that_are_alike_are_those_of_each_alone(function: Callable[..., Any]) -> None:
    compiled, step = compile_with_gradients(function)
    for _ in range(2):
        for found, wanted in zip(compiled(X), step(X), strict=True):
            np.testing.assert_allclose(found.numpy(), wanted.numpy(), rtol=2e-4, atol=1e-5)
    program = compiled._program()
    for group, kernel in lowerings.lower_all(program.fusion, host()).items():
        alone = lowerings.lower_group(group, program.fusion, host(), {})
        for name in ("name", "tiles", "scratch"):
            assert getattr(kernel, name) == getattr(alone, name)
        assert kernel.arguments == alone.arguments
        assert [*kernel.numbers] == [*alone.numbers]


@pytest.mark.parametrize("function", [take_steps, write_each_turn, write_at_positions, join_what_is_cut])
def test_turns_that_differ_in_a_place_alone_share_their_code(function: Callable[..., Any]) -> None:
    def count_codes(steps: int) -> int:
        with pytest.MonkeyPatch.context() as patch:
            patch.setitem(globals(), "STEPS", steps)
            compiled, _ = compile_with_gradients(function)
            compiled(X)
        return len({kernel.name for kernel in compiled._program().kernels.values()})

    assert count_codes(23) <= count_codes(17) + 2


def test_a_loop_has_kernels_for_its_first_turns_alone() -> None:
    calls = []
    lower = lowerings.lower_group
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("adjoint.compiler.cache.plan_cache.default_disk_cache", lambda: None)  # which may have the plan
        patch.setattr(lowerings, "lower_group", lambda group, *given: calls.append(group) or lower(group, *given))
        compiled, _ = compile_with_gradients(take_steps)
        compiled(X)
    assert len(compiled._program().kernels) > 3 * STEPS
    assert len([group for group in calls if group.equations[0].op.name == "mm"]) < STEPS // 2
