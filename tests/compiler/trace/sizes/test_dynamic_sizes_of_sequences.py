"""Recurrent layers over any number of times, and packed sequences of any lengths: one program, eager's numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite")

from adjoint.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

import adjoint as ad
from adjoint import nn

SHAPES = ((4, 7), (3, 9), (5, 4), (8, 20), (2, 3), (4, 16), (6, 2))
LAYERS: dict[str, tuple[Any, dict[str, Any]]] = {
    "lstm": (nn.LSTM, {}),
    "gru": (nn.GRU, {}),
    "rnn": (nn.RNN, {}),
    "rnn_relu": (nn.RNN, {"nonlinearity": "relu"}),
    "projected": (nn.LSTM, {"proj_size": 3}),
    "without_bias": (nn.GRU, {"bias": False}),
    "deep": (nn.GRU, {"num_layers": 2, "bidirectional": True}),
    "both_ways": (nn.LSTM, {"bidirectional": True}),
}


def flatten(out: Any, state: Any) -> list[Any]:
    return [out, *(state if isinstance(state, tuple) else (state,))]


def compare(ours: Any, theirs: Any) -> None:
    for a, b in zip(ours, theirs, strict=True):
        wanted = b.detach().numpy()
        assert a.shape == b.shape
        assert a.dtype == b.dtype
        np.testing.assert_allclose(a.detach().numpy(), wanted, rtol=0, atol=3e-6 * max(np.abs(wanted).max(), 1e-3))


@pytest.mark.parametrize("name", LAYERS)
def test_layers_over_any_number_of_times(name: str) -> None:
    kind, options = LAYERS[name]
    ad.manual_seed(0)
    layer = kind(5, 6, batch_first=True, **options)
    factor = ad.ones(1, requires_grad=True)

    def step(x: Any) -> Any:
        results = flatten(*layer(x * factor))
        loss = sum((r * r).sum() for r in results)
        return [*results, *ad.autograd.grad(loss, [factor, *layer.parameters()])]

    compiled = ad.compile(step)
    for shape in SHAPES:
        x = ad.randn(*shape, 5)
        compare(compiled(x), step(x))
    assert compiled.compilations == 2
    assert "sweep_record" in str(compiled.graph)
    assert str(compiled.graph).count("sweep_gradient(") == options.get("num_layers", 1) * (
        2 if options.get("bidirectional") else 1
    )


def test_states_that_are_given_and_sequences_without_a_batch() -> None:
    ad.manual_seed(0)
    layer = nn.LSTM(5, 6)

    def step(x: Any, h: Any, c: Any) -> Any:
        out, (last, cells) = layer(x, (h, c))
        grads = ad.autograd.grad(((out * out).sum() + cells.sum()), [x, h, c, layer.weight_hh_l0])
        return [out, last, cells, *grads]

    compiled = ad.compile(step)
    for times in (4, 6, 3, 9):
        x, h, c = ad.randn(times, 5) * 1.0, ad.randn(1, 6), ad.randn(1, 6)
        given = [t.requires_grad_() for t in (x, h, c)]
        compare(compiled(*given), step(*given))
    assert compiled.compilations == 2


def test_a_translator_of_sentences_of_any_length() -> None:
    ad.manual_seed(0)
    table, reader, writer = nn.Embedding(20, 8), nn.GRU(8, 8, batch_first=True), nn.GRU(8, 8, batch_first=True)
    parameters = [p for m in (table, reader, writer) for p in m.parameters()]

    def step(source: Any, target: Any) -> Any:
        seen, state = reader(table(source))
        out, _ = writer(table(target), state)
        out = (out @ seen.transpose(1, 2)).softmax(-1) @ seen + out
        return [out, *ad.autograd.grad((out * out).sum(), parameters)]

    compiled = ad.compile(step)
    for batch, n, m in ((4, 7, 5), (3, 9, 12), (5, 4, 6), (8, 20, 11), (2, 3, 2)):
        pair = ad.randint(0, 20, (batch, n)), ad.randint(0, 20, (batch, m))
        compare(compiled(*pair), step(*pair))
    assert compiled.compilations == 2


def test_second_derivatives_have_a_program_for_each_number_of_times() -> None:
    ad.manual_seed(0)
    layer = nn.GRU(3, 4)

    def step(x: Any) -> Any:
        (dx,) = ad.autograd.grad((layer(x)[0] ** 2).sum(), [x], create_graph=True)
        return ad.autograd.grad((dx * dx).sum(), list(layer.parameters()))

    compiled = ad.compile(step)
    for times in (3, 5, 4):
        x = ad.randn(times, 2, 3).requires_grad_()
        compare(compiled(x), step(x))


PACKED = ("lstm", "gru", "rnn", "projected", "deep", "both_ways")


@pytest.mark.parametrize("name", PACKED)
@pytest.mark.parametrize("batch_first", [True, False])
def test_packed_sequences_of_any_lengths(name: str, batch_first: bool) -> None:
    kind, options = LAYERS[name]
    ad.manual_seed(0)
    layer = kind(4, 6, batch_first=batch_first, **options)

    def step(x: Any, lengths: Any) -> Any:
        packed = pack_padded_sequence(x, lengths, batch_first, enforce_sorted=False)
        out, state = layer(packed)
        padded, found = pad_packed_sequence(out, batch_first)
        results = flatten(padded, state)
        return [*results, found, *ad.autograd.grad(sum((r * r).sum() for r in results), list(layer.parameters()))]

    compiled = ad.compile(step)
    for lengths in ((8, 6, 5, 3, 3), (1, 1, 1, 2, 8), (8, 8, 8, 8, 8), (6, 3, 8, 1, 1), (2, 8, 7, 8, 2)):
        x = ad.randn(*((5, 8) if batch_first else (8, 5)), 4)
        compare(compiled(x, ad.tensor(lengths)), step(x, ad.tensor(lengths)))
    assert compiled.compilations == 1


def test_packed_sequences_of_any_lengths_and_padding() -> None:
    ad.manual_seed(0)
    layer = nn.LSTM(4, 6, batch_first=True)

    def step(x: Any, lengths: Any) -> Any:
        packed = pack_padded_sequence(x, lengths, batch_first=True)
        assert isinstance(packed, PackedSequence)
        out, (h, c) = layer(packed)
        padded, found = pad_packed_sequence(out, True, padding_value=-1.0, total_length=x.shape[1])
        mask = ad.arange(x.shape[1]) < lengths[:, None]
        loss = (padded * mask[..., None]).square().sum() + h.sum()
        return [padded, found, h, c, *ad.autograd.grad(loss, list(layer.parameters()))]

    compiled = ad.compile(step)
    for batch, times, longest in ((4, 9, 9), (3, 7, 6), (6, 12, 12), (2, 20, 11), (5, 4, 3)):
        lengths = ad.tensor(sorted([longest, *range(1, batch)], reverse=True)).clamp(max=longest)
        x = ad.randn(batch, times, 4)
        compare(compiled(x, lengths), step(x, lengths))
    assert compiled.compilations == 2


@pytest.mark.parametrize("lengths", [(3, 0), (2, 3), (9, 3), (3,)])
def test_lengths_that_do_not_fit_raise_as_they_do_eagerly(lengths: tuple[int, ...]) -> None:
    def step(x: Any, lengths: Any) -> Any:
        return pack_padded_sequence(x, lengths, batch_first=True).data

    compiled, x = ad.compile(step), ad.randn(2, 4, 3)
    compare([compiled(x, ad.tensor([4, 2]))], [step(x, ad.tensor([4, 2]))])
    with pytest.raises(RuntimeError):
        step(x, ad.tensor(lengths))
    with pytest.raises(RuntimeError):
        compiled(x, ad.tensor(lengths))
    compare([compiled(x, ad.tensor([3, 3]))], [step(x, ad.tensor([3, 3]))])


def test_types_without_a_sweep_have_a_program_for_each_list_of_lengths() -> None:
    ad.manual_seed(0)
    layer = nn.GRU(4, 6, batch_first=True).to(ad.bfloat16)

    def step(x: Any, lengths: Any) -> Any:
        out, state = layer(pack_padded_sequence(x, lengths, batch_first=True))
        return flatten(pad_packed_sequence(out, True)[0], state)

    compiled = ad.compile(step)
    for lengths in ((5, 3), (4, 4), (5, 1)):
        x = ad.randn(2, 5, 4).to(ad.bfloat16)
        for ours, theirs in zip(compiled(x, ad.tensor(lengths)), step(x, ad.tensor(lengths)), strict=True):
            np.testing.assert_allclose(
                ours.detach().float().numpy(), theirs.detach().float().numpy(), rtol=0, atol=2e-2
            )


TRANSFORMS = {
    "rfft": lambda x: ad.fft.rfft(x).abs(),
    "fft": lambda x: ad.fft.fft(x).abs(),
    "spectrogram": lambda x: ad.fft.rfft(x.unfold(1, 8, 4)).abs(),
    "of_batches": lambda x: ad.fft.rfft(x[:, :8]).abs(),
    "buckets": lambda x: ad.bucketize(x, ad.linspace(-1, 1, 5)) * x,
    "reward_to_go": lambda x: x.flip(1).cumsum(1).flip(1) / ad.arange(1, x.shape[1] + 1),
    "masked": lambda x: x.masked_fill(ad.arange(x.shape[1]) >= ad.arange(1, x.shape[0] + 1)[:, None], 0.0).sum(1),
}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_functions_of_lines_of_any_length(name: str) -> None:
    factor = ad.ones(1, requires_grad=True)

    def step(x: Any) -> Any:
        out = TRANSFORMS[name](x * factor)
        return [out, *ad.autograd.grad((out * out).sum(), [factor])]

    compiled = ad.compile(step)
    for shape in ((3, 20), (4, 9), (2, 33), (7, 12), (5, 64)):
        x = ad.randn(*shape)
        for ours, theirs in zip(compiled(x), step(x), strict=True):
            wanted = theirs.detach().numpy()
            np.testing.assert_allclose(ours.detach().numpy(), wanted, rtol=0, atol=1e-5 * np.abs(wanted).max())
    assert compiled.compilations == 2


BAGS = ({}, {"mode": "sum"}, {"padding_idx": 3}, {"scale_grad_by_freq": True}, {"max_norm": 1.0})


@pytest.mark.parametrize("options", BAGS, ids=lambda options: "".join(options) or "mean")
@pytest.mark.parametrize("offsets", [None, [0, 4, 4, 7]], ids=["rows", "offsets"])
def test_bags_of_any_number_of_words(options: dict[str, Any], offsets: list[int] | None) -> None:
    ad.manual_seed(0)
    bag = nn.EmbeddingBag(9, 4, **options)

    def step(words: Any) -> Any:
        out = bag(words, None if offsets is None else ad.tensor(offsets))
        return [out, *ad.autograd.grad((out * out).sum(), bag.parameters())]

    compiled = ad.compile(step)
    for size in (8, 11, 9, 20):
        words = ad.randint(0, 9, (size,) if offsets else (size, 3))
        compare(compiled(words), step(words))
    assert compiled.compilations == 2


def test_losses_over_any_number_of_samples() -> None:
    def step(x: Any, y: Any) -> Any:
        return [nn.functional.gaussian_nll_loss(x, y, 0.5), nn.functional.one_hot(y.argmax(1), 3)]

    compiled = ad.compile(step)
    for size in (4, 7, 5, 9):
        x, y = ad.randn(size, 3), ad.randn(size, 3)
        compare(compiled(x, y), step(x, y))
    assert compiled.compilations == 2
