"""Quasirandom numbers: points of Sobol's sequence, which fill space more evenly than random ones.

Modules, in reading order:

- `directions`: Direction numbers of Sobol's sequence in up to 21,201 dimensions.
"""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np

from adjoint.core.dtype.dtype import default, numpy_dtype
from adjoint.core.random.generator import Generator
from adjoint.core.tensor.tensor import Tensor, constant
from adjoint.core.typing import Array, DtypeLike
from adjoint.functions.creation.random import randint
from adjoint.functions.shape.join import cat
from adjoint.quasirandom.directions import BITS, MAX_DIMENSION, directions

__all__ = ["SobolEngine"]


class SobolEngine:
    """Generator of the points of Sobol's sequence in [0, 1)^dimension; PyTorch's for the same seed.

    With `scramble` each dimension's digits go through a random triangular matrix and a random shift, by `seed`.

    Raises: ValueError for more dimensions than 21,201.

    Sources: Sobol, 1967; Owen, J. Complexity 14, 1998; for the digits of
    the directions Joe and Kuo, 2008; for the order of the points Antonov and Saleev, 1979.
    """

    MAXBIT: ClassVar[int] = BITS
    MAXDIM: ClassVar[int] = MAX_DIMENSION

    def __init__(self, dimension: int, scramble: bool = False, seed: int | None = None) -> None:
        if not 1 <= dimension <= self.MAXDIM:
            raise ValueError(f"Supported range of dimensionality for SobolEngine is [1, {self.MAXDIM}]")
        self.dimension, self.scramble, self.seed = dimension, scramble, seed
        state, shift = directions(dimension), np.zeros(dimension, np.int64)
        if scramble:
            state, shift = _scramble_directions(state, seed)
        self.sobolstate, self.shift = constant(state), constant(shift)
        self.quasi = constant(shift.copy())
        self._first_point: Any = (self.quasi / 2**BITS).reshape(1, -1)
        self.num_generated = 0

    def draw(self, n: int = 1, out: Tensor | None = None, dtype: DtypeLike = None) -> Tensor:
        """Return the next `n` points: (n, dimension) of float32, float64 or the default dtype.

        Raises: NotImplementedError for another dtype.
        """
        kind = numpy_dtype(dtype or default.floating)
        if kind not in (np.float32, np.float64):
            raise NotImplementedError(f"SobolEngine.draw: points are of float32 or float64, not {kind.name}")
        first = self.num_generated == 0
        digits = self._advance(n - 1 if first else n)
        result = constant(digits.astype(kind) * kind.type(2.0**-BITS))
        if first:
            result = cat((self._first_point.to(result.dtype), result), dim=-2)
        if out is None:
            return result
        written = out
        return written.resize_as_(result).copy_(result)

    def draw_base2(self, m: int, out: Tensor | None = None, dtype: DtypeLike = None) -> Tensor:
        """Return the next 2^m points. Raises ValueError unless the points so far and these are a power of two."""
        n = 2**m
        total = self.num_generated + n
        if total & (total - 1):
            raise ValueError(
                "The balance properties of Sobol' points require n to be a power of 2. "
                f"{self.num_generated} points have been previously generated, then: n={self.num_generated}+2**{m}="
                f"{total}. If you still want to do this, please use 'SobolEngine.draw()' instead."
            )
        return self.draw(n, out, dtype)

    def reset(self) -> Self:
        """Go back to the first point."""
        self.quasi.copy_(self.shift)
        self.num_generated = 0
        return self

    def fast_forward(self, n: int) -> Self:
        """Skip `n` points."""
        self._advance(n - 1 if self.num_generated == 0 else n, kept=False)
        return self

    def _advance(self, n: int, kept: bool = True) -> Array:
        """Return the digits of the next `n` points after the first, or only of the last.

        Each point differs from the one before by one direction: its number is the place of the lowest zero in the
        binary digits of that point's number.
        """
        start = max(self.num_generated - 1, 0)
        self.num_generated += n + (self.num_generated == 0)
        number = np.arange(start, start + n)
        lowest = np.bitwise_count(number & ~(number + 1))  # how many ones end the number
        steps = self.sobolstate.numpy().T
        if not kept:
            odd = np.bincount(lowest, minlength=BITS) & 1
            last = self.quasi.numpy() ^ np.bitwise_xor.reduce(steps[odd == 1], axis=0)
            self.quasi = constant(last)
            return last
        digits = np.bitwise_xor.accumulate(np.concatenate([self.quasi.numpy()[None], steps[lowest]]), axis=0)
        self.quasi = constant(digits[-1].copy())
        return digits[1:]

    def __repr__(self) -> str:
        given = [f"dimension={self.dimension}"]
        given += ["scramble=True"] if self.scramble else []
        given += [f"seed={self.seed}"] if self.seed is not None else []
        return f"{type(self).__name__}({', '.join(given)})"


def _scramble_directions(state: Array, seed: int | None) -> tuple[Array, Array]:
    """Return the directions with each digit a random sum of those up to it, and a random shift."""
    generator = None if seed is None else Generator().manual_seed(seed)
    dimension = len(state)
    shift = randint(2, (dimension, BITS), generator=generator).numpy() @ (1 << np.arange(BITS))
    matrices = np.tril(randint(2, (dimension, BITS, BITS), generator=generator).numpy(), -1) + np.eye(BITS, dtype=int)
    rows = matrices @ (1 << np.arange(BITS - 1, -1, -1))  # (dimension, 30): a matrix's rows as numbers
    mixed = np.zeros_like(state)
    for row in range(BITS):
        parity = np.bitwise_count(rows[:, row, None] & state) & 1
        mixed |= parity.astype(np.int64) << (BITS - 1 - row)
    return mixed, shift
