"""einops on tensors: `einops.rearrange(tensor, …)` works as it stands, and the layers are modules.

einops finds a framework among the subclasses of its class of backends. An import hook makes ours when einops is
imported, so that no tensor and no op needs to ask for einops. The layers `Rearrange`, `Reduce` and `EinMix` are
attributes of this module, which import einops when asked for.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType, SimpleNamespace
from typing import Any

from adjoint.core.dtype.dtype import is_floating
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Operand
from adjoint.functions.creation import creation
from adjoint.functions.shape import join, repeat, shape

BACKENDS = "einops._backends"
LAYERS = ("EinMix", "Rearrange", "Reduce")


class EinopsFinder:
    """Finder of einops' module of backends, after which it registers tensors.

    It does not inherit from `importlib.abc.MetaPathFinder`, whose import would cost every program some thirty modules.
    """

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != BACKENDS:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        loader: Any = None if spec is None else spec.loader
        if loader is not None:
            execute = loader.exec_module

            def exec_module(module: ModuleType) -> None:
                execute(module)
                _register_if_possible()

            loader.exec_module = exec_module
        return spec


def watch_import() -> None:
    """Make tensors known to einops: now if it has been imported, else as soon as it is."""
    sys.meta_path.insert(0, EinopsFinder())
    if BACKENDS in sys.modules:
        _register_if_possible()


def _register_if_possible() -> None:
    with suppress(ImportError, AttributeError):  # another version of einops, or one that is being imported
        register()


@cache
def register() -> type:
    """Make the class of backend that einops will find. Raises ImportError without einops."""
    from einops import _backends

    class AdjointBackend(_backends.AbstractBackend):
        """Backend of einops for tensors."""

        framework_name = "adjoint"

        def is_appropriate_type(self, tensor: Operand) -> bool:
            return isinstance(tensor, Tensor)

        def from_numpy(self, x: Operand) -> Tensor:
            out = creation.from_numpy(x)
            return out.requires_grad_() if is_floating(out.array) else out

        def to_numpy(self, x: Tensor) -> Any:
            return x.detach().numpy()

        def arange(self, start: int, stop: int) -> Tensor:
            return creation.arange(start, stop)

        def reduce(self, x: Tensor, operation: str, axes: tuple[int, ...]) -> Tensor:
            from adjoint.interop.array_api import statistical

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
            for position, length in pos2len.items():
                x = shape.unsqueeze(x, position)
                repeats[position] = length
            return shape.expand(x, tuple(repeats))

        def tile(self, x: Tensor, repeats: Any) -> Tensor:
            return repeat.tile(x, tuple(repeats))

        def concat(self, tensors: Any, axis: int) -> Tensor:
            return join.cat(tensors, axis)

        def is_float_type(self, x: Tensor) -> bool:
            return is_floating(x.array)

        def layers(self) -> Any:
            return layers()

        def einsum(self, pattern: str, *x: Tensor) -> Tensor:
            from adjoint.functions.linalg.einsum import einsum

            return einsum(pattern, *x)

    return AdjointBackend


@cache
def layers() -> Any:
    """Make einops' layers as modules: `Rearrange`, `Reduce` and `EinMix`. Raises ImportError without einops."""
    register()
    from einops.layers import RearrangeMixin, ReduceMixin
    from einops.layers._einmix import _EinmixMixin

    from adjoint import nn
    from adjoint.functions.linalg.einsum import einsum

    class Rearrange(RearrangeMixin, nn.Module):
        """`einops.rearrange` as a module."""

        def forward(self, input: Tensor) -> Any:
            return self._apply_recipe(input)

    class Reduce(ReduceMixin, nn.Module):
        """`einops.reduce` as a module."""

        def forward(self, input: Tensor) -> Any:
            return self._apply_recipe(input)

    class EinMix(_EinmixMixin, nn.Module):
        """An einsum of the input and a weight, with a bias: a module."""

        def _create_parameters(
            self, weight_shape: Any, weight_bound: float, bias_shape: Any, bias_bound: float
        ) -> None:
            def uniform(sizes: Any, bound: float) -> Any:
                values: Operand = creation.zeros(*sizes)
                return nn.Parameter(values.uniform_(-bound, bound))

            self.weight = uniform(weight_shape, weight_bound)
            self.bias = None if bias_shape is None else uniform(bias_shape, bias_bound)

        def _create_rearrange_layers(self, before: Any, before_sizes: Any, after: Any, after_sizes: Any) -> None:
            layer: Any = Rearrange
            self.pre_rearrange = None if before is None else layer(before, **before_sizes)
            self.post_rearrange = None if after is None else layer(after, **after_sizes)

        def forward(self, input: Tensor) -> Any:
            x = input if self.pre_rearrange is None else self.pre_rearrange(input)
            x = einsum(self.einsum_pattern, x, self.weight)
            x = x if self.bias is None else x + self.bias
            return x if self.post_rearrange is None else self.post_rearrange(x)

    for kind in (Rearrange, Reduce, EinMix):
        kind.__module__, kind.__qualname__ = __name__, kind.__name__
    return SimpleNamespace(Rearrange=Rearrange, Reduce=Reduce, EinMix=EinMix)


def __getattr__(name: str) -> Any:
    if name in LAYERS:
        return getattr(layers(), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
