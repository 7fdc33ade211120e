"""Expressions of a program's source, found from frames: what a line calls, and where a name was given its value."""

from __future__ import annotations

import ast
import inspect
import linecache
import sys
from collections.abc import Iterator
from functools import cached_property, lru_cache
from itertools import islice
from types import CodeType
from typing import TypeVar, cast

from adjoint.core.graph.source_location import Site
from adjoint.diagnosis.call_stack import UserFrame, user_files

Node = TypeVar("Node", bound=ast.AST)
MAX_PARSED_FILES = 8
MAX_KNOWN_INSTRUCTIONS = 256
REGISTRATIONS = frozenset(f"self.{name}" for name in ("register_buffer", "register_parameter", "add_module"))
MAX_SHOWN_CHARACTERS = 100
Scope = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef | ast.Module
SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef, ast.Module)
Position = tuple[int, int, int, int]  # first line, last line, first column, last column, as the syntax tree has them


class SourceFile:
    """The syntax tree of a file or a notebook's cell, with the parent of every node."""

    def __init__(self, name: str, text: str) -> None:
        self.name, self.tree = name, ast.parse(text)
        self.lines = [line.encode() for line in text.splitlines()]  # columns count bytes
        self.parents: dict[ast.AST, ast.AST] = {}  # of all nodes but the tree, in the order of `ast.walk`
        nodes: list[ast.AST] = [self.tree]
        for node in nodes:  # which grows
            for child in ast.iter_child_nodes(node):
                self.parents[child] = node
                nodes.append(child)
        self.has_walrus = ":=" in text
        self._assignments: dict[ast.AST, dict[str, list[ast.stmt]]] = {}

    def scope_of(self, node: ast.AST) -> Scope:
        """Return the innermost function, class or module around the node."""
        node = self.parents.get(node, self.tree)
        while not isinstance(node, SCOPES):
            node = self.parents[node]
        return node

    def statement_of(self, node: ast.AST) -> ast.AST:
        """Return the statement of which the node is a part."""
        while not isinstance(node, (ast.stmt, ast.Module)):
            node = self.parents[node]
        return node

    def place_of(self, node: ast.AST) -> str:
        """Return the file and the line of a node: `train.py:12`."""
        return Site(self.name, getattr(node, "lineno", 0), "").describe_briefly()

    def text_of(self, node: ast.AST) -> str:
        """Return the statement around a node as it is written; of a block its first line."""
        statement = self.statement_of(node)
        if isinstance(node, ast.expr) and getattr(statement, "lineno", 0) != node.lineno:
            statement = node  # an argument on a line of its own
        if hasattr(statement, "body"):
            return shorten(linecache.getline(self.name, getattr(statement, "lineno", 0)).partition("#")[0])
        own = _position(statement)
        return "" if own is None else self._text_between(own)

    def _text_between(self, place: Position) -> str:
        lines = self.lines[place[0] - 1 : place[1]]
        lines[-1] = lines[-1][: place[3]]
        lines[0] = lines[0][place[2] :]
        return shorten(b" ".join(lines).decode())

    def assignments_in(self, scope: Scope) -> dict[str, list[ast.stmt]]:
        """Return the statements of a scope, in their order, by the names that they give a value."""
        found = self._assignments.get(scope)
        if found is None:
            found = self._assignments[scope] = {}
            for statement in _statements(scope):
                for name in _bound_names(statement, self.has_walrus):
                    found.setdefault(name, []).append(statement)
        return found

    def nodes_of(self, kind: type[Node]) -> list[Node]:
        """Return the nodes that are of a kind, in the order of `ast.walk`."""
        return cast("list[Node]", self._nodes_by_kind.get(kind, []))

    @cached_property
    def _nodes_by_kind(self) -> dict[type[ast.AST], list[ast.AST]]:
        found: dict[type[ast.AST], list[ast.AST]] = {}
        for node in self.parents:
            found.setdefault(type(node), []).append(node)
        return found

    @cached_property
    def calls(self) -> dict[str, list[ast.Call]]:
        """The calls of the file by the last name of what they call."""
        found: dict[str, list[ast.Call]] = {}
        for call in self.nodes_of(ast.Call):
            found.setdefault(text_of(call.func).rpartition(".")[2], []).append(call)
        return found

    def calls_of(self, *names: str) -> list[ast.Call]:
        """Return the calls of functions and methods of these names."""
        return [call for name in names for call in self.calls.get(name, ())]

    @cached_property
    def mutations(self) -> list[tuple[ast.expr, list[tuple[object, ast.expr]]]]:
        """The objects that statements change, with what is put in: the key and the value; without a key, a table."""
        found: list[tuple[ast.expr, list[tuple[object, ast.expr]]]] = []
        for statement in self.nodes_of(ast.Assign):
            for target in statement.targets:
                if isinstance(target, ast.Attribute):
                    found.append((target.value, [(target.attr, statement.value)]))
                elif isinstance(target, ast.Subscript) and isinstance(target.slice, ast.Constant):
                    found.append((target.value, [(target.slice.value, statement.value)]))
        for call in self.calls_of("update"):
            if isinstance(call.func, ast.Attribute):
                tables: list[tuple[object, ast.expr]] = [(None, each) for each in call.args]
                found.append((call.func.value, tables + [(each.arg, each.value) for each in call.keywords]))
        return found

    @cached_property
    def outside_assignments(self) -> dict[str, list[ast.Attribute]]:
        """The targets of the statements `model.name = …`, of anything but `self`, by the attribute's name."""
        found: dict[str, list[ast.Attribute]] = {}
        for node in self.nodes_of(ast.Attribute):
            if isinstance(node.ctx, ast.Store) and text_of(node.value) != "self":
                found.setdefault(node.attr, []).append(node)
        return found

    @cached_property
    def attribute_assignments(self) -> dict[tuple[str, str], list[ast.stmt]]:
        """The statements `self.name = …` of each class, by its name and the attribute's."""
        found: dict[tuple[str, str], list[ast.stmt]] = {}
        for scope in self.nodes_of(ast.ClassDef):
            for node in ast.walk(scope):
                if isinstance(node, (ast.Assign, ast.AnnAssign)):
                    for name in _bound_attributes(node):
                        found.setdefault((scope.name, name), []).append(node)
                    if self.scope_of(node) is scope:  # of all objects of the class
                        for name in _bound_names(node, self.has_walrus):
                            found.setdefault((scope.name, name), []).append(node)
                elif isinstance(node, ast.Expr):
                    registered = _registered_name(node.value)
                    if registered is not None:
                        found.setdefault((scope.name, registered), []).append(node)
        return found


