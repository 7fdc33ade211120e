"""Sizes of the arguments: which are worth a program of their own, and from which time that is paid.

This concerns steps whose sizes cannot be symbols (`dynamic_sizes`), or are not to be.

Two sizes are compiled at once. Any further one is compiled when it comes again, from the time that the programs there
are have saved, measured against eager calls of the same step. So ever new sizes take no longer than they would take
eagerly, and two compilations.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from math import prod
from typing import TYPE_CHECKING, Protocol

from adjoint.compiler.trace.signature import shapes_of, without_sizes

if TYPE_CHECKING:
    from adjoint.compiler.trace.signature import SignatureKey

SIZES_COMPILED_AT_ONCE = 2
MAX_SPECIALIZED_SIZES = 32  # sizes that are compiled at all, for arguments that are alike otherwise
MIN_CALLS_TO_BORROW = 100  # calls after two compilations until one is made that saved time does not pay
MAX_TIMED_SIZES = 64

Size = tuple[tuple[int, ...], ...]  # the shapes of the tensors


class ProgramBudget(Protocol):
    """A limit to the programs of a step, such as that of its training region."""

    def may_add_program(self) -> bool:
        """Tell whether one more program may be made for a call that has none."""

    def note_eager_call(self) -> None:
        """Take note that the call which runs does so eagerly, for want of a program."""


class Unlimited:
    """The budget of a step that keeps to none."""

    def may_add_program(self) -> bool:
        """True: each program may be made."""
        return True

    def note_eager_call(self) -> None:
        """Do nothing: nobody asks."""


class SizeAccount:
    """The account of calls that differ in nothing but sizes: what they took, and what compiling has saved."""

    def __init__(self) -> None:
        self.counts: dict[Size, int] = {}  # calls that found no program
        self.compiled: dict[Size, None] = {}  # sizes that have, or had, a program
        self.saved = 0.0  # seconds that programs saved, less those that it took to compile any but the first two
        self.lost: dict[Size, float] = {}  # seconds that a program would have saved in the eager calls of a size
        self._eager: dict[int, float] = {}  # the least seconds of eager calls, by the elements of their arguments
        self._replaced = self._taken = 0.0  # seconds of eager calls, and of the programs' calls in their place
        self._calls = 0
        self._compiled_after: list[int] = []  # calls: of the last two compilations
        self._cost = 0.0
        self._has_refused = False

    @property
    def can_compare(self) -> bool:
        """True if eager calls were timed, with which those of programs are compared."""
        return bool(self._eager)

    def pay(self, size: Size) -> bool:
        """True if a compilation is paid: by what was saved, or, now and then, by what this size alone has lost."""
        if self.saved >= self._cost:
            return True
        if self.lost.get(size, 0.0) < self._cost or self._calls - self._compiled_after[0] < MIN_CALLS_TO_BORROW:
            return False
        self.saved += self.lost.pop(size)
        return True

    def refuse(self, size: Size) -> str:
        """The message, once, that no further size is compiled."""
        if self._has_refused:
            return ""
        self._has_refused = True
        shapes = ", ".join(str(list(shape)) for shape in dict.fromkeys(size))
        return (
            f"was compiled for {MAX_SPECIALIZED_SIZES} sizes of its arguments, each a program of its own: any other "
            f"runs eagerly from now on, such as {shapes}. Pad to a few sizes where speed matters."
        )

    def note_compilation(self, size: Size, seconds: float) -> None:
        """Book a compilation."""
        self._calls += 1
        if len(self.compiled) >= SIZES_COMPILED_AT_ONCE:
            self.saved -= seconds
        self.compiled[size] = None
        self._cost = max(self._cost, seconds)
        self._compiled_after = [*self._compiled_after, self._calls][-2:]

    def note_eager_call(self, size: Size, seconds: float) -> None:
        """Book a call for which there is no program."""
        self._calls += 1
        elements = _count_elements(size)
        self._eager[elements] = min(seconds, self._eager.get(elements, seconds))
        if len(self._eager) > MAX_TIMED_SIZES:
            del self._eager[next(iter(self._eager))]
        share = self._taken / self._replaced if self._replaced else 0.0
        self.lost[size] = self.lost.get(size, 0.0) + seconds * max(1.0 - share, 0.0)

    def note_compiled_call(self, size: Size, seconds: float) -> None:
        """Book a call of a program."""
        self._calls += 1
        instead = self._estimate_eager_seconds(_count_elements(size))
        self._replaced += instead
        self._taken += seconds
        self.saved += instead - seconds

    def _estimate_eager_seconds(self, elements: int) -> float:
        """The seconds that an eager call would take at least: more elements take no less time."""
        less = max((n for n in self._eager if n <= elements), default=None)
        if less is None:
            fewest = min(self._eager)
            return min(self._eager.values()) * elements / fewest
        return min(seconds for n, seconds in self._eager.items() if n >= less)


class BatchSizes:
    """The accounts of a compiled function, by all of the arguments' signature but the sizes."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self.clock = clock
        self.can_compare = False  # whether anything is booked for programs' calls
        self._accounts: dict[object, SizeAccount] = {}

    def count(self, key: SignatureKey) -> tuple[bool, str]:
        """Return whether to compile for a signature without a program, and a message about it."""
        account, size = self._find(key)
        seen = account.counts[size] = account.counts.get(size, 0) + 1
        if not any(size) or list(account.counts).index(size) < SIZES_COMPILED_AT_ONCE:
            return True, ""
        if seen == 1:
            return False, ""
        if len(account.compiled) >= MAX_SPECIALIZED_SIZES and size not in account.compiled:
            return False, account.refuse(size)
        return account.pay(size), ""

    def can_pay(self, key: SignatureKey) -> bool:
        """Return whether one more program for a signature is paid, where those there are for other integers."""
        account, size = self._find(key)
        return account.pay(size)

    def note_compilation(self, key: SignatureKey, since: float) -> None:
        """Book a compilation that began at the time `since`."""
        account, size = self._find(key)
        account.note_compilation(size, self.clock() - since)

    def note_eager_call(self, key: SignatureKey, since: float) -> None:
        """Book a call for which there is no program."""
        account, size = self._find(key)
        account.note_eager_call(size, self.clock() - since)
        self.can_compare = True

    def note_compiled_call(self, key: SignatureKey, since: float) -> None:
        """Book a call of a program that had to be looked for."""
        account, size = self._find(key)
        if account.can_compare:
            account.note_compiled_call(size, self.clock() - since)

    def all(self) -> dict[int | Size, int]:
        """Return how often each size came: a number if no other dimension differs, else the shapes."""
        found: dict[int | Size, int] = {}
        for account in self._accounts.values():
            sized = {size: count for size, count in account.counts.items() if any(size)}
            for size, name in zip(sized, _name_sizes(list(sized)), strict=True):
                found[name] = found.get(name, 0) + sized[size]
        return found

    def _find(self, key: SignatureKey) -> tuple[SizeAccount, Size]:
        """The account of a signature, and the size in it."""
        return self._accounts.setdefault(without_sizes(key), SizeAccount()), tuple(shapes_of(key).values())


def _count_elements(size: Size) -> int:
    return max(sum(map(prod, size)), 1)


def _name_sizes(sizes: list[Size]) -> list[int | Size]:
    """Name sizes by the one number in which they differ, or by the first; by their shapes if it takes more."""
    flat = [[n for shape in size for n in shape] for size in sizes]
    differing = [i for i, dims in enumerate(zip(*flat, strict=True)) if len(set(dims)) > 1] or [0]
    numbers = [{dims[i] for i in differing} for dims in flat]
    return [min(n) for n in numbers] if all(len(n) == 1 for n in numbers) else list(sizes)
