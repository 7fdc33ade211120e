"""The history of a tensor that a step hands to a call outside of it: to be looked at, since it leads nowhere."""

from __future__ import annotations

from typing import NoReturn

from adjoint.core.graph.hooks import NodeHooks
from adjoint.core.graph.node import Leaf, next_sequence_nr
from adjoint.core.tensor.tensor import Tensor, shallow_copy
from adjoint.core.typing import NumpyDtype, Operand, Shape


class ShownHistory:
    """The node that a tensor seems to have outside of the step; `called` is "" for that of a leaf, None for none.

    `kind` is the tensor's class.
    """

    __slots__ = ("__weakref__", "called", "dtype", "hooks", "kind", "sequence_nr", "shape")
    next_functions: tuple[object, ...] = ()
    parents: tuple[Operand, ...] = ()
    op = saved_values = None

    def __init__(self, called: str | None, kind: type, shape: Shape, dtype: NumpyDtype) -> None:
        self.called, self.kind, self.shape, self.dtype = called, kind, shape, dtype
        self.hooks: NodeHooks | None = None
        self.sequence_nr = next_sequence_nr()

    def name(self) -> str:
        """The name of the node in the step."""
        return self.called or ""

    def pull(self, g: Operand) -> NoReturn:
        """Raise RuntimeError: the way back is that of the step."""
        raise RuntimeError(
            f"{self.called}: backward() from a tensor that a compiled step has handed to a call outside of it: call it "
            "in the step, or return the tensor"
        )

    def __repr__(self) -> str:
        return f"<{self.called} object>"


def history_to_show(x: Operand) -> ShownHistory | None:
    """Return what a call is shown of the history of a tensor in the trace; None for anything else."""
    if not isinstance(x, Tensor) or (x.node is None and type(x) is Tensor):
        return None
    called = None if x.node is None else "" if x.is_leaf else x.grad_fn.name()
    return ShownHistory(called, type(x), x.array.shape, x.array.dtype)


def show_with_history(leaf: Operand, history: ShownHistory | None) -> Operand:
    """Return a tensor of a call with the history that it has in the step."""
    if history is None or not isinstance(leaf, Tensor):
        return leaf
    shown: Operand = shallow_copy(leaf)
    shown.__class__ = history.kind
    shown.node = history if history.called else None if history.called is None else Leaf(shown)
    return shown
