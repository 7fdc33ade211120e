"""Where a tensor lives: the CPU, and nothing else; kept because programs name it."""

from __future__ import annotations

from typing import Any


class device:
    """`adjoint.device("cpu")`. Other devices raise RuntimeError."""

    __slots__ = ()
    type = "cpu"
    index = None

    def __init__(self, spec: Any = "cpu", index: int | None = None) -> None:
        name = spec.type if isinstance(spec, device) else str(spec)
        if name.partition(":")[0] != "cpu":
            raise RuntimeError(f"device {name!r}: adjoint computes on the CPU only; pass device='cpu'")

    def __repr__(self) -> str:
        return "device(type='cpu')"

    def __str__(self) -> str:
        return "cpu"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, device)

    def __hash__(self) -> int:
        return hash("cpu")


CPU = device()
