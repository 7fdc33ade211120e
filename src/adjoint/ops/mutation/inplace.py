"""Writing into a tensor: the second half of every op whose name ends in an underscore.

The memory takes the new values, and the history follows. A tensor that is no view gets the history of the written
value. A write into a view gives its base a new history: the old base with this in place of the view (PyTorch's
CopySlices). Every living view of that base is then derived from it anew.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from adjoint.core.dtype.dtype import DTYPES
from adjoint.core.dtype.dtype_info import scalar_type
from adjoint.core.graph.hooks import hooks_of
from adjoint.core.graph.node import Leaf, Node, PackedValue, Vertex, edge
from adjoint.core.graph.source_location import user_instruction
from adjoint.core.op.apply import make_node
from adjoint.core.op.op import Op, op_of
from adjoint.core.runtime.explanation_slot import with_explanation
from adjoint.core.runtime.interpreter import Interpreter
from adjoint.core.runtime.mode import mode, nondefault, recorded_by_caller
from adjoint.core.tensor.as_strided import as_writable
from adjoint.core.tensor.meta import any_meta, replay_slot
from adjoint.core.tensor.mutation_log import mutation_log
from adjoint.core.tensor.shape_tracer import call_on_meta, write_slot
from adjoint.core.tensor.storage import CreationMeta, InferenceStorage, View, mark_written, storage_of, view_of
from adjoint.core.tensor.tensor import Tensor, shallow_copy, wrap
from adjoint.core.typing import Array
from adjoint.ops.elementwise.select import cast
from adjoint.ops.mutation.view_update import (
    invalid_function_view,
    invalid_inference_view,
    invalid_no_grad_view,
    put_slice,
    put_steps,
    put_view,
    replace_content,
    replay_view,
)

if TYPE_CHECKING:
    pass

ndarray = np.ndarray


def write_in_place(x: Tensor, out: Tensor, called: str, since: int | None = None) -> Tensor:
    """Give `x` the values and the history of `out`, as `x.called(…)` does after it has computed `out`.

    `since`: the tick at which computing `out` from `x` began; values of `x` that it saved are kept as copies.
    Raises RuntimeError, and changes nothing, for a leaf that requires grad or a view of one, and for a view that
    PyTorch does not write. Also for a shape or type that `x` cannot take, and for memory that repeats elements.
    """
    if nondefault.meta_tensors and mode.interpreter is None and any_meta((x, out)):
        return call_on_meta(write_in_place, x, out, called, since)
    if nondefault.count and mode.interpreter is not None:
        replacement = mode.interpreter.replacement(x, out, called, since)
        if replacement is None:
            if mode.forward_levels is not None:
                mode.forward_levels.write(x, out, since)
            return x
        out = replacement
    recording = not nondefault.count or mode.recording
    view = view_of(x)
    history = recording and (x.node is not None or out.node is not None or _is_view_of_recorded(view))
    if history or view is not None or nondefault.inference_used:
        check_writable(x, called, history)
    if out.array.shape != x.array.shape or out.array.dtype is not x.array.dtype:
        _check_shape_and_dtype(x, out, called)
        if out.array.dtype != x.array.dtype:
            out = cast(out, dtype=x.array.dtype)
    if history and out.node is None and view is None:
        # x is replaced by what does not depend on it: it stays in the graph, with a gradient of zero
        out = put_slice(x, out, bounds=tuple((0, n, 1) for n in x.array.shape))
    if nondefault.count and mode.interpreter is not None:
        if view is not None and is_expanded(view):  # checked by an array of the same layout
            check_separate(replay_view(np.zeros(view.base.array.shape, np.bool_), view.steps), called, view)
        _rebind(mode.interpreter, x, out, called, since)
    else:
        array = check_separate(x.array, called, view)
        if history and since is not None:
            _preserve_saved_values(x, out.node, since)
        if nondefault.count:
            for packer in mode.saved_tensor_hooks:
                packer.before_write(x)
            if mode.forward_levels is not None and since is not None:
                for node in mode.forward_levels.tangent_nodes(out):
                    _preserve_saved_values(x, node, since)
        array[...] = out.array  # np.copyto takes 0.15 µs longer
    # a write to a view of `x.data` or `x.detach()` marks only its own part as written
    detached = view is not None and not history and view.storage.aliases[0]() is not view.base
    mark_written(x, user_instruction(2), x.array if detached else None)
    if history:
        rebase(x, out.node)
    if nondefault.count and mode.forward_levels is not None:
        mode.forward_levels.write(x, out, since)
    return x


def content_of(value: Tensor, x: Tensor) -> Tensor:
    """Return `value` as content for x: it shares the memory and has a node of its own, which x takes."""
    if nondefault.count and mode.interpreter is not None:
        mode.interpreter.adopt(value)
    out = shallow_copy(value)
    if value.node is not None and mode.recording:
        parents = (x.node if view_of(x) is None else None, value.node)
        shapes = (value.array.shape,) * 2
        out.node = make_node(op_of(replace_content), parents, {}, shapes, value.array)
    return out


def check_writable(x: Tensor, called: str, history: bool) -> None:
    """Raise RuntimeError if `x` may not be written in place; `history`: the write is recorded."""
    if isinstance(x.storage_, InferenceStorage) and not mode.inference:
        raise RuntimeError(
            f"{called}: Inplace update to inference tensor outside InferenceMode is not allowed. You can make a clone "
            "to get a normal tensor before doing inplace update."
        )
    view = view_of(x)
    if not history:
        if (
            view is not None
            and view.creation_meta is CreationMeta.NORMALLY
            and mode.recording
            and type(view.base.node) is Leaf
        ):
            raise with_explanation(RuntimeError(_LEAF_ERROR.format(called, "a view of ")))
        return
    if view is not None and view.creation_meta is not CreationMeta.NORMALLY:
        raise RuntimeError(f"{called}: {_VIEW_ERRORS[view.creation_meta].format(_describe_view(x, view))}")
    if type(x.node) is Leaf:
        raise with_explanation(RuntimeError(_LEAF_ERROR.format(called, "")))
    if view is not None and view.base.is_leaf and (x.node is not None or _is_view_of_recorded(view)):
        raise with_explanation(RuntimeError(_LEAF_ERROR.format(called, "a view of ")))


_LEAF_ERROR = "{}: {}a leaf Variable that requires grad is being used in an in-place operation."


def _is_view_of_recorded(view: View[Tensor] | None) -> bool:
    """True for a view of a base with history, even one made before that or without recording."""
    return view is not None and view.base.node is not None


def check_separate(array: Array, called: str, view: View[Tensor] | None = None) -> Array:
    """Return the array to write through: `array`, or a writable form of a part that `expand` does not repeat.

    Raises RuntimeError for read-only memory, and for two elements at one place.
    """
    flags = array.flags
    if not flags.writeable and is_expanded(view):
        array = as_writable(array)
        flags = array.flags
    if not flags.writeable or (not flags.forc and _has_internal_overlap(array)):
        if called in ("fill_", "zero_") and flags.writeable:
            return array  # one value, at whatever place
        raise RuntimeError(
            f"{called}: unsupported operation: more than one element of the written-to tensor refers to a single "
            "memory location, or its memory is read-only. Please clone() the tensor before performing the operation."
        )
    return array


def is_expanded(view: View[Tensor] | None) -> bool:
    """True for a view whose steps may have repeated elements."""
    return view is not None and any(step.op.name == "expand" for step in view.steps)


def _has_internal_overlap(array: Array) -> bool:
    """True if two elements of an array with gaps lie at one place."""
    places, reach = np.zeros(1, np.intp), 0
    nested = True  # each dimension steps over all that the ones before it reach
    for stride, n in sorted((abs(s), n) for s, n in zip(array.strides, array.shape, strict=True) if n > 1):
        nested = nested and stride > reach
        reach += stride * (n - 1)
    if nested:
        return False
    for stride, n in zip(array.strides, array.shape, strict=True):
        places = np.add.outer(places, np.arange(n) * stride)
    return len(np.unique(places)) < array.size


_VIEW_ERRORS = {
    CreationMeta.MULTI_OUTPUT_NODE: (
        "{} is a view and is being modified inplace. This view is the output of a function that returns multiple "
        "views. Such functions do not allow the output views to be modified inplace. Use the op without the trailing "
        "underscore, or make the views one by one."
    ),
    CreationMeta.NO_GRAD_MODE: (
        "{} created in no_grad mode and is being modified inplace with grad mode enabled. Make the view and write to "
        "it both inside the no_grad block, or both outside."
    ),
    CreationMeta.IN_CUSTOM_FUNCTION: (
        "{} is a view and is being modified inplace. This view was created inside a custom Function (or because an "
        "input was returned as-is), whose backward the write would bypass. clone() the output of the Function first."
    ),
    CreationMeta.INFERENCE_MODE: (
        "{} created in inference mode and is being modified inplace in normal mode. Make the view and write to it both "
        "inside the inference_mode block, or both outside."
    ),
    CreationMeta.STALE_INFERENCE: (
        "{} created in inference mode and its base or another view of its base has been modified inplace in normal "
        "mode. Make the view and write to it both inside the inference_mode block, or both outside."
    ),
}


def _describe_view(x: Tensor, view: View[Tensor]) -> str:
    by_mode = view.creation_meta in (
        CreationMeta.NO_GRAD_MODE,
        CreationMeta.INFERENCE_MODE,
        CreationMeta.STALE_INFERENCE,
    )
    if x.node is None or type(x.node) is Leaf:
        return "A view was" if by_mode else f"A tensor of shape {list(x.array.shape)}"
    node, number = edge(x.node)
    assert node is not None
    return f"Output {number} of {node.name()}" + (" is a view of a view which was" if by_mode else "")


def rebase(x: Tensor, node: Any) -> None:
    """Make `node` the history of the write into `x`, and derive its base and all other views from it."""
    view = view_of(x)
    base = x if view is None else view.base
    if view is None:
        _set_node(x, node)
    else:
        shapes = (base.array.shape, x.array.shape)
        op: Op = op_of(put_view)
        _set_node(base, make_node(op, (base.node, node), {"steps": view.steps}, shapes, base.array))
    if x.storage_ is None:
        return
    for alias in storage_of(x).alive_aliases():
        seen = view_of(alias)
        if seen is None or seen.base is not base:
            continue
        if seen.creation_meta in (CreationMeta.INFERENCE_MODE, CreationMeta.STALE_INFERENCE):
            seen.creation_meta = CreationMeta.STALE_INFERENCE
            if type(alias.node) is Leaf:
                alias.node = make_node(invalid_inference_view, (base.node,), {}, (alias.array.shape,), alias.array)
        else:
            _set_node(alias, _regenerate_view_node(base.node, seen, alias))


def _regenerate_view_node(node: Vertex | None, view: View[Tensor], tensor: Tensor) -> Vertex | None:
    """The nodes that lead from the base's node to a view of it."""
    if view.creation_meta in (CreationMeta.NO_GRAD_MODE, CreationMeta.IN_CUSTOM_FUNCTION):
        shape = tensor.array.shape
        refusing = invalid_no_grad_view if view.creation_meta is CreationMeta.NO_GRAD_MODE else invalid_function_view
        return make_node(refusing, (node,), {}, (shape,), tensor.array)
    for op, params, before, after in view.steps:
        node = make_node(op, (node,), params, (before,), tensor.array, after)
    return node


