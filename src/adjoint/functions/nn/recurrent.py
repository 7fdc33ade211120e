"""Recurrent cells, and layers of them swept over time: RNN, LSTM and GRU.

A batch of sequences is held as packed rows: those of the first time, those of the second, and so on. Later times may
have fewer rows, for sequences of different lengths stand in the order of their lengths, the longest first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from adjoint.core.dtype.dtype import int64
from adjoint.core.op.autocast import autocast_down
from adjoint.core.op.families import with_eager_fast_path
from adjoint.core.runtime.mode import mode, nondefault
from adjoint.core.tensor.size import has_symbolic
from adjoint.core.tensor.storage import is_inference
from adjoint.core.tensor.tensor import Tensor, constant
from adjoint.core.typing import Array
from adjoint.functions.creation.creation import full
from adjoint.functions.elementwise.pointwise import relu
from adjoint.functions.linalg.matmul import addmm, linear, mm
from adjoint.functions.nn.dropout import dropout
from adjoint.functions.nn.recurrent_fused import run_sweep
from adjoint.functions.shape.join import cat, stack
from adjoint.functions.shape.split import chunk, split
from adjoint.ops.elementwise import arithmetic, transcendental
from adjoint.ops.linalg import matmul as contraction
from adjoint.ops.linalg.blas_products import multiply_matrices
from adjoint.ops.movement import movement
from adjoint.ops.nn.recurrent_record import MAX_ROLES, list_record_parts, sweep_record, take_part
from adjoint.ops.nn.recurrent_steps import NATIVE_DTYPES

__all__ = ["gru_cell", "lstm_cell", "recurrent_layers", "rnn_relu_cell", "rnn_tanh_cell"]

State = tuple[Tensor, ...]  # (h,), of an LSTM (h, c)


class Weights(NamedTuple):
    """Weights of one direction of one layer, whose gates are stacked along the rows."""

    ih: Tensor  # (G, I)
    hh: Tensor  # (G, R)
    bias_ih: Tensor | None = None  # (G,)
    bias_hh: Tensor | None = None  # (G,)
    hr: Tensor | None = None  # (R, H), a projection of the hidden state; R is H without one


def recurrent_layers(
    kind: str,
    input: Tensor,
    start: State,
    weights: Sequence[Sequence[Weights]],
    sizes: Sequence[int] | Tensor,
    dropout_p: float = 0.0,
    training: bool = False,
) -> tuple[Tensor, State]:
    """Return the outputs (N, D·H) for packed rows (N, I), and the last states (L·D, B, H), of L layers of D directions.

    `kind`: "LSTM", "GRU", "RNN_TANH" or "RNN_RELU". `sizes`: how many rows each time has, not growing; B is the first.
    A tensor of them, for as many times as a compiled step has in each call, makes all times one op.
    `start` has the shapes of the last states. Between layers goes dropout. Raises RuntimeError for no times at all.
    """
    if not isinstance(sizes, Tensor) and not sizes:
        raise RuntimeError("Expected sequence length to be larger than 0 in RNN")
    if kind == "LSTM" and nondefault.count and mode.autocast is not None:
        input, start = autocast_down(input), tuple(map(autocast_down, start))
        weights = [[Weights(*map(autocast_down, w)) for w in layer] for layer in weights]
    begins = list(zip(*(part.unbind(0) for part in start), strict=True))
    ends: list[State] = []
    for i, layer in enumerate(weights):
        outputs = []
        for reverse, w in enumerate(layer):
            output, last = _run_direction(kind, input, sizes, begins[len(ends)], w, bool(reverse))
            outputs.append(output)
            ends.append(last)
        input = _cat_parts(outputs, -1)
        if i < len(weights) - 1:
            input = dropout(input, dropout_p, training)
    return input, tuple(stack(parts) for parts in zip(*ends, strict=True))


def _run_direction(
    kind: str, input: Tensor, sizes: Sequence[int] | Tensor, start: State, w: Weights, reverse: bool
) -> tuple[Tensor, State]:
    """Return the outputs (N, H) and the last state of one direction of one layer."""
    if isinstance(sizes, Tensor):
        return _run_in_one_op(kind, input, sizes, start, w, reverse)
    if nondefault.count and mode.interpreter is not None:
        whole: tuple[Tensor, State] | None = mode.interpreter.sweep(kind, input, tuple(sizes), start, w, reverse)
        if whole is not None:
            return whole
    lone = len(sizes) == 1 and kind in ACTIVATIONS  # an RNN cell's step is two ops
    if lone and len({x.array.dtype for x in (input, *start, *w) if x is not None}) == 1:
        out = ACTIVATIONS[kind](_cell_gates(input, start[0], w.ih, w.hh, w.bias_ih, w.bias_hh))
        return out, (out,)
    separate = kind == "GRU"  # whose reset gate scales the recurrent bias, too
    bias = w.bias_ih if separate or w.bias_ih is None else arithmetic.add(w.bias_ih, w.bias_hh)
    gates = linear(input, w.ih, bias)  # (N, G), for all times at once
    recurrent_bias = w.bias_hh if separate else None
    parts = (gates, w.hh, recurrent_bias, w.hr, *start)
    alike = len({x.array.dtype for x in parts if x is not None}) == 1
    # what inference mode made cannot be saved
    quick = alike and not (nondefault.inference_used and any(is_inference(x) for x in parts))
    if quick and not (nondefault.count and (mode.needs_slow_path or nondefault.meta_tensors)):
        output, *last = run_sweep(kind, tuple(sizes), reverse, _layer_composite, *parts)
        return output, tuple(last)
    run_whole = getattr(mode.anomaly_detector, "run_whole", None) if quick and nondefault.count else None
    if run_whole is not None:  # an observer that sees the sweep as one op
        results = run_whole(run_sweep, parts, kind, tuple(sizes), reverse, _layer_composite, *parts)
        if results is not None:
            return results[0], results[1:]
    steps = [gates] if len(sizes) == 1 else split(gates, list(sizes))
    outputs, end = _run_time_steps(kind, steps, start, w.hh, recurrent_bias, w.hr, reverse)
    return _cat_parts(outputs, 0), end


def equal_sizes(steps: int, batch: int) -> Sequence[int] | Tensor:
    """Return how many rows each of so many times has: a tensor, if the number of times is another in each call."""
    return full((steps,), batch, dtype=int64) if has_symbolic(steps) else [batch] * steps


def _run_in_one_op(
    kind: str, input: Tensor, sizes: Tensor, start: State, w: Weights, reverse: bool
) -> tuple[Tensor, State]:
    separate = kind == "GRU"
    bias = w.bias_ih if separate or w.bias_ih is None else arithmetic.add(w.bias_ih, w.bias_hh)
    gates = linear(input, w.ih, bias)
    order = stack([sizes.cumsum(0) - sizes, sizes], 1)
    order = order.flip(0) if reverse else order
    extras = {"cells": start[1] if kind == "LSTM" else None, "bias": w.bias_hh if separate else None, "hr": w.hr}
    given = {role: x for role, x in extras.items() if x is not None}
    kinds = {x.array.dtype for x in (gates, w.hh, start[0], *given.values())}
    if len(kinds) > 1 or not kinds <= NATIVE_DTYPES.keys():
        raise NotImplementedError(f"{kind}: any number of times takes one type, float32 or float64, not {kinds}")
    inputs, roles = (gates, order, w.hh, start[0]), tuple(given)
    absent = [constant(np.zeros(0, gates.array.dtype))] * (MAX_ROLES - len(given))
    record = sweep_record(*inputs, *given.values(), *absent, kind=kind, roles=roles)
    more = [x.array for x in given.values()]
    parts = list_record_parts(gates.array, order.array, w.hh.array, start[0].array, more, kind, roles)
    return take_part(record, parts, 0), tuple(take_part(record, parts, 1 + i) for i in range(len(start)))


def _gates_composite(
    x: Tensor, h: Tensor, ih: Tensor, hh: Tensor, bias_ih: Tensor | None = None, bias_hh: Tensor | None = None
) -> Tensor:
    bias = None if bias_ih is None or bias_hh is None else arithmetic.add(bias_ih, bias_hh)
    return addmm(linear(x, ih, bias), h, movement.permute(hh, axes=(1, 0)))


@with_eager_fast_path(
    composite=_gates_composite,
    node="AddmmBackward0",
    dx=lambda g, ih: contraction.mm(g, ih),
    dh=lambda g, hh: contraction.mm(g, hh),
    dih=lambda g, x: contraction.mm(movement.permute(g, axes=(1, 0)), x),
    dhh=lambda g, h: contraction.mm(movement.permute(g, axes=(1, 0)), h),
    dbias_ih=lambda g: g,
    dbias_hh=lambda g: g,
)
def _cell_gates(
    x: Array, h: Array, ih: Array, hh: Array, bias_ih: Array | None = None, bias_hh: Array | None = None
) -> Array:
    """Return W_ih x + b_ih + W_hh h + b_hh of rows x and h."""
    out = multiply_matrices(x, ih.T)
    if bias_ih is not None and bias_hh is not None:
        out += bias_ih + bias_hh
    out += multiply_matrices(h, hh.T)
    return out


def _layer_composite(
    kind: str,
    sizes: tuple[int, ...],
    reverse: bool,
    gates: Tensor,
    hh: Tensor,
    bias: Tensor | None,
    hr: Tensor | None,
    *start: Tensor,
) -> tuple[Tensor, ...]:
    """Compute what `run_sweep` does step by step: the composite form."""
    outputs, end = _run_time_steps(kind, split(gates, list(sizes)), start, hh, bias, hr, reverse)
    return _cat_parts(outputs, 0), *end


def _run_time_steps(
    kind: str, inputs: Sequence[Tensor], start: State, hh: Tensor, bias: Tensor | None, hr: Tensor | None, reverse: bool
) -> tuple[list[Tensor], State]:
    """Return the outputs for each time's gates (B, G), and the state that each sequence ends with."""
    step, across = STEP_BY_KIND[kind], movement.permute(hh, axes=(1, 0))
    down = None if hr is None else movement.permute(hr, axes=(1, 0))
    times = range(len(inputs))[:: -1 if reverse else 1]
    rows = inputs[times[0]].array.shape[0]
    state = start if rows == inputs[0].array.shape[0] else tuple(s[:rows] for s in start)
    outputs: list[Any] = [None] * len(inputs)
    ended: list[State] = []
    for t in times:
        now = inputs[t].array.shape[0]
        if now < rows:
            ended.append(tuple(s[now:] for s in state))
            state = tuple(s[:now] for s in state)
        elif now > rows:
            state = tuple(cat([s, s0[rows:now]]) for s, s0 in zip(state, start, strict=True))
        rows = now
        state = step(inputs[t], state, across, bias)
        if down is not None:
            state = (mm(state[0], down), *state[1:])
        outputs[t] = state[0]
    if ended:
        state = tuple(cat([s, *(part[i] for part in reversed(ended))]) for i, s in enumerate(state))
    return outputs, state


