"""The quick eager form of a recurrent layer: all times in one node, with the gradient through time written by hand.

Functions here take and give arrays in the order in which the sweep runs: times T, then rows B, then G gates.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from adjoint.autograd.backward import grad
from adjoint.autograd.function.function import Function
from adjoint.autograd.grad_mode import enable_grad
from adjoint.core.runtime.mode import mode, nondefault
from adjoint.core.tensor.tensor import Tensor, wrap
from adjoint.core.typing import Array, Operand, Operands


class RecurrentSweep(Function):
    """(outputs (T, B, H), last state…) from gates (T, B, G), recurrent weight (G, H), its bias or None, first state….

    `composite` computes the same of the same arguments with recorded ops: what higher derivatives are taken of.
    """

    @staticmethod
    def forward(
        ctx: Any,
        kind: str,
        reverse: bool,
        composite: Callable[..., Operands],
        gates: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        *start: Tensor,
    ) -> tuple[Tensor, ...]:
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(gates, weight, bias, *start)
        ctx.kind, ctx.reverse, ctx.composite = kind, reverse, composite
        u = gates.array[::-1] if reverse else gates.array
        with np.errstate(all="ignore"):
            offset = None if bias is None else bias.array
            hidden, rest, ctx.kept = FORWARD_BY_KIND[kind](u, weight.array, offset, *(s.array for s in start))
        ctx.hidden = hidden
        output = hidden[:0:-1] if reverse else hidden[1:]
        return wrap(output.copy()), wrap(hidden[-1].copy()), *map(wrap, rest)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> Operands:
        inputs = ctx.saved_tensors
        plain = all(g is None or type(g.array) is np.ndarray for g in grads)
        if not plain or mode.recording or (nondefault.count and mode.needs_slow_path):
            return None, None, None, *_differentiate_composite(ctx, inputs, grads)
        gates, weight, bias, *_ = inputs
        g = [None if given is None else given.array for given in grads]
        if g[0] is None:
            g[0] = np.zeros((gates.array.shape[0], *ctx.hidden.shape[1:]), gates.array.dtype)
        elif ctx.reverse:
            g[0] = g[0][::-1]
        with np.errstate(all="ignore"):
            du, recurrent, start = BACKWARD_BY_KIND[ctx.kind](g, ctx.hidden, weight.array, *ctx.kept)
        rows = recurrent.reshape(-1, recurrent.shape[-1])
        before = ctx.hidden[:-1].reshape(-1, ctx.hidden.shape[-1])
        dweight = wrap(rows.T @ before) if ctx.needs_input_grad[4] else None
        dbias = None if bias is None else wrap(rows.sum(0))
        return None, None, None, wrap(du[::-1] if ctx.reverse else du), dweight, dbias, *map(wrap, start)


def _differentiate_composite(ctx: Any, inputs: Operands, grads: Operands) -> Operands:
    """Return the gradients of the inputs as recorded ops."""
    again = mode.recording
    with enable_grad():
        # twins, since one input may have been made of another
        twins = [None if x is None else x.view_as(x) if again else x.detach() for x in inputs]
        if not again:  # leaves, which are of the level of a vmap around the backward
            for x, needed in zip(twins, ctx.needs_input_grad[3:], strict=True):
                if needed and x is not None:
                    x.requires_grad_()
        outputs = ctx.composite(ctx.kind, ctx.reverse, *twins)
        pairs = [(out, g) for out, g in zip(outputs, grads, strict=True) if g is not None]
        wanted: list[Operand] = [x for x, needed in zip(twins, ctx.needs_input_grad[3:], strict=True) if needed]
        given, seeds = zip(*pairs, strict=True)
        found = iter(grad(given, wanted, seeds, create_graph=again, allow_unused=True))
    return tuple(next(found) if needed else None for needed in ctx.needs_input_grad[3:])


def _sigmoid(x: Array) -> None:
    """Return 1 / (1 + e⁻ˣ), in place."""
    np.negative(x, out=x)
    np.exp(x, out=x)
    x += 1
    np.reciprocal(x, out=x)


def _allocate_states(u: Array, h: Array) -> Array:
    """Allocate the states before, between and after the times, the first of them filled."""
    states = np.empty((len(u) + 1, *h.shape), u.dtype)
    states[0] = h
    return states


def _transpose_weight(weight: Array) -> Array:
    """Lay out the weight (G, H) as (H, G), which makes products with a few rows a quarter quicker."""
    return np.ascontiguousarray(weight.T)


def _lstm(u: Array, weight: Array, _: Array | None, h: Array, c: Array) -> tuple[Array, Operands, Operands]:
    width, across = weight.shape[1], _transpose_weight(weight)
    gates = np.empty(u.shape, u.dtype)
    hidden, cells, limited = _allocate_states(u, h), _allocate_states(u, c), np.empty((len(u), *c.shape), u.dtype)
    for t, gate in enumerate(gates):
        np.matmul(hidden[t], across, out=gate)
        gate += u[t]
        i, f, g, o = (gate[:, k : k + width] for k in range(0, 4 * width, width))
        _sigmoid(gate[:, : 2 * width])
        np.tanh(g, out=g)
        _sigmoid(o)
        cell = np.multiply(f, cells[t], out=cells[t + 1])
        cell += i * g
        np.multiply(o, np.tanh(cell, out=limited[t]), out=hidden[t + 1])
    return hidden, (cells[-1].copy(),), (gates, cells, limited)


def _lstm_back(
    grads: Sequence[Operand], hidden: Operand, weight: Operand, gates: Operand, cells: Operand, limited: Operand
) -> tuple[Array, Array, Operands]:
    g_out, dh, dc = grads
    width = weight.shape[1]
    du = np.empty(gates.shape, gates.dtype)
    dh = np.zeros_like(hidden[0]) if dh is None else dh.copy()
    dc = np.zeros_like(hidden[0]) if dc is None else dc.copy()
    for t in range(len(gates))[::-1]:
        i, f, g, o = (gates[t, :, k : k + width] for k in range(0, 4 * width, width))
        di, df, dg, do = (du[t, :, k : k + width] for k in range(0, 4 * width, width))
        dh += g_out[t]
        np.multiply(dh, limited[t], out=do)
        dh *= o
        dh *= 1 - limited[t] * limited[t]
        dc += dh
        np.multiply(dc, g, out=di)
        np.multiply(dc, cells[t], out=df)
        np.multiply(dc, i, out=dg)
        dg *= 1 - g * g
        both, slopes = gates[t, :, : 2 * width], du[t, :, : 2 * width]
        slopes *= both * (1 - both)
        do *= o * (1 - o)
        dc *= f
        np.matmul(du[t], weight, out=dh)
    return du, du, (dh, dc)


def _gru(u: Array, weight: Array, bias: Array | None, h: Array) -> tuple[Array, Operands, Operands]:
    width, across = weight.shape[1], _transpose_weight(weight)
    hidden, gates = _allocate_states(u, h), np.empty(u.shape, u.dtype)
    recurrent = np.empty((len(u), *h.shape), u.dtype)  # the part of n that comes from h
    for t, gate in enumerate(gates):
        np.matmul(hidden[t], across, out=gate)
        if bias is not None:
            gate += bias
        both, n = gate[:, : 2 * width], gate[:, 2 * width :]
        recurrent[t] = n
        both += u[t, :, : 2 * width]
        _sigmoid(both)
        np.multiply(gate[:, :width], n, out=n)
        n += u[t, :, 2 * width :]
        np.tanh(n, out=n)
        new = np.subtract(hidden[t], n, out=hidden[t + 1])
        new *= gate[:, width : 2 * width]
        new += n
    return hidden, (), (gates, recurrent)


def _gru_back(
    grads: Sequence[Operand], hidden: Operand, weight: Operand, gates: Operand, recurrent: Operand
) -> tuple[Array, Array, Operands]:
    g_out, dh = grads
    width = weight.shape[1]
    du, dv = np.empty(gates.shape, gates.dtype), np.empty(gates.shape, gates.dtype)
    dh = np.zeros_like(hidden[0]) if dh is None else dh.copy()
    for t in range(len(gates))[::-1]:
        r, z, n = (gates[t, :, k : k + width] for k in range(0, 3 * width, width))
        dr, dz, dn = (du[t, :, k : k + width] for k in range(0, 3 * width, width))
        dh += g_out[t]
        np.multiply(dh, 1 - z, out=dn)
        dn *= 1 - n * n
        np.multiply(dn, recurrent[t], out=dr)
        np.multiply(dh, hidden[t] - n, out=dz)
        both, slopes = gates[t, :, : 2 * width], du[t, :, : 2 * width]
        slopes *= both * (1 - both)
        dv[t] = du[t]
        dv[t, :, 2 * width :] *= r
        dh *= z
        dh += dv[t] @ weight
    return du, dv, (dh,)


def _rnn(u: Array, weight: Array, h: Array, activation: Callable[[Array], Array]) -> tuple[Array, Operands, Operands]:
    hidden, across = _allocate_states(u, h), _transpose_weight(weight)
    for t, row in enumerate(u):
        new = np.matmul(hidden[t], across, out=hidden[t + 1])
        new += row
        activation(new)
    return hidden, (), ()


def _rnn_back(
    grads: Sequence[Operand], hidden: Operand, weight: Operand, pulled: Callable[[Array, Array], Array]
) -> tuple[Array, Array, Operands]:
    g_out, dh = grads
    du = np.empty(g_out.shape, g_out.dtype)
    dh = np.zeros_like(hidden[0]) if dh is None else dh.copy()
    for t in range(len(du))[::-1]:
        dh += g_out[t]
        du[t] = pulled(dh, hidden[t + 1])
        np.matmul(du[t], weight, out=dh)
    return du, du, (dh,)


FORWARD_BY_KIND: dict[str, Callable[..., tuple[Operand, Operands, Operands]]] = {
    "LSTM": _lstm,
    "GRU": _gru,
    "RNN_TANH": lambda u, weight, _, h: _rnn(u, weight, h, lambda x: np.tanh(x, out=x)),
    "RNN_RELU": lambda u, weight, _, h: _rnn(u, weight, h, lambda x: np.maximum(x, 0, out=x)),
}
BACKWARD_BY_KIND: dict[str, Callable[..., tuple[Array, Array, Operands]]] = {
    "LSTM": _lstm_back,
    "GRU": _gru_back,
    "RNN_TANH": partial(_rnn_back, pulled=lambda g, y: g * (1 - y * y)),
    "RNN_RELU": partial(_rnn_back, pulled=lambda g, y: np.where(y <= 0, 0, g)),
}
