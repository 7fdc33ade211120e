"""The categorical, one-hot and multinomial distributions."""

from __future__ import annotations

import math
from collections.abc import Sequence

from adjoint.autograd.grad_mode import no_grad
from adjoint.core.dtype.dtype_info import finfo
from adjoint.core.tensor.size import Size
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Operand
from adjoint.distributions import constraints
from adjoint.distributions.constraints.constraint import dependent_formula
from adjoint.distributions.discrete.binomial import Binomial
from adjoint.distributions.distribution import Distribution
from adjoint.distributions.parameters import (
    broadcast_all,
    formula,
    lazy_property,
    logits_to_probs,
    name_of_given,
    probs_to_logits,
)
from adjoint.functions.creation import creation
from adjoint.functions.creation.sampling import multinomial
from adjoint.functions.elementwise.pointwise import where
from adjoint.functions.nn.embedding import one_hot
from adjoint.functions.shape.shape import broadcast_tensors


class Categorical(Distribution):
    """Categorical distribution over the integers 0 to K - 1.

    Args:
        probs: tensor (…, K), weights that are divided by their sum. Default: None.
        logits: tensor (…, K), log-probabilities up to a constant. Default: None.
        validate_args: False to leave out checks of parameters and samples. Default: None, the global setting.

    Raises: ValueError unless exactly one of `probs` and `logits` is given, and for scalars.

    Example:
        >>> p = ad.distributions.Categorical(ad.tensor([1.0, 1.0, 2.0]))
        >>> p.log_prob(ad.tensor(2)).exp()
        tensor(0.5000)
        >>> _ = ad.manual_seed(0)
        >>> p.sample((4,))
        tensor([2, 2, 1, 2])
    """

    arg_constraints = constraints.of(probs=constraints.simplex, logits=constraints.real_vector)
    has_enumerate_support = True

    def __init__(
        self, probs: Tensor | None = None, logits: Tensor | None = None, validate_args: bool | None = None
    ) -> None:
        name = name_of_given(probs, logits)
        given: Operand = logits if probs is None else probs
        if given.dim() < 1:
            raise ValueError(f"`{name}` parameter must be at least one-dimensional.")
        if name == "probs":
            self.probs = self._param = given / given.sum(-1, keepdim=True)
        else:
            self.logits = self._param = given - given.logsumexp(dim=-1, keepdim=True)
        self._num_events = self._param.size(-1)
        super().__init__(self._param.shape[:-1], validate_args=validate_args)

    support = dependent_formula(
        "0, …, K - 1.", lambda p: constraints.integer_interval(0, p._num_events - 1), is_discrete=True, event_dim=0
    )

    @lazy_property
    def logits(self) -> Tensor:
        """log p."""
        return probs_to_logits(self.probs)

    @lazy_property
    def probs(self) -> Tensor:
        """softmax of the logits."""
        return logits_to_probs(self.logits)

    param_shape = formula("The shape of the parameter.", lambda p: p._param.size())

    def _new(self, *args: object, **kwargs: object) -> Tensor:
        return self._param.new(*args, **kwargs)

    mean = formula("NaN: there is none.", lambda p: creation.full(p._extended_shape(), math.nan, dtype=p.probs.dtype))
    variance = mean
    mode = formula("The first of the likeliest categories.", lambda p: p.probs.argmax(dim=-1))

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """k with probability p[k]: int64."""
        with no_grad():
            rows = self.probs.reshape(-1, self._num_events)
            drawn = multinomial(rows, Size(sample_shape).numel(), True).T
            return drawn.reshape(self._extended_shape(sample_shape))

    def log_prob(self, value: Tensor) -> Tensor:
        """logits[k]."""
        places, logits = self._check_value(value).long().unsqueeze(-1), self.logits
        if places.array.shape[:-1] != logits.array.shape[:-1]:
            places, logits = broadcast_tensors(places, logits)
            places = places[..., :1]
        return logits.gather(-1, places).squeeze(-1)

    def entropy(self) -> Tensor:
        """-Σ p log p."""
        logits = self.logits.clamp(min=finfo(self.logits.dtype).min)
        return -(logits * self.probs).sum(-1)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """0, …, K - 1."""
        values = creation.arange(self._num_events).view(-1, *(1,) * len(self._batch_shape))
        return values.expand(-1, *self._batch_shape) if expand else values


class _CategoricalVector(Distribution):
    """A distribution whose parameters are those of a categorical one."""

    arg_constraints = constraints.of(probs=constraints.simplex, logits=constraints.real_vector)
    _categorical: Categorical

    def _init_over_categories(self, categorical: Categorical, validate_args: bool | None) -> None:
        """Set up a distribution over vectors with an element for each category."""
        self._categorical = categorical
        Distribution.__init__(self, categorical.batch_shape, categorical.param_shape[-1:], validate_args=validate_args)

    probs = formula("p.", lambda p: p._categorical.probs)
    logits = formula("log p.", lambda p: p._categorical.logits)
    param_shape = formula("The shape of the parameter.", lambda p: p._categorical.param_shape)

    def _new(self, *args: object, **kwargs: object) -> Tensor:
        return self._categorical._new(*args, **kwargs)


