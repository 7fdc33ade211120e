"""A compiled function whose `backward()` is called outside of it: eager's gradients, to any order."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.support.checks import raises
from tests.support.steps import cnn, mlp

import adjoint as ad
import adjoint.nn.functional as F
from adjoint import nn, optim
from adjoint.autograd import Function
from adjoint.utils.checkpoint import checkpoint

pytest.importorskip("llvmlite")


def pair(make: Callable[[], Any]) -> tuple[Any, Any, Any]:
    """A model, compiled; the model itself; its twin that stays eager."""
    ad.manual_seed(0)
    model = make()
    return ad.compile(model), model, copy.deepcopy(model)


def same_gradients(model: Any, twin: Any, rtol: float = 1e-4) -> None:
    """Parameters have equal gradients, up to rounding."""
    for p, q in zip(model.parameters(), twin.parameters(), strict=True):
        assert (p.grad is None) == (q.grad is None)
        if p.grad is not None:
            np.testing.assert_allclose(p.grad.numpy(), q.grad.numpy(), rtol=rtol, atol=1e-6)


@pytest.mark.parametrize(("make", "shape"), [(mlp, (8, 12)), (cnn, (6, 1, 8, 8))], ids=["mlp", "cnn"])
def test_training_with_a_compiled_model(make: Callable[[], Any], shape: tuple[int, ...]) -> None:
    compiled, model, twin = pair(make)
    optimizers = [optim.SGD(m.parameters(), lr=0.05, momentum=0.9) for m in (model, twin)]
    for i in range(4):
        x, y = ad.randn(*shape), ad.randint(0, 3, shape[:1])
        for forward, optimizer in zip((compiled, twin), optimizers, strict=True):
            ad.manual_seed(i)
            optimizer.zero_grad()
            F.cross_entropy(forward(x), y).backward()
            optimizer.step()
        same_gradients(model, twin)
    assert compiled.compilations == 1


def test_gradients_of_arguments_and_of_histories_before() -> None:
    w = ad.randn(3, 3, requires_grad=True, dtype=ad.float64)
    x = ad.randn(2, 3, requires_grad=True, dtype=ad.float64)
    compiled = ad.compile(lambda x, s: (x @ w).tanh() * s)
    found = []
    for f in (compiled, lambda x, s: (x @ w).tanh() * s):
        w.grad = x.grad = None
        f(x * 2, 3.0).sum().backward()
        found.append((w.grad.clone(), x.grad.clone()))
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-9, atol=1e-12)  # small ones are differences


def test_several_results_some_without_gradient() -> None:
    w = ad.randn(4, requires_grad=True, dtype=ad.float64)

    def f(x: Any) -> Any:
        h = x * w
        return {"sum": h.sum(), "parts": (h.exp(), h.detach(), h > 0)}

    compiled = ad.compile(f)
    x = ad.randn(4, dtype=ad.float64)
    for use in (lambda r: r["sum"], lambda r: r["parts"][0].sum(), lambda r: r["sum"] * r["parts"][0].sum()):
        grads = [ad.autograd.grad(use(g(x)), w)[0].numpy() for g in (compiled, f)]
        np.testing.assert_allclose(*grads, rtol=1e-12)
    result = compiled(x)
    assert [t.requires_grad for t in (result["sum"], *result["parts"])] == [True, True, False, False]
    assert result["sum"].grad_fn.name() == "CompiledBackward"


def test_to_any_order() -> None:
    compiled = ad.compile(lambda x: (x**3).sum())
    x = ad.tensor([2.0], dtype=ad.float64, requires_grad=True)
    (first,) = ad.autograd.grad(compiled(x), x, create_graph=True)
    (second,) = ad.autograd.grad(first, x, create_graph=True)
    (third,) = ad.autograd.grad(second, x)
    assert [first.item(), second.item(), third.item()] == [12.0, 12.0, 6.0]


def test_a_gradient_penalty_through_a_compiled_model() -> None:
    compiled, model, twin = pair(lambda: nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.3), nn.Tanh(), nn.Linear(8, 1)))
    x = ad.randn(5, 4)
    for forward in (compiled, twin):
        ad.manual_seed(1)
        inputs = x.clone().requires_grad_()
        (g,) = ad.autograd.grad(forward(inputs).sum(), inputs, create_graph=True)
        g.square().sum().backward()
    same_gradients(model, twin)


def test_retain_graph_and_a_second_pass() -> None:
    w = ad.ones(3, requires_grad=True)
    loss = ad.compile(lambda x: (x * w * w).sum())(ad.ones(3))
    loss.backward(retain_graph=True)
    loss.backward()
    assert w.grad.tolist() == [4.0, 4.0, 4.0]
    raises(RuntimeError, "a second time", loss.backward)


def test_a_parameter_written_before_backward_is_noticed() -> None:
    w = ad.ones(3, requires_grad=True)
    loss = ad.compile(lambda x: (x * w * w).sum())(ad.ones(3))
    with ad.no_grad():
        w.mul_(2.0)
    raises(RuntimeError, "modified by an inplace operation", loss.backward)


def test_calls_may_overlap() -> None:
    ad.manual_seed(0)  # the sum of others may cancel to few digits
    w = ad.randn(3, requires_grad=True)
    compiled = ad.compile(lambda x: (x * w).exp().sum())
    inputs = [ad.randn(3) for _ in range(3)]
    losses = [compiled(x) for x in inputs]
    for loss in reversed(losses):
        loss.backward()
    expected = sum((x * (x * w).exp()).detach().numpy() for x in inputs)
    np.testing.assert_allclose(w.grad.numpy(), expected, rtol=1e-5)


def test_hooks_inside_and_outside() -> None:
    w = ad.ones(3, requires_grad=True)
    seen: list[str] = []

    def f(x: Any) -> Any:
        y = x * w
        y.register_hook(lambda g: g * 5)
        return y.sum()

    w.register_hook(lambda g: g * 2)
    w.register_post_accumulate_grad_hook(lambda p: seen.append("rest"))
    compiled = ad.compile(f)
    for calls in (1, 2):
        compiled(ad.ones(3)).backward()
        assert w.grad.tolist() == [10.0 * calls] * 3
        assert seen == ["rest"] * calls


def test_a_hook_that_does_more_than_compute_is_refused() -> None:
    w, seen = ad.ones(3, requires_grad=True), []

    def f(x: Any) -> Any:
        y = x * w
        y.register_hook(seen.append)
        return y.sum()

    def inside(x: Any) -> None:
        w.grad = None
        f(x).backward()

    raises(RuntimeError, r"contents of a list at .* in the backward pass of 'f'", ad.compile(f), ad.ones(3))
    assert seen == []
    ad.compile(inside)(ad.ones(3))
    assert [g.tolist() for g in seen] == [[1.0] * 3]


def test_module_hooks_of_every_kind() -> None:
    compiled, model, twin = pair(lambda: nn.Sequential(nn.Linear(3, 3), nn.Tanh()))
    for m in (model, twin):
        m[0].register_full_backward_hook(lambda _, before, after: (before[0] * 2,))
        m[0].register_full_backward_pre_hook(lambda _, after: tuple(g * 3 for g in after))
        m[1].register_forward_hook(lambda _, args, out: out * 3)
        m.register_forward_pre_hook(lambda _, args: (args[0] + 1,))
    x = ad.randn(2, 3)
    grads = []
    for forward in (compiled, twin):
        inputs = x.clone().requires_grad_()
        forward(inputs).sum().backward()
        grads.append(inputs.grad)
    np.testing.assert_allclose(grads[0].numpy(), grads[1].numpy(), rtol=1e-5)
    same_gradients(model, twin)


class Clamped(Function):
    """The identity, with a gradient of its own."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x.clone()

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        return g.clamp(-0.5, 0.5) * (x > 0)


