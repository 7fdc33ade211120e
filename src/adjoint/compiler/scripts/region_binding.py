"""Compiled functions of a training region, bound to the objects that its calls have in common.

A model, an optimizer or a list of losses is the same in each call, and only a batch is another. As arguments they
would all be compared in Python, and no step may change an argument; as captured objects they are watched by the program
itself, and a list may be appended to.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping

from numpy import ndarray

from adjoint.compiler.ir.graph import TraceError
from adjoint.compiler.program.eager_step import StepWrapper
from adjoint.compiler.scripts.taken_containers import is_batch, lower_records, run_on_copies
from adjoint.compiler.trace.signature import VaryingIntegers
from adjoint.core.runtime import pytree
from adjoint.core.tensor.tensor import Tensor, wrap
from adjoint.core.typing import Function, Operand

MAX_BINDINGS = 8  # kept: two networks that take turns have one each
MAX_BINDINGS_MADE = 32  # after which all names are arguments
COPIES = "__adjoint_copies__"
VALUES = (bool, str, type(None))  # told apart by value: a phase, a flag
NUMBERS_AND_TENSORS = (int, float, complex, Tensor)  # differ from call to call as soon as they differ at all


class Unbound:
    """Stands for a name that is not bound yet where a region takes or gives it."""

    def __repr__(self) -> str:
        return "<unbound>"


UNBOUND = Unbound()


class BoundRegion:
    """A region's function, compiled by `compile_function` for each combination of the objects that are bound to it.

    An array under one of the names `indices`, which stand in brackets alone, is handed on as a tensor. Of an object
    under one of the names `batches` its attributes are arguments. `latest` is the compiled function that ran last.
    """

    def __init__(
        self,
        function: Function,
        bound: Collection[str],
        indices: Collection[str] = (),
        batches: Collection[str] = (),
        *,
        compile_function: Callable[[Function], StepWrapper],
    ) -> None:
        code = function.__code__
        self.integers = VaryingIntegers()  # of all bindings
        self.function = function
        self._compile = compile_function
        self.names = code.co_varnames[: code.co_argcount]
        self.bound = [i for i, name in enumerate(self.names) if name in bound]
        self._indices = {i for i, name in enumerate(self.names) if name in indices}
        self._batches = {i for i, name in enumerate(self.names) if name in batches}
        self._made = 0
        self._compilations = 0  # of bindings that are no longer kept
        self._forget()

    def __call__(self, *values: object) -> Operand:
        for i, thing in self._objects:
            if values[i] is not thing:
                self._select(values)
                break
        if self._batches:
            values = tuple([lower_records(x) if i in self._batches else x for i, x in enumerate(values)])
        return self.latest(
            *[values[i] if type(values[i]) is not ndarray else self._take(i, values[i]) for i in self._free]
        )

    def learn(self, call: Mapping[str, object]) -> None:
        """Take note of the integers that a call, which ran eagerly, began with."""
        given = [call.get(self.names[i]) for i in self._free]
        given = [lower_records(x) if i in self._batches else x for i, x in zip(self._free, given, strict=True)]
        self.integers.learn(*pytree.flatten((tuple(given), {})))

    @property
    def compilations(self) -> int:
        """The number of times that the region was compiled."""
        return self._compilations + sum(compiled.compilations for _, compiled in self._known.values())

    def _forget(self) -> None:
        """Begin with other bound names: nothing is compiled for them."""
        self._compilations += sum(compiled.compilations for _, compiled in getattr(self, "_known", {}).values())
        self._known: dict[Hashable, tuple[list[tuple[int, object]], StepWrapper]] = {}
        self._free = [i for i in range(len(self.names)) if i not in self.bound]
        self._objects: list[tuple[int, object]] = [(i, self) for i in self.bound]  # which no value is
        if not self.bound:
            self.latest = self._compile(self._bind({}) if self._batches else self.function)
            self.latest.integers = self.integers
            self._known[()] = [], self.latest

    def _select(self, values: tuple[object, ...]) -> None:
        """Take the compiled function for these objects; make it where there is none."""
        # A number or tensor of which there was another is no constant.
        unbound = {
            i
            for i, thing in self._objects
            if thing is not self and thing is not values[i] and isinstance(values[i], NUMBERS_AND_TENSORS)
        }
        if unbound or self._made == MAX_BINDINGS_MADE:
            self.bound = [] if self._made == MAX_BINDINGS_MADE else [i for i in self.bound if i not in unbound]
            self._forget()
            if not self.bound:
                return
        key = tuple([values[i] if type(values[i]) in VALUES else id(values[i]) for i in self.bound])
        known = self._known.pop(key, None)
        if known is None:
            objects = [(i, values[i]) for i in self.bound]
            known = objects, self._compile(self._bind({self.names[i]: thing for i, thing in objects}))
            known[1].integers = self.integers
            self._made += 1
        self._known[key] = known
        while len(self._known) > MAX_BINDINGS:
            _, dropped = self._known.pop(next(iter(self._known)))
            self._compilations += dropped.compilations
        self._objects, self.latest = known

    def _take(self, i: int, value: object) -> Tensor:
        """The tensor for an array among the arguments.

        Raises: TraceError where that would not be the same.
        """
        if i not in self._indices or not isinstance(value, ndarray) or value.dtype.kind not in "bi":
            raise TraceError(f"{self.names[i]!r} is a NumPy array of each call, whose values a program would freeze")
        return wrap(value.astype(value.dtype.newbyteorder("=")))

    def _bind(self, objects: Mapping[str, object]) -> Function:
        """The function of the other names, whose frame stands at the region's first line."""
        code = self.function.__code__
        free = ", ".join(self.names[i] for i in self._free)
        call, names = f"{code.co_name}({', '.join(self.names)})", {**objects, code.co_name: self.function}
        if self._batches:
            call = f"{COPIES}({code.co_name}, ({', '.join(self.names)},), {self._batches})"
            names[COPIES] = run_on_copies
        text = "\n" * (code.co_firstlineno - 1) + f"lambda {free}: {call}"
        bound: Function = eval(compile(text, code.co_filename, "eval"), names)
        bound.__name__ = bound.__qualname__ = code.co_name
        return bound


def holds_array(values: tuple[object, ...]) -> bool:
    """Tell whether a NumPy array is among the leaves of arguments: such a call fails before anything happens."""
    return any(isinstance(leaf, ndarray) for leaf in pytree.flatten((values, {}))[0])


def find_common_names(calls: list[dict[str, object]]) -> set[str]:
    """The names that are bound to the same objects in all of these calls, or to some model or optimizer in each."""
    first, *others = calls
    found = set()
    for name, value in first.items():
        values = [each.get(name) for each in others]
        is_same = not isinstance(value, Tensor | float | ndarray) and all(name in each for each in others)
        is_same = is_same and all(other is value for other in values)
        if is_same or all(hasattr(each, "state_dict") for each in (value, *values)):
            found.add(name)
    return found


def find_batches(calls: list[dict[str, object]]) -> set[str]:
    """The names that are bound to another object of tensors and numbers in each of these calls."""
    return {
        name
        for name, value in calls[-1].items()
        if is_batch(value) and len({id(each.get(name)) for each in calls}) == len(calls)
    }
