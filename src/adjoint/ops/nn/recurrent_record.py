"""A recurrent layer's run over any number of steps as one op, for compiled steps whose sequences have any length.

Its result is a record: one array with the outputs, the last states, and what the way back needs, each behind the other.
The gradient of a record is one array too, with the gradients of all inputs. Both are computed as in eager mode.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from adjoint.core.op.families import primitive
from adjoint.core.op.spec import Spec
from adjoint.core.typing import Array, Operand, Shape
from adjoint.ops.linalg.blas_products import multiply_matrices
from adjoint.ops.movement import movement
from adjoint.ops.nn.recurrent_kinds import SWEEP_BY_KIND
from adjoint.ops.nn.recurrent_steps import StepWeights

Roles = tuple[str, ...]
MAX_ROLES = 2  # inputs besides those that all kinds of layers have


def list_record_parts(
    gates: Operand, order: Operand, hh: Operand, hidden: Operand, more: Sequence[Operand], kind: str, roles: Roles
) -> list[Shape]:
    """Return the shapes of a record's parts: outputs, last states, all states, and what each kind of layer saves."""
    rows, steps = gates.shape[0], order.shape[0]
    states = [hidden.shape, *(x.shape for x, role in zip(more, roles, strict=False) if role == "cells")]
    width = hh.shape[0] // SWEEP_BY_KIND[kind].gate_count
    parts = [(rows, hidden.shape[1]), *states, *((steps + 1, *shape) for shape in states)]
    if kind in ("LSTM", "GRU"):
        parts += [tuple(gates.shape), (rows, width)]
    if "hr" in roles:
        parts.append((rows, width))
    return parts


def take_part(flat: Operand, parts: Sequence[Shape], number: int) -> Operand:
    """Return one of the parts that lie behind each other in an array."""
    start = sum(map(prod, parts[:number]))
    bounds = ((start, start + prod(parts[number]), 1),)
    return movement.reshape(movement.slice(flat, bounds=bounds), shape=parts[number])


def _take_gradient(number: int) -> Operand:
    def rule(
        g: Operand,
        out: Operand,
        gates: Operand,
        order: Operand,
        hh: Operand,
        hidden: Operand,
        extra: Operand,
        further: Operand,
        kind: str,
        roles: Roles,
    ) -> Operand:
        more = [extra, further][: len(roles)]
        flat = sweep_gradient(g, out, gates, order, hh, hidden, *more, kind=kind, roles=roles)
        return take_part(flat, [tuple(x.shape) for x in (gates, hh, hidden, *more)], number)

    return rule


@primitive(
    spec=lambda gates, order, hh, hidden, *more, kind, roles: Spec(
        (sum(map(prod, list_record_parts(gates, order, hh, hidden, more, kind, roles))),), gates.dtype
    ),
    dgates=_take_gradient(0),
    dhh=_take_gradient(1),
    dhidden=_take_gradient(2),
    dextra=_take_gradient(3),
    dfurther=_take_gradient(4),
)
def sweep_record(
    gates: Array,
    order: Array,
    hh: Array,
    hidden: Array,
    extra: Array,
    further: Array,
    *,
    kind: str,
    roles: Roles,
) -> Array:
    """The record of a run from the inputs of the gates (N, G) of packed rows, whose `order` is that of a `Sweep`.

    `roles`: what the last inputs are: the first "cells" of an LSTM, the "bias" of a GRU, the projection "hr"; those
    beyond are nothing.
    """
    given = dict(zip(roles, (extra, further), strict=False))
    cells, bias, hr = map(given.get, ("cells", "bias", "hr"))
    start = [hidden] if cells is None else [hidden, cells]
    sweep: Operand = SWEEP_BY_KIND[kind](np.ascontiguousarray(gates), order, StepWeights(hh, bias, hr), start, True)
    states = sweep.states()
    parts = [sweep.outputs, *(s[-1] for s in states), *states]
    if kind in ("LSTM", "GRU"):
        parts += [sweep.activated, sweep.limited if kind == "LSTM" else sweep.recurrent]
    if hr is not None:
        parts.append(sweep.emitted)
    return np.concatenate([part.reshape(-1) for part in parts])


def _gradient_spec(
    g: Operand, record: Operand, gates: Operand, order: Operand, *inputs: Operand, kind: str, roles: Roles
) -> Spec:
    return Spec((sum(prod(x.shape) for x in (gates, *inputs)),), g.dtype)


@primitive(spec=_gradient_spec)
def sweep_gradient(
    g: Array,
    record: Array,
    gates: Array,
    order: Array,
    hh: Array,
    hidden: Array,
    extra: Array | None = None,
    further: Array | None = None,
    *,
    kind: str,
    roles: Roles,
) -> Array:
    """The gradients of all inputs of a record but the order, each behind the other."""
    more = [x for x in (extra, further) if x is not None]
    given: dict[str, Operand] = dict(zip(roles, more, strict=True))
    shapes = list_record_parts(gates, order, hh, hidden, more, kind, roles)
    parts, grads = _split_parts(record, shapes), _split_parts(g, shapes)
    count = 2 if "cells" in roles else 1
    sweep: Operand = object.__new__(SWEEP_BY_KIND[kind])
    _restore(sweep, parts, count, order, StepWeights(hh, given.get("bias"), given.get("hr")))
    start = sweep.run_back(grads[0], grads[1 : 1 + count])
    found = {"gates": sweep.du, "hh": multiply_matrices(sweep.dv.T, sweep.states_before()), "hidden": start[0]}
    for role in roles:
        if role == "cells":
            found[role] = start[1]
        elif role == "bias":
            found[role] = sweep.dv.sum(0)
        else:
            found[role] = multiply_matrices(sweep.d_outputs.T, sweep.emitted)
    return np.concatenate([part.reshape(-1) for part in found.values()])


def _split_parts(flat: Array, shapes: Sequence[Shape]) -> list[Array]:
    """Return the parts of an array; `np.split` takes longer than many a step."""
    found, start = [], 0
    for shape in shapes:
        end = start + prod(shape)
        found.append(flat[start:end].reshape(shape))
        start = end
    return found


def _restore(sweep: Operand, parts: Sequence[Array], count: int, order: Array, weights: StepWeights) -> None:
    """Give a run the arrays that its record holds."""
    outputs, states = parts[0], parts[1 + count : 1 + 2 * count]
    saved = parts[1 + 2 * count :]
    sweep.dtype, sweep.order, sweep.weights, sweep.save = outputs.dtype, order, weights, True
    sweep.batch, sweep.width = states[0].shape[1], len(weights.hh) // sweep.gate_count
    sweep.hidden, sweep.outputs = states[0], outputs
    sweep.emitted = outputs if weights.hr is None else saved[-1]
    sweep.u = np.empty((len(outputs), len(weights.hh)), outputs.dtype)
    if saved:
        sweep.activated = saved[0]
    if count == 2:
        sweep.cells, sweep.limited = states[1], saved[1]
    elif saved:
        sweep.recurrent = saved[1]
