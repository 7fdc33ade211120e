"""A step in the guise of its function, and the step that runs eagerly because llvmlite, which compiles, is missing."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, NoReturn

from adjoint.core.graph.source_location import warn_user
from adjoint.core.runtime.compile_slot import compile_slot
from adjoint.core.typing import Function

if TYPE_CHECKING:
    from adjoint.compiler.trace.recompilation import Recompilation

MISSING_COMPILER = (
    "adjoint.compile needs the package llvmlite, which is not installed: the step runs eagerly, with the same results "
    "(pip install llvmlite)"
)


@functools.cache
def has_llvmlite() -> bool:
    """True if llvmlite, which compiles, is installed; else a warning says so."""
    try:
        import llvmlite  # noqa: F401  asks whether it is there, and leaves LLVM itself to whoever needs it
    except ImportError:
        warn_user(MISSING_COMPILER, RuntimeWarning)
        return False
    return True


class StepWrapper:
    """A callable with the name, documentation and attributes of its function.

    One around a module has the module's parameters, takes its attributes, and passes for a module.
    """

    OWN_ATTRIBUTES = frozenset(("fallback", "function", "name", "recompilations", "_verbose"))
    recompilations: list[Recompilation]

    def __init__(self, function: Function, fallback: bool = False, verbose: bool = False) -> None:
        self.function = function
        if not self._is_module():
            functools.update_wrapper(self, function, updated=())
        self.name = getattr(function, "__name__", type(function).__name__)
        self.fallback, self._verbose = fallback, verbose
        self.recompilations = []

    def __get__(self, instance: object, owner: type | None = None) -> Function:
        return self if instance is None else functools.partial(self, instance)

    def __call__(self, *args: object, **kwargs: object) -> object:
        return self.function(*args, **kwargs)

    def __getattr__(self, name: str) -> Function:
        return getattr(self.__dict__["function"], name)

    def __setattr__(self, name: str, value: object) -> None:
        if name in self.OWN_ATTRIBUTES or not self._is_module():
            object.__setattr__(self, name, value)
        else:
            setattr(self.function, name, value)

    def __delattr__(self, name: str) -> None:
        delattr(self.function if self._is_module() else super(), name)

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return type(self.function) if self._is_module() else type(self)

    @property
    def compilations(self) -> int:
        """The number of times that the function was traced."""
        return len(self.recompilations)

    def _is_module(self) -> bool:
        return hasattr(type(self.__dict__.get("function")), "_call_impl")


@dataclass(frozen=True)
class EagerExplanation:
    """The report of `explain()` on a step that has no program. The fields are those of a program without kernels."""

    name: str
    entries: tuple[()] = ()
    equations: int = 0
    read: int = 0
    written: int = 0
    flops: int = 0
    backward: None = None
    ways: tuple[()] = ()

    def __str__(self) -> str:
        return f"{self.name}: not compiled. {MISSING_COMPILER}"

    def _repr_html_(self) -> str:
        return f"<p>{escape(str(self))}</p>"


class EagerStep(StepWrapper):
    """The step that `compile` makes where llvmlite is missing: it runs eagerly, and has the reports of a compiled step.

    `explain()` tells why; `compilations` is 0, `kernels` is empty. Reports that need a program raise RuntimeError.
    """

    def __reduce__(self) -> tuple[Function, tuple[object, ...]]:
        return _recompile, (self.function, self.fallback, self._verbose)

    def __repr__(self) -> str:
        return f"<not compiled, for want of llvmlite: {self.function!r}>"

    @property
    def kernels(self) -> Sequence[dict[str, object]]:
        """An empty list."""
        return []

    @property
    def sizes(self) -> Mapping[object, int]:
        """An empty dictionary."""
        return {}

    def explain(self, *args: object, profile: bool = False, **kwargs: object) -> EagerExplanation:
        """Explain why there are no kernels."""
        return EagerExplanation(self.name)

    def advice(self) -> EagerExplanation:
        """Return what to do for a faster step: to install llvmlite."""
        return EagerExplanation(self.name)

    @property
    def graph(self) -> NoReturn:
        """Raise RuntimeError: there is no program."""
        self._refuse("graph")

    def memory(self) -> NoReturn:
        """Raise RuntimeError: there is no program."""
        self._refuse("memory()")

    def source(self) -> NoReturn:
        """Raise RuntimeError: there is no program."""
        self._refuse("source()")

    def page(self, *args: object, profile: bool = True, **kwargs: object) -> NoReturn:
        """Raise RuntimeError: there is no program."""
        self._refuse("page()")

    def _repr_html_(self) -> str:
        return self.explain()._repr_html_()

    def _refuse(self, report: str) -> NoReturn:
        raise RuntimeError(f"{self.name!r} has no program whose {report} could be shown. {MISSING_COMPILER}")


def _recompile(function: Function, fallback: bool, verbose: bool) -> Function:
    """Compile a function that was pickled: where it is loaded, llvmlite may be there."""
    return compile_slot.call(function, fallback=fallback, verbose=verbose)
