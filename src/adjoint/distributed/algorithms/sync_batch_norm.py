"""`nn.SyncBatchNorm`: batch normalisation by the statistics of all ranks' batches."""

from __future__ import annotations

from typing import Any, cast

from adjoint.core.runtime.mode import ModeScope
from adjoint.core.tensor.tensor import Tensor
from adjoint.distributed.default_group import is_initialized, resolve_group
from adjoint.distributed.process_group import ProcessGroup
from adjoint.functions.shape.join import cat
from adjoint.nn.layers.normalization import BatchNorm
from adjoint.nn.module.module import Module
from adjoint.ops import collectives as ops
from adjoint.ops.collectives import ReduceOp


class SyncBatchNorm(BatchNorm):
    """Batch normalisation (N, C, …) over the batches of all ranks of `process_group`; default: of all.

    Args: as of `BatchNorm2d`, and `process_group`. With one process, and after `eval()`, it is batch normalisation.
    Raises: ValueError for less than two dimensions, or no channels.
    """

    ranks = tuple(range(2, 65))

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-05,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        process_group: ProcessGroup | None = None,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)
        self.process_group = process_group

    def forward(self, input: Tensor) -> Tensor:
        if input.ndim < 2:
            raise ValueError(f"expected at least 2D input (got {input.ndim}D input)")
        if input.shape[1] == 0:
            raise ValueError("SyncBatchNorm number of input channels should be non-zero")
        from_batch = self.training or self.running_mean is None
        if not from_batch or not is_initialized() or resolve_group(self.process_group).size() == 1:
            return super().forward(input)
        return self._normalize_over_ranks(input, resolve_group(self.process_group))

    def _normalize_over_ranks(self, input: Tensor, group: ProcessGroup) -> Tensor:
        """Normalise by the mean and variance of all ranks' values, which may be of different numbers."""
        axes = (0, *range(2, input.ndim))
        per_channel = (1, -1, *(1,) * (input.ndim - 2))
        count = input.numel() // input.shape[1]
        total = _sum_over_ranks(cat([input.sum(axes), input.new_full((1,), count)]), group)
        whole = total[-1]
        mean = total[:-1] / whole
        centered = input - mean.reshape(per_channel)
        var = _sum_over_ranks(centered.square().sum(axes), group) / whole
        if self.training and self.track_running_stats:
            self._update_statistics(mean.detach(), var.detach() * (whole / (whole - 1)).detach())
        out = centered * (var + self.eps).rsqrt().reshape(per_channel)
        if self.weight is not None:
            out = out * self.weight.reshape(per_channel)
        return out if self.bias is None else out + self.bias.reshape(per_channel)

    def _update_statistics(self, mean: Tensor, unbiased: Tensor) -> None:
        """Move the running statistics towards those of the batch."""
        self.num_batches_tracked.add_(1)
        momentum = 1.0 / self.num_batches_tracked.to(mean.dtype) if self.momentum is None else self.momentum
        with ModeScope(recording=False):
            for running, batch in ((self.running_mean, mean), (self.running_var, unbiased)):
                assert running is not None  # statistics are tracked
                running.copy_(running * (1 - momentum) + batch * momentum)

    @classmethod
    def convert_sync_batchnorm(cls, module: Module, process_group: ProcessGroup | None = None) -> Module:
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


def _sum_over_ranks(x: Tensor, group: ProcessGroup) -> Tensor:
    return cast("Tensor", ops.all_reduce(x, group=group, how=ReduceOp.SUM))
