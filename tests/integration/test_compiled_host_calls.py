# ruff: noqa: T201, UP032  prints and formats are what is to be tried
"""Steps that print, log, read the clock, draw by `random` or look at values: compiled as eager, call for call."""

from __future__ import annotations

import io
import logging
import math
import random
import sys
import time
import warnings
from collections.abc import Callable
from contextlib import redirect_stdout
from functools import lru_cache
from typing import Any

import numpy as np
import pytest

import adjoint as ad
import adjoint.nn.functional as F
from adjoint import nn, optim
from adjoint.amp import GradScaler

pytest.importorskip("llvmlite")

CALLS = 50
LOGGER = logging.getLogger("adjoint.tests.host_calls")


class Bar:
    """A progress bar, as one writes it."""

    def __init__(self) -> None:
        self.count, self.postfix = 0, ""

    def set_postfix(self, **shown: Any) -> None:
        self.postfix = ", ".join([f"{name}={value}" for name, value in shown.items()])

    def update(self) -> None:
        self.count += 1
        sys.stdout.write(f"\r{self.count}: {self.postfix}")


class Pole:
    """An environment: the state of a pole that an action pushes."""

    def __init__(self) -> None:
        self.angle, self.speed, self.steps = 0.05, 0.0, 0

    def step(self, action: int) -> tuple[list[float], float, bool]:
        """Return the state, the reward, and whether it fell."""
        self.speed += 0.02 * (1.0 if action == 1 else -1.0) + 0.3 * math.sin(self.angle) * 0.02
        self.angle += 0.02 * self.speed
        self.steps += 1
        done = abs(self.angle) > 0.2 or self.steps >= 20
        if done:
            self.angle, self.speed, self.steps = 0.05, 0.0, 0
        return [self.angle, self.speed], 1.0, done


class Loop:
    """A model, an optimizer, and what a step leaves in Python."""

    def __init__(self) -> None:
        ad.manual_seed(0)
        random.seed(0)
        self.model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))
        self.optimizer = optim.SGD(self.model.parameters(), lr=0.1, momentum=0.9)
        self.scaler = GradScaler("cpu", init_scale=8.0, growth_interval=7)
        self.average = optim.swa_utils.AveragedModel(self.model)
        self.policy = nn.Linear(2, 2)
        self.rng = random.Random(3)
        self.bar, self.pole = Bar(), Pole()
        self.seen: list[Any] = []
        self.state = [0.05, 0.0]
        self.total = 0.0
        self.count = 0

    def loss(self, x: Any, y: Any) -> Any:
        self.optimizer.zero_grad()
        loss = F.cross_entropy(self.model(x), y)
        loss.backward()
        return loss


def print_in_the_middle(a: Loop, x: Any, y: Any) -> Any:
    loss = a.loss(x, y)
    print("loss", round(loss.item(), 3))
    a.optimizer.step()
    return loss


def print_every_ten(a: Loop, x: Any, y: Any) -> Any:
    a.count += 1
    loss = a.loss(x, y)
    a.optimizer.step()
    if a.count % 10 == 0:
        print(f"step {a.count}: {loss.item():.3f} {float(loss) * 2:8.2f}|{loss:.2f}", end="!\n")
    return loss


def keep_texts(a: Loop, x: Any, y: Any) -> Any:
    loss = a.loss(x, y)
    text = f"{loss.item():.3f}"
    a.seen.append("loss " + text)
    a.state = {"now": text + "!", "pair": (format(loss.item(), ".2f"), "{:.1f}".format(loss.item()))}
    return f"returned {text}"


def log_it(a: Loop, x: Any, y: Any) -> Any:
    LOGGER.info("begins")
    loss = a.loss(x, y)
    LOGGER.warning("loss %.3f of %d", loss.item(), len(x))
    a.optimizer.step()
    return loss


def show_a_bar(a: Loop, x: Any, y: Any) -> Any:
    loss = a.loss(x, y)
    a.bar.set_postfix(loss=f"{loss.item():.3f}", n=a.count)
    a.bar.update()
    a.optimizer.step()
    return loss


def augment_by_chance(a: Loop, x: Any, y: Any) -> Any:
    if random.random() < 0.3:
        x = x * random.uniform(0.5, 1.5)
    shift = a.rng.gauss(0.0, 0.1)
    loss = a.loss(x + shift, y)
    a.optimizer.step()
    a.seen.append(shift)
    return loss


def print_on_a_branch(a: Loop, x: Any, y: Any) -> Any:
    print("first")
    loss = a.loss(x, y)
    if loss.item() > 1.1:
        print("large")
        a.seen.append("large")
    else:
        print("small", random.randint(0, 9))
    a.optimizer.step()
    print("last")
    return loss


def act_in_an_environment(a: Loop, x: Any, y: Any) -> Any:
    logits = a.policy(ad.tensor([a.pole.angle, a.pole.speed]))
    action = int(logits.argmax().item())
    state, reward, done = a.pole.step(action)
    a.seen.append(state[0])
    a.total += reward
    loss = -logits.log_softmax(0)[action] * reward
    if done:
        a.seen.append(a.total)
        a.total = 0.0
    return loss