def _set_node(tensor: Tensor, node: Vertex | None) -> None:
    """Set the tensor's node, and move the hook of a retained gradient to it."""
    hooks = None if tensor.node is None else tensor.node.hooks
    if (
        hooks is not None
        and hooks.retaining_tensor is not None
        and node is not None
        and hooks.retaining_tensor() is tensor
    ):
        hooks_of(node).retaining_tensor = hooks.retaining_tensor
        hooks.retaining_tensor = None
    tensor.node = node


def _preserve_saved_values(x: Tensor, made_by: Vertex | None, since: int) -> None:
    """Replace saved values in the memory of `x` by copies, in all nodes recorded since then."""
    stack: list[Vertex | None] = [made_by]
    seen = set()
    while stack:
        node = stack.pop()
        if not isinstance(node, Node) or node.sequence_nr < since or node in seen:
            continue
        seen.add(node)
        stack.extend(node.parents)
        if node.saved_values:
            node.saved_values = type(node.saved_values)(_copy_if_sharing(kept, x.array) for kept in node.saved_values)


def _copy_if_sharing(kept: Array | float | PackedValue | None, memory: Array) -> Array | float | PackedValue | None:
    if type(kept) is ndarray and (np.may_share_memory(kept, memory) or not kept.size):
        return kept.copy()
    return kept.copy_before_write(memory) if isinstance(kept, PackedValue) else kept


