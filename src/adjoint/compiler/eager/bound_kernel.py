"""A recipe, which is machine code and what each word of its tables is, and the kernel that is bound from it."""

from __future__ import annotations

import ctypes
import os
from typing import NamedTuple

import numpy as np

from adjoint.compiler.llvm.jit.engine import Engine, load
from adjoint.compiler.passes.memory_plan import aligned_bytes
from adjoint.compiler.runtime.native_entry import Check, KernelCall, Segment
from adjoint.core.op.eager_kernels import KernelOperand
from adjoint.core.runtime.threads import get_num_threads
from adjoint.core.typing import Array

KernelArguments = list[float | tuple[int, ...] | KernelOperand | None]
MAX_SPARE_INSTANCES = 4  # bound kernels kept for threads that call at once


class Recipe(NamedTuple):
    """The data that a kernel is bound from. One without `objects` says that NumPy is to compute the function.

    `rows` are the words of all tables: a kind and a number, which is an offset into the arena or the scratch memory,
    the number of a constant, or the word itself; that of an array is stored by each call, as `bindings` say.
    """

    results: tuple[tuple[tuple[int, ...], str], ...] = ()  # shapes, and NumPy's words for types
    several: bool = False  # results, in a tuple
    places: tuple[int, ...] = ()  # of the arrays that it takes, among the operands and then the results
    steps: tuple[tuple[str, int, int], ...] = ()  # the kernel's name, "" for a check; where its table begins; tiles
    rows: tuple[tuple[str, int], ...] = ()
    bindings: tuple[tuple[int, int], ...] = ()  # which array's address goes to which row
    constants: tuple[Array, ...] = ()
    arena: int = 0
    scratch: int = 0  # of each thread
    seconds: float = 0.0
    divided: float = 0.0  # of them, in kernels of several tiles
    objects: tuple[bytes, ...] = ()


class KernelInstance(NamedTuple):
    """Kernels with memory of their own: what one call at a time uses."""

    segment: Segment
    places: tuple[int, ...]


class LoadedKernel:
    """A function of arrays in native code. Any number of threads may call it."""

    __slots__ = ("_constants", "_engine", "_recipe", "_several", "_spare_instances", "_specs")

    def __init__(self, recipe: Recipe) -> None:
        self._engine = load(recipe.objects)
        self._recipe = recipe._replace(objects=())
        self._constants = [aligned_bytes(x.nbytes).view(x.dtype).reshape(x.shape) for x in recipe.constants]
        for constant, array in zip(self._constants, recipe.constants, strict=True):
            constant[...] = array
        self._specs = [(shape, np.dtype(kind)) for shape, kind in recipe.results]
        self._several = recipe.several
        self._spare_instances = [_bind_recipe(self._recipe, self._engine, self._constants)]

    def __call__(self, operands: list[Array]) -> Array | tuple[Array, ...] | None:
        """The results in new arrays, and what is written in place; None if a check failed: NumPy says which."""
        operands = [x if x.flags.c_contiguous and x.flags.aligned else x.copy() for x in operands]
        made = [np.empty(shape, dtype) for shape, dtype in self._specs]
        arrays = (*operands, *made)
        try:
            bound = self._spare_instances.pop()  # in one step, whatever other threads do
        except IndexError:
            bound = _bind_recipe(self._recipe, self._engine, self._constants)
        failed = bound.segment.call(*[arrays[i] for i in bound.places])
        if len(self._spare_instances) < MAX_SPARE_INSTANCES:
            self._spare_instances.append(bound)
        if failed is not None:
            return None
        return made[0] if len(made) == 1 and not self._several else tuple(made)


def _bind_recipe(recipe: Recipe, engine: Engine, constants: list[Array]) -> KernelInstance:
    threads = max(get_num_threads(), os.cpu_count() or 1)
    arena, scratch = aligned_bytes(recipe.arena), aligned_bytes(recipe.scratch * threads)
    begin = {"arena": arena.ctypes.data, "scratch": scratch.ctypes.data, "word": 0}
    addresses = [array.ctypes.data for array in constants]
    words = [addresses[n] if kind == "constant" else begin[kind] + n for kind, n in recipe.rows]
    tables = (ctypes.c_int64 * len(words))(*words)
    first = ctypes.addressof(tables)
    steps = [
        KernelCall(engine.address(name), first + 8 * row, tiles) if name else Check(first + 8 * row)
        for name, row, tiles in recipe.steps
    ]
    bindings = [(array, first + 8 * row) for array, row in recipe.bindings]
    held = engine, constants, arena, scratch, tables
    return KernelInstance(Segment(bindings, steps, held, recipe.seconds, recipe.divided, threads), recipe.places)
