"""The steps over time of a recurrent layer, forward and backward: a product with the packed weight, then the gates.

Sequences are packed rows, and `order` (T, 2) says for each step the first of its rows and their number. `hidden`
(T+1, B, H), and `cells` of an LSTM, hold the states before, between and after the steps; a sequence that has no row in
a step keeps its state. `panels` is empty where the product is in `scratch` already. functions/nn/recurrent_steps has
the same in NumPy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from adjoint.compiler.kernels.small_arrays.entry import ALL_DIMS, ArrayOperand, SmallArrayEntry, sweep
from adjoint.compiler.kernels.small_arrays.panel_product import Matrix, multiply_by_panels
from adjoint.compiler.llvm.types import I64, Reg, Type

if TYPE_CHECKING:
    from adjoint.compiler.llvm.builder import Builder

UNLIMITED = 2**62  # elements: callers pass few steps at a time, which take little time together


class _Unit:
    """A register of neighbouring units of a layer: where they are in a row, or in each gate's part of a row."""

    def __init__(self, steps: _Steps, index: Reg, mask: Reg | None) -> None:
        self._steps, self._index, self._mask = steps, index, mask

    def load(self, row: Reg, gate: int = 0) -> Reg:
        steps = self._steps
        return steps.b.load(self._place(row, gate), steps.kind.of(steps.lanes), self._mask)

    def store(self, value: Reg, row: Reg, gate: int = 0) -> None:
        self._steps.b.store(value, self._place(row, gate), self._mask)

    def _place(self, row: Reg, gate: int) -> Reg:
        b, width = self._steps.b, self._steps.width
        index = self._index if gate == 0 else b.add(self._index, b.mul(width, gate))
        return b.gep(row, index, self._steps.kind)


class _Steps:
    """The sizes of a sweep over time, in which a layer of `width` units takes a batch from step to step."""

    def __init__(self, b: Builder, kind: Type, lanes: int, operands: Sequence[ArrayOperand], width: Reg) -> None:
        self.b, self.kind, self.lanes, self.width = b, kind, lanes, width
        _, self._panels, self._scratch, self._order, *_ = operands
        self._batch = b.floor_divide(self._scratch.size, self._scratch.last)
        self.count = b.floor_divide(self._order.size, 2)

    def rows_of(self, step: Reg) -> tuple[Reg, Reg]:
        """Return the first row of a step, and the number of its rows."""
        b = self.b
        place = b.gep(self._order.data, b.mul(step, 2), I64)
        return b.load(place, I64), b.load(b.gep(place, 1, I64), I64)

    def row(self, array: ArrayOperand, row: Reg) -> Reg:
        """Return the address of a row of an array."""
        return self.b.gep(array.data, self.b.mul(row, array.last), self.kind)

    def state_row(self, states: ArrayOperand, step: Reg, row: Reg) -> Reg:
        """Return the address of a row of the states before a step."""
        return self.row(states, self.b.add(self.b.mul(step, self._batch), row))

    def multiply(self, x: Reg, depth: Reg, rows: Reg, *, accumulate: bool = False) -> None:
        """Write the product of the rows at `x` and the weight to the scratch memory, unless there are no panels."""
        b, out = self.b, Matrix(self._scratch.data, self._scratch.last)
        with b.when(b.ne(self._panels.size, 0)):
            multiply_by_panels(
                b, self.kind, self.lanes, Matrix(x, depth), self._panels.data, out, rows, depth, accumulate=accumulate
            )

    def visit_units(self, visit: Callable[[_Unit], None]) -> None:
        """Visit all units of the layer, a register at a time."""

        def body(index: Reg, mask: Reg | None) -> list[Reg]:
            visit(_Unit(self, index, mask))
            return []

        sweep(self.b, self.width, self.lanes, [], body)

    def keep_states(self, states: ArrayOperand, step: Reg, rows: Reg) -> None:
        """Copy the states of the sequences that have no row in a step."""
        b, type = self.b, self.kind.of(self.lanes)
        before, after = self.state_row(states, step, rows), self.state_row(states, b.add(step, 1), rows)

        def body(index: Reg, mask: Reg | None) -> list[Reg]:
            b.store(b.load(b.gep(before, index, type), type, mask), b.gep(after, index, type), mask)
            return []

        sweep(b, b.mul(b.sub(self._batch, rows), states.last), self.lanes, [], body)


