"""What changes between calls takes effect: as a runtime input, through new memory, or by tracing again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.support.steps import batches, close, cnn, mlp, same_state, training
from tests.support.threads import in_threads

import adjoint as ad
import adjoint.nn.functional as F
from adjoint import nn, optim

pytest.importorskip("llvmlite")


class Twins:
    """A model trained by a compiled step, and its twin trained eagerly; whatever is done is done to both."""

    def __init__(self, make: Callable[[], Any] = mlp, shape: tuple[int, ...] = (16, 12), **options: Any) -> None:
        self.models = [make(), make()]
        self.optimizers = [optim.SGD(m.parameters(), lr=0.05, momentum=0.9, **options) for m in self.models]
        self.compiled = ad.compile(training(self.models[0], self.optimizers[0]))
        self.eager = training(self.models[1], self.optimizers[1])
        self.shape = shape

    def run(self, steps: int = 3) -> None:
        """Train both, on equal random numbers, and compare everything."""
        for x, y in batches(steps, *self.shape):
            state = ad.get_rng_state()
            loss = self.compiled(x, y)
            ad.set_rng_state(state)
            close(loss, self.eager(x, y))
        same_state(*self.models, rough=1e-5)

    def each(self, change: Callable[[Any, Any], Any]) -> None:
        """Change both."""
        for model, optimizer in zip(self.models, self.optimizers, strict=True):
            change(model, optimizer)


def test_numbers_of_the_optimizer_are_runtime_inputs() -> None:
    twins = Twins(weight_decay=0.01)
    twins.run()
    for name, value in {"lr": 0.2, "momentum": 0.5, "weight_decay": 0.1}.items():
        twins.each(lambda _, o, name=name, value=value: o.param_groups[0].update({name: value}))  # type: ignore[misc]
        twins.run()
    assert twins.compiled.compilations == 1


def test_a_scheduler_never_recompiles() -> None:
    twins = Twins()
    schedules = [
        optim.lr_scheduler.OneCycleLR(o, max_lr=0.5, total_steps=40, cycle_momentum=True) for o in twins.optimizers
    ]
    for _ in range(30):
        twins.run(1)
        for schedule in schedules:
            schedule.step()
    assert twins.compiled.compilations == 1


def test_switching_the_decay_on_is_another_program() -> None:
    twins = Twins()
    twins.run()
    twins.each(lambda _, o: o.param_groups[0].update(weight_decay=0.1))
    twins.run()
    twins.each(lambda _, o: o.param_groups[0].update(weight_decay=0))
    twins.run()
    assert twins.compiled.compilations == 2, "both programs are kept"


def test_train_and_eval() -> None:
    twins = Twins(cnn, (10, 1, 8, 8))
    twins.run()
    twins.each(lambda m, _: m.eval())
    twins.run()
    twins.each(lambda m, _: m.train())
    twins.run()
    assert twins.compiled.compilations == 2


def test_a_replaced_parameter_module_or_forward() -> None:
    twins = Twins()
    twins.run(1)

    def replace(model: Any, optimizer: Any) -> None:
        ad.manual_seed(5)
        model[2].bias = nn.Parameter(ad.randn(3))
        optimizer.add_param_group({"params": [model[2].bias]})

    twins.each(replace)
    twins.run(2)
    twins.each(lambda m, _: m.__setitem__(1, nn.Tanh()))
    twins.run(2)
    twins.each(lambda m, _: setattr(m[1], "forward", lambda x: x * 0.5))
    twins.run(2)


def test_values_written_from_outside_are_seen() -> None:
    twins = Twins()
    twins.run(1)

    def write(model: Any, _: Any) -> None:
        with ad.no_grad():
            model[0].weight.mul_(0.5)
            model[0].bias.detach().numpy()[...] = 0.25

    twins.each(write)
    twins.run(1)
    twins.each(lambda m, _: setattr(m[0].weight, "data", ad.ones(20, 12) * 0.1))
    twins.run(2)
    assert twins.compiled.compilations == 1, "memory of the same shape is bound anew"


def test_load_state_dict_of_model_and_optimizer() -> None:
    twins = Twins()
    twins.run(2)
    models = [{k: v.clone() for k, v in m.state_dict().items()} for m in twins.models]
    states = [o.state_dict() for o in twins.optimizers]
    twins.run(2)
    for model, saved in zip(twins.models, models, strict=True):
        model.load_state_dict(saved)
    twins.run(1)
    for optimizer, saved in zip(twins.optimizers, states, strict=True):
        optimizer.load_state_dict(saved)
    twins.run(2)


def test_a_frozen_parameter() -> None:
    twins = Twins()
    twins.run(1)
    twins.each(lambda m, _: m[0].requires_grad_(False))
    twins.run(2)
    twins.each(lambda m, _: m[0].requires_grad_(True))
    twins.run(2)


def test_a_hook_added_later_and_removed() -> None:
    twins = Twins()
    twins.run(1)
    handles: list[Any] = []
    twins.each(lambda m, _: handles.append(m[0].register_forward_hook(lambda _, args, out: out * 0.5)))
    twins.run(2)
    for handle in handles:
        handle.remove()
    twins.run(2)


def test_a_step_that_keeps_changing_says_what() -> None:
    linear = nn.Linear(2, 2)
    compiled = ad.compile(lambda x: linear(x).sum())

    def keep_changing() -> None:
        for i in range(20):
            linear.note = i
            assert compiled(ad.ones(1, 2)).item() == linear(ad.ones(1, 2)).sum().item()

    with pytest.warns(RuntimeWarning, match=r"traced 16 times.*runs eagerly.*module Linear.*note = 7 → note = 15"):
        keep_changing()
    assert compiled.compilations == 16


def test_threads_share_a_compiled_function() -> None:
    weight = ad.randn(8, 8)
    compiled = ad.compile(lambda x: (x @ weight).tanh().sum(1))
    inputs = [ad.randn(4, 8) for _ in range(8)]
    expected = [(x @ weight).tanh().sum(1) for x in inputs]

    def work(i: int) -> None:
        for _ in range(50):
            close(compiled(inputs[i]), expected[i])

    in_threads(work, 8)


@pytest.mark.parametrize("fresh", [False, True])
def test_a_gradient_that_is_returned_is_the_tensors_own(fresh: bool) -> None:
    """What accumulates later is seen in it, and what replaces it is not."""

    def made() -> Any:
        x = ad.ones(2, requires_grad=True)

        def step(factor: Any) -> Any:
            if fresh:
                x.grad = None
            (x * factor).sum().backward()
            return x.grad, x.grad * 2

        return x, step

    seen = []
    for wrap in (lambda f: f, ad.compile):
        x, step = made()
        call = wrap(step)
        found = [call(ad.full((2,), float(i))) for i in range(5)]
        seen.append([[(a.tolist(), b.tolist()) for a, b in found], [a is x.grad for a, _ in found]])
    assert seen[0] == seen[1]


def test_a_step_that_adds_a_hook_each_time_has_one_more_each_time() -> None:
    def made() -> Any:
        x = ad.ones(2, requires_grad=True)

        def step() -> Any:
            x.register_hook(lambda g: g * 0.5)
            (x * 0.5).sum().backward()
            return x.grad.clone()

        return step

    eager, compiled = made(), ad.compile(made())
    for _ in range(5):
        assert compiled().tolist() == eager().tolist()


def test_a_hook_that_a_step_adds_and_takes_off_is_the_same_step_again() -> None:
    x = ad.ones(2, requires_grad=True)

    @ad.compile
    def step() -> Any:
        x.grad = None
        handle = x.register_hook(lambda g: g * 3)
        (x * 2).sum().backward()
        handle.remove()
        return x.grad.sum()

    assert [step().item() for _ in range(3)] == [12.0] * 3
    assert step.compilations == 1


def test_hooks_of_tensors_and_custom_functions_run_at_trace_time() -> None:
    class Double(ad.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            (x,) = ctx.saved_tensors
            return g * 2 + 0 * x

    def step(w: Any, x: Any) -> Any:
        def f() -> Any:
            hidden = Double.apply(x * w)
            hidden.register_hook(lambda g: g * 3)
            loss = hidden.sum()
            loss.backward()
            return loss

        return f

    ours, theirs = (ad.ones(3, requires_grad=True) for _ in range(2))
    x = ad.tensor([1.0, 2.0, 3.0])
    compiled, eager = ad.compile(step(ours, x)), step(theirs, x)
    for _ in range(3):
        close(compiled(), eager())
        close(ours.grad, theirs.grad)


def test_inside_another_compiled_function_it_is_part_of_it() -> None:
    inner = ad.compile(lambda x: x.exp())
    outer = ad.compile(lambda x: inner(x) + 1)
    x = ad.tensor([0.0, 1.0])
    close(outer(x), x.exp() + 1)
    assert inner.compilations == 0


def test_grad_mode_is_part_of_the_signature() -> None:
    w = ad.ones(2, requires_grad=True)
    compiled = ad.compile(lambda x: (x * w).sum())
    x = ad.ones(2)
    assert compiled(x).requires_grad
    with ad.no_grad():
        assert not compiled(x).requires_grad
        assert not compiled(x).requires_grad
    assert compiled(x).requires_grad
    assert compiled.compilations == 2
    _ = F
