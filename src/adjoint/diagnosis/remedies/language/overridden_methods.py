"""Remedies for classes of the user's that derive from the library's: what their methods give and are called with."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from types import TracebackType

from adjoint.core.graph.source_location import library_files
from adjoint.core.runtime.package_name import is_name_of_package
from adjoint.core.typing import Operand
from adjoint.diagnosis.call_stack import user_files
from adjoint.diagnosis.failure import Failure
from adjoint.diagnosis.operands import Origin, find_return_in
from adjoint.diagnosis.remedies.registry import find_meaning, remedy
from adjoint.diagnosis.source_expressions import find_function, parameter_names, parse_source, text_of

KINDS = {
    "get_lr": "a list of one rate for each group, [… for _ in self.base_lrs]",
    "__iter__": "an iterator of indices, iter([…])",
    "__len__": "a whole number, int(…)",
    "state_dict": "a dict",
}


@remedy(
    r"'(\w+)' object is not (?:iterable|an iterator)|zip\(\) argument|non-iterator of type '(\w+)'|'NoneType'|unpack"
)
def return_expected(failure: Failure, match: re.Match[str]) -> str | None:
    """A method that the library calls, and that gives a value of another kind than it takes."""
    for name, returned, kind in _find_overrides(failure):
        if name in KINDS and returned is not None:
            told = f"{kind}.{name} at {returned.describe()}, and the library takes"
            return f"{told} {KINDS[name]}: return that there"
    return None


def _find_overrides(failure: Failure) -> Iterator[tuple[str, Origin | None, str]]:
    """Yield the methods of the user's classes that the function of the library that failed calls on `self`."""
    trace: TracebackType | None = failure.error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None or not library_files[trace.tb_frame.f_code.co_filename]:
        return
    failed = trace.tb_frame.f_code
    source = parse_source(failed.co_filename)
    scope = None if source is None else find_function(source, failed.co_firstlineno)
    owner: Operand = trace.tb_frame.f_locals.get("self")
    for each in ast.walk(scope) if scope is not None else ():
        if not isinstance(each, ast.Attribute) or text_of(each.value) != "self":
            continue
        method = inspect.getattr_static(type(owner), each.attr, None)
        code = getattr(method, "__code__", None)
        if code is not None and user_files[code.co_filename]:
            yield each.attr, find_return_in(code), type(owner).__name__


@remedy(r"__init__\(\) missing \d+ required (?:positional|keyword-only) arguments?: (('\w+'(?:, and |, | and )?)+)")
def give_super_arguments(failure: Failure, match: re.Match[str]) -> str | None:
    """A `super().__init__(…)` that lacks arguments of the class above."""
    node = failure.node
    if (
        failure.line is None
        or not isinstance(node, ast.Call)
        or not re.match(r"super\(.*\)\.__init__$", text_of(node.func))
    ):
        return None
    owner = failure.frame.f_locals.get("self")
    own = getattr(failure.line.source.scope_of(failure.line.source.scope_of(node)), "name", "")
    kinds = list(type(owner).__mro__)
    place = next((i for i, each in enumerate(kinds) if each.__name__ == own), 0)
    above = next((each for each in kinds[place + 1 :] if "__init__" in vars(each)), None)
    if above is None:
        return None
    scope = failure.line.source.scope_of(node)
    given = {text_of(each) for each in (*node.args, *(part.value for part in node.keywords))}
    rest = [name for name in parameter_names(scope) if name != "self" and name not in given]
    parts = list(map(text_of, (*node.args, *node.keywords)))
    told = []
    for name in re.findall(r"'(\w+)'", match[1]):
        is_defaults = name == "defaults" and is_name_of_package(above.__module__)
        value = (
            f"dict({', '.join(f'{each}={each}' for each in rest)})" if is_defaults else name if name in rest else "…"
        )
        parts.append(f"{name}={value}")
        meaning = find_meaning(above, name)
        told += [f"; {name}: {meaning}"] if meaning else []
    return f"{text_of(node.func)}({', '.join(parts)}), which {above.__name__} takes{''.join(told)}"


@remedy(r"maximum recursion depth exceeded")
def name_held_attribute(failure: Failure, match: re.Match[str]) -> str | None:
    """A `__getattr__` that asks for an attribute which nothing has set, and so asks itself."""
    node = failure.node
    owner = failure.frame.f_locals.get("self")
    if failure.frame.f_code.co_name != "__getattr__" or failure.line is None or owner is None:
        return None
    asked = [each for each in ast.walk(node) if isinstance(each, ast.Attribute)] if node is not None else []
    held = [*vars(owner)] if hasattr(owner, "__dict__") else []
    for each in asked:
        if text_of(each.value) == "self" and each.attr not in held and not hasattr(type(owner), each.attr):
            told = f"self.{each.attr} at {failure.line.place()} is not there, so that __getattr__ asks itself for it"
            known = [name for name in held if not name.startswith("__")]
            if known:
                return f"{told}: the object holds {', '.join(known)}, of which one is meant"
            return f"{told}, before __init__ has set it: raise AttributeError(name) where name not in self.__dict__"
    return None
