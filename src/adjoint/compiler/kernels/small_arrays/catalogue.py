"""All routines, by name."""

from __future__ import annotations

from collections.abc import Callable

from adjoint.compiler.kernels.small_arrays import (
    column_folds,
    ctc_steps,
    elementwise,
    few_queries,
    gather_row,
    joining,
    recurrent_steps,
    row_reductions,
    softmax,
    sparse_product,
)
from adjoint.compiler.kernels.small_arrays.entry import SmallArrayEntry, text
from adjoint.compiler.kernels.small_arrays.images import grid_sampling, resampling, window_pooling
from adjoint.compiler.kernels.small_arrays.norms import channel_norms, normalization, running_statistics
from adjoint.compiler.llvm.jit.target import Target, host

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
    joining,
    recurrent_steps,
    resampling,
    running_statistics,
    sparse_product,
    window_pooling,
)
ROUTINES: dict[str, SmallArrayEntry | Callable[[str, Target], str]] = {
    name: entry for module in MODULES for name, entry in module.ROUTINES.items()
}


def write_routine(name: str) -> str:
    """The module of a routine for this machine."""
    entry = ROUTINES[name]
    return text(name, entry, host()) if isinstance(entry, SmallArrayEntry) else entry(f"adjoint_{name}", host())
