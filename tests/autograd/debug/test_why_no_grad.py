"""`why_no_grad` names the reason, and the lines that are part of it."""

from __future__ import annotations

from typing import Any

import pytest

import adjoint as ad
from adjoint import nn
from adjoint.autograd import why_no_grad

pytestmark = pytest.mark.claim("U29")


def here(offset: int = 0) -> str:
    """`file:line` of the caller, some lines on."""
    import sys

    return f"{__file__}:{sys._getframe(1).f_lineno + offset}"


@pytest.fixture
def x() -> Any:
    return ad.ones(3, requires_grad=True)


def test_detached(x: Any) -> None:
    y, line = (x * 2).detach(), here()
    assert why_no_grad(y) == f"Its history was cut off by detach() at {line}."
    z, line = x.data, here()
    assert line in why_no_grad(z)
    w = x * 2
    w.detach_()
    assert why_no_grad(w) == f"Its history was cut off by detach_() at {here(-1)}."
    assert repr(why_no_grad(w)) == str(why_no_grad(w))


def test_not_recorded(x: Any) -> None:
    with ad.no_grad():
        line = here(-1)
        made = [x * 2, x.exp(), x.sum(), x.view(3, 1), x @ x, (x * 2) * 3]
    for y in made:
        assert why_no_grad(y) == f"It was made under no_grad() at {line}, where ops are not recorded."
    with ad.inference_mode():
        line = here(-1)
        made = [x * 2, x.exp(), x.sum(), ad.ones(2)]
    for y in made:
        assert why_no_grad(y) == f"It was made under inference_mode() at {line}, where ops are not recorded."
    with ad.no_grad(), ad.enable_grad():
        assert "no leaf" in why_no_grad(x * 2)

    @ad.no_grad()
    def hidden() -> Any:
        return x * 2

    assert f"under @no_grad() at {here(-4)}" in why_no_grad(hidden())
    ad.set_grad_enabled(False)
    y, line = x * 2, here(-1)
    ad.set_grad_enabled(True)
    assert f"under set_grad_enabled(False) at {line}" in why_no_grad(y)


def test_cannot_have_one(x: Any) -> None:
    assert "adjoint.int64: only floating" in why_no_grad(x.argmax())
    assert "only floating" in why_no_grad(x > 0)
    assert "nobody asked for its gradient" in why_no_grad(ad.ones(2))


def test_frozen() -> None:
    layer = nn.Linear(2, 2)
    layer.weight.requires_grad_(False)
    assert why_no_grad(layer.weight) == f"It was frozen by requires_grad_(False) at {here(-1)}."
    bias: Any = layer.bias
    bias.requires_grad = False
    assert here(-1) in why_no_grad(bias)
    assert "this Parameter is frozen" in why_no_grad(nn.Parameter(ad.ones(1), requires_grad=False))


def test_not_kept(x: Any) -> None:
    y, line = x * 2, here()
    assert f"made by MulBackward0, recorded at {line}" in why_no_grad(y)
    assert "retain_grad()" in why_no_grad(y)
    y.retain_grad()
    assert why_no_grad(y) == "No backward() has run since it began to require grad."


def test_backward_has_not_run(x: Any) -> None:
    loss = (x * x).sum()
    assert why_no_grad(x) == "No backward() has run since it began to require grad."
    loss.backward()
    assert why_no_grad(x) == "It has a gradient: .grad has shape [3]."


def test_cleared_since(x: Any) -> None:
    loss, line = (x * x).sum(), here()
    loss.backward()
    x.grad = None
    assert f"of SumBackward0, recorded at {line}, reached it through MulBackward0, recorded at {line}" in why_no_grad(x)
    assert "cleared since" in why_no_grad(x)


def test_not_among_the_inputs(x: Any) -> None:
    y = ad.ones(3, requires_grad=True)
    loss = (x * y).sum()
    loss.backward(inputs=[y])
    assert "certain inputs alone" in why_no_grad(x)


def test_never_used(x: Any) -> None:
    loss = ad.ones(3, requires_grad=True).sum()
    loss.backward()
    assert "no graph that is still alive uses it" in why_no_grad(x)


def test_used_in_a_branch_that_leads_elsewhere(x: Any) -> None:
    h, used = x * 2, here()
    top, end = h.exp().sum(), here()
    cut, cutting = h.detach(), here()
    loss, root = (cut * ad.ones(3, requires_grad=True)).sum(), here()
    loss.backward()
    why = why_no_grad(x)
    assert f"last used by MulBackward0, recorded at {used}." in why
    assert f"That does not lead to what the last backward() started from: SumBackward0, recorded at {root}." in why
    assert f"The branch ends with SumBackward0, recorded at {end}." in why
    assert f"detach() at {cutting}" in why
    assert top.requires_grad


def test_a_retained_result_that_was_not_reached(x: Any) -> None:
    y = x * 2
    y.retain_grad()
    z, line = y + 1, here()
    loss = (x * x).sum()
    loss.backward()
    assert f"last used by AddBackward0, recorded at {line}" in why_no_grad(y)
    assert z.requires_grad


def test_a_graph_that_is_gone(x: Any) -> None:
    used, line = x * 2, here()
    ad.ones(3, requires_grad=True).sum().backward()
    assert f"recorded at {line}. That does not lead to the last backward(), whose graph is gone." in why_no_grad(x)
    assert used.requires_grad
