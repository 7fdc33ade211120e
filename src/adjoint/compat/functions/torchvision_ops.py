"""Operators of torchvision's compiled library, `torch.ops.torchvision`: boxes, pooled regions, deformed convolution.

torchvision loads them with `torch.ops.load_library`, and its detection models are built on them. As in that library,
regions have no gradient; features, offsets, masks, weights and biases do, of any order.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, NamedTuple, NoReturn

import numpy as np

from adjoint.autograd.function.function import Function as AutogradFunction
from adjoint.core.dtype.dtype import int64
from adjoint.core.tensor.tensor import Tensor, wrap
from adjoint.core.typing import Array, Function, Shape
from adjoint.functions.creation.creation import from_numpy
from adjoint.functions.elementwise.pointwise import floor, where
from adjoint.functions.indexing.gather import gather
from adjoint.functions.linalg.matmul import matmul
from adjoint.functions.nn.pad import pad


def nms(dets: Tensor, scores: Tensor, iou_threshold: float) -> Tensor:
    """Return the numbers of the boxes to keep, by falling score: none overlaps a better one by more than the threshold.

    Shapes: dets (n, 4) as x1, y1, x2, y2; scores (n,); the result has one dimension.
    Raises: RuntimeError for other shapes.
    """
    if dets.ndim != 2 or dets.shape[1] != 4:
        raise RuntimeError(f"nms: boxes should be a tensor of shape (n, 4), got {tuple(dets.shape)}")
    if scores.shape != dets.shape[:1]:
        raise RuntimeError(f"nms: {len(dets)} boxes, but scores of shape {tuple(scores.shape)}")
    boxes, order = dets.detach().numpy(), np.argsort(-scores.detach().numpy(), kind="stable")
    left, top, right, bottom = boxes.T
    areas = (right - left) * (bottom - top)
    kept = []
    while order.size:
        best, rest = order[0], order[1:]
        kept.append(best)
        width = np.minimum(right[best], right[rest]) - np.maximum(left[best], left[rest])
        height = np.minimum(bottom[best], bottom[rest]) - np.maximum(top[best], top[rest])
        common = width.clip(0) * height.clip(0)
        with np.errstate(invalid="ignore", divide="ignore"):
            order = rest[~(common / (areas[best] + areas[rest] - common) > iou_threshold)]
    return from_numpy(np.array(kept, np.int64))


class Regions(NamedTuple):
    """Regions of images, as weighted sums of their rows and columns.

    Shapes: images (k,), the image that each is of; rows (k, h, height) and columns (k, w, width), the weights.
    """

    images: Array
    rows: Array
    columns: Array

    def windows(self) -> list[tuple[int, slice, slice]]:
        """Return for each region its image, and the rows and columns that count."""
        spans = []
        for weights in self.rows, self.columns:
            counting = [np.flatnonzero(row) for row in weights.sum(1)]
            spans.append([slice(found[0], found[-1] + 1) if found.size else slice(0) for found in counting])
        return list(zip(self.images.tolist(), *spans, strict=True))


class PoolRegions(AutogradFunction):
    """Sums over regions of images: out[k] = rows[k] @ x[images[k]] @ columns[k]ᵀ in each channel."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, regions: Regions) -> Tensor:
        ctx.regions, ctx.shape = regions, x.shape
        images, (_, rows, columns) = x.detach().numpy(), regions
        out = np.zeros((len(rows), x.shape[1], rows.shape[1], columns.shape[1]), images.dtype)
        for k, (image, high, wide) in enumerate(regions.windows()):
            out[k] = rows[k][:, high] @ images[image, :, high, wide] @ columns[k][:, wide].T
        return wrap(out)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        return SpreadRegions.apply(grads[0], ctx.regions, ctx.shape), None


class SpreadRegions(AutogradFunction):
    """The transpose of `PoolRegions`: each region's values go back to the elements that it is a sum of."""

    @staticmethod
    def forward(ctx: Any, g: Tensor, regions: Regions, shape: Shape) -> Tensor:
        ctx.regions = regions
        values, (_, rows, columns) = g.detach().numpy(), regions
        out = np.zeros(shape, values.dtype)
        for k, (image, high, wide) in enumerate(regions.windows()):
            out[image, :, high, wide] += rows[k][:, high].T @ values[k] @ columns[k][:, wide]
        return wrap(out)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        return PoolRegions.apply(grads[0], ctx.regions), None, None


