"""Where a stream of random numbers stands: its seed, its states, which are PyTorch's, and what comes next."""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from adjoint.core.dtype.device import device as Device
from adjoint.core.dtype.device import require_cpu
from adjoint.core.op.eager_kernels import kernel_provider, make_sampler, report_kernel_errors
from adjoint.core.random.box_muller import BLOCK, normal_blocks, normal_pairs, scalar_normal_pairs
from adjoint.core.random.mt19937 import MersenneTwister
from adjoint.core.runtime.fork_safety import hold_across_fork
from adjoint.core.runtime.libm import fused_multiply_add
from adjoint.core.runtime.mode import refuse_while_tracing
from adjoint.core.tensor.tensor import Tensor, wrap
from adjoint.core.typing import Array, NumpyDtype

DEFAULT_SEED = 67280421310721
NUMPY_SECONDS_BEFORE_NATIVE = 0.05  # native code is loaded once NumPy has drawn as long what that could have drawn
# Seconds that NumPy, or Python, takes for a number.
SECONDS_PER_NORMAL_CALL = 2e-4  # NumPy's many small calls
SECONDS_PER_CALL = 2e-6  # what native code saves of any other call
SECONDS_PER_UNIFORM, SECONDS_PER_SCALED_UNIFORM, SECONDS_PER_NORMAL = 5e-9, 2e-8, 2.5e-7
SECONDS_PER_EXPONENTIAL_CALL, SECONDS_PER_EXPONENTIAL = 1e-5, 7e-8
SECONDS_PER_INTEGER, SECONDS_PER_SWAP = 7e-9, 1e-7

FLOAT64 = np.dtype(np.float64)
# as arrays, which NumPy's functions take in half the time of its scalars
SINGLE_MASK, SINGLE_SCALE = np.array(2**24 - 1, np.uint64), np.array(2.0**-24, np.float32)
DOUBLE_MASK, DOUBLE_SCALE = np.array(2**53 - 1, np.uint64), np.array(2.0**-53)
MAX_SCALAR_PAIRS = 8  # of normals, for which Python takes less time than NumPy's calls, or as much

# What `torch.get_rng_state()` holds. `left` and `next` give one position twice: the draws until the next block is made
# (that one included), and the index of the next word. Only `spare` is in use of what follows the words.
TORCH_STATE = np.dtype(
    {
        "names": ["seed", "left", "seeded", "next", "words", "spare", "has_spare"],
        "formats": ["<u8", "<i4", "<i4", "<u8", ("<u8", 624), "<f8", "<i4"],
        "offsets": [0, 8, 12, 16, 24, 5024, 5040],
        "itemsize": 5056,
    }
)

# The state of a stream's words, its seed, and the second normal of a pair.
StreamSnapshot = tuple[tuple[NDArray[np.uint32], NDArray[np.uint32] | None], int, float | None]
numpy_seconds_spent = [0.0]  # seconds, by all streams


