"""`Function`: an op whose forward and backward the user writes in Python."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

import numpy as np

from adjoint.autograd.context import Context
from adjoint.core.hooks import Hooked
from adjoint.core.mode import Scope, mode, unusual
from adjoint.core.node import Leaf, Output, edge, tick
from adjoint.core.release import freed_without_recursion
from adjoint.core.site import Site, site_of, user_frame, user_site
from adjoint.core.storage import mark_written, share, storage_of
from adjoint.core.tensor import Tensor, constant, wrap


class Function:
    """Subclass with static methods `forward(ctx, *args)` and `backward(ctx, *grad_outputs)`; call through `apply`.

    With a static `setup_context(ctx, inputs, output)`, `forward` takes the arguments alone.
    """

    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
        """Compute the outputs from the inputs; tensors in here are not recorded."""
        raise NotImplementedError("You must implement the forward function for custom autograd.Function.")

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        """The gradient of each argument of `forward`, or None, from those of the outputs."""
        raise NotImplementedError(
            "You must implement either the backward or vjp method for your custom autograd.Function."
        )

    @classmethod
    def apply(cls, *args: Any) -> Any:
        """Call `forward` and record it; the result is what `forward` returned."""
        context = Context(args)
        setup = getattr(cls, "setup_context", None)
        with Scope(recording=False):
            result = cls.forward(*args) if setup is not None else cls.forward(context, *args)
            if setup is not None:
                setup(context, args, result)
        returned = result if isinstance(result, tuple) else (result,)
        outputs = tuple(_distinct(out, args, context) for out in returned)
        _mark_dirty(cls, context, returned)
        if any(context.needs_input_grad) and (not unusual.count or mode.recording):
            FunctionNode(cls, context, args, outputs, returned)
        return outputs if isinstance(result, tuple) else outputs[0]


@freed_without_recursion
class FunctionNode(Hooked):
    """One application of a Function in the recorded graph."""

    op = None
    __slots__ = (
        "__weakref__", "_slots", "_specs", "at", "code", "context", "dtype", "function", "hooks", "order", "outputs", "parents",
        "shape",
    )  # fmt: skip

    def __init__(
        self, function: type[Function], context: Context, args: tuple[Any, ...], outputs: tuple[Any, ...], returned: Any
    ) -> None:
        self.function, self.context = function, context
        self.parents = tuple(a.node if isinstance(a, Tensor) else None for a in args)
        self.hooks = None
        self.order = tick()
        frame = user_frame(sys._getframe(1))
        self.code, self.at = frame.f_code, frame.f_lasti
        self.outputs = len(outputs)
        self._specs = [(out.array.shape, out.array.dtype) if isinstance(out, Tensor) else None for out in outputs]
        self.shape: Any = None
        self.dtype: Any = None
        if len(outputs) == 1 and self._specs[0] is not None:
            self.shape, self.dtype = self._specs[0]
        self._slots: dict[int, weakref.ref[Output]] = {}
        for number, (out, given) in enumerate(zip(outputs, returned, strict=True)):
            if isinstance(out, Tensor):
                quiet = out.array.dtype.kind not in "fc" or any(given is q for q in context._quiet)
                out.node = None if quiet else self.made(number)
        context.settle(self, outputs, returned)

    @property
    def site(self) -> Site:
        """The user's line that applied the Function."""
        return site_of(self.code, self.at)

    @property
    def saved(self) -> Any:
        """What `save_for_backward` kept; the walk sets it to RELEASED."""
        return self.context._saved

    @saved.setter
    def saved(self, value: Any) -> None:
        self.context._saved = value

    def name(self) -> str:
        """The class's name with `Backward`: `MySquareBackward`."""
        return f"{self.function.__name__}Backward"

    @property
    def next_functions(self) -> tuple[tuple[Any, int], ...]:
        """For each argument, the node that made it and the number of its output."""
        return tuple(map(edge, self.parents))

    def made(self, number: int) -> Any:
        """The node that stands for output `number`."""
        if self.outputs == 1:
            return self
        slot = self._slots.get(number)
        output = slot and slot()
        if output is None:
            output = Output(self, number, *self._specs[number])  # type: ignore[misc]
            self._slots[number] = weakref.ref(output)
        return output

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(self.context, name)  # in PyTorch the node is the ctx

    def pull(self, arrived: Sequence[Any]) -> list[Any]:
        """Call the user's backward with the gradients of the outputs; check and return those of the arguments."""
        given = [
            constant(np.zeros(*spec)) if g is None and spec is not None and self.context._materialize else g
            for g, spec in zip(arrived, self._specs, strict=True)
        ]
        result = self.function.backward(self.context, *given)
        returned = list(result) if isinstance(result, (tuple, list)) else [result]
        wanted = len(self.parents)
        while len(returned) > wanted and returned[-1] is None:
            returned.pop()
        if len(returned) != wanted:
            raise RuntimeError(
                f"function {self.name()} returned an incorrect number of gradients (expected {wanted}, got "
                f"{len(returned)})"
            )
        for i, g in enumerate(returned):
            self._check(i, g)
        return returned

    def _check(self, i: int, g: Any) -> None:
        if g is None:
            return
        if not self.context._tensors[i]:
            raise RuntimeError(
                f"function {self.name()} returned a gradient different than None at position {i + 1}, but the "
                "corresponding forward input was not a Variable"
            )
        parent = self.parents[i]
        if not isinstance(g, Tensor):
            raise TypeError(f"{self.name()}: expected Variable or None (got {type(g).__name__})")
        if parent is not None and not _reaches(g.array.shape, parent.shape):
            raise RuntimeError(
                f"Function {self.name()} returned an invalid gradient at index {i} - got {list(g.array.shape)} but "
                f"expected shape compatible with {list(parent.shape)}"
            )

    def __repr__(self) -> str:
        return f"<{self.name()} object at {id(self):#x}>"


