"""Values of expressions of functions that have returned, computed again of copies, by the library's functions alone."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import cast

from adjoint.core.runtime.package_name import is_name_of_package
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Operand
from adjoint.diagnosis.causes.assignments import find_fillings, find_statements, find_truth
from adjoint.diagnosis.causes.called_functions import find_function_called
from adjoint.diagnosis.causes.constructions import find_construction
from adjoint.diagnosis.causes.contexts import ITEM, FailedProgram, SourceStep, find_step
from adjoint.diagnosis.causes.held_values import find_parts, look_up, read_item
from adjoint.diagnosis.causes.steps import find_former
from adjoint.diagnosis.failure import Failure
from adjoint.diagnosis.operands import ARITHMETIC, MISSING
from adjoint.diagnosis.repairs.trial import Trial, read_clock

# A count is the same on every machine; the seconds stop expressions that are slow by themselves.
MAX_COMPUTED_EXPRESSIONS, MAX_SECONDS = 256, 1.0
MAX_NESTED = 12
COMPARISONS: dict[type[ast.cmpop], Callable[[Operand, Operand], Operand]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
}


def open_program(failure: Failure) -> FailedProgram:
    """Return the program whose frames an error has left, for searches in it."""
    if failure.program is None:
        failure.program = FailedProgram(failure.stack, find_construction, Computer().compute)
    program: FailedProgram = failure.program
    return program


@contextmanager
def closing_program(failure: Failure) -> Iterator[None]:
    """Open the program of a failure, and forget at the end what searches in it have found, which keeps frames alive."""
    program = open_program(failure)
    try:
        yield
    finally:
        program.close()


def open_step(failure: Failure, node: ast.expr) -> SourceStep | None:
    """Return the step to an expression of the line that failed."""
    step = find_step(open_program(failure), failure.stack)
    return None if step is None else step.at(node, ())


class _NameTable:
    """The names of an expression, as a frame holds them."""

    def __init__(self, values: dict[str, Operand], names: dict[str, Operand]) -> None:
        self.f_locals, self.f_globals = values, names


class Computer:
    """Computes expressions of one program, each once, until it has computed too many of them."""

    def __init__(self) -> None:
        self.end = read_clock() + MAX_SECONDS
        self.nested = 0

    def compute(self, step: SourceStep) -> Operand:
        """Return the value of an expression; MISSING where it cannot be told."""
        value = look_up(step.context, step.node)
        if value is not MISSING:
            return pick(value, step.keys)
        key = step.context, step.node, step.keys, step.before
        program = step.context.program
        known = program.values
        program.is_spent |= len(program.values) > MAX_COMPUTED_EXPRESSIONS or read_clock() > self.end
        if key in known or program.is_spent or self.nested > MAX_NESTED:
            return known.get(key, MISSING)
        known[key] = MISSING  # while it is computed
        if step.keys and isinstance(step.node, (ast.Tuple, ast.List, ast.Dict)):  # one of them may be an object
            parts = find_former(step)
            known[key] = self.compute(parts[0]) if len(parts) == 1 else MISSING
            return known[key]
        self.nested += 1
        try:
            known[key] = pick(self._compute(step), step.keys)
        except Exception:  # noqa: BLE001  what the expression may raise
            known[key] = MISSING
        finally:
            self.nested -= 1
        return known[key]

    def _compute(self, step: SourceStep) -> Operand:
        node = step.node
        if step.before is not None:
            return self._run_parts(step, step.before)
        if isinstance(node, ast.Name):
            return self._compute_former(step)
        if isinstance(node, ast.BinOp) and type(node.op) in ARITHMETIC:
            sides = [self.compute(step.at(each, ())) for each in (node.left, node.right)]
            if all(type(each) in (int, float) for each in sides):
                return ARITHMETIC[type(node.op)](*sides)
        if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in COMPARISONS:
            sides = [self.compute(step.at(each, ())) for each in (node.left, node.comparators[0])]
            is_identity = isinstance(node.ops[0], (ast.Is, ast.IsNot))  # of objects of any kind
            plain = object if is_identity else (int, float, str, type(None))
            is_plain = all(each is not MISSING and isinstance(each, plain) for each in sides)
            return COMPARISONS[type(node.ops[0])](*sides) if is_plain else MISSING
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            truth = find_truth(step.at(node.operand, ()))
            return MISSING if truth is None else not truth
        if isinstance(node, ast.Call):
            function, _ = find_function_called(step, node)
            if function is not None:
                return self._compute_former(step)
        if isinstance(node, ast.Attribute):
            owner = self.compute(step.at(node.value, ()))
            if node.attr == "shape" and (isinstance(owner, Tensor) or type(owner).__module__ == "numpy"):
                return owner.shape
            former = find_former(step.at(node, ()))
            if len(former) == 1:
                return self.compute(former[0])
        if isinstance(node, ast.Subscript):
            owner = self.compute(step.at(node.value, ()))
            if type(owner) in (list, tuple, dict) or owner is MISSING:
                return read_item(owner, self.compute(step.at(node.slice, ())))
        return self._run(step)

    def _compute_former(self, step: SourceStep) -> Operand:
        former = find_former(step.at(step.node, ()))
        if len(former) != 1:
            return MISSING
        is_held = look_up(former[0].context, former[0].node) is not MISSING
        return self.compute(former[0]) if is_held or not is_in_loop(former[0]) else MISSING

    def _run_parts(self, step: SourceStep, count: int) -> Operand:
        """Return what the first parts of a Sequential give, where all are layers of the library."""
        node = cast("ast.Call", step.node)
        given, whole = self.compute(step.at(node.args[0], ())), look_up(step.context, node.func)
        parts = find_parts(whole)[:count]
        if given is MISSING or not all(is_name_of_package(type(each).__module__) for each in parts):
            return MISSING
        call = ast.Call(ast.Name("whole", ast.Load()), [ast.Name("given", ast.Load())], [])
        return Trial(call, cast("FrameType", _NameTable({"whole": type(whole)(*parts), "given": given}, {}))).run(call)

    def _run(self, step: SourceStep) -> Operand:
        """Return the value of a call of the library's, its parts computed before."""
        values: dict[str, Operand] = {}
        bound = self._bind(step, step.node, values)
        trial = Trial(bound, cast("FrameType", _NameTable(values, step.context.names)))
        return trial.run(bound)

    def _bind(self, step: SourceStep, node: ast.expr, values: dict[str, Operand]) -> ast.expr:
        """Return an expression with names for the parts of it that are known, and for calls of the user's functions."""
        value = look_up(step.context, node) if isinstance(node, (ast.Name, ast.Attribute)) else MISSING
        if value is MISSING and isinstance(node, (ast.Name, ast.Call)):
            is_own = isinstance(node, ast.Name) or find_function_called(step, node)[0] is not None
            value = self.compute(step.at(node, ())) if is_own else MISSING
            is_filled = (
                isinstance(node, ast.Name) and isinstance(value, (list, dict, set)) and is_filled_later(step, node)
            )
            if is_own and (value is MISSING or is_filled):
                raise LookupError
        if value is not MISSING:
            name = f"value{len(values)}"
            values[name] = value
            return ast.Name(name, ast.Load())
        made = type(node)()
        for label, part in ast.iter_fields(node):
            bound = part
            if isinstance(part, ast.expr):
                bound = self._bind(step, part, values)
            elif isinstance(part, list):
                part = [ast.keyword(each.arg, each.value) if isinstance(each, ast.keyword) else each for each in part]
                bound = [self._bind(step, each, values) if isinstance(each, ast.expr) else each for each in part]
                for each in bound:
                    if isinstance(each, ast.keyword):
                        each.value = self._bind(step, each.value, values)
            setattr(made, label, bound)
        return ast.copy_location(made, node)


def is_filled_later(step: SourceStep, node: ast.Name) -> bool:
    """Return whether statements put something into the list or the table that a name was given."""
    made = find_statements(step.at(node, ()), node)
    return any(find_fillings(context, node.id, each, ITEM, context.scope) for context, each in made)


def is_in_loop(step: SourceStep) -> bool:
    """Return whether an expression stands in a loop of its function, each turn of which has another value."""
    child: ast.AST = step.node
    around = step.source.parents.get(child)
    while around is not None and around is not step.context.scope:
        if isinstance(around, (ast.For, ast.AsyncFor, ast.While)) and child is not getattr(around, "iter", None):
            return True
        child, around = around, step.source.parents.get(around)
    return False


def pick(value: Operand, keys: tuple[object, ...]) -> Operand:
    """Return an item of a value, the last key first."""
    for key in keys[::-1]:
        value = MISSING if key is ... else read_item(value, key)
    return value
