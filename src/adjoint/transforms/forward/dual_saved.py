"""Saved values that carry tangents, so that a backward pass within a level of forward mode is itself differentiated."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from adjoint.core.graph.node import Node, PackedValue, SavedValues
from adjoint.core.runtime.mode import Packer, mode
from adjoint.core.tensor.mutation_log import check_version
from adjoint.core.tensor.tensor import Tensor, restore_saved, tangents_of, wrap
from adjoint.core.typing import Array, Operands

if TYPE_CHECKING:
    pass

ndarray = np.ndarray


Recompute = Callable[[tuple[Any, ...], Tensor], None]


class SavedDual(PackedValue):
    """A saved input, with its tangents."""

    __slots__ = ("tensor",)

    def __init__(self, x: Tensor) -> None:
        self.tensor = snapshot(x)
        self.tensor.node = None

    def unpack(self) -> Tensor:
        """Return the tensor, without history."""
        return self.tensor

    def arrays(self) -> Iterator[Any]:
        """Return the value and all tangents."""
        return _arrays(self.tensor)

    def copy_before_write(self, memory: Array) -> SavedDual:
        """Return the same, in memory of its own if it lies in `memory`, which is about to be written."""
        self.tensor = _copy_if_shared(self.tensor, memory)
        return self


class SavedDualOutput(SavedDual):
    """The node's own output, with its tangents.

    Their history leads to the node itself, so it is not kept: where a backward pass is recorded, the tangents are made
    `recompute` from the inputs.
    """

    __slots__ = ("recompute", "inputs", "node")

    def __init__(self, out: Tensor, inputs: Operands, again: Recompute) -> None:
        self.tensor = snapshot(out, history=False)
        self.inputs = tuple(snapshot(x) if isinstance(x, Tensor) else x for x in inputs)
        self.recompute = again
        self.node: weakref.ref[Any] = weakref.ref(out.node)

    def unpack(self) -> Tensor:
        """Return the output; its tangents have a history where ops are recorded."""
        node = self.node()
        if not mode.recording or mode.forward_levels is None or node is None:
            return self.tensor
        if (
            node.sequence_nr < mode.level_floor
        ):  # a vmap has begun since: the node, and its tangents, are of the level around
            interpreter: Any = mode.interpreter
            with interpreter.outside():
                return self.unpack()
        needed = {name for needs in node.op.needs for name in needs}
        for i, x in enumerate(self.inputs):
            if isinstance(x, Tensor):
                for array in _arrays(x, node.op.inputs[min(i, len(node.op.inputs) - 1)] in needed):
                    check_version(array, node)
        out = wrap(self.tensor.array)
        out.node = node
        self.recompute(self.inputs, out)
        return out

    def copy_before_write(self, memory: Array) -> SavedDual:
        """Copy an output as an input, and its inputs too."""
        self.inputs = tuple(_copy_if_shared(x, memory) if isinstance(x, Tensor) else x for x in self.inputs)
        return super().copy_before_write(memory)


def save_duals(node: Node, inputs: Operands, out: Tensor, again: Recompute) -> SavedValues:
    """Return the saved values with the tangents that tensors carry. `again(inputs, out)` gives `out` its own."""
    saved = [
        SavedDual(x) if hasattr(value, "dtype") and tangents_of(x) else value
        for value, x in zip(node.saved_values, (*inputs, None), strict=True)
    ]
    if hasattr(saved[-1], "dtype") and tangents_of(out):
        saved[-1] = SavedDualOutput(out, inputs, again)
    return SavedValues(saved)


def repack_saved(node: Node, packer: Packer) -> SavedValues:
    """Return the saved values, handed to the hooks that pack them."""
    makers = (*node.parents, None)
    return SavedValues(
        packer.pack(restore_saved(value, maker)) if hasattr(value, "dtype") or isinstance(value, PackedValue) else value
        for value, maker in zip(node.saved_values, makers, strict=True)
    )


def snapshot(x: Tensor, history: bool = True) -> Tensor:
    """Return `x` and its tangents as they are now, with or without their histories, and not as views."""
    return _copy_dual(x, lambda array: array, history)


def _copy_if_shared(x: Tensor, memory: Array) -> Tensor:
    array = x.array
    if type(array) is not ndarray or not np.may_share_memory(array, memory):
        return x
    return _copy_dual(x, lambda array: array.copy() if type(array) is ndarray else array, True)


def _copy_dual(x: Tensor, make: Callable[[object], object], history: bool) -> Tensor:
    out = wrap(make(x.array))
    if history:
        out.node = x.node
    tangents = tangents_of(x)
    if tangents:
        out._tangents = {
            level: level.hold_tangent(_copy_dual(tangent.value, make, history))
            for level, tangent in tangents.items()
            if tangent.value is not None
        }
    return out


def _arrays(x: Tensor, value: bool = True) -> Iterator[Any]:
    """Return the arrays of `x`, or only of its tangents."""
    if value:
        yield x.array
    for tangent in (tangents_of(x) or {}).values():
        if tangent.value is not None:
            yield from _arrays(tangent.value)
