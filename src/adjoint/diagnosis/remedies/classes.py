"""Remedies for classes of the user's: what `__init__` and `forward` lack, and classes and modules taken for values."""

from __future__ import annotations

import ast
import inspect
import re

from adjoint.core.graph.source_location import definition_site
from adjoint.core.runtime.text_table import pluralize
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Operand
from adjoint.diagnosis.call_stack import user_files
from adjoint.diagnosis.failure import Failure
from adjoint.diagnosis.operands import MISSING, NamedValue, Origin, evaluate, find_origin, find_return, is_module
from adjoint.diagnosis.remedies.language.names import find_block
from adjoint.diagnosis.remedies.registry import at, remedy
from adjoint.diagnosis.repairs.trial import compute
from adjoint.diagnosis.source_expressions import SourceFile, find_function, parse_source, text_of

FUNCTIONS = {
    "ReLU": "F.relu",
    "GELU": "F.gelu",
    "Sigmoid": "torch.sigmoid",
    "Tanh": "torch.tanh",
    "Softmax": "F.softmax",
    "LogSoftmax": "F.log_softmax",
    "Dropout": "F.dropout",
    "LeakyReLU": "F.leaky_relu",
    "MaxPool2d": "F.max_pool2d",
    "Flatten": "torch.flatten",
    "CrossEntropyLoss": "F.cross_entropy",
    "MSELoss": "F.mse_loss",
    "BCELoss": "F.binary_cross_entropy",
    "BCEWithLogitsLoss": "F.binary_cross_entropy_with_logits",
    "NLLLoss": "F.nll_loss",
    "L1Loss": "F.l1_loss",
    "SiLU": "F.silu",
    "ELU": "F.elu",
    "Softplus": "F.softplus",
}


@remedy(r"(\w+)\(\) missing \d+ required positional arguments?: '(?:self|state_dict|input|module|fn)'")
def make_instance_first(failure: Failure, match: re.Match[str]) -> str | None:
    """A method that is called on a class."""
    node = failure.node
    for part in ast.walk(node) if node is not None else ():
        if not isinstance(part, ast.Call) or not isinstance(part.func, ast.Attribute) or failure.line is None:
            continue
        kind = evaluate(part.func.value, failure.frame)
        if isinstance(kind, type) and part.func.attr == match[1]:
            name = text_of(part.func.value)
            origin = find_origin(failure.line.source, part.func.value, failure.stack)
            made = None if origin is None else origin.value
            if origin is None or made is None:
                return f"{name} is a class: make an instance first, {name}().{match[1]}()"
            given = (
                "model.parameters(), lr=…" if hasattr(kind, "zero_grad") and hasattr(kind, "add_param_group") else ""
            )
            called = f"{name} = {text_of(made)}({given})"
            return f"{name} at {origin.place()} is a class: {called} there makes an instance"
    return None


@remedy(r"'(\w+)' object has no attribute|unsupported operand type\(s\) for .*'(\w+)'|must be Tensor, not (\w+)")
def call_module(failure: Failure, match: re.Match[str]) -> str | None:
    """A module where its result belongs: it was made with the input, and not called."""
    given = [each for each in failure.operands if is_module(each.value) and type(each.value).__name__ in match.groups()]
    node: ast.AST | None = failure.node
    if given and match[3] and isinstance(node, ast.Call) and any(True for _ in given[0].value.parameters()):
        weight = vars(given[0].value)["_parameters"].get("weight")
        if type(given[0].value).__name__ == "Embedding" and weight is not None:
            passed = [
                f"{given[0].text}.weight" if text_of(each) == given[0].text else text_of(each) for each in node.args
            ]
            told = f"{given[0].text}{at(given[0])} is a module, whose table is its weight"
            return f"{told}: {text_of(node.func)}({', '.join(passed)})"
        used = {each.text for each in failure.operands}
        held = failure.frame.f_locals.items()
        x = next((name for name, each in held if isinstance(each, Tensor) and name not in used), "…")
        told = f"{given[0].text}{at(given[0])} is a module, and its result is wanted"
        passed = [f"{given[0].text}({x})" if text_of(each) == given[0].text else text_of(each) for each in node.args]
        return f"{told}: {text_of(node.func)}({', '.join(passed)})"
    for operand in given:
        kind = type(operand.value).__name__
        if kind not in FUNCTIONS:
            continue
        made = _find_making(failure, operand)
        if made is None:
            continue
        call = made.value if made.value is not None else made.node
        inner = next((each for each in ast.walk(call) if _makes(each, kind)), None)
        if isinstance(inner, ast.Call):
            told = f"{text_of(inner)} at {made.source.place_of(inner)} makes a module, and calls none"
            return f"{told}: {_call_function(kind, inner)}"
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Call):  # nn.MSELoss(x, y).backward()
        kind = text_of(node.value.func).rpartition(".")[2]
        if kind in FUNCTIONS and kind in match.groups():
            arguments = ", ".join(map(text_of, node.value.args))
            return f"{text_of(node.value)} makes a module, and calls none: {text_of(node.value.func)}()({arguments})"
    return None


