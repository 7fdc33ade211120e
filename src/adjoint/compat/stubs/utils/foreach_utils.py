"""Lists of tensors in groups of one type, under the name by which optimizers written for PyTorch import it."""

from __future__ import annotations

from typing import Any

from adjoint.core.tensor.tensor import Tensor


def _group_tensors_by_device_and_dtype(
    tensorlistlist: list[list[Tensor | None]], with_indices: bool = False
) -> dict[tuple[Any, Any], tuple[list[list[Any]], list[int]]]:
    """For each device and type of the first list its tensors, and what the other lists have at the same places.

    Lists that are empty stay so. With `with_indices` also these places. Raises RuntimeError for no lists, for None in
    the first, and for lists of other lengths.
    """
    if not tensorlistlist:
        raise RuntimeError("nested_tensorlist must not be empty: there is no list to group by")
    first = tensorlistlist[0]
    for tensors in tensorlistlist:
        if len(tensors) not in (0, len(first)):
            raise RuntimeError(f"Tensors of the same index must be in lists of one length, got {len(tensors)} and "
                               f"{len(first)}")  # fmt: skip
    places: dict[tuple[Any, Any], list[int]] = {}
    for i, tensor in enumerate(first):
        if tensor is None:
            raise RuntimeError("Tensors of the first list of nested Tensor lists are supposed to be defined but the "
                               f"{i}-th Tensor is not.")  # fmt: skip
        places.setdefault((tensor.device, tensor.dtype), []).append(i)
    return {
        kind: ([[tensors[i] for i in at] if tensors else [] for tensors in tensorlistlist], at if with_indices else [])
        for kind, at in places.items()
    }
