"""Vectors, labels and small images for TensorBoard's projector."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from adjoint.core.runtime.text_table import pluralize
from adjoint.core.typing import Array
from adjoint.utils.tensorboard.arrays import to_array, to_pixels
from adjoint.utils.tensorboard.file_writer import Step
from adjoint.utils.tensorboard.image_files import encode_png

CONFIG = "projector_config.pbtxt"


def write_embedding(
    log_dir: str,
    mat: object,
    metadata: Sequence[object] | None,
    label_img: Sequence[object] | None,
    global_step: Step,
    tag: str,
    metadata_header: Sequence[str] | None,
) -> None:
    """Write the rows of `mat` to `log_dir`, and name them in the projector's configuration.

    Shapes: mat (n, features); n labels; label_img (n, channel, size, size).
    Raises: ValueError where the numbers differ.
    """
    vectors = to_array(mat)
    if vectors.ndim != 2:
        raise ValueError(f"add_embedding: mat has a row for each point, and its shape is {vectors.shape}")
    for name, rows in (("metadata", metadata), ("label_img", label_img)):
        if rows is not None and len(rows) != len(vectors):
            raise ValueError(
                f"add_embedding: {name} has {pluralize(len(rows), 'entry', 'entries')}, and mat "
                f"{pluralize(len(vectors), 'row')}"
            )
    step = 0 if global_step is None else int(global_step)
    part = Path(f"{step:05d}") / tag.replace("/", "%2f")
    folder = Path(log_dir) / part
    folder.mkdir(parents=True, exist_ok=True)
    _write_table(folder / "tensors.tsv", vectors.tolist())
    lines = [f'tensor_name: "{tag}:{step:05d}"', f'tensor_path: "{(part / "tensors.tsv").as_posix()}"']
    if metadata is not None:
        table: list[Sequence[object]] = [row if isinstance(row, (list, tuple)) else [row] for row in metadata]
        _write_table(folder / "metadata.tsv", [metadata_header, *table] if metadata_header else table)
        lines.append(f'metadata_path: "{(part / "metadata.tsv").as_posix()}"')
    if label_img is not None:
        images = to_array(label_img)
        _write_sprite(folder / "sprite.png", images)
        lines.append(
            f'sprite {{\n  image_path: "{(part / "sprite.png").as_posix()}"\n'
            f"  single_image_dim: {images.shape[3]}\n  single_image_dim: {images.shape[2]}\n}}"
        )
    body = "\n".join(lines).replace("\n", "\n  ")
    with (Path(log_dir) / CONFIG).open("a", encoding="utf-8") as file:
        file.write(f"embeddings {{\n  {body}\n}}\n")


def _write_table(path: Path, rows: Sequence[Sequence[object]]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, delimiter="\t", lineterminator="\n").writerows(rows)


def _write_sprite(path: Path, images: Array) -> None:
    """Write the images (n, channel, size, size) as a square of them.

    Raises: ValueError for images that are not square.
    """
    count, channels, height, width = images.shape
    if height != width:
        raise ValueError(f"add_embedding: images of label_img are square, and these are {height} by {width}")
    side = int(np.ceil(np.sqrt(count)))
    cells = np.zeros((side * side, channels, height, width), images.dtype)
    cells[:count] = images
    rows = cells.reshape(side, side, channels, height, width).transpose(0, 3, 1, 4, 2)
    sheet = rows.reshape(side * height, side * width, channels)
    path.write_bytes(encode_png(to_pixels(np.repeat(sheet, 3, 2) if channels == 1 else sheet)))