def test_a_function_of_ones_own_keeps_its_rule() -> None:
    x = ad.tensor([1.0, -1.0, 2.0], requires_grad=True)
    ad.compile(lambda x: (Clamped.apply(x) * 3).sum())(x).backward()
    assert x.grad.tolist() == [0.5, 0.0, 0.5]


def test_transforms_of_a_compiled_function() -> None:
    def f(x: Any) -> Any:
        return (x**3).sum() * 2.0

    compiled = ad.compile(f)
    x = ad.tensor([1.0, 2.0, 3.0], dtype=ad.float64)
    compiled(x)
    for transform in (ad.func.grad, ad.func.jacrev, ad.func.jacfwd, ad.func.hessian):
        np.testing.assert_allclose(transform(compiled)(x).numpy(), transform(f)(x).numpy(), rtol=1e-12)
    rows = ad.randn(4, 3, dtype=ad.float64)
    np.testing.assert_allclose(ad.func.vmap(compiled)(rows).numpy(), ad.func.vmap(f)(rows).numpy(), rtol=1e-12)
    mixed = ad.func.vmap(ad.func.grad(compiled))(rows)
    np.testing.assert_allclose(mixed.numpy(), 6 * rows.numpy() ** 2, rtol=1e-12)


def test_what_is_cheap_is_computed_again_and_the_rest_saved() -> None:
    x = ad.randn(64, dtype=ad.float64, requires_grad=True)
    cheap = ad.compile(lambda x: x.sin().exp().sum())
    loss = cheap(x)
    assert [a is x.array for a in loss.grad_fn.saved_values] == [True], "only the argument itself is held"
    loss.backward()
    values = x.detach().numpy()
    np.testing.assert_allclose(x.grad.numpy(), np.exp(np.sin(values)) * np.cos(values), rtol=1e-13)
    w = ad.randn(64, 64, dtype=ad.float64)
    dear = ad.compile(lambda x: (x @ w).tanh().sum())
    assert sum(a is not x.array and a is not w.array for a in dear(x).grad_fn.saved_values) == 1


