"""Remedies for statements with more or fewer names than values."""

from __future__ import annotations

import ast
import re

from adjoint.core.tensor.tensor import Tensor
from adjoint.diagnosis.failure import Failure
from adjoint.diagnosis.operands import (
    MISSING,
    NamedValue,
    Origin,
    evaluate,
    find_origin,
    find_return,
    is_module,
)
from adjoint.diagnosis.remedies.registry import at, find_getter, named_parts, remedy
from adjoint.diagnosis.repairs.expression import bracket
from adjoint.diagnosis.repairs.trial import compute
from adjoint.diagnosis.source_expressions import SourceFile, text_of


@remedy(r"cannot unpack non-iterable (int|float|bool|Tensor|\w+) object")
def take_single_result(failure: Failure, match: re.Match[str]) -> str | None:
    """Several names for what a function of the user's gives as one value."""
    statement = None if failure.line is None else failure.line.source.statement_of(failure.line.node)
    call = statement.value if isinstance(statement, ast.Assign) else None
    target = statement.targets[0] if isinstance(statement, ast.Assign) else None
    if failure.line is None or not isinstance(call, ast.Call) or not isinstance(target, ast.Tuple):
        return None
    returned = find_return(Origin(failure.line.source, call), failure.stack)
    if returned is None or match[1] == "NoneType" or not isinstance(returned.node, ast.Return):
        return None
    names = list(map(text_of, target.elts))
    told = f"{text_of(call.func)} gives one {match[1]}, {returned.describe()}"
    return f"{told}: {names[0]} = {text_of(call)}, or {len(names)} values there"


def _pair_state(failure: Failure) -> str | None:
    """Return what to write where an LSTMCell is given its hidden state alone."""
    layer, call = failure.module(), failure.node
    parent = None if failure.line is None or call is None else failure.line.source.statement_of(call)
    call = getattr(parent, "value", None) if not isinstance(call, ast.Call) else call
    if layer is None or type(layer.value).__name__ != "LSTMCell" or not isinstance(call, ast.Call):
        return None
    given = call.args[1] if len(call.args) > 1 else None
    if given is None or not isinstance(evaluate(given, failure.frame), Tensor):
        return None
    target = parent.targets[0] if isinstance(parent, ast.Assign) else None
    names = [text_of(each) for each in target.elts] if isinstance(target, ast.Tuple) else []
    state = ", ".join(names if text_of(given) in names and len(names) == 2 else [text_of(given), "c0"])
    told = f"the state of an LSTMCell is a pair, (hidden, cell), and {text_of(given)} is one tensor"
    return f"{told}: {text_of(call.func)}({text_of(call.args[0])}, ({state}))"


def _describe_blank_line(failure: Failure) -> str | None:
    """Return which text of the statement is empty, as the last line of a file is, split at its ends of lines."""
    statement = None if failure.line is None else failure.line.source.statement_of(failure.line.node)
    for call in ast.walk(statement) if statement is not None else ():
        method = call.func if isinstance(call, ast.Call) else None
        if not isinstance(method, ast.Attribute) or method.attr not in ("split", "rsplit"):
            continue
        held, text = compute(method.value, failure.frame), text_of(method.value)
        if isinstance(held, str) and not held.strip():
            lines = next(
                (each for each in failure.operands if isinstance(each.value, list) and held in each.value), None
            )
            told = f"{text} is an empty line" + ("" if lines is None else f" of {lines.text}{at(lines)}")
            return f"{told}: [line for line in … if line.strip()] where the lines are read leaves such out"
    return None


PAIRED = re.compile(r"^enumerate\(|\.items\(\)$|\.named_\w+\(\)$|^zip\([^,]+,[^,]+\)$")
SPLITTING = re.compile(r"chunk|split|unbind")


