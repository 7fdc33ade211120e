"""The argument `out=`: its checks of dtype, memory and gradients, and the write."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

import numpy as np

from adjoint.core.dtype.dtype import DTYPES, as_dtype
from adjoint.core.graph.source_location import warn_user
from adjoint.core.op.families import out_slot
from adjoint.core.op.op_errors import name_call
from adjoint.core.runtime.mode import ModeScope, mode, nondefault
from adjoint.core.tensor.tensor import Tensor, strided_stand_in, tangents_of
from adjoint.core.typing import Array, Operand, Operands
from adjoint.functions.api.out_dtype import COPIED_RESULTS, OTHER_AT_TOP_LEVEL, check_out_dtype, exact_dtype_error
from adjoint.ops.elementwise.select import cast
from adjoint.ops.movement import movement
from adjoint.ops.mutation.inplace import write_in_place

# computed in the type of `out`
ACCUMULATE_IN_OUT_DTYPE = frozenset({"cumprod", "cumsum", "mean", "nanmean", "nansum", "prod", "sum"})


def add_out_dtype(out: Operand, name: str, given: Operands, named: dict[str, Any]) -> dict[str, Any]:
    """Add `dtype=` to the arguments of a function that sums in the type of its `out`.

    Raises RuntimeError if another was asked for.
    """
    if name not in ACCUMULATE_IN_OUT_DTYPE:
        return named
    asked, have = named.get("dtype"), out.dtype
    if name in ("cumprod", "cumsum") and have.name == "bool":
        raise RuntimeError(f"{name}: not implemented for an `out` of bool")
    if asked is not None and as_dtype(asked) is not have:
        raise RuntimeError(exact_dtype_error(as_dtype(asked), have))
    x: Operand = named.get("input", given[0] if given else out)
    return named if x.dtype.rank > have.rank and x.dtype.is_complex else {**named, "dtype": have}


Function = TypeVar("Function", bound=Callable[..., Any])
MAX_OVERLAP_WORK: Any = 10_000  # of np.shares_memory, after which memory is taken to overlap
# they read elements after they have written others
OUT_MUST_NOT_ALIAS = ["cat", "concat", "concatenate", "gather", "kthvalue", "masked_select", "median", "take"]
# they fill an `out` of as many elements in any shape
RANGE_FUNCTIONS = frozenset({"arange", "linspace", "logspace", "range"})


def write_out(out: Operand, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Write `function(*args, **kwargs)` into `out`, a tensor or one for each result, and return it.

    Raises RuntimeError if a gradient is required, or if the type of `out` cannot hold the result. Warns if `out` has
    elements and another shape: it gets the shape of the result.
    """
    name = function.__name__
    targets = list(out) if isinstance(out, (tuple, list)) else [out]
    for target in targets:
        if not isinstance(target, Tensor):
            raise TypeError(f"{name}(): argument 'out' must be Tensor, not {type(target).__name__}")
    given = [*targets, *_collect_tensors((*args, *kwargs.values()))]
    if nondefault.count and mode.forward_levels is not None and any(tangents_of(t) for t in given):
        raise RuntimeError(
            f"Trying to use forward AD with {name} that does not support it because it is an out= function"
        )
    if mode.recording and any(t.requires_grad for t in given):
        raise RuntimeError(
            f"{name}(): functions with out=... arguments don't support automatic differentiation, but one of the "
            "arguments requires grad."
        )
    _check_memory(name, targets, given[len(targets) :])
    kwargs = add_out_dtype(targets[0], name, args, kwargs)
    with ModeScope(recording=False):
        found = function(*args, **kwargs)
        results = list(found) if isinstance(found, (tuple, list)) else [found]
        is_other = name in OTHER_AT_TOP_LEVEL and function.__module__.endswith("top_level_names")
        rule = f"torch.{name}" if is_other else name
        for at, (target, result) in enumerate(zip(targets, results, strict=True)):
            if name in RANGE_FUNCTIONS and target.array.size == result.array.size:
                result = movement.reshape_unshared(result, target.array.shape)
            if rule in COPIED_RESULTS:
                result = cast(result, dtype=target.array.dtype)
            types = DTYPES[result.array.dtype], DTYPES[target.array.dtype]
            check_out_dtype(rule, at, len(targets) > 1, *types)
            _write_result(target, result, name)
    return out if len(targets) == 1 and out is targets[0] else type(found)(*out) if hasattr(found, "_fields") else out


