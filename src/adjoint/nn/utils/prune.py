"""Weights without some of their elements: the parameter by a mask, before each call of the module."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from adjoint.core.mode import Scope
from adjoint.core.tensor import Tensor
from adjoint.functions.creation import ones_like, zeros_like
from adjoint.functions.joining import cat
from adjoint.functions.linalg_norms import vector_norm
from adjoint.functions.random import rand
from adjoint.nn.module import Module

__all__ = [
    "Pruned", "custom_from_mask", "global_unstructured", "identity", "is_pruned", "l1_unstructured", "ln_structured",
    "random_structured", "random_unstructured", "remove",
]  # fmt: skip
Score = Callable[[Any], Any]  # what an element, or a slice, is worth: the least are left out


class Pruned:
    """Before each call of a module: name = name_orig · name_mask."""

    def __init__(self, name: str) -> None:
        self.name = name

    def apply_mask(self, module: Any) -> Any:
        """The parameter without the elements that the mask leaves out."""
        return getattr(module, f"{self.name}_mask") * getattr(module, f"{self.name}_orig")

    def __call__(self, module: Any, inputs: Any) -> None:
        setattr(module, self.name, self.apply_mask(module))


def _hook(module: Module, name: str) -> tuple[Any, Any]:
    for key, hook in module._forward_pre_hooks.items():
        if isinstance(hook, Pruned) and hook.name == name:
            return key, hook
    return None, None


def custom_from_mask(module: Module, name: str, mask: Tensor) -> Module:
    """Leave out the elements of the parameter where `mask` is 0, besides those left out already."""
    held: Any = module
    _, hook = _hook(module, name)
    if hook is None:
        original = held._parameters[name]
        delattr(held, name)
        held.register_parameter(f"{name}_orig", original)
        held.register_buffer(f"{name}_mask", mask.to(original.dtype))
        hook = Pruned(name)
        module.register_forward_pre_hook(hook)
    else:
        old = getattr(held, f"{name}_mask")
        setattr(held, f"{name}_mask", old * mask.to(old.dtype))
    setattr(held, name, hook.apply_mask(held))
    return module


def identity(module: Module, name: str) -> Module:
    """Leave out nothing."""
    return custom_from_mask(module, name, ones_like(_now(module, name)))


def random_unstructured(module: Module, name: str, amount: float) -> Module:
    """Leave out elements at random: this many, or this part of them."""
    return _elements(module, name, amount, lambda t: rand(t.shape))


def l1_unstructured(module: Module, name: str, amount: float, importance_scores: Tensor | None = None) -> Module:
    """Leave out the elements of least size, or of least score: this many, or this part of them."""
    return _elements(module, name, amount, lambda t: t.abs(), importance_scores)


def random_structured(module: Module, name: str, amount: float, dim: int) -> Module:
    """Leave out slices along `dim` at random: this many, or this part of them."""
    return _slices(module, name, amount, dim, lambda t: rand(t.shape[dim]))


def ln_structured(
    module: Module, name: str, amount: float, n: Any, dim: int, importance_scores: Tensor | None = None
) -> Module:
    """Leave out the slices along `dim` of least n-norm: this many, or this part of them."""

    def norms(t: Any) -> Any:
        return vector_norm(t, n, tuple(d for d in range(t.ndim) if d != dim % t.ndim))

    return _slices(module, name, amount, dim, norms, importance_scores)


def global_unstructured(
    parameters: Any, pruning_method: Any, importance_scores: dict[Any, Tensor] | None = None, **kwargs: Any
) -> None:
    """Leave out the least elements of several parameters taken together, [(module, name), …].

    `pruning_method` is `l1_unstructured` or `random_unstructured`.
    """
    given = list(parameters)
    if pruning_method not in (l1_unstructured, random_unstructured):
        raise TypeError("global_unstructured: pruning_method must be l1_unstructured or random_unstructured")
    tensors = [_now(module, name) for module, name in given]
    scores = []
    for pair, tensor in zip(given, tensors, strict=True):
        told = None if importance_scores is None else importance_scores.get(pair)
        scored: Any = tensor.abs() if told is None else told
        scores.append((rand(tensor.shape) if pruning_method is random_unstructured else scored).reshape(-1))
    masked = [_mask_of(module, name).reshape(-1) for module, name in given]
    mask = _least_out(cat(scores), cat(masked), kwargs["amount"])
    at = 0
    for (module, name), tensor in zip(given, tensors, strict=True):
        custom_from_mask(module, name, mask[at : at + tensor.numel()].reshape(tuple(tensor.shape)))
        at += tensor.numel()


def remove(module: Module, name: str) -> Module:
    """Make the parameter, as it is pruned, an ordinary one again. Raises ValueError if it is not pruned."""
    key, hook = _hook(module, name)
    if hook is None:
        raise ValueError(f"Parameter '{name}' of module {module} has to be pruned before pruning can be removed")
    held: Any = module
    original = getattr(held, f"{name}_orig")
    with Scope(recording=False):
        original.data = hook.apply_mask(held).detach()
    for each in (name, f"{name}_orig", f"{name}_mask"):
        delattr(held, each)
    setattr(held, name, original)
    del module._forward_pre_hooks[key]
    return module


def is_pruned(module: Module) -> bool:
    """Whether a parameter of the module, or of one of its parts, is pruned."""
    return any(isinstance(hook, Pruned) for part in module.modules() for hook in part._forward_pre_hooks.values())


def _now(module: Module, name: str) -> Any:
    tensor: Any = getattr(module, name)
    return tensor.detach()


def _mask_of(module: Module, name: str) -> Any:
    mask = module._buffers.get(f"{name}_mask")
    return ones_like(_now(module, name)) if mask is None else mask


def _count(amount: Any, size: int) -> int:
    """How many of `size` to leave out. Raises ValueError for amounts that are neither a number nor a part of them."""
    if isinstance(amount, bool) or not isinstance(amount, (int, float)):
        raise TypeError(f"Invalid type for amount: {amount}. Must be int or float.")
    if amount < 0 or (isinstance(amount, float) and amount > 1):
        raise ValueError(f"amount={amount} should either be a float in the range [0, 1] or a non-negative integer")
    if isinstance(amount, int) and amount > size:
        raise ValueError(f"amount={amount} should be smaller than the number of parameters to prune={size}")
    return int(amount) if isinstance(amount, int) else round(amount * size)


def _least_out(scores: Any, held: Any, amount: float) -> Any:
    """The mask without as many more of the least scores, of those that it holds."""
    left = held.nonzero().squeeze(1)
    count = _count(amount, left.numel())
    if not count:
        return held
    least = scores[left].argsort()[:count]
    mask = held.clone()
    mask[left[least]] = 0
    return mask


def _elements(module: Module, name: str, amount: float, score: Score, told: Any = None) -> Module:
    tensor = _now(module, name)
    _count(amount, tensor.numel())
    scores = (score(tensor) if told is None else told).reshape(-1)
    mask = _least_out(scores, _mask_of(module, name).reshape(-1), amount)
    return custom_from_mask(module, name, mask.reshape(tuple(tensor.shape)))


def _slices(module: Module, name: str, amount: float, dim: int, score: Score, told: Any = None) -> Module:
    tensor = _now(module, name)
    if tensor.ndim < 2:
        raise ValueError("Structured pruning can only be applied to multidimensional tensors.")
    held = _mask_of(module, name)
    others = tuple(d for d in range(tensor.ndim) if d != dim % tensor.ndim)
    kept = (held.sum(others) != 0).to(tensor.dtype)
    mask = _least_out(score(tensor if told is None else told), kept, amount)
    shape = [1] * tensor.ndim
    shape[dim] = -1
    return custom_from_mask(module, name, mask.reshape(shape) + zeros_like(tensor))
