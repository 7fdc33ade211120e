"""The package's name in what its objects say of themselves: adjoint's own, or PyTorch's where it stands in for that."""

from __future__ import annotations


class Spoken:
    """`package`: what comes before the dot in `adjoint.float32`; "torch" says that programs of PyTorch's are run."""

    __slots__ = ("package",)

    def __init__(self) -> None:
        self.package = "adjoint"


spoken = Spoken()
