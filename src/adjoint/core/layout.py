"""How elements lie in memory, as programs name it: kept because they pass these values on. Tensors are strided."""

from __future__ import annotations

from adjoint.core.spoken import spoken


class layout:
    """`adjoint.strided`, the one layout there is; the others can be named."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"{spoken.package}.{self.name}"

    def __reduce__(self) -> str:
        return self.name


class memory_format:
    """An order of dimensions in memory: `contiguous_format`, `preserve_format`, `channels_last`, `channels_last_3d`."""

    __slots__ = ("name", "order")

    def __init__(self, name: str, order: tuple[int, ...] = ()) -> None:
        self.name = name
        self.order = order  # of dimensions, the slowest first; empty for the order they are in

    def __repr__(self) -> str:
        return f"{spoken.package}.{self.name}"

    def __reduce__(self) -> str:
        return self.name


strided = layout("strided")
sparse_coo, sparse_csr, sparse_csc = layout("sparse_coo"), layout("sparse_csr"), layout("sparse_csc")
sparse_bsr, sparse_bsc, jagged = layout("sparse_bsr"), layout("sparse_bsc"), layout("jagged")
contiguous_format = memory_format("contiguous_format")
preserve_format = memory_format("preserve_format")
channels_last = memory_format("channels_last", (0, 2, 3, 1))
channels_last_3d = memory_format("channels_last_3d", (0, 2, 3, 4, 1))
