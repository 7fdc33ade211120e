"""Pruning methods: what chooses the elements of a parameter to leave out, and leaves them out before each call."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, ClassVar

from adjoint.core.runtime.mode import ModeScope
from adjoint.core.tensor.tensor import Tensor
from adjoint.functions.creation.creation import ones_like, zeros_like
from adjoint.functions.creation.random import rand, rand_like
from adjoint.functions.linalg.norms import norm
from adjoint.functions.reduction.sort_quantile_unique import topk
from adjoint.nn.module.module import Module

__all__ = ["BasePruningMethod", "CustomFromMask", "Identity", "L1Unstructured", "LnStructured", "PruningContainer"]
__all__ += ["RandomStructured", "RandomUnstructured"]


class BasePruningMethod(ABC):
    """Before each call of a module: name = name_orig · name_mask.

    A method says which elements the mask leaves out (`compute_mask`), and what it chooses between (`PRUNING_TYPE`):
    "unstructured" elements, "structured" slices along `dim`, or "global", whatever the masks before it left out.
    """

    PRUNING_TYPE: ClassVar[str]
    _tensor_name: str

    @abstractmethod
    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Return the mask of tensor `t`, or of its importance: 0 where it, or `default_mask`, leaves elements out."""

    def __call__(self, module: Module, inputs: object) -> None:
        setattr(module, self._tensor_name, self.apply_mask(module))

    @classmethod
    def apply(
        cls, module: Module, name: str, *args: Any, importance_scores: Tensor | None = None, **kwargs: Any
    ) -> BasePruningMethod:
        """Prune the parameter by this method, made of the arguments, after those that prune it already.

        Unless scores are given, it judges the parameter as these left it: what they left out counts as 0.

        Raises AssertionError if the scores have not the parameter's shape.
        """
        key, held = find_pruning_hook(module, name)
        made = cls(*args, **kwargs)
        made._tensor_name = name
        method = made
        if held is not None:
            method = held if isinstance(held, PruningContainer) else PruningContainer(held)
            method.add_pruning_method(made)
        original = getattr(module, name if held is None else f"{name}_orig")
        before = ones_like(original) if held is None else getattr(module, f"{name}_mask").detach().clone()
        if importance_scores is not None and importance_scores.shape != original.shape:
            raise AssertionError(
                f"importance_scores should have the same shape as parameter {name} of {module}, "
                f"got {importance_scores.shape} vs {original.shape}"
            )
        with ModeScope(recording=False):
            scores = getattr(module, name) if importance_scores is None else importance_scores
            mask = method.compute_mask(scores, before)
        if held is None:
            module.register_parameter(f"{name}_orig", original)
            del module._parameters[name]
        else:
            del module._forward_pre_hooks[key]
        module.register_buffer(f"{name}_mask", mask)
        setattr(module, name, method.apply_mask(module))
        module.register_forward_pre_hook(method)
        return method

    def apply_mask(self, module: Module) -> Tensor:
        """Return the parameter without the elements that the mask leaves out."""
        original = getattr(module, f"{self._tensor_name}_orig")
        return getattr(module, f"{self._tensor_name}_mask").to(original.dtype) * original

    def prune(self, t: Tensor, default_mask: Tensor | None = None, importance_scores: Tensor | None = None) -> Tensor:
        """Return `t` without the elements that the method leaves out of it."""
        if importance_scores is not None and importance_scores.shape != t.shape:
            raise AssertionError("importance_scores should have the same shape as tensor t")
        scores = t if importance_scores is None else importance_scores
        return t * self.compute_mask(scores, ones_like(t) if default_mask is None else default_mask)

    def remove(self, module: Module) -> None:
        """Make the parameter, as it is pruned, an ordinary one again."""
        name = self._tensor_name
        original = getattr(module, f"{name}_orig")
        original.data = self.apply_mask(module).detach()
        for each in (name, f"{name}_orig", f"{name}_mask"):
            delattr(module, each)
        setattr(module, name, original)


def find_pruning_hook(module: Module, name: str) -> tuple[int, BasePruningMethod] | tuple[None, None]:
    """Return the key and the method by which the parameter is pruned; None and None if it is not."""
    for key, hook in module._forward_pre_hooks.items():
        if isinstance(hook, BasePruningMethod) and hook._tensor_name == name:
            return key, hook
    return None, None


