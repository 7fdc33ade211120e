"""Values of the user's frames: the names for them, and the lines that made them."""

from __future__ import annotations

import ast
import builtins
import inspect
import operator
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from types import CodeType, FrameType, ModuleType

import numpy as np

from adjoint.core.graph.source_location import library_files
from adjoint.core.op.spec import describe
from adjoint.core.runtime.package_name import is_name_of_package
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Operand
from adjoint.diagnosis.call_stack import Stack, user_files
from adjoint.diagnosis.former_values import find_former_turn, is_in_first_turn, leave_other_kinds
from adjoint.diagnosis.source_expressions import (
    Scope,
    SourceFile,
    find_assignment,
    find_attribute_assignment,
    find_expression,
    find_result,
    find_value_of,
    is_comprehension_item,
    parameter_names,
    parse_source,
    shorten,
    text_of,
)

MAX_SEARCHED_ELEMENTS = 1 << 20
MODULE_CALLS = frozenset({"_wrapped_call_impl", "_call_impl", "_watched_call", "__call__", "trace_forward"})
MISSING = object()
TENSOR_ATTRIBUTES = frozenset({"T", "mT", "H", "data", "grad"})
COMPREHENSIONS = ("<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>")  # functions of Python 3.11
CREATION = re.compile(r"\.(?:zeros|ones|empty|full|randn?|new_\w+)$")
ARITHMETIC: dict[type[ast.operator], Callable[[Operand, Operand], Operand]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}


@dataclass(frozen=True)
class Origin:
    """The statement that gave a name its value, or the argument of a call that did."""

    source: SourceFile
    node: ast.AST

    @property
    def value(self) -> ast.expr | None:
        """The expression of which the value was made."""
        if isinstance(self.node, (ast.Assign, ast.AnnAssign, ast.AugAssign)):
            return self.node.value
        return self.node if isinstance(self.node, ast.expr) else None

    def value_of(self, name: str) -> ast.expr | None:
        """Return the expression that gives a name its value: of `a, b = x, y` one of them."""
        value = self.value
        target = self.node.targets[0] if isinstance(self.node, ast.Assign) else None
        if isinstance(value, ast.Tuple) and isinstance(target, ast.Tuple) and len(value.elts) == len(target.elts):
            names = [text_of(each) for each in target.elts]
            return value.elts[names.index(name)] if name in names else value
        return value

    def place_in_tuple(self, name: str) -> int | None:
        """Return which of several values the statement gives a name."""
        target = self.node.targets[0] if isinstance(self.node, ast.Assign) else getattr(self.node, "target", None)
        if isinstance(self.node, (ast.For, ast.AsyncFor)) and text_of(self.node.iter).startswith("enumerate("):
            target = target.elts[1] if isinstance(target, ast.Tuple) and len(target.elts) == 2 else None
        names = [text_of(each) for each in target.elts] if isinstance(target, (ast.Tuple, ast.List)) else []
        return names.index(name) if name in names else None

    def place(self) -> str:
        """Return the file and the line: `train.py:12`."""
        return self.source.place_of(self.node)

    def describe(self) -> str:
        """Return the place and the text: `train.py:12: x = x.flatten(1)`."""
        return f"{self.place()}: {self.source.text_of(self.node)}"


@dataclass(frozen=True)
class NamedValue:
    """A part of the user's expression: its text, its value, and where the value was made."""

    text: str
    value: Operand
    origin: Origin | None = None
    returned: Origin | None = None  # the `return` of the user's function that gave it
    source: NamedValue | None = None  # what it is a slice, a batch or another form of

    def describe(self) -> str:
        """Return the name, the value, and its origin."""
        if self.origin is None:
            return f"{self.text}: {describe_value(self.value)}"
        given = getattr(self.returned.node, "value", None) if self.returned is not None else None
        is_given = self.value is not None or not isinstance(given, (ast.Call, ast.BinOp, ast.Tuple, ast.List, ast.Dict))
        place = None if self.returned is None else self.origin.place_in_tuple(self.text)
        inside = f"; {describe_return(self.returned, place)}" if self.returned and is_given else ""
        if self.source is not None and self.source.origin is not None:
            inside += f"; {self.source.text} is from {self.source.origin.describe()}"
        return f"{self.text}: {describe_value(self.value)}, from {self.origin.describe()}{inside}"


