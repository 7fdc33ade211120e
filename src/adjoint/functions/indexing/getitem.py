"""Reading and writing in brackets: `x[…]` and `x[…] = value`."""

from __future__ import annotations

import numpy as np

from adjoint.core.dtype.dtype_info import check_range
from adjoint.core.graph.source_location import user_site
from adjoint.core.op.apply import apply
from adjoint.core.op.call_template import INPUT_NAMES
from adjoint.core.op.families import INT64, MAX_INT64, MIN_INT64
from adjoint.core.op.movement_call import index_view
from adjoint.core.op.op import op_of
from adjoint.core.op.recorder import is_evaluated_alone, wrap_unrecorded
from adjoint.core.op.spec import broadcast_shapes
from adjoint.core.runtime.mode import mode, nondefault
from adjoint.core.tensor.as_strided import as_writable
from adjoint.core.tensor.size import has_symbolic
from adjoint.core.tensor.storage import Storage, mark_written, view_of
from adjoint.core.tensor.tensor import Tensor, constant, wrap
from adjoint.core.typing import Array, Operand, Shape
from adjoint.functions.api.publish import rename_node
from adjoint.functions.api.quiet_write import mark_quiet_write, quiet_array
from adjoint.functions.indexing.index_plan import NOT_BASIC, IndexPlan, as_basic_key, deprecate, find_basic_plan
from adjoint.functions.indexing.traced_masks import MISMATCH, drop_leading_ones, masked_assign_traced
from adjoint.ops.elementwise import select
from adjoint.ops.indexing import indexing
from adjoint.ops.indexing.nonzero import find_nonzero
from adjoint.ops.movement import movement
from adjoint.ops.mutation import view_update
from adjoint.ops.mutation.inplace import check_separate, check_writable, content_of, is_expanded, write_in_place

__all__: list[str] = []


def getitem(x: Tensor, key: Operand) -> Tensor:
    """Return x[key]: integers, slices, None and `...` give views; integer and boolean tensors copy.

    Raises IndexError for positions outside the tensor.
    """
    array = x.array
    if type(array) is np.ndarray and (basic := as_basic_key(key)) is not NOT_BASIC:
        key = basic
        out = index_view(x, array, key)
    else:
        out = _try_simple_getitem(x, key)
    if out is not None:
        return out
    if nondefault.count and mode.interpreter is not None:
        key = tuple(map(_literal_mask, key)) if isinstance(key, tuple) else _literal_mask(key)
    plan = IndexPlan(x.array.shape, key, is_read=True)
    out = _apply_basic_indices(x, plan)
    if plan.arrays:
        return indexing.index(out, *plan.arrays, pattern=tuple(plan.pattern))
    return out if out is not x else rename_node(movement.reshape(x, shape=x.array.shape), plan.node_name(key))


def _literal_mask(item: Operand) -> Operand:
    """Return the values of a mask from before a traced step: until it is written it selects as many in each call."""
    if not isinstance(item, Tensor) or item.array.dtype.kind != "b" or mode.interpreter is None:
        return item
    values = mode.interpreter.constant_values(item)
    return item if values is None else values


def _try_simple_getitem(x: Tensor, key: Operand) -> Tensor | None:
    """Return x[key] for integers, integer tensors and whole dimensions, without a plan; else None."""
    kind = type(key)
    if kind is tuple:
        return _try_index_arrays(x, key)
    if kind is slice:
        return None
    shape = x.array.shape
    if kind is Tensor and shape and key.array.shape:
        dtype = key.array.dtype
        if dtype.kind == "i" and dtype.itemsize >= 4:
            return indexing.index(x, key, pattern=(0,) + (None,) * (len(shape) - 1))
        if dtype.kind == "b":
            return _try_mask(x, key.array)
    return None


