"""From a list of samples to one batch of the same structure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from typing import Any

import numpy as np

from adjoint.core.tensor import Tensor
from adjoint.functions.creation import as_tensor, tensor
from adjoint.functions.joining import stack

TEXT = (str, bytes)


def default_collate(batch: Sequence[Any]) -> Any:
    """Samples stacked along a new first dimension, part by part.

    Tensors and arrays are stacked; Python floats become float64, integers int64; text stays a list; mappings, tuples,
    named tuples and lists are gone into, and plain tuples become lists. Raises RuntimeError for parts whose shapes or
    lengths differ, and TypeError for anything else.
    """
    first = batch[0]
    if isinstance(first, Tensor):
        return stack(batch)
    if isinstance(first, np.ndarray):
        if first.dtype.kind in "SUO":
            raise TypeError(_refusal(first.dtype))
        return stack([as_tensor(array) for array in batch])
    if isinstance(first, (np.bool_, np.number)):
        return as_tensor(np.array(batch))
    if isinstance(first, (float, int)):
        return tensor(np.array(batch))
    if isinstance(first, TEXT):
        return batch
    if isinstance(first, Mapping):
        return _mapping(first, {key: default_collate([sample[key] for sample in batch]) for key in first})
    if isinstance(first, Sequence):
        lengths = sorted({len(sample) for sample in batch})
        if len(lengths) > 1:
            sizes = ", ".join(map(str, lengths))
            raise RuntimeError(f"each element in list of batch should be of equal size, but the sizes are {sizes}")
        return _sequence(first, [default_collate(part) for part in zip(*batch, strict=True)])
    raise TypeError(_refusal(type(first)))


def default_convert(data: Any) -> Any:
    """One sample with its arrays as tensors; all else as it is."""
    if isinstance(data, Tensor):
        return data
    if isinstance(data, (np.ndarray, np.bool_, np.number)):
        return data if data.dtype.kind in "SUO" else as_tensor(data)
    if isinstance(data, Mapping):
        return _mapping(data, {key: default_convert(data[key]) for key in data})
    if isinstance(data, Sequence) and not isinstance(data, TEXT):
        return _sequence(data, [default_convert(item) for item in data])
    return data


def _mapping(like: Mapping[Any, Any], parts: dict[Any, Any]) -> Any:
    """`parts` in a mapping like the given one; a plain dict where its type cannot be made."""

    def made() -> Any:
        if not hasattr(like, "update"):
            return type(like)(parts)  # type: ignore[call-arg]
        twin: Any = copy(like)  # keeps what a type has besides its items, such as a default
        twin.update(parts)
        return twin

    return _or_else(made, parts)


def _sequence(like: Sequence[Any], parts: list[Any]) -> Any:
    """`parts` in a sequence like the given one; of a plain tuple, and where its type cannot be made, a list."""
    if isinstance(like, tuple):
        return type(like)(*parts) if hasattr(like, "_fields") else parts
    return parts if type(like) is list else _or_else(lambda: type(like)(parts), parts)  # type: ignore[call-arg]


def _or_else(made: Callable[[], Any], plain: Any) -> Any:
    try:
        return made()
    except TypeError:
        return plain


def _refusal(kind: Any) -> str:
    return f"default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found {kind}"
