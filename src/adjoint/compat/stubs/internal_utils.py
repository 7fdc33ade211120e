"""`adjoint._utils`: PyTorch's private functions of lists of tensors, and those that pickles call to rebuild tensors."""

from __future__ import annotations

import io
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from adjoint.core.dtype.device import device as Device
from adjoint.core.dtype.dtype import dtype as Dtype
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import DeviceLike
from adjoint.functions.shape.join import cat
from adjoint.serialization import load
from adjoint.serialization.tensor_rebuild import rebuilders

globals().update({name.rpartition(".")[2]: rebuild for name, rebuild in rebuilders().items() if "._rebuild" in name})


def _load_from_bytes(b: bytes) -> Any:
    """Load the storage of a tensor that Python's own pickle wrote."""
    return load(io.BytesIO(b), weights_only=False)


def _element_size(dtype: Dtype) -> int:
    """Return the bytes of an element of a type."""
    return dtype.itemsize


def _get_device_index(device: DeviceLike, optional: bool = False, allow_cpu: bool = False) -> int:
    """Return -1, the index of the CPU, if `allow_cpu`. Raises ValueError for it otherwise, DeviceError for others."""
    kind = Device("cpu" if device is None else device)
    if kind.type == "cpu" and allow_cpu:
        return -1
    raise ValueError(f"Expected a non cpu device, but got: {kind}: adjoint computes on the CPU only")


def _flatten_dense_tensors(tensors: Iterable[Tensor]) -> Tensor:
    """Copy the elements of all tensors into one vector."""
    return cat([tensor.contiguous().view(-1) for tensor in tensors])


def _unflatten_dense_tensors(flat: Tensor, tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Return the parts of a vector as views with the sizes of `tensors`."""
    parts = flat.split([tensor.numel() for tensor in tensors])
    return tuple(part.view(tensor.shape) for part, tensor in zip(parts, tensors, strict=True))


def _take_tensors(tensors: Iterable[Tensor], size_limit: int) -> Iterator[list[Tensor]]:
    """Yield lists of tensors of one type, each of at most `size_limit` bytes unless one tensor is larger."""
    waiting: dict[str, list[Tensor]] = defaultdict(list)
    for tensor in tensors:
        kind = tensor.type()
        waiting_bytes = sum(each.nbytes for each in waiting[kind])
        if waiting[kind] and waiting_bytes + tensor.nbytes > size_limit:
            yield waiting.pop(kind)
        waiting[kind].append(tensor)
    yield from waiting.values()


def _reorder_tensors_as(tensors: Iterable[Tensor], ordered_tensors: Iterable[Tensor]) -> tuple[Tensor, ...]:
    """Order tensors so that their types come as those of `ordered_tensors` do."""
    by_type: dict[str, list[Tensor]] = defaultdict(list)
    for tensor in tensors:
        by_type[tensor.type()].append(tensor)
    rows = {kind: iter(row) for kind, row in by_type.items()}
    return tuple(next(rows[tensor.type()]) for tensor in ordered_tensors)


def _group_tensors_by_device_and_dtype(
    tensorlistlist: list[list[Tensor | None]], with_indices: bool = False
) -> dict[tuple[Any, Any], tuple[list[list[Any]], list[int]]]:
    """Group the tensors of the first list by device and type, and those of the other lists by the same indices.

    Empty lists stay empty. With `with_indices` each group has these indices too. Raises RuntimeError for no lists, for
    None in the first, and for lists of other lengths.
    """
    if not tensorlistlist:
        raise RuntimeError("nested_tensorlist must not be empty: there is no list to group by")
    first = tensorlistlist[0]
    for tensors in tensorlistlist:
        if len(tensors) not in (0, len(first)):
            lengths = f"{len(tensors)} and {len(first)}"
            raise RuntimeError(f"Tensors of the same index must be in lists of one length, got {lengths}")
    groups: dict[tuple[Any, Any], list[int]] = {}
    for i, tensor in enumerate(first):
        if tensor is None:
            raise RuntimeError(
                "Tensors of the first list of nested Tensor lists are supposed to be defined but the "
                f"{i}-th Tensor is not."
            )
        groups.setdefault((tensor.device, tensor.dtype), []).append(i)
    return {
        kind: (
            [[tensors[i] for i in indices] if tensors else [] for tensors in tensorlistlist],
            indices if with_indices else [],
        )
        for kind, indices in groups.items()
    }


class classproperty:
    """Property of a class: `func(cls)`."""

    def __init__(self, func: Callable[[Any], Any]) -> None:
        self.func = func

    def __get__(self, instance: object, owner: Any) -> Any:
        return self.func(owner)
