"""Remedies for sums around a block: shortcuts of another size, convolutions without padding, maps of two scales."""

from __future__ import annotations

import ast
import re

from adjoint.core.runtime.package_name import is_name_of_package
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Operand, Shape
from adjoint.diagnosis.failure import Failure
from adjoint.diagnosis.operands import Origin, evaluate, find_origin, is_module
from adjoint.diagnosis.remedies.registry import (
    at,
    find_both_layers,
    find_part,
    find_producer,
    name_operand,
    remedy,
    shape_of,
)
from adjoint.diagnosis.remedies.shapes.number_origins import describe_number
from adjoint.diagnosis.repairs.expression import parse
from adjoint.diagnosis.source_expressions import find_attribute_assignment, text_of

SHORTCUT_NAMES = frozenset({"identity", "residual", "shortcut", "skip", "x", "inputs", "input", "inp"})


@remedy(r"add: shapes \((\d+(?:, \d+){2,4})\) and \((\d+(?:, \d+){2,4})\)")
def project_shortcut(failure: Failure, match: re.Match[str]) -> str | None:
    """A residual connection around a block that changes channels or size."""
    a, b = shape_of(match[1]), shape_of(match[2])
    x, y = name_operand(failure, a, 0), name_operand(failure, b, 1)
    if a[0] != b[0] or not failure.modules or len(a) != len(b):
        return None
    if len(a) != 4 and not any(_is_of_convolution(failure, side) for side in (x, y)):
        return None
    upper = _enlarge_other(failure, a, b) or _give_size(failure, a, b)
    if upper is not None:
        return upper
    is_first = a[2] > b[2] if a[2] != b[2] else x in SHORTCUT_NAMES and y not in SHORTCUT_NAMES
    name, short, long = (x, a, b) if is_first else (y, b, a)
    strides = {p / q for p, q in zip(short[2:], long[2:], strict=True)}
    stride = strides.pop() if len(strides) == 1 else 0.0
    fitting = _fit_shortcut(failure, name, short[2:], long[2:])
    if fitting is not None:
        return fitting
    if stride < 1 or stride != int(stride):
        cut = _find_unpadded(failure, short[2] - long[2]) if short[1] == long[1] and short[2] > long[2] else None
        if cut is not None:
            return cut
        own = [type(each).__module__ for each in failure.modules[0].modules() if each is not failure.modules[0]]
        if short[1] == long[1] and all(map(is_name_of_package, own)):
            return f"the block around {name} changes its size, {short[2:]} to {long[2:]}: padding in its convolutions"
        return None
    step = f", stride={int(stride)}" if stride > 1 else ""
    where = at(next((each for each in failure.tensors() if each.text == name), None))
    made = find_producer(failure, find_part(failure, name)) if "(" in name and short[1] == long[1] else None
    if made is not None:
        told = f"{made.text}{at(made)} gives {short[2:]}, and the block {long[2:]}"
        owner = made.text.rpartition("[")[0]
        held = next((each.value for each in failure.operands if each.text == owner), None)
        held = evaluate(parse(owner), failure.frame) if held is None and owner else held
        parts = vars(held)["_modules"].items() if is_module(held) and type(held).__name__ == "Sequential" else ()
        convolution = next((f"{owner}[{key}]" for key, each in parts if "Conv" in type(each).__name__), None)
        return f"{told}: stride={int(stride)} in {convolution or f'the convolution of {made.text}'} too"
    return f"{name}{where} is {short}, the block gives {long}: nn.Conv2d({short[1]}, {long[1]}, 1{step}) for {name}"


def _find_unpadded(failure: Failure, cut: int) -> str | None:
    """Return the only convolution of the block that failed which takes so many places off its input's end."""
    owner = failure.modules[0]
    found = [
        (name, part)
        for name, part in owner.named_modules()
        if type(part).__name__ == "Conv1d" and isinstance(part.padding, tuple)
        if part.dilation[0] * (part.kernel_size[0] - 1) - 2 * part.padding[0] == cut
    ]
    if len(found) != 1 or found[0][1].stride != (1,):
        return None
    name, part = found[0]
    made = find_attribute_assignment(owner, name.partition(".")[0])
    where = "" if made is None else f" at {Origin(*made).place()}"
    told = f"self.{name}{where}, of kernel {part.kernel_size[0]} and dilation {part.dilation[0]}, takes {cut} off"
    if cut % 2:
        return f"{told}: F.pad(…, ({cut}, 0)) of its input keeps the length, and looks at no later step"
    return f"{told}: padding={part.padding[0] + cut // 2} there, or F.pad(…, ({cut}, 0)), which looks at no later step"