def _try_mask(x: Tensor, mask: Array) -> Tensor | None:
    """Return the elements of x where a mask of its first dimensions is true, at once; None if it is no such mask."""
    array = x.array
    if (
        type(array) is not np.ndarray
        or type(mask) is not np.ndarray
        or mask.shape != array.shape[: mask.ndim]
        or mask.ndim >= len(INPUT_NAMES)  # so many positions that the op's call is not written out
        or (nondefault.count and mode.alters_ops)
    ):
        return None
    if is_evaluated_alone(x):
        return wrap_unrecorded(np.asarray(array[mask], order="C"))
    places = [wrap(each) for each in find_nonzero(mask)]
    pattern = (*range(mask.ndim), *(None,) * (array.ndim - mask.ndim))
    return indexing.index(x, *places, pattern=pattern, computed=np.asarray(array[mask], order="C"))


def _try_index_arrays(x: Tensor, key: tuple[Operand, ...]) -> Tensor | None:
    """Return x[key] for a tuple with integer tensors beside integers, slices, None and `...`; else None."""
    if type(x.array) is not np.ndarray:
        return None
    arrays: list[Tensor] = []
    basic: list[Operand] = []  # the key without the arrays
    pattern: list[int | None] = []  # for each dimension of what that leads to
    used, fill_at, is_whole = 0, -1, True
    for item in key:
        kind = type(item)
        if kind is list and item and all(type(n) is int for n in item):
            item, kind = constant(np.array(item, np.int64)), Tensor
        if kind is Tensor:
            array = item.array
            if type(array) is not np.ndarray or array.dtype.kind != "i" or array.dtype.itemsize < 4:
                return None
            if array.shape:
                pattern.append(len(arrays))
                arrays.append(item)
                item = slice(None)
            else:
                is_whole = False
        elif item is Ellipsis:
            if fill_at >= 0:
                return None
            fill_at = len(pattern)
        elif kind is slice:
            pattern.append(None)
            is_whole = is_whole and item.start is None is item.stop and item.step is None
        elif item is None:
            pattern.append(None)
            is_whole = False
        elif kind is int:
            is_whole = False
        else:
            return None
        basic.append(item)
        used += item is not None and item is not Ellipsis
    rank = len(x.array.shape)
    if not arrays or used > rank:
        return None
    fill_at = len(pattern) if fill_at < 0 else fill_at
    pattern[fill_at:fill_at] = [None] * (rank - used)
    view: Tensor | None = x
    if not is_whole:
        plain = as_basic_key(tuple(basic))
        view = None if plain is NOT_BASIC else index_view(x, x.array, plain)
    return None if view is None else indexing.index(view, *arrays, pattern=tuple(pattern))


def _apply_basic_indices(x: Tensor, plan: IndexPlan) -> Tensor:
    """Return x after all but the index arrays."""
    out = x
    for move, params in plan.moves():
        out = move(out, **params)
    return rename_node(out, plan.node_name()) if plan.new and out.node is not None else out


def setitem(x: Tensor, key: Operand, value: Operand) -> None:
    """Write x[key] = value in place; gradients flow to `value`, and to x where it was not replaced.

    Raises RuntimeError for a value that does not broadcast to the region, IndexError for positions outside the tensor.
    """
    if x.array.dtype.char == "f":
        check_range(value, x.array.dtype)
    basic = as_basic_key(key) if type(x.array) is np.ndarray else NOT_BASIC
    is_basic = basic is not NOT_BASIC
    key = basic if is_basic else key
    if _try_quiet_assign(x, key, value) if is_basic else _try_quiet_index_assign(x, key, value):
        return
    plan = find_basic_plan(x.array.shape, key) if is_basic else IndexPlan(x.array.shape, key)
    if nondefault.count and has_symbolic(value):  # a number that each call of a compiled step brings
        value = select.number_as_array(value, x.array.dtype)
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


def _try_quiet_assign(x: Tensor, key: Operand, value: Operand) -> bool:
    """Let NumPy assign to slices and positions, and return True, if that changes nothing but elements of x."""
    array = _quiet_array_of_owner(x, value)
    if array is None:
        return False
    written = _value_to_write(value, array)
    if written is None:
        return False
    try:
        if type(value) is Tensor and written.shape:
            region = array[key]
            if region.shape != written.shape:
                return False
            region[...] = written
        else:  # one number, for all places
            array[key] = written
    except IndexError:  # which the general way tells in PyTorch's words
        return False
    mark_quiet_write(x, array)
    return True