def _lstm(b: Builder, kind: Type, lanes: int, *operands: ArrayOperand) -> None:
    u, _, scratch, _, hidden, out, gates, cells, limited, _ = operands
    steps = _Steps(b, kind, lanes, operands, cells.last)
    with b.loop(0, steps.count) as loop:
        step, following = loop.index, b.add(loop.index, 1)
        first, rows = steps.rows_of(step)
        steps.multiply(steps.state_row(hidden, step, b.constant(0, I64)), hidden.last, rows)
        with b.loop(0, rows) as row:
            place = b.add(first, row.index)
            given, product, activated = steps.row(u, place), steps.row(scratch, row.index), steps.row(gates, place)
            old, new = steps.state_row(cells, step, row.index), steps.state_row(cells, following, row.index)
            bounded, result = steps.row(limited, place), steps.row(out, place)
            state = steps.state_row(hidden, following, row.index)

            def write(unit: _Unit) -> None:
                total = [b.add(unit.load(given, gate), unit.load(product, gate)) for gate in range(4)]
                i, f, g, o = b.sigmoid(total[0]), b.sigmoid(total[1]), b.tanh(total[2]), b.sigmoid(total[3])
                cell = b.add(b.mul(f, unit.load(old)), b.mul(i, g))
                tanh = b.tanh(cell)
                h = b.mul(o, tanh)
                for gate, value in enumerate((i, f, g, o)):
                    unit.store(value, activated, gate)
                for value, target in ((cell, new), (tanh, bounded), (h, result), (h, state)):
                    unit.store(value, target)

            steps.visit_units(write)
        steps.keep_states(cells, step, rows)
        steps.keep_states(hidden, step, rows)


def _lstm_back(b: Builder, kind: Type, lanes: int, *operands: ArrayOperand) -> None:
    g_out, _, scratch, _, du, gates, cells, limited, dc, _ = operands
    steps = _Steps(b, kind, lanes, operands, cells.last)
    with b.loop(0, steps.count) as loop:
        step = b.sub(b.sub(steps.count, 1), loop.index)
        first, rows = steps.rows_of(step)
        with b.loop(0, rows) as row:
            place = b.add(first, row.index)
            given, product, activated = steps.row(g_out, place), steps.row(scratch, row.index), steps.row(gates, place)
            old, bounded = steps.state_row(cells, step, row.index), steps.row(limited, place)
            slope, dcell = steps.row(du, place), steps.row(dc, row.index)

            def write(unit: _Unit) -> None:
                dh = b.add(unit.load(product), unit.load(given))
                i, f, g, o = (unit.load(activated, gate) for gate in range(4))
                tanh = unit.load(bounded)
                total = b.add(unit.load(dcell), b.mul(b.mul(dh, o), b.sub(1.0, b.square(tanh))))
                unit.store(_through_sigmoid(b, b.mul(total, g), i), slope, 0)
                unit.store(_through_sigmoid(b, b.mul(total, unit.load(old)), f), slope, 1)
                unit.store(b.mul(b.mul(total, i), b.sub(1.0, b.square(g))), slope, 2)
                unit.store(_through_sigmoid(b, b.mul(dh, tanh), o), slope, 3)
                unit.store(b.mul(total, f), dcell)

            steps.visit_units(write)
        steps.multiply(steps.row(du, first), du.last, rows)


def _gru(b: Builder, kind: Type, lanes: int, *operands: ArrayOperand) -> None:
    u, _, scratch, _, hidden, out, gates, recurrent, bias, _ = operands
    steps = _Steps(b, kind, lanes, operands, hidden.last)
    with b.loop(0, steps.count) as loop:
        step, following = loop.index, b.add(loop.index, 1)
        first, rows = steps.rows_of(step)
        steps.multiply(steps.state_row(hidden, step, b.constant(0, I64)), hidden.last, rows)
        with b.loop(0, rows) as row:
            place = b.add(first, row.index)
            given, product, activated = steps.row(u, place), steps.row(scratch, row.index), steps.row(gates, place)
            part, result = steps.row(recurrent, place), steps.row(out, place)
            old, new = steps.state_row(hidden, step, row.index), steps.state_row(hidden, following, row.index)

            def write(unit: _Unit) -> None:
                u_r, u_z, u_n = (unit.load(given, gate) for gate in range(3))
                v_r, v_z, v_n = (b.add(unit.load(product, k), unit.load(bias.data, k)) for k in range(3))
                r, z = b.sigmoid(b.add(u_r, v_r)), b.sigmoid(b.add(u_z, v_z))
                n = b.tanh(b.add(u_n, b.mul(r, v_n)))
                h = b.add(n, b.mul(z, b.sub(unit.load(old), n)))
                for gate, value in enumerate((r, z, n)):
                    unit.store(value, activated, gate)
                for value, target in ((v_n, part), (h, result), (h, new)):
                    unit.store(value, target)

            steps.visit_units(write)
        steps.keep_states(hidden, step, rows)