def describe_value(value: object) -> str:
    """Return what tells a value apart: type and shape of a tensor, the first line of a module, a short text else."""
    if isinstance(value, Tensor):
        return describe_tensor(value)
    if is_module(value):
        lines: list[str] = []
        with suppress(Exception):  # settings of a wrong kind may have no text
            lines = repr(value).splitlines()
        return lines[0] if len(lines) == 1 else type(value).__name__
    if isinstance(value, (list, tuple)) and value and all(isinstance(each, Tensor) for each in value):
        shown = ", ".join(describe_value(each) for each in value[:4])
        return f"{type(value).__name__} of {len(value)}: {shown}{', …' if len(value) > 4 else ''}"
    if isinstance(value, ModuleType):  # one that loads when it is asked for anything
        return f"module {ModuleType.__getattribute__(value, '__name__')}"
    if hasattr(value, "__dict__") and not isinstance(value, (list, tuple, dict, set, Exception)):
        # the text of an object of the user's may be the user's code
        is_own = is_name_of_package(type(value).__module__)
        text = repr(value) if is_own and type(value).__repr__ is not object.__repr__ else ""
        return shorten(text) if text and "\n" not in text and not text.startswith("<") else type(value).__name__
    return shorten(repr(value))


def describe_tensor(x: Tensor) -> str:
    """Return type and shape; of integers, such as classes and indices, the least and the greatest too."""
    if hasattr(type(x), "materialize"):
        return "a parameter of a lazy layer, without a shape yet"
    array = x.array
    if not isinstance(array, np.ndarray):
        return describe(array) if hasattr(array, "dtype") else "a tensor"
    told = describe(array)
    if array.dtype.kind in "iu" and 0 < array.size <= MAX_SEARCHED_ELEMENTS:
        told += f" of {array.min()} to {array.max()}" if array.size > 1 else f" of {array.min()}"
    return told


def is_module(value: object) -> bool:
    """Return whether the value is a module of `nn`."""
    return hasattr(type(value), "forward") and "_modules" in getattr(value, "__dict__", ())


def find_return(origin: Origin | None, stack: Stack) -> Origin | None:
    """Return the last `return` or `yield` of the user's function that gives what a statement assigns.

    In a loop over a loader, that is the one of the dataset's `__getitem__`.
    """
    node = None if origin is None else origin.node
    call = node.iter if isinstance(node, (ast.For, ast.AsyncFor)) else None if origin is None else origin.value
    if call is None:
        return None
    for place in stack:
        for function in _called_functions(call, place.frame):
            code = getattr(function, "__code__", None)
            if isinstance(code, CodeType) and user_files[code.co_filename]:
                return find_return_in(code)
    if origin is not None and isinstance(call, (ast.Name, ast.Attribute)) and call is not origin.value:
        return find_origin(origin.source, call, stack)  # the loader
    return None


