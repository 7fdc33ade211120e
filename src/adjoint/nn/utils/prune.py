"""Weights without some of their elements: the parameter by a mask, before each call of the module."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from adjoint.core.tensor.tensor import Tensor
from adjoint.functions.creation.creation import ones_like
from adjoint.functions.shape.join import cat
from adjoint.nn.module.module import Module
from adjoint.nn.utils.pruning_methods import (
    BasePruningMethod,
    CustomFromMask,
    Identity,
    L1Unstructured,
    LnStructured,
    PruningContainer,
    RandomStructured,
    RandomUnstructured,
    find_pruning_hook,
)
from adjoint.nn.utils.pruning_methods import check_amount as _validate_pruning_amount_init
from adjoint.nn.utils.pruning_methods import check_count as _validate_pruning_amount
from adjoint.nn.utils.pruning_methods import check_dim as _validate_pruning_dim
from adjoint.nn.utils.pruning_methods import check_slices as _validate_structured_pruning
from adjoint.nn.utils.pruning_methods import count_to_prune as _compute_nparams_toprune
from adjoint.nn.utils.pruning_methods import slice_norms as _compute_norm

__all__ = [
    "BasePruningMethod", "CustomFromMask", "Identity", "L1Unstructured", "LnStructured", "PruningContainer",
    "RandomStructured", "RandomUnstructured", "_compute_norm", "_compute_nparams_toprune", "_validate_pruning_amount",
    "_validate_pruning_amount_init", "_validate_pruning_dim", "_validate_structured_pruning", "custom_from_mask",
    "global_unstructured", "identity", "is_pruned", "l1_unstructured", "ln_structured", "random_structured",
    "random_unstructured", "remove",
]  # fmt: skip


def custom_from_mask(module: Module, name: str, mask: Tensor) -> Module:
    """Leave out the elements of the parameter where `mask` is 0, besides those left out already."""
    CustomFromMask.apply(module, name, mask)
    return module


def identity(module: Module, name: str) -> Module:
    """Leave out nothing."""
    Identity.apply(module, name)
    return module


def random_unstructured(module: Module, name: str, amount: float) -> Module:
    """Leave out elements at random: this many, or this part of them."""
    RandomUnstructured.apply(module, name, amount)
    return module


def l1_unstructured(module: Module, name: str, amount: float, importance_scores: Tensor | None = None) -> Module:
    """Leave out the elements of least size, or of least score: this many, or this part of them."""
    L1Unstructured.apply(module, name, amount, importance_scores)
    return module


def random_structured(module: Module, name: str, amount: float, dim: int) -> Module:
    """Leave out slices along `dim` at random: this many, or this part of them."""
    RandomStructured.apply(module, name, amount, dim)
    return module


def ln_structured(
    module: Module, name: str, amount: float, n: float | str, dim: int, importance_scores: Tensor | None = None
) -> Module:
    """Leave out the slices along `dim` of least n-norm: this many, or this part of them."""
    LnStructured.apply(module, name, amount, n, dim, importance_scores)
    return module


def global_unstructured(
    parameters: Any, pruning_method: Any, importance_scores: dict[Any, Tensor] | None = None, **kwargs: Any
) -> None:
    """Leave out the least elements of several parameters taken together, [(module, name), …].

    `pruning_method` is a class that chooses elements, or one of `l1_unstructured` and `random_unstructured`. Raises
    TypeError if it chooses slices.
    """
    if not isinstance(parameters, Iterable):
        raise TypeError("global_unstructured(): parameters is not an Iterable")
    scores = {} if importance_scores is None else importance_scores
    if not isinstance(scores, dict):
        raise TypeError("global_unstructured(): importance_scores must be of type dict")
    given = list(parameters)
    tensors = [getattr(module, name).detach() for module, name in given]
    scored = [scores.get(pair, tensor) for pair, tensor in zip(given, tensors, strict=True)]
    held = [getattr(m, f"{name}_mask", ones_like(t)) for (m, name), t in zip(given, tensors, strict=True)]
    classes = {l1_unstructured: L1Unstructured, random_unstructured: RandomUnstructured}
    method = classes.get(pruning_method, pruning_method)(**kwargs)
    if method.PRUNING_TYPE != "unstructured":
        raise TypeError(
            'Only "unstructured" PRUNING_TYPE supported for the `pruning_method`. Found method '
            f"{pruning_method} of type {method.PRUNING_TYPE}"
        )
    method._tensor_name = "all"
    mask = PruningContainer(method).compute_mask(_flatten_all(scored), _flatten_all(held))
    at = 0
    for (module, name), tensor in zip(given, tensors, strict=True):
        custom_from_mask(module, name, mask[at : at + tensor.numel()].reshape(tensor.shape))
        at += tensor.numel()


def _flatten_all(tensors: Iterable[Tensor]) -> Tensor:
    return cat([t.detach().reshape(-1) for t in tensors])


def remove(module: Module, name: str) -> Module:
    """Make the parameter, as it is pruned, an ordinary one again. Raises ValueError if it is not pruned."""
    key, hook = find_pruning_hook(module, name)
    if hook is None:
        raise ValueError(f"Parameter '{name}' of module {module} has to be pruned before pruning can be removed")
    hook.remove(module)
    del module._forward_pre_hooks[key]
    return module


def is_pruned(module: Module) -> bool:
    """Return True if a parameter of the module, or of one of its parts, is pruned."""
    hooks = (hook for part in module.modules() for hook in part._forward_pre_hooks.values())
    return any(isinstance(hook, BasePruningMethod) for hook in hooks)