def _gru_back(b: Builder, kind: Type, lanes: int, *operands: ArrayOperand) -> None:
    g_out, _, scratch, _, du, gates, recurrent, hidden, dv, _ = operands
    steps = _Steps(b, kind, lanes, operands, hidden.last)
    with b.loop(0, steps.count) as loop:
        step = b.sub(b.sub(steps.count, 1), loop.index)
        first, rows = steps.rows_of(step)
        with b.loop(0, rows) as row:
            place = b.add(first, row.index)
            given, product, activated = steps.row(g_out, place), steps.row(scratch, row.index), steps.row(gates, place)
            part, old = steps.row(recurrent, place), steps.state_row(hidden, step, row.index)
            slope, recurrent_slope = steps.row(du, place), steps.row(dv, place)

            def write(unit: _Unit) -> None:
                dh = b.add(unit.load(product), unit.load(given))
                r, z, n = (unit.load(activated, gate) for gate in range(3))
                dn = b.mul(b.mul(dh, b.sub(1.0, z)), b.sub(1.0, b.square(n)))
                dr = _through_sigmoid(b, b.mul(dn, unit.load(part)), r)
                dz = _through_sigmoid(b, b.mul(dh, b.sub(unit.load(old), n)), z)
                for gate, value in enumerate((dr, dz, dn)):
                    unit.store(value, slope, gate)
                    unit.store(b.mul(dn, r) if gate == 2 else value, recurrent_slope, gate)
                unit.store(b.mul(dh, z), product)

            steps.visit_units(write)
        steps.multiply(steps.row(dv, first), dv.last, rows, accumulate=True)


def _rnn(activate: Callable[[Builder, Reg], Reg]) -> Callable[..., None]:
    def write_steps(b: Builder, kind: Type, lanes: int, *operands: ArrayOperand) -> None:
        u, _, scratch, _, hidden, out, _ = operands
        steps = _Steps(b, kind, lanes, operands, hidden.last)
        with b.loop(0, steps.count) as loop:
            step, following = loop.index, b.add(loop.index, 1)
            first, rows = steps.rows_of(step)
            steps.multiply(steps.state_row(hidden, step, b.constant(0, I64)), hidden.last, rows)
            with b.loop(0, rows) as row:
                place = b.add(first, row.index)
                given, product, result = steps.row(u, place), steps.row(scratch, row.index), steps.row(out, place)
                new = steps.state_row(hidden, following, row.index)

                def write(unit: _Unit) -> None:
                    h = activate(b, b.add(unit.load(given), unit.load(product)))
                    unit.store(h, result)
                    unit.store(h, new)

                steps.visit_units(write)
            steps.keep_states(hidden, step, rows)

    return write_steps


def _rnn_back(pull: Callable[[Builder, Reg, Reg], Reg]) -> Callable[..., None]:
    def write_steps(b: Builder, kind: Type, lanes: int, *operands: ArrayOperand) -> None:
        g_out, _, scratch, _, du, hidden, _ = operands
        steps = _Steps(b, kind, lanes, operands, hidden.last)
        with b.loop(0, steps.count) as loop:
            step = b.sub(b.sub(steps.count, 1), loop.index)
            first, rows = steps.rows_of(step)
            with b.loop(0, rows) as row:
                place = b.add(first, row.index)
                given, product, slope = steps.row(g_out, place), steps.row(scratch, row.index), steps.row(du, place)
                new = steps.state_row(hidden, b.add(step, 1), row.index)

                def write(unit: _Unit) -> None:
                    dh = b.add(unit.load(product), unit.load(given))
                    unit.store(pull(b, dh, unit.load(new)), slope)

                steps.visit_units(write)
            steps.multiply(steps.row(du, first), du.last, rows)

    return write_steps


def _through_sigmoid(b: Builder, g: Reg, y: Reg) -> Reg:
    """Return the gradient of what a sigmoid was taken of, which is `y`."""
    return b.mul(g, b.mul(y, b.sub(1.0, y)))


ROUTINES = {
    "lstm_steps": SmallArrayEntry("xxxixxxxx", _lstm, less=ALL_DIMS, most=UNLIMITED),
    "lstm_steps_back": SmallArrayEntry("xxxixxxxx", _lstm_back, less=ALL_DIMS, most=UNLIMITED),
    "gru_steps": SmallArrayEntry("xxxixxxxx", _gru, less=ALL_DIMS, most=UNLIMITED),
    "gru_steps_back": SmallArrayEntry("xxxixxxxx", _gru_back, less=ALL_DIMS, most=UNLIMITED),
    "rnn_tanh_steps": SmallArrayEntry("xxxixx", _rnn(lambda b, x: b.tanh(x)), less=ALL_DIMS, most=UNLIMITED),
    "rnn_relu_steps": SmallArrayEntry("xxxixx", _rnn(lambda b, x: b.maximum(x, 0.0)), less=ALL_DIMS, most=UNLIMITED),
    "rnn_tanh_steps_back": SmallArrayEntry(
        "xxxixx", _rnn_back(lambda b, g, y: b.mul(g, b.sub(1.0, b.square(y)))), less=ALL_DIMS, most=UNLIMITED
    ),
    "rnn_relu_steps_back": SmallArrayEntry(
        "xxxixx", _rnn_back(lambda b, g, y: b.select(b.le(y, 0.0), 0.0, g)), less=ALL_DIMS, most=UNLIMITED
    ),
}