@remedy(r"not enough values to unpack \(expected (\d+), got (\d+)\)|too many values to unpack \(expected (\d+)[,)]")
def unpack_as_many(failure: Failure, match: re.Match[str]) -> str | None:
    """A statement with more or fewer names than values."""
    if failure.line is None:
        return None
    if failure.stack[0].called and type(failure.modules[0] if failure.modules else None).__name__ == "LSTM":
        lstm, state = failure.module(), failure.tensors()[-1:]
        name, given = ("lstm" if lstm is None else lstm.text), (state[0].text if state else "h0")
        return f"the state of an LSTM is a pair, (hidden, cell): {name}(x, ({given}, c0)), c0 of the shape of {given}"
    blank = _describe_blank_line(failure)
    if blank is not None:
        return blank
    cell = _pair_state(failure)
    if cell is not None:
        return cell
    statement = failure.line.source.statement_of(failure.line.node)
    value = getattr(statement, "iter" if isinstance(statement, (ast.For, ast.AsyncFor)) else "value", None)
    text = "the value" if value is None else text_of(value)
    if isinstance(statement, (ast.For, ast.AsyncFor)):
        target = statement.target
        if text.startswith("enumerate(") and match[2] == "2" and isinstance(target, ast.Tuple) and len(target.elts) > 2:
            first, *rest = map(text_of, target.elts)
            return f"enumerate gives a number and an item: for {first}, ({', '.join(rest)}) in {text}"
        each = "batch" if "oader" in text else "item"
        returned = find_return(Origin(failure.line.source, statement), failure.stack)
        sample = None if returned is None else getattr(returned.node, "value", None)
        if returned is not None and isinstance(sample, ast.Dict):
            keys = [key.value for key in sample.keys if isinstance(key, ast.Constant)]
            return (
                f"{returned.describe()}, so each {each} is a dict: for {each} in {text}, and "
                f"{each}[{(keys or ['x'])[0]!r}]"
            )
        count = f" {match[2]}" if match[2] else " more"
        nested = _nest_names(statement, match)
        if nested is not None:
            return nested
        dataset = _describe_dataset(failure, statement)
        return f"each {each} of {text} holds{count}: as many names as that{dataset}"
    called = value.func if isinstance(value, ast.Call) else None
    layer = evaluate(called, failure.frame) if called is not None else MISSING
    is_pooling = "MaxPool" in type(layer).__name__
    if is_module(layer) and match[3] and called is not None and not is_pooling:
        place = at(next((each for each in named_parts(failure) if each.value is layer), None))
        names = int(match[3])
        single = _describe_single_result(failure, value, statement)
        if single is not None:
            return single
        return f"{text_of(called)}{place} gives one tensor, which goes by rows: {text}.chunk({names}, dim=-1)"
    held = MISSING if value is None else evaluate(value, failure.frame)
    names = int(match[1] or match[3])
    if is_pooling and called is not None:
        origin = find_origin(failure.line.source, called, failure.stack)
        place = at(NamedValue("", None, origin))
        return f"{text_of(called)}{place} gives one tensor: return_indices=True there for the indices too"
    if isinstance(held, (list, tuple)) and all(isinstance(each, (list, tuple)) and len(each) == names for each in held):
        targets = text_of(statement.targets[0]).strip("()") if isinstance(statement, ast.Assign) else "a, b"
        return f"{text} is a list of {len(held)} samples of {names} each: {targets} = zip(*{text})"
    found = MISSING if value is None else compute(value, failure.frame)
    if isinstance(found, Tensor) and names in found.shape:
        dim = tuple(found.shape).index(names)
        way = f"{text}.unbind({dim})" if dim else text
        return (
            f"{text}, {tuple(found.shape)}, goes by its {found.shape[0]} rows: {way} gives its {names} parts "
            f"along dimension {dim}"
        )
    if (
        isinstance(found, tuple)
        and found
        and all(isinstance(each, Tensor) for each in found)
        and isinstance(value, ast.Call)
    ):
        method = value.func if isinstance(value.func, ast.Attribute) else None
        fields = getattr(type(found), "_fields", ())
        if fields or not SPLITTING.search(text):
            return (
                f"{text} gives {len(found)}, and here are {names} names: {', '.join(fields or ['…'] * len(found))} = …"
            )
        is_function = method is None or text_of(method.value) == "torch"
        x = text_of(value.args[0]) if method is None or is_function else bracket(method.value)
        dims = [each.value for each in value.keywords if each.arg == "dim"] or value.args[2 if is_function else 1 :]
        dim = next((int(compute(each, failure.frame)) for each in dims), 0)
        whole = sum(each.shape[dim] for each in found)
        last = found[0].shape[-1]
        size = evaluate(value.args[0], failure.frame) if value.args and not dims and not is_function else None
        is_counted_by_size = ".split(" not in text or last == names * size if type(size) is int else False
        if len(found) != names and is_counted_by_size and whole != last and not last % names:
            told = f"{text} parts dimension 0, of {whole}, and not the {last} features"
            return f"{told}: {text_of(value.func)}({text_of(value.args[0])}, dim=-1) gives {names}"
        fitting = "chunk" if whole % names == 0 else "tensor_split"
        wanted = f"{x}.{fitting}({names}{f', dim={dim}' if dim else ''})"
        is_counted = text_of(value.func).rpartition(".")[2] in ("chunk", "tensor_split")
        more = f"{len(found)} names, or " if is_counted else ""
        return f"{text} gives {len(found)}, and here are {names} names: {more}{wanted}"
    count = str(len(found)) if isinstance(found, (tuple, list)) else match[2]
    starred = value.args[0] if text.startswith("zip(*") and isinstance(value, ast.Call) else None
    samples = evaluate(starred.value, failure.frame) if isinstance(starred, ast.Starred) else None
    if (
        isinstance(starred, ast.Starred)
        and isinstance(samples, (list, tuple))
        and isinstance(samples[0], (list, tuple))
    ):
        returned = find_getter(failure)
        told = f"each item of {text_of(starred.value)} holds {len(samples[0])} values"
        told += "" if returned is None else f", {returned.describe()}"
        names_given = statement.targets[0] if isinstance(statement, ast.Assign) else None
        named = list(map(text_of, getattr(names_given, "elts", ())))
        fitting_names = [*named, *["_"] * len(samples[0])][: len(samples[0])]
        return f"{told}, and here are {names} names: {', '.join(fitting_names)} = {text}"
    if text.endswith(".shape") and match[2] == str(names - 1) and isinstance(value, ast.Attribute):
        x = text_of(value.value)
        own = failure.find_operand(x)
        shape = tuple(getattr(evaluate(value.value, failure.frame), "shape", ()))
        return f"{x}{at(own)} is {shape}, perhaps one sample without its batch: {x}.unsqueeze(0) where it is given"
    return f"as many names as {text} gives{f', which has {count}' if count else ''}"


