"""Random numbers as arrays: PyTorch's CPU generator, with its numbers, its use of the stream and its states."""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .boxmuller import BLOCK, normal_blocks, normal_pairs
from .device import device as Device
from .mersenne import MersenneTwister
from .mode import refuse_while_tracing
from .rounding import by_libm, fused_multiply_add

if TYPE_CHECKING:
    from numpy.typing import DTypeLike, NDArray

    Array = NDArray[Any]

Shape = int | Sequence[int]

DEFAULT_SEED = 67280421310721

# What `torch.get_rng_state()` holds. `left` and `next` give one position twice: the draws until the next block is made
# (that one included), and the index of the next word. Only `spare` is in use of what follows the words.
STATE = np.dtype(
    {
        "names": ["seed", "left", "seeded", "next", "words", "spare", "has_spare"],
        "formats": ["<u8", "<i4", "<i4", "<u8", ("<u8", 624), "<f8", "<i4"],
        "offsets": [0, 8, 12, 16, 24, 5024, 5040],
        "itemsize": 5056,
    }
)


class Generator:
    """A stream of random numbers: `Generator().manual_seed(0)` gives what `torch.Generator().manual_seed(0)` gives.

    Every sampling method takes a shape and a NumPy dtype, returns a new C-contiguous array and moves the stream as far
    as PyTorch does. A call with invalid arguments raises and moves nothing. Threads may share a generator; copies and
    pickles continue from the same place on their own.
    """

    _seed: int
    _stream: MersenneTwister
    _spare: float | None  # the second normal of a pair, float64, whose first was the last of a short tensor

    def __init__(self, device: Any = "cpu") -> None:
        self.device = Device(device)
        self._lock = threading.RLock()
        self._stream = MersenneTwister(DEFAULT_SEED)
        self._begin(DEFAULT_SEED)

    def manual_seed(self, seed: int) -> Generator:
        """Start the stream of `seed`, from -2**63 to 2**64 - 1; a negative one means seed + 2**64."""
        refuse_while_tracing("manual_seed()")
        if not isinstance(seed, (int, np.integer)):
            raise RuntimeError(f"manual_seed expected an integer, but got {type(seed).__name__}")
        if not -(2**63) <= seed < 2**64:
            raise ValueError(f"manual_seed: the seed must be from -2**63 to 2**64 - 1, but got {seed}")
        with self._lock:
            self._begin(int(seed) % 2**64)
        return self

    def seed(self) -> int:
        """Start a stream that nobody can foresee, and return its seed."""
        seed = int.from_bytes(os.urandom(8))
        self.manual_seed(seed)
        return seed

    def initial_seed(self) -> int:
        """The seed with which this stream began."""
        return self._seed

    def get_state(self) -> NDArray[np.uint8]:
        """The place in the stream as (5056,) uint8, byte for byte that of `torch.get_rng_state()`."""
        refuse_while_tracing("get_rng_state()")
        with self._lock:
            words, position = self._stream.state()
            state = np.zeros((), STATE)
            state["seed"], state["seeded"], state["words"] = self._seed, 1, words
            state["left"], state["next"] = 625 - position if position else 1, position
            state["spare"], state["has_spare"] = self._spare or 0.0, self._spare is not None
        return np.frombuffer(state.tobytes(), np.uint8).copy()

    def set_state(self, state: NDArray[np.uint8]) -> Generator:
        """Continue from a place given by `get_state` or by PyTorch; TypeError unless uint8, RuntimeError if invalid."""
        refuse_while_tracing("set_rng_state()")
        state = np.asarray(state)
        if state.dtype != np.uint8:
            raise TypeError(f"set_state: the state must be an array of uint8, but got {state.dtype}")
        if state.shape != (STATE.itemsize,):
            raise RuntimeError(f"set_state: expected a state of shape ({STATE.itemsize},), but got {state.shape}")
        fields = np.frombuffer(state.tobytes(), STATE)[0]
        left, position = int(fields["left"]), int(fields["next"])
        fresh, started = (left, position) == (1, 0), 1 <= position <= 624 and left == 625 - position
        if not (fields["seeded"] and (fresh or started) and (fields["words"] < 2**32).all()):
            raise RuntimeError("set_state: this is not the state of a Mersenne Twister, or it is damaged")
        with self._lock:
            self._stream.set_state(fields["words"].astype(np.uint32), position)
            self._seed = int(fields["seed"])
            self._spare = float(fields["spare"]) if fields["has_spare"] else None
        return self

    def clone_state(self) -> Generator:
        """A new generator that continues from this place."""
        return Generator(self.device).set_state(self.get_state())

    @property
    def lock(self) -> threading.RLock:
        """Held by whoever draws: native code that moves the stream in `memory` must hold it."""
        return self._lock

    def memory(self) -> NDArray[np.uint32]:
        """The place in the stream as native code reads and writes it, (625,) uint32; one address for good."""
        return self._stream.memory()

    def uniform(self, shape: Shape, dtype: DTypeLike, low: float = 0.0, high: float = 1.0) -> Array:
        """u (high - low) + low, with u uniform on [0, 1): 24 bits of a word for float32, 53 of two for float64."""
        sizes, kind = _sizes(shape), _floating("uniform", dtype)
        limit = float(np.finfo(kind).max)
        if not (abs(low) <= limit and abs(high) <= limit):
            raise RuntimeError(f"uniform: low and high must be finite numbers of {kind}, but got {low:g} and {high:g}")
        if not low <= high:
            raise RuntimeError(f"uniform_ expects to return a [from, to) range, but found from={low:g} > to={high:g}")
        if high - low > limit:
            raise RuntimeError(f"uniform: the range from {low:g} to {high:g} is too wide for {kind}")
        with self._lock:
            unit = self._unit(math.prod(sizes), kind)
        if (low, high) != (0, 1) and unit.size:
            first, last = kind.type(low), kind.type(high)
            unit = fused_multiply_add(unit, last - first, first)
            unit[unit == last] = first  # rounding may reach the open end
        return unit.reshape(sizes)

    def normal(self, shape: Shape, dtype: DTypeLike, mean: float = 0.0, std: float = 1.0) -> Array:
        """z std + mean, with z standard normal by Box and Muller.

        From 16 elements on, uniforms of the dtype in blocks of 16, and 16 more for the last 16 elements unless the
        blocks come out even. Below that, pairs in float64, of which the second is kept for the next such call.
        """
        sizes, kind = _sizes(shape), _floating("normal", dtype)
        if not std >= 0:
            raise RuntimeError(f"normal expects std >= 0.0, but found std {std:g}")
        count = math.prod(sizes)
        if count == 0:
            return np.empty(sizes, kind)
        with self._lock:
            standard = self._few_normals(count) if count < BLOCK else self._many_normals(count, kind)
        scale, shift = standard.dtype.type(std), standard.dtype.type(mean)
        # Without a shift nothing is rounded twice; adding 0 turns -0 into 0, as the fused operation does.
        sample = standard * scale + shift if shift == 0 else fused_multiply_add(standard, scale, shift)
        return sample.astype(kind, copy=False).reshape(sizes)

    def exponential(self, shape: Shape, dtype: DTypeLike, lambd: float = 1.0) -> Array:
        """-ln(1 - u) / lambd, with u uniform on [0, 1), in float64 whatever the dtype."""
        sizes, kind = _sizes(shape), _floating("exponential", dtype)
        if not lambd > 0:
            raise RuntimeError(f"exponential_ expects lambda > 0.0, but found lambda={lambd:g}")
        with self._lock:
            unit = self._unit(math.prod(sizes), np.dtype(np.float64))
        return (-1.0 / lambd * by_libm(math.log1p, -unit)).astype(kind, copy=False).reshape(sizes)

    def bernoulli(self, shape: Shape, p: float | Array, dtype: DTypeLike) -> Array:
        """1 where u < p, else 0, with u uniform on [0, 1).

        u is a float64 for a number p, and of the dtype of p for an array, float32 or float64, which is broadcast.
        """
        sizes, kind = _sizes(shape), _discrete("bernoulli", dtype)
        chances: float | Array = p
        if isinstance(p, np.ndarray):
            chances = np.broadcast_to(p, sizes).reshape(-1)
            unit_kind = _floating("bernoulli with an array p", p.dtype)
            outside = ~((p >= 0) & (p <= 1))
            if outside.any():
                raise RuntimeError(f"bernoulli_ expects p to be in [0, 1], but got p={p[outside][0]:g} in an array p")
        else:
            _check_probability(p)
            unit_kind = np.dtype(np.float64)
        with self._lock:
            unit = self._unit(math.prod(sizes), unit_kind)
        sample: Array = np.less(unit, chances).astype(kind).reshape(sizes)
        return sample

    def dropout(self, shape: Shape, p: float, dtype: DTypeLike) -> Array:
        """1 / (1 - p) with probability 1 - p, else 0: what `dropout` multiplies with. p = 0 and p = 1 draw nothing."""
        sizes, kind = _sizes(shape), _floating("dropout", dtype)
        if not 0 <= p <= 1:
            raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
        if p in {0, 1}:
            return np.full(sizes, 1 - p, kind)
        kept = self.bernoulli(sizes, 1 - p, kind)
        kept /= kind.type(1 - p)
        return kept

    def randint(self, low: int, high: int, shape: Shape, dtype: DTypeLike) -> Array:
        """low + w mod (high - low), where w is one word, or two for ranges of 2**28 and more."""
        sizes, kind = _sizes(shape), _discrete("randint", dtype)
        if not low < high:
            raise RuntimeError(f"random_ expects 'from' to be less than 'to', but got from={low} >= to={high}")
        smallest, largest = _bounds(kind)
        if low < smallest or high - 1 > largest:
            raise RuntimeError(f"randint: the range from {low} to {high - 1} is out of bounds for {kind}")
        with self._lock:
            draw = self._stream.double_words if high - low >= 2**28 else self._stream.words
            words = draw(math.prod(sizes))
        offsets = words % np.uint64(high - low)
        return (offsets + np.uint64(low % 2**64)).view(np.int64).astype(kind).reshape(sizes)

    def random(self, shape: Shape, dtype: DTypeLike) -> Array:
        """Integers from 0 to the largest of the dtype, or to 2**24 for float32 and 2**53 for float64 (`random_`)."""
        sizes, kind = _sizes(shape), _discrete("random", dtype)
        with self._lock:
            draw = self._stream.double_words if kind.itemsize == 8 else self._stream.words
            words = draw(math.prod(sizes))
        return (words % np.uint64(_bounds(kind)[1] + 1)).astype(kind).reshape(sizes)

    def randperm(self, n: int, dtype: DTypeLike = np.int64) -> Array:
        """A permutation of 0 to n - 1, (n,): Fisher and Yates from the front, a word for each place but the last."""
        (n,), kind = _sizes(n), _discrete("randperm", dtype)
        if kind == np.bool_ or n - 1 > _bounds(kind)[1]:
            raise RuntimeError(f"randperm: {kind} cannot hold all the numbers from 0 to {n - 1}")
        if n >= (2**32 - 1) // 20:
            raise RuntimeError(f"randperm: n must be less than {(2**32 - 1) // 20}, but got {n}")
        swaps = max(n - 1, 0)
        with self._lock:
            words = self._stream.words(swaps)
        steps = words % np.arange(n, n - swaps, -1, dtype=np.uint64)
        order = list(range(n))
        # Each swap needs the one before it, and a list swaps faster than an array.
        for i, j in enumerate((np.arange(swaps) + steps.astype(np.int64)).tolist()):
            order[i], order[j] = order[j], order[i]
        return np.array(order, kind)

    def __repr__(self) -> str:
        return f"Generator(device='{self.device}', initial_seed={self._seed})"

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (self.get_state(),)

    def _begin(self, seed: int) -> None:
        self._seed = seed
        self._stream.start(seed)
        self._spare = None

    def _unit(self, count: int, kind: np.dtype[Any]) -> Array:
        if kind == np.float32:
            words = self._stream.words(count) & np.uint64(2**24 - 1)
            return words.astype(np.float32) * np.float32(2.0**-24)
        words = self._stream.double_words(count) & np.uint64(2**53 - 1)
        return words * 2.0**-53

    def _few_normals(self, count: int) -> Array:
        spare = [] if self._spare is None else [self._spare]
        pairs = (count - len(spare) + 1) // 2
        normals = np.concatenate([spare, normal_pairs(self._unit(2 * pairs, np.dtype(np.float64)))])
        self._spare = float(normals[-1]) if normals.size > count else None
        return normals[:count]

    def _many_normals(self, count: int, kind: np.dtype[Any]) -> Array:
        unit = self._unit(count, kind)
        whole = count - count % BLOCK
        normals = np.empty_like(unit)
        normals[:whole] = normal_blocks(unit[:whole])
        if whole < count:
            normals[-BLOCK:] = normal_blocks(self._unit(BLOCK, kind))
        return normals


