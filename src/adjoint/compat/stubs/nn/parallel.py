"""Modules that PyTorch distributes over devices or processes, of which there is one; and the deprecated `Container`."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from adjoint.nn.layers.normalization import BatchNorm
from adjoint.nn.module.module import Module

__all__ = ["Container", "DataParallel", "SyncBatchNorm"]


class DataParallel(Module):
    """Module that calls its `module`: there is one device."""

    def __init__(self, module: Module, device_ids: object = None, output_device: object = None, dim: int = 0) -> None:
        super().__init__()
        self.module = module
        self.dim = dim
        self.device_ids: list[Any] = []

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        return self.module(*inputs, **kwargs)


class DistributedDataParallel(DataParallel):
    """Module that calls its `module`: there is one process, which has all gradients."""

    def __init__(
        self, module: Module, device_ids: object = None, output_device: object = None, **kwargs: object
    ) -> None:
        super().__init__(module)

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Return a context that changes nothing."""
        yield


def data_parallel(
    module: Module,
    inputs: Any,
    device_ids: object = None,
    output_device: object = None,
    dim: int = 0,
    module_kwargs: Any = None,
) -> Any:
    """Call the module."""
    return module(*(inputs if isinstance(inputs, tuple) else (inputs,)), **(module_kwargs or {}))


def parallel_apply(
    modules: Sequence[Any], inputs: Sequence[Any], kwargs_tup: Any = None, devices: object = None
) -> list[Any]:
    """Call each module with its input, a tuple of arguments or a single one. Raises AssertionError."""
    if len(modules) != len(inputs):
        raise AssertionError(f"The number of modules {len(modules)} is not equal to the number of inputs {len(inputs)}")
    given = [kwargs or {} for kwargs in kwargs_tup or [None] * len(modules)]
    return [
        data_parallel(module, args, module_kwargs=kwargs)
        for module, args, kwargs in zip(modules, inputs, given, strict=True)
    ]


def replicate(network: Module, devices: Any, detach: bool = False) -> list[Module]:
    """Return the module itself once for each device."""
    return [network] * len(devices)


class SyncBatchNorm(BatchNorm):
    """Batch normalisation (N, C, …) over all processes, of which there is one."""

    ranks = tuple(range(2, 65))

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-05,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        process_group: Any = None,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
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
        """Replace each batch normalisation in the module by a SyncBatchNorm with its parameters and statistics."""
        out = module
        if isinstance(module, BatchNorm) and type(module).__name__.startswith(("BatchNorm", "SyncBatchNorm")):
            old: Any = module
            tracked = old.track_running_stats
            new = cls(old.num_features, old.eps, old.momentum, old.affine, tracked, bias=old.bias is not None)
            new.process_group = process_group
            if old.affine:
                new.weight, new.bias = old.weight, old.bias
            new.running_mean, new.running_var = old.running_mean, old.running_var
            new.num_batches_tracked = old.num_batches_tracked
            new.training = old.training
            out = new
        for name, child in module.named_children():
            out.add_module(name, cls.convert_sync_batchnorm(child, process_group))
        return out


class Container(Module):
    """Module with the given submodules; deprecated, with a warning."""

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
