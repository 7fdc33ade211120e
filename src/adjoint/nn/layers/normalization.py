"""Layers that normalise over a batch or over features."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, ClassVar

from adjoint.core.dtype.dtype import int64
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import DeviceLike, DtypeLike
from adjoint.functions.creation.creation import ones, tensor, zeros
from adjoint.nn import functional as F
from adjoint.nn import init
from adjoint.nn.module.module import Module
from adjoint.nn.module.module_docstring import inherit_sections
from adjoint.nn.module.parameter import Parameter

__all__ = ["BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "InstanceNorm1d", "InstanceNorm2d", "InstanceNorm3d"]
__all__ += ["LayerNorm"]


class ScaledNorm(Module):
    """Normalization with a learned scale `weight` and shift `bias`, 1 and 0 at first; each may be None."""

    weight: Parameter | None
    bias: Parameter | None

    def _register_scale(
        self, shape: int | tuple[int, ...], scaled: bool, shifted: bool, device: DeviceLike, dtype: DtypeLike
    ) -> None:
        self.register_parameter("weight", Parameter(ones(shape, dtype=dtype, device=device)) if scaled else None)
        shift = Parameter(zeros(shape, dtype=dtype, device=device)) if scaled and shifted else None
        self.register_parameter("bias", shift)

    def reset_parameters(self) -> None:
        """Set the scale to 1 and the shift to 0."""
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)


class ChannelNorm(ScaledNorm):
    """Normalization with a scale, a shift and running statistics of each channel."""

    ranks: ClassVar[tuple[int, ...]] = ()  # of inputs; empty where a subclass checks them itself
    _version: int = 2
    _state_key_versions: ClassVar[dict[str, int]] = {"num_batches_tracked": 2}
    running_mean: Tensor | None
    running_var: Tensor | None
    num_batches_tracked: Any

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-05,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: DeviceLike = None,
        dtype: DtypeLike = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        self.num_features = num_features
        self.eps = eps
        self.momentum = momentum
        self.affine = affine
        self.track_running_stats = track_running_stats
        self._register_scale(num_features, affine, bias, device, dtype)
        mean, var, count = None, None, None
        if track_running_stats:
            mean, var = (make(num_features, dtype=dtype, device=device) for make in (zeros, ones))
            count = tensor(0, dtype=int64, device=device)
        self.register_buffer("running_mean", mean)
        self.register_buffer("running_var", var)
        self.register_buffer("num_batches_tracked", count)

    def _check_input_dim(self, input: Tensor) -> None:
        """Raise ValueError unless the input has the right number of dimensions: for subclasses to replace."""
        if not self.ranks:
            raise NotImplementedError
        if input.ndim not in self.ranks:
            raise ValueError(f"expected {' or '.join(f'{n}D' for n in self.ranks)} input (got {input.ndim}D input)")

    def reset_running_stats(self) -> None:
        """Start the running statistics anew."""
        if self.running_mean is not None and self.running_var is not None:
            init.zeros_(self.running_mean)
            init.ones_(self.running_var)
            init.zeros_(self.num_batches_tracked)

    def reset_parameters(self) -> None:
        """Set the scale to 1 and the shift to 0, and start the running statistics anew."""
        self.reset_running_stats()
        super().reset_parameters()

    def extra_repr(self) -> str:
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={self.affine}, "
            f"bias={self.bias is not None}, track_running_stats={self.track_running_stats}"
        )


class BatchNorm(ChannelNorm):
    """Batch normalization, channel by channel: y = (x - mean) / √(var + eps) · weight + bias.

    In training the mean and the biased variance come from the batch. The running statistics move towards the batch's
    mean and unbiased variance. After `eval()` the layer uses the running statistics, if it tracks them.

    Args:
        num_features: number of channels, C.
        eps: number added to the variance. Default: 1e-5.
        momentum: weight of the new batch in the running statistics; None keeps their plain average. Default: 0.1.
        affine: True for a learned scale and shift per channel, 1 and 0 at first. Default: True.
        track_running_stats: True to keep running statistics as buffers. Default: True.
        device, dtype: placement ("cpu", or "meta" for no values) and dtype of the parameters. Default: None.
        bias: False for a scale without a shift. Default: True.

    Raises: ValueError for another number of dimensions, and in training for a single value per channel.

    Source: Ioffe and Szegedy, Batch Normalization, 2015.
    """

    def forward(self, input: Tensor) -> Tensor:
        self._check_input_dim(input)
        tracked = self.training and self.track_running_stats
        momentum: Tensor | float | None = self.momentum
        if tracked and self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
            if momentum is None:
                momentum = 1.0 / self.num_batches_tracked.to(input.dtype)
        running = (self.running_mean, self.running_var) if tracked or not self.training else (None, None)
        from_batch = self.training or self.running_mean is None
        momentum = 0.0 if momentum is None else momentum
        return F.batch_norm(input, *running, self.weight, self.bias, from_batch, momentum, self.eps)


@inherit_sections
class BatchNorm1d(BatchNorm):
    """Batch normalization of vectors or sequences, channel by channel: y = (x - mean) / √(var + eps) · weight + bias.

    Shapes:
        input (N, C) or (N, C, L) -> the same shape

    Example:
        >>> layer = nn.BatchNorm1d(1)
        >>> layer(ad.tensor([[0.0], [2.0]])).detach()
        tensor([[-1.0000],
                [ 1.0000]])
        >>> layer.running_mean, layer.running_var
        (tensor([0.1000]), tensor([1.1000]))
    """

    ranks = (2, 3)


@inherit_sections
class BatchNorm2d(BatchNorm):
    """Batch normalization of images, channel by channel: y = (x - mean) / √(var + eps) · weight + bias.

    Shapes:
        input (N, C, H, W) -> the same shape

    Example:
        >>> layer = nn.BatchNorm2d(3)
        >>> layer(ad.randn(4, 3, 5, 5)).shape
        adjoint.Size([4, 3, 5, 5])
        >>> list(layer.state_dict())
        ['weight', 'bias', 'running_mean', 'running_var', 'num_batches_tracked']
    """

    ranks = (4,)


@inherit_sections
class BatchNorm3d(BatchNorm):
    """Batch normalization of volumes, channel by channel: y = (x - mean) / √(var + eps) · weight + bias.

    Shapes:
        input (N, C, D, H, W) -> the same shape

    Example:
        >>> nn.BatchNorm3d(3)(ad.randn(2, 3, 4, 5, 5)).shape
        adjoint.Size([2, 3, 4, 5, 5])
    """

    ranks = (5,)


class InstanceNorm(ChannelNorm):
    """Instance normalization: each channel of each sample gets mean 0 and variance 1, then a scale and a shift.

    Args:
        num_features: number of channels, C.
        eps: number added to the variance. Default: 1e-5.
        momentum: weight of the new input in the running statistics; None keeps their plain average. Default: 0.1.
        affine: True for a learned scale and shift per channel, 1 and 0 at first. Default: False.
        track_running_stats: True to keep running statistics, and to use them after `eval()`. Default: False.
        device, dtype: placement ("cpu", or "meta" for no values) and dtype of the parameters. Default: None.
        bias: False for a scale without a shift. Default: True.

    Raises: ValueError for another number of dimensions, and with `affine` for another number of channels.

    Source: Ulyanov et al., Instance Normalization, 2016.
    """

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-05,
        momentum: float | None = 0.1,
        affine: bool = False,
        track_running_stats: bool = False,
        device: DeviceLike = None,
        dtype: DtypeLike = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)

    def forward(self, input: Tensor) -> Tensor:
        self._check_input_dim(input)
        at = int(input.ndim == min(self.ranks))  # the dimensions of one sample
        channels = input.array.shape[1 - at]
        if channels != self.num_features and self.affine:
            n = self.num_features
            raise ValueError(f"expected input's size at dim={1 - at} to match num_features ({n}), but got: {channels}.")
        if channels != self.num_features:
            warnings.warn(
                f"input's size at dim={1 - at} does not match num_features. You can silence this warning by not "
                "passing in num_features, which is not used because affine=False",
                stacklevel=2,
            )
        batch = input.unsqueeze(0) if at else input
        running, from_batch = (self.running_mean, self.running_var), self.training or not self.track_running_stats
        momentum = 0.0 if self.momentum is None else self.momentum
        out = F.instance_norm(batch, *running, self.weight, self.bias, from_batch, momentum, self.eps)
        return out.squeeze(0) if at else out


@inherit_sections
class InstanceNorm1d(InstanceNorm):
    """Instance normalization of sequences: each channel of each sample gets mean 0 and variance 1.

    Shapes:
        input (N, C, L) or (C, L) -> the same shape

    Example:
        >>> nn.InstanceNorm1d(1)(ad.tensor([[1.0, 3.0]]))
        tensor([[-1.0000,  1.0000]])
    """

    ranks = (2, 3)


@inherit_sections
class InstanceNorm2d(InstanceNorm):
    """Instance normalization of images: each channel of each sample gets mean 0 and variance 1.

    Shapes:
        input (N, C, H, W) or (C, H, W) -> the same shape

    Example:
        >>> nn.InstanceNorm2d(1)(ad.tensor([[[[1.0, 3.0]]]]))
        tensor([[[[-1.0000,  1.0000]]]])
    """

    ranks = (3, 4)


@inherit_sections
class InstanceNorm3d(InstanceNorm):
    """Instance normalization of volumes: each channel of each sample gets mean 0 and variance 1.

    Shapes:
        input (N, C, D, H, W) or (C, D, H, W) -> the same shape

    Example:
        >>> nn.InstanceNorm3d(3)(ad.randn(2, 3, 4, 5, 5)).shape
        adjoint.Size([2, 3, 4, 5, 5])
    """

    ranks = (4, 5)


class LayerNorm(ScaledNorm):
    """Layer normalization over the last dimensions: y = (x - mean) / √(var + eps) · weight + bias.

    The mean and the biased variance come from each sample alone, in training and in evaluation.

    Args:
        normalized_shape: int or tuple, sizes of the last dimensions, over which the statistics are taken.
        eps: number added to the variance. Default: 1e-5.
        elementwise_affine: True for a learned weight and bias of this shape, 1 and 0 at first. Default: True.
        bias: False for a weight without a bias. Default: True.
        device, dtype: placement ("cpu", or "meta" for no values) and dtype of the parameters. Default: None.

    Shapes:
        input (…, *normalized_shape) -> the same shape

    Raises: RuntimeError in a call if the input does not end in `normalized_shape`.

    Source: Ba, Kiros and Hinton, Layer Normalization, 2016.

    Example:
        >>> layer = nn.LayerNorm(3, elementwise_affine=False)
        >>> layer(ad.tensor([[1.0, 2.0, 3.0]]))
        tensor([[-1.2247,  0.0000,  1.2247]])
    """

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float = 1e-05,
        elementwise_affine: bool = True,
        bias: bool = True,
        device: DeviceLike = None,
        dtype: DtypeLike = None,
    ) -> None:
        super().__init__()
        shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
        self.normalized_shape = shape
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        self._register_scale(shape, elementwise_affine, bias, device, dtype)

    def forward(self, input: Tensor) -> Tensor:
        return F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return (
            f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}, "
            f"bias={self.bias is not None}"
        )
