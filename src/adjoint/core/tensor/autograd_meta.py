"""A tensor's autograd fields: `requires_grad`, `grad`, `grad_fn`, and its view base."""

from __future__ import annotations

import weakref
from typing import Any, Self

from adjoint.core.dtype.dtype import is_floating
from adjoint.core.graph import grad_dtype as grad_types
from adjoint.core.graph.hooks import Hook, HookDict, hooks_of
from adjoint.core.graph.node import Leaf, edge
from adjoint.core.graph.source_location import warn_user
from adjoint.core.graph.tensor_like import TensorLike
from adjoint.core.runtime.explanation_slot import with_explanation
from adjoint.core.runtime.mode import mode, nondefault, touch_gradient
from adjoint.core.tensor.data_access import DataAccess
from adjoint.core.tensor.detach_record import DetachRecord, detach_record_here
from adjoint.core.tensor.storage import (
    INFERENCE,
    CreationMeta,
    InferenceLeaf,
    InferenceStorage,
    Memory,
    make_replacement_storage,
    share_storage,
    storage_of,
    view_of,
)


class AutogradMeta(DataAccess):
    """The part of a tensor that concerns the recorded graph."""

    __slots__ = ()
    shape: Any
    dtype: Any
    detach: Any
    _tangents: Any
    storage_: Memory
    _grad: Any
    _leaf: Leaf | None
    _detach_record: DetachRecord

    @property
    def requires_grad(self) -> bool:
        """True if a gradient with respect to this tensor, or to one that it was computed from, is wanted."""
        return self.node is not None or type(self.storage_) is InferenceLeaf

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        self.requires_grad_(value)

    @requires_grad.deleter
    def requires_grad(self) -> None:
        raise RuntimeError("requires_grad is True or False; it cannot be deleted")

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Ask for the gradient of this leaf, or stop asking, and return the tensor itself.

        Args:
            requires_grad: True to record operations, so that `backward` fills `.grad`; False to stop. Default: True.

        Raises: RuntimeError for integers, for False on a result of recorded operations, and for a tensor of inference
        mode outside it.

        Example:
            >>> x = ad.ones(2).requires_grad_()
            >>> (x * x).sum().backward()
            >>> x.grad
            tensor([2., 2.])
        """
        own: Any = self  # the slots are Tensor's
        if requires_grad and self.node is None:
            if not is_floating(self.array):
                message = f"only Tensors of floating point dtype can require gradients, this one is {self.dtype}"
                raise with_explanation(RuntimeError(message))
            if not isinstance(self.storage_, InferenceStorage):
                own.node = self._restore_leaf()
                if nondefault.count and mode.interpreter is not None:
                    mode.interpreter.mark_leaf(self, None)
            elif mode.inference:
                own.storage_ = InferenceLeaf(Leaf(self))
            else:
                raise RuntimeError(
                    "Setting requires_grad=True on inference tensor outside InferenceMode is not allowed."
                )
        elif not requires_grad and self.node is not None:
            if not self.is_leaf:
                raise RuntimeError(
                    "you can only change requires_grad flags of leaf variables. If you want to use a computed variable "
                    "in a subgraph that doesn't require differentiation use var_no_grad = var.detach()."
                )
            own._leaf, own.node, own._detach_record = self.node, None, detach_record_here("requires_grad_(False)")
            if nondefault.count and mode.interpreter is not None:
                mode.interpreter.mark_leaf(self, own._leaf)
        elif not requires_grad and type(self.storage_) is InferenceLeaf:
            own.storage_ = INFERENCE
        return self

    def _restore_leaf(self) -> Leaf:
        """Return the leaf from before `requires_grad` was switched off, with its hooks, or a new one."""
        leaf: Leaf | None = getattr(self, "_leaf", None)
        if leaf is None:
            return Leaf(self)
        leaf.shape, leaf.dtype = self.array.shape, grad_types.leaf_grad_dtype(leaf, self.array.dtype)
        return leaf

    @property
    def is_leaf(self) -> bool:
        """True if no recorded op made this tensor."""
        if self.node is not None and type(self.node) is not Leaf:
            return False
        return not nondefault.count or mode.interpreter is None or mode.interpreter.is_leaf(self)

    @property
    def grad_fn(self) -> Any:
        """The node that made this tensor; None for a leaf.

        Raises RuntimeError for a view made in inference mode whose base was written outside of it.
        """
        view = view_of(self)
        if view is not None and view.creation_meta is CreationMeta.STALE_INFERENCE:
            raise RuntimeError(
                "A view was created in inference mode and its base or another view of its base has been modified "
                "inplace in normal mode. Make the view and write to it in the same mode."
            )
        return None if self.is_leaf else edge(self.node)[0]

    @property
    def output_nr(self) -> int:
        """The number of this output of `grad_fn`."""
        return edge(self.node)[1]

    @property
    def grad(self) -> TensorLike | None:
        """The gradient that `backward()` accumulated; None before. Only leaves and `retain_grad()` tensors have one."""
        touch_gradient(self, "read")
        if self._grad is None and not self.is_leaf and not self.retains_grad:
            warn_user(
                "The .grad attribute of a Tensor that is not a leaf Tensor is being accessed. Its .grad attribute "
                "won't be populated during autograd.backward(). If you indeed want the .grad field to be populated for "
                "a non-leaf Tensor, use .retain_grad() on the non-leaf Tensor.",
                UserWarning,
            )
        return self._grad

    @grad.setter
    def grad(self, value: TensorLike | None) -> None:
        if value is not None:
            if not isinstance(value, AutogradMeta):
                raise TypeError(f"assigned grad expected to be a Tensor or None but got {type(value).__name__}")
            if value is self:
                raise RuntimeError("can't assign a Tensor as its own grad")
            if value.array.shape != self.array.shape:
                raise RuntimeError(
                    f"assigned grad has data of a different size: attempting to assign a gradient of size "
                    f"{list(value.shape)} to a tensor of size {list(self.shape)}"
                )
            grad_types.check_assigned_gradient(self, value)
        touch_gradient(self, "write")
        self._grad = value

    @grad.deleter
    def grad(self) -> None:
        touch_gradient(self, "write")
        self._grad = None

    grad_dtype = property(grad_types.get_grad_dtype, grad_types.set_grad_dtype)

    def retain_grad(self) -> None:
        """Keep `.grad` of this non-leaf as well. Does nothing to a leaf; raises RuntimeError without requires_grad."""
        if self.node is None:
            raise RuntimeError("can't retain_grad on Tensor that has requires_grad=False")
        if type(self.node) is not Leaf:
            hooks_of(self.node).retaining_tensor = weakref.ref(self)

    @property
    def retains_grad(self) -> bool:
        """True for a non-leaf on which `retain_grad()` was called."""
        hooks = None if self.node is None or type(self.node) is Leaf else self.node.hooks
        return hooks is not None and hooks.retaining_tensor is not None

    @property
    def data(self) -> TensorLike:
        """The same memory without history; assigning replaces the memory and keeps the history."""
        return self.detach()

    @data.setter
    def data(self, value: TensorLike) -> None:
        if not isinstance(value, AutogradMeta):
            raise TypeError(f"Variable data has to be a tensor, but got {type(value).__name__}")
        if value is self:
            return
        if nondefault.count and mode.interpreter is not None:
            mode.interpreter.replace_memory(self, value)
        if self.node is not None and not is_floating(value.array):
            raise RuntimeError(
                "data set to a tensor that requires gradients must be floating point or complex dtype, not "
                f"{value.dtype}"
            )
        if isinstance(self.storage_, InferenceStorage):
            raise RuntimeError("Inference tensors do not track version counter.")
        own: Any = self
        own.storage_, own.array = make_replacement_storage(self), value.array
        if type(self.node) is Leaf:
            self.node.shape = value.array.shape
            self.node.dtype = grad_types.leaf_grad_dtype(self.node, value.array.dtype)
        if value.storage_ is not None or not value.is_leaf:
            share_storage(value, self)

    @data.deleter
    def data(self) -> None:
        raise RuntimeError("a tensor cannot do without its data")

    @property
    def _backward_hooks(self) -> HookDict | dict[int, Hook]:
        return {} if self.node is None else hooks_of(self.node).tensor_pre_hooks

    @_backward_hooks.setter
    def _backward_hooks(self, hooks: HookDict) -> None:
        if self.node is not None:
            hooks_of(self.node).tensor_pre_hooks = hooks

    @_backward_hooks.deleter
    def _backward_hooks(self) -> None:
        raise RuntimeError("hooks are taken off by their handles")

    @property
    def _grad_fn(self) -> Any:
        return self.grad_fn

    @_grad_fn.deleter
    def _grad_fn(self) -> None:
        raise RuntimeError("a tensor cannot lose its grad_fn; detach() gives one without")

    def detach_(self) -> Self:
        """Remove the history of this tensor, which becomes a leaf without gradient. Raises RuntimeError for a view."""
        if view_of(self) is not None:
            raise RuntimeError(
                "Can't detach views in-place: their base is not detached with them. Use detach() instead."
            )
        if self.node is not None:
            own: Any = self
            if type(self.node) is Leaf:
                own._leaf = self.node
            own.node, own._detach_record = None, detach_record_here("detach_()")
        if getattr(self, "_tangents", None) is not None:
            self._tangents = None
        return self

    @property
    def _version(self) -> int:
        if isinstance(self.storage_, InferenceStorage):
            raise RuntimeError("Inference tensors do not track version counter.")
        return 0 if self.storage_ is None else storage_of(self).version

    @property
    def _base(self) -> TensorLike | None:
        """The tensor whose memory this one is a view of; None for one that owns its memory."""
        view = view_of(self)
        return None if view is None else view.base

    def _is_view(self) -> bool:
        """True for a view of another tensor."""
        return view_of(self) is not None

    def is_inference(self) -> bool:
        """True for a tensor made in inference mode."""
        return isinstance(self.storage_, InferenceStorage)
