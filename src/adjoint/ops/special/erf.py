"""erf on NumPy arrays, which NumPy lacks: rational approximations, in float64.

For float64 on four intervals of |x|, with the coefficients of W. J. Cody's form as tabulated in Sun's fdlibm (s_erf.c);
error below 1 ulp. For float32 one quotient of polynomials in x², by weighted least squares; error below 0.54 ulp.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from adjoint.core.tensor.memory_format import preserve_strides
from adjoint.core.typing import Array, Operand


def parse_rows(text: str) -> list[list[float]]:
    """Return the numbers of the paragraphs of a text."""
    return [list(map(float, row.split())) for row in text.split("\n\n")]


# Two polynomials, lowest power first: numerator and denominator.
CENTRAL_COEFFICIENTS = parse_rows("""
1.28379167095512558561e-01 -3.25042107247001499370e-01 -2.84817495755985104766e-02 -5.77027029648944159157e-03
-2.37630166566501626084e-05

1.0 3.97917223959155352819e-01 6.50222499887672944485e-02 5.08130628187576562776e-03 1.32494738004321644526e-04
-3.96022827877536812320e-06
""")
NEAR_ONE_COEFFICIENTS = parse_rows("""
-2.36211856075265944077e-03 4.14856118683748331666e-01 -3.72207876035701323847e-01 3.18346619901161753674e-01
-1.10894694282396677476e-01 3.54783043256182359371e-02 -2.16637559486879084300e-03

1.0 1.06420880400844228286e-01 5.40397917702171048937e-01 7.18286544141962662868e-02 1.26171219808761642112e-01
1.36370839120290507362e-02 1.19844998467991074170e-02
""")
MIDDLE_COEFFICIENTS = parse_rows("""
-9.86494403484714822705e-03 -6.93858572707181764372e-01 -1.05586262253232909814e01 -6.23753324503260060396e01
-1.62396669462573470355e02 -1.84605092906711035994e02 -8.12874355063065934246e01 -9.81432934416914548592e00

1.0 1.96512716674392571292e01 1.37657754143519042600e02 4.34565877475229228821e02 6.45387271733267880336e02
4.29008140027567833386e02 1.08635005541779435134e02 6.57024977031928170135e00 -6.04244152148580987438e-02
""")
TAIL_COEFFICIENTS = parse_rows("""
-9.86494292470009928597e-03 -7.99283237680523006574e-01 -1.77579549177547519889e01 -1.60636384855821916062e02
-6.37566443368389627722e02 -1.02509513161107724954e03 -4.83519191608651397019e02

1.0 3.03380607434824582924e01 3.25792512996573918826e02 1.53672958608443695994e03 3.19985821950859553908e03
2.55305040643316442583e03 4.74528541206955367215e02 -2.24409524465858183362e01
""")
ERF_NEAR_ONE = 8.45062911510467529297e-01  # erf(1), rounded to float32, about which NEAR_ONE is the correction

FLOAT32_SATURATION = 3.95  # from here on erf(x) rounds to 1 in float32
FLOAT32_COEFFICIENTS = np.array(
    parse_rows("""
1.1283791692239131 0.18517060331771654 0.05427485633342759 0.0038434195558251726 0.00037793301608469185
4.640290731175578e-06 -1.296641075404897e-08

1.0 0.497436583512912 0.11391153674749159 0.015443801491660034 0.0013040675749559794 6.269116881856709e-05 0.0
""")
)
MAX_SCALAR_ELEMENTS = 64  # for which Python's function takes less time than NumPy's calls
BATCH = 4096  # elements whose powers stay in the cache


@preserve_strides
def erf_array(x: Operand) -> Array:
    """erf(x), element by element, in the type of x (float64 inside)."""
    if x.dtype.kind == "f" and x.itemsize < 8:
        flat = x.ravel()
        if x.size <= MAX_SCALAR_ELEMENTS:
            return np.array([*map(math.erf, flat.tolist())], x.dtype).reshape(x.shape)
        parts = [_erf_float32(flat[i : i + BATCH]) for i in range(0, x.size, BATCH)]
        return (parts[0] if len(parts) == 1 else np.concatenate([flat[:0], *parts])).reshape(x.shape)
    wide = x.astype(np.float64).ravel()
    size = np.abs(wide)
    out = np.copysign(1.0, wide)
    for low, high, part in INTERVALS:
        chosen = (size >= low) & (size < high)
        if chosen.any():
            out[chosen] = part(wide[chosen])
    out[np.isnan(wide)] = np.nan
    return out.astype(x.dtype, copy=False).reshape(x.shape)


@preserve_strides
def erfc_array(x: Operand) -> Array:
    """1 - erf x, accurate where erf x is near 1, in the type of x."""
    wide = np.asarray(x, np.float64)
    far = wide > 0.5
    out = np.asarray(1.0 - erf_array(wide))
    out[far] = np.fromiter(map(math.erfc, wide[far].tolist()), np.float64)
    return out.astype(x.dtype, copy=False)


def _erf_float32(x: Array) -> Array:
    """erf(x) of a vector, exact enough for float32."""
    wide = x.astype(np.float64)
    np.minimum(np.maximum(wide, -FLOAT32_SATURATION, out=wide), FLOAT32_SATURATION, out=wide)
    powers = np.empty((FLOAT32_COEFFICIENTS.shape[1], x.size))
    powers[0] = 1
    square = np.multiply(wide, wide, out=powers[1])
    for i in range(2, len(powers)):
        np.multiply(powers[i - 1], square, out=powers[i])
    above, below = FLOAT32_COEFFICIENTS @ powers
    above *= wide
    above /= below
    return above.astype(x.dtype)


def _ratio(coefficients: Sequence[Sequence[float]], t: Array) -> Array:
    above, below = (np.polynomial.polynomial.polyval(t, c) for c in coefficients)
    return above / below


def _erf_by_complement(coefficients: Sequence[Sequence[float]], x: Array) -> Array:
    """±(1 - exp(-x²) e^(R(1/x²)) / |x|), with x² split so that its rounding does not reach the exponential."""
    size = np.abs(x)
    head = (size.view(np.int64) & np.int64(-4294967296)).view(np.float64)
    ratio = _ratio(coefficients, 1.0 / (size * size))
    complement = np.exp(-head * head - 0.5625) * np.exp((head - size) * (head + size) + ratio) / size
    return np.copysign(1.0 - complement, x)


INTERVALS: tuple[tuple[float, float, Callable[[Array], Array]], ...] = (
    (0.0, 0.84375, lambda x: x + x * _ratio(CENTRAL_COEFFICIENTS, x * x)),
    (0.84375, 1.25, lambda x: np.copysign(ERF_NEAR_ONE + _ratio(NEAR_ONE_COEFFICIENTS, np.abs(x) - 1.0), x)),
    (1.25, 2.857142, lambda x: _erf_by_complement(MIDDLE_COEFFICIENTS, x)),
    (2.857142, 6.0, lambda x: _erf_by_complement(TAIL_COEFFICIENTS, x)),
)
