"""The compiler: a Python step becomes native code by tracing, rewriting, fusion and lowering. Imported on first use.

Modules, in reading order:

- `compile`: `compile`: a function that is traced on its first call for each signature, and runs as native code from
  then on.
- `step_compiler`: One trace from beginning to end: what the step read and did in Python becomes guards and effects,
  and is undone.
- `trace`: Tracing: a call of the user's step becomes a graph, with the facts that it rests on.
- `ir`: The intermediate representation: graphs of equations, views, and their evaluation.
- `expressions`: Expressions and gradients of graphs, for users.
- `pipeline`: The pipeline from a traced graph to kernels: a list of passes with names.
- `passes`: Passes: from a graph to a better graph, and to the plan of its kernels and its memory.
- `kernels`: Kinds of kernels: from a group of equations to the text of one function.
- `llvm`: Native code: LLVM IR written as text, vector mathematics in it, and the engine which turns it into machine
  code.
- `build`: The way from a traced step to its program: rewrite, cut off the backward half, lay out, fuse, lower, bind.
- `program`: The compiled step: its buffers, its entry function, its backward node.
- `runtime`: The native runtime: the entry into compiled code, the threads that share its tiles, the checks before it.
- `cache`: Compiled code kept between runs.
- `report`: Reports on a compiled step: `explain()`, loops, memory, listings, a page.
- `eager`: Compiled kernels for eager calls.
- `log`: The log of the compiler: `ADJOINT_LOG=compile,trace,graph,rewrite,fusion,kernels,cache` writes to standard
  error.
- `progress`: The progress of a compilation that takes more than a second, on standard error: where the time goes.
- `cuts`: Steps whose Python asks for values: a path through the answers is a chain of programs, with the questions
  between.
- `known_entries`: The programs of a signature, tried in turn until one fits a call.
- `scripts`: Whole programs: their training regions are found, rewritten and compiled.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, TypeVar

from adjoint.core.op.eager_kernels import eager_kernels as eager_kernels
from adjoint.core.runtime.lazy_import import attach_lazy_names
from adjoint.core.runtime.mode import mode, nondefault
from adjoint.core.typing import Function

if TYPE_CHECKING:
    from adjoint.compiler.expressions.builder import as_function as as_function
    from adjoint.compiler.expressions.builder import symbolic as symbolic
    from adjoint.compiler.expressions.graph_gradient import compute_gradient as compute_gradient

Traced = TypeVar("Traced")


def is_compiling() -> bool:
    """True within a step while it is traced, as its Python runs then; False in all other calls."""
    return bool(nondefault.count and mode.interpreter is not None and mode.interpreter.traces_steps)


def disable(fn: Function | None = None, recursive: bool = True, *, reason: str | None = None) -> Function:
    """The function itself, which is traced where a step calls it; without one, a decorator."""
    return (lambda function: function) if fn is None else fn


def allow_in_graph(fn: Traced) -> Traced:
    """The function itself."""
    return fn


assume_constant_result = allow_in_graph


def reset() -> None:
    """Do nothing: each compiled step forgets its programs when it is deleted."""


def cudagraph_mark_step_begin() -> None:
    """Do nothing: there are no CUDA graphs."""


def is_exporting() -> bool:
    """False: programs are not exported."""
    return False


def is_dynamo_compiling() -> bool:
    """`is_compiling`."""
    return is_compiling()


def set_stance(*args: object, **kwargs: object) -> nullcontext[None]:
    """Do nothing: a new signature is always compiled."""
    return nullcontext()


def list_backends(*args: object, **kwargs: object) -> list[str]:
    """Return no names: there is no backend besides the library's own."""
    return []


__all__ = [
    "allow_in_graph", "as_function", "assume_constant_result", "compute_gradient", "cudagraph_mark_step_begin",
    "disable", "eager_kernels", "is_compiling", "is_dynamo_compiling", "is_exporting", "list_backends", "reset",
    "set_stance", "symbolic",
]  # fmt: skip
if not TYPE_CHECKING:
    _HOMES = {"expressions.graph_gradient": "compute_gradient", "expressions.builder": "as_function symbolic"}
    _, __getattr__, __dir__ = attach_lazy_names(__name__, _HOMES)
