"""Memory of large results, used again when nobody holds it: new memory costs a fault for each page."""

from __future__ import annotations

from sys import getrefcount

import numpy as np

from adjoint.core.tensor.mutation_log import mutation_log
from adjoint.core.typing import Array, NumpyDtype

MIN_REUSED_BYTES = 1 << 18  # bytes
MAX_ARRAYS_PER_RESULT = 2  # arrays for each result: a loop holds the last one while the next is made


def take_reusable_result(kept: list[Array], shape: tuple[int, ...], dtype: NumpyDtype) -> Array:
    """One of the arrays that were results of earlier calls, if it is free and was not written since; else a new one."""
    for i in range(len(kept)):
        unshared = _count_references(kept, i) == UNSHARED_REFCOUNT and id(kept[i]) not in mutation_log.by_memory
        if unshared and kept[i].shape == shape:
            return kept[i]
    array = np.empty(shape, dtype)
    kept.append(array)
    if len(kept) > MAX_ARRAYS_PER_RESULT:
        kept.pop(0)
    return array


def _count_references(kept: list[Array], i: int) -> int:
    return getrefcount(kept[i])


UNSHARED_REFCOUNT = _count_references([np.empty(0)], 0)  # as Pythons count differently what they hold for themselves
