"""Collation: a list of samples becomes one batch of the same structure."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, MutableMapping, MutableSequence, Sequence
from copy import copy
from typing import Any

import numpy as np

from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Function
from adjoint.functions.creation.creation import as_tensor, tensor
from adjoint.functions.shape.join import stack

TEXT = (str, bytes)
np_str_obj_array_pattern = re.compile("[SaUO]")  # kinds of arrays that no tensor holds
default_collate_err_msg_format = (
    "default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found {}"
)
CollateRules = Mapping[Any, Callable[..., Any]]


def default_collate(batch: Any) -> Any:
    """Return a list of samples as one batch, with a new first dimension.

    Tensors and arrays are stacked. Python floats become float64, integers int64. Text stays a list. Mappings, tuples
    and lists are collated element by element; plain tuples become lists.

    Args:
        batch: list of samples of one structure.

    Raises: RuntimeError for parts of different shapes or lengths, TypeError for other types.

    Example:
        >>> ad.data.default_collate([(1, "a"), (3, "b")])
        [tensor([1, 3]), ('a', 'b')]
    """
    return collate(batch, collate_fn_map=default_collate_fn_map)


def collate(batch: Any, *, collate_fn_map: CollateRules | None = None) -> Any:
    """Do as `default_collate` with other rules: functions of a batch by the type, or tuple of types, of its samples."""
    first = batch[0]
    rules = collate_fn_map or {}
    kind = type(first)
    rule = rules.get(kind) or next((rules[types] for types in rules if isinstance(first, types)), None)
    if rule is not None:
        return rule(batch, collate_fn_map=collate_fn_map)
    if isinstance(first, Mapping):
        items = {key: collate([sample[key] for sample in batch], collate_fn_map=collate_fn_map) for key in first}
        return _rebuild_mapping(first, items)
    if isinstance(first, Sequence):
        lengths = sorted({len(sample) for sample in batch})
        if len(lengths) > 1 and not hasattr(first, "_fields"):
            sizes = ", ".join(map(str, lengths))
            raise RuntimeError(f"each element in list of batch should be of equal size, but the sizes are {sizes}")
        parts = [collate(part, collate_fn_map=collate_fn_map) for part in zip(*batch, strict=False)]
        return _rebuild_sequence(first, parts)
    raise TypeError(default_collate_err_msg_format.format(kind))


def default_convert(data: Any) -> Any:
    """Return one sample with its arrays as tensors, and all else as it is."""
    if isinstance(data, Tensor):
        return data
    if isinstance(data, (np.ndarray, np.bool_, np.number)):
        return data if data.dtype.kind in "SUO" else as_tensor(data)
    if isinstance(data, Mapping):
        return _rebuild_mapping(data, {key: default_convert(data[key]) for key in data})
    if isinstance(data, Sequence) and not isinstance(data, TEXT):
        return _rebuild_sequence(data, [default_convert(item) for item in data])
    return data


def collate_tensor_fn(batch: Any, *, collate_fn_map: CollateRules | None = None) -> Any:
    """Stack tensors."""
    return stack(batch)


def collate_numpy_array_fn(batch: Any, *, collate_fn_map: CollateRules | None = None) -> Any:
    """Stack arrays as a tensor."""
    first = batch[0]
    if first.dtype.kind in "SUO":
        raise TypeError(default_collate_err_msg_format.format(first.dtype))
    if all(type(array) is np.ndarray and array.dtype is first.dtype and array.shape == first.shape for array in batch):
        return as_tensor(np.stack(batch))
    return collate([as_tensor(array) for array in batch], collate_fn_map=collate_fn_map)


def collate_numpy_scalar_fn(batch: Any, *, collate_fn_map: CollateRules | None = None) -> Any:
    """Return NumPy's numbers as a tensor."""
    return as_tensor(np.array(batch))


def collate_float_fn(batch: Any, *, collate_fn_map: CollateRules | None = None) -> Any:
    """Return floats as a tensor of float64."""
    return tensor(np.array(batch, np.float64))


def collate_int_fn(batch: Any, *, collate_fn_map: CollateRules | None = None) -> Any:
    """Return integers as a tensor."""
    return tensor(list(batch))


def collate_str_fn(batch: Any, *, collate_fn_map: CollateRules | None = None) -> Any:
    """Return the texts themselves."""
    return batch


default_collate_fn_map: dict[Any, Function] = {
    Tensor: collate_tensor_fn,
    np.ndarray: collate_numpy_array_fn,
    (np.bool_, np.number, np.object_): collate_numpy_scalar_fn,
    float: collate_float_fn,
    int: collate_int_fn,
    str: collate_str_fn,
    bytes: collate_str_fn,
}


def _rebuild_mapping(like: Mapping[Any, Any], parts: dict[Any, Any]) -> Any:
    """Return `parts` in a mapping of the type of `like`, or in a plain dict where that fails."""
    cls: Any = type(like)

    def build_mapping() -> Any:
        if not isinstance(like, MutableMapping):
            return cls(parts)
        twin: Any = copy(like)  # keeps what a type has besides its items, such as a default
        twin.update(parts)
        return twin

    return parts if cls is dict else _build_or_fall_back(build_mapping, parts)


def _rebuild_sequence(like: Sequence[Any], parts: list[Any]) -> Any:
    """Return `parts` in a sequence of the type of `like`, or in a list for a plain tuple and where that fails."""
    cls: Any = type(like)
    if isinstance(like, tuple):
        return cls(*parts) if hasattr(like, "_fields") else parts

    def build_sequence() -> Any:
        if not isinstance(like, MutableSequence):
            return cls(parts)
        twin: Any = copy(like)
        for i, part in enumerate(parts):
            twin[i] = part
        return twin

    return parts if cls is list else _build_or_fall_back(build_sequence, parts)


def _build_or_fall_back(build: Callable[[], Any], plain: Any) -> Any:
    try:
        return build()
    except TypeError:
        return plain
