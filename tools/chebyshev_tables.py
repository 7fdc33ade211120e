"""ops/special/chebyshev_tables.py, made with mpmath: `python3 tools/chebyshev_tables.py` writes it anew.

Each table is the Chebyshev series, over t in [-1, 1], of a function that bessel.py, airy.py and normal_cdf.py in
ops/special evaluate; it ends where the terms no longer reach the last bit of float64.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from textwrap import fill
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
MODULE = ROOT / "src" / "adjoint" / "ops" / "special" / "chebyshev_tables.py"
HEAD = '''"""Chebyshev series of special functions, made by tools/chebyshev_tables.py, which names the functions."""

from __future__ import annotations

from adjoint.ops.special.chebyshev import parse_numbers

'''
mp: Any = import_module("mpmath")
Curve = Callable[[Any], Any]


def main() -> None:
    """Write the tables, and say whether that changed them."""
    with mp.workdps(40):
        parts = [_written(name, _series(curve, end)) for name, (curve, end) in CURVES.items()]
    text = HEAD + "".join(parts)
    fresh = MODULE.exists() and MODULE.read_text(encoding="utf-8") == text
    MODULE.write_text(text, encoding="utf-8")
    sys.stdout.write(f"{MODULE.relative_to(ROOT)}: {'as it was' if fresh else 'written anew'}\n")


def _series(curve: Curve, end: float, nodes: int = 64) -> list[float]:
    """The coefficients as far as they exceed `end` times the smallest value, which tells what is lost on the way."""
    angles = [mp.pi * (k + mp.mpf(1) / 2) / nodes for k in range(nodes)]
    values = [curve(mp.cos(a)) for a in angles]
    terms = [mp.fsum(v * mp.cos(j * a) for v, a in zip(values, angles, strict=True)) * 2 / nodes for j in range(nodes)]
    terms[0] /= 2
    smallest = end * min(abs(v) for v in values)
    last = max(j for j, c in enumerate(terms) if abs(c) > smallest)
    return [float(c) for c in terms[: last + 1]]


def _written(name: str, coefficients: list[float]) -> str:
    """The assignment of a table, its numbers in lines of at most 118 characters."""
    return f'{name} = parse_numbers("""\n{fill(" ".join(map(repr, coefficients)), 118)}\n""")\n'


def _between(low: float, high: float, f: Curve) -> Curve:
    """f over [low, high]."""
    middle, half = (mp.mpf(low) + high) / 2, (mp.mpf(high) - low) / 2
    return lambda t: f(middle + half * t)


def _beyond(start: float, f: Curve) -> Curve:
    """f over [start, ∞), as a function of 2 start / x - 1."""
    return lambda t: f(2 * start / (t + 1))


def _within(end: float, f: Curve) -> Curve:
    """f, an even function, over [0, end], as a function of 2 (x / end)² - 1."""
    return lambda t: f(end * mp.sqrt((t + 1) / 2))


def _outside(start: float, f: Curve) -> Curve:
    """f, an even function, over [start, ∞), as a function of 2 (start / x)² - 1."""
    return lambda t: f(start / mp.sqrt((t + 1) / 2))


def _amplitude(n: int, x: Any) -> tuple[Any, Any]:
    """P and x Q, with which √(πx/2) Jₙ = P cos a - Q sin a, and Yₙ likewise P sin a + Q cos a; a = x - (2n + 1) π/4."""
    j, y, a = mp.besselj(n, x), mp.bessely(n, x), x - (2 * n + 1) * mp.pi / 4
    scale = mp.sqrt(mp.pi * x / 2)
    return scale * (j * mp.cos(a) + y * mp.sin(a)), x * scale * (y * mp.cos(a) - j * mp.sin(a))


def _second_kind(n: int, x: Any) -> Any:
    """Yₙ without its logarithm and its pole, over xⁿ."""
    return (mp.bessely(n, x) - 2 / mp.pi * (mp.log(x) * mp.besselj(n, x) - mp.mpf(n) / x)) / x**n


def _decaying(n: int, x: Any) -> Any:
    """Kₙ without its logarithm, times xⁿ."""
    return (mp.besselk(n, x) + (-1) ** n * mp.log(x / 2) * mp.besseli(n, x)) * x**n


def _at_phase(f: Curve) -> Curve:
    """f(x), as a function of ζ = 2/3 x^(3/2)."""
    return lambda z: f((z * 3 / 2) ** (mp.mpf(2) / 3))


def _airy_amplitude(x: Any) -> tuple[Any, Any]:
    """P and ζ Q, with which √π x^¼ Ai(-x) = P cos a + Q sin a, a = ζ - π/4."""
    z = 2 * x**1.5 / 3
    a, scale = z - mp.pi / 4, mp.sqrt(mp.pi) * mp.sqrt(mp.sqrt(x))
    ai, bi = mp.airyai(-x), mp.airybi(-x)
    return scale * (ai * mp.cos(a) - bi * mp.sin(a)), z * scale * (ai * mp.sin(a) + bi * mp.cos(a))


def _quantile_tail(x: Any) -> Any:
    """(x + Φ⁻¹(exp(-x²/2))) x - ln x."""
    start = (mp.log(x) + mp.log(2 * mp.pi) / 2) / x - x
    z = mp.findroot(lambda z: mp.log(mp.erfc(-z / mp.sqrt(2)) / 2) + x * x / 2, start)
    return (x + z) * x - mp.log(x)


def _quantile_slope(y: Any) -> Any:
    """Φ⁻¹(½ + y) / y."""
    return mp.findroot(lambda z: mp.erf(z / mp.sqrt(2)) / 2 - y, 2.5 * y) / y


def _phase(x: int) -> Any:
    return mp.mpf(2) / 3 * mp.mpf(x) ** 1.5


RELATIVE, ABSOLUTE = 2e-17, 2e-15  # the second for functions with zeros, whose smallest value says nothing

CURVES: dict[str, tuple[Curve, float]] = {
    "I0_NEAR": (_between(0, 8, lambda x: mp.exp(-x) * mp.besseli(0, x)), RELATIVE),
    "I0_FAR": (_beyond(8, lambda x: mp.sqrt(x) * mp.exp(-x) * mp.besseli(0, x)), RELATIVE),
    "I1_NEAR": (_between(0, 8, lambda x: mp.exp(-x) * mp.besseli(1, x) / x), RELATIVE),
    "I1_FAR": (_beyond(8, lambda x: mp.sqrt(x) * mp.exp(-x) * mp.besseli(1, x)), RELATIVE),
    "J0_NEAR": (_within(8, lambda x: mp.besselj(0, x)), ABSOLUTE),
    "J1_NEAR": (_within(8, lambda x: mp.besselj(1, x) / x), ABSOLUTE),
    "Y0_NEAR": (_within(8, lambda x: _second_kind(0, x)), ABSOLUTE),
    "Y1_NEAR": (_within(8, lambda x: _second_kind(1, x)), ABSOLUTE),
    "P0": (_outside(8, lambda x: _amplitude(0, x)[0]), RELATIVE),
    "Q0": (_outside(8, lambda x: _amplitude(0, x)[1]), RELATIVE),
    "P1": (_outside(8, lambda x: _amplitude(1, x)[0]), RELATIVE),
    "Q1": (_outside(8, lambda x: _amplitude(1, x)[1]), RELATIVE),
    "K0_NEAR": (_within(2, lambda x: _decaying(0, x)), ABSOLUTE),
    "K1_NEAR": (_within(2, lambda x: _decaying(1, x)), RELATIVE),
    "K0_FAR": (_beyond(2, lambda x: mp.sqrt(x) * mp.exp(x) * mp.besselk(0, x)), RELATIVE),
    "K1_FAR": (_beyond(2, lambda x: mp.sqrt(x) * mp.exp(x) * mp.besselk(1, x)), RELATIVE),
    "AIRY_FAR_LEFT_P": (_outside(_phase(5), _at_phase(lambda x: _airy_amplitude(x)[0])), RELATIVE),
    "AIRY_FAR_LEFT_Q": (_outside(_phase(5), _at_phase(lambda x: _airy_amplitude(x)[1])), RELATIVE),
    "AIRY_LEFT": (_between(-5, -2, mp.airyai), ABSOLUTE),
    "AIRY_MIDDLE": (_between(-2, 2, lambda x: mp.airyai(x) * mp.exp(11 * x / 10)), RELATIVE),
    "AIRY_RIGHT": (
        _beyond(_phase(2), lambda z: _at_phase(mp.airyai)(z) * mp.exp(z) * mp.cbrt(1.5 * z) ** 0.5), RELATIVE,
    ),
    "ERFCX": (lambda t: _scaled_erfc(mp.mpf(15) / 4 * (1 + t) / (1 - t)), RELATIVE),
    "QUANTILE_MIDDLE": (_within(0.375, _quantile_slope), RELATIVE),
    "QUANTILE_NEAR": (lambda t: _quantile_tail(1 / _between(1 / mp.mpf(8), 1 / mp.mpf(2), lambda u: u)(t)), RELATIVE),
    "QUANTILE_FAR": (lambda t: _quantile_tail(1 / _between(1 / mp.mpf(39), 1 / mp.mpf(8), lambda u: u)(t)), RELATIVE),
}  # fmt: skip


def _scaled_erfc(x: Any) -> Any:
    """(1 + 2x) exp(x²) erfc x: Shepherd & Laframboise, 1981."""
    return (1 + 2 * x) * mp.exp(x * x) * mp.erfc(x)


if __name__ == "__main__":
    main()
