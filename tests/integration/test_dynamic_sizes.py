"""Sizes known at run time: one program serves every batch and length, with the bits of one made for that size."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.support.threads import in_threads

pytest.importorskip("llvmlite")

import adjoint as ad
import adjoint.nn.functional as F
from adjoint import _dynamo, nn, optim
from adjoint.compiler.ir.graph import TraceError

SIZES = (57, 31, 100, 8, 2)  # the first has a program of its own, the second makes the one for all others
WEIGHT, BIAS = ad.randn(10, 7), ad.randn(7)
SERVED: dict[str, Callable[[Any], Any]] = {
    "elements": lambda x: (x * 2 + 1).relu(),
    "rows": lambda x: F.softmax(x, -1),
    "columns": lambda x: F.log_softmax(x, 0),
    "sum over the batch": lambda x: x.sum(0),
    "mean": lambda x: x.mean(),
    "variance": lambda x: x.var(0),
    "deviation": lambda x: x.std(1),
    "size as a number": lambda x: x * x.shape[0] + x.size(1),
    "view by sizes": lambda x: x.view(x.shape[0] * 2, 5).sum(1),
    "unknown size": lambda x: x.reshape(-1, 2).max(1).values,
    "zeros": lambda x: x + ad.zeros(x.shape[0], 1) + ad.ones_like(x),
    "range": lambda x: x * ad.arange(x.shape[0]).unsqueeze(1),
    "join columns": lambda x: ad.cat([x, x * 2], 1),
    "join rows": lambda x: ad.cat([x, x * 2], 0),
    "slices": lambda x: x[1:] - x[:-1],
    "last row": lambda x: x[-1] * 2,
    "view of an argument": lambda x: x[-1],
    "transpose": lambda x: x.t().contiguous(),
    "sum of columns": lambda x: (x.t() * 2).sum(0),
    "outer product": lambda x: x.sum(1).unsqueeze(0) * x.sum(1).unsqueeze(1),
    "product": lambda x: x @ WEIGHT,
    "product over the batch": lambda x: x.t() @ x,
    "product of the batch": lambda x: x @ x.t(),
    "linear": lambda x: F.linear(x, WEIGHT.t(), BIAS).relu(),
    "positions": lambda x: (x.argmax(1), x.argmax(0)),
    "running sums": lambda x: x.cumsum(1),
    "sort": lambda x: x.sort(1).values,
    "gather": lambda x: x.gather(1, ad.ones(x.shape[0], 1, dtype=ad.int64)),
    "one hot": lambda x: F.one_hot(x[:, 0].abs().long().clamp(0, 5), 6),
    "choice": lambda x: ad.where(x > 0, x, -x).prod(1),
    "expand": lambda x: x[:, :1].expand(x.shape[0], 10) * x,
    "loss": lambda x: F.mse_loss(x, x * 0.5),
    "flip": lambda x: x.flip(0),
    "text": lambda x: (x * 1, f"{x.shape[0]} rows")[0],
}

# Sums that a program for one size makes in another order: short ones without blocks, products of few rows lane by lane.
OTHER_ORDERS = ("mean", "loss", "product", "product over the batch", "product of the batch", "linear")


def leaves(result: Any) -> list[Any]:
    return [x.detach().numpy() for x in (result if isinstance(result, tuple) else (result,))]


@pytest.mark.parametrize("name", SERVED)
def test_one_program_gives_the_bits_of_one_made_for_each_size(name: str) -> None:
    step = ad.compile(SERVED[name])
    for n in SIZES:
        x = ad.randn(n, 10, generator=ad.Generator().manual_seed(n))
        for found, expected in zip(leaves(step(x)), leaves(ad.compile(SERVED[name], dynamic=False)(x)), strict=True):
            assert found.shape == expected.shape
            if name in OTHER_ORDERS:
                np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
            else:
                np.testing.assert_array_equal(found, expected)
    assert step.compilations == 2


def perceptron() -> Any:
    return nn.Sequential(nn.Linear(12, 16), nn.ReLU(), nn.Linear(16, 4)), lambda n: ad.randn(n, 12)


def normalized() -> Any:
    model = nn.Sequential(
        nn.Linear(12, 16, bias=False), nn.BatchNorm1d(16), nn.GELU(), nn.Dropout(0.1), nn.Linear(16, 4)
    )
    return model, lambda n: ad.randn(n, 12)


def convolutional() -> Any:
    pooled = nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)
    return nn.Sequential(*pooled, nn.Flatten(), nn.Linear(4 * 9, 4)), lambda n: ad.randn(n, 1, 6, 6)


class Attention(nn.Module):
    """A causal head over six tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(9, 8), nn.Embedding(6, 8)
        self.norm, self.qkv, self.head = nn.LayerNorm(8), nn.Linear(8, 24), nn.Linear(8, 4)

    def forward(self, x: Any) -> Any:
        h = self.tokens(x) + self.places(ad.arange(x.size(1)))
        q, k, v = (
            part.view(x.shape[0], x.shape[1], 2, 4).transpose(1, 2) for part in self.qkv(self.norm(h)).split(8, 2)
        )
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).contiguous().view(*x.shape, 8)
        return self.head(h + mixed)[:, -1]


