"""Remedies for what Python itself refuses: None, names and keywords that are not there, calls, unpacking."""

from __future__ import annotations

import ast
import inspect
import re
from difflib import get_close_matches

from adjoint.core.graph.source_location import definition_site
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Operand
from adjoint.diagnosis.call_stack import user_files
from adjoint.diagnosis.failure import Failure
from adjoint.diagnosis.operands import MISSING, NamedValue, Origin, evaluate, find_origin, find_return, is_module
from adjoint.diagnosis.remedies.registry import at, remedy
from adjoint.diagnosis.source_expressions import SourceFile, find_function, parse_source, text_of

MAX_CALLS_FOLLOWED = 5
SYNONYMS = {
    "learning_rate": "lr", "l2": "weight_decay", "decay": "weight_decay", "axis": "dim", "dims": "dim",
    "keepdims": "keepdim", "units": "out_features", "filters": "out_channels", "stride_size": "stride",
    "strides": "stride", "kernel": "kernel_size", "pad": "padding", "rate": "p", "prob": "p", "epsilon": "eps",
    "hidden_dim": "hidden_size", "input_dim": "input_size", "heads": "num_heads", "layers": "num_layers",
    "use_bias": "bias", "dropout_rate": "dropout", "batchsize": "batch_size", "workers": "num_workers",
    "gradient": "grad", "require_grad": "requires_grad", "required_grad": "requires_grad",
}  # fmt: skip


@remedy(r"got an unexpected keyword argument '(\w+)'")
def name_keywords(failure: Failure, match: re.Match[str]) -> str | None:
    """A keyword that the function does not know."""
    function = _called_function(failure)
    if function is None:
        return None
    try:
        names = [name for name in inspect.signature(function).parameters if name not in ("self", "cls")]
    except (TypeError, ValueError):
        return None
    near = get_close_matches(match[1], names, 1, 0.6)
    similar = SYNONYMS.get(match[1]) if SYNONYMS.get(match[1]) in names else (near[0] if near else None)
    advice = f"{similar}= is meant, perhaps; " if similar else ""
    return f"{advice}it takes {', '.join(names)}"


def _called_function(failure: Failure) -> Operand:
    """Return what the user's line calls; None where it cannot be told."""
    node = None if failure.line is None else failure.line.node
    function = evaluate(node.func, failure.frame) if isinstance(node, ast.Call) else MISSING
    if function is MISSING and isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        owner = evaluate(node.func.value, failure.frame)
        function = MISSING if owner is MISSING else getattr(type(owner), node.func.attr, MISSING)
    return None if function is MISSING else function


@remedy(r"'?NoneType'?")
def find_none(failure: Failure, match: re.Match[str]) -> str | None:
    """None where a value belongs: a gradient that is not there, a function that returns nothing."""
    silent_argument = _find_silent_argument(failure)
    if silent_argument is not None:
        return silent_argument
    for operand in _named_parts(failure):
        if operand.value is None and operand.text.endswith(".grad"):
            return _explain_missing_gradient(failure, operand)
        if operand.value is None:
            made = None if operand.origin is None else operand.origin.value
            silent = _find_silent_function(failure, made)
            return silent or f"{operand.text}{at(operand)} is None: the line that makes it gives nothing back"
    if failure.modules and type(failure.modules[-1]).__name__ == "Sequential":
        for part in failure.modules[-1].children():
            if part is not failure.modules[0] and _may_return_nothing(type(part).forward):
                return _describe_silent_function(type(part).forward)
    return None if failure.line is None else _find_silent_function(failure, failure.line.node)


def _find_silent_argument(failure: Failure) -> str | None:
    """Return which function of the user's, given to the call that failed, has no return."""
    node = failure.line.node if failure.line is not None and failure.stack[0].called else None
    for argument in (*node.args, *(each.value for each in node.keywords)) if isinstance(node, ast.Call) else ():
        function = evaluate(argument, failure.frame)
        if inspect.isfunction(function) and _may_return_nothing(function):
            return _describe_silent_function(function)
    return None


def _named_parts(failure: Failure) -> list[NamedValue]:
    """Return the names and attributes of the line, those of gradients and of None too."""
    if failure.line is None:
        return []
    found = []
    for node in ast.walk(failure.line.node):
        if isinstance(node, (ast.Name, ast.Attribute)) and isinstance(node.ctx, ast.Load):
            value = evaluate(node, failure.frame)
            if value is not MISSING:
                found.append(NamedValue(text_of(node), value, find_origin(failure.line.source, node, failure.stack)))
    return sorted(found, key=lambda each: -len(each.text))


