"""Edits of calls, attributes and items: other arguments, other functions, methods of another name."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

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


def call_otherwise(node: ast.Call, trial: Trial, library: str, message: str) -> Iterator[Edit]:
    """Yield a call with its arguments in one tuple or one by one, by other names, or of another function."""
    function = ast.unparse(node.func)
    arguments = [ast.unparse(each) for each in node.args]
    keywords = [ast.unparse(each) for each in node.keywords]
    called = evaluate(node.func, trial.frame)

    def write(*given: str, name: str = function) -> Edit:
        return Edit(node, parse(f"{name}({', '.join(given)})"))

    if len(node.args) == 1 and not isinstance(node.args[0], ast.Starred):
        inner = node.args[0]
        listed = [ast.unparse(each) for each in inner.elts] if isinstance(inner, (ast.List, ast.Tuple)) else []
        held = evaluate(inner, trial.frame)
        if function == "range" and isinstance(held, Tensor) and held.ndim:
            yield Edit(node, parse(f"{arguments[0]}.tolist()"))
        if function == "range":
            yield write(f"len({arguments[0]})")
        is_number_wanted = re.search(r"not supported between|not (?:list|tuple)$", message) is not None
        if isinstance(held, (list, tuple)) and held and is_number_wanted:
            yield write(f"{arguments[0]}[0]", *keywords)
        elif listed or "missing" not in message or isinstance(held, (list, tuple)):
            yield write(*(listed or [f"*{arguments[0]}"]), *keywords)
    if function in PURE_BUILTINS and node.args and isinstance(evaluate(node.args[0], trial.frame), Tensor):
        yield Edit(node, parse(f"{library}.{function}({', '.join([*arguments, *keywords])})"))
        if function == "round" and len(arguments) == 2:
            yield Edit(node, parse(f"{library}.round({arguments[0]}, decimals={arguments[1]})"))
    if len(node.args) > 1:
        if not any(isinstance(each, (ast.Tuple, ast.Constant)) for each in node.args):
            yield write(f"[{', '.join(arguments)}]", *keywords)
        yield write(arguments[0], f"({', '.join(arguments[1:])})", *keywords)
        if len(node.args) > 2:
            yield write(f"[{', '.join(arguments[:-1])}]", arguments[-1], *keywords)
        if len(node.args) == 2 and "elements of" not in message:
            yield write(arguments[1], arguments[0], *keywords)
        are_numbers = all(type(evaluate(each, trial.frame)) in (int, float) for each in node.args)
        if len(node.args) == 3 and not are_numbers:  # of which two have changed places
            for order in ((0, 2, 1), (1, 0, 2), (2, 1, 0)):
                yield write(*(arguments[i] for i in order), *keywords)
    if isinstance(called, type) and node.args:
        yield Edit(node, parse(f"{function}()({', '.join(arguments)})"))
    if isinstance(called, str) and called.isidentifier():
        yield write(*arguments, *keywords, name=f"{library}.nn.functional.{called}")
    if len(node.args) > 1 and "were given" in message:
        yield write(*arguments[:-1], *keywords)
    if is_module(called) or isinstance(called, type):
        return
    if isinstance(node.func, ast.Attribute):
        owner = evaluate(node.func.value, trial.frame)
        if isinstance(owner, Tensor) and not node.args and not node.keywords and "not callable" in message:
            yield Edit(node, node.func)
        if function.endswith("_like"):
            yield write(*arguments, *keywords, name=function.removesuffix("_like"))
    names = parameter_names(node, trial.frame)
    for i, argument in enumerate(node.args):
        kind = type(evaluate(argument, trial.frame)).__name__.lower()
        if kind in names:  # an object of the library where a number belongs, such as a generator
            yield write(*arguments[:i], *arguments[i + 1 :], *keywords, f"{kind}={arguments[i]}")
    for name in names:
        if name == "dim" and not any(each.arg == "dim" for each in node.keywords):
            yield write(*arguments, *keywords, "dim=-1")
    if "NoneType" in message:
        for i, keyword in enumerate(node.keywords):
            if isinstance(keyword.value, ast.Constant) and keyword.value.value is None:
                yield write(*arguments, *keywords[:i], *keywords[i + 1 :])
    for i in range(len(node.keywords)) if re.search("keyword|multiple values|positional|combination", message) else ():
        rest = [*keywords[:i], *keywords[i + 1 :]]
        if "unexpected keyword" in message:
            yield from (write(*arguments, *rest, f"{name}={keywords[i].partition('=')[2]}") for name in names)
        yield write(*arguments, *rest)


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