def attentive() -> Any:
    return Attention(), lambda n: ad.randint(0, 9, (n, 6))


def training_step(make: Callable[[], Any], dynamic: bool | None) -> Any:
    ad.manual_seed(0)
    model, draw = make()
    optimizer = optim.SGD(model.parameters(), 1e-2, momentum=0.9)

    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    return ad.compile(step, dynamic=dynamic), model, draw


@pytest.mark.parametrize("make", [perceptron, normalized, convolutional, attentive])
def test_a_training_step_is_compiled_twice_for_all_batches(make: Callable[[], Any]) -> None:
    (step, model, draw), (eager, other, _) = training_step(make, None), training_step(make, False)
    for n in (16, 9, 40, 3, 33, 2):
        x, y = draw(n), ad.randint(0, 4, (n,))
        ad.manual_seed(n)
        found = step(x, y)
        ad.manual_seed(n)
        assert found.item() == pytest.approx(eager.function(x, y).item(), rel=1e-5)
    assert step.compilations == 2
    assert "s0" in str(step.graph)
    for p, q in zip(model.parameters(), other.parameters(), strict=True):
        np.testing.assert_allclose(p.detach().numpy(), q.detach().numpy(), atol=1e-5)


@pytest.mark.parametrize("make", [perceptron, normalized, convolutional, attentive])
def test_gradients_from_outside_a_step_of_every_batch(make: Callable[[], Any]) -> None:
    ad.manual_seed(0)
    model, draw = make()
    step = ad.compile(lambda x, y: F.cross_entropy(model(x), y))
    for n in (16, 9, 40, 3, 33, 2):
        x, y, found = draw(n), ad.randint(0, 4, (n,)), []
        for function in (step, step.function):
            ad.manual_seed(n)
            model.zero_grad()
            function(x, y).backward()
            found.append([p.grad.numpy().copy() for p in model.parameters()])
        for one, other in zip(*found, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)
    assert step.compilations == 2
    assert "s0" in str(step.graph)


def test_calls_of_several_sizes_wait_for_their_gradients() -> None:
    step = ad.compile(lambda x: (x[1:] * x[:-1], x.exp().sum(), x * 3))
    x = {n: ad.randn(n, 3, requires_grad=True) for n in (5, 6, 9, 4)}
    made = {n: step(each) for n, each in x.items()}
    assert step.compilations == 2
    for n in (6, 4, 9, 5):
        pairs, total, _ = made[n]
        assert pairs.grad_fn is not None
        (first,) = ad.autograd.grad(pairs.sum() + total, x[n], retain_graph=True, create_graph=True)
        (second,) = ad.autograd.grad(first.square().sum(), x[n])
        eager = [part.sum() for part in step.function(x[n])[:2]]
        (expected,) = ad.autograd.grad(eager[0] + eager[1], x[n], create_graph=True)
        np.testing.assert_allclose(first.detach().numpy(), expected.detach().numpy(), rtol=1e-5, atol=1e-6)
        (expected,) = ad.autograd.grad(expected.square().sum(), x[n])
        np.testing.assert_allclose(second.numpy(), expected.numpy(), rtol=1e-5, atol=1e-5)


