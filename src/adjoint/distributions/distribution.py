"""The base class of distributions: shapes, checks of parameters and samples, and the methods of all."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, Self

from numpy import ndarray

from adjoint.autograd.grad_mode import no_grad
from adjoint.core.runtime.mode import mode, nondefault
from adjoint.core.tensor.size import Size
from adjoint.core.tensor.tensor import Tensor, wrap
from adjoint.core.typing import Operand
from adjoint.distributions.constraints.constraint import Constraint, can_validate_values, is_dependent
from adjoint.distributions.parameters import broadcast_all, lazy_property


class Distribution:
    """Base class of probability distributions: a batch of independent distributions over events.

    A sample of shape `sample_shape` has the shape (*sample_shape, *batch_shape, *event_shape). Compiled functions and
    `vmap` leave out the checks of values.

    Args:
        batch_shape: shape of the parameters' batch. Default: ().
        event_shape: shape of one event. Default: ().
        validate_args: False to leave out checks of parameters and samples. Default: None, the global setting.

    Raises: ValueError for parameters outside their constraints.

    Example:
        >>> p = ad.distributions.MultivariateNormal(ad.zeros(4, 3), ad.eye(3))
        >>> p.batch_shape, p.event_shape
        (adjoint.Size([4]), adjoint.Size([3]))
        >>> p.sample((2,)).shape
        adjoint.Size([2, 4, 3])
    """

    has_rsample: Any = False  # bool, in some classes as a property
    has_enumerate_support: Any = False
    _validate_args: bool = __debug__
    _batch_shape: Size
    _event_shape: Size
    _fields_not_expanded: frozenset[str] = frozenset()  # tensors that `expand` leaves as they are

    @staticmethod
    def set_default_validate_args(value: bool) -> None:
        """Set the default of `validate_args`. Raises ValueError for anything but a bool."""
        if value not in [True, False]:
            raise ValueError(f"expected True or False, got {value!r}")
        Distribution._validate_args = value

    def __init__(
        self, batch_shape: Sequence[int] = (), event_shape: Sequence[int] = (), validate_args: bool | None = None
    ) -> None:
        self._batch_shape, self._event_shape = Size(batch_shape), Size(event_shape)
        if validate_args is not None:
            self._validate_args = validate_args
        if self._validate_args:
            self._check_parameters()

    def _init_elementwise(self, validate_args: bool | None, **parameters: Tensor | float) -> None:
        """Set the parameters, broadcast, as attributes; the distribution is of numbers, one for each element."""
        vars(self).update(zip(parameters, broadcast_all(*parameters.values()), strict=True))
        first = vars(self)[next(iter(parameters))]
        Distribution.__init__(self, first.shape, validate_args=validate_args)

    def _check_parameters(self) -> None:
        """Raise ValueError for a parameter outside its constraint."""
        try:
            expected = self.arg_constraints
        except NotImplementedError:
            expected = {}
            warnings.warn(
                f"{self.__class__} does not define `arg_constraints`. Please set `arg_constraints = {{}}` or "
                "initialize the distribution with `validate_args=False` to turn off validation.",
                stacklevel=3,
            )
        for name, constraint in expected.items():
            if is_dependent(constraint):
                continue
            if name not in vars(self) and isinstance(getattr(type(self), name), lazy_property):
                continue
            value = getattr(self, name)
            if not _is_satisfied(constraint, value):
                raise ValueError(
                    f"Expected parameter {name} ({type(value).__name__} of shape {tuple(value.shape)}) of distribution "
                    f"{self!r} to satisfy the constraint {constraint!r}, but found invalid values:\n{value}"
                )

    def expand(self, batch_shape: Sequence[int], _instance: Self | None = None) -> Self:
        """Return the same distributions repeated to a batch shape.

        The parameters become expanded views.

        Args:
            batch_shape: shape to which the present one broadcasts.

        Example:
            >>> ad.distributions.Normal(ad.zeros(2), 1.0).expand((3, 2)).batch_shape
            adjoint.Size([3, 2])
        """
        new = self._get_checked_instance(Distribution, _instance)
        old, shape = len(self._batch_shape), Size(batch_shape)
        for name, value in vars(self).items():
            if name not in vars(new):
                vars(new)[name] = (
                    value if name in self._fields_not_expanded else _expand_field(value, self._batch_shape, shape, old)
                )
        new._batch_shape, new._validate_args = shape, self._validate_args
        return new

    @property
    def batch_shape(self) -> Size:
        """The shape over which the parameters are batched."""
        return self._batch_shape

    @property
    def event_shape(self) -> Size:
        """The shape of one sample of one distribution."""
        return self._event_shape

    @property
    def arg_constraints(self) -> dict[str, Constraint]:
        """The constraint of each parameter, by its name."""
        raise NotImplementedError

    @property
    def support(self) -> Constraint:
        """The constraint that samples satisfy."""
        raise NotImplementedError

    @property
    def mean(self) -> Tensor:
        """E[x]."""
        raise NotImplementedError

    @property
    def mode(self) -> Tensor:
        """The likeliest value."""
        raise NotImplementedError(f"{self.__class__} does not implement mode")

    @property
    def variance(self) -> Tensor:
        """E[(x - E[x])²]."""
        raise NotImplementedError

    @property
    def stddev(self) -> Tensor:
        """√variance."""
        return self.variance.sqrt()

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Return samples without a gradient.

        Args:
            sample_shape: shape of independent samples. Default: (), a single one.

        Example:
            >>> ad.distributions.Normal(ad.zeros(3), 1.0).sample((2,)).shape
            adjoint.Size([2, 3])
        """
        with no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Return samples as a differentiable function of the parameters.

        Args:
            sample_shape: shape of independent samples. Default: (), a single one.

        Raises: NotImplementedError for a distribution without `has_rsample`.

        Example:
            >>> mean = ad.tensor(1.0, requires_grad=True)
            >>> ad.distributions.Normal(mean, 0.5).rsample().backward()
            >>> mean.grad
            tensor(1.)
        """
        raise NotImplementedError

    def sample_n(self, n: int) -> Tensor:
        """`sample((n,))`."""
        warnings.warn(
            "`sample_n(n)` will be deprecated. Use `sample((n,))` instead.", category=FutureWarning, stacklevel=2
        )
        return self.sample((n,))

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the log of the probability, or of the probability density, at `value`.

        Args:
            value: tensor that broadcasts with (*batch_shape, *event_shape).

        Shapes:
            value (…, *event_shape) -> the broadcast of its leading dimensions with batch_shape

        Raises: ValueError for a value outside the support or of another event shape.

        Example:
            >>> ad.distributions.Bernoulli(0.25).log_prob(ad.tensor(1.0)).exp()
            tensor(0.2500)
        """
        raise NotImplementedError

    def cdf(self, value: Tensor) -> Tensor:
        """Return the cumulative probability P[x ≤ value].

        Args:
            value: tensor that broadcasts with the batch.

        Raises: NotImplementedError for a distribution without a closed form.

        Example:
            >>> ad.distributions.Normal(0.0, 1.0).cdf(ad.tensor(0.0))
            tensor(0.5000)
        """
        raise NotImplementedError

    def icdf(self, value: Tensor) -> Tensor:
        """The inverse of `cdf`."""
        raise NotImplementedError

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """Return all values of a discrete distribution along a new first dimension; `expand`: for all of the batch."""
        raise NotImplementedError

    def entropy(self) -> Tensor:
        """Return the entropy E[-log p(x)] in nats, one for each distribution of the batch.

        Raises: NotImplementedError for a distribution without a closed form.

        Example:
            >>> ad.distributions.Bernoulli(0.5).entropy()
            tensor(0.6931)
        """
        raise NotImplementedError

    def perplexity(self) -> Tensor:
        """e to the entropy."""
        return self.entropy().exp()

    def _extended_shape(self, sample_shape: Sequence[int] = ()) -> Size:
        """The shape of `sample_shape` samples."""
        return Size((*sample_shape, *self._batch_shape, *self._event_shape))

    def _check_value(self, value: Operand) -> Operand:
        """Return `value`; check it if `validate_args` is set."""
        if self._validate_args:
            self._validate_sample(value)
        return value

    def _validate_sample(self, value: Tensor | float) -> None:
        """Raise ValueError unless `value` is a tensor of the right shape within the support."""
        if not isinstance(value, Tensor):
            raise ValueError("The value argument to log_prob must be a Tensor")
        shape, event = value.shape, self._event_shape
        if event and shape[len(shape) - len(event) :] != event:
            raise ValueError(f"The right-most size of value must match event_shape: {shape} vs {event}.")
        expected = Size((*self._batch_shape, *event)) if event else self._batch_shape
        if shape != expected and any(
            1 != i != j != 1 for i, j in zip(reversed(shape), reversed(expected), strict=False)
        ):
            raise ValueError(f"Value is not broadcastable with batch_shape+event_shape: {shape} vs {expected}.")
        try:
            support = self.support
        except NotImplementedError:
            warnings.warn(
                f"{self.__class__} does not define `support` to enable sample validation. Please initialize the "
                "distribution with `validate_args=False` to turn off validation.",
                stacklevel=4,
            )
            return
        if not _is_satisfied(support, value):
            raise ValueError(
                f"Expected value argument ({type(value).__name__} of shape {tuple(value.shape)}) to be within the "
                f"support ({support!r}) of the distribution {self!r}, but found invalid values:\n{value}"
            )

    def _get_checked_instance(self, cls: type[Distribution], _instance: Self | None = None) -> Self:
        """Return `_instance`, or a new one. Raises NotImplementedError for a user's class with its own `__init__`."""
        package = __name__.partition(".")[0]
        owner = next(c for c in type(self).__mro__ if "__init__" in vars(c))
        if _instance is None and owner is not cls and owner.__module__.partition(".")[0] != package:
            own_class = next(c for c in owner.__mro__ if c.__module__.partition(".")[0] == package)
            raise NotImplementedError(
                f"Subclass {self.__class__.__name__} of {own_class.__name__} that defines a custom __init__ method "
                "must also define a custom .expand() method."
            )
        return self.__new__(type(self)) if _instance is None else _instance

    def __repr__(self) -> str:
        held = {name: vars(self)[name] for name in self.arg_constraints if name in vars(self)}
        shown = ", ".join(f"{name}: {v if v.numel() == 1 else v.size()}" for name, v in held.items())
        return f"{self.__class__.__name__}({shown})"


def _is_satisfied(constraint: Constraint, value: Tensor) -> bool:
    plain = type(value) is Tensor and type(value.array) is ndarray and isinstance(constraint, Constraint)
    if plain and not (nondefault.count and mode.needs_slow_path):
        return constraint._holds_for_all(value if value.node is None else wrap(value.array))  # which saves half of it
    valid = constraint.check(value)
    return not can_validate_values(valid) or bool(valid.all())


def _expand_field(value: object, batch: Size, shape: Size, old: int) -> object:
    """Expand a field that has the batch dimensions, of which there are `old`; return any other as it is."""
    if isinstance(value, Distribution):
        return value.expand((*shape, *value.batch_shape[old:]))
    if isinstance(value, Tensor) and value.shape[:old] == batch:
        return value.expand(*shape, *value.shape[old:])
    return value
