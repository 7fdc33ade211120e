"""The integers that a draw into a dtype may cover: those asked for, as far as the dtype tells them apart."""

from __future__ import annotations

import math
import warnings
from functools import cache
from typing import Any

import numpy as np

Kind = np.dtype[Any]


def between(kind: Kind, low: int, high: int) -> tuple[int, int]:
    """[low, high) without the ends that the dtype would round out of it. Raises RuntimeError for an empty range.

    Warns where a floating dtype has gaps between the integers.
    """
    if not low < high:
        raise RuntimeError(f"random_ expects 'from' to be less than 'to', but got from={low} >= to={high}")
    if kind.kind in "fV" and low >= -(2**63) and high < 2**63:
        low, high = _first(kind, low), _end(kind, high)
        if not low < high:
            raise RuntimeError(
                f"random_ expects 'from' casted to dtype to be less than 'to' casted to dtype, but got from={low} >= "
                f"to={high}"
            )
    _check(kind, low, high - 1)
    return low, high


def upwards(kind: Kind, low: int) -> tuple[int, int]:
    """[low, high) with the largest integer of the dtype as the last. Raises RuntimeError for a lower bound beyond."""
    last = largest(kind)
    if low == -(2**63):
        if kind in (np.float16, np.bool_):
            raise NotImplementedError(f"random_ over all integers of 64 bits is not implemented for {kind}")
        if kind.kind not in "fV" and kind != np.int64:
            raise RuntimeError(f"random_ over all integers of 64 bits handles int64 and floating dtypes, not {kind}")
        return low, 2**63
    if kind.kind in "fV":
        low = _first(kind, low)
        if not low < last:
            raise RuntimeError(
                "random_ expects 'from' casted to dtype to be less than or equal to 'to_inc' casted to dtype, but got "
                f"from={low} > to_inc={last}"
            )
    _check(kind, low, last)
    return low, last + 1


@cache
def largest(kind: Kind) -> int:
    """The largest integer up to which the dtype has no gaps, that of int64 at most."""
    if kind == np.bool_:
        return 1
    return 2 ** _digits(kind) if kind.kind in "fV" else min(int(np.iinfo(kind).max), 2**63 - 1)


@cache
def _smallest(kind: Kind) -> int:
    return -largest(kind) if kind.kind in "fV" else 0 if kind == np.bool_ else int(np.iinfo(kind).min)


def _check(kind: Kind, low: int, last: int) -> None:
    smallest, exact = _smallest(kind), largest(kind)
    if smallest <= low and last <= exact:
        return
    for name, value in (("from", low), ("to - 1", last)):
        if smallest <= value <= exact:
            continue
        if kind.kind not in "fV" or abs(value) > _greatest(kind):
            raise RuntimeError(f"{name} is out of bounds for {kind}: the range is from {low} to {last}")
        warnings.warn(
            f"{name} is out of bounds [-(2^{_digits(kind)}), 2^{_digits(kind)}]. Due to precision limitations {kind} "
            "can support discrete uniform distribution only within this range. This warning will become an error in "
            "version 1.7 release, please fix the code in advance",
            UserWarning,
            stacklevel=6,
        )


def _digits(kind: Kind) -> int:
    return 8 if kind.kind == "V" else int(np.finfo(kind).nmant) + 1


def _greatest(kind: Kind) -> float:
    return 2.0**128 if kind.kind == "V" else float(np.finfo(kind).max)


def _first(kind: Kind, low: int) -> int:
    """The lowest number of a floating dtype from `low` on, where low + 1 is rounded below it."""
    rounded = _rounded(kind, low + 1)
    return low if rounded >= low else rounded + (1 << abs(low + 1).bit_length() - _digits(kind))


def _end(kind: Kind, high: int) -> int:
    """The highest number of a floating dtype below `high`, where high - 1 is rounded to it or above."""
    rounded = _rounded(kind, high - 1)
    return high if rounded < high else rounded - (1 << abs(high - 1).bit_length() - _digits(kind))


def _rounded(kind: Kind, value: int) -> int:
    """An integer through the dtype; the smallest of int64, as C has it, for what int64 has not."""
    with np.errstate(over="ignore"):
        through = float(np.array(value, np.int64).astype(np.float32 if kind.itemsize == 2 else kind).astype(kind))
    return int(through) if math.isfinite(through) and -(2.0**63) <= through < 2.0**63 else -(2**63)
