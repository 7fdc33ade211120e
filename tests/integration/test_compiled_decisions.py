"""Steps whose Python asks for values: compiled as eager, in numbers, in Python's side effects, and in exceptions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint as ad
import adjoint.nn.functional as F
from adjoint import nn, optim

pytest.importorskip("llvmlite")

CALLS = 50


class Loop:
    """A model, an optimizer, and what a step leaves in Python."""

    def __init__(self, lr: float = 0.05) -> None:
        ad.manual_seed(0)
        self.model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))
        self.optimizer = optim.Adam(self.model.parameters(), lr=lr)
        self.seen: list[Any] = []
        self.best = 1e9
        self.waited = self.skipped = self.count = 0

    def loss(self, x: Any, y: Any) -> Any:
        self.optimizer.zero_grad()
        loss = F.cross_entropy(self.model(x), y)
        loss.backward()
        return loss


def step_if_finite(a: Loop, x: Any, y: Any) -> Any:
    loss = a.loss(x, y)
    norm = nn.utils.clip_grad_norm_(a.model.parameters(), 1.0)
    if ad.isfinite(norm):
        a.optimizer.step()
    else:
        a.skipped += 1
    return loss


def stop_early(a: Loop, x: Any, y: Any) -> Any:
    loss = a.loss(x, y)
    a.optimizer.step()
    if loss.item() < a.best:
        a.best, a.waited = loss.item(), 0
    else:
        a.waited += 1
    return loss, a.waited > 3


def keep_the_best(a: Loop, x: Any, y: Any) -> Any:
    loss = a.loss(x, y)
    a.optimizer.step()
    if loss < a.best:
        a.best = loss.item()
        a.seen.append(a.model[0].bias.detach().clone())
    return loss


def branch_before_backward(a: Loop, x: Any, y: Any) -> Any:
    a.optimizer.zero_grad()
    logits = a.model(x)
    loss = F.cross_entropy(logits, y)
    if (logits.argmax(1) == y).sum().item() > 5:
        loss = loss * 0.5
    loss.backward()
    a.optimizer.step()
    return loss


def iterate_until_small(a: Loop, x: Any, y: Any) -> Any:
    root = x.abs().mean() + 1
    for _ in range(20):
        change = (root * root - 2) / (2 * root)
        root = root - change
        a.count += 1
        if change.abs() < 1e-3:
            break
    return root


def shrink_while_large(a: Loop, x: Any, y: Any) -> Any:
    total = x.square().sum()
    while total > 10:
        total = total / 2
    return total


def catch_division(a: Loop, x: Any, y: Any) -> Any:
    hits = (x[0] > 1).sum().item()
    try:
        share = 6 / hits
    except ZeroDivisionError as error:
        a.seen.append(str(error))
        share = -1.0
    return x * share


def drop_out_and_decide(a: Loop, x: Any, y: Any) -> Any:
    dropped = F.dropout(x, 0.5)
    noise = ad.randn(8, 6)
    if dropped.sum() > 0:
        return dropped + noise
    return dropped - noise * ad.rand(1)


def choose_by_index(a: Loop, x: Any, y: Any) -> Any:
    layers = [lambda v: v * 2, lambda v: v - 1, lambda v: v.tanh()]
    return layers[int(y[0])](x) + layers[y[1].item()](x)


def decide_twice(a: Loop, x: Any, y: Any) -> Any:
    loss = a.loss(x, y)
    if loss > 1.05:
        a.optimizer.step()
        if F.cross_entropy(a.model(x), y).item() > 1.0:
            a.optimizer.step()
            a.seen.append("twice")
    return loss


def mean_of_items(a: Loop, x: Any, y: Any) -> Any:
    loss = a.loss(x, y)
    a.optimizer.step()
    a.best = 0.9 * a.best + 0.1 * loss.item()
    return x * (loss.item() * 2 + 1)


HABITS: list[Callable[[Loop, Any, Any], Any]] = [
    step_if_finite, stop_early, keep_the_best, branch_before_backward, iterate_until_small, shrink_while_large,
    catch_division, drop_out_and_decide, choose_by_index, decide_twice, mean_of_items,
]  # fmt: skip


def batches(count: int = CALLS) -> list[tuple[Any, Any]]:
    ad.manual_seed(3)
    made = [(ad.randn(8, 6), ad.randint(0, 3, (8,))) for _ in range(count)]
    made[count // 3] = (made[count // 3][0] * float("inf"), made[count // 3][1])
    return made


def run(step: Callable[..., Any], compiles: bool, data: list[tuple[Any, Any]]) -> tuple[list[Any], Loop, Any]:
    loop = Loop()
    call: Any = lambda x, y: step(loop, x, y)  # noqa: E731  a step of its own for each way
    call = ad.compile(call) if compiles else call
    ad.manual_seed(5)
    return [call(x, y) for x, y in data], loop, call


def assert_alike(a: Any, b: Any, rtol: float = 2e-5) -> None:
    if isinstance(a, ad.Tensor):
        np.testing.assert_allclose(b.detach().numpy(), a.detach().numpy(), rtol=rtol, atol=1e-6)
    elif isinstance(a, (tuple, list)):
        assert len(a) == len(b)
        for x, y in zip(a, b, strict=True):
            assert_alike(x, y, rtol)
    elif isinstance(a, float):
        np.testing.assert_allclose(b, a, rtol=rtol)
    else:
        assert a == b


@pytest.mark.parametrize("step", HABITS, ids=lambda f: f.__name__)
def test_a_step_that_asks_for_values_does_as_eagerly(step: Callable[..., Any]) -> None:
    data = batches()
    if step in (iterate_until_small, shrink_while_large, catch_division, branch_before_backward, mean_of_items):
        data.pop(CALLS // 3)
    expected, eager, _ = run(step, False, data)
    found, loop, compiled = run(step, True, data)
    assert_alike(expected, found)
    for name in ("seen", "best", "waited", "skipped", "count"):
        assert_alike(getattr(eager, name), getattr(loop, name))
    for p, q in zip(eager.model.parameters(), loop.model.parameters(), strict=True):
        np.testing.assert_allclose(q.detach().numpy(), p.detach().numpy(), rtol=1e-4, atol=1e-6)
        assert (p.grad is None) is (q.grad is None)
    assert 1 <= compiled.compilations < CALLS // 2


def test_the_backward_outside_of_a_step_that_decides() -> None:
    w = ad.tensor([1.0, -2.0, 3.0], requires_grad=True)

    def forward(x: Any) -> Any:
        h = (x * w).tanh()
        return h.square().sum() if h.sum() > 0 else (h * w).sum()

    compiled = ad.compile(forward)
    for x in (ad.ones(3), -ad.ones(3), ad.ones(3) * 2):
        gradients = []
        for f in (forward, compiled):
            w.grad = None
            f(x).backward()
            first = w.grad
            (g,) = ad.autograd.grad(f(x), w, create_graph=True)
            (second,) = ad.autograd.grad(g.sum(), w)
            gradients.append((first, second))
        assert_alike(*gradients)
    assert compiled.compilations == 2


def test_an_exception_in_the_middle_leaves_what_eager_code_leaves() -> None:
    def step(a: Loop, x: Any, y: Any) -> Any:
        loss = a.loss(x, y)
        a.seen.append(loss.item())
        if not ad.isfinite(loss):
            raise FloatingPointError("diverged")
        a.optimizer.step()
        a.count += 1
        return loss

    outcomes = []
    for compiles in (False, True):
        loop = Loop()
        call: Any = lambda x, y, loop=loop: step(loop, x, y)  # noqa: E731
        call = ad.compile(call) if compiles else call
        results = []
        for x, y in batches(12):
            try:
                results.append(call(x, y).item())
            except FloatingPointError as error:
                results.append(str(error))
        outcomes.append([results, loop.seen, loop.count, [p.grad for p in loop.model.parameters()]])
    assert_alike(*outcomes)


def test_past_many_branches_a_step_runs_eagerly() -> None:
    called = []

    def step(x: Any) -> Any:
        called.append(x.sum().item())
        return x * range(1000)[int(x.sum())]

    compiled = ad.compile(step)
    for n in range(40):
        assert compiled(ad.full((2,), float(n))).tolist() == [2.0 * n * n] * 2
    assert compiled.compilations <= 32
    assert called == [2.0 * n for n in range(40)]


def test_ways_as_many_as_calls_are_not_all_compiled() -> None:
    """A line search goes another way in each call; a mask has another size: few programs, and the eager numbers."""

    def case(wrap: Callable[[Any], Any]) -> tuple[list[float], Any]:
        ad.manual_seed(0)
        model = nn.Linear(4, 3)
        optimizer = optim.LBFGS(model.parameters(), max_iter=3, line_search_fn="strong_wolfe")
        x, y = ad.randn(32, 4), ad.arange(32) % 3

        def step(x: Any, y: Any) -> Any:
            def closure() -> Any:
                optimizer.zero_grad()
                loss = F.cross_entropy(model(x), y)
                loss.backward()
                return loss

            return optimizer.step(closure)

        run = wrap(step)
        return [run(x, y).item() for _ in range(12)], run

    eager, (compiled, step) = case(lambda step: step)[0], case(ad.compile)
    assert compiled == pytest.approx(eager, rel=1e-4)
    assert step.compilations <= 4

    masked = ad.compile(lambda x: x[x > 0].sum() * 2)
    numbers = ad.randn(40, 100)
    for row in numbers:
        assert masked(row).item() == pytest.approx((row[row > 0].sum() * 2).item(), rel=1e-5)
    assert masked.compilations <= 6


def test_the_less_of_numbers_known_late_is_no_decision() -> None:
    weights = ad.tensor([1.0, 2.0])
    losses = [3.0, 5.0, 1.0, -2.0, float("nan"), 7.0, -2.0]

    class Seen:
        best, worst = float("inf"), -1.0

    def step(x: Any, best: float) -> Any:
        loss = (x * weights).sum()
        Seen.best, Seen.worst = min(Seen.best, loss.item()), max(loss.item(), Seen.worst)
        return min(best, loss.item(), 100.0), max(x.shape[0], 1), min([3.0, best])

    def run(function: Callable[..., Any]) -> list[str]:
        Seen.best, Seen.worst, best, found = float("inf"), -1.0, float("inf"), []
        for loss in losses:
            best, *others = function(ad.tensor([loss, 0.0]), best)
            found.append(repr((best, *others, Seen.best, Seen.worst)))
        return found

    compiled = ad.compile(step, fallback=False)
    assert run(compiled) == run(step)
    assert not any("the answer to" in str(each) for each in compiled.recompilations)


def test_the_less_of_an_int_and_a_float_has_the_type_of_the_less() -> None:
    def step(x: Any) -> Any:
        return min(x.sum().item(), 2)

    compiled = ad.compile(step, fallback=False)
    for value in (1.0, 3.0, 1.5, 4.0):
        assert repr(compiled(ad.tensor([value]))) == repr(step(ad.tensor([value])))


def test_a_step_of_one_size_decides_and_of_another_does_not() -> None:
    taken = []

    def step(x: Any) -> Any:
        total = (x * 2).sum()
        if len(x) == 3 and total.item() > 1:
            taken.append(total.item())
        return total

    compiled = ad.compile(step, dynamic=False, fallback=False)
    for _ in range(10):
        assert (compiled(ad.ones(3)).item(), compiled(ad.ones(4)).item()) == (6.0, 8.0)
    assert taken == [6.0] * 10


def test_the_way_of_the_last_call_is_not_begun_for_other_arguments(capsys: pytest.CaptureFixture[str]) -> None:
    def step(x: Any, phase: str) -> Any:
        print(len(x), phase, bool(x.requires_grad))  # noqa: T201  what a call shows
        return (x * 2).sum() if x.sum() > 0 else x.sum()

    compiled = ad.compile(step, dynamic=False, fallback=False)
    calls = [(n, phase, sign) for phase in "aab" for n in (2, 2, 3, 2) for sign in (1, 1, -1)] * 2
    found = [compiled(ad.full((n,), float(sign)), phase).item() for n, phase, sign in calls]
    assert found == [2.0 * n if sign > 0 else -1.0 * n for n, _, sign in calls]
    assert capsys.readouterr().out == "".join(f"{n} {phase} False\n" for n, phase, _ in calls)


def test_numbers_drawn_before_another_way_is_gone_are_drawn_again() -> None:
    def step(x: Any) -> Any:
        noise = ad.rand(3)
        return (x + noise if x.sum() > 0 else x - noise), ad.randn(2)

    def run(function: Callable[..., Any]) -> list[str]:
        ad.manual_seed(7)
        return [repr(function(ad.full((3,), float(sign)))) for sign in (1, 1, 1, -1, -1, 1, -1, 1)]

    assert run(ad.compile(step, fallback=False)) == run(step)
