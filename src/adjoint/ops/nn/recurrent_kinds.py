"""The steps of each kind of recurrent layer in NumPy, and the arrays that its native steps take.

Sources: Hochreiter & Schmidhuber, Long Short-Term Memory, 1997; Cho et al., Learning Phrase Representations, 2014.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from adjoint.core.op.eager_kernels import SmallArrayKernel
from adjoint.core.typing import Array
from adjoint.ops.nn.recurrent_steps import Sweep

KERNELS = {
    name: SmallArrayKernel(name)
    for kind in ("lstm", "gru", "rnn_tanh", "rnn_relu")
    for name in (f"{kind}_steps", f"{kind}_steps_back")
}


class LSTMSweep(Sweep):
    """c' = σ(f) c + σ(i) tanh g and h' = σ(o) tanh c'; `limited` is tanh c'."""

    gate_count = 4
    forward_kernel, backward_kernel = KERNELS["lstm_steps"], KERNELS["lstm_steps_back"]

    def _begin(self, start: Sequence[Array]) -> None:
        self.cells, self.limited = self._allocate_states(start[1]), self._allocate_rows(self.width)
        self.activated = self._allocate_rows(self.u.shape[1]) if self.save else self.u
        self._unused = None if self.weights.hr is None else np.empty((2, *start[1].shape), self.dtype)

    def _begin_back(self) -> None:
        pass

    def states(self) -> tuple[Array, ...]:
        return self.hidden, self.cells

    def _operands(self, begin: int, end: int) -> tuple[Array, ...]:
        hidden = self.hidden[begin : end + 1] if self._unused is None else self._unused
        return hidden, self.emitted, self.activated, self.cells[begin : end + 1], self.limited

    def _operands_back(self, begin: int, end: int) -> tuple[Array, ...]:
        return self.du, self.activated, self.cells[begin : end + 1], self.limited, self.d_start[1]

    def _advance(self, step: int, rows: slice, product: Array) -> None:
        gate = np.add(product, self.u[rows], out=self.activated[rows])
        i, f, g, o = self._split_gates(gate)
        _apply_sigmoid(gate[:, : 2 * self.width])
        np.tanh(g, out=g)
        _apply_sigmoid(o)
        old, new = self.cells[step], self.cells[step + 1]
        cell = np.multiply(f, old[: len(gate)], out=new[: len(gate)])
        cell += i * g
        new[len(gate) :] = old[len(gate) :]
        np.multiply(o, np.tanh(cell, out=self.limited[rows]), out=self.emitted[rows])

    def _retreat(self, step: int, rows: slice, dh: Array) -> None:
        gate, slope, limited, dc = self.activated[rows], self.du[rows], self.limited[rows], self.d_start[1][: len(dh)]
        i, f, g, o = self._split_gates(gate)
        di, df, dg, do = self._split_gates(slope)
        np.multiply(dh, limited, out=do)
        dc += dh * o * (1 - limited * limited)
        np.multiply(dc, g, out=di)
        np.multiply(dc, self.cells[step, : len(dh)], out=df)
        np.multiply(dc, i, out=dg)
        dg *= 1 - g * g
        both = gate[:, : 2 * self.width]
        slope[:, : 2 * self.width] *= both * (1 - both)
        do *= o * (1 - o)
        dc *= f


class GRUSweep(Sweep):
    """h' = n + z (h - n), n = tanh(a + σ(r) b); `recurrent` is b, the part from h with its bias."""

    gate_count = 3
    accumulates = True
    forward_kernel, backward_kernel = KERNELS["gru_steps"], KERNELS["gru_steps_back"]

    def _begin(self, start: Sequence[Array]) -> None:
        self.recurrent = self._allocate_rows(self.width)
        self.activated = self._allocate_rows(self.u.shape[1]) if self.save else self.u
        bias = self.weights.bias
        self.bias = np.zeros(self.u.shape[1], self.dtype) if bias is None else self._as_operand(bias)

    def _begin_back(self) -> None:
        self.dv = np.empty_like(self.du)

    def _operands(self, begin: int, end: int) -> tuple[Array, ...]:
        return self.hidden[begin : end + 1], self.emitted, self.activated, self.recurrent, self.bias

    def _operands_back(self, begin: int, end: int) -> tuple[Array, ...]:
        return self.du, self.activated, self.recurrent, self.hidden[begin : end + 1], self.dv

    def _advance(self, step: int, rows: slice, product: Array) -> None:
        product += self.bias
        part = self.recurrent[rows]
        part[...] = product[:, 2 * self.width :]
        product[:, 2 * self.width :] = 0
        gate = np.add(product, self.u[rows], out=self.activated[rows])
        _apply_sigmoid(gate[:, : 2 * self.width])
        r, z, n = self._split_gates(gate)
        n += r * part
        np.tanh(n, out=n)
        new = np.subtract(self.hidden[step, : len(gate)], n, out=self.emitted[rows])
        new *= z
        new += n

    def _retreat(self, step: int, rows: slice, dh: Array) -> None:
        gate, slope = self.activated[rows], self.du[rows]
        r, z, n = self._split_gates(gate)
        dr, dz, dn = self._split_gates(slope)
        np.multiply(dh, 1 - z, out=dn)
        dn *= 1 - n * n
        np.multiply(dn, self.recurrent[rows], out=dr)
        np.multiply(dh, self.hidden[step, : len(dh)] - n, out=dz)
        both = gate[:, : 2 * self.width]
        slope[:, : 2 * self.width] *= both * (1 - both)
        product = self.dv[rows]
        product[...] = slope
        product[:, 2 * self.width :] *= r
        dh *= z


class TanhSweep(Sweep):
    """h' = tanh u."""

    gate_count = 1
    forward_kernel, backward_kernel = KERNELS["rnn_tanh_steps"], KERNELS["rnn_tanh_steps_back"]

    def _begin(self, start: Sequence[Array]) -> None:
        pass

    def _begin_back(self) -> None:
        pass

    def _operands(self, begin: int, end: int) -> tuple[Array, ...]:
        return self.hidden[begin : end + 1], self.emitted

    def _operands_back(self, begin: int, end: int) -> tuple[Array, ...]:
        return self.du, self.hidden[begin : end + 1]

    def _advance(self, step: int, rows: slice, product: Array) -> None:
        product += self.u[rows]
        np.tanh(product, out=self.emitted[rows])

    def _retreat(self, step: int, rows: slice, dh: Array) -> None:
        new = self.hidden[step + 1, : len(dh)]
        np.multiply(dh, 1 - new * new, out=self.du[rows])


class ReluSweep(TanhSweep):
    """h' = max(u, 0)."""

    forward_kernel, backward_kernel = KERNELS["rnn_relu_steps"], KERNELS["rnn_relu_steps_back"]

    def _advance(self, step: int, rows: slice, product: Array) -> None:
        product += self.u[rows]
        np.maximum(product, 0, out=self.emitted[rows])

    def _retreat(self, step: int, rows: slice, dh: Array) -> None:
        self.du[rows] = np.where(self.hidden[step + 1, : len(dh)] <= 0, 0, dh)


SWEEP_BY_KIND: dict[str, type[Sweep]] = {
    "LSTM": LSTMSweep,
    "GRU": GRUSweep,
    "RNN_TANH": TanhSweep,
    "RNN_RELU": ReluSweep,
}


def _apply_sigmoid(x: Array) -> None:
    """Put 1 / (1 + e⁻ˣ) in the place of x."""
    np.negative(x, out=x)
    np.exp(x, out=x)
    x += 1
    np.reciprocal(x, out=x)
