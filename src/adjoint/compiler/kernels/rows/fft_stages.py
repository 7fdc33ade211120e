"""Fourier transforms of small prime factors, by stages; each lane has a transform of its own.

A stage takes r parts of what is left of each transform, combines them by a transform of r elements, and turns the
results by roots of unity (Stockham's order, which needs no reversal of digits). The roots are tables in the text.

Source: Van Loan, Computational Frameworks for the Fast Fourier Transform, 1992.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

from adjoint.compiler.llvm.builder import Builder
from adjoint.compiler.llvm.types import Reg, Type

MAX_PRIME_FACTOR = 13
Complex = tuple[Reg, Reg]


def factorize(n: int) -> list[int] | None:
    """The radices of a transform of n elements, 4 before 2 before odd primes; None for a prime factor too large."""
    factors = []
    while n % 4 == 0:
        factors.append(4)
        n //= 4
    for prime in (2, 3, 5, 7, 11, 13):
        while n % prime == 0:
            factors.append(prime)
            n //= prime
    return factors if n == 1 else None


def root_of_unity(k: int, n: int) -> tuple[float, float]:
    """The real and the imaginary part of e^(-2πik/n); the angle is brought to an eighth of the circle first."""
    turn = Fraction(k % n, n)
    quarter, rest = divmod(turn, Fraction(1, 4))
    mirrored = rest > Fraction(1, 8)
    angle = 2 * math.pi * float(Fraction(1, 4) - rest if mirrored else rest)
    c, s = math.cos(angle), math.sin(angle)
    if mirrored:
        c, s = s, c
    for _ in range(int(quarter)):
        c, s = -s, c
    return c, -s


class SpectrumPlane(NamedTuple):
    """Complex elements of as many transforms as a register has lanes, real and imaginary parts side by side.

    `inverse`: which of the two is taken for the real part decides the sign of the exponent.
    """

    b: Builder
    memory: Reg
    kind: Type
    inverse: bool = False

    def load(self, index: Reg | int) -> Complex:
        """The element of all transforms at an index."""
        first, second = (self.b.load(self._place(index, part), self.kind) for part in (0, 1))
        return (second, first) if self.inverse else (first, second)

    def store(self, index: Reg | int, value: Complex) -> None:
        """Write the element of all transforms at an index."""
        for part, register in enumerate(reversed(value) if self.inverse else value):
            self.b.store(register, self._place(index, part))

    def _place(self, index: Reg | int, part: int) -> Reg:
        lanes = self.kind.lanes
        if isinstance(index, int):
            return self.b.gep(self.memory, (2 * index + part) * lanes, self.kind.scalar)
        at = self.b.mul(index, 2 * lanes)
        return self.b.gep(self.memory, self.b.add(at, part * lanes) if part else at, self.kind.scalar)


def write_transform(b: Builder, source: SpectrumPlane, spare: SpectrumPlane, n: int) -> SpectrumPlane:
    """Transform n elements; return where the result is, one of the two."""
    factors = factorize(n)
    assert factors is not None
    # Stockham's order: each stage reads one plane and writes the other in the order that the next one reads, so that no
    # bits are reversed at the end.
    left, done = n, 1
    for radix in factors:
        _write_stage(b, source, spare, left, done, radix)
        source, spare, left, done = spare, source, left // radix, done * radix
    return source


def _write_stage(b: Builder, source: SpectrumPlane, target: SpectrumPlane, left: int, done: int, radix: int) -> None:
    """`left`: elements in each of the `done` transforms that are left to do."""
    parts, kind = left // radix, source.kind
    roots = [root_of_unity(p * j, left) for p in range(parts) for j in range(1, radix)]
    table = b.table([part for root in roots for part in root], kind.scalar) if parts > 1 else None

    def combine(p: Reg | int, q: Reg | int) -> None:
        def index(step: int, offset: int) -> Reg | int:
            if isinstance(p, int):
                return b.add(q, offset * done) if isinstance(q, Reg) else q + offset * done
            first = b.mul(p, step * done) if step * done > 1 else p
            first = b.add(first, q) if not isinstance(q, int) else first
            return b.add(first, offset * done) if offset else first

        given = [source.load(index(1, parts * j)) for j in range(radix)]
        made = combine_parts(b, given)
        for j, value in enumerate(made):
            if j and table is not None and isinstance(p, Reg):
                at = b.add(b.mul(p, 2 * (radix - 1)), 2 * (j - 1))
                root = tuple(
                    b.broadcast(b.load(b.gep(table, b.add(at, k), kind.scalar), kind.scalar), kind.lanes)
                    for k in (0, 1)
                )
                value = multiply(b, value, (root[0], root[1]))
            target.store(index(radix, j), value)

    # The last stage has no roots to multiply by, and the first no inner loop.
    if parts == 1:
        with b.loop(0, done) as turn:
            combine(0, turn.index)
    elif done == 1:
        with b.loop(0, parts) as turn:
            combine(turn.index, 0)
    else:
        with b.loop(0, parts) as outer, b.loop(0, done) as turn:
            combine(outer.index, turn.index)


def multiply(b: Builder, x: Complex, y: Complex) -> Complex:
    """x · y."""
    return (
        b.fma(x[0], y[0], b.neg(b.mul(x[1], y[1]))),
        b.fma(x[0], y[1], b.mul(x[1], y[0])),
    )


def combine_parts(b: Builder, x: Sequence[Complex]) -> list[Complex]:
    """The transform of as many elements as are given: 2, 4, or an odd prime."""
    if len(x) == 2:
        return [_add(b, x[0], x[1]), _sub(b, x[0], x[1])]
    if len(x) == 4:
        even, odd = _add(b, x[0], x[2]), _add(b, x[1], x[3])
        apart, turned = _sub(b, x[0], x[2]), _sub(b, x[1], x[3])
        return [
            _add(b, even, odd),
            (b.add(apart[0], turned[1]), b.sub(apart[1], turned[0])),
            _sub(b, even, odd),
            (b.sub(apart[0], turned[1]), b.add(apart[1], turned[0])),
        ]
    return _combine_prime(b, x)


def _combine_prime(b: Builder, x: Sequence[Complex]) -> list[Complex]:
    """Pairs j and r - j share their cosines and sines."""
    r = len(x)
    half = range(1, r // 2 + 1)
    sums = [_add(b, x[j], x[r - j]) for j in half]
    differences = [_sub(b, x[j], x[r - j]) for j in half]
    total = x[0]
    for each in sums:
        total = _add(b, total, each)
    made = [total] * r
    for k in half:
        cosines, sines = zip(*(root_of_unity(j * k, r) for j in half), strict=True)
        even = tuple(_weigh(b, x[0][part], [s[part] for s in sums], cosines) for part in (0, 1))
        odd = tuple(_weigh(b, None, [d[part] for d in differences], [-s for s in sines]) for part in (0, 1))
        made[k] = b.add(even[0], odd[1]), b.sub(even[1], odd[0])
        made[r - k] = b.sub(even[0], odd[1]), b.add(even[1], odd[0])
    return made


def _weigh(b: Builder, first: Reg | None, values: Sequence[Reg], weights: Sequence[float]) -> Reg:
    total = first
    for value, weight in zip(values, weights, strict=True):
        total = b.mul(value, weight) if total is None else b.fma(value, weight, total)
    assert total is not None
    return total


def _add(b: Builder, x: Complex, y: Complex) -> Complex:
    return b.add(x[0], y[0]), b.add(x[1], y[1])


def _sub(b: Builder, x: Complex, y: Complex) -> Complex:
    return b.sub(x[0], y[0]), b.sub(x[1], y[1])


def write_half_spectrum(b: Builder, source: SpectrumPlane, target: SpectrumPlane, half: int) -> None:
    """The spectrum of 2·half real numbers, taken as `half` complex ones, from the transform of these."""
    table = b.table([part for k in range(half + 1) for part in root_of_unity(k, 2 * half)], source.kind.scalar)
    with b.loop(0, half + 1) as turn:
        k = turn.index
        x = source.load(b.select(b.eq(k, half), 0, k))
        mirrored = source.load(b.select(b.eq(k, 0), 0, b.sub(half, k)))
        even = b.add(x[0], mirrored[0]), b.sub(x[1], mirrored[1])
        odd = b.sub(x[0], mirrored[0]), b.add(x[1], mirrored[1])
        turned = multiply(b, (odd[1], b.neg(odd[0])), _load_root(b, table, k, source.kind))
        target.store(k, (b.mul(b.add(even[0], turned[0]), 0.5), b.mul(b.add(even[1], turned[1]), 0.5)))


def write_packed_spectrum(b: Builder, source: SpectrumPlane, target: SpectrumPlane, half: int) -> None:
    """The `half` complex numbers whose inverse transform is 2·half real ones, from half a spectrum.

    The imaginary parts of its first and last element are taken as 0.
    """
    table = b.table([part for k in range(half + 1) for part in root_of_unity(k, 2 * half)], source.kind.scalar)
    zero = b.constant(0.0, source.kind)
    with b.loop(0, half) as turn:
        k = turn.index
        x, mirrored = source.load(k), source.load(b.sub(half, k))
        ends = b.eq(k, 0)
        x, mirrored = (x[0], b.select(ends, zero, x[1])), (mirrored[0], b.select(ends, zero, mirrored[1]))
        even = b.add(x[0], mirrored[0]), b.sub(x[1], mirrored[1])
        odd = b.sub(x[0], mirrored[0]), b.add(x[1], mirrored[1])
        root = _load_root(b, table, k, source.kind)
        turned = multiply(b, odd, (root[0], b.neg(root[1])))
        target.store(k, (b.sub(even[0], turned[1]), b.add(even[1], turned[0])))


def _load_root(b: Builder, table: Reg, k: Reg, kind: Type) -> Complex:
    at = b.mul(k, 2)
    first, second = (b.load(b.gep(table, b.add(at, i), kind.scalar), kind.scalar) for i in (0, 1))
    return b.broadcast(first, kind.lanes), b.broadcast(second, kind.lanes)
