"""The calls of ops that move elements: views, copies and nodes, as the plain path makes them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import adjoint as ad
from adjoint.core.dtype.dtype import default
from adjoint.core.tensor.storage import View, view_of

MOVES: dict[str, Callable[[Any], Any]] = {
    "reshape": lambda x: x.reshape(2, 12), "view": lambda x: x.view(-1, 3), "t": lambda x: x.t(),
    "transpose": lambda x: x.transpose(0, 1), "expand": lambda x: x.expand(2, 4, 6), "select": lambda x: x[1],
    "slice": lambda x: x[1:3], "column": lambda x: x[:, 2], "new dimension": lambda x: x[..., None],
    "a view of a view": lambda x: x[1:].t()[2], "narrow": lambda x: x.narrow(1, 2, 3),
    "integers": lambda x: x[1, -2], "part of a row": lambda x: x[1, 2:5], "last": lambda x: x[..., -1],
    "new dimensions": lambda x: x[None, 1, :, None], "all": lambda x: x[:], "none": lambda x: x[3:2],
    "chunk": lambda x: x.chunk(2)[1], "unbind": lambda x: x.unbind(1)[2],
}  # fmt: skip


def describe(x: Any, out: Any) -> tuple[Any, ...]:
    """What a view is: its values, memory, path, and the nodes that lead to it."""
    view = view_of(out)
    assert view is not None
    names, node = [], out.grad_fn
    while node is not None:
        names.append(node.name())
        node = node.next_functions[0][0] if node.next_functions else None
    path = [(step.op.name, step.params, step.before, step.after) for step in view.steps]
    return out.tolist(), out.stride(), view.base is x, path, names, view.creation_meta, x.storage_ is view.storage


@pytest.mark.parametrize("recorded", [False, True])
@pytest.mark.parametrize("name", MOVES)
def test_the_quick_call_makes_what_the_plain_one_makes(
    name: str, recorded: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = []
    for plain in (False, True):
        with monkeypatch.context() as patch, ad.autograd.forward_ad.dual_level() if plain else ad.enable_grad():
            if plain:
                patch.setattr(default, "narrow", True)
            x = ad.arange(24, dtype="float32").reshape(4, 6).clone().requires_grad_(recorded)
            out = MOVES[name](x)
            if recorded:
                (out * out).sum().backward()
            found.append((describe(x, out), None if x.grad is None else x.grad.tolist()))
    assert found[0] == found[1]
    assert (found[0][1] is not None) is recorded


@pytest.mark.parametrize("recorded", [False, True])
@pytest.mark.parametrize("quiet", [False, True])
def test_an_index_expression_makes_one_view(recorded: bool, quiet: bool) -> None:
    x = ad.zeros(4, 6).requires_grad_(recorded)
    with ad.set_grad_enabled(not quiet):
        out = x[1, 2:, None]
    view = view_of(out)
    assert view is not None
    assert [alias() for alias in view.storage.aliases] == [x, out]
    assert out.stride() == (1, 1)
    assert [step.op.name for step in view.steps] == ["slice", "select", "reshape"]


def test_a_view_without_history_follows_what_is_written_into_its_base() -> None:
    x, factor = ad.ones(3, 4), ad.tensor(2.0, requires_grad=True)
    part = x[1, 1:3]
    x.mul_(factor)
    (3 * part).sum().backward()
    assert part.requires_grad
    assert factor.grad is not None
    assert factor.grad.item() == 6.0


def test_a_copy_is_no_view() -> None:
    x = ad.arange(6, dtype="float32").reshape(2, 3).clone().requires_grad_()
    out = x.t().reshape(6)
    assert view_of(out) is None
    (out * ad.arange(6)).sum().backward()
    assert x.grad.tolist() == [[0, 2, 4], [1, 3, 5]]


def test_views_without_recording_say_so() -> None:
    x = ad.ones(2, 3, requires_grad=True)
    with ad.no_grad():
        view = x.t()
    assert view.grad_fn is None
    assert not view.requires_grad
    assert type(view.storage_) is View
    with pytest.raises(RuntimeError, match="created in no_grad mode"):
        view.mul_(2.0)


def test_a_write_through_a_view_reaches_all_views() -> None:
    x = ad.ones(2, 3, requires_grad=True)
    y = x * 1.0
    row, column = y[0], y[:, 0]
    row.mul_(3.0)
    assert column.tolist() == [3.0, 1.0]
    column.sum().backward()
    assert x.grad.tolist() == [[3.0, 0.0, 0.0], [1.0, 0.0, 0.0]]
