"""Functions that PyTorch once had: they raise, as there, and say what to call."""

from __future__ import annotations

from typing import Any, NoReturn

from adjoint.functions.api.publish import public

__all__ = ["eig", "lstsq", "matrix_rank", "solve", "symeig"]


def _refuse(name: str, instead: str) -> NoReturn:
    raise RuntimeError(
        f"This function was deprecated since version 1.9 and is now removed. Instead of {name}, use {instead}"
    )


@public()
def eig(input: Any, eigenvectors: bool = False) -> NoReturn:
    """Removed: raises RuntimeError, which points to `linalg.eig`."""
    _refuse("eig", "linalg.eig, which gives complex tensors")


@public()
def lstsq(input: Any, A: Any) -> NoReturn:
    """Removed: raises RuntimeError, which points to `linalg.lstsq`."""
    _refuse("lstsq", "linalg.lstsq, which takes the matrix first")


def matrix_rank(input: Any, tol: Any = None, symmetric: bool = False) -> NoReturn:
    """Removed: raises RuntimeError, which points to `linalg.matrix_rank`."""
    _refuse("matrix_rank", "linalg.matrix_rank, whose `hermitian` was called `symmetric`")


@public()
def solve(input: Any, A: Any) -> NoReturn:
    """Removed: raises RuntimeError, which points to `linalg.solve`."""
    _refuse("solve", "linalg.solve, which takes the matrix first and returns the solution alone")


@public()
def symeig(input: Any, eigenvectors: bool = False, upper: bool = True) -> NoReturn:
    """Removed: raises RuntimeError, which points to `linalg.eigh`."""
    _refuse("symeig", "linalg.eigh, which reads the lower triangle unless UPLO='U'")
