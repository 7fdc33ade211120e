"""Limits for gradients, by their common norm or element by element."""

from __future__ import annotations

import warnings
from collections.abc import Iterable

import numpy as np

from adjoint.autograd.grad_mode import no_grad
from adjoint.core.dtype.dtype import default
from adjoint.core.op.evaluation import evaluate
from adjoint.core.op.op import op_of
from adjoint.core.runtime.mode import mode
from adjoint.core.tensor.tensor import Tensor, wrap
from adjoint.functions.api.dim_args import all_dims
from adjoint.functions.creation.creation import tensor
from adjoint.functions.linalg.norms_det import vector_norm
from adjoint.functions.shape.join import stack
from adjoint.ops.reduction.variance import euclidean_norm

Tensors = Tensor | Iterable[Tensor]

__all__ = ["clip_grad_norm", "clip_grad_norm_", "clip_grad_value_", "clip_grads_with_norm_", "get_total_norm"]


@no_grad()
def get_total_norm(
    tensors: Tensors, norm_type: float = 2.0, error_if_nonfinite: bool = False, foreach: bool | None = None
) -> Tensor:
    """Return the norm (Σ |x|ᵖ)^(1/p) of all tensors as one vector, the largest |x| for p = inf.

    `foreach` is accepted and changes nothing. Raises RuntimeError for a NaN or infinite norm if `error_if_nonfinite`.
    """
    given = _as_list(tensors)
    if not given:
        return tensor(0.0)
    norm_type = float(norm_type)
    norms = _compute_norms_at_once(given) if norm_type == 2.0 else None
    total = vector_norm(stack([vector_norm(t, norm_type) for t in given]) if norms is None else norms, norm_type)
    if error_if_nonfinite and not bool(total.isfinite()):
        raise RuntimeError(
            f"The total norm of order {norm_type} for gradients from `parameters` is non-finite, so it cannot be "
            "clipped. To disable this error and scale the gradients by the non-finite norm anyway, set "
            "`error_if_nonfinite=False`"
        )
    return total


@no_grad()
def clip_grads_with_norm_(
    parameters: Tensors, max_norm: float, total_norm: Tensor, foreach: bool | None = None
) -> None:
    """Scale the gradients in place by min(1, max_norm / (total_norm + 1e-6))."""
    scale = (float(max_norm) / (total_norm + 1e-6)).clamp(max=1.0)
    for gradient in _list_gradients(parameters):
        gradient.mul_(scale)


@no_grad()
def clip_grad_norm_(
    parameters: Tensors,
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Scale all gradients in place so that their total norm is at most `max_norm`, and return the norm before.

    The factor is min(1, max_norm / (norm + 1e-6)).

    Args:
        parameters: Tensor or iterable of tensors; those without a gradient are left out.
        max_norm: largest total norm.
        norm_type: p of the norm, inf for the largest absolute value. Default: 2.
        error_if_nonfinite: True to raise for a NaN or infinite norm. Default: False.
        foreach: ignored.

    Raises: RuntimeError for a NaN or infinite norm with `error_if_nonfinite`.

    Example:
        >>> p = nn.Parameter(ad.zeros(2))
        >>> p.grad = ad.tensor([3.0, 4.0])
        >>> nn.utils.clip_grad_norm_([p], max_norm=1.0)
        tensor(5.)
        >>> p.grad
        tensor([0.6000, 0.8000])
    """
    given = _as_list(parameters)
    total = get_total_norm(_list_gradients(given), norm_type, error_if_nonfinite, foreach)
    clip_grads_with_norm_(given, max_norm, total, foreach)
    return total


def clip_grad_norm(
    parameters: Tensors,
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Call `clip_grad_norm_` by its old name, with a FutureWarning."""
    warnings.warn("`clip_grad_norm` is deprecated in favor of `clip_grad_norm_`.", FutureWarning, stacklevel=2)
    return clip_grad_norm_(parameters, max_norm, norm_type, error_if_nonfinite, foreach)


@no_grad()
def clip_grad_value_(parameters: Tensors, clip_value: float, foreach: bool | None = None) -> None:
    """Clamp each element of the gradients to [-clip_value, clip_value] in place.

    Args:
        parameters: Tensor or iterable of tensors; those without a gradient are left out.
        clip_value: largest absolute value.
        foreach: ignored.

    Example:
        >>> p = nn.Parameter(ad.zeros(2))
        >>> p.grad = ad.tensor([-3.0, 0.5])
        >>> nn.utils.clip_grad_value_([p], 1.0)
        >>> p.grad
        tensor([-1.0000,  0.5000])
    """
    limit = float(clip_value)
    for gradient in _list_gradients(parameters):
        gradient.clamp_(-limit, limit)


def _compute_norms_at_once(tensors: list[Tensor]) -> Tensor | None:
    """Return what `vector_norm` gives for each, without a call of it; None where arrays are not all plain."""
    if mode.needs_slow_path or default.narrow:
        return None
    arrays = [t.array for t in tensors if type(t) is Tensor]
    if len(arrays) < len(tensors) or arrays[0].dtype.char not in "fd":
        return None
    for array in arrays:
        if type(array) is not np.ndarray or array.dtype is not arrays[0].dtype:
            return None
    op = op_of(euclidean_norm)
    return wrap(np.array([evaluate(op, (a,), {"axes": all_dims(None, a.ndim), "keepdims": False}) for a in arrays]))


def _as_list(tensors: Tensors) -> list[Tensor]:
    return [tensors] if isinstance(tensors, Tensor) else list(tensors)


def _list_gradients(parameters: Tensors) -> list[Tensor]:
    return [p.grad for p in _as_list(parameters) if p.grad is not None]
