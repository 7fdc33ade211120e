"""All routines, by name."""

from __future__ import annotations

from adjoint.compiler.kernels.small_arrays import (
    channel_norms,
    column_folds,
    ctc_steps,
    elementwise,
    few_queries,
    gather_row,
    grid_sampling,
    normalization,
    recurrent_steps,
    resampling,
    row_reductions,
    softmax,
    sparse_product,
)
from adjoint.compiler.kernels.small_arrays.entry import text
from adjoint.compiler.llvm.jit.target import host

MODULES = (
    softmax,
    normalization,
    channel_norms,
    column_folds,
    ctc_steps,
    row_reductions,
    elementwise,
    few_queries,
    gather_row,
    grid_sampling,
    recurrent_steps,
    resampling,
    sparse_product,
)
ROUTINES = {name: entry for module in MODULES for name, entry in module.ROUTINES.items()}


def write_routine(name: str) -> str:
    """The module of a routine for this machine."""
    return text(name, ROUTINES[name], host())
