"""A function whose loop grows, as it runs from then on: in Python, but for regions that are compiled functions.

The function is compiled anew from its syntax, with a call in place of each region. It shares the variables of the one
that it stands for, and what cannot be compiled runs as it was written.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import CellType, CodeType, FunctionType, MethodType
from weakref import ref

from adjoint.compiler.ir.graph import TraceError
from adjoint.compiler.program.eager_step import StepWrapper
from adjoint.compiler.scripts.loop_outline import CALL, LoopOutline, compile_definitions
from adjoint.compiler.scripts.region_binding import UNBOUND as UNBOUND_VALUE
from adjoint.compiler.scripts.region_binding import BoundRegion
from adjoint.compiler.scripts.region_rewriter import REGIONS, UNBOUND, Hand, make_function, parse_at, write_call
from adjoint.compiler.scripts.region_syntax import RegionSyntax
from adjoint.compiler.scripts.taken_containers import lower_records, settle_containers, take_containers
from adjoint.core.typing import Function, Operand

TAKE, TAKEN = "__adjoint_take__", "__adjoint_taken__"
MAX_COMPILATIONS = 16  # of a region, before its loop is unrolled after all


class OutlinedRegion:
    """Statements of a loop's body as a compiled function. `reason`: why it runs as it is written, if it does.

    `taken` are the positions of arguments in which there may be containers, or records if it `has_records`.
    """

    def __init__(self, function: FunctionType, compiled: BoundRegion, taken: Sequence[int], has_records: bool) -> None:
        self.function, self.compiled = function, compiled
        self._taken, self._has_records = taken, has_records
        self.reason: str | None = None

    def run(self, _: int, *names: Operand) -> Operand:
        """Return what the statements give, and let the containers that they take hold what they have put there."""
        given = names
        if self._has_records:
            given = tuple([lower_records(x) if i in self._taken else x for i, x in enumerate(names)])
        if self.reason is not None:
            results, changed = self.function(*given)
        else:
            try:
                results, changed = self.compiled(*given)
            except TraceError as error:  # nothing has happened yet
                self.reason = str(error).splitlines()[0]
                results, changed = self.function(*given)
        if changed is None:
            return results
        return settle_containers([names[i] for i in self._taken], results, changed)

    @property
    def has_failed(self) -> bool:
        """True where one program for the whole loop may do better."""
        return self.reason is not None or self.compiled.compilations > MAX_COMPILATIONS


class OutlinedFunction:
    """A function with a loop that has an outline, be it in what it calls; `compile_function` compiles a region."""

    def __init__(
        self, function: Function, outline: LoopOutline, compile_function: Callable[[Function], StepWrapper]
    ) -> None:
        self.outline = outline
        self.regions: list[OutlinedRegion] = []
        self._function, self._compile_function = function, compile_function
        self._names = [name_region(region) for region in outline.regions]
        self._codes = _compile_outlined(outline)
        self._made: dict[CodeType, tuple[FunctionType, FunctionType]] = {}  # the functions of a code: given, and made

    def find(self) -> Function | None:
        """The function with calls of regions in it; None if it is no such function any more."""
        found: Function | None = self.find_within(self._function)
        return found

    @property
    def has_failed(self) -> bool:
        """True where one program for the whole loop may do better, be it that no call has come to the loop."""
        return not self.regions or any(region.has_failed for region in self.regions)

    @property
    def main_region(self) -> StepWrapper | None:
        """The compiled function of the last region that ran."""
        return self.regions[-1].compiled.latest if self.regions else None

    @property
    def compilations(self) -> int:
        """The number of times that regions were compiled."""
        return sum(region.compiled.compilations for region in self.regions)

    def find_within(self, held: Operand) -> Operand | None:
        """A callable with a function of ours in it: it may be a method, or lie in decorators; None if there is none."""
        if isinstance(held, FunctionType):
            return self._rewrite(held) or self._replace_captured(held)
        if isinstance(held, MethodType):
            function = self.find_within(held.__func__)
            return function and MethodType(function, held.__self__)
        if isinstance(held, partial):
            function = self.find_within(held.func)
            return function and partial(function, *held.args, **held.keywords)
        if isinstance(held, type) or any(getattr(held, "_detours", (True,)) or ()):
            return None
        forward = self.find_within(held.forward)  # of a module without hooks
        if forward is None:
            return None
        twin = object.__new__(type(held))
        twin.__dict__.update(vars(held), forward=forward)
        return twin

    def _rewrite(self, function: FunctionType) -> FunctionType | None:
        """The function that stands for one of ours; None for another, and for another closure of the same code."""
        code = function.__code__
        if code not in self._codes:
            return None
        if code in self._made:
            known, made = self._made[code]
            return made if known is function or known.__closure__ == function.__closure__ else None
        cells = dict(zip(code.co_freevars, function.__closure__ or (), strict=True))
        cells |= {REGIONS: CellType(self.regions), UNBOUND: CellType(UNBOUND_VALUE), TAKE: CellType(take_containers)}
        owner = ref(self)  # the functions that it makes are no cycle
        cells[CALL] = CellType(lambda called: ((made := owner()) and made.find_within(called)) or called)
        codes = self._codes[code]
        if code is self.outline.code:
            for hand, name in zip(self.outline.hands, self._names, strict=True):
                region = _make_like(function, codes[name], cells)
                bound = self.outline.bound.intersection(hand.taken)
                taken = [i for i, each in enumerate(hand.taken) if each not in bound and each not in hand.unsure]
                compiled = BoundRegion(region, bound, compile_function=self._compile_function)
                self.regions.append(OutlinedRegion(region, compiled, taken, self.outline.has_records))
        made = _make_like(function, codes[code.co_name], cells)
        made.__defaults__, made.__kwdefaults__ = function.__defaults__, function.__kwdefaults__
        made.__dict__.update(function.__dict__)
        self._made[code] = function, made
        return made

    def _replace_captured(self, function: FunctionType) -> FunctionType | None:
        """A decorator's function with one of ours in place of that which it captures."""
        for i, cell in enumerate(function.__closure__ or ()):
            try:
                inner = cell.cell_contents
            except ValueError:
                continue
            found = self.find_within(inner) if isinstance(inner, FunctionType) else None
            if found is not None:
                closure = list(function.__closure__ or ())
                closure[i] = CellType(found)
                name, defaults = function.__name__, function.__defaults__
                made = FunctionType(function.__code__, function.__globals__, name, defaults, tuple(closure))
                made.__kwdefaults__ = copy.copy(function.__kwdefaults__)
                made.__dict__.update(function.__dict__)
                return made
        return None


