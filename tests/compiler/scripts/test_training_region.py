"""Training regions of running programs: where they begin, that they are compiled, and when they are not."""

from __future__ import annotations

import ast
import math
import textwrap
from typing import Any

import pytest

import adjoint as ad
from adjoint.compiler.scripts import region_times, training_region
from adjoint.compiler.scripts.compile_all import compile_source
from adjoint.compiler.scripts.region_finder import find_training_regions
from adjoint.compiler.scripts.region_rewriter import REGIONS
from adjoint.compiler.scripts.region_times import CALLS_BEFORE_VERDICT
from adjoint.compiler.scripts.training_region import OBSERVED_CALLS, TrainingRegion, make_regions, report_regions

SETUP = """
import adjoint as ad
from adjoint import nn, optim
import adjoint.nn.functional as F

ad.manual_seed(0)
model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))
target = nn.Linear(6, 3)
opt = optim.Adam(model.parameters(), lr=0.01)
batches = [(ad.randn(5, 6), ad.randint(0, 3, (5,))) for _ in range(8)]
losses = []
"""
LOOPS = {
    "a function": """
        def train():
            for x, y in batches:
                x = x * 1
                opt.zero_grad()
                loss = F.cross_entropy(model(x), y)
                loss.backward()
                losses.append(loss.item())
                opt.step()
        train()
    """,
    "the module": """
        i = 0
        while i < 8:
            x, y = batches[i]
            out = model(x)
            loss = F.cross_entropy(out, y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            losses.append(loss.item())
            i += 1
    """,
    "a class": """
        class Trainer:
            def __init__(self):
                self.model = model
                self.total = 0.0
            def step(self, x, y):
                opt.zero_grad()
                self.loss = F.cross_entropy(self.model(x), y)
                self.loss.backward()
                opt.step()
                self.total += self.loss.item()
                return self.total
        trainer = Trainer()
        losses.extend(trainer.step(x, y) for x, y in batches)
    """,
    "gradients of two batches": """
        x, y = batches[0]
        for i in range(4):
            for j in range(2):
                loss = F.cross_entropy(model(x), y) / 2
                x, y = batches[(2 * i + j + 1) % 8]
                loss.backward()
                losses.append(loss.item())
            nn.utils.clip_grad_norm_(model.parameters(), 0.5)
            opt.step()
            opt.zero_grad()
    """,
    "a target network": """
        def update(x):
            with ad.no_grad():
                wanted = target(x)
            loss = F.mse_loss(model(x), wanted)
            opt.zero_grad()
            loss.backward()
            opt.step()
            return loss.item()
        losses.extend(update(x) for x, _ in batches)
    """,
    "truncated backpropagation": """
        cell = nn.GRUCell(6, 8)
        head = optim.SGD(cell.parameters(), lr=0.1)
        def train():
            h = ad.zeros(5, 8)
            total = 0.0
            for x, _ in batches:
                h = h.detach()
                h = cell(x, h)
                loss = h.square().mean()
                head.zero_grad()
                loss.backward()
                head.step()
                total += loss.item()
                losses.append(total)
        train()
    """,
    "gradients as values": """
        weight = target.weight.detach()
        gradient = ad.func.grad_and_value(lambda weight, x: (x @ weight.T).square().mean())
        for x, _ in batches:
            g, loss = gradient(weight, x)
            weight = weight - 0.1 * g
            losses.append(loss.item())
    """,
    "gradients of autograd.grad": """
        def train(weights):
            for x, y in batches:
                loss = F.cross_entropy(model(x), y)
                gradients = ad.autograd.grad(loss, weights)
                with ad.no_grad():
                    for weight, gradient in zip(weights, gradients):
                        weight -= 0.1 * gradient
                losses.append(loss.item())
        train(list(model.parameters()))
    """,
    "a loss that is skipped": """
        def train():
            for i, (x, y) in enumerate(batches):
                if i == 1:
                    continue
                loss = F.cross_entropy(model(x), y)
                opt.zero_grad()
                loss.backward()
                if loss.item() < 1.1:
                    opt.step()
                losses.append(loss.item())
        train()
    """,
    "steps that are left early": """
        import time
        def train_step(x, y, least):
            loss = F.cross_entropy(model(x), y)
            if loss.item() < least:
                return -loss.item()
            opt.zero_grad()
            loss.backward()
            opt.step()
            return loss.item()
        for x, y in batches:
            loss = F.cross_entropy(model(x), y)
            if loss.item() > 1.2:
                continue
            if time.monotonic() < 0:
                break
            opt.zero_grad()
            loss.backward()
            opt.step()
            losses.append(loss.item())
        for x, y in batches:
            losses.append(train_step(x, y, 1.05))
    """,
    "every third batch": """
        def train():
            for i, (x, y) in enumerate(batches):
                loss = F.cross_entropy(model(x), y) / 3
                loss.backward()
                losses.append(loss.item())
                if (i + 1) % 3 == 0 or i + 1 == len(batches):
                    nn.utils.clip_grad_norm_(model.parameters(), 0.5)
                    opt.step()
                    opt.zero_grad()
        train()
        train()
    """,
    "an average of the weights": """
        import copy
        slow = copy.deepcopy(model)
        def average(slow, model, decay):
            with ad.no_grad():
                for old, new in zip(slow.parameters(), model.parameters()):
                    old.mul_(decay).add_(new, alpha=1 - decay)
        for x, y in batches:
            loss = F.cross_entropy(model(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            average(slow, model, 0.9)
            losses.append(sum(p.sum().item() for p in slow.parameters()))
    """,
    "a soft update by the state": """
        for x, y in batches:
            loss = F.mse_loss(model(x), target(x))
            opt.zero_grad()
            loss.backward()
            opt.step()
            losses.append(loss.item())
            goal, source = target.state_dict(), model[0].state_dict()
            for key in goal:
                goal[key] = goal[key] * 0.9 + source[key][:3].mean() * 0.1
            target.load_state_dict(goal)
    """,
    "metrics": """
        right, total = 0, 0.0
        for x, y in batches:
            out = model(x)
            loss = F.cross_entropy(out, y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item()
            _, found = out.max(1)
            right += (found == y).sum().item()
            losses.append(total + right + out.abs().mean().item())
    """,
    "a new list in each epoch": """
        for epoch in range(4):
            fractions = []
            for x, y in batches[:3]:
                loss = F.cross_entropy(model(x), y)
                with ad.no_grad():
                    fractions += [(loss < 1).float().item()]
                fractions.append(loss.item())
                opt.zero_grad()
                loss.backward()
                opt.step()
            losses += fractions
    """,
    "a conversion that cannot be compiled": """
        numbers = iter(range(1000))
        def move(x):
            return x * (next(numbers) + 1)
        for x, y in batches:
            opt.zero_grad()
            x = move(x)
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            opt.step()
            losses.append(loss.item())
    """,
}  # fmt: skip
BEGINS = {  # the first line of what is compiled, by the loop
    "a function": "opt.zero_grad()",
    "the module": "out = model(x)",
    "a class": "opt.zero_grad()",
    "gradients of two batches": "loss = F.cross_entropy(model(x), y) / 2",
    "a target network": "with ad.no_grad():",
    "truncated backpropagation": "h = cell(x, h)",
    "gradients as values": "g, loss = gradient(weight, x)",
    "gradients of autograd.grad": "loss = F.cross_entropy(model(x), y)",
    "a loss that is skipped": "loss = F.cross_entropy(model(x), y)",
    "steps that are left early": "loss = F.cross_entropy(model(x), y)",
    "every third batch": "loss = F.cross_entropy(model(x), y) / 3",
    "an average of the weights": "loss = F.cross_entropy(model(x), y)",
    "a soft update by the state": "loss = F.mse_loss(model(x), target(x))",
    "metrics": "out = model(x)",
    "a new list in each epoch": "loss = F.cross_entropy(model(x), y)",
    "a conversion that cannot be compiled": "loss = F.cross_entropy(model(x), y)",
}


