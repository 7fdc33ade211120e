"""The words of a Mersenne Twister in native code: state read from memory, words in vectors, state written back.

The state is that of `core.mersenne`: 624 words, then the position. Blocks are made when a word of them is wanted, so
that a draw leaves the state which the same draws of NumPy's engine leave.
"""

from __future__ import annotations

from collections.abc import Callable

from adjoint.compiler.llvm.builder import Builder
from adjoint.compiler.llvm.jit.target import Target
from adjoint.compiler.llvm.types import I32, I64, U32, Operand, Reg, Type
from adjoint.core.random.mt19937 import BLOCK

MIDDLE = 397
MATRIX = 0x9908B0DF
# Lanes of the widest register: what a block is padded with, so that whole registers can be read at its end.
PAD_LANES = 16
PADDED_WORDS = BLOCK + PAD_LANES
BUFFER_WORDS = BLOCK + 3 * PAD_LANES
SCRATCH_BYTES = 4 * (PADDED_WORDS + BUFFER_WORDS)  # bytes
U64 = Type("u", 64)

# What is done with words that are ready: `take(words, first, count)` for `count` elements from number `first` on.
Take = Callable[[Reg, Reg, Reg], None]


def draw(b: Builder, state: Reg, scratch: Reg, count: Operand, per: int, target: Target, take: Take) -> None:
    """The next `count` > 0 elements of `per` words (1 or 2) each, handed to `take` as they are made.

    `scratch`: SCRATCH bytes. Behind the words handed over, room for a register more can be read.
    """
    lanes = target.lanes(U32)
    block, buffer = scratch, b.gep(scratch, PADDED_WORDS, U32)
    _copy_state(b, state, block, lanes)
    start = b.cast(b.load(b.gep(state, BLOCK, I32), I32), I64)
    count = count if isinstance(count, Reg) else b.constant(count, I64)
    end = b.add(b.mul(count, per), start)  # counted from the beginning of the present block
    blocks = b.cast(b.floor_divide(b.cast(b.add(end, BLOCK - 1), U64), BLOCK), I64)
    nothing = b.constant(0, I64)
    with b.loop(0, blocks, carried=(nothing, nothing)) as visit:
        left, done = visit.carried  # words that wait for their other half; elements made
        first = b.eq(visit.index, 0)
        with b.when(b.logical_not(first)):
            _twist(b, block, lanes)
        low = b.select(first, start, 0)
        words = b.sub(b.minimum(b.sub(end, b.mul(visit.index, BLOCK)), BLOCK), low)
        _temper(b, b.gep(block, low, U32), b.gep(buffer, left, U32), words, lanes)
        ready = b.add(words, left)
        elements = b.shr(ready, 1) if per == 2 else ready
        take(buffer, done, elements)
        if per == 2:
            b.store(b.load(b.gep(buffer, b.mul(elements, 2), U32), U32), buffer)
            left = b.bitwise_and(ready, 1)
        visit.yields(left, b.add(done, elements))
    _copy_state(b, block, state, lanes)
    position = b.sub(end, b.mul(b.sub(blocks, 1), BLOCK))
    b.store(b.cast(position, I32), b.gep(state, BLOCK, I32))


def _copy_state(b: Builder, source: Reg, target: Reg, lanes: int) -> None:
    with b.loop(0, BLOCK, lanes) as turn:
        b.store(b.load(b.gep(source, turn.index, U32), U32.of(lanes)), b.gep(target, turn.index, U32))


def _twist(b: Builder, block: Reg, lanes: int) -> None:
    """The next block in place of this one.

    Its first words are written behind its end too: the last words of both the block and its first part need them.
    """

    # The plain loop (Matsumoto and Nishimura): for i in range(624): x = upper bit of s[i] | lower bits of s[i + 1];
    # s[i] = s[i + 397] ^ x >> 1 ^ (x & 1) * MATRIX, indices modulo 624. A register of words is made at a time: none of
    # them needs another of the same register, since words are 227 apart at the least. Two loops save the modulo.
    def word(i: int | Reg, far: int) -> Reg:
        here = b.gep(block, i, U32)
        x, following, other = (b.load(b.gep(here, by, U32), U32.of(lanes)) for by in (0, 1, far))
        joined = b.bitwise_or(b.bitwise_and(x, 0x80000000), b.bitwise_and(following, 0x7FFFFFFF))
        twisted = b.bitwise_and(b.sub(0, b.bitwise_and(following, 1)), MATRIX)
        made = b.bitwise_xor(b.bitwise_xor(other, b.shr(joined, 1)), twisted)
        b.store(made, here)
        return made

    for i in range(0, PAD_LANES, lanes):
        b.store(word(i, MIDDLE), b.gep(block, BLOCK + i, U32))
    turned = (BLOCK - MIDDLE + PAD_LANES - 1) // PAD_LANES * PAD_LANES
    with b.loop(PAD_LANES, turned, lanes) as turn:
        word(turn.index, MIDDLE)
    with b.loop(turned, BLOCK, lanes) as turn:
        word(turn.index, MIDDLE - BLOCK)


def _temper(b: Builder, source: Reg, target: Reg, count: Reg, lanes: int) -> None:
    with b.loop(0, count, lanes) as turn:
        y = b.load(b.gep(source, turn.index, U32), U32.of(lanes))
        y = b.bitwise_xor(y, b.shr(y, 11))
        y = b.bitwise_xor(y, b.bitwise_and(b.shl(y, 7), 0x9D2C5680))
        y = b.bitwise_xor(y, b.bitwise_and(b.shl(y, 15), 0xEFC60000))
        b.store(b.bitwise_xor(y, b.shr(y, 18)), b.gep(target, turn.index, U32))