def test_sizes_that_come_again_after_many_others_and_after_larger_ones() -> None:
    table = nn.Embedding(9, 4)
    step = ad.compile(lambda x: (table(x) * x.shape[0]).sum(1))
    for n in (5, 6, *range(2, 70), 6, 200, 14, 79, 6):
        x = ad.randint(0, 9, (n,))
        np.testing.assert_allclose(step(x).detach().numpy(), step.function(x).detach().numpy(), rtol=1e-5)
        if n % 32 == 6:
            x[n - 1] = 9
            with pytest.raises(IndexError):
                step(x)
    assert step.compilations == 2


def test_sparse_gradients_of_every_batch() -> None:
    table = nn.Embedding(9, 4, sparse=True)
    step = ad.compile(lambda x: table(x).square().sum())
    for n in (5, 6, 8, 3):
        x = ad.randint(0, 9, (n,))
        step(x).backward()
        found, table.weight.grad = table.weight.grad.to_dense().numpy(), None
        step.function(x).backward()
        np.testing.assert_allclose(found, table.weight.grad.to_dense().numpy())
        table.weight.grad = None
    assert step.compilations == 2


def test_a_result_whose_history_is_used_up_tells_the_size_of_its_call() -> None:
    def step(x: Any) -> Any:
        y = x * 2
        y.sum().backward()
        return y

    compiled = ad.compile(step)
    for n in (5, 6, 9, 4):
        assert compiled(ad.ones(n, 3, requires_grad=True)).grad_fn.shape == (n, 3)


def test_a_cache_that_grows_from_nothing_is_compiled_three_times() -> None:
    def step(token: Any, keys: Any) -> Any:
        keys = ad.cat([keys, token], 0)
        return F.softmax((token * keys).sum(1), 0).sum(0) * token, keys

    compiled, token, keys, other = ad.compile(step), ad.randn(1, 4), ad.ones(0, 4), ad.ones(0, 4)
    for n in range(1, 9):
        found, keys = compiled(token, keys)
        expected, other = step(token, other)
        np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-6)
        assert keys.shape == other.shape == (n, 4)
    assert compiled.compilations == 3


def write_slice(cache: Any, x: Any, at: int) -> Any:
    cache[:, at : at + 1] = x.unsqueeze(1)
    return (cache[:, : at + 1] * x.unsqueeze(1)).sum(1)


def write_position(cache: Any, x: Any, at: int) -> Any:
    cache[:, at] = x
    return cache[:, : at + 1].sum(1) + cache[:, at]


def write_index(cache: Any, x: Any, at: int) -> Any:
    cache.index_copy_(1, ad.arange(at, at + 1), x.unsqueeze(1))
    return F.softmax(cache[:, : at + 1], 1).sum(1)


def write_narrow(cache: Any, x: Any, at: int) -> Any:
    cache.narrow(1, at, 1).copy_(x.unsqueeze(1))
    return cache.narrow(1, 0, at + 1).cumsum(1).sum(1) + cache.select(1, at)


def write_from_the_end(cache: Any, x: Any, at: int) -> Any:
    cache[:, -(at + 1)] = x
    return cache[:, -(at + 1) :].sum(1)


