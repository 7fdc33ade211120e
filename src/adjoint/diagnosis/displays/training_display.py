"""Displays of what trains a model: an optimizer's groups, a loader and a dataset, each in a line or a table."""

from __future__ import annotations

from collections.abc import Sized
from html import escape

from adjoint.core.runtime.html import render_frame, render_table
from adjoint.core.runtime.text_table import format_size, pluralize
from adjoint.core.tensor.tensor import Tensor
from adjoint.data.dataset import ConcatDataset, Dataset, IterableDataset, Subset, TensorDataset
from adjoint.data.loader import DataLoader
from adjoint.data.sampler import RandomSampler, SequentialSampler
from adjoint.optim.step.optimizer import Optimizer

HIDDEN_OPTIONS = ("params", "param_names")
MAX_PARTS = 4  # of a dataset of several: others are counted


def render_optimizer(optimizer: Optimizer) -> str:
    """Render a table of the groups: their parameters, and the options that are on or differ."""
    groups = optimizer.param_groups
    options = [
        key
        for key in dict.fromkeys(key for group in groups for key in group if key not in HIDDEN_OPTIONS)
        if any(group.get(key) is not None and group.get(key) is not False for group in groups)
    ]
    rows = []
    for i, group in enumerate(groups):
        elements = pluralize(sum(p.numel() for p in group["params"]), "element")
        values = [group.get(key) for key in options]
        values = [value.tolist() if isinstance(value, Tensor) else value for value in values]
        cells = (f"{value:.6g}" if isinstance(value, float) else str(value) for value in values)
        rows.append([str(i), f"{pluralize(len(group['params']), 'tensor')}, {elements}", *map(escape, cells)])
    kept = [value for entry in optimizer.state.values() for value in entry.values() if isinstance(value, Tensor)]
    title = f"<b>{escape(type(optimizer).__name__)}</b> · {pluralize(len(groups), 'group')}"
    if kept:
        title += f" · {format_size(sum(value.array.nbytes for value in kept))} of state"
    return render_frame(f"<p>{title}</p>\n" + render_table(("group", "parameters", *options), rows))


def render_loader(loader: DataLoader[object]) -> str:
    """Render a line of what a pass through a loader gives."""
    parts = [f"<b>{escape(type(loader).__name__)}</b>", _describe_batches(loader)]
    if isinstance(loader.sampler, RandomSampler):
        parts.append("shuffled")
    elif isinstance(loader.sampler, SequentialSampler):
        parts.append("in order")
    if loader.num_workers:
        parts.append(pluralize(loader.num_workers, "worker process", "worker processes"))
    return render_frame(f"<p>{' · '.join([*parts, _describe_dataset(loader.dataset)])}</p>")


def _describe_batches(loader: DataLoader[object]) -> str:
    """Return the number and size of the batches; a stream is not asked, as the loader would hold it to its answer."""
    size = "" if loader.batch_size is None else f" of {loader.batch_size}"
    count = None if isinstance(loader.dataset, IterableDataset) else _length(loader)
    if count is None:
        return f"batches{size}"
    text = pluralize(count, "sample") if loader.batch_sampler is None else pluralize(count, "batch", "batches")
    samples = _length(loader.sampler)
    last = samples % loader.batch_size if samples is not None and loader.batch_size else 0
    if last and not loader.drop_last and count > 1:
        return f"{text}{size}, the last of {last}"
    return text + size


def render_dataset(dataset: Dataset[object]) -> str:
    """Render a line of what a dataset holds. No sample is made for it, which may be slow or draw random numbers."""
    return render_frame(f"<p>{_describe_dataset(dataset)}</p>")


def _describe_dataset(dataset: object) -> str:
    name = f"<b>{escape(type(dataset).__name__)}</b>"
    count = _length(dataset)
    parts = [name if count is None else f"{name} of {pluralize(count, 'sample')}"]
    if isinstance(dataset, TensorDataset):
        parts.append(escape(", ".join(f"{t.array.dtype!s} {list(t.array.shape[1:])}" for t in dataset.tensors)))
    elif isinstance(dataset, Subset):
        parts.append(f"from {_describe_dataset(dataset.dataset)}")
    elif isinstance(dataset, ConcatDataset):
        shown = [_describe_dataset(part) for part in dataset.datasets[:MAX_PARTS]]
        more = len(dataset.datasets) - len(shown)
        parts.append("after one another: " + ", ".join(shown) + (f" and {more} more" if more > 0 else ""))
    return " · ".join(parts)


def _length(value: object) -> int | None:
    """Return the length that a value tells; None where it has none, or cannot tell it yet."""
    try:
        return len(value) if isinstance(value, Sized) else None
    except Exception:  # noqa: BLE001  it is the user's code, and a display does not fail
        return None
