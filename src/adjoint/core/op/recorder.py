"""The last step of an op call: it wraps the result in a tensor, records a node, and registers a view.

The functions are written out without a call of another Python function, which would cost 50 ns each: a recorded
multiply of small arrays takes 1.4 µs in all. Native code in their place saved less than 0.1 µs a call.
"""

from __future__ import annotations

import weakref
from sys import _getframe
from typing import TYPE_CHECKING, Any

from adjoint.core.graph.node import Node, Parents, next_sequence_nr
from adjoint.core.graph.source_location import library_files
from adjoint.core.tensor.storage import DEFAULT_CREATION, MAX_FLAT_PATH_STEPS, CreationMeta, View
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Array, Operand, Params

if TYPE_CHECKING:
    from adjoint.core.op.op import Op

new = object.__new__
ref = weakref.ref
Shapes = tuple[tuple[int, ...], ...] | None


def record_output(
    data: Array, op: Op, parents: Parents, params: Params | None, shapes: Shapes, saved: tuple[Operand, ...] | None
) -> Tensor:
    """Return a tensor of the array `data` with a node of `op` that names the user's line."""
    node = Node()  # 49 ns, where `object.__new__(Node)` takes 75
    node.op, node.parents, node.params = op, parents, params
    node.shapes, node.saved_values, node.hooks = shapes, saved, None
    node.shape, node.dtype = data.shape, data.dtype
    # `user_instruction()`, from the caller of the op's call: each frame that Python must materialize costs 60 ns
    try:
        frame = _getframe(2)
    except ValueError:  # the op's call is the first function of its thread
        frame = _getframe(1)
    while library_files[frame.f_code.co_filename]:
        outer = frame.f_back
        if outer is None:
            break
        frame = outer
    node.code, node.instruction_offset = frame.f_code, frame.f_lasti
    node.sequence_nr = next_sequence_nr()
    out = new(Tensor)
    out.array, out.node = data, node
    out._grad = out.storage_ = None
    return out


def attach_node(
    out: Tensor, op: Op, parents: Parents, params: Params | None, shapes: Shapes, saved: tuple[Operand, ...] | None
) -> Node:
    """Give the tensor `out` its node, as `record_output` does, and return it."""
    data = out.array
    node = Node()
    node.op, node.parents, node.params = op, parents, params
    node.shapes, node.saved_values, node.hooks = shapes, saved, None
    node.shape, node.dtype = data.shape, data.dtype
    frame = _getframe(2)  # `apply`, or another caller of the function that collects what is saved
    while library_files[frame.f_code.co_filename]:
        outer = frame.f_back
        if outer is None:
            break
        frame = outer
    node.code, node.instruction_offset = frame.f_code, frame.f_lasti
    node.sequence_nr = next_sequence_nr()
    out.node = node
    return node


def record_view(
    data: Array,
    x: Tensor,
    op: Op,
    params: Params,
    parents: Parents | None,
    shapes: Shapes,
    made: CreationMeta = DEFAULT_CREATION,
) -> Tensor:
    """Return a tensor of the array `data`, the view `op(x, **params)` of a tensor with a `Storage`, or of its view.

    The tensor has a node if there are `parents`. Modes must have their defaults, but for `recording`.
    """
    out = new(Tensor)
    out.array = data
    if parents is None:
        out.node = out._grad = None
    else:  # as in `record_output`
        node = Node()
        node.op, node.parents, node.params = op, parents, params
        node.shapes, node.saved_values, node.hooks = shapes, None, None
        node.shape, node.dtype = data.shape, data.dtype
        try:
            frame = _getframe(2)
        except ValueError:
            frame = _getframe(1)
        while library_files[frame.f_code.co_filename]:
            outer = frame.f_back
            if outer is None:
                break
            frame = outer
        node.code, node.instruction_offset = frame.f_code, frame.f_lasti
        node.sequence_nr = next_sequence_nr()
        out.node, out._grad = node, None
    storage: Any = x.storage_
    view: View[Tensor] = View()  # as `share_view` makes it
    if type(storage) is View:
        path = storage.path
        view.path = (*(path if len(path) < MAX_FLAT_PATH_STEPS else (path,)), (op, params, x.array.shape, data.shape))
        view.base, view.creation_meta = storage.base, storage.creation_meta if made is DEFAULT_CREATION else made
        storage = storage.storage
    else:
        view.path = ((op, params, x.array.shape, data.shape),)
        view.base, view.creation_meta = x, made
    view.storage = storage
    out.storage_ = view
    aliases = storage.aliases  # as `Storage.add` does
    aliases.append(ref(out))
    if len(aliases) > storage.prune_at:
        storage.prune()
    return out


def record_views(
    pieces: list[Array], x: Tensor, op: Op, places: list[Params], made: CreationMeta = DEFAULT_CREATION
) -> list[Tensor]:
    """Do as `record_view` without parents for several views of `x`, one for each of the parameters in `places`."""
    storage: Any = x.storage_
    base, lead, before = x, (), x.array.shape
    if type(storage) is View:
        path = storage.path
        base, lead = storage.base, path if len(path) < MAX_FLAT_PATH_STEPS else (path,)
        made = storage.creation_meta if made is DEFAULT_CREATION else made
        storage = storage.storage
    found, aliases = [], storage.aliases
    for data, params in zip(pieces, places, strict=True):
        out = new(Tensor)
        out.array = data
        out.node = out._grad = None
        view: View[Tensor] = View()
        out.storage_ = view
        view.path = (*lead, (op, params, before, data.shape))
        view.base, view.creation_meta, view.storage = base, made, storage
        aliases.append(ref(out))
        found.append(out)
    if len(aliases) > storage.prune_at:
        storage.prune()
    return found
