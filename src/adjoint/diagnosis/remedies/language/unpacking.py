"""Remedies for statements with more or fewer names than values."""

from __future__ import annotations

import ast
import re
from typing import NamedTuple

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
COUNTS_DIFFER = (
    r"not enough values to unpack \(expected (\d+), got (\d+)\)|too many values to unpack \(expected (\d+)[,)]"
)


class Unpacking(NamedTuple):
    """A statement that gives names to the parts of a value, and how many there are of each."""

    source: SourceFile
    statement: ast.AST | None
    value: ast.expr | None  # what is unpacked, or gone through by a loop
    names: int
    parts: str | None  # as far as the message tells
    targets: list[str]

    @property
    def text(self) -> str:
        return "the value" if self.value is None else text_of(self.value)

    @property
    def callee(self) -> ast.expr | None:
        """The function of the call that gives the value."""
        return self.value.func if isinstance(self.value, ast.Call) else None

    @classmethod
    def of(cls, failure: Failure, match: re.Match[str]) -> Unpacking | None:
        """Return the failed statement's; None where its line is not known."""
        if failure.line is None:
            return None
        statement = failure.line.source.statement_of(failure.line.node)
        is_loop = isinstance(statement, (ast.For, ast.AsyncFor))
        value = getattr(statement, "iter" if is_loop else "value", None)
        target = statement.targets[0] if isinstance(statement, ast.Assign) else getattr(statement, "target", None)
        targets = list(map(text_of, getattr(target, "elts", ())))
        return cls(failure.line.source, statement, value, int(match[1] or match[3]), match[2], targets)


@remedy(COUNTS_DIFFER)
def pair_lstm_states(failure: Failure, match: re.Match[str]) -> str | None:
    """An LSTM, or a cell of one, that is given its hidden state alone."""
    if failure.line is None:
        return None
    if failure.stack[0].called and type(failure.modules[0] if failure.modules else None).__name__ == "LSTM":
        lstm, state = failure.module(), failure.tensors()[-1:]
        name, given = ("lstm" if lstm is None else lstm.text), (state[0].text if state else "h0")
        return f"the state of an LSTM is a pair, (hidden, cell): {name}(x, ({given}, c0)), c0 of the shape of {given}"
    return _describe_blank_line(failure) or _pair_state(failure)


@remedy(COUNTS_DIFFER)
def name_items_of_loop(failure: Failure, match: re.Match[str]) -> str | None:
    """A loop with more or fewer names than each item holds."""
    unpacking = Unpacking.of(failure, match)
    loop = None if unpacking is None else unpacking.statement
    if unpacking is None or not isinstance(loop, (ast.For, ast.AsyncFor)):
        return None
    text = unpacking.text
    if text.startswith("enumerate(") and match[2] == "2" and len(unpacking.targets) > 2:
        first, *rest = unpacking.targets
        return f"enumerate gives a number and an item: for {first}, ({', '.join(rest)}) in {text}"
    each = "batch" if "oader" in text else "item"
    returned = find_return(Origin(unpacking.source, loop), failure.stack)
    sample = None if returned is None else getattr(returned.node, "value", None)
    if returned is not None and isinstance(sample, ast.Dict):
        keys = [key.value for key in sample.keys if isinstance(key, ast.Constant)]
        told = f"{returned.describe()}, so each {each} is a dict"
        return f"{told}: for {each} in {text}, and {each}[{(keys or ['x'])[0]!r}]"
    count = f" {match[2]}" if match[2] else " more"
    told = f"each {each} of {text} holds{count}: as many names as that"
    return _nest_names(loop) or f"{told}{_describe_dataset(failure, loop)}"


@remedy(COUNTS_DIFFER)
def unpack_result_of_module(failure: Failure, match: re.Match[str]) -> str | None:
    """Several names for the one tensor that a module gives."""
    unpacking = Unpacking.of(failure, match)
    called = None if unpacking is None else unpacking.callee
    layer = MISSING if called is None else evaluate(called, failure.frame)
    if unpacking is None or called is None:
        return None
    if "MaxPool" in type(layer).__name__:
        place = at(NamedValue("", None, find_origin(unpacking.source, called, failure.stack)))
        return f"{text_of(called)}{place} gives one tensor: return_indices=True there for the indices too"
    if not is_module(layer) or not match[3]:
        return None
    place = at(next((each for each in named_parts(failure) if each.value is layer), None))
    told = f"{text_of(called)}{place} gives one tensor, which goes by rows"
    single = _describe_single_result(failure, unpacking.value, unpacking.statement)
    return single or f"{told}: {unpacking.text}.chunk({unpacking.names}, dim=-1)"


