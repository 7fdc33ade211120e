"""Splits of a tensor along one dimension: the pieces are views, and one node makes them all."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from functools import lru_cache
from types import CodeType
from typing import Any

import numpy as np

from adjoint.core.dtype.dtype import default
from adjoint.core.graph.hooks import NodeHooks
from adjoint.core.graph.iterative_dealloc import with_iterative_dealloc
from adjoint.core.graph.node import GraphNode, OutputSlot, next_sequence_nr
from adjoint.core.graph.source_location import user_instruction
from adjoint.core.op.recorder import record_views
from adjoint.core.runtime.mode import mode, nondefault, recorded_by_caller
from adjoint.core.tensor.storage import (
    NO_GRAD_CREATION,
    CreationMeta,
    Storage,
    View,
    share_view,
    storage_of,
    view_of,
)
from adjoint.core.tensor.tensor import Tensor, wrap
from adjoint.core.typing import Array, Operand, Params, Shape
from adjoint.ops.creation import zeros
from adjoint.ops.movement.movement import WHOLE_DIM, cat, reshape, select, slice

MULTI_OUTPUT = CreationMeta.MULTI_OUTPUT_NODE


def split(x: Tensor, sizes: tuple[int, ...], axis: int, called: type[SplitOutputs]) -> tuple[Tensor, ...]:
    """Slices of these sizes along `axis`, one after another."""
    return _split(x, slice, *_slice_params(x.array.shape, sizes, axis), axis, called)


@lru_cache(256)
def _slice_params(shape: Shape, sizes: tuple[int, ...], axis: int) -> tuple[list[Params], list[Any]]:
    """Return the parameters of slices of these sizes, and their NumPy index keys."""
    whole = [(0, n, 1) for n in shape]
    before, after = whole[:axis], whole[axis + 1 :]
    rest = (builtins.slice(None),) * axis
    places: list[Params] = []
    keys, start = [], 0
    for n in sizes:
        end = start + n
        places.append({"bounds": (*before, (start, end, 1), *after)})
        keys.append((*rest, builtins.slice(start, end)))
        start = end
    return places, keys


@lru_cache(256)
def _select_params(count: int, axis: int) -> tuple[list[Params], list[Any]]:
    """Return the parameters of selections of each element along `axis`, and their NumPy index keys."""
    rest = (builtins.slice(None),) * axis
    return [{"axis": axis, "at": i} for i in range(count)], [(*rest, i, ...) for i in range(count)]


def unbind(x: Tensor, axis: int) -> tuple[Tensor, ...]:
    """The elements along `axis`, without it."""
    return _split(x, select, *_select_params(x.array.shape[axis], axis), axis, UnbindBackward0)


def _split(
    x: Tensor, move: Any, places: list[Params], keys: list[Any], axis: int, called: type[SplitOutputs]
) -> tuple[Tensor, ...]:
    """Apply `move` for each of the places, as outputs of one node. `keys`: the same places as NumPy index keys."""
    modes = mode.__dict__ if nondefault.count else None
    array = x.array
    if type(array) is not np.ndarray or default.narrow or (modes is not None and modes["needs_slow_path"]):
        with recorded_by_caller():
            pieces = [move(x, **params) for params in places]
        return _record_pieces(x, pieces, axis, called)
    storage_of(x)
    if type(x.storage_) is not Storage and view_of(x) is None:
        pieces = []
        for params, key in zip(places, keys, strict=True):
            piece = wrap(array[key])
            share_view(x, piece, move.op, params)
            pieces.append(piece)
        return _record_pieces(x, pieces, axis, called)
    recording = modes is None or modes["recording"]
    parts = [array[key] for key in keys]
    owner = None
    if recording and x.node is not None and parts:
        owner = called(x, [part.shape for part in parts], axis)
    pieces = record_views(parts, x, move.op, places, MULTI_OUTPUT if recording else NO_GRAD_CREATION, owner)
    if modes is not None and modes["detach_record"] is not None:
        for piece in pieces:
            piece._detach_record = modes["detach_record"]
    return tuple(pieces)


def _record_pieces(x: Tensor, pieces: list[Tensor], axis: int, called: type[SplitOutputs]) -> tuple[Tensor, ...]:
    if nondefault.count and not mode.recording:
        return tuple(pieces)
    for piece in pieces:
        if type(piece.storage_) is View:
            piece.storage_.creation_meta = MULTI_OUTPUT
    node = x.node
    if node is not None and pieces and not (mode.level_floor >= 0 and node.sequence_nr < mode.level_floor):
        maker = called(x, [piece.array.shape for piece in pieces], axis)
        for i, piece in enumerate(pieces):
            piece.node = OutputSlot(maker, i, piece.array.shape, piece.array.dtype)
    return tuple(pieces)


@with_iterative_dealloc
class SplitOutputs(GraphNode):
    """The node that makes several pieces of one tensor."""

    __slots__ = (
        "__weakref__",
        "instruction_offset",
        "axis",
        "code",
        "dtype",
        "hooks",
        "sequence_nr",
        "parents",
        "pieces",
        "shape",
    )
    op = None
    saved_values = None
    parents: tuple[Any, ...]
    pieces: list[tuple[int, ...]]
    code: CodeType
    hooks: NodeHooks | None

    def __init__(self, x: Tensor, pieces: list[tuple[int, ...]], axis: int) -> None:
        self.parents = (x.node,)
        self.pieces, self.axis = pieces, axis
        self.shape, self.dtype = pieces[0], x.array.dtype
        self.hooks = None
        self.code, self.instruction_offset = user_instruction()
        self.sequence_nr = next_sequence_nr()

    @property
    def outputs(self) -> int:
        """The number of pieces."""
        return len(self.pieces)

    def pull(self, arrived: Sequence[Tensor | None]) -> list[Tensor]:
        """Join the gradients of the pieces, zeros where there is none."""
        joined = [
            self._reshape_for_cat(zeros(shape, self.dtype) if g is None else g)
            for g, shape in zip(arrived, self.pieces, strict=True)
        ]
        return [cat(*joined, axis=self.axis) if len(joined) > 1 else joined[0]]

    def pull_arrays(self, arrived: Sequence[Array | None]) -> Array:
        """Return the array that `pull` gives in a tensor, without the calls of ops."""
        return self._write_pieces(np.empty(self.parents[0].shape, self.dtype), arrived)

    def _write_pieces(self, out: Operand, arrived: Sequence[Array | None]) -> Array:
        lead, start = (WHOLE_DIM,) * self.axis, 0
        for g, shape in zip(arrived, self.pieces, strict=True):
            stop = start + shape[self.axis]
            out[(*lead, builtins.slice(start, stop))] = 0 if g is None else g
            start = stop
        return out

    def _reshape_for_cat(self, g: Tensor) -> Tensor:
        return g


class SplitBackward0(SplitOutputs):
    """The node of `split` and `chunk`."""

    __slots__ = ()


class SplitWithSizesBackward0(SplitOutputs):
    """The node of `split` into given sizes."""

    __slots__ = ()


class UnbindBackward0(SplitOutputs):
    """The node of `unbind`, whose pieces lack the dimension."""

    __slots__ = ()

    def _write_pieces(self, out: Operand, arrived: Sequence[Array | None]) -> Array:
        lead = (WHOLE_DIM,) * self.axis
        for i, g in enumerate(arrived):
            out[(*lead, i)] = 0 if g is None else g
        return out

    def _reshape_for_cat(self, g: Tensor) -> Tensor:
        shape = g.array.shape
        return reshape(g, shape=(*shape[: self.axis], 1, *shape[self.axis :]))
