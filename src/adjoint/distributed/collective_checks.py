"""Checks of what collectives are given: the root, memory that they may write, lists of the right length."""

from __future__ import annotations

from collections.abc import Sequence

from adjoint.core.runtime.text_table import pluralize
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Array
from adjoint.distributed.process_group import ProcessGroup
from adjoint.ops.collectives import ReduceOp


def array_to_write(name: str, tensor: Tensor) -> Array:
    """Return the tensor's memory. Raises RuntimeError where it must not be written, ValueError where it has gaps."""
    array: Array = tensor.array
    if not array.flags.writeable:
        raise RuntimeError(f"{name}: the tensor's memory is read-only")
    if not array.flags.c_contiguous:
        raise ValueError("Tensors must be contiguous")
    return array


def check_reduction(name: str, tensor: Tensor, op: ReduceOp) -> None:
    """Raise an error for a reduction that the tensor's type has not."""
    if op is ReduceOp.SUM:
        return
    kind = tensor.array.dtype.kind
    if not isinstance(op, ReduceOp):
        raise TypeError(f"{name}: op is a ReduceOp, and not {type(op).__name__}")
    if kind in "fcV" and op in {ReduceOp.BAND, ReduceOp.BOR, ReduceOp.BXOR}:
        raise RuntimeError(f"Cannot use ReduceOp.{op.name} with non-integral dtype: {name} of {describe(tensor)}")
    if kind == "c" and op in {ReduceOp.MIN, ReduceOp.MAX, ReduceOp.PRODUCT}:
        raise ValueError(f"{name} does not support {op.name} on complex tensors")
    if kind == "b" and op is ReduceOp.AVG:
        raise ValueError(f"{name} does not support AVG with bool tensors")


def check_count(name: str, tensors: Sequence[Tensor], group: ProcessGroup) -> None:
    """Raise ValueError for a list that has not one tensor for each rank."""
    if len(tensors) != group.size():
        raise ValueError(
            f"{name}: the list has {pluralize(len(tensors), 'tensor')}, and the group {pluralize(group.size(), 'rank')}"
        )


def check_root_list(
    name: str, tensors: Sequence[Tensor] | None, is_root: bool, group: ProcessGroup
) -> Sequence[Tensor]:
    """Return the list of the root, which alone has one."""
    check_root_alone_gives(name, tensors, is_root, "tensors")
    if not is_root or tensors is None:
        return ()
    check_count(name, tensors, group)
    return tensors


def check_root_alone_gives(name: str, given: Sequence[object] | None, is_root: bool, what: str) -> None:
    """Raise ValueError for a root without a list, or another rank with one."""
    if is_root and given is None:
        raise ValueError(f"{name}: the root rank gives the list of {what}")
    if not is_root and given:
        raise ValueError(f"{name}: the list must not be specified on non-root ranks")


def check_alike(name: str, tensors: Sequence[Tensor]) -> None:
    """Raise ValueError for tensors of several types or sizes."""
    first = tensors[0]
    for tensor in tensors[1:]:
        if tensor.dtype != first.dtype or tensor.numel() != first.numel():
            raise ValueError(f"{name}: tensors of one type and size, and not {describe(first)} and {describe(tensor)}")


def describe(tensor: Tensor) -> str:
    """Return the type and the shape."""
    return f"{tensor.dtype}{list(tensor.shape)}"


def resolve_root(group: ProcessGroup, rank: int | None, group_rank: int | None) -> int:
    """Return the root's number in the group: `group_rank`, or that of `rank` among all; 0 without either.

    Raises: ValueError for a rank that is not in the group.
    """
    if group_rank is not None:
        return group_rank
    if rank is None:
        return 0
    if rank not in group.ranks:
        raise ValueError(f"Global rank {rank} is not part of group {group}")
    return group.ranks.index(rank)