def roi_align(
    input: Tensor,
    rois: Tensor,
    spatial_scale: float,
    pooled_height: int,
    pooled_width: int,
    sampling_ratio: int,
    aligned: bool,
) -> Tensor:
    """Average bilinear samples of each bin of each region. Source: Mask R-CNN, He et al. (2017).

    Shapes: input (n, c, height, width); rois (k, 5) as image, x1, y1, x2, y2; the result (k, c, h, w).
    """
    images, boxes = _split_rois("roi_align", input, rois)
    boxes = boxes * spatial_scale - (0.5 if aligned else 0.0)
    sizes = boxes[:, 2:] - boxes[:, :2]
    if not aligned:
        sizes = np.maximum(sizes, 1.0)
    weights = _sampling_weights(boxes, sizes, (pooled_height, pooled_width), input.shape, sampling_ratio)
    return _pool(input, images, weights)


def ps_roi_align(
    input: Tensor, rois: Tensor, spatial_scale: float, pooled_height: int, pooled_width: int, sampling_ratio: int
) -> tuple[Tensor, Tensor]:
    """`roi_align` of channels that are for one bin each: channel (c h + i) w + j gives bin (i, j) of result c.

    Returns: the result and the channel of each of its elements. Source: Light-Head R-CNN, Li et al. (2017).
    """
    pooled = roi_align(input, rois, spatial_scale, pooled_height, pooled_width, sampling_ratio, True)
    return _pick_own_channels("ps_roi_align", pooled)


def ps_roi_pool(
    input: Tensor, rois: Tensor, spatial_scale: float, pooled_height: int, pooled_width: int
) -> tuple[Tensor, Tensor]:
    """Average whole elements in each bin of each region, of channels that are for one bin each.

    Returns: the result and the channel of each of its elements. Source: R-FCN, Dai et al. (2016).
    """
    images, boxes = _split_rois("ps_roi_pool", input, rois)
    height, width = input.shape[2:]
    corners = _round_away(boxes * spatial_scale)
    # torchvision takes no bin up to the last row or column
    bounds = _bin_bounds(corners, 0, (pooled_height, pooled_width), (height - 1, width - 1))
    weights = []
    for (first, last), length in zip(bounds, (height, width), strict=True):
        inside = (np.arange(length) >= first[..., None]) & (np.arange(length) < last[..., None])
        weights.append(inside / np.maximum(last - first, 1)[..., None])
    return _pick_own_channels("ps_roi_pool", _pool(input, images, weights))


def roi_pool(
    input: Tensor, rois: Tensor, spatial_scale: float, pooled_height: int, pooled_width: int
) -> tuple[Tensor, Tensor]:
    """Take the maximum in each bin of each region; 0 in empty ones. Source: Fast R-CNN, Girshick (2015).

    Returns: the result and the place of each maximum in its channel, -1 where there is none.
    """
    images, boxes = _split_rois("roi_pool", input, rois)
    corners = _round_away(boxes * spatial_scale)
    (top, bottom), (left, right) = _bin_bounds(corners, 1, (pooled_height, pooled_width), input.shape[2:])
    values, width = input.detach().numpy(), input.shape[3]
    places = np.full((len(boxes), input.shape[1], pooled_height, pooled_width), -1)
    for k, i, j in np.ndindex(len(boxes), pooled_height, pooled_width):
        part = values[images[k], :, top[k, i] : bottom[k, i], left[k, j] : right[k, j]]
        if part.size:
            row, column = np.divmod(part.reshape(len(part), -1).argmax(1), part.shape[2])
            places[k, :, i, j] = (top[k, i] + row) * width + left[k, j] + column
    flat = input.reshape(*input.shape[:2], -1)[from_numpy(images)]
    found = gather(flat, 2, from_numpy(places.clip(0).reshape(*places.shape[:2], -1))).reshape(places.shape)
    return where(from_numpy(places >= 0), found, 0.0), from_numpy(places.astype(np.int32))


