"""Lazy layers, which take the number of features or channels from their first input."""

from __future__ import annotations

from typing import Any, ClassVar

from adjoint.core.dtype.dtype import int64
from adjoint.core.runtime.mode import ModeScope
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import DeviceLike, DtypeLike, Operand, Sizes
from adjoint.functions.creation.creation import tensor
from adjoint.nn.layers.conv_transpose import ConvTranspose1d, ConvTranspose2d, ConvTranspose3d, TransposedConvolution
from adjoint.nn.layers.convolution import Conv1d, Conv2d, Conv3d, Convolution
from adjoint.nn.layers.linear import Linear
from adjoint.nn.layers.normalization import (
    BatchNorm1d,
    BatchNorm2d,
    BatchNorm3d,
    ChannelNorm,
    InstanceNorm1d,
    InstanceNorm2d,
    InstanceNorm3d,
)
from adjoint.nn.module.uninitialized import LazyModuleMixin, UninitializedBuffer, UninitializedParameter

__all__ = ["LazyBatchNorm1d", "LazyBatchNorm2d", "LazyBatchNorm3d", "LazyConv1d", "LazyConv2d", "LazyConv3d"]
__all__ += ["LazyConvTranspose1d", "LazyConvTranspose2d", "LazyConvTranspose3d", "LazyInstanceNorm1d"]
__all__ += ["LazyInstanceNorm2d", "LazyInstanceNorm3d", "LazyLinear"]


class LazyLayer(LazyModuleMixin):
    """Lazy layer: nothing is drawn before the shapes are known."""

    inputs: ClassVar[str]  # the attribute that holds the number of inputs, 0 until the first call

    def reset_parameters(self) -> None:
        """Draw new values, once there is something to draw."""
        if not self.has_uninitialized_params() and getattr(self, self.inputs) != 0:
            layer: Any = super()
            layer.reset_parameters()


class LazyLinear(LazyLayer, Linear):
    """Fully connected layer that takes `in_features` from its first input.

    The first call draws the parameters and turns the layer into a plain `Linear`.

    Args:
        out_features: size of the last output dimension.
        bias: True to add a learned bias. Default: True.
        device, dtype: placement ("cpu", or "meta" for no values) and dtype of the parameters. Default: None.

    Shapes:
        input (…, in_features) -> (…, out_features)

    Raises: AssertionError for a weight that does not fit the first input.

    Example:
        >>> layer = nn.LazyLinear(3)
        >>> layer(ad.ones(2, 5)).shape
        adjoint.Size([2, 3])
        >>> layer
        Linear(in_features=5, out_features=3, bias=True)
    """

    cls_to_become = Linear
    inputs = "in_features"

    def __init__(
        self, out_features: int, bias: bool = True, device: DeviceLike = None, dtype: DtypeLike = None
    ) -> None:
        super().__init__(0, 0, False)
        self.weight = UninitializedParameter(device=device, dtype=dtype)
        self.out_features = out_features
        if bias:
            self.bias = UninitializedParameter(device=device, dtype=dtype)

    def initialize_parameters(self, input: Operand) -> None:
        """Take the number of features of the input."""
        if self.has_uninitialized_params():
            with ModeScope(recording=False):
                self.in_features = input.shape[-1]
                _materialize_if_present(self.weight, (self.out_features, self.in_features))
                _materialize_if_present(self.bias, (self.out_features,))
                self.reset_parameters()
        if self.in_features == 0:
            if input.shape[-1] != self.weight.shape[-1]:
                raise AssertionError(
                    f"The in_features inferred from input: {input.shape[-1]} is not equal to in_features from "
                    f"self.weight: {self.weight.shape[-1]}"
                )
            self.in_features = input.shape[-1]


def _materialize_if_present(tensor: Operand, shape: tuple[int, ...]) -> None:
    if tensor is not None:
        tensor.materialize(shape)