def perplexity(a: Loop, x: Any, y: Any) -> Any:
    loss = a.loss(x, y)
    a.total = math.exp(loss.item())
    if not math.isfinite(loss.item()):
        a.seen.append("diverged")
    a.optimizer.step()
    return loss, math.sqrt(a.total)


def catch_a_domain_error(a: Loop, x: Any, y: Any) -> Any:
    try:
        print(f"{math.log(x.sum().item()):.2f}")
    except ValueError as error:
        print("no logarithm:", error)
    return x.sum()


def scale_gradients(a: Loop, x: Any, y: Any) -> Any:
    a.optimizer.zero_grad()
    loss = F.cross_entropy(a.model(x), y)
    a.scaler.scale(loss).backward()
    a.scaler.unscale_(a.optimizer)
    nn.utils.clip_grad_norm_(a.model.parameters(), 1.0)
    a.scaler.step(a.optimizer)
    a.scaler.update()
    a.seen.append(a.scaler.get_scale())
    return loss


def average_parameters(a: Loop, x: Any, y: Any) -> Any:
    loss = a.loss(x, y)
    a.optimizer.step()
    a.average.update_parameters(a.model)
    return loss, a.average.module[0].bias.detach().clone()


def select_by_mask(a: Loop, x: Any, y: Any) -> Any:
    h = x * 2 - 1
    chosen = h[h > 0.5]
    a.seen.append(chosen.numel() % 2)
    return chosen.sum() / (1 + len(chosen))


def group_by_label(a: Loop, x: Any, y: Any) -> Any:
    labels, places, counts = ad.unique(y, return_inverse=True, return_counts=True)
    sums = ad.zeros(len(labels), 6).index_add(0, places, x)
    return sums / counts.unsqueeze(1), (y == 1).nonzero().flatten()


def list_of_numbers(a: Loop, x: Any, y: Any) -> Any:
    counts = ad.bincount(y, minlength=3).tolist()
    a.seen.append(counts[0] - counts[1])
    return ad.tensor([x.sum().item(), 2.0, counts[2]])


HABITS: list[Callable[[Loop, Any, Any], Any]] = [
    print_in_the_middle, print_every_ten, keep_texts, log_it, show_a_bar, augment_by_chance, print_on_a_branch,
    act_in_an_environment, perplexity, catch_a_domain_error, scale_gradients, average_parameters, select_by_mask,
    group_by_label, list_of_numbers,
]  # fmt: skip


def batches(infinite: int | None = None, count: int = CALLS) -> list[tuple[Any, Any]]:
    ad.manual_seed(3)
    made = [(ad.randn(8, 6), ad.randint(0, 3, (8,))) for _ in range(count)]
    if infinite is not None:
        made[infinite] = (made[infinite][0] * float("inf"), made[infinite][1])
    return made


class Record:
    """What one way of running a step gave."""

    def __init__(self, step: Callable[..., Any], compiles: bool, data: list[tuple[Any, Any]], **options: Any) -> None:
        self.loop = Loop()
        call: Any = lambda x, y: step(self.loop, x, y)  # noqa: E731  a step of its own for each way
        self.call = ad.compile(call, **options) if compiles else call
        self.results: list[Any] = []
        text = io.StringIO()
        handler = logging.StreamHandler(text)
        LOGGER.addHandler(handler)
        LOGGER.setLevel(logging.INFO)
        ad.manual_seed(5)
        try:
            with redirect_stdout(text):
                for x, y in data:
                    try:
                        self.results.append(self.call(x, y))
                    except ArithmeticError as error:
                        self.results.append(repr(error))
        finally:
            LOGGER.removeHandler(handler)
        self.text = text.getvalue()

    def python_state(self) -> list[Any]:
        a = self.loop
        return [a.seen, a.state, a.total, a.count, a.bar.count, a.bar.postfix, vars(a.pole), a.scaler.state_dict()]

    def tensors(self) -> list[Any]:
        return [*self.loop.model.parameters(), *self.loop.average.parameters()]


def assert_alike(a: Any, b: Any) -> None:
    if isinstance(a, ad.Tensor):
        assert a.shape == b.shape
        np.testing.assert_allclose(b.detach().numpy(), a.detach().numpy(), rtol=2e-5, atol=2e-6)
    elif isinstance(a, dict):
        assert list(a) == list(b)
        assert_alike(list(a.values()), list(b.values()))
    elif isinstance(a, (tuple, list)):
        assert len(a) == len(b)
        for x, y in zip(a, b, strict=True):
            assert_alike(x, y)
    elif isinstance(a, float):
        np.testing.assert_allclose(b, a, rtol=2e-5, atol=1e-7)
    else:
        assert a == b


