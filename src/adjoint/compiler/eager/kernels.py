"""Kernels for eager calls, which are kept on disk whole: another process runs them without the passes and LLVM.

What is kept is the recipe that a kernel is bound from. The key of a recipe is of all that decides it: the function and
its arguments, the machine, and the source files of this package.
"""

from __future__ import annotations

import atexit
import pickle
import sys
from collections.abc import Callable
from contextlib import suppress
from types import FunctionType
from typing import Any

import numpy as np

from adjoint.compiler.cache.disk_cache import own_disk
from adjoint.compiler.cache.hashing import digest
from adjoint.compiler.cache.source_fingerprint import sources
from adjoint.compiler.eager.bound_kernel import EagerKernel, Recipe
from adjoint.compiler.llvm.jit.target import host
from adjoint.core.dtype.dtype import get_default_dtype
from adjoint.core.op.eager_kernels import Native, Operand, drawer_slot, source
from adjoint.core.op.op import Op

KIND = ".kernel"
DECLARING = ("functions", "optim")  # the layers by whose files a recipe is decided, beside those of all kernels


def make(native: Native, arguments: list[Any], params: dict[str, Any]) -> Callable[[list[Any]], Any] | None:
    """What computes the function on arrays such as these; None if a part of it would be left to NumPy.

    `arguments`: an `Operand` for each array, and the others as they are.
    """
    if not all(_has_kernels(x.dtype) for x in arguments if type(x) is Operand):
        return None
    try:
        recipe = _recipe(native, arguments, params)
        if not recipe.objects:
            return None
        kernel = EagerKernel(recipe)
    except Exception:
        if source.strict:
            raise
        return None
    _users.add(native)
    return kernel


_users: set[Native] = set()


@atexit.register
def _forget() -> None:
    """Let go of all kernels while what they are freed with is still there."""
    source.enabled = False
    for native in _users:
        native.kernels.clear()


def _has_kernels(dtype: np.dtype[Any]) -> bool:
    return bool(dtype.isnative and (dtype.kind in "biu" or (dtype.kind == "f" and dtype.itemsize in (4, 8))))


def _recipe(native: Native, arguments: list[Any], params: dict[str, Any]) -> Recipe:
    """From disk, else newly made."""
    disk = own_disk()
    key = _key(native, arguments, params) if disk else None
    kept = disk.read(key, KIND) if disk and key else None
    if kept is not None:
        with suppress(Exception):
            return Recipe(*pickle.loads(kept))
    from adjoint.compiler.eager.recipes import recipe

    made = recipe(native, arguments, params)
    if disk and key:
        disk.write(key, pickle.dumps(tuple(made), 5), KIND)
    return made


def _key(native: Native, arguments: list[Any], params: dict[str, Any]) -> str | None:
    """The digest of all that decides the recipe; None if that cannot be told."""
    function: Any = native.function
    held = [cell.cell_contents for cell in function.__closure__ or ()]
    called = [x.evaluate if type(x) is Op else x for x in held]  # an op, and the function that applies it
    if not all(type(x) is Op or (type(x) is FunctionType and x.__closure__ is None) for x in held):
        return None
    told = [(f.__module__, f.__qualname__, f.__code__.co_firstlineno) for f in (function, *called)]
    given = [(x.shape, x.dtype.str, x.order) if type(x) is Operand else (type(x).__name__, repr(x)) for x in arguments]
    facts = (
        sources(*DECLARING), host().fingerprint(), sys.version, np.__version__, str(get_default_dtype()), native.name,
        native.written, told, given, params,
    )  # fmt: skip
    text = repr(facts)
    if " at 0x" in text or any(not module.startswith("adjoint.") for module, *_ in told):
        return None
    return digest(text)


def _drawer(state: Any) -> Any:
    from adjoint.compiler.kernels.random.eager import Drawer

    return Drawer(state)


drawer_slot.fill(_drawer)
sources(*DECLARING)  # now, as the modules are loaded: later the files may be others than those that run
