"""Which types `out=` may have: any that its result can be brought to, and of some functions fewer."""

from __future__ import annotations

from typing import Any

from adjoint.core.dtype import as_dtype, dtype
from adjoint.ops.scalar_types import scalar_type

# computed in the type of `out`
SUMMED = frozenset({"cumprod", "cumsum", "mean", "nanmean", "nansum", "prod", "sum"})
# `out` has the type of the result
OF_ONE_TYPE = frozenset({
    "aminmax", "ceil", "fix", "floor", "frac", "gather", "kthvalue", "masked_select", "median",
    "nanmedian", "neg", "negative", "round", "sgn", "sign", "sort", "take", "topk", "trunc",
})  # fmt: skip
PAIRED = frozenset({"max", "min"})  # that too, of their pairs
# of linear algebra: those that say so of their results, and those that say so of `out`
SAFELY: dict[str, tuple[str, ...]] = {
    "cholesky_inverse": (), "cholesky_solve": (), "cond": (), "eig": ("eigenvalues", "eigenvectors"),
    "eigvals": ("eigenvalues",), "geqrf": ("a", "tau"), "householder_product": (), "matrix_power": (),
    "matrix_rank": (), "pinv": (), "tensorinv": (), "tensorsolve": (),
}  # fmt: skip
OF_MATRICES = frozenset({
    "cholesky", "cholesky_ex", "det", "eigh", "eigvalsh", "inv", "inv_ex", "ldl_factor", "ldl_factor_ex", "ldl_solve",
    "lu", "lu_factor", "lu_factor_ex", "lu_solve", "qr", "slogdet", "solve", "solve_ex", "svd", "svdvals",
    "triangular_solve",
})  # fmt: skip
CPP = {"float32": "float", "float64": "double", "int64": "long int", "int32": "int", "int16": "short int"}
OF_TRUTHS = frozenset({"isneginf", "isposinf", "signbit"})


def in_type_of(out: Any, name: str, given: tuple[Any, ...], named: dict[str, Any]) -> dict[str, Any]:
    """The named arguments of a function that sums in the type of its `out`, with that type.

    Raises RuntimeError where another was asked for.
    """
    if name not in SUMMED:
        return named
    asked, have = named.get("dtype"), out.dtype
    if asked is not None and as_dtype(asked) is not have:
        raise RuntimeError(
            f"Expected out tensor to have dtype {_spelt(as_dtype(asked))}, but got {_spelt(have)} instead"
        )
    x = named.get("input", given[0] if given else out)
    return named if x.dtype.rank > have.rank and x.dtype.is_complex else {**named, "dtype": have}


def _spelt(kind: dtype) -> str:
    """As C++ spells the type, where that differs."""
    return CPP.get(kind.name, kind.name)


def check_type(name: str, at: int, several: bool, got: dtype, have: dtype) -> None:
    """Raise RuntimeError where result number `at`, of type `got`, cannot be written into `out`, of type `have`."""
    complaint = _complaint(name, at, several, got, have)
    if complaint is not None:
        raise RuntimeError(complaint)


def _complaint(name: str, at: int, several: bool, got: dtype, have: dtype) -> str | None:
    theirs, ours = scalar_type(got), scalar_type(have)
    if name in ("all", "any"):
        wrong = have.name not in ("bool", "uint8")
        return f"{name} only supports bool tensor for result, got: {ours}" if wrong else None
    if got is not have:
        if name in OF_TRUTHS:
            return f"{name} does not support non-boolean outputs."
        if name in OF_ONE_TYPE or (several and name in PAIRED):
            return f"Expected out tensor to have dtype {_spelt(got)}, but got {_spelt(have)} instead"
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
            return f"multi_dot(): expected out tensor to have dtype {_spelt(got)} but got {_spelt(have)}"
        if name == "float_power":
            return (
                f"the output given to float_power has dtype {ours} but the operation's result requires dtype {theirs}"
            )
    if got.rank <= have.rank:
        return None
    if name in SAFELY:
        parts = SAFELY[name]
        part = parts[at] if parts else "result"
        return f"{name}: Expected {part} to be safely castable from {theirs} dtype, but got {part} with dtype {ours}"
    if name in OF_MATRICES:
        return f"Expected out tensor to have dtype {_spelt(got)}, but got {_spelt(have)} instead"
    return f"result type {theirs} can't be cast to the desired output type {ours}"
