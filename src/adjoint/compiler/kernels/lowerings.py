"""Lowering of groups to kernels, by the kind of their root; a group without one is a loop nest."""

from __future__ import annotations

from collections.abc import Hashable
from importlib import import_module
from typing import NamedTuple

from adjoint.compiler.ir.graph import Value
from adjoint.compiler.ir.strided_view import StridedView
from adjoint.compiler.ir.symbolic_size import is_symbolic_size
from adjoint.compiler.kernels import kernel_kinds
from adjoint.compiler.kernels.elementwise import fingerprint
from adjoint.compiler.kernels.kernel import Kernel
from adjoint.compiler.kernels.kernel_kinds import KERNEL_KINDS
from adjoint.compiler.kernels.kernel_text import NAME_PLACEHOLDER, KernelMemo, name_by_digest
from adjoint.compiler.kernels.loop_nest import loop_nest, reduction_stages
from adjoint.compiler.kernels.loop_nest.iteration_space import space_of
from adjoint.compiler.llvm.jit.target import Target
from adjoint.compiler.passes.fusion import Fusion
from adjoint.compiler.passes.fusion_group import Group
from adjoint.compiler.passes.materialize import is_generated

EMPTY_KERNEL = f"define void @{NAME_PLACEHOLDER}(ptr %args, i64 %tile, i64 %thread) {{\n  ret void\n}}\n"


def lower_all(fusion: Fusion, target: Target) -> dict[Group, Kernel]:
    """The kernels of all groups that are no calls."""
    known: KernelMemo = {}
    lowered: dict[Hashable, _LoweredGroup] = {}
    return {group: _lower_once(group, fusion, target, known, lowered) for group in fusion.order if not group.call}


class _LoweredGroup(NamedTuple):
    """The kernel of a group, which others like it share: their arguments and numbers by the places these have."""

    kernel: Kernel
    arguments: list[int]
    numbers: list[int]


def _lower_once(
    group: Group, fusion: Fusion, target: Target, known: KernelMemo, lowered: dict[Hashable, _LoweredGroup]
) -> Kernel:
    """The kernel of a group; that of a group like it, as an unrolled loop has many, with this one's arguments.

    It is so for loop nests and plain products, whose kernels depend on nothing but `_structure_of`.
    """
    kind = None if group.root is None else KERNEL_KINDS[group.root.op.name]
    plain = kind is None or (kind is kernel_kinds.PRODUCT and fusion.precision == "highest")
    if group in fusion.elided_concats or group.gate_width or group.concatenations or group.prologue or not plain:
        return lower_group(group, fusion, target, known)
    structure, values, offsets = _structure_of(group, fusion)
    found = lowered.get(structure)
    if found is not None:
        kernel = found.kernel
        arguments, numbers = [values[i] for i in found.arguments], [offsets[i] for i in found.numbers]
        return Kernel(kernel.name, kernel.code, arguments, group, kernel.tiles, kernel.scratch, None, numbers)
    kernel = lower_group(group, fusion, target, known)
    places = {v: i for i, v in enumerate(values)}
    lowered[structure] = _LoweredGroup(
        kernel, [places[v] for v in kernel.arguments], [offsets.index(number) for number in kernel.numbers]
    )
    return kernel


def _structure_of(group: Group, fusion: Fusion) -> tuple[Hashable, list[Value], list[int]]:
    """Return a group's kernel as a key with numbers for values and offsets, and these in the order of the numbers."""
    views, values, offsets = fusion.views, dict[Value, int](), {0: 0}
    facts: list[Hashable] = [group.shape, group.axes]
    for v in group.equations:
        facts += v.op, v.shape, v.dtype, v in group.reduced_values
        for x in v.inputs:
            if isinstance(x, Value):
                base, shape, strides, offset = views[x]
                place = values.setdefault(base, len(values))
                facts += place, shape, strides
                facts.append(offset if is_symbolic_size(offset) else offsets.setdefault(offset, len(offsets)))
            else:
                facts.append(fingerprint(x))
        facts.append(values.setdefault(v, len(values)))
    for base in values:
        facts += base.shape, base.dtype, fingerprint(base) if is_generated(base) else None
    facts += None if group.root is None else values[group.root], *[values[v] for v in group.stored]
    return tuple(facts), [*values], [*offsets]


def lower_group(group: Group, fusion: Fusion, target: Target, known: KernelMemo) -> Kernel:
    """The kernel of one group."""
    if group in fusion.elided_concats:
        return lower_elided(group)
    if group.root is None:
        return loop_nest.lower(group, fusion, target, known)
    folder, function = LOWERINGS[KERNEL_KINDS[group.root.op.name]]
    lowering = import_module(f"adjoint.compiler.kernels.{folder}.lowering")
    kernel: Kernel = getattr(lowering, function)(group, fusion, target, known)
    return kernel


def lower_elided(group: Group) -> Kernel:
    """The kernel of a concatenation whose parts are stored where it is."""
    return Kernel(*name_by_digest(EMPTY_KERNEL, "nothing"), [], group)


def can_overwrite(group: Group, fusion: Fusion, value: Value, symbol: Value) -> bool:
    """True if a group's kernel may write `value` over `symbol`: it reads no element of that after writing it."""
    if group.root is None:
        return reduction_stages.can_overwrite(value, symbol, space_of(group, fusion))
    if KERNEL_KINDS[group.root.op.name] is kernel_kinds.WRITING:
        from adjoint.compiler.kernels.gather_scatter.scatter import can_write_into

        return can_write_into(group.root, symbol, fusion.views)
    views: dict[Value, list[StridedView]] = {v: [fusion.views[o] for o in v.operands] for v in group.equations}
    read = {v: [view for view in found if view.base is symbol] for v, found in views.items()}
    return not any(read[v] for v in (group.root, *group.prologue)) and all(
        view.is_linear and symbol.size == value.size for r in read.values() for view in r
    )


# For each kind the module and the function that write it: imported when the first such group comes.
LOWERINGS = {
    kernel_kinds.PRODUCT: ("matmul", "lower"),
    kernel_kinds.READING: ("gather_scatter", "lower_gather"),
    kernel_kinds.WRITING: ("gather_scatter", "lower_scatter"),
    kernel_kinds.SPATIAL: ("conv_pool", "lower"),
    kernel_kinds.DRAW: ("random", "lower"),
    kernel_kinds.ATTENTION: ("attention", "lower"),
    kernel_kinds.MATRICES: ("linalg", "lower"),
    kernel_kinds.ROWS: ("rows", "lower"),
}
