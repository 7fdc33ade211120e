"""Conversion of what programs hand to a writer: tensors, arrays, numbers, figures and images of every layout."""

from __future__ import annotations

from importlib import import_module

import numpy as np

from adjoint.core.dtype.dtype import bfloat16
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Array


def to_array(x: object) -> Array:
    """Return a tensor, a number or nested lists of them as an array of at least one dimension."""
    if isinstance(x, Tensor):
        x = x.detach().cpu()
        x = (x.float() if x.dtype == bfloat16 else x).resolve_conj().numpy()  # NumPy has no bfloat16
    elif isinstance(x, (list, tuple)):
        x = [to_array(item) if isinstance(item, Tensor) else item for item in x]
    return np.atleast_1d(np.asarray(x))


def to_number(x: object) -> float:
    """Return a tensor or an array of one element, or a number, as a float. Raises ValueError for several elements."""
    array = to_array(x)
    if array.size != 1:
        raise ValueError(f"a scalar has one element, and this value has shape {array.shape}")
    return float(array.reshape(()))


def to_pixels(image: Array) -> Array:
    """Return bytes from 0 to 255: floating point images reach from 0 to 1, and bytes stay as they are."""
    scale = 1 if image.dtype == np.uint8 else 255
    return (image.astype(np.float32) * scale).clip(0, 255).astype(np.uint8)


def to_rgb(image: Array, layout: str) -> Array:
    """Return an image, or a batch of images as one grid, as (height, width, channel) with 3 or 4 channels.

    Shapes: `layout` names the dimensions of `image`: N, C, H, W, in any order; N and C may be missing.
    Raises: ValueError where they do not fit.
    """
    layout = layout.upper()
    if len(set(layout)) != len(layout) or not set("HW") <= set(layout) <= set("NCHW") or image.ndim != len(layout):
        raise ValueError(
            f"dataformats {layout!r} and an image of shape {image.shape}: each dimension is named once, "
            "by N, C, H or W, such as CHW, HWC, HW or NCHW"
        )
    if "N" in layout:
        order = [layout.index(name) for name in "NHWC" if name in layout]
        batch = image.transpose(order)
        return _make_grid(batch if "C" in layout else batch[..., None])
    order = [layout.index(name) for name in "HWC" if name in layout]
    image = image.transpose(order)
    return _repeat_gray(image if "C" in layout else image[..., None])


def figure_to_image(figures: object, close: bool = True) -> Array:
    """Draw one matplotlib figure or several, and return bytes.

    Shapes: (channel, height, width); for a list (figure, channel, height, width).
    """
    if isinstance(figures, list):
        return np.stack([figure_to_image(figure, close) for figure in figures])
    canvas = import_module("matplotlib.backends.backend_agg").FigureCanvasAgg(figures)
    canvas.draw()
    pixels = np.array(canvas.buffer_rgba(), dtype=np.uint8)[:, :, :3].transpose(2, 0, 1)
    if close:
        import_module("matplotlib.pyplot").close(figures)
    return pixels


def _make_grid(batch: Array) -> Array:
    """Return the images of a batch (N, H, W, C) side by side, at most eight in a row, the rest black."""
    count, height, width, channels = batch.shape
    columns = min(count, 8)
    rows = -(-count // columns)
    cells = np.zeros((rows * columns, height, width, channels), batch.dtype)
    cells[:count] = batch
    grid = cells.reshape(rows, columns, height, width, channels).transpose(0, 2, 1, 3, 4)
    return _repeat_gray(grid.reshape(rows * height, columns * width, channels))


def _repeat_gray(image: Array) -> Array:
    """Return an image of one channel as one of three."""
    return np.repeat(image, 3, axis=-1) if image.shape[-1] == 1 else image
