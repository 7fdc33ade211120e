"""Edits of calls, attributes and items: other arguments, other functions, methods of another name."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import NamedTuple

from adjoint.core.tensor.tensor import Tensor
from adjoint.diagnosis.operands import evaluate, is_module
from adjoint.diagnosis.repairs.expression import Edit, parameter_names, parse
from adjoint.diagnosis.repairs.trial import PURE_BUILTINS, Trial, compute

METHODS = {"add": "append", "push": "append", "length": "numel", "extend": "update"}  # of what other objects have
# functions of which users take one for the other
SIBLINGS = {"from_numpy": "tensor", "view": "reshape", "tensor": "stack cat", "as_tensor": "stack", "cat": "stack"}
SIBLINGS |= {"split": "array_split"}
SIBLINGS |= {"stack": "cat concatenate", "concatenate": "stack", "transpose": "permute swapaxes"}
SIBLINGS |= dict.fromkeys(("mm", "bmm", "mv", "dot"), "matmul")


def call_sibling(node: ast.Call) -> Iterator[Edit]:
    """Yield the call of a function that is taken for the one that is called."""
    base, _, last = ast.unparse(node.func).rpartition(".")
    if re.search(r"_?[a-z]\w*[123]d$", last) and base:  # of a function over more or fewer dimensions
        for count in "123":
            if last[-2] != count:
                yield Edit(node, ast.Call(parse(f"{base}.{last[:-2]}{count}d"), node.args, node.keywords), True)
    for sibling in SIBLINGS.get(last, "").split():
        yield Edit(node, ast.Call(parse(f"{base}.{sibling}" if base else sibling), node.args, node.keywords))


def call_with_items(node: ast.Call) -> Iterator[Edit]:
    """Yield a call with the items of its only argument, which is written as a tuple, one by one."""
    inner = node.args[0] if len(node.args) == 1 else None
    if isinstance(inner, ast.Tuple) and len(inner.elts) == 2:
        yield Edit(node, ast.Call(node.func, inner.elts, node.keywords))


class WrittenCall(NamedTuple):
    """A call with the texts of its function, its arguments and its keywords, to be written otherwise."""

    node: ast.Call
    trial: Trial
    library: str
    message: str
    function: str
    arguments: list[str]
    keywords: list[str]

    def write(self, *given: str, name: str | None = None) -> Edit:
        """Return the edit to a call with other arguments, or of a function of another name."""
        return Edit(self.node, parse(f"{name or self.function}({', '.join(given)})"))


def call_otherwise(node: ast.Call, trial: Trial, library: str, message: str) -> Iterator[Edit]:
    """Yield a call with its arguments in one tuple or one by one, by other names, or of another function."""
    arguments = [ast.unparse(each) for each in node.args]
    keywords = [ast.unparse(each) for each in node.keywords]
    call = WrittenCall(node, trial, library, message, ast.unparse(node.func), arguments, keywords)
    yield from _spread_argument(call)
    yield from _call_function_of_tensors(call)
    yield from _gather_arguments(call)
    called = evaluate(node.func, trial.frame)
    if isinstance(called, type) and arguments:
        yield Edit(node, parse(f"{call.function}()({', '.join(arguments)})"))
    if isinstance(called, str) and called.isidentifier():
        yield call.write(*arguments, *keywords, name=f"{library}.nn.functional.{called}")
    if len(arguments) > 1 and "were given" in message:
        yield call.write(*arguments[:-1], *keywords)
    if is_module(called) or isinstance(called, type):
        return
    if isinstance(node.func, ast.Attribute):
        owner = evaluate(node.func.value, trial.frame)
        if isinstance(owner, Tensor) and not arguments and not keywords and "not callable" in message:
            yield Edit(node, node.func)
        if call.function.endswith("_like"):
            yield call.write(*arguments, *keywords, name=call.function.removesuffix("_like"))
    yield from _change_keywords(call)


def _spread_argument(call: WrittenCall) -> Iterator[Edit]:
    """Yield a call with the items of its only argument."""
    if len(call.node.args) != 1 or isinstance(call.node.args[0], ast.Starred):
        return
    inner, text = call.node.args[0], call.arguments[0]
    listed = [ast.unparse(each) for each in inner.elts] if isinstance(inner, (ast.List, ast.Tuple)) else []
    held = evaluate(inner, call.trial.frame)
    if call.function == "range" and isinstance(held, Tensor) and held.ndim:
        yield Edit(call.node, parse(f"{text}.tolist()"))
    if call.function == "range":
        yield call.write(f"len({text})")
    is_number_wanted = re.search(r"not supported between|not (?:list|tuple)$", call.message) is not None
    if isinstance(held, (list, tuple)) and held and is_number_wanted:
        yield call.write(f"{text}[0]", *call.keywords)
    elif listed or "missing" not in call.message or isinstance(held, (list, tuple)):
        yield call.write(*(listed or [f"*{text}"]), *call.keywords)


def _call_function_of_tensors(call: WrittenCall) -> Iterator[Edit]:
    """Yield the library's function of the name of Python's own, such as `round`, that was given a tensor."""
    given = call.node.args
    if call.function not in PURE_BUILTINS or not given or not isinstance(evaluate(given[0], call.trial.frame), Tensor):
        return
    name = f"{call.library}.{call.function}"
    yield call.write(*call.arguments, *call.keywords, name=name)
    if call.function == "round" and len(given) == 2:
        yield call.write(call.arguments[0], f"decimals={call.arguments[1]}", name=name)


def _gather_arguments(call: WrittenCall) -> Iterator[Edit]:
    """Yield a call with several of its arguments as a list or a tuple, or in another order."""
    given, arguments, keywords = call.node.args, call.arguments, call.keywords
    if len(given) < 2:
        return
    if not any(isinstance(each, (ast.Tuple, ast.Constant)) for each in given):
        yield call.write(f"[{', '.join(arguments)}]", *keywords)
    yield call.write(arguments[0], f"({', '.join(arguments[1:])})", *keywords)
    if len(given) > 2:
        yield call.write(f"[{', '.join(arguments[:-1])}]", arguments[-1], *keywords)
    if len(given) == 2 and "elements of" not in call.message:
        yield call.write(arguments[1], arguments[0], *keywords)
    are_numbers = all(type(evaluate(each, call.trial.frame)) in (int, float) for each in given)
    if len(given) == 3 and not are_numbers:  # of which two have changed places
        for order in ((0, 2, 1), (1, 0, 2), (2, 1, 0)):
            yield call.write(*(arguments[i] for i in order), *keywords)


def _change_keywords(call: WrittenCall) -> Iterator[Edit]:
    """Yield a call with a keyword more or less, or of another name."""
    arguments, keywords, message = call.arguments, call.keywords, call.message
    names = parameter_names(call.node, call.trial.frame)
    for i, argument in enumerate(call.node.args):
        kind = type(evaluate(argument, call.trial.frame)).__name__.lower()
        if kind in names:  # an object of the library where a number belongs, such as a generator
            yield call.write(*arguments[:i], *arguments[i + 1 :], *keywords, f"{kind}={arguments[i]}")
    if "dim" in names and not any(each.arg == "dim" for each in call.node.keywords):
        yield call.write(*arguments, *keywords, "dim=-1")
    is_about_keywords = re.search("keyword|multiple values|positional|combination", message) is not None
    for i, keyword in enumerate(call.node.keywords):
        rest = [*keywords[:i], *keywords[i + 1 :]]
        if "NoneType" in message and isinstance(keyword.value, ast.Constant) and keyword.value.value is None:
            yield call.write(*arguments, *rest)
        if "unexpected keyword" in message:
            value = ast.unparse(keyword.value)
            yield from (call.write(*arguments, *rest, f"{name}={value}") for name in names)
        if is_about_keywords:
            yield call.write(*arguments, *rest)


def read_attribute_otherwise(node: ast.Attribute, trial: Trial, library: str) -> Iterator[Edit]:
    """Yield a method that is a function: `next(it)` of `it.next()`, `torch.f(x)` of `x.f()`; the other "
    "way round too.
    """
    parent = next((each for each in ast.walk(trial.expression) if getattr(each, "func", None) is node), None)
    owner, name = ast.unparse(node.value), node.attr
    if not isinstance(parent, ast.Call):
        return
    given = ", ".join(ast.unparse(each) for each in (*parent.args, *parent.keywords))
    held = compute(node.value, trial.frame)
    if isinstance(held, (list, tuple)) and held and all(isinstance(each, Tensor) for each in held):
        yield Edit(parent, parse(f"[x.{name}({given}) for x in {owner}]"))
    if isinstance(held, dict) and held and all(isinstance(each, Tensor) for each in held.values()):
        yield Edit(parent, parse(f"{{key: x.{name}({given}) for key, x in {owner}.items()}}"))
    functions = [name] if name in PURE_BUILTINS else ["len"] if name in ("length", "size", "count") else []
    for method in METHODS.get(name, "").split():
        yield Edit(parent, parse(f"{owner}.{method}({given})"))
    functions += [f"{library}.{name}", f"{library}.nn.functional.{name}", f"{library}.linalg.{name}"]
    for function in functions:
        yield Edit(parent, parse(f"{function}({owner}{', ' if given else ''}{given})"))


def read_otherwise(node: ast.Subscript) -> Iterator[Edit]:
    """Yield an item of what gives its items one after the other, or by numbers of its own."""
    held, key = ast.unparse(node.value), ast.unparse(node.slice)
    yield Edit(node, parse(f"list({held})[{key}]"))
    yield Edit(node, parse(f"{held}()[{key}]"))
    yield Edit(node, parse(f"{held}[0][{key}]"))
    if not any(isinstance(each, ast.Slice) for each in ast.walk(node.slice)):
        yield Edit(node, parse(f"{held}({key})"))
