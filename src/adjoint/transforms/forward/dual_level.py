"""Forward mode: tensors that carry tangents, one for each open level, and op calls that push them on.

A level is one differentiation. Levels nest, as `jvp` of `jvp` does: a tangent is a tensor, which may carry tangents of
older levels itself, and may have a history. The pushforward of each op comes from its gradient rules (`jvp_rules`).
The tangent of a view is a view of the tangent, so that a write in place, done to the tangent too, reaches all of them.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, Self
from weakref import WeakSet

import numpy as np

from adjoint.autograd.function.node import BackwardCFunction
from adjoint.core.graph.node import Leaf, next_sequence_nr
from adjoint.core.op.apply import apply
from adjoint.core.op.op import Op, op_of
from adjoint.core.runtime.mode import ModeScope, mode, nondefault
from adjoint.core.tensor.as_strided import address
from adjoint.core.tensor.storage import share_view, storage_of, view_of
from adjoint.core.tensor.tensor import Tensor, constant, shallow_copy, tangents_of
from adjoint.core.typing import Operand, Operands, Params
from adjoint.ops.elementwise.select import copy
from adjoint.ops.movement.movement import reshape
from adjoint.ops.mutation.inplace import write_in_place
from adjoint.ops.mutation.view_update import put_steps, replay_view
from adjoint.transforms.forward.custom_function import function_tangents
from adjoint.transforms.forward.dual_saved import repack_saved, save_duals
from adjoint.transforms.forward.jvp_rules import compute_jvp
from adjoint.transforms.forward.tangent_layout import match_layout

if TYPE_CHECKING:
    from adjoint.core.graph.node import Vertex


class Tangent:
    """Slot for the tangent of a tensor at one level, empty once that is closed."""

    __slots__ = ("__weakref__", "value")

    def __init__(self, value: Tensor) -> None:
        self.value: Tensor | None = value


class ForwardLevel:
    """One forward differentiation, a `with` block. `sequence_nr` tells older levels from newer, and from nodes."""

    __slots__ = ("sequence_nr", "public", "scope", "tangents")

    def __init__(self, public: bool = False) -> None:
        self.sequence_nr = next_sequence_nr()
        self.public = public
        self.tangents: WeakSet[Tangent] = WeakSet()
        self.scope: ModeScope | None = None

    def hold_tangent(self, tangent: Tensor) -> Tangent:
        """Return a place for a tangent of this level."""
        place = Tangent(tangent)
        self.tangents.add(place)
        return place

    def __enter__(self) -> Self:
        held = current_levels()
        self.scope = ModeScope(forward_levels=ForwardLevels((*held.levels, self), held.enabled))
        self.scope.__enter__()
        return self

    def __exit__(self, *exception: object) -> None:
        assert self.scope is not None
        self.scope.__exit__(None, None, None)
        self.scope = None  # it refers to this level
        for tangent in list(self.tangents):
            tangent.value = None


def new_level() -> ForwardLevel:
    """Return a level to be entered by `with`; op calls inside push tangents of it on."""
    return ForwardLevel()


class ForwardLevels:
    """The open levels of a thread, oldest first: `mode.forward_levels` while there are any, or forward mode is off."""

    __slots__ = ("enabled", "levels")

    def __init__(self, levels: tuple[ForwardLevel, ...] = (), enabled: bool = True) -> None:
        self.levels = levels
        self.enabled = enabled

    def active(self) -> tuple[ForwardLevel, ...]:
        """Return the levels whose tangents are pushed on here; those around a running `vmap` wait for its ops."""
        if not self.enabled or mode.inference:
            return ()
        floor = mode.level_floor
        return self.levels if floor < 0 else tuple(level for level in self.levels if level.sequence_nr >= floor)

    def levels_with_tangents(self, inputs: Operands) -> tuple[ForwardLevel, ...]:
        """Return the active levels of which an input has a tangent, oldest first."""
        held = [tangents for x in inputs if (tangents := tangents_of(x)) is not None]
        return tuple(level for level in self.active() if any(level in tangents for tangents in held)) if held else ()

    def call(self, op: Op, inputs: Operands, params: Params) -> Tensor | None:
        """op(*inputs, **params) with the tangents that follow from those of the inputs; None if these have none."""
        levels = self.levels_with_tangents(inputs)
        if not levels:
            return None
        if op.composite is not None and (not op.linear or mode.interpreter is not None):
            composed: Tensor = op.composite(*inputs, **params)
            return composed
        packers = mode.saved_tensor_hooks
        with ModeScope(forward_levels=None, saved_tensor_hooks=()):
            out = apply(op, strip_tangents(inputs, levels), params)
        with ModeScope(recording=True, recorded_by_caller=False) if mode.recorded_by_caller else nullcontext():
            apply_jvp(op, inputs, params, out, levels)  # whoever records the call himself does not mean the tangents
        node: Any = out.node
        if node is not None and node.saved_values is not None:
            node.saved_values = save_duals(
                node, inputs, out, lambda again, out: apply_jvp(op, again, params, out, levels)
            )
            if packers:
                node.saved_values = repack_saved(node, packers[-1])
        return out

    def write(self, x: Tensor, out: Tensor, since: int | None = None) -> None:
        """After `x` was written in place: its tangents become those of `out`, and its base and views see that."""
        if x.array.dtype.kind not in "fcV":
            return
        for level in self.active():
            t, given = tangent_of(x, level), tangent_of(out, level)
            if t is None and given is None:
                continue
            if t is None:
                _set_first_tangent(x, given, level)
            else:
                t = _writable_tangent(x, t, level)
                write_in_place(t, _zeros(t) if given is None else given, "in-place operation on a tangent", since)

    def tangent_nodes(self, x: Tensor) -> list[Vertex | None]:
        """Return the nodes that made the tangents of `x`, and the tangents of these."""
        tangents = [t for level in self.active() if (t := tangent_of(x, level)) is not None]
        return [t.node for t in tangents] + [node for t in tangents for node in self.tangent_nodes(t)]

    def printed_tangent(self, x: Tensor) -> Tensor | None:
        """Return the tangent with which `x` prints: that of the newest level."""
        carried = self.levels_with_tangents((x,))
        return tangent_of(x, carried[-1]) if carried else None

    def forward_mode_off(self) -> ModeScope:
        """Return a block whose ops push no tangents on: what a Function makes of tangents is for its `jvp` to say."""
        return ModeScope(forward_levels=ForwardLevels(self.levels, False))

    def apply_function_jvp(
        self, node: BackwardCFunction, args: tuple[object, ...], returned: tuple[Tensor, ...],
        outputs: tuple[Tensor, ...], dirty: tuple[Tensor, ...], levels: tuple[ForwardLevel, ...],
    ) -> None:  # fmt: skip
        """Give a Function's outputs their tangents of each level, oldest first. `returned`: what `forward` returned."""
        for level in levels:
            older = tuple(one for one in self.levels if one.sequence_nr < level.sequence_nr)
            around = ModeScope(forward_levels=ForwardLevels(older, self.enabled))
            tangents = [tangent_of(a, level) for a in args]
            for out, t in function_tangents(node, args, returned, outputs, dirty, tangents, around):
                set_tangent(out, t, level)