class PruningContainer(BasePruningMethod):
    """Methods which prune a parameter one after another: each chooses between what those before it left."""

    PRUNING_TYPE = "container"

    def __init__(self, *args: BasePruningMethod) -> None:
        self._pruning_methods: tuple[BasePruningMethod, ...] = ()
        for method in args:
            if not self._pruning_methods:
                self._tensor_name = getattr(method, "_tensor_name", "")
            self.add_pruning_method(method)

    def add_pruning_method(self, method: BasePruningMethod) -> None:
        """Prune by this method too. Raises TypeError if it is none, ValueError if it is another parameter's."""
        if not isinstance(method, BasePruningMethod):
            raise TypeError(f"{type(method)} is not a BasePruningMethod subclass")
        if method._tensor_name != self._tensor_name:
            raise ValueError(
                f"Can only add pruning methods acting on the parameter named '{self._tensor_name}' to "
                f"PruningContainer {self}. Found '{method._tensor_name}'"
            )
        self._pruning_methods += (method,)

    def __len__(self) -> int:
        return len(self._pruning_methods)

    def __iter__(self) -> Iterator[BasePruningMethod]:
        return iter(self._pruning_methods)

    def __getitem__(self, idx: int) -> BasePruningMethod:
        return self._pruning_methods[idx]

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Return `default_mask` without the elements that the newest method leaves out."""
        method = self._pruning_methods[-1]
        mask = default_mask.to(t.dtype).clone()
        part = _prunable_index(method, mask)
        mask[part] = method.compute_mask(t[part], mask[part]).to(mask.dtype)
        return mask


def _prunable_index(method: BasePruningMethod, mask: Tensor) -> Tensor | tuple[slice | Tensor, ...]:
    """Return the part of a tensor that the method chooses from, as an index."""
    if method.PRUNING_TYPE == "unstructured":
        return mask == 1
    every: list[slice | Tensor] = [slice(None)] * mask.ndim
    if method.PRUNING_TYPE == "structured":
        dim: int = getattr(method, "dim", 0) % mask.ndim
        every[dim] = mask.sum(_other_dims(mask, dim)) != 0
    elif method.PRUNING_TYPE != "global":
        raise ValueError(f"Unrecognized PRUNING_TYPE {method.PRUNING_TYPE}")
    return tuple(every)


class Identity(BasePruningMethod):
    """Leaves out nothing."""

    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        return default_mask

    @classmethod
    def apply(cls, module: Module, name: str) -> BasePruningMethod:  # type: ignore[override]
        """Prune the parameter of nothing."""
        return super().apply(module, name)


class CustomFromMask(BasePruningMethod):
    """Leaves out the elements where `mask` is 0."""

    PRUNING_TYPE = "global"

    def __init__(self, mask: Tensor) -> None:
        self.mask = mask

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        return default_mask * self.mask.to(default_mask.dtype)

    @classmethod
    def apply(cls, module: Module, name: str, mask: Tensor) -> BasePruningMethod:  # type: ignore[override]
        """Prune the parameter by this mask."""
        return super().apply(module, name, mask=mask)


class _Unstructured(BasePruningMethod):
    """Leaves out elements one by one: this many, or this part of them."""

    PRUNING_TYPE = "unstructured"

    def __init__(self, amount: float) -> None:
        check_amount(amount)
        self.amount = amount

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        count = count_to_prune(self.amount, t.numel())
        mask = default_mask.clone().contiguous()
        if count:
            mask.view(-1)[self._choose(t, count)] = 0
        return mask

    @abstractmethod
    def _choose(self, t: Tensor, count: int) -> Tensor:
        """Return the flat indices of the elements to leave out."""


class RandomUnstructured(_Unstructured):
    """Leaves out elements at random: this many, or this part of them."""

    def _choose(self, t: Tensor, count: int) -> Tensor:
        return topk(rand_like(t).reshape(-1), count)[1]

    @classmethod
    def apply(cls, module: Module, name: str, amount: float) -> BasePruningMethod:  # type: ignore[override]
        """Prune the parameter of this many elements, or this part of them."""
        return super().apply(module, name, amount=amount)


class L1Unstructured(_Unstructured):
    """Leaves out the elements of least size: this many, or this part of them."""

    def _choose(self, t: Tensor, count: int) -> Tensor:
        return topk(t.abs().reshape(-1), count, largest=False)[1]

    @classmethod
    def apply(  # type: ignore[override]
        cls, module: Module, name: str, amount: float, importance_scores: Tensor | None = None
    ) -> BasePruningMethod:
        """Prune the parameter of this many elements, or this part of them, those of least score if there are scores."""
        return super().apply(module, name, amount=amount, importance_scores=importance_scores)


class _Structured(BasePruningMethod):
    """Leaves out slices along `dim`: this many, or this part of them."""

    PRUNING_TYPE = "structured"

    def __init__(self, amount: float, dim: int = -1) -> None:
        check_amount(amount)
        self.amount = amount
        self.dim = dim

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        check_slices(t)
        check_dim(t, self.dim)
        dim = self.dim % t.ndim
        count = count_to_prune(self.amount, t.shape[dim])
        if not count:
            return default_mask
        shape = [1] * t.ndim
        shape[dim] = -1
        return default_mask * self._keep(t, dim, count).reshape(shape).expand(t.shape).to(default_mask.dtype)

    @abstractmethod
    def _keep(self, t: Tensor, dim: int, count: int) -> Tensor:
        """Return a vector that is 0 for the `count` slices to leave out."""


class RandomStructured(_Structured):
    """Leaves out slices along `dim` at random: this many, or this part of them."""

    def _keep(self, t: Tensor, dim: int, count: int) -> Tensor:
        drawn = rand(t.shape[dim])
        return drawn > drawn.sort()[0][count - 1]

    @classmethod
    def apply(cls, module: Module, name: str, amount: float, dim: int = -1) -> BasePruningMethod:  # type: ignore[override]
        """Prune the parameter of this many slices, or this part of them."""
        return super().apply(module, name, amount=amount, dim=dim)


class LnStructured(_Structured):
    """Leaves out the slices along `dim` of least n-norm: this many, or this part of them."""

    def __init__(self, amount: float, n: float | str, dim: int = -1) -> None:
        super().__init__(amount, dim)
        self.n = n

    def _keep(self, t: Tensor, dim: int, count: int) -> Tensor:
        norms = slice_norms(t, self.n, dim)
        kept = zeros_like(norms)
        kept[topk(norms, t.shape[dim] - count)[1]] = 1
        return kept

    @classmethod
    def apply(  # type: ignore[override]
        cls, module: Module, name: str, amount: float, n: float | str, dim: int, importance_scores: Tensor | None = None
    ) -> BasePruningMethod:
        """Prune the parameter of this many slices, or this part of them, by their scores if there are scores."""
        return super().apply(module, name, amount=amount, n=n, dim=dim, importance_scores=importance_scores)


def slice_norms(t: Tensor, n: float | str, dim: int) -> Tensor:
    """Return the n-norm of each slice along `dim`."""
    check_dim(t, dim)
    return norm(t, n, _other_dims(t, dim))


def _other_dims(t: Tensor, dim: int) -> tuple[int, ...]:
    return tuple(d for d in range(t.ndim) if d != dim % t.ndim)


def check_amount(amount: object) -> None:
    """Raise TypeError unless it is a number, ValueError unless it is a part of 1 or a count."""
    if isinstance(amount, bool) or not isinstance(amount, (int, float)):
        raise TypeError(f"Invalid type for amount: {amount}. Must be int or float.")
    if amount < 0 or (isinstance(amount, float) and amount > 1):
        raise ValueError(f"amount={amount} should either be a float in the range [0, 1] or a non-negative integer")


def check_count(amount: float, tensor_size: int) -> None:
    """Raise ValueError if it is a count of more than there are."""
    if isinstance(amount, int) and amount > tensor_size:
        raise ValueError(f"amount={amount} should be smaller than the number of parameters to prune={tensor_size}")


def count_to_prune(amount: float, tensor_size: int) -> int:
    """Return the number of the `tensor_size` elements to leave out."""
    check_count(amount, tensor_size)
    return amount if isinstance(amount, int) else round(amount * tensor_size)


def check_slices(t: Tensor) -> None:
    """Raise ValueError if there are no slices."""
    if t.ndim <= 1:
        raise ValueError(
            "Structured pruning can only be applied to multidimensional tensors. "
            f"Found tensor of shape {t.shape} with {t.ndim} dims"
        )


def check_dim(t: Tensor, dim: int) -> None:
    """Raise IndexError if there is no such dimension."""
    if dim >= t.ndim:
        raise IndexError(f"Invalid index {dim} for tensor of size {t.shape}")