class RandomStream:
    """A seed and a place behind it. Threads may share a stream."""

    _seed: int
    _stream: MersenneTwister
    _spare: float | None  # the second normal of a pair, float64, whose first was the last of a short tensor

    def __init__(self, device: Device | str | int = "cpu") -> None:
        require_cpu(device)
        self.device = Device(device)
        self._lock = hold_across_fork(threading.RLock())
        self._stream = MersenneTwister(DEFAULT_SEED)
        self._sampler: Any = None
        self._start_seed(DEFAULT_SEED)

    def manual_seed(self, seed: int) -> Self:
        """Start the stream of `seed`, from -2**63 to 2**64 - 1; a negative one means seed + 2**64."""
        refuse_while_tracing("manual_seed()")
        if not isinstance(seed, (int, np.integer)):
            raise RuntimeError(f"manual_seed expected an integer, but got {type(seed).__name__}")
        if not -(2**63) <= seed < 2**64:
            raise ValueError(
                f"Overflow when unpacking long long: manual_seed takes -2**63 to 2**64 - 1, but got {seed}"
            )
        with self._lock:
            self._start_seed(int(seed) % 2**64)
        return self

    def seed(self) -> int:
        """Start a stream that nobody can foresee, and return its seed."""
        seed = entropy_seed()
        self.manual_seed(seed)
        return seed

    def initial_seed(self) -> int:
        """The seed with which this stream began."""
        return self._seed

    def get_state(self) -> Tensor:
        """The place in the stream as (5056,) uint8, byte for byte that of `torch.get_rng_state()`."""
        return wrap(self.place())

    def set_state(self, new_state: Tensor | Array) -> Self:
        """Continue from a place given by `get_state` or by PyTorch; TypeError unless uint8, RuntimeError if invalid."""
        return self.load_state_array(new_state.numpy() if isinstance(new_state, Tensor) else new_state)

    def graphsafe_get_state(self) -> Self:
        """Refused with NotImplementedError, as PyTorch refuses it for a CPU."""
        raise NotImplementedError("graphsafe_get_state is not supported in this Generator")

    def graphsafe_set_state(self, state: object) -> None:
        """Refused with NotImplementedError, as PyTorch refuses it for a CPU."""
        raise NotImplementedError("graphsafe_set_state is not supported in this Generator")

    def get_offset(self) -> int:
        """Refused with RuntimeError: a stream of a CPU has no offset."""
        raise RuntimeError("CPU Generator does not use offset")

    def set_offset(self, offset: int) -> None:
        """Refused with RuntimeError: a stream of a CPU has no offset."""
        raise RuntimeError("CPU Generator does not use offset")

    def place(self) -> Array:
        """Return what `get_state` gives, as an array."""
        refuse_while_tracing("get_rng_state()")
        with self._lock:
            words, position = self._stream.state()
            state = np.zeros((), TORCH_STATE)
            state["seed"], state["seeded"], state["words"] = self._seed, 1, words
            state["left"], state["next"] = 625 - position if position else 1, position
            state["spare"], state["has_spare"] = self._spare or 0.0, self._spare is not None
        return np.frombuffer(state.tobytes(), np.uint8).copy()

    def load_state_array(self, state: Array) -> Self:
        """Do what `set_state` does, with an array."""
        refuse_while_tracing("set_rng_state()")
        state = np.asarray(state)
        if state.dtype != np.uint8:
            raise TypeError(f"set_state: the state must be an array of uint8, but got {state.dtype}")
        if state.shape != (TORCH_STATE.itemsize,):
            raise RuntimeError(f"set_state: expected a state of shape ({TORCH_STATE.itemsize},), but got {state.shape}")
        fields = np.frombuffer(state.tobytes(), TORCH_STATE)[0]
        left, position = int(fields["left"]), int(fields["next"])
        fresh, started = (left, position) == (1, 0), 1 <= position <= 624 and left == 625 - position
        if not (fields["seeded"] and (fresh or started) and (fields["words"] < 2**32).all()):
            raise RuntimeError("set_state: this is not the state of a Mersenne Twister, or it is damaged")
        with self._lock:
            self._stream.set_state(fields["words"].astype(np.uint32), position)
            self._seed = int(fields["seed"])
            self._spare = float(fields["spare"]) if fields["has_spare"] else None
        return self

    def snapshot(self) -> StreamSnapshot:
        """Return the place as `restore` takes it: cheaper than `place`, and of this stream alone."""
        with self._lock:
            return self._stream.snapshot(), self._seed, self._spare

    def restore(self, snapshot: StreamSnapshot) -> None:
        """Continue from where `snapshot` was taken."""
        with self._lock:
            words, self._seed, self._spare = snapshot
            self._stream.restore(words)

    def clone_state(self) -> Self:
        """A new generator that continues from this place."""
        return type(self)(self.device).load_state_array(self.place())

    @property
    def lock(self) -> threading.RLock:
        """Held by whoever draws: native code that moves the stream in `memory` must hold it."""
        return self._lock

    def memory(self) -> Array:
        """The place in the stream as native code reads and writes it, (625,) uint32; one address for good."""
        return self._stream.memory()

    @contextmanager
    def numbers(self) -> Iterator[tuple[Callable[[], float], Callable[[], float]]]:
        """Two functions for the block: the next uniform on [0, 1) and the next standard normal, both in float64."""
        with self._lock, self._stream.scalar_uniforms() as uniform:

            def normal() -> float:
                if (spare := self._spare) is not None:
                    self._spare = None
                    return spare
                v, u = uniform(), uniform()
                radius, angle = math.sqrt(-2 * math.log1p(-u)), 2 * math.pi * v
                self._spare = radius * math.sin(angle)
                return radius * math.cos(angle)

            yield uniform, normal

    def uniform_doubles(self, count: int) -> Array:
        """Uniforms on [0, 1) in float64, (count,)."""
        with self._lock:
            return self._draw_units(count, FLOAT64)

    def normals(self, count: int) -> Array:
        """Standard normals in float64, (count,), drawn in pairs as those of short tensors are."""
        with self._lock:
            return self._few_normals(count)

    def _start_seed(self, seed: int) -> None:
        self._seed = seed
        self._stream.start(seed)
        self._spare = None

    def _native_sampler(self, seconds: float) -> Any:
        """Native code that draws what else would take NumPy so many seconds; None without it, or before it pays."""
        if not kernel_provider.enabled:
            return None
        if self._sampler is None:
            numpy_seconds_spent[0] += seconds
            if (
                numpy_seconds_spent[0] >= NUMPY_SECONDS_BEFORE_NATIVE
                and kernel_provider.ready()
                and make_sampler.is_filled()
            ):
                with report_kernel_errors("random draws"):
                    self._sampler = make_sampler.call(self.memory())
                if self._sampler is None:
                    make_sampler.empty()
        return self._sampler

    def _draw_units(self, count: int, kind: NumpyDtype) -> Array:
        """Uniform on [0, 1); float32 or float64."""
        if count == 1 and kind.itemsize == 4:
            return np.array([(self._stream.word() & 0xFFFFFF) * 2.0**-24], kind)
        native = self._native_sampler(SECONDS_PER_CALL + count * SECONDS_PER_UNIFORM)
        if native is not None:
            drawn: Array = native.units(count, kind)
            return drawn
        if kind.itemsize == 4:
            words = self._stream.words(count)
            drawn = np.bitwise_and(words, SINGLE_MASK, words).astype(kind)
            return np.multiply(drawn, SINGLE_SCALE, drawn)
        words = self._stream.double_words(count)
        return np.multiply(np.bitwise_and(words, DOUBLE_MASK, words).astype(kind), DOUBLE_SCALE)

    def _draw_uniforms(self, count: int, kind: NumpyDtype, low: float = 0.0, high: float = 1.0) -> Array:
        """u (high - low) + low, rounded once, with u uniform on [0, 1); float32 or float64."""
        if low == 0 and high == 1:
            return self._draw_units(count, kind)
        first, last = kind.type(low), kind.type(high)
        native = self._native_sampler(SECONDS_PER_CALL + count * SECONDS_PER_SCALED_UNIFORM)
        if native is not None:
            drawn: Array = native.uniforms(count, kind, first, last)
            return drawn
        drawn = self._draw_units(count, kind)
        if count:
            drawn = fused_multiply_add(drawn, last - first, first)
            drawn[drawn == last] = first  # rounding may reach the open end
        return drawn

    def _few_normals(self, count: int) -> Array:
        """Standard normals in float64, none of which is -0."""
        spare = [] if self._spare is None else [self._spare]
        pairs = (count - len(spare) + 1) // 2
        if pairs <= MAX_SCALAR_PAIRS:
            drawn = spare + scalar_normal_pairs(self._draw_units(2 * pairs, FLOAT64).tolist())
            self._spare = drawn.pop() if len(drawn) > count else None
            return np.array(drawn, FLOAT64)
        normals = np.concatenate([spare, normal_pairs(self._draw_units(2 * pairs, FLOAT64))]) + 0.0
        self._spare = float(normals[-1]) if normals.size > count else None
        return normals[:count]

    def _many_normals(self, count: int, kind: NumpyDtype) -> Array:
        """Standard normals, float32 or float64, none of which is -0."""
        whole = count - count % BLOCK
        native = self._native_sampler(SECONDS_PER_NORMAL_CALL + count * SECONDS_PER_NORMAL)
        if native is not None and kind.itemsize > 2:
            return native.normals(count, kind)
        narrow, kind = kind.itemsize == 2, np.dtype(np.float32) if kind.itemsize == 2 else kind
        unit = self._draw_units(whole if narrow else count, kind)
        normals = np.empty(count, kind)
        normals[:whole] = normal_blocks(unit[:whole])
        if whole < count:
            normals[-BLOCK:] = normal_blocks(self._draw_units(BLOCK, kind))
        normals += 0
        return normals


def entropy_seed() -> int:
    """A seed that nobody can foresee."""
    return int.from_bytes(os.urandom(8))


def take_places(streams: Iterable[RandomStream]) -> list[tuple[RandomStream, StreamSnapshot]]:
    """The places of streams, to which `put_back` puts them back."""
    return [(stream, stream.snapshot()) for stream in streams]


def put_back(places: Iterable[tuple[RandomStream, StreamSnapshot]]) -> None:
    """Put streams back to places where they were."""
    for stream, place in places:
        stream.restore(place)
