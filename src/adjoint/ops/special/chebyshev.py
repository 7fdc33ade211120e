"""Tools for functions that NumPy lacks: piecewise evaluation in float64 by Chebyshev series and formulas."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

import numpy as np

from adjoint.core.op.families import Declaration, binary, unary
from adjoint.core.op.signature import with_parameters_of
from adjoint.core.tensor.memory_format import call_row_major
from adjoint.core.typing import Array, Operand

Evaluate = Callable[..., Array]
FLOAT32_TERM_TOLERANCE = 1e-11  # of the largest term: what is smaller does not reach a float32


def parse_numbers(text: str) -> tuple[float, ...]:
    """Return the numbers of a text, separated by white space."""
    return tuple(map(float, text.split()))


def chebyshev(coefficients: Sequence[float], t: Array) -> Operand:
    """Σ cₖ Tₖ(t) for t in [-1, 1], by Clenshaw's recurrence."""
    twice = t + t
    this, before, later = np.zeros_like(t), np.zeros_like(t), np.empty_like(t)
    for c in reversed(coefficients[1:]):
        np.multiply(twice, this, out=later)
        later -= before
        later += c
        this, before, later = later, this, before
    return t * this - before + coefficients[0]


def horner(x: Array, coefficients: Sequence[float]) -> Array:
    """Σ cₖ xᵏ."""
    out = np.full_like(x, coefficients[-1])
    for c in reversed(coefficients[:-1]):
        out *= x
        out += c
    return out


def chebyshev_lanes(b: Operand, coefficients: Sequence[float], t: Operand, bits: int) -> Operand:
    """The same in a kernel, of float64 `t`, as exact as a result of that many bits needs."""
    least = 0.0 if bits == 64 else FLOAT32_TERM_TOLERANCE * max(map(abs, coefficients))
    coefficients = coefficients[: max(i for i, c in enumerate(coefficients) if abs(c) > least) + 1]
    twice = b.add(t, t)
    this = before = b.mul(t, 0.0)
    for c in reversed(coefficients[1:]):
        this, before = b.fma(twice, this, b.sub(c, before)), this
    return b.fma(t, this, b.sub(coefficients[0], before))


def in_wide_lanes(function: Callable[[Operand, Operand, int], Operand]) -> Callable[[Operand, Operand], Operand]:
    """Extend a kernel's formula, of float64 and the bits of the result, to operands of any floating type."""

    def lanes(b: Operand, x: Operand) -> Operand:
        return b.cast(function(b, b.wide(x), x.type.bits), x.type.scalar)

    return lanes


def piecewise(x: Array, *pieces: tuple[Array, Evaluate]) -> Array:
    """Apply to each element the function of the piece whose condition holds there; NaN where none does."""
    out = np.full_like(x, np.nan)
    for chosen, piece in pieces:
        if chosen.all():
            return piece(x)
        if chosen.any():
            out[chosen] = piece(x[chosen])
    return out


def in_double(function: Evaluate) -> Evaluate:
    """Extend a function of float64 vectors to one operand, or several that broadcast, of any floating type."""

    @wraps(function)
    def call(*operands: Operand, **params: object) -> Array:
        dtype = next(x.dtype for x in operands if hasattr(x, "dtype"))
        if len(operands) == 1 and operands[0].ndim > 1 and not operands[0].flags.c_contiguous:
            return call_row_major(lambda x: call(x, **params), operands[0])
        wide = np.broadcast_arrays(*[np.asarray(x, np.float64) for x in operands])
        with np.errstate(all="ignore"):
            out = function(*[x.reshape(-1) for x in wide], **params)
        return out.reshape(wide[0].shape).astype(dtype, copy=False)

    return with_parameters_of(call, function)


def special_unary(**facets: Any) -> Declaration:
    """Declare f(x) of real numbers; integers become floats, and f itself sees float64 vectors."""
    return lambda function: unary(promotion="float", unsupported_kinds="c", **facets)(in_double(function))


def special_binary(**facets: Any) -> Declaration:
    """Declare f(x, y) of real numbers; integers become floats, and f itself sees float64 vectors that broadcast."""
    return lambda function: binary(promotion="float", unsupported_kinds="c", **facets)(in_double(function))
