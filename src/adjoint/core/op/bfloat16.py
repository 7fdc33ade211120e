"""Ops on bfloat16: computed in float32 and rounded once, by the same declarations, which need not know.

An op that is called on bfloat16 is replaced by its twin. The twin's value is the op's value on the operands as float32,
and so are its gradients; what comes out becomes bfloat16 again. Traced, it is just that: conversions, and between them
the op in float32. Ops that only move elements take them as they are.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np

from adjoint.core.dtype.dtype import bfloat16, default, float32
from adjoint.core.op.evaluation import compute, target_dtype
from adjoint.core.op.op import Op, Rule
from adjoint.core.op.signature import parameters_of
from adjoint.core.runtime.slot import Slot

MOVING_FAMILIES = frozenset({"movement", "full", "iota", "random", "check", "cat"})
MOVING = frozenset({
    "as_strided", "cast", "copy", "gather", "index", "laid", "put_index", "put_slice", "put_view", "restride",
    "scatter", "taken", "unfold", "where", "windows",
})  # fmt: skip
cast_slot: Slot[Callable[..., Any]] = Slot("cast")  # a tensor to another type


def in_float32(op: Op, inputs: tuple[Any, ...]) -> Op:
    """The twin of `op` that computes in float32, where `inputs` come together in bfloat16; else `op` itself."""
    arrays = tuple([getattr(x, "array", x) for x in inputs])
    if op.family in MOVING_FAMILIES or op.name in MOVING:
        return op
    if op.promotion is None:
        found = any(is_narrow(a) for a in arrays)
    elif any(is_narrow(a) for a in arrays) or default.floating is bfloat16:
        numbers = tuple([a if hasattr(a, "dtype") else getattr(a, "value", a) for a in arrays])
        found = target_dtype(op, numbers) == bfloat16.numpy
    else:
        found = False
    if not found:
        return op
    if op.wide is None:
        op.wide = _twin(op)
    return op.wide


def is_narrow(x: Any) -> bool:
    """True for an array, or what stands for one, of bfloat16."""
    kind = getattr(x, "dtype", None)
    return kind is not None and kind.kind == "V"


def widened(x: Any) -> Any:
    """An array or tensor of bfloat16, or several, as float32; anything else as it is."""
    if isinstance(x, (tuple, list)):
        return type(x)(map(widened, x))
    array = getattr(x, "array", x)
    return _typed(x, float32.numpy) if is_narrow(array) else x


def narrowed(x: Any) -> Any:
    """An array or tensor of float32, rounded to bfloat16; of another type as it is."""
    array = getattr(x, "array", x)
    return _typed(x, bfloat16.numpy) if getattr(array, "dtype", None) == np.float32 else x


def _typed(x: Any, kind: np.dtype[Any]) -> Any:
    return x.astype(kind) if isinstance(x, (np.ndarray, np.generic)) else cast_slot.call(x, dtype=kind)


def _twin(op: Op) -> Op:
    """`op` with another evaluation and other rules; all else that it declares is the same."""

    @wraps(op.evaluate)
    def evaluate(*operands: Any, **params: Any) -> Any:
        out = compute(op, tuple(map(widened, operands)), params)
        return narrowed(out) if _all_narrow(operands) else out

    def composite(*inputs: Any, **params: Any) -> Any:
        kinds = [_typed(x, bfloat16.numpy) if _is_other(op, x) else x for x in inputs]
        out = op.public(*map(widened, kinds), **params)
        return narrowed(out) if _all_narrow(kinds) else out

    evaluate.parameters = parameters_of(op.evaluate).positional  # type: ignore[attr-defined]
    twin = object.__new__(Op)
    for slot in Op.__slots__:
        setattr(twin, slot, getattr(op, slot))
    twin.evaluate, twin.composite, twin.native, twin.wide = evaluate, composite, None, twin
    twin.rules = tuple([None if rule is None else _wide_rule(rule) for rule in op.rules])
    return twin


def _is_other(op: Op, x: Any) -> bool:
    """True for a tensor or array that the op first brings to bfloat16, as the type in which its inputs meet."""
    array = getattr(x, "array", x)
    return op.promotion is not None and hasattr(array, "dtype") and not is_narrow(array)


def _all_narrow(operands: tuple[Any, ...] | list[Any]) -> bool:
    """True unless an operand is of a wider floating type, in which the result then is."""
    kinds = [getattr(getattr(x, "array", x), "dtype", None) for x in operands]
    return not any(kind is not None and kind.kind in "fc" for kind in kinds)


def _wide_rule(rule: Rule) -> Rule:
    def wide(g: Any, *kept: Any) -> Any:
        d = rule(widened(g), *map(widened, kept))
        return narrowed(d) if is_narrow(getattr(g, "array", g)) else d

    wide.parameters = parameters_of(rule).positional  # type: ignore[attr-defined]
    return wide
