"""Docstrings of modules that derive from others: from a function's, and from a base class's."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Collection, Iterator, Sequence
from inspect import Signature
from typing import Any, TypeVar

from adjoint.core.typing import Function

SECTIONS = ("Args", "Attributes", "Shapes", "Raises", "Source", "Example")
ModuleClass = TypeVar("ModuleClass", bound=type[Any])


def inherit_sections(cls: ModuleClass) -> ModuleClass:
    """Complete the docstring of `cls` with the paragraphs and sections of its base's that it lacks."""
    if cls.__doc__ and cls.__base__.__doc__:
        summary, *own = inspect.cleandoc(cls.__doc__).split("\n\n")
        headings = {_heading(part) for part in own} - {""}
        shared = inspect.cleandoc(cls.__base__.__doc__).split("\n\n")[1:]
        parts = [part for part in shared if _heading(part) not in headings] + own
        order = ("", *SECTIONS)
        cls.__doc__ = "\n\n".join([summary, *sorted(parts, key=lambda part: order.index(_heading(part)))])
    return cls


def _heading(part: str) -> str:
    """Return the heading of a section, "" for a paragraph."""
    heading = part.partition(":")[0]
    return heading if heading in SECTIONS else ""


def module_docstring(name: str, function: Function, operands: Signature, settings: Signature) -> str:
    """Return the function's docstring as that of the module `name`.

    `Args:` keeps the settings. Calls of the function in `Example:` become calls of the module.
    """
    summary, *parts = (inspect.getdoc(function) or "").split("\n\n")
    called = function.__name__
    if summary.startswith("Return "):
        summary = f"Module that returns {summary.removeprefix('Return ')}"
    else:
        summary = f"Module form of `{called}`: {summary}"
    *first, last = (f"`{operand}`" for operand in operands.parameters)
    call = f"A call takes {', '.join(first)} and {last}." if first else f"A call takes {last}."
    if settings.parameters:
        call += " The module keeps its own arguments as attributes."
    made = [summary, call]
    for part in parts:
        heading, *lines = part.splitlines()
        if heading == "Args:":
            lines = list(_select_entries(lines, settings.parameters))
            made += ["\n".join([heading, *lines])] if lines else []
        elif heading == "Example:":
            made.append("\n".join([heading, *(_with_module(line, name, called, operands) for line in lines)]))
        else:
            made.append(part)
    return "\n\n".join(made)


def _select_entries(lines: Sequence[str], names: Collection[str]) -> Iterator[str]:
    """Return the entries of `Args:` for these names, each with the lines that continue it."""
    wanted = False
    for line in lines:
        if entry := re.match(r" {4}(\w+(?:, \w+)*): ", line):
            kept = [name for name in entry[1].split(", ") if name in names]
            wanted = bool(kept)
            line = f"    {', '.join(kept)}: {line[entry.end() :]}"
        if wanted:
            yield line


def _with_module(line: str, name: str, called: str, operands: Signature) -> str:
    """Replace `F.called(operands, settings)` in a line of an example by `nn.Name(settings)(operands)`."""
    prompted = re.match(r" {4}(?:>>>|\.\.\.) +", line)
    if prompted is None:
        return line
    prompt, code = prompted[0], line[prompted.end() :]
    try:
        calls = [node for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Call)]
    except SyntaxError:  # a line of a longer statement
        return line
    for call in calls:
        if ast.unparse(call.func) in (f"F.{called}", f"ad.{called}"):
            by_place = [(place < len(operands.parameters), arg) for place, arg in enumerate(call.args)]
            by_name = [(keyword.arg in operands.parameters, keyword) for keyword in call.keywords]
            texts = [(operand, ast.get_source_segment(code, node)) for operand, node in (*by_place, *by_name)]
            to_call = ", ".join(str(text) for operand, text in texts if operand)
            to_module = ", ".join(str(text) for operand, text in texts if not operand)
            before = str(ast.get_source_segment(code, call))
            after = f"nn.{name}({to_module})({to_call})"
            return _with_module(prompt + code.replace(before, after), name, called, operands)
    return line
