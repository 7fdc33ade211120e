"""Multivariate normal distributions, with a full or a low-rank plus diagonal covariance."""

from __future__ import annotations

import math
from collections.abc import Sequence

from adjoint.core.tensor.size import Size
from adjoint.core.tensor.tensor import Tensor
from adjoint.distributions import constraints
from adjoint.distributions.distribution import Distribution
from adjoint.distributions.multivariate.cholesky_forms import (
    capacitance_cholesky,
    cholesky_from,
    cholesky_of_inverse,
    half_log_det,
    low_rank_log_det,
    low_rank_mahalanobis,
    mahalanobis,
    multiply_vector,
    pick_exactly_one,
)
from adjoint.distributions.parameters import formula, lazy_property, standard_normal
from adjoint.functions.creation import creation
from adjoint.functions.linalg.factorizations import cholesky
from adjoint.functions.linalg.solve import solve_triangular
from adjoint.functions.shape.shape import broadcast_shapes, broadcast_tensors

# what programs import from here, by PyTorch's names
_batch_mahalanobis, _batch_mv, _precision_to_scale_tril = mahalanobis, multiply_vector, cholesky_of_inverse
_LOG_2PI = math.log(2 * math.pi)


class _NormalVector(Distribution):
    """A normal distribution of vectors with mean `loc`."""

    support = constraints.real_vector
    has_rsample = True
    loc: Tensor

    def _square(self, matrix: Tensor) -> Tensor:
        return matrix.expand(*self._batch_shape, *self._event_shape, *self._event_shape)

    mean = formula("μ.", lambda p: p.loc)
    mode = mean


