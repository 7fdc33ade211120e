"""Reading and writing in brackets: `x[…]` and `x[…] = value`."""

from __future__ import annotations

import warnings
from operator import index
from typing import Any

import numpy as np

from adjoint.core.graph.source_location import user_site
from adjoint.core.op.apply import apply
from adjoint.core.op.op import op_of
from adjoint.core.op.spec import broadcast_shapes
from adjoint.core.runtime.explanation_slot import with_explanation
from adjoint.core.runtime.mode import call_on_values, mode, nondefault
from adjoint.core.tensor.as_strided import as_writable
from adjoint.core.tensor.storage import mark_written, view_of
from adjoint.core.tensor.tensor import Tensor, constant, wrap
from adjoint.core.typing import Array, Operand, Shape
from adjoint.functions.api.publish import rename_node
from adjoint.functions.indexing.traced_masks import MISMATCH, drop_leading_ones, masked_assign_traced
from adjoint.ops.elementwise import select
from adjoint.ops.indexing import indexing
from adjoint.ops.movement import movement
from adjoint.ops.mutation import view_update
from adjoint.ops.mutation.inplace import check_separate, check_writable, content_of, is_expanded, write_in_place

__all__: list[str] = []
LONGEST_TUPLE = 32  # as in NumPy before 1.23, a longer list is an array
_INDEX = op_of(indexing.index)
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

    def __init__(self, shape: Shape, key: Any, is_read: bool = False) -> None:
        self.is_read = is_read  # so that the number of truths in a mask is the size of the result
        self.basic: list[Any] = []  # all but the arrays, as NumPy takes it
        self.bounds: list[tuple[int, int, int]] = []  # for each dimension
        self.integers: list[tuple[int, int]] = []  # (dimension, position)
        self.shape: list[int] = []  # before the arrays are applied
        self.pattern: list[int | None] = []  # for each dimension of `shape` the number of its array
        self.arrays: list[Any] = []
        self.new = False
        self.mask: Tensor | None = None  # one whose values are not known, for it belongs to a step that is traced
        self.mask_at = 0  # the first of its dimensions in `shape`
        for item in _expand_ellipsis(shape, key):
            self._add(item, shape)
        self.sliced = any(b != (0, n, 1) for b, n in zip(self.bounds, shape, strict=True))

    def _add(self, item: Tensor | int | slice | None, shape: Shape) -> None:
        d = len(self.bounds)
        if item is None:
            self._add_new()
        elif isinstance(item, slice):
            start, stop, step = item.indices(shape[d])
            if step <= 0:
                raise ValueError("step must be greater than zero")
            self.basic.append(slice(start, max(start, stop), step))
            self._keep((start, max(start, stop), step))
        elif isinstance(item, int):
            if not -shape[d] <= item < shape[d]:
                message = f"index {item} is out of bounds for dimension {d} with size {shape[d]}"
                raise with_explanation(IndexError(message))
            self.basic.append(item % shape[d])
            self.bounds.append((0, shape[d], 1))
            self.integers.append((d, item % shape[d]))
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
            for found, n in zip(np.nonzero(array), shape, strict=True):
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
        self.shape.append(len(range(*bounds)))
        self.pattern.append(slot)

    def _add_new(self, array: Tensor | None = None) -> None:
        self.new = True
        self.basic.append(None)
        self.shape.append(1)
        self.pattern.append(None if array is None else len(self.arrays))
        if array is not None:
            self.arrays.append(array)


def _expand_ellipsis(shape: Shape, key: Any) -> list[Tensor | int | slice | None]:
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


def _list_key_to_tuple(key: list[Any]) -> tuple[Any, ...]:
    """Return a list as indices of several dimensions if it holds anything but numbers, else as one array."""
    if len(key) >= LONGEST_TUPLE or not any(
        i is None or i is Ellipsis or isinstance(i, SEQUENCE_INDEX_TYPES) for i in key
    ):
        return (key,)
    _deprecate("Using a non-tuple sequence for multidimensional indexing is deprecated: use x[tuple(seq)].")
    return tuple(key)


def _deprecate(message: str) -> None:
    warnings.warn_explicit(message, UserWarning, *user_site()[:2])


def _normalize_index(item: Any) -> Any:
    """Return an index as None, Ellipsis, slice, int, or a tensor of integers or truths."""
    if item is None or item is Ellipsis or type(item) is int:
        return item
    if isinstance(item, slice):
        return slice(*(v if v is None else _to_slice_bound(v) for v in (item.start, item.stop, item.step)))
    if isinstance(item, np.integer):
        return int(item)
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
    if kind.kind not in "iub":
        raise IndexError(f"tensors used as indices must be long, int or bool tensors, not {item.dtype}")
    if kind == np.uint8:
        _deprecate("indexing with dtype uint8 is deprecated, and taken for a mask: use bool or int64.")
        return _normalize_index(select.cast(item, dtype=np.dtype(np.bool_)))
    if not item.array.shape and kind.kind == "i" and not (nondefault.count and mode.interpreter is not None):
        return int(item.array)
    return item


