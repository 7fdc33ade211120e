"""Messages from one rank to another. Each is received by the call of its tag, in the order in which it was sent."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np

from adjoint.core.graph.source_location import user_site
from adjoint.core.runtime.mode import refuse_while_tracing
from adjoint.core.tensor.storage import mark_written
from adjoint.core.tensor.tensor import Tensor
from adjoint.distributed.collective_checks import array_to_write, resolve_root
from adjoint.distributed.collectives import Group
from adjoint.distributed.default_group import is_non_member, resolve_group
from adjoint.distributed.mpi import bytes_of, mpi_module
from adjoint.distributed.process_group import ProcessGroup
from adjoint.distributed.work import Work

T = TypeVar("T")


def send(
    tensor: Tensor, dst: int | None = None, group: Group = None, tag: int = 0, group_dst: int | None = None
) -> None:
    """Send the tensor to rank `dst`, and wait until its memory may be written again."""
    if is_non_member(group):
        return
    found, peer = _resolve_peer("send", group, dst, group_dst)
    data = bytes_of(np.ascontiguousarray(tensor.array))
    found.call_message("send", lambda comm: comm.Send(data, peer, tag))


def recv(
    tensor: Tensor, src: int | None = None, group: Group = None, tag: int = 0, group_src: int | None = None
) -> int:
    """Receive into the tensor what rank `src`, or any, sends; return its number among all ranks."""
    if is_non_member(group):
        return -1
    found, peer = _resolve_peer("recv", group, src, group_src, any_rank=True)
    data = bytes_of(array_to_write("recv", tensor))
    status = mpi_module().Status()
    found.call_message("recv", lambda comm: comm.Recv(data, peer, tag, status))
    mark_written(tensor, user_site())
    return found.ranks[status.Get_source()]


def isend(
    tensor: Tensor, dst: int | None = None, group: Group = None, tag: int = 0, group_dst: int | None = None
) -> Work | None:
    """Begin to send the tensor to rank `dst`; until the work has ended its memory must not be written."""
    if is_non_member(group):
        return None
    found, peer = _resolve_peer("isend", group, dst, group_dst)
    data = bytes_of(np.ascontiguousarray(tensor.array))
    return Work(requests=(found.call_message("isend", lambda comm: comm.Isend(data, peer, tag)),), kept=(data,))


def irecv(
    tensor: Tensor, src: int | None = None, group: Group = None, tag: int = 0, group_src: int | None = None
) -> Work | None:
    """Begin to receive into the tensor what rank `src`, or any, sends."""
    if is_non_member(group):
        return None
    found, peer = _resolve_peer("irecv", group, src, group_src, any_rank=True)
    data = bytes_of(array_to_write("irecv", tensor))
    return Work(tensors=(tensor,), requests=(found.call_message("irecv", lambda comm: comm.Irecv(data, peer, tag)),))


class P2POp:
    """One message of `batch_isend_irecv`: `op` is `isend` or `irecv`. Raises RuntimeError for another `op`."""

    def __init__(
        self,
        op: Callable[..., Work | None],
        tensor: Tensor,
        peer: int | None = None,
        group: Group = None,
        tag: int = 0,
        group_peer: int | None = None,
    ) -> None:
        if op not in {isend, irecv}:
            raise RuntimeError(f"P2POp: op is isend or irecv, and not {getattr(op, '__name__', op)}")
        self.op, self.tensor, self.group, self.tag = op, tensor, group, tag
        self.peer, self.group_peer = peer, group_peer


def batch_isend_irecv(p2p_op_list: Sequence[P2POp]) -> list[Work]:
    """Begin all messages; return their works."""
    works = [each.op(each.tensor, each.peer, each.group, each.tag, each.group_peer) for each in p2p_op_list]
    return [work for work in works if work is not None]


def send_object_list(
    object_list: list[T],
    dst: int | None = None,
    group: Group = None,
    device: object = None,
    group_dst: int | None = None,
    use_batch: bool = False,
) -> None:
    """Send the objects of the list, as pickles, to rank `dst`."""
    if is_non_member(group):
        return
    found, peer = _resolve_peer("send_object_list", group, dst, group_dst)
    found.call_message("send_object_list", lambda comm: comm.send(list(object_list), peer))


def recv_object_list(
    object_list: list[T],
    src: int | None = None,
    group: Group = None,
    device: object = None,
    group_src: int | None = None,
    use_batch: bool = False,
) -> int:
    """Receive objects into the list; return the number of the rank that sent them."""
    if is_non_member(group):
        return -1
    found, peer = _resolve_peer("recv_object_list", group, src, group_src, any_rank=True)
    status = mpi_module().Status()
    object_list[:] = found.call_message("recv_object_list", lambda comm: comm.recv(source=peer, status=status))
    return found.ranks[status.Get_source()]


def _resolve_peer(
    name: str, group: Group, rank: int | None, group_rank: int | None, *, any_rank: bool = False
) -> tuple[ProcessGroup, int]:
    """Return the group, and the peer's number in it. Raises ValueError without a peer, or for this rank itself."""
    found = resolve_group(group)
    refuse_while_tracing(f"{name}()")
    if rank is None and group_rank is None:
        if not any_rank:
            raise ValueError(f"{name}: dst or group_dst says to which rank")
        return found, mpi_module().ANY_SOURCE
    peer = resolve_root(found, rank, group_rank)
    if peer == found.rank():
        raise ValueError(f"{name}: rank {found.rank()} is this process itself, which sends itself nothing")
    return found, peer
