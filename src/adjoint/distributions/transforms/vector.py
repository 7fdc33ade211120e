"""Transforms of events: reshaping, vectors to simplices and triangular matrices, and matrices."""

from __future__ import annotations

import math
from collections.abc import Sequence

from adjoint.core.dtype.dtype_info import finfo
from adjoint.core.tensor.size import Size
from adjoint.core.tensor.tensor import Tensor
from adjoint.distributions import constraints
from adjoint.distributions.constraints.constraint import Constraint, dependent_formula
from adjoint.distributions.parameters import formula, sum_rightmost, tril_matrix_to_vec, vec_to_tril_matrix
from adjoint.distributions.transforms.number import _FixedTransform, clip_probabilities
from adjoint.distributions.transforms.transform import Shape, Transform
from adjoint.functions.creation import creation
from adjoint.functions.elementwise.activation import logsigmoid, softplus
from adjoint.functions.linalg.factorizations import cholesky
from adjoint.functions.nn.pad import pad


class IndependentTransform(Transform):
    """`base_transform` over events that include the last `reinterpreted_batch_ndims` batch dimensions.

    Raises: ValueError for too few dimensions.
    """

    _settings = ("base_transform", "reinterpreted_batch_ndims")

    def __init__(self, base_transform: Transform, reinterpreted_batch_ndims: int, cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        self.base_transform = base_transform.with_cache(cache_size)
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims

    domain = dependent_formula(
        "The constraint of the base, over more dimensions.",
        lambda t: constraints.independent(t.base_transform.domain, t.reinterpreted_batch_ndims),
        is_discrete=False,
    )

    codomain = dependent_formula(
        "The constraint of the base, over more dimensions.",
        lambda t: constraints.independent(t.base_transform.codomain, t.reinterpreted_batch_ndims),
        is_discrete=False,
    )

    bijective = formula("True if the base is bijective.", lambda t: t.base_transform.bijective)
    sign = formula("The sign of the base.", lambda t: t.base_transform.sign)

    def _call(self, x: Tensor) -> Tensor:
        return self.base_transform(self._check_event_rank(x, self.domain))

    def _inverse(self, y: Tensor) -> Tensor:
        return self.base_transform.inv(self._check_event_rank(y, self.codomain))

    def _check_event_rank(self, value: Tensor, constraint: Constraint) -> Tensor:
        if value.dim() < constraint.event_dim:
            raise ValueError("Too few dimensions on input")
        return value

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """The term of the base, summed over the reinterpreted dimensions."""
        return sum_rightmost(self.base_transform.log_abs_det_jacobian(x, y), self.reinterpreted_batch_ndims)

    def forward_shape(self, shape: Shape) -> Shape:
        """The shape that the base makes."""
        return self.base_transform.forward_shape(shape)

    def inverse_shape(self, shape: Shape) -> Shape:
        """The shape that the base makes."""
        return self.base_transform.inverse_shape(shape)

    def __repr__(self) -> str:
        return f"{self.__class__.__name__}({self.base_transform!r}, {self.reinterpreted_batch_ndims})"


class ReshapeTransform(Transform):
    """Reshaping of events from `in_shape` to `out_shape`. Raises ValueError for different numbers of elements."""

    _settings = ("in_shape", "out_shape")
    bijective = True

    def __init__(self, in_shape: Sequence[int], out_shape: Sequence[int], cache_size: int = 0) -> None:
        self.in_shape, self.out_shape = Size(in_shape), Size(out_shape)
        if self.in_shape.numel() != self.out_shape.numel():
            raise ValueError("in_shape, out_shape have different numbers of elements")
        super().__init__(cache_size=cache_size)

    domain = dependent_formula(
        "Real events of `in_shape`.", lambda t: constraints.independent(constraints.real, len(t.in_shape))
    )

    codomain = dependent_formula(
        "Real events of `out_shape`.", lambda t: constraints.independent(constraints.real, len(t.out_shape))
    )

    def _call(self, x: Tensor) -> Tensor:
        return x.reshape(*self._batch_shape(x, self.in_shape), *self.out_shape)

    def _inverse(self, y: Tensor) -> Tensor:
        return y.reshape(*self._batch_shape(y, self.out_shape), *self.in_shape)

    def _batch_shape(self, value: Tensor, event: Size) -> tuple[int, ...]:
        return tuple(value.shape[: value.dim() - len(event)])

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """0."""
        return creation.zeros(self._batch_shape(x, self.in_shape), dtype=x.dtype)

    def forward_shape(self, shape: Shape) -> Size:
        """`out_shape` in the place of `in_shape`. Raises ValueError where that is not there."""
        return _replace_event_shape(shape, self.in_shape, self.out_shape)

    def inverse_shape(self, shape: Shape) -> Size:
        """`in_shape` in the place of `out_shape`. Raises ValueError where that is not there."""
        return _replace_event_shape(shape, self.out_shape, self.in_shape)


class SoftmaxTransform(_FixedTransform):
    """y = softmax x; the inverse gives x up to a constant."""

    domain = constraints.real_vector
    codomain = constraints.simplex

    def _call(self, x: Tensor) -> Tensor:
        weights = (x - x.max(-1, True)[0]).exp()
        return weights / weights.sum(-1, True)

    def _inverse(self, y: Tensor) -> Tensor:
        return y.log()

    def forward_shape(self, shape: Shape) -> Shape:
        """The same. Raises ValueError for a scalar's."""
        return _check_rank(shape, 1)

    inverse_shape = forward_shape


class StickBreakingTransform(_FixedTransform):
    """yₖ = zₖ Πᵢ₍ᵢ<ₖ₎ (1 - zᵢ), where zₖ = σ(xₖ - log(K - k + 1)) and z_{K+1} = 1: K numbers to K + 1 of sum 1.

    Of a stick of length 1, the share zₖ of what is left is broken off each time.
    """

    domain = constraints.real_vector
    codomain = constraints.simplex
    bijective = True

    def _call(self, x: Tensor) -> Tensor:
        z = clip_probabilities((x - _log_places_left(x)).sigmoid())
        return pad(z, [0, 1], value=1) * pad((1 - z).cumprod(-1), [1, 0], value=1)

    def _inverse(self, y: Tensor) -> Tensor:
        head = y[..., :-1]
        rest = (1 - head.cumsum(-1)).clamp(min=finfo(y.dtype).tiny)
        return head.log() - rest.log() + _log_places_left(head)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """Σₖ -u + log σ(u) + log yₖ, where u = xₖ - log(K - k + 1)."""
        u = x - _log_places_left(x)
        return (-u + logsigmoid(u) + y[..., :-1].log()).sum(-1)

    def forward_shape(self, shape: Shape) -> Size:
        """One more in the last dimension."""
        shape = _check_rank(shape, 1)
        return Size((*shape[:-1], shape[-1] + 1))

    def inverse_shape(self, shape: Shape) -> Size:
        """One less in the last dimension."""
        shape = _check_rank(shape, 1)
        return Size((*shape[:-1], shape[-1] - 1))


class CorrCholeskyTransform(Transform):
    """yᵢⱼ = rᵢⱼ √Πₖ₍ₖ<ⱼ₎ (1 - rᵢₖ²): D(D - 1)/2 numbers to the Cholesky factor of a D x D correlation matrix.

    r = tanh x below the diagonal, and 1 on it: the canonical partial correlations of Lewandowski, Kurowicka and Joe,
    2009.

    Raises: ValueError for a count that is no D(D - 1)/2.
    """

    domain = constraints.real_vector
    codomain = constraints.corr_cholesky
    bijective = True

    def _call(self, x: Tensor) -> Tensor:
        eps = finfo(x.dtype).eps
        r = vec_to_tril_matrix(x.tanh().clamp(min=-1 + eps, max=1 - eps), diag=-1)
        left = (1 - r**2).sqrt().cumprod(-1)
        r = r + creation.eye(r.shape[-1], dtype=r.dtype)
        return r * pad(left[..., :-1], [1, 0], value=1)

    def _inverse(self, y: Tensor) -> Tensor:
        left = pad((1 - (y * y).cumsum(dim=-1))[..., :-1], [1, 0], value=1)
        t = tril_matrix_to_vec(y, diag=-1) / tril_matrix_to_vec(left, diag=-1).sqrt()
        return (t.log1p() - t.neg().log1p()) / 2  # a plain atanh is less precise near ±1

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor, intermediates: object = None) -> Tensor:
        """½ Σ log of what is left of each row, and Σ log(1 - tanh² x)."""
        left = tril_matrix_to_vec(1 - (y * y).cumsum(dim=-1), diag=-2)
        stick = 0.5 * left.log().sum(-1)
        return stick - 2 * (x + softplus(-2 * x) - math.log(2.0)).sum(dim=-1)

    def forward_shape(self, shape: Shape) -> Size:
        """(…, D, D). Raises ValueError where no D has D(D - 1)/2 = N."""
        shape = _check_rank(shape, 1)
        count = shape[-1]
        side = round((0.25 + 2 * count) ** 0.5 + 0.5)
        if side * (side - 1) // 2 != count:
            raise ValueError("Input is not a flattened lower-diagonal number")
        return Size((*shape[:-1], side, side))

    def inverse_shape(self, shape: Shape) -> Size:
        """(…, N). Raises ValueError unless the matrices are square."""
        shape = _check_rank(shape, 2)
        if shape[-2] != shape[-1]:
            raise ValueError("Input is not square")
        side = shape[-1]
        return Size((*shape[:-2], side * (side - 1) // 2))


class LowerCholeskyTransform(_FixedTransform):
    """y = x below the diagonal, eˣ on it, and 0 above."""

    domain = constraints.independent(constraints.real, 2)
    codomain = constraints.lower_cholesky

    def _call(self, x: Tensor) -> Tensor:
        return x.tril(-1) + x.diagonal(dim1=-2, dim2=-1).exp().diag_embed()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.tril(-1) + y.diagonal(dim1=-2, dim2=-1).log().diag_embed()


class PositiveDefiniteTransform(_FixedTransform):
    """y = LLᵀ, where L is `LowerCholeskyTransform` of x."""

    domain = constraints.independent(constraints.real, 2)
    codomain = constraints.positive_definite

    def _call(self, x: Tensor) -> Tensor:
        factor = LowerCholeskyTransform()(x)
        return factor @ factor.mT

    def _inverse(self, y: Tensor) -> Tensor:
        return LowerCholeskyTransform().inv(cholesky(y))


def _log_places_left(x: Tensor) -> Tensor:
    """log(K - k + 1) of the K places of the last dimension."""
    return (x.shape[-1] + 1 - creation.ones(x.shape[-1], dtype=x.dtype).cumsum(-1)).log()


def _check_rank(shape: Shape, dims: int) -> Shape:
    if len(shape) < dims:
        raise ValueError("Too few dimensions on input")
    return shape


def _replace_event_shape(shape: Shape, old: Size, new: Size) -> Size:
    if len(shape) < len(old):
        raise ValueError("Too few dimensions on input")
    cut = len(shape) - len(old)
    if tuple(shape[cut:]) != old:
        raise ValueError(f"Shape mismatch: expected {shape[cut:]} but got {old}")
    return Size((*shape[:cut], *new))
