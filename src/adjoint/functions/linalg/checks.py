"""Checks of the arguments of linear algebra: types, shapes, and the values of `info`."""

from __future__ import annotations

from adjoint.core.op.spec import broadcast_shapes, describe
from adjoint.core.runtime.mode import mode, nondefault
from adjoint.core.tensor.tensor import Tensor
from adjoint.ops.linalg.matrices import LinAlgError, first_fault


def check_linalg_dtype(name: str, A: Tensor) -> None:
    """Raise RuntimeError unless A is of float32, float64 or complex numbers."""
    kind = A.array.dtype
    if kind.kind not in "fcV":
        raise RuntimeError(f"{name}: Expected a floating point or complex tensor as input. Got {A.dtype}")
    if kind.itemsize == 2:
        raise RuntimeError(f"{name}: Low precision dtypes not supported. Got {A.dtype}")


def check_matrix_stack(name: str, A: Tensor, called: str = "A") -> None:
    """Raise RuntimeError unless A is a matrix or a stack of them, of a type that can be computed with."""
    if not isinstance(A, Tensor):
        raise TypeError(f"{name}(): argument 'A' (position 1) must be Tensor, not {type(A).__name__}")
    if A.ndim < 2:
        raise RuntimeError(
            f"{name}: The input tensor {called} must have at least 2 dimensions. Given {describe(A.array)}"
        )
    check_linalg_dtype(name, A)


def check_square(name: str, A: Tensor) -> None:
    """Raise RuntimeError unless `check_matrix_stack` holds and the matrices are square."""
    check_matrix_stack(name, A)
    m, n = A.array.shape[-2:]
    if m != n:
        raise RuntimeError(f"{name}: A must be batches of square matrices, but they are {m} by {n} matrices")


def check_same_dtype(name: str, A: Tensor, B: Tensor, called: str = "A") -> None:
    """Raise RuntimeError unless both have elements of one type."""
    if A.array.dtype != B.array.dtype:
        raise RuntimeError(
            f"{name}: Expected {called} and B to have the same dtype, but found {called} of type {A.dtype} and B of "
            f"type {B.dtype} instead"
        )


def check_solve_shapes(name: str, A: Tensor, B: Tensor, left: bool) -> None:
    """Raise RuntimeError unless the shapes are those of A X = B, or of X A = B."""
    if B.array.shape[-2 if left else -1] != A.array.shape[-1]:
        raise RuntimeError(
            f"{name}: Incompatible shapes of A and B for the equation {'AX = B' if left else 'XA = B'} "
            f"({A.array.shape[-2]}x{A.array.shape[-1]} and {B.array.shape[-2]}x{B.array.shape[-1]})"
        )
    try:
        broadcast_shapes(A.array.shape[:-2], B.array.shape[:-2])
    except ValueError as error:
        raise RuntimeError(
            f"{name}: the batches of A, {describe(A.array)}, and B, {describe(B.array)}: {error}"
        ) from None


def is_vector(A: Tensor, B: Tensor) -> bool:
    """Return True where B is a vector for each matrix of A, and not a matrix."""
    return B.ndim == 1 or (B.ndim == A.ndim - 1 and B.array.shape == A.array.shape[:-1])


def check_info(info: Tensor, words: str, error: type[RuntimeError] = LinAlgError) -> None:
    """Raise an error in these words, with the place `{at}`, if a number of `info` is not 0.

    While a step is traced there are no numbers, and nothing is raised.
    """
    if not hasattr(info.array, "flags") or (nondefault.count and mode.interpreter is not None):
        return
    fault = first_fault(info.array)
    if fault is not None:
        raise error(words.format(batch=fault[0], at=fault[1]))
