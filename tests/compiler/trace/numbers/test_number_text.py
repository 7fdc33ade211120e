# ruff: noqa: UP031  formats are what is to be tried
"""Texts of numbers that each call computes: one program makes the text that eager code makes, whatever the format."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import adjoint as ad
from adjoint.compiler.trace.numbers.number_text import is_late_text, parse_format

pytest.importorskip("llvmlite")

PLAIN = 7
FORMS: dict[str, Callable[[Any, Any], object]] = {
    "an int": lambda i, loss: "%d" % i,
    "padded with zeros": lambda i, loss: "epoch %04d" % (i + 1),
    "two widths": lambda i, loss: "[%d, %5d] loss: %.3f" % (i + 1, i * 2, loss.item() / 2000),
    "the first is plain": lambda i, loss: "[%d, %5d]" % (PLAIN, i),
    "the second is plain": lambda i, loss: "[%d, %5d]" % (i, PLAIN),
    "two precisions": lambda i, loss: "%.2f %.4f" % (loss.item(), loss.item() * 3),
    "a plain float first": lambda i, loss: "%.2f/%.4f" % (0.125, loss.item()),
    "exponents": lambda i, loss: "%e %.1E %g" % (loss.item(), loss.item(), loss.item()),
    "a tensor": lambda i, loss: "loss %.4f" % loss,
    "a float as an int": lambda i, loss: "%d of %i" % (loss.item(), 100.0 * i / 3),
    "signs and percents": lambda i, loss: "%+d %% % d %-8.1f|" % (i, PLAIN, 100.0 * i / 9),
    "names": lambda i, loss: "%(at)d: %(loss).3f, %(name)s" % {"at": i, "loss": loss.item(), "name": "run"},
    "texts among them": lambda i, loss: "%s %d %s" % ("step", i, loss.item()),
    "a text in a text": lambda i, loss: "<%s> %d" % ("%d/%d" % (i, PLAIN), i),
    "joined": lambda i, loss: " ".join([str(i), "%.3f" % loss.item(), "%d" % PLAIN]),
    "kept in a list": lambda i, loss: ["%d" % i, ("%d" % i) + "!"],
}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS.keys())
def test_one_program_makes_the_texts_of_all_calls(form: Callable[[Any, Any], object]) -> None:
    def step(x: Any, i: int) -> Any:
        loss = (x * x).sum()
        return form(i, loss), loss * 2

    compiled = ad.compile(step)
    for i in range(3, 9):
        x = ad.full((2,), 1.25 * i)
        assert compiled(x, i)[0] == step(x, i)[0]
    assert compiled.compilations == 2  # the first is for this very integer


@pytest.mark.parametrize(
    "look",
    [lambda t: len(t), lambda t: t.rjust(9), lambda t: t[:2], lambda t: {"2.00": 1}.get(t), lambda t: "%9s" % t],
    ids=["length", "method", "slice", "key", "padding"],
)
def test_a_step_that_looks_into_a_text_needs_the_number(look: Callable[[str], object]) -> None:
    def step(x: Any, i: int) -> Any:
        return look("%.2f" % x.sum().item()), look("%d" % i), look(f"{i}"), x * 2

    compiled = ad.compile(step)
    for i in (1, 1, 30):
        x = ad.full((2,), float(i))
        assert compiled(x, i)[:3] == step(x, i)[:3]


@pytest.mark.parametrize("form", ["%x", "%*d", "%5s", "%c", "%.2s", "%d" * 11])
def test_other_formats_have_no_placeholders(form: str) -> None:
    assert parse_format(form) is None


def test_a_text_that_could_be_read_in_two_ways_is_made_of_the_numbers() -> None:
    def step(x: Any, i: int) -> Any:
        return "%d%5d" % (PLAIN, i) if i % 2 else "%d%5d" % (i, PLAIN), x * 2

    compiled = ad.compile(step)
    for i in (1, 2, 3, 4):
        assert compiled(ad.ones(1), i)[0] == step(ad.ones(1), i)[0]


def test_a_plain_text_is_not_late() -> None:
    assert not any(map(is_late_text, ["", "loss 1.5e+20", "58274", "7e+213", "6.02e+23"]))
