"""Constraints of matrices."""

from __future__ import annotations

from adjoint.core.dtype.dtype_info import finfo
from adjoint.core.tensor.tensor import Tensor
from adjoint.distributions.constraints.constraint import Constraint, all_rightmost, can_validate_values
from adjoint.functions.creation import creation
from adjoint.functions.elementwise import allclose
from adjoint.functions.linalg.eig_svd import eigvalsh
from adjoint.functions.linalg.factorizations import cholesky_ex


class _LowerTriangular(Constraint):
    """Matrices with zeros above the diagonal."""

    event_dim = 2

    def check(self, value: Tensor) -> Tensor:
        return all_rightmost(value.tril() == value, 2)


class _LowerCholesky(Constraint):
    """Lower triangular matrices with a positive diagonal."""

    event_dim = 2

    def check(self, value: Tensor) -> Tensor:
        return _LowerTriangular().check(value) & (value.diagonal(dim1=-2, dim2=-1) > 0).all(-1)


class _CorrCholesky(Constraint):
    """Lower triangular matrices with a positive diagonal and rows of length 1."""

    event_dim = 2

    def check(self, value: Tensor) -> Tensor:
        tolerance = finfo(value.dtype).eps * value.size(-1) * 10
        length = value.detach().square().sum(-1).sqrt()
        return _LowerCholesky().check(value) & ((length - 1.0).abs() <= tolerance).all(-1)


class _Square(Constraint):
    """Square matrices."""

    event_dim = 2

    def check(self, value: Tensor) -> Tensor:
        return creation.full(value.shape[:-2], value.shape[-2] == value.shape[-1], dtype="bool")


class _Symmetric(_Square):
    """Symmetric matrices."""

    def check(self, value: Tensor) -> Tensor:
        if value.shape[-2] != value.shape[-1]:
            return super().check(value)
        return all_rightmost(allclose.isclose(value, value.mT, atol=1e-6), 2)


class _PositiveSemidefinite(_Symmetric):
    """Symmetric matrices without negative eigenvalues."""

    def check(self, value: Tensor) -> Tensor:
        symmetric_ = super().check(value)
        return symmetric_ if _fails(symmetric_) else (eigvalsh(value) >= 0).all(-1)


class _PositiveDefinite(_Symmetric):
    """Symmetric matrices with a Cholesky factor."""

    def check(self, value: Tensor) -> Tensor:
        symmetric_ = super().check(value)
        return symmetric_ if _fails(symmetric_) else cholesky_ex(value).info == 0


def _fails(holds: Tensor) -> bool:
    return can_validate_values(holds) and not bool(holds.all())