def _makes(node: ast.AST, kind: str) -> bool:
    return isinstance(node, ast.Call) and text_of(node.func).rpartition(".")[2] == kind and bool(node.args)


def _find_making(failure: Failure, operand: NamedValue) -> Origin | None:
    """Return the statement that made a module of a tensor: the one that assigns it, or the return that gave it."""
    origin = operand.origin
    for _ in range(3):
        kind = type(operand.value).__name__
        if origin is None or any(_makes(each, kind) for each in ast.walk(origin.value or origin.node)):
            return origin
        returned = find_return(origin, failure.stack)
        if returned is None and isinstance(origin.value, ast.Call) and isinstance(origin.value.func, ast.Call):
            made = evaluate(origin.value.func.func, failure.frame)
            code = getattr(getattr(made, "forward", None), "__code__", None)
            source = None if code is None else parse_source(code.co_filename)
            function = None if source is None or code is None else find_function(source, code.co_firstlineno)
            return None if source is None or function is None else Origin(source, function)
        origin = returned
    return origin


@remedy(r"^(?!.*[Mm]issing)")
def call_module_made(failure: Failure, match: re.Match[str]) -> str | None:
    """A module that is made with its input for a setting, and refuses it."""
    node = failure.node
    kind = evaluate(node.func, failure.frame) if isinstance(node, ast.Call) else MISSING
    if not isinstance(kind, type) or not isinstance(node, ast.Call) or kind.__name__ not in FUNCTIONS or not node.args:
        return None
    given = node.args[0]
    is_result = isinstance(given, ast.Call) and is_module(evaluate(given.func, failure.frame))
    if not is_result and not isinstance(evaluate(given, failure.frame), Tensor):
        return None
    return f"{text_of(node.func)} makes a module: {_call_function(kind.__name__, node)}"


def _call_function(kind: str, call: ast.Call) -> str:
    """Return what to write instead of a module that is made with its input."""
    arguments = ", ".join(map(text_of, (*call.args, *call.keywords)))
    first = text_of(call.args[0])
    if kind == "Flatten":
        return f"torch.flatten({first}, 1), or {text_of(call.func)}()({first})"
    inputs = [each for each in call.args if not isinstance(each, ast.Constant)]
    given = ", ".join(map(text_of, inputs)) if kind.endswith("Loss") else first
    rest = "…" if len(call.args) + len(call.keywords) > (len(inputs) if kind.endswith("Loss") else 1) else ""
    return f"{FUNCTIONS[kind]}({arguments}), or {text_of(call.func)}({rest})({given})"


