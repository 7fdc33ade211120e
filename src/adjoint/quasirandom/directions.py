"""Direction numbers of Sobol's sequence in up to 21,201 dimensions.

Source: Joe and Kuo, Constructing Sobol sequences with better two-dimensional projections, SIAM J. Sci. Comput. 30,
2008: their table for the criterion D(6). `directions.npz` holds, as differences, its primitive polynomials, and of the
initial numbers m_2, m_3, …, which are odd and below 2^i, the bits but the lowest: m_i of all dimensions, then m_{i+1}.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np

from adjoint.core.typing import Array, Operand

MAX_DIMENSION, BITS = 21201, 30


def directions(dimension: int) -> Array:
    """Return the direction numbers v[d, j] = m_j 2^(29 - j) of the first dimensions.

    The recurrence is m_j = m_{j-s} ⊕ 2^s m_{j-s} ⊕ a_1 2 m_{j-1} ⊕ … of the polynomial x^s + a_1 x^(s-1) + … + 1.

    Shapes: (dimension, 30) of int64.

    Source: Bratley and Fox, Algorithm 659, ACM Trans. Math. Softw. 14, 1988.
    """
    polynomials, initial = _table()
    degrees = _degrees(polynomials)
    m = np.ones((dimension, BITS), np.int64)
    for degree in range(1, degrees[dimension - 1] + 1):
        first, last = np.searchsorted(degrees, [degree, degree + 1])
        rows, p = m[first : min(last, dimension)], polynomials[first : min(last, dimension)]
        rows[:, :degree] = initial[first : min(last, dimension), :degree]
        for j in range(degree, BITS):
            new = rows[:, j - degree].copy()
            for k in range(1, degree + 1):
                new ^= (p >> (degree - k) & 1) * (rows[:, j - k] << k)
            rows[:, j] = new
    return m << np.arange(BITS - 1, -1, -1)


@cache
def _table() -> tuple[Array, Array]:
    """Return the polynomials, whose coefficients are bits of a number, and the initial numbers of each dimension."""
    with np.load(Path(__file__).with_name("directions.npz")) as packed:
        polynomials = np.concatenate([[1], packed["steps"]]).cumsum()
        bits = np.unpackbits(packed["bits"])
    degrees = _degrees(polynomials)
    initial = np.ones((MAX_DIMENSION, degrees[-1]), np.int64)
    start = 0
    for i in range(1, degrees[-1]):  # m_{i+1}, of those dimensions that have so many, in i bits
        having = degrees > i
        count = int(having.sum()) * i
        initial[having, i] += (bits[start : start + count].reshape(-1, i) << np.arange(1, i + 1)).sum(1)
        start += count
    return polynomials, initial


def _degrees(polynomials: Operand) -> Array:
    return np.frexp(polynomials)[1] - 1
