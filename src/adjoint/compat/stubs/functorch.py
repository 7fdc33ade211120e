"""Modules separated from their parameters, under the names of functorch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from copy import deepcopy
from typing import Any

from adjoint.core.tensor.tensor import Tensor, detach
from adjoint.nn.module.module import Module
from adjoint.transforms.functional_call import functional_call, stack_module_state

__all__ = [
    "FunctionalModule",
    "FunctionalModuleWithBuffers",
    "combine_state_for_ensemble",
    "make_functional",
    "make_functional_with_buffers",
]
Tensors = tuple[Tensor, ...]


class FunctionalModuleWithBuffers(Module):
    """Module without state: f(params, buffers, *args) is the output with these parameters and buffers."""

    def __init__(self, stateless_model: Any) -> None:
        super().__init__()
        self.stateless_model = stateless_model
        self.param_names = tuple(name for name, _ in stateless_model.named_parameters())
        self.buffer_names = tuple(name for name, _ in stateless_model.named_buffers())

    def forward(self, params: Iterable[Tensor], buffers: Iterable[Tensor], *args: Any, **kwargs: Any) -> Any:
        given = zip((*self.param_names, *self.buffer_names), (*params, *buffers), strict=True)
        return functional_call(self.stateless_model, dict(given), args, kwargs)


class FunctionalModule(FunctionalModuleWithBuffers):
    """Module without state: f(params, *args) is the output with these parameters."""

    def forward(self, params: Iterable[Tensor], *args: Any, **kwargs: Any) -> Any:
        return super().forward(params, (), *args, **kwargs)


def make_functional(model: Any, disable_autograd_tracking: bool = False) -> tuple[FunctionalModule, Tensors]:
    """Return the module as a function of its parameters, and a copy of these.

    With `disable_autograd_tracking` the copies require no gradient. Raises RuntimeError if there are buffers.
    """
    if any(True for _ in model.buffers()):
        raise RuntimeError(
            "make_functional(model): `model` has buffers. Please use make_functional_with_buffers(model) instead."
        )
    function = FunctionalModule(deepcopy(model))
    return function, _parameters(function, disable_autograd_tracking)


def make_functional_with_buffers(
    model: Any, disable_autograd_tracking: bool = False
) -> tuple[FunctionalModuleWithBuffers, Tensors, Tensors]:
    """Return the module as a function of its parameters and buffers, and a copy of these."""
    function = FunctionalModuleWithBuffers(deepcopy(model))
    return function, _parameters(function, disable_autograd_tracking), tuple(function.stateless_model.buffers())


def combine_state_for_ensemble(models: Sequence[Any]) -> tuple[FunctionalModuleWithBuffers, Tensors, Tensors]:
    """Return a function for all of the modules, under vmap, and their parameters and buffers, stacked and detached.

    Raises RuntimeError for no models, and where classes or modes differ.
    """
    params, buffers = stack_module_state(models)
    function = FunctionalModuleWithBuffers(deepcopy(models[0]))
    function.stateless_model.requires_grad_(False)
    return function, tuple(map(detach, params.values())), tuple(map(detach, buffers.values()))


def _parameters(function: FunctionalModuleWithBuffers, plain: bool) -> Tensors:
    """Return parameters for the caller; the function's own need no gradient."""
    own = function.stateless_model
    params = tuple(deepcopy(param).requires_grad_(param.requires_grad and not plain) for param in own.parameters())
    own.requires_grad_(False)
    return params
