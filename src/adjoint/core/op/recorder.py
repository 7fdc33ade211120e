"""The last step of an op call: it wraps the result in a tensor, records a node, and registers a view.

The functions are written out without a call of another Python function, which would cost 50 ns each: a recorded
multiply of small arrays takes 1.4 µs in all. Native code in their place saved less than 0.1 µs a call.
"""

from __future__ import annotations

import weakref
from sys import _getframe
from typing import TYPE_CHECKING, Any

from adjoint.core.graph.node import GraphNode, Node, OutputSlot, Parents, next_sequence_nr
from adjoint.core.graph.object_allocation import make_allocator
from adjoint.core.graph.source_location import recorded_pass, recorder_files
from adjoint.core.runtime.mode import mode, nondefault
from adjoint.core.tensor.storage import MAX_FLAT_PATH_STEPS, CreationMeta, View
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Array, Operand, Params

if TYPE_CHECKING:
    from adjoint.core.op.op import Op

allocate_tensor, allocate_slot = make_allocator(Tensor), make_allocator(OutputSlot)
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
    while recorder_files[frame.f_code.co_filename]:
        outer = frame.f_back
        if outer is None:
            break
        frame = outer
    node.code, node.instruction_offset = frame.f_code, frame.f_lasti
    if node.code is recorded_pass.code:
        node.code, node.instruction_offset = recorded_pass.find_line()
    node.sequence_nr = next_sequence_nr()
    out = allocate_tensor()
    out.array, out.node = data, node
    out._grad = out.storage_ = None
    return out


def wrap_unrecorded(data: Array) -> Tensor:
    """Return a tensor of the array `data` without history, which notes where recording was switched off."""
    out = allocate_tensor()
    out.array = data
    out.node = out._grad = out.storage_ = None
    if nondefault.count:
        cut = mode.detach_record
        if cut is not None:
            out._detach_record = cut
            out.storage_ = cut.memory
    return out


def is_evaluated_alone(x: Tensor) -> bool:
    """Return whether ops of `x` do no more than compute an array: nothing is recorded, and no mode sees them."""
    if nondefault.count:
        modes = mode.__dict__
        if modes["alters_ops"] or nondefault.meta_tensors:
            return False
        return x.node is None or not modes["recording"]
    return x.node is None


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
    while recorder_files[frame.f_code.co_filename]:
        outer = frame.f_back
        if outer is None:
            break
        frame = outer
    node.code, node.instruction_offset = frame.f_code, frame.f_lasti
    if node.code is recorded_pass.code:
        node.code, node.instruction_offset = recorded_pass.find_line()
    node.sequence_nr = next_sequence_nr()
    out.node = node
    return node


def record_views(
    pieces: list[Array], x: Tensor, op: Op, places: list[Params], made: CreationMeta, owner: GraphNode | None
) -> list[Tensor]:
    """Return tensors of the arrays `pieces`: views of `x`, which has a `Storage`, one for each of these parameters.

    They are outputs of the node `owner`, if there is one. Modes must have their defaults, but for `recording`.
    """
    storage: Any = x.storage_
    base, lead, before = x, (), x.array.shape
    if type(storage) is View:
        path = storage.path
        base, lead = storage.base, path if len(path) < MAX_FLAT_PATH_STEPS else (path,)
        storage = storage.storage
    found: list[Tensor] = []
    aliases, dtype = storage.aliases, x.array.dtype
    for data, params in zip(pieces, places, strict=True):
        out = allocate_tensor()
        out.array = data
        out.node = out._grad = None
        shape = data.shape
        view: View[Tensor] = View()
        out.storage_ = view
        view.path = (*lead, (op, params, before, shape))
        view.base, view.creation_meta, view.storage = base, made, storage
        aliases.append(ref(out))
        if owner is not None:
            out.node = slot = allocate_slot()  # without `__init__`, which would cost as much as all of this
            slot.owner, slot.number, slot.shape, slot.dtype = owner, len(found), shape, dtype
            slot.sequence_nr, slot.hooks = next_sequence_nr(), None
        found.append(out)
    if len(aliases) > storage.prune_at:
        storage.prune()
    return found
