"""The plan of an index expression: slices, integers, new dimensions and index arrays, in the order of their use."""

from __future__ import annotations

import warnings
from functools import lru_cache

import numpy as np

from adjoint.core.graph.source_location import user_site
from adjoint.core.op.families import BOOL
from adjoint.core.op.op import op_of
from adjoint.core.op.spec import Spec
from adjoint.core.runtime.explanation_slot import with_explanation
from adjoint.core.runtime.mode import call_on_values, mode, nondefault
from adjoint.core.tensor.size import as_size, range_length, slice_bounds
from adjoint.core.tensor.storage import Steps, index_steps_slot
from adjoint.core.tensor.tensor import Tensor, constant, wrap
from adjoint.core.typing import Function, Operand, Operands, Params, Shape
from adjoint.ops.elementwise import select
from adjoint.ops.indexing.nonzero import find_nonzero
from adjoint.ops.movement import movement

LONGEST_TUPLE = 32  # as in NumPy before 1.23, a longer list is an array
NOT_BASIC = object()  # in place of a key
SLICE_BOUND_TYPES = frozenset({int, type(None)})
SEQUENCE_INDEX_TYPES = (list, tuple, slice, Tensor, np.ndarray)


class IndexPlan:
    """An index expression in the order in which it is carried out: slices, integers, new dimensions, index arrays.

    So an integer never counts as an index array, and the dimensions of the result stand where PyTorch has them.
    """

    __slots__ = (
        "arrays",
        "basic",
        "bounds",
        "integers",
        "is_read",
        "mask",
        "mask_at",
        "new",
        "pattern",
        "shape",
        "sliced",
    )

    def __init__(self, shape: Shape, key: Operand, is_read: bool = False) -> None:
        self.is_read = is_read  # so that the number of truths in a mask is the size of the result
        self.basic: list[Operand] = []  # all but the arrays, as NumPy takes it
        self.bounds: list[tuple[int, int, int]] = []  # for each dimension
        self.integers: list[tuple[int, int]] = []  # (dimension, position)
        self.shape: list[int] = []  # before the arrays are applied
        self.pattern: list[int | None] = []  # for each dimension of `shape` the number of its array
        self.arrays: list[Operand] = []
        self.new = False
        self.mask: Tensor | None = None  # one whose values are not known, for it belongs to a step that is traced
        self.mask_at = 0  # the first of its dimensions in `shape`
        for item in _expand_ellipsis(shape, key):
            self._add(item, shape)
        self.sliced = any(_leaves_out(b, n) for b, n in zip(self.bounds, shape, strict=True))

    def _add(self, item: Tensor | int | slice | None, shape: Shape) -> None:
        d = len(self.bounds)
        if item is None:
            self._add_new()
        elif isinstance(item, slice):
            start, stop, step = slice_bounds(item, shape[d])
            if step <= 0:
                raise ValueError("step must be greater than zero")
            self.basic.append(slice(start, max(start, stop), step))
            self._keep((start, max(start, stop), step))
        elif isinstance(item, int):
            if not -shape[d] <= item < shape[d]:
                message = f"index {item} is out of bounds for dimension {d} with size {shape[d]}"
                raise with_explanation(IndexError(message))
            at = item if item >= 0 else item + shape[d]
            self.basic.append(at)
            self.bounds.append((0, shape[d], 1))
            self.integers.append((d, at))
        elif item.array.dtype.kind == "b":
            self._add_mask(item, shape[d : d + item.ndim])
        else:
            self._add_array(item, shape[d])

    def _add_mask(self, mask: Tensor, shape: Shape) -> None:
        d = len(self.bounds)
        if mask.array.shape != shape:
            raise IndexError(
                f"The shape of the mask {list(mask.array.shape)} at index {d} does not match the shape of the indexed "
                f"tensor {list(shape)} at index {d}"
            )
        array = mask.array  # literal masks are known while tracing, tensors are not
        if type(array) is not np.ndarray and self.is_read:
            for places, n in zip(call_on_values(find_truths, mask.detach()), shape or (1,), strict=True):
                self._add_array(places, n) if shape else self._add_new(places)
        elif type(array) is not np.ndarray:
            self._add_traced_mask(mask)
        elif mask.ndim:
            for found, n in zip(find_nonzero(array), shape, strict=True):
                self._add_array(wrap(found), n)
        else:  # a lone truth: a new dimension of size 1 or 0
            self._add_new(wrap(np.zeros(int(array), np.int64)))

    def _add_traced_mask(self, mask: Tensor) -> None:
        """Add a mask whose number of truths is not known: its dimensions stay."""
        if self.mask is not None:
            mask.array.refuse("indexing with several masks")
        self.mask, self.mask_at = mask, len(self.shape)
        for n in mask.array.shape:
            self.basic.append(slice(None))
            self._keep((0, n, 1))
        if not mask.ndim:
            self.mask = movement.reshape(mask, shape=(1,))
            self._add_new()

    def _add_array(self, array: Tensor, n: int) -> None:
        self.basic.append(slice(None))
        self.arrays.append(array)
        self._keep((0, n, 1), len(self.arrays) - 1)

    def _keep(self, bounds: tuple[int, int, int], slot: int | None = None) -> None:
        self.bounds.append(bounds)
        self.shape.append(range_length(*bounds))
        self.pattern.append(slot)

    def _add_new(self, array: Tensor | None = None) -> None:
        self.new = True
        self.basic.append(None)
        self.shape.append(1)
        self.pattern.append(None if array is None else len(self.arrays))
        if array is not None:
            self.arrays.append(array)

    def moves(self) -> list[tuple[Function, Params]]:
        """Return the ops that lead to all but the index arrays, in their order, with their parameters."""
        moves: list[tuple[Function, Params]] = [(movement.slice, {"bounds": tuple(self.bounds)})] if self.sliced else []
        moves += [(movement.select, {"axis": d, "at": at}) for d, at in reversed(self.integers)]
        return [*moves, (movement.reshape, {"shape": tuple(self.shape)})] if self.new else moves

    def node_name(self, key: Operand = None) -> str:
        """Return PyTorch's name for the last node, where it is not that of the op; `key`: what the plan is of."""
        if self.new:
            return "UnsqueezeBackward0"
        return "AliasBackward0" if key is ... or (type(key) is tuple and not key) else "SliceBackward0"