def _check_shape_and_dtype(x: Tensor, out: Tensor, called: str) -> None:
    if out.array.shape != x.array.shape:
        raise RuntimeError(
            f"{called}: output with shape {list(x.array.shape)} doesn't match the broadcast shape "
            f"{list(out.array.shape)}"
        )
    have, got = DTYPES[x.array.dtype], DTYPES[out.array.dtype]
    if got.rank > have.rank:
        raise RuntimeError(
            f"{called}: result type {scalar_type(got)} can't be cast to the desired output type {scalar_type(have)}"
        )


def _rebind(tracer: Interpreter, x: Tensor, out: Tensor, called: str, since: int | None) -> None:
    """Rebind, in a trace, every tensor that sees the memory to its part of the new value.

    What was computed since then may keep the old value: symbols do not change.
    """
    if tracer.writes_symbols:
        tracer.write_symbol(x, out, called, since)
        return
    view = view_of(x)
    base = x if view is None else view.base
    for tensor in (x, out, base):
        tracer.adopt(tensor)
    before = {id(tensor.array) for tensor in (x, base)}
    mutation_log.record(x.array, user_instruction(), since)
    with recorded_by_caller():
        whole = out if view is None else put_steps(wrap(base.array), out, view.steps)
        # one that the step has not met will stand for its part of the base when it does
        met = [t for t in storage_of(x).alive_aliases() if type(t.array) is not ndarray and t.storage_ is not None]
        others = [t for t in met if t is not x and t is not base and storage_of(t) is storage_of(x)]
        parts = []
        for alias in others:
            seen = view_of(alias)
            if seen is not None and seen.base is base and type(alias.array) is type(whole.array):
                parts.append(replay_view(whole, seen.steps))
            elif id(alias.array) in before and view is None:
                parts.append(whole)
            elif alias.array is not out.array:
                tracer.refuse_write(called)
    base.array = whole.array
    x.array = out.array
    for alias, part in zip(others, parts, strict=True):
        alias.array = part.array


write_slot.fill(write_in_place)
replay_slot.fill(replay_view)
