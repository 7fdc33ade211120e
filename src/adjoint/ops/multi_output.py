"""Several results of one node, computed as parts of one array."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from adjoint.core.dtype.dtype import default
from adjoint.core.graph.node import OutputSlot
from adjoint.core.op.recorder import is_evaluated_alone, wrap_unrecorded
from adjoint.core.runtime.mode import mode, nondefault, recorded_by_caller
from adjoint.core.tensor.tensor import Tensor, wrap
from adjoint.core.typing import Array, Operand, Params, Shape
from adjoint.ops.linalg.packed_factors import unpack_parts
from adjoint.ops.movement.movement import reshape
from adjoint.ops.movement.split import SplitOutputs


class OutputParts(SplitOutputs):
    """The node of pieces of the last dimension, each of its own shape."""

    __slots__ = ("settings",)
    settings: Params

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_saved_") and name.removeprefix("_saved_") in self.settings:
            return self.settings[name.removeprefix("_saved_")]
        raise AttributeError(f"{self.name()!r} object has no attribute {name!r}")

    def __dir__(self) -> list[str]:
        return sorted({*object.__dir__(self), *(f"_saved_{name}" for name in self.settings)})

    def _write_pieces(self, out: Operand, arrived: Sequence[Array | None]) -> Array:
        start = 0
        for g, shape in zip(arrived, self.pieces, strict=True):
            stop = start + prod(shape[out.ndim - 1 :])
            out[..., start:stop] = 0 if g is None else g.reshape(*out.shape[:-1], stop - start)
            start = stop
        return out

    def _reshape_for_cat(self, g: Tensor) -> Tensor:
        lead = self.parents[0].shape[:-1]
        return reshape(g, shape=(*lead, prod(g.array.shape[len(lead) :])))


_node_classes: dict[str, type[OutputParts]] = {}


def compute_outputs(x: Tensor, compute: Callable[[Array], Sequence[Array]]) -> tuple[Tensor, ...] | None:
    """Return what `compute` makes of the array of x as tensors; None if something is recorded, or sees ops.

    That saves packing the parts into one array, and splitting them.
    """
    if not is_evaluated_alone(x) or type(x.array) is not np.ndarray:
        return None
    return tuple([wrap_unrecorded(np.ascontiguousarray(part)) for part in compute(x.array)])


def split_outputs(packed: Tensor, shapes: Sequence[Shape], called: str, **settings: Any) -> tuple[Tensor, ...]:
    """Split `packed` (…, n) into tensors (…, *shape), whose sizes add up to n, made by one node of this name.

    The node shows the `settings`, as `_saved_…`.
    """
    array, modes = packed.array, mode.__dict__ if nondefault.count else None
    if type(array) is np.ndarray and not default.narrow and not (modes is not None and modes["needs_slow_path"]):
        parts, lead, start = [], array.shape[:-1], 0
        for shape in shapes:  # as below, without the views
            stop = start + prod(shape)
            parts.append(wrap(array[..., start:stop].reshape((*lead, *shape)).copy()))
            start = stop
    else:
        with recorded_by_caller():
            parts = unpack_parts(packed, tuple(shapes))
        separate_memory(parts)
    if packed.node is not None:
        if called not in _node_classes:
            _node_classes[called] = type(called, (OutputParts,), {"__slots__": ()})
        node = _node_classes[called](packed, [part.array.shape for part in parts], len(packed.array.shape) - 1)
        node.settings = settings
        for i, part in enumerate(parts):
            part.node = OutputSlot(node, i, part.array.shape, part.array.dtype)
    return tuple(parts)


def separate_memory(pieces: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Give each piece of one tensor memory of its own, so that each may be written in place."""
    for piece in pieces:
        piece.storage_ = None
        if type(piece.array) is np.ndarray:
            piece.array = piece.array.copy()
    return tuple(pieces)