def _explain_missing_gradient(failure: Failure, operand: NamedValue) -> str:
    name = operand.text.removesuffix(".grad")
    owner = next((each.value for each in _named_parts(failure) if each.text == name), None)
    if isinstance(owner, Tensor) and not owner.is_leaf:
        return f"{name} is computed, and gradients stay with leaves: {name}.retain_grad() before backward()"
    if isinstance(owner, Tensor) and not owner.requires_grad:
        return f"{name} does not require grad: requires_grad=True where it is made"
    return f"{operand.text} is None until backward() has reached {name}: call it before, on a loss made of {name}"


def _find_silent_function(failure: Failure, node: ast.AST | None) -> str | None:
    """Return which function of the user's, called in the expression, has no return."""
    for call in ast.walk(node) if node is not None else ():
        if not isinstance(call, ast.Call):
            continue
        called = evaluate(call.func, failure.frame)
        function = type(called).forward if is_module(called) else called
        if function is MISSING and isinstance(call.func, ast.Call):
            made = evaluate(call.func.func, failure.frame)
            function = getattr(made, "forward", MISSING)
        if function is MISSING and isinstance(call.func, ast.Attribute) and call.func.attr == "apply":
            function = getattr(evaluate(call.func.value, failure.frame), "forward", MISSING)
        silent = _follow_returns(function)
        if silent is not None:
            return _describe_silent_function(silent)
    return None


def _follow_returns(function: Operand) -> Operand:
    """Return the function that may return nothing: this one, or one whose result it returns as it is."""
    for _ in range(MAX_CALLS_FOLLOWED):
        code = getattr(function, "__code__", None)
        if code is None or not user_files[code.co_filename]:
            return None
        if _may_return_nothing(function):
            return function
        source = parse_source(code.co_filename)
        node = None if source is None else find_function(source, code.co_firstlineno)
        call = node.body[-1].value if node is not None and isinstance(node.body[-1], ast.Return) else None
        if source is None or not isinstance(call, ast.Call):
            return None
        function = _called_by_name(function.__globals__, source, call.func)
    return None


def _called_by_name(names: dict[str, Operand], source: SourceFile, called: ast.expr) -> Operand:
    """Return the function that a call stands for: one by its name, or the forward of a part that `__init__` made."""
    if isinstance(called, ast.Name):
        return names.get(called.id)
    if not isinstance(called, ast.Attribute) or text_of(called.value) != "self":
        return None
    scope = source.scope_of(called)
    owner = source.scope_of(scope)
    made = source.attribute_assignments.get((getattr(owner, "name", ""), called.attr), [])
    value = getattr(made[0], "value", None) if made else None
    kind = names.get(value.func.id) if isinstance(value, ast.Call) and isinstance(value.func, ast.Name) else None
    return getattr(kind, "forward", None) if kind else getattr(names.get(getattr(owner, "name", "")), called.attr, None)


def _describe_silent_function(function: Operand) -> str:
    code = function.__code__
    site = definition_site(code).describe_briefly()
    return f"{function.__qualname__.rsplit('<locals>.', 1)[-1]}, {site}, may return nothing: a return at its end"


def _may_return_nothing(function: Operand) -> bool:
    """Return whether the last statement of the user's function neither returns nor raises."""
    if not user_files[function.__code__.co_filename]:
        return False
    try:
        tree = ast.parse(inspect.cleandoc("\n" + inspect.getsource(function)))
    except (OSError, TypeError, SyntaxError):
        return False
    body = tree.body[0].body if isinstance(tree.body[0], ast.FunctionDef) else []
    return bool(body) and not isinstance(body[-1], (ast.Return, ast.Raise, ast.If, ast.With, ast.Try, ast.Match))


