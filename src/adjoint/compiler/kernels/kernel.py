"""The kernel: the text of one function, and how it is to be called."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from adjoint.compiler.ir.graph import Value
from adjoint.compiler.kernels.kernel_text import KernelText
from adjoint.compiler.llvm.types import Reg
from adjoint.compiler.passes.fusion_group import Group


class Kernel:
    """A function `k(arguments, tile, thread)` to be called once for each tile, in any order and from any thread.

    Its table holds the addresses of the values in `arguments`. If the kernel needs `scratch` bytes, the address of the
    scratch memory follows: each thread has a piece of that size (a multiple of 64) at `thread * scratch`. Then come the
    `numbers` in which kernels of equal code differ. In front of the table lie the values of the program's symbols, the
    last one first. A kernel that draws from a `generator` has the address of its state before all others, and runs
    while its lock is held.
    """

    __slots__ = ("arguments", "code", "generator", "group", "name", "numbers", "scratch", "tiles")

    def __init__(
        self,
        name: str,
        code: KernelText | str,
        arguments: list[Value],
        group: Group,
        tiles: int = 1,
        scratch: int = 0,
        generator: Any = None,
        numbers: Sequence[int] = (),
    ) -> None:
        self.name, self.code = name, code
        self.arguments = arguments
        self.group = group
        self.tiles, self.scratch = tiles, scratch
        self.generator = generator
        self.numbers = numbers

    @property
    def text(self) -> str:
        """The function's module as LLVM assembly."""
        return str(self.code)

    @property
    def first(self) -> int:
        """The row of the table that the first argument has."""
        return 0 if self.generator is None else 1

    def __repr__(self) -> str:
        return f"<{self.name}: {' '.join(v.op.name for v in self.group.equations)}>"


class ResultRegister(NamedTuple):
    """A register of finished elements: neighbours along the last dimension, from `offset` after a block's origin."""

    offset: tuple[int, ...]  # one number for each dimension of the result
    value: Reg
    mask: Reg | int | None = None  # only these lanes are elements, or the first so many
    siblings: tuple[Reg, ...] = ()  # of a result that has parts, the elements of all parts at this place


# What a kernel does with a block of its result: `finish(origin, parts)` writes the code which computes what follows
# from the elements and stores it. `origin`: an index (i64) for each dimension of the result.
Finish = Callable[[Sequence[Reg], Sequence[ResultRegister]], None]

# What a kernel may do before it sums a block of its result: `prepare(origin, rows, columns)` begins to bring near what
# `finish` is going to read there.
Prepare = Callable[[Sequence[Reg], int, int], None]
