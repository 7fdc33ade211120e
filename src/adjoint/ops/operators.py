"""Python's operators on tensors: one table."""

from __future__ import annotations

from collections.abc import Callable

from adjoint.core.op.families import OPERANDS
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Function, Operand
from adjoint.ops.elementwise import arithmetic, bitwise, comparison

OPERATORS: dict[str, Function] = {
    "add": arithmetic.add,
    "sub": arithmetic.sub,
    "mul": arithmetic.mul,
    "truediv": arithmetic.div,
    "floordiv": arithmetic.floor_divide,
    "mod": arithmetic.remainder,
    "pow": arithmetic.pow,
    "eq": comparison.eq,
    "ne": comparison.ne,
    "lt": comparison.lt,
    "le": comparison.le,
    "gt": comparison.gt,
    "ge": comparison.ge,
    "and": bitwise.bitwise_and,
    "or": bitwise.bitwise_or,
    "xor": bitwise.bitwise_xor,
    "lshift": bitwise.bitwise_left_shift,
    "rshift": bitwise.bitwise_right_shift,
}
COMPARISONS = {"eq", "ne", "lt", "le", "gt", "ge"}


def as_operator(f: Function) -> Callable[[Operand, Operand], Operand]:
    """Return `f` as an operator, which leaves operands of other types to their own class."""
    direct: Callable[[Operand, Operand], Operand] | None = getattr(f, "operator", None)
    return direct or (lambda x, y: f(x, y) if isinstance(y, OPERANDS) else NotImplemented)


def as_reflected_operator(f: Function) -> Callable[[Operand, Operand], Operand]:
    """Return `f` as an operator whose operands are exchanged."""

    def call(x: Operand, y: Operand) -> Operand:
        if type(y) is float or isinstance(y, OPERANDS):  # the first question, which most calls answer, is the cheaper
            if isinstance(x, Tensor):
                return f(y, x)
            raise TypeError(f"the operator of tensors doesn't apply to a {type(x).__name__!r} object")
        return NotImplemented

    return call


def _invert(x: Tensor) -> Tensor:
    if x.array.dtype.kind not in "iub":
        raise TypeError(f"~ (operator.invert) is only implemented on integer and bool tensors, given {x.dtype}")
    return bitwise.bitwise_not(x)


def _positive(x: Tensor) -> Tensor:
    if x.array.dtype.kind == "b":
        raise RuntimeError("The `+` operator, on a bool tensor is not supported.")
    return x


for _name, _f in OPERATORS.items():
    setattr(Tensor, f"__{_name}__", as_operator(_f))
    if _name not in COMPARISONS:
        setattr(Tensor, f"__r{_name}__", as_reflected_operator(as_operator(_f)))
for _name, _f in {"neg": arithmetic.neg, "abs": arithmetic.abs, "invert": _invert, "pos": _positive}.items():
    setattr(Tensor, f"__{_name}__", _f)
