"""PNG and GIF files of pixels, by the package pillow."""

from __future__ import annotations

import io
from collections.abc import Sequence
from importlib import import_module
from types import ModuleType

from adjoint.core.typing import Array

BOX_COLOR = "red"
LABEL_HEIGHT_PIXELS = 13


def encode_png(
    pixels: Array,
    rescale: float = 1,
    boxes: Sequence[Sequence[float]] = (),
    labels: Sequence[str] | None = None,
) -> bytes:
    """Return a PNG file of bytes (height, width, channel), with boxes (left, top, right, bottom) and labels on it."""
    picture = _import_pillow("Image").fromarray(pixels)
    if boxes:
        draw = _import_pillow("ImageDraw").Draw(picture)
        for i, (left, top, right, bottom) in enumerate(boxes):
            corners = [(left, top), (left, bottom), (right, bottom), (right, top), (left, top)]
            draw.line(corners, width=2, fill=BOX_COLOR)
            if labels is not None:
                draw.text((left + 3, max(bottom - LABEL_HEIGHT_PIXELS, top)), str(labels[i]), fill=BOX_COLOR)
    if rescale != 1:
        picture = picture.resize((int(picture.width * rescale), int(picture.height * rescale)), resample=1)  # Lanczos
    file = io.BytesIO()
    picture.save(file, format="PNG")
    return file.getvalue()


def encode_gif(frames: Sequence[Array], frames_per_second: float) -> bytes:
    """Return an animated GIF file of frames (height, width, channel) of bytes, which begins again at its end."""
    first, *rest = map(_import_pillow("Image").fromarray, frames)
    file = io.BytesIO()
    first.save(file, format="GIF", save_all=True, append_images=rest, duration=1000 / frames_per_second, loop=0)
    return file.getvalue()


def _import_pillow(name: str) -> ModuleType:
    """Import a module of Pillow. Raises ImportError that says what to install."""
    try:
        return import_module(f"PIL.{name}")
    except ImportError as error:
        raise ImportError("images need the package pillow, which is not installed: pip install pillow") from error
