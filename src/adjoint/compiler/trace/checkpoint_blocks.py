"""Checkpoints in a traced step: which equations backward computes again, and a second call of the function.

The equations of a block are marked, and made again where the gradient needs them. Eagerly the function runs a second
time then, with the same random numbers, and what it does besides, such as counting in a buffer, happens twice.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from adjoint.compiler.ir.graph import Value
from adjoint.core.op.op import Op


class CheckpointBlocks:
    """The part of a tracer that knows the blocks that backward computes again."""

    def __init__(self) -> None:
        self.checkpoint = 0  # the number of the block that is being traced, 0 for none
        self.can_repeat = True  # until the step has returned: what would follow happens when backward() is called
        self._checkpoints = self._depth = 0
        self._draws: list[list[Value]] = []  # of each block that is being traced: the draws in it
        self._replayed: Iterator[Value] | None = None  # the draws of a block that is traced again

    @contextmanager
    def checkpoint_scope(self) -> Iterator[list[Value]]:
        """Compute in a block that backward computes again, instead of keeping its values; give its draws."""
        self._depth += 1
        if self._depth == 1:
            self._checkpoints += 1
            self.checkpoint = self._checkpoints
        draws: list[Value] = []
        self._draws.append(draws)
        try:
            yield draws
        finally:
            self._draws.pop()
            self._depth -= 1
            if not self._depth:
                self.checkpoint = 0

    @contextmanager
    def repeat_scope(self, draws: list[Value] | None) -> Iterator[bool]:
        """Run a block again for what it does besides computing, with these draws; false if that is not to happen."""
        before, self._replayed = self._replayed, None if draws is None else iter(draws)
        try:
            yield self.can_repeat
        finally:
            self._replayed = before

    def note_draw(self, value: Value) -> Value:
        """Take note of a value, if it is a random draw, in the blocks that are being traced; return it."""
        if self._draws and value.op.effect and value.op.family != "check":
            for draws in self._draws:
                draws.append(value)
        return value

    def replay_draw(self, op: Op) -> Value | None:
        """Return the value that the block drew the first time; None for any other call."""
        if self._replayed is None or not op.effect or op.family == "check":
            return None
        value = next(self._replayed, None)
        return value if value is not None and value.op is op else None
