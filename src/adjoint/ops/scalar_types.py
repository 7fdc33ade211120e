"""What PyTorch's complaints call the types: Float, Long."""

from __future__ import annotations

from typing import Any

NAMES = {
    "bool": "Bool", "uint8": "Byte", "uint16": "UInt16", "uint32": "UInt32", "uint64": "UInt64", "int8": "Char",
    "int16": "Short", "int32": "Int", "int64": "Long", "float16": "Half", "bfloat16": "BFloat16", "float32": "Float",
    "float64": "Double", "complex64": "ComplexFloat", "complex128": "ComplexDouble",
}  # fmt: skip


def scalar_type(kind: Any) -> str:
    """The name of a type, NumPy's or the library's, in complaints."""
    return NAMES[kind.name]