def name_region(region: RegionSyntax) -> str:
    """The name of a region's function."""
    return f"lines_{region.statements[0].lineno}_to_{region.statements[-1].end_lineno}"


def _make_like(function: FunctionType, code: CodeType, cells: Mapping[str, CellType]) -> FunctionType:
    """A function of another code, with the globals of a function and these variables."""
    closure = tuple(cells[name] for name in code.co_freevars)
    made = FunctionType(code, function.__globals__, code.co_name, None, closure)
    made.__qualname__ = made.__name__ if made.__name__ != function.__name__ else function.__qualname__
    made.__module__ = function.__module__
    return made


def _compile_outlined(outline: LoopOutline) -> dict[CodeType, Mapping[str, CodeType]]:
    """The codes of functions that stand for those of the outline, by their codes; and those of the regions."""
    definitions: list[ast.stmt] = []
    calls = []
    for number, (region, hand) in enumerate(zip(outline.regions, outline.hands, strict=True)):
        definitions.append(_define_region(number, region, hand, outline.bound))
        calls.append(parse_at(write_call(number, 0, hand), region.statements[0]))
    for region, statements in reversed(list(zip(outline.regions, calls, strict=True))):
        region.place.block[region.first : region.stop] = statements
    scopes: dict[CodeType, list[ast.stmt]] = {outline.code: [*definitions, outline.definition]}
    scopes |= {code: [definition] for code, definition in outline.callers.items()}
    captured = REGIONS, UNBOUND, TAKE, CALL
    return {code: compile_definitions(body, (*code.co_freevars, *captured), code) for code, body in scopes.items()}


def _define_region(number: int, region: RegionSyntax, hand: Hand, bound: set[str]) -> ast.FunctionDef:
    """The function of a region: it works on copies of containers, and tells of each that it has changed."""
    function = make_function(number, region, region.first, hand)
    assert isinstance(function, ast.FunctionDef)
    function.name = name_region(region)
    function.decorator_list = []
    names = [name for name in hand.taken if name not in hand.unsure and name not in bound]
    values = "".join(f"{name}, " for name in names)
    begin = f"{TAKEN} = {TAKE}(({values}))"
    if names:
        begin += f"\n{values}= {TAKEN}.values"
    last = function.body[-1]
    results = last.value if isinstance(last, ast.Return) and last.value is not None else ast.Tuple([], ast.Load())
    (end,) = parse_at(f"return {TAKEN}.pack(())", region.statements[-1])
    assert isinstance(end, ast.Return)
    assert isinstance(end.value, ast.Call)
    end.value.args = [ast.copy_location(results, region.statements[-1])]
    function.body[-1] = end
    place = bool(hand.written_globals) + sum(name in hand.unsure for name in hand.taken)
    function.body[place:place] = parse_at(begin, region.statements[0])
    return function
