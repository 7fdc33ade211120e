"""Random numbers as arrays: PyTorch's CPU generator, with its numbers, its use of the stream and its states."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from adjoint.core.dtype.dtype import DTYPES, is_bfloat16
from adjoint.core.random.box_muller import BLOCK
from adjoint.core.random.generator_state import (
    FLOAT64,
    SECONDS_PER_CALL,
    SECONDS_PER_EXPONENTIAL,
    SECONDS_PER_EXPONENTIAL_CALL,
    SECONDS_PER_INTEGER,
    SECONDS_PER_SWAP,
    RandomStream,
    entropy_seed,
)
from adjoint.core.random.libm_functions import apply_libm
from adjoint.core.random.rejection_sampling import largest_exact_integer, range_to_largest, representable_range
from adjoint.core.runtime.libm import fused_multiply_add
from adjoint.core.typing import Array, NumpyDtype

Shape = int | Sequence[int]
FLOAT32, INT64 = np.dtype(np.float32), np.dtype(np.int64)
BITS_OF_ONE = {kind: np.ones((), kind).view(f"u{kind.itemsize}") for kind in (FLOAT32, FLOAT64)}
LARGEST_NUMBERS = {kind: float(np.finfo(kind).max) for kind in (FLOAT32, FLOAT64)}  # `finfo` takes as long as a draw


class Generator(RandomStream):
    """A stream of random numbers: `Generator().manual_seed(0)` gives what `torch.Generator().manual_seed(0)` gives.

    Every sampling method takes a shape and a NumPy dtype, returns a new C-contiguous array and moves the stream as far
    as PyTorch does. A call with invalid arguments raises and moves nothing. Threads may share a generator; copies and
    pickles continue from the same place on their own.
    """

    def uniform(self, shape: Shape, dtype: NumpyDtype | type | str, low: float = 0.0, high: float = 1.0) -> Array:
        """u (high - low) + low, with u uniform on [0, 1): 24 bits of a word for float32, 53 of two for float64.

        Types of 16 bits get what float32 would, rounded.
        """
        sizes, kind = _check_sizes(shape), _check_floating_dtype("uniform", dtype)
        if kind.itemsize == 2:
            sample = self.uniform(sizes, np.float32, low, high).astype(kind)
            sample[sample == kind.type(high)] = kind.type(low)  # rounding may reach the open end
            return sample
        if low == 0 and high == 1:
            with self._lock:
                drawn = self._draw_units(math.prod(sizes), kind)
            return drawn if len(sizes) == 1 else drawn.reshape(sizes)
        limit = LARGEST_NUMBERS[kind]
        if not (abs(low) <= limit and abs(high) <= limit):
            raise RuntimeError(f"uniform: low and high must be finite numbers of {kind}, but got {low:g} and {high:g}")
        if not low <= high:
            raise RuntimeError(f"uniform_ expects to return a [from, to) range, but found from={low:g} > to={high:g}")
        if high - low > limit:
            raise RuntimeError(
                f"uniform_ expects to-from <= {limit:g}, the largest number of {kind}, but found to={high:g} and "
                f"from={low:g}"
            )
        with self._lock:
            return self._draw_uniforms(math.prod(sizes), kind, low, high).reshape(sizes)

    def normal(self, shape: Shape, dtype: NumpyDtype | type | str, mean: float = 0.0, std: float = 1.0) -> Array:
        """z std + mean, with z standard normal by Box and Muller.

        From 16 elements on, uniforms of the dtype in blocks of 16, and 16 more for the last 16 elements unless the
        blocks come out even. Below that, pairs in float64, of which the second is kept for the next such call. Types
        of 16 bits take float32, and no uniforms for the elements that the last 16 replace.
        """
        sizes, kind = _check_sizes(shape), _check_floating_dtype("normal", dtype)
        if not std >= 0:
            raise RuntimeError(f"normal expects std >= 0.0, but found std {std:g}")
        count = math.prod(sizes)
        if count == 0:
            return np.empty(sizes, kind)
        with self._lock:
            standard = self._few_normals(count) if count < BLOCK else self._many_normals(count, kind)
        if mean != 0:
            sample = fused_multiply_add(standard, standard.dtype.type(std), standard.dtype.type(mean))
        elif std != 1:  # nothing is rounded twice; adding 0 turns -0 into 0, as the fused operation does
            sample = standard * standard.dtype.type(std)
            sample += 0
        else:
            sample = standard
        if sample.dtype is not kind:
            sample = sample.astype(kind)
        return sample if len(sizes) == 1 else sample.reshape(sizes)

    def exponential(self, shape: Shape, dtype: NumpyDtype | type | str, lambd: float = 1.0) -> Array:
        """-ln(1 - u) / lambd, with u uniform on [0, 1), in float64 whatever the dtype."""
        sizes, kind = _check_sizes(shape), _check_floating_dtype("exponential", dtype)
        if not lambd > 0:
            raise RuntimeError(f"exponential_ expects lambda > 0.0, but found lambda={lambd:g}")
        count = math.prod(sizes)
        with self._lock:
            native = self._native_sampler(SECONDS_PER_EXPONENTIAL_CALL + count * SECONDS_PER_EXPONENTIAL)
            if native is not None and count and kind.char in "fd":
                waits: Array = native.exponentials(count, kind, lambd)
                return waits.reshape(sizes)
            unit = self._draw_units(count, FLOAT64)
        return cast_sample(-1.0 / lambd * apply_libm(math.log1p, -unit), kind).reshape(sizes)

    def bernoulli(self, shape: Shape, p: float | Array, dtype: NumpyDtype | type | str) -> Array:
        """1 where u < p, else 0, with u uniform on [0, 1).

        u is a float64 for a number p, and of the dtype of p for an array, float32 or float64, which is broadcast.
        """
        sizes, kind = _check_sizes(shape), _check_discrete_dtype("bernoulli", dtype)
        chances: float | Array = p
        if isinstance(p, np.ndarray):
            unit_kind = _check_floating_dtype("bernoulli with an array p", p.dtype)
            if unit_kind.itemsize == 2:
                p, unit_kind = p.astype(np.float32), np.dtype(np.float32)
            chances = (p if p.shape == sizes else np.broadcast_to(p, sizes)).reshape(-1)
            # bits above those of 1.0 are of larger numbers, of negative ones, -0.0 too, and of NaN
            most = BITS_OF_ONE[unit_kind]
            if p.size and np.maximum.reduce(p.view(most.dtype), None) > most:
                outside = ~((p >= 0) & (p <= 1))
                if outside.any():
                    first = p[outside][0]
                    raise RuntimeError(f"bernoulli_ expects p to be in [0, 1], but got p={first:g} in an array p")
        else:
            if not 0 <= p <= 1:
                raise RuntimeError(f"bernoulli_ expects p to be in [0, 1], but got p={p:g}")
            unit_kind = np.dtype(np.float64)
        with self._lock:
            unit = self._draw_units(math.prod(sizes), unit_kind)
        sample: Array = np.less(unit, chances, unit) if kind is unit_kind else np.less(unit, chances).astype(kind)
        return sample.reshape(sizes)

    def dropout(self, shape: Shape, p: float, dtype: NumpyDtype | type | str) -> Array:
        """1 / (1 - p) with probability 1 - p, else 0: what `dropout` multiplies with. p = 0 and p = 1 draw nothing."""
        sizes, kind = _check_sizes(shape), _check_floating_dtype("dropout", dtype)
        if not 0 <= p <= 1:
            raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
        if p in {0, 1}:
            return np.full(sizes, 1 - p, kind)
        if kind.itemsize == 2:
            return self.dropout(sizes, p, np.float32).astype(kind)
        kept = self.bernoulli(sizes, 1 - p, kind)
        kept /= kind.type(1 - p)
        return kept

    def randint(self, low: int, high: int | None, shape: Shape, dtype: NumpyDtype | type | str) -> Array:
        """low + w mod (high - low), where w is one word, or two for ranges of 2**28 and more; None: all above `low`."""
        sizes, kind = _check_sizes(shape), _check_discrete_dtype("randint", dtype)
        low, high = range_to_largest(kind, low) if high is None else representable_range(kind, low, high)
        count, span = math.prod(sizes), high - low
        if count == 1 and kind is INT64 and span < 2**28:
            with self._lock:
                return np.array(low + self._stream.word() % span, INT64).reshape(sizes)
        with self._lock:
            is_native = count and span < 2**28
            native = self._native_sampler(SECONDS_PER_CALL + count * SECONDS_PER_INTEGER) if is_native else None
            if native is not None:
                return cast_sample(native.integers(count, low, span), kind).reshape(sizes)
            words = self._stream.double_words(count) if span >= 2**28 else self._stream.words(count)
        if span != 2**64:
            words %= np.uint64(span)
            if low:
                words += np.uint64(low % 2**64)
        numbers = words.view(INT64)
        if kind is not INT64:
            numbers = cast_sample(numbers, kind)
        return numbers if len(sizes) == 1 else numbers.reshape(sizes)

    def random(self, shape: Shape, dtype: NumpyDtype | type | str) -> Array:
        """Integers from 0 to the largest of the dtype, or to 2**24 for float32 and 2**53 for float64 (`random_`)."""
        sizes, kind = _check_sizes(shape), _check_discrete_dtype("random", dtype)
        if kind.kind == "u" and kind.itemsize > 1:
            raise NotImplementedError(f'"random_kernel_cpu" not implemented for {kind}')
        with self._lock:
            draw = self._stream.double_words if kind.itemsize == 8 else self._stream.words
            words = draw(math.prod(sizes))
        return cast_sample((words % np.uint64(largest_exact_integer(kind) + 1)).view(np.int64), kind).reshape(sizes)

    def randperm(self, n: int, dtype: NumpyDtype | type | str = np.int64) -> Array:
        """A permutation of 0 to n - 1, (n,): Fisher and Yates from the front, a word for each place but the last."""
        (n,), kind = _check_sizes(n), _check_discrete_dtype("randperm", dtype)
        if kind == np.bool_:
            raise NotImplementedError('"randperm" not implemented for bool')
        if n - 1 > largest_exact_integer(kind) and not is_bfloat16(kind):
            raise RuntimeError(f"randperm: {kind} cannot hold all the numbers from 0 to {n - 1}")
        if n >= (2**32 - 1) // 20:
            raise RuntimeError(f"randperm: n must be less than {(2**32 - 1) // 20}, but got {n}")
        swaps = max(n - 1, 0)
        with self._lock:
            native = self._native_sampler(swaps * SECONDS_PER_SWAP) if swaps else None
            if native is not None:
                return cast_sample(native.permutation(n), kind)
            words = self._stream.words(swaps)
        order = list(range(n))
        # Each swap needs the one before it, and a list swaps faster than an array.
        for i, word in enumerate(words.tolist()):
            j = i + word % (n - i)
            order[i], order[j] = order[j], order[i]
        return np.array(order, kind)

    def __repr__(self) -> str:
        return f"Generator(device='{self.device}', initial_seed={self._seed})"

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild_generator, (self.place(),)


def _rebuild_generator(state: Array) -> Generator:
    return Generator().load_state_array(state)


def _check_sizes(shape: Shape) -> tuple[int, ...]:
    if type(shape) is tuple:
        sizes = shape
    else:
        sizes = (int(shape),) if isinstance(shape, (int, np.integer)) else tuple(shape)
    for size in sizes:
        if size < 0:
            raise RuntimeError(f"Trying to create tensor with negative dimension {size}: {list(sizes)}")
    return sizes


def _check_floating_dtype(name: str, dtype: NumpyDtype | type | str) -> NumpyDtype:
    if dtype is FLOAT32 or dtype is FLOAT64:
        return dtype
    kind = np.dtype(dtype)
    if kind.kind != "f" and not is_bfloat16(kind):
        error = RuntimeError if name in ("exponential", "dropout") else NotImplementedError
        raise error(f"{name}: the dtype must be floating, but got {kind}")
    return kind


def _check_discrete_dtype(name: str, dtype: NumpyDtype | type | str) -> NumpyDtype:
    kind = np.dtype(dtype)
    if kind.char in "lfd":  # as most are
        return kind
    if kind == np.bool_ or (kind in DTYPES and kind.kind != "c"):
        return kind
    raise NotImplementedError(f"{name}: the dtype must be bool, an integer up to int64 or floating, but got {kind}")


def cast_sample(sample: Array, kind: NumpyDtype) -> Array:
    """Return `sample` in another dtype; on its way to one of 16 bits it is rounded to float32."""
    through = sample.astype(np.float32) if kind.kind in "fV" and kind.itemsize == 2 else sample
    return through.astype(kind, copy=False)


default_generator = Generator()
default_generator._start_seed(entropy_seed())  # `seed()` would be refused if a step being traced brought this here
