"""How elements lie in memory, as programs name it: kept because they pass these values on. Tensors are strided."""

from __future__ import annotations


class layout:
    """`adjoint.strided`, the one layout there is."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"adjoint.{self.name}"

    def __reduce__(self) -> str:
        return self.name


class memory_format:
    """An order of dimensions in memory: `contiguous_format`, `preserve_format`, `channels_last`, `channels_last_3d`."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"adjoint.{self.name}"

    def __reduce__(self) -> str:
        return self.name


strided = layout("strided")
contiguous_format = memory_format("contiguous_format")
preserve_format = memory_format("preserve_format")
channels_last = memory_format("channels_last")
channels_last_3d = memory_format("channels_last_3d")
