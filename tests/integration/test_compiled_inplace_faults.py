"""A value that backward needs is written before backward, inside of a compiled step: the error of the eager program.

Every way to save a value × every alias through which it is written × every write × every place of the write, drawn at
random: compiled and eager raise the same error, or give the same numbers.
"""

from __future__ import annotations

import itertools
import random
import warnings
from collections.abc import Callable
from typing import Any

import pytest

import adjoint as ad

pytest.importorskip("llvmlite")


class Doubled(ad.autograd.Function):
    """2 v², which keeps its input."""

    @staticmethod
    def forward(ctx: Any, v: Any) -> Any:
        ctx.save_for_backward(v)
        return 2 * v * v

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (v,) = ctx.saved_tensors
        return 4 * v * g


MAKES: dict[str, Callable[[Any, Any], Any]] = {
    "product": lambda x, w: x * w,
    "exp": lambda x, w: (x * w).exp(),
    "clone": lambda x, w: w.clone(),
    "sum": lambda x, w: w + x,
    "strided": lambda x, w: (x * w).view(2, 2).t() * 2,
}
SEEN: dict[str, Callable[[Any], Any]] = {
    "itself": lambda h: h,
    "view": lambda h: h.view(2, 2) if h.is_contiguous() else h.view(h.shape),
    "part": lambda h: h[:2],
    "transposed": lambda h: h.t(),
    "element": lambda h: h[1],
    "every second": lambda h: h[::2],
    "reshaped": lambda h: h.reshape(4, 1),
    "expanded": lambda h: h.unsqueeze(0).expand(2, *h.shape),
    "diagonal": lambda h: h.reshape(2, 2).diagonal(),
    "windows": lambda h: h.reshape(-1).unfold(0, 2, 1),
    "split": lambda h: h.split(1)[0],
    "copied": lambda h: h.clone()[:1],
}
WRITTEN: dict[str, Callable[[Any], Any]] = {
    "itself": lambda h: h,
    "part": lambda h: h[:1],
    "rest": lambda h: h[1:],
    "detached": lambda h: h.detach(),
    "data": lambda h: h.data,
    "detached part": lambda h: h.detach()[:1],
    "detached rest": lambda h: h.detach()[1:],
    "part of data": lambda h: h.data.reshape(-1)[-1:],
    "view": lambda h: h.view(h.shape),
}
USES: dict[str, Callable[[Any], Any]] = {
    "square": lambda v: v * v,
    "exp": lambda v: v.exp(),
    "sin": lambda v: v.sin(),
    "plus": lambda v: v + 1,
    "times": lambda v: v * 2,
    "tanh": lambda v: v.tanh(),
    "outer": lambda v: v.reshape(-1, 1) @ v.reshape(1, -1),
    "max": lambda v: v.reshape(-1).max(0).values,
    "cumsum": lambda v: v.reshape(-1).cumsum(0),
    "prod": lambda v: v.prod(),
    "picked": lambda v: v.reshape(-1)[ad.tensor([0, 0])] * v.reshape(-1)[0],
    "softmax": lambda v: v.reshape(-1).softmax(0),
    "function": lambda v: Doubled.apply(v),
}
WRITES: dict[str, Callable[[Any], Any]] = {
    "add_": lambda t: t.add_(1),
    "zero_": lambda t: t.zero_(),
    "mul_": lambda t: t.mul_(2),
    "exp_": lambda t: t.exp_(),
    "copy_": lambda t: t.copy_(t * 2),
    "item": lambda t: t.__setitem__(..., 3.0),
    "without recording": lambda t: ad.no_grad()(lambda: t.mul_(3))(),
    "twice": lambda t: (t.add_(1), t.detach().reshape(-1)[:1].zero_()),
}
PLACES = ("input", "output", "both", "before")
ALL = list(itertools.product(MAKES, SEEN, WRITTEN, USES, WRITES, PLACES, (False, True)))
EACH = 60


def write_step(case: tuple[Any, ...]) -> Callable[[Any, Any], Any]:
    make, seen, written, use, write, place, is_outside = case

    def step(x: Any, w: Any) -> Any:
        h = MAKES[make](x, w)
        if place == "before":
            WRITES[write](WRITTEN[written](h))
        y = USES[use](SEEN[seen](h))
        for target in {"input": [h], "output": [y], "both": [h, y], "before": []}[place]:
            WRITES[write](WRITTEN[written](target) if target.ndim else target)
        loss = y.sum() + h.sum()
        if is_outside:
            return loss
        loss.backward()
        return loss.detach()

    return step


def run(step: Callable[[Any, Any], Any], is_outside: bool) -> Any:
    w = ad.tensor([0.5, -1.0, 2.0, 1.5], requires_grad=True, dtype=ad.float64)
    x = ad.tensor([1.0, 2.0, 0.5, -0.3], dtype=ad.float64)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            loss = step(x, w)
            if is_outside:
                loss.backward()
    except (RuntimeError, IndexError) as error:
        return f"{type(error).__name__}: {str(error)[:60]}"
    return [pytest.approx(v, rel=1e-6) for v in (loss.item(), *w.grad.tolist())]


def fault(case: tuple[Any, ...]) -> str | None:
    step = write_step(case)
    eager, compiled = run(step, case[-1]), run(ad.compile(step), case[-1])
    return None if eager == compiled else f"{case}: eager {eager}, compiled {compiled}"


@pytest.mark.sweep(5)
@pytest.mark.parametrize("seed", range(10))
def test_faults(seed: int) -> None:
    faults = filter(None, map(fault, random.Random(seed).sample(ALL, EACH)))
    assert list(faults) == []


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(10, 210))
def test_more_faults(seed: int) -> None:
    test_faults(seed)


def test_the_error_names_both_lines() -> None:
    @ad.compile
    def step(w: Any) -> Any:
        h = w * 2
        y = h[:2].sin()
        h[2:].add_(1)
        y.sum().backward()
        return y

    with pytest.raises(RuntimeError, match=r"modified by an inplace operation.*SinBackward0 saved at.*written at"):
        step(ad.ones(4, requires_grad=True))
