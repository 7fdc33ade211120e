"""Steps of a backward pass in a notebook."""

from html import unescape

import adjoint as ad


def test_steps_that_have_not_begun_are_a_page_with_a_slider() -> None:
    w = ad.ones(3, requires_grad=True)
    loss = (w.sin() * w).sum()
    steps = ad.autograd.backward_steps(loss)
    html = steps._repr_html_()
    assert html is not None
    assert html.startswith("<iframe")
    assert '"title":"leaves accumulate"' in unescape(html)
    assert w.grad is None
    assert [step.node.name() for step in steps] == ["SumBackward0", "MulBackward0", "SinBackward0"]
    assert w.grad is not None


def test_steps_with_a_gradient_are_shown_too() -> None:
    w = ad.ones(3, requires_grad=True)
    html = ad.autograd.backward_steps(w.sin(), ad.full((3,), 2.0))._repr_html_()
    assert html is not None
    assert "f32[3], norm 3.464" in unescape(html)


def test_steps_that_have_begun_and_those_that_cannot_run_are_plain_text() -> None:
    w = ad.ones(3, requires_grad=True)
    steps = ad.autograd.backward_steps(w.sin().sum())
    assert repr(steps).endswith("not begun: iterate over them>")
    next(steps)
    assert steps._repr_html_() is None
    assert "under way" in repr(steps)
    assert ad.autograd.backward_steps(w.sin())._repr_html_() is None
    assert ad.autograd.backward_steps(w)._repr_html_() is None


def test_a_step_is_a_table() -> None:
    w = ad.ones(3, requires_grad=True)
    h = w.sin()
    steps = ad.autograd.backward_steps((h * 2 + h * 3).sum())
    tables = [step._repr_html_() for step in steps]
    assert all(table is not None and "<table>" in table for table in tables)
    first, second, third, fourth, last = [table or "" for table in tables]
    assert "SumBackward0" in first
    assert first.count("waits") == 4
    assert "AddBackward0" in second
    assert "ready" in third
    assert "f32[3], norm 1.732" in third
    assert "f32[3], norm 5.196" in fourth
    assert "f32[3], norm 8.66" in last
