"""An equation of attention as the call of a kernel: its plan and where its operands lie; or why by NumPy."""

from __future__ import annotations

from typing import NamedTuple

from adjoint.compiler.ir.graph import Value
from adjoint.compiler.ir.strided_view import StridedView, strided_view_of
from adjoint.compiler.kernels.attention.plan import AttentionPlan, MatrixStack, plan_attention
from adjoint.compiler.llvm.jit.target import Target
from adjoint.compiler.llvm.types import from_dtype


class AttentionCall(NamedTuple):
    """The structure that decides the text: operands by the number of their argument and their first element."""

    plan: AttentionPlan
    operands: tuple[tuple[int, int], ...]  # g if it is the gradient, q, k, v, and the mask if there is one
    above: tuple[int, ...]  # the steps between the elements of g, as (…, H, L, Ev)


def reason_against(value: Value, views: dict[Value, StridedView], target: Target) -> str:
    """Why NumPy is to compute an equation of attention; nothing if `lower_attention` gives its kernel."""
    planned = _plan_call(value, views, target)
    return planned if isinstance(planned, str) else ""


def _plan_call(
    value: Value, views: dict[Value, StridedView], target: Target
) -> tuple[AttentionCall, list[Value]] | str:
    """The call, and the values whose memory it reads; or the reason against it."""
    gradient = value.op.name == "attention_gradient"
    seen = [strided_view_of(x, views) for x in value.operands]
    found = [view for view in seen if view is not None]
    if len(found) < len(seen):
        return "an operand needs a copy"
    g = found.pop(0).permute(_swap_heads_and_rows(len(value.operands[0].shape))) if gradient else None
    q, k, v = (MatrixStack(view.shape, view.strides) for view in found[:3])
    mask = MatrixStack(found[3].shape, found[3].strides) if len(found) > 3 else None
    truths = len(found) > 3 and found[3].base.dtype.kind == "b"
    try:
        scalar = from_dtype(value.dtype)
    except TypeError as error:
        return str(error)
    if any(x.dtype != value.dtype for x in value.operands[: len(value.operands) - truths]):
        return "operands are of different types"
    plan = plan_attention(target, scalar, q, k, v, mask, truths=truths, gradient=gradient, **value.params)
    if plan.reason:
        return plan.reason
    if g is not None and g.strides[-1] != 1 and g.shape[-1] > 1:
        return "rows of an operand do not lie in one piece"
    ordered = ([g] if g is not None else []) + found
    arguments = list(dict.fromkeys(view.base for view in ordered))
    operands = tuple((arguments.index(view.base), view.offset) for view in ordered)
    return AttentionCall(plan, operands, () if g is None else g.strides), arguments


def _swap_heads_and_rows(rank: int) -> tuple[int, ...]:
    """(…, L, H, E) as (…, H, L, E)."""
    return (*range(rank - 3), rank - 2, rank - 3, rank - 1)
