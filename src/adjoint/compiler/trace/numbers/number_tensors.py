"""Tensors that a step makes of numbers which each call brings."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from adjoint.compiler.ir.graph import Value
from adjoint.compiler.ir.symbolic_size import as_number
from adjoint.compiler.trace.numbers.symbolic_number import SymbolicNumber, is_symbolic_number
from adjoint.core.dtype.dtype import default, promote
from adjoint.core.tensor.tensor import Tensor, wrap
from adjoint.core.typing import Array, NumpyDtype, Operand
from adjoint.ops.elementwise import select
from adjoint.ops.movement import movement


class NumberReader(Protocol):
    """Makes values of a graph: of a number that each call brings, and of constants."""

    def number(self, x: SymbolicNumber) -> Value:
        """Make the input that brings a number."""

    def constant(self, array: Array) -> Value:
        """Make a constant."""


def stack_numbers(tracer: NumberReader, data: Operand, kind: NumpyDtype | None) -> Tensor | None:
    """The tensor of a number, or of nested lists; None unless some number is of each call alone."""
    if isinstance(made := getattr(data, "traced_tensor", None), Tensor):  # of an array that NumPy computes in each call
        made = select.copy(made.detach())
        return made if kind is None or kind == made.array.dtype else select.cast(made, dtype=kind)
    leaves: list[Operand] = []
    shown = np.asarray(_collect_leaves(data, leaves))
    if not any(map(is_symbolic_number, leaves)) or shown.size != len(leaves):
        return None
    kind = _common_dtype(leaves) if kind is None else kind
    parts = [movement.reshape(_as_tensor(tracer, x, kind), shape=(1,)) for x in leaves]
    whole = parts[0] if len(parts) == 1 else movement.cat(*parts, axis=0)
    return movement.reshape(whole, shape=shown.shape)


def _collect_leaves(data: Operand, leaves: list[Operand]) -> Operand:
    """Collect the numbers and tensors in nested lists; zeros in their places."""
    if isinstance(data, (list, tuple)):
        return [_collect_leaves(part, leaves) for part in data]
    leaves.append(as_number(data))
    return 0


def _as_tensor(tracer: NumberReader, x: Operand, kind: NumpyDtype) -> Tensor:
    if is_symbolic_number(x):
        symbol = tracer.number(x)
        return wrap(symbol) if symbol.dtype == kind else select.cast(wrap(symbol), dtype=kind)
    if isinstance(x, Tensor):
        return select.cast(x.detach(), dtype=kind)
    array: Array = np.asarray(x, kind)
    return wrap(tracer.constant(array))


def _common_dtype(leaves: list[Operand]) -> NumpyDtype:
    """The type that a tensor of these numbers has."""
    kinds = {bool: np.dtype(bool), int: np.dtype(np.int64), float: default.floating.numpy}
    numbers = [x.array if isinstance(x, Tensor) else x.value if is_symbolic_number(x) else x for x in leaves]
    found = {x.dtype if hasattr(x, "dtype") else kinds[type(x)] for x in numbers}
    return promote(tuple([np.empty(0, dtype) for dtype in found]))