class MultivariateNormal(_NormalVector):
    """Multivariate normal distribution: p(x) = exp(-½ (x - μ)ᵀ Σ⁻¹ (x - μ)) / √det(2πΣ).

    The Cholesky factor `scale_tril` needs no factorization and is the cheapest parameter.

    Args:
        loc: tensor (…, n), the mean μ.
        covariance_matrix: tensor (…, n, n), Σ. Default: None.
        precision_matrix: tensor (…, n, n), Σ⁻¹. Default: None.
        scale_tril: tensor (…, n, n), lower triangular L with L Lᵀ = Σ. Default: None.
        validate_args: False to leave out checks of parameters and samples. Default: None, the global setting.

    Raises: ValueError unless exactly one matrix is given, and for shapes or values that do not fit.

    Example:
        >>> p = ad.distributions.MultivariateNormal(ad.zeros(2), ad.eye(2))
        >>> p.log_prob(ad.zeros(2))
        tensor(-1.8379)
    """

    arg_constraints = constraints.of(
        loc=constraints.real_vector,
        covariance_matrix=constraints.positive_definite,
        precision_matrix=constraints.positive_definite,
        scale_tril=constraints.lower_cholesky,
    )
    _fields_not_expanded = frozenset({"_unbroadcasted_scale_tril"})

    def __init__(
        self,
        loc: Tensor,
        covariance_matrix: Tensor | None = None,
        precision_matrix: Tensor | None = None,
        scale_tril: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        if loc.dim() < 1:
            raise ValueError("loc must be at least one-dimensional.")
        name, matrix = pick_exactly_one(
            scale_tril=scale_tril, covariance_matrix=covariance_matrix, precision_matrix=precision_matrix
        )
        if matrix.dim() < 2:
            what = "scale_tril matrix" if name == "scale_tril" else name
            raise ValueError(f"{what} must be at least two-dimensional, with optional leading batch dimensions")
        batch = broadcast_shapes(tuple(matrix.shape[:-2]), tuple(loc.shape[:-1]))
        vars(self)[name] = matrix.expand(*batch, -1, -1)
        self.loc = loc.expand(*batch, -1)
        super().__init__(batch, self.loc.shape[-1:], validate_args=validate_args)
        self._unbroadcasted_scale_tril = cholesky_from(name, matrix)

    @lazy_property
    def scale_tril(self) -> Tensor:
        """L."""
        return self._square(self._unbroadcasted_scale_tril)

    @lazy_property
    def covariance_matrix(self) -> Tensor:
        """LLᵀ."""
        return self._square(self._unbroadcasted_scale_tril @ self._unbroadcasted_scale_tril.mT)

    @lazy_property
    def precision_matrix(self) -> Tensor:
        """(LLᵀ)⁻¹."""
        return self._square(self._unbroadcasted_scale_tril.cholesky_inverse())

    @property
    def variance(self) -> Tensor:
        """The diagonal of Σ."""
        return self._unbroadcasted_scale_tril.pow(2).sum(-1).expand(*self._batch_shape, *self._event_shape)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """μ + Lε, where ε is standard normal."""
        noise = standard_normal(self._extended_shape(sample_shape), self.loc)
        return self.loc + multiply_vector(self._unbroadcasted_scale_tril, noise)

    def log_prob(self, value: Tensor) -> Tensor:
        """-½ (n log 2π + |L⁻¹(x - μ)|²) - Σ log Lᵢᵢ."""
        factor = self._unbroadcasted_scale_tril
        distance = mahalanobis(factor, self._check_value(value) - self.loc)
        return -0.5 * (self._event_shape[0] * _LOG_2PI + distance) - half_log_det(factor)

    def entropy(self) -> Tensor:
        """½ n (1 + log 2π) + Σ log Lᵢᵢ."""
        entropy = 0.5 * self._event_shape[0] * (1.0 + _LOG_2PI) + half_log_det(self._unbroadcasted_scale_tril)
        return entropy.expand(self._batch_shape)


class LowRankMultivariateNormal(_NormalVector):
    """Multivariate normal distribution of covariance WWᵀ + D, with W = `cov_factor` and D of diagonal `cov_diag`.

    It factors a matrix of as many rows as W has columns. Raises ValueError for shapes that do not fit.
    """

    arg_constraints = constraints.of(
        loc=constraints.real_vector,
        cov_factor=constraints.independent(constraints.real, 2),
        cov_diag=constraints.independent(constraints.positive, 1),
    )
    _fields_not_expanded = frozenset({"_unbroadcasted_cov_factor", "_unbroadcasted_cov_diag", "_capacitance_tril"})

    def __init__(self, loc: Tensor, cov_factor: Tensor, cov_diag: Tensor, validate_args: bool | None = None) -> None:
        if loc.dim() < 1:
            raise ValueError("loc must be at least one-dimensional.")
        event = Size(loc.shape[-1:])
        if cov_factor.dim() < 2:
            raise ValueError("cov_factor must be at least two-dimensional, with optional leading batch dimensions")
        if cov_factor.shape[-2:-1] != event:
            raise ValueError(f"cov_factor must be a batch of matrices with shape {event[0]} x m")
        if cov_diag.shape[-1:] != event:
            raise ValueError(f"cov_diag must be a batch of vectors with shape {event}")
        try:
            columns = broadcast_tensors(loc.unsqueeze(-1), cov_factor, cov_diag.unsqueeze(-1))
        except (RuntimeError, ValueError) as error:
            shapes = f"loc {loc.shape}, cov_factor {cov_factor.shape}, cov_diag {cov_diag.shape}"
            raise ValueError(f"Incompatible batch shapes: {shapes}") from error
        self.loc, self.cov_factor, self.cov_diag = columns[0][..., 0], columns[1], columns[2][..., 0]
        self._unbroadcasted_cov_factor, self._unbroadcasted_cov_diag = cov_factor, cov_diag
        self._capacitance_tril = capacitance_cholesky(cov_factor, cov_diag)
        super().__init__(self.loc.shape[:-1], event, validate_args=validate_args)

    @property
    def _parts(self) -> tuple[Tensor, Tensor]:
        return self._unbroadcasted_cov_factor, self._unbroadcasted_cov_diag

    @lazy_property
    def variance(self) -> Tensor:
        """Σⱼ Wᵢⱼ² + Dᵢ."""
        w, d = self._parts
        return (w.pow(2).sum(-1) + d).expand(*self._batch_shape, *self._event_shape)

    @lazy_property
    def scale_tril(self) -> Tensor:
        """The Cholesky factor of Σ: √D times that of I + D^-½WWᵀD^-½."""
        w, d = self._parts
        root = d.sqrt().unsqueeze(-1)
        scaled = w / root
        return self._square(root * cholesky(scaled @ scaled.mT + creation.eye(w.size(-2), dtype=w.dtype)))

    @lazy_property
    def covariance_matrix(self) -> Tensor:
        """WWᵀ + D."""
        w, d = self._parts
        return self._square(w @ w.mT + d.diag_embed())

    @lazy_property
    def precision_matrix(self) -> Tensor:
        """D⁻¹ - AᵀA, where A = C⁻¹WᵀD⁻¹ and CCᵀ = I + WᵀD⁻¹W."""
        w, d = self._parts
        a = solve_triangular(self._capacitance_tril, w.mT / d.unsqueeze(-2), upper=False)
        return self._square(d.reciprocal().diag_embed() - a.mT @ a)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """μ + Wε + √D η, where ε and η are standard normal."""
        shape, (w, d) = self._extended_shape(sample_shape), self._parts
        few = standard_normal((*shape[:-1], w.size(-1)), self.loc)
        return self.loc + multiply_vector(w, few) + d.sqrt() * standard_normal(shape, self.loc)

    def log_prob(self, value: Tensor) -> Tensor:
        """-½ (n log 2π + log det Σ + (x - μ)ᵀΣ⁻¹(x - μ))."""
        factor = self._capacitance_tril
        distance = low_rank_mahalanobis(*self._parts, self._check_value(value) - self.loc, factor)
        return -0.5 * (self._event_shape[0] * _LOG_2PI + low_rank_log_det(*self._parts, factor) + distance)

    def entropy(self) -> Tensor:
        """½ (n (1 + log 2π) + log det Σ)."""
        log_det = low_rank_log_det(*self._parts, self._capacitance_tril)
        return (0.5 * (self._event_shape[0] * (1.0 + _LOG_2PI) + log_det)).expand(self._batch_shape)