def describe_return(returned: Origin, place: int | None = None) -> str:
    """Return where a function's value is given, and where the name that it gives was made: of a tuple, one of them."""
    given = getattr(returned.node, "value", None)
    given = given.value if isinstance(given, ast.Yield) else given
    if isinstance(given, ast.Tuple) and place is not None and place < len(given.elts):
        given = given.elts[place]
    given = _leave_creation(given)
    while isinstance(given, (ast.Call, ast.Attribute, ast.Subscript)):  # of x.method(…), x[…] and x.name, it is x
        if isinstance(given, ast.Attribute) and text_of(given.value) == "self":
            break
        given = getattr(given, "func", getattr(given, "value", None))
    told = f"given at {returned.describe()}"
    if isinstance(given, ast.Attribute) and text_of(given.value) == "self":
        owner = returned.source.parents.get(returned.source.scope_of(given))
        kept = returned.source.attribute_assignments.get((getattr(owner, "name", ""), given.attr))
        return f"{told}, made at {Origin(returned.source, kept[0]).describe()}" if kept else told
    if isinstance(given, ast.Tuple):  # of several, that of the first
        given = next((each for each in map(_leave_creation, given.elts) if isinstance(each, ast.Name)), given)
    if not isinstance(given, ast.Name):
        return told
    made = find_assignment(returned.source, returned.source.scope_of(given), given.id, given)
    return told if made is None else f"{told}, made at {Origin(returned.source, made).describe()}"


def _leave_creation(node: ast.AST | None) -> ast.AST | None:
    """Return the name of the shape of which `torch.zeros(shape)` makes a tensor."""
    is_made = isinstance(node, ast.Call) and CREATION.search(text_of(node.func)) is not None
    named = [each for each in node.args if isinstance(each, ast.Name)] if isinstance(node, ast.Call) else []
    return named[0] if is_made and len(named) == 1 else node


def find_return_in(code: CodeType) -> Origin | None:
    """Return the last `return` or `yield` of a function."""
    source = parse_source(code.co_filename)
    result = None if source is None else find_result(source, code.co_firstlineno)
    return None if source is None or result is None else Origin(source, result)


def _called_functions(node: ast.expr, frame: FrameType) -> Iterator[Operand]:
    """Yield the functions that give the value of an expression: a call's, or those that a loader reads samples by."""
    owner = evaluate(node, frame)
    if owner is not MISSING:
        yield getattr(type(read_attribute(owner, "dataset")), "__getitem__", MISSING)
        yield getattr(type(owner), "__iter__", MISSING)
    if not isinstance(node, ast.Call):
        return
    function = evaluate(node.func, frame)
    if function is MISSING and isinstance(node.func, ast.Attribute):
        made = node.func.value.func if isinstance(node.func.value, ast.Call) else None
        holder, kind = evaluate(node.func.value, frame), MISSING if made is None else evaluate(made, frame)
        kind = kind if isinstance(kind, type) else type(holder)  # of Buffer().sample()
        function = getattr(kind, node.func.attr, MISSING)
    holder = evaluate(node.func.value, frame) if isinstance(node.func, ast.Attribute) else MISSING
    if isinstance(holder, type) and getattr(node.func, "attr", "") == "apply":
        yield getattr(holder, "forward", MISSING)  # of a custom function
    yield type(function).forward if is_module(function) else function
    if isinstance(function, type):
        yield vars(function).get("__getitem__", vars(function).get("__iter__", MISSING))
    for argument in node.args:  # of DataLoader(…), enumerate(…), tqdm(…)
        value = evaluate(argument, frame)
        is_source = isinstance(argument, ast.Call) or (value is not MISSING and hasattr(type(value), "__getitem__"))
        if is_source and not isinstance(value, Tensor):
            yield getattr(type(value), "__getitem__", MISSING)
            yield from _called_functions(argument, frame)


def evaluate(node: ast.expr, frame: FrameType) -> Operand:
    """Return the value of names, attributes and items, without running any of the user's code; MISSING else."""
    if isinstance(node, ast.Name):
        for names in (frame.f_locals, frame.f_globals, vars(builtins)):
            if node.id in names:
                return names[node.id]
        return MISSING
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Attribute):
        owner = evaluate(node.value, frame)
        return MISSING if owner is MISSING else read_attribute(owner, node.attr)
    if isinstance(node, ast.Subscript):
        return _read_item(evaluate(node.value, frame), evaluate(node.slice, frame))
    return compute_integer(node, partial(evaluate, frame=frame))


