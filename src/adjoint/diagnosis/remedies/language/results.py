"""Remedies for results of calls: those that return nothing, and those of several parts that a call takes one by one."""

from __future__ import annotations

import ast
import re

from adjoint.diagnosis.callbacks import find_callbacks
from adjoint.diagnosis.causes.arguments import defines
from adjoint.diagnosis.causes.called_functions import find_function_called
from adjoint.diagnosis.causes.computing import open_step
from adjoint.diagnosis.causes.steps import trace_back
from adjoint.diagnosis.failure import Failure
from adjoint.diagnosis.operands import MISSING, Origin, evaluate, find_return
from adjoint.diagnosis.remedies.language.sources_of_none import describe_lookup
from adjoint.diagnosis.remedies.registry import at, named_parts, remedy
from adjoint.diagnosis.repairs.trial import compute
from adjoint.diagnosis.source_expressions import (
    SourceFile,
    find_expression,
    text_of,
)

CUTTING = re.compile(r"(?:\w+\.)*(?:no_grad|inference_mode)\(\)|(?:\w+\.)*set_grad_enabled\(False\)")


@remedy(r"'NoneType' object is not callable")
def find_missing_function(failure: Failure, match: re.Match[str]) -> str | None:
    """A function that another one was to give, such as `get_activation(name)()`."""
    node = failure.node
    first = open_step(failure, node.func) if isinstance(node, ast.Call) else None
    for step in trace_back(first) if first is not None else ():
        told = describe_lookup(step)
        if told is not None and isinstance(node, ast.Call):
            return f"{text_of(node.func)} is None, as {told}"
    return None


@remedy(r"'?NoneType'?")
def return_self(failure: Failure, match: re.Match[str]) -> str | None:
    """The result of a method that returns nothing, such as `model = Model().fit(x, y)`."""
    for operand in named_parts(failure):
        made = None if operand.origin is None else operand.origin.value
        call = made if isinstance(made, ast.Call) and isinstance(made.func, ast.Attribute) else None
        owner = call.func.value if call is not None and isinstance(call.func, ast.Attribute) else None
        if operand.value is not None or call is None or not isinstance(owner, ast.Call) or operand.origin is None:
            continue
        step = open_step(failure, call)
        made_by = None if step is None else defines(find_function_called(step, call)[0])
        if made_by is None:
            continue
        source, function = made_by
        if not any(isinstance(each, ast.Return) and each.value is not None for each in ast.walk(function)):
            told = f"{function.name} at {source.place_of(function)} returns nothing, and {operand.text}{at(operand)}"
            return f"{told} is None with it: return self at the end of {function.name}"
    return None


@remedy(r"'?NoneType'?", is_last=True)
def return_in_each_case(failure: Failure, match: re.Match[str]) -> str | None:
    """A function that the library calls, such as one of a schedule, which returns nothing in some case."""
    for callback in find_callbacks(failure.stack, failure.message):
        made = callback.definition()
        function = None if made is None else made.node
        if made is None or not isinstance(function, ast.FunctionDef):
            continue
        returns = [each for each in ast.walk(function) if isinstance(each, ast.Return)]
        last = function.body[-1]
        if any(each.value is not None for each in returns) and isinstance(last, ast.If) and not last.orelse:
            told = f"{callback.name} at {made.place()} returns nothing where {text_of(last.test)} is false"
            return f"{told}: return … at its end, for that case"
    return None


@remedy(r"(\w+)\(\) missing \d+ required positional arguments?")
def spread_results(failure: Failure, match: re.Match[str]) -> str | None:
    """A call whose only argument is a call that gives all of its arguments, as one tuple."""
    for call in ast.walk(failure.line.node) if failure.line is not None else ():
        if not isinstance(call, ast.Call) or len(call.args) != 1 or not isinstance(call.args[0], ast.Call):
            continue
        if text_of(call.func).rpartition(".")[2] != match[1] or failure.line is None:
            continue
        returned = find_return(Origin(failure.line.source, call.args[0]), failure.stack)
        given = None if returned is None else getattr(returned.node, "value", None)
        if returned is not None and isinstance(given, ast.Tuple):
            inner = text_of(call.args[0])
            told = f"{inner} gives a tuple of {len(given.elts)}, {returned.describe()}"
            return f"{told}: {text_of(call.func)}(*{inner})"
    return None


@remedy(r"not enough values to unpack \(expected (\d+), got (\d+)\)|too many values to unpack \(expected (\d+)[,)]")
def nest_results(failure: Failure, match: re.Match[str]) -> str | None:
    """A loop over samples that hold a tuple within a tuple."""
    statement = None if failure.line is None else failure.line.source.statement_of(failure.line.node)
    target = statement.target if isinstance(statement, (ast.For, ast.AsyncFor)) else None
    if failure.line is None or not isinstance(statement, (ast.For, ast.AsyncFor)) or not isinstance(target, ast.Tuple):
        return None
    returned = find_return(Origin(failure.line.source, statement), failure.stack)
    given = None if returned is None else getattr(returned.node, "value", None)
    if returned is None or not isinstance(given, ast.Tuple):
        return None
    names, parts = list(map(text_of, target.elts)), []
    for each in given.elts:
        count = len(each.elts) if isinstance(each, ast.Tuple) else 1
        own = [*names[:count], *["_"] * count][:count]
        parts.append(own[0] if not isinstance(each, ast.Tuple) else f"({', '.join(own)})")
        names = names[count:]
    if names or not any(isinstance(each, ast.Tuple) for each in given.elts):
        return None
    return f"{returned.describe()} nests its values: for {', '.join(parts)} in {text_of(statement.iter)}"