@remedy(
    r"'(?:builtin_function_or_)?(?:method|function)' object is not|'(?:method|function)' and|: '(?:method|function)'"
)
def call_method(failure: Failure, match: re.Match[str]) -> str | None:
    """A method that is named, and not called."""
    for operand in _named_parts(failure):
        if inspect.ismethod(operand.value) or inspect.isfunction(operand.value):
            return f"{operand.text} is a method: {operand.text}()"
    for node in ast.walk(failure.line.node) if failure.line is not None else ():
        if isinstance(node, ast.Attribute):
            owner = evaluate(node.value, failure.frame)
            if owner is not MISSING and inspect.isroutine(getattr(type(owner), node.attr, None)):
                return f"{text_of(node)} is a method: {text_of(node)}()"
    return None


@remedy(r"(\w+)\.__init__\(\) (?:missing|takes)")
def make_instance(failure: Failure, match: re.Match[str]) -> str | None:
    """A class that is called with what its instances take."""
    node = None if failure.line is None else failure.line.node
    kind = evaluate(node.func, failure.frame) if isinstance(node, ast.Call) else MISSING
    if not isinstance(kind, type) or not isinstance(node, ast.Call):
        return None
    names = [name for name in inspect.signature(kind).parameters if name != "self"]
    gives_tensor = any(isinstance(evaluate(each, failure.frame), Tensor) for each in node.args)
    if hasattr(kind, "forward") and (gives_tensor or not isinstance(node.func, ast.Attribute)):
        name, kind_name = text_of(node.func), kind.__name__
        where = at(next((each for each in _named_parts(failure) if each.text == name), None))
        return (
            f"{name}{where} is a class: make a module first, nn.{kind_name}({', '.join(names[:2])}, …), and call that"
        )
    return f"it takes {', '.join(names)}"


@remedy(r"(\w+)\.forward\(\) (?:missing|takes)|(?<!__init__\(\) )takes? from \d+ to \d+ positional")
def name_inputs(failure: Failure, match: re.Match[str]) -> str | None:
    """A module that is called with more or fewer inputs."""
    layer = failure.module()
    if layer is None:
        return None
    forward: Operand = type(layer.value).forward
    names = [name for name in inspect.signature(forward).parameters if name != "self"]
    node = None if failure.line is None else failure.line.node
    for argument in node.args if isinstance(node, ast.Call) and len(node.args) == 1 else ():
        given = evaluate(argument, failure.frame)
        if isinstance(given, (list, tuple)) and len(given) == len(names):
            name, kind = text_of(argument), type(given).__name__
            told = f"{layer.text} takes {', '.join(names)}, and {name} is one {kind} of {len(given)}"
            return f"{told}: {layer.text}(*{name})"
    return f"{layer.text} takes {', '.join(names)}"