def use_in_shapes(cache: Any, x: Any, at: int) -> Any:
    cache += ad.zeros(at, 1).sum() + at
    return x.expand(at * 2, *x.shape).sum(0) + ad.ones(at // 2, 1).sum(0)


POSITIONS = (write_slice, write_position, write_index, write_narrow, write_from_the_end, use_in_shapes)


@pytest.mark.parametrize("write", POSITIONS)
def test_a_position_that_differs_from_call_to_call_is_a_symbol(write: Callable[..., Any]) -> None:
    step, cache, other = ad.compile(write), ad.zeros(2, 12, 3), ad.zeros(2, 12, 3)
    for at in (0, 1, 2, 3, 7, 11, 5):
        x = ad.randn(2, 3)
        with ad.no_grad():
            found, expected = step(cache, x, at), write(other, x, at)
        np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(cache.numpy(), other.numpy(), rtol=1e-6)
    assert step.compilations == 3


@pytest.mark.parametrize("write", POSITIONS)
def test_a_position_of_a_module_is_a_symbol(write: Callable[..., Any]) -> None:
    class Decoder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.at = 0
            self.register_buffer("cache", ad.zeros(2, 12, 3))

        def forward(self, x: Any) -> Any:
            self.at += 1
            return write(self.cache, x, self.at - 1)

    decoder, eager = Decoder(), Decoder()
    step = ad.compile(decoder)
    with ad.no_grad():
        for _ in range(8):
            x = ad.randn(2, 3)
            np.testing.assert_allclose(step(x).numpy(), eager(x).numpy(), rtol=1e-5, atol=1e-6)
            np.testing.assert_allclose(decoder.cache.numpy(), eager.cache.numpy(), rtol=1e-6)
    assert decoder.at == 8
    assert step.compilations <= 4


def test_a_position_outside_is_the_error_of_eager_code() -> None:
    step = ad.compile(lambda x, at: x[at] * 2)
    for at in (0, 2, 3, 4):
        assert step(ad.arange(5), at).item() == 2 * at
    for at in (5, -6):
        with pytest.raises(IndexError, match=f"index {at} is out of bounds for dimension 0 with size 5"):
            step(ad.arange(5), at)
    assert step(ad.arange(5), -2).item() == 6


def test_a_slice_that_ends_behind_the_tensor_is_not_served_by_the_program_of_others() -> None:
    step = ad.compile(lambda x, n: x[:n] * 2)
    for n in (3, 4, 5, 8, 9, 2, 7):
        assert step(ad.ones(5), n).shape == (min(n, 5),)
    assert step.compilations == 3  # for the first integer, for others within, and for all behind the tensor


def test_a_number_that_is_a_size_and_a_factor() -> None:
    step = ad.compile(lambda x, n: (x[:n] * n, n + 1, ad.arange(n, n + 3)))
    for n in (3, 4, 2, 5):
        part, after, numbers = step(ad.ones(6), n)
        assert (part.tolist(), after, numbers.tolist()) == ([float(n)] * n, n + 1, [n, n + 1, n + 2])
    assert step.compilations == 2


def test_sizes_and_positions_meet() -> None:
    step = ad.compile(lambda x, n: x[n:] - x[: x.shape[0] - n])
    for rows, n in ((8, 2), (9, 3), (12, 5), (20, 2), (7, 3)):
        x = ad.randn(rows, 2)
        np.testing.assert_array_equal(step(x, n).numpy(), (x[n:] - x[: rows - n]).numpy())
    assert step.compilations == 2


def read_number(x: Any) -> Any:
    largest = x.max().item()
    return x * largest, largest


def decide(x: Any) -> Any:
    return (x * 2 if x.sum() > -1e9 else x * 3).sum(0)


def choose_by_mask(x: Any) -> Any:
    return x[x > 0] * 2


def choose_rows(x: Any) -> Any:
    return x[x[:, 0].sigmoid() > 0.1].exp().sum(1)


def cut_by_number(x: Any) -> Any:
    count = int((x[:, 0] > -5).sum().item()) - 2
    return x[:count].sum(0), ad.zeros(count) + count


def find_places(x: Any) -> Any:
    return (x > 0).nonzero().sum(1)


@pytest.mark.parametrize("ask", [read_number, decide, choose_by_mask, choose_rows, cut_by_number, find_places])
def test_steps_that_ask_for_values_serve_every_size(ask: Callable[[Any], Any]) -> None:
    step = ad.compile(ask)
    for n in (57, 31, 100, 8, 33):
        x = ad.randn(n, 10, generator=ad.Generator().manual_seed(n))
        found, expected = step(x), ask(x)
        for one, other in zip(*(r if isinstance(r, tuple) else (r,) for r in (found, expected)), strict=True):
            np.testing.assert_allclose(np.asarray(one), np.asarray(other), rtol=1e-5, atol=1e-5)
    assert step.compilations == 2
    assert getattr(step._latest_entry(), "taken", 4) == 4  # no call of another size ran eagerly


def test_a_choice_of_one_element_or_none_is_another_program() -> None:
    step = ad.compile(lambda x: x[x > 0] * 2)
    for positive in (5, 3, 1, 0, 8, 2, 1):
        x = ad.where(ad.arange(10) < positive, 1.0, -1.0)
        assert step(x).tolist() == [2.0] * positive


def test_gradients_of_a_step_that_asks_for_values_of_every_batch() -> None:
    weight = ad.randn(4, 3, requires_grad=True)

    def ask(x: Any) -> Any:
        y = (x @ weight).relu()
        return y.sum() * y.max().item() if y.sum() > -1 else y.sum()

    step = ad.compile(ask)
    for n in (5, 6, 9, 4):
        x = ad.randn(n, 4)
        (found,), (expected,) = (ad.autograd.grad(f(x), weight) for f in (step, ask))
        np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-4, atol=1e-5)
    assert step.compilations == 2


