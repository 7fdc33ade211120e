"""Calls by which a training region only keeps books: they go behind it, and what they are given is computed within.

A list or an average of the program may be another one in each epoch, and is no part of what is compiled. Of
`losses.append(loss.item())`, `history[epoch] = loss.item()` and `meter.update(loss.item(), x.size(0))` only the numbers
are.
"""

from __future__ import annotations

import ast
import gc
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from types import BuiltinFunctionType, FunctionType, ModuleType

from adjoint.compiler.scripts.name_uses import find_name_uses, parameters_of
from adjoint.compiler.scripts.region_syntax import StatementBlock, calls_method, find_exits, is_update
from adjoint.compiler.scripts.region_tail import METRIC, is_pure

# of averages and logs
BOOK_METHODS = frozenset(("add", "add_scalar", "log", "push", "record", "set_description", "set_postfix", "update"))
NUMBERS = frozenset(("dim", "float", "int", "item", "len", "numel", "size"))
CONTAINERS = frozenset((list, set, dict, deque))  # which do nothing when more is added
MAX_OBJECTS = 2000  # that are looked at, of those that an object reaches
NO_BOOKS = ("ema", "lr", "model", "net", "opt", "sched")  # in names of what an update may depend on
Setter = Callable[[ast.expr], None]


def take_calls_out(place: StatementBlock, first: int, stop: int) -> list[tuple[ast.stmt, ast.stmt]]:
    """Move calls that only keep books, of objects that nothing else looks at, behind a region `first:stop`.

    Returns them, each behind the statement that computes what it is given, where it was.
    """
    block, moved = place.block, list[tuple[ast.stmt, ast.stmt]]()
    for holder in [block, *(each.body for each in block[first:stop] if isinstance(each, ast.With))]:
        for position in range(first, stop) if holder is block else range(len(holder)):
            statement = holder[position]
            found = _find_given(statement, block[first:stop])
            if found is None or not _is_apart(found[0], statement, place, block[first:stop]):
                continue
            computation = _compute_before(
                statement, found[1], METRIC.format(f"of_line_{statement.lineno}_{len(moved)}")
            )
            holder[position] = computation
            moved.append((computation, statement))
    block[stop:stop] = [statement for _, statement in moved]
    return moved


def _find_given(statement: ast.stmt, region: Sequence[ast.stmt]) -> tuple[str, list[tuple[ast.expr, Setter]]] | None:
    """The object that a statement keeps books in, and the values for it, each with what puts another in its place."""
    given: list[tuple[ast.expr, Setter]]
    match statement:
        case ast.Expr(ast.Call(ast.Attribute(ast.Name(name), "append"), [value] as values, [])):
            return name, [(value, partial(values.__setitem__, 0))]
        case ast.AugAssign(ast.Name(name), ast.Add(), ast.List([value] as values)):
            return name, [(value, partial(values.__setitem__, 0))]
        case ast.Assign([ast.Subscript(ast.Name(name), key) as place], value) if _is_number(value) and is_pure(key):
            given = [(value, partial(setattr, statement, "value")), (key, partial(setattr, place, "slice"))]
            return None if _may_train(name) else (name, _leave_constants(given))
        case ast.Expr(ast.Call(ast.Attribute(ast.Name(name), method), values, keywords)) if method in BOOK_METHODS:
            given = [(value, partial(values.__setitem__, i)) for i, value in enumerate(values)]
            given += [(keyword.value, partial(setattr, keyword, "value")) for keyword in keywords]
            given = _leave_constants(given)
            others = [each for each in region if each is not statement]
            nodes = (node for each in others for node in ast.walk(each) if isinstance(node, ast.stmt))
            is_seen = any(_does_more(node) for node in nodes if node.lineno > statement.lineno)
            is_book = given and not is_seen and not _may_train(name)
            if is_book and all(_is_book_value(value, others) for value, _ in given):
                return name, given
    return None


def _is_book_value(value: ast.expr, others: Sequence[ast.stmt]) -> bool:
    """Tell whether a value is a number, or is computed of what the other statements make or do not use at all."""
    if not is_pure(value):
        return False
    if _is_number(value):
        return True
    if isinstance(value, ast.Subscript) and ast.unparse(value.value).endswith(".shape"):
        return True
    uses = find_name_uses(others)
    return find_name_uses([ast.Expr(value)]).reads.isdisjoint(uses.reads - uses.writes)


def _leave_constants(given: Iterable[tuple[ast.expr, Setter]]) -> list[tuple[ast.expr, Setter]]:
    """The values that are to be computed: a constant, be it negative, stays where it is."""
    plain = [(value.operand if isinstance(value, ast.UnaryOp) else value, value, put) for value, put in given]
    return [(value, put) for operand, value, put in plain if not isinstance(operand, ast.Constant)]


