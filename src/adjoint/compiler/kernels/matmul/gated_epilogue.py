"""The end of a product whose columns are gates: of each unit all parts at once, as its columns lie interleaved."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from adjoint.compiler.ir.graph import Value
from adjoint.compiler.ir.strided_view import StridedView
from adjoint.compiler.kernels.elementwise import Access
from adjoint.compiler.kernels.epilogue import Epilogue
from adjoint.compiler.kernels.kernel import Finish, Prepare, ResultRegister
from adjoint.compiler.llvm.builder import Builder
from adjoint.compiler.llvm.types import Reg
from adjoint.core.op.spec import Spec
from adjoint.core.typing import Operand

if TYPE_CHECKING:
    from adjoint.compiler.passes.fusion import Fusion
    from adjoint.compiler.passes.fusion_group import Group


class GatedEpilogue(Epilogue):
    """The equations after a root whose columns come in parts of `group.unit`, over the columns of one part.

    An equation over several parts is one for each of them here, and so is the root.
    """

    def __init__(self, group: Group, fusion: Fusion) -> None:
        root = group.root
        assert root is not None
        rows, columns = root.shape
        self.gate_width = group.gate_width
        self.shape = rows, group.gate_width
        self.parts = columns // group.gate_width
        self._fusion = fusion
        self.reads: dict[Value, Access] = {}
        self.writes: list[tuple[Value, Access]] = []
        self._views: dict[Value, StridedView] = {}
        self._outside: dict[Access, Value] = {}
        own: dict[Value, list[Value]] = {root: [self._value(root, ()) for _ in range(self.parts)]}
        self.roots = tuple(own[root])
        for v in group.equations:
            if v is not root:
                count = v.shape[-1] // group.gate_width
                own[v] = [self._value(v, [self._input(i, v, j, own) for i in v.inputs]) for j in range(count)]
        self.equations = [each for v, parts in own.items() if v is not root for each in parts]
        for v in group.stored:
            for j, each in enumerate(own[v]):
                self.writes.append((each, Access(v, j * group.gate_width, (v.shape[-1], 1))))
        self._derive_fields()

    def _value(self, v: Value, inputs: Sequence[Operand]) -> Value:
        made = Value(v.op, tuple(inputs), v.params, Spec(self.shape, v.dtype), v.origin)
        self._views[made] = StridedView.whole(made)
        return made

    def _input(self, operand: Operand, reader: Value, part: int, own: dict[Value, list[Value]]) -> Operand:
        """Return the operand that an equation of one part has in place of one of several parts."""
        if not isinstance(operand, Value):
            return operand
        view = self._fusion.views[operand].expand(reader.shape)
        if view.base in own:
            return own[view.base][view.offset // self.gate_width + part]
        begins = view.offset + part * self.gate_width * view.strides[-1]
        strides = tuple(0 if n == 1 else s for n, s in zip(self.shape, view.strides, strict=True))
        access = Access(view.base, begins, strides)
        if access not in self._outside:
            self._outside[access] = self._value(operand, ())
            self.reads[self._outside[access]] = access
        return self._outside[access]


def join_panels(b: Builder, finish: Finish, prepare: Prepare | None, width: int) -> tuple[Finish, Prepare | None]:
    """The functions that take blocks of the panels of a matrix, each of so many columns, as blocks of the matrix."""

    def join(origin: Sequence[Reg]) -> list[Reg]:
        panel, row, column = origin
        return [row, b.add(b.mul(panel, width), column)]

    def finish_joined(origin: Sequence[Reg], blocks: Sequence[ResultRegister]) -> None:
        finish(join(origin), [block._replace(offset=block.offset[1:]) for block in blocks])

    def prepare_joined(origin: Sequence[Reg], rows: int, columns: int) -> None:
        assert prepare is not None
        prepare(join(origin), rows, columns)

    return finish_joined, None if prepare is None else prepare_joined


def finish_by_unit(b: Builder, finish: Finish, prepare: Prepare | None, parts: int) -> tuple[Finish, Prepare | None]:
    """The functions that take blocks of interleaved columns, and finish the elements of all parts together."""

    def unit_of(column: Reg) -> Reg:
        return b.emit(f"udiv i64 {column.name}, {parts}", column.type)

    def finish_units(origin: Sequence[Reg], blocks: Sequence[ResultRegister]) -> None:
        row, column = origin
        made = []
        for first in range(0, len(blocks), parts):
            together = blocks[first : first + parts]
            down, across = together[0].offset
            beside = tuple(block.value for block in together)
            made.append(ResultRegister((down, across // parts), beside[0], None, beside))
        finish([row, unit_of(column)], made)

    def prepare_units(origin: Sequence[Reg], rows: int, columns: int) -> None:
        assert prepare is not None
        row, column = origin
        prepare([row, unit_of(column)], rows, columns // parts)

    return finish_units, None if prepare is None else prepare_units
