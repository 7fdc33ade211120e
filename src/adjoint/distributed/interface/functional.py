"""`torch.distributed.nn.functional`: collectives that return new tensors, through which gradients go."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from adjoint.autograd.function.context import Context
from adjoint.autograd.function.function import Function
from adjoint.core.tensor.tensor import Tensor
from adjoint.distributed import collectives
from adjoint.distributed.collective_checks import check_alike, check_count, check_reduction, resolve_root
from adjoint.distributed.collectives import Group
from adjoint.distributed.default_group import resolve_group
from adjoint.distributed.process_group import ProcessGroup
from adjoint.functions.creation.creation import empty, zeros_like
from adjoint.functions.shape.join import stack
from adjoint.ops import collectives as ops
from adjoint.ops.collectives import ReduceOp

Sizes = Sequence[int] | None
Parts = tuple[Tensor, ...]


def all_reduce(tensor: Tensor, op: ReduceOp = ReduceOp.SUM, group: Group = None) -> Tensor:
    """Return the reduction of all ranks' tensors; sums and means have gradients."""
    check_reduction("all_reduce", tensor, op)
    return cast("Tensor", ops.all_reduce(tensor.contiguous(), group=resolve_group(group), how=op))


def broadcast(tensor: Tensor, src: int, group: Group = None) -> Tensor:
    """Return the tensor of rank `src`, whose gradient is the sum of all ranks'."""
    found = resolve_group(group)
    return cast("Tensor", ops.broadcast(tensor.contiguous(), group=found, how=resolve_root(found, src, None)))


def all_gather(tensor: Tensor, group: Group = None) -> Parts:
    """Return the tensors of all ranks."""
    return gather_rows(tensor.unsqueeze(0), resolve_group(group)).unbind(0)


def _all_gather_base(output_tensor: Tensor, input_tensor: Tensor, group: Group = None) -> Tensor:
    rows = gather_rows(input_tensor.reshape(-1), resolve_group(group))
    return output_tensor.copy_(rows.reshape(output_tensor.shape))


def gather_rows(tensor: Tensor, group: ProcessGroup) -> Tensor:
    """Return all ranks' tensors, one below the other."""
    return cast("Tensor", ops.all_gather(tensor.contiguous(), group=group, how=ReduceOp.SUM))


def reduce_scatter(
    output: Tensor, input_list: Sequence[Tensor], op: ReduceOp = ReduceOp.SUM, group: Group = None
) -> Tensor:
    """Return, and write into `output`, the reduction of what all ranks have for this one in their lists."""
    found = resolve_group(group)
    check_count("reduce_scatter", input_list, found)
    check_alike("reduce_scatter", [output, *input_list])
    check_reduction("reduce_scatter", output, op)
    part = cast("Tensor", ops.reduce_scatter(stack(list(input_list)), group=found, how=op))
    return output.copy_(part.reshape(output.shape))


def all_to_all_single(
    output: Tensor,
    input: Tensor,
    output_split_sizes: Sizes = None,
    input_split_sizes: Sizes = None,
    group: Group = None,
) -> Tensor:
    """Return, and write into `output`, the blocks of rows that all ranks have for this one."""
    found = resolve_group(group)
    if not output_split_sizes and not input_split_sizes and input.shape[0] % found.size() == 0:
        blocks = cast("Tensor", ops.all_to_all(input.contiguous(), group=found, how=None))
        return output.copy_(blocks.reshape(output.shape))
    blocks = _AllToAllSingle.apply(found, output_split_sizes, input_split_sizes, output.shape[0], input.contiguous())
    return output.copy_(blocks)


def exchange_rows(input: Tensor, output_sizes: Sizes, input_sizes: Sizes, group: ProcessGroup) -> Tensor:
    """Return the blocks of rows, of these sizes, that all ranks have for this one."""
    if not output_sizes or not input_sizes:
        return cast("Tensor", ops.all_to_all(input.contiguous(), group=group, how=None))
    out: Tensor = _AllToAllSingle.apply(group, output_sizes, input_sizes, sum(output_sizes), input.contiguous())
    return out


def all_to_all(output_tensor_list: Sequence[Tensor], input_tensor_list: Sequence[Tensor], group: Group = None) -> Parts:
    """Return the tensors that all ranks have for this one in their lists; they have the shapes of `output_tensor_list`.

    They are written there, too.
    """
    shapes = [tuple(x.shape) for x in output_tensor_list]
    received: Parts = _AllToAll.apply(resolve_group(group), shapes, *[x.contiguous() for x in input_tensor_list])
    return tuple(out.copy_(x) for out, x in zip(output_tensor_list, received, strict=True))


def gather(tensor: Tensor, dst: int = 0, group: Group = None) -> Parts:
    """Return the tensors of all ranks on rank `dst`, and zeros on the others."""
    found = resolve_group(group)
    return cast("Parts", _Gather.apply(found, resolve_root(found, dst, None), tensor.contiguous()))


