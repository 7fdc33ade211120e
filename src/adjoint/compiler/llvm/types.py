"""The types of values in a kernel: a scalar kind, its width, and how many lanes a register holds."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from adjoint.core.dtype.dtype import is_bfloat16
from adjoint.core.op.eager_kernels import KernelRefusal
from adjoint.core.typing import NumpyDtype


class Type(NamedTuple):
    """Lanes of one scalar: kind is 'f' float, 'i' signed, 'u' unsigned, 'b' bool, 'n' bfloat16, or 'ptr'.

    A bool is one bit in a register and one byte in memory. A bfloat16 is its 16 bits, which are moved and chosen, and
    become float32 to be computed with.
    """

    kind: str
    bits: int
    lanes: int = 1

    @property
    def text(self) -> str:
        """The type as LLVM spells it: `float`, `<16 x float>`."""
        return _text(self)

    @property
    def suffix(self) -> str:
        """The type as an overloaded intrinsic's name spells it: `f32`, `v16f32`."""
        return _suffix(self)

    @property
    def itemsize(self) -> int:
        """Bytes one element takes in memory."""
        return max(self.bits, 8) // 8

    @property
    def is_float(self) -> bool:
        return self.kind == "f"

    @property
    def is_integer(self) -> bool:
        return self.kind in "iu"

    @property
    def is_bool(self) -> bool:
        return self.kind == "b"

    @property
    def scalar(self) -> Type:
        return self if self.lanes == 1 else Type(self.kind, self.bits)

    def of(self, lanes: int) -> Type:
        """This scalar in `lanes` lanes."""
        return self if self.lanes == lanes else Type(self.kind, self.bits, lanes)

    def __str__(self) -> str:
        name = "ptr" if self.kind == "ptr" else f"{self.kind}{self.bits}"
        return name if self.lanes == 1 else f"{name}x{self.lanes}"


class Reg(NamedTuple):
    """One SSA value or constant: the text that names it, and its type."""

    name: str
    type: Type

    @property
    def is_constant(self) -> bool:
        return self.name[0] != "%"


Operand = Reg | float | int | bool

F32, F64 = Type("f", 32), Type("f", 64)
BF16 = Type("n", 16)
I8, I16, I32, I64 = Type("i", 8), Type("i", 16), Type("i", 32), Type("i", 64)
U8, U32, U64 = Type("u", 8), Type("u", 32), Type("u", 64)
BOOL = Type("b", 1)
PTR = Type("ptr", 64)
NULL = Reg("null", PTR)


def from_dtype(dtype: NumpyDtype | type[np.generic] | str) -> Type:
    """The scalar type of a NumPy dtype; KernelRefusal, a TypeError, for one no kernel computes with."""
    dtype = np.dtype(dtype)
    if is_bfloat16(dtype):
        return BF16
    if not dtype.isnative or dtype.kind not in "fiub" or (dtype.kind == "f" and dtype.itemsize not in (4, 8)):
        raise KernelRefusal(f"no kernel type for dtype {dtype}")
    return BOOL if dtype.kind == "b" else Type(dtype.kind, 8 * dtype.itemsize)


@lru_cache(maxsize=256)
def _text(type: Type) -> str:
    if type.kind == "ptr":
        scalar = "ptr"
    elif type.kind == "f":
        scalar = "float" if type.bits == 32 else "double"
    else:
        scalar = f"i{type.bits}"
    return scalar if type.lanes == 1 else f"<{type.lanes} x {scalar}>"


@lru_cache(maxsize=256)
def _suffix(type: Type) -> str:
    scalar = "p0" if type.kind == "ptr" else f"f{type.bits}" if type.kind == "f" else f"i{type.bits}"
    return scalar if type.lanes == 1 else f"v{type.lanes}{scalar}"
