"""Host functions: those that act outside of a step, such as `print`. While a step is traced they are led elsewhere.

When the user's code is about to load such a function from a name or an attribute, another object lies there for this
one instruction. It is called in its place, with all that the step computes still symbolic.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from types import BuiltinFunctionType, CellType, FrameType, FunctionType, MethodType

import numpy as np

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
    is_numpy_generator,
)
from adjoint.core.typing import Function, Operand, Operands

COMPUTES = "computes"  # on Python numbers, as C code does
CONVERTS = "makes an array"  # of a tensor
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
        "set_state",
        "get_state",
        "default_rng",
        "readinto",
    )
)
CONVERSIONS: tuple[Function, ...] = (float, int)
CHOICES: tuple[Function, ...] = (min, max)  # of numbers
ARRAY_FUNCTIONS = frozenset((np.asarray, np.array, np.asanyarray, np.ascontiguousarray))
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
        return self.effect not in (COMPUTES, CONVERTS)


HostCall = Callable[[HostFunction, Operands, dict[str, Operand]], Operand]


class HostGenerator:
    """Stands for a generator of NumPy's while a step is traced: each call of the step draws from that."""

    __slots__ = ("call", "generator")

    def __init__(self, generator: Operand, call: HostCall) -> None:
        self.generator, self.call = generator, call

    def __getattribute__(self, name: str) -> Operand:
        return type(self.generator) if name == "__class__" else object.__getattribute__(self, name)

    def __getattr__(self, name: str) -> Operand:
        found = getattr(self.generator, name)
        if not callable(found) or name[0] == "_" or name in STATE_METHODS:
            return found
        return HostFunction(found, DRAWS, self.call)


def _set_cell(cell: CellType, frame: FrameType, value: Operand) -> None:
    """Set a cell to a value in the midst of a trace function, after which Python sets it to what `f_locals` has."""
    cell.cell_contents = value
    assert frame.f_locals is not None  # which has it now


class HostFunctions:
    """Puts host functions aside for one instruction. `call(host, args, kwargs)` is what is called instead."""

    def __init__(self, call: HostCall) -> None:
        self._call = call
        self._replaced: list[tuple[dict[str, Operand], str, Operand]] = []
        self._cells: list[tuple[CellType, FrameType, Operand]] = []
        self._generators: dict[int, HostGenerator] = {}

    def lead_away(self, holder: object, name: str, value: Operand, is_called: bool) -> Operand:
        """Put a stand-in where `value` is about to be loaded from, if it is a host function; what will be loaded."""
        host: HostFunction | HostGenerator | None = self.stand_in(value)
        effect = _find_host_effect(value, is_called) if host is None else DRAWS
        names = holder if type(holder) is dict else getattr(holder, "__dict__", None)
        if effect is None or type(names) is not dict or isinstance(holder, type):
            return value
        host = host or HostFunction(value, effect, self._call)
        self._replaced.append((names, name, names.get(name, self)))
        names[name] = host
        return host

    def stand_in(self, value: object) -> HostGenerator | None:
        """The stand-in of a generator of NumPy's; None for anything else."""
        if not is_numpy_generator(value):
            return None
        return self._generators.setdefault(id(value), HostGenerator(value, self._call))

    def lead_cell_away(self, cell: CellType, frame: FrameType, value: Operand) -> Operand:
        """Put the stand-in of a generator where it is about to be loaded from; what will be loaded."""
        host = self.stand_in(value)
        if host is None:
            return value
        self._cells.append((cell, frame, value))
        _set_cell(cell, frame, host)
        return host

    def restore(self) -> None:
        """Put everything back."""
        while self._cells:
            _set_cell(*self._cells.pop())
        while self._replaced:
            names, name, value = self._replaced.pop()
            if value is self:
                names.pop(name, None)
            else:
                names[name] = value


def _find_host_effect(value: object, is_called: bool) -> str | None:
    """The effect of a function that is to be called outside of the step; None for any other object."""
    if value is len or value is min or value is max or (isinstance(value, type) and value in CONVERSIONS):
        return COMPUTES if is_called else None
    if not isinstance(value, BuiltinFunctionType | FunctionType | MethodType) and not hasattr(value, "__wrapped__"):
        return None
    if isinstance(value, BuiltinFunctionType) and value in MATH_FUNCTIONS:
        return COMPUTES
    if isinstance(value, BuiltinFunctionType) and value in ARRAY_FUNCTIONS:
        return CONVERTS
    effect = find_effect(value, ())
    if effect is not None:
        name = getattr(value, "__name__", "")
        return effect if effect in CALLED_EFFECTS and name not in STATE_METHODS else None
    package = (getattr(value, "__module__", None) or "").partition(".")[0]
    return SHOWS if package in SHOWING_PACKAGES else None