def _lstm(gates: Tensor, state: State, across: Tensor, _: Tensor | None) -> State:
    """Return c' = σ(f) c + σ(i) tanh g and h' = σ(o) tanh c'. Source: Hochreiter & Schmidhuber, 1997."""
    h, c = state
    i, f, g, o = chunk(addmm(gates, h, across), 4, 1)
    c = arithmetic.add(
        arithmetic.mul(transcendental.sigmoid(f), c), arithmetic.mul(transcendental.sigmoid(i), transcendental.tanh(g))
    )
    return arithmetic.mul(transcendental.sigmoid(o), transcendental.tanh(c)), c


def _gru(gates: Tensor, state: State, across: Tensor, bias: Tensor | None) -> State:
    """Return h' = n + z (h - n), n = tanh(a + σ(r) b), with the recurrent part b and its bias. Source: Cho, 2014."""
    (h,) = state
    recurrent = mm(h, across) if bias is None else addmm(bias, h, across)
    width = h.array.shape[1]
    rz, a = split(gates, [2 * width, width], 1)
    recurrent_rz, b = split(recurrent, [2 * width, width], 1)
    r, z = chunk(transcendental.sigmoid(arithmetic.add(rz, recurrent_rz)), 2, 1)
    n = transcendental.tanh(arithmetic.add(a, arithmetic.mul(r, b)))
    return (arithmetic.add(n, arithmetic.mul(z, arithmetic.sub(h, n))),)


