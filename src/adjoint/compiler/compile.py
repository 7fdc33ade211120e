"""`compile`: a function that is traced on its first call for each signature, and runs as native code from then on."""

from __future__ import annotations

import functools
import threading
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from adjoint.compiler import tree
from adjoint.core.mode import mode, unusual
from adjoint.core.node import Leaf, tick
from adjoint.core.tensor import Tensor

ACCEPTED = {"mode", "fullgraph", "dynamic", "backend", "options", "disable"}  # torch.compile's
PROGRAMS = 8  # kept for one signature, when the Python state that steps rely on keeps changing


def compile(function: Callable[..., Any] | None = None, **options: Any) -> Any:
    """`function` compiled on its first call for each signature of its arguments; usable as a decorator.

    Without llvmlite it says so once and returns `function` itself. torch.compile's options are accepted; but for
    `disable` they choose among compilers, and change nothing. Others raise TypeError.
    """
    unknown = sorted(set(options) - ACCEPTED)
    if unknown:
        raise TypeError(f"compile() got an unexpected keyword argument {unknown[0]!r}")
    if function is None:
        return lambda decorated: compile(decorated, **options)
    if options.get("disable") or not _has_llvmlite():
        return function
    return CompiledFunction(function)


@functools.cache
def _has_llvmlite() -> bool:
    try:
        import llvmlite.binding  # noqa: F401  asks whether it is there
    except ImportError:
        warnings.warn(
            "adjoint.compile needs the package llvmlite, which is not installed: the step runs eagerly, with the same "
            "results (pip install llvmlite)",
            RuntimeWarning,
            stacklevel=4,
        )
        return False
    return True


class CompiledFunction:
    """A step with a program for each signature it was called with.

    `graph`, `kernels` and `explain()` show the program that ran last; `compilations` counts the traces. Other
    attributes are those of the function itself, so that a compiled module still has its parameters.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        functools.update_wrapper(self, function, updated=())
        self.function = function
        self.name = getattr(function, "__name__", type(function).__name__)
        self.compilations = 0
        self._programs: dict[Any, list[Any]] = {}
        self._latest: Any = None
        self._lock = threading.RLock()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        latest = self._latest
        if latest is not None and latest.direct and not kwargs and len(args) == latest.count:
            for x in args:
                if type(x) is not Tensor or x.node is not None:
                    break
            else:
                results = latest.run(*args)
                if type(results) is tuple:
                    return latest.rebuild(results)
        return self._dispatch(args, kwargs)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["function"], name)

    @property
    def graph(self) -> Any:
        """The graph of the program that ran last, after rewriting."""
        return self._program().graph

    def explain(self) -> str:
        """Which equations became which kernel, from which lines, and why each kernel begins where it does."""
        from adjoint.compiler.explain import explain

        return explain(self._program())

    @property
    def kernels(self) -> list[dict[str, Any]]:
        """For each step of the program: its kind, its ops, the source lines they came from."""
        from adjoint.compiler.explain import steps

        return steps(self._program())

    def _program(self) -> Any:
        if self._latest is None:
            raise RuntimeError(f"compiled function {self.name!r} was not called yet: there is no program to show")
        return self._latest.program

    def _dispatch(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Find or make the program for these arguments."""
        if unusual.count and mode.tracer is not None:
            return self.function(*args, **kwargs)  # inside another compiled step: part of it
        leaves, structure = tree.flatten((args, kwargs))
        tensors = [x for x in leaves if isinstance(x, Tensor)]
        aliases = _aliases(tensors)
        key = (structure, tuple(map(_signature, leaves)), aliases, mode.recording)
        with self._lock:
            entries = self._programs.setdefault(key, [])
            for entry in entries:
                if entry.program.holds():
                    results = entry.run(*tensors)
                    if type(results) is tuple:
                        self._latest = entry
                        return entry.rebuild(results)
            if len(entries) == PROGRAMS:
                self._say_recompiling(entries.pop(0))
            direct = not kwargs and len(tensors) == len(args) and aliases == tuple(range(len(tensors)))
            entry = self._latest = self._trace(args, kwargs, tensors, direct)
            entries.append(entry)
            return entry.rebuild(entry.run(*tensors, fresh=True))

    def _say_recompiling(self, entry: Any) -> None:
        changed = [w.what for w in entry.program.outcome.watches if not w.holds()]
        warnings.warn(
            f"compiled function {self.name!r} was traced more than {PROGRAMS} times for one signature of arguments; "
            f"what keeps changing: {', '.join(changed) or 'the tensors that it captured'}",
            RuntimeWarning,
            stacklevel=4,
        )

    def _trace(self, args: tuple[Any, ...], kwargs: dict[str, Any], tensors: list[Tensor], direct: bool) -> Any:
        from adjoint.compiler.build import Entry, build
        from adjoint.compiler.outcome import outcome_of
        from adjoint.compiler.trace import Tracer

        self.compilations += 1
        tracer = Tracer(self.name)
        try:
            for i, tensor in enumerate(tensors):
                tracer.bind_argument(tensor, i, f"{i}")
            result = tracer.trace(self.function, args, kwargs)
            outcome, structure, places = outcome_of(tracer, result, tensors)
        finally:
            tracer.restore()
        return Entry(build(tracer.graph, outcome, functools.partial(Lost, self.name)), structure, places, direct)


def _aliases(tensors: list[Tensor]) -> tuple[int, ...]:
    """For each tensor the first one of the same memory."""
    first: dict[int, int] = {}
    return tuple(first.setdefault(id(tensor.array), i) for i, tensor in enumerate(tensors))


def _signature(leaf: Any) -> Any:
    """What of an argument decides which program runs: everything, except a tensor's values."""
    if isinstance(leaf, Tensor):
        if leaf.node is not None and type(leaf.node) is not Leaf:
            raise RuntimeError(
                "a compiled step was given a tensor with a history; compile the whole step, or detach() the argument"
            )
        # a parameter may be met again as state: each has a program of its own
        return leaf.array.shape, leaf.array.dtype, leaf.node is not None, 0 if type(leaf) is Tensor else id(leaf)
    if isinstance(leaf, np.ndarray):
        raise TypeError(
            "a compiled step was given an ndarray, whose values would be frozen into it: pass a tensor "
            "(adjoint.from_numpy)"
        )
    try:
        hash(leaf)
    except TypeError:
        return id(leaf)
    return type(leaf), leaf


class Lost:
    """The node of a result whose history stayed inside a compiled step."""

    __slots__ = ("__weakref__", "dtype", "hooks", "order", "parents", "saved", "shape", "step")
    next_functions = ()
    op = None
    parents: tuple[Any, ...]

    def __init__(self, step: str, tensor: Tensor) -> None:
        self.step, self.shape, self.dtype = step, tensor.array.shape, tensor.array.dtype
        self.parents, self.hooks, self.saved, self.order = (), None, None, tick()

    def name(self) -> str:
        """`CompiledBackward`."""
        return "CompiledBackward"

    def pull(self, g: Any) -> Any:
        """Raise RuntimeError: there is no way back into the step."""
        raise RuntimeError(
            f"this tensor was computed inside the compiled step {self.step!r}; call backward() inside the step, or "
            "compile forward and backward together"
        )

    def __repr__(self) -> str:
        return f"<CompiledBackward object of {self.step}>"