def test_a_step_with_symbols_returns_what_it_captured() -> None:
    kept = ad.ones(3)
    step = ad.compile(lambda x: (x * kept, kept))
    for n in (4, 5, 6):
        made, same = step(ad.ones(n, 3))
        assert same is kept
        assert made.shape == (n, 3)


def test_equal_sizes_are_one_symbol_and_must_stay_equal() -> None:
    step = ad.compile(lambda x, y: x[:1] + y[:1])
    for n in (5, 6, 7):
        step(ad.ones(n, 3), ad.ones(n, 3))
    assert step.compilations == 2
    np.testing.assert_array_equal(step(ad.ones(8, 3), ad.ones(4, 3)).numpy(), np.full((1, 3), 2.0))


def test_a_relation_between_sizes_is_a_guard() -> None:
    step = ad.compile(lambda x, y: (x.flatten() * y).sum())
    for n in (5, 6, 7):
        assert step(ad.ones(n, 3), ad.ones(3 * n)).item() == 3 * n
    assert step.compilations == 2
    with pytest.raises(RuntimeError, match="must match the size"):
        step(ad.ones(7, 3), ad.ones(20))


def test_a_decision_by_size_is_a_guard() -> None:
    step = ad.compile(lambda x: x * 2 if x.shape[0] > 20 else x * 3)
    for n, factor in ((30, 2), (40, 2), (50, 2), (10, 3), (11, 3), (60, 2), (12, 3)):
        assert step(ad.ones(n)).sum().item() == factor * n
    assert step.compilations == 3
    assert "size 0 of argument 0 > 20: True → False" in str(step.recompilations[-1])


def test_a_step_that_needs_the_number_has_a_program_for_each_size() -> None:
    step = ad.compile(lambda x: sum(x[i] * i for i in range(x.shape[0])))
    for n in (3, 4, 3, 4):
        assert step(ad.ones(n)).item() == sum(range(n))
    assert step.compilations == 2
    assert "s0" not in str(step.graph)


def test_only_what_varies_is_a_symbol() -> None:
    step = ad.compile(lambda x: x.sum(1))
    step(ad.ones(5, 3))
    step(ad.ones(6, 3))
    assert "[s0,3]" in str(step.graph)
    step(ad.ones(6, 4))
    assert "[s0,s1]" in str(step.graph)
    assert step(ad.ones(9, 11)).tolist() == [11.0] * 9
    assert step.compilations == 3


def test_dynamic_says_when_sizes_are_symbols() -> None:
    never, always = ad.compile(lambda x: x * 2, dynamic=False), ad.compile(lambda x: x * 2, dynamic=True)
    for n in (5, 6, 7):
        assert never(ad.ones(n)).shape == always(ad.ones(n)).shape == (n,)
    assert never.compilations == 2
    assert always.compilations == 1


