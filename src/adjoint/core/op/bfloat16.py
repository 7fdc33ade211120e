"""Ops on bfloat16, which compute in float32 and round once. Their declarations need not know of it.

A call on bfloat16 goes to the float32 variant of the op: it converts the operands, calls the op, and rounds the result;
its gradient rules do the same. A traced step contains the conversions and the float32 op. Ops that only move elements
need no variant.
"""

from __future__ import annotations

from functools import wraps

import numpy as np

from adjoint.core.dtype.dtype import bfloat16, default, float32
from adjoint.core.op.evaluation import compute, target_dtype
from adjoint.core.op.op import Op, Rule
from adjoint.core.op.signature import with_parameters_of
from adjoint.core.runtime.slot import Slot
from adjoint.core.typing import Function, NumpyDtype, Operand, Operands

DTYPE_AGNOSTIC_FAMILIES = frozenset({"movement", "full", "iota", "random", "check", "cat"})
DTYPE_AGNOSTIC_OPS = frozenset({
    "as_strided", "cast", "copy", "gather", "index", "copy_in_order", "put_index", "put_slice", "put_view", "restride",
    "scatter", "replace_content", "unfold", "where", "windows",
})  # fmt: skip
cast_slot: Slot[Function] = Slot("cast")  # a tensor to another type


def float32_variant_of(op: Op, inputs: Operands) -> Op:
    """Return the variant of `op` that computes in float32 if `inputs` promote to bfloat16; else `op` itself."""
    arrays = tuple([getattr(x, "array", x) for x in inputs])
    if op.family in DTYPE_AGNOSTIC_FAMILIES or op.name in DTYPE_AGNOSTIC_OPS:
        return op
    if op.promotion is None:
        found = any(is_bfloat16_array(a) for a in arrays)
    elif any(is_bfloat16_array(a) for a in arrays) or default.floating is bfloat16:
        numbers = tuple([a if hasattr(a, "dtype") else getattr(a, "value", a) for a in arrays])
        found = target_dtype(op, numbers) == bfloat16.numpy
    else:
        found = False
    if not found:
        return op
    if op.float32_variant is None:
        op.float32_variant = _make_float32_variant(op)
    return op.float32_variant


def is_bfloat16_array(x: Operand) -> bool:
    """Return whether `x` is an array, or a symbol of one, of bfloat16."""
    kind = getattr(x, "dtype", None)
    return kind is not None and kind.kind == "V"


def upcast(x: Operand) -> Operand:
    """Convert an array or tensor of bfloat16, or several, to float32; return anything else as it is."""
    if isinstance(x, (tuple, list)):
        return type(x)(map(upcast, x))
    array = getattr(x, "array", x)
    return _cast_to(x, float32.numpy) if is_bfloat16_array(array) else x


def downcast(x: Operand) -> Operand:
    """Round an array or tensor of float32 to bfloat16; return another type as it is."""
    array = getattr(x, "array", x)
    return _cast_to(x, bfloat16.numpy) if getattr(array, "dtype", None) == np.float32 else x


def _cast_to(x: Operand, kind: NumpyDtype) -> Operand:
    return x.astype(kind) if isinstance(x, (np.ndarray, np.generic)) else cast_slot.call(x, dtype=kind)


def _make_float32_variant(op: Op) -> Op:
    """Copy `op` with another evaluation and other gradient rules."""

    @wraps(op.evaluate)
    def evaluate(*operands: Operand, **params: object) -> Operand:
        out = compute(op, tuple(map(upcast, operands)), params)
        return downcast(out) if _is_result_bfloat16(operands) else out

    def composite(*inputs: Operand, **params: object) -> Operand:
        kinds = list(inputs)
        if op.promotion is not None:  # arrays of other types come to the promoted one first
            arrays = [getattr(x, "array", x) for x in inputs]
            others = [hasattr(array, "dtype") and not is_bfloat16_array(array) for array in arrays]
            kinds = [_cast_to(x, bfloat16.numpy) if other else x for x, other in zip(inputs, others, strict=True)]
        out = op.public(*map(upcast, kinds), **params)
        return downcast(out) if _is_result_bfloat16(kinds) else out

    with_parameters_of(evaluate, op.evaluate)
    twin = object.__new__(Op)
    for slot in Op.__slots__:
        setattr(twin, slot, getattr(op, slot))
    twin.evaluate, twin.composite, twin.native, twin.float32_variant = evaluate, composite, None, twin
    twin.rules = tuple([None if rule is None else _upcast_rule(rule) for rule in op.rules])
    twin.rule_calls = [None] * len(twin.rules)
    return twin


def _is_result_bfloat16(operands: Operands | list[Operand]) -> bool:
    """Return whether no operand has a wider floating type, which the result would take."""
    kinds = [getattr(getattr(x, "array", x), "dtype", None) for x in operands]
    return not any(kind is not None and kind.kind in "fc" for kind in kinds)


def _upcast_rule(rule: Rule) -> Rule:
    def wide(g: Operand, *kept: Operand) -> Operand:
        d = rule(upcast(g), *map(upcast, kept))
        return downcast(d) if is_bfloat16_array(getattr(g, "array", g)) else d

    return with_parameters_of(wide, rule)
