"""Exchange of Python objects, as pickles: only among ranks that trust one another."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import TypeVar

from adjoint.core.runtime.mode import refuse_while_tracing
from adjoint.core.runtime.text_table import pluralize
from adjoint.distributed.collective_checks import check_root_alone_gives, resolve_root
from adjoint.distributed.collectives import Group
from adjoint.distributed.default_group import is_non_member, resolve_group

T = TypeVar("T")


def all_gather_object(object_list: list[T], obj: T, group: Group = None) -> None:
    """Put the objects of all ranks into the list, in the order of the ranks."""
    if is_non_member(group):
        return
    found = resolve_group(group)
    refuse_while_tracing("all_gather_object()")
    if found.comm is None:
        object_list[:] = [pickle.loads(pickle.dumps(obj))]
        return
    data = pickle.dumps(obj)
    object_list[:] = map(pickle.loads, found.call("all_gather_object", lambda comm: comm.allgather(data)))


def broadcast_object_list(
    object_list: list[T],
    src: int | None = None,
    group: Group = None,
    device: object = None,
    group_src: int | None = None,
) -> None:
    """Give all ranks the objects that rank `src` has in the list. Raises ValueError for a list of another length."""
    if is_non_member(group):
        return
    found = resolve_group(group)
    root = resolve_root(found, src, group_src)
    refuse_while_tracing("broadcast_object_list()")
    if found.comm is None:
        return
    given = list(object_list) if found.rank() == root else None
    received = found.call("broadcast_object_list", lambda comm: comm.bcast(given, root))
    if len(received) != len(object_list):
        raise ValueError(
            f"broadcast_object_list: rank {root} has {pluralize(len(received), 'object')}, and this {len(object_list)}"
        )
    if found.rank() != root:
        object_list[:] = received


def gather_object(
    obj: T,
    object_gather_list: list[T] | None = None,
    dst: int | None = None,
    group: Group = None,
    group_dst: int | None = None,
) -> None:
    """Put the objects of all ranks into the list of rank `dst`."""
    if is_non_member(group):
        return
    found = resolve_group(group)
    root = resolve_root(found, dst, group_dst)
    refuse_while_tracing("gather_object()")
    check_root_alone_gives("gather_object", object_gather_list, found.rank() == root, "objects")
    data = pickle.dumps(obj)
    parts = [data] if found.comm is None else found.call("gather_object", lambda comm: comm.gather(data, root))
    if object_gather_list is not None and parts is not None:
        object_gather_list[:] = map(pickle.loads, parts)


def scatter_object_list(
    scatter_object_output_list: list[T],
    scatter_object_input_list: Sequence[T] | None = None,
    src: int | None = None,
    group: Group = None,
    group_src: int | None = None,
) -> None:
    """Give rank i the i-th object of rank `src`'s list, as the first of its output list.

    Raises: ValueError unless there is an object for each rank, and a place for it.
    """
    if is_non_member(group):
        return
    found = resolve_group(group)
    root = resolve_root(found, src, group_src)
    refuse_while_tracing("scatter_object_list()")
    if not scatter_object_output_list:
        raise ValueError("scatter_object_list: the output list has at least one element, which gets the object")
    given = None
    if found.rank() == root:
        if scatter_object_input_list is None or len(scatter_object_input_list) != found.size():
            raise ValueError(
                f"scatter_object_list: the root rank gives one object for each of {pluralize(found.size(), 'rank')}"
            )
        given = [pickle.dumps(each) for each in scatter_object_input_list]
    data = given[0] if given and found.comm is None else found.call(
        "scatter_object_list", lambda comm: comm.scatter(given, root)
    )
    scatter_object_output_list[0] = pickle.loads(data)
