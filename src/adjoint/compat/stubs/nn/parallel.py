"""Modules that PyTorch spreads over devices or processes, of which there is one; and a container of old."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from adjoint.nn.layers.normalization import BatchNorm
from adjoint.nn.module.module import Module

__all__ = ["Container", "DataParallel", "SyncBatchNorm"]


class DataParallel(Module):
    """Calls the module, which it holds as `module`: there is one device."""

    def __init__(self, module: Module, device_ids: Any = None, output_device: Any = None, dim: int = 0) -> None:
        super().__init__()
        self.module = module
        self.dim = dim
        self.device_ids: list[Any] = []

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        return self.module(*inputs, **kwargs)


class DistributedDataParallel(DataParallel):
    """Calls the module, which it holds as `module`: there is one process, whose gradients are those of all."""

    def __init__(self, module: Module, device_ids: Any = None, output_device: Any = None, **kwargs: Any) -> None:
        super().__init__(module)

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """A block that runs as without."""
        yield


def data_parallel(
    module: Module, inputs: Any, device_ids: Any = None, output_device: Any = None, dim: int = 0,
    module_kwargs: Any = None,
) -> Any:  # fmt: skip
    """What the module returns."""
    return module(*(inputs if isinstance(inputs, tuple) else (inputs,)), **(module_kwargs or {}))


def parallel_apply(
    modules: Sequence[Any], inputs: Sequence[Any], kwargs_tup: Any = None, devices: Any = None
) -> list[Any]:
    """What each module returns for its input, a tuple of arguments or the only one. Raises AssertionError."""
    if len(modules) != len(inputs):
        raise AssertionError(f"The number of modules {len(modules)} is not equal to the number of inputs {len(inputs)}")
    given = [kwargs or {} for kwargs in kwargs_tup or [None] * len(modules)]
    return [
        data_parallel(module, args, module_kwargs=kwargs)
        for module, args, kwargs in zip(modules, inputs, given, strict=True)
    ]


def replicate(network: Module, devices: Any, detach: bool = False) -> list[Module]:
    """The module, once for each device: all are this one."""
    return [network] * len(devices)


class SyncBatchNorm(BatchNorm):
    """(N, C, …): batch normalisation over all processes, of which there is one."""

    ranks = tuple(range(2, 65))

    def __init__(
        self, num_features: int, eps: float = 1e-05, momentum: float | None = 0.1, affine: bool = True,
        track_running_stats: bool = True, process_group: Any = None, device: Any = None, dtype: Any = None, *,
        bias: bool = True,
    ) -> None:  # fmt: skip
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)
        self.process_group = process_group

    def forward(self, input: Any) -> Any:
        if input.ndim < 2:
            raise ValueError(f"expected at least 2D input (got {input.ndim}D input)")
        if input.shape[1] == 0:
            raise ValueError("SyncBatchNorm number of input channels should be non-zero")
        return super().forward(input)

    @classmethod
    def convert_sync_batchnorm(cls, module: Module, process_group: Any = None) -> Module:
        """The module, each batch normalisation in it replaced by a SyncBatchNorm with its parameters and statistics."""
        out: Any = module
        if _is_batch_norm(module):
            given: Any = module
            out = cls(
                given.num_features, given.eps, given.momentum, given.affine, given.track_running_stats, process_group,
                bias=given.bias is not None,
            )  # fmt: skip
            if given.affine:
                out.weight, out.bias = given.weight, given.bias
            out.running_mean, out.running_var = given.running_mean, given.running_var
            out.num_batches_tracked = given.num_batches_tracked
            out.training = given.training
        for name, child in module.named_children():
            out.add_module(name, cls.convert_sync_batchnorm(child, process_group))
        made: Module = out
        return made


def _is_batch_norm(module: Module) -> bool:
    return isinstance(module, BatchNorm) and type(module).__name__.startswith(("BatchNorm", "SyncBatchNorm"))


class Container(Module):
    """A module with the given parts, under an old name, with a warning."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__()
        warnings.warn(
            "nn.Container is deprecated. All of it's functionality is now implemented in nn.Module. Subclass that "
            "instead.",
            FutureWarning,
            stacklevel=2,
        )
        for name, module in kwargs.items():
            self.add_module(name, module)
