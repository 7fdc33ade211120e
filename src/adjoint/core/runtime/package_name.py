"""The package's name in the names of its classes: `adjoint`, or `torch` while it runs programs written for that."""

from __future__ import annotations


class DisplayName:
    """`package`: what comes before the dot in `adjoint.float32`; "torch" says that programs of PyTorch's are run.

    `parts`: classes of parts of it, and these.
    """

    __slots__ = ("package", "parts")

    def __init__(self) -> None:
        self.package = "adjoint"
        self.parts: list[tuple[type, str]] = []

    def place(self, kind: type, part: str) -> None:
        """Show a class as one of this part of the package, under its present name."""
        self.parts.append((kind, part))
        kind.__module__ = f"{self.package}.{part}"

    def rename(self, package: str) -> None:
        """Show all classes as those of `package` from now on."""
        self.package = package
        for kind, part in self.parts:
            kind.__module__ = f"{package}.{part}"


display_name = DisplayName()


def is_name_of_package(module: str) -> bool:
    """Return whether a module's name is that of the package, or of a part of it, also where it stands in for torch."""
    return module.partition(".")[0] in (__name__.partition(".")[0], display_name.package)
