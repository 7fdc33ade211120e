"""Small pictures of arrays, within HTML: PNG images, heat maps, curves and histograms."""

from __future__ import annotations

import struct
import zlib
from base64 import b64encode

import numpy as np

from adjoint.core.typing import Array

MAX_IMAGE_SIDE = 256  # pixels; of larger ones every n-th is shown
MIN_IMAGE_SIDE = 8
MAX_MAP_SIDE = 64
MIN_SHOWN_SIDE = 96  # pixels on the screen
MAX_SHOWN_SIDE = 240
MAX_TILES = 8  # of a batch of images
BINS = 24
WIDTH, HEIGHT = 240, 60  # of curves and histograms
POSITIVE, NEGATIVE, UNDEFINED = (217, 130, 43), (43, 111, 217), (200, 0, 120)
COLOR_TYPES = {1: 0, 3: 2, 4: 6}  # PNG's, by channels


def encode_png(pixels: Array) -> bytes:
    """Return the PNG file of uint8 pixels of shape (height, width, channels), with 1, 3 or 4 channels."""
    height, width, channels = pixels.shape
    rows = np.zeros((height, 1 + width * channels), np.uint8)  # each after the byte of its filter
    rows[:, 1:] = pixels.reshape(height, -1)

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, COLOR_TYPES[channels], 0, 0, 0)
    chunks = [chunk(b"IHDR", header), chunk(b"IDAT", zlib.compress(rows.tobytes(), 6)), chunk(b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


def as_pixels(array: Array) -> Array | None:
    """Return the pixels of an image, or of a batch side by side: uint8, (height, width, channels); None for no image.

    An image is (H, W), (C, H, W) or (H, W, C), a batch (N, C, H, W), of uint8 or of floats from 0 to 1.
    """
    if array.ndim not in (2, 3, 4) or array.dtype.kind not in "ufV" or 0 in array.shape:
        return None
    if array.dtype.kind == "u" and array.dtype.itemsize != 1:
        return None
    if array.ndim == 2:
        images = array[None, ..., None]
    elif array.ndim == 3 and array.shape[0] in COLOR_TYPES and array.shape[2] not in (3, 4):
        images = array.transpose(1, 2, 0)[None]
    elif array.ndim == 3:
        images = array[None]
    else:
        images = array[:MAX_TILES].transpose(0, 2, 3, 1)
    _, height, width, channels = images.shape
    if channels not in COLOR_TYPES or min(height, width) < MIN_IMAGE_SIDE:
        return None
    images = images[:, :: -(-height // MAX_IMAGE_SIDE), :: -(-width // MAX_IMAGE_SIDE)]
    image = images.swapaxes(0, 1).reshape(images.shape[1], -1, channels)
    if array.dtype.kind == "u":
        return image
    values = image.astype(np.float64)
    if not (values.min() >= 0 and values.max() <= 1):  # NaN is in neither
        return None
    return np.rint(255 * values).astype(np.uint8)


def render_image(pixels: Array, text: str) -> str:
    """Render pixels as an image within the page; `text` says what it shows."""
    height, width = pixels.shape[:2]
    scale = max(1.0, MIN_SHOWN_SIDE / max(height, 1), MIN_SHOWN_SIDE / max(width, 1))
    scale = min(scale, MAX_SHOWN_SIDE / max(height, 1))
    data = b64encode(encode_png(pixels)).decode()
    return (
        f'<img alt="{text}" title="{text}" width="{width * scale:.0f}" height="{height * scale:.0f}" '
        f'src="data:image/png;base64,{data}">'
    )


def render_heat_map(matrix: Array) -> str:
    """Render a matrix as a heat map: positive values orange, negative ones blue, each as opaque as it is large."""
    matrix = matrix[:: -(-matrix.shape[0] // MAX_MAP_SIDE), :: -(-matrix.shape[1] // MAX_MAP_SIDE)]
    values = matrix.astype(np.float64)
    is_finite = np.isfinite(values)
    largest = float(np.abs(values[is_finite]).max(initial=0.0)) or 1.0
    values = np.where(is_finite, values, 0.0) / largest
    pixels = np.empty((*values.shape, 4), np.uint8)
    pixels[..., :3] = np.where((values < 0)[..., None], NEGATIVE, POSITIVE)
    pixels[..., 3] = np.rint(255 * np.abs(values))
    pixels[~is_finite] = (*UNDEFINED, 255)
    undefined = "" if is_finite.all() else "; NaN and infinite values pink"
    return render_image(pixels, f"values from {-largest:.4g} (blue) to {largest:.4g} (orange){undefined}")


def render_curve(values: Array) -> str:
    """Render a vector as a curve: of many values the least and the greatest of each stretch."""
    values = values.astype(np.float64)
    places = np.arange(len(values))
    if len(values) > 2 * WIDTH:
        starts = np.linspace(0, len(values), WIDTH, endpoint=False).astype(int)
        values = np.stack([np.fmin.reduceat(values, starts), np.fmax.reduceat(values, starts)], 1).ravel()
        places = np.repeat(starts, 2)
    finite = values[np.isfinite(values)]
    low, high = float(finite.min(initial=np.inf)), float(finite.max(initial=-np.inf))
    if not finite.size:
        return ""
    across = (WIDTH - 4) / max(1, places[-1])
    up = (HEIGHT - 8) / ((high - low) or 1.0)
    path, is_drawn = [], False
    for place, value in zip(places.tolist(), values.tolist(), strict=True):
        if not np.isfinite(value):
            is_drawn = False
            continue
        path.append(f"{'L' if is_drawn else 'M'}{2 + across * place:.1f} {HEIGHT - 4 - up * (value - low):.1f}")
        is_drawn = True
    drawing = f'<path d="{"".join(path)}" fill="none" stroke="currentColor" stroke-linecap="round"/>'
    return _render_svg(drawing, f"values from {low:.4g} to {high:.4g}, by place")


def render_histogram(values: Array) -> str:
    """Render how often values occur, as bars."""
    finite = values[np.isfinite(values)].astype(np.float64)
    if not finite.size or not np.isfinite(float(finite.max()) - float(finite.min())):
        return ""
    counts, edges = np.histogram(finite, BINS)
    wide = WIDTH / BINS
    bars = "".join(
        f'<rect x="{i * wide:.1f}" y="{HEIGHT - (high := (HEIGHT - 4) * count / max(counts)):.1f}" '
        f'width="{wide - 1:.1f}" height="{high:.1f}" fill="currentColor"/>'
        for i, count in enumerate(counts.tolist())
        if count
    )
    return _render_svg(bars, f"how often values occur, from {edges[0]:.4g} to {edges[-1]:.4g}")


def _render_svg(drawing: str, text: str) -> str:
    return (
        f'<svg width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{text}">'
        f"<title>{text}</title>{drawing}</svg>"
    )
