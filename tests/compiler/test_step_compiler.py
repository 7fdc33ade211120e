"""Whole training steps: compiled, they do what they do eagerly, to every tensor that they touch."""

from __future__ import annotations

import gc
from typing import Any, NamedTuple

import numpy as np
import pytest
from tests.support.steps import OPTIMIZERS, batches, close, cnn, mlp, same_state, training

import adjoint as ad
import adjoint.nn.functional as F
from adjoint import nn, optim

pytest.importorskip("llvmlite")


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_mlp_with_every_optimizer(name: str) -> None:
    ours, theirs = mlp(), mlp()
    mine, other = OPTIMIZERS[name](ours.parameters()), OPTIMIZERS[name](theirs.parameters())
    compiled, eager = ad.compile(training(ours, mine)), training(theirs, other)
    for x, y in batches(12, 16, 12):
        close(compiled(x, y), eager(x, y))
    same_state(ours, theirs)
    for a, b in zip(mine.state.values(), other.state.values(), strict=True):
        for key in a:
            close(a[key], b[key])
    assert compiled.compilations == (2 if name == "dampening" else 1)


def test_cnn_with_running_statistics_and_random_masks() -> None:
    ours, theirs = cnn(), cnn()
    compiled = ad.compile(training(ours, optim.SGD(ours.parameters(), lr=0.05, momentum=0.9)))
    eager = training(theirs, optim.SGD(theirs.parameters(), lr=0.05, momentum=0.9))
    data = batches(8, 10, 1, 8, 8)
    ad.manual_seed(3)
    losses = [compiled(x, y) for x, y in data]
    ended = ad.get_rng_state()
    ad.manual_seed(3)
    for mine, (x, y) in zip(losses, data, strict=True):
        close(mine, eager(x, y))
    assert bool((ad.get_rng_state() == ended).all()), "the random stream moved differently"
    same_state(ours, theirs, 1e-5)
    assert compiled.compilations == 1


def test_a_model_learns_by_one_compiled_step() -> None:
    model = nn.Sequential(nn.Linear(12, 20), nn.ReLU(), nn.Linear(20, 3))
    optimizer = optim.Adam(model.parameters(), lr=1e-2)

    @ad.compile
    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    ((x, y),) = batches(1, 30, 12)
    first = step(x, y).item()
    for _ in range(60):
        last = step(x, y).item()
    assert last < 0.5 * first
    assert step.compilations == 1
    assert "mm" in str(step.graph)
    assert "kernel" in str(step.explain())


def test_another_batch_size_is_another_program_and_both_are_kept() -> None:
    ours, theirs = mlp(), mlp()
    compiled = ad.compile(training(ours, optim.SGD(ours.parameters(), lr=0.1)))
    eager = training(theirs, optim.SGD(theirs.parameters(), lr=0.1))
    for size in (16, 5, 16, 5, 16):
        ((x, y),) = batches(1, size, 12)
        close(compiled(x, y), eager(x, y))
    same_state(ours, theirs)
    assert compiled.compilations == 2


def test_gradients_stay_readable_and_belong_to_who_holds_them() -> None:
    model = mlp()
    compiled = ad.compile(training(model, optim.SGD(model.parameters(), lr=0.1)))
    data = batches(4, 16, 12)
    compiled(*data[0])
    compiled(*data[1])
    weight = model[0].weight
    held, array = weight.grad, model[2].weight.grad.numpy()
    before = held.numpy().copy(), array.copy()
    compiled(*data[2])
    np.testing.assert_array_equal(held.numpy(), before[0])
    np.testing.assert_array_equal(array, before[1])
    assert weight.grad is not held
    again = weight.grad
    del again
    compiled(*data[3])
    assert weight.grad is not None


def test_gradients_accumulate_over_calls_without_zero_grad() -> None:
    ours, theirs = mlp(), mlp()

    def accumulate(model: Any) -> Any:
        return lambda x, y: F.cross_entropy(model(x), y).backward()

    compiled, eager = ad.compile(accumulate(ours)), accumulate(theirs)
    for x, y in batches(5, 16, 12):
        compiled(x, y)
        eager(x, y)
    same_state(ours, theirs)
    assert compiled.compilations == 2  # the first call finds no gradients, the later ones add to them
    for model in (ours, theirs):
        model.zero_grad()
    x, y = batches(1, 16, 12)[0]
    compiled(x, y)
    eager(x, y)
    same_state(ours, theirs)
    assert compiled.compilations == 2


def test_several_backwards_and_clipping_by_hand_in_one_step() -> None:
    def make(model: Any, optimizer: Any) -> Any:
        def step(x: Any, y: Any) -> Any:
            optimizer.zero_grad()
            for part in range(2):
                (F.cross_entropy(model(x[part::2]), y[part::2]) / 2).backward()
            total = sum((p.grad**2).sum() for p in model.parameters()) ** 0.5
            for p in model.parameters():
                p.grad.mul_((1.0 / (total + 1e-6)).clamp(max=1.0))
            optimizer.step()
            return total

        return step

    ours, theirs = mlp(), mlp()
    compiled = ad.compile(make(ours, optim.SGD(ours.parameters(), lr=0.5)))
    eager = make(theirs, optim.SGD(theirs.parameters(), lr=0.5))
    for x, y in batches(6, 16, 12):
        close(compiled(x, y), eager(x, y))
    same_state(ours, theirs)