def test_a_checkpoint_saves_less_and_gives_the_same() -> None:
    class Net(nn.Module):
        def __init__(self, checkpointed: bool) -> None:
            super().__init__()
            self.blocks = nn.ModuleList(
                nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Dropout(0.2), nn.Linear(32, 16)) for _ in range(4)
            )
            self.checkpointed = checkpointed

        def forward(self, x: Any) -> Any:
            for block in self.blocks:
                x = checkpoint(block, x, use_reentrant=False) if self.checkpointed else block(x)
            return x

    plain, saving = Net(False), Net(True)
    saving.load_state_dict(plain.state_dict())
    x = ad.randn(10, 16)
    kept = []
    for model in (plain, saving):
        ad.manual_seed(7)
        out = ad.compile(model)(x)
        kept.append(sum(a.nbytes for a in out.grad_fn.saved_values))
        out.square().sum().backward()
    same_gradients(plain, saving)
    assert kept[1] < 0.75 * kept[0]


def test_gradient_mode_decides_whether_there_is_a_history() -> None:
    compiled = ad.compile(nn.Linear(2, 2))
    x = ad.ones(1, 2)
    assert compiled(x).requires_grad
    with ad.no_grad():
        assert not compiled(x).requires_grad
    with ad.inference_mode():
        assert compiled(x).is_inference()
    assert compiled.compilations == 3


def test_the_error_of_a_gradient_that_does_not_fit() -> None:
    w = ad.ones(3, requires_grad=True)
    out = ad.compile(lambda x: x * w)(ad.ones(3))
    raises(RuntimeError, "grad can be implicitly created only for scalar outputs", out.backward)
    raises(RuntimeError, "Mismatch in shape", out.backward, ad.ones(2))
    out.backward(ad.ones(3))
    assert w.grad.tolist() == [1.0, 1.0, 1.0]