def _leaves_out(bounds: tuple[int, int, int], n: int) -> bool:
    """Return whether a slice may leave out some of `n` elements: a symbolic one may in another call."""
    start, stop, step = bounds
    if type(stop) is type(n) is int:
        return bounds != (0, n, 1)
    return not (stop is n and type(start) is type(step) is int and (start, step) == (0, 1))


def _expand_ellipsis(shape: Shape, key: Operand) -> list[Tensor | int | slice | None]:
    """Return the items of `key` in plain types, `...` replaced by slices, so that every dimension has one."""
    items = [
        _normalize_index(item)
        for item in (key if isinstance(key, tuple) else _list_key_to_tuple(key) if type(key) is list else (key,))
    ]
    used = sum(
        item.ndim if isinstance(item, Tensor) and item.array.dtype.kind == "b" else 1
        for item in items
        if item is not None and item is not Ellipsis
    )
    if used > len(shape):
        if not shape:
            raise IndexError(
                "invalid index of a 0-dim tensor. Use `tensor.item()` to convert a 0-dim tensor to a Python number"
            )
        raise IndexError(f"too many indices for tensor of dimension {len(shape)}")
    fill = [slice(None)] * (len(shape) - used)
    dots = [i for i, item in enumerate(items) if item is Ellipsis]
    at = dots[0] if dots else len(items)
    rest = [item for item in items[at:] if item is not Ellipsis]
    return items[:at] + fill + rest


def _list_key_to_tuple(key: list[Operand]) -> Operands:
    """Return a list as indices of several dimensions if it holds anything but numbers, else as one array."""
    if len(key) >= LONGEST_TUPLE or not any(
        i is None or i is Ellipsis or isinstance(i, SEQUENCE_INDEX_TYPES) for i in key
    ):
        return (key,)
    deprecate("Using a non-tuple sequence for multidimensional indexing is deprecated: use x[tuple(seq)].")
    return tuple(key)


def deprecate(message: str) -> None:
    """Warn, at the user's line, of a form of index that will go."""
    warnings.warn_explicit(message, UserWarning, *user_site()[:2])


