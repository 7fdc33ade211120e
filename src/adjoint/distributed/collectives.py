"""Collectives on tensors, in PyTorch's words. Each rank of a group calls the same ones in the same order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

import numpy as np

from adjoint.core.graph.source_location import user_instruction
from adjoint.core.runtime.exchange_log import exchange_logs, take_exchanged
from adjoint.core.runtime.mode import has_interpreter, refuse_while_tracing
from adjoint.core.runtime.text_table import pluralize
from adjoint.core.tensor.storage import mark_written
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Array
from adjoint.distributed.collective_checks import (
    array_to_write,
    check_alike,
    check_count,
    check_reduction,
    check_root_list,
    describe,
    resolve_root,
)
from adjoint.distributed.default_group import is_non_member, resolve_group
from adjoint.distributed.mpi import Communicator, bytes_of, exchange_pairwise
from adjoint.distributed.process_group import ProcessGroup
from adjoint.distributed.work import Work
from adjoint.ops import collectives as ops
from adjoint.ops.collectives import How, ReduceOp
from adjoint.ops.mutation.inplace import write_in_place

Group = ProcessGroup | None
Exchange = Callable[[Communicator], object]


def all_reduce(tensor: Tensor, op: ReduceOp = ReduceOp.SUM, group: Group = None, async_op: bool = False) -> Work | None:
    """Reduce the tensors of all ranks; each gets the result in place of its own.

    Args:
        op: SUM, AVG, PRODUCT, MIN, MAX; of integers and bools BAND, BOR, BXOR.
        async_op: True to return at once a `Work`, whose `wait()` gives the result.

    Raises: RuntimeError for a reduction that the type has not.
    """
    if is_non_member(group):
        return None
    found = resolve_group(group)
    check_reduction("all_reduce", tensor, op)
    if has_interpreter():
        source = tensor.detach()
        write_in_place(source, cast("Tensor", ops.all_reduce(source, group=found, how=op)), "all_reduce")
        return Work() if async_op else None
    array = array_to_write("all_reduce", tensor)
    return _exchange(
        found, "all_reduce", lambda comm: found.reduce_into(comm, array, array, op), [tensor], async_op, x=array, how=op
    )


def reduce(
    tensor: Tensor,
    dst: int | None = None,
    op: ReduceOp = ReduceOp.SUM,
    group: Group = None,
    async_op: bool = False,
    group_dst: int | None = None,
) -> Work | None:
    """Reduce the tensors of all ranks; rank `dst` gets the result in place of its own, and the others keep theirs."""
    if is_non_member(group):
        return None
    found = resolve_group(group)
    root = resolve_root(found, dst, group_dst)
    check_reduction("reduce", tensor, op)
    refuse_while_tracing("reduce()")
    array = array_to_write("reduce", tensor)
    out = array if found.rank() == root else np.empty_like(array)
    written = [tensor] if found.rank() == root else []
    return _exchange(
        found, "reduce", lambda comm: found.reduce_into(comm, out, array, op), written, async_op,
        x=array, how=f"{op.name} to rank {root}",
    )


def broadcast(
    tensor: Tensor,
    src: int | None = None,
    group: Group = None,
    async_op: bool = False,
    group_src: int | None = None,
) -> Work | None:
    """Give all ranks what rank `src` has in the tensor."""
    if is_non_member(group):
        return None
    found = resolve_group(group)
    root = resolve_root(found, src, group_src)
    if has_interpreter():
        source = tensor.detach()
        write_in_place(source, cast("Tensor", ops.broadcast(source, group=found, how=root)), "broadcast")
        return Work() if async_op else None
    array = array_to_write("broadcast", tensor)
    return _exchange(
        found, "broadcast", lambda comm: comm.Bcast(bytes_of(array), root), [tensor], async_op, x=array, how=root
    )


def all_gather(
    tensor_list: Sequence[Tensor], tensor: Tensor, group: Group = None, async_op: bool = False
) -> Work | None:
    """Write the tensors of all ranks into those of the list, in the order of the ranks."""
    if is_non_member(group):
        return None
    found = resolve_group(group)
    check_count("all_gather", tensor_list, found)
    check_alike("all_gather", [tensor, *tensor_list])
    if has_interpreter():
        rows = tensor.detach().reshape(-1)
        gathered = cast("Tensor", ops.all_gather(rows, group=found, how=ReduceOp.SUM))
        for i, each in enumerate(tensor_list):
            part = gathered.narrow(0, i * rows.shape[0], rows.shape[0])
            write_in_place(each.detach(), part.reshape(each.shape), "all_gather")
        return Work() if async_op else None
    x = tensor.array
    whole = np.empty((found.size(), *x.shape), x.dtype)
    return _exchange(
        found, "all_gather", lambda comm: found.gather_into(comm, whole, x), list(tensor_list), async_op,
        lambda: _copy_parts(tensor_list, whole), alone=lambda: np.copyto(whole, x), x=x,
    )


def all_gather_into_tensor(
    output_tensor: Tensor, input_tensor: Tensor, group: Group = None, async_op: bool = False
) -> Work | None:
    """Write the tensors of all ranks into one, one below the other, or stacked.

    Shapes: input (n, …), output (size · n, …) or (size, n, …).

    Raises: ValueError for an output of another size.
    """
    if is_non_member(group):
        return None
    found = resolve_group(group)
    name, out, x = "all_gather_into_tensor", output_tensor, input_tensor
    if out.numel() != found.size() * x.numel() or out.dtype != x.dtype:
        raise ValueError(
            f"{name}: the output, {describe(out)}, does not hold {found.size()} times the input, {describe(x)}"
        )
    if has_interpreter():
        rows = x.detach().reshape(-1)
        gathered = cast("Tensor", ops.all_gather(rows, group=found, how=ReduceOp.SUM))
        write_in_place(out.detach(), gathered.reshape(out.shape), name)
        return Work() if async_op else None
    array, source = array_to_write(name, out), x.array
    return _exchange(
        found, name, lambda comm: found.gather_into(comm, array, source), [out], async_op,
        alone=lambda: np.copyto(array.reshape(-1), source.reshape(-1)), x=source,
    )


def reduce_scatter(
    output: Tensor,
    input_list: Sequence[Tensor],
    op: ReduceOp = ReduceOp.SUM,
    group: Group = None,
    async_op: bool = False,
) -> Work | None:
    """Reduce the lists of all ranks, element by element; each rank gets the one of its number."""
    if is_non_member(group):
        return None
    found = resolve_group(group)
    check_count("reduce_scatter", input_list, found)
    check_alike("reduce_scatter", [output, *input_list])
    refuse_while_tracing("reduce_scatter()")
    return _reduce_scatter(found, "reduce_scatter", output, np.stack([x.array for x in input_list]), op, async_op)


def reduce_scatter_tensor(
    output: Tensor, input: Tensor, op: ReduceOp = ReduceOp.SUM, group: Group = None, async_op: bool = False
) -> Work | None:
    """Reduce the tensors of all ranks; each rank gets its rows of the result.

    Shapes: input (size · n, …) or (size, n, …), output (n, …).
    """
    if is_non_member(group):
        return None
    found = resolve_group(group)
    if input.numel() != found.size() * output.numel() or output.dtype != input.dtype:
        raise ValueError(
            f"reduce_scatter_tensor: the input, {describe(input)}, is not {found.size()} times the output, "
            f"{describe(output)}"
        )
    check_reduction("reduce_scatter_tensor", input, op)
    if has_interpreter():
        part = cast("Tensor", ops.reduce_scatter(input.detach().reshape(-1), group=found, how=op))
        write_in_place(output.detach(), part.reshape(output.shape), "reduce_scatter_tensor")
        return Work() if async_op else None
    return _reduce_scatter(found, "reduce_scatter_tensor", output, input.array, op, async_op)


def _reduce_scatter(
    found: ProcessGroup, name: str, output: Tensor, x: Array, op: ReduceOp, async_op: bool
) -> Work | None:
    array = array_to_write(name, output)
    return _exchange(
        found, name, lambda comm: found.reduce_scatter_into(comm, array, x, op), [output], async_op,
        alone=lambda: np.copyto(array.reshape(-1), x.reshape(-1)), x=x, how=op,
    )


def all_to_all(
    output_tensor_list: Sequence[Tensor],
    input_tensor_list: Sequence[Tensor],
    group: Group = None,
    async_op: bool = False,
) -> Work | None:
    """Send the i-th tensor of the list to rank i, and receive one from each. Shapes may differ from rank to rank."""
    if is_non_member(group):
        return None
    found = resolve_group(group)
    check_count("all_to_all", output_tensor_list, found)
    check_count("all_to_all", input_tensor_list, found)
    refuse_while_tracing("all_to_all()")
    sources = [np.ascontiguousarray(x.array) for x in input_tensor_list]
    targets = [array_to_write("all_to_all", x) for x in output_tensor_list]

    def exchange(comm: Communicator | None) -> None:
        bytes_of(targets[found.rank()])[...] = bytes_of(sources[found.rank()])
        if comm is not None:
            exchange_pairwise(comm, sources, targets)

    return _exchange(
        found, "all_to_all", exchange, list(output_tensor_list), async_op, alone=lambda: exchange(None), x=sources[0]
    )


def all_to_all_single(
    output: Tensor,
    input: Tensor,
    output_split_sizes: Sequence[int] | None = None,
    input_split_sizes: Sequence[int] | None = None,
    group: Group = None,
    async_op: bool = False,
) -> Work | None:
    """Send block i of the input's rows to rank i, and receive one from each, in the order of the ranks.

    Without sizes the blocks are equal. Raises: ValueError where sizes and rows do not fit.
    """
    if is_non_member(group):
        return None
    found = resolve_group(group)
    sizes = [
        _split_rows(x, given, found.size(), name)
        for x, given, name in ((input, input_split_sizes, "input"), (output, output_split_sizes, "output"))
    ]
    if has_interpreter() and not output_split_sizes and not input_split_sizes:
        blocks = cast("Tensor", ops.all_to_all(input.detach(), group=found, how=None))
        write_in_place(output.detach(), blocks, "all_to_all_single")
        return Work() if async_op else None
    refuse_while_tracing("all_to_all_single with split sizes()")
    array, values = array_to_write("all_to_all_single", output), np.ascontiguousarray(input.array)
    return _exchange(
        found, "all_to_all_single",
        lambda comm: found.exchange_blocks(comm, array, values, sizes[1], sizes[0]),
        [output], async_op, alone=lambda: np.copyto(array, values), x=values,
    )


def _split_rows(x: Tensor, sizes: Sequence[int] | None, count: int, name: str) -> list[int]:
    """Return the bytes of each rank's block of rows."""
    rows = x.shape[0] if x.ndim else 0
    if sizes is None or not len(sizes):
        if rows % count:
            raise ValueError(
                f"all_to_all_single: the {pluralize(rows, 'row')} of the {name} are not divided by "
                f"{pluralize(count, 'rank')}"
            )
        sizes = [rows // count] * count
    if len(sizes) != count or sum(sizes) != rows:
        raise ValueError(
            f"all_to_all_single: {name}_split_sizes {list(sizes)} for {pluralize(count, 'rank')} and "
            f"{pluralize(rows, 'row')}"
        )
    row_bytes = x.array.nbytes // rows if rows else 0
    return [size * row_bytes for size in sizes]


def gather(
    tensor: Tensor,
    gather_list: Sequence[Tensor] | None = None,
    dst: int | None = None,
    group: Group = None,
    async_op: bool = False,
    group_dst: int | None = None,
) -> Work | None:
    """Write the tensors of all ranks into those of rank `dst`'s list. Raises ValueError for a list elsewhere."""
    if is_non_member(group):
        return None
    found = resolve_group(group)
    root = resolve_root(found, dst, group_dst)
    receives = found.rank() == root
    lists = check_root_list("gather", gather_list, receives, found)
    check_alike("gather", [tensor, *lists])
    refuse_while_tracing("gather()")
    x = np.ascontiguousarray(tensor.array)
    whole = np.empty((found.size(), *x.shape), x.dtype) if receives else None
    into = None if whole is None else bytes_of(whole)

    def finish() -> None:
        if whole is not None:
            _copy_parts(lists, whole)

    return _exchange(
        found, "gather", lambda comm: comm.Gather(bytes_of(x), into, root), list(lists), async_op, finish,
        alone=lambda: None if whole is None else np.copyto(whole, x), x=x, how=root,
    )


def scatter(
    tensor: Tensor,
    scatter_list: Sequence[Tensor] | None = None,
    src: int | None = None,
    group: Group = None,
    async_op: bool = False,
    group_src: int | None = None,
) -> Work | None:
    """Give rank i the i-th tensor of rank `src`'s list. Raises ValueError for a list elsewhere."""
    if is_non_member(group):
        return None
    found = resolve_group(group)
    root = resolve_root(found, src, group_src)
    lists = check_root_list("scatter", scatter_list, found.rank() == root, found)
    check_alike("scatter", [tensor, *lists])
    refuse_while_tracing("scatter()")
    whole = np.stack([x.array for x in lists]) if lists else None
    array = array_to_write("scatter", tensor)
    source = None if whole is None else bytes_of(whole)
    return _exchange(
        found, "scatter", lambda comm: comm.Scatter(source, bytes_of(array), root), [tensor], async_op,
        alone=lambda: None if whole is None else np.copyto(array, whole[0]), x=array, how=root,
    )


def barrier(
    group: Group = None, async_op: bool = False, device_ids: object = None, timeout: object = None
) -> Work | None:
    """Wait until all ranks have come here."""
    if is_non_member(group):
        return None
    found = resolve_group(group)
    refuse_while_tracing("barrier()")
    return _exchange(found, "barrier", lambda comm: comm.Barrier(), [], async_op)


def monitored_barrier(group: Group = None, timeout: object = None, wait_all_ranks: bool = False) -> None:
    """Wait until all ranks have come here; those that do not come are named while the others wait."""
    barrier(group)


def _exchange(
    found: ProcessGroup,
    name: str,
    exchange: Exchange,
    written: list[Tensor],
    async_op: bool,
    finish: Callable[[], object] | None = None,
    alone: Callable[[], object] | None = None,
    x: Array | None = None,
    how: How | str = None,
) -> Work | None:
    """Carry out an exchange, or begin it; `alone` is what one process does by itself.

    `x` and `how` are what ranks compare where they are asked to: the operand, and the reduction or the root.
    """
    count = len(found.ranks)
    if count > 1 and exchange_logs.count and take_exchanged([tensor.array for tensor in written]):
        count, alone, finish = 1, None, None
    if async_op:
        future = found.call_behind(name, exchange, x, how) if count > 1 else None
        if future is None and alone is not None:
            alone()
        return Work(future, tuple(written), finish)
    if count > 1:
        found.call(name, exchange, x, how)
    elif alone is not None:
        alone()
    if finish is not None:
        finish()
    site = user_instruction()
    for tensor in written:
        mark_written(tensor, site)
    return None


def _copy_parts(tensors: Sequence[Tensor], parts: Array) -> None:
    for tensor, part in zip(tensors, parts, strict=True):
        tensor.array[...] = part
