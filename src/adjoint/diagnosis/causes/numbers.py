"""Numbers of a program: the constant, the entry, the argument or the default from which a size or a setting comes."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from adjoint.core.typing import Operand
from adjoint.diagnosis.causes.called_functions import unwrap
from adjoint.diagnosis.causes.contexts import SourceStep
from adjoint.diagnosis.causes.results import find_returned
from adjoint.diagnosis.causes.steps import find_former
from adjoint.diagnosis.operands import MISSING
from adjoint.diagnosis.source_expressions import parameter_names, text_of

MAX_STEPS = 16
MAX_PARTS = 2
MAX_TOLD = 3
CHANGING = ("append", "extend", "insert", "add", "update", "pop", "remove", "setdefault", "clear", "appendleft")
COMPUTING = ("len", "int", "max", "min", "sum", "round")


@dataclass(frozen=True)
class NumberTrace:
    """The way of a number back to where the program writes it; of one that is computed, to those it is computed of."""

    steps: tuple[SourceStep, ...]
    parts: tuple[NumberTrace, ...] = ()

    @property
    def root(self) -> SourceStep:
        """The expression that is the number, or computes it."""
        last = self.steps[-1]
        if (
            isinstance(last.node, ast.Call) and not self.parts
        ):  # what was read tells less than the key that is asked for
            return next((each for each in self.steps[1:] if isinstance(each.node, ast.Subscript)), last)
        return last

    def roots(self) -> Iterator[SourceStep]:
        """Yield where the numbers stand that it is, or is computed of."""
        yield from (each.root for each in self.leaves())

    def describe(self) -> str:
        """Return where the number comes from: `train.py:8: "hidden": 48`."""
        told = describe_root(self)
        overwritten = self.find_overwriting()
        if overwritten is not None:
            return f"{overwritten.line()}, which writes over what the call gives"
        lines: dict[str, NumberTrace] = {self.root.place(): self}
        for each in (line for part in self.parts for line in part.inner_lines()):
            lines.setdefault(each.root.place(), each)
        inner = [*lines.values()][1 : MAX_TOLD + 1]
        return told + (f", of {' and '.join(map(describe_named, inner))}" if inner else "")

    def find_overwriting(self) -> SourceStep | None:
        """Return the statement that gave a parameter a value in place of its argument, where it did so always."""
        for name, value in pairwise(self.steps):
            scope, statement = name.context.scope, value.source.statement_of(value.node)
            is_own = value.context.scope is scope and value.source.parents.get(statement) is scope
            if is_own and isinstance(name.node, ast.Name) and isinstance(statement, ast.Assign):
                is_given = name.node.id in parameter_names(scope) and text_of(statement.targets[0]) == name.node.id
                reads = {each.id for each in ast.walk(statement.value) if isinstance(each, ast.Name)}
                if is_given and name.node.id not in reads:
                    return value
        return None

    def inner_lines(self) -> Iterator[NumberTrace]:
        """Yield itself, and the numbers that it is computed of."""
        yield self
        for each in self.parts:
            yield from each.inner_lines()

    def leaves(self) -> Iterator[NumberTrace]:
        """Yield the numbers that it is computed of, or itself."""
        if not self.parts:
            yield self
        for each in self.parts:
            yield from each.leaves()


def describe_root(trace: NumberTrace) -> str:
    """Return the line where a number stands, and of a default the call that leaves it out."""
    root = trace.root
    if not root.is_default:
        return root.line()
    place = trace.steps.index(root)
    name = text_of(trace.steps[place - 1].node) if place else ""
    call = trace.steps[place - 1].context if place else None
    made = None if call is None else call.call
    told = f"the default of {name} at {root.place()}"
    changed = None if place == 0 else _find_change(trace.steps[place - 1], name)
    told += "" if changed is None else f", which {changed.line()} changes for all calls"
    return told if made is None else f"{told}, which {made.line()} leaves out"


def _find_change(step: SourceStep, name: str) -> SourceStep | None:
    """Return the last call before an expression, such as `sizes.append(n)`, that changes the list which a name has."""
    found: SourceStep | None = None
    for each in ast.walk(step.context.scope):
        target = each.targets[0] if isinstance(each, ast.Assign) else None
        stored = target.value if isinstance(target, ast.Subscript) else None
        is_call = isinstance(each, ast.Call) and isinstance(each.func, ast.Attribute) and each.func.attr in CHANGING
        owner = each.func.value if isinstance(each, ast.Call) and isinstance(each.func, ast.Attribute) else stored
        is_change = owner is not None and (is_call or stored is not None) and text_of(owner) == name
        if is_change and getattr(each, "lineno", 0) < step.node.lineno and isinstance(owner, ast.expr):
            found = step.at(owner)
    return found


def describe_named(trace: NumberTrace) -> str:
    """Return the name of a number, and where it stands."""
    return f"{text_of(trace.steps[0].node)} at {describe_root(trace)}"


def trace_number(first: SourceStep, number: Operand) -> NumberTrace:
    """Return the way of a number back: through the expressions that can have given just that number."""
    compute, steps, seen = first.context.program.compute, [first], {id(first.node)}
    while len(steps) < MAX_STEPS:
        step = steps[-1]
        fitting: list[tuple[bool, int, SourceStep]] = []
        is_other = False
        for each in find_former(step):
            value = compute(each)
            is_other = value is not MISSING
            if value is MISSING or number is MISSING or is_same(value, number):
                fitting.append((value is MISSING, len(fitting), each))
        if not fitting:
            changed = find_mutation(step, number) if is_other else None
            steps += [] if changed is None else trace_number(changed, number).steps
            break
        former = min(fitting, key=lambda each: each[:2])[2]
        if id(former.node) in seen:
            break
        seen.add(id(former.node))
        steps.append(former)
    return NumberTrace(tuple(steps), tuple(_find_parts(steps[-1])))


def find_mutation(step: SourceStep, number: Operand) -> SourceStep | None:
    """Return what a statement put into an object in place of what it was made with, under any name it has."""
    program, node = step.context.program, step.node
    whole = step.at(node, step.keys[1:]) if step.keys else step.at(getattr(node, "value", node), ())
    key = step.keys[0] if step.keys else getattr(node, "attr", None)
    owner = program.compute(whole) if key is not None else MISSING
    if key is None or owner is MISSING or isinstance(owner, (int, float, str, tuple, type(None))):
        return None
    for source in program.sources:
        for target, values in source.mutations:
            context = program.find_context(source, source.scope_of(target))
            if program.compute(SourceStep(context, target)) is not owner:
                continue
            for label, value in values:
                given = SourceStep(context, value, (key,) if label is None else ())
                if label in (None, key) and is_same(program.compute(given), number):
                    return given
    return None


def is_same(value: Operand, other: Operand) -> bool:
    """Return whether two settings are equal."""
    plain = (int, float, str, tuple, list, type(None))
    return value is other or (isinstance(value, plain) and isinstance(other, plain) and value == other)


def _find_count(step: SourceStep) -> SourceStep | None:
    """Return what the user's `__len__` of an object gives."""
    owner = step.context.program.compute(step)
    function = None if owner is MISSING else unwrap(inspect.getattr_static(type(owner), "__len__", None))
    context = None if function is None else step.context.program.enter(function, None, owner)
    found = [] if context is None else find_returned(context, ())
    return found[0] if found else None


def _find_parts(step: SourceStep) -> Iterator[NumberTrace]:
    """Yield the ways of the numbers that an expression computes another of."""
    node = step.node
    found = 0
    if isinstance(node, ast.BinOp):
        pending: list[ast.expr] = [node.left, node.right]
        while pending and found < MAX_PARTS:
            side = pending.pop(0)
            if isinstance(side, ast.BinOp):
                pending = [side.left, side.right, *pending]
            elif isinstance(side, (ast.Name, ast.Attribute, ast.Subscript, ast.Call)):
                found += 1
                inner = step.at(side, ())
                yield trace_number(inner, step.context.program.compute(inner))
    elif isinstance(node, ast.Call) and node.args and text_of(node.func) in COMPUTING:
        inner = step.at(node.args[0], ())
        counted = _find_count(inner) if text_of(node.func) == "len" else None
        if counted is not None:
            yield NumberTrace((inner, counted))
            return
        changed = _find_change(inner, text_of(inner.node)) if isinstance(inner.node, ast.Name) else None
        if changed is not None:
            yield NumberTrace((inner, changed))
        elif isinstance(inner.node, (ast.Name, ast.Attribute)):
            yield trace_number(inner, step.context.program.compute(inner))