def shorten(text: str) -> str:
    """Return the text on one line, without its end if it is long."""
    text = " ".join(text.split())
    return text if len(text) <= MAX_SHOWN_CHARACTERS else text[: MAX_SHOWN_CHARACTERS - 2] + " …"


_parsed: dict[str, tuple[list[str], SourceFile | None]] = {}  # by name, with the lines that `linecache` holds


def _parse(name: str, lines: list[str]) -> SourceFile | None:
    try:
        return SourceFile(name, "".join(lines))
    except (SyntaxError, ValueError, RecursionError):
        return None


def parse_source(name: str, names: dict[str, object] | None = None) -> SourceFile | None:
    """Return the syntax tree of a file; None where its source cannot be had."""
    lines = linecache.getlines(name, names)
    if not lines:
        return None
    known = _parsed.get(name)
    if known is None or (known[0] is not lines and known[0] != lines):
        _parsed.pop(name, None)
        while len(_parsed) >= MAX_PARSED_FILES:
            del _parsed[next(iter(_parsed))]
        known = _parsed[name] = lines, _parse(name, lines)
    return known[1]


def find_expression(place: UserFrame) -> tuple[SourceFile, ast.AST] | None:
    """Return the expression or statement that the frame carries out, and its file."""
    code = place.frame.f_code
    source = parse_source(code.co_filename, place.frame.f_globals)
    found = None if source is None else _find_instruction(source, code, place.offset)
    return None if source is None or found is None else (source, found)


