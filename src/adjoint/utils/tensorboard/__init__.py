"""`adjoint.utils.tensorboard`: PyTorch's writer of TensorBoard's event files.

Modules, in reading order:

- `arrays`: Conversion of what programs hand to a writer: tensors, arrays, numbers, figures and images of every
  layout.
- `embedding`: Vectors, labels and small images for TensorBoard's projector.
- `file_writer`: Writer of one event file, by TensorBoard's own writer, and the import of TensorBoard's modules.
- `image_files`: PNG and GIF files of pixels, by the package pillow.
- `model_graph`: Graph of a model's call for TensorBoard: the nodes that backward walks, named by the modules that
  made them.
- `summary`: Summaries, the messages that TensorBoard shows: one function for each kind of data.
- `writer`: `adjoint.utils.tensorboard.SummaryWriter`: PyTorch's writer of what TensorBoard shows.
"""

from __future__ import annotations

from typing import Any

__all__ = ["FileWriter", "SummaryWriter"]


def __getattr__(name: str) -> Any:
    """Find a public name. Raises ImportError without the package tensorboard, which programs catch at their import."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from adjoint.utils.tensorboard import file_writer, writer

    file_writer.import_tensorboard("version")
    return writer.SummaryWriter if name == "SummaryWriter" else file_writer.FileWriter