@remedy(r"(\w+)\.forward\(\) takes (\d+) positional arguments? but")
def give_forward_self(failure: Failure, match: re.Match[str]) -> str | None:
    """A forward that was written without self."""
    kind = type(failure.modules[0]) if failure.modules else type(None)
    code = getattr(vars(kind).get("forward"), "__code__", None)
    names = () if code is None else code.co_varnames[: code.co_argcount]
    if code is None or (names and names[0] == "self"):
        return None
    where = definition_site(code).describe_briefly()
    return f"forward of {kind.__name__}, {where}, lacks self: def forward({', '.join(('self', *names))})"


@remedy(r"'(\w+)' object has no attribute '(\w+)'")
def assign_to_self(failure: Failure, match: re.Match[str]) -> str | None:
    """A part that `__init__` gave to a local name, or to an attribute of another spelling's kind."""
    node = failure.node
    for part in ast.walk(node) if node is not None else ():
        owner: Operand = evaluate(part.value, failure.frame) if isinstance(part, ast.Attribute) else MISSING
        if owner is MISSING or type(owner).__name__ != match[1] or not isinstance(part, ast.Attribute):
            continue
        name = match[2]
        made_of = _find_class_called(failure, part.value)
        if made_of is not None:
            return made_of
        for kind in type(owner).__mro__:
            for method in vars(kind).values():
                code = getattr(method, "__code__", None)
                if code is None or not user_files[code.co_filename] or part.attr != name:
                    continue
                source = parse_source(code.co_filename)
                scope = None if source is None else find_function(source, code.co_firstlineno)
                made = [] if source is None or scope is None else source.assignments_in(scope).get(name, [])
                if source is not None and made and method.__name__ != failure.frame.f_code.co_name:
                    where = source.place_of(made[0])
                    return f"{name} at {where} is a local name of {method.__name__}: self.{name} = … there"
        source = parse_source(failure.frame.f_code.co_filename, failure.frame.f_globals)
        made = [] if source is None else source.attribute_assignments.get((match[1], match[2]), [])
        method = None if source is None or not made else source.scope_of(made[0])
        block = (
            None
            if source is None or not made or failure.line is None
            else find_block(source, made[0], failure.line.node)
        )
        if source is not None and isinstance(block, (ast.If, ast.For, ast.While, ast.Try)):
            condition = (
                f"if {text_of(block.test)}" if isinstance(block, ast.If) else "in a block that it has not come to"
            )
            told = f"self.{match[2]} at {source.place_of(made[0])} is made only {condition}"
            return f"{told}: self.{match[2]} = … in each case, nn.Identity() for none, or the same condition here"
        calls = [place.frame.f_lineno for place in failure.stack[1:] if place.frame.f_code.co_name == "__init__"]
        if source is not None and calls and isinstance(method, ast.FunctionDef) and method.name == "__init__":
            told = f"self.{match[2]} is made at {source.place_of(made[0])}, after line {calls[0]}, which asks for it"
            return f"{told}: make it before"
        if source is not None and isinstance(method, ast.FunctionDef) and method.name != "__init__":
            told = f"self.{match[2]} is made in {method.name}, {source.place_of(made[0])}, which has not run"
            for call in source.nodes_of(ast.Call):
                way = text_of(call.func).rpartition(".")[2]
                is_hook = way.startswith("register") and "hook" in way
                if is_hook and any(text_of(each).endswith(f".{method.name}") for each in call.args):
                    runs = "backward()" if "backward" in way or way == "register_hook" else "the call of the model"
                    return f"{told}, for it is a hook, {source.place_of(call)}: this line after {runs}"
            return f"{told}: call {method.name}() before, or make it in __init__"
    return None


