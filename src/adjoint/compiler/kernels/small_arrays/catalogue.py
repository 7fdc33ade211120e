"""All routines, by name."""

from __future__ import annotations

from adjoint.compiler.kernels.small_arrays import (
    elementwise,
    gather_row,
    normalization,
    optimizer_updates,
    row_reductions,
    softmax,
)
from adjoint.compiler.kernels.small_arrays.entry import text
from adjoint.compiler.llvm.jit.target import host

ROUTINES = {
    **softmax.ROUTINES, **normalization.ROUTINES, **row_reductions.ROUTINES, **elementwise.ROUTINES,
    **gather_row.ROUTINES, **optimizer_updates.ROUTINES,
}  # fmt: skip


def write_routine(name: str) -> str:
    """The module of a routine for this machine."""
    return text(name, ROUTINES[name], host())