def _nest_names(statement: ast.For | ast.AsyncFor, match: re.Match[str]) -> str | None:
    """Return how to name the items of `zip(models.items(), optimizers)`, of which some are pairs themselves."""
    call, target = statement.iter, statement.target
    if not isinstance(call, ast.Call) or not isinstance(target, ast.Tuple) or text_of(call.func) != "zip":
        return None
    counts = [2 if PAIRED.search(text_of(each)) else 1 for each in call.args]
    if sum(counts) != len(target.elts) or len(counts) == sum(counts):
        return None
    names, parts = list(map(text_of, target.elts)), []
    for count in counts:
        parts.append(names[0] if count == 1 else f"({', '.join(names[:count])})")
        names = names[count:]
    return f"{text_of(call)} gives one item of each, of which some are pairs: for {', '.join(parts)} in {text_of(call)}"


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


def _describe_single_result(failure: Failure, call: ast.expr | None, statement: ast.AST | None) -> str | None:
    """Return the `return` of one value of the user's forward, whose result is unpacked to several names."""
    target = statement.targets[0] if isinstance(statement, ast.Assign) else None
    returned = (
        None if failure.line is None or call is None else find_return(Origin(failure.line.source, call), failure.stack)
    )
    given = None if returned is None else getattr(returned.node, "value", None)
    if returned is None or call is None or not isinstance(given, ast.Name) or not isinstance(target, ast.Tuple):
        return None
    missing = [each.id for each in target.elts if isinstance(each, ast.Name) and each.id != given.id]
    made = returned.source.assignments_in(returned.source.scope_of(given))
    both = [name for name in missing if name in made]
    wanted = f"return {', '.join([given.id, *both])}" if both else "as many values"
    told = f"{text_of(call)} gives one value at {returned.describe()}, and here are {len(target.elts)} names"
    return f"{told}: {wanted} there, or {given.id} = {text_of(call)} here"
