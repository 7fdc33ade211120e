"""`Function`: ops that users write, with a forward and a backward of their own.

Modules, in reading order:

- `saved`: The tensors that a Function keeps for its backward, without a way back from them to the node that keeps
  them.
- `context`: `ctx`: the node of a Function as its `forward`, `backward` and `jvp` see it.
- `node`: One application of a Function in the recorded graph.
- `outputs`: Outputs of a Function: tensors that forward returned get a history, and views stay views.
- `function`: `Function`: an op whose forward and backward the user writes in Python.
- `non_differentiable`: A backward that is not itself differentiable.
"""

from __future__ import annotations

from adjoint.core.runtime.lazy_import import attach_lazy_names

_HOMES = {
    "function": """
        BackwardCFunction Function FunctionCtx FunctionMeta InplaceFunction NestedIOFunction
        NonDifferentiableBackward has_setup_context once_differentiable
    """
}
__all__, __getattr__, __dir__ = attach_lazy_names(__name__, _HOMES)
