"""Checkpointing: backward computes the intermediate values of a function again, instead of keeping them."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import Any

from adjoint.autograd.backward import backward
from adjoint.autograd.engine.engine import running_pass
from adjoint.autograd.function.function import Function
from adjoint.core.op.autocast import capture_autocast
from adjoint.core.random.generator import default_generator
from adjoint.core.runtime.mode import ModeScope, has_interpreter, mode
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Operands
from adjoint.utils.checkpoint_block import call_traced
from adjoint.utils.checkpoint_debug import Comparison
from adjoint.utils.checkpoint_frames import CHECKS, CheckpointError, CheckpointFrame, GraphExecGroup, SlotRecorder

Contexts = tuple[AbstractContextManager[Any], AbstractContextManager[Any]]

__all__ = [
    "CheckpointError",
    "CheckpointFunction",
    "GraphExecGroup",
    "check_backward_validity",
    "checkpoint",
    "checkpoint_sequential",
    "detach_variable",
    "noop_context_fn",
    "set_checkpoint_debug_enabled",
    "set_checkpoint_early_stop",
]


def noop_context_fn() -> Contexts:
    """Return two contexts that change nothing."""
    return nullcontext(), nullcontext()


def checkpoint(
    function: Callable[..., Any],
    *args: Any,
    use_reentrant: bool | None = None,
    context_fn: Callable[[], Contexts] = noop_context_fn,
    determinism_check: str = "default",
    debug: bool = False,
    early_stop: bool = True,
    **kwargs: Any,
) -> Any:
    """Call function(*args, **kwargs), keep only the tensors in `args`, and compute the rest again in backward.

    Both calls draw the same random numbers, unless `preserve_rng_state=False` is passed, and use the same `autocast`.
    `context_fn` returns two contexts, for the first call and for the second. With `early_stop` the second call ends
    with the last value that is needed. With `determinism_check="none"` shapes and types may differ the second time.
    With `debug` the error for a difference lists the ops of both calls.
    With `use_reentrant=True` the first call is not recorded, and the second has a backward pass of its own: all of the
    function runs, the tensors must be arguments themselves, and `grad` cannot be used.
    A step that is compiled computes again where backward needs it; a `backward()` outside of the step does not call the
    function again. Raises CheckpointError if the
    second call differs from the first.
    """
    if use_reentrant is None:
        _warn_missing_variant("checkpoint")
        use_reentrant = True
    preserve = kwargs.pop("preserve_rng_state", True)
    if use_reentrant:
        if kwargs:
            raise ValueError("Unexpected keyword arguments: " + ",".join(kwargs))
        if context_fn is not noop_context_fn or debug is not False:
            raise ValueError("Passing `context_fn` or `debug` is only supported when use_reentrant=False.")
        if has_interpreter():
            return call_traced(partial(function, *args), preserve)
        return CheckpointFunction.apply(function, preserve, *args)
    if determinism_check not in CHECKS:
        raise ValueError(f"determinism_check should be one of {list(CHECKS)}, but got {determinism_check}")
    explain = None
    if debug if _overrides.debug is None else _overrides.debug:
        if context_fn is not noop_context_fn:
            raise ValueError("debug=True is incompatible with non-default context_fn")
        comparison = Comparison()
        first, again, explain = comparison.first(), comparison.again(), comparison.explain
    else:
        first, again = context_fn()
    if not mode.recording:
        return function(*args, **kwargs)
    early_stop = early_stop if _overrides.early_stop is None else _overrides.early_stop
    if has_interpreter():
        with first:
            return call_traced(partial(function, *args, **kwargs), preserve, early_stop, again)
    check = CHECKS[determinism_check]
    frame = CheckpointFrame(function, args, kwargs, preserve, again, check, early_stop, explain)
    with SlotRecorder(frame), first:
        return function(*args, **kwargs)
    raise RuntimeError(
        "the forward context provided by context_fn suppressed an exception raised during the checkpointed forward: "
        "there is no value to return"
    )


def checkpoint_sequential(
    functions: Any, segments: int, input: Any, use_reentrant: bool | None = None, **kwargs: Any
) -> Any:
    """Call functions[-1](… functions[0](input)) in `segments` parts, and checkpoint all but the last.

    Raises: ValueError for other keywords.
    """
    if use_reentrant is None:
        _warn_missing_variant("checkpoint_sequential")
        use_reentrant = True
    preserve = kwargs.pop("preserve_rng_state", True)
    if kwargs:
        raise ValueError("Unexpected keyword arguments: " + ",".join(kwargs))
    chain: Sequence[Callable[[Any], Any]] = list(functions.children() if hasattr(functions, "children") else functions)
    size = len(chain) // segments
    starts = range(0, size * (segments - 1), size) if size else ()
    for start in starts:
        part = _chain_functions(chain[start : start + size])
        input = checkpoint(part, input, use_reentrant=use_reentrant, preserve_rng_state=preserve)
    return _chain_functions(chain[size * (segments - 1) :])(input)


def _chain_functions(functions: Sequence[Callable[[Any], Any]]) -> Callable[[Any], Any]:
    def run(input: Any) -> Any:
        for function in functions:
            input = function(input)
        return input

    return run


class CheckpointFunction(Function):
    """Reentrant variant: an op whose backward runs the function again, and a backward pass through that.

    Raises: RuntimeError with `grad`, and where no output requires grad.
    """

    @staticmethod
    def forward(ctx: Any, run_function: Callable[..., Any], preserve_rng_state: bool, *args: Any) -> Any:
        """Call run_function(*args) without recording."""
        check_backward_validity(args)
        ctx.run_function = run_function
        ctx.random = default_generator.place() if preserve_rng_state else None
        ctx.precision = capture_autocast()
        ctx.inputs = [None if isinstance(x, Tensor) else x for x in args]
        ctx.places = [i for i, x in enumerate(args) if isinstance(x, Tensor)]
        ctx.save_for_backward(*(args[i] for i in ctx.places))
        return run_function(*args)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        """Return the gradients of the tensors among `args`."""
        walk = running_pass()
        if walk is not None and walk.capture_nodes is not None:
            raise RuntimeError(
                "When use_reentrant=True, torch.utils.checkpoint is incompatible with .grad() or passing an `inputs` "
                "parameter to .backward(); and so is this one. Set use_reentrant=False."
            )
        inputs = list(ctx.inputs)
        for i, tensor in zip(ctx.places, ctx.saved_tensors, strict=True):
            inputs[i] = tensor
        inputs = list(detach_variable(tuple(inputs)))
        before = default_generator.place()
        try:
            if ctx.random is not None:
                default_generator.load_state_array(ctx.random)
            with ModeScope(recording=True), ctx.precision:
                outputs = ctx.run_function(*inputs)
        finally:
            if ctx.random is not None:
                default_generator.load_state_array(before)
        outputs = outputs if isinstance(outputs, (tuple, list)) else (outputs,)
        pairs = [(out, g) for out, g in zip(outputs, gradients, strict=False) if isinstance(out, Tensor) and out.node]
        if not pairs:
            raise RuntimeError("none of output has requires_grad=True, this checkpoint() is not necessary")
        backward([out for out, _ in pairs], [g for _, g in pairs])
        return None, None, *(x.grad if isinstance(x, Tensor) else None for x in inputs)


def detach_variable(inputs: Operands) -> tuple[Any, ...]:
    """Replace each tensor by a leaf without history, which requires grad if the tensor did.

    Raises: RuntimeError for anything but a tuple.
    """
    if not isinstance(inputs, tuple):
        raise RuntimeError(f"Only tuple of tensors is supported. Got Unsupported input type: {type(inputs).__name__}")
    return tuple(x.detach().requires_grad_(x.requires_grad) if isinstance(x, Tensor) else x for x in inputs)


def check_backward_validity(inputs: Iterable[Any]) -> None:
    """Warn if no input requires grad."""
    if not any(x.requires_grad for x in inputs if isinstance(x, Tensor)):
        warnings.warn("None of the inputs have requires_grad=True. Gradients will be None", stacklevel=2)


class _Overrides:
    """Values of surrounding contexts, which replace a call's own `early_stop` and `debug`."""

    __slots__ = ("debug", "early_stop")

    def __init__(self) -> None:
        self.debug: bool | None = None
        self.early_stop: bool | None = None


_overrides = _Overrides()


@contextmanager
def set_checkpoint_early_stop(enable: bool) -> Iterator[None]:
    """Return a context in which checkpoints stop early, or do not, whatever their own argument says."""
    before, _overrides.early_stop = _overrides.early_stop, enable
    try:
        yield
    finally:
        _overrides.early_stop = before


@contextmanager
def set_checkpoint_debug_enabled(enabled: bool | None) -> Iterator[None]:
    """Return a context in which checkpoints are debugged, or not, whatever their own argument says; None leaves it."""
    before, _overrides.debug = _overrides.debug, enabled
    try:
        yield
    finally:
        _overrides.debug = before


def _warn_missing_variant(called: str) -> None:
    warnings.warn(
        f"{called}: the use_reentrant parameter should be passed explicitly. use_reentrant=False is recommended; True "
        "is what it is without.",
        UserWarning,
        stacklevel=3,
    )