def deform_conv2d(
    input: Tensor,
    weight: Tensor,
    offset: Tensor,
    mask: Tensor,
    bias: Tensor,
    stride_h: int,
    stride_w: int,
    pad_h: int,
    pad_w: int,
    dilation_h: int,
    dilation_w: int,
    groups: int,
    offset_groups: int,
    use_mask: bool,
) -> Tensor:
    """Convolve with taps that are moved by `offset` and weighted by `mask`. Source: Zhu et al. (2019).

    Shapes: input (n, c, height, width); weight (o, c / groups, kh, kw); offset (n, 2 offset_groups kh kw, h, w), y and
    x for each tap; mask (n, offset_groups kh kw, h, w); bias (o,); the result (n, o, h, w).
    """
    n, channels, height, width = input.shape
    out_channels, _, kernel_h, kernel_w = weight.shape
    taps, (out_h, out_w) = kernel_h * kernel_w, offset.shape[2:]
    if offset.shape[1] != 2 * offset_groups * taps:
        raise RuntimeError(
            f"deform_conv2d: offset has {offset.shape[1]} channels, not 2 x {offset_groups} offset groups x {taps} taps"
        )
    moved = offset.reshape(n, offset_groups, taps, 2, out_h, out_w)
    tap_y, tap_x = np.divmod(np.arange(taps), kernel_w)
    base_y = (tap_y * dilation_h)[:, None, None] + (np.arange(out_h) * stride_h - pad_h)[:, None]
    base_x = (tap_x * dilation_w)[:, None, None] + (np.arange(out_w) * stride_w - pad_w)
    base_y, base_x = (np.broadcast_to(b, (taps, out_h, out_w)).astype(offset.array.dtype) for b in (base_y, base_x))
    sampled = _sample_bilinear(
        input.reshape(n, offset_groups, channels // offset_groups, height, width),
        moved[:, :, :, 0] + from_numpy(base_y),
        moved[:, :, :, 1] + from_numpy(base_x),
    )
    if use_mask:
        sampled = sampled * mask.reshape(n, offset_groups, 1, taps, out_h, out_w)
    columns = sampled.reshape(n, groups, channels // groups * taps, out_h * out_w)
    out = matmul(weight.reshape(groups, out_channels // groups, -1), columns)
    return out.reshape(n, out_channels, out_h, out_w) + bias.reshape(-1, 1, 1)


def _sample_bilinear(x: Tensor, y: Tensor, x_places: Tensor) -> Tensor:
    """Sample images between their elements; outside they are 0.

    Shapes: x (n, g, c, height, width); places (n, g, taps, h, w); the result (n, g, c, taps, h, w).
    """
    n, groups, channels, height, width = x.shape
    framed = pad(x, (1, 1, 1, 1)).reshape(n, groups, channels, -1)
    inside = (y > -1) & (y < height) & (x_places > -1) & (x_places < width)
    parts = []
    low_y, low_x = (floor(places.detach()) for places in (y, x_places))
    for step_y in (0, 1):
        for step_x in (0, 1):
            at_y = (low_y + step_y).clamp(-1, height).to(dtype=int64)
            at_x = (low_x + step_x).clamp(-1, width).to(dtype=int64)
            share_y = y - low_y if step_y else 1 - (y - low_y)
            share_x = x_places - low_x if step_x else 1 - (x_places - low_x)
            place = ((at_y + 1) * (width + 2) + at_x + 1).reshape(n, groups, 1, -1).expand(-1, -1, channels, -1)
            value = gather(framed, 3, place).reshape(n, groups, channels, *y.shape[2:])
            parts.append(value * where(inside, share_y * share_x, 0.0)[:, :, None])
    return parts[0] + parts[1] + parts[2] + parts[3]


def _split_rois(called: str, input: Tensor, rois: Tensor) -> tuple[Array, Array]:
    """The images and the boxes of regions. Raises: RuntimeError for other shapes and types."""
    if rois.ndim != 2 or rois.shape[1] != 5:
        raise RuntimeError(f"{called}: rois must have shape (K, 5), got {tuple(rois.shape)}")
    if input.dtype != rois.dtype:
        raise RuntimeError(f"{called}: input is {input.dtype}, and rois are {rois.dtype}")
    values = rois.detach().numpy()
    return values[:, 0].astype(np.int64), values[:, 1:]


def _pool(input: Tensor, images: Array, weights: list[Array]) -> Tensor:
    rows, columns = (w.astype(input.array.dtype) for w in weights)
    pooled: Tensor = PoolRegions.apply(input, Regions(images, rows, columns))
    return pooled


def _sampling_weights(boxes: Array, sizes: Array, counts: tuple[int, int], shape: Shape, ratio: int) -> list[Array]:
    """The weights of rows and columns in the mean of the samples of each bin: (k, h, height) and (k, w, width)."""
    samples = [
        np.full(len(boxes), ratio) if ratio > 0 else np.ceil(sizes[:, 1 - axis] / count).astype(np.int64)
        for axis, count in enumerate(counts)
    ]
    made = []
    for axis, (count, length) in enumerate(zip(counts, shape[2:], strict=True)):
        number = np.maximum(samples[axis], 1)  # none counts as one, and its mean as 0 below
        step = np.arange(number.max(initial=1))
        bin_size = sizes[:, 1 - axis] / count
        starts = boxes[:, 1 - axis, None] + np.arange(count) * bin_size[:, None]
        places = starts[..., None] + (step + 0.5) * (bin_size / number)[:, None, None]
        counts_in = (step < samples[axis][:, None, None]) & (places >= -1) & (places <= length)
        places = places.clip(0, length - 1)
        tents = np.maximum(1 - np.abs(places[..., None] - np.arange(length)), 0) * counts_in[..., None]
        made.append(tents.sum(2) / number[:, None, None])
    return made


def _bin_bounds(corners: Array, more: int, counts: Shape, limits: Shape) -> list[tuple[Array, Array]]:
    """The first row of each bin of a region and the one behind its last, (k, count); then the same of columns.

    `corners`: whole numbers; a region has `more` rows than they are apart, and at least one.
    """
    bounds = []
    for axis, (count, limit) in enumerate(zip(counts, limits, strict=True)):
        begin, end = corners[:, 1 - axis, None], corners[:, 3 - axis, None]
        steps = np.arange(count + 1).astype(corners.dtype) * (np.maximum(end - begin + more, 1) / count)
        first, last = np.floor(steps[:, :-1]) + begin, np.ceil(steps[:, 1:]) + begin
        bounds.append((first.clip(0, limit).astype(np.int64), last.clip(0, limit).astype(np.int64)))
    return bounds


def _pick_own_channels(called: str, pooled: Tensor) -> tuple[Tensor, Tensor]:
    """Of each bin the channels that are for it, and which these are."""
    _, channels, height, width = pooled.shape
    if channels % (height * width):
        raise RuntimeError(f"{called}: {channels} input channels are no multiple of {height} x {width}")
    own = np.arange(channels).reshape(-1, height, width)
    i, j = np.ogrid[:height, :width]
    picked = pooled[:, from_numpy(own), from_numpy(i), from_numpy(j)]
    return picked, from_numpy(np.broadcast_to(own, picked.shape).astype(np.int32))


def _round_away(x: Array) -> Array:
    """The nearest whole numbers, halves away from 0, as C rounds."""
    return np.copysign(np.floor(np.abs(x) + 0.5), x)


class VisionOps(SimpleNamespace):
    """`torch.ops.torchvision`: other names are those of gradients and of quantized and device variants."""

    def __getattr__(self, name: str) -> Function:
        if name.startswith("__"):
            raise AttributeError(name)

        def refuse(*args: object, **kwargs: object) -> NoReturn:
            raise NotImplementedError(f"torchvision::{name} is not here: only the operators of float tensors are")

        return _with_default(refuse)


def _with_default(function: Function) -> Function:
    """Give a function its only variant, by the name that programs use."""
    vars(function)["default"] = function
    return function


def make_vision_ops() -> VisionOps:
    """Return the operators under their names."""
    named = (nms, roi_align, ps_roi_align, ps_roi_pool, roi_pool, deform_conv2d)
    return VisionOps(_cuda_version=lambda: -1, **{f.__name__: _with_default(f) for f in named})