def _distinct(out: Any, args: tuple[Any, ...], context: Context) -> Any:
    """An output that is an argument itself becomes a tensor of its own, unless it was written in place."""
    if not isinstance(out, Tensor) or any(out is d for d in context._dirty) or not any(out is a for a in args):
        return out
    alias = wrap(out.array)
    share(out, alias)
    return alias


def _mark_dirty(function: type[Function], context: Context, returned: tuple[Any, ...]) -> None:
    recording = not unusual.count or mode.recording
    for tensor in context._dirty:
        if not any(tensor is out for out in returned):
            raise RuntimeError(
                "Some elements marked as dirty during the forward method were not returned as output. The inputs that "
                "are modified inplace must all be outputs of the Function."
            )
        if recording and type(tensor.node) is Leaf:
            raise RuntimeError("a leaf Variable that requires grad has been used in an in-place operation.")
        others = [t for t in storage_of(tensor).living() if t is not tensor and t.node is not None]
        if recording and others and any(context.needs_input_grad):
            raise RuntimeError(
                f"{function.__name__}: a dirty input shares memory with another tensor of the recorded graph; "
                "clone() it first"
            )
        mark_written(tensor, user_site())


def _reaches(shape: tuple[int, ...], target: tuple[int, ...]) -> bool:
    """True if a gradient of `shape` can be summed to `target`."""
    if len(shape) < len(target):
        return False
    return all(want in (1, have) for want, have in zip(target[::-1], shape[::-1], strict=False))


class Once:
    """The node of a gradient that was computed by a once-differentiable backward: it cannot be walked."""

    op = None
    __slots__ = ("__weakref__", "dtype", "hooks", "order", "parents", "saved", "shape")

    def __init__(self, parents: tuple[Any, ...], g: Tensor) -> None:
        self.parents = parents
        self.shape, self.dtype = g.array.shape, g.array.dtype
        self.saved = self.hooks = None
        self.order = tick()

    def name(self) -> str:
        """`Error`."""
        return "Error"

    @property
    def next_functions(self) -> tuple[tuple[Any, int], ...]:
        """The nodes of the gradients that came in."""
        return tuple(map(edge, self.parents))

    def pull(self, arrived: Sequence[Any]) -> list[Any]:
        """Raise RuntimeError."""
        raise RuntimeError("trying to differentiate twice a function that was marked with @once_differentiable")


def once_differentiable(backward: Callable[..., Any]) -> Callable[..., Any]:
    """Above a `backward` that is not itself differentiable: to differentiate its gradients raises RuntimeError."""

    @wraps(backward)
    def call(ctx: Any, *grads: Any) -> Any:
        with Scope(recording=False):
            result = backward(ctx, *grads)
        parents = tuple(g.node for g in grads if isinstance(g, Tensor) and g.node is not None)
        if not parents or not mode.recording:
            return result
        returned = [_once(g, parents) for g in (result if isinstance(result, tuple) else (result,))]
        return tuple(returned) if isinstance(result, tuple) else returned[0]

    return call


def _once(g: Any, parents: tuple[Any, ...]) -> Any:
    if not isinstance(g, Tensor):
        return g
    refused = wrap(g.array)
    refused.node = Once(parents, g)
    return refused
