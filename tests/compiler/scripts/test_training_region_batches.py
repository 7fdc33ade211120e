"""Training regions of programs whose batches are objects of their own classes."""

from __future__ import annotations

import textwrap
from typing import Any

import pytest

import adjoint as ad
from adjoint.compiler.scripts import training_region
from adjoint.compiler.scripts.compile_all import compile_source
from adjoint.compiler.scripts.region_binding import find_batches
from adjoint.compiler.scripts.region_rewriter import REGIONS

SETUP = """
import adjoint as ad
from adjoint import nn, optim
import adjoint.nn.functional as F

class Batch:
    def __init__(self, x, y, number):
        self.x, self.y, self.number, self.parts = x, y, number, [x * 2, {"scale": 0.5}]
        self.count = 0

    @property
    def rows(self):
        return self.x.shape[0]

    def mask(self):
        return self.x > 0

class Trainer:
    last = None

ad.manual_seed(0)
trainer = Trainer()
model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))
opt = optim.Adam(model.parameters(), lr=0.01)
batches = [Batch(ad.randn(5, 6), ad.randint(0, 3, (5,)), i) for i in range(10)]
losses = []
def train(batches):
    for i, batch in enumerate(batches):
        opt.zero_grad()
        out = model(batch.x * batch.mask()) + batch.parts[0].mean() * batch.parts[1]["scale"]
        loss = F.cross_entropy(out, batch.y) * (batch.number + 1) / batch.rows
        BOOKS
        loss.backward()
        opt.step()
        losses.append(loss.item())
train(batches)
counts = [batch.count for batch in batches]
"""


@pytest.fixture(autouse=True)
def _own_regions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training_region, "all_regions", [])


def run(books: str, *, is_compiled: bool) -> dict[str, Any]:
    """The names that a program leaves, with these lines between the loss and `backward()`."""
    names: dict[str, Any] = {"__name__": "program"}
    source = SETUP.replace("BOOKS", books)
    exec(compile_source(textwrap.dedent(source).encode(), "program.py", names) if is_compiled else source, names)
    return names


def test_attributes_of_a_batch_are_arguments_of_one_program() -> None:
    eager, compiled = run("pass", is_compiled=False), run("pass", is_compiled=True)
    assert compiled["losses"] == pytest.approx(eager["losses"], rel=1e-5)
    (region,) = compiled[REGIONS]
    assert region.batch_names == {"batch"}
    assert region.times.compiled_calls >= 6
    assert region.compiled.compilations == 1
    for parameter, expected in zip(compiled["model"].parameters(), eager["model"].parameters(), strict=True):
        assert ad.allclose(parameter, expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    "books", ["batch.count += 1", "trainer.last = batch", "batch.parts.append(1)", "batch.parts[1]['scale'] = 2.0"]
)
def test_a_batch_that_is_changed_or_kept_is_the_one_of_the_program(books: str) -> None:
    eager, compiled = run(books, is_compiled=False), run(books, is_compiled=True)
    assert compiled["losses"] == pytest.approx(eager["losses"], rel=1e-5)
    assert compiled["counts"] == eager["counts"]
    for names in (eager, compiled):
        assert names["trainer"].last is (names["batches"][-1] if "last" in books else None)
    told = [(len(names["batches"][-1].parts), names["batches"][-1].parts[1]["scale"]) for names in (eager, compiled)]
    assert told[0] == told[1]


def test_objects_that_are_no_batches() -> None:
    class Node:
        def __init__(self, value: object) -> None:
            self.value = value

    plain = Node([ad.ones(2), {"a": 1.0}, "text", None])
    assert find_batches([{"n": Node(ad.ones(1))}, {"n": plain}]) == {"n"}
    assert find_batches([{"n": plain}, {"n": plain}]) == set()
    around = Node(None)
    around.value = around
    for value in (around, Node(model := ad.nn.Linear(1, 1)), Node([model]), Node({"a": Node(1)}), ad.ones(2), [plain]):
        assert find_batches([{"n": plain}, {"n": value}]) == set()
