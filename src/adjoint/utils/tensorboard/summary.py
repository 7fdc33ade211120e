"""Summaries, the messages that TensorBoard shows: one function for each kind of data.

The messages are those that PyTorch's writer makes, so that programs which read event files find the same values.
"""

from __future__ import annotations

import io
import json
import wave
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from adjoint.core.typing import Array
from adjoint.utils.tensorboard.arrays import to_array, to_number, to_pixels, to_rgb
from adjoint.utils.tensorboard.file_writer import Message, import_tensorboard
from adjoint.utils.tensorboard.image_files import encode_gif, encode_png

# {category: {title: [kind, tags]}}
Layout: TypeAlias = Mapping[str, Mapping[str, Sequence[Any]]]
MAX_PR_THRESHOLDS = 127  # TensorBoard shows no more


def scalar(
    name: str, tensor: object, collections: None = None, new_style: bool = False, double_precision: bool = False
) -> Message:
    """Make the summary of one number; `new_style` writes a tensor of it, in double precision where that is asked."""
    value = to_number(tensor)
    if not new_style:
        return _summarize(tag=name, simple_value=value)
    return _summarize_array(name, np.asarray(value, np.float64 if double_precision else np.float32), "scalars")


def tensor_proto(tag: str, tensor: object) -> Message:
    """Make the summary of a whole tensor."""
    return _summarize_array(tag, to_array(tensor), "tensor")


def histogram(name: str, values: object, bins: object, max_bins: int | None = None) -> Message:
    """Make the summary of how values are distributed over `bins`, edges or the name of one of NumPy's rules.

    Raises: ValueError for no values, or for values that are not finite.
    """
    numbers = to_array(values).reshape(-1).astype(np.float64)
    if not numbers.size:
        raise ValueError(f"histogram {name!r}: there are no values")
    if not np.isfinite(numbers).all():
        raise ValueError(f"histogram {name!r}: there are NaN or infinite values")
    counts, limits = np.histogram(numbers, bins=bins if isinstance(bins, str) else to_array(bins))
    if max_bins is not None and len(counts) > max_bins:
        group = len(counts) // max_bins
        counts = np.pad(counts, (0, -len(counts) % group)).reshape(-1, group).sum(1)
        limits = np.append(limits[:-1:group], limits[-1])
    filled = np.flatnonzero(counts)
    # an empty bucket before the first one that has values says where that begins
    first, last = (filled[0], filled[-1] + 1) if len(filled) else (0, 0)
    counts = np.concatenate([[0], counts[:last]]) if first == 0 else counts[first - 1 : last]
    kept = limits[first : last + 1]
    total, squares = float(numbers.sum()), float(numbers.dot(numbers))
    ends = float(numbers.min()), float(numbers.max())
    return histogram_raw(name, *ends, numbers.size, total, squares, kept.tolist(), counts.tolist())


def histogram_raw(
    name: str,
    min: float,
    max: float,
    num: float,
    sum: float,
    sum_squares: float,
    bucket_limits: Sequence[float],
    bucket_counts: Sequence[float],
) -> Message:
    """Make the summary of a histogram that the caller has counted."""
    histo = import_tensorboard("compat.proto.summary_pb2").HistogramProto(
        min=min, max=max, num=num, sum=sum, sum_squares=sum_squares, bucket_limit=bucket_limits, bucket=bucket_counts
    )
    return _summarize(tag=name, histo=histo)


def image(tag: str, tensor: object, rescale: float = 1, dataformats: str = "NCHW") -> Message:
    """Make the summary of an image, or of a batch of images as a grid."""
    return _summarize(tag=tag, image=_make_image(to_pixels(to_rgb(to_array(tensor), dataformats)), rescale))


def image_boxes(
    tag: str,
    tensor_image: object,
    tensor_boxes: object,
    rescale: float = 1,
    dataformats: str = "CHW",
    labels: Sequence[str] | None = None,
) -> Message:
    """Make the summary of an image with boxes (left, top, right, bottom), drawn in red, and their labels."""
    pixels = to_pixels(to_rgb(to_array(tensor_image), dataformats))
    boxes = to_array(tensor_boxes).reshape(-1, 4).tolist()
    return _summarize(tag=tag, image=_make_image(pixels, rescale, boxes, labels))


def video(tag: str, tensor: object, fps: float = 4) -> Message:
    """Make the summary of videos, side by side, as one animated GIF.

    Shapes: (video, time, channel, height, width).
    """
    frames = to_array(tensor)
    if frames.ndim != 5:
        raise ValueError(f"video {tag!r}: expected (N, T, C, H, W), and the shape is {frames.shape}")
    grids = [to_pixels(to_rgb(frames[:, i], "NCHW")) for i in range(frames.shape[1])]
    height, width, channels = grids[0].shape
    proto = import_tensorboard("compat.proto.summary_pb2").Summary.Image
    made = proto(height=height, width=width, colorspace=channels, encoded_image_string=encode_gif(grids, fps))
    return _summarize(tag=tag, image=made)


