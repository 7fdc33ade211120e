"""`adjoint.utils.tensorboard.SummaryWriter`: PyTorch's writer of what TensorBoard shows."""

from __future__ import annotations

import socket
import time
from collections.abc import Mapping, Sequence, Sized
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Self

from adjoint.core.runtime.text_table import pluralize
from adjoint.nn.module.module import Module
from adjoint.utils.tensorboard import summary
from adjoint.utils.tensorboard.arrays import figure_to_image
from adjoint.utils.tensorboard.embedding import write_embedding
from adjoint.utils.tensorboard.file_writer import FileWriter, Step, import_tensorboard
from adjoint.utils.tensorboard.model_graph import make_model_graph


class SummaryWriter:
    """Writer of scalars, histograms, images and more to event files, which TensorBoard shows.

    Needs the package tensorboard. Tensors, arrays and numbers are taken alike.

    >>> from adjoint.utils.tensorboard import SummaryWriter  # doctest: +SKIP
    >>> with SummaryWriter("runs/first") as writer:          # doctest: +SKIP
    ...     writer.add_scalar("loss", loss, step)
    """

    def __init__(
        self,
        log_dir: str | Path | None = None,
        comment: str = "",
        purge_step: int | None = None,
        max_queue: int = 10,
        flush_secs: int = 120,
        filename_suffix: str = "",
    ) -> None:
        if not log_dir:
            now = datetime.now().strftime("%b%d_%H-%M-%S")  # noqa: DTZ005  the reader's own time
            log_dir = str(Path("runs") / f"{now}_{socket.gethostname()}{comment}")
        self.log_dir = str(log_dir)
        self.purge_step = purge_step
        self.max_queue, self.flush_secs, self.filename_suffix = max_queue, flush_secs, filename_suffix
        self.file_writer: FileWriter | None = None
        self.all_writers: dict[str, FileWriter] | None = None
        self.default_bins = _make_default_bins()
        self._get_file_writer()

    def _get_file_writer(self) -> FileWriter:
        """Return the writer of the main event file; after `close`, that of a new file."""
        if self.all_writers is None or self.file_writer is None:
            options = (self.max_queue, self.flush_secs, self.filename_suffix)
            self.file_writer = FileWriter(self.log_dir, *options)
            self.all_writers = {self.log_dir: self.file_writer}
            if self.purge_step is not None:  # what another process wrote from this step on is not shown
                protos = import_tensorboard("compat.proto.event_pb2")
                self.file_writer.add_event(protos.Event(step=self.purge_step, file_version="brain.Event:2"))
                start = protos.SessionLog(status=protos.SessionLog.START)
                self.file_writer.add_event(protos.Event(step=self.purge_step, session_log=start))
                self.purge_step = None
        return self.file_writer

    def get_logdir(self) -> str:
        """Return the folder of the event files."""
        return self.log_dir

    def add_scalar(
        self,
        tag: str,
        scalar_value: object,
        global_step: Step = None,
        walltime: float | None = None,
        new_style: bool = False,
        double_precision: bool = False,
    ) -> None:
        """Write one number."""
        made = summary.scalar(tag, scalar_value, new_style=new_style, double_precision=double_precision)
        self._get_file_writer().add_summary(made, global_step, walltime)

    def add_scalars(
        self,
        main_tag: str,
        tag_scalar_dict: Mapping[str, object],
        global_step: Step = None,
        walltime: float | None = None,
    ) -> None:
        """Write several numbers that one chart shows, each to an event file of its own."""
        walltime = time.time() if walltime is None else walltime
        made = {tag: summary.scalar(main_tag, value) for tag, value in tag_scalar_dict.items()}
        main = self._get_file_writer()
        writers = self.all_writers or {}
        for tag, value in made.items():
            folder = f"{main.get_logdir()}/{main_tag.replace('/', '_')}_{tag}"
            if folder not in writers:
                writers[folder] = FileWriter(folder, self.max_queue, self.flush_secs, self.filename_suffix)
            writers[folder].add_summary(value, global_step, walltime)

    def add_tensor(self, tag: str, tensor: object, global_step: Step = None, walltime: float | None = None) -> None:
        """Write a whole tensor."""
        self._get_file_writer().add_summary(summary.tensor_proto(tag, tensor), global_step, walltime)

    def add_histogram(
        self,
        tag: str,
        values: object,
        global_step: Step = None,
        bins: object = "tensorflow",
        walltime: float | None = None,
        max_bins: int | None = None,
    ) -> None:
        """Write the histogram of values.

        `bins` are edges, the name of a rule of `numpy.histogram`, or "tensorflow": edges that grow by a tenth.
        Raises: ValueError for no values, or for values that are not finite.
        """
        edges = self.default_bins if isinstance(bins, str) and bins == "tensorflow" else bins
        made = summary.histogram(tag, values, edges, max_bins)
        self._get_file_writer().add_summary(made, global_step, walltime)

    def add_histogram_raw(
        self,
        tag: str,
        min: float,
        max: float,
        num: float,
        sum: float,
        sum_squares: float,
        bucket_limits: Sequence[float],
        bucket_counts: Sequence[float],
        global_step: Step = None,
        walltime: float | None = None,
    ) -> None:
        """Write a histogram that the caller has counted. Raises ValueError where limits and counts differ in number."""
        if len(bucket_limits) != len(bucket_counts):
            raise ValueError(
                f"add_histogram_raw: {len(bucket_limits)} bucket_limits and {len(bucket_counts)} bucket_counts: "
                "each bucket has both"
            )
        made = summary.histogram_raw(tag, min, max, num, sum, sum_squares, bucket_limits, bucket_counts)
        self._get_file_writer().add_summary(made, global_step, walltime)

    def add_image(
        self,
        tag: str,
        img_tensor: object,
        global_step: Step = None,
        walltime: float | None = None,
        dataformats: str = "CHW",
    ) -> None:
        """Write an image: floating point numbers from 0 to 1, or bytes."""
        made = summary.image(tag, img_tensor, dataformats=dataformats)
        self._get_file_writer().add_summary(made, global_step, walltime)

    def add_images(
        self,
        tag: str,
        img_tensor: object,
        global_step: Step = None,
        walltime: float | None = None,
        dataformats: str = "NCHW",
    ) -> None:
        """Write a batch of images as one grid, eight in a row."""
        self.add_image(tag, img_tensor, global_step, walltime, dataformats)

    def add_image_with_boxes(
        self,
        tag: str,
        img_tensor: object,
        box_tensor: Sized,
        global_step: Step = None,
        walltime: float | None = None,
        rescale: float = 1,
        dataformats: str = "CHW",
        labels: str | Sequence[str] | None = None,
    ) -> None:
        """Write an image with boxes (left, top, right, bottom) drawn on it.

        Raises: ValueError where there are not as many labels as boxes.
        """
        names = [labels] if isinstance(labels, str) else labels
        if names is not None and len(names) != len(box_tensor):
            raise ValueError(
                f"add_image_with_boxes: {pluralize(len(names), 'label')} and "
                f"{pluralize(len(box_tensor), 'box', 'boxes')}"
            )
        made = summary.image_boxes(tag, img_tensor, box_tensor, rescale, dataformats, names)
        self._get_file_writer().add_summary(made, global_step, walltime)

    def add_figure(
        self, tag: str, figure: object, global_step: Step = None, close: bool = True, walltime: float | None = None
    ) -> None:
        """Write a figure of matplotlib, or a list of them as one grid; `close` closes them."""
        layout = "NCHW" if isinstance(figure, list) else "CHW"
        self.add_image(tag, figure_to_image(figure, close), global_step, walltime, layout)

    def add_video(
        self, tag: str, vid_tensor: object, global_step: Step = None, fps: float = 4, walltime: float | None = None
    ) -> None:
        """Write videos (video, time, channel, height, width) as one animation."""
        self._get_file_writer().add_summary(summary.video(tag, vid_tensor, fps), global_step, walltime)

    def add_audio(
        self,
        tag: str,
        snd_tensor: object,
        global_step: Step = None,
        sample_rate: int = 44100,
        walltime: float | None = None,
    ) -> None:
        """Write one channel of sound, numbers from -1 to 1."""
        self._get_file_writer().add_summary(summary.audio(tag, snd_tensor, sample_rate), global_step, walltime)

    def add_text(self, tag: str, text_string: str, global_step: Step = None, walltime: float | None = None) -> None:
        """Write a text in Markdown."""
        self._get_file_writer().add_summary(summary.text(tag, text_string), global_step, walltime)

    def add_graph(
        self, model: Module, input_to_model: object = None, verbose: bool = False, use_strict_trace: bool = True
    ) -> None:
        """Write the graph that backward walks of a call `model(*input_to_model)`, ops grouped by their modules."""
        self._get_file_writer().add_graph(make_model_graph(model, input_to_model))

    def add_embedding(
        self,
        mat: object,
        metadata: Sequence[object] | None = None,
        label_img: Sequence[object] | None = None,
        global_step: Step = None,
        tag: str = "default",
        metadata_header: Sequence[str] | None = None,
    ) -> None:
        """Write vectors for the projector, with a label and a small image for each."""
        folder = self._get_file_writer().get_logdir()
        write_embedding(folder, mat, metadata, label_img, global_step, tag, metadata_header)

    def add_pr_curve(
        self,
        tag: str,
        labels: object,
        predictions: object,
        global_step: Step = None,
        num_thresholds: int = 127,
        weights: object = None,
        walltime: float | None = None,
    ) -> None:
        """Write precision against recall of binary labels and predicted probabilities."""
        made = summary.pr_curve(tag, labels, predictions, num_thresholds, weights)
        self._get_file_writer().add_summary(made, global_step, walltime)

    def add_pr_curve_raw(
        self,
        tag: str,
        true_positive_counts: object,
        false_positive_counts: object,
        true_negative_counts: object,
        false_negative_counts: object,
        precision: object,
        recall: object,
        global_step: Step = None,
        num_thresholds: int = 127,
        weights: object = None,
        walltime: float | None = None,
    ) -> None:
        """Write precision against recall that the caller has counted."""
        counts = (true_positive_counts, false_positive_counts, true_negative_counts, false_negative_counts)
        made = summary.pr_curve_raw(tag, *counts, precision, recall, num_thresholds, weights)
        self._get_file_writer().add_summary(made, global_step, walltime)

    def add_custom_scalars(self, layout: summary.Layout) -> None:
        """Arrange scalars in charts: {category: {title: ["Multiline" or "Margin", tags]}}."""
        self._get_file_writer().add_summary(summary.custom_scalars(layout))

    def add_custom_scalars_multilinechart(
        self, tags: Sequence[str], category: str = "default", title: str = "untitled"
    ) -> None:
        """Show several scalars in one chart."""
        self.add_custom_scalars({category: {title: ["Multiline", tags]}})

    def add_custom_scalars_marginchart(
        self, tags: Sequence[str], category: str = "default", title: str = "untitled"
    ) -> None:
        """Show a scalar between two others: value, lower, upper. Raises ValueError for another number of tags."""
        if len(tags) != 3:
            raise ValueError(f"a margin chart has three tags, value, lower and upper, and not {len(tags)}")
        self.add_custom_scalars({category: {title: ["Margin", tags]}})

    def add_mesh(
        self,
        tag: str,
        vertices: object,
        colors: object = None,
        faces: object = None,
        config_dict: Mapping[str, object] | None = None,
        global_step: Step = None,
        walltime: float | None = None,
    ) -> None:
        """Write points or meshes in three dimensions."""
        made = summary.mesh(tag, vertices, colors, faces, config_dict)
        self._get_file_writer().add_summary(made, global_step, walltime)

    def add_hparams(
        self,
        hparam_dict: Mapping[str, object],
        metric_dict: Mapping[str, object],
        hparam_domain_discrete: Mapping[str, Sequence[object]] | None = None,
        run_name: str | None = None,
        global_step: Step = None,
    ) -> None:
        """Write a run's hyperparameters and the metrics that it reached, to a folder of its own."""
        messages = summary.hparams(hparam_dict, metric_dict, hparam_domain_discrete)
        folder = Path(self._get_file_writer().get_logdir()) / (run_name or str(time.time()))
        with SummaryWriter(log_dir=folder) as run:
            for message in messages:
                run._get_file_writer().add_summary(message, global_step)
            for name, value in metric_dict.items():
                run.add_scalar(name, value, global_step)

    def flush(self) -> None:
        """Write out what waits."""
        for writer in (self.all_writers or {}).values():
            writer.flush()

    def close(self) -> None:
        """Write out what waits, and close the files; what is added later goes to new ones."""
        for writer in (self.all_writers or {}).values():
            writer.flush()
            writer.close()
        self.file_writer = self.all_writers = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def _make_default_bins() -> list[float]:
    """Return TensorFlow's edges: from 1e-12 by a tenth more each, below 1e20; their negatives; and zero."""
    edges = []
    edge = 1e-12
    while edge < 1e20:
        edges.append(edge)
        edge *= 1.1
    return [-edge for edge in reversed(edges)] + [0.0] + edges