@lru_cache(maxsize=MAX_KNOWN_INSTRUCTIONS)
def _find_instruction(source: SourceFile, code: CodeType, offset: int) -> ast.AST | None:
    line, end_line, column, end_column = next(islice(code.co_positions(), offset // 2, None), (None,) * 4)
    if line is None or end_line is None or column is None or end_column is None:
        return None
    return _find_innermost(source.tree, (line, end_line, column, end_column))


def _find_innermost(node: ast.AST, place: Position) -> ast.AST | None:
    """Return the innermost expression or statement below a node that has a place within it."""
    around = _position(node)
    for child in ast.iter_child_nodes(node):
        own = _position(child)
        if own is None or getattr(child, "decorator_list", None):  # whose decorators lie before it
            found = _find_innermost(child, place)
            if found is not None:
                return found
        if own is not None and (own[0], own[2]) <= (place[0], place[2]) and (own[1], own[3]) >= (place[1], place[3]):
            if own == around and isinstance(node, ast.JoinedStr):
                continue  # Python 3.11 gives the texts in an f-string the position of the whole
            return _find_innermost(child, place) or child
    return None


def _position(node: ast.AST) -> Position | None:
    if not isinstance(node, (ast.expr, ast.stmt)) or node.end_lineno is None or node.end_col_offset is None:
        return None
    return node.lineno, node.end_lineno, node.col_offset, node.end_col_offset


def text_of(node: ast.AST) -> str:
    """Return an expression as a program writes it."""
    names: list[str] = []
    part = node
    while isinstance(part, ast.Attribute):  # most are dotted names, for which nothing need be unparsed
        names.append(part.attr)
        part = part.value
    return shorten(".".join([part.id, *reversed(names)]) if isinstance(part, ast.Name) else ast.unparse(node))


def find_assignment(
    source: SourceFile, scope: Scope, name: str, before: ast.AST | None, kind: type | None = None
) -> ast.stmt | None:
    """Return the last statement of the scope that gives `name` a value before the node; else the last of all.

    What stands later in a loop around the node comes before it too. Where the `kind` of the value is known, a constant
    of another type did not give it. A parameter has its value from the call, unless a loop comes round to a statement.
    """
    line = (before.lineno, before.col_offset) if isinstance(before, (ast.expr, ast.stmt)) else (sys.maxsize, 0)
    own = None if before is None else source.statement_of(before)
    earlier, later, literal = None, None, None
    for statement in source.assignments_in(scope).get(name, ()):
        made = find_value_of(statement, name) or getattr(statement, "value", None)
        if statement is own or (isinstance(made, ast.Constant) and kind not in (None, type(made.value))):
            continue
        if (statement.lineno, statement.col_offset) < line:
            earlier = statement
            literal = statement if kind is type(None) and isinstance(made, ast.Constant) else literal
        elif before is None or name not in parameter_names(scope) or _share_loop(source, before, statement):
            later = statement
    if literal is not None and earlier is not None and before is not None:  # a block that did not run changed nothing
        block = source.parents.get(earlier)
        earlier = earlier if any(each is before for each in ast.walk(block or before)) else literal
    return earlier or later


def find_value_of(statement: ast.stmt, name: str) -> ast.expr | None:
    """Return which of several values a statement such as `a, b = 1, None` gives to a name."""
    target = statement.targets[0] if isinstance(statement, ast.Assign) else None
    made = statement.value if isinstance(statement, ast.Assign) else None
    if not isinstance(target, ast.Tuple) or not isinstance(made, ast.Tuple) or len(target.elts) != len(made.elts):
        return None
    pairs = zip(target.elts, made.elts, strict=True)
    return next((value for each, value in pairs if isinstance(each, ast.Name) and each.id == name), None)


def _share_loop(source: SourceFile, one: ast.AST, other: ast.AST) -> bool:
    """Return whether a loop holds both nodes."""
    node: ast.AST | None = one
    while node is not None and not isinstance(node, SCOPES):
        if isinstance(node, (ast.For, ast.AsyncFor, ast.While)) and any(each is other for each in ast.walk(node)):
            return True
        node = source.parents.get(node)
    return False


def parameter_names(scope: Scope) -> list[str]:
    """Return the parameters of a function that take one argument each."""
    if isinstance(scope, (ast.ClassDef, ast.Module)):
        return []
    given = scope.args
    return [each.arg for each in (*given.posonlyargs, *given.args, *given.kwonlyargs)]


def own_parameter_names(source: SourceFile, scope: Scope) -> list[str]:
    """Return the parameters that calls give a function: of a method, those after the object or the class."""
    names = parameter_names(scope)
    is_method = isinstance(source.parents.get(scope), ast.ClassDef)
    return names[is_method and names[:1] in (["self"], ["cls"]) :]


def find_attribute_assignment(owner: object, name: str) -> tuple[SourceFile, ast.stmt] | None:
    """Return the statement `self.name = …` of the classes of `owner`, that of `__init__` first.

    Of several that make modules, it is the first that makes one like that which the attribute holds.
    """
    held = (owner.__dict__.get("_modules") or {}).get(name) if hasattr(owner, "__dict__") else None
    for kind in owner.__mro__ if isinstance(owner, type) else type(owner).__mro__:
        # by the file of its module; of a class of a notebook or of `exec`, by that of one of its functions
        codes = (getattr(value, "__code__", None) for value in vars(kind).values())
        method_file = next((code.co_filename for code in codes if inspect.iscode(code)), None)
        file = getattr(sys.modules.get(kind.__module__), "__file__", None) or method_file
        if file is None or not user_files[file]:
            continue
        source = parse_source(file)
        found = [] if source is None else source.attribute_assignments.get((kind.__name__, name), [])
        alike = [each for each in found if held is None or _makes_alike(each, held)]
        outside = [] if source is None or alike else source.outside_assignments.get(name, [])
        around = [source.statement_of(each) for each in outside] if source is not None else []
        later = [each for each in around if isinstance(each, ast.stmt) and _makes_alike(each, held)]
        if source is not None and later:
            return source, later[-1]
        found = alike or found
        if source is not None and found:
            methods = [getattr(source.scope_of(node), "name", "") for node in found]
            return source, found[methods.index("__init__") if "__init__" in methods else 0]
    return None


def _makes_alike(statement: ast.stmt, module: object) -> bool:
    """Return whether the call that a statement assigns makes a module of that class, with as many parts."""
    call = getattr(statement, "value", None)
    if not isinstance(call, ast.Call) or text_of(call.func).rpartition(".")[2] != type(module).__name__:
        return False
    names = parameters_of(type(module).__init__)[1:] if hasattr(type(module), "forward") else []
    for name, each in zip(names, call.args, strict=False):
        size = getattr(module, name, None)
        if isinstance(each, ast.Constant) and type(each.value) is int and type(size) is int and each.value != size:
            return False  # a size that it has not
    is_listed = type(module).__name__ == "Sequential" and not any(isinstance(each, ast.Starred) for each in call.args)
    return not is_listed or len(call.args) == len(module.__dict__["_modules"])


def parameters_of(function: object) -> tuple[str, ...]:
    """Return the names of the parameters of a function of Python."""
    code = getattr(function, "__code__", None)
    return code.co_varnames[: code.co_argcount] if inspect.iscode(code) else ()


def is_comprehension_item(source: SourceFile, node: ast.Name) -> bool:
    """Return whether a comprehension around a name gives it its values, and not the function around that."""
    around: ast.AST | None = node
    while around is not None and not isinstance(around, ast.stmt):
        targets = (part for each in getattr(around, "generators", ()) for part in ast.walk(each.target))
        if any(isinstance(part, ast.Name) and part.id == node.id for part in targets):
            return True
        around = source.parents.get(around)
    return False


def find_only_call(source: SourceFile, scope: ast.AST) -> ast.Call | None:
    """Return the only call of a function of the file, or of the class whose `__init__` it is."""
    name = getattr(scope, "name", "")
    if name == "__init__":
        name = getattr(source.parents.get(scope), "name", "")
    calls = []
    for each in ast.walk(source.tree):
        if not isinstance(each, ast.Call):
            continue
        is_super = text_of(each.func) == "super().__init__"
        owner = source.scope_of(source.scope_of(each)) if is_super else None
        bases = [text_of(base).rpartition(".")[2] for base in getattr(owner, "bases", ())]
        if text_of(each.func).rpartition(".")[2] == name or name in bases:
            calls.append(each)
    if len({text_of(each) for each in calls}) != 1:
        return None
    is_starred = any(isinstance(each, ast.Starred) for each in calls[0].args)
    is_unpacked = any(each.arg is None for each in calls[0].keywords)
    return None if is_starred or is_unpacked else calls[0]


def find_function(source: SourceFile, line: int) -> ast.FunctionDef | None:
    """Return the function that begins, with its decorators, at a line."""
    for node in ast.walk(source.tree):
        if isinstance(node, ast.FunctionDef) and line in (node.lineno, *(each.lineno for each in node.decorator_list)):
            return node
    return None


def find_result(source: SourceFile, line: int) -> ast.stmt | None:
    """Return the last `return` of the function that begins at a line, or its last `yield`."""
    function, found = find_function(source, line), None
    for statement in _statements(function) if function is not None else ():
        is_yield = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Yield)
        if is_yield or isinstance(statement, ast.Return):
            found = statement
    return found


def _bound_attributes(node: ast.Assign | ast.AnnAssign) -> set[str]:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    return {
        part.attr
        for target in targets
        for part in ast.walk(target)
        if isinstance(part, ast.Attribute) and isinstance(part.value, ast.Name) and part.value.id == "self"
    }


def _registered_name(node: ast.expr) -> str | None:
    """Return the name that `self.register_buffer("name", …)`, or a call like it, gives to a part of a module."""
    if not isinstance(node, ast.Call):
        return None
    is_setattr = text_of(node.func) == "setattr" and len(node.args) == 3 and text_of(node.args[0]) == "self"
    place = 1 if is_setattr else 0 if text_of(node.func) in REGISTRATIONS else len(node.args)
    name = node.args[place] if place < len(node.args) else None
    return name.value if isinstance(name, ast.Constant) and isinstance(name.value, str) else None


def _statements(scope: ast.AST) -> Iterator[ast.stmt]:
    """Yield the statements of a scope in their order, those in blocks too, but of no scope within it."""
    for child in ast.iter_child_nodes(scope):
        if isinstance(child, ast.stmt):
            yield child
        if not isinstance(child, SCOPES):
            yield from _statements(child)


def _bound_names(statement: ast.stmt, has_walrus: bool) -> set[str]:
    targets: list[ast.AST] = []
    if isinstance(statement, ast.Assign):
        targets = list(statement.targets)
    elif isinstance(statement, (ast.AugAssign, ast.AnnAssign, ast.For, ast.AsyncFor)):
        targets = [statement.target]
    elif isinstance(statement, (ast.With, ast.AsyncWith)):
        targets = [item.optional_vars for item in statement.items if item.optional_vars is not None]
    walrus = [node.target for node in ast.walk(statement) if isinstance(node, ast.NamedExpr)] if has_walrus else []
    return {
        part.id
        for target in (*targets, *walrus)
        for part in ast.walk(target)
        if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)
    }
