"""Outputs of a Function: tensors that forward returned get a history, and views stay views."""

from __future__ import annotations

import warnings
from typing import Any

from adjoint.autograd.function.node import BackwardCFunction
from adjoint.autograd.function.saved import CLEARED, SavedVariable, output_number, save_variable
from adjoint.core.graph.node import Leaf
from adjoint.core.graph.source_location import user_site
from adjoint.core.op.apply import INFERENCE_SAVED_ERROR
from adjoint.core.op.op import op_of
from adjoint.core.runtime.mode import mode, nondefault
from adjoint.core.tensor.storage import CreationMeta, View, make_view, mark_written, share_storage, share_view, view_of
from adjoint.core.tensor.tensor import Tensor, wrap
from adjoint.core.typing import Operands
from adjoint.ops.movement.movement import reshape
from adjoint.ops.mutation.inplace import check_writable, rebase


def wrap_outputs(node: BackwardCFunction, args: tuple[Any, ...], returned: tuple[Tensor | str, ...]) -> tuple[Any, ...]:
    """Return the outputs of a Function whose forward returned these; `node` is their history if one is recorded.

    An argument that comes back as it is becomes a view of itself, unless it was marked dirty: then its own history goes
    on with the node, as after any write in place.
    """
    attributes = node.context.attributes
    dirty = attributes.pop("dirty_tensors", None) or ()
    not_differentiable = attributes.pop("non_differentiable", None) or ()
    pure = attributes.get("_is_pure_view", False)
    recorded = any(node.parents)
    if recorded and not (dirty or not_differentiable or pure) and (lone := _find_lone_new_tensor(args, returned)):
        node.finish(returned, frozenset())
        lone[0].node = node
        return lone
    # Results that have no gradient: integers, and those that `mark_non_differentiable` names.
    quiet = frozenset(
        [
            i
            for i, out in enumerate(returned)
            if isinstance(out, Tensor)
            and (out.array.dtype.kind not in "fcV" or any(out is one for one in not_differentiable))
        ]
    )
    if dirty:
        _check_dirty(node, args, returned, dirty)
        if recorded:
            _check_history(node, args, returned, dirty, quiet)
    if pure and (sum(node.tensor_args) != 1 or len(returned) != 1):
        raise RuntimeError(
            f"{node._forward_cls.__name__}: Pure view custom Function can only have one input Tensor and one output "
            "Tensor."
        )
    for tensor in dirty:
        mark_written(tensor, user_site())
    node.finish(returned, quiet)
    inputs = set(map(id, args))
    made = _view_creation_meta(args, pure)
    outputs: list[Any] = []
    for i, out in enumerate(returned):
        if isinstance(out, Tensor):
            is_input = id(out) in inputs
            modified = bool(dirty) and any(out is d for d in dirty)
            out = _attach_history(node, out, i, is_input, modified, recorded and i not in quiet)
            if not (is_input and modified):
                _set_creation_meta(out, made)
        outputs.append(out)
    # A view is rebased onto its base's history when it is written; of several results of one node, none can be.
    if len(returned) - len(quiet) - node._specs.count(None) > 1 and recorded:
        for out in outputs:
            if isinstance(out, Tensor):
                _set_creation_meta(out, CreationMeta.MULTI_OUTPUT_NODE)
    return tuple(outputs)


def _find_lone_new_tensor(args: Operands, returned: tuple[Tensor | str, ...]) -> tuple[Tensor, ...]:
    """Return the only result if it is a tensor that can have a gradient, neither an argument nor a view; else none."""
    if len(returned) != 1:
        return ()
    (out,) = returned
    if isinstance(out, str) or type(out) is not Tensor or out.array.dtype.kind not in "fcV":
        return ()
    return () if type(out.storage_) is View or id(out) in map(id, args) else (out,)


