"""einops on tensors: `einops.rearrange(tensor, …)` works as it stands, and the layers are modules.

einops finds a framework among the subclasses of its class of backends. Ours is made when both are there: with the
package, or with the first tensor that is created after `import einops`. The layers `Rearrange`, `Reduce` and `EinMix`
are attributes of this module, which import einops when asked for.
"""

from __future__ import annotations

from functools import cache
from types import SimpleNamespace
from typing import Any

from adjoint import nn
from adjoint.core.dtype.dtype import is_floating
from adjoint.core.tensor.tensor import Tensor
from adjoint.functions.creation import creation
from adjoint.functions.linalg.einsum import einsum
from adjoint.functions.shape import join, shape
from adjoint.interop.array_api import statistical

LAYERS = ("EinMix", "Rearrange", "Reduce")


@cache
def register() -> type:
    """Make tensors known to einops: the class of the backend that it will find. Raises ImportError without einops."""
    from einops import _backends

    class AdjointBackend(_backends.AbstractBackend):  # type: ignore[misc]
        """What einops asks of a framework."""

        framework_name = "adjoint"

        def is_appropriate_type(self, tensor: Any) -> bool:
            return isinstance(tensor, Tensor)

        def from_numpy(self, x: Any) -> Tensor:
            out = creation.from_numpy(x)
            return out.requires_grad_() if is_floating(out.array) else out

        def to_numpy(self, x: Tensor) -> Any:
            return x.detach().numpy()

        def arange(self, start: int, stop: int) -> Tensor:
            return creation.arange(start, stop)

        def reduce(self, x: Tensor, operation: str, axes: tuple[int, ...]) -> Tensor:
            out: Tensor = getattr(statistical, operation)(x, axis=tuple(axes))
            return out

        def transpose(self, x: Tensor, axes: Any) -> Tensor:
            return shape.permute(x, tuple(axes))

        def stack_on_zeroth_dimension(self, tensors: list[Tensor]) -> Tensor:
            return join.stack(tensors)

        def add_axis(self, x: Tensor, new_position: int) -> Tensor:
            return shape.unsqueeze(x, new_position)

        def add_axes(self, x: Tensor, n_axes: int, pos2len: dict[int, int]) -> Tensor:
            repeats = [-1] * n_axes
            for at, length in pos2len.items():
                x = shape.unsqueeze(x, at)
                repeats[at] = length
            return shape.expand(x, tuple(repeats))

        def tile(self, x: Tensor, repeats: Any) -> Tensor:
            return join.tile(x, tuple(repeats))

        def concat(self, tensors: Any, axis: int) -> Tensor:
            return join.cat(tensors, axis)

        def is_float_type(self, x: Tensor) -> bool:
            return is_floating(x.array)

        def layers(self) -> Any:
            return layers()

        def einsum(self, pattern: str, *x: Tensor) -> Tensor:
            return einsum(pattern, *x)

    return AdjointBackend


@cache
def layers() -> Any:
    """einops' layers as modules: `Rearrange`, `Reduce` and `EinMix`. Raises ImportError without einops."""
    register()
    from einops.layers import RearrangeMixin, ReduceMixin
    from einops.layers._einmix import _EinmixMixin

    class Rearrange(RearrangeMixin, nn.Module):  # type: ignore[misc]
        """`einops.rearrange` as a module."""

        def forward(self, input: Tensor) -> Any:
            return self._apply_recipe(input)

    class Reduce(ReduceMixin, nn.Module):  # type: ignore[misc]
        """`einops.reduce` as a module."""

        def forward(self, input: Tensor) -> Any:
            return self._apply_recipe(input)

    class EinMix(_EinmixMixin, nn.Module):  # type: ignore[misc]
        """An einsum of the input and a weight, with a bias: a module."""

        def _create_parameters(
            self, weight_shape: Any, weight_bound: float, bias_shape: Any, bias_bound: float
        ) -> None:
            self.weight = _uniform(weight_shape, weight_bound)
            self.bias = None if bias_shape is None else _uniform(bias_shape, bias_bound)

        def _create_rearrange_layers(self, before: Any, before_sizes: Any, after: Any, after_sizes: Any) -> None:
            made: Any = Rearrange
            self.pre_rearrange = None if before is None else made(before, **before_sizes)
            self.post_rearrange = None if after is None else made(after, **after_sizes)

        def forward(self, input: Tensor) -> Any:
            x = input if self.pre_rearrange is None else self.pre_rearrange(input)
            x = einsum(self.einsum_pattern, x, self.weight)
            x = x if self.bias is None else x + self.bias
            return x if self.post_rearrange is None else self.post_rearrange(x)

    for kind in (Rearrange, Reduce, EinMix):
        kind.__module__, kind.__qualname__ = __name__, kind.__name__
    return SimpleNamespace(Rearrange=Rearrange, Reduce=Reduce, EinMix=EinMix)


def _uniform(sizes: Any, bound: float) -> Any:
    values: Any = creation.zeros(*sizes)
    return nn.Parameter(values.uniform_(-bound, bound))


def __getattr__(name: str) -> Any:
    if name in LAYERS:
        return getattr(layers(), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