def _enlarge_other(failure: Failure, *shapes: Shape) -> str | None:
    """Return what to write where maps of two scales are added, both of which go through a convolution of size 1."""
    node = failure.node
    sides = [node.left, node.right] if isinstance(node, ast.BinOp) else []
    calls = [each for each in sides if isinstance(each, ast.Call) and len(each.args) == 1]
    layers: list[Operand] = [evaluate(each.func, failure.frame) for each in calls]
    if len(calls) != 2 or text_of(calls[0].args[0]) == text_of(calls[1].args[0]):
        return None
    if not all(set(getattr(each, "kernel_size", ())) == {1} for each in layers):
        return None
    small, large = (0, 1) if shapes[0][2] < shapes[1][2] else (1, 0)
    told = f"{text_of(calls[small])} is {shapes[small][2:]}, and {text_of(calls[large])} {shapes[large][2:]}"
    return f"{told}: F.interpolate({text_of(calls[small])}, size={shapes[large][2:]})"


def _give_size(failure: Failure, *shapes: Shape) -> str | None:
    """Return the call that enlarges an image to just the size of the one beside it, in place of by a factor."""
    node = failure.node
    sides = [node.left, node.right] if isinstance(node, ast.BinOp) else []
    for call, other, own, wanted in zip(sides, sides[::-1], shapes, shapes[::-1], strict=False):
        factors = [each for each in call.keywords if each.arg == "scale_factor"] if isinstance(call, ast.Call) else []
        if not isinstance(call, ast.Call) or not factors or own[:2] != wanted[:2]:
            continue
        size = ast.keyword("size", parse(f"{text_of(other)}.shape[2:]"))
        changed = ast.Call(call.func, call.args, [size if each in factors else each for each in call.keywords])
        told = f"{text_of(call)} is {own[2:]}, and {text_of(other)} {wanted[2:]}, no multiple"
        return f"{told}: {text_of(changed)}"
    return None


@remedy(r"(?:add|sub): shapes \(([\d, ]+), (\d+)\) and \(([\d, ]+), (\d+)\)")
def project_features(failure: Failure, match: re.Match[str]) -> str | None:
    """A residual connection around a layer that changes the number of features."""
    node = failure.node
    if match[1] != match[3] or not isinstance(node, (ast.BinOp, ast.AugAssign)) or find_both_layers(failure):
        return None
    sides = (node.left, node.right) if isinstance(node, ast.BinOp) else (node.target, node.value)
    sizes = int(match[2]), int(match[4])
    made = [find_producer(failure, each) for each in sides]
    for (side, own), (other, size) in (zip(sides, sizes, strict=True), [*zip(sides, sizes, strict=True)][::-1]):
        layer = made[sides.index(other)]
        kind = "" if layer is None else type(layer.value).__name__
        if layer is None or kind != "Linear" or layer.value.out_features != size or made[sides.index(side)] is not None:
            continue
        told = f"{layer.text}{at(layer)} makes {size} features of {text_of(side)}'s {own}"
        by = describe_number(layer, 1, "out_features", own)
        return f"{told}: {own} there{by}, or another nn.Linear({own}, {size}) for {text_of(side)}"
    return None


def _is_of_convolution(failure: Failure, name: str) -> bool:
    """Return whether a convolution gave the operand of that name."""
    made = find_producer(failure, find_part(failure, name))
    own = next((each for each in failure.tensors() if each.text == name), None)
    value = None if own is None or own.origin is None else own.origin.value
    called = evaluate(value.func, failure.frame) if isinstance(value, ast.Call) else None
    return "Conv" in type(called if made is None else made.value).__name__


def _fit_shortcut(failure: Failure, name: str, given: Shape, wanted: Shape) -> str | None:
    """Return the stride and the padding with which the convolution that a line calls gives the size of the block."""
    for call in ast.walk(failure.node) if failure.node is not None else ():
        layer: Operand = evaluate(call.func, failure.frame) if isinstance(call, ast.Call) else None
        x: Operand = evaluate(call.args[0], failure.frame) if isinstance(call, ast.Call) and call.args else None
        if not isinstance(x, Tensor) or not hasattr(layer, "kernel_size") or not isinstance(call, ast.Call):
            continue
        kernel, padding, size = layer.kernel_size, layer.padding, tuple(x.shape[2:])
        is_odd = text_of(call) == name and isinstance(padding, tuple) and padding[0] > kernel[0] // 2
        for stride in (1, 2, 4) if is_odd else ():
            added = [k // 2 for k in kernel]
            made = tuple((n + 2 * p - k) // stride + 1 for n, p, k in zip(size, added, kernel, strict=False))
            if made == tuple(wanted) and failure.line is not None:
                own = find_origin(failure.line.source, call.func, failure.stack)
                where = "" if own is None else f" at {own.place()}"
                told = f"{text_of(call.func)}{where} has stride={layer.stride[0]} and padding={padding[0]}"
                return f"{told}, and gives {tuple(given)}: stride={stride}, padding={added[0]} gives {tuple(wanted)}"
    return None
