"""The 32-bit Mersenne Twister MT19937: a seed gives an endless stream of words, whose state can be read and set."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.random import MT19937
    from numpy.typing import NDArray

BLOCK = 624
STATE_WORDS: Any = ctypes.c_uint32 * (BLOCK + 1)  # the state in memory: the block and the position
WORD_BITS = np.array(32, np.uint64)
CHUNK = 512  # uniforms that are made at once where it is not known how many it takes


class MersenneTwister:
    """The words that follow a seed, in blocks of 624: `block` is the current one, `position` the words taken from it.

    Position 0 is a fresh seed, whose first block is still to be made; at position 624 the block is used up.
    """

    _seed: int | None  # with which the engine is still to be started
    _first: Any  # the block of a fresh seed, until something is drawn

    def __init__(self, seed: int) -> None:
        self._engine: MT19937 | None = None
        self._memory: NDArray[np.uint32] | None = None
        self.start(seed)

    def start(self, seed: int) -> None:
        """Begin the stream of a seed; the state stays where it is in memory."""
        self._seed = seed & 0xFFFFFFFF
        self._first = None
        if self._engine is not None:  # native code may read the state at any time
            self._seed_engine()

    def words(self, count: int) -> NDArray[np.uint64]:
        """The next `count` 32-bit words, one per element."""
        if count == 0:
            return np.empty(0, np.uint64)
        engine = self._engine if self._seed is None else None
        if engine is None:
            engine = self._seed_engine()
        self._first = None
        return engine.random_raw(count)

    def word(self) -> int:
        """The next 32-bit word."""
        engine = self._engine if self._seed is None else None
        if engine is None:
            engine = self._seed_engine()
        self._first = None
        return int(engine.random_raw())

    @contextmanager
    def scalar_uniforms(self) -> Iterator[Callable[[], float]]:
        """For the block a function that takes two words and gives a uniform on [0, 1) of 53 bits.

        The words come many at a time; at the end the stream is put behind those that were taken.
        """
        engine, memory = self._seed_engine(), self.memory()
        start, taken = memory.copy(), 0
        units: Iterator[float] = iter(())

        def more() -> float:
            nonlocal start, taken, units
            start, taken = memory.copy(), 0
            words = engine.random_raw(2 * CHUNK)
            wide = (words[0::2] << np.uint64(32) | words[1::2]) & np.uint64(2**53 - 1)
            units = iter((wide * 2.0**-53).tolist())
            return next_uniform()

        def next_uniform() -> float:
            nonlocal taken
            taken += 1
            unit = next(units, None)
            return more() if unit is None else unit

        try:
            yield next_uniform
        finally:
            memory[:] = start
            engine.random_raw(2 * taken)

    def double_words(self, count: int) -> NDArray[np.uint64]:
        """The next `count` 64-bit words, each of two 32-bit ones, the higher half first."""
        words = self.words(2 * count)
        high: NDArray[np.uint64] = np.left_shift(words[0::2], WORD_BITS)
        return np.bitwise_or(high, words[1::2], high)

    def state(self) -> tuple[NDArray[np.uint32], int]:
        """The current block (624,) and the position in it."""
        block, position = _state_of(self._seed_engine())
        # Compiled code moves the stream without a word to Python: what is fresh is told by the block itself.
        fresh = self._first is not None and position == BLOCK and np.array_equal(block, self._first)
        return block, 0 if fresh else position

    def set_state(self, block: NDArray[np.uint32], position: int) -> None:
        """Continue from `block` (624,) at `position`, 0 to 624; the state stays where it is in memory."""
        engine = self._new_engine()
        engine.state = {"bit_generator": "MT19937", "state": {"key": block, "pos": position or BLOCK}}
        self._seed = None
        self._first = np.array(block, np.uint32) if position == 0 else None

    def memory(self) -> NDArray[np.uint32]:
        """Where the state lies, (625,) uint32: the block, then the position, which is 624 for a fresh seed too.

        Native code that draws reads it and writes it. It stays there, and lives as long as the array.
        """
        engine = self._seed_engine()
        if self._memory is None:
            self._memory = _find_memory(engine)
        return self._memory

    def snapshot(self) -> tuple[NDArray[np.uint32], NDArray[np.uint32] | None]:
        """The place in the stream, for `restore`: cheaper than `state`."""
        return self.memory().copy(), self._first

    def restore(self, snapshot: tuple[NDArray[np.uint32], NDArray[np.uint32] | None]) -> None:
        """Continue from where `snapshot` was taken."""
        self.memory()[:], self._first = snapshot

    def _seed_engine(self) -> MT19937:
        engine = self._new_engine()
        if self._seed is not None:
            from numpy.random import RandomState

            # RandomState seeds with the recurrence of the original C code; MT19937 itself would hash the seed.
            RandomState(engine).seed(self._seed)
            self._seed, self._first = None, _state_of(engine)[0]
        return engine

    def _new_engine(self) -> MT19937:
        # Importing numpy.random costs as much as the rest of this library, so only a draw pays for it.
        if self._engine is None:
            from numpy.random import MT19937

            self._engine = MT19937(0)
        return self._engine


def _state_of(engine: MT19937) -> tuple[NDArray[np.uint32], int]:
    inner = engine.state["state"]
    return inner["key"], int(inner["pos"])


def _find_memory(engine: MT19937) -> NDArray[np.uint32]:
    """Return the memory of an engine's state. Raises RuntimeError where its form is not the one that is known."""
    words = STATE_WORDS.from_address(engine.ctypes.state_address)
    words.owner = engine
    memory = np.ctypeslib.as_array(words)
    block, position = _state_of(engine)
    if not np.array_equal(memory[:BLOCK], block) or memory[BLOCK] != position:
        raise RuntimeError(f"NumPy {np.__version__} keeps the state of its MT19937 in another form than is known")
    return memory
