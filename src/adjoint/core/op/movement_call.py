"""The call of an op that moves elements, written out like those of `families`: a view costs little more than NumPy's.

Its last part does what `record_output` and `share_view` do, without three calls of other Python functions; what is not
usual goes through `apply`. A transpose takes 0.9 µs, a recorded one 1.4, of which NumPy's is 0.1 (benchmarks/eager.py).
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from sys import _getframe
from typing import TYPE_CHECKING

import numpy as np

from adjoint.core.graph.node import Node, next_sequence_nr
from adjoint.core.graph.source_location import recorded_pass, recorder_files
from adjoint.core.op.apply import apply
from adjoint.core.op.op_errors import EVALUATION_ERRORS, retry_ignoring_fp_errors
from adjoint.core.op.recorder import allocate_tensor, record_output, wrap_unrecorded
from adjoint.core.runtime.mode import mode, nondefault
from adjoint.core.tensor.storage import (
    DEFAULT_CREATION,
    MAX_FLAT_PATH_STEPS,
    MIN_PRUNED_ALIASES,
    NO_GRAD_CREATION,
    Steps,
    Storage,
    View,
    allocate_storage,
    index_steps_slot,
    share_steps,
    share_view,
)
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Array, Function, Operand, Params

if TYPE_CHECKING:
    from adjoint.core.op.op import Op

ndarray, ref = np.ndarray, weakref.ref


def make_movement_call(op: Op, function: Function, view: bool, method: Function | None) -> Callable[..., Tensor]:
    """Make the call of a movement op. `view`: the result may be a view; `method`: NumPy's method that is `function`."""
    differentiable, saves_shapes = op.differentiable, op.saves_shapes
    first = op.params[0] if op.params else ""  # the parameter of the method

    def call(x: Operand, **params: object) -> Tensor:
        given = type(x) is Tensor or isinstance(x, Tensor)
        array = x.array if given else x
        modes = mode.__dict__ if nondefault.count else None
        if type(array) is not ndarray or not differentiable or (modes is not None and modes["alters_ops"]):
            return _call_in_modes(op, x, array, params, view)
        try:
            data = function(array, **params) if method is None else method(array, params[first])
        except EVALUATION_ERRORS as error:
            data = retry_ignoring_fp_errors(op, (array,), params, error)
        if not given:  # a gradient in a backward pass
            return wrap_unrecorded(data)
        if view:
            base = data.base
            if data is array or (base is not None and (base is array or base is array.base)):
                return make_view(x, data, ((op, params, array.shape, data.shape),), modes)
        node = x.node
        if node is None or (modes is not None and not modes["recording"]):
            return wrap_unrecorded(data)
        return record_output(data, op, (node,), params, (array.shape,) if saves_shapes else None, None)

    return call


def index_view(x: Tensor, array: Array, key: Operand) -> Tensor | None:
    """Return the view x[key] for slices, integers, None and `...`; None where modes differ, or positions are outside.

    NumPy finds the elements. For the ops that lead to them nobody asks where nothing is recorded, unless the view or
    its base is written.
    """
    modes = None
    if nondefault.count:
        modes = mode.__dict__
        if modes["alters_ops"]:
            return None
    try:
        data = array[key]
        if type(data) is not ndarray:  # a scalar, where all dimensions had integers
            data = array[(*key, ...) if type(key) is tuple else (key, ...)]
        elif key is None or (type(key) is tuple and None in key):  # NumPy gives new dimensions no stride
            kept = () if key is None else [item for item in key if item is not None]
            data = array[(*kept, ...) if ... not in kept else tuple(kept)].reshape(data.shape)
    except IndexError:
        return None
    if x.node is None or (modes is not None and not modes["recording"]):
        return make_view(x, data, ((None, key, array.shape, data.shape),), modes)
    steps, called = index_steps_slot.call(array.shape, key)
    return make_view(x, data, steps, modes, called)


def make_view(x: Tensor, data: Array, steps: Steps, modes: Params | None, called: str = "") -> Tensor:
    """Return the tensor of the array `data`, a view of `x` that `steps` lead to, with a node for each if recorded.

    It does what `record_output` and `share_steps` do, without calls of functions. `modes`: this thread's, which have
    their defaults but for `recording`; None if that has its default, too. `called`: the name of the last node, if it
    has not that of its op. The caller's caller is the first that may be the user's.
    """
    out = allocate_tensor()
    out.array = data
    out._grad = out.node = None
    made = DEFAULT_CREATION
    if modes is not None:
        if not modes["recording"]:
            made = NO_GRAD_CREATION
        cut = modes["detach_record"]
        if cut is not None:
            out._detach_record = cut
        if modes["inference"]:
            out.storage_ = None
            share_steps(x, out, steps)
            return out
    parent = x.node
    if parent is not None and made is DEFAULT_CREATION:
        try:
            frame = _getframe(2)
        except ValueError:  # the op's call is the first function of its thread
            frame = _getframe(1)
        while recorder_files[frame.f_code.co_filename]:
            outer = frame.f_back
            if outer is None:
                break
            frame = outer
        code, offset = frame.f_code, frame.f_lasti
        if code is recorded_pass.code:
            code, offset = recorded_pass.find_line()
        for op, params, before, after in steps:  # the tensors between have no place in the program
            node = Node()
            step: Operand = op
            node.op, node.parents, node.params = step, (parent,), params
            node.shapes, node.saved_values, node.hooks = (before,) if step.saves_shapes else None, None, None
            node.shape, node.dtype = after, data.dtype
            node.code, node.instruction_offset = code, offset
            node.sequence_nr = next_sequence_nr()
            parent = node
        if called:
            node.called = called
        out.node = parent
    held = x.storage_
    place: View[Tensor] = View()
    if type(held) is View:
        around, storage = held.base.storage_, held.storage
        if storage is not around and (type(around) is not View or storage is not around.storage):
            out.storage_ = None
            share_steps(x, out, steps)  # the base was given other memory
            return out
        path = held.path
        place.path = (*path, *steps) if len(path) < MAX_FLAT_PATH_STEPS else (path, *steps)
        place.base, place.creation_meta = held.base, held.creation_meta if made is DEFAULT_CREATION else made
    else:
        if held is None:
            held = x.storage_ = allocate_storage()
            held.version, held.prune_at, held.aliases = 0, MIN_PRUNED_ALIASES, [ref(x)]
        elif type(held) is not Storage:
            out.storage_ = None
            share_steps(x, out, steps)
            return out
        storage = held
        place.path, place.base, place.creation_meta = steps, x, made
    place.storage = storage
    out.storage_ = place
    aliases = storage.aliases  # as `Storage.add` does
    aliases.append(ref(out))
    if len(aliases) > storage.prune_at:
        storage.prune()
    return out


def _call_in_modes(op: Op, x: Operand, array: Operand, params: Params, view: bool) -> Tensor:
    """Call a movement op where it does more than move the elements of an array, or has no gradient."""
    out = apply(op, (x,), params)
    if view and array is not x and _is_view_result(x, out.array, array, op):
        share_view(x, out, op, params)
    return out


def _is_view_result(x: Tensor, result: Operand, source: Operand, op: Op) -> bool:
    """Return whether `result = op(x)` lies in the memory of the array `source`; if a symbol, whether an array would."""
    if type(result) is not ndarray:
        return op.name != "reshape" or mode.interpreter is None or mode.interpreter.can_view_as(x, result.shape)
    if result is source:
        return True
    return result.base is not None and (result.base is source or result.base is source.base)
