"""Rewrites of matrix products: one long product for a sum of many, operands transposed in place of results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import NamedTuple

from adjoint.compiler.ir.graph import Graph, Value, ValueOrigin, op_of
from adjoint.compiler.passes.rewriter import Rewriter, replace_equations
from adjoint.compiler.passes.rewrites.sums import Sums, add_terms, is_sum
from adjoint.core.op.spec import Spec
from adjoint.ops.linalg.matmul import mm
from adjoint.ops.movement.movement import cat, permute, reshape

MM, CAT, PERMUTE, RESHAPE = map(op_of, (mm, cat, permute, reshape))

ProductForm = Callable[[Value, Value, dict[Value, Value], Rewriter], Value | None]


def merge_sums(graph: Graph) -> Graph:
    """Compute Σ Aᵢ Bᵢ over a stack as one product, of the Aᵢ side by side and the Bᵢ one below another."""
    return _rewrite_products(graph, _as_one_product, "sum")


def merge_products(graph: Graph) -> Graph:
    """Compute A₁ B₁ + A₂ B₂ + … as one product, of the Aᵢ side by side and the Bᵢ one below another.

    Done where copying these costs less than writing and reading the sums in between: for the gradient of a weight that
    every step of a loop uses.
    """
    return replace_equations(graph, _MatmulSums(graph).found, _as_long_product)


def transpose_products(graph: Graph) -> Graph:
    """Compute (A B)ᵀ as Bᵀ Aᵀ where nothing else reads A B: transposed operands are free, a result needs a copy."""
    return _rewrite_products(graph, _as_transposed_product, "permute")


def _rewrite_products(graph: Graph, form: ProductForm, name: str) -> Graph:
    """The graph with another `form` of every equation of this name that has one and alone reads a product."""
    if not any(v.op.name == name and v.operands and _is_product(v.operands[0]) for v in graph.equations):
        return graph
    users, outputs, rewriter = graph.users(), set(graph.outputs), Rewriter(graph)
    renamed: dict[Value, Value] = {v: rewriter.input(v) for v in graph.inputs}
    for v in graph.equations:
        product, made = v.inputs[0] if v.inputs else None, None
        if isinstance(product, Value) and _is_product(product):
            alone = len(users[product]) == 1 and product not in outputs
            made = form(v, product, renamed, rewriter) if alone else None
        renamed[v] = rewriter.rebuild_if_changed(v, renamed) if made is None else made
    rewriter.out.outputs = [renamed[v] for v in graph.outputs]
    return rewriter.out


def _as_transposed_product(v: Value, product: Value, renamed: dict[Value, Value], rewriter: Rewriter) -> Value | None:
    if v.op.name != "permute" or len(v.shape) < 2 or v.params["axes"] != _swap_last_axes(len(v.shape)):
        return None
    a, b = (_permute(renamed[i], _swap_last_axes(len(i.shape)), v.origin, rewriter) for i in product.operands)
    return rewriter.make(Value(product.op, (b, a), {}, Spec(v.shape, v.dtype), product.origin))


def _as_one_product(v: Value, product: Value, renamed: dict[Value, Value], rewriter: Rewriter) -> Value | None:
    a, b = product.operands
    stack = tuple(range(len(product.shape) - 2))
    if v.op.name != "sum" or v.params["keepdims"] or v.params["axes"] != stack or v.dtype.kind != "f":
        return None
    if not stack or a.shape[:-2] != b.shape[:-2] or prod(a.shape[:-2]) == 1:
        return None
    rows, columns = len(stack), len(stack) + 1
    beside = _permute(renamed[a], (rows, *stack, columns), v.origin, rewriter)
    left = _reshape(beside, (a.shape[-2], prod(a.shape[:-2]) * a.shape[-1]), v.origin, rewriter)
    right = _reshape(renamed[b], (prod(b.shape[:-1]), b.shape[-1]), v.origin, rewriter)
    return rewriter.make(Value(MM, (left, right), {}, Spec(v.shape, v.dtype), product.origin))


class SumTerms(NamedTuple):
    """The terms of a sum: its products, in the order in which they are to be joined, and the others."""

    products: list[Value]
    others: list[Value]


class _MatmulSums:
    """The sums of matrix products of a graph that one long product is to give."""

    def __init__(self, graph: Graph) -> None:
        self.stacks = {frozenset(v.operands): v for v in graph.equations if v.op.name == "cat"}
        self.found: dict[Value, SumTerms] = {}
        sums = Sums(graph)
        for v, terms in sums.find(lambda v: is_sum(v) and v.dtype.kind == "f" and len(v.shape) == 2):
            products = [t for t in terms if t.op is not None and t.op.name == "mm" and sums.is_only_in_sum(t, v)]
            if len(products) > 1 and self._is_worth_merging(products):
                order = self._order([p.operands[1] for p in products])
                products = [products[i] for i in order]
                self.found[v] = SumTerms(products, [t for t in terms if t not in products])

    def _is_worth_merging(self, products: list[Value]) -> bool:
        """True if the operands that are to be copied are less than the sums in between."""
        copied = 0
        for side in (0, 1):
            operands = [p.operands[side] for p in products]
            if frozenset(operands) not in self.stacks:
                copied += sum(x.count for x in operands)
        return copied < (len(products) - 1) * products[0].count

    def _order(self, operands: list[Value]) -> list[int]:
        """Return the order in which the operands lie one below another in memory already, if they do."""
        stack = self.stacks.get(frozenset(operands))
        apart = stack is not None and len(stack.operands) == len(operands) == len(set(operands))
        if stack is None or not apart or stack.params["axis"] != 0:
            return list(range(len(operands)))
        return [operands.index(x) for x in stack.operands]


def _as_long_product(v: Value, terms: SumTerms, renamed: dict[Value, Value], rewriter: Rewriter) -> Value:
    left = _concatenate([renamed[p.operands[0]] for p in terms.products], 1, v.origin, rewriter)
    right = _concatenate([renamed[p.operands[1]] for p in terms.products], 0, v.origin, rewriter)
    spec = Spec(v.shape, v.dtype)
    total = rewriter.make(Value(MM, (left, right), {}, spec, terms.products[0].origin))
    return add_terms(v, [total, *(renamed[x] for x in terms.others)], rewriter)


def _concatenate(parts: Sequence[Value], axis: int, origin: ValueOrigin | None, rewriter: Rewriter) -> Value:
    """Matrices joined along an axis; transposed ones as they lie in memory."""
    if all(p.op is not None and p.op.name == "permute" for p in parts):
        whole = _concatenate([p.operands[0] for p in parts], 1 - axis, origin, rewriter)
        return _permute(whole, (1, 0), origin, rewriter)
    sizes = [p.shape[axis] for p in parts]
    shape = (sum(sizes), parts[0].shape[1]) if axis == 0 else (parts[0].shape[0], sum(sizes))
    spec = Spec(shape, parts[0].dtype)
    return rewriter.make(Value(CAT, tuple(parts), {"axis": axis}, spec, origin))


def _is_product(v: Value) -> bool:
    return v.op is not None and v.op.name in ("mm", "bmm")


def _swap_last_axes(rank: int) -> tuple[int, ...]:
    """The order that exchanges the last two dimensions."""
    return (*range(rank - 2), rank - 1, rank - 2)


def _permute(x: Value, axes: tuple[int, ...], origin: ValueOrigin | None, rewriter: Rewriter) -> Value:
    spec = Spec(tuple(x.shape[a] for a in axes), x.dtype)
    return rewriter.make(Value(PERMUTE, (x,), {"axes": axes}, spec, origin))


def _reshape(x: Value, shape: tuple[int, ...], origin: ValueOrigin | None, rewriter: Rewriter) -> Value:
    return rewriter.make(Value(RESHAPE, (x,), {"shape": shape}, Spec(shape, x.dtype), origin))
