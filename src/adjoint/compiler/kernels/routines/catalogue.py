"""All routines, by name."""

from __future__ import annotations

from adjoint.compiler.kernels.routines import elements, folding, normalization, picking, softmax, updates
from adjoint.compiler.kernels.routines.entry import text
from adjoint.compiler.llvm.target import host

ROUTINES = {
    **softmax.ROUTINES, **normalization.ROUTINES, **folding.ROUTINES, **elements.ROUTINES, **picking.ROUTINES,
    **updates.ROUTINES,
}  # fmt: skip


def written(name: str) -> str:
    """The module of a routine for this machine."""
    return text(name, ROUTINES[name], host())