def current_levels() -> ForwardLevels:
    """Return the levels of this thread."""
    held: Any = mode.forward_levels if nondefault.count else None
    return NO_LEVELS if held is None else held


NO_LEVELS = ForwardLevels()


def apply_jvp(op: Op, inputs: Operands, params: Params, out: Tensor, levels: tuple[ForwardLevel, ...]) -> None:
    """Give `out`, the op's value on the bare inputs, its tangents of these levels, oldest first."""
    for i, level in enumerate(levels):
        primals = strip_tangents(inputs, levels[i:])
        tangents = tuple(tangent_of(x, level) for x in inputs)
        # the innermost derivative is ordinary arithmetic, which is quicker where nobody looks for tangents
        with (
            ModeScope(forward_levels=None)
            if not current_levels().levels_with_tangents(primals + tangents)
            else nullcontext()
        ):
            t = compute_jvp(op, primals, tangents, params, out)
            if t is not None:
                set_tangent(out, t, level)


def strip_tangents(inputs: Operands, levels: tuple[ForwardLevel, ...]) -> tuple[Operand, ...]:
    """Return the inputs without their tangents of these levels."""
    return tuple(_strip_levels(x, levels) for x in inputs)


def _strip_levels(x: Operand, levels: tuple[ForwardLevel, ...]) -> Operand:
    held = tangents_of(x)
    if held is None or not any(level in held for level in levels):
        return x
    if mode.interpreter is not None:
        mode.interpreter.adopt(x)
    bare = shallow_copy(x)
    bare.node = x.node
    bare._tangents = {level: tangent for level, tangent in held.items() if level not in levels}
    return bare


