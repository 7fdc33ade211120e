"""A graph under construction: what becomes of each equation by the rules, by what is known and what is there."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from adjoint.compiler.ir.graph import Constant, Graph, Origin, Value
from adjoint.compiler.passes.constant_folding import folded, plain_inputs
from adjoint.compiler.passes.pattern import RULES, Rule, replacement
from adjoint.core.op.spec import Spec

COMMUTATIVE = frozenset({
    "add", "mul", "eq", "ne", "logical_and", "logical_or", "logical_xor", "bitwise_and", "bitwise_or", "bitwise_xor",
})  # fmt: skip
SMALL = 64  # bytes up to which equal constants are looked for
SHARED = 8  # places in the user's program that an equation remembers


@cache
def _rules() -> dict[Any, list[Rule]]:
    """The rules by the op at the root of their pattern."""
    from adjoint.compiler.passes.rules import algebra, casting, gather_row, logic, movement  # noqa: F401  register rules

    by_op: dict[Any, list[Rule]] = {}
    for rule in RULES:
        by_op.setdefault(rule.before.op, []).append(rule)
    return by_op


class Rewriter:
    """The new graph under construction; asking for an equation it has already gives that."""

    def __init__(self, graph: Graph) -> None:
        self.out = Graph(graph.name)
        self.known: set[Value] = set()
        self.made: dict[Any, Value] = {}

    def input(self, value: Value) -> Value:
        """The input, or an equal constant that the graph has already."""
        if isinstance(value.source, Constant) and value.nbytes <= SMALL:
            known = self.made.setdefault(_content(value.source.array), value)
            if known is not value:
                return known
        self.out.inputs.append(value)
        self.known.add(value)
        return value

    def make(self, value: Value) -> Value:
        """What the graph has in place of this equation of its values: if need be, the equation itself."""
        inputs = plain_inputs(value)
        if inputs is not value.inputs:
            value = Value(value.op, inputs, value.params, Spec(value.shape, value.dtype), value.origin)
        for rule in _rules().get(value.op, ()):
            simpler = replacement(rule, value) if rule.may_apply(value) else None
            if simpler is not None:
                return self._adopted(simpler, value)
        array = folded(value)
        if array is not None:
            return self.input(Value(None, (), {}, Spec(array.shape, array.dtype), value.origin, Constant(array)))
        return self.keep(value)

    def keep(self, value: Value) -> Value:
        """The equation itself, or an equal one that the graph has already."""
        if value.op.effect:
            return self._add(value)
        key = _key(value)
        known = self.made.get(key)
        if known is None:
            self.made[key] = self._add(value)
            return value
        known.origin = _shared(known.origin, value.origin)
        return known

    def again(self, v: Value, renamed: dict[Value, Value]) -> Value:
        """An equation of another graph, of what has become of its operands."""
        inputs = tuple(renamed[i] if isinstance(i, Value) else i for i in v.inputs)
        return self.make(Value(v.op, inputs, v.params, Spec(v.shape, v.dtype), v.origin))

    def kept(self, v: Value, renamed: dict[Value, Value]) -> Value:
        """An equation of a graph that the rules have seen, of what has become of its operands."""
        return self.keep(v) if all(renamed[i] is i for i in v.operands) else self.again(v, renamed)

    def _adopted(self, value: Value, like: Value) -> Value:
        """What a rule made, as equations of the graph that come from where the replaced one did."""
        if value in self.known:
            return value
        inputs = tuple(self._adopted(i, like) if isinstance(i, Value) else i for i in value.inputs)
        return self.make(Value(value.op, inputs, value.params, Spec(value.shape, value.dtype), like.origin))

    def _add(self, value: Value) -> Value:
        self.out.equations.append(value)
        self.known.add(value)
        return value


def _shared(origin: Origin | None, other: Origin | None) -> Origin | None:
    """The origin of an equation that stands for two."""
    if origin is None or other is None:
        return origin or other
    have = (origin._replace(also=()), *origin.also)
    new = tuple(o for o in (other._replace(also=()), *other.also) if o not in have)
    return origin._replace(also=(*origin.also, *new)[:SHARED]) if new else origin


def _key(value: Value) -> Any:
    """What equal equations have in common."""
    inputs: Any = tuple([x if isinstance(x, Value) else (type(x), repr(x)) for x in value.inputs])
    if value.op.name in COMMUTATIVE:
        inputs = frozenset(inputs)
    return value.op, inputs, _frozen(value.params), value.dtype, value.shape


def _content(array: Any) -> Any:
    return array.dtype, array.shape, np.ascontiguousarray(array).tobytes()


COSMETIC = frozenset({"called"})  # parameters that name an equation, and change nothing


def _frozen(params: dict[str, Any]) -> Any:
    return tuple([(k, _parameter(v)) for k, v in sorted(params.items()) if k not in COSMETIC]) if params else ()


def _parameter(v: Any) -> Any:
    """What tells a parameter from another: a number's digits, for 0.0 equals -0.0 and True equals 1."""
    if isinstance(v, (int, float)):
        return type(v), repr(v)
    return v if _hashable(v) else id(v)


def _hashable(v: Any) -> bool:
    try:
        hash(v)
    except TypeError:
        return False
    return True
