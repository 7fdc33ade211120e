"""Functions that PyTorch has removed: they raise, as there, and name the replacement."""

from __future__ import annotations

from typing import NoReturn

from adjoint.functions.api.publish import public

__all__ = ["eig", "lstsq", "matrix_rank", "solve", "symeig"]


def _refuse(name: str, instead: str) -> NoReturn:
    raise RuntimeError(
        f"This function was deprecated since version 1.9 and is now removed. Instead of {name}, use {instead}"
    )


@public()
def eig(input: object, eigenvectors: bool = False) -> NoReturn:
    """Raise RuntimeError, which names `linalg.eig`."""
    _refuse("eig", "linalg.eig, which gives complex tensors")


@public()
def lstsq(input: object, A: object) -> NoReturn:
    """Raise RuntimeError, which names `linalg.lstsq`."""
    _refuse("lstsq", "linalg.lstsq, which takes the matrix first")


def matrix_rank(input: object, tol: object = None, symmetric: bool = False) -> NoReturn:
    """Raise RuntimeError, which names `linalg.matrix_rank`."""
    _refuse("matrix_rank", "linalg.matrix_rank, whose `hermitian` was called `symmetric`")


@public()
def solve(input: object, A: object) -> NoReturn:
    """Raise RuntimeError, which names `linalg.solve`."""
    _refuse("solve", "linalg.solve, which takes the matrix first and returns the solution alone")


@public()
def symeig(input: object, eigenvectors: bool = False, upper: bool = True) -> NoReturn:
    """Raise RuntimeError, which names `linalg.eigh`."""
    _refuse("symeig", "linalg.eigh, which reads the lower triangle unless UPLO='U'")
