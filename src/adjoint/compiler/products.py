"""Matrix products in the form that costs least: a long one for a sum of many, operands turned and not results."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

from adjoint.compiler.graph import Graph, Origin, Value
from adjoint.core.spec import Spec

if TYPE_CHECKING:
    from adjoint.compiler.rewrite import Rewriter


def summed(graph: Graph, rewriter: Rewriter) -> Graph:
    """Σ Aᵢ Bᵢ over all of a stack as one product, of the Aᵢ side by side and the Bᵢ one below another."""
    return _rewritten(graph, rewriter, _as_one, "sum")


def turned(graph: Graph, rewriter: Rewriter) -> Graph:
    """(A B)ᵀ, where nothing else reads A B, as Bᵀ Aᵀ: transposed operands are free, a transposed result is a copy."""
    return _rewritten(graph, rewriter, _as_turned, "permute")


def _rewritten(graph: Graph, rewriter: Rewriter, form: Any, name: str) -> Graph:
    """The graph with another `form` of every equation of this name that has one and alone reads a product."""
    if not any(v.op.name == name and v.operands and _is_product(v.operands[0]) for v in graph.equations):
        return graph
    users, outputs = graph.users(), set(graph.outputs)
    renamed: dict[Value, Value] = {v: rewriter.input(v) for v in graph.inputs}
    for v in graph.equations:
        product = v.inputs[0] if v.inputs else None
        alone = (
            isinstance(product, Value) and _is_product(product) and len(users[product]) == 1 and product not in outputs
        )
        made = form(v, product, renamed, rewriter) if alone else None
        if made is not None:
            renamed[v] = made
        elif all(renamed[i] is i for i in v.operands):
            renamed[v] = rewriter.keep(v)  # no rule applied to it before
        else:
            renamed[v] = rewriter.again(v, renamed)
    rewriter.out.outputs = [renamed[v] for v in graph.outputs]
    return rewriter.out


def _as_turned(v: Value, product: Value, renamed: dict[Value, Value], rewriter: Rewriter) -> Value | None:
    if v.op.name != "permute" or len(v.shape) < 2 or v.params["axes"] != _exchanging(len(v.shape)):
        return None
    a, b = (_permuted(renamed[i], _exchanging(len(i.shape)), v.origin, rewriter) for i in product.operands)
    return rewriter.make(Value(product.op, (b, a), {}, Spec(v.shape, v.dtype), product.origin))


def _as_one(v: Value, product: Value, renamed: dict[Value, Value], rewriter: Rewriter) -> Value | None:
    a, b = product.operands
    stack = tuple(range(len(product.shape) - 2))
    if v.op.name != "sum" or v.params["keepdims"] or v.params["axes"] != stack or v.dtype.kind != "f":
        return None
    if not stack or a.shape[:-2] != b.shape[:-2] or prod(a.shape[:-2]) == 1:
        return None
    rows, columns = len(stack), len(stack) + 1
    beside = _permuted(renamed[a], (rows, *stack, columns), v.origin, rewriter)
    left = _reshaped(beside, (a.shape[-2], prod(a.shape[:-2]) * a.shape[-1]), v.origin, rewriter)
    right = _reshaped(renamed[b], (prod(b.shape[:-1]), b.shape[-1]), v.origin, rewriter)
    from adjoint.ops.contraction import mm

    return rewriter.make(Value(mm.op, (left, right), {}, Spec(v.shape, v.dtype), product.origin))  # type: ignore[attr-defined]


def _is_product(v: Value) -> bool:
    return v.op is not None and v.op.name in ("mm", "bmm")


def _exchanging(rank: int) -> tuple[int, ...]:
    """The order that exchanges the last two dimensions."""
    return (*range(rank - 2), rank - 1, rank - 2)


def _permuted(x: Value, axes: tuple[int, ...], origin: Origin | None, rewriter: Rewriter) -> Value:
    from adjoint.ops.movement import permute

    spec = Spec(tuple(x.shape[a] for a in axes), x.dtype)
    return rewriter.make(Value(permute.op, (x,), {"axes": axes}, spec, origin))  # type: ignore[attr-defined]


def _reshaped(x: Value, shape: tuple[int, ...], origin: Origin | None, rewriter: Rewriter) -> Value:
    from adjoint.ops.movement import reshape

    return rewriter.make(Value(reshape.op, (x,), {"shape": shape}, Spec(shape, x.dtype), origin))  # type: ignore[attr-defined]
