"""The 32-bit Mersenne Twister MT19937: a seed gives an endless stream of words, whose state can be read and set."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.random import MT19937
    from numpy.typing import NDArray

BLOCK = 624


class MersenneTwister:
    """The words that follow a seed, in blocks of 624: `block` is the current one, `position` the words taken from it.

    Position 0 is a fresh seed, whose first block is still to be made; at position 624 the block is used up.
    """

    def __init__(self, seed: int) -> None:
        self._seed = seed & 0xFFFFFFFF
        self._engine: MT19937 | None = None
        self._fresh = True

    def words(self, count: int) -> NDArray[np.uint64]:
        """The next `count` 32-bit words, one per element."""
        if count == 0:
            return np.empty(0, np.uint64)
        self._fresh = False
        return self._started().random_raw(count)

    def double_words(self, count: int) -> NDArray[np.uint64]:
        """The next `count` 64-bit words, each of two 32-bit ones, the higher half first."""
        words = self.words(2 * count)
        return (words[0::2] << np.uint64(32)) | words[1::2]

    def state(self) -> tuple[NDArray[np.uint32], int]:
        """The current block (624,) and the position in it."""
        inner = self._started().state["state"]
        return inner["key"], 0 if self._fresh else int(inner["pos"])

    @classmethod
    def restored(cls, block: NDArray[np.uint32], position: int) -> MersenneTwister:
        """The stream that continues from `block` (624,) at `position`, 0 to 624."""
        twister = cls(0)
        twister._fresh = position == 0
        twister._started().state = {"bit_generator": "MT19937", "state": {"key": block, "pos": position or BLOCK}}
        return twister

    def _started(self) -> MT19937:
        # Importing numpy.random costs as much as the rest of this library, so only a draw pays for it.
        if self._engine is None:
            from numpy.random import MT19937, RandomState

            self._engine = MT19937(0)
            # RandomState seeds with the recurrence of the original C code; MT19937 itself would hash the seed.
            RandomState(self._engine).seed(self._seed)
        return self._engine
