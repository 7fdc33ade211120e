"""One application of a Function in the recorded graph."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from types import CodeType
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from adjoint.autograd.function.context import Context
from adjoint.autograd.function.saved import CLEARED
from adjoint.core.graph.hooks import NodeHooks
from adjoint.core.graph.iterative_dealloc import with_iterative_dealloc
from adjoint.core.graph.node import GraphNode, OutputSlot, edge, next_sequence_nr
from adjoint.core.graph.source_location import user_instruction
from adjoint.core.runtime.mode import mode, nondefault
from adjoint.core.tensor.tensor import Tensor, constant
from adjoint.core.typing import Function, Operand

if TYPE_CHECKING:
    from adjoint.core.graph.node import FreedMarker


class UserFunction(Protocol):
    """A Function as its nodes see it."""

    __name__: str
    boxed_grads_call: bool
    jvp: Function

    def _user_backward(self) -> Function: ...


class FunctionNodeState:
    """User state of a node: `attributes` of the ctx, `saved_tensors`, `own` outputs set as attributes."""

    __slots__ = ("attributes", "saved_tensors", "own")

    def __init__(self, attributes: dict[str, Any]) -> None:
        self.attributes = attributes
        self.saved_tensors: Any = None
        self.own: dict[str, Any] = {}


set_attribute = object.__setattr__


@with_iterative_dealloc
class BackwardCFunction(GraphNode):
    """The node of a Function; each Function has a subclass of its own, `MySquareBackward`.

    It is made before `forward` runs, as its ctx, and becomes part of the graph by `finish`.
    """

    op = None
    _forward_cls: UserFunction
    __slots__ = (
        "__weakref__", "_output_nodes", "_specs", "instruction_offset", "code", "context", "dtype", "hooks",
        "no_grad_outputs", "sequence_nr", "outputs", "parents", "shape", "tensor_args",
    )  # fmt: skip
    code: CodeType
    context: FunctionNodeState
    hooks: NodeHooks | None
    no_grad_outputs: frozenset[int]
    outputs: int
    parents: tuple[Any, ...]
    tensor_args: tuple[bool, ...]
    _output_nodes: dict[int, weakref.ref[OutputSlot]]
    _specs: list[tuple[Any, Any] | None]

    def __init__(self, args: tuple[Any, ...]) -> None:
        given = tuple([isinstance(a, Tensor) for a in args])
        parents = tuple([a.node if is_tensor else None for a, is_tensor in zip(args, given, strict=True)])
        if nondefault.count and (floor := mode.level_floor) >= 0:
            parents = tuple(None if p is None or p.sequence_nr < floor else p for p in parents)
        needed = tuple([p is not None for p in parents])
        code, offset = user_instruction()
        # past `__setattr__`, which asks for each name whose it is
        for name, value in (
            ("tensor_args", given),
            ("parents", parents if not nondefault.count or mode.recording else (None,) * len(args)),
            ("context", FunctionNodeState({"needs_input_grad": needed})),
            ("hooks", None),
            ("code", code),
            ("instruction_offset", offset),
            ("sequence_nr", -1),
            ("outputs", 0),
            ("_specs", []),
            ("no_grad_outputs", frozenset()),
            ("shape", None),
            ("dtype", None),
            ("_output_nodes", {}),
        ):
            set_attribute(self, name, value)

    def finish(self, returned: Sequence[Any], no_grad_outputs: frozenset[int]) -> None:
        """Take the place in the graph that the node of these outputs has; those numbered in `no_grad_outputs` get no
        gradient.
        """
        specs = [(out.array.shape, out.array.dtype) if isinstance(out, Tensor) else None for out in returned]
        set_attribute(self, "sequence_nr", next_sequence_nr())
        set_attribute(self, "outputs", len(returned))
        set_attribute(self, "no_grad_outputs", no_grad_outputs)
        set_attribute(self, "_specs", specs)
        if len(specs) == 1 and specs[0] is not None:
            set_attribute(self, "shape", specs[0][0])
            set_attribute(self, "dtype", specs[0][1])

    @property
    def saved_values(self) -> Any:
        """The tensors of `save_for_backward`; the walk sets it to FREED."""
        return self.context.saved_tensors

    @saved_values.setter
    def saved_values(self, value: FreedMarker) -> None:
        if self.context.saved_tensors is not CLEARED:
            self.context.saved_tensors = value

    @property
    def next_functions(self) -> tuple[tuple[Any, int], ...]:
        """Return for each tensor among the arguments the node that made it and the number of its output."""
        if not any(self.parents):
            return ()
        return tuple(edge(p) for p, given in zip(self.parents, self.tensor_args, strict=True) if given)

    def output_node(self, number: int) -> Any:
        """Return the node that stands for output `number`."""
        if self.outputs == 1:
            return self
        slot = self._output_nodes.get(number)
        output = slot and slot()
        if output is None:
            spec = self._specs[number]
            assert spec is not None
            output = OutputSlot(self, number, *spec)
            self._output_nodes[number] = weakref.ref(output)
        return output

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name in NODE_ATTRIBUTES:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(Context(self), name)  # in PyTorch the node is the ctx

    def __setattr__(self, name: str, value: Operand) -> None:
        if name in NODE_ATTRIBUTES:
            set_attribute(self, name, value)
        else:
            self.context.attributes[name] = value

    def apply(self, *grads: Any) -> Any:
        """Return the result of the user's backward on the gradients of the outputs."""
        backward = self._forward_cls._user_backward()
        if self._forward_cls.boxed_grads_call:
            return backward(Context(self), list(grads))
        return backward(Context(self), *grads)

    def pull(self, arrived: Sequence[Tensor | None]) -> list[Tensor | None]:
        """Return the gradients of the arguments that the user's backward returns, checked."""
        attributes = self.context.attributes
        fill = attributes.get("materialize_grads", True)
        fill_quiet = fill and attributes.get("_materialize_non_diff_grads", True)
        given = [
            constant(np.zeros(*spec))
            if g is None and spec and (fill_quiet if i in self.no_grad_outputs else fill)
            else g
            for i, (g, spec) in enumerate(zip(arrived, self._specs, strict=True))
        ]
        arrived = ()  # nothing but `given` holds them: a boxed backward may let go of each as it goes
        result = self.apply(*given)
        returned = list(result) if isinstance(result, (tuple, list)) else [result]
        wanted = len(self.parents)
        while len(returned) > wanted and returned[-1] is None:
            returned.pop()
        if len(returned) != wanted:
            raise RuntimeError(
                f"function {self.name()} returned an incorrect number of gradients (expected {wanted}, got "
                f"{len(returned)})"
            )
        for i, (g, parent) in enumerate(zip(returned, self.parents, strict=True)):
            if g is None:
                continue
            fits = type(g) is Tensor and parent is not None and g.array.shape == parent.shape
            if not fits or g.array.dtype is not parent.dtype:
                self._check(i, g)
        return returned

    def _check(self, i: int, g: Operand) -> None:
        if not self.tensor_args[i]:
            raise RuntimeError(
                f"function {self.name()} returned a gradient different than None at position {i + 1}, but the "
                "corresponding forward input was not a Variable"
            )
        if not isinstance(g, Tensor):
            raise RuntimeError(f"{self.name()}: expected Variable or None (got {type(g).__name__})")
        parent = self.parents[i]
        if parent is None:
            return
        have, want = g.array.shape, parent.shape
        if len(have) < len(want) or any(n not in (1, m) for n, m in zip(want[::-1], have[::-1], strict=False)):
            raise RuntimeError(
                f"Function {self.name()} returned an invalid gradient at index {i} - got {list(have)} but expected "
                f"shape compatible with {list(want)}"
            )
        if g.array.dtype.kind == "c" and parent.dtype.kind != "c":
            raise RuntimeError(
                f"Function {self.name()} returned an invalid gradient at index {i} - expected a real one, as the input "
                f"is, but got {g.dtype}"
            )


# names of the node itself; all others are the users'
NODE_ATTRIBUTES = frozenset({*BackwardCFunction.__slots__, "saved_values"})
