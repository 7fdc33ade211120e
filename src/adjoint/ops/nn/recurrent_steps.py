"""The run of a recurrent layer over its steps, on arrays: the products with the weight, and who computes the rest.

Sequences are packed rows: those of the first time, those of the second, and so on. `order` (T, 2) says for each step
the first of its rows and their number. States (T+1, B, H) are held before, between and after the steps; a sequence that
has no row in a step keeps its state. Native code does all steps where they are small (`panels`), else a step's gates.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from adjoint.core.op.eager_kernels import PANEL_BYTES, SmallArrayKernel, kernel_provider
from adjoint.core.typing import Array, Function, NumpyDtype
from adjoint.ops.linalg.blas_products import multiply_matrices

MAX_SECONDS_PER_CALL = 2e-3  # seconds: native code keeps Python's lock
SECONDS_PER_PRODUCT, SECONDS_PER_UNIT = 4e-11, 1e-8  # of a multiplication in the matrix product; of a unit's gates
MAX_PRODUCTS = 2**21  # multiplications of a step: larger ones are BLAS's, which has threads
MIN_STEPS = 3  # to lay the weight out anew for
NATIVE_DTYPES = {dtype: dtype for dtype in (np.dtype(np.float32), np.dtype(np.float64))}


class StepWeights(NamedTuple):
    """The recurrent weight (G, R) of the steps, its bias (G) in a GRU, and the projection (R, H) of an LSTM."""

    hh: Array
    bias: Array | None = None
    hr: Array | None = None


@lru_cache(maxsize=64)
def order_of(sizes: tuple[int, ...], reverse: bool) -> Array:
    """Return `order` for so many rows at each time."""
    order = np.empty((len(sizes), 2), np.int64)
    order[:, 1] = sizes
    np.cumsum(order[:, 1], out=order[:, 0])
    order[:, 0] -= order[:, 1]
    order = order[::-1].copy() if reverse else order
    order.flags.writeable = False
    return order


@lru_cache(maxsize=8)
def _no_panels(dtype: NumpyDtype) -> Array:
    """Return an empty array, which says that the product is computed already."""
    return np.empty(0, dtype)


def pack_panels(weight: Array) -> Array:
    """Lay a matrix (K, M) out as (P, K, W): see compiler/kernels/small_arrays/panel_product."""
    depth, columns = weight.shape
    width = PANEL_BYTES // weight.itemsize
    count = -(-columns // width)
    if columns % width:
        wide = np.zeros((depth, count * width), weight.dtype)
        wide[:, :columns] = weight
        weight = wide
    return np.ascontiguousarray(weight.reshape(depth, count, width).transpose(1, 0, 2))


class Sweep(ABC):
    """A layer's run over its steps, and back.

    `hidden` (T+1, B, R) are the states, `outputs` (N, R) those after the steps as packed rows, and `emitted` (N, H) is
    what of them is projected, else `outputs` itself. After the run back `du` (N, G) has the gradients of the gates'
    inputs, and `dv` those of the products.
    """

    gate_count: int
    accumulates = False  # the gradient of a state has a part besides that from the product
    forward_kernel: SmallArrayKernel
    backward_kernel: SmallArrayKernel

    def __init__(self, u: Array, order: Array, weights: StepWeights, start: Sequence[Array], save: bool) -> None:
        """Run forward from the inputs of the gates `u` (N, G), which are overwritten unless all is to be saved."""
        self.dtype = NATIVE_DTYPES.get(u.dtype, u.dtype)  # NumPy's own object, which that of a pickle only equals
        self.u, self.order, self.weights, self.save = self._as_operand(u), order, weights, save
        self.batch, self.width = len(start[0]), len(weights.hh) // self.gate_count
        self.hidden = self._allocate_states(start[0])
        self.outputs = self._allocate_rows(weights.hh.shape[1])
        self.emitted = self.outputs if weights.hr is None else self._allocate_rows(self.width)
        self._begin(start)
        with np.errstate(all="ignore"):
            self._run_forward()

    def run_back(self, grads: Array, last: Sequence[Array | None]) -> list[Array]:
        """Return the gradients of the first states, from those of the outputs (N, R) and of the last states."""
        start = [
            np.zeros(states.shape[1:], self.dtype) if d is None else self._as_operand(d.copy())
            for states, d in zip(self.states(), last, strict=True)
        ]
        self.grads, self.d_start = self._as_operand(grads), start
        self.du = self.dv = self._allocate_rows(self.u.shape[1])
        self._begin_back()
        with np.errstate(all="ignore"):
            self._run_backward(start[0])
        return start

    def states(self) -> tuple[Array, ...]:
        """Return the states before, between and after the steps."""
        return (self.hidden,)

    def states_before(self) -> Array:
        """Return the state before each row's step, (N, R)."""
        order = self.order.tolist()
        if len(order) * self.batch == len(self.outputs) and order[0][0] == 0:
            return self.hidden[:-1].reshape(self.outputs.shape)
        parts = [states[:count] for states, (_, count) in zip(self.hidden, order, strict=False)]
        return np.concatenate(parts if order[0][0] == 0 else parts[::-1])

    @abstractmethod
    def _begin(self, start: Sequence[Array]) -> None:
        """Allocate the arrays that this kind of layer adds."""

    @abstractmethod
    def _begin_back(self) -> None:
        """Allocate those of the run back."""

    @abstractmethod
    def _operands(self, begin: int, end: int) -> tuple[Array, ...]:
        """Return what native steps of this kind also take."""

    @abstractmethod
    def _operands_back(self, begin: int, end: int) -> tuple[Array, ...]:
        """Return what native steps back of this kind also take."""

    @abstractmethod
    def _advance(self, step: int, rows: slice, product: Array) -> None:
        """Write what a step emits, given the product of the states and the weight."""

    @abstractmethod
    def _retreat(self, step: int, rows: slice, dh: Array) -> None:
        """Write the gradients of a step, given that of what it emitted."""

    def _as_operand(self, x: Array) -> Array:
        """Return the array as native code takes it."""
        x = np.ascontiguousarray(x)
        return x if x.dtype is self.dtype else x.view(self.dtype)

    def _split_gates(self, x: Array) -> list[Array]:
        return [x[:, k : k + self.width] for k in range(0, x.shape[1], self.width)]

    def _allocate_states(self, first: Array) -> Array:
        states = np.empty((len(self.order) + 1, *first.shape), self.dtype)
        states[0] = first
        return states

    def _allocate_rows(self, width: int) -> Array:
        return np.empty((len(self.u), width), self.dtype)

    def _run_forward(self) -> None:
        hh, hr = self.weights.hh, self.weights.hr
        kernel = self.forward_kernel.call if kernel_provider.enabled else _decline
        if hr is None and len(self.order) == 1 and kernel is not _decline:  # a cell's, in few calls
            product = multiply_matrices(self.hidden[0], hh.T)
            if kernel(self.u, _no_panels(self.dtype), product, self.order, *self._operands(0, 1)) is not None:
                return
        if self._takes_panels():
            panels = self._as_operand(pack_panels(hh.T))
            scratch = np.empty((self.batch, len(panels) * panels.shape[2]), self.dtype)
            if self._call_all(kernel, self.u, panels, scratch, back=False):
                return
        across = np.ascontiguousarray(hh.T) if len(self.order) >= MIN_STEPS else hh.T
        scratch, no_panels = np.empty((self.batch, len(hh)), self.dtype), np.empty(0, self.dtype)
        for step, (first, count) in enumerate(self.order.tolist()):
            rows, state = slice(first, first + count), self.hidden[step + 1]
            product = multiply_matrices(self.hidden[step, :count], across, out=scratch[:count])
            order, operands = self.order[step : step + 1], self._operands(step, step + 1)
            if kernel(self.u, no_panels, scratch, order, *operands) is None:
                self._advance(step, rows, product)
                if hr is None:
                    state[:count], state[count:] = self.emitted[rows], self.hidden[step, count:]
            if hr is not None:
                self.outputs[rows] = multiply_matrices(self.emitted[rows], hr.T, out=state[:count])
                state[count:] = self.hidden[step, count:]

    def _run_backward(self, dh: Array) -> None:
        hh, hr = self.weights.hh, self.weights.hr
        kernel = self.backward_kernel.call if kernel_provider.enabled else _decline
        if self._takes_panels():
            panels = self._as_operand(pack_panels(hh))
            scratch = np.empty((self.batch, len(panels) * panels.shape[2]), self.dtype)
            scratch[:, : hh.shape[1]] = dh
            if self._call_all(kernel, self.grads, panels, scratch, back=True):
                dh[...] = scratch[:, : hh.shape[1]]
                return
        no_panels, nothing = np.empty(0, self.dtype), self.grads
        emitted = dh  # the gradient of what a step emits, by later steps
        if hr is not None:
            self.d_outputs = np.empty_like(self.outputs)
            emitted, nothing = np.empty((self.batch, self.width), self.dtype), np.zeros(self.emitted.shape, self.dtype)
        for step in range(len(self.order))[::-1]:
            first, count = self.order[step].tolist()
            rows = slice(first, first + count)
            if hr is not None:
                total = np.add(dh[:count], self.grads[rows], out=self.d_outputs[rows])
                multiply_matrices(total, hr, out=emitted[:count])
            order, operands = self.order[step : step + 1], self._operands_back(step, step + 1)
            if kernel(nothing, no_panels, emitted, order, *operands) is None:
                if hr is None:
                    dh[:count] += self.grads[rows]
                self._retreat(step, rows, emitted[:count])
            if self.accumulates:
                dh[:count] += multiply_matrices(self.dv[rows], hh)
            else:
                multiply_matrices(self.dv[rows], hh, out=dh[:count])

    def _takes_panels(self) -> bool:
        """Return whether native code is to compute the products, too."""
        small = self.batch * self.weights.hh.size <= MAX_PRODUCTS and self.dtype in NATIVE_DTYPES
        return kernel_provider.enabled and small and len(self.order) >= MIN_STEPS and self.weights.hr is None

    def _call_all(self, kernel: Function, first: Array, panels: Array, scratch: Array, *, back: bool) -> bool:
        """Do all steps in a few native calls; return whether there is native code for these arrays."""
        seconds = self.batch * (self.weights.hh.size * SECONDS_PER_PRODUCT + self.width * SECONDS_PER_UNIT)
        most = 1 + int(MAX_SECONDS_PER_CALL / seconds)
        starts = range(0, len(self.order), most)
        for begin in reversed(starts) if back else starts:
            end = min(begin + most, len(self.order))
            operands = self._operands_back(begin, end) if back else self._operands(begin, end)
            if kernel(first, panels, scratch, self.order[begin:end], *operands) is None:
                return False
        return True


def _decline(*operands: Array) -> None:
    """Return None: NumPy computes the gates."""
