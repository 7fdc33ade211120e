"""Patterns: a rule's function traced once into two small graphs; the first is looked for in the step's graph."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from adjoint.compiler.graph import Argument, Value
from adjoint.compiler.trace import Tracer
from adjoint.core.mode import Scope
from adjoint.core.spec import Spec
from adjoint.core.tensor import wrap


class Rule(NamedTuple):
    """`before` may be replaced by `after`; `holes` stand for any values."""

    name: str
    function: Callable[..., Any]
    holes: tuple[Value, ...]
    before: Value
    after: Value


RULES: list[Rule] = []


def rule(function: Callable[..., Any]) -> Callable[..., Any]:
    """Register a rewrite rule: `function(x, …)` returns (before, after) as expressions in its parameters.

    A parameter named `c` stands for a truth value, any other for a float.
    """
    tracer = Tracer(function.__name__)
    holes = [
        tracer.graph.input(Spec((), np.dtype(np.bool_ if name == "c" else np.float32)), Argument(i, name))
        for i, name in enumerate(inspect.signature(function).parameters)
    ]
    with Scope(recording=False):
        before, after = tracer.trace(function, tuple(map(wrap, holes)), {})
    RULES.append(Rule(function.__name__, function, tuple(holes), before.array, after.array))
    return function


def match(pattern: Any, value: Any, holes: tuple[Value, ...], bound: dict[Value, Any]) -> bool:
    """True if `value` has the form of `pattern`; `bound` then tells what each hole stands for."""
    if not isinstance(pattern, Value):
        return not isinstance(value, Value) and value is not None and _same_number(pattern, value)
    if pattern in holes:
        if pattern in bound:
            return bound[pattern] is value
        bound[pattern] = value
        return isinstance(value, Value)
    return (
        isinstance(value, Value)
        and value.op is pattern.op
        and value.params == pattern.params
        and len(value.inputs) == len(pattern.inputs)
        and all(match(p, v, holes, bound) for p, v in zip(pattern.inputs, value.inputs, strict=True))
    )


def _same_number(a: Any, b: Any) -> bool:
    """True for equal numbers, 1 and 1.0 too, but not for 0.0 and -0.0."""
    return bool(a == b) and math.copysign(1.0, a) == math.copysign(1.0, b)