def _may_train(name: str) -> bool:
    """Tell whether the name of an object is one of those that an update may depend on."""
    return any(word in name.lower() for word in NO_BOOKS)


def _is_number(value: ast.expr) -> bool:
    return is_pure(value) and isinstance(value, ast.Call) and calls_method(ast.Expr(value), NUMBERS)


def _does_more(statement: ast.stmt) -> bool:
    """Tell whether a statement of a region is a call of its own that neither updates nor keeps books: it may look."""
    if not isinstance(statement, ast.Expr) or not isinstance(statement.value, ast.Call):
        return isinstance(statement, ast.If | ast.For | ast.While) and not is_update(statement)
    return not is_update(statement) and not calls_method(statement, {"backward", "append", *BOOK_METHODS})


def _compute_before(statement: ast.stmt, given: Sequence[tuple[ast.expr, Setter]], name: str) -> ast.stmt:
    """The statement that computes under this name what another one is given, which is given the results instead."""
    whole: ast.expr = given[0][0] if len(given) == 1 else ast.Tuple([value for value, _ in given], ast.Load())
    for i, (value, put) in enumerate(given):
        result: ast.expr = ast.Name(name, ast.Load())
        if len(given) > 1:
            result = ast.Subscript(result, ast.Constant(i), ast.Load())
        put(ast.fix_missing_locations(ast.copy_location(result, value)))
    computation = ast.Assign([ast.Name(name, ast.Store())], whole)
    return ast.fix_missing_locations(ast.copy_location(computation, statement))


def _is_apart(name: str, statement: ast.stmt, place: StatementBlock, region: Sequence[ast.stmt]) -> bool:
    """Tell whether no other statement of the region, and no other function, looks at the object of this name."""
    own = {id(node) for node in ast.walk(statement)}
    others = (node for each in region for node in ast.walk(each) if id(node) not in own)
    scopes = (node for node in ast.walk(place.scopes[0]) if isinstance(node, ast.FunctionDef | ast.Lambda))
    is_seen = any(_sees(each, name) for each in scopes if each is not place.scope)
    return not is_seen and not _mentions(name, others) and not find_exits(region)


def _sees(function: ast.FunctionDef | ast.Lambda, name: str) -> bool:
    """Tell whether a function looks at a name that is not its own."""
    own = parameters_of(function)
    if isinstance(function, ast.FunctionDef):
        own = own | find_name_uses(function.body).writes
    return name not in own and _mentions(name, ast.walk(function))


def _mentions(name: str, nodes: Iterable[ast.AST]) -> bool:
    return any(isinstance(node, ast.Name) and node.id == name for node in nodes)


def find_book(deferred: ast.stmt) -> str:
    """Return the name of the object in which a deferred statement keeps books."""
    match deferred:
        case (
            ast.Expr(ast.Call(ast.Attribute(ast.Name(name))))
            | ast.AugAssign(ast.Name(name))
            | ast.Assign([ast.Subscript(ast.Name(name))])
        ):
            return name
    raise AssertionError(ast.unparse(deferred))


def reaches_training_state(book: object) -> bool:
    """Tell whether an object can get at an optimizer, a model or what requires a gradient, and may thus change a step.

    Such an object is no book: `tuner.update(loss.item())` may set a learning rate, and has to before the step.
    """
    if type(book) in CONTAINERS:
        return False
    stack, seen = [book], {id(book)}
    for kind in type(book).__mro__:
        stack += [each for each in vars(kind).values() if isinstance(each, FunctionType)]
    try:
        while stack:
            value = stack.pop()
            if is_training_state(value):
                return True
            if isinstance(value, FunctionType):
                names = value.__code__.co_names
                inside = [value.__globals__[name] for name in names if name in value.__globals__]
                inside += [value.__closure__, value.__defaults__]
            else:
                inside = gc.get_referents(value)
            for each in inside:
                if not gc.is_tracked(each) or isinstance(each, ModuleType | type | BuiltinFunctionType):
                    continue
                has_graph = getattr(each, "grad_fn", None) is not None  # which leads to all that it was computed of
                if not has_graph and id(each) not in seen and len(seen) < MAX_OBJECTS:
                    seen.add(id(each))
                    stack.append(each)
    except Exception:  # noqa: BLE001  whatever an object that stands for another raises: nothing is known of it
        return True
    return False


def is_training_state(value: object) -> bool:
    """Tell whether a value is an optimizer, a module with parameters, or a tensor that requires a gradient."""
    if isinstance(value, dict | list | tuple | FunctionType):
        return False
    if hasattr(value, "param_groups") or getattr(value, "requires_grad", False) is True:
        return True
    return callable(getattr(value, "forward", None)) and any(True for _ in getattr(value, "parameters", tuple)())
