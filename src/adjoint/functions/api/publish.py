"""Publication of functions: as Tensor methods and in-place methods, with the keywords of both standards."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from adjoint.core.graph.node import Node, named_node_class, next_sequence_nr
from adjoint.core.op.families import OPERANDS
from adjoint.core.op.op_errors import name_call
from adjoint.core.op.signature import parameters_of
from adjoint.core.op.view_replay import replay_views
from adjoint.core.runtime.mode import mode, nondefault
from adjoint.core.tensor.tensor import Tensor, shallow_copy
from adjoint.core.typing import Array, Operand
from adjoint.functions.api.dim_args import parse_shape
from adjoint.functions.api.out import check_no_overlap, write_out
from adjoint.functions.api.quiet_write import (
    mark_quiet_write,
    quiet_array,
    try_inplace_compute,
    try_inplace_ufunc,
    try_inplace_write,
)
from adjoint.ops.mutation.inplace import write_in_place

if TYPE_CHECKING:
    from adjoint.core.op.op import Op
    from adjoint.functions.api.return_types import Extreme

Function = TypeVar("Function", bound=Callable[..., Any])
ARRAY_API_NAMES = {"axis": "dim", "keepdims": "keepdim"}
# they read their operands while they write
_NO_OVERLAP = "index_add_ index_copy_ index_fill_ index_put_ masked_scatter_ put_ scatter_ scatter_add_ scatter_reduce_"
NO_OVERLAP_METHODS = frozenset(_NO_OVERLAP.split())
INPLACE_UFUNCS = {"add_": np.add, "sub_": np.subtract, "mul_": np.multiply, "div_": np.divide}
Compute = Callable[..., Array | None]
TRANSLATED_KEYWORDS = frozenset({*ARRAY_API_NAMES, "out"})


def public(
    *names: str,
    inplace: bool | Compute = False,
    method: bool = True,
    varargs_ints: bool = False,
    overload: Any = None,
    view: bool = False,
    write: Callable[..., bool] | None = None,
) -> Callable[[Function], Function]:
    """Publish a function of tensors under its own and further `names` as Tensor methods.

    Where it has a `dim` or `keepdim`, the array API's `axis` and `keepdims` are taken as well. `inplace` derives the
    method with the trailing underscore; a function there computes the same of an array and arrays of its shape, or
    returns None for what only the whole function computes. `varargs_ints`: the second parameter is a tuple of integers,
    which callers may also give one by one; `overload` is a type and a function, for a value of that type in place of
    the integers. `view`: what is made of a tensor and integers is a view, by one step that depends on its shape alone.
    `write`: what the method with the underscore tries first, as `try_inplace_write` has it.
    """

    def publish(function: Function) -> Function:
        parameters = parameters_of(function).positional
        call = _with_array_api_names(function) if "dim" in parameters else function
        if varargs_ints:
            call = _with_varargs_ints(function, list(parameters)[1], overload)
        if view:
            call = replay_views(call, varargs_ints)
        for name in (function.__name__, *names):
            if method:
                setattr(Tensor, name, call)
            if inplace:
                setattr(Tensor, f"{name}_", in_place(call, f"{name}_", inplace if callable(inplace) else None, write))
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
            if not named and given:
                for n in given:  # as `parse_shape` does it, which would be one more call
                    if type(n) is not int:
                        break
                else:
                    return function(input, given)
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
    function: Callable[..., Any], name: str, compute: Compute | None = None, write: Callable[..., bool] | None = None
) -> Callable[..., Any]:
    """Make a method that writes the result of `function` into its first argument and returns that.

    `compute` and `write` are as `public` has them; what computes a unary op is its NumPy function.
    """
    plain = name.removesuffix("_")
    about = f"In-place `{plain}`: write the result into this tensor and return it.\n\n    `{plain}`: {function.__doc__}"
    if name in NO_OVERLAP_METHODS:
        function = _with_overlap_check(function, name)
    ufunc = getattr(function, "ufunc", INPLACE_UFUNCS.get(name))
    op: Op | None = getattr(function, "op", None)
    if compute is None and op is not None and op.family == "unary":
        compute = op.evaluate

    def call(self: Tensor, *args: Operand, **kwargs: Operand) -> Tensor:
        if ufunc is not None:
            if len(args) == 1:
                factor = kwargs.get("alpha") if kwargs else None
                is_factor = type(factor) is float and len(kwargs) == 1
                if (is_factor or not kwargs) and try_inplace_ufunc(ufunc, self, args[0], factor):
                    return self
        elif write is not None:
            if not kwargs and try_inplace_write(write, self, args):
                return self
        elif compute is not None and try_inplace_compute(compute, self, args, kwargs):
            return self
        array = quiet_array(self)
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


def rename_node(out: Tensor, kind: str, **settings: object) -> Tensor:
    """Name the last node of `out`, the result of several ops, as PyTorch names its only node.

    The node shows the `settings` as parameters of its op.
    """
    node = out.node
    if node is not None and isinstance(node, Node):
        if type(node) is Node:
            node.called = kind  # a change of its class takes 0.5 µs, and the walk longer
        else:
            node.__class__ = named_node_class(kind)
        if settings:
            node.params = (node.params or {}) | settings
    return out


def _copy_if_overlapping(x: Operand, written: Tensor) -> Tensor:
    """Copy `x` if its memory would be written: values that hooks on saved tensors pack must not change."""
    if not isinstance(x, Tensor) or not np.may_share_memory(x.array, written.array):
        return x
    out = shallow_copy(x)
    out.array, out.storage_, out.node = x.array.copy(), None, x.node
    return out
