"""An equation of attention as a kernel: where its operands lie, and the text for them."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from adjoint.compiler.ir.graph import Value
from adjoint.compiler.ir.strided_view import StridedView, row_major
from adjoint.compiler.ir.symbolic_size import find_symbols
from adjoint.compiler.kernels.attention.backward import StridedPointer, write_attention_gradient
from adjoint.compiler.kernels.attention.call import AttentionCall, _plan_call, _swap_heads_and_rows
from adjoint.compiler.kernels.attention.forward import write_attention
from adjoint.compiler.kernels.attention.plan import AttentionPlan
from adjoint.compiler.kernels.kernel import Kernel
from adjoint.compiler.kernels.kernel_text import NAME_PLACEHOLDER, KernelMemo, KernelText, make_kernel_text
from adjoint.compiler.llvm.builder import Builder
from adjoint.compiler.llvm.jit.target import Target
from adjoint.compiler.llvm.types import BOOL, I8, Reg

if TYPE_CHECKING:
    from adjoint.compiler.passes.fusion import Fusion
    from adjoint.compiler.passes.fusion_group import Group


class LoweredAttention(NamedTuple):
    """The parts of a `Kernel`: the last of the `arguments` is written."""

    name: str
    code: KernelText | str
    arguments: list[Value]
    tiles: int
    scratch: int

    @property
    def text(self) -> str:
        """The module as LLVM assembly."""
        return str(self.code)


def lower_attention(
    value: Value, views: dict[Value, StridedView], target: Target, known: KernelMemo | None = None
) -> LoweredAttention | str:
    """The kernel of an equation of `attention` or `attention_gradient`, which writes its value in row-major order; or
    the reason why NumPy is to compute it.

    `views` are those that `view_of` fills. `known`: names and modules for this target, to be used again and added to.
    """
    known = {} if known is None else known
    planned = _plan_call(value, views, target)
    if isinstance(planned, str):
        return planned
    call, arguments = planned
    key = call, value.shape, len(arguments)
    if key not in known:
        known[key] = make_kernel_text("attention", key, [value.op], target, partial(_text, target, *key))
    return LoweredAttention(*known[key], [*arguments, value], call.plan.tiles, call.plan.scratch)


def _text(target: Target, call: AttentionCall, shape: tuple[int, ...], count: int) -> str:
    plan, b = call.plan, Builder(target)
    given = [plan.kind.scalar] * len(call.operands)
    if plan.mask is not None and plan.truths:
        given[-1] = BOOL
    with b.kernel(NAME_PLACEHOLDER) as (args, tile, thread):
        b.bind_symbols(find_symbols(call, shape))
        pointers = [b.argument(args, i) for i in range(count + 2)]
        scratch = b.gep(pointers[-1], b.mul(thread, plan.scratch), I8)
        placed = [
            b.gep(pointers[i], offset, kind) if offset else pointers[i]
            for (i, offset), kind in zip(call.operands, given, strict=True)
        ]
        mask = placed.pop() if plan.mask is not None else None
        into = pointers[count]
        if call.above:
            g, q, k, v = placed
            results = _results(b, plan, into, shape)
            write_attention_gradient(b, plan, StridedPointer(g, call.above), q, k, v, mask, results, scratch, tile)
        else:
            q, k, v = placed
            strides = row_major(shape)
            steps = tuple(strides[i] for i in _swap_heads_and_rows(len(shape)))
            write_attention(b, plan, q, k, v, mask, into, steps, scratch, tile)
    return b.text()


def _results(
    b: Builder, plan: AttentionPlan, into: Reg, shape: tuple[int, ...]
) -> tuple[StridedPointer, StridedPointer, StridedPointer]:
    """The parts of the gradient's array, as `gradient_part` takes it apart."""
    found, offset, strides = [], 0, row_major(shape)
    same = plan.q.shape == plan.k.shape == plan.v.shape
    for i, stack in enumerate((plan.q, plan.k, plan.v)):
        *lead, heads, rows, size = stack.shape
        if same:  # (…, L, 3, H, E)
            offset = i * strides[-3]
            steps = (*strides[: len(lead)], strides[-2], strides[-4], 1)
        else:
            steps = (*strides[: len(lead)], size, heads * size, 1)
        found.append(StridedPointer(b.gep(into, offset, plan.kind.scalar) if offset else into, steps))
        offset += heads * rows * size
    return found[0], found[1], found[2]


def lower(group: Group, fusion: Fusion, target: Target, known: KernelMemo) -> Kernel:
    """The kernel of an equation of attention."""
    assert group.root is not None
    lowered = lower_attention(group.root, fusion.views, target, known)
    assert not isinstance(lowered, str)
    return Kernel(lowered.name, lowered.code, lowered.arguments, group, lowered.tiles, lowered.scratch)