def _normalize_index(item: Operand) -> Operand:
    """Return an index as None, Ellipsis, slice, int, or a tensor of integers or truths."""
    if item is None or item is Ellipsis or type(item) is int:
        return item
    if isinstance(item, slice):
        return slice(*(v if v is None else _to_slice_bound(v) for v in (item.start, item.stop, item.step)))
    if isinstance(item, np.integer):
        return int(item)
    if isinstance(item, int) and not isinstance(item, bool):
        return as_size(item)
    if isinstance(item, str):
        raise TypeError("a tensor is indexed by positions, not by names: got a str")
    if isinstance(item, (float, complex, dict, set)):
        raise IndexError(
            "only integers, slices (`:`), ellipsis (`...`), None and long or bool tensors are valid indices "
            f"(got {type(item).__name__})"
        )
    if not isinstance(item, Tensor):
        array = np.array(_tensors_to_numbers(item))  # a copy: whoever wrote it may change it
        if array.dtype.kind == "b":
            item = wrap(array)  # a mask stays readable while tracing: it cannot change
        else:
            item = constant(array if array.size else array.astype(np.int64))
    elif item.array.dtype.kind == "b" and nondefault.count and mode.interpreter is not None:
        mode.interpreter.adopt(item)  # it is data of the step: how many it selects is not known while tracing
    kind = item.array.dtype
    if kind != np.uint8 and kind.kind != "b" and not (kind.kind == "i" and (kind.itemsize >= 4 or not item.ndim)):
        raise IndexError(f"tensors used as indices must be long, int, byte or bool tensors, not {item.dtype}")
    if kind == np.uint8:
        deprecate("indexing with dtype uint8 is deprecated, and taken for a mask: use bool or int64.")
        return _normalize_index(select.cast(item, dtype=np.dtype(np.bool_)))
    if not item.array.shape and kind.kind == "i" and not (nondefault.count and mode.interpreter is not None):
        return int(item.array)
    return item


def _to_slice_bound(value: Operand) -> int:
    try:
        return as_size(value)
    except TypeError:
        raise TypeError("slice indices must be integers or None or have an __index__ method") from None


def find_truths(mask: Tensor) -> tuple[Tensor, ...]:
    """Return the places of a mask's truths; of a lone one zeros."""
    return tuple(map(wrap, find_nonzero(mask.numpy_view("indexing with a mask"))))


def _tensors_to_numbers(item: Operand) -> Operand:
    """Replace the tensors in nested lists by numbers."""
    if isinstance(item, (list, tuple)):
        return [_tensors_to_numbers(i) for i in item]
    return item.numpy_view("indexing with a list of tensors") if isinstance(item, Tensor) else item


def as_basic_key(key: Operand) -> Operand:
    """Return a key that has slices, integers, None and `...` alone, of plain types and with positive steps.

    In place of tensors that are one signed integer it has their numbers, unless a step is traced, where another call
    has others. Return `NOT_BASIC` for any other key.
    """
    items = key if type(key) is tuple else (key,)
    has_tensors = False
    for item in items:
        kind = type(item)
        if kind is slice:
            step = item.step
            if step is not None and (type(step) is not int or step <= 0):
                return NOT_BASIC
            if type(item.start) not in SLICE_BOUND_TYPES or type(item.stop) not in SLICE_BOUND_TYPES:
                return NOT_BASIC
        elif kind is Tensor:
            array = item.array
            if type(array) is not np.ndarray or array.shape or array.dtype.kind != "i":
                return NOT_BASIC
            has_tensors = True
        elif kind is not int and item is not None and item is not Ellipsis:
            return NOT_BASIC
    if not has_tensors:
        return key
    if nondefault.count and mode.interpreter is not None:
        return NOT_BASIC
    numbers = tuple([item.array.item() if type(item) is Tensor else item for item in items])
    return numbers if items is key else numbers[0]


def find_basic_plan(shape: Shape, key: Operand) -> IndexPlan:
    """Return the plan of a basic key, made once for each shape."""
    return _make_basic_plan(shape, _hashable(key))


def _hashable(key: Operand) -> Operands:
    """Return the items of a basic key, with a tuple in place of a slice, which cannot be hashed."""
    items = key if type(key) is tuple else (key,)
    return tuple([(item.start, item.stop, item.step) if type(item) is slice else item for item in items])


@lru_cache(1024)
def _make_basic_plan(shape: Shape, parts: Operands) -> IndexPlan:
    return IndexPlan(shape, tuple([slice(*part) if type(part) is tuple else part for part in parts]))


@index_steps_slot.fill
def index_steps(shape: Shape, key: Operand) -> tuple[Steps, str]:
    """Return the steps of x[key] for a basic key, and the name of the last node; "" if it has that of its op."""
    return _make_index_steps(shape, _hashable(key))


@lru_cache(1024)
def _make_index_steps(shape: Shape, parts: Operands) -> tuple[Steps, str]:
    plan, steps = _make_basic_plan(shape, parts), []
    for move, params in plan.moves() or [(movement.reshape, {"shape": shape})]:
        before, shape = shape, op_of(move).spec(Spec(shape, BOOL), **params).shape
        steps.append((op_of(move), params, before, shape))
    is_named = plan.new or not plan.moves()
    return tuple(steps), plan.node_name(... if parts == (...,) else parts) if is_named else ""
