"""A progress bar in a few lines: redrawn in a terminal, one plain line for each epoch elsewhere."""

from __future__ import annotations

import sys

WIDTH = 24


class Progress:
    """Shows how far the epochs of a training run are."""

    def __init__(self, name: str, epochs: int, steps: int) -> None:
        self.name = name
        self.epochs = epochs
        self.steps = steps  # in one epoch
        self.done = 0
        self.live = sys.stdout.isatty()

    def advance(self, loss: float) -> None:
        """One more step is done."""
        self.done += 1
        if self.live:
            epoch = (self.done - 1) // self.steps + 1
            self._draw(f"{self._head(epoch)}  {self._bar()}  loss {loss:.4f}")

    def end_epoch(self, loss: float, accuracy: float) -> None:
        """An epoch is over: leave its mean loss and test accuracy behind."""
        epoch = self.done // self.steps
        line = f"{self._head(epoch)}  loss {loss:.4f}  test accuracy {accuracy:.1%}"
        if self.live:
            self._draw(line)
        print("" if self.live else line, flush=True)

    def _head(self, epoch: int) -> str:
        return f"{self.name}  epoch {epoch:{len(str(self.epochs))}}/{self.epochs}"

    def _bar(self) -> str:
        """The share of the whole run that is done."""
        full = WIDTH * self.done // (self.steps * self.epochs)
        return "[" + "=" * full + " " * (WIDTH - full) + "]"

    def _draw(self, line: str) -> None:
        """Write over the terminal's line and clear what stood behind."""
        sys.stdout.write(f"\r{line}\x1b[K")
        sys.stdout.flush()
