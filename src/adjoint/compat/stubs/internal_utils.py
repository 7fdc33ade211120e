"""`adjoint._utils`: what programs and pickles take from that module of PyTorch: tensors end to end, and rebuilt."""

from __future__ import annotations

import io
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from adjoint.core.tensor.tensor import Tensor
from adjoint.functions.shape.join import cat
from adjoint.serialization import load
from adjoint.serialization.tensor_rebuild import rebuilders

globals().update({name.rpartition(".")[2]: rebuild for name, rebuild in rebuilders().items() if "._rebuild" in name})


def _load_from_bytes(b: bytes) -> Any:
    """The storage of a tensor that Python's own pickle wrote."""
    return load(io.BytesIO(b), weights_only=False)


def _flatten_dense_tensors(tensors: Iterable[Tensor]) -> Tensor:
    """The elements of all tensors in one row, a copy."""
    return cat([tensor.contiguous().view(-1) for tensor in tensors])


def _unflatten_dense_tensors(flat: Tensor, tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """The row's parts as views with the sizes of `tensors`."""
    parts = flat.split([tensor.numel() for tensor in tensors])
    return tuple(part.view(tensor.shape) for part, tensor in zip(parts, tensors, strict=True))


def _take_tensors(tensors: Iterable[Tensor], size_limit: int) -> Iterator[list[Tensor]]:
    """Lists of tensors of one type, each ended before its bytes would be more than `size_limit`."""
    waiting: dict[str, list[Tensor]] = defaultdict(list)
    for tensor in tensors:
        kind = tensor.type()
        held = sum(each.nbytes for each in waiting[kind])
        if waiting[kind] and held + tensor.nbytes > size_limit:
            yield waiting.pop(kind)
        waiting[kind].append(tensor)
    yield from waiting.values()


def _reorder_tensors_as(tensors: Iterable[Tensor], ordered_tensors: Iterable[Tensor]) -> tuple[Tensor, ...]:
    """The tensors in an order in which their types come as those of `ordered_tensors` do."""
    by_type: dict[str, list[Tensor]] = defaultdict(list)
    for tensor in tensors:
        by_type[tensor.type()].append(tensor)
    rows = {kind: iter(row) for kind, row in by_type.items()}
    return tuple(next(rows[tensor.type()]) for tensor in ordered_tensors)


class classproperty:
    """A property of a class: `func(cls)`."""

    def __init__(self, func: Callable[[Any], Any]) -> None:
        self.func = func

    def __get__(self, instance: Any, owner: Any) -> Any:
        return self.func(owner)
