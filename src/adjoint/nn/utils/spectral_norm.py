"""A weight of largest singular value 1, under the names by which older programs and their checkpoints know it."""

from __future__ import annotations

from typing import Any

from adjoint.core.mode import Scope
from adjoint.functions.creation import empty
from adjoint.nn import functional as F
from adjoint.nn.module import Module
from adjoint.nn.parameter import Parameter
from adjoint.nn.transposed_convolution import TransposedConvolution
from adjoint.nn.uninitialized import refuse_lazy

__all__ = ["SpectralNorm", "remove_spectral_norm", "spectral_norm"]


class SpectralNorm:
    """Before each call of a module: name = name_orig / σ, by steps of power iteration on the buffers name_u and name_v.

    Raises ValueError for less than one step.
    """

    def __init__(self, name: str = "weight", n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12) -> None:
        if n_power_iterations <= 0:
            raise ValueError(
                f"Expected n_power_iterations to be positive, but got n_power_iterations={n_power_iterations}"
            )
        self.name = name
        self.n_power_iterations = n_power_iterations
        self.dim = dim
        self.eps = eps

    def reshape_weight_to_matrix(self, weight: Any) -> Any:
        """The weight with `dim` for rows."""
        if self.dim:
            weight = weight.permute(self.dim, *(d for d in range(weight.ndim) if d != self.dim))
        return weight.reshape(weight.shape[0], -1)

    def compute_weight(self, module: Any, do_power_iteration: bool) -> Any:
        """The weight of now, after steps of the power iteration if they are asked for."""
        weight, u, v = (getattr(module, f"{self.name}_{part}") for part in ("orig", "u", "v"))
        matrix = self.reshape_weight_to_matrix(weight)
        if do_power_iteration:
            with Scope(recording=False):
                for _ in range(self.n_power_iterations):
                    v.copy_(F.normalize(matrix.detach().mT @ u, dim=0, eps=self.eps))
                    u.copy_(F.normalize(matrix.detach() @ v, dim=0, eps=self.eps))
            u, v = u.clone(), v.clone()
        return weight / (u * (matrix @ v)).sum()

    def remove(self, module: Any) -> None:
        """Make the weight a parameter again."""
        with Scope(recording=False):
            weight = self.compute_weight(module, do_power_iteration=False)
        for name in (self.name, f"{self.name}_u", f"{self.name}_v", f"{self.name}_orig"):
            delattr(module, name)
        module.register_parameter(self.name, Parameter(weight.detach()))

    def __call__(self, module: Any, inputs: Any) -> None:
        setattr(module, self.name, self.compute_weight(module, do_power_iteration=module.training))


def spectral_norm(
    module: Module, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12, dim: int | None = None
) -> Module:
    """w / σ(w), computed before each call: the parameter name_orig, as a matrix with `dim` for rows, by its σ.

    Raises RuntimeError where the parameter has one already. Source: Miyato et al., 2018.
    """
    for hook in module._forward_pre_hooks.values():
        if isinstance(hook, SpectralNorm) and hook.name == name:
            raise RuntimeError(f"Cannot register two spectral_norm hooks on the same parameter {name}")
    if dim is None:
        dim = 1 if isinstance(module, TransposedConvolution) else 0
    made = SpectralNorm(name, n_power_iterations, dim, eps)
    weight: Any = module._parameters[name]
    if weight is None:
        raise ValueError(f"`SpectralNorm` cannot be applied as parameter `{name}` is None")
    refuse_lazy(weight, "SpectralNorm", "spectral normalization")
    rows, columns = made.reshape_weight_to_matrix(weight.detach()).shape
    u, v = (F.normalize(empty(n, dtype=weight.dtype).normal_(0, 1), dim=0, eps=eps) for n in (rows, columns))
    delattr(module, name)
    module.register_parameter(f"{name}_orig", weight)
    setattr(module, name, weight.detach())
    module.register_buffer(f"{name}_u", u)
    module.register_buffer(f"{name}_v", v)
    module.register_forward_pre_hook(made)
    return module


def remove_spectral_norm(module: Module, name: str = "weight") -> Module:
    """Make the weight a parameter again. Raises ValueError if it is not normalised by `spectral_norm`."""
    for key, hook in list(module._forward_pre_hooks.items()):
        if isinstance(hook, SpectralNorm) and hook.name == name:
            hook.remove(module)
            del module._forward_pre_hooks[key]
            return module
    raise ValueError(f"spectral_norm of '{name}' not found in {module}")
