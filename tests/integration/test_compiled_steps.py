"""What is claimed of compiled steps: one program for a whole step, no stale Python, reasons for all that is made."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.support.steps import mlp

import adjoint as ad
import adjoint.nn.functional as F
from adjoint import nn, optim

pytest.importorskip("llvmlite")


@pytest.mark.claim("1.29")
def test_what_is_cheap_is_recomputed_and_nothing_is_saved() -> None:
    x = ad.randn(1000, dtype=ad.float64, requires_grad=True)
    compiled = ad.compile(lambda x: x.sin().exp().sum())
    loss = compiled(x)
    assert [a is x.array for a in loss.grad_fn.saved_values] == [True], "the argument itself, and no activation"
    loss.backward()
    found, x.grad = x.grad, None
    x.sin().exp().sum().backward()
    np.testing.assert_allclose(found.numpy(), x.grad.numpy(), rtol=1e-14)


@pytest.mark.claim("3.1")
def test_a_chain_is_one_loop_without_temporaries() -> None:
    t0, t1 = ad.randn(2, 3, 4), ad.randn(2, 3, 4)
    compiled = ad.compile(lambda a, b: a + b + b)
    np.testing.assert_array_equal(compiled(t0, t1).numpy(), (t0 + t1 + t1).numpy())
    assert [k["kind"] for k in compiled.kernels] == ["kernel"]
    program = compiled._latest.program
    assert program.binding.plan.size == 0, "nothing lies between operands and result"


@pytest.mark.claim("4.1")
def test_a_module_compiles_its_own_calls() -> None:
    model = mlp()
    assert model._compiled_call_impl is None
    assert type(model).__call__ is nn.Module._wrapped_call_impl
    x = ad.randn(4, 12)
    expected = model(x).detach().numpy()
    model.compile()
    np.testing.assert_allclose(model(x).detach().numpy(), expected, rtol=1e-5)
    assert model._compiled_call_impl.compilations == 1
    np.testing.assert_allclose(ad.compile(mlp())(x).shape, expected.shape)


@pytest.mark.claim("4.4")
def test_equations_carry_the_path_of_their_module() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc1, self.fc2 = nn.Linear(3, 4), nn.Linear(4, 2)

        def forward(self, x: Any) -> Any:
            return self.fc2(F.relu(self.fc1(x)))

    compiled = ad.compile(Net())
    compiled(ad.ones(1, 3)).sum().backward()
    modules = {v.origin.module for v in compiled.graph.equations}
    assert {"Net.fc1", "Net.fc2", "Net"} <= modules


@pytest.mark.claim("4.23")
def test_a_second_call_traces_and_compiles_nothing_and_a_hook_takes_effect() -> None:
    model = mlp()
    compiled = ad.compile(model)
    x = ad.randn(2, 12)
    first = compiled(x)
    program = compiled._latest.program
    assert compiled(x).tolist() == first.tolist()
    assert compiled.compilations == 1
    assert compiled._latest.program is program
    handle = model[0].register_forward_hook(lambda _, args, out: out * 0)
    assert compiled(x).tolist() == model(x).tolist() != first.tolist()
    handle.remove()
    assert compiled(x).tolist() == first.tolist()
    assert compiled.compilations == 2, "the program without the hook was kept"


def whole_step(model: Any, optimizer: Any, schedule: Any) -> Callable[[Any, Any], Any]:
    """zero_grad, forward, loss, backward, clipping, step, scheduler."""

    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        schedule.step()
        return loss

    return step


def made(count: int) -> tuple[Any, Any, Any]:
    """A model, its optimizer, and a schedule of so many steps."""
    ad.manual_seed(0)
    model = mlp()
    optimizer = optim.AdamW(model.parameters(), lr=1e-3)
    return model, optimizer, optim.lr_scheduler.OneCycleLR(optimizer, max_lr=1e-2, total_steps=count)


@pytest.mark.claim("U1", "U2")
def test_a_whole_step_is_one_program_and_a_schedule_never_recompiles() -> None:
    ours, eager = made(1001), made(1001)
    compiled, plain = ad.compile(whole_step(*ours)), whole_step(*eager)
    x, y = ad.randn(8, 12), ad.randint(0, 3, (8,))
    for i in range(1000):
        loss = compiled(x, y)
        if i < 50:
            assert loss.item() == pytest.approx(plain(x, y).item(), rel=1e-4)
            assert ours[1].param_groups[0]["lr"] == eager[1].param_groups[0]["lr"]
    assert compiled.compilations == 1
    assert ours[2].last_epoch == 1000


@pytest.mark.claim("U3")
def test_hooks_a_replaced_forward_and_a_changed_attribute_take_effect() -> None:
    model = mlp()
    model.gain = 1.0  # type: ignore[assignment]
    compiled = ad.compile(lambda x: model(x) * model.gain)
    x = ad.randn(2, 12)
    for change in (
        lambda: None,
        lambda: setattr(model, "gain", 3.0),
        lambda: setattr(model[1], "forward", lambda x: x * 0.5),
        lambda: model.register_forward_pre_hook(lambda _, args: (args[0] + 1,)),
        lambda: model.__setitem__(1, nn.Tanh()),
    ):
        change()
        np.testing.assert_allclose(
            compiled(x).detach().numpy(), (model(x) * model.gain).detach().numpy(), rtol=1e-5, atol=1e-6
        )


@pytest.mark.claim("U4")
def test_double_backward_inside_and_outside() -> None:
    def f(x: Any) -> Any:
        return (x**3).sum()

    def inside(x: Any) -> Any:
        found = []
        y = f(x)
        for _ in range(3):
            (y,) = ad.autograd.grad(y, x, create_graph=True)
            found.append(y)
        return found

    x = ad.tensor([2.0], dtype=ad.float64, requires_grad=True)
    assert [g.item() for g in ad.compile(inside)(x)] == [12.0, 12.0, 6.0]
    outside = ad.compile(f)
    (g,) = ad.autograd.grad(outside(x), x, create_graph=True)
    (h,) = ad.autograd.grad(g, x, create_graph=True)
    (k,) = ad.autograd.grad(h, x)
    assert [g.item(), h.item(), k.item()] == [12.0, 12.0, 6.0]


@pytest.mark.claim("U5")
def test_every_boundary_has_a_reason_and_a_line() -> None:
    model, optimizer, schedule = made(10)
    compiled = ad.compile(whole_step(model, optimizer, schedule))
    compiled(ad.randn(8, 12), ad.randint(0, 3, (8,)))
    entries = compiled.kernels
    assert len(entries) > 5
    for entry in entries:
        assert entry["reason"]
        assert all("test_compiled_steps.py:" in line for line in entry["lines"])
        assert entry["lines"]


@pytest.mark.claim("U6")
def test_a_recompilation_is_explained() -> None:
    options = {"scale": 2}

    def step(x: Any, mask: Any = None) -> Any:
        return x * options["scale"] if mask is None else x * mask

    lines = inspect.getsourcelines(step)[1]
    compiled = ad.compile(step)
    compiled(ad.ones(4, 3))
    compiled(ad.ones(5, 3))
    options["scale"] = True
    compiled(ad.ones(5, 3))
    compiled(ad.ones(5, 3).double())
    compiled(ad.ones(5, 3).double(), mask=ad.ones(3))
    reasons = [str(r) for r in compiled.recompilations]
    assert reasons[0] == "step: first call"
    assert reasons[1] == "step: dimension 0 of argument 'x': 4 → 5"
    assert reasons[2].startswith("step: item 'scale' of a dict: 2 → True, read at ")
    assert reasons[2].endswith(f"test_compiled_steps.py:{lines + 1}")
    assert reasons[3] == "step: dtype of argument 'x': float32 → float64"
    assert "structure of the arguments" in reasons[4]
