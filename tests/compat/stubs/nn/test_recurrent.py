"""Recurrent layers as functions of flat lists of weights: what the layers themselves give."""

from typing import Any

import pytest
from adjoint.nn.utils.rnn import pack_padded_sequence

import adjoint as ad
from adjoint import nn
from adjoint.compat.stubs.nn import recurrent

FUNCTIONS = {"LSTM": recurrent.lstm, "GRU": recurrent.gru, "RNN": recurrent.rnn_tanh}


@pytest.mark.parametrize("kind", FUNCTIONS)
@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("proj_size", [0, 2])
def test_as_the_layer(kind: str, bidirectional: bool, batch_first: bool, bias: bool, proj_size: int) -> None:
    if proj_size and kind != "LSTM":
        pytest.skip("only an LSTM has projections")
    projected = {"proj_size": proj_size} if proj_size else {}
    layer = getattr(nn, kind)(
        3, 4, 2, bias=bias, bidirectional=bidirectional, batch_first=batch_first, **projected
    )  # fmt: skip
    x, batch = ad.randn(5, 6, 3), 5 if batch_first else 6
    h, c = (ad.randn(2 * (1 + bidirectional), batch, width) for width in (proj_size or 4, 4))
    hx: Any = (h, c) if kind == "LSTM" else h
    given = (layer._flat_weights, bias, 2, 0.0, False, bidirectional)
    check(FUNCTIONS[kind](x, hx, *given, batch_first), *layer(x, hx))
    packed = pack_padded_sequence(x, [6 if batch_first else 5] * (batch - 1) + [2], batch_first=batch_first)
    output, last = layer(packed, hx)
    check(FUNCTIONS[kind](packed.data, packed.batch_sizes, hx, *given), output.data, last)


def check(found: tuple[ad.Tensor, ...], output: ad.Tensor, last: Any) -> None:
    """Compare outputs and last states."""
    expected = (output, *last) if isinstance(last, tuple) else (output, last)
    assert all(ad.equal(a, b) for a, b in zip(found, expected, strict=True))
