"""Arithmetic with the bits of compiled code: the fused multiply-add.

A compiler turns `x * y + z` into one instruction with one rounding where the CPU has it, as PyTorch's kernels for AVX2
and AVX-512 do. NumPy has no such operation, so it is made from operations which lose nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from adjoint.core.typing import Array

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Float64 = NDArray[np.float64]
    Operand = NDArray[Any] | np.floating[Any]

# Veltkamp's constant splits a 53-bit significand into two halves whose products are exact.
SPLITTER = 2.0**27 + 1
# Beyond this the splitting overflows.
LARGEST_SPLIT = 2.0**990
BLOCK_ELEMENTS = 2**14


def fused_multiply_add(x: Array, y: Operand, z: Operand) -> Array:
    """x * y + z, rounded once; float32 or float64, the same for all three, broadcast.

    Exact unless the result, or in float64 the rounding error of x * y, is subnormal.
    """
    multiply_add = _fma32 if x.dtype == np.float32 else _fma64
    if x.size <= BLOCK_ELEMENTS or np.ndim(y) or np.ndim(z) or not x.flags.c_contiguous:
        return multiply_add(x, y, z)
    # Block by block the temporaries, twice as wide as the result, stay in cache.
    result, flat = np.empty_like(x), x.reshape(-1)
    for start in range(0, x.size, BLOCK_ELEMENTS):
        block = slice(start, start + BLOCK_ELEMENTS)
        result.reshape(-1)[block] = multiply_add(flat[block], y, z)
    return result


def _fma32(x: Array, y: Operand, z: Operand) -> NDArray[np.float32]:
    product = np.multiply(x, y, dtype=np.float64)  # exact: 24 + 24 bits
    total = np.add(product, z, dtype=np.float64)
    # Rounding to 53 bits and then to 24 errs only where the first rounding lands halfway between two float32.
    halfway = (total.view(np.int64) & 0x1FFFFFFF) == 0x10000000
    if halfway.any():
        lost = _sum_error(product, z, total)
        total = np.where(halfway & (lost != 0), np.nextafter(total, np.copysign(np.inf, lost)), total)
    rounded: NDArray[np.float32] = total.astype(np.float32)
    return rounded


def _fma64(x: Float64, y: Operand, z: Operand) -> Float64:
    """Boldo and Melquiond, "Emulation of FMA and correctly rounded sums" (2008), whose rounding to odd is left out."""
    product = x * y
    if np.abs(y).max() > LARGEST_SPLIT:
        return product + z
    lost = _product_error(x, y, product)
    low = lost + z
    lowest = _sum_error(lost, z, low)
    total: Float64 = product + low
    return total + (_sum_error(product, low, total) + lowest)


def _sum_error(a: Operand, b: Operand, total: Float64) -> Float64:
    """a + b - total, exactly (Knuth)."""
    shadow = total - a
    return (a - (total - shadow)) + (b - shadow)


def _product_error(a: Operand, b: Operand, product: Float64) -> Float64:
    """a * b - product, exactly (Dekker)."""
    a_high, a_low = _halves(a)
    b_high, b_low = _halves(b)
    error: Float64 = ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low
    return error


def _halves(a: Operand) -> tuple[Any, Any]:
    stretched = a * SPLITTER
    high = stretched - (stretched - a)
    return high, a - high
