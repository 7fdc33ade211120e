"""Displays in notebooks of nodes, reports, optimizers, loaders and datasets; of graphs and steps of the compiler."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from typing import Any

import pytest

import adjoint as ad
from adjoint import nn


def words_of(value: Any) -> str:
    """Return the words that a display shows."""
    html = re.sub("<style>.*?</style>", "", value._repr_html_(), flags=re.DOTALL)
    assert html.count("<details") == html.count("</details>")
    return " ".join(re.sub("<[^>]*>", " ", html).split())


def test_a_node_shows_its_line_what_it_saved_and_the_nodes_before_it() -> None:
    x = ad.ones(2, 3, requires_grad=True)
    y = x.exp().sum()
    words = words_of(y.grad_fn)
    assert words.startswith("SumBackward0 · float32 [] · test_value_display.py:")
    assert "y = x.exp().sum()" in words
    assert words.index("ExpBackward0") < words.index("AccumulateGrad · float32 [2, 3]")
    assert "out [2, 3] float32 24 bytes" in words_of(y.grad_fn.next_functions[0][0])
    y.backward()
    assert "out" not in words_of(y.grad_fn.next_functions[0][0])


def test_a_long_or_shared_graph_is_shown_in_part() -> None:
    x = y = ad.ones(1, requires_grad=True)
    for _ in range(1000):
        y = y + y
    words = words_of(y.grad_fn)
    assert "(it is above)" in words
    assert "(more before it)" in words
    assert len(words_of(sum([x * i for i in range(500)]).grad_fn)) < 100_000


class Squares(ad.data.Dataset[Any]):
    """A dataset whose samples are never to be made for a display."""

    def __getitem__(self, index: int) -> Any:
        raise AssertionError("a display made a sample")

    def __len__(self) -> int:
        return 7


class Stream(ad.data.IterableDataset[Any]):
    """A stream that does not know its length."""

    def __iter__(self) -> Any:
        return iter(range(3))


PAIRS = ad.data.TensorDataset(ad.ones(7, 3), ad.zeros(7))


SEVEN = "Squares of 7 samples"
LINES: dict[str, Callable[[], Any]] = {
    "TensorDataset of 7 samples · float32 [3], float32 []": lambda: PAIRS,
    SEVEN: Squares,
    "Stream": Stream,
    "Subset of 1 sample · from Squares of 7 samples": lambda: ad.data.Subset(Squares(), [1]),
    f"ConcatDataset of 14 samples · after one another: {SEVEN}, {SEVEN}": lambda: Squares() + Squares(),
    f"DataLoader · 3 batches of 3, the last of 1 · in order · {SEVEN}": lambda: ad.data.DataLoader(Squares(), 3),
    f"DataLoader · 2 batches of 3 · shuffled · {SEVEN}": lambda: ad.data.DataLoader(Squares(), 3, True, drop_last=True),
    f"DataLoader · 1 batch of 7 · in order · 1 worker process · {SEVEN}": lambda: ad.data.DataLoader(
        Squares(), 7, num_workers=1
    ),
    f"DataLoader · 7 samples · in order · {SEVEN}": lambda: ad.data.DataLoader(Squares(), batch_size=None),
    f"DataLoader · 2 batches · in order · {SEVEN}": lambda: ad.data.DataLoader(Squares(), batch_sampler=[[0, 1], [2]]),
    "DataLoader · batches of 4 · Stream": lambda: ad.data.DataLoader(Stream(), 4),
}


@pytest.mark.parametrize("text", LINES)
def test_datasets_and_loaders_are_a_line(text: str) -> None:
    assert words_of(LINES[text]()) == text


def test_an_optimizer_is_a_table_of_its_groups() -> None:
    model = nn.Linear(3, 2)
    optimizer = ad.optim.SGD([{"params": [model.weight]}, {"params": [model.bias], "lr": 0.5}], lr=0.1, momentum=0.9)
    words = words_of(optimizer)
    assert words.startswith("SGD · 2 groups group parameters lr momentum")
    assert "0 1 tensor, 6 elements 0.1 0.9" in words
    assert "1 1 tensor, 2 elements 0.5 0.9" in words
    model(ad.ones(1, 3)).sum().backward()
    optimizer.step()
    assert "SGD · 2 groups · 32 bytes of state" in words_of(optimizer)


def test_reports_show_what_their_text_says() -> None:
    model = nn.Linear(3, 1)
    loss = model(ad.ones(4, 3)).square().mean()
    report = ad.autograd.memory_report(loss)
    assert report.foot in words_of(report)
    optimizer = ad.optim.SGD(model.parameters(), lr=0.0)
    with ad.doctor(file=io.StringIO()) as found:
        for _ in range(3):
            optimizer.zero_grad()
            model(ad.ones(4, 3)).square().mean().backward()
            optimizer.step()
    words = words_of(found)
    assert found.title in words
    for finding in found:
        assert finding.problem in words
        assert f"try: {finding.advice}" in words


def test_a_step_shows_its_programs_its_cuts_and_why_it_was_traced() -> None:
    step = ad.compile(lambda x: x * 2 if x.sum() > 0 else x + 1)
    assert "not called yet" in words_of(step)
    step(ad.ones(3))
    words = words_of(step)
    assert "traced 1 time" in words
    assert "cut in 1 place, where it asks for values: item() != 0 is True" in words
    step(-ad.ones(3))
    assert "traced again: the answer to item() != 0: True → False" in words_of(step)


def test_a_graph_is_a_table_of_its_equations_with_their_lines() -> None:
    step = ad.compile(lambda x: (x * 2).exp())
    step(ad.ones(3))
    words = words_of(step.graph)
    assert words.startswith("Graph &lt;lambda&gt;: 2 equations of 1 input")
    assert "%1 f32[3] mul(%0, 2) test_value_display.py:" in words
    assert "exp(%1)" in words
    assert step.memory().foot in words_of(step.memory())


def test_a_class_with_a_display_of_its_own_keeps_it() -> None:
    class Printed(Squares):
        def __repr__(self) -> str:
            return "mine"

    assert Printed()._repr_html_() is None
