"""Inference mode: its tensors, what they refuse, and PyTorch as the oracle for both."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.support.checks import raises
from tests.support.threads import in_another_thread

import adjoint as ad
from adjoint.core.runtime.mode import nondefault

pytestmark = pytest.mark.claim("4.19")

CREATIONS: list[Callable[[Any], Any]] = [
    lambda lib: lib.ones(2),
    lambda lib: lib.rand(2),
    lambda lib: lib.tensor([1.0, 2.0]),
    lambda lib: lib.arange(3),
    lambda lib: lib.eye(2),
    lambda lib: lib.zeros_like(lib.ones(2)),
    lambda lib: lib.ones(2) * 2,
    lambda lib: lib.ones(2).view(1, 2),
    lambda lib: lib.ones(2).detach(),
    lambda lib: lib.cat([lib.ones(1), lib.ones(2)]),
]


def test_contexts_and_decorators() -> None:
    before = nondefault.count
    assert not ad.is_inference_mode_enabled()
    with ad.inference_mode():
        assert ad.is_inference_mode_enabled()
        assert not ad.is_grad_enabled()
        with ad.inference_mode(False):
            assert not ad.is_inference_mode_enabled()
            assert ad.is_grad_enabled()
        with ad.enable_grad():
            assert not (ad.ones(1, requires_grad=True) * 2).requires_grad
        with ad.no_grad():
            assert ad.ones(1).is_inference()
        assert ad.is_inference_mode_enabled()

    def double(x: Any) -> Any:
        return x * 2

    x = ad.ones(1, requires_grad=True)
    decorated: Any
    for decorated in (ad.inference_mode(double), ad.inference_mode()(double), ad.inference_mode(mode=double)):
        assert ad.is_inference(decorated(x))
        assert not decorated(x).requires_grad
    plain: Any = ad.inference_mode(False)(double)
    with ad.no_grad():
        assert plain(x).requires_grad
    assert nondefault.count == before


@pytest.mark.needs_threads
def test_inference_mode_is_per_thread() -> None:
    seen: list[bool] = []
    with ad.inference_mode():
        in_another_thread(lambda: seen.append(ad.ones(1).is_inference()))
    assert seen == [False]


@pytest.mark.parametrize("make", CREATIONS)
def test_what_is_made_there(make: Callable[[Any], Any]) -> None:
    torch = pytest.importorskip("torch")
    answers = []
    for lib in (ad, torch):
        with lib.inference_mode():
            x = make(lib)
            inside = (x.is_inference(), x.requires_grad, x.is_leaf, x._is_view())
        later = [x + x, x.clone(), x.detach(), x.view(-1), x.reshape(-1)[:1]]
        answers.append((inside, [(y.is_inference(), y.requires_grad, y.is_leaf, y._is_view()) for y in later]))
    assert answers[0] == answers[1]


ATTEMPTS: list[Callable[[Any, Any, Any], Any]] = [
    lambda lib, c, s: c._version,
    lambda lib, c, s: c.requires_grad_(),
    lambda lib, c, s: setattr(c, "requires_grad", True),
    lambda lib, c, s: c.requires_grad_(False).requires_grad,
    lambda lib, c, s: c.add_(1),
    lambda lib, c, s: c.zero_(),
    lambda lib, c, s: c.copy_(lib.ones(3)),
    lambda lib, c, s: c.__setitem__(0, 1.0),
    lambda lib, c, s: c * s,
    lambda lib, c, s: s * c,
    lambda lib, c, s: (s + c).requires_grad,
    lambda lib, c, s: (c * c).requires_grad,
    lambda lib, c, s: s.clone().mul_(c),
    lambda lib, c, s: (s * 1).add_(c).requires_grad,
    lambda lib, c, s: lib.where(c > 0, s, c).requires_grad,
    lambda lib, c, s: c @ s,
    lambda lib, c, s: lib.nn.functional.linear(c, s.reshape(1, 3)),
    lambda lib, c, s: c.sum().requires_grad,
    lambda lib, c, s: c.backward(),
    lambda lib, c, s: lib.zeros(3).copy_(c).is_inference(),
    lambda lib, c, s: c.detach_().is_inference(),
    lambda lib, c, s: c.data.is_inference(),
]


PHRASES = (
    "Inplace update to inference tensor outside InferenceMode is not allowed",
    "Inference tensors cannot be saved for backward",
    "Inference tensors do not track version counter",
    "Setting requires_grad=True on inference tensor outside InferenceMode is not allowed",
    "does not require grad and does not have a grad_fn",
)


@pytest.mark.parametrize("attempt", ATTEMPTS)
def test_what_is_refused_outside(attempt: Callable[[Any, Any, Any], Any]) -> None:
    torch = pytest.importorskip("torch")
    answers = []
    for lib in (ad, torch):
        with lib.inference_mode():
            c = lib.ones(3)
        try:
            answers.append(attempt(lib, c, lib.ones(3, requires_grad=True)))
        except RuntimeError as error:
            answers.append(next(phrase for phrase in PHRASES if phrase in str(error)))
    ours, theirs = answers
    assert ours == theirs


def test_an_inference_leaf_collects_its_gradient() -> None:
    with ad.inference_mode():
        c = ad.ones(3, requires_grad=True)
    s = ad.ones(3, requires_grad=True)
    (c + s).sum().backward()
    assert c.grad.tolist() == [1.0, 1.0, 1.0]


def test_views_of_normal_tensors() -> None:
    s = ad.ones(2, 3, requires_grad=True)
    a = s.clone()
    with ad.inference_mode():
        view = a.view(-1)
        assert (view.is_inference(), view.requires_grad, view.is_leaf, view._is_view()) == (False, True, True, True)
        view.add_(1)
        assert a._version == view._version == 1
    assert a[0, 0].item() == 2
    raises(RuntimeError, "A view was created in inference mode and is being modified inplace", lambda: view.add_(1))
    a.mul_(2)
    for use in (lambda: view.grad_fn, lambda: view.add_(1)):
        raises(RuntimeError, "created in inference mode and its base or another view", use)


def test_a_write_in_inference_mode_counts_for_backward() -> None:
    s = ad.ones(3, requires_grad=True)
    a = s.clone()
    out = a * a
    with ad.inference_mode():
        a.add_(2)
    assert not a.is_inference()
    raises(RuntimeError, "modified by an inplace operation", out.sum().backward)


def test_a_function_cannot_save_them_either() -> None:
    class Scale(ad.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any, y: Any) -> Any:
            ctx.save_for_backward(y)
            return x * 2

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            return grads[0] * 2, None

    with ad.inference_mode():
        c = ad.ones(3)
        assert Scale.apply(c, c).is_inference()
    with pytest.raises(RuntimeError, match="Inference tensors cannot be saved for backward"):
        Scale.apply(ad.ones(3, requires_grad=True), c)


def test_a_compiled_step_in_inference_mode_gives_the_eager_numbers() -> None:
    def step(x: Any) -> Any:
        y = x * 2
        y[0] = 5.0
        z = y.view(-1)
        z.add_(1)
        return y

    pytest.importorskip("llvmlite")
    with ad.inference_mode():
        x = ad.ones(3)
        assert ad.compile(step)(x).tolist() == step(x).tolist() == [6.0, 3.0, 3.0]


def test_no_gradient_is_lost_in_a_view_whose_base_was_written() -> None:
    x = ad.ones(3, requires_grad=True)
    base: Any = x * 1
    with ad.inference_mode():
        view = base[:2]
    base.add_(1)
    raises(RuntimeError, "created in inference mode and its base or another view of its base", view.sum().backward)


VIEWS: list[Any] = [
    lambda x: x[0], lambda x: x.unsqueeze(1), lambda x: x.transpose(0, 1), lambda x: x.view(-1)[1:], lambda x: x.mT,
    lambda x: x.chunk(2, 1)[1],
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(VIEWS)))
def test_views_know_that_they_were_made_in_inference_mode(number: int) -> None:
    view = VIEWS[number]
    outside = ad.arange(12.0).reshape(3, 4)
    for _ in range(3):  # repeated calls take the step that the first led to
        with ad.inference_mode():
            made, seen = view(ad.arange(12.0).reshape(3, 4)), view(outside)
        assert made.is_inference()
        assert not seen.is_inference()
        raises(RuntimeError, "Inplace update to inference tensor", made.add_, 1)
        seen.add_(0)
        assert seen._version == outside._version


def test_all_parts_of_a_factorization_are_made_in_inference_mode() -> None:
    with ad.inference_mode():
        x = ad.eye(3) * 2
        parts = [*ad.linalg.qr(x), *ad.linalg.svd(x), *ad.linalg.eigh(x), *x.max(1), *x.topk(2), *x.sort(0)]
    assert all(part.is_inference() for part in parts)
