"""Functions of the user's that the library calls: hooks, closures, methods of data sets and of custom functions."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass
from types import CodeType

from adjoint.autograd.function.function import Function
from adjoint.core.runtime.package_name import is_name_of_package
from adjoint.core.typing import Operand
from adjoint.diagnosis.call_stack import Stack, UserFrame, user_files
from adjoint.diagnosis.operands import Origin, describe_return, find_return_in, is_module
from adjoint.diagnosis.source_expressions import find_expression, find_function, parse_source, text_of

MAX_SEARCHED_FRAMES = 8
SIGNATURE_ERROR = re.compile(
    r"^(?:\w+: )?([\w.<>]+)\(\) (?:takes (?:from )?\d+ (?:to \d+ )?positional arguments? but (\d+)|"
    r"missing (\d+) required positional|got an unexpected keyword)"
)
# with what the library calls a function that it is given by a method of that name
SIGNATURES = {
    "register_forward_hook": ("module", "inputs", "output"),
    "register_forward_pre_hook": ("module", "inputs"),
    "register_full_backward_hook": ("module", "grad_input", "grad_output"),
    "register_full_backward_pre_hook": ("module", "grad_output"),
    "register_hook": ("grad",),
    "register_post_accumulate_grad_hook": ("param",),
    "register_prehook": ("grad_outputs",),
    "apply": ("module",),
}
HOLDERS = ("call", "init_fn", "pack_hook", "unpack_hook")  # attributes of hooks with options, and of a worker's job
SAMPLE_METHODS = ("__getitem__", "__getitems__", "__iter__")


@dataclass(frozen=True)
class Callback:
    """A function of the user's that a frame of the library holds, under the name of its definition."""

    name: str
    code: CodeType

    @property
    def parameters(self) -> tuple[str, ...]:
        """The names of its positional parameters."""
        return self.code.co_varnames[: self.code.co_argcount]

    def definition(self) -> Origin | None:
        """Return where it is defined."""
        source = parse_source(self.code.co_filename)
        function: ast.AST | None = None if source is None else find_function(source, self.code.co_firstlineno)
        for node in ast.walk(source.tree) if source is not None and self.code.co_name == "<lambda>" else ():
            if isinstance(node, ast.Lambda) and node.lineno == self.code.co_firstlineno:
                function = node
        return None if source is None or function is None else Origin(source, function)

    def is_called(self, name: str) -> bool:
        """Return whether it has the name that an error of its arguments tells."""
        return self.code.co_name == name

    def find_return(self, *, is_none: bool = False) -> Origin | None:
        """Return its last `return`, or the first one of nothing."""
        made = self.definition() if is_none else None
        for node in ast.walk(made.node) if made is not None else ():
            value = node.value if isinstance(node, ast.Return) else made
            if made is not None and (value is None or (isinstance(value, ast.Constant) and value.value is None)):
                return Origin(made.source, node)
        return find_return_in(self.code)

    def describe(self, message: str) -> str | None:
        """Return its first line for an error of its arguments, else what it gives back."""
        called = SIGNATURE_ERROR.match(message)
        if called is not None:
            made = self.definition() if self.is_called(called[1].rpartition(".")[2]) else None
            return None if made is None else f"{self.name}: defined at {made.describe()}"
        returned = self.find_return(is_none="NoneType" in message)
        return None if returned is None else f"{self.name}: {describe_return(returned)}"


def find_callbacks(stack: Stack, message: str) -> list[Callback]:
    """Return the user's functions that the innermost frame of the library with any of them holds."""
    called = stack[0].called[::-1][:MAX_SEARCHED_FRAMES]
    is_applied = any(frame.f_code.co_name == "apply" for frame in called)
    for frame in called:
        found = {each.code: each for value in frame.f_locals.values() for each in _functions_of(value, is_applied)}
        if "__len__" in {each.code.co_name for each in found.values()}:
            is_count = re.search(r"integer|__len__", message) is not None
            found = {code: each for code, each in found.items() if (code.co_name == "__len__") == is_count}
        if found:
            return list(found.values())
    return []


def _functions_of(value: Operand, is_applied: bool) -> Iterator[Callback]:
    """Yield the user's functions that a value is, or that the library calls of an object of the user's class."""
    held: list[Operand] = []
    if isinstance(value, type):
        method = "forward" if is_applied else "backward"
        methods = (method, "setup_context") if is_applied else (method,)
        held = [vars(value).get(name) for name in methods] if issubclass(value, Function) else []
    elif inspect.isfunction(value) or inspect.ismethod(value):
        held = [value]
    elif is_name_of_package(type(value).__module__) and any(hasattr(value, name) for name in HOLDERS):
        held = [getattr(value, name, None) for name in HOLDERS]
    elif not is_module(value):
        found = (vars(kind).get(name) for kind in type(value).__mro__ for name in (*SAMPLE_METHODS, "__len__"))
        held = list(found)
    for function in held:
        inner = getattr(function, "__func__", function)
        code = None if inner is None else getattr(inspect.unwrap(inner), "__code__", None)
        if isinstance(code, CodeType) and user_files[code.co_filename]:
            yield Callback(code.co_qualname.rpartition("<locals>.")[2], code)


KEYWORDS = {"worker_init_fn": ("worker_id",), "lr_lambda": ("epoch",), "collate_fn": ("samples",)}


def find_registration(callback: Callback) -> tuple[str, ...] | None:
    """Return the arguments of a function that a call such as `register_hook(f)` in its file gives to the library."""
    source = parse_source(callback.code.co_filename)
    for node in ast.walk(source.tree) if source is not None else ():
        for keyword in node.keywords if isinstance(node, ast.Call) else ():
            if keyword.arg in KEYWORDS and text_of(keyword.value) == callback.code.co_name:
                return KEYWORDS[keyword.arg]
        method = node.func.attr if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) else ""
        if method in SIGNATURES and isinstance(node, ast.Call) and node.args:
            made = node.args[0]
            given = made.func if isinstance(made, ast.Call) else made  # of a function that makes it
            owners = callback.code.co_qualname.replace(".<locals>", "").split(".")
            is_lambda = isinstance(made, ast.Lambda) and made.lineno == callback.code.co_firstlineno
            if is_lambda or text_of(given).rpartition(".")[2] in owners:
                return SIGNATURES[method]
    return None


def name_given_arguments(error: BaseException, callback: Callback, count: int) -> list[str]:
    """Return names for the arguments with which the library calls a function: its own, or the function's."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    place = None if trace is None else UserFrame(trace.tb_frame, trace.tb_lasti, ())
    _, call = (None if place is None else find_expression(place)) or (None, None)
    registered = find_registration(callback)
    bound = list(callback.parameters[:1]) if callback.parameters[:1] == ("self",) else []
    if registered is not None and len(registered) + len(bound) == count:
        return [*bound, *registered]
    given = [text_of(each) for each in call.args] if isinstance(call, ast.Call) else []
    if len(given) == count and all(len(each) > 1 and each.isidentifier() and each != "self" for each in given):
        return given
    own = [each for each in callback.parameters if each != "self"]
    return [*own, *(f"x{i}" for i in range(count))][:count]
