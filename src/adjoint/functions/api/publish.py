"""Publication of functions: as Tensor methods and in-place methods, with the keywords of both standards."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from sys import _getframe
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from adjoint.core.graph.node import Node, named_node_class, next_sequence_nr
from adjoint.core.graph.source_location import user_frame
from adjoint.core.op.families import OPERANDS
from adjoint.core.op.op_errors import name_call
from adjoint.core.op.signature import parameters_of
from adjoint.core.runtime.mode import mode, nondefault
from adjoint.core.tensor.mutation_log import mutation_log
from adjoint.core.tensor.storage import Storage, View, storage_of
from adjoint.core.tensor.tensor import Tensor, shallow_copy
from adjoint.core.typing import Array, Operand
from adjoint.functions.api.dim_args import parse_shape
from adjoint.functions.api.out import check_no_overlap, write_out
from adjoint.ops.mutation.inplace import write_in_place

if TYPE_CHECKING:
    from adjoint.functions.api.return_types import Extreme

Function = TypeVar("Function", bound=Callable[..., Any])
ARRAY_API_NAMES = {"axis": "dim", "keepdims": "keepdim"}
# they read their operands while they write
_NO_OVERLAP = "index_add_ index_copy_ index_fill_ index_put_ masked_scatter_ put_ scatter_ scatter_add_ scatter_reduce_"
NO_OVERLAP_METHODS = frozenset(_NO_OVERLAP.split())
INPLACE_UFUNCS = {"add_": np.add, "sub_": np.subtract, "mul_": np.multiply, "div_": np.divide}
INTEGER_UFUNCS = frozenset({np.add, np.subtract, np.multiply})
MAX_SMALL = 2**31  # numbers below it are no reason for NumPy to raise
TRANSLATED_KEYWORDS = frozenset({*ARRAY_API_NAMES, "out"})


def public(
    *names: str,
    inplace: bool | Callable[[Array, Array, float], None] = False,
    method: bool = True,
    varargs_ints: bool = False,
    overload: Any = None,
) -> Callable[[Function], Function]:
    """Publish a function of tensors under its own and further `names` as Tensor methods.

    Where it has a `dim` or `keepdim`, the array API's `axis` and `keepdims` are taken as well. `inplace` derives the
    method with the trailing underscore; a function there writes the result into an array, of another array of its type
    and shape and a number. `varargs_ints`: the second parameter is a tuple of integers, which callers may
    also give one by one; `overload` is a type and a function, for a value of that type in place of the integers.
    """

    def publish(function: Function) -> Function:
        parameters = parameters_of(function).positional
        call = _with_array_api_names(function) if "dim" in parameters else function
        if varargs_ints:
            call = _with_varargs_ints(function, list(parameters)[1], overload)
        for name in (function.__name__, *names):
            if method:
                setattr(Tensor, name, call)
            if inplace:
                setattr(Tensor, f"{name}_", in_place(call, f"{name}_", inplace if callable(inplace) else None))
        return call

    return publish


def _with_array_api_names(function: Any) -> Any:
    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Tensor | tuple[Tensor, ...] | Extreme | None:
        try:
            if not kwargs:
                return function(*args)
            if not TRANSLATED_KEYWORDS.isdisjoint(kwargs):
                for theirs, ours in ARRAY_API_NAMES.items():
                    if theirs in kwargs:
                        kwargs[ours] = kwargs.pop(theirs)
                if (out := kwargs.pop("out", None)) is not None:
                    return write_out(out, function, *args, **kwargs)
            return function(*args, **kwargs)
        except Exception as error:
            name_call(error, function, args, kwargs)
            raise

    return call


def _with_varargs_ints(function: Any, last: str, overload: Any) -> Any:
    @wraps(function)
    def call(input: Tensor | float, *given: Any, **named: Any) -> Any:
        try:
            if not named and given and type(given[0]) is int:
                return function(input, parse_shape(given))
            for word in (last, "size") if named else ():
                if word in named:
                    given = (*given, named.pop(word))
            if overload is not None and given and isinstance(given[0], overload[0]):
                return overload[1](input, *given, **named)
            shape = parse_shape(given)
            return function(input, shape, **named) if named else function(input, shape)
        except Exception as error:
            name_call(error, function, (input, *given), named)
            raise

    return call


def in_place(
    function: Callable[..., Any], name: str, write: Callable[[Array, Array, float], None] | None = None
) -> Callable[..., Any]:
    """Make a method that writes the result of `function` into its first argument and returns that."""
    plain = name.removesuffix("_")
    about = f"In-place `{plain}`: write the result into this tensor and return it.\n\n    `{plain}`: {function.__doc__}"
    if name in NO_OVERLAP_METHODS:
        function = _with_overlap_check(function, name)
    ufunc = getattr(function, "ufunc", INPLACE_UFUNCS.get(name))

    def call(self: Tensor, *args: Operand, **kwargs: Operand) -> Tensor:
        if ufunc is not None and len(args) == 1 and not kwargs and try_inplace_ufunc(ufunc, self, args[0]):
            return self
        if write is not None and not kwargs and _try_inplace_write(write, self, args):
            return self
        array = quiet_array(self)
        factor = kwargs.get("alpha") if len(args) == len(kwargs) == 1 else None
        if ufunc is not None and type(factor) is float and try_inplace_ufunc(ufunc, self, args[0], factor):
            return self
        start = next_sequence_nr()
        given = (self, *args)
        if nondefault.count and mode.saved_tensor_hooks and mode.recording and mode.interpreter is None:
            given = tuple(_copy_if_overlapping(x, self) for x in given)
        out = function(*given, **kwargs)
        if array is not None and out.node is None:
            new = out.array
            if type(new) is np.ndarray and new.shape == array.shape and new.dtype is array.dtype:
                array[...] = new
                mark_quiet_write(self, array)
                return self
        return write_in_place(self, out, name, start)

    call.__name__ = call.__qualname__ = name
    call.__doc__ = about
    return call


def _with_overlap_check(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    def call(self: Tensor, *args: Operand, **kwargs: Operand) -> Operand:
        check_no_overlap(self, (*args, *kwargs.values()))
        return function(self, *args, **kwargs)

    call.__name__ = name
    return call


def operator_in_place(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    """Make an in-place operator, which leaves an operand of a foreign type to its class."""
    write_into = in_place(function, name)
    ufunc = getattr(function, "ufunc", INPLACE_UFUNCS.get(name))

    def call(self: Tensor, other: Operand) -> Tensor:
        if ufunc is not None and try_inplace_ufunc(ufunc, self, other):
            return self
        return write_into(self, other) if isinstance(other, OPERANDS) else NotImplemented

    call.__name__ = call.__qualname__ = name
    call.__doc__ = write_into.__doc__
    return call


def try_inplace_ufunc(ufunc: np.ufunc, x: Tensor, other: Operand, factor: float | None = None) -> bool:
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
        if type(other) is not np.ndarray or other.dtype is not dtype or other.ndim > array.ndim:
            return False
        try:
            other = other if factor is None else other * factor
        except (RuntimeWarning, FloatingPointError):  # the user made errors of them
            return False
    elif factor is not None:
        return False
    elif type(other) is int:
        if dtype.kind == "i" and (dtype.itemsize < 8 or abs(other) > MAX_SMALL):
            return False
    elif type(other) is not float or dtype.kind != "f":
        return False
    try:
        ufunc(array, other, array)
    except (RuntimeWarning, FloatingPointError):
        pass  # the user made errors of them: all is written nevertheless
    except (ValueError, OverflowError):  # shapes that do not broadcast; nothing is written
        return False
    mark_quiet_write(x, array)
    return True


def _try_inplace_write(write: Callable[[Array, Array, float], None], x: Tensor, args: tuple[Operand, ...]) -> bool:
    """Call `write` and return True for a tensor and a number, if no history exists or is recorded."""
    if len(args) != 2 or type(args[0]) is not Tensor or type(args[1]) not in (int, float):
        return False
    array, other = quiet_array(x, args[0]), args[0].array
    if array is None or type(other) is not np.ndarray or other.dtype is not array.dtype or other.shape != array.shape:
        return False
    if array.dtype.kind != "f" or array.dtype.itemsize < 4:
        return False
    try:
        write(array, other, args[1])
    except (RuntimeWarning, FloatingPointError):  # the user made errors of them, before anything was written
        return False
    mark_quiet_write(x, array)
    return True


def quiet_array(x: Tensor, other: Operand = None) -> Array | None:
    """Return the array of `x` if a write of `other` changes nothing but its elements: there is no history."""
    silent = nondefault.count and not (mode.recording or mode.needs_slow_path or nondefault.inference_used)
    if not silent and (nondefault.count or x.node is not None or (type(other) is Tensor and other.node is not None)):
        return None
    memory, array = x.storage_, x.array
    if type(array) is not np.ndarray:
        return None
    if memory is not None and type(memory) is not Storage:
        if type(memory) is not View:
            return None
        storage, base = memory.storage, memory.base
        if base.storage_ is not storage or storage.aliases[0]() is not base or not (silent or base.node is None):
            return None  # of other memory, detached, or with a history
    return array if array.flags.carray else None


def mark_quiet_write(x: Tensor, array: Array) -> None:
    """Count a write into the array of `x`, as `mark_written` does."""
    memory = x.storage_
    if type(memory) is not Storage:
        memory = storage_of(x) if memory is None else memory.storage if isinstance(memory, View) else memory
    memory.version += 1
    # as `mutation_log.record` does it, which would be one more call; most arrays own their memory
    write = mutation_log.by_memory.get(id(array)) or mutation_log.of(array)
    write.sequence_nr = number = next_sequence_nr()
    if number > mutation_log.last:  # noqa: PLR1730  half the time of max(…)
        mutation_log.last = number
    frame = user_frame(_getframe(2))
    write.place, write.outside = (frame.f_code, frame.f_lasti), False


def rename_node(out: Tensor, kind: str, **settings: object) -> Tensor:
    """Name the last node of `out`, the result of several ops, as PyTorch names its only node.

    The node shows the `settings` as parameters of its op.
    """
    if isinstance(out.node, Node):
        out.node.__class__ = named_node_class(kind)
        if settings:
            out.node.params = (out.node.params or {}) | settings
    return out


def _copy_if_overlapping(x: Operand, written: Tensor) -> Tensor:
    """Copy `x` if its memory would be written: values that hooks on saved tensors pack must not change."""
    if not isinstance(x, Tensor) or not np.may_share_memory(x.array, written.array):
        return x
    out = shallow_copy(x)
    out.array, out.storage_, out.node = x.array.copy(), None, x.node
    return out
