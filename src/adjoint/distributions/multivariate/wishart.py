"""The Wishart distribution of covariances, and the LKJ distribution of Cholesky factors of correlations."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence

from adjoint.core.dtype.dtype_info import finfo
from adjoint.core.tensor.size import Size
from adjoint.core.tensor.tensor import Tensor
from adjoint.distributions import constraints
from adjoint.distributions.constraints.constraint import Constraint, can_validate_values
from adjoint.distributions.continuous.dirichlet import Beta
from adjoint.distributions.continuous.gamma import Chi2
from adjoint.distributions.distribution import Distribution
from adjoint.distributions.exp_family import ExponentialFamily
from adjoint.distributions.multivariate.cholesky_forms import cholesky_from, half_log_det, pick_exactly_one
from adjoint.distributions.parameters import broadcast_all, formula, lazy_property, vec_to_tril_matrix
from adjoint.functions.creation import creation, random
from adjoint.functions.elementwise.float_functions import mvlgamma
from adjoint.functions.elementwise.pointwise import where
from adjoint.functions.linalg.norms_det import slogdet
from adjoint.functions.linalg.top_level_names import cholesky_solve
from adjoint.functions.shape import join
from adjoint.functions.shape.shape import broadcast_shapes

_LOG_2 = math.log(2)


class Wishart(ExponentialFamily):
    """Wishart distribution of p by p matrices Σ xxᵀ of ν = `df` normal x of covariance V.

    p(X) ∝ det X^((ν - p - 1)/2) exp(-½ tr V⁻¹X).

    V is given as `covariance_matrix`, by its inverse `precision_matrix` or by its factor `scale_tril`. Raises
    ValueError unless it is one of them, a matrix at least, and ν > p - 1.
    """

    support = constraints.positive_definite
    has_rsample = True
    _mean_carrier_measure = 0
    _fields_not_expanded = frozenset({"_unbroadcasted_scale_tril"})

    def __init__(
        self,
        df: Tensor | float,
        covariance_matrix: Tensor | None = None,
        precision_matrix: Tensor | None = None,
        scale_tril: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        try:
            name, matrix = pick_exactly_one(
                scale_tril=scale_tril, covariance_matrix=covariance_matrix, precision_matrix=precision_matrix
            )
        except ValueError as error:
            raise AssertionError(str(error)) from None
        if matrix.dim() < 2:
            raise ValueError("scale_tril must be at least two-dimensional, with optional leading batch dimensions")
        batch = Size(matrix.shape[:-2])
        if isinstance(df, Tensor):
            batch = broadcast_shapes(tuple(batch), tuple(df.shape))
            self.df = df.expand(batch)
        else:
            self.df = creation.tensor(df, dtype=matrix.dtype)
        side = matrix.size(-1)
        if can_validate_values(self.df):
            if (self.df <= side - 1).any():
                raise ValueError(f"Value of df={df} expected to be greater than ndim - 1 = {side - 1}.")
            if (self.df < side).any():
                warnings.warn(
                    "Low df values detected. Singular samples are highly likely to occur for ndim - 1 < df < ndim.",
                    stacklevel=2,
                )
        vars(self)[name] = matrix.expand(*batch, -1, -1)
        super().__init__(batch, matrix.shape[-2:], validate_args=validate_args)
        self._unbroadcasted_scale_tril = cholesky_from(name, matrix)
        degrees = self.df.unsqueeze(-1) - creation.arange(side, dtype=matrix.dtype)
        self._dist_chi2 = Chi2(df=degrees.expand(*batch, side))

    @property
    def arg_constraints(self) -> dict[str, Constraint]:
        """The matrices' constraints as in `MultivariateNormal`; ν > p - 1."""
        return {
            "covariance_matrix": constraints.positive_definite,
            "precision_matrix": constraints.positive_definite,
            "scale_tril": constraints.lower_cholesky,
            "df": constraints.greater_than(self.event_shape[-1] - 1),
        }

    @lazy_property
    def scale_tril(self) -> Tensor:
        """L with LLᵀ = V."""
        return self._unbroadcasted_scale_tril.expand(self._extended_shape())

    @lazy_property
    def covariance_matrix(self) -> Tensor:
        """V."""
        factor = self._unbroadcasted_scale_tril
        return (factor @ factor.mT).expand(self._extended_shape())

    @lazy_property
    def precision_matrix(self) -> Tensor:
        """V⁻¹."""
        factor = self._unbroadcasted_scale_tril
        return cholesky_solve(creation.eye(factor.size(-1), dtype=factor.dtype), factor).expand(self._extended_shape())

    def _degrees(self, values: Tensor) -> Tensor:
        return values.expand(self._batch_shape).reshape(*self._batch_shape, 1, 1)

    mean = formula("νV.", lambda p: p._degrees(p.df) * p.covariance_matrix)

    @property
    def mode(self) -> Tensor:
        """(ν - p - 1)V where that is positive, else NaN."""
        factor = self.df - self.event_shape[-1] - 1
        return self._degrees(where(factor <= 0, math.nan, factor)) * self.covariance_matrix

    @property
    def variance(self) -> Tensor:
        """ν (Vᵢⱼ² + VᵢᵢVⱼⱼ)."""
        v = self.covariance_matrix
        diagonal = v.diagonal(dim1=-2, dim2=-1)
        return self._degrees(self.df) * (v.pow(2) + diagonal.unsqueeze(-1) * diagonal.unsqueeze(-2))

    def _bartlett_sampling(self, sample_shape: Sequence[int]) -> Tensor:
        """LAAᵀLᵀ, where A is normal below the diagonal, and √χ² of descending degrees on it."""
        side = self._event_shape[-1]
        diagonal = self._dist_chi2.rsample(sample_shape).sqrt()
        diagonal = diagonal.clamp(min=finfo(diagonal.dtype).eps)
        below = random.randn(*sample_shape, *self._batch_shape, side * (side - 1) // 2, dtype=diagonal.dtype)
        noise = diagonal.diag_embed() + (vec_to_tril_matrix(below, diag=-1) if side > 1 else 0)
        factor = self._unbroadcasted_scale_tril @ noise
        return factor @ factor.mT

    def rsample(self, sample_shape: Sequence[int] = (), max_try_correction: int | None = None) -> Tensor:
        """Return samples by Bartlett's decomposition; singular ones are drawn again, by default at most 10 times."""
        sample = self._bartlett_sampling(sample_shape)
        if not can_validate_values(sample):
            return self._bartlett_sampling(sample_shape)
        # PyTorch first draws the sound ones anew, and so the numbers of a seed are those of the second draw
        again = self._any(self.support.check(sample))
        for _ in range(10 if max_try_correction is None else max_try_correction):
            count = int(again.sum())
            if not count:
                return sample
            drawn = self._bartlett_sampling((count,))
            sample = sample.index_put((again,), drawn)
            again = again.index_put((again,), self._any(~self.support.check(drawn)))
        if again.any():
            warnings.warn("Singular sample detected.", stacklevel=2)
        return sample

    def _any(self, holds: Tensor) -> Tensor:
        """Reduce by logical or over the dimensions after the batch's."""
        return holds.reshape(*holds.shape[: holds.dim() - len(self._batch_shape)], -1).any(-1)

    def log_prob(self, value: Tensor) -> Tensor:
        """½(ν - p - 1) log det X - ½ tr V⁻¹X - ½νp log 2 - ½ν log det V - log Γₚ(ν/2)."""
        value, nu, p = self._check_value(value), self.df, self._event_shape[-1]
        factor = self._unbroadcasted_scale_tril
        trace = cholesky_solve(value, factor).diagonal(dim1=-2, dim2=-1).sum(dim=-1)
        constant = -nu * (p * _LOG_2 / 2 + half_log_det(factor)) - mvlgamma(nu / 2, p=p)
        return constant + (nu - p - 1) / 2 * slogdet(value).logabsdet - trace / 2

    def entropy(self) -> Tensor:
        """(p + 1)(½p log 2 + ½ log det V) + log Γₚ(ν/2) - ½(ν - p - 1) ψₚ(ν/2) + ½νp."""
        nu, p = self.df, self._event_shape[-1]
        places = (nu / 2).unsqueeze(-1) - creation.arange(p, dtype=nu.dtype) / 2
        slope = places.digamma().sum(-1)
        scale = (p + 1) * (p * _LOG_2 / 2 + half_log_det(self._unbroadcasted_scale_tril))
        return scale + mvlgamma(nu / 2, p=p) - (nu - p - 1) / 2 * slope + nu * p / 2

    _natural_params = formula(
        "The natural parameters θ.", lambda p: (-p.precision_matrix / 2, (p.df - p._event_shape[-1] - 1) / 2)
    )

    def _log_normalizer(self, x: Tensor, y: Tensor) -> Tensor:
        p = self._event_shape[-1]
        half = y + (p + 1) / 2
        return half * (-slogdet(-2 * x).logabsdet + _LOG_2 * p) + mvlgamma(half, p=p)


class LKJCholesky(Distribution):
    """LKJ distribution of Cholesky factors L of `dim` by `dim` correlations C = LLᵀ: p(L) ∝ det C^(η - 1).

    η = `concentration` = 1 is uniform over correlations, a larger η is nearer to the identity (Lewandowski, Kurowicka
    and Joe, 2009).
    Raises ValueError for a `dim` below 2.
    """

    arg_constraints = constraints.of(concentration=constraints.positive)
    support = constraints.corr_cholesky

    def __init__(self, dim: int, concentration: Tensor | float = 1.0, validate_args: bool | None = None) -> None:
        if dim < 2:
            raise ValueError(f"Expected dim to be an integer greater than or equal to 2. Found dim={dim}.")
        self.dim = dim
        (self.concentration,) = broadcast_all(concentration)
        row = creation.arange(dim - 1, dtype=self.concentration.dtype)
        row = join.cat([creation.zeros(1, dtype=row.dtype), row])
        marginal = self.concentration + 0.5 * (dim - 2)
        self._beta = Beta(row + 0.5, marginal.unsqueeze(-1) - 0.5 * row)
        super().__init__(self.concentration.shape, (dim, dim), validate_args)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Samples by the onion method: each row is a random direction; the square of its length is a beta number."""
        square = self._beta.sample(sample_shape).unsqueeze(-1)
        normal = random.randn(*self._extended_shape(sample_shape), dtype=square.dtype).tril(-1)
        length = normal.square().sum(-1, keepdim=True).sqrt()
        w = square.sqrt() * where(length == 0, 0.0, normal / length)
        diagonal = (1 - w.square().sum(dim=-1)).clamp(min=finfo(w.dtype).tiny).sqrt()
        return w + diagonal.diag_embed()

    def log_prob(self, value: Tensor) -> Tensor:
        """Σᵢ (2(η - 1) + dim - i) log Lᵢᵢ over i = 2, …, dim, less the logarithm of the normalizer."""
        diagonal = self._check_value(value).diagonal(dim1=-1, dim2=-2)[..., 1:]
        order = 2 * (self.concentration - 1).unsqueeze(-1) + self.dim - creation.arange(2, self.dim + 1)
        less = self.dim - 1
        alpha = self.concentration + 0.5 * less
        normalizer = 0.5 * less * math.log(math.pi) + mvlgamma(alpha - 0.5, less) - alpha.lgamma() * less
        return (order * diagonal.log()).sum(dim=-1) - normalizer
