"""Jacobians by gradient rules: rows by backward passes, columns by forward mode."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from adjoint.autograd.backward import grad
from adjoint.core.tensor.tensor import Tensor, detach, wrap
from adjoint.core.typing import Array, Function
from adjoint.testing.gradcheck.numerical import Outputs, as_tuple, stack_rows, wants_grad


class VjpRows(NamedTuple):
    """Results of the backward passes of one output for each input, and whether they are well-formed."""

    rows: list[Array]  # for each input a row a seed  # (seeds, |x|)
    reentrant: bool
    sizes_ok: bool
    types_ok: bool


def unit_vectors(x: Tensor, direction: complex = 1) -> Iterable[Array]:
    """Yield arrays shaped like `x`: in each one element is `direction`, the others are 0."""
    for i in range(x.array.size):
        unit = np.zeros(x.array.size, x.array.dtype)
        unit[i] = direction
        yield unit.reshape(x.array.shape)


def compute_vjp_rows(output: Tensor, inputs: Sequence[Tensor], seeds: Iterable[Array], nondet_tol: float) -> VjpRows:
    """Return vᵀJ for each seed v, computed twice: it is reentrant if the two differ by `nondet_tol` at most."""
    found: list[list[Array]] = [[] for _ in inputs]
    reentrant = sizes_ok = types_ok = True
    for v in seeds:
        # each pass gets a seed of its own: a backward may write into its gradient
        once, again = [grad(output, inputs, wrap(v.copy()), retain_graph=True, allow_unused=True) for _ in range(2)]
        for x, rows, g, same in zip(inputs, found, once, again, strict=True):
            fits = g is None or g.array.shape == x.array.shape
            row = g.array.flatten() if g is not None and fits else np.zeros(x.array.size, x.array.dtype)
            rows.append(row)
            sizes_ok = sizes_ok and fits
            types_ok = types_ok and row.dtype == x.array.dtype
            if fits and row.size:
                with np.errstate(all="ignore"):
                    distance = np.abs(row - (0 if same is None else same.array.flatten())).max()
                reentrant = reentrant and not distance > nondet_tol  # NaN is within: it may be as right twice
    return VjpRows([stack_rows(rows, x) for rows, x in zip(found, inputs, strict=True)], reentrant, sizes_ok, types_ok)


def compute_jvp_columns(
    func: Function, inputs: Sequence[Any], place: int, outputs: Outputs, tangents: Iterable[Array]
) -> tuple[list[Array], bool]:
    """Return J t of each output for each tangent t of the input at `place`, and whether all have the right kind.

    The function sees the inputs that require grad as duals that do not; the tangents of the others are 0.
    """
    from adjoint.transforms.forward.forward_ad import dual_level, make_dual, unpack_dual

    rows: list[list[Array]] = [[] for _ in outputs]  # (tangents, |y|)
    types_ok = True
    with dual_level():
        duals = [make_dual(detach(x), wrap(np.zeros_like(x.array))) if wants_grad(x) else x for x in inputs]
        for t in tangents:
            duals[place] = make_dual(detach(inputs[place]), wrap(t))
            values = as_tuple(func(*duals))
            for row, k in zip(rows, outputs, strict=True):
                primal, tangent = unpack_dual(values[k])
                if tangent is None:
                    row.append(np.zeros(primal.array.size, primal.array.dtype))
                else:
                    types_ok = types_ok and primal.array.dtype.kind == tangent.array.dtype.kind
                    row.append(tangent.array.flatten())
    return [stack_rows(row, y) for row, y in zip(rows, outputs.values(), strict=True)], types_ok
