"""The recorded graph: one node for each application of an op, one leaf for each tensor that wants a gradient."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Sequence
from itertools import count
from types import CodeType
from typing import TYPE_CHECKING, Any, TypeAlias, final

from adjoint.core.graph.hooks import HookableNode, NodeHooks
from adjoint.core.graph.source_location import Site, site_of
from adjoint.core.typing import Array, NumpyDtype, Operand, Params

if TYPE_CHECKING:
    from adjoint.core.graph.tensor_like import TensorLike
    from adjoint.core.op.op import Op

next_sequence_nr = count().__next__
new = object.__new__


class FreedMarker:
    """The marker in place of saved values that a backward pass has freed."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "<released>"

    def __bool__(self) -> bool:
        return False


FREED = FreedMarker()


def freed_error(node: GraphNode, made: str) -> RuntimeError:
    """Return the error of a read of values that were freed; `made`: what happened at the node's line."""
    return RuntimeError(
        "Trying to backward through the graph a second time (or directly access saved tensors after they have already "
        "been freed). Saved intermediate values of the graph are freed when you call .backward() or autograd.grad(). "
        "Specify retain_graph=True if you need to backward through the graph a second time or if you need to access "
        f"saved tensors after calling backward. (At {node.name()}, {made} at {node.site}.)"
    )


class PackedValue:
    """A saved value that went through `saved_tensors_hooks`, or that carries more than an array.

    `unpack()` gives the tensor.
    """

    __slots__ = ()
    recomputed = False  # it is not in memory: backward computes it again

    def unpack(self) -> TensorLike:
        """Return the tensor that was saved."""
        raise NotImplementedError

    def value_outside(self) -> Operand:
        """Return what stands for the value when the step in which it was saved has ended."""
        return self

    def arrays(self) -> Iterable[Operand]:
        """Return the arrays that hold the value. They must not be written before the value is used."""
        return ()

    def kept_values(self) -> Iterable[Operand]:
        """Return what stays in memory for it: the arrays that hold it, or the tensors that it is computed from."""
        return self.arrays()

    def copy_before_write(self, memory: Array) -> PackedValue:
        """Return the value in a copy, if it shares `memory`, which is about to be written."""
        return self


class SavedValues(tuple[Any, ...]):
    """Saved values of a node, some of which are `PackedValue`."""

    __slots__ = ()


class GraphNode(HookableNode):
    """A node of the recorded graph, which an op or a Function made: it knows the user's line and its parents."""

    __slots__ = ()
    op: Op | None
    parents: Parents
    code: CodeType
    instruction_offset: int
    shape: tuple[int, ...]
    dtype: NumpyDtype
    sequence_nr: int
    pull: Callable[[Sequence[Operand]], Sequence[Operand]]  # of a node without op, whose rules take its place
    saved_values: Any

    if TYPE_CHECKING:

        @property
        def outputs(self) -> int:
            """The number of outputs of a node with several."""

    @property
    def site(self) -> Site:
        """The user's line that made this node."""
        return site_of(self.code, self.instruction_offset)

    @property
    def next_functions(self) -> tuple[Edge, ...]:
        """For each input its node and the number of the output; `(None, 0)` where no gradient is wanted."""
        return tuple(map(edge, self.parents))


class Node(GraphNode):
    """One application of an op: whom its gradient goes to, and what the op's rules asked to keep.

    `parents[i]` made input i, or is None where no gradient is wanted; a parent has a lower `sequence_nr`.
    `saved_values` holds bare arrays: the inputs in order, then the output, None where no rule needs one. A bare array
    cannot form a reference cycle with its tensor; with `parents` it is enough to rebuild the tensor for a second
    derivative. `code` and `instruction_offset` are the place in the user's program.

    People see a node in a subclass that is named as PyTorch names it (`as_named_node`). It is not made as one: the
    walk's and the ops' code runs faster on objects of one class.
    """

    __slots__ = (
        "__weakref__", "instruction_offset", "code", "dtype", "hooks", "op", "sequence_nr", "params", "parents",
        "saved_values", "shape", "shapes", "called",
    )  # fmt: skip
    op: Op
    called: str  # the name, where a function of several names gave one; most nodes leave it unset
    saved_values: Any
    params: Params | None
    shapes: tuple[tuple[int, ...], ...] | None
    shape: tuple[int, ...]
    dtype: NumpyDtype
    sequence_nr: int
    hooks: NodeHooks | None

    @property
    def next_functions(self) -> tuple[Edge, ...]:
        """The parents of inputs that can have a gradient: not those of positions and the like."""
        op = self.op
        return tuple([edge(p) for i, p in enumerate(self.parents) if p is not None or op.rule(i) is not None])

    def name(self) -> str:
        """The node's name, PyTorch's for the same op: `MulBackward0`."""
        return type(as_named_node(self)).__name__