@remedy(COUNTS_DIFFER)
def transpose_samples(failure: Failure, match: re.Match[str]) -> str | None:
    """A list of samples that is unpacked as the parts of one, or `zip(*samples)` of other parts."""
    unpacking = Unpacking.of(failure, match)
    if unpacking is None or unpacking.value is None:
        return None
    text, names = unpacking.text, unpacking.names
    held = evaluate(unpacking.value, failure.frame)
    if isinstance(held, (list, tuple)) and all(isinstance(each, (list, tuple)) and len(each) == names for each in held):
        targets = ", ".join(unpacking.targets) or "a, b"
        return f"{text} is a list of {len(held)} samples of {names} each: {targets} = zip(*{text})"
    starred = unpacking.value.args[0] if text.startswith("zip(*") and isinstance(unpacking.value, ast.Call) else None
    samples = evaluate(starred.value, failure.frame) if isinstance(starred, ast.Starred) else None
    if not isinstance(starred, ast.Starred) or not isinstance(samples, (list, tuple)):
        return None
    if not samples or not isinstance(samples[0], (list, tuple)):
        return None
    returned = find_getter(failure)
    made = "" if returned is None else f", {returned.describe()}"
    told = f"each item of {text_of(starred.value)} holds {len(samples[0])} values{made}"
    fitting_names = [*unpacking.targets, *["_"] * len(samples[0])][: len(samples[0])]
    return f"{told}, and here are {names} names: {', '.join(fitting_names)} = {text}"


@remedy(COUNTS_DIFFER)
def unbind_tensor(failure: Failure, match: re.Match[str]) -> str | None:
    """A tensor that goes by its rows, where its parts along another dimension are meant."""
    unpacking = Unpacking.of(failure, match)
    found = MISSING if unpacking is None or unpacking.value is None else compute(unpacking.value, failure.frame)
    if unpacking is None or not isinstance(found, Tensor) or unpacking.names not in found.shape:
        return None
    text, names = unpacking.text, unpacking.names
    dim = tuple(found.shape).index(names)
    told = f"{text}, {tuple(found.shape)}, goes by its {found.shape[0]} rows"
    return f"{told}: {f'{text}.unbind({dim})' if dim else text} gives its {names} parts along dimension {dim}"


@remedy(COUNTS_DIFFER)
def name_parts_of_result(failure: Failure, match: re.Match[str]) -> str | None:
    """A call that gives another number of tensors."""
    unpacking = Unpacking.of(failure, match)
    call = None if unpacking is None else unpacking.value
    found = compute(call, failure.frame) if isinstance(call, ast.Call) else MISSING
    if unpacking is None or not isinstance(call, ast.Call) or not isinstance(found, tuple) or not found:
        return None
    if not all(isinstance(each, Tensor) for each in found):
        return None
    fields = getattr(type(found), "_fields", ())
    if not fields and SPLITTING.search(unpacking.text):
        return _split_to_count(failure, call, found, unpacking.names)
    told = f"{unpacking.text} gives {len(found)}, and here are {unpacking.names} names"
    return f"{told}: {', '.join(fields or ['…'] * len(found))} = …"


def _split_to_count(failure: Failure, call: ast.Call, found: tuple[Tensor, ...], names: int) -> str:
    """Return the call that splits a tensor into as many parts as there are names."""
    text = text_of(call)
    method = call.func if isinstance(call.func, ast.Attribute) else None
    is_function = method is None or text_of(method.value) == "torch"
    x = text_of(call.args[0]) if method is None or is_function else bracket(method.value)
    dims = [each.value for each in call.keywords if each.arg == "dim"] or call.args[2 if is_function else 1 :]
    dim = next((int(compute(each, failure.frame)) for each in dims), 0)
    whole, last = sum(each.shape[dim] for each in found), found[0].shape[-1]
    # `x.split(size)` of the batch, where the features are as many times that size
    size = evaluate(call.args[0], failure.frame) if call.args and not dims and not is_function else None
    is_counted_by_size = ".split(" not in text or last == names * size if type(size) is int else False
    if len(found) != names and is_counted_by_size and whole != last and not last % names:
        told = f"{text} parts dimension 0, of {whole}, and not the {last} features"
        return f"{told}: {text_of(call.func)}({text_of(call.args[0])}, dim=-1) gives {names}"
    fitting = "chunk" if whole % names == 0 else "tensor_split"
    is_counted = text_of(call.func).rpartition(".")[2] in ("chunk", "tensor_split")
    more = f"{len(found)} names, or " if is_counted else ""
    told = f"{text} gives {len(found)}, and here are {names} names"
    return f"{told}: {more}{x}.{fitting}({names}{f', dim={dim}' if dim else ''})"


@remedy(COUNTS_DIFFER)
def unpack_as_many(failure: Failure, match: re.Match[str]) -> str | None:
    """A statement with more or fewer names than values, of which nothing more is known than how many."""
    unpacking = Unpacking.of(failure, match)
    if unpacking is None:
        return None
    value, text = unpacking.value, unpacking.text
    if text.endswith(".shape") and match[2] == str(unpacking.names - 1) and isinstance(value, ast.Attribute):
        x = text_of(value.value)
        shape = tuple(getattr(evaluate(value.value, failure.frame), "shape", ()))
        told = f"{x}{at(failure.find_operand(x))} is {shape}, perhaps one sample without its batch"
        return f"{told}: {x}.unsqueeze(0) where it is given"
    found = MISSING if value is None else compute(value, failure.frame)
    count = str(len(found)) if isinstance(found, (tuple, list)) else unpacking.parts
    return f"as many names as {text} gives{f', which has {count}' if count else ''}"


def _nest_names(statement: ast.For | ast.AsyncFor) -> str | None:
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
