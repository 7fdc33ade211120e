"""A weight of largest singular value 1, under the names by which older programs and their checkpoints know it."""

from __future__ import annotations

import math
from typing import Any

from adjoint.core.runtime.mode import ModeScope
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import StateDict
from adjoint.functions.creation.creation import empty
from adjoint.functions.linalg.solve import pinv
from adjoint.nn import functional as F
from adjoint.nn.layers.conv_transpose import TransposedConvolution
from adjoint.nn.module.module import Module
from adjoint.nn.module.parameter import Parameter
from adjoint.nn.module.uninitialized import check_initialized

__all__ = ["SpectralNorm", "remove_spectral_norm", "spectral_norm"]
STATE_VERSION = 1  # of what a state dict holds: before it, there was no v


def check_power_iterations(count: int) -> None:
    """Raise ValueError for less than one step."""
    if count <= 0:
        raise ValueError(f"Expected n_power_iterations to be positive, but got n_power_iterations={count}")


def weight_as_matrix(weight: Tensor, dim: int) -> Tensor:
    """Return a weight with `dim` for rows."""
    if dim:
        weight = weight.permute(dim, *(d for d in range(weight.ndim) if d != dim))
    return weight.reshape(weight.shape[0], math.prod(weight.shape[1:]))


class SpectralNorm:
    """Before each call of a module: name = name_orig / σ, by steps of power iteration on the buffers name_u and name_v.

    Raises ValueError for less than one step.
    """

    def __init__(self, name: str = "weight", n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12) -> None:
        check_power_iterations(n_power_iterations)
        self.name = name
        self.n_power_iterations = n_power_iterations
        self.dim = dim
        self.eps = eps

    def reshape_weight_to_matrix(self, weight: Tensor) -> Tensor:
        """Return the weight with `dim` for rows."""
        return weight_as_matrix(weight, self.dim)

    def compute_weight(self, module: Module, do_power_iteration: bool) -> Tensor:
        """Return the current weight, after steps of the power iteration if they are asked for."""
        weight, u, v = (getattr(module, f"{self.name}_{part}") for part in ("orig", "u", "v"))
        matrix = self.reshape_weight_to_matrix(weight)
        if do_power_iteration:
            with ModeScope(recording=False):
                for _ in range(self.n_power_iterations):
                    v.copy_(F.normalize(matrix.detach().mT @ u, dim=0, eps=self.eps))
                    u.copy_(F.normalize(matrix.detach() @ v, dim=0, eps=self.eps))
            u, v = u.clone(), v.clone()
        return weight / (u * (matrix @ v)).sum()

    def remove(self, module: Module) -> None:
        """Make the weight a parameter again."""
        with ModeScope(recording=False):
            weight = self.compute_weight(module, do_power_iteration=False)
        for name in (self.name, f"{self.name}_u", f"{self.name}_v", f"{self.name}_orig"):
            delattr(module, name)
        module.register_parameter(self.name, Parameter(weight.detach()))

    def __call__(self, module: Module, inputs: object) -> None:
        setattr(module, self.name, self.compute_weight(module, do_power_iteration=module.training))


def spectral_norm(
    module: Module, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12, dim: int | None = None
) -> Module:
    """Compute w / σ(w) before each call, from the parameter name_orig as a matrix with `dim` for rows.

    Raises RuntimeError where the parameter has one already. Source: Miyato et al., 2018.
    """
    for hook in module._forward_pre_hooks.values():
        if isinstance(hook, SpectralNorm) and hook.name == name:
            raise RuntimeError(f"Cannot register two spectral_norm hooks on the same parameter {name}")
    if dim is None:
        dim = 1 if isinstance(module, TransposedConvolution) else 0
    made = SpectralNorm(name, n_power_iterations, dim, eps)
    weight = module._parameters[name]
    if weight is None:
        raise ValueError(f"`SpectralNorm` cannot be applied as parameter `{name}` is None")
    check_initialized(weight, "SpectralNorm", "spectral normalization")
    rows, columns = made.reshape_weight_to_matrix(weight.detach()).shape
    u, v = (F.normalize(empty(n, dtype=weight.dtype).normal_(0, 1), dim=0, eps=eps) for n in (rows, columns))
    delattr(module, name)
    module.register_parameter(f"{name}_orig", weight)
    setattr(module, name, weight.detach())
    module.register_buffer(f"{name}_u", u)
    module.register_buffer(f"{name}_v", v)
    module.register_forward_pre_hook(made)
    module._register_state_dict_hook(SpectralNormStateDictHook(name))
    module._register_load_state_dict_pre_hook(SpectralNormLoadStateDictPreHook(made))
    return module


class SpectralNormStateDictHook:
    """Notes in a state dict's metadata that it has both u and v."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, module: Module, state_dict: StateDict, prefix: str, local_metadata: dict[str, Any]) -> None:
        local_metadata.setdefault("spectral_norm", {})[f"{self.name}.version"] = STATE_VERSION


class SpectralNormLoadStateDictPreHook:
    """Brings what was saved before there were versions up to date: of σ = name_orig / name and u follows v."""

    def __init__(self, made: SpectralNorm) -> None:
        self.made, self.name = made, made.name

    def __call__(
        self,
        state_dict: StateDict,
        prefix: str,
        local_metadata: dict[str, Any],
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        name = prefix + self.made.name
        version = local_metadata.get("spectral_norm", {}).get(f"{self.made.name}.version")
        if version is not None and version >= STATE_VERSION:
            return
        new = all(name + part in state_dict for part in ("_orig", "_u", "_v")) and name not in state_dict
        if version is None and new:  # put together by a program, without metadata
            return
        lacking = [name + part for part in ("_orig", "", "_u") if name + part not in state_dict]
        if lacking:
            missing_keys.extend(lacking if strict else ())
            return
        with ModeScope(recording=False):
            original, u = state_dict[f"{name}_orig"], state_dict[f"{name}_u"]
            sigma = (original / state_dict.pop(name)).mean()
            matrix = self.made.reshape_weight_to_matrix(original)
            v = pinv(matrix.mT @ matrix) @ (matrix.mT @ u)  # along the solution of matrix @ v = u
            state_dict[f"{name}_v"] = v * (sigma / (u * (matrix @ v)).sum())


def remove_spectral_norm(module: Module, name: str = "weight") -> Module:
    """Make the weight a parameter again. Raises ValueError if it is not normalised by `spectral_norm`."""
    for key, hook in list(module._forward_pre_hooks.items()):
        if isinstance(hook, SpectralNorm) and hook.name == name:
            hook.remove(module)
            del module._forward_pre_hooks[key]
            for hooks in (module._state_dict_hooks, module._load_state_dict_pre_hooks):
                for other, kept in list(hooks.items()):
                    if (
                        isinstance(kept, (SpectralNormStateDictHook, SpectralNormLoadStateDictPreHook))
                        and kept.name == name
                    ):
                        del hooks[other]
            return module
    raise ValueError(f"spectral_norm of '{name}' not found in {module}")
