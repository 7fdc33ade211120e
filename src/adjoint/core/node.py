"""The recorded graph: one node for each application of an op, one leaf for each tensor that wants a gradient."""

from __future__ import annotations

import weakref
from itertools import count
from typing import TYPE_CHECKING, Any

import numpy as np

from adjoint.core.hooks import Hooked, NodeHooks

if TYPE_CHECKING:
    from adjoint.core.op import Op
    from adjoint.core.tensor import Tensor

tick = count().__next__
new = object.__new__


class Released:
    """Stands where saved values were, once a backward pass has used and dropped them."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "<released>"

    def __bool__(self) -> bool:
        return False


RELEASED: Any = Released()


class Node(Hooked):
    """One application of an op: whom its gradient goes to, and what the op's rules asked to keep.

    `parents[i]` made input i, or is None where no gradient is wanted; a parent is always older, by `order`. `saved`
    holds bare arrays: the inputs in order, then the output, None where no rule needs one. A bare array cannot form a
    reference cycle with its tensor; with `parents` it is enough to rebuild the tensor for a second derivative.
    """

    __slots__ = (
        "__weakref__", "dtype", "hooks", "op", "order", "params", "parents", "saved", "shape", "shapes",
    )  # fmt: skip
    op: Op
    parents: tuple[Any, ...]
    saved: Any
    params: dict[str, Any] | None
    shapes: tuple[tuple[int, ...], ...] | None
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    order: int
    hooks: NodeHooks | None

    def name(self) -> str:
        """The node's name, PyTorch's for the same op: `MulBackward0`."""
        return self.op.title(self)

    @property
    def next_functions(self) -> tuple[tuple[Any, int], ...]:
        """For each input, the node which made it and which of its outputs it was; `(None, 0)` where none is wanted."""
        return tuple(map(edge, self.parents))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_saved_"):
            return self._saved(name.removeprefix("_saved_"))
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def _saved(self, name: str) -> Any:
        if self.saved is RELEASED:
            raise RuntimeError(
                f"{self.name()}: its saved values were freed by backward(); "
                "pass retain_graph=True to backward() to read them afterwards"
            )
        names = {"self": 0, "other": 1, "mat2": 1, "result": len(self.op.inputs), "out": len(self.op.inputs)}
        names |= {given: i for i, given in enumerate(self.op.inputs)}
        if self.params and name in self.params:
            return self.params[name]
        if name not in names or self.saved is None:
            raise AttributeError(f"{self.name()} saves nothing called {name!r}")
        from adjoint.core.tensor import wrap

        place = names[name]
        value = self.saved[place]
        if type(value) is not np.ndarray:
            return value
        tensor = wrap(value)
        tensor.node = (*self.parents, self)[place]
        return tensor

    def __repr__(self) -> str:
        return f"<{self.name()} object at {id(self):#x}>"


class Leaf(Hooked):
    """Where a gradient comes to rest: PyTorch's AccumulateGrad. The tensor is held weakly."""

    __slots__ = ("__weakref__", "dtype", "hooks", "reference", "shape")
    parents = ()
    next_functions = ()
    reference: weakref.ref[Tensor]
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    hooks: NodeHooks | None

    def __init__(self, tensor: Tensor) -> None:
        self.reference = weakref.ref(tensor)
        self.shape = tensor.array.shape
        self.dtype = tensor.array.dtype
        self.hooks = None

    @property
    def variable(self) -> Tensor | None:
        """The tensor whose gradient accumulates here; None once it is gone."""
        return self.reference()

    def name(self) -> str:
        """`AccumulateGrad`."""
        return "AccumulateGrad"

    def __repr__(self) -> str:
        return f"<AccumulateGrad object at {id(self):#x}>"


class Output:
    """One of the several outputs of a node: it collects a gradient for its slot of the owner."""

    __slots__ = ("__weakref__", "dtype", "hooks", "number", "order", "owner", "shape")
    owner: Any
    number: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    order: int
    hooks: NodeHooks | None

    def __init__(self, owner: Any, number: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        self.owner = owner
        self.number = number
        self.shape = shape
        self.dtype = dtype
        self.order = tick()
        self.hooks = None

    @property
    def parents(self) -> tuple[Any, ...]:
        """The owner."""
        return (self.owner,)

    def __repr__(self) -> str:
        return f"{self.owner!r}[{self.number}]"


def edge(parent: Any) -> tuple[Any, int]:
    """A parent as PyTorch shows it: the node, and the number of its output."""
    return (parent.owner, parent.number) if type(parent) is Output else (parent, 0)
