"""The tensors that a call hands out, made whole: type, history, writes counted, memory shared with others."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from adjoint.compiler.ir.symbolic_size import concrete_sizes
from adjoint.core.graph.hooks import NodeHooks, hooks_of
from adjoint.core.graph.node import Leaf, OutputSlot
from adjoint.core.runtime.mode import ModeScope, recorded_by_caller
from adjoint.core.tensor.storage import (
    InferenceStorage,
    View,
    ViewStep,
    make_replacement_storage,
    share_storage,
    share_view,
    storage_of,
    view_of,
)
from adjoint.core.tensor.tensor import Tensor, detach, init_slots

if TYPE_CHECKING:
    from adjoint.compiler.trace.step_outputs import AliasRef, ResultFacts


def give_facts(made: Tensor, facts: ResultFacts) -> None:
    """Give a new tensor what the eager one has besides values: its type, attributes, and count of writes."""
    _set_type(made, facts.type, facts.attributes)
    if facts.version and not isinstance(made.storage_, InferenceStorage):
        storage_of(made).version = facts.version


def make_alias(base: Tensor, ref: AliasRef) -> Tensor:
    """Make the tensor that shares the memory of `base` as `ref` says."""
    if ref.piece is not None:
        source = _replay_steps(base, ref.steps[:-1])
        with recorded_by_caller():
            made = _replay_steps(source, ref.steps[-1:])
        split, number = ref.piece
        made.node = OutputSlot(type(split)(source, split.pieces, split.axis), number, made.array.shape, split.dtype)
    elif ref.recorded:
        made = _replay_steps(base, ref.steps)
    else:
        with ModeScope(recording=False):
            made = _replay_steps(base if ref.is_view else detach(base), ref.steps)
        if not ref.is_view:  # a part of a detached tensor, detached itself
            made = init_slots(object.__new__(Tensor), made.array)
            share_storage(base, made)
    view = view_of(made)
    if view is not None:
        view.creation_meta = ref.meta
    _set_type(made, ref.type, ref.attributes)
    if ref.is_leaf:
        made.node = Leaf(made)
    if ref.retains_grad:
        made.retain_grad()
    return made


def _replay_steps(x: Tensor, steps: tuple[ViewStep, ...]) -> Tensor:
    """Return the view of `x` to which the steps lead, registered as such."""
    for op, params, _, _ in steps:
        out = op.public(x, **concrete_sizes(params))
        if out.storage_ is None:
            share_view(x, out, op, params)
        x = out
    return x


def _set_type(made: Tensor, kind: type[Tensor], attributes: dict[str, object] | None) -> None:
    """Make `made` a tensor of this class, with these attributes of its own."""
    if kind is not Tensor:
        object.__setattr__(made, "__class__", kind)
    if attributes is not None:
        made.__dict__.update(attributes)


def copy_hooks(made: Tensor, hooks: NodeHooks) -> None:
    """Give a new leaf hooks like these."""
    own = hooks_of(made.node)
    for name in ("tensor_pre_hooks", "before", "after", "post_accumulate_hooks"):
        getattr(own, name).update(getattr(hooks, name))


def owns_memory(tensor: Tensor) -> bool:
    """True if no other tensor and no NumPy array sees the memory of `tensor`."""
    storage = tensor.storage_
    if tensor.array.base is not None or isinstance(storage, View):
        return False
    return storage is None or all(t is tensor for t in storage.alive_aliases())


def take_own_memory(tensor: Tensor) -> None:
    """Give `tensor` its values in memory of its own."""
    tensor.storage_, tensor.array = make_replacement_storage(tensor), np.array(tensor.array)


def rebind_memory(tensor: Tensor, value: Tensor) -> None:
    """Give `tensor` the memory of `value`, as `.data = value` does."""
    tensor.data = value