class LazyConvolution(LazyLayer, Convolution):
    """Lazy convolution, whose `in_channels` is the number of channels of its first input."""

    inputs = "in_channels"

    def _init_uninitialized(self, out_channels: int, bias: bool, device: DeviceLike, dtype: DtypeLike) -> None:
        self.weight = UninitializedParameter(device=device, dtype=dtype)
        self.out_channels = out_channels
        if bias:
            self.bias = UninitializedParameter(device=device, dtype=dtype)

    def initialize_parameters(self, input: Tensor, *args: Any, **kwargs: Any) -> None:
        """Take the number of channels of the input."""
        if self.in_channels:
            return
        if input.ndim not in (self.rank + 1, self.rank + 2):
            raise RuntimeError(
                f"Expected {self.rank + 1}D (unbatched) or {self.rank + 2}D (batched) input to {type(self).__name__}, "
                f"but got input of size: {tuple(input.shape)}"
            )
        self.in_channels = input.shape[-self.rank - 1]
        if self.in_channels % self.groups:
            raise ValueError("in_channels must be divisible by groups")
        if not self.has_uninitialized_params():  # loaded from a state dict
            return
        ends = (self.in_channels, self.out_channels) if self.transposed else (self.out_channels, self.in_channels)
        _materialize_if_present(self.weight, (ends[0], ends[1] // self.groups, *self.kernel_size))
        _materialize_if_present(self.bias, (self.out_channels,))
        self.reset_parameters()


class LazyConvNd(LazyConvolution):
    """`LazyConvolution` with the arguments of `Conv1d` and its like."""

    def __init__(
        self, out_channels: int, kernel_size: Sizes, stride: Sizes = 1, padding: Sizes | str = 0, dilation: Sizes = 1,
        groups: int = 1, bias: bool = True, padding_mode: str = "zeros", device: DeviceLike = None,
        dtype: DtypeLike = None,
    ) -> None:  # fmt: skip
        super().__init__(0, 0, kernel_size, stride, padding, dilation, groups, False, padding_mode, device, dtype)
        self._init_uninitialized(out_channels, bias, device, dtype)


class LazyConvTransposeNd(LazyConvolution, TransposedConvolution):
    """`LazyConvolution` with the arguments of `ConvTranspose1d` and its like."""

    def __init__(
        self, out_channels: int, kernel_size: Sizes, stride: Sizes = 1, padding: Sizes = 0, output_padding: Sizes = 0,
        groups: int = 1, bias: bool = True, dilation: Sizes = 1, padding_mode: str = "zeros", device: DeviceLike = None,
        dtype: DtypeLike = None,
    ) -> None:  # fmt: skip
        super().__init__(
            0, 0, kernel_size, stride, padding, output_padding, groups, False, dilation, padding_mode, device, dtype
        )
        self._init_uninitialized(out_channels, bias, device, dtype)


class LazyConv1d(LazyConvNd, Conv1d):
    """Lazy `Conv1d`, which takes its `in_channels` from its first input. Shapes: as of `Conv1d`."""

    cls_to_become = Conv1d


class LazyConv2d(LazyConvNd, Conv2d):
    """Lazy `Conv2d`, which takes its `in_channels` from its first input. Shapes: as of `Conv2d`."""

    cls_to_become = Conv2d


class LazyConv3d(LazyConvNd, Conv3d):
    """Lazy `Conv3d`, which takes its `in_channels` from its first input. Shapes: as of `Conv3d`."""

    cls_to_become = Conv3d


class LazyConvTranspose1d(LazyConvTransposeNd, ConvTranspose1d):
    """Lazy `ConvTranspose1d`, which takes its `in_channels` from its first input. Shapes: as of `ConvTranspose1d`."""

    cls_to_become = ConvTranspose1d


class LazyConvTranspose2d(LazyConvTransposeNd, ConvTranspose2d):
    """Lazy `ConvTranspose2d`, which takes its `in_channels` from its first input. Shapes: as of `ConvTranspose2d`."""

    cls_to_become = ConvTranspose2d


class LazyConvTranspose3d(LazyConvTransposeNd, ConvTranspose3d):
    """Lazy `ConvTranspose3d`, which takes its `in_channels` from its first input. Shapes: as of `ConvTranspose3d`."""

    cls_to_become = ConvTranspose3d


class LazyNorm(LazyLayer, ChannelNorm):
    """Lazy normalization, whose `num_features` is the number of channels of its first input."""

    inputs = "num_features"

    def __init__(
        self,
        eps: float = 1e-05,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: DeviceLike = None,
        dtype: DtypeLike = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(0, eps, momentum, False, False, device, dtype, bias=False)
        self.affine = affine
        self.track_running_stats = track_running_stats
        if affine:
            self.weight = UninitializedParameter(device=device, dtype=dtype)
            if bias:
                self.bias = UninitializedParameter(device=device, dtype=dtype)
        if track_running_stats:
            self.running_mean = UninitializedBuffer(device=device, dtype=dtype)
            self.running_var = UninitializedBuffer(device=device, dtype=dtype)
            self.num_batches_tracked = tensor(0, dtype=int64)

    def initialize_parameters(self, input: Tensor) -> None:
        """Take the number of channels of the input."""
        self.num_features = self.num_features or input.shape[1]
        if self.has_uninitialized_params():
            for value in (self.weight, self.bias, self.running_mean, self.running_var):
                _materialize_if_present(value, (self.num_features,))
            self.reset_parameters()


class LazyBatchNorm1d(LazyNorm, BatchNorm1d):
    """Lazy `BatchNorm1d`, which takes its `num_features` from its first input. Shapes: as of `BatchNorm1d`."""

    cls_to_become = BatchNorm1d


class LazyBatchNorm2d(LazyNorm, BatchNorm2d):
    """Lazy `BatchNorm2d`, which takes its `num_features` from its first input. Shapes: as of `BatchNorm2d`."""

    cls_to_become = BatchNorm2d


class LazyBatchNorm3d(LazyNorm, BatchNorm3d):
    """Lazy `BatchNorm3d`, which takes its `num_features` from its first input. Shapes: as of `BatchNorm3d`."""

    cls_to_become = BatchNorm3d


class LazyInstanceNorm1d(LazyNorm, InstanceNorm1d):
    """Lazy `InstanceNorm1d`, which takes its `num_features` from its first input. Shapes: as of `InstanceNorm1d`."""

    cls_to_become = InstanceNorm1d


class LazyInstanceNorm2d(LazyNorm, InstanceNorm2d):
    """Lazy `InstanceNorm2d`, which takes its `num_features` from its first input. Shapes: as of `InstanceNorm2d`."""

    cls_to_become = InstanceNorm2d


class LazyInstanceNorm3d(LazyNorm, InstanceNorm3d):
    """Lazy `InstanceNorm3d`, which takes its `num_features` from its first input. Shapes: as of `InstanceNorm3d`."""

    cls_to_become = InstanceNorm3d