@remedy(r"<?([\w.<>]+)>?\(\) (?:missing \d+ required|takes \d+ positional)")
def name_parameters(failure: Failure, match: re.Match[str]) -> str | None:
    """A function that is called with more or fewer arguments: the user's, or a hook of the wrong kind."""
    hook = failure.locals.get("hook", failure.locals.get("after"))
    code = getattr(getattr(hook, "call", hook), "__code__", None)
    if code is not None and failure.modules:
        site = definition_site(code).describe_briefly()
        return f"the hook of {site} takes (module, inputs, output); a forward pre-hook takes (module, inputs)"
    node = None if failure.line is None else failure.line.node
    function: Operand = evaluate(node.func, failure.frame) if isinstance(node, ast.Call) else MISSING
    try:
        names = [] if function is MISSING else list(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return None
    return f"it takes {', '.join(names)}" if names else None


@remedy(r"not enough values to unpack \(expected (\d+), got (\d+)\)|too many values to unpack \(expected (\d+)\)")
def unpack_as_many(failure: Failure, match: re.Match[str]) -> str | None:
    """A statement with more or fewer names than values."""
    if failure.line is None:
        return None
    if failure.stack[0].called and type(failure.modules[0] if failure.modules else None).__name__ == "LSTM":
        lstm, state = failure.module(), failure.tensors()[-1:]
        name, given = ("lstm" if lstm is None else lstm.text), (state[0].text if state else "h0")
        return f"the state of an LSTM is a pair, (hidden, cell): {name}(x, ({given}, c0)), c0 of the shape of {given}"
    statement = failure.line.source.statement_of(failure.line.node)
    value = getattr(statement, "iter" if isinstance(statement, (ast.For, ast.AsyncFor)) else "value", None)
    text = "the value" if value is None else text_of(value)
    if text.endswith("saved_tensors"):
        return "forward saved other tensors: ctx.save_for_backward(…) there, of those that backward unpacks"
    if isinstance(statement, (ast.For, ast.AsyncFor)):
        each = "batch" if "oader" in text else "item"
        count = f" {match[2]}" if match[2] else " more"
        dataset = _describe_dataset(failure, statement)
        return f"each {each} of {text} holds{count}: as many names as that{dataset}"
    called = value.func if isinstance(value, ast.Call) else None
    layer = evaluate(called, failure.frame) if called is not None else MISSING
    if is_module(layer) and match[3] and called is not None:
        place = at(next((each for each in _named_parts(failure) if each.value is layer), None))
        names = int(match[3])
        return f"{text_of(called)}{place} gives one tensor, which goes by rows: {text}.chunk({names}, dim=-1)"
    held = MISSING if value is None else evaluate(value, failure.frame)
    names = int(match[1] or match[3])
    if isinstance(held, (list, tuple)) and all(isinstance(each, (list, tuple)) and len(each) == names for each in held):
        targets = text_of(statement.targets[0]).strip("()") if isinstance(statement, ast.Assign) else "a, b"
        return f"{text} is a list of {len(held)} samples of {names} each: {targets} = zip(*{text})"
    size = f", which has {match[2]}" if match[2] else ""
    return f"as many names as {text} gives{size}"


def _describe_dataset(failure: Failure, statement: ast.For | ast.AsyncFor) -> str:
    """Return the dataset of the loader that the loop goes through, and the line that made it."""
    source: SourceFile | None = None if failure.line is None else failure.line.source
    given = None if source is None else find_return(Origin(source, statement), failure.stack)
    if given is not None:
        return f"; they come from {given.describe()}"
    for node in ast.walk(statement.iter):
        value = evaluate(node, failure.frame) if isinstance(node, (ast.Name, ast.Attribute)) else MISSING
        if isinstance(node, (ast.Name, ast.Attribute)) and hasattr(value, "__getitem__") and source is not None:
            origin = find_origin(source, node, failure.stack)
            return "" if origin is None else f"; they come from {origin.describe()}"
    return ""


@remedy(r"not supported between instances of 'str' and '(?:int|float)'")
def give_number(failure: Failure, match: re.Match[str]) -> str:
    """A text where a number belongs."""
    node = None if failure.line is None else failure.line.node
    for keyword in node.keywords if isinstance(node, ast.Call) else ():
        value = evaluate(keyword.value, failure.frame)
        if isinstance(value, str) and keyword.arg:
            return f"{keyword.arg} is a text: float({text_of(keyword.value)}), or {keyword.arg}={value}"
    return "a number is compared with a text: float(…) of it"


@remedy(r"object has no attribute '(\w+)'")
def name_attributes(failure: Failure, match: re.Match[str]) -> str | None:
    """An attribute that an object of the library has not."""
    for node in ast.walk(failure.line.node) if failure.line is not None else ():
        if not isinstance(node, ast.Attribute) or node.attr != match[1]:
            continue
        owner = evaluate(node.value, failure.frame)
        if owner is MISSING:
            continue
        if is_module(owner):
            held = [name for table in ("_modules", "_parameters", "_buffers") for name in vars(owner)[table]]
            near = get_close_matches(match[1], [*held, *dir(type(owner))], 1, 0.6)
            hint = f"{text_of(node.value)}.{near[0]} is meant, perhaps; " if near else ""
            return f"{hint}it has {', '.join(held) or 'no parts'}: assign self.{match[1]} in __init__"
        near = get_close_matches(match[1], dir(type(owner)), 1, 0.6)
        if near and isinstance(owner, Tensor):
            return f"{text_of(node.value)}.{near[0]} is meant, perhaps"
    return None


@remedy(r"^'?([\w.]+)'?$")
def name_keys(failure: Failure, match: re.Match[str]) -> str | None:
    """A key that a dictionary of modules, or of a checkpoint, has not."""
    if not isinstance(failure.error, KeyError):
        return None
    for node in ast.walk(failure.line.node) if failure.line is not None else ():
        if isinstance(node, ast.Subscript):
            held: Operand = evaluate(node.value, failure.frame)
            held = vars(held)["_modules"] if is_module(held) else held
            if isinstance(held, dict) and 0 < len(held) <= 40:
                return f"{text_of(node.value)} has the keys {', '.join(map(repr, held))}"
    return None
