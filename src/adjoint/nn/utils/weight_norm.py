"""A weight as length and direction, under the names by which older programs and their checkpoints know them."""

from __future__ import annotations

import warnings

from adjoint.core.tensor.tensor import Tensor
from adjoint.functions.linalg.norms import norm_except_dim
from adjoint.nn.module.module import Module
from adjoint.nn.module.parameter import Parameter
from adjoint.nn.module.uninitialized import check_initialized

__all__ = ["WeightNorm", "remove_weight_norm", "weight_norm"]


class WeightNorm:
    """Before each call of a module: name = g v / ‖v‖ of the parameters name_g and name_v."""

    def __init__(self, name: str, dim: int) -> None:
        self.name = name
        self.dim = dim

    def compute_weight(self, module: Module) -> Tensor:
        """Return the current weight."""
        g, v = getattr(module, f"{self.name}_g"), getattr(module, f"{self.name}_v")
        return v * (g / norm_except_dim(v, 2, self.dim))

    def remove(self, module: Module) -> None:
        """Make the weight a parameter again."""
        weight = self.compute_weight(module).detach()
        for name in (self.name, f"{self.name}_g", f"{self.name}_v"):
            delattr(module, name)
        setattr(module, self.name, Parameter(weight))

    def __call__(self, module: Module, inputs: object) -> None:
        setattr(module, self.name, self.compute_weight(module))


def weight_norm(module: Module, name: str = "weight", dim: int | None = 0) -> Module:
    """Compute w = g v / ‖v‖ before each call, from parameters name_g, one for each element of `dim` or one, and name_v.

    Deprecated in favour of `parametrizations.weight_norm`, which it says. Raises RuntimeError where the parameter has
    one already. Source: Salimans & Kingma, 2016.
    """
    warnings.warn(
        "`torch.nn.utils.weight_norm` is deprecated in favor of `torch.nn.utils.parametrizations.weight_norm`.",
        FutureWarning,
        stacklevel=2,
    )
    for hook in module._forward_pre_hooks.values():
        if isinstance(hook, WeightNorm) and hook.name == name:
            raise RuntimeError(f"Cannot register two weight_norm hooks on the same parameter {name}")
    made = WeightNorm(name, -1 if dim is None else dim)
    weight = getattr(module, name)
    check_initialized(weight, "WeightNorm", "weight normalization")
    delattr(module, name)
    module.register_parameter(f"{name}_g", Parameter(norm_except_dim(weight.detach(), 2, made.dim)))
    module.register_parameter(f"{name}_v", Parameter(weight.detach()))
    setattr(module, name, made.compute_weight(module))
    module.register_forward_pre_hook(made)
    return module


def remove_weight_norm(module: Module, name: str = "weight") -> Module:
    """Make the weight a parameter again. Raises ValueError if it is not normalised by `weight_norm`."""
    for key, hook in list(module._forward_pre_hooks.items()):
        if isinstance(hook, WeightNorm) and hook.name == name:
            hook.remove(module)
            del module._forward_pre_hooks[key]
            return module
    raise ValueError(f"weight_norm of '{name}' not found in {module}")
