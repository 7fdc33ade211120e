"""Levels of transforms in the recorded graph: the leaves of a transform, and which results lead further back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self
from weakref import WeakKeyDictionary

from adjoint.core.graph.node import Leaf, next_sequence_nr
from adjoint.core.runtime.mode import ModeScope, mode
from adjoint.core.runtime.pytree import tree_map
from adjoint.core.tensor.sparse_array import is_sparse
from adjoint.core.tensor.storage import is_inference
from adjoint.core.tensor.tensor import Tensor, detach, shallow_copy, tangents_of
from adjoint.ops.movement.movement import reshape
from adjoint.transforms.vmap.batched_tensor import BatchedArray

LEVEL_BY_LEAF: WeakKeyDictionary[Leaf, GradLevel] = WeakKeyDictionary()  # the leaves that transforms made


class GradLevel:
    """A block in which a function is recorded so that it can be differentiated, whatever the grad mode around it.

    Nodes older than `start` belong to those around. Where nothing was recorded around, results have no history.
    """

    __slots__ = ("active", "recording", "scope", "start")

    def __init__(self) -> None:
        self.active = False
        self.recording = mode.recording
        self.start = next_sequence_nr()
        self.scope = ModeScope(
            recording=True, detach_record=None, inference=False, recorded_by_caller=False, in_transform=True
        )

    def __enter__(self) -> Self:
        self.scope.__enter__()
        self.active = True
        return self

    def __exit__(self, *exception: object) -> None:
        self.active = False
        self.scope.__exit__(None, None, None)

    def leaf(self, x: Tensor) -> Tensor:
        """Return `x` as a leaf whose gradient only this transform asks for."""
        x.requires_grad_()
        assert type(x.node) is Leaf
        LEVEL_BY_LEAF[x.node] = self
        return x

    def target(self, x: Tensor) -> Tensor:
        """Return `x` as a new tensor to differentiate by: made from `x` if that has a history, else a leaf.

        A derivative by it leaves out uses of `x` itself.

        Raises: ValueError for what is no tensor, RuntimeError for elements that are not floating.
        """
        if not isinstance(x, Tensor):
            raise ValueError(f"Thing passed to transform API must be Tensor, got {type(x)}")
        if self.recording and x.node is not None and x.node.sequence_nr >= mode.level_floor:
            return reshape(x, shape=x.array.shape)
        alias = shallow_copy(x)
        if mode.interpreter is not None:
            (alias.array,) = mode.interpreter.symbols((x,))
        return self.leaf(as_normal_tensor(alias))

    def is_differentiated_further(self, tensors: Sequence[Tensor]) -> bool:
        """Return whether derivatives of the tensors may be differentiated further, by a level around or its leaves."""
        if mode.is_intercepted:
            return True
        return self.recording and any(self._leads_out_of_level(x.node, {}) for x in tensors)

    def detach_from_level(self, results: object) -> Any:
        """Return the results for the level around: with the history that leads back there, and no other."""
        seen: dict[object, bool] = {}
        return tree_map(lambda x: self._detach_tensor(x, seen) if isinstance(x, Tensor) else x, results)

    def _detach_tensor(self, x: Tensor, seen: dict[object, bool]) -> Tensor:
        if is_sparse(x):
            sparse: Any = x
            values = self._detach_tensor(sparse.entries, seen)
            return x if values is sparse.entries else sparse.wrap_gradient(values)
        if not self.recording and not mode.is_intercepted:
            return x if x.node is None else detach(x)
        node = x.node if self.recording and self._leads_out_of_level(x.node, seen) else None
        array = x.array
        if type(array) is BatchedArray:  # the level around has a history of its own
            physical = self._detach_tensor(array.physical, seen)
            if physical is not array.physical:
                array = BatchedArray(physical, array.batched, array.level)
        pairs = [(level, held.value) for level, held in (tangents_of(x) or {}).items() if held.value is not None]
        tangents = [(level, t, self._detach_tensor(t, seen)) for level, t in pairs]
        if node is x.node and array is x.array and all(t is cut for _, t, cut in tangents):
            return x
        out = shallow_copy(x)
        out.array, out.node = array, node
        if tangents:
            from adjoint.transforms.forward.dual_level import set_tangent

            for level, _, cut in tangents:
                set_tangent(out, cut, level)
        return out

    def _leads_out_of_level(self, node: Any, seen: dict[object, bool]) -> bool:
        """Return whether the history reaches an older node, or a leaf of the user's or of a level around.

        A level around may be younger than this: a `vjp` from outside is called in a function that is differentiated.
        """
        if node is None:
            return False
        stack, newer = [node], []
        while stack:
            one = stack.pop()
            if one in seen:
                continue
            if one.sequence_nr < self.start:
                seen[one] = _has_live_leaf(one)
            else:
                owner = LEVEL_BY_LEAF.get(one) if type(one) is Leaf else self
                seen[one] = owner is None or (owner is not self and owner.active)
            if not seen[one]:
                newer.append(one)
                stack.extend(parent for parent in one.parents if parent is not None)
        newer.sort(key=lambda one: one.sequence_nr)  # parents before those made from them
        for one in newer:
            seen[one] = any(seen[parent] for parent in one.parents if parent is not None)
        return seen[node]


def _has_live_leaf(node: Any) -> bool:
    """True unless the history leads to nothing but leaves of transforms that are done."""
    stack, met = [node], {node}
    while stack:
        one = stack.pop()
        parents = [parent for parent in one.parents if parent is not None and parent not in met]
        if type(one) is Leaf or not one.parents:
            owner = LEVEL_BY_LEAF.get(one) if type(one) is Leaf else None
            if owner is None or owner.active:
                return True
        met.update(parents)
        stack.extend(parents)
    return False


def as_normal_tensor(x: Tensor) -> Tensor:
    """Return `x`, or for an inference tensor one that counts writes and can have a history or tangents."""
    if not is_inference(x):
        return x
    out = shallow_copy(x)
    out.storage_ = None
    return out
