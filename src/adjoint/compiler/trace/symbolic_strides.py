"""The strides that traced tensors would have if the step ran eagerly, which tell a view from a copy.

Symbols have no strides, but the equations that made them tell. Views are replayed on an array without memory. An op
that keeps the order of its operands' dimensions is called on an array with two elements to a dimension.
"""

from __future__ import annotations

import warnings

import numpy as np

from adjoint.compiler.ir.graph import Value
from adjoint.compiler.ir.symbolic_size import concrete_sizes, size_value
from adjoint.compiler.trace.numbers.symbolic_number import is_number
from adjoint.core.tensor.as_strided import dense_strides, element_strides, memory_span, strided_view, try_view
from adjoint.core.typing import Array, Operand

Sizes = tuple[int, ...]
# What these make lies as NumPy likes it.
ORDER_PRESERVING_FAMILIES = {"unary", "binary", "elementwise", "reduction", "contraction"}
# So do these, which take no sizes either.
ORDER_PRESERVING_OPS = {
    "cumsum",
    "flip",
    "logcumsumexp",
    "argsort",
    "argmax",
    "argmin",
    "gather",
    "where_extreme",
    "cofactors",
}
WINDOW_VIEW_OPS = {"diagonal", "unfold", "as_strided"}  # views, besides those of the movement family


class SymbolicStrides:
    """The strides, in elements, of the arrays that values stand for; None where the order is row-major.

    `queried_inputs`: the inputs whose strides had a part in an answer.
    """

    def __init__(self) -> None:
        self.queried_inputs: dict[Value, Sizes | None] = {}
        self._overrides: dict[Value, Sizes | None] = {}
        self._known: dict[Value, Sizes | None] = {}

    def note(self, value: Value, strides: Sizes | None) -> None:
        """Let `value` lie so, whatever its equation says."""
        self._overrides[value] = strides
        self._known.pop(value, None)

    def of(self, value: Value) -> Sizes | None:
        """The strides of `value`."""
        known, stack = self._known, [value]
        while stack:
            v = stack[-1]
            if v in known:
                stack.pop()
            elif v in self._overrides:
                known[v] = self._overrides[v]
                if v.op is None:
                    self.queried_inputs[v] = known[v]
            elif not _follows_operands(v):
                known[v] = None
            elif missing := [x for x in v.operands if x not in known]:
                stack.extend(missing)
            else:
                known[v] = self._compute_strides(v)
        return known[value]

    def stand_in(self, value: Value) -> Array:
        """An array of the shape, type and strides of `value`, but without memory: only look at it."""
        return _stand_in(value, self.of(value))

    def dense_strides_of(self, value: Value) -> Sizes | None:
        """The strides of an array in the order of `value`: row-major if that leaves gaps or repeats elements."""
        strides = self.of(value)
        if strides is None or not _is_same_strides(value.shape, strides, _dense_in_order(value.shape, strides)):
            return None
        return strides

    def has_computed(self, value: Value) -> bool:
        """True if it was asked about `value` before."""
        return value in self._known

    def shows_operand(self, view: Value) -> bool:
        """True if a view is one eagerly, too, and no copy of its operand."""
        shape = tuple(map(size_value, view.shape))
        return view.op.name != "reshape" or try_view(self.stand_in(view.operands[0]), shape) is not None

    def has_strides(self, value: Value, strides: Sizes | None) -> bool:
        """True if these are the strides of `value`, as far as they matter."""
        mine = self.of(value)
        return mine is strides if mine is None or strides is None else _is_same_strides(value.shape, mine, strides)

    def _compute_strides(self, v: Value) -> Sizes | None:
        laid = [self._known[x] for x in v.operands]
        if is_view(v):
            return _strides_after_view(v, laid[0])
        if v.op.name == "copy_in_order":
            strides = _dense_in_order(v.shape, tuple(-v.params["order"].index(d) for d in range(len(v.shape))))
            return None if _is_same_strides(v.shape, strides, dense_strides(v.shape)) else strides
        if laid.count(None) == len(laid) or v.size < 2:
            return None
        made = _run_on_sample(v, dict(zip(v.operands, laid, strict=True)))
        if made is None or made.flags.c_contiguous or made.ndim != len(v.shape):
            return None
        return _dense_in_order(v.shape, made.strides)


def strides_unless_contiguous(array: Array) -> Sizes | None:
    """The strides of an array, in elements; None if it is row-major."""
    return None if array.flags.c_contiguous else element_strides(array)


