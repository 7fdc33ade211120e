"""Sequences of any length: attention as programs write it, trained by one program for all numbers of tokens."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("llvmlite")

import adjoint as ad
import adjoint.nn.functional as F
from adjoint import nn, optim

LENGTHS = (11, 30, 5, 3)  # the first has a program of its own, the second makes the one for all others
LONGEST, WIDTH = 32, 16

Attend = Callable[[Any, Any, Any, Any], Any]


class SelfAttention(nn.Module):
    """Tokens with positions that attend to each other; `mask` and `tril` are buffers of the longest sequence."""

    def __init__(self, attend: Attend) -> None:
        super().__init__()
        self.attend = attend
        self.qkv, self.positions = nn.Linear(WIDTH, 3 * WIDTH), nn.Embedding(LONGEST, WIDTH)
        self.table = nn.Parameter(ad.randn(LONGEST, WIDTH))
        self.register_buffer("tril", ad.tril(ad.ones(LONGEST, LONGEST)))
        self.register_buffer("mask", ad.tril(ad.ones(LONGEST, LONGEST)).bool())

    def forward(self, x: Any) -> Any:
        batch, length, width = x.shape
        h = x + self.table[:length] + self.positions(ad.arange(length))
        q, k, v = (part.view(batch, length, 2, width // 2).transpose(1, 2) for part in self.qkv(h).chunk(3, -1))
        return self.attend(self, q, k, v).transpose(1, 2).reshape(batch, length, width)


def hide(s: Any, scores: Any) -> Any:
    length = scores.shape[-1]
    return scores.masked_fill(s.tril[:length, :length] == 0, float("-inf"))


def mask_of(s: Any, q: Any) -> Any:
    return s.mask[: q.shape[-2], : q.shape[-2]]


def later_keys(q: Any) -> Any:
    return ad.triu(ad.full((q.shape[-2], q.shape[-2]), float("-inf")), 1)


WRITTEN: dict[str, Attend] = {
    "plain": lambda s, q, k, v: F.scaled_dot_product_attention(q, k, v),
    "dropped": lambda s, q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True, dropout_p=0.1),
    "slice_of_mask": lambda s, q, k, v: F.scaled_dot_product_attention(q, k, v, mask_of(s, q)),
    "made_mask": lambda s, q, k, v: F.scaled_dot_product_attention(q, k, v, later_keys(q)),
    "one_head_of_keys": lambda s, q, k, v: F.scaled_dot_product_attention(
        q, k[:, :1], v[:, :1], is_causal=True, enable_gqa=True
    ),
    "by_hand": lambda s, q, k, v: F.softmax(hide(s, q @ k.transpose(-2, -1) * 0.3), -1) @ v,
    "by_hand_added": lambda s, q, k, v: F.dropout(F.softmax(q @ k.mT + later_keys(q), -1), 0.1) @ v,
    "by_einsum": lambda s, q, k, v: ad.einsum("bhqk,bhkd->bhqd", F.softmax(ad.einsum("bhqd,bhkd->bhqk", q, k), -1), v),
}


class Wrapped(nn.Module):
    """A layer called in its own way."""

    def __init__(self, layer: nn.Module, call: Callable[[Any, Any], Any]) -> None:
        super().__init__()
        self.layer, self.call = layer, call

    def forward(self, x: Any) -> Any:
        return self.call(self.layer, x)


def square_mask(x: Any) -> Any:
    return nn.Transformer.generate_square_subsequent_mask(x.shape[1])


def encoder_layer(dropout: float) -> nn.TransformerEncoderLayer:
    return nn.TransformerEncoderLayer(WIDTH, 2, 24, dropout=dropout, batch_first=True)


LAYERS: dict[str, Callable[[], nn.Module]] = {
    "heads": lambda: Wrapped(nn.MultiheadAttention(WIDTH, 2, batch_first=True), lambda m, x: m(x, x, x)[0]),
    "encoder": lambda: nn.TransformerEncoder(encoder_layer(0.1), 1),
    "causal_encoder": lambda: Wrapped(encoder_layer(0.0), lambda m, x: m(x, square_mask(x), is_causal=True)),
    "decoder": lambda: Wrapped(
        nn.TransformerDecoderLayer(WIDTH, 2, 24, dropout=0.0, batch_first=True), lambda m, x: m(x, x[:, :-1])
    ),
}
MODELS = {**{name: lambda a=a: SelfAttention(a) for name, a in WRITTEN.items()}, **LAYERS}


def training_step(make: Callable[[], Any]) -> Any:
    ad.manual_seed(0)
    model = make()
    optimizer = optim.Adam(model.parameters(), 1e-3)

    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        out = model(x)
        loss = F.cross_entropy(out.reshape(-1, out.size(-1)), y.view(-1))
        loss.backward()
        optimizer.step()
        return loss

    return step


@pytest.mark.sweep(3)
@pytest.mark.parametrize("name", MODELS)
def test_two_compilations_train_on_every_length(name: str) -> None:
    step, eager = ad.compile(training_step(MODELS[name])), training_step(MODELS[name])
    for n in LENGTHS:
        x, y = ad.randn(2, n, WIDTH), ad.randint(0, WIDTH, (2, n))
        ad.manual_seed(n)
        found = step(x, y)
        ad.manual_seed(n)
        assert found.item() == pytest.approx(eager(x, y).item(), rel=1e-5), n
    assert step.compilations == 2
    assert "s0" in str(step.graph)


def test_batch_and_length_vary_together() -> None:
    step, eager = ad.compile(training_step(MODELS["by_hand"])), training_step(MODELS["by_hand"])
    for batch, n in ((2, 11), (5, 30), (3, 9), (7, 4), (2, 2)):
        x, y = ad.randn(batch, n, WIDTH), ad.randint(0, WIDTH, (batch, n))
        assert step(x, y).item() == pytest.approx(eager(x, y).item(), rel=1e-5)
    assert step.compilations == 2


@pytest.mark.parametrize("diagonal", [0, -2, 3])
def test_triangles_of_any_size(diagonal: int) -> None:
    step = ad.compile(lambda x: (ad.tril(x, diagonal), ad.triu(x, diagonal)))
    for n in LENGTHS:
        x = ad.randn(n, 7)
        for found, expected in zip(step(x), (ad.tril(x, diagonal), ad.triu(x, diagonal)), strict=True):
            assert ad.equal(found, expected)
    assert step.compilations == 2


RETURNED: dict[str, tuple[Callable[..., Any], Callable[[int], tuple[Any, ...]]]] = {
    "causal_in_double": (
        lambda x: F.scaled_dot_product_attention(x, x, x, is_causal=True),
        lambda n: (ad.randn(2, 2, n, 8, dtype=ad.float64),),
    ),
    "mask_of_keys": (
        lambda x, m: F.scaled_dot_product_attention(x, x, x, m[:, None, None]),
        lambda n: (ad.randn(2, 2, n, 8), ad.rand(2, n) > 0.3),
    ),
    "more_keys_than_queries": (
        lambda x, y: F.scaled_dot_product_attention(x, y, y, is_causal=True),
        lambda n: (ad.randn(2, 2, n, 8), ad.randn(2, 2, n + 7, 8)),
    ),
}


@pytest.mark.parametrize("name", RETURNED)
def test_attention_that_is_returned_lies_as_eagerly(name: str) -> None:
    function, draw = RETURNED[name]
    step = ad.compile(function)
    for n in LENGTHS:
        given = draw(n)
        found, expected = step(*given), function(*given)
        assert ad.allclose(found, expected, atol=1e-6)
        assert found.stride() == expected.stride()
    assert step.compilations == 2
    assert "s0" in str(step.graph)
