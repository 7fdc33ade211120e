"""`ctx`: the node of a Function as its `forward`, `backward` and `jvp` see it."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

from adjoint.autograd.function.saved import raw_saved_tensors, unpack_saved_tensors
from adjoint.core.graph.hooks import Hook, Metadata, RemovableHandle
from adjoint.core.graph.node import Edge
from adjoint.core.graph.source_location import user_site
from adjoint.core.tensor.tensor import Tensor

if TYPE_CHECKING:
    from adjoint.autograd.saved.saved_tensor import SavedTensor


class Context:
    """Flags, saved tensors, and any attribute that users set: all of it stays with the node.

    A node has attributes of its own (`shape`, `sequence_nr`); in here the names are the users'. Each call gets a new
    Context, equal to the node and to the others: the node never refers to one, which would be a reference cycle.
    Without a node it takes what `forward` does to it, for those who try a `forward` by hand.
    """

    __slots__ = ("__dict__", "__node", "__weakref__")

    def __init__(self, node: Any = None) -> None:
        self.__node = node
        if node is not None and node.context is not None:
            self.__dict__ = node.context.attributes

    def save_for_backward(self, *tensors: Tensor | None) -> None:
        """Keep tensors, inputs and outputs among them, for `backward`. Raises TypeError for anything else."""
        text = "save_for_backward can only save variables, but argument {} is of type {}"
        _check_tensors(tensors, TypeError, text, optional=True)
        self.to_save = tensors

    def save_for_forward(self, *tensors: Tensor | None) -> None:
        """Keep tensors for `jvp`. Raises AssertionError for anything else."""
        text = (
            "save_for_forward expects all arguments to be tensors; you should save non-tensors as attributes on ctx. "
            "Argument {} is of type {}"
        )
        _check_tensors(tensors, AssertionError, text, optional=True)
        self.saved_for_forward = tensors

    def mark_dirty(self, *tensors: Tensor) -> None:
        """Name the inputs that `forward` writes in place; it must return them."""
        text = "mark_dirty can only accept variables, but argument {} is of type {}"
        _check_tensors(tensors, RuntimeError, text)
        self.dirty_tensors = tensors

    def mark_non_differentiable(self, *tensors: Tensor) -> None:
        """Name the outputs that carry no gradient."""
        text = "mark_non_differentiable only accepts variable arguments, but got {1} for argument {0}"
        _check_tensors(tensors, RuntimeError, text)
        self.non_differentiable = tensors

    def mark_shared_storage(self, *pairs: object) -> None:
        """Do nothing: tensors that share memory are known."""
        _deprecate("mark_shared_storage is deprecated. Tensors with shared storages are automatically tracked.")

    def set_materialize_grads(self, value: bool) -> None:
        """Set whether `backward` and `jvp` get zeros, the default, or None where no gradient came."""
        self.materialize_grads = value

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        """In `backward`, the tensors given to `save_for_backward`; in `jvp`, those given to `save_for_forward`.

        Raises RuntimeError once they were freed, or written in place.
        """
        forward = self.__dict__.get("saved_for_forward")
        if forward is not None:
            return tuple(forward)
        return () if self.__node is None else unpack_saved_tensors(self.__node)

    @property
    def saved_variables(self) -> tuple[Any, ...]:
        """The former name of `saved_tensors`."""
        _deprecate("'saved_variables' is deprecated; use 'saved_tensors'")
        return self.saved_tensors

    @property
    def _raw_saved_tensors(self) -> tuple[SavedTensor, ...]:
        return () if self.__node is None else raw_saved_tensors(self.__node)

    def name(self) -> str:
        """Return the Function's name with `Backward`: `MySquareBackward`."""
        return type(self).__name__ if self.__node is None else type(self.__node).__name__

    @property
    def next_functions(self) -> tuple[Edge, ...]:
        """Return for each tensor among the arguments the node that made it and the number of its output."""
        return () if self.__node is None else self.__node.next_functions

    @property
    def metadata(self) -> Metadata:
        """A dictionary for whatever users want to attach to the node."""
        return self.__node.metadata

    def register_hook(self, hook: Hook) -> RemovableHandle:
        """Call `hook(grad_inputs, grad_outputs)` when the node has run; a tuple it returns replaces `grad_inputs`."""
        return self.__node.register_hook(hook)

    def register_prehook(self, hook: Hook) -> RemovableHandle:
        """Call `hook(grad_outputs)` before the node runs; a tuple it returns replaces `grad_outputs`."""
        return self.__node.register_prehook(hook)

    def __getattr__(self, name: str) -> Tensor:
        node = self.__node
        state = None if node is None else node.context
        if state is not None and name in state.own:
            return state.own[name].get_original(node)
        raise AttributeError(f"{self.name()!r} object (ctx) has no attribute {name!r}: forward has not set it")

    def __eq__(self, other: object) -> bool:
        node = self.__node
        return self is other or (node is not None and (other is node or getattr(other, "_Context__node", None) is node))

    def __hash__(self) -> int:
        return id(self) if self.__node is None else hash(self.__node)

    def __repr__(self) -> str:
        return f"<ctx of {self.name()} at {hash(self):#x}>"


def _check_tensors(values: tuple[object, ...], error: type[Exception], text: str, optional: bool = False) -> None:
    for i, value in enumerate(values):
        if not isinstance(value, Tensor) and not (optional and value is None):
            raise error(text.format(i, type(value).__name__))


def _deprecate(message: str) -> None:
    site = user_site()
    warnings.warn_explicit(message, DeprecationWarning, site.file, site.line)
