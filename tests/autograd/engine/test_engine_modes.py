"""A backward pass switches recording off for all that runs within, and restores it at its end."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.support.checks import leaf

import adjoint as ad


def test_recording_is_off_in_hooks_of_all_kinds() -> None:
    seen: dict[str, bool] = {}

    def note(name: str) -> Any:
        return lambda *_: seen.__setitem__(name, ad.is_grad_enabled()) or None

    x = leaf([1.0, 2.0])
    y = x * x
    z = y.exp()
    x.register_hook(note("leaf"))
    x.register_post_accumulate_grad_hook(note("accumulated"))
    y.register_hook(note("tensor"))
    z.grad_fn.register_hook(note("node"))
    z.grad_fn.register_prehook(note("before"))
    z.sum().backward()
    assert seen == dict.fromkeys(("leaf", "accumulated", "tensor", "node", "before"), False)
    assert ad.is_grad_enabled()


def test_recording_is_off_in_functions_and_in_hooks_of_saved_values() -> None:
    seen: list[bool] = []

    class Double(ad.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            seen.append(ad.is_grad_enabled())
            return g * 2

    def unpack(x: Any) -> Any:
        seen.append(ad.is_grad_enabled())
        return x

    x = leaf([1.0])
    with ad.autograd.graph.saved_tensors_hooks(lambda x: x, unpack):
        y = x.exp()
    (Double.apply(x) + y).sum().backward()
    assert seen == [False, False]
    assert ad.is_grad_enabled()


def test_recording_is_restored_after_an_error_and_after_a_hook_that_switches_it() -> None:
    def fail(g: Any) -> None:
        raise ValueError("from a hook")

    x = leaf([1.0])
    y = x * x
    y.register_hook(fail)
    with pytest.raises(ValueError, match="from a hook"):
        y.sum().backward()
    assert ad.is_grad_enabled()
    x = leaf([1.0])
    y = (x * x).sum()
    x.register_hook(lambda g: ad.set_grad_enabled(True) and None)
    with ad.no_grad():
        y.backward(retain_graph=True)
        assert not ad.is_grad_enabled()
        (g,) = ad.autograd.grad(y, x, create_graph=True)
        assert not ad.is_grad_enabled()
    assert g.requires_grad


def test_gradients_of_pieces_are_joined() -> None:
    x = leaf(np.arange(12.0).reshape(3, 4))
    a, b = x.split((1, 3), 1)
    first, _, third = x.unbind(0)
    (2 * b.sum() + (first * third).sum() + (a * a).sum()).backward()
    expected = np.full((3, 4), 2.0)
    expected[:, 0] = 2 * np.arange(0.0, 12, 4)
    expected[0] += np.arange(8.0, 12)
    expected[2] += np.arange(4.0)
    np.testing.assert_array_equal(x.grad.numpy(), expected)


def test_only_what_leads_to_a_target_runs() -> None:
    x, w = leaf([1.0, 2.0]), leaf([3.0, 4.0])
    ran: list[str] = []
    a, b = x * 2, w * 3
    a.grad_fn.register_hook(lambda *_: ran.append("a"))
    b.grad_fn.register_hook(lambda *_: ran.append("b"))
    loss = (a * b).sum()
    assert ad.autograd.grad(loss, w, retain_graph=True)[0].tolist() == [6.0, 12.0]
    assert ran == ["b"]
    assert [g.tolist() for g in ad.autograd.grad(loss, (x, w))] == [[18.0, 24.0], [6.0, 12.0]]
    assert ran[1:] in (["a", "b"], ["b", "a"])