def _quiet_array_of_owner(x: Tensor, value: Operand) -> Array | None:
    """Return the array of x if an assignment changes nothing but its elements, and x is no detached tensor.

    Of that, only the written part is to count as written.
    """
    array = quiet_array(x, value)
    return None if type(x.storage_) is Storage and x.storage_.aliases[0]() is not x else array


def _value_to_write(value: Operand, array: Array) -> Operand:
    """Return what NumPy is to assign: the array of a tensor of the same type, or a number; None for anything else.

    A number is one that NumPy converts to the type as PyTorch does.
    """
    kind, dtype = type(value), array.dtype
    if kind is Tensor:
        held = value.array
        return held if type(held) is np.ndarray and held.dtype is dtype else None
    if dtype.kind == "f":
        is_plain = kind in select.NUMBERS
    elif dtype is INT64:
        is_plain = kind is int and MIN_INT64 <= value <= MAX_INT64
    else:
        is_plain = kind is bool and dtype.kind == "b"
    return value if is_plain else None


def _try_quiet_index_assign(x: Tensor, key: Operand, value: Operand) -> bool:
    """Let NumPy assign at index arrays or where a mask is true, and return True, if that changes only elements of x."""
    array = _quiet_array_of_owner(x, value)
    if array is None:
        return False
    written = _value_to_write(value, array)
    keys = None if written is None else _array_keys(key if type(key) is tuple else (key,), array)
    if keys is None:
        return False
    try:
        if keys[0].dtype.kind == "b" and keys[0].ndim == array.ndim and not getattr(written, "ndim", 0):
            np.putmask(array, keys[0], written)  # a tenth of the time where the mask is large
        else:
            array[keys] = written
    except (IndexError, TypeError, ValueError):  # of which the general way tells in PyTorch's words; none is written
        return False
    mark_quiet_write(x, array)
    return True


def _array_keys(key: tuple[Operand, ...], array: Array) -> tuple[Array, ...] | None:
    """Return the arrays of a key of one mask, or of vectors of positions alone; None for any other key."""
    arrays = []
    for item in key:
        if type(item) is not Tensor or type(item.array) is not np.ndarray or not item.array.shape:
            return None
        arrays.append(item.array)
    first = arrays[0] if arrays else None
    if len(arrays) == 1 and first is not None and first.dtype.kind == "b":
        return (first,) if first.shape == array.shape[: first.ndim] else None
    for index in arrays:
        if index.dtype.kind != "i" or index.dtype.itemsize < 4:
            return None
    return tuple(arrays) if 0 < len(arrays) <= array.ndim else None


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
        deprecate("Assigning to places of an expanded tensor is deprecated: clone() it first.")
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
    view: Operand = view_of(region)
    if mode.recording and (region.node is not None or value.node is not None):
        raise RuntimeError(_OVERLAP_ERROR)
    deprecate("Assigning to places of an expanded tensor is deprecated: clone() it first.")
    shape = tuple(view.base.array.shape)
    count = movement.numel(shape)
    numbers = np.arange(count, dtype=np.int64).reshape(shape)
    places = constant(np.ascontiguousarray(view_update.replay_view(numbers, view.steps)))
    there = indexing.index(places, *plan.arrays, pattern=tuple(plan.pattern))
    flat = movement.reshape(view.base, shape=(count,))
    written = view_update.put_index(flat, value, there, pattern=(0,))
    write_in_place(view.base, movement.reshape(written, shape=shape), "index assignment")


def delitem(x: Tensor, key: int) -> None:
    """Raise TypeError: the size of a tensor stays."""
    raise TypeError("Tensor does not support deleting items")


for _name, _f in {"__getitem__": getitem, "__setitem__": setitem, "__delitem__": delitem}.items():
    setattr(Tensor, _name, _f)
