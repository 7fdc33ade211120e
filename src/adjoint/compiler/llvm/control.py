"""Functions, loops and conditions: the control flow of a kernel as `with` blocks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from adjoint.compiler.ir.symbolic_size import is_known_less
from adjoint.compiler.llvm.emitter import Emitter
from adjoint.compiler.llvm.types import I64, PTR, Reg, Type

if TYPE_CHECKING:
    from adjoint.compiler.llvm.jit.target import Target


class Branch:
    """A block whose values leave it through `yields`, and are read from `results` when it has ended."""

    def __init__(self, carried: Sequence[Reg]) -> None:
        self.carried = tuple(carried)
        self.results: tuple[Reg, ...] = ()
        self._yielded: tuple[Reg, ...] | None = None

    def yields(self, *values: Reg) -> None:
        """Hand on one value for each carried one, of the same type."""
        if [value.type for value in values] != [value.type for value in self.carried]:
            given, wanted = [str(v.type) for v in values], [str(v.type) for v in self.carried]
            raise TypeError(f"a block that carries {wanted} was given {given}")
        self._yielded = values

    def _yielded_values(self) -> tuple[Reg, ...]:
        if self._yielded is None and self.carried:
            raise RuntimeError(f"a block carries {len(self.carried)} values and yields none")
        return self._yielded or ()


class Loop(Branch):
    """A counted loop: `index` and `carried` inside it, `results` after it."""

    def __init__(self, index: Reg, carried: Sequence[Reg]) -> None:
        super().__init__(carried)
        self.index = index


class Repetition(Branch):
    """A loop without a count."""

    def __init__(self, control: Control, carried: Sequence[Reg], done: str) -> None:
        super().__init__(carried)
        self._control, self._done = control, done

    def ends_if(self, condition: Reg) -> None:
        """End the loop where the condition holds; its results are what this round has carried in."""
        more = self._control._label("more")
        self._control.command(f"br i1 {condition.name}, label %{self._done}, label %{more}")
        self._control._start_block(more)


class Control(Emitter):
    """Structured control flow over an `Emitter`."""

    def __init__(self, target: Target | None = None, has_fma: bool = True) -> None:
        super().__init__(target, has_fma)
        self._function: tuple[str, Type | None] = ("", None)
        self._returned: Reg | None = None

    @contextmanager
    def kernel(self, name: str) -> Iterator[tuple[Reg, Reg, Reg]]:
        """`define void @name(ptr %args, i64 %tile, i64 %thread)`, visible to the engine; gives the three.

        Kernels and the C library share one space of names: a kernel called `exp` would take the place of exp.
        """
        with self.function(name, [PTR, I64, I64], visible=True, names=["args", "tile", "thread"]) as parameters:
            args, tile, thread = parameters
            with self.sizes_at_entry():
                yield args, tile, thread

    @contextmanager
    def function(
        self,
        name: str,
        parameters: Sequence[Type],
        result: Type | None = None,
        *,
        visible: bool = False,
        names: Sequence[str] | None = None,
        unwinds: bool = False,
    ) -> Iterator[tuple[Reg, ...]]:
        """A function to `call`; its value, if it has one, is given to `returns` before the block ends.

        `unwinds`: the function calls Python, which may end the thread from within.
        """
        if self._block:
            raise RuntimeError(f"function {name} begins inside another")
        names = names or [f"p{i}" for i in range(len(parameters))]
        registers = tuple(Reg(f"%{n}", t) for n, t in zip(names, parameters, strict=True))
        signature = ", ".join(f"{register.type.text} {register.name}" for register in registers)
        linkage, attributes = "" if visible else "internal ", "uwtable" if unwinds else "#0"
        type = result.text if result else "void"
        self._lines.append(f"define {linkage}{type} @{name}({signature}) {attributes} {{")
        self._start_block("entry")
        self._function, self._returned = (name, result), None
        yield registers
        self._return(self._returned)
        self._lines.append("}")
        self._block = ""

    @contextmanager
    def subroutine(self, name: str, parameters: Sequence[Type]) -> Iterator[tuple[Reg, ...]]:
        """A function of this module to `call`, written while the one that calls it is."""
        outside = self._lines, self._block, self._function, self._returned, self._entry
        self._lines, self._block, self._entry = [], "", None
        with self.function(name, parameters) as registers:
            yield registers
        self._subroutines += self._lines
        self._lines, self._block, self._function, self._returned, self._entry = outside

    def returns(self, value: Reg) -> None:
        """Set the value of the function being written."""
        self._returned = value

    def return_if(self, condition: Reg, value: Reg | None = None) -> None:
        """Leave the function where the condition holds, from within loops and branches too."""
        with self.when(condition):
            self.return_now(value)

    def return_now(self, value: Reg | None = None) -> None:
        """Leave the function; what is written up to the end of the `with` block is never reached."""
        self._return(value)
        self._start_block(self._label("unreachable"))

    def _return(self, value: Reg | None) -> None:
        name, result = self._function
        if (value.type if value else None) != result:
            raise TypeError(f"function {name} returns {result}, was given {value.type if value else None}")
        self.command(f"ret {value.type.text} {value.name}" if value else "ret void")

    @contextmanager
    def loop(self, low: Reg | int, high: Reg | int, step: int = 1, carried: Sequence[Reg] = ()) -> Iterator[Loop]:
        """for index in range(low, high, step), step > 0; bounds are i64 registers or numbers, and may be empty."""
        if step <= 0:
            raise ValueError(f"a loop needs a positive step, got {step}")
        # A loop known to run tests at its end, which saves a jump; any other must test before its body.
        runs = isinstance(low, int) and isinstance(high, int) and is_known_less(low, high)
        first = low if isinstance(low, Reg) else self.constant(low, I64)
        last = high if isinstance(high, Reg) else self.constant(high, I64)
        before, head, body, latch, done = self._block, *(self._label(w) for w in ("head", "body", "latch", "done"))
        index = Reg(f"%{head}i", I64)
        phis = [Reg(f"%{head}c{j}", value.type) for j, value in enumerate(carried)]
        self.command(f"br label %{head}")
        self._start_block(head)
        slot = len(self._lines)
        if not runs:
            more = self.emit(f"icmp slt i64 {index.name}, {last.name}", Type("b", 1))
            self.command(f"br i1 {more.name}, label %{body}, label %{done}")
            self._start_block(body)
        loop = Loop(index if carried else self._opaque(index), phis)
        yield loop
        taken = loop._yielded_values()
        self.command(f"br label %{latch}")
        self._start_block(latch)
        following = self.emit(f"add nsw i64 {index.name}, {step}", I64)
        if runs:
            more = self.emit(f"icmp slt i64 {following.name}, {last.name}", Type("b", 1))
            self.command(f"br i1 {more.name}, label %{head}, label %{done}")
        else:
            self.command(f"br label %{head}")
        # The phis are written last, when what flows round the loop is known, and belong at its head.
        self._lines[slot:slot] = [
            f"  {phi.name} = phi {phi.type.text} [ {start.name}, %{before} ], [ {end.name}, %{latch} ]"
            for phi, start, end in zip((index, *phis), (first, *carried), (following, *taken), strict=True)
        ]
        self._start_block(done)
        loop.results = taken if runs else tuple(phis)

    @contextmanager
    def repeat(self, carried: Sequence[Reg] = ()) -> Iterator[Repetition]:
        """while True: the block, until it leaves the function or `ends_if` ends it; results are as a round began."""
        before, head, done = self._block, self._label("head"), self._label("done")
        phis = [Reg(f"%{head}c{j}", value.type) for j, value in enumerate(carried)]
        self.command(f"br label %{head}")
        self._start_block(head)
        slot = len(self._lines)
        loop = Repetition(self, phis, done)
        yield loop
        taken, end = loop._yielded_values(), self._block
        self.command(f"br label %{head}")
        self._lines[slot:slot] = [
            f"  {phi.name} = phi {phi.type.text} [ {start.name}, %{before} ], [ {next.name}, %{end} ]"
            for phi, start, next in zip(phis, carried, taken, strict=True)
        ]
        self._start_block(done)
        loop.results = tuple(phis)

    def _opaque(self, index: Reg) -> Reg:
        """The same number, of which LLVM does not know how it was made.

        Where one counter leads to many addresses, it looks for the best of all ways to step them, which takes longer
        than all else together. That pays in a loop that sums, hardly ever in one around it.
        """
        return self.intrinsic("expect", index, self.constant(0, index.type))

    @contextmanager
    def when(self, condition: Reg, carried: Sequence[Reg] = ()) -> Iterator[Branch]:
        """if condition: the block; results are what it yields, or `carried` where it did not run."""
        if condition.type != Type("b", 1):
            raise TypeError(f"a condition is one bool, got {condition.type}")
        before, then, done = self._block, self._label("then"), self._label("done")
        self.command(f"br i1 {condition.name}, label %{then}, label %{done}")
        self._start_block(then)
        branch = Branch(carried)
        yield branch
        taken, end = branch._yielded_values(), self._block
        self.command(f"br label %{done}")
        self._start_block(done)
        branch.results = tuple(
            self.emit(f"phi {old.type.text} [ {new.name}, %{end} ], [ {old.name}, %{before} ]", old.type)
            for new, old in zip(taken, carried, strict=True)
        )
