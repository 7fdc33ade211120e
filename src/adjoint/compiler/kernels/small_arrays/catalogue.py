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

MODULES = (softmax, normalization, row_reductions, elementwise, gather_row, optimizer_updates)
ROUTINES = {name: entry for module in MODULES for name, entry in module.ROUTINES.items()}


def write_routine(name: str) -> str:
    """The module of a routine for this machine."""
    return text(name, ROUTINES[name], host())
