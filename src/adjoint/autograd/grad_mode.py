"""Grad modes: whether ops are recorded, for a block, a function, a generator, or from now on."""

from __future__ import annotations

import inspect
import sys
import threading
import warnings
from collections.abc import Callable, Coroutine, Generator
from functools import partial, wraps
from typing import Any, Self, TypeVar

from adjoint.core.runtime.mode import ModeScope, enter_modes, mode, restore_modes, set_modes
from adjoint.core.tensor.detach_record import DetachRecord, detach_record_at, detach_record_here
from adjoint.core.tensor.storage import INFERENCE
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Function

Decorated = TypeVar("Decorated", bound=Function)
Modes = dict[str, object]
Steps = Generator[Any, Any, Any]

__all__ = ["enable_grad", "inference_mode", "no_grad", "set_grad_enabled", "set_multithreading_enabled"]


def is_grad_enabled() -> bool:
    """Return whether this thread records ops."""
    return mode.recording


def is_inference_mode_enabled() -> bool:
    """Return whether this thread is in inference mode."""
    return mode.inference


def is_inference(input: Tensor) -> bool:
    """Return whether a tensor was made in inference mode."""
    return input.is_inference()


class _GradMode:
    """A context that may be entered again and again, and a decorator.

    A decorated generator or coroutine has the mode only while it runs, never while its caller does. Of a class, the
    decorator covers the making alone, and warns.
    """

    called: str  # what a block of this kind looks like in the program

    def __init__(self) -> None:
        self._before: list[Modes] = []

    def modes(self, cut: DetachRecord) -> Modes:
        """Return the modes that differ within the block; `detach_record` says where it begins."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        enter_modes(self.modes(detach_record_here(self.called)), self._before)
        return self

    def __exit__(self, *error: object) -> None:
        restore_modes(self._before)

    def clone(self) -> Self:
        """Another context of the same kind."""
        return type(self)()

    def __call__(self, function: Decorated) -> Decorated:
        if inspect.isclass(function):
            warnings.warn(
                "Decorating classes is deprecated and will be disabled in future versions. Decorate functions and "
                "methods: here that is `__init__`.",
                FutureWarning,
                stacklevel=2,
            )
            made: Any = function
            made.__init__ = self(made.__init__)
            return function
        code = getattr(inspect.unwrap(function), "__code__", sys._getframe(1).f_code)
        block = _GradModeBlock(self, detach_record_at(f"@{self.called}", code))
        if inspect.isgeneratorfunction(function):
            decorated: Any = _wrap_generator(function, block)
        elif inspect.iscoroutinefunction(function):
            decorated = _wrap_coroutine(function, block)
        elif inspect.isasyncgenfunction(function):
            decorated = _wrap_async_generator(function, block)
        else:
            decorated = _wrap_function(function, block)
        return decorated


class _GradModeBlock:
    """Makes the scope in which a decorated function runs."""

    def __init__(self, kind: _GradMode, cut: DetachRecord) -> None:
        self.kind, self.cut = kind, cut

    def __call__(self) -> ModeScope:
        return ModeScope(**self.kind.modes(self.cut))


def _wrap_function(function: Function, block: _GradModeBlock) -> Function:
    @wraps(function)
    def call(*args: object, **kwargs: object) -> Any:
        with block():
            return function(*args, **kwargs)

    return call


def _wrap_generator(function: Function, block: _GradModeBlock) -> Function:
    @wraps(function)
    def generate(*args: object, **kwargs: object) -> Any:
        return (yield from _drive_steps(function(*args, **kwargs), block))

    return generate


def _wrap_coroutine(function: Function, block: _GradModeBlock) -> Function:
    @wraps(function)
    async def call(*args: object, **kwargs: object) -> Any:
        return await _AwaitableSteps(_drive_steps(function(*args, **kwargs), block))

    return call


def _wrap_async_generator(function: Function, block: _GradModeBlock) -> Function:
    @wraps(function)
    async def generate(*args: object, **kwargs: object) -> Any:
        items = function(*args, **kwargs)
        sent = None
        try:
            while True:
                try:
                    item = await _AwaitableSteps(_drive_steps(items.asend(sent), block))
                except StopAsyncIteration:
                    return
                while True:
                    try:
                        sent = yield item
                        break
                    except GeneratorExit:
                        raise
                    except BaseException as error:  # noqa: BLE001  thrown in by the caller: the generator shall see it
                        try:
                            item = await _AwaitableSteps(_drive_steps(items.athrow(error), block))
                        except StopAsyncIteration:
                            return
        finally:
            await _AwaitableSteps(_drive_steps(items.aclose(), block))

    return generate


class _AwaitableSteps:
    """Awaitable around an iterator."""

    def __init__(self, steps: Steps) -> None:
        self.steps = steps

    def __await__(self) -> Steps:
        return self.steps


def _drive_steps(steps: Steps | Coroutine[Any, Any, Any], block: _GradModeBlock) -> Steps:
    """Run a generator or coroutine, each time it is resumed within a block of its own."""
    resume: Callable[[], object] = partial(steps.send, None)
    try:
        while True:
            try:
                with block():
                    item = resume()
            except StopIteration as stop:
                return stop.value
            try:
                sent = yield item
            except GeneratorExit:
                raise
            except BaseException as error:  # noqa: BLE001  thrown in by the caller: the generator shall see it
                resume = partial(steps.throw, error)
            else:
                resume = partial(steps.send, sent)
    finally:
        with block():
            steps.close()


class _FixedMode(_GradMode):
    """A mode known by its class, which may stand above a function with or without brackets."""

    def __new__(cls, orig_func: Any = None) -> Any:
        return object.__new__(cls) if orig_func is None else cls()(orig_func)

    def __init__(self, orig_func: Any = None) -> None:
        self._before = []


class no_grad(_FixedMode):
    """Context in which operations are not recorded, as a `with` block or a decorator.

    Results do not require grad, and nothing is saved for `backward`.

    Args:
        orig_func: function to decorate, for `@no_grad` without brackets. Default: None.

    Example:
        >>> x = ad.ones(2, requires_grad=True)
        >>> with ad.no_grad():
        ...     y = 2 * x
        >>> y.requires_grad
        False
    """

    called = "no_grad()"

    def modes(self, cut: DetachRecord) -> Modes:
        """Recording is off; inference mode stays what it is."""
        return _disabled_modes(cut)


class enable_grad(_FixedMode):
    """Ops are recorded again, within `no_grad`: `with enable_grad():`, or above a function."""

    called = "enable_grad()"

    def modes(self, cut: DetachRecord) -> Modes:
        """Recording is on, but not within inference mode."""
        return _enabled_modes()


class _SwitchedMode(_GradMode):
    """A mode that is switched when the object is made; as a context, until the end of the block."""

    def __init__(self, mode: bool) -> None:
        super().__init__()
        self.mode = mode

    def __enter__(self) -> Self:
        return self

    def clone(self) -> Self:
        """Return another one, which switches now."""
        return type(self)(self.mode)


class set_grad_enabled(_SwitchedMode):
    """Switch recording on or off at once; as a context, until the end of the block.

    Raises: TypeError unless `mode` is a bool.
    """

    def __init__(self, mode: bool) -> None:
        if type(mode) is not bool:
            raise TypeError(f"set_grad_enabled(): argument 'mode' must be bool, not {type(mode).__name__}")
        super().__init__(mode)
        self.called = f"set_grad_enabled({mode})"
        self.before = _current_modes()
        set_modes(**self.modes(detach_record_here(self.called)))

    def __exit__(self, *error: object) -> None:
        set_modes(**self.before)

    def __call__(self, function: Decorated) -> Decorated:
        set_modes(**self.before)  # a decorator changes nothing now
        return super().__call__(function)

    def modes(self, cut: DetachRecord) -> Modes:
        """Recording is as it was asked for."""
        return _enabled_modes() if self.mode else _disabled_modes(cut)


class inference_mode(_GradMode):
    """Context in which operations are not recorded and results can never be recorded later.

    It is a `with` block or a decorator. Its results can be neither written nor saved for `backward` where operations
    are recorded; `clone` makes them normal tensors. Writes into its results are not counted.

    Args:
        mode: False for the normal mode, within inference mode or `no_grad`; or the function to decorate. Default: True.

    Example:
        >>> with ad.inference_mode():
        ...     y = 2 * ad.ones(2)
        >>> y.is_inference(), y.clone().is_inference()
        (True, False)
    """

    called = "inference_mode()"

    def __new__(cls, mode: Any = True) -> Any:
        if isinstance(mode, bool):
            return super().__new__(cls)
        return cls()(mode)

    def __init__(self, mode: Any = True) -> None:
        super().__init__()
        self.mode: bool = mode

    def modes(self, cut: DetachRecord) -> Modes:
        """Both modes are switched; what is made in inference mode gets the storage that says so."""
        if not self.mode:
            return {"recording": True, "inference": False, "detach_record": None}
        return {
            "recording": False,
            "inference": True,
            "detach_record": detach_record_at(cut.what, cut.code, cut.instruction_offset, INFERENCE),
        }

    def clone(self) -> Self:
        """Another context of the same mode."""
        return type(self)(self.mode)


def _enabled_modes() -> Modes:
    return _current_modes() if mode.inference else {"recording": True, "detach_record": None}


def _disabled_modes(cut: DetachRecord) -> Modes:
    return _current_modes() if mode.inference else {"recording": False, "detach_record": cut}


def _current_modes() -> Modes:
    return {"recording": mode.recording, "detach_record": mode.detach_record}


class _Multithreading(threading.local):
    enabled = True


_multithreading = _Multithreading()


class set_multithreading_enabled(_SwitchedMode):
    """Kept for programs that set it: a backward pass runs in the thread that called it, whatever is set here."""

    called = "set_multithreading_enabled()"

    def __init__(self, mode: bool) -> None:
        super().__init__(mode)
        self.before, _multithreading.enabled = _multithreading.enabled, mode

    def __exit__(self, *error: object) -> None:
        _multithreading.enabled = self.before

    def modes(self, cut: DetachRecord) -> Modes:
        """Return no modes: the setting is kept apart."""
        return {}


def is_multithreading_enabled() -> bool:
    """Return the setting of `set_multithreading_enabled` in this thread; True by default."""
    return _multithreading.enabled
