"""Numbers of a traced graph that depend on free axes: known by their values at a few sizes of these axes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from adjoint.compiler.ir.graph import Value, ValueOrigin
from adjoint.core.op.op import Op
from adjoint.core.typing import NumpyDtype, Operand
from adjoint.interop.onnx.modes import OnnxExporterError


@dataclass(frozen=True)
class FreeNumber:
    """A number that differs from trace to trace: its value in each."""

    values: tuple[float, ...]


Number = int | float | FreeNumber
Sizes = Sequence[Number]


@dataclass(frozen=True, eq=False)
class TracedValue:
    """A value of the traces, merged: numbers that differ are free numbers. `op` is None for an input.

    `traces`: the value in each trace.
    """

    op: Op | None
    inputs: tuple[Operand, ...]  # merged values, numbers, or None
    params: dict[str, Operand]
    shape: tuple[Operand, ...]
    dtype: NumpyDtype
    origin: ValueOrigin | None
    traces: tuple[Value, ...]

    @property
    def name(self) -> str:
        """Name of the op."""
        return "input" if self.op is None else self.op.name

    def describe(self) -> str:
        """Return the op and the user's line."""
        return self.name if self.origin is None else f"{self.name} at {self.origin.site}"

    def require_fixed(self, number: Operand) -> Operand:
        """Return a number, or a nest of them, that ONNX wants as a constant. Raises OnnxExporterError for others."""
        if has_free_number(number):
            raise OnnxExporterError(
                f"torch.onnx.export: {self.describe()} has a setting that depends on a free axis, where ONNX takes "
                "constants only: do not name that axis in dynamic_axes or dynamic_shapes"
            )
        return number


def has_free_number(tree: Operand) -> bool:
    """Return whether a number, or one in nested tuples and lists, is free."""
    return isinstance(tree, FreeNumber) or (isinstance(tree, (tuple, list)) and any(map(has_free_number, tree)))


def pointwise(function: Callable[..., float], *numbers: Number) -> Number:
    """Return `function` of numbers, computed for each trace where one of them is free."""
    counts = {len(n.values) for n in numbers if isinstance(n, FreeNumber)}
    if not counts:
        return function(*numbers)
    spread = (n.values if isinstance(n, FreeNumber) else (n,) * max(counts) for n in numbers)
    return join_numbers(tuple(map(function, *spread)))


def join_numbers(values: tuple[float, ...]) -> Number:
    """Return the number with these values in the traces: free if they differ."""
    return values[0] if all(v == values[0] for v in values) else FreeNumber(values)


class StructureError(Exception):
    """Traces that differ in more than numbers."""


def merge_trees(trees: tuple[Operand, ...]) -> Operand:
    """Return what parameters of an op are in all traces. Raises StructureError if more than numbers differ."""
    first = trees[0]
    kinds = {type(tree) for tree in trees}
    if len(kinds) == 1 and isinstance(first, (tuple, list)):
        if len({len(tree) for tree in trees}) > 1:
            raise StructureError
        parts = [merge_trees(parts) for parts in zip(*trees, strict=True)]
        return type(first)(*parts) if hasattr(first, "_fields") else type(first)(parts)
    if all(tree is first for tree in trees):
        return first
    if kinds <= {int, float}:
        return join_numbers(trees)
    if all(tree == first for tree in trees):
        return first
    raise StructureError


__all__ = [
    "FreeNumber",
    "Number",
    "Sizes",
    "StructureError",
    "TracedValue",
    "has_free_number",
    "join_numbers",
    "merge_trees",
    "pointwise",
]
