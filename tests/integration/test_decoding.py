"""Decoding with a growing cache of keys and values: one token in each call of a compiled step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("llvmlite")

import adjoint as ad
from adjoint import nn
from adjoint.nn import functional as F

WIDTH, HEADS, LONGEST, WORDS = 16, 2, 12, 20


def make_decoder(choose: Callable[[Any], Any], grows: bool) -> Callable[..., Any]:
    """A step of two layers. `grows`: the cache is joined to, not written into."""
    ad.manual_seed(0)
    embed, head = nn.Embedding(WORDS, WIDTH), nn.Linear(WIDTH, WORDS)
    layers = [nn.Linear(WIDTH, 3 * WIDTH) for _ in range(2)]

    def step(token: Any, past: Any, at: int) -> Any:
        with ad.no_grad():
            x, caches = embed(token), []
            for layer, cache in zip(layers, past, strict=True):
                q, k, v = layer(x).view(1, 1, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
                if grows:
                    cache = (k, v) if cache is None else (ad.cat([cache[0], k], 2), ad.cat([cache[1], v], 2))
                    keys, values = cache
                else:
                    cache[0][:, :, at : at + 1], cache[1][:, :, at : at + 1] = k, v
                    keys, values = cache[0][:, :, : at + 1], cache[1][:, :, : at + 1]
                mixed = F.scaled_dot_product_attention(q, keys, values)
                x = x + mixed.transpose(1, 2).reshape(1, 1, WIDTH)
                caches.append(cache)
            return choose(head(x[:, -1])), caches

    return step


def empty_cache(grows: bool) -> list[Any]:
    shape = 1, HEADS, LONGEST, WIDTH // HEADS
    return [None if grows else (ad.zeros(shape), ad.zeros(shape)) for _ in range(2)]


def decode(step: Callable[..., Any], grows: bool) -> tuple[list[int], list[Any]]:
    ad.manual_seed(3)
    token, past, chosen = ad.tensor([[1]]), empty_cache(grows), []
    for at in range(LONGEST):
        token, past = step(token, past, at)
        chosen.append(token.item())
    return chosen, past


def likeliest(logits: Any) -> Any:
    return logits.argmax(-1, keepdim=True)


def draw(logits: Any) -> Any:
    return ad.multinomial(F.softmax(logits, -1), 1)


@pytest.mark.parametrize("grows", [True, False])
@pytest.mark.parametrize("choose", [likeliest, draw])
def test_each_token_of_every_sequence_runs_compiled(choose: Callable[[Any], Any], grows: bool) -> None:
    step = make_decoder(choose, grows)
    expected, cached = decode(step, grows)
    traced = ad.compile(step)
    for _ in range(2):
        chosen, past = decode(traced, grows)
        assert chosen == expected
        for found, wanted in zip(past, cached, strict=True):
            assert all(ad.allclose(a, b, atol=1e-6) for a, b in zip(found, wanted, strict=True))
    assert traced.compilations == 3
    assert not traced.advice()  # which would name eager calls


@pytest.mark.parametrize("choose", [likeliest, draw])
def test_a_row_of_the_cache_is_written_in_place(choose: Callable[[Any], Any]) -> None:
    step = ad.compile(make_decoder(choose, False))
    decode(step, False)
    source = step._latest.program.source
    assert "copyto(a1," not in source
    assert "mark_written(x1" in source


def test_an_error_after_the_write_leaves_what_eager_code_leaves() -> None:
    def draw_or_fail(logits: Any) -> Any:
        return ad.multinomial(logits, 1)  # of which some are negative

    step = make_decoder(draw_or_fail, False)
    compiled = ad.compile(step)
    states = []
    for call in (step, compiled, compiled, compiled):
        past = empty_cache(False)
        for at in (2, 3):
            with pytest.raises(RuntimeError):
                call(ad.tensor([[1]]), past, at)
        states.append(past)
    for past in states[1:]:
        for found, wanted in zip(past, states[0], strict=True):
            assert all(ad.allclose(a, b, atol=1e-6) for a, b in zip(found, wanted, strict=True))


def test_caches_that_share_memory_are_told_from_those_that_do_not() -> None:
    def step(x: Any, pair: Any) -> Any:
        a, b = pair
        a[0] = x
        return b * 2, (a, b)

    compiled = ad.compile(step)
    for _ in range(3):
        for shares in (False, True, False):
            memory = ad.zeros(2, 3)
            pair = (memory[:1], memory[:1]) if shares else (memory, ad.ones(1, 3))
            found, _ = compiled(ad.ones(3), pair)
            assert found.tolist() == [[2.0, 2.0, 2.0]]
            assert memory[0].tolist() == [1.0, 1.0, 1.0]
