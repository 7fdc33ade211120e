"""Publication of functions: as Tensor methods and in-place methods, with the keywords of both standards."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from adjoint.core.graph.node import Node, named_node_class, next_sequence_nr
from adjoint.core.graph.source_location import user_instruction
from adjoint.core.op.families import OPERANDS
from adjoint.core.op.op_errors import name_call
from adjoint.core.op.signature import parameters_of
from adjoint.core.runtime.mode import mode, nondefault
from adjoint.core.tensor.mutation_log import mutation_log
from adjoint.core.tensor.storage import Storage, storage_of
from adjoint.core.tensor.tensor import Tensor, shallow_copy
from adjoint.core.typing import Operand
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
TRANSLATED_KEYWORDS = frozenset({*ARRAY_API_NAMES, "out"})


def public(
    *names: str, inplace: bool = False, method: bool = True, varargs_ints: bool = False, overload: Any = None
) -> Callable[[Function], Function]:
    """Publish a function of tensors under its own and further `names` as Tensor methods.

    Where it has a `dim` or `keepdim`, the array API's `axis` and `keepdims` are taken as well. `inplace` derives the
    method with the trailing underscore. `varargs_ints`: the second parameter is a tuple of integers, which callers may
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
                setattr(Tensor, f"{name}_", in_place(call, f"{name}_"))
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


def in_place(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    """Make a method that writes the result of `function` into its first argument and returns that."""
    plain = name.removesuffix("_")
    about = f"In-place `{plain}`: write the result into this tensor and return it.\n\n    `{plain}`: {function.__doc__}"
    if name in NO_OVERLAP_METHODS:
        function = _with_overlap_check(function, name)
    ufunc = getattr(function, "ufunc", INPLACE_UFUNCS.get(name))

    def call(self: Tensor, *args: Operand, **kwargs: Operand) -> Tensor:
        if ufunc is not None and len(args) == 1 and not kwargs and try_inplace_ufunc(ufunc, self, args[0]):
            return self
        start = next_sequence_nr()
        given = (self, *args)
        if nondefault.count and mode.saved_tensor_hooks and mode.recording and mode.interpreter is None:
            given = tuple(_copy_if_overlapping(x, self) for x in given)
        return write_in_place(self, function(*given, **kwargs), name, start)

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

    def call(self: Tensor, other: Operand) -> Tensor:
        return write_into(self, other) if isinstance(other, OPERANDS) else NotImplemented

    call.__name__ = call.__qualname__ = name
    call.__doc__ = write_into.__doc__
    return call


def try_inplace_ufunc(ufunc: np.ufunc, x: Tensor, other: Operand) -> bool:
    """Write ufunc(x, other) into x and return True if x is no view, and no history exists or is recorded."""
    silent = nondefault.count and not (mode.recording or mode.needs_slow_path or nondefault.inference_used)
    if not silent and (nondefault.count or x.node is not None):
        return False
    memory, array = x.storage_, x.array
    if (memory is not None and type(memory) is not Storage) or type(array) is not np.ndarray:
        return False
    dtype = array.dtype
    if dtype.kind != "f" or not array.flags.carray:
        return False
    if type(other) is Tensor:
        if other.node is not None and not silent:
            return False
        other = other.array
        if type(other) is not np.ndarray or other.shape != array.shape or other.dtype is not dtype:
            return False
    elif type(other) is not float:
        return False
    try:  # noqa: SIM105  `suppress` takes 0.4 µs
        ufunc(array, other, array)
    except (RuntimeWarning, FloatingPointError):
        pass  # the user made errors of them: all is written nevertheless
    storage = storage_of(x)  # as `mark_written` has it
    storage.version += 1
    mutation_log.record(array, user_instruction(2))
    return True


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