def _find_class_called(failure: Failure, node: ast.expr) -> str | None:
    """Return the class of a loss that was called as if it were one: `loss_fn = nn.MSELoss`, `loss_fn(x, y)`."""
    own = failure.find_operand(text_of(node))
    made = None if own is None or own.origin is None else own.origin.value
    kind = evaluate(made.func, failure.frame) if isinstance(made, ast.Call) else None
    is_of_tensors = isinstance(made, ast.Call) and any(
        isinstance(compute(each, failure.frame), Tensor) for each in made.args
    )
    if own is None or own.origin is None or not isinstance(made, ast.Call) or not isinstance(kind, type):
        return None
    if not is_of_tensors or not hasattr(kind, "forward"):
        return None
    given = find_origin(own.origin.source, made.func, failure.stack) if isinstance(made.func, ast.Name) else None
    name, arguments = text_of(made.func), ", ".join(map(text_of, made.args))
    if given is not None and given.value is not None:
        return f"{name} at {given.place()} is the class {kind.__name__}: {name} = {text_of(given.value)}() there"
    return f"{text_of(made)}{at(own)} makes a {kind.__name__}, and gives it no input: {name}()({arguments})"


@remedy(r"cannot assign (?:module|parameter|buffer)s? before Module\.__init__\(\) call")
def call_super_first(failure: Failure, match: re.Match[str]) -> str | None:
    """An `__init__` that calls the one of nn.Module too late, or with one argument too few."""
    source: SourceFile | None = None if failure.line is None else failure.line.source
    scope = None if source is None or failure.line is None else source.scope_of(failure.line.node)
    for node in ast.walk(scope) if scope is not None else ():
        is_super = isinstance(node, ast.Call) and text_of(node.func) == "super"
        if source is None or not is_super or not isinstance(node, ast.Call) or failure.line is None:
            continue
        place = source.place_of(node)
        if len(node.args) == 1:
            return f"{text_of(node)} at {place} is not bound to self: super().__init__()"
        if node.lineno > getattr(failure.line.node, "lineno", 0):
            return f"super().__init__() at {place} comes after this line: put it first in __init__"
        attribute = source.parents.get(node)
        if isinstance(attribute, ast.Attribute) and not isinstance(source.parents.get(attribute), ast.Call):
            return f"super().__init__ at {place} is not called: super().__init__()"
    kind = type(failure.frame.f_locals.get("self"))
    base = next((vars(each)["__init__"] for each in kind.__mro__[1:] if "__init__" in vars(each)), None)
    code = getattr(base, "__code__", None)
    wanted = () if code is None else code.co_varnames[1 : code.co_argcount]
    if code is None or not user_files[code.co_filename] or not wanted:
        return None
    own = failure.frame.f_locals
    call = f"super().__init__({', '.join(name if name in own else f'{name}=…' for name in wanted)})"
    where = definition_site(code).describe_briefly()
    return f"{call} is the first line of __init__: it runs that of {kind.__mro__[1].__name__}, {where}"


@remedy(
    r"(\w+)\(\) (?:missing \d+ required|takes (?:from )?\d+ (?:to \d+ )?positional|got some positional-only)",
    is_last=True,
)
def name_method_parameters(failure: Failure, match: re.Match[str]) -> str | None:
    """A method of the library that is called with more or fewer arguments."""
    node = failure.node
    calls = [each for each in ast.walk(node) if isinstance(each, ast.Call)] if node is not None else []
    for call in calls:
        if not isinstance(call.func, ast.Attribute) or call.func.attr != match[1].rpartition(".")[2]:
            continue
        owner = evaluate(call.func.value, failure.frame)
        if owner is MISSING or inspect.ismodule(owner):
            continue
        is_named = len(call.args) == 2 and isinstance(call.args[0], ast.Constant)
        if "hook" in call.func.attr and is_module(owner) and is_named:
            part = f"{text_of(call.func.value)}.get_submodule({text_of(call.args[0])})"
            return f"it takes the hook alone, of the part itself: {part}.{call.func.attr}({text_of(call.args[1])})"
        method = inspect.getattr_static(type(owner), call.func.attr, None)
        try:
            names = [name for name in inspect.signature(method).parameters if name not in ("self", "cls", "input")]
        except (TypeError, ValueError):
            continue
        code = getattr(method, "__code__", None)
        first = "" if code is None else next(iter(code.co_varnames[: code.co_argcount]), "")
        if code is not None and user_files[code.co_filename] and first not in ("self", "cls"):
            told = f"{code.co_name} of {type(owner).__name__}, {definition_site(code).describe_briefly()}, lacks self"
            return f"{told}: def {code.co_name}({', '.join(['self', *code.co_varnames[: code.co_argcount]])})"
        x = next((each for each in failure.operands if each.value is owner), None)
        where = "" if x is None else at(x)
        count = pluralize(len(call.args), "argument")
        return f"{text_of(call.func)}({', '.join(names)}) of {text_of(call.func.value)}{where}, and here {count}"
    return None


