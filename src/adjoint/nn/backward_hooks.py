"""Hooks on the gradients of a module: identities around forward, whose gradients pass through the user's functions."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Self

from adjoint.autograd.function import Function
from adjoint.core.mode import mode
from adjoint.core.tensor import Tensor

if TYPE_CHECKING:
    from adjoint.nn.module import Module

Gradients = tuple[Any, ...]


class Crossing(Function):
    """The identity of several tensors; `receive` is given their gradients, all at once, and returns what goes on."""

    @staticmethod
    def forward(ctx: Any, receive: Callable[[Gradients], Gradients], *tensors: Tensor) -> tuple[Tensor, ...]:
        ctx.receive = receive
        return tensors

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Gradients:
        return (None, *ctx.receive(gradients))


class BackwardHooks:
    """The backward hooks of one call of a module."""

    def __init__(self, module: Module, before: list[Callable[..., Any]], after: list[Callable[..., Any]]) -> None:
        self.module = module
        self.before, self.after = before, after
        self.arguments = 0
        self.inputs: list[int] = []  # which arguments want gradients
        self.outputs: list[int] = []
        self.results = 0
        self.grad_output: Gradients = ()

    @classmethod
    def wanted(cls, module: Module, hooks: Iterable[Any]) -> Self | None:
        """The hooks of this call; None if there are none or nothing is recorded."""
        before = [hook.call for hook in hooks if hook.kind == "backward_pre"]
        after = [hook.call for hook in hooks if hook.kind == "backward"]
        return cls(module, before, after) if mode.recording and (before or after) else None

    def enter(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """The arguments, those that want gradients behind an identity."""
        self.arguments = len(args)
        args, self.inputs = _behind(self._at_inputs, args)
        return args

    def leave(self, result: Any) -> Any:
        """The result, a tensor or a tuple with tensors, behind an identity; anything else as it is."""
        several = isinstance(result, tuple)
        results = result if several else (result,)
        self.results = len(results)
        crossed, self.outputs = _behind(self._at_outputs, results)
        if not self.outputs:
            return result
        if not several:
            return crossed[0]
        return type(result)(*crossed) if hasattr(result, "_fields") else crossed

    def _at_outputs(self, gradients: Gradients) -> Gradients:
        passed = _spread(gradients, self.outputs, self.results)
        for hook in self.before:
            passed = _replaced(passed, hook(self.module, passed), "grad_output")
        self.grad_output = passed
        if not self.inputs:
            self._call_after((None,) * self.arguments)
        return tuple(passed[i] for i in self.outputs)

    def _at_inputs(self, gradients: Gradients) -> Gradients:
        passed = self._call_after(_spread(gradients, self.inputs, self.arguments))
        return tuple(passed[i] for i in self.inputs)

    def _call_after(self, passed: Gradients) -> Gradients:
        for hook in self.after:
            passed = _replaced(passed, hook(self.module, passed, self.grad_output), "grad_input")
        self.grad_output = ()
        return passed


def _behind(receive: Callable[[Gradients], Gradients], values: tuple[Any, ...]) -> tuple[tuple[Any, ...], list[int]]:
    """The values with those that want gradients behind one Crossing, and their positions."""
    places = [i for i, value in enumerate(values) if isinstance(value, Tensor) and value.node is not None]
    if not places:
        return values, places
    crossed = dict(zip(places, Crossing.apply(receive, *[values[i] for i in places]), strict=True))
    return tuple(crossed.get(i, value) for i, value in enumerate(values)), places


def _spread(gradients: Gradients, places: list[int], size: int) -> Gradients:
    """`gradients` at their `places` among `size`, None elsewhere."""
    found = dict(zip(places, gradients, strict=True))
    return tuple(found.get(i) for i in range(size))


def _replaced(before: Gradients, result: Any, what: str) -> Gradients:
    if result is None:
        return before
    after = result if isinstance(result, tuple) else (result,)
    if len(after) != len(before):
        raise RuntimeError(
            f"Backward hook returned an invalid number of {what}, got {len(after)}, but expected {len(before)}"
        )
    return after