def _restored(state: NDArray[np.uint8]) -> Generator:
    return Generator().set_state(state)


def _sizes(shape: Shape) -> tuple[int, ...]:
    sizes = (int(shape),) if isinstance(shape, (int, np.integer)) else tuple(shape)
    for size in sizes:
        if size < 0:
            raise RuntimeError(f"Trying to create tensor with negative dimension {size}: {list(sizes)}")
    return sizes


def _floating(name: str, dtype: DTypeLike) -> np.dtype[Any]:
    kind = np.dtype(dtype)
    if kind not in {np.dtype(np.float32), np.dtype(np.float64)}:
        raise RuntimeError(f"{name}: the dtype must be float32 or float64, but got {kind}")
    return kind


def _discrete(name: str, dtype: DTypeLike) -> np.dtype[Any]:
    kind = np.dtype(dtype)
    if kind == np.bool_ or kind.name in {"uint8", "int8", "int16", "int32", "int64", "float32", "float64"}:
        return kind
    raise RuntimeError(f"{name}: the dtype must be bool, an integer up to int64, float32 or float64, but got {kind}")


def _bounds(kind: np.dtype[Any]) -> tuple[int, int]:
    """The integers which the dtype holds without gaps."""
    if kind == np.bool_:
        return 0, 1
    if kind.kind == "f":
        largest = 2 ** (np.finfo(kind).nmant + 1)
        return -largest, largest
    return int(np.iinfo(kind).min), int(np.iinfo(kind).max)


def _check_probability(p: float) -> None:
    if not 0 <= p <= 1:
        raise RuntimeError(f"bernoulli_ expects p to be in [0, 1], but got p={p:g}")


default_generator = Generator()
default_generator.seed()
