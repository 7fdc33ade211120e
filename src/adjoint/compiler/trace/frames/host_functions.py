"""Host functions: those that act outside of a step, such as `print`. While a step is traced they are led elsewhere.

When the user's code is about to load such a function from a name or an attribute, another object lies there for this
one instruction. It is called in its place, with all that the step computes still symbolic.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from types import BuiltinFunctionType, FunctionType, MethodType

from adjoint.compiler.trace.frames.impure_calls import (
    ASKS,
    CLOCK,
    DRAWS,
    FILES,
    LOGS,
    PRINTS,
    WAITS,
    WARNS,
    find_effect,
)
from adjoint.core.typing import Function, Operand, Operands

COMPUTES = "computes"  # on Python numbers, as C code does
SHOWS = "shows"  # in a progress bar, a table of experiments, a log of others
CALLED_EFFECTS = frozenset((ASKS, CLOCK, DRAWS, FILES, LOGS, PRINTS, WAITS, WARNS))
TRUSTED_EFFECTS = frozenset((CLOCK, DRAWS, LOGS, PRINTS, SHOWS, WAITS))  # which raise nothing
ORDERED_EFFECTS = frozenset((CLOCK, WAITS))  # that take place when all before them was computed
SHOWING_PACKAGES = frozenset(
    (
        "alive_progress",
        "comet_ml",
        "loguru",
        "mlflow",
        "neptune",
        "progressbar",
        "rich",
        "tensorboard",
        "tensorboardX",
        "tqdm",
        "wandb",
    )
)
STATE_METHODS = frozenset(
    (
        "seed",
        "setstate",
        "getstate",
        "shuffle",
        "set_state",
        "get_state",
        "default_rng",
        "readinto",
    )
)
CONVERSIONS: tuple[Function, ...] = (float, int)
MATH_FUNCTIONS = frozenset(f for f in vars(math).values() if isinstance(f, BuiltinFunctionType))


class HostFunction:
    """Stands for a host function while a step is traced."""

    __slots__ = ("call", "effect", "function", "thread")

    def __init__(self, function: Function, effect: str, call: HostCall) -> None:
        self.function, self.effect, self.call = function, effect, call
        self.thread = threading.get_ident()

    def __call__(self, *args: Operand, **kwargs: Operand) -> Operand:
        if threading.get_ident() != self.thread:
            return self.function(*args, **kwargs)
        return self.call(self, args, kwargs)

    @property
    def is_replayed(self) -> bool:
        """True where each call of the step makes the call once; False for what only computes."""
        return self.effect != COMPUTES


HostCall = Callable[[HostFunction, Operands, dict[str, Operand]], Operand]


class HostFunctions:
    """Puts host functions aside for one instruction. `call(host, args, kwargs)` is what is called instead."""

    def __init__(self, call: HostCall) -> None:
        self._call = call
        self._replaced: list[tuple[dict[str, Operand], str, Operand]] = []

    def lead_away(self, holder: object, name: str, value: Operand, is_called: bool) -> Operand:
        """Put a stand-in where `value` is about to be loaded from, if it is a host function; what will be loaded."""
        effect = _find_host_effect(value, is_called)
        names = holder if type(holder) is dict else getattr(holder, "__dict__", None)
        if effect is None or type(names) is not dict or isinstance(holder, type):
            return value
        host = HostFunction(value, effect, self._call)
        self._replaced.append((names, name, names.get(name, self)))
        names[name] = host
        return host

    def restore(self) -> None:
        """Put everything back."""
        while self._replaced:
            names, name, value = self._replaced.pop()
            if value is self:
                names.pop(name, None)
            else:
                names[name] = value


def _find_host_effect(value: object, is_called: bool) -> str | None:
    """The effect of a function that is to be called outside of the step; None for any other object."""
    if value in CONVERSIONS if isinstance(value, type) else False:
        return COMPUTES if is_called else None
    if not isinstance(value, BuiltinFunctionType | FunctionType | MethodType) and not hasattr(value, "__wrapped__"):
        return None
    if isinstance(value, BuiltinFunctionType) and value in MATH_FUNCTIONS:
        return COMPUTES
    effect = find_effect(value, ())
    if effect is not None:
        name = getattr(value, "__name__", "")
        return effect if effect in CALLED_EFFECTS and name not in STATE_METHODS else None
    package = (getattr(value, "__module__", None) or "").partition(".")[0]
    return SHOWS if package in SHOWING_PACKAGES else None
