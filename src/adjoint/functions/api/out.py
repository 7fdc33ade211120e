"""The argument `out=`: its checks of dtype, memory and gradients, and the write."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

import numpy as np

from adjoint.core.dtype.dtype import DTYPES, as_dtype, dtype
from adjoint.core.dtype.dtype_info import scalar_type
from adjoint.core.graph.source_location import warn_user
from adjoint.core.op.families import out_slot
from adjoint.core.runtime.mode import ModeScope, mode, nondefault
from adjoint.core.tensor.tensor import Tensor, strided_stand_in, tangents_of
from adjoint.core.typing import Array, Operand, Operands
from adjoint.ops.movement import movement
from adjoint.ops.mutation.inplace import write_in_place

# computed in the type of `out`
ACCUMULATE_IN_OUT_DTYPE = frozenset({"cumprod", "cumsum", "mean", "nanmean", "nansum", "prod", "sum"})
# `out` has the type of the result
_REQUIRE_RESULT_DTYPE = """
    aminmax ceil fix floor frac gather kthvalue masked_select median nanmedian neg negative round sgn sign sort take
    topk trunc
"""
REQUIRE_RESULT_DTYPE = frozenset(_REQUIRE_RESULT_DTYPE.split())
PAIRS_REQUIRING_RESULT_DTYPE = frozenset({"max", "min"})  # that too, of their pairs
# of linear algebra: those that say so of their results, and those that say so of `out`
_UNNAMED_RESULTS = "cholesky_inverse cholesky_solve cond householder_product matrix_power matrix_rank pinv tensorinv"
SAFE_CAST_RESULTS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(_UNNAMED_RESULTS.split(), ()),
    "tensorsolve": (),
    "eig": ("eigenvalues", "eigenvectors"),
    "eigvals": ("eigenvalues",),
    "geqrf": ("a", "tau"),
}
_LINALG_EXPECTED_OUT = """
    cholesky cholesky_ex det eigh eigvalsh inv inv_ex ldl_factor ldl_factor_ex ldl_solve lu lu_factor lu_factor_ex
    lu_solve qr slogdet solve solve_ex svd svdvals triangular_solve
