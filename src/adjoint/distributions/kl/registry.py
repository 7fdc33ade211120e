"""The Kullback-Leibler divergence between two distributions, by the formula registered for their classes."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, TypeVar

from adjoint.core.tensor.tensor import Tensor
from adjoint.distributions.distribution import Distribution

Formula = Callable[[Any, Any], Tensor]  # of the two distributions, each of the classes that it is registered for
F = TypeVar("F", bound=Formula)

_REGISTRY: dict[tuple[type, type], Formula] = {}
_DISPATCH_CACHE: dict[tuple[type, type], Formula | None] = {}


def kl_divergence(p: Distribution, q: Distribution) -> Tensor:
    """Return the Kullback-Leibler divergence KL(p ‖ q) = E[log p(x) - log q(x)] under p, one per batch element.

    Args:
        p: Distribution.
        q: Distribution over the same events.

    Raises: NotImplementedError for a pair of classes without a formula.

    Example:
        >>> normal = ad.distributions.Normal
        >>> ad.distributions.kl_divergence(normal(0.0, 1.0), normal(1.0, 1.0))
        tensor(0.5000)
    """
    kinds = type(p), type(q)
    if kinds not in _DISPATCH_CACHE:
        _DISPATCH_CACHE[kinds] = _find_formula(*kinds)
    formula = _DISPATCH_CACHE[kinds]
    if formula is None:
        raise NotImplementedError(
            f"No KL(p || q) is implemented for p type {kinds[0].__name__} and q type {kinds[1].__name__}"
        )
    return formula(p, q)


def register_kl(type_p: type[Distribution], type_q: type[Distribution]) -> Callable[[F], F]:
    """Register the decorated function (p, q) for these classes and their subclasses.

    Of several that apply, the one of the nearest classes is used. Raises TypeError for anything but a class.
    """
    for name, kind in (("type_p", type_p), ("type_q", type_q)):
        if not isinstance(kind, type):
            raise TypeError(f"Expected {name} to be a Distribution subclass but got {kind}")

    def register(formula: F) -> F:
        _REGISTRY[type_p, type_q] = formula
        _DISPATCH_CACHE.clear()
        return formula

    return register


def _find_formula(type_p: type, type_q: type) -> Formula | None:
    """Return the formula of the nearest classes; warn where p and q have different nearest formulas."""
    candidates = [pair for pair in _REGISTRY if issubclass(type_p, pair[0]) and issubclass(type_q, pair[1])]
    if not candidates:
        return None
    near_p, near_q = type_p.__mro__.index, type_q.__mro__.index
    left = min(candidates, key=lambda pair: (near_p(pair[0]), near_q(pair[1])))
    right = min(candidates, key=lambda pair: (near_q(pair[1]), near_p(pair[0])))
    if _REGISTRY[left] is not _REGISTRY[right]:
        warnings.warn(
            f"Ambiguous kl_divergence({type_p.__name__}, {type_q.__name__}). "
            f"Please register_kl({left[0].__name__}, {right[1].__name__})",
            RuntimeWarning,
            stacklevel=3,
        )
    return _REGISTRY[left]
