"""Recurrent layers and cells against PyTorch's: first values, outputs, states, gradients, errors, repr."""

import copy
import pickle
from typing import Any

import numpy as np
import pytest
from tests.support.errors import assert_raises, errors_of
from tests.support.oracle import equal, torch, weights

import adjoint as ad
from adjoint import nn
from adjoint.core.op.eager_kernels import eager_kernels
from adjoint.functions.nn import recurrent

RNG = np.random.default_rng(3)
T, B, X, H = 5, 3, 4, 6
LAYERS = [
    f"{kind}(4, 6{settings})"
    for kind in ("RNN", "LSTM", "GRU")
    for settings in (
        "", ", bias=False", ", 2, batch_first=True", ", bidirectional=True", ", 3, bidirectional=True, dropout=0.4",
    )
] + [
    "RNN(4, 6, nonlinearity='relu')", "RNN(4, 6, 2, 'relu', True, True)", "LSTM(4, 6, proj_size=2)",
    "LSTM(4, 6, 2, batch_first=True, bidirectional=True, proj_size=3, dropout=0.2)",
]  # fmt: skip
CELLS = [
    "RNNCell(4, 6)", "RNNCell(4, 6, False)", "RNNCell(4, 6, nonlinearity='relu')", "LSTMCell(4, 6)",
    "LSTMCell(4, 6, bias=False)", "GRUCell(4, 6)", "GRUCell(4, 6, bias=False)",
]  # fmt: skip


def made(library: Any, text: str, dtype: str = "float64") -> Any:
    library.manual_seed(7)
    return eval(f"lib.nn.{text}", {"lib": library}).to(getattr(library, dtype))


def leaf(library: Any, *shape: int) -> Any:
    numbers = np.random.default_rng(list(shape)).normal(size=shape)
    return library.tensor(numbers).requires_grad_()


def pulled(library: Any, out: Any, leaves: list[Any], module: Any) -> list[Any]:
    """What came out, and the gradients of everything by a loss that weighs each element of it."""
    found = list(flat(library, out))
    seeds = [library.tensor(weights(x.shape)) * (i + 1) for i, x in enumerate(found)]
    library.autograd.backward(found, seeds)
    return [*found, *(x.grad for x in leaves), *(p.grad for p in module.parameters())]


def flat(library: Any, out: Any) -> Any:
    if isinstance(out, library.Tensor):
        if out.is_floating_point():
            yield out
    elif out is not None:
        for part in out:
            yield from flat(library, part)


