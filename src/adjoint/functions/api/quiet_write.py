"""In-place writes that change nothing but elements: where no history exists or is recorded, NumPy writes them.

They count as writes all the same: versions and the log of writes get what `write_in_place` gives them, which is what
runs in all other cases. An `add_` of 16 elements takes 1.2 µs here and 2.4 µs there (benchmarks/eager.py).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from sys import _getframe

import numpy as np

from adjoint.core.graph.node import next_sequence_nr
from adjoint.core.graph.source_location import library_files
from adjoint.core.runtime.mode import mode, nondefault
from adjoint.core.tensor.mutation_log import mutation_log
from adjoint.core.tensor.storage import Storage, View, storage_of
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Array, Operand, Operands

ndarray = np.ndarray
INTEGER_UFUNCS = frozenset({np.add, np.subtract, np.multiply})
MAX_SMALL = 2**31  # numbers below it are no reason for NumPy to raise
NUMBERS = frozenset({int, float, type(None)})
SEQUENCES = frozenset({tuple, list})
COMPUTED_DTYPES = frozenset({np.dtype(np.float32), np.dtype(np.float64)})  # what is computed in the type itself
BOOL = np.dtype(np.bool_)
OWN_MEMORY = frozenset({Storage, type(None)})  # of a tensor that is no view and was not made in inference mode


def quiet_array(x: Tensor, other: Operand = None) -> Array | None:
    """Return the array of `x` if a write of `other` changes nothing but its elements: there is no history."""
    silent = False
    if nondefault.count:
        modes = mode.__dict__  # this thread's
        silent = not (modes["recording"] or modes["needs_slow_path"])
        if not silent or (nondefault.inference_used and (modes["inference"] or type(x.storage_) not in OWN_MEMORY)):
            return None
    elif x.node is not None or (type(other) is Tensor and other.node is not None):
        return None
    memory, array = x.storage_, x.array
    if type(array) is not ndarray:
        return None
    if memory is not None and type(memory) is not Storage:
        if type(memory) is not View:
            return None
        storage, base = memory.storage, memory.base
        if base.storage_ is not storage or storage.aliases[0]() is not base or not (silent or base.node is None):
            return None  # of other memory, detached, or with a history
    return array if array.flags.carray else None


def mark_quiet_write(x: Tensor, array: Array, depth: int = 2) -> None:
    """Count a write into the array of `x`, as `mark_written` does. The innermost `depth` frames are the library's."""
    memory = x.storage_
    if type(memory) is not Storage:
        memory = storage_of(x) if memory is None else memory.storage if isinstance(memory, View) else memory
    memory.version += 1
    # as `mutation_log.record` does it, which would be one more call; most arrays own their memory, or their base does
    base = array.base
    write = mutation_log.by_memory.get(id(array if base is None else base)) or mutation_log.of(array)
    write.sequence_nr = number = next_sequence_nr()
    if number > mutation_log.last:  # noqa: PLR1730  half the time of max(…)
        mutation_log.last = number
    try:
        frame = _getframe(depth)  # each frame on the way costs 60 ns
    except ValueError:  # the method is the first function of its thread
        frame = _getframe(1)
    while library_files[frame.f_code.co_filename]:
        outer = frame.f_back
        if outer is None:
            break
        frame = outer
    write.place, write.outside = (frame.f_code, frame.f_lasti), False


def try_inplace_ufunc(ufunc: np.ufunc, x: Tensor, other: Operand, factor: Operand = None) -> bool:
    """Write ufunc(x, other) into x and return True if no history exists or is recorded, and no type is converted.

    `factor`: of a tensor `other`, before.
    """
    array = quiet_array(x, other)
    if array is None:
        return False
    dtype = array.dtype
    if dtype.kind != "f" and (factor is not None or dtype.kind != "i" or ufunc not in INTEGER_UFUNCS):
        return False
    if type(other) is Tensor:
        other = other.array
        if type(other) is not ndarray or other.dtype is not dtype or other.ndim > array.ndim:
            return False
        try:
            other = other if factor is None else other * factor
        except (RuntimeWarning, FloatingPointError):  # the user made errors of them
            return False
    elif factor is not None:
        return False
    elif type(other) is int:
        if dtype.kind == "i" and abs(other) > MAX_SMALL:
            return False
    elif type(other) is not float or dtype.kind != "f":
        return False
    try:
        ufunc(array, other, array)
    except (RuntimeWarning, FloatingPointError):
        pass  # the user made errors of them: all is written nevertheless
    except (ValueError, OverflowError):  # shapes that do not broadcast; nothing is written
        return False
    mark_quiet_write(x, array, 3)
    return True


def try_inplace_write(write: Callable[..., bool], x: Tensor, args: Operands) -> bool:
    """Let `write` write into the array of x, and return whether it did: if no history exists or is recorded.

    It takes the array, and the arguments with arrays in place of tensors, none of which shares memory with it.
    """
    array = quiet_array(x)
    if array is None:
        return False
    given: list[Operand] = []
    for operand in args:
        if type(operand) in SEQUENCES:
            values = tuple([_array_beside(each, array) for each in operand])
            if any(each is None for each in values):
                return False
            given.append(values)
        elif type(operand) is Tensor:
            value = _array_beside(operand, array)
            if value is None:
                return False
            given.append(value)
        else:
            given.append(operand)
    if not write(array, *given):
        return False
    mark_quiet_write(x, array, 3)
    return True


def _array_beside(x: Operand, written: Array) -> Array | None:
    """Return the array of a tensor without history that lies apart from the memory that is written; else None."""
    if type(x) is not Tensor or (x.node is not None and not nondefault.count):
        return None
    array = x.array
    return None if type(array) is not ndarray or np.may_share_memory(array, written) else array


def try_inplace_compute(
    compute: Callable[..., Array | None], x: Tensor, args: Operands, kwargs: Mapping[str, Operand]
) -> bool:
    """Write `compute` of the arrays into x, if it does not itself, and return True if no history is there or recorded.

    The operands are numbers, and tensors of the shape of x, of its type or bool.
    """
    array = quiet_array(x)
    if array is None or array.dtype not in COMPUTED_DTYPES:
        return False
    dtype = array.dtype
    if args:
        shape, given, recorded = array.shape, [], not nondefault.count
        for operand in args:
            if type(operand) is Tensor:
                value = operand.array
                if type(value) is not ndarray or value.shape != shape or (recorded and operand.node is not None):
                    return False
                if value.dtype is not dtype and value.dtype is not BOOL:
                    return False
                given.append(value)
            elif type(operand) in NUMBERS:
                given.append(operand)
            else:
                return False
        args = tuple(given)
    for operand in kwargs.values():
        if type(operand) not in NUMBERS:
            return False
    try:
        data = compute(array, *args, **kwargs)
    except (RuntimeWarning, FloatingPointError, OverflowError, TypeError):  # which the function itself is to raise
        return False
    if type(data) is not ndarray or data.dtype is not dtype or data.shape != array.shape:
        return False
    if data is not array:
        array[...] = data
    mark_quiet_write(x, array, 3)
    return True
