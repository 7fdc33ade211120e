"""Reading and writing at positions which are data, and joining arrays, as kernels of a graph."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from adjoint.compiler.ir.graph import Value
from adjoint.compiler.kernels.epilogue import Epilogue
from adjoint.compiler.kernels.gather_scatter.gather import GatherPlan, find_runs, plan_gather, write_gather
from adjoint.compiler.kernels.gather_scatter.index_space import number_offsets
from adjoint.compiler.kernels.gather_scatter.scatter import plan_scatter, write_scatter
from adjoint.compiler.kernels.kernel import Kernel
from adjoint.compiler.kernels.kernel_text import NAME_PLACEHOLDER, KernelMemo, make_kernel_text
from adjoint.compiler.llvm.builder import Builder
from adjoint.compiler.llvm.jit.target import Target

if TYPE_CHECKING:
    from adjoint.compiler.passes.fusion import Fusion
    from adjoint.compiler.passes.fusion_group import Group


def lower_gather(group: Group, fusion: Fusion, target: Target, known: KernelMemo) -> Kernel:
    """The kernel of what is read and of what follows it element by element."""
    assert group.root is not None
    plan = plan_gather(group.root, target, fusion.views.__getitem__)
    assert plan is not None
    epilogue = Epilogue(group, fusion, group.root.shape)
    bases = list(dict.fromkeys((*plan.arguments, *epilogue.accesses.bases)))
    places = tuple(bases.index(v) for v in (*_values(plan), *epilogue.accesses.bases))
    offsets = {0: 0}
    key = repr(number_offsets(plan, offsets)), places, epilogue.structure
    numbers = [offset for offset in offsets if offset]
    if key not in known:
        ops = [v.op for v in group.equations]
        write = partial(_write, plan, epilogue, bases, target, numbers)
        known[key] = make_kernel_text("read", key, ops, target, write)
    return Kernel(*known[key], bases, group, plan.tiles, numbers=[*numbers, *epilogue.accesses.numbers])


def lower_scatter(group: Group, fusion: Fusion, target: Target, known: KernelMemo) -> Kernel:
    """The kernel of an equation that writes at indices."""
    assert group.root is not None
    plan = plan_scatter(group.root, target, fusion.views.__getitem__)
    assert plan is not None
    offsets = {0: 0}
    key = repr(number_offsets(plan, offsets)), tuple(plan.arguments.index(v) for v in _values(plan))
    numbers = [offset for offset in offsets if offset]
    if key not in known:
        write = partial(write_scatter, plan, target, numbers)
        known[key] = make_kernel_text("write", key, [group.root.op], target, write)
    return Kernel(*known[key], [*plan.arguments, group.root], group, plan.tiles, numbers=numbers)


def _write(plan: GatherPlan, epilogue: Epilogue, bases: list[Value], target: Target, offsets: list[int]) -> str:
    b = Builder(target)
    with b.kernel(NAME_PLACEHOLDER) as (args, tile, _):
        runs = find_runs(plan)
        in_runs = {piece.base for run in runs if len(run) > 1 for piece in run}
        in_runs -= {*epilogue.accesses.bases, *(run[0].base for run in runs if len(run) == 1)}
        pointers = {base: b.argument(args, i) for i, base in enumerate(bases) if base not in in_runs}
        registers = [b.number(args, len(bases) + i) for i in range(len(offsets) + len(epilogue.accesses.numbers))]
        finish = epilogue.finish(b, pointers, registers[len(offsets) :])
        write_gather(
            plan, b, args, pointers, tile, finish, target, dict(zip(offsets, registers[: len(offsets)], strict=True))
        )
    return b.text()


def _values(plan: Any) -> Iterator[Value]:
    """The arrays in a plan, wherever they are in it: what its `repr` does not tell apart."""
    if isinstance(plan, Value):
        yield plan
    elif isinstance(plan, tuple | list):
        for part in plan:
            yield from _values(part)
