"""Why a tensor has no gradient: where the recording ended, or why the last backward pass did not come by."""

from __future__ import annotations

import gc

from adjoint.autograd.engine.error_notes import describe_node, last_pass, owning_node
from adjoint.core.graph.hooks import HookableNode
from adjoint.core.graph.node import Leaf, OutputSlot, Vertex, reachable
from adjoint.core.tensor.detach_record import detach_record_of
from adjoint.core.tensor.storage import InferenceLeaf, storage_of
from adjoint.core.tensor.tensor import Tensor

Users = dict[Vertex, set[Vertex]]  # for each node the living nodes that were made from its output


class Reason(str):
    """An explanation; it prints without quotes."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def why_no_grad(tensor: Tensor) -> Reason:
    """Why `tensor.grad` is None: the reason, with the lines of the program that are part of it.

    It looks through all living objects for those who used the tensor, so it takes its time.
    """
    leaf = tensor.storage_.leaf if type(tensor.storage_) is InferenceLeaf else tensor.node
    if tensor._grad is not None:
        return Reason(f"It has a gradient: .grad has shape {list(tensor._grad.shape)}.")
    if leaf is None:
        return Reason(_why_not_required(tensor))
    if type(leaf) is not Leaf and not tensor.retains_grad:
        return Reason(
            f"It is no leaf: it was made by {describe_node(leaf)}, and backward() keeps .grad of leaves alone. Call "
            "retain_grad() on it before backward(), or ask autograd.grad() for its gradient."
        )
    return Reason(_why_not_reached(leaf))


def _why_not_required(tensor: Tensor) -> str:
    if tensor.array.dtype.kind not in "fcV":
        return f"Its elements are {tensor.dtype}: only floating and complex tensors have gradients."
    cut = detach_record_of(tensor)
    if cut is None and tensor.is_inference():
        return "It was made in inference mode, where ops are not recorded."
    if cut is None:
        kind = type(tensor).__name__
        frozen = f"this {kind} is frozen" if kind != "Tensor" else "nobody asked for its gradient"
        return (
            f"requires_grad is False: {frozen}. Call requires_grad_() before the forward pass; or, if an op made it, "
            "ask why_no_grad() about the op's operands, none of which requires grad."
        )
    if cut.what == "requires_grad_(False)":
        return f"It was frozen by requires_grad_(False) at {cut.site}."
    if cut.what.startswith("detach"):
        return f"Its history was cut off by {cut.what} at {cut.site}."
    return f"It was made under {cut.what} at {cut.site}, where ops are not recorded."


def _why_not_reached(node: Vertex) -> str:
    if last_pass.order < node.sequence_nr:
        return "No backward() has run since it began to require grad."
    users = _users_by_node()
    roots = [root for root in (reference() for reference in last_pass.roots) if root is not None]
    start = " and ".join(map(describe_node, roots))
    uses = sorted(users.get(node, ()), key=lambda n: n.sequence_nr)
    reached = reachable(roots, lambda user: user.parents)
    through = [use for use in uses if use in reached]
    if last_pass.limited and (through or not roots):
        return "The last backward pass was asked for the gradients of certain inputs alone, and it was not among them."
    if through or node in reached:
        by = f" through {describe_node(through[-1])}" if through else ""
        return (
            f"The last backward(), of {start}, reached it{by}. So its gradient was cleared since (zero_grad(), "
            "`.grad = None`), or a rule on the way returned None."
        )
    if not uses:
        return (
            "The last backward() did not reach it, and no graph that is still alive uses it: either the forward pass "
            "did not use it, or only in what was detached, made under no_grad() or thrown away."
        )
    goal = f"what the last backward() started from: {start}" if roots else "the last backward(), whose graph is gone"
    told = f"It was last used by {describe_node(uses[-1])}. That does not lead to {goal}."
    return told + _describe_branch_end(uses[-1], users)


def _describe_branch_end(use: Vertex, users: Users) -> str:
    """Return where the branch above a node ends: its newest node, and where a tensor of the branch was detached."""
    branch = reachable([use], lambda node: users.get(node, ()))
    last = max(branch, key=lambda node: node.sequence_nr)
    told = "" if owning_node(last) is owning_node(use) else f" The branch ends with {describe_node(last)}."
    tensors = [thing for thing in gc.get_objects() if issubclass(type(thing), Tensor)]
    memory = {id(storage_of(t)) for t in tensors if t.storage_ is not None and t.node in branch}
    cuts = {
        str(detach_record_of(t)) for t in tensors if detach_record_of(t) is not None and id(storage_of(t)) in memory
    }
    return told + (f" In it: {', '.join(sorted(cuts))}." if cuts else "")


def _users_by_node() -> Users:
    """Find the users of each node among all living objects."""
    users: Users = {}
    for thing in gc.get_objects():
        if issubclass(type(thing), (HookableNode, OutputSlot)) and type(thing) is not Leaf:
            for parent in getattr(thing, "parents", ()):
                if parent is not None:
                    users.setdefault(parent, set()).add(thing)
    return users
