"""`torch.distributed._functional_collectives`: collectives that return new tensors, and name reductions by words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias, cast

from adjoint.core.tensor.tensor import Tensor
from adjoint.distributed.collectives import Group
from adjoint.distributed.default_group import find_group, new_group, resolve_group
from adjoint.distributed.interface import functional
from adjoint.distributed.interface.device_mesh import DeviceMesh
from adjoint.distributed.interface.functional import Sizes, exchange_rows, gather_rows
from adjoint.distributed.process_group import ProcessGroup
from adjoint.functions.shape.join import cat
from adjoint.ops import collectives as ops
from adjoint.ops.collectives import ReduceOp

Ranks: TypeAlias = ProcessGroup | Sequence[int] | DeviceMesh | tuple[DeviceMesh, int] | None
REDUCE_OP_TO_STR = {op: op.name.lower() for op in ReduceOp}
AsyncCollectiveTensor = Tensor  # collectives have ended when they return


def wait_tensor(tensor: Tensor) -> Tensor:
    """Return the tensor: the collective that made it has ended."""
    return tensor


def all_reduce(self: Tensor, reduceOp: str, group: Ranks, tag: str = "") -> Tensor:
    """Return the reduction of all ranks' tensors: "sum", "avg", "product", "min", "max", "band", "bor", "bxor"."""
    return functional.all_reduce(self, _read_op(reduceOp), _read_group(group))


def broadcast(self: Tensor, src: int, group: Ranks, tag: str = "") -> Tensor:
    """Return the tensor of rank `src`."""
    return functional.broadcast(self, src, _read_group(group))


def all_gather_single(self: Tensor, gather_dim: int, group: Ranks, tag: str = "") -> Tensor:
    """Return the tensors of all ranks, joined along a dimension."""
    found = _read_group(group)
    rows = gather_rows(self, found)
    return rows if gather_dim == 0 else cat(rows.chunk(found.size()), gather_dim)


def reduce_scatter_single(self: Tensor, reduceOp: str, scatter_dim: int, group: Ranks, tag: str = "") -> Tensor:
    """Return this rank's part, along a dimension, of the reduction of all ranks' tensors.

    Raises: AssertionError for a dimension that the ranks do not divide.
    """
    found = _read_group(group)
    if self.shape[scatter_dim] % found.size():
        raise AssertionError(
            f"input dimension {scatter_dim} ({self.shape[scatter_dim]}) must be a multiple of group_size {found.size()}"
        )
    rows = self if scatter_dim == 0 else cat(self.chunk(found.size(), scatter_dim))
    return cast("Tensor", ops.reduce_scatter(rows.contiguous(), group=found, how=_read_op(reduceOp)))


def all_to_all_single(
    self: Tensor, output_split_sizes: Sizes, input_split_sizes: Sizes, group: Ranks, tag: str = ""
) -> Tensor:
    """Return the blocks of rows that all ranks have for this one; without sizes they are equal.

    Raises: AssertionError for the sizes of one side alone.
    """
    if (output_split_sizes is None) is not (input_split_sizes is None):
        raise AssertionError(
            "output_split_sizes and input_split_sizes must either be specified together or both set to None"
        )
    return exchange_rows(self, output_split_sizes, input_split_sizes, _read_group(group))


def permute_tensor(self: Tensor, src_dst: Sequence[int], group: Ranks, tag: str = "") -> Tensor:
    """Return the tensor of the rank that sends to this one: rank i sends to `src_dst[i]`."""
    found = _read_group(group)
    rows = self.reshape(-1)
    sent = [len(rows) if rank == src_dst[found.rank()] else 0 for rank in range(found.size())]
    received = [len(rows) if to == found.rank() else 0 for to in src_dst]
    return exchange_rows(rows, received, sent, found).reshape(self.shape)


def all_reduce_coalesced(self: Sequence[Tensor], reduceOp: str, group: Ranks, tag: str = "") -> list[Tensor]:
    """Return the reduction of each tensor of a list."""
    return [all_reduce(tensor, reduceOp, group, tag) for tensor in self]


def all_gather_single_coalesced(self: Sequence[Tensor], group: Ranks, tag: str = "") -> list[Tensor]:
    """Return each tensor of a list, joined with those of all ranks."""
    return [all_gather_single(tensor, 0, group, tag) for tensor in self]


def reduce_scatter_single_coalesced(
    inputs: Sequence[Tensor], reduceOp: str, scatter_dim: Sequence[int], group: Ranks, tag: str = ""
) -> list[Tensor]:
    """Return this rank's part of the reduction of each tensor of a list."""
    pairs = zip(inputs, scatter_dim, strict=True)
    return [reduce_scatter_single(tensor, reduceOp, dim, group, tag) for tensor, dim in pairs]


# Former names; and with gradients, which all of these have
all_gather_tensor = all_gather_tensor_autograd = all_gather_single_autograd = all_gather_single
reduce_scatter_tensor = reduce_scatter_tensor_autograd = reduce_scatter_single_autograd = reduce_scatter_single
all_to_all_single_autograd = all_to_all_single
all_gather_into_tensor_coalesced = all_gather_single_coalesced
reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced


def _read_op(name: str) -> ReduceOp:
    try:
        return ReduceOp[name.upper()]
    except KeyError:
        raise ValueError(f"a reduction is one of {', '.join(REDUCE_OP_TO_STR.values())}, and not {name!r}") from None


def _read_group(group: Ranks) -> ProcessGroup:
    """Return the group of these ranks, or of the mesh's; one that is not there is made, by all ranks."""
    if isinstance(group, DeviceMesh):
        return group.get_group()
    if isinstance(group, tuple) and isinstance(group[0], DeviceMesh):
        return group[0].get_group(group[1])
    if isinstance(group, (list, tuple)):
        ranks = cast("Sequence[int]", group)
        return resolve_group(find_group(ranks) or new_group(ranks))
    return resolve_group(cast("Group", group))
