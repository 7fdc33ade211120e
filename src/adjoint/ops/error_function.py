"""erf on NumPy arrays, which NumPy lacks: rational approximations on four intervals of |x|, in float64.

Coefficients: W. J. Cody's form as tabulated in Sun's fdlibm (s_erf.c); error below 1 ulp of float64.
"""

from __future__ import annotations

from typing import Any

import numpy as np

# Each row is a polynomial, lowest power first: numerator, denominator.
SMALL = (
    (1.28379167095512558561e-01, -3.25042107247001499370e-01, -2.84817495755985104766e-02,
     -5.77027029648944159157e-03, -2.37630166566501626084e-05),
    (1.0, 3.97917223959155352819e-01, 6.50222499887672944485e-02, 5.08130628187576562776e-03,
     1.32494738004321644526e-04, -3.96022827877536812320e-06),
)  # fmt: skip
NEAR_ONE = (
    (-2.36211856075265944077e-03, 4.14856118683748331666e-01, -3.72207876035701323847e-01, 3.18346619901161753674e-01,
     -1.10894694282396677476e-01, 3.54783043256182359371e-02, -2.16637559486879084300e-03),
    (1.0, 1.06420880400844228286e-01, 5.40397917702171048937e-01, 7.18286544141962662868e-02,
     1.26171219808761642112e-01, 1.36370839120290507362e-02, 1.19844998467991074170e-02),
)  # fmt: skip
MIDDLE = (
    (-9.86494403484714822705e-03, -6.93858572707181764372e-01, -1.05586262253232909814e01, -6.23753324503260060396e01,
     -1.62396669462573470355e02, -1.84605092906711035994e02, -8.12874355063065934246e01, -9.81432934416914548592e00),
    (1.0, 1.96512716674392571292e01, 1.37657754143519042600e02, 4.34565877475229228821e02, 6.45387271733267880336e02,
     4.29008140027567833386e02, 1.08635005541779435134e02, 6.57024977031928170135e00, -6.04244152148580987438e-02),
)  # fmt: skip
LARGE = (
    (-9.86494292470009928597e-03, -7.99283237680523006574e-01, -1.77579549177547519889e01, -1.60636384855821916062e02,
     -6.37566443368389627722e02, -1.02509513161107724954e03, -4.83519191608651397019e02),
    (1.0, 3.03380607434824582924e01, 3.25792512996573918826e02, 1.53672958608443695994e03, 3.19985821950859553908e03,
     2.55305040643316442583e03, 4.74528541206955367215e02, -2.24409524465858183362e01),
)  # fmt: skip
ERF_NEAR_ONE = 8.45062911510467529297e-01  # erf(1), rounded to float32, about which NEAR_ONE is the correction


def erf_array(x: Any) -> Any:
    """erf(x), element by element, in the type of x (float64 inside)."""
    wide = np.asarray(x, np.float64).ravel()
    size = np.abs(wide)
    out = np.copysign(1.0, wide)
    for low, high, part in INTERVALS:
        chosen = (size >= low) & (size < high)
        if chosen.any():
            out[chosen] = part(wide[chosen])
    out[np.isnan(wide)] = np.nan
    return out.astype(np.asarray(x).dtype, copy=False).reshape(np.shape(x))


def _ratio(coefficients: Any, t: Any) -> Any:
    above, below = (np.polynomial.polynomial.polyval(t, c) for c in coefficients)
    return above / below


def _small(x: Any) -> Any:
    return x + x * _ratio(SMALL, x * x)


def _near_one(x: Any) -> Any:
    return np.copysign(ERF_NEAR_ONE + _ratio(NEAR_ONE, np.abs(x) - 1.0), x)


def _middle(x: Any) -> Any:
    return _tail(MIDDLE, x)


def _large(x: Any) -> Any:
    return _tail(LARGE, x)


def _tail(coefficients: Any, x: Any) -> Any:
    """±(1 - exp(-x²) e^(R(1/x²)) / |x|), with x² split so that its rounding does not reach the exponential."""
    size = np.abs(x)
    head = (size.view(np.int64) & np.int64(-4294967296)).view(np.float64)
    ratio = _ratio(coefficients, 1.0 / (size * size))
    complement = np.exp(-head * head - 0.5625) * np.exp((head - size) * (head + size) + ratio) / size
    return np.copysign(1.0 - complement, x)


INTERVALS = ((0.0, 0.84375, _small), (0.84375, 1.25, _near_one), (1.25, 2.857142, _middle), (2.857142, 6.0, _large))
