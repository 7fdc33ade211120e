"""Patterns: the first half of a rule, traced once into ops with holes, is looked for among the step's equations."""

from __future__ import annotations

import inspect
import itertools
import math
from collections.abc import Callable, Hashable, Iterator, Mapping
from functools import cache
from typing import TYPE_CHECKING, Literal, NamedTuple, NoReturn, overload

import numpy as np

from adjoint.compiler.ir.graph import Value, spec_of
from adjoint.compiler.ir.symbolic_size import SymbolicSize, has_symbols
from adjoint.core.dtype.dtype import default
from adjoint.core.op.signature import parameters_of
from adjoint.core.op.spec import Spec
from adjoint.core.runtime.interpreter import Interpreter
from adjoint.core.runtime.mode import ModeScope
from adjoint.core.tensor.tensor import Tensor, wrap
from adjoint.core.typing import Function, Operand, Operands, Params

if TYPE_CHECKING:
    from adjoint.core.op.op import Op

Rewrite = Callable[..., Iterator[Operand]]
ANY_SPEC = Spec((), np.dtype(np.float32))  # what a pattern's values have for a shape and type: it fits any

LITERAL_NUMBER = "number"
ARITHMETIC_FAMILIES = ("unary", "binary")  # what holds of these to the last bit holds for real numbers


class Hole(NamedTuple):
    """Stands for the value of an op's parameter."""

    name: str


class Rule(NamedTuple):
    """A rewrite rule: an equation of the form `before` may be replaced by the next expression that `function` yields.

    `holes` are the values in the pattern that stand for any value or number; `fixed_params` are parameters given
    beforehand. `root_operand_ops` tells at a glance where the rule cannot apply: inputs of `before` that have a form of
    their own, each with its op, or LITERAL_NUMBER.
    """

    name: str
    function: Rewrite
    before: Value
    holes: tuple[Value, ...]
    fixed_params: Params
    root_operand_ops: tuple[tuple[int, Op | str | None], ...]

    def may_apply(self, value: Value) -> bool:
        """False if the inputs of an equation of the op of `before` show that the rule does not apply."""
        inputs = value.inputs
        if len(inputs) != len(self.before.inputs):
            return False
        for i, op in self.root_operand_ops:
            x = inputs[i]
            if (x.op if isinstance(x, Value) else LITERAL_NUMBER) is not op:
                return False
        return True


RULES: list[Rule] = []

Bindings = dict[Value | Hole, Operand]  # what the holes of a pattern stand for


@overload
def rule(function: Rewrite, /) -> Rewrite: ...
@overload
def rule(**choices: list[Function]) -> Callable[[Rewrite], Rewrite]: ...
def rule(function: Rewrite | None = None, /, **choices: list[Function]) -> Rewrite | Callable[[Rewrite], Rewrite]:
    """Register a rewrite rule: a generator that yields an expression, and then, if it may be replaced, another.

    Positional parameters stand for tensors or numbers, keyword-only ones for parameters of ops. What follows the first
    yield runs for each place where the first expression is found, with what was found: a condition there is plain
    Python. `@rule(op=[…])`: the keyword-only parameter `op` is given, and there is one rule for each of these.
    """

    def register(function: Rewrite) -> Rewrite:
        fixed = (dict(zip(choices, chosen, strict=True)) for chosen in itertools.product(*choices.values()))
        RULES.extend(_make_rule(function, chosen) for chosen in fixed)
        return function

    return register if function is None else register(function)


def _make_rule(function: Rewrite, fixed: Params) -> Rule:
    names = parameters_of(function)
    params = {name: Hole(name) for name in names.keyword}
    holes = tuple(Value(None, (), {}, ANY_SPEC) for _ in names.positional)
    with ModeScope(recording=False, interpreter=PatternTracer(typed=False)):
        before = next(function(*map(wrap, holes), **{**params, **fixed}))
    name = "_".join([function.__name__, *(getattr(choice, "__name__", str(choice)) for choice in fixed.values())])
    inputs = enumerate(before.array.inputs)
    asked = tuple((i, x.op if isinstance(x, Value) else LITERAL_NUMBER) for i, x in inputs if x not in holes)
    return Rule(name, function, before.array, holes, fixed, asked)


class PatternTracer(Interpreter):
    """Takes the op calls of a rule: `typed` as equations, else as a pattern, in which only the ops count."""

    def __init__(self, typed: bool = True) -> None:
        self.typed = typed

    def emit(self, op: Op, inputs: Operands, params: Params) -> Value:
        """An equation that belongs to no graph yet."""
        operands = tuple(self._operand(x) for x in inputs)
        value = Value(op, operands, params, ANY_SPEC)
        if self.typed:
            spec = spec_of(value)
            value.shape, value.dtype = spec.shape, spec.dtype
        return value

    def _operand(self, x: Operand) -> Operand:
        if isinstance(x, Tensor):
            return x.array
        return x.item() if isinstance(x, (np.ndarray, np.generic)) else x

    def symbols(self, inputs: Operands) -> tuple[Operand, ...]:
        """Return the inputs as they are: nobody asks."""
        return inputs


class _SpecOnly(Value):
    """A value that shows its shape and type, and nothing else."""

    __slots__ = ()

    def __init__(self, value: Value) -> None:
        self.shape, self.dtype = value.shape, value.dtype

    def __getattr__(self, name: str) -> NoReturn:  # of a slot that is not filled
        raise _LooksDeeperError(name)


class _LooksDeeperError(Exception):
    """A rule asks more of a value than its shape and type."""