STEP_BY_KIND: dict[str, Callable[[Tensor, State, Tensor, Tensor | None], State]] = {
    "LSTM": _lstm,
    "GRU": _gru,
    "RNN_TANH": lambda gates, state, across, _: (transcendental.tanh(addmm(gates, state[0], across)),),
    "RNN_RELU": lambda gates, state, across, _: (relu(addmm(gates, state[0], across)),),
}
ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"RNN_TANH": transcendental.tanh, "RNN_RELU": relu}


def lstm_cell(
    input: Tensor,
    hx: Sequence[Tensor],
    w_ih: Tensor,
    w_hh: Tensor,
    b_ih: Tensor | None = None,
    b_hh: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Return (h', c') after one step from (h, c), each (B, H), with input (B, I); the weights' rows are i, f, g, o."""
    h, c = _run_cell("LSTM", input, tuple(hx), Weights(w_ih, w_hh, b_ih, b_hh), 4)
    return h, c


def gru_cell(
    input: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None, b_hh: Tensor | None = None
) -> Tensor:
    """Return h' (B, H) after one step from h, with input (B, I) and gates r, z, n in the weights' rows."""
    return _run_cell("GRU", input, (hx,), Weights(w_ih, w_hh, b_ih, b_hh), 3)[0]


def rnn_tanh_cell(
    input: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None, b_hh: Tensor | None = None
) -> Tensor:
    """Return tanh(W_ih x + b_ih + W_hh h + b_hh): (B, H) from an input (B, I) and h (B, H)."""
    return _run_cell("RNN_TANH", input, (hx,), Weights(w_ih, w_hh, b_ih, b_hh), 1)[0]


def rnn_relu_cell(
    input: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None, b_hh: Tensor | None = None
) -> Tensor:
    """Return max(W_ih x + b_ih + W_hh h + b_hh, 0): (B, H) from an input (B, I) and h (B, H)."""
    return _run_cell("RNN_RELU", input, (hx,), Weights(w_ih, w_hh, b_ih, b_hh), 1)[0]


def _run_cell(kind: str, input: Tensor, state: State, w: Weights, gates: int) -> State:
    """Run one step. Raises RuntimeError where sizes do not fit each other."""
    if input.array.shape[1] != w.ih.array.shape[1]:
        raise RuntimeError(
            f"input has inconsistent input_size: got {input.array.shape[1]} expected {w.ih.array.shape[1]}"
        )
    rows, width = input.array.shape[0], w.hh.array.shape[0] // gates
    for i, s in enumerate(state):
        if s.array.shape[0] != rows:
            raise RuntimeError(f"Input batch size {rows} doesn't match hidden{i} batch size {s.array.shape[0]}")
        if s.array.shape[1] != width:
            raise RuntimeError(f"hidden{i} has inconsistent hidden_size: got {s.array.shape[1]}, expected {width}")
    return _run_direction(kind, input, [rows], state, w, False)[1]


def _cat_parts(parts: Sequence[Tensor], dim: int) -> Tensor:
    return parts[0] if len(parts) == 1 else cat(parts, dim)
