"""The checks of a program at each call, in native code: its arguments, its guards, the tensors it captured.

They are taken when the guards in Python find nothing wrong although the last native checks failed: the more often that
was so, the more rarely.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence, Set
from typing import TYPE_CHECKING

import numpy as np

from adjoint.compiler.ir.graph import Argument, Value
from adjoint.compiler.runtime import cpython_layout
from adjoint.compiler.runtime.cpython_layout import ALIGNED, CONTIGUOUS, WRITEABLE
from adjoint.compiler.runtime.guard_lowering import checks_of_guard, checks_of_source
from adjoint.compiler.runtime.object_checks import (
    PointerCheck,
    check_argument,
    check_slot,
    make_checker,
)
from adjoint.compiler.runtime.object_checks_ir import DICT_IS, LIST_IS, VERSION_IS
from adjoint.compiler.trace.frames.sources import Source
from adjoint.core.graph.node import Leaf
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Operand

if TYPE_CHECKING:
    from adjoint.compiler.program.backward_node import ConsumedHistory
    from adjoint.compiler.trace.step_outputs import StepEffects
    from adjoint.core.graph.hooks import HookableNode
    from adjoint.core.graph.node import GraphNode


MAX_MOVES = 2  # of a guard to other objects, by which it held no less; from then on it is left to Python
LISTED = (LIST_IS, DICT_IS, VERSION_IS)  # checks with a list of what to compare with, of their own


class GuardChecks:
    """The checks of a program that native code can make: the guards in `facts` and the tensors in `state`, by number.

    `possible`: whether the arguments can be, without which the rest is of no use. `located`: the numbers of the tensors
    whose memory is bound where it lies; `relocated`: of those that each call finds, and passes after its arguments.
    `unsteady`: the guards that are left to Python. `unread`: the tensors that must exist, but whose memory nothing
    reads.
    """

    def __init__(
        self,
        outcome: StepEffects,
        arguments: list[Value],
        located: set[int],
        relocated: Sequence[int] = (),
        unsteady: Set[int] = frozenset(),
        unread: Set[int] = frozenset(),
    ) -> None:
        self.unread = unread
        self.outcome, self.arguments, self.located, self.relocated = outcome, arguments, located, relocated
        self._given = {s.source.number: (t, n) for t, n, s in outcome.state if isinstance(s.source, Argument)}
        self._refused = 0
        self._taken: dict[int, list[tuple[object, ...]]] = {}  # the checks of each guard, as they were taken last
        self._moves: Counter[int] = Counter()  # how often a guard held by other objects
        self.possible = cpython_layout.find_slot_offsets() is not None and all(map(_may_be_contiguous, arguments))
        self.facts: set[int] = set()
        self.state: set[int] = set()
        if self.possible:
            self.facts = {k for k, guard in enumerate(outcome.guards) if checks_of_guard(guard) is not None} - unsteady
            self.state = {k for k, entry in enumerate(outcome.state) if self._of_tensor(k, *entry) is not None}

    def retake(self) -> list[PointerCheck] | None:
        """Take new checks after the 1st, 2nd, 4th, 8th … time that only checks failed; None in between."""
        self._refused += 1
        return None if self._refused & (self._refused - 1) else self.take_checks()

    def take_checks(self) -> list[PointerCheck] | None:
        """Take checks of everything as it is now; None if something cannot be checked any more."""
        found = [self._of_argument(v) for v in self.arguments]
        found += [self._of_relocated(i, k) for i, k in enumerate(self.relocated, self.outcome.arguments)]
        parts = []
        for k in sorted(self.facts):
            parts.append(checks_of_guard(self.outcome.guards[k]))
            words = [_identity(check) for check in parts[-1] or ()]
            self._moves[k] += self._taken.get(k, words) != words
            self._taken[k] = words
        parts += [self._of_tensor(k, *entry) for k, entry in enumerate(self.outcome.state) if k in self.state]
        for part in parts:
            if part is None:
                return None
            found += part
        # two checks of one container are the same, though each has a list of its own to compare with
        return [*{(check[:2] if check.kind in LISTED else check[:4]): check for check in found}.values()]

    def moved_guards(self) -> list[int]:
        """Return the guards that have other objects now than when their checks were taken last."""
        return [
            k
            for k, words in self._taken.items()
            if [_identity(check) for check in checks_of_guard(self.outcome.guards[k]) or ()] != words
        ]

    def find_unsteady(self) -> set[int]:
        """Return the guards that hold, each time by other objects."""
        return {k for k, count in self._moves.items() if count >= MAX_MOVES}

    def _of_argument(self, v: Value) -> PointerCheck:
        number, strides = v.source.number, v.source.strides
        tensor, node = self._given.get(number, (None, None))
        hooked = type(node) is Leaf and node.hooks is not None
        itself = None if type(tensor) in (Tensor, type(None)) and not hooked else tensor
        leaf = False if node is None else True if type(node) is Leaf and not hooked else None
        steps = tuple(s * v.dtype.itemsize for s in strides) if isinstance(strides, tuple) and v.shape else None
        return check_argument(number, itself, leaf, v.dtype, v.shape, steps, CONTIGUOUS if v.shape else 0)

    def _of_relocated(self, number: int, k: int) -> PointerCheck:
        """Return the check of a tensor that may be another in each call, or lie elsewhere."""
        tensor, node, symbol = self.outcome.state[k]
        itself = tensor if symbol.source.expression is None else None
        leaf = False if node is None else None
        return check_argument(number, itself, leaf, symbol.dtype, symbol.shape, None, CONTIGUOUS | ALIGNED | WRITEABLE)

    def _of_tensor(
        self, k: int, tensor: Tensor, node: ConsumedHistory | HookableNode | GraphNode | None, symbol: Value
    ) -> list[PointerCheck] | None:
        """Return the checks of a captured tensor: the place where another may be found, its history, its memory."""
        if isinstance(symbol.source, Argument) or (k in self.relocated and symbol.source.expression is not None):
            return []
        slots = cpython_layout.find_slot_offsets()
        assert slots is not None
        found: list[PointerCheck] = []
        if k in self.unread and symbol.source.expression is not None:
            return None  # any tensor may be there
        if symbol.source.expression is not None:
            place = getattr(symbol.source.expression, "__self__", None)
            found_there = checks_of_source(place) if isinstance(place, Source) else None
            if found_there is None:
                return None
            found, tensor = found_there, symbol.source.locate()
        found.append(check_slot(tensor, slots.node, node))
        if type(node) is Leaf and node.hooks is None:
            found.append(check_slot(node, slots.hooks, None))
        if k in self.located or k not in (
            *self.relocated,
            *self.unread,
        ):  # of one that each call copies it tells the shape
            found.append(check_slot(tensor, slots.array, tensor.array))
        return found


def install_checks(checks: list[PointerCheck], given: tuple[Operand, ...]) -> Callable[..., bool] | None:
    """Return a function that makes these checks; None if something has changed since they were taken."""
    unchanged = make_checker(checks)
    return unchanged if unchanged(*given) else None


def _identity(check: PointerCheck) -> tuple[object, ...]:
    """Return what tells a check from one taken at another time."""
    if check.kind == VERSION_IS:
        return check[:2]
    return (*check[:2], np.asarray(check.held[-1]).tobytes()) if check.kind in LISTED else check[:4]


def always_stale(*_: object) -> bool:
    """Fail: nothing was checked yet."""
    return False


def _may_be_contiguous(v: Value) -> bool:
    """False for an argument that was not, and which each call copies."""
    if not isinstance(v.source.strides, tuple):
        return True
    step = 1
    for n, stride in zip(reversed(v.shape), reversed(v.source.strides), strict=True):
        if n != 1 and stride != step:
            return False
        step *= n
    return True
