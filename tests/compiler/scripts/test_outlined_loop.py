"""Loops that grow in a compiled function: they run in Python, with their bodies compiled for all sizes."""

from __future__ import annotations

import dataclasses
import gc
import os
import weakref

import numpy as np
import pytest

import adjoint as ad
import adjoint.nn.functional as F
from adjoint import nn

pytest.importorskip("llvmlite")

TURNS, WIDTH, HEADS, DEPTH, WORDS = 16, 16, 2, 2, 40


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.out = nn.Linear(WIDTH, WIDTH)

    def split(self, x):
        b, t, c = x.shape
        return self.qkv(self.norm(x)).view(b, t, 3, HEADS, c // HEADS).permute(2, 0, 3, 1, 4)

    def attend(self, x, q, k, v, is_first):
        y = F.scaled_dot_product_attention(q, k, v, is_causal=is_first)
        return x + F.gelu(self.out(y.transpose(1, 2).reshape(x.shape)))

    def forward(self, x, cache):
        q, k, v = self.split(x)
        if cache is not None:
            k, v = ad.cat([cache[0], k], 2), ad.cat([cache[1], v], 2)
        return self.attend(x, q, k, v, cache is None), (k, v)


class Decoder(nn.Module):
    def __init__(self, layer=Attention):
        super().__init__()
        self.words, self.places = nn.Embedding(WORDS, WIDTH), nn.Embedding(64, WIDTH)
        self.layers = nn.ModuleList([layer() for _ in range(DEPTH)])
        self.head = nn.Linear(WIDTH, WORDS)

    def embed(self, ids, n):
        return self.words(ids) + self.places(ad.arange(n, n + ids.shape[1]))

    def forward(self, ids, caches, n):
        x, new = self.embed(ids, n), []
        for layer, cache in zip(self.layers, caches, strict=True):
            x, kept = layer(x, cache)
            new.append(kept)
        return self.head(x)[:, -1], new

    @ad.no_grad()
    def generate(self, ids, count, temperature=1.0):
        caches, last, n = [None] * DEPTH, ids, 0
        for _ in range(count):
            logits, caches = self(last, caches, n)
            n += last.shape[1]
            last = ad.multinomial(F.softmax(logits / temperature, -1), 1)
            ids = ad.cat((ids, last), 1)
        return ids


class Cache:
    def __init__(self):
        self.k = self.v = None

    def append(self, k, v):
        self.k = k if self.k is None else ad.cat([self.k, k], 2)
        self.v = v if self.v is None else ad.cat([self.v, v], 2)


class RecordAttention(Attention):
    def forward(self, x, cache):
        q, k, v = self.split(x)
        is_first = cache.k is None
        cache.append(k, v)
        return self.attend(x, q, cache.k, cache.v, is_first), cache


class PlacedAttention(Attention):
    def forward(self, x, cache):
        q, k, v = self.split(x)
        keys, values, n = cache
        stop = n + x.shape[1]
        keys[:, :, n:stop], values[:, :, n:stop] = k, v
        return self.attend(x, q, keys[:, :, :stop], values[:, :, :stop], n == 0), (keys, values, stop)


@dataclasses.dataclass
class State:
    last: ad.Tensor
    n: int
    caches: list


class Keeper(nn.Module):
    def __init__(self):
        super().__init__()
        self.decoder, self.kept = decoder, None

    def forward(self, ids, caches, n):
        logits, self.kept = self.decoder(ids, caches, n)
        return logits, self.kept


ad.manual_seed(0)
decoder, recorder, placer = (Decoder(layer).eval() for layer in (Attention, RecordAttention, PlacedAttention))
keeper = Keeper()
seen: list[int] = []


@ad.no_grad()
def concatenate(ids):
    caches, last, n, out = [None] * DEPTH, ids, 0, [ids]
    for _ in range(TURNS):
        logits, caches = decoder(last, caches, n)
        n += last.shape[1]
        last = logits.argmax(-1, keepdim=True)
        out.append(last)
    return ad.cat(out, 1), caches[1][0]


def write_in_place(ids):
    with ad.no_grad():
        shape = (ids.shape[0], HEADS, 32, WIDTH // HEADS)
        caches = [(ad.zeros(shape), ad.zeros(shape), 0) for _ in range(DEPTH)]
        last, n = ids, 0
        for _ in range(TURNS):
            logits, caches = placer(last, caches, n)
            n += last.shape[1]
            last = logits.argmax(-1, keepdim=True)
            ids = ad.cat([ids, last], 1)
        return ids, caches[0][0]


def prefill(ids):
    with ad.no_grad():
        logits, caches = decoder(ids, [None] * DEPTH, 0)
        last = logits.argmax(-1, keepdim=True)
        tokens, n = [last], ids.shape[1]
        while len(tokens) < TURNS:
            logits, caches = decoder(last, caches, n)
            last = logits.argmax(-1, keepdim=True)
            tokens.append(last)
            n += 1
        return ad.cat(tokens, 1)


def keep_records(ids):
    with ad.no_grad():
        caches = [Cache() for _ in range(DEPTH)]
        first, last, n, out = caches[0], ids, 0, []
        for _ in range(TURNS):
            logits, caches = recorder(last, caches, n)
            n += last.shape[1]
            last = logits.argmax(-1, keepdim=True)
            out.append(last)
        return ad.cat(out, 1), first.k, caches[0] is first


def replace_record(ids):
    with ad.no_grad():
        state, out = State(ids, 0, [None] * DEPTH), []
        for _ in range(TURNS):
            logits, caches = decoder(state.last, state.caches, state.n)
            state = State(logits.argmax(-1, keepdim=True), state.n + state.last.shape[1], caches)
            out.append(state.last)
        return ad.cat(out, 1), state.n, state.caches[0][0]


def change_dict(ids):
    with ad.no_grad():
        caches, last, n, scores = dict.fromkeys(range(DEPTH)), ids, 0, []
        everything = {"caches": caches}
        for _ in range(TURNS):
            logits, new = decoder(last, list(caches.values()), n)
            scores.append(F.log_softmax(logits, -1).max())
            for i, cache in enumerate(new):
                caches[i] = cache
            n += last.shape[1]
            last = logits.argmax(-1, keepdim=True)
        return ad.stack(scores), everything["caches"][1][0]


def stop_at_token(ids):
    with ad.no_grad():
        caches, last, n, out = [None] * DEPTH, ids, 0, []
        for turn in range(64):
            logits, caches = decoder(last, caches, n)
            n += last.shape[1]
            last = logits.argmax(-1, keepdim=True)
            if turn > TURNS - 3 and last[0].item() != WORDS:
                break
            out.append(last)
        else:
            turn = -1
        return ad.cat(out, 1), turn


def search_beam(ids):
    with ad.no_grad():
        logits, caches = decoder(ids[:1], [None] * DEPTH, 0)
        scores, token = F.log_softmax(logits, -1)[0].topk(2)
        caches = [(k.repeat(2, 1, 1, 1), v.repeat(2, 1, 1, 1)) for k, v in caches]
        beams, n = token[:, None], ids.shape[1]
        for _ in range(TURNS):
            logits, caches = decoder(beams[:, -1:], caches, n)
            scores, flat = (F.log_softmax(logits, -1) + scores[:, None]).view(-1).topk(2)
            beam, token = flat // WORDS, flat % WORDS
            caches = [(k[beam], v[beam]) for k, v in caches]
            beams = ad.cat([beams[beam], token[:, None]], 1)
            n += 1
        return beams, scores


def sample(ids):
    return decoder.generate(ids, TURNS, 0.8)[:, 1:]


PROGRAMS = [
    concatenate, write_in_place, prefill, keep_records, replace_record, change_dict, stop_at_token, search_beam, sample,
]  # fmt: skip


def prompt(rows: int = 1) -> ad.Tensor:
    return ad.arange(3 * rows).view(rows, 3)


def run(function, *arguments):
    ad.manual_seed(1)
    result = function(*arguments)
    return [np.asarray(x) for x in (result if isinstance(result, tuple) else (result,))]


def is_outlined(step) -> bool:
    return "runs in Python" in step._loops.explain()


def assert_equal(found, wanted) -> None:
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("function", PROGRAMS, ids=lambda f: f.__name__)
def test_generation_is_outlined_and_equal(function) -> None:
    step = ad.compile(function)
    for rows in 1, 2, 1:
        assert_equal(run(step, prompt(rows)), run(function, prompt(rows)))
    assert is_outlined(step)
    few = step.compilations
    assert few <= 8
    assert_equal(run(step, prompt(1)), run(function, prompt(1)))
    assert step.compilations == few


def test_method_is_outlined_by_itself() -> None:
    step = ad.compile(decoder.generate)
    assert_equal(run(step, prompt(), TURNS), run(decoder.generate, prompt(), TURNS))
    assert is_outlined(step)
    assert_equal(run(step, prompt(), 2 * TURNS), run(decoder.generate, prompt(), 2 * TURNS))


def test_module_whose_forward_generates() -> None:
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.decoder = decoder

        def forward(self, ids):
            return self.decoder.generate(ids, TURNS)

    model = Model()
    step = ad.compile(model)
    for _ in range(2):
        assert_equal(run(step, prompt()), run(model, prompt()))
    assert is_outlined(step)
    model.register_forward_hook(lambda module, given, found: found[:, :5])
    assert_equal(run(step, prompt()), run(model, prompt()))


@ad.no_grad()
def speak(ids):
    caches, last, n = [None] * DEPTH, ids, 0
    for turn in range(TURNS):
        logits, caches = decoder(last, caches, n)
        print(f"turn {turn}")  # noqa: T201  what a user's loop may do
        seen.append(turn)
        n += last.shape[1]
        last = logits.argmax(-1, keepdim=True) + ad.rand(1, 1).long()
    return last


def test_what_a_loop_does_takes_place_once_and_in_order(capsys) -> None:
    step, told = ad.compile(speak), []
    for function in speak, step, step:
        seen.clear()
        ad.manual_seed(1)
        told.append((function(prompt()).tolist(), capsys.readouterr().out, [*seen], ad.rand(1).item()))
    assert is_outlined(step)
    assert told[1:] == told[:1] * 2


@ad.no_grad()
def outgrow(ids, count):
    caches, last, n, out = [None] * DEPTH, ids, 0, []
    try:
        for _ in range(count):
            logits, caches = decoder(last, caches, n)
            n += last.shape[1]
            last = logits.argmax(-1, keepdim=True)
            out.append(last)
    except IndexError:
        return ad.cat(out, 1), 0
    return ad.cat(out, 1), n


def test_error_in_a_turn_is_that_of_the_eager_run() -> None:
    step = ad.compile(outgrow)
    assert_equal(run(step, prompt(), TURNS), run(outgrow, prompt(), TURNS))
    assert is_outlined(step)
    assert_equal(run(step, prompt(), 80), run(outgrow, prompt(), 80))  # there are 64 places


def test_explain_tells_of_the_loop_and_its_body() -> None:
    step = ad.compile(concatenate)
    step(prompt())
    line = concatenate.__wrapped__.__code__.co_firstlineno + 3
    told = f"the loop at test_outlined_loop.py:{line} has other sizes in each turn: it runs in Python"
    assert str(step.explain()).startswith(f"{told}, and its lines {line + 1} to {line + 3} are compiled apart")
    assert told in step.explain()._repr_html_()
    assert told in step._repr_html_()
    assert step.kernels
    assert step.memory().values
    if hasattr(os, "fork"):
        assert step.explain(profile=True).times.seconds
    with pytest.raises(RuntimeError, match="cannot be exported: the loop at"):
        step.export("nowhere")


def train(ids):
    caches, last, n, loss = [None] * DEPTH, ids, 0, 0.0
    for _ in range(8):
        logits, caches = decoder(last, caches, n)
        n += last.shape[1]
        last = logits.argmax(-1, keepdim=True)
        loss = loss + logits.logsumexp(-1).sum()
    return ad.autograd.grad(loss, [decoder.head.weight])[0]


grown = nn.ModuleList([nn.Sequential(nn.Linear(8 + 2 * i, 4), nn.Tanh(), nn.Linear(4, 2)) for i in range(16)])


@ad.no_grad()
def widen(ids):
    x = ids.float() @ ad.ones(3, 8)
    for layer in grown:
        for _ in range(16):
            x = x * 0.9
        x = ad.cat([x, F.relu(layer(x))], 1)
    return x


@ad.no_grad()
def keep_elsewhere(ids):
    caches, last, n, out = [None] * DEPTH, ids, 0, []
    for _ in range(TURNS):
        logits, caches = keeper(last, caches, n)
        n += last.shape[1]
        last = logits.argmax(-1, keepdim=True)
        out.append(last)
    return ad.cat(out, 1)


@pytest.mark.parametrize("function", [train, widen, keep_elsewhere], ids=lambda f: f.__name__)
def test_other_loops_are_one_program(function) -> None:
    """With gradients; with other parameters in each turn; with a cache in an object that was there before."""
    step = ad.compile(function)
    for _ in range(2):
        assert_equal(run(step, prompt()), run(function, prompt()))
    assert not is_outlined(step)
    assert step.compilations == 1


def test_loop_is_one_program_where_sizes_are_no_symbols() -> None:
    step = ad.compile(concatenate, dynamic=False)
    assert_equal(run(step, prompt()), run(concatenate, prompt()))
    assert not is_outlined(step)


def test_loop_without_source_is_one_program() -> None:
    names = {"ad": ad, "decoder": decoder, "DEPTH": DEPTH, "TURNS": TURNS}
    text = (
        "def generate(ids):\n"
        "    caches, last, n = [None] * DEPTH, ids, 0\n"
        "    with ad.no_grad():\n"
        "        for _ in range(TURNS):\n"
        "            logits, caches = decoder(last, caches, n)\n"
        "            n, last = n + last.shape[1], logits.argmax(-1, keepdim=True)\n"
        "    return last\n"
    )
    exec(compile(text, "nowhere.py", "exec"), names)
    step = ad.compile(names["generate"])
    assert_equal(run(step, prompt()), run(names["generate"], prompt()))
    assert not is_outlined(step)


@ad.no_grad()
def seed_each_turn(ids):
    caches, last, n, other = [None] * DEPTH, ids, 0, 0
    for turn in range(TURNS):
        logits, caches = decoder(last, caches, n)
        if turn == TURNS - 1:
            other = ad.tensor(np.asarray(ids)[:, :1])
        n += last.shape[1]
        last = logits.argmax(-1, keepdim=True) + other
    return last


def test_body_that_changes_is_traced_again() -> None:
    step = ad.compile(seed_each_turn)
    for rows in 1, 2:
        assert_equal(run(step, prompt(rows)), run(seed_each_turn, prompt(rows)))


def test_dropped_step_leaves_no_cycle() -> None:
    step = ad.compile(concatenate)
    step(prompt())
    assert is_outlined(step)
    alive = weakref.ref(step._loops.outlined)
    gc.disable()
    try:
        del step
        assert alive() is None
    finally:
        gc.enable()