@remedy(r"can't retain_grad on Tensor that has requires_grad=False|cannot register a hook on a tensor that doesn't")
def record_here(failure: Failure, match: re.Match[str]) -> str | None:
    """A gradient that is asked for within a block that records none."""
    for place in failure.stack:
        found = find_expression(place)
        block = None if found is None else _find_cutting_block(*found)
        if found is not None and block is not None:
            told = f"{found[0].text_of(block)} at {found[0].place_of(block)} is around it, and records nothing"
            return f"{told}: torch.enable_grad() there, or leave that block out"
    return None


def _find_cutting_block(source: SourceFile, node: ast.AST) -> ast.With | None:
    """Return the `with torch.no_grad():` around a node."""
    around: ast.AST | None = node
    while around is not None:
        if isinstance(around, ast.With) and any(CUTTING.fullmatch(text_of(each.context_expr)) for each in around.items):
            return around
        around = source.parents.get(around)
    return None


@remedy(r"'?([^']*)'? is not in (?:list|tuple)$|(?:list|tuple)\.(?:index|remove)\(x\): x not in")
def name_items(failure: Failure, match: re.Match[str]) -> str | None:
    """An item whose place is asked of a list that does not hold it."""
    for call in ast.walk(failure.line.node) if failure.line is not None else ():
        method = call.func if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) else None
        if not isinstance(call, ast.Call) or method is None or method.attr not in ("index", "remove") or not call.args:
            continue
        held, item = compute(method.value, failure.frame), compute(call.args[0], failure.frame)
        if isinstance(held, (list, tuple)) and item is not MISSING and item not in held:
            name, shown = text_of(method.value), ", ".join(map(repr, held[:8]))
            told = f"{text_of(call.args[0])} is {item!r}, and {name}{at(failure.find_operand(name))} holds {shown}"
            return f"{told}: {item!r} there too, or if {text_of(call.args[0])} in {name} before it"
    return None


@remedy(r"'(?:list|tuple)' object cannot be interpreted as an integer")
def join_in_one(failure: Failure, match: re.Match[str]) -> str | None:
    """Lists that are joined as two arguments, of which the second is taken for the axis."""
    node = failure.node
    if not isinstance(node, ast.Call) or len(node.args) != 2:
        return None
    name = text_of(node.func).rpartition(".")[2]
    values = [compute(each, failure.frame) for each in node.args]
    if name not in ("concatenate", "cat", "stack", "concat", "vstack", "hstack") or not isinstance(
        values[1], (list, tuple)
    ):
        return None
    first, second = map(text_of, node.args)
    told = f"{text_of(node.func)} takes the parts as one list, and {second} stands where the axis does"
    return f"{told}: {text_of(node.func)}({first} + {second})"


@remedy(r"Parameter '(\w+)' of module (.*) has to be pruned before")
def remove_if_pruned(failure: Failure, match: re.Match[str]) -> str | None:
    """A module without the mask that is to be made permanent."""
    node = failure.node
    if not isinstance(node, ast.Call) or not node.args:
        return None
    part = text_of(node.args[0])
    prune = text_of(node.func).rpartition(".")[0] or "prune"
    told = f"{part}{at(failure.find_operand(part))} is {match[2]}, whose {match[1]} was not pruned"
    return f"{told}: if {prune}.is_pruned({part}): before it"


@remedy(r"Expected reduction dim (-?\d+) to have non-zero size|cannot do a non-empty take from an empty")
def skip_empty(failure: Failure, match: re.Match[str]) -> str | None:
    """A reduction of nothing, as of a sample without objects."""
    for each in failure.tensors():
        if each.value.numel() == 0:
            told = f"{each.text}{at(each)} is {tuple(each.value.shape)}, without elements"
            return f"{told}: if {each.text}.numel() before it, or another value for such a sample"
    return None


@remedy(
    r"'(?:collections\.)?(deque|dict_values|range|generator|map)' object has no attribute "
    r"'(mean|std|sum|to|float|max|min|shape|size|numpy)'"
)
def make_tensor_of_items(failure: Failure, match: re.Match[str]) -> str | None:
    """Numbers in a container of Python, of which something is asked that tensors have."""
    for each in ast.walk(failure.line.node) if failure.line is not None else ():
        value = evaluate(each, failure.frame) if isinstance(each, (ast.Name, ast.Attribute)) else MISSING
        if type(value).__name__ == match[1] and isinstance(each, (ast.Name, ast.Attribute)):
            text = text_of(each)
            told = f"{text}{at(failure.find_operand(text))} is a {match[1]}, which has no {match[2]}"
            return f"{told}: {text} = torch.tensor(list({text})) before it"
    return None


@remedy(r"", is_last=True)
def take_parts(failure: Failure, match: re.Match[str]) -> str | None:
    """Several results of the user's function that one name holds, as if they were one array."""
    for operand in failure.operands:
        made = None if operand.origin is None else operand.origin.node
        returned = find_return(operand.origin, failure.stack)
        parts = getattr(returned.node, "value", None) if returned is not None else None
        is_named = isinstance(made, ast.Assign) and isinstance(made.targets[0], ast.Name)
        is_several = type(operand.value) is tuple and len(operand.value) > 1 and hasattr(operand.value[0], "shape")
        if not is_named or not is_several or not isinstance(parts, ast.Tuple) or not isinstance(made, ast.Assign):
            continue
        names = [each.id if isinstance(each, ast.Name) else f"part{i}" for i, each in enumerate(parts.elts)]
        names[0] = text_of(made.targets[0])
        told = f"{operand.text}{at(operand)} is a tuple of {len(operand.value)}, {text_of(parts)}"
        return f"{told}: {', '.join(names)} = {text_of(made.value)} there"
    return None