@pytest.mark.parametrize("step", HABITS, ids=lambda f: f.__name__)
def test_side_effects_come_once_in_order_with_the_values(step: Callable[..., Any]) -> None:
    data = batches(infinite=20 if step is scale_gradients else None)
    eager, compiled = Record(step, False, data), Record(step, True, data)
    assert_alike(eager.results, compiled.results)
    assert compiled.text == eager.text
    assert_alike(eager.python_state(), compiled.python_state())
    assert_alike(eager.tensors(), compiled.tensors())
    assert random.random() == [Record(step, False, data), random.random()][1]
    assert 1 <= compiled.call.compilations <= 30


def test_the_clock_runs_while_the_step_does() -> None:
    times = []

    def step(x: Any) -> Any:
        begin = time.perf_counter()
        y = (x @ x).tanh()
        times.append(time.perf_counter() - begin)
        return y

    compiled = ad.compile(step)
    x = ad.randn(300, 300)
    for _ in range(4):
        begin = time.perf_counter()
        compiled(x)
        times.append(time.perf_counter() - begin)
    for inner, outer in zip(times[::2], times[1::2], strict=True):
        assert 0 < inner < outer
    assert times[-2] > 0.3 * times[-1]
    assert compiled.compilations == 1


def test_an_exception_after_a_host_call_leaves_what_eager_code_leaves() -> None:
    def step(a: Loop, x: Any, y: Any) -> Any:
        print("begins")
        loss = a.loss(x, y)
        print("drew", random.randint(0, 99))
        if not ad.isfinite(loss):
            a.count += 1
            raise FloatingPointError(f"loss {loss.item()}")
        a.optimizer.step()
        return loss

    eager, compiled = (Record(step, compiles, batches(infinite=7, count=12)) for compiles in (False, True))
    assert_alike(eager.results, compiled.results)
    assert compiled.text == eager.text
    assert_alike(eager.python_state(), compiled.python_state())


def test_an_error_of_a_later_op_comes_after_what_was_printed() -> None:
    def step(x: Any, i: Any) -> Any:
        print("sum", int(x.sum().item()))
        return x[i]

    texts = []
    for f in (step, ad.compile(step)):
        with redirect_stdout(io.StringIO()) as text:
            for at in (0, 2, 9, 1):
                try:
                    print(f(ad.ones(3), ad.tensor([at])).tolist())
                except IndexError:
                    print("no such index")
        texts.append(text.getvalue())
    assert texts[0] == texts[1]


def test_what_cannot_go_on_runs_eagerly_without_a_second_call() -> None:
    def step(x: Any) -> Any:
        print("once", x.sum().item())
        return x.numpy().sum()

    compiled = ad.compile(step, fallback=True)
    with redirect_stdout(io.StringIO()) as text, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for n in range(3):
            compiled(ad.full((2,), float(n)))
    assert text.getvalue().split("\n") == ["once 0.0", "once 2.0", "once 4.0", ""]


def test_a_refusal_that_the_step_catches_is_a_refusal() -> None:
    def step(x: Any) -> Any:
        try:
            x.numpy().sort()
            return x * 3
        except RuntimeError:
            return x - 1

    with pytest.raises(RuntimeError, match=r"sort\(\) of its array reads the value"):
        ad.compile(step)(ad.ones(2))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert ad.compile(step, fallback=True)(ad.full((2,), 3.0)).tolist() == [9.0, 9.0]


def test_a_logger_that_warns_once() -> None:
    @lru_cache(None)
    def warning_once(self: logging.Logger, message: str) -> None:
        self.warning(message)

    class OnceLogger(logging.Logger):
        pass

    OnceLogger.warning_once = warning_once  # type: ignore[attr-defined]
    logger: Any = OnceLogger("once")
    text = io.StringIO()
    logger.addHandler(logging.StreamHandler(text))

    @ad.compile
    def step(x: Any) -> Any:
        logger.warning_once("loss_type is None")
        return x * 2

    for _ in range(3):
        assert step(ad.ones(1)).item() == 2.0
    assert text.getvalue() == "loss_type is None\n"
    assert step.compilations == 1


@pytest.mark.parametrize(
    "look",
    [
        lambda t: len(t),
        lambda t: t.upper(),
        lambda t: t[0],
        lambda t: {t: 1}[t],
        lambda t: t == "1.00",
        lambda t: t in ["1.00", "2.00"],
        lambda t: f"{t:>9}",
        lambda t: max(t, "2"),
    ],
    ids=["len", "method", "item", "key", "comparison", "in", "padding", "max"],
)
def test_looking_into_a_text_of_a_number_is_refused_or_right(look: Callable[[str], Any]) -> None:
    def step(x: Any) -> Any:
        text = f"{x.sum().item():.2f}"
        return look(text), look(f"{x.sum().item():.2f}"), x * 2

    compiled = ad.compile(step)
    for n in (1.0, 22.0, 1.0):
        try:
            found = compiled(ad.full((1,), n))
        except RuntimeError as error:
            assert "looks into the text of a number" in str(error)  # noqa: PT017  either is right
        else:
            assert_alike(step(ad.full((1,), n)), found)