class OneHotCategorical(_CategoricalVector):
    """Categorical distribution over one-hot vectors of length K.

    Args:
        probs: tensor (…, K), weights that are divided by their sum. Default: None.
        logits: tensor (…, K), log-probabilities up to a constant. Default: None.
        validate_args: False to leave out checks of parameters and samples. Default: None, the global setting.

    Raises: ValueError unless exactly one of `probs` and `logits` is given, and for scalars.

    Example:
        >>> p = ad.distributions.OneHotCategorical(ad.tensor([0.0, 1.0, 0.0]))
        >>> p.sample()
        tensor([0., 1., 0.])
    """

    support = constraints.one_hot
    has_enumerate_support = True

    def __init__(
        self, probs: Tensor | None = None, logits: Tensor | None = None, validate_args: bool | None = None
    ) -> None:
        self._init_over_categories(Categorical(probs, logits), validate_args)

    @property
    def _param(self) -> Tensor:
        return self._categorical._param

    mean = formula("p.", lambda p: p.probs)
    mode = formula("1 at the first of the likeliest.", lambda p: p._vectors(p.probs.argmax(dim=-1)))
    variance = formula("p(1 - p).", lambda p: p.probs * (1 - p.probs))

    def _vectors(self, categories: Tensor) -> Tensor:
        return one_hot(categories, self._categorical._num_events).to(self.probs.dtype)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """1 at k with probability p[k]."""
        return self._vectors(self._categorical.sample(sample_shape))

    def log_prob(self, value: Tensor) -> Tensor:
        """logits[k]."""
        return self._categorical.log_prob(self._check_value(value).max(-1)[1])

    def entropy(self) -> Tensor:
        """-Σ p log p."""
        return self._categorical.entropy()

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """The rows of the identity."""
        n, batch = self.event_shape[0], self._batch_shape
        values = creation.eye(n, dtype=self._param.dtype).view(n, *(1,) * len(batch), n)
        return values.expand(n, *batch, n) if expand else values


class OneHotCategoricalStraightThrough(OneHotCategorical):
    """`OneHotCategorical` with straight-through gradients: a sample has the gradient of p (Bengio et al., 2013)."""

    has_rsample = True

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """A sample with the gradient of p."""
        return self.sample(sample_shape) + (self.probs - self.probs.detach())


class Multinomial(_CategoricalVector):
    """Multinomial distribution: counts of K categories in n = `total_count` draws; P[x] = n! Π pₖ^xₖ / xₖ!.

    Raises NotImplementedError unless n is an int.
    """

    total_count: int

    def __init__(
        self,
        total_count: int = 1,
        probs: Tensor | None = None,
        logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        if not isinstance(total_count, int):
            raise NotImplementedError("inhomogeneous total_count is not supported")
        self.total_count = total_count
        self._init_over_categories(Categorical(probs=probs, logits=logits), validate_args)

    support = dependent_formula(
        "Counts of sum n.", lambda p: constraints.multinomial(p.total_count), is_discrete=True, event_dim=1
    )

    mean = formula("np.", lambda p: p.probs * p.total_count)
    variance = formula("np(1 - p).", lambda p: p.total_count * p.probs * (1 - p.probs))

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Counts of n draws."""
        drawn = self._categorical.sample((self.total_count, *sample_shape)).movedim(0, -1)
        counts = creation.zeros(self._extended_shape(sample_shape), dtype="int64")
        return counts.scatter_add(-1, drawn, creation.ones_like(drawn)).type_as(self.probs)

    def entropy(self) -> Tensor:
        """n H(p) - log n! + Σₖ E[log xₖ!]."""
        counts = Binomial(self.total_count, probs=self.probs, validate_args=False)
        support = counts.enumerate_support(expand=False)[1:]
        expected = (counts.log_prob(support).exp() * (support + 1).lgamma()).sum([0, -1])
        return self.total_count * self._categorical.entropy() - math.lgamma(self.total_count + 1) + expected

    def log_prob(self, value: Tensor) -> Tensor:
        """log n! + Σ xₖ log pₖ - log xₖ!."""
        logits, value = broadcast_all(self.logits, self._check_value(value))
        powers = where((value == 0) & (logits == -math.inf), 0.0, logits) * value
        return (value.sum(-1) + 1).lgamma() - (value + 1).lgamma().sum(-1) + powers.sum(-1)
