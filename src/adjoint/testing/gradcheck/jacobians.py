"""Two Jacobians of one function compared: by differences and by its rules, whole or along one random direction.

A complex number counts as two real ones. For a complex output the gradients of its two parts are compared one after
the other; for a complex input x + iy the gradient of a real L is ∂L/∂x + i ∂L/∂y, as PyTorch defines it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from adjoint.core.random.generator import Generator
from adjoint.core.tensor.tensor import Tensor, wrap
from adjoint.core.typing import Array, Operands
from adjoint.testing.gradcheck.analytical import compute_jvp_columns, compute_vjp_rows, unit_vectors
from adjoint.testing.gradcheck.grad_properties import GradcheckError, random_direction
from adjoint.testing.gradcheck.numerical import Outputs, difference_along, differences

REAL, IMAGINARY = 1, 1j


@dataclass(frozen=True)
class JacobianCase:
    """A function at a point, and how closely its gradients are looked at."""

    func: Any
    arguments: Operands
    places: list[int]  # of the arguments that require grad
    outputs: Outputs  # those that require grad
    eps: float
    atol: float
    rtol: float
    nondet_tol: float
    check_grad_dtypes: bool

    @property
    def inputs(self) -> list[Tensor]:
        """The arguments that require grad."""
        return [self.arguments[place] for place in self.places]


def compare_jacobians(case: JacobianCase, backward: bool, forward: bool) -> None:
    """Compare every element of the Jacobians; raise GradcheckError at the first pair that differs."""
    moved = [[_compute_differences(case, x, case.outputs, d) for d in unit_directions(x)] for x in case.inputs]
    if backward:
        for k, y in enumerate(case.outputs.values()):
            for part in reversed(unit_directions(y)):  # imaginary parts first, as PyTorch does
                for n, rows in enumerate(_compute_rows(case, y, unit_vectors(y, part))):
                    numerical = combine_parts([_take_part(of[k], part) for of in moved[n]])
                    if not _is_close(case, rows.T, numerical):
                        raise GradcheckError(_mismatch_message(case, rows.T, numerical, k, n, part))
    if forward:
        pushed = [
            [_compute_columns(case, i, case.outputs, unit_vectors(x, d)) for d in unit_directions(x)]
            for i, x in _enumerate_inputs(case)
        ]
        for k in range(len(case.outputs)):
            for n, x in enumerate(case.inputs):
                for part, numerical, analytical in reversed(
                    list(zip(unit_directions(x), moved[n], pushed[n], strict=True))
                ):
                    if not _is_close(case, analytical[k], numerical[k]):
                        raise GradcheckError(
                            _mismatch_message(case, analytical[k], numerical[k], k, n, part, forward=True)
                        )


def compare_directional(case: JacobianCase, backward: bool, forward: bool) -> None:
    """Compare vᵀJu for one random u of each input and v of each output; raise GradcheckError if they differ.

    The tolerance grows to what the single elements would be allowed together.
    """
    noise = Generator()  # of its own: the user's random state stays as it is
    us = [[random_direction(x, noise) for _ in unit_directions(x)] for x in case.inputs]
    vs = [random_direction(y, noise) for y in case.outputs.values()]
    moved = [
        [
            difference_along(case.func, case.arguments, x, case.outputs, case.eps, d * u.reshape(x.array.shape))
            for d, u in zip(unit_directions(x), of_x, strict=True)
        ]
        for x, of_x in zip(case.inputs, us, strict=True)
    ]
    if backward:
        for k, (y, v) in enumerate(zip(case.outputs.values(), vs, strict=True)):
            for part in reversed(unit_directions(y)):  # imaginary parts first, as PyTorch does
                seed = (part * v).reshape(y.array.shape).astype(y.array.dtype)
                for n, rows in enumerate(_compute_rows(case, y, [seed])):
                    both = zip(unit_directions(case.inputs[n]), us[n], strict=True)
                    analytical = combine_parts([_take_part(rows[0], d) @ u for d, u in both])
                    numerical = combine_parts([_take_part(of[k][0], part) @ v for of in moved[n]])
                    if not _is_close(case, analytical, numerical, sum(u.sum() for u in us[n]) * v.sum()):
                        raise GradcheckError(_directional_mismatch_message(case, analytical, numerical, k, n, part))
    if forward:
        for n, (i, x) in enumerate(_enumerate_inputs(case)):
            for part, u, numerical in reversed(list(zip(unit_directions(x), us[n], moved[n], strict=True))):
                t = (part * u).reshape(x.array.shape).astype(x.array.dtype)
                for k, analytical in enumerate(_compute_columns(case, i, case.outputs, [t])):
                    if not _is_close(case, analytical, numerical[k], u.sum()):
                        message = _directional_mismatch_message(
                            case, analytical[0], numerical[k][0], k, n, part, forward=True
                        )
                        raise GradcheckError(message)


def check_outputs_constant(case: JacobianCase, fast: bool) -> None:
    """Refuse a function whose floating outputs depend on its inputs although none of them requires grad."""
    for x in case.inputs:
        for d in unit_directions(x):
            if fast:
                u = d * random_direction(x, Generator()).reshape(x.array.shape)
                slopes = difference_along(case.func, case.arguments, x, case.outputs, case.eps, u)
            else:
                slopes = _compute_differences(case, x, case.outputs, d)
            if any((np.abs(slope) > case.nondet_tol if fast else slope != 0).any() for slope in slopes):
                raise GradcheckError("Numerical gradient for function expected to be zero")


def unit_directions(x: Tensor) -> tuple[complex, ...]:
    """Return the directions in which an element can move, as factors of the unit vectors."""
    return (REAL, IMAGINARY) if x.array.dtype.kind == "c" else (REAL,)


def combine_parts(slopes: Sequence[Array]) -> Array:
    """Return ∂L/∂x + i ∂L/∂y from the two slopes, or the one."""
    return slopes[0] + 1j * slopes[1] if len(slopes) == 2 else slopes[0]


def _take_part(z: Array, part: complex) -> Array:
    return z.imag if part == IMAGINARY else z.real


def _enumerate_inputs(case: JacobianCase) -> list[tuple[int, Tensor]]:
    return list(zip(case.places, case.inputs, strict=True))


def _compute_differences(case: JacobianCase, x: Tensor, outputs: Outputs, direction: complex) -> list[Array]:
    return differences(case.func, case.arguments, x, outputs, case.eps, direction)


def _compute_rows(case: JacobianCase, y: Tensor, seeds: Iterable[Array]) -> list[Array]:
    pulled = compute_vjp_rows(y, case.inputs, seeds, case.nondet_tol)
    if case.check_grad_dtypes and not pulled.types_ok:
        raise GradcheckError("Gradient has dtype mismatch")
    if not pulled.sizes_ok:
        raise GradcheckError("Analytical gradient has incorrect size")
    if not pulled.reentrant:
        raise GradcheckError(
            "Backward is not reentrant, i.e., running backward with same input and grad_output multiple times gives "
            f"different values. The tolerance for nondeterminism was {case.nondet_tol}. If the function is meant to be "
            "random, pass a larger nondet_tol."
        )
    return pulled.rows


def _compute_columns(case: JacobianCase, place: int, outputs: Outputs, tangents: Iterable[Array]) -> list[Array]:
    columns, types_ok = compute_jvp_columns(case.func, case.arguments, place, outputs, tangents)
    if case.check_grad_dtypes and not types_ok:
        raise GradcheckError("Forward AD gradient has dtype mismatch.")
    return columns


def _is_close(case: JacobianCase, analytical: Array, numerical: Array, scale: float = 1.0) -> bool:
    with np.errstate(all="ignore"):
        return np.allclose(analytical, numerical, rtol=case.rtol, atol=case.atol * float(scale))


def _mismatch_message(
    case: JacobianCase, analytical: Array, numerical: Array, k: int, n: int, part: complex, forward: bool = False
) -> str:
    """Return the error text; `k` and `n` count the outputs and inputs that require grad, as PyTorch does."""
    split = case.inputs[n] if forward else list(case.outputs.values())[k]
    name, side = "imaginary" if part == IMAGINARY else "real", "inputs" if forward else "outputs"
    prefix = f"While considering the {name} part of complex {side} only, " if len(unit_directions(split)) == 2 else ""
    with np.errstate(all="ignore"):
        largest = np.abs(analytical - numerical).max()
    place = case.places[n]
    aside = f"(Input {n} of those that require grad is argument {place} of the function.)\n" if place != n else ""
    return (
        f"{prefix}Jacobian {'computed with forward mode ' if forward else ''}mismatch for output {k} with respect to "
        f"input {n},\nnumerical:{wrap(np.asarray(numerical))}\nanalytical:{wrap(np.asarray(analytical))}\n{aside}"
        f"largest difference: {largest:.3g}\n"
    )


def _directional_mismatch_message(
    case: JacobianCase, analytical: Array, numerical: Array, k: int, n: int, part: complex, forward: bool = False
) -> str:
    place, (i, y) = case.places[n], list(case.outputs.items())[k]
    x = case.arguments[place]
    if forward:
        slow_numerical = _compute_differences(case, x, {i: y}, part)[0]
        slow = compute_jvp_columns(case.func, case.arguments, place, {i: y}, unit_vectors(x, part))[0][0]
    else:
        slow_numerical = combine_parts(
            [_take_part(_compute_differences(case, x, {i: y}, d)[0], part) for d in unit_directions(x)]
        )
        slow = compute_vjp_rows(y, [x], unit_vectors(y, part), np.inf).rows[0].T
    message = _mismatch_message(case, analytical, numerical, k, n, part, forward) + (
        "\nThe above quantities relating the numerical and analytical jacobians are computed in fast mode: Jacobians "
        "times random vectors. These are the Jacobians themselves:\n\n"
        f"Numerical:\n{wrap(slow_numerical)}\nAnalytical:\n{wrap(slow)}\n\n"
        f"The max per-element difference (slow mode) is: {np.abs(slow_numerical - slow).max()}.\n"
    )
    if not _is_close(case, slow, slow_numerical):
        return message
    return message + (
        "Fast gradcheck failed but element-wise differences are small. This means that the test might've passed in "
        "slow mode: pass fast_mode=False."
    )