@pytest.fixture(autouse=True)
def regions(monkeypatch: pytest.MonkeyPatch) -> list[TrainingRegion]:
    """The regions of the test, by themselves."""
    found: list[TrainingRegion] = []
    monkeypatch.setattr(training_region, "all_regions", found)
    return found


def run(source: str, *, is_compiled: bool) -> dict[str, Any]:
    """The names that a program leaves."""
    names: dict[str, Any] = {"__name__": "program"}
    path = "program.py"
    code = compile_source(source.encode(), path, names) if is_compiled else compile(source, path, "exec")
    exec(code, names)
    return names


@pytest.mark.parametrize("name", LOOPS)
def test_program_gives_the_same_numbers(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(region_times, "MUCH_SLOWER", math.inf)  # on a busy machine any call may be
    source = SETUP + textwrap.dedent(LOOPS[name])
    eager, compiled = run(source, is_compiled=False), run(source, is_compiled=True)
    assert len(eager["losses"]) >= 7
    assert compiled["losses"] == pytest.approx(eager["losses"], rel=1e-5)
    for parameter, expected in zip(compiled["model"].parameters(), eager["model"].parameters(), strict=True):
        assert ad.allclose(parameter, expected, rtol=1e-4, atol=1e-6)
    assert all(region.times.compiled_calls for region in compiled[REGIONS] if region.observed_calls >= OBSERVED_CALLS)
    for region in compiled[REGIONS]:
        if "clip_grad" in source.splitlines()[region.functions[0].__code__.co_firstlineno - 1]:
            assert region.choice == 0  # an update is compiled whole
    region = next(region for region in compiled[REGIONS] if region.times.compiled_calls)
    statement = source.splitlines()[region.functions[region.choice].__code__.co_firstlineno - 1].strip()
    assert statement == BEGINS[name]


def test_region_that_cannot_be_compiled_runs_eagerly_and_tells_why() -> None:
    source = SETUP + textwrap.dedent("""
        numbers = iter(range(100))
        def update(x):
            loss = model(x).square().mean() * next(numbers)
            opt.zero_grad()
            loss.backward()
            opt.step()
            return loss.item()
        losses.extend(update(x) for x, _ in batches)
    """)
    eager, compiled = run(source, is_compiled=False), run(source, is_compiled=True)
    assert compiled["losses"] == eager["losses"]
    (region,) = compiled[REGIONS]
    assert "advances a range_iterator" in str(region.reason)
    assert region.times.compiled_calls == 0


@pytest.mark.parametrize("batch", ["x.numpy()", "[x.numpy()]", "{'rows': [x.numpy()]}"])
def test_arrays_run_eagerly(batch: str) -> None:
    taken = "batch" if batch == "x.numpy()" else "batch[0]" if batch[0] == "[" else "batch['rows'][0]"
    source = SETUP + textwrap.dedent(f"""
        def update(batch):
            loss = model(ad.from_numpy({taken})).square().mean()
            opt.zero_grad()
            loss.backward()
            opt.step()
            return loss.item()
        losses.extend(update({batch}) for x, _ in batches)
    """)
    eager, compiled = run(source, is_compiled=False), run(source, is_compiled=True)
    assert compiled["losses"] == eager["losses"]
    assert "NumPy array" in str(compiled[REGIONS][0].reason)


def test_what_a_region_has_drawn_before_it_is_refused_is_not_drawn_again() -> None:
    source = SETUP + textwrap.dedent("""
        import numpy as np
        np.random.seed(0)
        def draw_noise():
            return ad.FloatTensor(np.random.normal(0, 1, (5, 6)))
        def make_target(y):
            target = np.zeros((5, 3))
            target[:] = F.one_hot(y, 3).float().numpy()
            return ad.FloatTensor(target)
        for x, y in batches:
            opt.zero_grad()
            loss = F.mse_loss(model(x + draw_noise()), make_target(y))
            loss.backward()
            opt.step()
            losses.append((loss.item(), np.random.rand()))
    """)
    eager, compiled = run(source, is_compiled=False), run(source, is_compiled=True)
    (region,) = compiled[REGIONS]
    assert "numpy()" in str(region.reason)
    assert compiled["losses"] == eager["losses"]


def test_slower_region_runs_eagerly_again() -> None:
    source = SETUP.replace("range(8)", "range(12)") + textwrap.dedent(LOOPS["a target network"])
    names: dict[str, Any] = {"__name__": "program"}
    code = compile_source(source.encode(), "program.py", names)
    (region,) = names[REGIONS]
    region.times.eager = [0.0] * 9  # nothing is faster
    exec(code, names)
    assert region.times.compiled_calls == 2 * CALLS_BEFORE_VERDICT
    assert "slower" in str(region.reason)
    assert names["losses"] == pytest.approx(run(source, is_compiled=False)["losses"], rel=1e-5)


def test_steps_of_a_region_that_cannot_be_compiled_are_compiled_apart() -> None:
    source = SETUP.replace("range(8)", "range(12)") + textwrap.dedent("""
        numbers = iter(range(100))
        other = optim.SGD(target.parameters(), lr=0.1)
        def update(x, y):
            loss = F.cross_entropy(model(x), y)
            opt.zero_grad()
            loss.backward()
            losses.append(loss.item())
            opt.step()
            more = target(x).square().mean() * next(numbers)
            other.zero_grad()
            more.backward()
            losses.append(more.item())
            other.step()
        for x, y in batches:
            update(x, y)
    """)
    eager, compiled = run(source, is_compiled=False), run(source, is_compiled=True)
    assert compiled["losses"] == pytest.approx(eager["losses"], rel=1e-5)
    whole, first, second = compiled[REGIONS]
    assert "advances a range_iterator" in str(whole.reason)
    assert first.times.compiled_calls
    assert first.reason is None
    assert "advances a range_iterator" in str(second.reason)


def test_what_has_no_optimizer_is_no_training() -> None:
    source = "class Counter:\n    def step(self): pass\nc = Counter()\nfor i in range(5):\n    c.step()\n"
    names = run(source, is_compiled=True)
    (region,) = names[REGIONS]
    assert region.compiled is None
    assert report_regions().startswith("no training step was found")


@pytest.mark.parametrize(("runs", "is_told"), [(9, False), (99, True)])
def test_backward_of_another_function_is_told_where_it_stays_eager(runs: int, is_told: bool) -> None:
    source = SETUP + textwrap.dedent(f"""
        def propagate(loss):
            loss.backward()
        for i in range({runs}):
            propagate(model(batches[0][0]).sum()) if i else None
    """)
    run(source, is_compiled=True)
    assert ("other lines than its backward()" in report_regions()) is is_told


def test_region_in_a_compiled_step_is_left_to_it() -> None:
    source = SETUP + textwrap.dedent(LOOPS["a target network"]).replace("losses.extend", "pass\nlist")
    names = run(source, is_compiled=True)
    step = ad.compile(names["update"])
    before = names[REGIONS][0].times.compiled_calls
    for x, _ in names["batches"]:
        step(x)
    assert names[REGIONS][0].times.compiled_calls == before
    assert step.compilations


def test_regions_are_read_from_the_lines_of_the_file() -> None:
    source = SETUP + textwrap.dedent(LOOPS["a target network"])
    (region,) = run(source, is_compiled=True)[REGIONS]
    lines = source.splitlines()
    first, last = (int(number) for number in region.place.partition(":")[2].split("-"))
    assert (lines[first - 1].strip(), lines[last - 1].strip()) == ("with ad.no_grad():", "opt.step()")


def add_idle_regions() -> list[TrainingRegion]:
    """Three regions of a file, none of which has run."""
    source = "\n".join("def f(x):\n    loss = g(x)\n    loss.backward()\n    opt.step()" for _ in range(3))
    found = make_regions("train.py", find_training_regions(ast.parse(source)))
    return sorted(found, key=lambda region: int(region.place.partition(":")[2].partition("-")[0]))


def test_regions_that_have_not_run_are_not_told() -> None:
    add_idle_regions()
    assert report_regions().startswith("no training step was found")


def test_report_tells_what_each_region_saved_and_why_one_is_eager() -> None:
    compiled, refused, brief = add_idle_regions()
    compiled.observed_calls, compiled.times.eager = 2, [0.010, 0.009, 0.019]
    compiled.times.compiled_calls, compiled.times.total_seconds, compiled.times.latest = 100, 0.5, [0.3, 0.002]
    refused.observed_calls = 2
    refused.run_eagerly("the step advances a zip")
    brief.observed_calls = 1
    told = report_regions().splitlines()
    assert told[0] == "1 of 3 training regions compiled, 0.5 s saved"
    assert sorted(told[1:]) == [
        "  train.py:10-12  eager: it ran 1 time only",
        "  train.py:2-4  100 calls, 5 ms each with compilation, usually 2 ms, 10 ms eagerly",
        "  train.py:6-8  eager: the step advances a zip",
    ]


REPLAY = """
import random
from collections import deque

random.seed(0)
pool = deque(maxlen=20)
for i in range(12):
    with ad.no_grad():
        action = target(ad.randn(6))
    pool.append((ad.randn(6), action))
    if len(pool) < 4:
        continue
    x, y = map(ad.stack, zip(*random.sample(pool, 4)))
    loss = F.mse_loss(model(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    losses.append(loss.item())
"""


def test_a_region_begins_behind_the_statement_that_cannot_be_compiled() -> None:
    eager, compiled = run(SETUP + REPLAY, is_compiled=False), run(SETUP + REPLAY, is_compiled=True)
    assert compiled["losses"] == pytest.approx(eager["losses"], rel=1e-5)
    (region,) = compiled[REGIONS]
    assert (region.reason, (SETUP + REPLAY).splitlines()[region.lines[region.choice] - 1].strip()[:4]) == (None, "loss")
    assert region.times.compiled_calls


def test_a_region_whose_forward_pass_is_in_part_before_that_statement_runs_eagerly() -> None:
    loop = REPLAY.replace("action = target(ad.randn(6))", "action = target(ad.randn(6))\n    first = model(ad.ones(6))")
    loop = loop.replace("model(x), y)", "model(x), y) + first.sum()")
    eager, compiled = run(SETUP + loop, is_compiled=False), run(SETUP + loop, is_compiled=True)
    assert compiled["losses"] == pytest.approx(eager["losses"], rel=1e-5)
    assert "history lies outside" in compiled[REGIONS][0].reason