def lies_with_strides(array: Array, strides: tuple[int, ...] | str | None) -> bool:
    """True if these are the strides of an array; any are if they are "any"."""
    return strides == "any" or strides_unless_contiguous(array) == strides


def is_view(v: Value) -> bool:
    """True if an eager op would give a view of its operand, or, of the reshapes, may."""
    if v.op is None:
        return False
    return v.op.name in WINDOW_VIEW_OPS or (v.op.family == "movement" and getattr(v.op.public, "view", False))


def dense_dim_order(v: Value) -> Sizes | None:
    """The dimensions of a view, outermost first, in which it fills memory of its own; None if that is row-major.

    What it is a view of is taken to be row-major.
    """
    views = [v]
    while is_view(views[-1]):
        views.append(views[-1].operands[0])
    if len(views) == 1 or views.pop().op is None:
        return None
    strides: Sizes | None = None
    for view in reversed(views):
        strides = _strides_after_view(view, strides)
    if strides is None or v.size < 2 or not _is_same_strides(v.shape, strides, _dense_in_order(v.shape, strides)):
        return None
    return tuple(sorted(range(len(v.shape)), key=lambda d: -strides[d]))


def _is_same_strides(shape: Sizes, strides: Sizes, others: Sizes) -> bool:
    # strides of views are numbers of the call that is traced (`_stand_in`)
    return all(size_value(a) == size_value(b) for n, a, b in zip(shape, strides, others, strict=True) if n > 1)


def _dense_in_order(shape: Sizes, strides: Sizes) -> Sizes:
    """Strides without gaps that follow one another as these do."""
    order = sorted(range(len(shape)), key=lambda d: -strides[d] if shape[d] > 1 else 0)
    dense = dense_strides(tuple(shape[d] for d in order))
    return tuple(dense[order.index(d)] for d in range(len(shape)))


def _follows_operands(v: Value) -> bool:
    if is_view(v):
        return True
    if v.op is None or len(v.shape) < 2 or (v.op.family == "contraction" and len(v.shape) == 2):
        return False  # in memory of its own there is but one order
    return v.op.family in ORDER_PRESERVING_FAMILIES or v.op.name in ORDER_PRESERVING_OPS or v.op.name == "pad"


def _stand_in(value: Value, strides: Sizes | None) -> Array:
    # only the order of the dimensions is told from it, which is the same for all sizes that a symbol may have
    shape = tuple(map(size_value, value.shape))
    places = tuple(map(size_value, strides)) if strides else dense_strides(shape)
    array = strided_view(np.empty(1, value.dtype), shape, places, 0)
    array.flags.writeable = False
    return array


def _strides_after_view(v: Value, strides: Sizes | None) -> Sizes | None:
    source = _stand_in(v.operands[0], strides)
    if v.op.name == "as_strided":  # it looks at what there is not, where it does not lie as it was told
        return v.params["stride"] if v.params["geometry"][0] == element_strides(source) else None
    array = (
        try_view(source, tuple(map(size_value, v.shape)))
        if v.op.name == "reshape"
        else v.op.evaluate(source, **concrete_sizes(v.params))
    )
    return None if array is None else strides_unless_contiguous(array)


def _run_on_sample(v: Value, laid: dict[Value, Sizes | None]) -> Operand:
    """Return the op's result on operands with at most two elements a dimension, in the order of those of `v`."""
    fill = 0 if v.op.name == "gather" else 1  # a valid index
    operands = [
        _small_sample(x, laid[x], fill) if isinstance(x, Value) else np.asarray(x) if is_number(x) else x
        for x in v.inputs
    ]
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            return np.asarray(v.op.evaluate(*operands, **concrete_sizes(v.params)))
        except (RuntimeError, ValueError, TypeError, IndexError, ArithmeticError):
            return None


def _small_sample(x: Value, strides: Sizes | None, fill: int) -> Array:
    """An array of `fill` in the order of `x`."""
    shape = tuple(min(size_value(n), 2) for n in x.shape)
    if strides is None:
        return np.full(shape, fill, x.dtype)
    sizes = sorted({s for n, s in zip(shape, strides, strict=True) if n > 1 and s})
    ranks = {s: 2**i for i, s in enumerate(sizes)}
    fewer = tuple(ranks.get(s, 0) if n > 1 else 0 for n, s in zip(shape, strides, strict=True))
    return strided_view(np.full(max(memory_span(shape, fewer, 0), 1), fill, x.dtype), shape, fewer, 0)


def stand_in_operand(x: object) -> object:
    """Something with the operand's shape and type, for an error message."""
    return np.broadcast_to(np.zeros((), x.dtype), x.shape) if isinstance(x, Value) else x