def tangent_of(x: Operand, level: ForwardLevel) -> Tensor | None:
    """Return the tangent of `x` at a level, or None."""
    held = tangents_of(x)
    tangent = None if held is None else held.get(level)
    return None if tangent is None else tangent.value


def set_tangent(x: Tensor, tangent: Tensor, level: ForwardLevel) -> Tensor:
    """Let `x` itself carry a tangent, from now on; the tangent as it is kept, which lies in memory as `x` does."""
    tangent = match_layout(tangent, x)
    x._tangents = {**(tangents_of(x) or {}), level: level.hold_tangent(tangent)}
    return tangent


def attach_tangent(primal: Tensor, tangent: Tensor, level: ForwardLevel) -> Tensor:
    """Return a view of `primal` that carries a tangent."""
    out = primal_of(primal, level)
    set_tangent(out, tangent, level)
    return out


def primal_of(x: Tensor, level: ForwardLevel) -> Tensor:
    """Return a view of `x` without its tangent of a level: it has its history, and its tangents of other levels."""
    op, params = op_of(reshape), {"shape": tuple(x.array.shape)}
    out = apply(op, (_strip_levels(x, (level,)),), params)
    share_view(x, out, op, params)
    return out


def _set_first_tangent(x: Tensor, t: Operand, level: ForwardLevel) -> None:
    """Give x its first tangent: its base gets zeros with `t` in that place, and the base's views get views of this."""
    view = view_of(x)
    base = x if view is None else view.base
    if tangent_of(base, level) is not None:  # x is the primal part of it, or of a view of it, seen by itself
        base, view = x, None
    with ModeScope(recording=mode.recording or mode.recorded_by_caller, recorded_by_caller=False):
        if view is not None and not _is_same_view(x, base):
            t = put_steps(_zeros(base), t, view.steps)
        else:
            t = copy(t)
        whole = set_tangent(base, t, level)
    with ModeScope(recording=True):  # whether the views may be written is for the tensors themselves to say
        for alias in storage_of(base).alive_aliases():
            seen = view_of(alias)
            if seen is not None and seen.base is base and tangent_of(alias, level) is None:
                set_tangent(alias, whole if _is_same_view(alias, base) else replay_view(whole, seen.steps), level)


def _is_same_view(x: Tensor, y: Tensor) -> bool:
    """Return whether each element of x is that element of y."""
    a, b = x.array, y.array
    seen = type(a) is np.ndarray and type(b) is np.ndarray and a.shape == b.shape and a.strides == b.strides
    return seen and address(a) == address(b)


def _writable_tangent(x: Tensor, t: Tensor, level: ForwardLevel) -> Tensor:
    """Return the tangent `t` of `x`, or a copy for all who share it if it is the user's leaf or read-only."""
    view = view_of(t)
    source = t if view is None else view.base
    assert source is not None
    if type(source.node) is not Leaf and (type(t.array) is not np.ndarray or t.array.flags.writeable):
        return t
    with ModeScope(recording=True):
        fresh = copy(source)
        for alias in [x, *storage_of(x).alive_aliases()]:
            seen = tangent_of(alias, level)
            if seen is source:
                set_tangent(alias, fresh, level)
            elif seen is not None and (way := view_of(seen)) is not None and way.base is source:
                set_tangent(alias, replay_view(fresh, way.steps), level)
    found = tangent_of(x, level)
    assert found is not None
    return found


def _zeros(x: Tensor) -> Tensor:
    return constant(np.zeros(x.array.shape, x.array.dtype))