@pytest.mark.parametrize("text", LAYERS + CELLS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_first_values_state_and_repr(text: str, dtype: str) -> None:
    ours, theirs = made(ad, text, dtype), made(torch, text, dtype)
    assert (repr(ours), list(ours.state_dict())) == (repr(theirs), list(theirs.state_dict()))
    for name, value in theirs.state_dict().items():
        np.testing.assert_array_equal(ours.state_dict()[name].numpy(), value.numpy(), strict=True)


@pytest.mark.parametrize("text", ["LSTM(4, 6, 2, dtype={})", "GRUCell(4, 6, dtype={})"])
def test_values_drawn_as_float64(text: str) -> None:
    for name, value in made(torch, text.format("lib.float64")).state_dict().items():
        ours = made(ad, text.format("lib.float64")).state_dict()[name]
        np.testing.assert_array_equal(ours.numpy(), value.numpy(), strict=True)


def states(library: Any, module: Any, batch: tuple[int, ...]) -> tuple[Any, list[Any]]:
    """A first state for the module, and its tensors."""
    count = module.num_layers * (2 if module.bidirectional else 1)
    h = leaf(library, count, *batch, module.proj_size or H)
    c = leaf(library, count, *batch, H)
    return ((h, c), [h, c]) if isinstance(module, library.nn.LSTM) else (h, [h])


@pytest.mark.sweep(2)
@pytest.mark.parametrize("batched", [True, False], ids=["batched", "alone"])
@pytest.mark.parametrize("given", [True, False], ids=["state", "zeros"])
@pytest.mark.parametrize("text", LAYERS)
def test_layer(text: str, given: bool, batched: bool) -> None:
    results = []
    for library in (ad, torch):
        module = made(library, text)
        shape = (T, X) if not batched else (B, T, X) if module.batch_first else (T, B, X)
        x = leaf(library, *shape)
        hx, leaves = states(library, module, (B,) if batched else ()) if given else (None, [])
        library.manual_seed(1)
        results.append(pulled(library, module(x, hx), [x, *leaves], module))
    equal(*results)


@pytest.mark.parametrize("text", ["LSTM(4, 6)", "GRU(4, 6)", "RNN(4, 6)"])
def test_layer_in_float32(text: str) -> None:
    results = []
    for library in (ad, torch):
        module = made(library, text, "float32")
        out = module(leaf(library, T, B, X).to(library.float32).detach())
        out[0].sum().backward()
        results.append([out, [p.grad for p in module.parameters()]])
    equal(*results, factor=10)


@pytest.mark.sweep(2)
@pytest.mark.parametrize("given", [True, False], ids=["state", "zeros"])
@pytest.mark.parametrize("text", [text for text in LAYERS if "0.4" not in text and "0.2" not in text])
@pytest.mark.parametrize("lengths", [[5, 3, 1], [2, 5, 3], [4, 4, 4]])
def test_packed(text: str, lengths: list[int], given: bool) -> None:
    results = []
    for library in (ad, torch):
        module = made(library, text)
        rnn = library.nn.utils.rnn
        x = leaf(library, *((B, T, X) if module.batch_first else (T, B, X)))
        packed = rnn.pack_padded_sequence(x, lengths, module.batch_first, enforce_sorted=False)
        hx, leaves = states(library, module, (B,)) if given else (None, [])
        out, last = module(packed, hx)
        assert isinstance(out, rnn.PackedSequence)
        padded, counted = rnn.pad_packed_sequence(out, module.batch_first, -0.5, 6)
        assert counted.tolist() == lengths
        results.append(pulled(library, (padded, last), [x, *leaves], module))
    equal(*results)


@pytest.mark.parametrize("batched", [True, False], ids=["batched", "alone"])
@pytest.mark.parametrize("given", [True, False], ids=["state", "zeros"])
@pytest.mark.parametrize("text", CELLS)
def test_cell(text: str, given: bool, batched: bool) -> None:
    results = []
    for library in (ad, torch):
        module = made(library, text)
        batch = (B,) if batched else ()
        x = leaf(library, *batch, X)
        h, c = leaf(library, *batch, H), leaf(library, 1, *batch, H)
        hx = None if not given else (h, c[0]) if text.startswith("LSTM") else h
        out = module(x, hx)
        again = module(x, out)
        results.append(pulled(library, (out, again), [x, h, c], module))
    equal(*results)


KINDS = {"LSTM": 4, "GRU": 3, "RNN_TANH": 1, "RNN_RELU": 1}


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_the_quick_form_is_the_composite_one(
    kind: str, biased: bool, reverse: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Values, first and second derivatives, also where only one of the outputs is used."""

    def found() -> list[Any]:
        rows = KINDS[kind] * H
        x, ih, hh, b1, b2, h, c = (
            leaf(ad, *shape) for shape in ((T * B, X), (rows, X), (rows, H), (rows,), (rows,), (B, H), (1, B, H))
        )
        begin = (h, c[0]) if kind == "LSTM" else (h,)
        w = recurrent.Weights(ih, hh, *((b1, b2) if biased else ()))
        used = [x, ih, hh, h, *([b1, b2] if biased else []), *([c] if kind == "LSTM" else [])]
        out, end = recurrent._run_direction(kind, x, [B] * T, begin, w, reverse)
        results = [out, *end]
        for i, part in enumerate((out, *end)):
            results += ad.autograd.grad(part.sin().sum(), used, retain_graph=True, allow_unused=i > 0)
        loss = (out * out.sin()).sum() + sum(((i + 2) * s * s).sum() for i, s in enumerate(end))
        first = ad.autograd.grad(loss, used, create_graph=True)
        return [*results, *first, *ad.autograd.grad(sum((g * g).sum() for g in first), used)]

    quick = found()
    monkeypatch.setattr(
        recurrent,
        "run_sweep",
        lambda kind, sizes, reverse, composite, *a: composite(kind, sizes, reverse, *a),
    )
    for a, b in zip(quick, found(), strict=True):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-10, atol=1e-10)


SIZES = {  # rows of each time, and units: what native code does whole, step by step, and in several calls
    "whole": ([5] * 7, 33),
    "packed": ([9, 9, 6, 6, 2, 1], 20),
    "one row": ([1] * 9, 8),
    "two steps": ([4, 3], 12),
    "large": ([70, 70, 64, 3], 90),
    "long": ([12] * 80, 40),
}


@pytest.mark.sweep(3)
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("kind", [*KINDS, "projection"])
def test_native_steps_are_numpys(kind: str, dtype: str, sizes: str, reverse: bool) -> None:
    (counts, units), rng = SIZES[sizes], np.random.default_rng(len(kind))
    kind, hr = ("LSTM", True) if kind == "projection" else (kind, False)
    width = 5 if hr else units
    rows = KINDS[kind] * units
    shapes = [(sum(counts), rows), (rows, width), *([(rows,)] if kind == "GRU" else [])]
    shapes += [*([(width, units)] if hr else []), (counts[0], width), *([(counts[0], units)] if kind == "LSTM" else [])]

    def found() -> list[Any]:
        values = [ad.tensor(x.astype(dtype), requires_grad=True) for x in given]
        rest = iter(values[2:])
        bias, projection = next(rest) if kind == "GRU" else None, next(rest) if hr else None
        settings = kind, tuple(counts), reverse, recurrent._layer_composite
        results = recurrent.run_sweep(*settings, *values[:2], bias, projection, *rest)
        with ad.no_grad():
            quiet = recurrent.run_sweep(
                *settings, values[0].clone(), values[1], bias, projection, *values[-len(results) + 1 :]
            )
        loss = sum((x.cos() * (i + 1)).sum() for i, x in enumerate(results))
        return [x.detach().numpy() for x in (*results, *quiet, *ad.autograd.grad(loss, values))]

    given = [rng.normal(size=shape) * (0.5 / np.sqrt(shape[-1]) if len(shape) > 1 else 1) for shape in shapes]
    native = found()
    with eager_kernels(False):
        plain = found()
    for a, b in zip(native, plain, strict=True):
        scale = np.abs(b).max() * (2e-4 if dtype == "float32" else 1e-11)
        np.testing.assert_allclose(a, b, rtol=0, atol=scale, strict=True)


@pytest.mark.parametrize("text", ["LSTM(2, 3)", "GRU(2, 3, bidirectional=True)", "RNN(2, 3, 2)", "LSTMCell(2, 3)"])
def test_gradients_are_those_of_differences(text: str) -> None:
    module = made(ad, text)
    names = [name for name, _ in module.named_parameters()]
    x = leaf(ad, *((2, 2) if "Cell" in text else (3, 2, 2)))

    def run(x: Any, *values: Any) -> Any:
        out = ad.func.functional_call(module, dict(zip(names, values, strict=True)), (x,))
        return tuple(flat(ad, out))

    values = [p.detach().requires_grad_() for p in module.parameters()]
    assert ad.autograd.gradcheck(run, (x, *values))
    assert ad.autograd.gradgradcheck(run, (x, *values))


@pytest.mark.parametrize("text", ["LSTM(2, 3)", "GRU(2, 3)", "RNN(2, 3)"])
def test_transforms(text: str) -> None:
    """Forward mode, vmap and grad see the composite form."""
    module = made(ad, text)
    x, v = leaf(ad, 4, 2, 2).detach(), leaf(ad, 4, 2, 2).detach().cos()

    def loss(x: Any) -> Any:
        return (module(x)[0] ** 2).sum()

    gradient = ad.func.grad(loss)(x)
    _, tangent = ad.func.jvp(loss, (x,), (v,))
    np.testing.assert_allclose(tangent.item(), (gradient * v).sum().item(), rtol=1e-10)
    each = ad.vmap(loss)(ad.stack([x, v]))
    np.testing.assert_allclose(each.tolist(), [loss(x).item(), loss(v).item()], rtol=1e-12)


def test_a_frozen_weight_gets_no_gradient() -> None:
    module = made(ad, "LSTM(4, 6)")
    module.weight_hh_l0.requires_grad_(False)
    module(leaf(ad, T, B, X))[0].sum().backward()
    assert module.weight_hh_l0.grad is None
    assert module.weight_ih_l0.grad is not None


def test_writing_the_weight_before_backward_is_seen() -> None:
    module = made(ad, "GRU(4, 6)")
    out = module(leaf(ad, T, B, X))[0].sum()
    with ad.no_grad():
        module.weight_hh_l0.mul_(2)
    assert_raises(RuntimeError, "modified by an inplace operation", out.backward)


def test_outputs_may_be_written() -> None:
    results = []
    for library in (ad, torch):
        module = made(library, "LSTM(4, 6)")
        out, (h, c) = module(leaf(library, T, B, X))
        out = out.relu_() * 2
        h.mul_(3)
        results.append(pulled(library, (out, h, c), [], module))
    equal(*results)


def test_all_weights_and_what_a_copy_holds() -> None:
    module = made(ad, "LSTM(4, 6, 2, bidirectional=True, proj_size=2)")
    theirs = made(torch, "LSTM(4, 6, 2, bidirectional=True, proj_size=2)")
    assert [[tuple(w.shape) for w in each] for each in module.all_weights] == [
        [tuple(w.shape) for w in each] for each in theirs.all_weights
    ]
    assert module.flatten_parameters() is None
    x = leaf(ad, T, B, X)
    for twin in (copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
        np.testing.assert_array_equal(twin(x)[0].detach().numpy(), module(x)[0].detach().numpy())
    module.weight_ih_l0 = nn.Parameter(module.weight_ih_l0.detach() * 0)
    assert module.all_weights[0][0] is module.weight_ih_l0
    module.reset_parameters()
    theirs.reset_parameters()
    equal([p.detach() for p in module.parameters()], [p.detach() for p in theirs.parameters()], factor=0)


ERRORS = [
    "LSTM(4, 6, dropout=1.5)", "LSTM(4, 6, dropout='0.5')", "LSTM(4, 6, dropout=True)", "GRU(4, 6, bias=1)",
    "GRU(4, 6, batch_first=1)", "RNN(4.0, 6)", "RNN(0, 6)", "RNN(4, 6.0)", "RNN(4, 0)", "LSTM(4, 6, 0)",
    "LSTM(4, 6, proj_size=-1)", "LSTM(4, 6, proj_size=6)", "RNN(4, 6, nonlinearity='exp')", "RNN(4, 6, proj_size=2)",
    "GRU(4, 6, proj_size=2)", "LSTM(4, 6)(lib.ones(3))", "GRU(4, 6)(lib.ones(3, 2, 2, 4))",
    "LSTM(4, 6)(lib.ones(5, 3, 5))", "LSTM(4, 6)(lib.ones(5, 3, 4).double())",
    "GRU(4, 6)(lib.ones(5, 3, 4), lib.ones(3, 6))", "GRU(4, 6)(lib.ones(5, 4), lib.ones(1, 1, 6))",
    "LSTM(4, 6)(lib.ones(5, 3, 4), (lib.ones(3, 6), lib.ones(1, 3, 6)))",
    "LSTM(4, 6)(lib.ones(5, 4), (lib.ones(1, 6), lib.ones(1, 3, 6)))",
    "LSTM(4, 6)(lib.ones(5, 3, 4), (lib.ones(1, 2, 6), lib.ones(1, 3, 6)))",
    "LSTM(4, 6)(lib.ones(5, 3, 4), (lib.ones(1, 3, 6), lib.ones(1, 3, 5)))",
    "GRU(4, 6)(lib.ones(5, 3, 4), lib.ones(2, 3, 6))", "RNNCell(4, 6)(lib.ones(1, 2, 4))",
    "RNNCell(4, 6)(lib.ones(2, 4), lib.ones(1, 2, 6))", "LSTMCell(4, 6)(lib.ones(4), (lib.ones(6), lib.ones(1, 1, 6)))",
]  # fmt: skip


@pytest.mark.parametrize("text", ERRORS)
def test_errors_are_pytorchs(text: str) -> None:
    errors = errors_of(lambda library: eval(f"lib.nn.{text}", {"lib": library}), ad, torch)
    ours, theirs = (str(error).replace("torch.", "").replace("adjoint.", "") for error in errors)
    assert type(errors[0]) is type(errors[1])
    assert ours.replace(" tensor instead", " instead") == theirs.replace(" tensor instead", " instead")


@pytest.mark.parametrize("text", [
    "LSTM(4, 6)(lib.ones(0, 3, 4))", "RNNCell(4, 6)(lib.ones(2, 5))", "GRUCell(4, 6)(lib.ones(2, 4), lib.ones(3, 6))",
    "LSTMCell(4, 6)(lib.ones(2, 4), (lib.ones(2, 6), lib.ones(2, 5)))",
])  # fmt: skip
def test_errors_of_the_same_class(text: str) -> None:
    for library in (torch, ad):
        with pytest.raises(RuntimeError):
            eval(f"lib.nn.{text}", {"lib": library})


def test_unknown_settings() -> None:
    assert_raises(ValueError, "Unrecognized RNN mode: TREE", nn.RNNBase, "TREE", 2, 3)
    cell = nn.RNNCell(2, 3, nonlinearity="exp")
    assert_raises(RuntimeError, "Unknown nonlinearity: exp", lambda: cell(ad.ones(1, 2)))
    with pytest.warns(UserWarning, match="dropout option adds dropout after all but last recurrent layer"):
        nn.LSTM(2, 3, dropout=0.5)


@pytest.mark.parametrize("make", [nn.RNN, nn.LSTM, nn.GRU])
def test_gradients_of_many_seeds_at_once(make: Any) -> None:
    layer, x = make(3, 2).double(), ad.randn(4, 2, 3, dtype=ad.float64, requires_grad=True)
    out, _ = layer(x)
    seeds = ad.eye(16, dtype=ad.float64).reshape(16, 4, 2, 2)
    (together,) = ad.autograd.grad(out, x, seeds, is_grads_batched=True, retain_graph=True)
    apart = [ad.autograd.grad(out, x, seed, retain_graph=True)[0].numpy() for seed in seeds]
    np.testing.assert_allclose(together.numpy(), np.stack(apart), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("cell", ["LSTMCell", "GRUCell"])
def test_a_cell_that_records_nothing_gives_the_same(cell: str) -> None:
    layer, x = getattr(nn, cell)(4, 6), ad.randn(3, 4)
    state = ad.randn(3, 6), ad.randn(3, 6)
    given = state if cell == "LSTMCell" else state[0]
    recorded = layer(x, given)
    with ad.no_grad():
        quiet = layer(x, given)
    for a, b in zip(*(y if isinstance(y, tuple) else (y,) for y in (recorded, quiet)), strict=True):
        assert a.requires_grad
        assert not b.requires_grad
        assert a.tolist() == b.tolist()
