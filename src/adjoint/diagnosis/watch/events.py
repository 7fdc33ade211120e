"""Events of a watched program: calls of modules, cuts of the graph, backward passes, steps of optimizers."""

from __future__ import annotations

import math
import re
import sys
from dataclasses import dataclass, field
from types import FrameType

import numpy as np

from adjoint.core.graph.source_location import user_frame
from adjoint.core.tensor.detach_record import DetachRecord
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Operand
from adjoint.diagnosis.findings import Place, place_of_frame
from adjoint.nn.module.module import Module
from adjoint.optim.step.optimizer import Optimizer

Array = np.ndarray
MAX_NUMBERS = 1 << 18  # of data, in rows that are looked at
NUMBERS = re.compile(r"[=(,]\s*\d")  # among arguments


@dataclass
class ModuleCall:
    """One call of a module."""

    module: Module
    inputs: tuple[Operand, ...]
    parent: ModuleCall | None
    time: int
    is_recording: bool
    record: DetachRecord | None  # the line that switched recording off
    place: Place | None = None  # the user's line, of the outermost calls and of the first of each module

    @property
    def root(self) -> ModuleCall:
        """The outermost call around this one."""
        call = self
        while call.parent is not None:
            call = call.parent
        return call

    def tensors(self) -> list[Tensor]:
        """Return the inputs that are tensors."""
        return [x for x in self.inputs if isinstance(x, Tensor)]


@dataclass(frozen=True)
class Cut:
    """A place at which the history of a tensor ends: `detach()`, a block without recording, a Python number."""

    what: str
    place: Place
    time: int
    within: Module | None  # the module whose forward ran
    parameters: frozenset[int] | None = None  # the ids of those from which it came, where they are known


@dataclass
class Backward:
    """One backward pass that accumulates gradients."""

    roots: tuple[Tensor, ...]
    place: Place
    is_retained: bool
    iteration: int
    loss: float | None  # of a single number
    began: int  # the sequence number of nodes at its start


@dataclass
class OptimizerRecord:
    """An optimizer that was seen at a step, under the user's name, with the line that made it."""

    optimizer: Optimizer
    name: str
    made: Place | None
    step_place: Place | None = None
    built: Place | None = None  # the line that called its class, where that was seen; `made` may call a function
    rate_place: Place | None = None  # the line that gave a function around that call the number of its rate
    steps: int = 0
    rates: list[list[float]] = field(default_factory=list)  # of each step, by group

    @property
    def place(self) -> Place | None:
        """The line that made it: the call of its class, or of a function around that which alone gives it numbers."""
        lines = [each for each in (self.built, self.made, self.step_place) if each is not None]
        return next((each for each in lines if NUMBERS.search(each.text)), lines[0] if lines else None)

    def parameters(self) -> list[Operand]:
        """Return the parameters of all groups."""
        return [p for group in self.optimizer.param_groups for p in group["params"]]


@dataclass
class OptimizerStep:
    """One step of an optimizer."""

    record: OptimizerRecord
    number: int  # from 0, of this optimizer
    place: Place
    sizes: dict[int, float | None]  # by a parameter's id: root mean square of the gradient, None without one


def caller_frame() -> FrameType:
    """Return the frame of the user's line that called into the library."""
    return user_frame(sys._getframe(1))


def caller_place() -> Place:
    """Return the user's line that called into the library."""
    return place_of_frame(caller_frame())


def root_mean_square(array: Array) -> float:
    """Return the root mean square of the elements; infinite or NaN where one is."""
    if not array.size:
        return 0.0
    total = float(np.vdot(array, array).real)
    if not math.isfinite(total):  # the squares of large numbers, which may be finite
        largest = float(np.abs(array).max())
        return largest if not math.isfinite(largest) else largest * root_mean_square(array / largest)
    return math.sqrt(total / array.size)


def first_rows(array: Array) -> Array:
    """Return the rows of data whose numbers rules look at: all, unless they are many."""
    return array[: max(1, MAX_NUMBERS * len(array) // array.size)] if array.size > MAX_NUMBERS else array


def distinct_values(array: Array) -> Array:
    """Return the values of an array in ascending order, each once; `numpy.unique` alone would import `numpy.ma`."""
    values: Array = np.unique(array, return_counts=True)[0]
    return values