def scatter(tensors: Sequence[Tensor], src: int = 0, group: Group = None) -> Tensor:
    """Return the tensor of this rank's number in the list of rank `src`; the others' lists tell its shape."""
    found = resolve_group(group)
    check_count("scatter", tensors, found)
    check_alike("scatter", tensors)
    return cast("Tensor", _Scatter.apply(found, resolve_root(found, src, None), *tensors))


def reduce(tensor: Tensor, dst: int, op: ReduceOp = ReduceOp.SUM, group: Group = None) -> Tensor:
    """Return the reduction of all ranks' tensors on rank `dst`, and the own tensor on the others."""
    check_reduction("reduce", tensor, op)
    found = resolve_group(group)
    return cast("Tensor", _Reduce.apply(found, resolve_root(found, dst, None), op, tensor.contiguous()))


class _CallContext(Context):
    """The facts about a collective that backward needs."""

    group: ProcessGroup
    root: int
    op: ReduceOp
    rows: int
    sizes: tuple[Sizes, Sizes]
    shapes: list[tuple[int, ...]]


class _Gather(Function):
    @staticmethod
    def forward(ctx: _CallContext, group: ProcessGroup, root: int, tensor: Tensor) -> Parts:
        ctx.group, ctx.root = group, root
        parts = [zeros_like(tensor) for _ in range(group.size())]
        collectives.gather(tensor, parts if group.rank() == root else None, group=group, group_dst=root)
        return tuple(parts)

    @staticmethod
    def backward(ctx: Context, *grads: Tensor) -> tuple[object, ...]:
        call = cast("_CallContext", ctx)
        return None, None, _Scatter.apply(call.group, call.root, *grads)


class _Scatter(Function):
    @staticmethod
    def forward(ctx: _CallContext, group: ProcessGroup, root: int, *tensors: Tensor) -> Tensor:
        ctx.group, ctx.root = group, root
        out = zeros_like(tensors[0])
        given = [x.contiguous() for x in tensors] if group.rank() == root else None
        collectives.scatter(out, given, group=group, group_src=root)
        return out

    @staticmethod
    def backward(ctx: Context, *grads: Tensor) -> tuple[object, ...]:
        call = cast("_CallContext", ctx)
        return None, None, *_Gather.apply(call.group, call.root, grads[0].contiguous())


class _Reduce(Function):
    @staticmethod
    def forward(ctx: _CallContext, group: ProcessGroup, root: int, op: ReduceOp, tensor: Tensor) -> Tensor:
        ctx.group, ctx.root, ctx.op = group, root, op
        out = tensor.clone()
        collectives.reduce(out, op=op, group=group, group_dst=root)
        return out

    @staticmethod
    def backward(ctx: Context, *grads: Tensor) -> tuple[object, ...]:
        call = cast("_CallContext", ctx)
        if call.op not in {ReduceOp.SUM, ReduceOp.AVG}:
            raise NotImplementedError(f"the gradient of reduce by {call.op.name}: sums and means have one")
        gradient = ops.broadcast(grads[0].contiguous(), group=call.group, how=call.root)
        return None, None, None, gradient / call.group.size() if call.op is ReduceOp.AVG else gradient


class _AllToAll(Function):
    @staticmethod
    def forward(ctx: _CallContext, group: ProcessGroup, shapes: list[tuple[int, ...]], *tensors: Tensor) -> Parts:
        ctx.group, ctx.shapes = group, [tuple(x.shape) for x in tensors]
        out = [empty(shape, dtype=tensors[0].dtype) for shape in shapes]
        collectives.all_to_all(out, tensors, group=group)
        return tuple(out)

    @staticmethod
    def backward(ctx: Context, *grads: Tensor) -> tuple[object, ...]:
        call = cast("_CallContext", ctx)
        return None, None, *_AllToAll.apply(call.group, call.shapes, *[g.contiguous() for g in grads])


class _AllToAllSingle(Function):
    @staticmethod
    def forward(
        ctx: _CallContext, group: ProcessGroup, output_sizes: Sizes, input_sizes: Sizes, rows: int, tensor: Tensor
    ) -> Tensor:
        ctx.group, ctx.sizes, ctx.rows = group, (input_sizes, output_sizes), tensor.shape[0]
        out = tensor.new_empty((rows, *tensor.shape[1:]))
        collectives.all_to_all_single(out, tensor, output_sizes, input_sizes, group)
        return out

    @staticmethod
    def backward(ctx: Context, *grads: Tensor) -> tuple[object, ...]:
        call = cast("_CallContext", ctx)
        return None, None, None, None, _AllToAllSingle.apply(call.group, *call.sizes, call.rows, grads[0].contiguous())