def _to_slice_bound(value: Operand) -> int:
    try:
        return index(value)
    except TypeError:
        raise TypeError("slice indices must be integers or None or have an __index__ method") from None


def find_truths(mask: Tensor) -> tuple[Tensor, ...]:
    """Return the places of a mask's truths; of a lone one zeros."""
    array = mask.numpy_view("indexing with a mask")
    return tuple(map(wrap, np.nonzero(array))) if array.ndim else (wrap(np.zeros(int(array), np.int64)),)


def _tensors_to_numbers(item: Any) -> Any:
    """Replace the tensors in nested lists by numbers."""
    if isinstance(item, (list, tuple)):
        return [_tensors_to_numbers(i) for i in item]
    return item.numpy_view("indexing with a list of tensors") if isinstance(item, Tensor) else item


def getitem(x: Tensor, key: Any) -> Tensor:
    """Return x[key]: integers, slices, None and `...` give views; integer and boolean tensors copy.

    Raises IndexError for positions outside the tensor.
    """
    out = _try_simple_getitem(x, key)
    if out is not None:
        return out
    if nondefault.count and mode.interpreter is not None:
        key = tuple(map(_literal_mask, key)) if isinstance(key, tuple) else _literal_mask(key)
    plan = IndexPlan(x.array.shape, key, is_read=True)
    out = _apply_basic_indices(x, plan)
    if plan.arrays:
        return apply(_INDEX, (out, *plan.arrays), {"pattern": tuple(plan.pattern)})
    if out is not x:
        return out
    return rename_node(movement.reshape(x, shape=x.array.shape), "AliasBackward0" if key is ... else "SliceBackward0")


def _literal_mask(item: Operand) -> Operand:
    """Return the values of a mask from before a traced step: until it is written it selects as many in each call."""
    if not isinstance(item, Tensor) or item.array.dtype.kind != "b" or mode.interpreter is None:
        return item
    values = mode.interpreter.constant_values(item)
    return item if values is None else values


def _try_simple_getitem(x: Tensor, key: Any) -> Tensor | None:
    """Return x[key] for one integer, slices or one integer tensor without a plan, which takes 4 µs; else None."""
    shape, kind = x.array.shape, type(key)
    if kind is int:
        return movement.select(x, axis=0, at=key % shape[0]) if shape and -shape[0] <= key < shape[0] else None
    if kind is slice or kind is tuple:
        bounds = _slice_bounds(shape, (key,) if kind is slice else key)
        return None if bounds is None else movement.slice(x, bounds=bounds)
    if kind is Tensor and shape and key.array.shape and key.array.dtype.kind == "i":
        return apply(_INDEX, (x, key), {"pattern": (0,) + (None,) * (len(shape) - 1)})
    return None


def _slice_bounds(shape: Shape, key: tuple[Any, ...]) -> tuple[tuple[int, ...], ...] | None:
    """Return (start, stop, step) for each dimension; None for a key of anything but slices, or which takes all."""
    if len(key) > len(shape):
        return None
    bounds = [(0, n, 1) for n in shape]
    partly = False
    for d, item in enumerate(key):
        if type(item) is not slice:
            return None
        start, stop, step = item.indices(shape[d])
        if step <= 0:
            return None
        if (start, stop, step) != bounds[d]:
            bounds[d], partly = (start, max(start, stop), step), True
    return tuple(bounds) if partly else None


def _apply_basic_indices(x: Tensor, plan: IndexPlan) -> Tensor:
    """Return x after all but the index arrays."""
    out = movement.slice(x, bounds=tuple(plan.bounds)) if plan.sliced else x
    for d, at in reversed(plan.integers):
        out = movement.select(out, axis=d, at=at)
    return rename_node(movement.reshape(out, shape=tuple(plan.shape)), "UnsqueezeBackward0") if plan.new else out


def setitem(x: Tensor, key: Any, value: Operand) -> None:
    """Write x[key] = value in place; gradients flow to `value`, and to x where it was not replaced.

    Raises RuntimeError for a value that does not broadcast to the region, IndexError for positions outside the tensor.
    """
    plan = IndexPlan(x.array.shape, key)
    if plan.mask is not None:
        region = _apply_basic_indices(x, plan)
        if is_expanded(view_of(x)) and nondefault.count and mode.interpreter is not None:
            raise RuntimeError(_OVERLAP_ERROR)  # a mask whose values are not known yet does not tell which is the last
        write_in_place(region, assign_masked(region, plan, value), "index assignment")
        return
    shape = _indexed_shape(plan) if plan.arrays else tuple(plan.shape)
    value = _prepare_value(x, value, shape, bool(plan.arrays))
    called = "index assignment"
    if not plan.arrays:
        region = _apply_basic_indices(x, plan)
        if value.array.shape != region.array.shape:
            value = movement.expand(value, shape=region.array.shape)
        write_in_place(region, content_of(value, region), called)
    elif (nondefault.count and mode.is_intercepted) or (
        mode.recording and (x.node is not None or value.node is not None)
    ):
        region = _apply_basic_indices(x, plan)
        if is_expanded(view_of(x)):
            _put_into_base(region, value, plan)
        else:
            put = apply(op_of(view_update.put_index), (region, value, *plan.arrays), {"pattern": tuple(plan.pattern)})
            write_in_place(region, put, called)
    else:
        _assign_unrecorded(x, plan, value.array)


