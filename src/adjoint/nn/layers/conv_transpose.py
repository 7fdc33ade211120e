"""Transposed convolutional layers."""

from __future__ import annotations

from collections.abc import Sequence

from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import DeviceLike, DtypeLike, Sizes
from adjoint.functions.api.dim_args import per_dimension
from adjoint.nn import functional as F
from adjoint.nn.layers.convolution import Convolution
from adjoint.nn.module.module_docstring import inherit_sections

__all__ = ["ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d"]


class TransposedConvolution(Convolution):
    """Transposed convolution over a batch of tensors with `rank` dimensions behind the channels.

    The layer computes the gradient of a convolution with respect to its input. The batch dimension N is optional. A
    call may name an `output_size`, which selects the output padding for that call.

    Args:
        in_channels: number of input channels, C.
        out_channels: number of output channels.
        kernel_size: int or tuple, kernel size per dimension.
        stride: int or tuple, step between kernel positions in the output. Default: 1.
        padding: int or tuple, elements removed at both ends of each output dimension. Default: 0.
        output_padding: int or tuple, elements added at the end of each output dimension. Default: 0.
        groups: number of channel groups, each with its own kernels. Default: 1.
        bias: True to add a learned bias per output channel. Default: True.
        dilation: int or tuple, distance between kernel elements. Default: 1.
        padding_mode: only "zeros".
        device, dtype: placement ("cpu", or "meta" for no values) and dtype of the parameters. Default: None.

    Attributes:
        weight: Parameter, shape (in_channels, out_channels / groups, *kernel_size).
        bias: Parameter or None, shape (out_channels,).

    Raises: ValueError if `groups` does not divide the channels, for a padding mode other than "zeros", and for an
    `output_size` out of reach.
    """

    transposed = True
    padding: tuple[int, ...]

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: Sizes, stride: Sizes = 1, padding: Sizes = 0,
        output_padding: Sizes = 0, groups: int = 1, bias: bool = True, dilation: Sizes = 1, padding_mode: str = "zeros",
        device: DeviceLike = None, dtype: DtypeLike = None,
    ) -> None:  # fmt: skip
        if padding_mode != "zeros":
            raise ValueError(f'Only "zeros" padding mode is supported for {type(self).__name__}')
        super().__init__(
            in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias, padding_mode, device, dtype
        )
        self.output_padding = per_dimension(output_padding, self.rank, "output_padding")

    def forward(self, input: Tensor, output_size: Sequence[int] | None = None) -> Tensor:
        more = self._output_padding(input, output_size)
        return type(self).function(
            input, self.weight, self.bias, self.stride, self.padding, more, self.groups, self.dilation
        )

    def _output_padding(self, input: Tensor, output_size: Sequence[int] | None) -> tuple[int, ...]:
        """Return the output padding that gives this output size. Raises ValueError if none does."""
        if output_size is None:
            return self.output_padding
        lead = input.ndim - self.rank
        wanted = list(output_size)
        wanted = wanted[lead:] if len(wanted) == input.ndim else wanted
        if len(wanted) != self.rank:
            raise ValueError(
                f"ConvTranspose{self.rank}D: for {input.ndim}D input, output_size must have {self.rank} or "
                f"{input.ndim} elements (got {len(wanted)})"
            )
        reach = zip(input.shape[lead:], self.stride, self.padding, self.dilation, self.kernel_size, strict=True)
        least = [(n - 1) * s - 2 * p + d * (k - 1) + 1 for n, s, p, d, k in reach]
        most = [n + s - 1 for n, s in zip(least, self.stride, strict=True)]
        if any(not low <= n <= high for low, n, high in zip(least, wanted, most, strict=True)):
            raise ValueError(
                f"requested an output size of {wanted}, but valid sizes range from {least} to {most} (for an input of "
                f"{tuple(input.shape[lead:])})"
            )
        return tuple(n - low for n, low in zip(wanted, least, strict=True))


@inherit_sections
class ConvTranspose1d(TransposedConvolution):
    """1-d transposed convolution over a batch of sequences.

    Shapes:
        input (N, C, L) -> (N, out_channels, L_out)
        L_out = (L - 1)·stride - 2·padding + dilation·(kernel_size - 1) + output_padding + 1

    Example:
        >>> layer = nn.ConvTranspose1d(4, 2, kernel_size=2, stride=2)
        >>> layer(ad.zeros(1, 4, 5)).shape
        adjoint.Size([1, 2, 10])
    """

    rank = 1
    function = staticmethod(F.conv_transpose1d)


@inherit_sections
class ConvTranspose2d(TransposedConvolution):
    """2-d transposed convolution over a batch of images.

    Shapes:
        input (N, C, H, W) -> (N, out_channels, H_out, W_out)
        H_out = (H - 1)·stride - 2·padding + dilation·(kernel_size - 1) + output_padding + 1, W_out likewise

    Example:
        >>> layer = nn.ConvTranspose2d(4, 2, kernel_size=3, stride=2, padding=1)
        >>> x = ad.zeros(1, 4, 5, 5)
        >>> layer(x).shape
        adjoint.Size([1, 2, 9, 9])
        >>> layer(x, output_size=(10, 10)).shape
        adjoint.Size([1, 2, 10, 10])
    """

    rank = 2
    function = staticmethod(F.conv_transpose2d)


@inherit_sections
class ConvTranspose3d(TransposedConvolution):
    """3-d transposed convolution over a batch of volumes.

    Shapes:
        input (N, C, D, H, W) -> (N, out_channels, D_out, H_out, W_out)
        D_out = (D - 1)·stride - 2·padding + dilation·(kernel_size - 1) + output_padding + 1, H_out, W_out too

    Example:
        >>> layer = nn.ConvTranspose3d(4, 2, kernel_size=2, stride=2)
        >>> layer(ad.zeros(1, 4, 2, 3, 3)).shape
        adjoint.Size([1, 2, 4, 6, 6])
    """

    rank = 3
    function = staticmethod(F.conv_transpose3d)