"""
LINALG_EXPECTED_OUT = frozenset(_LINALG_EXPECTED_OUT.split())
CPP_TYPE_NAMES = {"float32": "float", "float64": "double", "int64": "long int", "int32": "int", "int16": "short int"}
BOOL_RESULT_ONLY = frozenset({"isneginf", "isposinf", "signbit"})


def add_out_dtype(out: Operand, name: str, given: Operands, named: dict[str, Any]) -> dict[str, Any]:
    """Add `dtype=` to the arguments of a function that sums in the type of its `out`.

    Raises RuntimeError if another was asked for.
    """
    if name not in ACCUMULATE_IN_OUT_DTYPE:
        return named
    asked, have = named.get("dtype"), out.dtype
    if asked is not None and as_dtype(asked) is not have:
        wanted, found = _cpp_type_name(as_dtype(asked)), _cpp_type_name(have)
        raise RuntimeError(f"Expected out tensor to have dtype {wanted}, but got {found} instead")
    x: Operand = named.get("input", given[0] if given else out)
    return named if x.dtype.rank > have.rank and x.dtype.is_complex else {**named, "dtype": have}


def _cpp_type_name(kind: dtype) -> str:
    """Return the name of the type in C++, if it differs."""
    return CPP_TYPE_NAMES.get(kind.name, kind.name)


def check_out_dtype(name: str, at: int, several: bool, got: dtype, have: dtype) -> None:
    """Raise RuntimeError if result number `at`, of type `got`, cannot be written into `out`, of type `have`."""
    complaint = _out_dtype_error(name, at, several, got, have)
    if complaint is not None:
        raise RuntimeError(complaint)


def _out_dtype_error(name: str, at: int, several: bool, got: dtype, have: dtype) -> str | None:
    theirs, ours = scalar_type(got), scalar_type(have)
    if name in ("all", "any"):
        wrong = have.name not in ("bool", "uint8")
        return f"{name} only supports bool tensor for result, got: {ours}" if wrong else None
    if got is not have:
        if name in BOOL_RESULT_ONLY:
            return f"{name} does not support non-boolean outputs."
        if name in REQUIRE_RESULT_DTYPE or (several and name in PAIRS_REQUIRING_RESULT_DTYPE):
            return f"Expected out tensor to have dtype {_cpp_type_name(got)}, but got {_cpp_type_name(have)} instead"
        if name in ("amax", "amin"):
            return (
                f"Expected the dtype for input and out to match, but got {theirs} for input's dtype and {ours} for "
                "out's dtype."
            )
        if name in ("cummax", "cummin", "logcumsumexp"):
            return f"expected scalar_type {theirs} but found {ours}"
        if name in ("nonzero", "nonzero_static"):
            return f"{name}: Expected out tensor to have scalar type {theirs} but got scalar type {ours}"
        if name == "mode":
            part = ("values", "indices")[at]
            return f"expected scalar type '{theirs}' but got '{ours}' for {part} output"
        if name == "frexp":
            part = ("mantissa to have dtype", "exponent to have int dtype")[at]
            return f"torch.frexp() expects {part} {got.name if at == 0 else ''} but got {have.name}".replace("  ", " ")
        if name in ("complex", "polar"):
            return f"Expected object of scalar type {theirs} but got scalar type {ours} for argument 'out'"
        if name == "multi_dot":
            return (
                f"multi_dot(): expected out tensor to have dtype {_cpp_type_name(got)} but got {_cpp_type_name(have)}"
            )
        if name == "float_power":
            return (
                f"the output given to float_power has dtype {ours} but the operation's result requires dtype {theirs}"
            )
    if got.rank <= have.rank:
        return None
    if name in SAFE_CAST_RESULTS:
        parts = SAFE_CAST_RESULTS[name]
        part = parts[at] if parts else "result"
        return f"{name}: Expected {part} to be safely castable from {theirs} dtype, but got {part} with dtype {ours}"
    if name in LINALG_EXPECTED_OUT:
        return f"Expected out tensor to have dtype {_cpp_type_name(got)}, but got {_cpp_type_name(have)} instead"
    return f"result type {theirs} can't be cast to the desired output type {ours}"


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
        for at, (target, result) in enumerate(zip(targets, results, strict=True)):
            if name in RANGE_FUNCTIONS and target.array.size == result.array.size:
                result = movement.reshape_unshared(result, target.array.shape)
            types = DTYPES[result.array.dtype], DTYPES[target.array.dtype]
            check_out_dtype(name, at, len(targets) > 1, *types)
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
            if type(x.array) is not np.ndarray or not np.may_share_memory(x.array, target.array):
                continue
            read = strided_stand_in(x)
            same = read.__array_interface__["data"] == written.__array_interface__["data"]
            same = same and (read.strides, read.shape) == (written.strides, written.shape)
            if same and name not in OUT_MUST_NOT_ALIAS:
                continue
            if _may_overlap(read, written):
                raise RuntimeError(
                    "unsupported operation: some elements of the input tensor and the written-to tensor refer "
                    f"{alone} {advice}"
                )


def check_no_overlap(written: Tensor, given: tuple[Tensor | float | tuple[Tensor, ...], ...]) -> None:
    """Raise RuntimeError where an operand of an op that writes in place lies in the memory that is written."""
    for x in _collect_tensors(given):
        if type(x.array) is not np.ndarray or type(written.array) is not np.ndarray:
            continue
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
        if kwargs and (out := kwargs.pop("out", None)) is not None:
            return write_out(out, function, *args, **kwargs)
        return function(*args, **kwargs)

    published: Any = call
    return published


out_slot.fill(write_out)
