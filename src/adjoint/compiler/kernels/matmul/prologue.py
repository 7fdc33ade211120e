"""The beginning of a matrix product: an operand that is packed anyway is computed then, and not read from memory."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING

from adjoint.compiler.ir.graph import Value
from adjoint.compiler.ir.strided_view import StridedView, view_over
from adjoint.compiler.kernels import elementwise
from adjoint.compiler.kernels.elementwise import Access, Accesses
from adjoint.compiler.kernels.matmul.blocking import MatrixStrides
from adjoint.compiler.kernels.matmul.operand import MatmulOperand, StridedArray
from adjoint.compiler.kernels.matmul.packed_operand import find_permutation
from adjoint.compiler.llvm.builder import Builder
from adjoint.compiler.llvm.types import Reg, from_dtype
from adjoint.compiler.passes.materialize import is_generated
from adjoint.core.dtype.dtype import is_bfloat16
from adjoint.core.typing import Operand

if TYPE_CHECKING:
    from adjoint.compiler.passes.fusion import Fusion
    from adjoint.compiler.passes.fusion_group import Group

Shape = tuple[int, ...]


class Prologue:
    """The equations that give an operand of a product, element by element.

    `structure`: all of it that the text is made from, as that of an `Epilogue`.
    """

    def __init__(self, group: Group, fusion: Fusion, view: StridedView, batch: Shape) -> None:
        order = find_permutation(view)
        assert order is not None
        self.value = view.base
        self.shape = (*batch, *view.shape[-2:])
        self._views = fusion.views
        self.equations = _equations_leading_to(view.base, group.prologue, fusion.views)
        self.reads: dict[Value, Access] = {}
        for equation in self.equations:
            for operand in equation.operands:
                seen = fusion.views[operand]
                if fusion.maker.get(seen.base) is group or is_generated(seen.base):
                    continue
                lies = view_over(seen, equation.shape, order[0])
                assert lies is not None
                lies = lies.permute(order[1]).expand(self.shape)
                steps = tuple(0 if n == 1 else s for n, s in zip(lies.shape, lies.strides, strict=True))
                self.reads[operand] = Access(lies.base, lies.offset, steps)
        self.accesses = Accesses(self.reads.values())
        self.structure = self._structure()

    def leave_rounding(self) -> None:
        """Compute what is rounded to bfloat16 last, instead of that: whoever packs it rounds it in the same way."""
        halved = self.value.operands[0]
        given = halved.operands[0] if halved in self.equations and halved.op.name == "cast" else None
        if self.value.op.name != "cast" or given is None or given.dtype != self.value.dtype:
            return
        if is_bfloat16(halved.dtype) and not is_generated(self._views[given].base):
            self.value = given
            self.equations = _equations_leading_to(self._views[given].base, self.equations, self._views)
            self.structure = self._structure()

    def operand(self, b: Builder, pointers: dict[Value, Reg], numbers: Sequence[Reg]) -> MatmulOperand:
        """The operand, from its first element."""
        starts = dict(zip(self.accesses.with_offset, numbers, strict=True))
        distinct = list(dict.fromkeys(self.reads.values()))
        places = []
        for access in distinct:
            kind, pointer = from_dtype(access.base.dtype), pointers[access.base]
            if access in starts:
                pointer = b.gep(pointer, starts[access], kind)
            *batch, row, column = access.strides
            places.append(StridedArray(pointer, kind, MatrixStrides(tuple(batch), row, column)))

        def compute(read: Sequence[Reg], lanes: int) -> Reg:
            known = {operand: read[distinct.index(access)] for operand, access in self.reads.items()}
            for equation in self.equations:
                given = [known[o] if o in known else self._inner(b, o, known) for o in equation.operands]
                known[equation] = elementwise.compute(b, equation, given)
            value = known[self.value] if self.value in known else self._inner(b, self.value, known)
            return b.broadcast(value, lanes)

        return MatmulOperand(tuple(places), compute)

    def _inner(self, b: Builder, operand: Value, known: dict[Value, Reg]) -> Reg:
        """Return an operand that is not read: an equation before, or a constant."""
        base = self._views[operand].base
        if not is_generated(base):
            return known[base]
        return b.constant(base.dtype.type(base.params["value"]).item(), from_dtype(base.dtype))

    def _structure(self) -> Hashable:
        numbers = {v: i for i, v in enumerate((*self.reads, *self.equations))}
        place = self.accesses.make_fingerprinter()

        def source(x: Operand) -> Hashable:
            if not isinstance(x, Value):
                return elementwise.fingerprint(x)
            base = self._views[x].base
            return elementwise.fingerprint(base) if is_generated(base) else numbers[x if x in numbers else base]

        return (
            self.shape,
            tuple(map(place, self.reads.values())),
            tuple((v.op, v.dtype, *map(source, v.inputs)) for v in self.equations),
            source(self.value),
        )


def _equations_leading_to(value: Value, equations: Sequence[Value], views: dict[Value, StridedView]) -> list[Value]:
    """Return the equations, in their order, that a value is made by."""
    needed, found = {value}, []
    for equation in reversed(equations):
        if equation in needed:
            needed.update(views[o].base for o in equation.operands)
            found.append(equation)
    return found[::-1]