def _indexed_shape(plan: IndexPlan) -> Shape:
    try:
        return indexing.indexed_shape(tuple(plan.shape), [a.array.shape for a in plan.arrays], tuple(plan.pattern))
    except ValueError as error:
        raise IndexError(f"shape mismatch: indexing tensors could not be broadcast together: {error}") from error


def assign_masked(region: Tensor, plan: IndexPlan, value: Tensor | float, accumulate: bool = False) -> Tensor:
    """Return `region` with `value`, or with it added, where the plan's mask is true."""
    mask: Operand = plan.mask
    if plan.arrays:
        mask.array.refuse("indexing with a mask and other tensors")
    return masked_assign_traced(region, mask, plan.mask_at, _cast_value(region, value, True), accumulate)


def _cast_value(x: Tensor, value: Operand, at_arrays: bool) -> Tensor:
    """Return `value` as a tensor of the type of x."""
    if not isinstance(value, Tensor):
        number = select.number_as_array(value, x.array.dtype) if isinstance(value, complex) else np.asarray(value)
        value = constant(number.astype(x.array.dtype, copy=False))
    elif value.array.dtype != x.array.dtype:
        if at_arrays:
            raise RuntimeError(
                f"Index put requires the source and destination dtypes match, got {x.dtype} for the destination and "
                f"{value.dtype} for the source."
            )
        value = select.cast(value, dtype=x.array.dtype)
    return value


def _prepare_value(x: Tensor, value: Tensor | float, shape: Shape, at_arrays: bool) -> Tensor:
    """Return `value` as a tensor of the type of x that broadcasts to `shape`."""
    given = tuple(value.array.shape if isinstance(value, Tensor) else np.shape(value))
    extra = max(len(given) - len(shape), 0)
    shown = given[extra:] if set(given[:extra]) <= {1} else given
    try:
        fits = broadcast_shapes(shown, shape) == shape
    except ValueError:
        fits = False
    if not fits:
        raise RuntimeError(f"{MISMATCH.format(list(given))} to indexing result of shape {list(shape)}")
    return drop_leading_ones(_cast_value(x, value, at_arrays), len(shape))


def _assign_unrecorded(x: Tensor, plan: IndexPlan, value: Array) -> None:
    """Let NumPy assign at the index arrays; nothing is recorded."""
    check_writable(x, "index assignment", False)
    if is_expanded(view_of(x)):
        _deprecate("Assigning to places of an expanded tensor is deprecated: clone() it first.")
        array = as_writable(x.array)
    else:
        array = check_separate(x.array, "index assignment", view_of(x))
    key = tuple(slice(None) if slot is None else plan.arrays[slot].array for slot in plan.pattern)
    array[(*plan.basic, ...)][key] = value
    mark_written(x, user_site())


_OVERLAP_ERROR = (
    "index assignment: unsupported operation: more than one element of the written-to tensor refers to a single memory "
    "location. Please clone() the tensor before performing the operation."
)


def _put_into_base(region: Tensor, value: Tensor, plan: IndexPlan) -> None:
    """Assign in a trace to an expanded tensor, at the places that its elements have in the base."""
    view: Any = view_of(region)
    if mode.recording and (region.node is not None or value.node is not None):
        raise RuntimeError(_OVERLAP_ERROR)
    _deprecate("Assigning to places of an expanded tensor is deprecated: clone() it first.")
    shape = tuple(view.base.array.shape)
    count = movement.numel(shape)
    places = constant(np.ascontiguousarray(view_update.replay_view(np.arange(count).reshape(shape), view.steps)))
    there = indexing.index(places, *plan.arrays, pattern=tuple(plan.pattern))
    flat = movement.reshape(view.base, shape=(count,))
    written = view_update.put_index(flat, value, there, pattern=(0,))
    write_in_place(view.base, movement.reshape(written, shape=shape), "index assignment")


def delitem(x: Tensor, key: int) -> None:
    """Raise TypeError: the size of a tensor stays."""
    raise TypeError("Tensor does not support deleting items")


for _name, _f in {"__getitem__": getitem, "__setitem__": setitem, "__delitem__": delitem}.items():
    setattr(Tensor, _name, _f)