def test_marks_of_dimensions() -> None:
    step = ad.compile(lambda x: x * 2)
    x = ad.ones(5, 3)
    _dynamo.mark_dynamic(x, 0)
    step(x)
    assert "[s0,3]" in str(step.graph)
    step(ad.ones(6, 3))
    assert step.compilations == 1
    static = ad.compile(lambda x: x * 2)
    static(ad.ones(5, 3))
    y = ad.ones(6, 3)
    _dynamo.mark_static(y, 0)
    static(y)
    assert "[6,3]" in str(static.graph)
    with pytest.raises(ValueError, match="dimension 2 is marked of a tensor with 2"):
        _dynamo.mark_dynamic(x, 2)


def test_a_marked_dimension_of_which_the_step_needs_the_number_is_an_error() -> None:
    step, x, y = ad.compile(lambda x: sum(x[i] for i in range(x.shape[0]))), ad.ones(5), ad.ones(5)
    _dynamo.mark_dynamic(x, 0)
    with pytest.raises(TraceError, match="dimension 0 of an argument of '<lambda>' was marked as dynamic"):
        step(x)
    _dynamo.maybe_mark_dynamic(y, 0)
    assert step(y).item() == 5


def test_a_size_with_a_program_of_its_own_keeps_it() -> None:
    step = ad.compile(lambda x: x * 2)
    for n in (5, 6, 7, 5, 6, 5):
        step(ad.ones(n))
        assert f"[{5 if n == 5 else 's0'}]" in str(step.graph)
    assert step.compilations == 2


def test_results_of_calls_are_apart_and_the_arena_grows() -> None:
    step = ad.compile(lambda x: (x.exp() @ x.exp().t()).log().sum(1))
    x = {n: ad.randn(n, 6) for n in (4, 5, 40, 300, 7, 301)}
    found = {n: step(each) for n, each in x.items()}
    for n, each in x.items():
        np.testing.assert_allclose(found[n].numpy(), step.function(each).numpy(), rtol=1e-5)
    assert step.compilations == 2


def test_sizes_of_zero_and_one_are_programs_of_their_own() -> None:
    step = ad.compile(lambda x: x.sum(0) + x.shape[0])
    for n in (5, 6, 1, 0, 7):
        np.testing.assert_array_equal(step(ad.ones(n, 2)).numpy(), np.full(2, 2.0 * n))
    assert "s0" in str(step.graph)


def test_an_index_out_of_range_of_a_symbolic_size_raises() -> None:
    step = ad.compile(lambda x, i: x[i] * 2)
    for n in (5, 6, 7):
        step(ad.ones(n), ad.tensor([0, n - 1]))
    with pytest.raises(IndexError):
        step(ad.ones(8), ad.tensor([0, 8]))


def test_threads_call_with_different_sizes() -> None:
    step = ad.compile(lambda x: (x * 2).sum(0) / x.shape[0])
    for n in (5, 6):
        step(ad.ones(n, 4))

    def work(number: int) -> None:
        for _ in range(50):
            assert step(ad.ones((7, 70)[number], 4)).tolist() == [2.0] * 4

    in_threads(work, 2)


def test_threads_take_gradients_of_different_sizes() -> None:
    step = ad.compile(lambda x: (x[1:] * x[:-1]).sum() / x.shape[0])
    for n in (5, 6):
        step(ad.ones(n, 4, requires_grad=True)).backward()

    def work(number: int) -> None:
        n = (7, 70)[number]
        for _ in range(30):
            x = ad.ones(n, 4, requires_grad=True)
            step(x).backward()
            assert x.grad.sum().item() == pytest.approx(8 * (n - 1) / n)

    in_threads(work, 2)


def test_operands_of_numpy_follow_an_arena_that_grows() -> None:
    step = ad.compile(lambda x: ad.linalg.eigvalsh(x.t() @ x))
    for n in (5, 6, 40, 300, 7, 301):
        x = ad.randn(n, 2)
        np.testing.assert_allclose(step(x).numpy(), step.function(x).numpy(), rtol=1e-3)
    assert step.compilations == 2


def test_a_program_of_many_sizes_is_not_exported() -> None:
    step = ad.compile(lambda x: x * 2)
    for n in (5, 6):
        step(ad.ones(n))
    with pytest.raises(RuntimeError, match="serves arguments of many sizes"):
        step.export("nowhere")