@pytest.mark.parametrize("fresh", [True, False])
def test_a_gradient_made_with_create_graph_requires_grad_after_the_step_and_says_that_its_history_is_gone(
    fresh: bool,
) -> None:
    def step(w: Any) -> Any:
        if fresh:
            w.grad = None
        (w**3).sum().backward(create_graph=True)

    weights = [ad.tensor([1.0, 2.0], requires_grad=True) for _ in range(2)]
    compiled = ad.compile(step)
    for _ in range(3):
        compiled(weights[0])
        step(weights[1])
        close(weights[0].grad, weights[1].grad)
        assert weights[0].grad.requires_grad
    with pytest.raises(RuntimeError, match=r"inside the compiled step 'step'"):
        weights[0].grad.sum().backward()


def test_third_derivative_inside_a_compiled_function() -> None:
    @ad.compile
    def derivatives(x: Any) -> list[Any]:
        x = x.detach().requires_grad_()
        y, found = x**3, []
        for _ in range(3):
            (y,) = ad.autograd.grad(y, x, create_graph=True)
            found.append(y)
        return found

    assert [d.item() for d in derivatives(ad.tensor(2.0))] == [12.0, 12.0, 6.0]


class Pair(NamedTuple):
    first: Any
    second: Any


def test_containers_keywords_and_plain_values() -> None:
    @ad.compile
    def combine(pair: Any, *, scale: float, parts: dict[str, Any], flip: bool = False) -> Any:
        out = pair.first * scale + parts["a"]
        return {"out": -out if flip else out, "pair": Pair(pair.second, out.sum()), "list": [scale, None]}

    a, b, c = (ad.tensor([1.0, 2.0]) * k for k in (1, 2, 3))
    got = combine(Pair(a, b), scale=2.0, parts={"a": c})
    assert got["out"].tolist() == [5.0, 10.0]
    assert isinstance(got["pair"], Pair)
    assert got["pair"].first.tolist() == [2.0, 4.0]
    assert got["pair"].second.item() == 15.0
    assert got["list"] == [2.0, None]
    assert combine(Pair(a, b), scale=3.0, parts={"a": c}, flip=True)["out"].tolist() == [-6.0, -12.0]
    assert combine(Pair(c, b), scale=2.0, parts={"a": a})["out"].tolist() == [7.0, 14.0]
    assert combine.compilations == 2


def test_methods_modules_and_no_grad() -> None:
    model = cnn().eval()
    compiled = ad.compile(model)
    assert len(list(compiled.parameters())) == len(list(model.parameters()))
    x = batches(1, 5, 1, 8, 8)[0][0]
    with ad.no_grad():
        for _ in range(3):
            close(compiled(x), model(x))
        assert compiled.compilations == 1

    class Scaler:
        def __init__(self, factor: float) -> None:
            self.factor = ad.tensor(factor)

        @ad.compile
        def scaled(self, x: Any) -> Any:
            return x * self.factor

    assert Scaler(2.0).scaled(ad.tensor([1.0])).item() == 2.0
    assert Scaler(3.0).scaled(ad.tensor([1.0])).item() == 3.0


def test_writes_to_arguments_and_captured_tensors_reach_them() -> None:
    counter, running = ad.zeros((), dtype=ad.int64), ad.zeros(3)

    @ad.compile
    def note(x: Any) -> None:
        counter.add_(1)
        running.mul_(0.5).add_(x)
        x.zero_()

    view = running.numpy()
    for _ in range(3):
        x = ad.ones(3)
        note(x)
        assert x.tolist() == [0.0, 0.0, 0.0]
    turned = ad.ones(3, 2).t()[0]  # not contiguous
    note(turned)
    assert turned.tolist() == [0.0, 0.0, 0.0]
    assert counter.item() == 4
    assert view.tolist() == [1.875] * 3, "the memory itself is written"


def test_a_result_that_is_an_input_or_state_is_a_tensor_of_its_own() -> None:
    state = ad.ones(2)

    @ad.compile
    def give(x: Any) -> Any:
        state.add_(1.0)
        return x, state, state * 1.0

    x = ad.tensor([5.0, 6.0])
    same, now, copy = give(x)
    assert (same.tolist(), now.tolist(), copy.tolist()) == ([5.0, 6.0], [2.0, 2.0], [2.0, 2.0])
    give(x)
    assert copy.tolist() == [2.0, 2.0]
    assert state.tolist() == [3.0, 3.0]


def test_zero_size_and_non_contiguous_and_float64_arguments() -> None:
    def f(x: Any) -> Any:
        return (x * 2 + 1).sum(0), x.relu().mean(), (x.exp() - 1).T

    compiled = ad.compile(f)
    base = ad.from_numpy(np.random.default_rng(0).normal(size=(6, 7)))
    for x in (base, base.T, base[::2, 1:], ad.zeros(0, 4), base.float()):
        for ours, theirs in zip(compiled(x), f(x), strict=True):
            assert ours.dtype == theirs.dtype
            assert ours.shape == theirs.shape
            np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=2e-6, atol=1e-7)


def test_one_tensor_given_twice_is_not_taken_for_two() -> None:
    @ad.compile
    def add(x: Any, y: Any) -> Any:
        return x + 2 * y

    a, b = ad.tensor([1.0]), ad.tensor([10.0])
    assert [add(a, a).item(), add(a, b).item(), add(a, a).item(), add(b, a).item()] == [3.0, 21.0, 3.0, 12.0]


def test_dropped_compiled_functions_give_their_memory_back() -> None:
    import weakref

    def once() -> Any:
        model = mlp()
        compiled = ad.compile(training(model, optim.SGD(model.parameters(), lr=0.1)))
        compiled(*batches(1, 8, 12)[0])
        return weakref.ref(compiled._latest.program), weakref.ref(model[0].weight)

    program, weight = once()
    gc.collect()
    assert program() is None
    assert weight() is None
