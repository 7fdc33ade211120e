"""Sequences of different lengths, padded and packed, against PyTorch's: values, gradients, order, errors."""

from typing import Any

import numpy as np
import pytest
from tests.nn.layers.test_recurrent import leaf, made, pulled
from tests.support.errors import assert_raises, errors_of
from tests.support.oracle import equal, torch

import adjoint as ad
from adjoint.nn.utils import rnn

LENGTHS = [[4, 2, 1], [1, 4, 2], [3, 3, 3], [2, 1, 3]]


def parts(packed: Any) -> list[Any]:
    return [None if x is None else x.detach() for x in packed]


@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize("rest", [(), (2,), (2, 3)])
@pytest.mark.parametrize("lengths", LENGTHS)
def test_packed_and_padded_again(lengths: list[int], rest: tuple[int, ...], batch_first: bool) -> None:
    results = []
    for library in (ad, torch):
        utils = library.nn.utils.rnn
        x = leaf(library, *((3, 4) if batch_first else (4, 3)), *rest)
        given = library.tensor(lengths) if rest else lengths
        packed = utils.pack_padded_sequence(x, given, batch_first, enforce_sorted=lengths[0] == 4)
        padded, counted = utils.pad_packed_sequence(packed, not batch_first, -1.5, 5)
        (gradient,) = library.autograd.grad((padded * padded.sin()).sum(), [x])
        shortest = utils.pad_packed_sequence(packed)[0].detach()
        results.append([*parts(packed), padded.detach(), counted, gradient, shortest])
    equal(*results)


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("batch_first", [True, False])
def test_pad_sequence_and_back(batch_first: bool, side: str) -> None:
    results = []
    for library in (ad, torch):
        utils = library.nn.utils.rnn
        given = [leaf(library, n, 2) for n in (2, 4, 1)]
        padded = utils.pad_sequence(given, batch_first, 0.25, side)
        gradients = library.autograd.grad((padded * padded.sin()).sum(), given)
        found = utils.unpad_sequence(padded.detach().clone(), library.tensor([2, 4, 1]), batch_first)
        results.append([padded.detach(), *gradients, *found])
    equal(*results)


@pytest.mark.parametrize("sorts", [True, False])
def test_pack_sequence_and_back(sorts: bool) -> None:
    results = []
    for library in (ad, torch):
        utils = library.nn.utils.rnn
        given = [leaf(library, n, 2) for n in ((4, 2, 1) if not sorts else (2, 4, 1))]
        packed = utils.pack_sequence(given, enforce_sorted=not sorts)
        found = utils.unpack_sequence(packed)
        for a, b in zip(found, given, strict=True):
            np.testing.assert_array_equal(a.detach().numpy(), b.detach().numpy())
        results.append([*parts(packed), *[x.detach() for x in found]])
    equal(*results)


def test_made_by_hand() -> None:
    results = []
    for library in (ad, torch):
        utils = library.nn.utils.rnn
        data, sizes, order = leaf(library, 4, 2).detach(), library.tensor([3, 1]), library.tensor([2, 0, 1])
        packed = utils.PackedSequence(data, sizes, order)
        module = made(library, "LSTM(2, 3)")
        out, last = module(packed)
        results.append([*packed, *utils.PackedSequence((data, sizes)), utils.invert_permutation(order), *out, *last])
    equal(*results)
    assert rnn.invert_permutation(None) is None


def test_conversions() -> None:
    packed = rnn.pack_sequence([ad.ones(2), ad.ones(1)])
    assert packed.float() is packed.cpu() is packed.to("cpu") is packed
    assert packed.to(ad.float64).data.dtype == ad.float64
    assert not packed.is_cuda
    assert not packed.is_pinned()


X = "lib.ones(4, 3, 2)"
ERRORS = [
    f"pack_padded_sequence({X}, [4, 2])", f"pack_padded_sequence({X}, [4, 2, 0])",
    f"pack_padded_sequence({X}, [2, 4, 1])", f"pack_sequence([{X}[:1], {X}])",
    f"pad_packed_sequence(rnn.pack_padded_sequence({X}, [4, 2, 1]), total_length=3)",
    "pad_sequence(3)", f"pad_sequence([{X}], padding_side='up')", "PackedSequence(lib.ones(2, 2), lib.tensor([2]))[4]",
]  # fmt: skip


@pytest.mark.parametrize("text", ERRORS)
def test_errors_are_pytorchs(text: str) -> None:
    ours, theirs = errors_of(lambda t: eval(f"rnn.{text}", {"lib": t, "rnn": t.nn.utils.rnn}), ad, torch)
    assert type(ours) is type(theirs)
    assert str(theirs).startswith(str(ours))


def test_more_errors() -> None:
    for library in (torch, ad):
        assert_raises(RuntimeError, "received an empty list of sequences", library.nn.utils.rnn.pad_sequence, [])
    with pytest.raises(RuntimeError, match="Expected lengths of at most 4, the times of the input, but got 5"):
        rnn.pack_padded_sequence(ad.ones(4, 3, 2), [5, 2, 1])
    assert_raises(ValueError, "Expected data to be a list or tuple of length 2", lambda: rnn.PackedSequence(ad.ones(2)))


@pytest.mark.parametrize("name", ["double", "float", "half", "long", "int", "short", "char", "byte"])
def test_types(name: str) -> None:
    types = []
    for library in (torch, ad):
        packed = library.nn.utils.rnn.pack_padded_sequence(library.ones(4, 3, 2), [4, 2, 1])
        converted = getattr(packed, name)()
        assert isinstance(converted, type(packed))
        types.append(str(converted.data.dtype).rpartition(".")[2])
    assert types[0] == types[1]


@pytest.mark.parametrize("text", ["LSTM(2, 3, bidirectional=True)", "GRU(2, 3, 2)", "RNN(2, 3)"])
def test_compiled(text: str) -> None:
    """A step that packs, sweeps and pads."""
    pytest.importorskip("llvmlite")
    results = []
    for compiles in (lambda f: f, ad.compile):
        module, x = made(ad, text), leaf(ad, 4, 3, 2)

        def run(x: Any, module: Any = module) -> Any:
            packed = rnn.pack_padded_sequence(x, [2, 4, 1], enforce_sorted=False)
            return (rnn.pad_packed_sequence(module(packed)[0])[0] ** 2).sum()

        step = compiles(run)
        results.append(pulled(ad, [step(x), step(x * 2)], [x], module))
    for a, b in zip(*results, strict=True):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("dtype", [ad.float32, ad.int64, ad.int32])
@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("batch_first", [False, True])
def test_sequences_without_history_are_padded_as_others_are(dtype, side, batch_first):
    given = [ad.arange(2 * n).reshape(n, 2).to(dtype) for n in (3, 0, 5)]
    for value in (0.0, 7, -1.5):
        found = ad.nn.utils.rnn.pad_sequence(given, batch_first, value, side)
        recorded = [x.double().requires_grad_() for x in given]
        wanted = ad.nn.utils.rnn.pad_sequence(recorded, batch_first, int(value) if dtype != ad.float32 else value, side)
        assert found.dtype is dtype
        assert found.tolist() == wanted.tolist()
