"""The Box-Muller transform, √(-2 ln(1 - u)) · (cos 2πv, sin 2πv), with the bits of PyTorch's CPU kernels.

Three versions are in use there: for float32 and for float64 in blocks of 16 elements, and for short tensors. The first
has its own polynomials, those of S. Moshier's Cephes library as J. Pommier arranged them for vectors, so they stand
here too, with a fused multiply-add wherever the compiler makes one. These are the bits of an x86 CPU with AVX2; on
others PyTorch calls other functions and differs from them in the last places.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from adjoint.core.random.libm_functions import apply_libm, log
from adjoint.core.runtime.libm import fused_multiply_add
from adjoint.core.typing import Array

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Float32 = NDArray[np.float32]
    Float64 = NDArray[np.float64]

BLOCK = 16
# Blocks worked on at a time: the temporaries of the polynomials then stay in the cache.
BATCH = 1024

LOG = np.array(
    [
        7.0376836292e-2,
        -1.1514610310e-1,
        1.1676998740e-1,
        -1.2420140846e-1,
        1.4249322787e-1,
        -1.6668057665e-1,
        2.0000714765e-1,
        -2.4999993993e-1,
        3.3333331174e-1,
    ],
    np.float32,
)
SIN = np.array([-1.9515295891e-4, 8.3321608736e-3, -1.6666654611e-1], np.float32)
COS = np.array([2.443315711809948e-5, -1.388731625493765e-3, 4.166664568298827e-2], np.float32)
# ln 2 and -π/4, split so that the leading parts times a small integer are exact.
LN2_LOW, LN2_HIGH = np.float32(-2.12194440e-4), np.float32(0.693359375)
MINUS_QUARTER_PI = np.array([-0.78515625, -2.4187564849853515625e-4, -3.77489497744594108e-8], np.float32)
ONE, HALF, SQRT_HALF = np.float32(1), np.float32(0.5), np.float32(math.sqrt(0.5))


def normal_blocks(uniform: Array) -> Array:
    """Standard normals from uniforms on [0, 1), (16 n,), float32 or float64: each block holds 8 u, then 8 v."""
    pairs = uniform.reshape(-1, 2, BLOCK // 2)  # (n, u or v, 8)
    normal = np.empty_like(pairs)
    transform = _blocks_float32 if uniform.dtype == np.float32 else _blocks_float64
    for start in range(0, len(pairs), BATCH):
        batch = slice(start, start + BATCH)
        normal[batch, 0], normal[batch, 1] = transform(pairs[batch, 0], pairs[batch, 1])
    return normal.reshape(-1)


def normal_pairs(uniform: Float64) -> Float64:
    """Standard normals in float64 from uniforms on [0, 1), (2 n,): pairs v, u, which give pairs of cosine and sine."""
    v, u = uniform[0::2], uniform[1::2]
    radius = np.sqrt(-2 * apply_libm(math.log1p, -u))
    angle = 2 * math.pi * v
    return np.stack([radius * apply_libm(math.cos, angle), radius * apply_libm(math.sin, angle)], axis=-1).reshape(-1)


def scalar_normal_pairs(uniform: list[float]) -> list[float]:
    """Return `normal_pairs` of Python's numbers, none of which is -0."""
    normals: list[float] = []
    for v, u in zip(uniform[0::2], uniform[1::2], strict=True):
        radius, angle = math.sqrt(-2 * math.log1p(-u)), 2 * math.pi * v
        normals += (radius * math.cos(angle) + 0.0, radius * math.sin(angle) + 0.0)
    return normals


def _blocks_float64(u: Float64, v: Float64) -> tuple[Float64, Float64]:
    radius = np.sqrt(-2 * apply_libm(log, 1 - u))
    angle = 2 * math.pi * v
    return radius * apply_libm(math.cos, angle), radius * apply_libm(math.sin, angle)


def _blocks_float32(u: Float32, v: Float32) -> tuple[Float32, Float32]:
    radius = np.sqrt(np.float32(-2) * _log(ONE - u))
    cosine, sine = _cos_sin(np.float32(2 * math.pi) * v)
    return radius * cosine, radius * sine


def _log(x: Float32) -> Float32:
    """ln x for normal positive x: x = 2**e (1 + t) with √½ <= 1 + t < √2, and ln(1 + t) = t - t²/2 + t³ P(t)."""
    mantissa, exponent = np.frexp(x)
    small = mantissa < SQRT_HALF
    t = mantissa - ONE + np.where(small, mantissa, np.float32(0))
    e = (exponent - small).astype(np.float32)
    square = t * t
    series = fused_multiply_add(_horner(LOG, t) * t, square, e * LN2_LOW)
    series = fused_multiply_add(-square, HALF, series)
    return fused_multiply_add(e, LN2_HIGH, t + series)


def _cos_sin(angle: Float32) -> tuple[Float32, Float32]:
    """cos and sin for angle >= 0: by the octant and polynomials on [-π/4, π/4]."""
    octant = (angle * np.float32(4 / math.pi)).astype(np.int32) + 1 & ~1
    t = angle
    for part in MINUS_QUARTER_PI:
        t = fused_multiply_add(octant.astype(np.float32), part, t)
    square = t * t
    cosine = fused_multiply_add(_horner(COS, square) * square, square, square * -HALF) + ONE
    sine = fused_multiply_add(_horner(SIN, square) * square, t, t)

    crossed = octant & 2 != 0
    cosine, sine = np.where(crossed, sine, cosine), np.where(crossed, cosine, sine)
    # Cosine is negative in the octants 2 and 4 (mod 8), sine in 4 and 6.
    return np.where(octant + 2 & 4 != 0, -cosine, cosine), np.where(octant & 4 != 0, -sine, sine)


def _horner(coefficients: Float32, x: Float32) -> Float32:
    value = np.full_like(x, coefficients[0])
    for coefficient in coefficients[1:]:
        value = fused_multiply_add(value, x, coefficient)
    return value