def audio(tag: str, tensor: object, sample_rate: int = 44100) -> Message:
    """Make the summary of one channel of sound from -1 to 1, as a WAV file of 16 bits."""
    samples = to_array(tensor).squeeze()
    if samples.ndim != 1:
        shape = to_array(tensor).shape
        raise ValueError(f"audio {tag!r}: expected one channel, (1, L) or (L,), and the shape is {shape}")
    file = io.BytesIO()
    with wave.open(file, "wb") as wav:
        wav.setnchannels(1)
        wav.setsampwidth(2)
        wav.setframerate(sample_rate)
        wav.writeframes((samples.clip(-1, 1) * np.iinfo(np.int16).max).astype("<i2").tobytes())
    made = import_tensorboard("compat.proto.summary_pb2").Summary.Audio(
        sample_rate=sample_rate,
        num_channels=1,
        length_frames=len(samples),
        encoded_audio_string=file.getvalue(),
        content_type="audio/wav",
    )
    return _summarize(tag=tag, audio=made)


def text(tag: str, text: str) -> Message:
    """Make the summary of a text in Markdown."""
    return _summarize_array(f"{tag}/text_summary", np.array([text.encode()], dtype=object), "text")


def pr_curve(
    tag: str, labels: object, predictions: object, num_thresholds: int = 127, weights: object = None
) -> Message:
    """Make the summary of precision against recall at evenly spaced thresholds.

    `labels` are 0 or 1, `predictions` probabilities.
    """
    count = min(num_thresholds, MAX_PR_THRESHOLDS)
    truth, chances = to_array(labels).reshape(-1).astype(float), to_array(predictions).reshape(-1).astype(float)
    weight = np.ones_like(truth) if weights is None else to_array(weights).reshape(-1).astype(float)
    buckets = np.floor(chances * (count - 1)).astype(int)
    hits, alarms = (
        np.histogram(buckets, bins=count, range=(0, count - 1), weights=part * weight)[0][::-1].cumsum()[::-1]
        for part in (truth, 1 - truth)
    )
    smallest = 1e-7  # keeps the quotients defined where nothing is predicted
    precision, recall = hits / np.maximum(hits + alarms, smallest), hits / np.maximum(hits[0], smallest)
    rows = np.stack([hits, alarms, alarms[0] - alarms, hits[0] - hits, precision, recall])
    return _summarize_pr_curve(tag, rows, count)


def pr_curve_raw(
    tag: str,
    tp: object,
    fp: object,
    tn: object,
    fn: object,
    precision: object,
    recall: object,
    num_thresholds: int = 127,
    weights: object = None,
) -> Message:
    """Make the summary of a curve whose counts the caller has."""
    rows = np.stack([to_array(row) for row in (tp, fp, tn, fn, precision, recall)])
    return _summarize_pr_curve(tag, rows, min(num_thresholds, MAX_PR_THRESHOLDS))


def custom_scalars(layout: Layout) -> Message:
    """Make the summary that arranges charts: {category: {title: ["Multiline" or "Margin", tags]}}."""
    protos = import_tensorboard("plugins.custom_scalar.layout_pb2")
    categories = []
    for category, charts in layout.items():
        made = []
        for title, (kind, tags) in charts.items():
            if kind == "Margin":
                value, lower, upper = tags
                series = protos.MarginChartContent.Series(value=value, lower=lower, upper=upper)
                content = protos.MarginChartContent(series=[series])
                made.append(protos.Chart(title=title, margin=content))
            else:
                made.append(protos.Chart(title=title, multiline=protos.MultilineChartContent(tag=list(tags))))
        categories.append(protos.Category(title=category, chart=made))
    serialized = protos.Layout(category=categories).SerializeToString()
    array = np.array(serialized, dtype=object)
    return _summarize_array("custom_scalars__config__", array, "custom_scalars")


def mesh(
    tag: str,
    vertices: object,
    colors: object = None,
    faces: object = None,
    config_dict: Mapping[str, object] | None = None,
) -> Message:
    """Make the summary of 3D points or meshes.

    Shapes: vertices and colors (batch, n, 3), faces (batch, m, 3).
    """
    metadata = import_tensorboard("plugins.mesh.metadata")
    kinds = import_tensorboard("plugins.mesh.plugin_data_pb2").MeshPluginData
    given = {kinds.VERTEX: vertices, kinds.FACE: faces, kinds.COLOR: colors}
    arrays = {kind: to_array(value).astype(np.float32) for kind, value in given.items() if value is not None}
    components = metadata.get_components_bitmask(list(arrays))
    values = []
    for kind, array in arrays.items():
        name = metadata.get_instance_name(tag, kind)
        about = metadata.create_summary_metadata(
            tag, "", kind, components, list(array.shape), "", json_config=json.dumps(config_dict or {})
        )
        values.append({"tag": name, "tensor": _make_tensor(array), "metadata": about})
    return _summarize(*values)


