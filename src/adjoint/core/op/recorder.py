"""What a call of an op ends with: a tensor, its node, its view of another's memory. Native code may take over."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from adjoint.core.graph.node import Node, next_sequence_nr
from adjoint.core.graph.source_location import user_instruction
from adjoint.core.tensor.storage import DEFAULT_CREATION, make_view
from adjoint.core.tensor.tensor import Tensor

if TYPE_CHECKING:
    from adjoint.core.op.op import Op

new = object.__new__
Shapes = tuple[tuple[int, ...], ...] | None


def record_output(
    data: Any, op: Op, parents: tuple[Any, ...], params: dict[str, Any] | None, shapes: Shapes, saved: Any
) -> Tensor:
    """A tensor of this array with a node of the op, made on the user's line."""
    out = new(Tensor)
    out.array = data
    out._grad = out.memory = None
    attach_node(out, op, parents, params, shapes, saved)
    return out


def attach_node(
    out: Any, op: Op, parents: tuple[Any, ...], params: dict[str, Any] | None, shapes: Shapes, saved: Any
) -> None:
    """Give a tensor its node."""
    node = Node()  # 49 ns, where `object.__new__(Node)` takes 75
    data = out.array
    node.op, node.parents, node.params, node.shapes, node.saved = op, parents, params, shapes, saved
    node.shape, node.dtype, node.hooks = data.shape, data.dtype, None
    node.code, node.at = user_instruction(2)
    node.order = next_sequence_nr()
    out.node = node


def record_view(
    data: Any, x: Tensor, op: Op, params: dict[str, Any], parents: tuple[Any, ...] | None, shapes: Shapes
) -> Tensor:
    """A tensor of this array, `op(x, **params)` in the memory of x, which is no view and has a `Storage`.

    It has a node if there are `parents`. Modes are as they are by default.
    """
    out = new(Tensor)
    out.array = data
    out._grad = out.node = None
    if parents is not None:
        attach_node(out, op, parents, params, shapes, None)
    storage: Any = x.memory
    out.memory = make_view(storage, x, ((op, params, x.array.shape, data.shape),), DEFAULT_CREATION)
    storage.add(out)
    return out


class _Recorder:
    """These functions, or the native ones that took their place (compiler/runtime/native_recorder.py)."""

    __slots__ = ("note", "recorded", "seen")

    def __init__(self) -> None:
        self.recorded: Callable[..., Tensor] = record_output
        self.note: Callable[..., None] = attach_node
        self.seen: Callable[..., Tensor] = record_view


make = _Recorder()
