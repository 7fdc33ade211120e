"""The tangent of an op's output, from those of its inputs: derived from what the op declares, so that no op lacks one.

A gradient rule g ↦ Jᵀ g tells J as well. Where J is diagonal, Jᵀ g and J t are the same formula. Where each input has a
share in one output only, J t sums t weighed by Jᵀ 1. An op that is linear is its own derivative. Otherwise the rule,
being linear in g, is transposed by differentiating it in g: ∂⟨Jᵀ g, t⟩/∂g = J t. Source: J. Townsend, A new trick for
calculating Jacobian vector products, 2017.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from adjoint.autograd.backward import grad
from adjoint.autograd.engine.node_call import call_gradient_rule
from adjoint.autograd.engine.saved_values import rule_arguments
from adjoint.core.op.apply import apply
from adjoint.core.op.op import Op, op_of
from adjoint.core.runtime.mode import ModeScope, mode
from adjoint.core.tensor.storage import share_view
from adjoint.core.tensor.tensor import Tensor, constant
from adjoint.core.typing import Operand, Operands, Params
from adjoint.ops.elementwise.arithmetic import add, mul
from adjoint.ops.elementwise.select import cast, copy
from adjoint.ops.indexing.scatter import scatter
from adjoint.ops.movement.movement import expand
from adjoint.ops.mutation.view_update import put_index, put_slice, put_view, replace_content
from adjoint.ops.reduction.reduction import sum, sum_to

ndarray = np.ndarray
Tangents = Sequence[Tensor | None]
DIAGONAL_FAMILIES = frozenset({"unary", "binary", "elementwise"})
JOINTLY_LINEAR_OPS = frozenset(op_of(f) for f in (put_index, put_slice, put_view, replace_content, scatter))


class RuleContext(NamedTuple):
    """An op with what its rules may ask for besides values."""

    op: Op
    params: Params
    shapes: tuple[tuple[int, ...], ...]


def compute_jvp(op: Op, inputs: Operands, tangents: Tangents, params: Params, out: Tensor) -> Tensor | None:
    """Return J t of an op whose value on `inputs` is `out`; None where it is not differentiable.

    It has the shape and type of `out`, and memory of its own, unless `out` is a view: then it is that view of the
    tangent.
    """
    if out.array.dtype.kind not in "fcV":
        return None
    t: Operand
    if op in JOINTLY_LINEAR_OPS or (op.linear and op.variadic):
        t = apply(op, tuple(map(_tangent_or_zeros, inputs, tangents)), params)
    elif op.linear:
        t = _linear_jvp(op, inputs, tangents, params, out)
    else:
        saved = (*[constant(x) if type(x) is ndarray else x for x in inputs], out)
        shapes = tuple(() if x is None else np.shape(x.array if isinstance(x, Tensor) else x) for x in inputs)
        application: Any = RuleContext(op, params, shapes)
        t = None
        for i, given in enumerate(tangents):
            rule = op.rule(i)
            if given is not None and rule is None and not op.effect:
                raise NotImplementedError(
                    f"Trying to use forward AD with {op.name} that does not support it: it has no gradient rule"
                )
            if given is not None and rule is not None:
                kept = rule_arguments(application, rule, saved, i)
                t = _add_optional(t, _rule_jvp(op, i, kept, given, inputs[i], out, params))
    return None if t is None else _unshare_tangent(op, t, tangents, inputs, out)


def _tangent_or_zeros(x: Operand, t: Tensor | None) -> Any:
    if t is not None:
        return t
    array: Operand = getattr(x, "array", x)
    if not hasattr(array, "dtype"):
        return 0.0 if isinstance(x, float) else x
    return constant(np.zeros(array.shape, array.dtype)) if array.dtype.kind in "fcV" else x


def _linear_jvp(op: Op, inputs: Operands, tangents: Tangents, params: Params, out: Tensor) -> Any:
    """Return J t of an op linear in each input: the sum of its values with one input replaced by its tangent."""
    if "value" in params:  # a frame of one value does not change with what it frames
        params = {**params, "value": 0.0}
    total = None
    for i, t in enumerate(tangents):
        if t is None or op.rule(i) is None:
            continue
        pushed = apply(op, (*inputs[:i], t, *inputs[i + 1 :]), params)
        if _is_view_of(op, out.array, inputs[i].array) and _is_view_of(op, pushed.array, t.array):
            share_view(t, pushed, op, params)
        total = _add_optional(total, pushed)
    return total


def _rule_jvp(op: Op, i: int, kept: Sequence[object], t: Tensor, x: Tensor, out: Tensor, params: Params) -> Operand:
    """Return J t for the tangent `t` of input i, from the gradient rule of that input."""
    rule: Any = op.rule(i)
    # the rule computes f'(x) g, unless f is a function of x and conj(x)
    holomorphic = op.holomorphic and (x.array.dtype.kind != "c" or out.array.dtype.kind == "c")
    if holomorphic and op.family in DIAGONAL_FAMILIES:
        return rule(_broadcast_like(t, out), *kept)
    if holomorphic and op.family == "reduction":
        weights = rule(constant(np.ones(out.array.shape, out.array.dtype)), *kept)
        return sum(mul(weights, t), axes=params["axes"], keepdims=params["keepdims"])
    with ModeScope(recording=True, inference=False):
        g = constant(np.zeros(out.array.shape, out.array.dtype)).requires_grad_()
        d = call_gradient_rule(op, i, out.array.dtype, g, kept)
        d = _cast_like(sum_to(d, x.array.shape), x)
    return grad(d, g, _broadcast_like(t, d), create_graph=mode.recording, materialize_grads=True)[0]


def _add_optional(x: Operand, y: Operand) -> Any:
    return y if x is None else add(x, y)


def _broadcast_like(t: Tensor, out: Tensor) -> Any:
    """Return `t` in the dtype of `out`, broadcast to its shape."""
    t = _cast_like(t, out)
    return t if t.array.shape == out.array.shape else expand(t, shape=tuple(out.array.shape))


def _cast_like(t: Tensor, like: Tensor) -> Any:
    return t if t.array.dtype == like.array.dtype else cast(t, dtype=like.array.dtype)


def _unshare_tangent(op: Op, t: Tensor, tangents: Tangents, inputs: Operands, out: Tensor) -> Tensor:
    """Return `t` in the dtype of `out`, in memory of its own unless `out` shares that of an input."""
    t = _cast_like(t, out)
    given = [one for one in tangents if one is not None]
    if any(_is_view_of(op, out.array, getattr(x, "array", x)) for x in inputs) and all(t is not one for one in given):
        return t
    shared = any(t is one or _may_share_memory(t.array, one.array) for one in given)
    return copy(t) if shared else t


def _is_view_of(op: Op, out: Operand, x: Operand) -> bool:
    """Return whether `out`, the op's value on `x`, is a view of it; for a symbol, whether the op gives views."""
    return getattr(op.public, "view", False) if type(out) is not ndarray else _may_share_memory(out, x)


def _may_share_memory(x: Operand, y: Operand) -> bool:
    return type(x) is ndarray and type(y) is ndarray and np.may_share_memory(x, y)
