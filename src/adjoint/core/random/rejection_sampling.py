"""The integers that a draw into a dtype may cover: those asked for, as far as the dtype tells them apart."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from adjoint.core.random.libm_functions import log
from adjoint.core.typing import NumpyDtype, Operand


def representable_range(kind: NumpyDtype, low: int, high: int) -> tuple[int, int]:
    """[low, high) without the ends that the dtype would round out of it. Raises RuntimeError for an empty range.

    Warns where a floating dtype has gaps between the integers.
    """
    if not low < high:
        raise RuntimeError(f"random_ expects 'from' to be less than 'to', but got from={low} >= to={high}")
    if kind.kind in "fV" and low >= -(2**63) and high < 2**63:
        low, high = _first_representable(kind, low), _end_representable(kind, high)
        if not low < high:
            raise RuntimeError(
                f"random_ expects 'from' casted to dtype to be less than 'to' casted to dtype, but got from={low} >= "
                f"to={high}"
            )
    _check(kind, low, high - 1)
    return low, high


def range_to_largest(kind: NumpyDtype, low: int) -> tuple[int, int]:
    """[low, high) with the largest integer of the dtype as the last. Raises RuntimeError for a lower bound beyond."""
    last = largest_exact_integer(kind)
    if low == -(2**63):
        if kind in (np.float16, np.bool_):
            raise NotImplementedError(f"random_ over all integers of 64 bits is not implemented for {kind}")
        if kind.kind not in "fV" and kind != np.int64:
            raise RuntimeError(f"random_ over all integers of 64 bits handles int64 and floating dtypes, not {kind}")
        return low, 2**63
    if kind.kind in "fV":
        low = _first_representable(kind, low)
        if not low < last:
            raise RuntimeError(
                "random_ expects 'from' casted to dtype to be less than or equal to 'to_inc' casted to dtype, but got "
                f"from={low} > to_inc={last}"
            )
    _check(kind, low, last)
    return low, last + 1


@cache
def largest_exact_integer(kind: NumpyDtype) -> int:
    """The largest integer up to which the dtype has no gaps, that of int64 at most."""
    if kind == np.bool_:
        return 1
    return 2 ** _digits(kind) if kind.kind in "fV" else min(int(np.iinfo(kind).max), 2**63 - 1)


@cache
def _smallest_exact_integer(kind: NumpyDtype) -> int:
    return -largest_exact_integer(kind) if kind.kind in "fV" else 0 if kind == np.bool_ else int(np.iinfo(kind).min)


def _check(kind: NumpyDtype, low: int, last: int) -> None:
    smallest, exact = _smallest_exact_integer(kind), largest_exact_integer(kind)
    if smallest <= low and last <= exact:
        return
    for name, value in (("from", low), ("to - 1", last)):
        if smallest <= value <= exact:
            continue
        if kind.kind not in "fV" or abs(value) > (2.0**128 if kind.kind == "V" else float(np.finfo(kind).max)):
            raise RuntimeError(f"{name} is out of bounds for {kind}: the range is from {low} to {last}")
        warnings.warn(
            f"{name} is out of bounds [-(2^{_digits(kind)}), 2^{_digits(kind)}]. Due to precision limitations {kind} "
            "can support discrete uniform distribution only within this range. This warning will become an error in "
            "version 1.7 release, please fix the code in advance",
            UserWarning,
            stacklevel=6,
        )


def _digits(kind: NumpyDtype) -> int:
    return 8 if kind.kind == "V" else int(np.finfo(kind).nmant) + 1


def _first_representable(kind: NumpyDtype, low: int) -> int:
    """The lowest number of a floating dtype from `low` on, where low + 1 is rounded below it."""
    rounded = _round_through_dtype(kind, low + 1)
    return low if rounded >= low else rounded + (1 << abs(low + 1).bit_length() - _digits(kind))


def _end_representable(kind: NumpyDtype, high: int) -> int:
    """The highest number of a floating dtype below `high`, where high - 1 is rounded to it or above."""
    rounded = _round_through_dtype(kind, high - 1)
    return high if rounded < high else rounded - (1 << abs(high - 1).bit_length() - _digits(kind))


def _round_through_dtype(kind: NumpyDtype, value: int) -> int:
    """An integer through the dtype; the smallest of int64, as C has it, for what int64 has not."""
    with np.errstate(over="ignore"):
        through = float(np.array(value, np.int64).astype(np.float32 if kind.itemsize == 2 else kind).astype(kind))
    return int(through) if math.isfinite(through) and -(2.0**63) <= through < 2.0**63 else -(2**63)


Draw = Callable[[], float]

STIRLING = (
    0.0810614667953272,
    0.0413406959554092,
    0.0276779256849983,
    0.02079067210376509,
    0.0166446911898211,
    0.0138761288230707,
    0.0118967099458917,
    0.0104112652619720,
    0.00925546218271273,
    0.00833056343336287,
)
THIRD, SQUEEZE = float(np.float32(1 / 3)), float(np.float32(0.0331))  # PyTorch's literals are single ones


def poisson(rate: float, uniform: Draw) -> float:
    """Draw the number of events of a Poisson process. Source: Knuth below a rate of 10, else PTRS of Hörmann (1993)."""
    if rate == 0:
        return 0
    if rate >= 10:
        return _poisson_by_transformed_rejection(rate, uniform)
    limit, events, product = math.exp(-rate), 0, uniform()
    while product > limit:
        events += 1
        product *= uniform()
    return events


def _poisson_by_transformed_rejection(rate: float, uniform: Draw) -> float:
    log_rate = math.log(rate)
    b = 0.931 + 2.53 * math.sqrt(rate)
    a = -0.059 + 0.02483 * b
    log_scale = math.log(1.1239 + 1.1328 / (b - 3.4))
    inside = 0.9277 - 3.6224 / (b - 2)
    while True:
        u, v = uniform() - 0.5, uniform()
        us = 0.5 - abs(u)
        k = math.floor((2 * a / us + b) * u + rate + 0.43) if us else -1
        if us >= 0.07 and v <= inside:
            return k
        if k < 0 or (us < 0.013 and v > us):
            continue
        if log(v) + log_scale - math.log(a / (us * us) + b) <= -rate + k * log_rate - math.lgamma(k + 1):
            return k


def binomial(count: np.floating[Any], chance: np.floating[Any], uniform: Draw) -> float:
    """Draw the number of successes in `count` trials of this chance, both float32 or float64, as all that follows.

    Source: geometric waiting times where few are expected, else BTRS of Hörmann (1993).
    """
    if count <= 0 or chance <= 0:
        return 0
    if chance >= 1:
        return float(count)
    if not chance > 0:
        return math.nan
    rarer = chance if chance <= 0.5 else type(chance)(1 - chance)
    draw = _binomial_by_transformed_rejection if count * rarer >= 10 else _binomial_by_waiting
    successes = draw(count, rarer, uniform)
    return successes if chance <= 0.5 else float(count) - successes


def _binomial_by_waiting(count: Operand, chance: Operand, uniform: Draw) -> float:
    log_failure = float(type(chance)(math.log1p(-chance)))
    trials, successes = 0.0, -1
    while trials <= count:
        u = uniform()
        trials += math.ceil(math.log(u) / log_failure) if u else math.inf
        successes += 1
    return successes


def _binomial_by_transformed_rejection(trials: Operand, chance: Operand, uniform: Draw) -> float:
    spread, odds = float(np.sqrt(trials * chance * (1 - chance))), float(chance / (1 - chance))
    m, c = float(np.floor((trials + 1) * chance)), float(trials * chance) + 0.5
    count = float(trials)
    b = 1.15 + 2.53 * spread
    a = -0.0873 + 0.0248 * b + 0.01 * float(chance)
    inside = 0.92 - 4.2 / b
    alpha = (2.83 + 5.1 / b) * spread
    while True:
        u, v = uniform() - 0.5, uniform()
        us = 0.5 - abs(u)
        k = math.floor((2 * a / us + b) * u + c) if us else -1
        if k < 0 or k > count:
            continue
        if us >= 0.07 and v <= inside:
            return k
        bound = (
            (m + 0.5) * math.log((m + 1) / (odds * (count - m + 1)))
            + (count + 1) * math.log((count - m + 1) / (count - k + 1))
            + (k + 0.5) * math.log(odds * (count - k + 1) / (k + 1))
            + _stirling_error(m)
            + _stirling_error(count - m)
            - _stirling_error(k)
            - _stirling_error(count - k)
        )
        if log(v * alpha / (a / (us * us) + b)) <= bound:
            return k


def gamma(shape: np.floating[Any], uniform: Draw, normal: Draw) -> float:
    """A number of the gamma distribution of a shape, float32 or float64, with scale 1. Source: Marsaglia and Tsang."""
    scale = 1.0
    if shape < 1:
        if shape == 0:
            return 0
        scale = (1 - uniform()) ** float(1 / shape)
        shape = shape + type(shape)(1)
    d = float(shape - type(shape)(THIRD))
    c = 1 / math.sqrt(9 * d)
    while True:
        y = 0.0
        while y <= 0:
            x = normal()
            y = 1 + c * x
        v = y * y * y
        u = 1 - uniform()
        square = x * x
        if u < 1 - SQUEEZE * square * square or math.log(u) < 0.5 * square + d * (1 - v + math.log(v)):
            return scale * d * v


def _stirling_error(k: float) -> float:
    """ln k! less Stirling's approximation of it."""
    if k < len(STIRLING):
        return STIRLING[int(k)]
    square = (k + 1) * (k + 1)
    return (1 / 12 - (1 / 360 - 1 / 1260 / square) / square) / (k + 1)
