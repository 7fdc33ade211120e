"""Remedies for values read in another form: bytes as numbers, vectors as matrices, signals shorter than a window."""

from __future__ import annotations

import ast
import re

from adjoint.core.tensor.tensor import Tensor
from adjoint.diagnosis.failure import Failure
from adjoint.diagnosis.remedies.registry import argument_node, at, first_tensor, name_argument, remedy
from adjoint.diagnosis.repairs.expression import bracket, parameter_names
from adjoint.diagnosis.source_expressions import text_of

MIN_USES = 2  # in a line, for which one conversion before it is better than one for each


@remedy(r"t\(\) expects a tensor with <= 2 dimensions, but self is (\d)D")
def exchange_last(failure: Failure, match: re.Match[str]) -> str | None:
    """A transposition of matrices in a batch."""
    method = failure.node.func if isinstance(failure.node, ast.Call) else None
    if not isinstance(method, ast.Attribute):
        return None
    own = failure.find_operand(text_of(method.value))
    told = f"{text_of(method.value)}{at(own)} has {match[1]} dimensions, and .t() is of a matrix"
    return f"{told}: {bracket(method.value)}.transpose(-2, -1), or .mT, exchanges the last two"


@remedy(r"(mean|std|var)\w*\(\): could not infer output dtype.* Got: \w+\.(\w+)")
def convert_numbers(failure: Failure, match: re.Match[str]) -> str | None:
    """A mean of integers that a name holds."""
    method = failure.node.func if isinstance(failure.node, ast.Call) else None
    owner = method.value if isinstance(method, ast.Attribute) else None
    own = failure.find_operand(owner.id) if isinstance(owner, ast.Name) else None
    if own is None or not isinstance(own.value, Tensor) or own.origin is None or failure.line is None:
        return None
    statement = text_of(failure.line.source.statement_of(failure.line.node))
    if len(re.findall(rf"\b{own.text}\.(?:mean|std|var)\(", statement)) < MIN_USES:
        return None  # floats are wanted here alone
    return f"{own.text}{at(own)} is {match[2]}, and a {match[1]} is of floats: {own.text}.float() there"


@remedy(r"size\(-1\) must be divisible by (\d+) to view (\w+) as (\w+) .*but got (\d+)")
def convert_values(failure: Failure, match: re.Match[str]) -> str:
    """Bytes that are read as numbers of a wider type, where the values are to be converted."""
    x = first_tensor(failure)
    told = f"view reads the memory of {x}{at(failure.find_operand(x))} anew, {match[1]} {match[2]} for a {match[3]}"
    return f"{told}, and {match[1]} does not divide its last size, {match[4]}: {x}.to(torch.{match[3]}) converts values"


@remedy(r"[`']?(\w+)[`']? must be at least two-dimensional")
def make_matrix(failure: Failure, match: re.Match[str]) -> str | None:
    """A vector of variances or scales where a distribution takes a matrix."""
    node = failure.node
    names = parameter_names(node, failure.frame) if isinstance(node, ast.Call) else []
    given = argument_node(failure, names.index(match[1]) if match[1] in names else -1, match[1])
    if given is None:
        return None
    x = text_of(given)
    told = f"{match[1]}={x}{at(failure.find_operand(x))} is a vector, and a matrix is wanted"
    return f"{told}: torch.diag_embed({x}), with these on its diagonal"


@remedy(r"padding size should be less than .*padding \((\d+), (\d+)\) at dimension \d+ of input \[(?:\d+, )*(\d+)\]")
def shorten_window(failure: Failure, match: re.Match[str]) -> str | None:
    """A signal shorter than what `stft` reflects at its ends."""
    node = failure.node
    if not isinstance(node, ast.Call) or not text_of(node.func).endswith("stft"):
        return None
    x, size, count = name_argument(failure, 0, "input"), int(match[3]), int(match[1])
    told = f"{x}{at(failure.find_operand(x))} has {size} values, and center=True reflects n_fft // 2 = {count} of them"
    return f"{told}: n_fft={2 * (size - 1)} or less, or F.pad({x}, (0, {count + 1 - size})) before it"


@remedy(r"Given output_size=.*calculated number of sliding blocks")
def fold_alike(failure: Failure, match: re.Match[str]) -> str | None:
    """Blocks that are put together with other settings than they were cut with."""
    node, source = (None, None) if failure.line is None else (failure.line.node, failure.line.source)
    for call in source.calls.get("unfold", ()) if source is not None else ():
        if not isinstance(node, ast.Call) or source is None:
            continue
        first = [text_of(each) for each in node.args[:2]]
        settings = [*map(text_of, call.args[1:]), *map(text_of, call.keywords)]
        told = f"{text_of(call)} at {source.place_of(call)} cut the blocks with other settings"
        return f"{told}: {text_of(node.func)}({', '.join([*first, *settings])})"
    return None


@remedy(r"module name should be a string\. Got int|keys? (?:must|should) be (?:a )?str\w*.* int")
def write_key(failure: Failure, match: re.Match[str]) -> str | None:
    """A number as the name of a part in a dictionary of modules."""
    statement = None if failure.line is None else failure.line.source.statement_of(failure.line.node)
    target = statement.targets[0] if isinstance(statement, ast.Assign) else None
    if not isinstance(target, ast.Subscript):
        return None
    holder, key = bracket(target.value), text_of(target.slice)
    told = f"{holder}{at(failure.find_operand(holder))} holds its parts by names, and {key} is a number"
    return f"{told}: {holder}[str({key})] here and where it is read"