_node_classes: dict[str, type[Node]] = {}


def named_node_class(name: str) -> type[Node]:
    """Return the class of nodes called `name`."""
    kind = _node_classes.get(name)
    if kind is None:
        kind = _node_classes[name] = type(name, (Node,), {"__slots__": (), "__module__": __name__})
    return kind


def as_named_node(node: GraphNode | Leaf | None) -> GraphNode | Leaf | None:
    """Return `node`, its class changed to the one of its name."""
    if type(node) is Node:
        node.__class__ = named_node_class(getattr(node, "called", None) or node.op.node_name(node))
    return node


@final
class Leaf(HookableNode):
    """The node of a leaf, where a gradient accumulates: PyTorch's AccumulateGrad. It holds the tensor weakly."""

    __slots__ = ("__weakref__", "dtype", "hooks", "sequence_nr", "reference", "shape")
    parents: Parents = ()
    next_functions: tuple[Edge, ...] = ()
    op = None
    reference: weakref.ref[TensorLike]
    shape: tuple[int, ...]
    dtype: NumpyDtype
    sequence_nr: int
    hooks: NodeHooks | None

    def __init__(self, tensor: TensorLike) -> None:
        self.reference = weakref.ref(tensor)
        self.shape = tensor.array.shape
        self.dtype = tensor.array.dtype
        self.sequence_nr = next_sequence_nr()
        self.hooks = None

    @property
    def variable(self) -> TensorLike | None:
        """The tensor whose gradient accumulates here; None after its deallocation."""
        return self.reference()


Leaf.__name__ = Leaf.__qualname__ = "AccumulateGrad"


@final
class OutputSlot:
    """One of the several outputs of a node: it collects a gradient for its slot of the owner."""

    __slots__ = ("__weakref__", "dtype", "hooks", "number", "sequence_nr", "owner", "shape")
    op = None
    owner: GraphNode
    number: int
    shape: tuple[int, ...]
    dtype: NumpyDtype
    sequence_nr: int
    hooks: NodeHooks | None

    def __init__(self, owner: GraphNode, number: int, shape: tuple[int, ...], dtype: NumpyDtype) -> None:
        self.owner = owner
        self.number = number
        self.shape = shape
        self.dtype = dtype
        self.sequence_nr = next_sequence_nr()
        self.hooks = None

    @property
    def parents(self) -> Parents:
        """The owner."""
        return (self.owner,)

    def __repr__(self) -> str:
        return f"{self.owner!r}[{self.number}]"


def edge(parent: Vertex | None) -> Edge:
    """Return a parent as PyTorch shows it: the node, and the number of its output."""
    return (as_named_node(parent.owner), parent.number) if type(parent) is OutputSlot else (as_named_node(parent), 0)


# A vertex of the recorded graph: an application of an op or a Function, one of its outputs, or a leaf.
Vertex: TypeAlias = GraphNode | OutputSlot | Leaf
Parents: TypeAlias = tuple[Vertex | None, ...]  # of an application, None where no gradient is wanted
Edge: TypeAlias = tuple[GraphNode | Leaf | None, int]  # a vertex as PyTorch shows it: node, output number


def reachable(roots: Iterable[Vertex], neighbours: Callable[[Vertex], Iterable[Vertex | None]]) -> set[Vertex]:
    """Return the roots and all vertices that lead on from them."""
    found = set(roots)
    stack = list(found)
    while stack:
        for vertex in neighbours(stack.pop()):
            if vertex is not None and vertex not in found:
                found.add(vertex)
                stack.append(vertex)
    return found
