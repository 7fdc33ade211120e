"""Hooks on the gradients of a module: places in the graph, before and behind forward, which they all pass at once."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from adjoint.autograd.function.function import Function
from adjoint.core.graph.hooks import Hook
from adjoint.core.graph.node import Leaf, next_sequence_nr
from adjoint.core.graph.source_location import user_site
from adjoint.core.runtime.mode import mode
from adjoint.core.tensor.tensor import Tensor
from adjoint.nn.module.hooks import global_hooks
from adjoint.nn.module.module_state import AnyModule

if TYPE_CHECKING:
    from adjoint.autograd.function.context import Context

Gradients = tuple[Tensor | None, ...]
# By file, where users were told that a hook runs at the outputs.
_warning_registries: dict[str, dict[str | tuple[str, type[Warning], int], int]] = {}


class BackwardHookFunction(Function):
    """The identity of several tensors."""

    @staticmethod
    def forward(ctx: Context, *tensors: Tensor) -> tuple[Tensor, ...]:
        return tensors

    @staticmethod
    def backward(ctx: Context, *gradients: Tensor | None) -> Gradients:
        return gradients

    @staticmethod
    def jvp(ctx: Context, *tangents: Tensor | None) -> Gradients:
        return tangents


class GradientHooks:
    """The backward hooks of one call of a module. What they saw of the outputs waits here for the inputs."""

    def __init__(self, module: AnyModule) -> None:
        self.module = module
        self.before = [*global_hooks._backward_pre_hooks.values(), *module._backward_pre_hooks.values()]
        self.after = [
            hook
            for holder in (global_hooks, module)
            if holder._is_full_backward_hook
            for hook in holder._backward_hooks.values()
        ]
        self.first_sequence_nr = 0
        self.arguments = self.results = 0
        self.inputs: list[int] = []  # which arguments want gradients
        self.outputs: list[int] = []
        self.grad_output: Gradients | None = None

    def __bool__(self) -> bool:
        return bool(self.before or self.after)

    def enter(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return the arguments, with views in place of those that need gradients, which the hooks see."""
        if not self or not mode.recording:
            return args
        self.first_sequence_nr, self.arguments = next_sequence_nr(), len(args)
        self.inputs = _positions_requiring_grad(args)
        if not self.inputs:
            return args
        entered: list[Any] = list(args)
        for i in self.inputs:
            entered[i] = args[i].view_as(args[i])
        _attach_identity_node(self._run_hooks, [args[i] for i in self.inputs], [entered[i] for i in self.inputs])
        return tuple(entered)

    def wrap_outputs(self, result: Any) -> Any:
        """Return the result, a tensor or a tuple with tensors, with gradients that the hooks see.

        A tensor that this call has made stays the object it is: it may be written in place like any other. One that is
        older, or that stands in the result twice, is a tensor to others as well, whose gradients are not the module's:
        a view takes its place.
        """
        if not self or not mode.recording:
            return result
        several = isinstance(result, tuple)
        results: list[Any] = list(result) if several else [result]
        self.results, self.outputs = len(results), _positions_requiring_grad(results)
        if not self.outputs:
            return result
        given = [results[i] for i in self.outputs]
        for i in self.outputs:
            node = results[i].node
            shared = (
                type(node) is Leaf
                or node.sequence_nr < self.first_sequence_nr
                or any(results[i] is r for r in results[:i])
            )
            results[i] = results[i].view_as(results[i]) if shared else results[i]
        _attach_identity_node(self._run_pre_hooks, given, [results[i] for i in self.outputs])
        if not several:
            return results[0]
        return type(result)(*results) if hasattr(result, "_fields") else tuple(results)

    def _run_pre_hooks(self, _: Gradients, gradients: Gradients) -> Gradients:
        passed = _scatter_to_positions(gradients, self.outputs, self.results)
        for hook in self.before:
            passed = _take_replacement(hook, hook(self.module, passed), passed, "pre hook", "grad_output")
        if self.inputs:
            self.grad_output = passed
        elif self.after:
            self._run_hooks_without_inputs(passed)
        return tuple(passed[i] for i in self.outputs)

    def _run_hooks(self, gradients: Gradients, _: Gradients) -> Gradients | None:
        grad_output, self.grad_output = self.grad_output, None
        if grad_output is None:  # the way here did not lead through the outputs, as in a second derivative
            return None
        passed = _scatter_to_positions(gradients, self.inputs, self.arguments)
        for hook in self.after:
            passed = _take_replacement(hook, hook(self.module, passed, grad_output), passed, "hook", "grad_input")
        return tuple(passed[i] for i in self.inputs)

    def _run_hooks_without_inputs(self, grad_output: Gradients) -> None:
        site = user_site()
        warnings.warn_explicit(
            "Full backward hook is firing when gradients are computed with respect to module outputs since no inputs "
            "require gradients.",
            UserWarning,
            site.file,
            site.line,
            registry=_warning_registries.setdefault(site.file, {}),
        )
        for hook in self.after:
            returned = hook(self.module, (None,) * self.arguments, grad_output)
            if returned is not None and not (isinstance(returned, tuple) and all(g is None for g in returned)):
                raise RuntimeError(
                    "Backward hook for Modules where no input requires gradient should always return None or None for "
                    "all gradients."
                )


def _positions_requiring_grad(values: Sequence[object]) -> list[int]:
    return [i for i, value in enumerate(values) if isinstance(value, Tensor) and value.node is not None]


def _attach_identity_node(hook: Hook, sources: list[Tensor], targets: list[Tensor]) -> None:
    """Give the targets, the same tensors or views of them, the sources' history behind a node that has the hook."""
    passed = BackwardHookFunction.apply(*sources)
    passed[0].grad_fn.register_hook(hook)
    for target, made in zip(targets, passed, strict=True):
        target.node = made.node


def _scatter_to_positions(gradients: Gradients, places: list[int], size: int) -> Gradients:
    """Return `size` gradients: these at their `places`, None elsewhere."""
    found = dict(zip(places, gradients, strict=True))
    return tuple(found.get(i) for i in range(size))


def _take_replacement(hook: Hook, returned: object, before: Gradients, kind: str, what: str) -> Gradients:
    """Return the gradients that `hook` gives in place of `before`. Raises for other numbers, shapes and types."""
    if returned is None:
        return before
    name = getattr(hook, "__name__", repr(hook))
    after = (returned,) if isinstance(returned, Tensor) else returned
    if not isinstance(after, (tuple, list)):
        raise TypeError(
            f"Backward {kind} {name!r} should return None, a Tensor or a tuple of them, but returned "
            f"{type(after).__name__!r}"
        )
    if len(after) != len(before):
        raise RuntimeError(
            f"Backward {kind} returned an invalid number of {what}, got {len(after)}, but expected {len(before)}"
        )
    for new, old in zip(after, before, strict=True):
        if new is None:
            continue
        if not isinstance(new, Tensor):
            raise TypeError(f"expected Variable, but hook {name!r} returned {type(new).__name__!r}")
        if old is not None and new.array.shape != old.array.shape:
            raise RuntimeError(
                f"hook {name!r} has changed the size of value: {list(old.shape)} became {list(new.shape)}"
            )
        if old is not None and new.array.dtype != old.array.dtype:
            raise RuntimeError(f"hook {name!r} has changed the type of value (was {old.dtype} got {new.dtype})")
    return tuple(after)
