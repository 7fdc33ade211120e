"""The checks of a program at each call, in native code: its arguments, its guards, the tensors it captured.

They are taken when the guards in Python find nothing wrong although the last native checks failed: the more often that
was in vain, the more rarely.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from adjoint.compiler.ir.graph import Argument, Value
from adjoint.compiler.runtime import cpython_layout
from adjoint.compiler.runtime.guard_lowering import checks_of_guard, checks_of_source
from adjoint.compiler.runtime.object_checks import (
    PointerCheck,
    check_argument,
    check_refcount,
    check_slot,
    make_checker,
)
from adjoint.compiler.runtime.object_checks_ir import DICT_IS, LIST_IS
from adjoint.compiler.trace.frames.sources import Source
from adjoint.core.graph.node import Leaf
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Array, Operand

if TYPE_CHECKING:
    from adjoint.compiler.program.backward_node import ConsumedHistory
    from adjoint.compiler.trace.step_outputs import StepEffects
    from adjoint.core.graph.hooks import HookableNode
    from adjoint.core.graph.node import GraphNode


class GuardChecks:
    """The checks of a program that native code can make: the guards in `facts` and the tensors in `state`, by number.

    `possible`: whether the arguments can be, without which the rest is of no use. `located`: the numbers of the tensors
    whose memory is bound where it lies.
    """

    def __init__(self, outcome: StepEffects, arguments: list[Value], located: set[int]) -> None:
        self.outcome, self.arguments, self.located = outcome, arguments, located
        self._given = {s.source.number: (t, n) for t, n, s in outcome.state if isinstance(s.source, Argument)}
        self._refused = 0
        self.possible = cpython_layout.find_slot_offsets() is not None and all(map(_may_be_contiguous, arguments))
        self.facts: set[int] = set()
        self.state: set[int] = set()
        if self.possible:
            self.facts = {k for k, guard in enumerate(outcome.guards) if checks_of_guard(guard) is not None}
            self.state = {k for k, entry in enumerate(outcome.state) if self._of_tensor(k, *entry) is not None}

    def retake(self) -> list[PointerCheck] | None:
        """Take new checks after the 1st, 2nd, 4th, 8th … time that checks failed; None in between."""
        self._refused += 1
        return None if self._refused & (self._refused - 1) else self.take_checks()

    def take_checks(self) -> list[PointerCheck] | None:
        """Take checks of everything as it is now; None if something cannot be checked any more."""
        found = [self._of_argument(v) for v in self.arguments]
        parts = [checks_of_guard(guard) for k, guard in enumerate(self.outcome.guards) if k in self.facts]
        parts += [self._of_tensor(k, *entry) for k, entry in enumerate(self.outcome.state) if k in self.state]
        for part in parts:
            if part is None:
                return None
            found += part
        # two checks of one container are the same, though each has a list of its own to compare with
        return [*{(check[:2] if check.kind in (LIST_IS, DICT_IS) else check[:4]): check for check in found}.values()]

    def _of_argument(self, v: Value) -> PointerCheck:
        number, strides = v.source.number, v.source.strides
        tensor, node = self._given.get(number, (None, None))
        hooked = type(node) is Leaf and node.hooks is not None
        itself = None if type(tensor) in (Tensor, type(None)) and not hooked else tensor
        leaf = False if node is None else True if type(node) is Leaf and not hooked else None
        steps = tuple(s * v.dtype.itemsize for s in strides) if isinstance(strides, tuple) and v.shape else None
        return check_argument(number, itself, leaf, v.dtype, v.shape, steps, bool(v.shape))

    def _of_tensor(
        self, k: int, tensor: Tensor, node: ConsumedHistory | HookableNode | GraphNode | None, symbol: Value
    ) -> list[PointerCheck] | None:
        """Return the checks of a captured tensor: the place where another may be found, its history, its memory."""
        if isinstance(symbol.source, Argument):
            return []
        slots = cpython_layout.find_slot_offsets()
        assert slots is not None
        found: list[PointerCheck] = []
        if symbol.source.expression is not None:
            place = getattr(symbol.source.expression, "__self__", None)
            found_there = checks_of_source(place) if isinstance(place, Source) else None
            if found_there is None:
                return None
            found, tensor = found_there, symbol.source.locate()
        found.append(check_slot(tensor, slots.node, node))
        if type(node) is Leaf and node.hooks is None:
            found.append(check_slot(node, slots.hooks, None))
        if k in self.located:
            found.append(check_slot(tensor, slots.array, tensor.array))
        return found


def install_checks(checks: list[PointerCheck], given: tuple[Operand, ...]) -> Callable[..., bool] | None:
    """Return a function that makes these checks; None if something has changed since they were taken."""
    unchanged = make_checker(checks)
    return unchanged if unchanged(*given) else None


def checks_of_gradients(
    placed: list[tuple[Tensor, Tensor | None]], arrays: list[Array], most: int, held: list[int]
) -> list[PointerCheck]:
    """Return checks that tensors have the gradients in `placed`, these the memory in `arrays`, and nobody else either.

    `most` and `held`: what getrefcount says of a gradient, and of each array, while only the program has it.
    """
    slots = cpython_layout.find_slot_offsets()
    assert slots is not None
    # the checks must not count among the references: program and tensors keep all of it alive
    found = [check_slot(tensor, slots.grad, gradient)._replace(held=None) for tensor, gradient in placed]
    gradients = [gradient for _, gradient in placed if gradient is not None]
    for gradient, array, references in zip(gradients, arrays, held, strict=True):
        found.append(check_slot(gradient, slots.array, array)._replace(held=None))
        found.append(check_slot(gradient, slots.storage, None)._replace(held=None))  # written by nobody
        found += check_refcount(gradient, most - 1), check_refcount(array, references - 1)
    return found


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
