"""The end of a backward pass: gradients come to rest in `.grad`, all of them or none, or go to the caller."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from operator import call
from sys import getrefcount
from typing import Any

import numpy as np

from adjoint.autograd.accumulate import NOTHING, Gradients
from adjoint.autograd.pull import run_after, run_before
from adjoint.core.mode import touch_gradient
from adjoint.core.node import Leaf
from adjoint.core.tensor import Tensor, wrap
from adjoint.core.writes import writes
from adjoint.ops.arithmetic import add

ndarray = np.ndarray
_set_grad: Callable[[Tensor, Tensor], None] = vars(Tensor)["_grad"].__set__
_set_array: Callable[[Tensor, Any], None] = vars(Tensor)["array"].__set__
_storing = threading.Lock()  # two threads may accumulate in one leaf


def collect(gradients: Gradients) -> dict[Any, Tensor]:
    """The gradients that arrived at the targets."""
    _at_leaves(gradients, captured=True)
    found = gradients.captured
    return {node: wrap(owned(found, node)) if gradients.bare else found[node] for node in found}


def accumulate(gradients: Gradients, targets: Iterable[Tensor] | None = None) -> None:
    """Add the gradients to the `.grad` of the leaves, or of `targets`, and of the tensors that retain theirs."""
    leaves = _at_leaves(gradients)
    found = leaves if targets is None else gradients.captured
    tensors = [(leaf.reference(), leaf) for leaf in found] if targets is None else [(t, t.node) for t in targets]
    resting = {tensor: node for tensor, node in tensors if tensor is not None and node in found}
    retained = {tensor: g for tensor, g in gradients.kept if tensor not in resting}
    gradients.kept.clear()
    with _storing:
        stores = [_store(tensor, found, node, gradients) for tensor, node in resting.items()]
        stores += [_store(tensor, retained, tensor, gradients) for tensor in retained]
        deque(map(call, stores), maxlen=0)  # one call into C: no signal comes between two leaves
    for node in (*resting.values(), *gradients.empty):
        tensor = node.reference() if type(node) is Leaf and node.hooks is not None else None
        if tensor is not None:
            for hook in list(node.hooks.accumulated.values()):
                if hook(tensor) is not None:
                    raise RuntimeError("Tensor post accumulate grad hooks should return None.")
            run_after(node, [], [gradients.to_tensor(found.get(node))])


def owned(holder: dict[Any, Any], key: Any) -> Any:
    """The array `holder[key]` itself if nobody else sees it, else a copy: two tensors never get one array."""
    # references: the holder's, and that of getrefcount's argument; a view of it would hold one too
    alone = getrefcount(holder[key]) == 2 and holder[key].base is None
    return holder[key] if alone else holder[key].copy()


def _at_leaves(gradients: Gradients, captured: bool = False) -> dict[Any, Any]:
    """The gradients that arrived at leaves, as their hooks leave them.

    `captured`: they go to the caller, the leaves themselves take no part.
    """
    leaves = gradients.arrived
    for leaf in list(leaves):
        if leaf.hooks is not None or gradients.wanted is not None:
            leaves[leaf] = gradients.receive(leaf, leaves[leaf])
            if leaf.hooks is not None and leaf.hooks.before and not captured:
                leaves[leaf] = gradients.to_own(run_before(leaf, [gradients.to_tensor(leaves[leaf])])[0])
        if leaves[leaf] is NOTHING:
            del leaves[leaf]
            if leaf.hooks is not None and gradients.wanted is None:
                gradients.empty.append(leaf)
    if gradients.wanted is not None:
        leaves.clear()
    return leaves


def _store(tensor: Tensor, holder: dict[Any, Any], key: Any, gradients: Gradients) -> Callable[[], Any]:
    """The call that stores one gradient, PyTorch's way: a new one replaces None, a later one is added in place."""
    touch_gradient(tensor, "read")
    have, g = tensor._grad, holder[key]
    if not gradients.bare:
        if have is None:
            return partial(_set_grad, tensor, g)
        total = add(have, g)
        return partial(_set_grad, tensor, total) if gradients.create_graph else partial(_set_array, have, total.array)
    if have is None:
        del g
        return partial(_set_grad, tensor, wrap(owned(holder, key)))
    if have.node is not None or have.array.shape != g.shape or not have.array.flags.writeable:
        return partial(_set_grad, tensor, wrap(np.asarray(have.array + g)))
    writes.record(have.array, None)
    return partial(np.add, have.array, g, have.array)