def compute_integer(node: ast.expr, look: Callable[[ast.expr], Operand]) -> Operand:
    """Return the value of arithmetic with whole numbers, such as `i + 1` and `-1`; MISSING else."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        value = look(node.operand)
        return -value if type(value) is int else MISSING
    if not isinstance(node, ast.BinOp) or type(node.op) not in ARITHMETIC:
        return MISSING
    left, right = look(node.left), look(node.right)
    if type(left) is not int or type(right) is not int:
        return MISSING
    with suppress(ZeroDivisionError):
        return ARITHMETIC[type(node.op)](left, right)
    return MISSING


def _look_up(node: ast.expr, frame: FrameType) -> Operand:
    value = evaluate(node, frame)
    return None if value is MISSING else value


def read_attribute(owner: object, name: str) -> Operand:
    """Return an attribute that the object holds or a module has registered; MISSING where it would be computed."""
    if isinstance(owner, Tensor):
        with suppress(Exception):  # one that a tensor of this shape has not, which may be the error
            return getattr(owner, name) if name in TENSOR_ATTRIBUTES else MISSING
        return MISSING
    if isinstance(owner, ModuleType) and type(owner) is not ModuleType:
        return getattr(owner, name, MISSING)  # one that loads its names when they are asked for
    fields = getattr(type(owner), "_fields", ())
    if isinstance(owner, tuple) and name in fields and len(owner) == len(fields):
        return tuple.__getitem__(owner, fields.index(name))
    held = getattr(owner, "__dict__", {})
    for table in (held, *(held.get(key) or {} for key in ("_parameters", "_buffers", "_modules"))):
        if isinstance(table, Mapping) and name in table:
            return table[name]
    for kind in type(owner).__mro__ if type(owner).__module__ != "builtins" else ():
        value = vars(kind).get(name, MISSING)
        if value is not MISSING:  # a value that all objects of a class share, unless it would be computed
            return MISSING if hasattr(type(value), "__get__") else value
    return MISSING


def _read_item(owner: Operand, key: Operand) -> Operand:
    if type(key) not in (int, str, bool) or owner is MISSING:  # of others, hashes and indices may be the user's code
        return MISSING
    if is_module(owner):
        owner = list(vars(owner)["_modules"].values()) if isinstance(key, int) else vars(owner)["_modules"]
    if type(owner) in (list, tuple, dict):
        with suppress(LookupError, TypeError):
            return owner[key]
    return MISSING


def find_origin(source: SourceFile, node: ast.expr, stack: Stack) -> Origin | None:
    """Return the statement that gave the name or the attribute its value; None where the source does not say it."""
    if isinstance(node, ast.Subscript):
        name = f"{text_of(node)}.append"
        appended = next((each for each in source.calls.get("append", ()) if text_of(each.func) == name), None)
        return find_origin(source, node.value, stack) if appended is None else Origin(source, appended)
    if isinstance(node, ast.Attribute):
        owner = evaluate(node.value, stack[0].frame)
        found = None if owner is MISSING else find_attribute_assignment(owner, node.attr)
        outside = None if owner is MISSING else _find_outside_assignment(owner, node.attr, stack)
        if outside is not None:
            return outside
        if found is not None:
            filled = _find_filling(found[0], found[1], f"self.{node.attr}")
            return Origin(found[0], filled or found[1])
        option = find_option(source, node.attr) if type(owner).__name__ == "Namespace" else None
        if option is not None:
            return Origin(source, option)
        return find_origin(source, node.value, stack)  # it came with its owner
    if not isinstance(node, ast.Name):
        return None
    scope = source.scope_of(node)
    if len(stack) > 1 and stack[0].frame.f_code.co_name in COMPREHENSIONS and not is_comprehension_item(source, node):
        return find_origin(source, node, stack[1:])
    value = evaluate(node, stack[0].frame)
    look = partial(_look_up, frame=stack[0].frame)
    repeated = find_former_turn(source, node, look)
    if repeated is not None:
        return Origin(source, repeated)
    assignment = find_assignment(source, scope, node.id, node, None if value is MISSING else type(value))
    assignment = leave_other_kinds(source, scope, node, assignment, look)
    is_first = node.id in parameter_names(scope) and is_in_first_turn(
        source, node, assignment, partial(_look_up, frame=stack[0].frame)
    )
    if (assignment is None and node.id in parameter_names(scope)) or is_first:
        return _find_argument(scope, node.id, stack)
    if assignment is None and not isinstance(scope, ast.Module) and node.id not in stack[0].frame.f_locals:
        assignment = find_assignment(source, source.tree, node.id, None)
    if isinstance(assignment, ast.For) and is_module(value) and isinstance(assignment.iter, (ast.Name, ast.Attribute)):
        return find_origin(source, assignment.iter, stack) or Origin(source, assignment)  # the list that holds it
    filled = None if assignment is None else _find_filling(source, assignment, node.id)
    return None if assignment is None else Origin(source, filled or assignment)


def find_option(source: SourceFile, name: str) -> ast.Call | None:
    """Return the call of `add_argument` that defines an option of the command line."""
    for each in source.nodes_of(ast.Call):
        words = each.args if text_of(each.func).endswith("add_argument") else []
        dest = [part.value for part in each.keywords if part.arg == "dest"]
        texts = [part.value for part in (dest or words) if isinstance(part, ast.Constant)]
        if name in {str(text).lstrip("-").replace("-", "_") for text in texts}:
            return each
    return None


def _find_filling(source: SourceFile, assignment: ast.stmt, name: str) -> ast.AST | None:
    """Return the first `name.append(…)` of a list that is made empty."""
    value = find_value_of(assignment, name) or getattr(assignment, "value", None)
    is_list = isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and text_of(value) == "list()"
    if not is_list and not (isinstance(value, ast.List) and not value.elts):
        return None
    for node in ast.walk(source.tree):
        is_append = isinstance(node, ast.Call) and text_of(node.func) == f"{name}.append"
        if is_append:
            return node
    return None


def _find_outside_assignment(owner: object, name: str, stack: Stack) -> Origin | None:
    """Return the statement `model.name = …`, not of the class itself, by which one of the frames set the attribute."""
    for place in stack:
        source, _ = find_expression(place) or (None, None)
        for target in source.outside_assignments.get(name, ()) if source is not None else ():
            if source is not None and evaluate(target.value, place.frame) is owner:
                return Origin(source, source.statement_of(target))
    return None


def _find_argument(scope: Scope, name: str, stack: Stack) -> Origin | None:
    """Return where the argument of a function was made: by the caller, or further out."""
    source, call = (find_expression(stack[1]) if len(stack) > 1 else None) or (None, None)
    if source is None or not isinstance(call, ast.Call):
        return None
    # between the user's call and the user's function, modules' calls alone pass arguments on as they are, and those of
    # a function that wraps it, such as a compiled one
    wrapped = inspect.unwrap(evaluate(call.func, stack[1].frame))
    function = type(wrapped).forward if is_module(wrapped) else wrapped
    is_wrapped = getattr(function, "__code__", None) is stack[0].frame.f_code
    if not is_wrapped and not all(
        library_files[each.f_code.co_filename] and each.f_code.co_name in MODULE_CALLS for each in stack[1].called
    ):
        return None
    names = parameter_names(scope)
    place = names.index(name) - (names[0] == "self")
    argument = next((each.value for each in call.keywords if each.arg == name), None)
    if argument is None and 0 <= place < len(call.args):
        given = call.args[: place + 1]
        argument = None if any(isinstance(each, ast.Starred) for each in given) else given[-1]
    if argument is None:
        return None
    return find_origin(source, argument, stack[1:]) or Origin(source, argument)
