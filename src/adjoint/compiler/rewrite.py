"""Graph to graph: the rules, neighbouring movements joined, equal equations shared, and what nobody needs left out."""

from __future__ import annotations

from functools import cache
from typing import Any

from adjoint.compiler.graph import Graph, Origin, Value
from adjoint.compiler.match import RULES, Rule, match
from adjoint.core.spec import Spec


def rewrite(graph: Graph) -> Graph:
    """A graph of the same outputs with less to do."""
    return without_dead(_turned_products(without_dead(_simplified(graph))))


def _turned_products(graph: Graph) -> Graph:
    """(A B)ᵀ, where nothing else reads A B, as Bᵀ Aᵀ: transposed operands are free, a transposed result is a copy."""
    users = graph.users()
    outputs = set(graph.outputs)
    rewriter = _Rewriter(graph)
    renamed: dict[Value, Value] = {v: v for v in graph.inputs}
    for v in graph.equations:
        product: Any = v.inputs[0] if v.op.name == "permute" and v.params["axes"] == (1, 0) else None
        is_product = isinstance(product, Value) and product.op is not None and product.op.name == "mm"
        if is_product and len(users[product]) == 1 and product not in outputs:
            a, b = (renamed[i] for i in product.inputs)
            turned = [
                rewriter.make(v.op, (x,), {"axes": (1, 0)}, Spec(x.shape[::-1], x.dtype), v.origin) for x in (b, a)
            ]
            renamed[v] = rewriter.make(product.op, tuple(turned), {}, Spec(v.shape, v.dtype), product.origin)
            continue
        inputs = tuple(renamed[i] if isinstance(i, Value) else i for i in v.inputs)
        renamed[v] = rewriter.make(v.op, inputs, v.params, Spec(v.shape, v.dtype), v.origin)
    rewriter.out.outputs = [renamed[v] for v in graph.outputs]
    return rewriter.out


@cache
def _rules() -> dict[Any, list[Rule]]:
    """The rules by the op at the root of their pattern."""
    from adjoint.compiler.rules import algebra  # noqa: F401  registers its rules

    by_op: dict[Any, list[Rule]] = {}
    for rule in RULES:
        by_op.setdefault(rule.before.op, []).append(rule)
    return by_op


class _Rewriter:
    """The new graph under construction; asking for an equation it has already gives that."""

    def __init__(self, graph: Graph) -> None:
        self.out = Graph(graph.name)
        self.out.inputs = graph.inputs
        self.made: dict[Any, Value] = {}

    def make(
        self, op: Any, inputs: tuple[Any, ...], params: dict[str, Any], spec: Spec, origin: Origin | None
    ) -> Value:
        """An equation, simplified if a rule applies."""
        value = Value(op, inputs, params, spec, origin)
        simpler = self._joined(value) or self._ruled(value)
        if simpler is not None:
            return simpler
        if op.effect:
            self.out.equations.append(value)
            return value
        key = (op, tuple(_identity(i) for i in inputs), _frozen(params), value.dtype, value.shape)
        if key not in self.made:
            self.made[key] = value
            self.out.equations.append(value)
        return self.made[key]

    def _ruled(self, value: Value) -> Value | None:
        for rule in _rules().get(value.op, ()):
            bound: dict[Value, Any] = {}
            if not match(rule.before, value, rule.holes, bound):
                continue
            if rule.after in bound:
                found: Value = bound[rule.after]
                if found.shape == value.shape and found.dtype == value.dtype:
                    return found
            elif all(b.dtype == value.dtype or b.dtype.kind == "b" for b in bound.values()):
                return self._instance(rule.after, bound, value)
        return None

    def _instance(self, template: Value, bound: dict[Value, Any], like: Value) -> Value:
        inputs = tuple(
            bound[i] if i in bound else self._instance(i, bound, like) if isinstance(i, Value) else i
            for i in template.inputs
        )
        return self.make(template.op, inputs, template.params, Spec(like.shape, like.dtype), like.origin)

    def _joined(self, value: Value) -> Value | None:
        """A movement or cast that does nothing, or that follows one of its own kind."""
        name = value.op.name
        if name not in ("reshape", "expand", "permute", "cast"):
            return None
        source: Value = value.inputs[0]
        folded = source.op is not None and source.op.family == "reduction"
        if name == "reshape" and folded and source.params["keepdims"]:
            return self._dropped(value, source)
        same = source.shape == value.shape and source.dtype == value.dtype
        if same and (name != "permute" or list(value.params["axes"]) == sorted(value.params["axes"])):
            return source
        if source.op is not value.op or name == "cast":
            return None
        params = dict(value.params)
        if name == "permute":
            first = source.params["axes"]
            params = {"axes": tuple(first[a] for a in value.params["axes"])}
        return self.make(value.op, source.inputs, params, Spec(value.shape, value.dtype), value.origin)

    def _dropped(self, value: Value, source: Value) -> Value | None:
        """A fold whose kept axes of size 1 are dropped at once does not keep them."""
        params = {**source.params, "keepdims": False}
        spec = source.op.spec(source.inputs[0], **params)
        if spec.shape != value.shape:
            return None
        return self.make(source.op, source.inputs, params, spec, value.origin)


def _simplified(graph: Graph) -> Graph:
    rewriter = _Rewriter(graph)
    renamed: dict[Value, Value] = {v: v for v in graph.inputs}
    for v in graph.equations:
        inputs = tuple(renamed[i] if isinstance(i, Value) else i for i in v.inputs)
        renamed[v] = rewriter.make(v.op, inputs, v.params, Spec(v.shape, v.dtype), v.origin)
    rewriter.out.outputs = [renamed[v] for v in graph.outputs]
    return rewriter.out


def without_dead(graph: Graph) -> Graph:
    """Only the equations that lead to an output, or that do something besides computing."""
    needed = set(graph.outputs)
    kept = []
    for v in reversed(graph.equations):
        if v in needed or v.op.effect:
            kept.append(v)
            needed.update(v.operands)
    out = Graph(graph.name)
    out.inputs = graph.inputs
    out.equations = kept[::-1]
    out.outputs = graph.outputs
    return out


def _identity(x: Any) -> Any:
    return x if isinstance(x, Value) else (type(x), repr(x))


def _frozen(params: dict[str, Any]) -> Any:
    return tuple((k, _parameter(v)) for k, v in sorted(params.items()))


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
