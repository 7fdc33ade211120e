"""Writer of one event file, by TensorBoard's own writer, and the import of TensorBoard's modules."""

from __future__ import annotations

import time
from importlib import import_module
from types import ModuleType
from typing import Any, SupportsInt, TypeAlias

Message: TypeAlias = Any  # a message of protobuf, whose classes have no types
Step: TypeAlias = SupportsInt | None  # a tensor or a number of NumPy's counts too


def import_tensorboard(name: str) -> ModuleType:
    """Import the module `tensorboard.<name>`.

    Raises: ImportError that says what to install.
    """
    try:
        return import_module(f"tensorboard.{name}")
    except ModuleNotFoundError as error:
        if not (error.name or "").startswith("tensorboard"):
            raise  # it is installed, and misses something of its own
        raise ImportError(
            "adjoint.utils.tensorboard needs the package tensorboard, which is not installed: pip install tensorboard"
        ) from error


class FileWriter:
    """Writer of summaries and graphs to an event file in `log_dir`; a thread of TensorBoard's does the writing."""

    def __init__(self, log_dir: str, max_queue: int = 10, flush_secs: int = 120, filename_suffix: str = "") -> None:
        self.log_dir = str(log_dir)
        self.event_writer = import_tensorboard("summary.writer.event_file_writer").EventFileWriter(
            self.log_dir, max_queue, flush_secs, filename_suffix
        )

    def get_logdir(self) -> str:
        """Return the folder of the event file."""
        return self.log_dir

    def add_event(self, event: Message, step: Step = None, walltime: float | None = None) -> None:
        """Write an event, as of now or of `walltime`, in seconds since 1970."""
        event.wall_time = time.time() if walltime is None else walltime
        if step is not None:
            event.step = int(step)
        self.event_writer.add_event(event)

    def add_summary(self, summary: Message, global_step: Step = None, walltime: float | None = None) -> None:
        """Write a summary."""
        self.add_event(import_tensorboard("compat.proto.event_pb2").Event(summary=summary), global_step, walltime)

    def add_graph(self, graph: Message, walltime: float | None = None) -> None:
        """Write a graph, a GraphDef."""
        event = import_tensorboard("compat.proto.event_pb2").Event(graph_def=graph.SerializeToString())
        self.add_event(event, None, walltime)

    def flush(self) -> None:
        """Write out what waits."""
        self.event_writer.flush()

    def close(self) -> None:
        """Write out what waits, and close the file."""
        self.event_writer.close()

    def reopen(self) -> None:
        """Do nothing: a closed writer opens a new file with its next event."""
