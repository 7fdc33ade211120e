"""`adjoint._VF`: recurrent layers as functions of flat lists of weights, under PyTorch's signatures."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Operand
from adjoint.functions.nn.recurrent import (
    Weights,
    gru_cell,
    lstm_cell,
    recurrent_layers,
    rnn_relu_cell,
    rnn_tanh_cell,
)
from adjoint.functions.shape.split import split

__all__ = ["gru", "gru_cell", "lstm", "lstm_cell", "rnn_relu", "rnn_relu_cell", "rnn_tanh", "rnn_tanh_cell", "split"]


def run_layers(kind: str, input: Tensor, hx: Operand, *settings: Operand) -> tuple[Tensor, ...]:
    """Return the outputs and the last states.

    After the state `hx`, a tuple for an LSTM, come the weights of all layers in one list, has_biases, num_layers,
    dropout, train, bidirectional and batch_first. Of packed rows the batch sizes come ahead of the state, and
    batch_first is left out.
    """
    is_packed = len(settings) == 7 and not isinstance(settings[1], bool)
    if is_packed:
        sizes, hx, settings = hx.tolist(), settings[0], (*settings[1:], False)
    params, has_biases, _, dropout, train, is_bidirectional, batch_first = settings
    start = (hx,) if isinstance(hx, Tensor) else tuple(hx)
    layers = group_weights(params, has_biases, is_bidirectional, len(start) == 2 and start[0].shape != start[1].shape)
    rows = input if is_packed or not batch_first else input.transpose(0, 1)
    if not is_packed:
        steps, batch = rows.shape[:2]
        sizes, rows = [batch] * steps, rows.reshape(steps * batch, -1)
    output, last = recurrent_layers(kind, rows, start, layers, sizes, dropout, train)
    if not is_packed:
        output = output.reshape(steps, batch, -1)
        output = output.transpose(0, 1) if batch_first else output
    return output, *last


def group_weights(
    params: Sequence[Tensor], has_biases: bool, is_bidirectional: bool, is_projected: bool
) -> list[list[Weights]]:
    """Group a flat list of weights by layer and direction."""
    names = ["ih", "hh", *["bias_ih", "bias_hh"] * has_biases, *["hr"] * is_projected]
    each = [
        Weights(**dict(zip(names, params[i : i + len(names)], strict=True))) for i in range(0, len(params), len(names))
    ]
    directions = 1 + is_bidirectional
    return [each[i : i + directions] for i in range(0, len(each), directions)]


lstm, gru = partial(run_layers, "LSTM"), partial(run_layers, "GRU")
rnn_tanh, rnn_relu = partial(run_layers, "RNN_TANH"), partial(run_layers, "RNN_RELU")
