"""Elements under sliding windows as columns, and put back where pooling or windows took them from."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from adjoint.core.runtime.deterministic import alert_not_deterministic
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Operand
from adjoint.functions.api.channels_last import preserve_channels_last
from adjoint.functions.api.dim_args import per_dimension
from adjoint.functions.api.publish import rename_node
from adjoint.functions.nn.per_rank import per_rank
from adjoint.ops.creation import zeros
from adjoint.ops.indexing import indexing, scatter
from adjoint.ops.movement import movement
from adjoint.ops.movement.sliding_windows import count_windows, windows
from adjoint.ops.movement.sliding_windows import fold as _add_windows

if TYPE_CHECKING:
    from adjoint.core.tensor.size import Size

__all__ = ["fold", "max_unpool1d", "max_unpool2d", "max_unpool3d", "unfold"]


def fold(
    input: Tensor,
    output_size: tuple[int, ...],
    kernel_size: int | tuple[int, ...],
    dilation: int | tuple[int, ...] = 1,
    padding: int | tuple[int, ...] = 0,
    stride: int | tuple[int, ...] = 1,
) -> Tensor:
    """Return (N, C, *output_size) with the columns added where `unfold` took them from.

    Overlapping windows sum, so this is the transpose of `unfold`.

    Args:
        input: tensor of columns.
        output_size: int or tuple, the size of the images.
        kernel_size: int or tuple, window size.
        dilation: int or tuple, distance between window elements. Default: 1.
        padding: int or tuple, border of zeros that `unfold` added. Default: 0.
        stride: int or tuple, step between windows. Default: 1.

    Shapes:
        input (N, C·K_H·K_W, windows) -> (N, C, *output_size); N is optional

    Raises: RuntimeError for sizes that do not fit each other.

    Example:
        >>> F.fold(ad.ones(1, 4, 4), output_size=3, kernel_size=2)
        tensor([[[[1., 2., 1.],
                  [2., 4., 2.],
                  [1., 2., 1.]]]])
    """
    sides, size = per_dimension(output_size, 2, "output_size"), per_dimension(kernel_size, 2, "kernel_size")
    steps, gaps = per_dimension(stride, 2, "stride"), per_dimension(dilation, 2, "dilation")
    frame = per_dimension(padding, 2, "padding")
    for what, values, least in (
        ("kernel_size", size, 1),
        ("stride", steps, 1),
        ("dilation", gaps, 1),
        ("padding", frame, 0),
        ("output_size", sides, 1),
    ):
        if any(v < least for v in values):
            kind = "greater than zero" if least else "non-negative"
            raise RuntimeError(f"{what} should be {kind}, but got {what}={values}")
    shape = input.array.shape
    if input.ndim not in (2, 3) or not all(shape[-2:]):
        raise RuntimeError(
            "Expected 2D or 3D (batch mode) tensor for input with possibly 0 batch size and non-zero dimensions for "
            f"input, but got: {list(shape)}"
        )
    if shape[-2] % math.prod(size):
        raise RuntimeError(
            "Expected size of input's dimension 1 to be divisible by the product of kernel_size, but got input.size(1)="
            f"{shape[-2]} and kernel_size={size}."
        )
    framed = tuple(n + 2 * p for n, p in zip(sides, frame, strict=True))
    places = tuple(map(count_windows, framed, size, steps, gaps))
    given = f"Given output_size={sides}, kernel_size={size}, dilation={gaps}, padding={frame}, stride={steps}, "
    if math.prod(places) != shape[-1]:
        raise RuntimeError(
            f"{given}expected size of input's dimension 2 to match the calculated number of sliding blocks "
            f"{places[0]} * {places[1]} = {math.prod(places)}, but got input.size(2)={shape[-1]}."
        )
    if any(p < 1 for p in places):
        raise RuntimeError(
            f"{given}calculated shape of the array of sliding blocks as {places}, which is too small (non-positive)"
        )
    lead = (*shape[:-2], shape[-2] // math.prod(size))
    k = len(lead)
    columns = movement.reshape(input, shape=(*lead, *size, *places))
    seen = movement.permute(columns, axes=(*range(k), k + 2, k + 3, k, k + 1))  # (…, C, PH, PW, KH, KW)
    out: Operand = _add_windows(seen, shape=(*lead, *framed), stride=steps, dilation=gaps)
    if any(frame):
        cut = ((p, p + n, 1) for p, n in zip(frame, sides, strict=True))
        out = movement.slice(out, bounds=(*((0, n, 1) for n in lead), *cut))
    return rename_node(out, "Col2ImBackward0")


@preserve_channels_last
def _max_unpool(
    rank: int,
    input: Tensor,
    indices: Tensor,
    kernel_size: int | tuple[int, ...],
    stride: int | Sequence[int] | None = None,
    padding: int | tuple[int, ...] = 0,
    output_size: Sequence[int] | Size | None = None,
) -> Tensor:
    """Return the elements at the indices that `max_pool{rank}d` found them at, zeros elsewhere.

    Shapes:
        input and indices (…, {sizes}) -> (…, {out_sizes})

    Raises: ValueError for an `output_size` that no such pooling reduces to the input's size, RuntimeError for indices
    outside of it.
    """
    name = f"max_unpool{rank}d"
    alert_not_deterministic(f"max_unpooling{max(rank, 2)}d_forward_out")
    size = per_dimension(kernel_size, rank, "kernel_size")
    steps = size if stride is None or stride == [] else per_dimension(stride, rank, "stride")
    frame = per_dimension(padding, rank, "padding")
    if input.ndim not in (rank + 1, rank + 2):
        raise RuntimeError(
            f"{name}: Input to {name} should be a {rank + 1}d or {rank + 2}d Tensor, but got {input.ndim} dimensions"
        )
    if indices.array.dtype != np.int64:
        raise RuntimeError(f"elements in indices should be type int64 but got: {indices.dtype}")
    if indices.array.shape != input.array.shape:
        raise RuntimeError(
            f"Expected shape of indices to be same as that of the input tensor ({list(input.array.shape)}) but got "
            f"indices tensor with shape: {list(indices.array.shape)}"
        )
    lead = input.ndim - rank
    reach = zip(input.array.shape[lead:], steps, size, frame, strict=True)
    sides = _unpool_sizes(name, [(n - 1) * s + k - 2 * p for n, s, k, p in reach], steps, output_size)
    shape, total = (*input.array.shape[:lead], *sides), math.prod(sides)
    complaint = f"{name}: found an invalid max index: {{}} (output volumes are of size {'x'.join(map(repr, sides))})"
    indexing.check_range(indices, total, complaint, low=0, error=RuntimeError)
    count = math.prod(input.array.shape[lead:])
    flat, at = (movement.reshape(x, shape=(*x.array.shape[:lead], count)) for x in (input, indices))
    nothing = zeros((*input.array.shape[:lead], total), input.array.dtype)
    return rename_node(
        movement.reshape(scatter.scatter(nothing, flat, at, axis=lead), shape=shape), f"MaxUnpool{rank}DBackward0"
    )


max_unpool1d, max_unpool2d, max_unpool3d = per_rank(_max_unpool, "max_unpool{rank}d")


def _unpool_sizes(
    name: str, usual: list[int], steps: Sequence[int], output_size: Sequence[int] | Size | None
) -> tuple[int, ...]:
    """Return the sizes to unpool to."""
    rank = len(usual)
    given = usual if output_size is None else list(output_size)
    if output_size is not None:
        given = given[2:] if len(given) == rank + 2 else given
        if len(given) != rank:
            raise ValueError(
                f"output_size should be a sequence containing {rank} or {rank + 2} elements, but it has a length of "
                f"'{len(given)}'"
            )
        for d, (n, s, wanted) in enumerate(zip(usual, steps, given, strict=True)):
            if not n - s < wanted < n + s:
                raise ValueError(f'invalid output_size "{given}" (dim {d} must be between {n - s} and {n + s})')
    if any(n < 0 for n in given):
        raise ValueError(f"{name}: output_size must contain non-negative spatial dimensions, but got {given}")
    return tuple(given)


def unfold(
    input: Tensor,
    kernel_size: int | Sequence[int],
    dilation: int | tuple[int, ...] = 1,
    padding: int | tuple[int, ...] = 0,
    stride: int | Sequence[int] = 1,
) -> Tensor:
    """Return the elements under each window of images, as columns.

    Args:
        input: tensor of images.
        kernel_size: int or tuple, window size.
        dilation: int or tuple, distance between window elements. Default: 1.
        padding: int or tuple, border of zeros on both sides. Default: 0.
        stride: int or tuple, step between windows. Default: 1.

    Shapes:
        input (N, C, H, W) -> (N, C·K_H·K_W, windows); N is optional

    Raises: RuntimeError for another number of dimensions, and where the window does not fit.

    Example:
        >>> F.unfold(ad.arange(9.0).reshape(1, 1, 3, 3), kernel_size=2)
        tensor([[[0., 1., 3., 4.],
                 [1., 2., 4., 5.],
                 [3., 4., 6., 7.],
                 [4., 5., 7., 8.]]])
    """
    if input.ndim not in (3, 4) or not all(input.array.shape[-3:]):
        raise RuntimeError(
            "Expected 3D or 4D (batch mode) tensor with possibly 0 batch size and other non-zero dimensions for input, "
            f"but got: {list(input.array.shape)}"
        )
    if input.ndim == 3:
        one = movement.reshape(input, shape=(1, *input.array.shape))
        columns = unfold(one, kernel_size, dilation, padding, stride)
        return movement.reshape(columns, shape=columns.array.shape[1:])
    size, steps = per_dimension(kernel_size, 2, "kernel_size"), per_dimension(stride, 2, "stride")
    gaps, frame = per_dimension(dilation, 2, "dilation"), per_dimension(padding, 2, "padding")
    spatial = input.array.shape[2:]
    places = tuple(
        (n + 2 * p - d * (k - 1) - 1) // s + 1 for n, p, d, k, s in zip(spatial, frame, gaps, size, steps, strict=True)
    )
    if any(n < 1 for n in places):
        raise RuntimeError(
            f"Given input with spatial size {tuple(spatial)}, kernel_size={size}, dilation={gaps}, padding={frame}, "
            f"calculated shape of the array of sliding blocks as {places}, but its components must be at least one."
        )
    framed = movement.pad(input, widths=((0, 0), (0, 0), *((p, p) for p in frame)))
    seen = windows(framed, size=size, stride=steps, dilation=gaps)  # (N, C, PH, PW, KH, KW)
    n, c, ph, pw = seen.array.shape[:4]
    columns = movement.permute(seen, axes=(0, 1, 4, 5, 2, 3))
    out = movement.reshape(columns, shape=(n, c * size[0] * size[1], ph * pw))
    settings = {"kernel_size": size, "dilation": gaps, "padding": frame, "stride": steps}
    ends = {f"self_sym_argsize_minus_{i}": input.array.shape[-i] for i in (1, 2)}
    return rename_node(out, "Im2ColBackward0", **settings, **ends)
