"""Element types that PyTorch has and no tensor can hold here: they can be named, compared and put in tables."""

from __future__ import annotations

from typing import Any, NoReturn

from adjoint.core.dtype.dtype import dtype

FLOATING = {
    "float4_e2m1fn_x2": 1, "float8_e4m3fn": 1, "float8_e4m3fnuz": 1, "float8_e5m2": 1, "float8_e5m2fnuz": 1,
    "float8_e8m0fnu": 1,
}  # fmt: skip
INTEGER = {
    **{f"{kind}{bits}": 1 for kind in ("int", "uint") for bits in range(1, 8)},
    "qint8": 1, "qint32": 4, "quint2x4": 1, "quint4x2": 1, "quint8": 1,
}  # fmt: skip
__all__ = list(FLOATING) + list(INTEGER) + ["complex32", "chalf"]


class UnsupportedDType(dtype):
    """A type by its name. Raises TypeError where elements of it are asked for."""

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
    made = UnsupportedDType(name, 2, FLOATING[name]) if name in FLOATING else UnsupportedDType(name, 1, INTEGER[name])
    return globals().setdefault(name, made)
