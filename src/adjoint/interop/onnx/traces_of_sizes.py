"""Traces at several sizes of the free axes: which sizes a model takes is found by trying."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from adjoint.core.graph.source_location import warn_user
from adjoint.core.runtime.pytree import Structure
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Function, Operand
from adjoint.interop.onnx.capture import Capture, capture
from adjoint.interop.onnx.free_axes import TRACES, Axes, size_schemes
from adjoint.interop.onnx.merge_captures import MergedGraph, merge_captures
from adjoint.interop.onnx.modes import OnnxExporterError, OnnxExporterWarning

SizesByLabel = Mapping[str, int]


def capture_with_free_axes(call: Function, leaves: Sequence[Operand], structure: Structure, free: Axes) -> MergedGraph:
    """Trace a call at the given sizes and at others, and merge the traces.

    Raises: OnnxExporterError if it fails at all other sizes of an axis, or computes something else there.
    """
    given = _given_sizes(leaves, free)
    base = capture(call, _resize_leaves(leaves, free, given), structure)
    if not free:
        return merge_captures([base], "")
    resize = _SizeSearch(call, leaves, structure, free, given)
    captures = resize.find_captures()
    words = ", ".join(map(repr, given))
    if min(given.values()) > 1:  # of size 1 an axis broadcasts, which is another path
        captures = [base, *captures]
    merged = merge_captures(captures, words)
    uneven = resize.capture_at({label: size * 4 + 1 + 2 * i for i, (label, size) in enumerate(given.items())})
    if uneven is None:  # what limits sizes from above, or what they are multiples of, is part of the model
        return merged
    try:
        return merge_captures([*captures, uneven], words)
    except OnnxExporterError:
        warn_user(
            f"torch.onnx.export: the model computes something else at sizes of {words} that are no multiples of the "
            "given ones: what is exported holds for multiples",
            OnnxExporterWarning,
        )
        return merged


class _SizeSearch:
    """The search for sizes: all axes at once, then one by one, and those together that differ in no other way."""

    def __init__(
        self, call: Function, leaves: Sequence[Operand], structure: Structure, free: Axes, given: SizesByLabel
    ) -> None:
        self.call, self.leaves, self.structure, self.free, self.given = call, leaves, structure, free, given
        self.error: Exception | None = None

    def find_captures(self) -> list[Capture]:
        """Return the traces at other sizes."""
        alone = [[label] for label in self.given]
        found = self.trace([(group, 0) for group in alone])
        if found is None:
            schemes = [self.find_scheme(group, turn) for turn, group in enumerate(alone)]
            chosen = [(group, which) for group, which in zip(alone, schemes, strict=True) if which is not None]
            alike: dict[int, list[str]] = {}  # axes that no other size fits alone: those of one size go together
            for (label,), which in zip(alone, schemes, strict=True):
                if which is None:
                    alike.setdefault(self.given[label], []).append(label)
            for group in alike.values():
                which = self.find_scheme(group, len(chosen))
                if which is not None:
                    chosen.append((group, which))
            if sum(len(group) for group, _ in chosen) == len(alone):
                found = self.trace(chosen)
        if found is None:
            error = self.error
            words = ", ".join(f"{label!r} of size {n}" for label, n in self.given.items())
            raise OnnxExporterError(
                f"torch.onnx.export: the model takes no other sizes of the free axes {words}: {error}"
            ) from error
        return found

    def find_scheme(self, group: list[str], turn: int) -> int | None:
        """Return the number of the first scheme of sizes that the model takes for these axes, the others as given."""
        schemes = size_schemes(self.given[group[0]], turn)
        return next((i for i, s in enumerate(schemes) if self.takes(group, s)), None)

    def takes(self, group: list[str], sizes: list[int]) -> bool:
        """Return whether the model can be traced at these sizes of a group of axes."""
        return all(self.capture_at({**self.given, **dict.fromkeys(group, n)}) is not None for n in sizes[:2])

    def trace(self, groups: list[tuple[list[str], int]]) -> list[Capture] | None:
        """Return the traces of all groups at the sizes of their schemes; None if one fails."""
        captures = []
        for i in range(TRACES):
            sizes: dict[str, int] = {}
            for turn, (group, which) in enumerate(groups):
                schemes = size_schemes(self.given[group[0]], turn)
                sizes |= dict.fromkeys(group, schemes[which][i])
            found = self.capture_at(sizes)
            if found is None:
                return None
            captures.append(found)
        return captures

    def capture_at(self, sizes: SizesByLabel) -> Capture | None:
        """Return a trace at sizes; None if the model does not take them."""
        try:
            return capture(self.call, _resize_leaves(self.leaves, self.free, sizes), self.structure)
        except Exception as error:  # noqa: BLE001 - whatever a model raises at a size that it does not take
            self.error = error
            return None


def _given_sizes(leaves: Sequence[Operand], free: Axes) -> dict[str, int]:
    """Return the size of each label. Raises ValueError if two axes of one name differ, or one is empty."""
    shapes = [x.shape for x in leaves if isinstance(x, Tensor)]
    given: dict[str, int] = {}
    for (number, axis), label in free.items():
        size = int(shapes[number][axis])
        if given.setdefault(label, size) != size:
            raise ValueError(f"torch.onnx.export: axes named {label!r} have the sizes {given[label]} and {size}")
        if size == 0:
            raise ValueError(f"torch.onnx.export: the free axis {label!r} has size 0 in the example")
    return given


def _resize_leaves(leaves: Sequence[Operand], free: Axes, sizes: SizesByLabel) -> list[Operand]:
    """Return the leaves with an array in place of each tensor, of other sizes along the free axes."""
    result: list[Operand] = []
    number = 0
    for x in leaves:
        if isinstance(x, Tensor):
            shape = [sizes[free[number, axis]] if (number, axis) in free else n for axis, n in enumerate(x.shape)]
            number += 1
            result.append(np.zeros(shape, x.array.dtype))
        else:
            result.append(x)
    return result