def keep_for_backward(
    node: BackwardCFunction, outputs: tuple[Tensor | str, ...], saved: tuple[Tensor | None, ...]
) -> None:
    """Let `node` keep the tensors `saved`, and its ctx's attributes, without a way back from an output to the node."""
    state = node.context
    if (
        nondefault.inference_used
        and not mode.in_transform
        and any(tensor is not None and tensor.is_inference() for tensor in saved)
    ):
        raise RuntimeError(INFERENCE_SAVED_ERROR)
    if state.saved_tensors is not CLEARED:
        state.saved_tensors = tuple([save_variable(tensor, outputs) for tensor in saved])
    for name, value in tuple(state.attributes.items()):
        if isinstance(value, Tensor) and (number := output_number(value, outputs)) is not None:
            state.own[name] = SavedVariable(state.attributes.pop(name), number)


def _check_dirty(
    node: BackwardCFunction, args: tuple[Any, ...], returned: tuple[Tensor | str, ...], dirty: tuple[Tensor, ...]
) -> None:
    for tensor in dirty:
        if not any(tensor is out for out in returned):
            raise RuntimeError(
                "Some elements marked as dirty during the forward method were not returned as output. The inputs that "
                "are modified inplace must all be outputs of the Function."
            )


def _check_history(
    node: BackwardCFunction,
    args: tuple[Any, ...],
    returned: tuple[Tensor | str, ...],
    dirty: tuple[Tensor, ...],
    quiet: Any,
) -> None:
    """Raise RuntimeError where the history of a dirty tensor cannot go on with `node`."""
    called = node._forward_cls.__name__
    for tensor in dirty:
        if any(tensor is returned[i] for i in quiet):
            continue
        if type(tensor.node) is Leaf:
            raise RuntimeError(f"{called}: a leaf Variable that requires grad has been used in an in-place operation.")
        if not any(tensor is a for a in args):
            message = (
                "ctx.mark_dirty() received a tensor that was not an input. Only input Tensors that have been mutated "
                "should be passed to ctx.mark_dirty()."
            )
            if view_of(tensor) is not None:
                raise RuntimeError(f"{called}: {message}")
            site = user_site()
            warnings.warn_explicit(f"{called}: {message}", UserWarning, site.file, site.line)
        check_writable(tensor, called, True)
        if view_of(tensor) is not None and len(returned) > 1:
            raise RuntimeError(
                f"{called}: If your Function modifies inplace an input that is a view of another Tensor, your Function "
                "cannot return more than one Tensor. Make sure that the input is not a view (clone() it), or split "
                "the Function in two: one that writes in place and returns a single Tensor, and one for the rest."
            )


def _attach_history(
    node: BackwardCFunction, out: Tensor, number: int, is_input: bool, modified: bool, differentiable: bool
) -> Tensor:
    if not differentiable:
        if out.node is None:
            return _view_as_self(out) if is_input and not modified else out
        if is_input:
            alias = wrap(out.array)
            share_storage(out, alias)
            return alias
        if view_of(out) is None:
            out.node = None
        return out
    if modified:
        rebase(out, node.output_node(number))
        return out
    if is_input:
        out = _view_as_self(out)
    out.node = node.output_node(number)
    return out


def _view_as_self(x: Tensor) -> Tensor:
    """Return a view of the whole of `x`: the same memory with a place of its own in the graph."""
    alias = wrap(x.array)
    share_view(x, alias, op_of(reshape), {"shape": x.array.shape}, CreationMeta.IN_CUSTOM_FUNCTION)
    return alias


def _set_creation_meta(out: Tensor, made: CreationMeta) -> None:
    view = view_of(out)
    if view is not None:
        out.storage_ = make_view(view.storage, view.base, view.path, made)


def _view_creation_meta(args: tuple[Any, ...], pure: bool) -> CreationMeta:
    """Return the creation meta of views among the outputs. A pure view is as if ops had made it."""
    if nondefault.count and not mode.recording:
        return CreationMeta.INFERENCE_MODE if mode.inference else CreationMeta.NO_GRAD_MODE
    if not pure:
        return CreationMeta.IN_CUSTOM_FUNCTION
    source = view_of(next(a for a in args if isinstance(a, Tensor)))
    return CreationMeta.NORMALLY if source is None else source.creation_meta