def _check_memory(name: str, targets: list[Tensor], given: list[Tensor]) -> None:
    """Raise RuntimeError where a result would be written over itself, or over an operand while that is still read."""
    alone, advice = "to a single memory location.", "Please clone() the tensor before performing the operation."
    for target in targets:
        if type(target.array) is not np.ndarray:
            continue
        written = strided_stand_in(target)
        if written.size and any(
            step == 0 and size > 1 for step, size in zip(written.strides, written.shape, strict=True)
        ):
            raise RuntimeError(
                f"unsupported operation: more than one element of the written-to tensor refers {alone} {advice}"
            )
        for x in given:
            itself = x is target and name in OUT_MUST_NOT_ALIAS  # also without elements
            if not itself and (type(x.array) is not np.ndarray or not np.may_share_memory(x.array, target.array)):
                continue
            read = strided_stand_in(x)
            same = read.__array_interface__["data"] == written.__array_interface__["data"]
            same = same and (read.strides, read.shape) == (written.strides, written.shape)
            if same and name not in OUT_MUST_NOT_ALIAS:
                continue
            if itself or _may_overlap(read, written):
                raise RuntimeError(
                    "unsupported operation: some elements of the input tensor and the written-to tensor refer "
                    f"{alone} {advice}"
                )


def check_no_overlap(written: Tensor, given: tuple[Tensor | float | tuple[Tensor, ...], ...]) -> None:
    """Raise RuntimeError where an operand of an op that writes in place lies in the memory that is written."""
    for x in _collect_tensors(given):
        if type(x.array) is not np.ndarray or type(written.array) is not np.ndarray:
            continue
        if x.array is not written.array and x.array.base is None and written.array.base is None:
            continue  # each owns its memory
        if np.may_share_memory(x.array, written.array) and _may_overlap(strided_stand_in(x), strided_stand_in(written)):
            raise RuntimeError(
                "unsupported operation: some elements of the input tensor and the written-to tensor refer to a single "
                "memory location. Please clone() the tensor before performing the operation."
            )


def _may_overlap(x: Array, y: Array) -> bool:
    try:
        return bool(np.shares_memory(x, y, MAX_OVERLAP_WORK))
    except np.exceptions.TooHardError:
        return True


def _write_result(target: Tensor, result: Tensor, name: str) -> None:
    if target.array.shape != result.array.shape:
        if target.numel() and name in RANGE_FUNCTIONS:
            warn_user(
                f"The number of elements in the out tensor of shape {list(target.array.shape)} is {target.numel()} "
                f"which does not match the computed number of elements {result.numel()}. Note that this may occur as a "
                f"result of rounding error. The out tensor will be resized to a tensor of shape ({result.numel()},).",
                UserWarning,
            )
        elif target.numel():
            warn_user(
                f"An output with one or more elements was resized since it had shape {list(target.array.shape)}, which "
                f"does not match the required output shape {list(result.array.shape)}. This behavior is deprecated, "
                "and in a future PyTorch release outputs will not be resized unless they have zero elements. You can "
                "explicitly reuse an out tensor t by resizing it, inplace, to zero elements with t.resize_(0).",
                UserWarning,
            )
        target.array = np.zeros(result.array.shape, target.array.dtype)
        target.storage_ = None
    write_in_place(target, result, name)


def _collect_tensors(values: Operand) -> list[Tensor]:
    found = []
    for value in values:
        if isinstance(value, Tensor):
            found.append(value)
        elif isinstance(value, (tuple, list)):
            found += _collect_tensors(value)
    return found


def with_out(function: Function) -> Function:
    """Let `function` take `out=` too."""

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            if kwargs and (out := kwargs.pop("out", None)) is not None:
                return write_out(out, function, *args, **kwargs)
            return function(*args, **kwargs)
        except Exception as error:
            name_call(error, function, args, kwargs)
            raise

    published: Any = call
    return published


out_slot.fill(write_out)
