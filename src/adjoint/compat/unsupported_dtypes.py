"""Dtypes of PyTorch that no tensor can have here: they can be named, compared and stored in tables."""

from __future__ import annotations

from typing import Any, NoReturn

from adjoint.core.dtype.dtype import dtype

# bytes of an element
FLOATING = dict.fromkeys(
    ("float4_e2m1fn_x2", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu"), 1
)
INTEGER = {f"{kind}{bits}": 1 for kind in ("int", "uint") for bits in range(1, 8)}
INTEGER |= {"qint8": 1, "qint32": 4, "quint2x4": 1, "quint4x2": 1, "quint8": 1}
__all__ = list(FLOATING) + list(INTEGER) + ["complex32", "chalf"]


class UnsupportedDType(dtype):
    """Dtype without elements. Raises TypeError if a tensor of it is asked for."""

    __slots__ = ()

    def __init__(self, name: str, rank: int, itemsize: int) -> None:
        self.name, self.rank, self.itemsize = name, rank, itemsize
        self.is_floating_point, self.is_complex = rank == 2, rank == 3
        self.is_signed = not name.startswith(("uint", "quint"))

    def __getattr__(self, name: str) -> NoReturn:
        if name == "numpy":
            raise TypeError(f"no tensor can hold elements of type {self!r}")
        raise AttributeError(f"{self!r} has no attribute {name!r}")

    def __reduce__(self) -> str:
        return self.name

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return hash(self.name)


complex32 = chalf = UnsupportedDType("complex32", 3, 4)


def __getattr__(name: str) -> Any:
    if name not in FLOATING and name not in INTEGER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    rank, sizes = (2, FLOATING) if name in FLOATING else (1, INTEGER)
    return globals().setdefault(name, UnsupportedDType(name, rank, sizes[name]))
