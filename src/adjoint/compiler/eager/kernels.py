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

from adjoint.compiler.cache.disk_cache import default_disk_cache
from adjoint.compiler.cache.hashing import digest
from adjoint.compiler.cache.source_fingerprint import source_fingerprint
from adjoint.compiler.eager.bound_kernel import KernelArguments, LoadedKernel, Recipe
from adjoint.compiler.llvm.jit.target import host
from adjoint.core.dtype.dtype import get_default_dtype
from adjoint.core.op.eager_kernels import (
    KernelFunction,
    KernelOperand,
    kernel_provider,
    make_sampler,
    report_kernel_errors,
)
from adjoint.core.op.op import Op
from adjoint.core.typing import Array, Params

RECIPE_SUFFIX = ".kernel"
DECLARING_LAYERS = ("functions", "optim")  # the layers by whose files a recipe is decided, beside those of all kernels


def make_kernel(
    native: KernelFunction, arguments: KernelArguments, params: Params
) -> Callable[[list[Any]], Any] | None:
    """Return a kernel for arrays of these shapes and types; None if a part of it would be left to NumPy.

    `arguments`: an `KernelOperand` for each array, and the others as they are.
    """
    dtypes = {x.dtype for x in arguments if type(x) is KernelOperand}
    if not all(t.isnative and (t.kind in "biu" or (t.kind == "f" and t.itemsize in (4, 8))) for t in dtypes):
        return None
    with report_kernel_errors(native.name):
        recipe = _load_or_make_recipe(native, arguments, params)
        if recipe.objects:
            kernel = LoadedKernel(recipe)
            _functions_with_kernels.add(native)
            return kernel
    return None


_functions_with_kernels: set[KernelFunction] = set()


@atexit.register
def _clear_kernels() -> None:
    """Let go of all kernels while what they are freed with is still there."""
    kernel_provider.enabled = False
    for native in _functions_with_kernels:
        native.kernels.clear()


def _load_or_make_recipe(native: KernelFunction, arguments: KernelArguments, params: Params) -> Recipe:
    """Return the recipe from disk, else a new one."""
    disk = default_disk_cache()
    key = _recipe_key(native, arguments, params) if disk else None
    kept = disk.read(key, RECIPE_SUFFIX) if disk and key else None
    if kept is not None:
        with suppress(Exception):
            return Recipe(*pickle.loads(kept))
    from adjoint.compiler.eager.recipes import make_recipe

    made = make_recipe(native, arguments, params)
    if disk and key:
        disk.write(key, pickle.dumps(tuple(made), 5), RECIPE_SUFFIX)
    return made


def _recipe_key(native: KernelFunction, arguments: KernelArguments, params: Params) -> str | None:
    """The digest of all that decides the recipe; None if that cannot be told."""
    function: Any = native.function
    held = [cell.cell_contents for cell in function.__closure__ or ()]
    called = [x.evaluate if type(x) is Op else x for x in held]  # an op, and the function that applies it
    if not all(type(x) is Op or (type(x) is FunctionType and x.__closure__ is None) for x in held):
        return None
    told = [(f.__module__, f.__qualname__, f.__code__.co_firstlineno) for f in (function, *called)]
    given = [
        (x.shape, x.dtype.str, x.dim_order) if type(x) is KernelOperand else (type(x).__name__, repr(x))
        for x in arguments
    ]
    machine = (source_fingerprint(*DECLARING_LAYERS), host().fingerprint(), sys.version, np.__version__)
    facts = (*machine, str(get_default_dtype()), native.name, native.written, told, given, params)
    text = repr(facts)
    if " at 0x" in text or any(not module.startswith("adjoint.") for module, *_ in told):
        return None
    return digest(text)


def _make_drawer(state: Array) -> Any:
    from adjoint.compiler.kernels.random.eager import Drawer

    return Drawer(state)


make_sampler.fill(_make_drawer)
source_fingerprint(*DECLARING_LAYERS)  # now: later the files may be others than those that run
