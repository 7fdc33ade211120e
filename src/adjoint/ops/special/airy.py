"""The Airy function, by Chebyshev series of it, and of its amplitude where it oscillates or decays.

Formulas of the amplitudes: Abramowitz & Stegun 10.4.59 and 10.4.60.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from adjoint.ops.special import chebyshev_tables as tables
from adjoint.ops.special.chebyshev import chebyshev, piecewise, special_unary


@special_unary()
def airy_ai(x: Any) -> Any:
    """Ai(x), the solution of y″ = x y that vanishes at ∞; NaN at either infinity."""
    return piecewise(
        x,
        ((x > -np.inf) & (x < -5), _oscillating),
        ((x >= -5) & (x < -2), lambda x: chebyshev(tables.AIRY_LEFT, (2 * x + 7) / 3)),
        ((x >= -2) & (x <= 2), lambda x: chebyshev(tables.AIRY_MIDDLE, x / 2) * np.exp(-1.1 * x)),
        ((x > 2) & (x < np.inf), _vanishing),
    )


def _oscillating(x: Any) -> Any:
    size = -x
    root = np.sqrt(size)
    phase = 2 / 3 * size * root
    t = 2 * (2 / 3 * 5**1.5 / phase) ** 2 - 1
    p, q = chebyshev(tables.AIRY_FAR_LEFT_P, t), chebyshev(tables.AIRY_FAR_LEFT_Q, t) / phase
    s, c = np.sin(phase), np.cos(phase)
    return (p * (c + s) + q * (s - c)) / np.sqrt(2 * np.pi * root)


def _vanishing(x: Any) -> Any:
    root = np.sqrt(x)
    phase = 2 / 3 * x * root
    return chebyshev(tables.AIRY_RIGHT, 2 * (2 / 3 * 2**1.5) / phase - 1) * np.exp(-phase) / np.sqrt(root)