def hparams(
    hparam_dict: Mapping[str, object],
    metric_dict: Mapping[str, object],
    hparam_domain_discrete: Mapping[str, Sequence[object]] | None = None,
) -> tuple[Message, Message, Message]:
    """Make the three summaries of a run: its hyperparameters and metrics, their values, and its end.

    Raises: TypeError for arguments that are no dicts; ValueError for a hyperparameter that is not a number, a
    string, a bool or a tensor of one element, or whose domain has other types.
    """
    for given in (hparam_dict, metric_dict):
        if not hasattr(given, "items"):
            raise TypeError(f"add_hparams: hparam_dict and metric_dict are dicts, and not {type(given).__name__}")
    domains = dict(hparam_domain_discrete or {})
    if unknown := domains.keys() - hparam_dict.keys():
        raise ValueError(f"add_hparams: hparam_domain_discrete has {sorted(unknown)}, which hparam_dict has not")
    api = import_tensorboard("plugins.hparams.api_pb2")
    protos = import_tensorboard("plugins.hparams.plugin_data_pb2")
    values = {key: _to_hyperparameter(key, value) for key, value in hparam_dict.items() if value is not None}
    infos = []
    for key, value in values.items():
        kind = "BOOL" if isinstance(value, bool) else "STRING" if isinstance(value, str) else "FLOAT64"
        info = api.HParamInfo(name=key, type=getattr(api, f"DATA_TYPE_{kind}"))
        for item in domains.get(key, ()):
            if not isinstance(item, (bool, str, int, float)) or isinstance(item, str) != isinstance(value, str):
                raise ValueError(f"add_hparams: the domain of {key!r} has {item!r}, and its value is {value!r}")
            info.domain_discrete.values.add(**{_field_of(item): item})
        infos.append(info)
    metrics = [api.MetricInfo(name=api.MetricName(tag=key)) for key in metric_dict]
    start = protos.SessionStartInfo()
    for key, value in values.items():
        setattr(start.hparams[key], _field_of(value), value)
    return (
        _summarize_run("EXPERIMENT_TAG", experiment=api.Experiment(hparam_infos=infos, metric_infos=metrics)),
        _summarize_run("SESSION_START_INFO_TAG", session_start_info=start),
        _summarize_run("SESSION_END_INFO_TAG", session_end_info=protos.SessionEndInfo(status=api.STATUS_SUCCESS)),
    )


def _summarize_run(tag: str, **message: Message) -> Message:
    """Make the summary of one of the three messages, under the tag that TensorBoard's plugin calls so."""
    metadata = import_tensorboard("plugins.hparams.metadata")
    data = import_tensorboard("plugins.hparams.plugin_data_pb2").HParamsPluginData(**message)
    return _summarize(tag=getattr(metadata, tag), metadata=metadata.create_summary_metadata(data))


def _to_hyperparameter(key: str, value: object) -> bool | str | float:
    if isinstance(value, (bool, str)):
        return value
    try:
        return to_number(value)
    except (TypeError, ValueError) as error:
        kind = type(value).__name__
        raise ValueError(f"add_hparams: {key!r} is a {kind}: a number, a bool, a string or a scalar tensor") from error


def _field_of(value: object) -> str:
    """Return the name of the field that a protobuf value has for this type."""
    return "bool_value" if isinstance(value, bool) else "string_value" if isinstance(value, str) else "number_value"


def _summarize(*values: Mapping[str, object], **fields: object) -> Message:
    summary = import_tensorboard("compat.proto.summary_pb2").Summary
    return summary(value=[summary.Value(**value) for value in (*values, *([fields] if fields else ()))])


def _summarize_array(tag: str, array: Array, plugin: str) -> Message:
    """Make the summary of an array that a plugin of TensorBoard shows."""
    summary_metadata = import_tensorboard("compat.proto.summary_pb2").SummaryMetadata
    about = summary_metadata(plugin_data=summary_metadata.PluginData(plugin_name=plugin))
    return _summarize(tag=tag, metadata=about, tensor=_make_tensor(array))


def _summarize_pr_curve(tag: str, rows: Array, num_thresholds: int) -> Message:
    """Make the summary of the rows that TensorBoard expects: hits, alarms, and so on, by threshold."""
    metadata = import_tensorboard("plugins.pr_curve.metadata")
    about = metadata.create_summary_metadata("", "", num_thresholds)
    return _summarize(tag=tag, metadata=about, tensor=_make_tensor(rows.astype(np.float32)))


def _make_tensor(array: Array) -> Message:
    return import_tensorboard("util.tensor_util").make_tensor_proto(array)


def _make_image(
    pixels: Array, rescale: float, boxes: Sequence[Sequence[float]] = (), labels: Sequence[str] | None = None
) -> Message:
    """Make the message of an image from pixels (height, width, channel), with boxes drawn on it."""
    height, width, channels = pixels.shape
    proto = import_tensorboard("compat.proto.summary_pb2").Summary.Image
    return proto(
        height=int(height * rescale),
        width=int(width * rescale),
        colorspace=channels,
        encoded_image_string=encode_png(pixels, rescale, boxes, labels),
    )
