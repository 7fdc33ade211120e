"""A graph under construction: what becomes of each equation by the rules, by what is known and what is there."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from functools import cache
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from adjoint.compiler.ir.graph import Constant, Graph, Value, ValueOrigin
from adjoint.compiler.log import RULE_HITS
from adjoint.compiler.passes.constant_folding import fold_constant, simplify_inputs
from adjoint.compiler.passes.pattern import LITERAL_NUMBER, RULES, Rule, apply_rule
from adjoint.core.op.spec import Spec

if TYPE_CHECKING:
    from adjoint.core.op.op import Op

Found = TypeVar("Found")
COMMUTATIVE_OPS = frozenset(
    {"add", "mul", "eq", "ne", "logical_and", "logical_or", "logical_xor", "bitwise_and", "bitwise_or", "bitwise_xor"}
)
MAX_INTERNED_CONSTANT_BYTES = 64  # bytes up to which equal constants are looked for
MAX_MERGED_ORIGINS = 8  # places in the user's program that an equation remembers


@cache
def _rules_by_op() -> dict[Op | None, list[Rule]]:
    """The rules by the op at the root of their pattern."""
    from adjoint.compiler.passes.rules import algebra, casting, gather_row, logic, movement  # noqa: F401  register rules

    by_op: dict[Op | None, list[Rule]] = {}
    for rule in RULES:
        by_op.setdefault(rule.before.op, []).append(rule)
    return by_op


class Rewriter:
    """The new graph under construction; asking for an equation it has already gives that."""

    def __init__(self, graph: Graph) -> None:
        self.out = Graph(graph.name, graph.sizes)
        self.new_values: set[Value] = set()
        self.value_table: dict[Hashable, Value] = {}
        self.rules_by_ops: dict[Hashable, list[Rule]] = {}

    def input(self, value: Value) -> Value:
        """The input, or an equal constant that the graph has already."""
        if isinstance(value.source, Constant) and value.nbytes <= MAX_INTERNED_CONSTANT_BYTES:
            array = value.source.array
            key = array.dtype, array.shape, np.ascontiguousarray(array).tobytes()
            known = self.value_table.setdefault(key, value)
            if known is not value:
                return known
        self.out.inputs.append(value)
        self.new_values.add(value)
        return value

    def make(self, value: Value) -> Value:
        """Return the value that the graph has in place of this equation: if need be, the equation itself."""
        inputs = simplify_inputs(value)
        if inputs is not value.inputs:
            value = Value(value.op, inputs, value.params, value, value.origin)
        for rule in self._find_rules(value):
            simpler = apply_rule(rule, value)
            if simpler is not None:
                if RULE_HITS is not None:
                    RULE_HITS[rule.name] += 1
                return self._adopt_replacement(simpler, value)
        array = fold_constant(value)
        if array is not None:
            return self.input(Value(None, (), {}, Spec(array.shape, array.dtype), value.origin, Constant(array)))
        return self.intern(value)

    def _find_rules(self, value: Value) -> list[Rule]:
        """The rules that an equation's op, and those of its inputs, do not rule out."""
        key = value.op, *[x.op if isinstance(x, Value) else LITERAL_NUMBER for x in value.inputs]
        found = self.rules_by_ops.get(key)
        if found is None:
            found = [rule for rule in _rules_by_op().get(value.op, ()) if rule.may_apply(value)]
            self.rules_by_ops[key] = found
        return found

    def intern(self, value: Value) -> Value:
        """The equation itself, or an equal one that the graph has already."""
        if value.op.effect:
            return self.add(value)
        key = _equation_key(value)
        known = self.value_table.get(key)
        if known is None:
            self.value_table[key] = self.add(value)
            return value
        known.origin = _merge_origins(known.origin, value.origin)
        return known

    def rebuild(self, v: Value, renamed: dict[Value, Value]) -> Value:
        """An equation of another graph, of what has become of its operands."""
        inputs = tuple([renamed[i] if isinstance(i, Value) else i for i in v.inputs])
        return self.make(v if inputs == v.inputs else Value(v.op, inputs, v.params, v, v.origin))

    def rebuild_if_changed(self, v: Value, renamed: dict[Value, Value]) -> Value:
        """An equation of a graph that the rules have seen, of what has become of its operands."""
        return self.intern(v) if all(renamed[i] is i for i in v.operands) else self.rebuild(v, renamed)

    def carry(self, v: Value, renamed: dict[Value, Value]) -> Value:
        """An equation that no rule would change now either, of what has become of its operands."""
        inputs = tuple([renamed[i] if isinstance(i, Value) else i for i in v.inputs])
        return self.add(v if inputs == v.inputs else Value(v.op, inputs, v.params, v, v.origin))

    def _adopt_replacement(self, value: Value, like: Value) -> Value:
        """Add a rule's replacement to the graph, with the origin of the replaced equation."""
        if value in self.new_values:
            return value
        inputs = tuple(self._adopt_replacement(i, like) if isinstance(i, Value) else i for i in value.inputs)
        return self.make(Value(value.op, inputs, value.params, value, like.origin))

    def add(self, value: Value) -> Value:
        """Append an equation of which there is no equal one."""
        self.out.equations.append(value)
        self.new_values.add(value)
        return value


def replace_equations(
    graph: Graph,
    found: Mapping[Value, Found],
    replace: Callable[[Value, Found, dict[Value, Value], Rewriter], Value],
) -> Graph:
    """Return the graph with what `replace` makes in place of each equation in `found`; the graph itself if none is."""
    if not found:
        return graph
    rewriter = Rewriter(graph)
    renamed: dict[Value, Value] = {v: rewriter.input(v) for v in graph.inputs}
    for v in graph.equations:
        if v in found:
            renamed[v] = replace(v, found[v], renamed, rewriter)
        else:
            renamed[v] = rewriter.rebuild_if_changed(v, renamed)
    rewriter.out.outputs = [renamed[v] for v in graph.outputs]
    return rewriter.out


def _merge_origins(origin: ValueOrigin | None, other: ValueOrigin | None) -> ValueOrigin | None:
    """The origin of an equation that stands for two."""
    if origin is None or other is None:
        return origin or other
    have = (origin._replace(merged_origins=()), *origin.merged_origins)
    new = tuple(o for o in (other._replace(merged_origins=()), *other.merged_origins) if o not in have)
    return origin._replace(merged_origins=(*origin.merged_origins, *new)[:MAX_MERGED_ORIGINS]) if new else origin


def _equation_key(value: Value) -> Hashable:
    """Return a key that equal equations share."""
    keys = [x if isinstance(x, Value) else (type(x), repr(x)) for x in value.inputs]
    inputs: Hashable = frozenset(keys) if value.op.name in COMMUTATIVE_OPS else tuple(keys)
    if not value.params:
        return value.op, inputs, value.dtype, value.shape
    params = [(k, _freeze_param(v)) for k, v in sorted(value.params.items()) if k not in COSMETIC_PARAMS]
    return value.op, inputs, tuple(params), value.dtype, value.shape


COSMETIC_PARAMS = frozenset({"called"})  # parameters that name an equation, and change nothing


def _freeze_param(v: object) -> Hashable:
    """Return a key for a parameter: a number's digits, since 0.0 equals -0.0 and True equals 1."""
    if isinstance(v, (int, float)):
        return type(v), repr(v)
    try:
        hash(v)
    except TypeError:
        return id(v)
    return v
