"""Kernels for eager calls, which are kept on disk whole: another process runs them without the passes and LLVM.

A kernel is bound from a recipe: machine code, and what each word of its tables is. The key of a recipe is of all that
decides it: the function and its arguments, the machine, and the source files of this package.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import pickle
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np

from adjoint.compiler.cache.disk_cache import own_disk
from adjoint.compiler.cache.hashing import digest
from adjoint.compiler.cache.source_fingerprint import sources
from adjoint.compiler.llvm.jit.engine import Engine, load
from adjoint.compiler.llvm.jit.target import host
from adjoint.compiler.passes.memory_plan import aligned_bytes
from adjoint.compiler.runtime.native_entry import Check, Segment, Step
from adjoint.core.dtype.dtype import get_default_dtype
from adjoint.core.op.eager_kernels import Native, Operand, source
from adjoint.core.op.op import Op
from adjoint.core.runtime.threads import get_num_threads

KIND = ".kernel"
SPARE = 4  # bound kernels kept for threads that call at once
DECLARING = ("functions", "optim")  # the layers by whose files a recipe is decided, beside those of all kernels


class Recipe(NamedTuple):
    """What a kernel is bound from. One without `objects` says that NumPy is to compute the function.

    `rows` are the words of all tables: a kind and a number, which is an offset into the arena or the scratch memory,
    the number of a constant, or the word itself; that of an array is stored by each call, as `bindings` say.
    """

    results: tuple[tuple[tuple[int, ...], str], ...] = ()  # shapes, and NumPy's words for types
    several: bool = False  # results, in a tuple
    places: tuple[int, ...] = ()  # of the arrays that it takes, among the operands and then the results
    steps: tuple[tuple[str, int, int], ...] = ()  # the kernel's name, "" for a check; where its table begins; tiles
    rows: tuple[tuple[str, int], ...] = ()
    bindings: tuple[tuple[int, int], ...] = ()  # which array's address goes to which row
    constants: tuple[Any, ...] = ()
    arena: int = 0
    scratch: int = 0  # of each thread
    seconds: float = 0.0
    divided: float = 0.0  # of them, in kernels of several tiles
    objects: tuple[bytes, ...] = ()


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
    ops = [cell.cell_contents for cell in function.__closure__ or ()]
    if not all(type(op) is Op for op in ops):
        return None
    told = [(f.__module__, f.__qualname__, f.__code__.co_firstlineno) for f in (function, *(op.evaluate for op in ops))]
    given = [(x.shape, x.dtype.str, x.order) if type(x) is Operand else (type(x).__name__, repr(x)) for x in arguments]
    facts = (
        sources(*DECLARING), host().fingerprint(), sys.version, np.__version__, str(get_default_dtype()), native.name,
        native.written, told, given, params,
    )  # fmt: skip
    text = repr(facts)
    if " at 0x" in text or any(not module.startswith("adjoint.") for module, *_ in told):
        return None
    return digest(text)


class Bound(NamedTuple):
    """Kernels with memory of their own: what one call at a time uses."""

    segment: Segment
    places: tuple[int, ...]


class EagerKernel:
    """A function of arrays in native code. Any number of threads may call it."""

    __slots__ = ("_constants", "_engine", "_recipe", "_several", "_spare", "_specs")

    def __init__(self, recipe: Recipe) -> None:
        self._engine = load(recipe.objects)
        self._recipe = recipe._replace(objects=())
        self._constants = [_aligned(array) for array in recipe.constants]
        self._specs = [(shape, np.dtype(kind)) for shape, kind in recipe.results]
        self._several = recipe.several
        self._spare = [self._bind()]

    def __call__(self, operands: list[Any]) -> Any:
        """The results in new arrays, and what is written in place; None if a check failed: NumPy says which."""
        operands = [x if x.flags.c_contiguous and x.flags.aligned else x.copy() for x in operands]
        made = [np.empty(shape, dtype) for shape, dtype in self._specs]
        arrays = (*operands, *made)
        try:
            bound = self._spare.pop()  # in one step, whatever other threads do
        except IndexError:
            bound = self._bind()
        failed = bound.segment.call(*[arrays[i] for i in bound.places])
        if len(self._spare) < SPARE:
            self._spare.append(bound)
        if failed is not None:
            return None
        return made[0] if len(made) == 1 and not self._several else tuple(made)

    def _bind(self) -> Bound:
        return _bound(self._recipe, self._engine, self._constants)


def _bound(recipe: Recipe, engine: Engine, constants: list[Any]) -> Bound:
    threads = max(get_num_threads(), os.cpu_count() or 1)
    arena, scratch = aligned_bytes(recipe.arena), aligned_bytes(recipe.scratch * threads)
    begin = {"arena": arena.ctypes.data, "scratch": scratch.ctypes.data, "word": 0}
    addresses = [array.ctypes.data for array in constants]
    words = [addresses[n] if kind == "constant" else begin[kind] + n for kind, n in recipe.rows]
    tables = (ctypes.c_int64 * len(words))(*words)
    first = ctypes.addressof(tables)
    steps = [
        Step(engine.address(name), first + 8 * row, tiles) if name else Check(first + 8 * row)
        for name, row, tiles in recipe.steps
    ]
    bindings = [(array, first + 8 * row) for array, row in recipe.bindings]
    held = engine, constants, arena, scratch, tables
    return Bound(Segment(bindings, steps, held, recipe.seconds, recipe.divided, threads), recipe.places)


def _aligned(array: Any) -> Any:
    made = aligned_bytes(array.nbytes).view(array.dtype).reshape(array.shape)
    made[...] = array
    return made


def _drawer(state: Any) -> Any:
    from adjoint.compiler.kernels.random.eager import Drawer

    return Drawer(state)


source.drawer = _drawer
sources(*DECLARING)  # now, as the modules are loaded: later the files may be others than those that run
