"""The choice of bfloat16 instructions for a product, and how many bfloat16 stand for one float32."""

from __future__ import annotations

from typing import NamedTuple

from adjoint.compiler.llvm.jit.target import Target
from adjoint.compiler.llvm.types import F32, Type


class Rounding(NamedTuple):
    """The rounding of a product's operands."""

    parts: int  # bfloat16 whose sum stands for an element
    is_tiled: bool  # whether they are multiplied in tile registers (AMX), not in vectors

    @property
    def description(self) -> str:
        """The type that an element is rounded to, for `explain`."""
        return "bfloat16" if self.parts == 1 else "two bfloat16 each"

    @property
    def products(self) -> int:
        """The number of bfloat16 products for one of elements: that of the last parts is too small to count."""
        return self.parts * (self.parts + 1) // 2


def choose_rounding(target: Target, type: Type, precision: str) -> Rounding | None:
    """Choose how products of `type` are rounded at this precision of float32; None where it gains no time.

    'high' asks for 16 bits of each operand, which are two bfloat16, and for three products of these.

    Vectors: in the time of an fma of AMD's cores, which does 32 operations, `vdpbf16ps` does 64. So 'medium' gains, and
    'high' is given float32, which takes less than three of them. Intel's cores start two of the one in a cycle and
    one of the other. Tiles: one product of 16 × 32 by 32 × 16 elements takes the time of 33 to 66 fmas, not of 512.
    """
    enabled = {feature for feature in target.features.split(",") if feature.startswith("+")}
    if type != F32 or target.vector_bits < 512 or "+avx512bf16" not in enabled:
        return None
    tiled = {"+amx-tile", "+amx-bf16"} <= enabled
    parts = {"high": 2, "medium": 1}.get(precision, 0)
    return Rounding(parts, tiled) if parts == 1 or (parts and tiled) else None