@remedy(r"(function|builtin_function_or_method|type|NoneType|list|tuple|generator) is not a Module subclass")
def make_parts_modules(failure: Failure, match: re.Match[str]) -> str | None:
    """A function, a class or a list among the parts of a model."""
    node = failure.node
    arguments = node.args if isinstance(node, ast.Call) else []
    for argument in arguments:
        given = argument.value if isinstance(argument, ast.Starred) else argument
        if isinstance(given, ast.Lambda) and match[1] == "function" and given.args.args:
            name, body = given.args.args[0].arg, text_of(given.body)
            told = f"{text_of(given)} is a function, and parts are modules"
            return f"{told}: class Part(nn.Module), whose forward(self, {name}) has return {body}, and Part() here"
        is_slice = isinstance(given, ast.Subscript) and isinstance(given.slice, ast.Slice)
        whole = given.value if isinstance(given, ast.Subscript) and is_slice else given
        held, text = evaluate(whole, failure.frame), text_of(whole)
        called = text_of(node.func) if isinstance(node, ast.Call) else ""
        if isinstance(given, (ast.List, ast.Tuple)) and called.endswith(".append"):
            return f"append adds one part, and {text} holds several: {called.removesuffix('append')}extend({text})"
        listed = isinstance(held, (list, tuple)) and (given is not argument or len(arguments) == 1)
        for place, part in enumerate(held) if listed else [(None, held)]:
            name = text if place is None else f"{text}[{place}]"
            if type(part).__name__ != match[1] or is_module(part):
                continue
            if isinstance(part, type):
                return f"{name} is the class {part.__name__}, and parts are instances: {part.__name__}(…)"
            if isinstance(part, (list, tuple)):
                return f"{name} is a {match[1]} of parts: *{name} gives each of them"
            called = getattr(part, "__name__", "")
            kind = next((kind for kind, function in FUNCTIONS.items() if function.rpartition(".")[2] == called), None)
            told = f"{name} is {'None' if part is None else f'the function {called}'}, no module"
            return (
                f"{told}: nn.{kind}()"
                if kind
                else f"{told}: nn.Identity(), or leave it out"
                if part is None
                else (f"{told}: a class of nn.Module whose forward calls it")
            )
    return None


@remedy(r"'generator' object has no attribute '(\w+)'")
def set_for_each(failure: Failure, match: re.Match[str]) -> str | None:
    """An attribute or a method of each parameter or part, that is asked of all at once."""
    found = failure.node
    for node in ast.walk(found) if found is not None else ():
        call = node.value if isinstance(node, ast.Attribute) and node.attr == match[1] else None
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute) or failure.line is None:
            continue
        if not is_module(evaluate(call.func.value, failure.frame)):
            continue
        statement = failure.line.source.statement_of(node)
        value = statement.value if isinstance(statement, ast.Assign) else None
        each = "p" if "parameters" in call.func.attr else "part"
        done = f"{each}.{match[1]} = {text_of(value)}" if value is not None else f"{each}.{match[1]}(…)"
        given = "" if value is None else text_of(value)
        parent = failure.line.source.parents.get(node)
        if isinstance(parent, ast.Call) and parent.func is node:
            given = ", ".join(map(text_of, parent.args))
            done = f"{each}.{match[1]}({given})"
        whole = f"; or {text_of(call.func.value)}.requires_grad_({given})" if "requires_grad" in match[1] else ""
        return f"{text_of(call)} gives one after the other: for {each} in {text_of(call)}: {done}{whole}"
    return None