class _Template(NamedTuple):
    """A rule's result for all values of some shapes and types: an expression of `holes`; None if it refuses them."""

    after: Value | None
    holes: list[Operand]


_TEMPLATES: dict[Hashable, _Template | Literal["deeper"]] = {}  # "deeper": shapes and types do not decide it
MAX_REMEMBERED_TEMPLATES = 4096


def apply_rule(rule: Rule, value: Value) -> Operand:
    """Return the replacement of `value` by a rule, new or a part of `value`; None if the rule does not apply."""
    bound: Bindings = {}
    if not match(rule.before, value, bound):
        return None
    found = [bound[hole] for hole in rule.holes]
    if value.op.family in ARITHMETIC_FAMILIES and any(isinstance(x, Value) and x.dtype.kind == "c" for x in found):
        return None
    params = {key.name: x for key, x in bound.items() if type(key) is Hole}
    spec = Spec(value.shape, value.dtype)
    # what is found for symbolic sizes is of use to no other program, and would keep its sizes alive
    shapes = [x.shape for x in found if isinstance(x, Value)]
    sized = has_symbols((*shapes, spec.shape, *params.values()))
    template = None if sized else _find_template(rule, found, params, spec)
    if template is None:
        return _replace(rule, found, params, spec)
    if template.after is None:
        return None
    filled = {id(hole): x for hole, x in zip(template.holes, found, strict=True) if isinstance(hole, Value)}
    return _fill_in(template.after, filled)


def _replace(rule: Rule, found: list[Operand], params: Params, spec: Spec) -> Value | None:
    """The value that a rule yields in place of its pattern, with `found` in the holes; None if not of this spec."""
    author = PatternTracer(typed=False)
    with ModeScope(recording=False, interpreter=author):
        expressions = rule.function(
            *(wrap(x) if isinstance(x, Value) else x for x in found), **params, **rule.fixed_params
        )
        next(expressions)  # which is there already
        author.typed = True
        after = next(expressions, None)
    after = after.array if isinstance(after, Tensor) else None
    return after if isinstance(after, Value) and Spec(after.shape, after.dtype) == spec else None


def _find_template(rule: Rule, found: list[Operand], params: Params, spec: Spec) -> _Template | None:
    """Return a rule's result by the shapes and types of the values in its holes, and by its parameters.

    None if it looks at more of them.

    A long program has the same matches again and again, most of which are refused.
    """
    ids = [id(x) for x in found]
    holes = [(x.shape, x.dtype) if isinstance(x, Value) else (type(x), repr(x)) for x in found]
    given = (*params.values(), repr(params)) if params else ()  # 0.0 equals -0.0, and True 1
    key = rule.before, default.floating.name, *map(ids.index, ids), *holes, *given, spec.shape, spec.dtype
    try:
        known = _TEMPLATES.get(key)
    except TypeError:  # a parameter without a hash
        return None
    if known is None:
        shown = {id(x): _SpecOnly(x) if isinstance(x, Value) else x for x in found}
        given_holes = [shown[i] for i in ids]
        try:
            known = _Template(_replace(rule, given_holes, params, spec), given_holes)
        except _LooksDeeperError:
            known = "deeper"
        if len(_TEMPLATES) == MAX_REMEMBERED_TEMPLATES:
            _TEMPLATES.clear()
        _TEMPLATES[key] = known
    return None if known == "deeper" else known


def _fill_in(value: Value, filled: dict[int, Value]) -> Value:
    """The expression of a template, with values in its holes; `filled`: what stands for its parts, by identity."""
    made = filled.get(id(value))
    if made is None:
        inputs = tuple([_fill_in(x, filled) if isinstance(x, Value) else x for x in value.inputs])
        made = filled[id(value)] = Value(value.op, inputs, value.params, Spec(value.shape, value.dtype))
    return made


def match(pattern: Operand, value: Operand, bound: Bindings) -> bool:
    """True if `value` has the form of `pattern`; `bound` then tells what each hole stands for."""
    if not isinstance(pattern, Value):
        return not isinstance(value, Value) and value is not None and same_number(pattern, value)
    if pattern.op is None:
        if pattern not in bound:
            bound[pattern] = value
            return value is not None
        known = bound[pattern]
        if isinstance(known, Value) or isinstance(value, Value):
            return known is value
        return same_number(known, value)
    if not isinstance(value, Value) or value.op is not pattern.op or len(value.inputs) != len(pattern.inputs):
        return False
    for p, x in zip(pattern.inputs, value.inputs, strict=True):
        if not match(p, x, bound):
            return False
    return all(_match_param(p, param_or_default(value, key), bound) for key, p in pattern.params.items())


def _match_param(pattern: Operand, given: object, bound: Bindings) -> bool:
    known = pattern if type(pattern) is not Hole else bound.setdefault(pattern, given)
    if isinstance(known, (int, float)) and isinstance(given, (int, float)):
        return same_number(known, given)
    return bool(known == given)


def param_or_default(value: Value, name: str) -> Operand:
    """A parameter of the equation, or what it is unless given."""
    return value.params[name] if name in value.params else _defaults(value.op)[name].default


@cache
def _defaults(op: Op) -> Mapping[str, inspect.Parameter]:
    return inspect.signature(op.evaluate).parameters


def same_number(a: float, b: complex) -> bool:
    """True for equal numbers, 1 and 1.0 too, but not for 0.0 and -0.0."""
    if isinstance(a, complex) or isinstance(b, complex):
        return bool(a == b)
    if type(a) is SymbolicSize or type(b) is SymbolicSize:
        return a == b
    return bool(a == b) and math.copysign(1.0, a) == math.copysign(1.0, b)
