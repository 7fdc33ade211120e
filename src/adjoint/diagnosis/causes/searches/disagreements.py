"""Causes of sizes that disagree: where each of the two comes from, and which of them is to blame."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import prod

from adjoint.diagnosis.causes.called_functions import find_input
from adjoint.diagnosis.causes.contexts import ITEM, SourceStep
from adjoint.diagnosis.causes.held_values import find_parts, look_up
from adjoint.diagnosis.causes.layer_settings import INPUTS, SizeTrace, trace_attribute
from adjoint.diagnosis.causes.searches.dimensions import find_rank_change
from adjoint.diagnosis.causes.searches.kinds import find_handing
from adjoint.diagnosis.causes.sizes import shape_of, trace_size
from adjoint.diagnosis.causes.steps import find_former, trace_back
from adjoint.diagnosis.failure import Failure
from adjoint.diagnosis.operands import is_module
from adjoint.diagnosis.source_expressions import text_of

CELL_STATE = re.compile(r"hidden\d has inconsistent hidden_size: got (\d+), expected (\d+)")
PADDED_KEYS = re.compile(r"Expected key_padded_mask\.shape\[1\] to be (\d+), but got (\d+)")
LAYER = re.compile(
    r"linear: input is \((?P<input>[\d, ]+)\), weight \(\d+, (?P<wanted>\d+)\) expects last size|"
    r"expected input\[(?P<image>[\d, ]+)\] to have (?P<channels>\d+) channels, but got (?P<given>\d+) channels|"
    r"running_mean should contain (?P<normed>\d+) elements not (?P<features>\d+)|"
    r"normalized_shape=\[(?:\d+, )*(?P<last>\d+)\].*?input of size ?[\[(](?P<size>[\d, ]+)[\])]|"
    r"inconsistent input_size: got (?P<cell>\d+) expected (?P<expected>\d+)|"
    r"input\.size\(-1\) must be equal to input_size\. Expected (?P<inputs>\d+), got (?P<got>\d+)"
)
SIDES = re.compile(
    r"size of tensor a \((?P<a>\d+)\) must match the size of tensor b \((?P<b>\d+)\)|"
    r"shapes \((?P<one>[\d, ]*)\) (?:and )?(?:\(\) )?\((?P<other>[\d, ]*)\)|"
    r"where\(bool\[(?P<mask>[\d,]*)\], \w+\[[\d,]*\], \w+\[(?P<scores>[\d,]*)\]\): operands could not be|"
    r"bmm\(\w+\[(?P<batches>[\d,]*)\], \w+\[(?P<others>[\d,]*)\]\): operands could not be|"
    r"[Tt]arget size \(\w+\.Size\(\[(?P<target>[\d, ]*)\]\)\) that is different to the input size "
    r"\(\w+\.Size\(\[(?P<result>[\d, ]*)\]\)\)|"
    r"Expected input batch_size \((?P<rows>\d+)\) to match target batch_size \((?P<labels>\d+)\)|"
    r"Expected hidden(?:\[\d\])? size \((?P<hidden>\d+, \d+, \d+)\), got \[(?P<state>\d+, \d+, \d+)\]|"
    r"cannot be multiplied \((?P<left>\d+x\d+) and (?P<right>\d+x\d+)\)|"
    r"Expected size (?P<first>\d+) but got size (?P<later>\d+) for tensor number (?P<number>\d+)",
    re.DOTALL,
)


STORED = re.compile(
    r"input array from shape \(([\d, ]*)\) into shape \(([\d, ]*)\)|"
    r"value tensor of shape \[([\d, ]*)\] cannot be broadcast to indexing result of shape \[([\d, ]*)\]"
)
MASKED = re.compile(
    r"shape of the mask \[([\d, ]*)\] at index \d+ does not match the shape of the indexed tensor \[([\d, ]*)\]"
)
RAGGED = re.compile(r"equal size, but got \[([\d, ]*)\] at entry (\d+) and \[([\d, ]*)\] at entry")


@dataclass(frozen=True)
class Side:
    """One of two values whose sizes disagree: its name, its size, and where that comes from."""

    name: str
    size: int | tuple[int, ...]
    trace: SizeTrace | None
    verb: str = "has"

    def describe(self) -> str:
        """Return the name, the size and the line: `h has 64, from train.py:7: "hidden": 64`."""
        if self.trace is None:
            return f"{self.name} {self.verb} {self.size}"
        if self.trace.lost:
            return f"{self.name} has {self.size} by {self.trace.describe()}"
        return f"{self.name} {self.verb} {self.size}, from {self.trace.describe()}"


def find_sides(failure: Failure, step: SourceStep) -> list[Side]:
    """Return the two sides of a disagreement that an error tells of."""
    layer = LAYER.search(failure.message)
    if layer is not None and failure.modules:
        return _find_layer_sides(failure, step, layer)
    ragged = RAGGED.search(failure.message)
    if ragged is not None:
        return _find_sample_sides(step, _numbers(ragged[1]), _numbers(ragged[3]))
    cell = CELL_STATE.search(failure.message)
    if cell is not None and isinstance(step.node, ast.Call) and len(step.node.args) > 1:
        size, wanted = int(cell[1]), int(cell[2])
        state = step.at(step.node.args[1], (0,) if isinstance(step.node.args[1], ast.Tuple) else ())
        own = trace_attribute(step, look_up(step.context, step.node.func), "hidden_size", wanted)
        given = Side(_name(state.node), size, trace_size(state, 1, size, wanted))
        return [given, Side(text_of(step.node.func), wanted, own, "takes")]
    keys = PADDED_KEYS.search(failure.message)
    if keys is not None:
        return _find_mask_sides(failure, step, int(keys[1]), int(keys[2]))
    stored = STORED.search(failure.message)
    if stored is not None:
        return _find_stored_sides(step, _numbers(stored[1] or stored[3]), _numbers(stored[2] or stored[4]))
    masked = MASKED.search(failure.message)
    if masked is not None and isinstance(step.node, ast.Subscript):
        return _find_masked_sides(step, step.node, _numbers(masked[1]), _numbers(masked[2]))
    match = SIDES.search(failure.message)
    return [] if match is None else _find_operand_sides(step, match, failure.message)


def _find_mask_sides(failure: Failure, step: SourceStep, wanted: int, size: int) -> list[Side]:
    """Return a mask of keys that attention was given, and where its length comes from."""
    masks = [each for each in failure.tensors() if each.value.ndim == 2 and each.value.shape[1] == size]
    first = step.find_part(masks[-1].text) if masks else None
    trace = None if first is None else trace_size(first, 1, size, wanted)
    return [] if trace is None else [Side(masks[-1].text, size, trace), Side("the keys", wanted, None, "are")]


def _find_layer_sides(failure: Failure, step: SourceStep, match: re.Match[str]) -> list[Side]:
    """Return a layer and its input."""
    module = failure.modules[0]
    shape = next((match[name] for name in ("input", "image", "size") if match[name]), "")
    given = [int(each) for each in re.findall(r"\d+", shape)]
    wanted = int(
        next(match[each] for each in ("wanted", "channels", "features", "last", "inputs", "expected") if match[each])
    )
    back = len(given) - 1 if match["image"] else 1
    size = next((int(match[each]) for each in ("given", "normed", "got", "cell") if match[each]), 0) or given[-back]
    call = _find_module_call(failure, step)
    if call is None:
        return []
    attribute = next((each for each in INPUTS if hasattr(module, each)), "")
    own = trace_attribute(step, module, attribute, wanted)
    name = failure.module()
    label = text_of(call.func) if name is None else name.text
    return [Side(label, wanted, own, "takes"), _trace_input(failure, step, call, back, size, wanted)]


def _find_module_call(failure: Failure, step: SourceStep) -> ast.Call | None:
    """Return the call of the line that runs the module which failed, or one around it."""
    for each in ast.walk(step.node):
        if isinstance(each, ast.Call):
            called = look_up(step.context, each.func)
            if any(called is module for module in failure.modules):
                return each
    return None


def _trace_input(failure: Failure, step: SourceStep, call: ast.Call, back: int, size: int, wanted: int) -> Side:
    """Return the input of a layer, or of the layers around it."""
    parts = find_parts(look_up(step.context, call.func))
    place = next((i for i, each in enumerate(parts) if each is failure.modules[0]), 0)
    if place:
        return Side("its input", size, trace_size(replace(step.at(call, ()), before=place), back, size, wanted))
    argument: ast.expr = call.args[0] if call.args else next((each.value for each in call.keywords), call)
    shape = shape_of(step.at(argument, ()))
    if shape is not None and back > 1 and len(shape) == back:  # without a batch, or without channels
        found = find_rank_change(step.at(argument, ()), len(shape), is_more=False)
        if found is not None:
            return Side(_name(argument), shape, SizeTrace(found), "is")
    return Side(_name(argument), size, trace_size(step.at(argument, ()), back, size, wanted))


def _name(node: ast.expr) -> str:
    text = text_of(node)
    return text if len(text) <= 40 else "the input"


def _numbers(text: str | None) -> list[int]:
    return [int(each) for each in re.findall(r"\d+", text or "")]


def _find_operand_sides(step: SourceStep, match: re.Match[str], message: str) -> list[Side]:
    """Return the two operands of an operation."""
    found = match.groupdict()
    pairs = [("one", "other"), ("mask", "scores"), ("target", "result"), ("rows", "labels"), ("left", "right")]
    pairs.append(("batches", "others"))
    names = next((each for each in pairs if found[each[0]] is not None), None)
    shapes = [_numbers(found[each]) for each in names] if names is not None else []
    whole = re.search(r"shapes \(([\d, ]*)\) and \(([\d, ]*)\)", message)
    if not shapes and whole is not None:
        shapes = [_numbers(whole[1]), _numbers(whole[2])]
    if names == ("target", "result"):
        shapes = shapes[::-1]
    if found["number"] is not None:
        return _find_joined_sides(step, int(found["first"]), int(found["later"]), int(found["number"]))
    if found["hidden"] is not None:
        return _find_state_sides(step, _numbers(found["hidden"]), _numbers(found["state"]))
    if not shapes and found["a"] is not None:
        shapes = _find_unfit_shapes(step, int(found["a"]), int(found["b"]))
    nodes = list(_find_nodes(step, shapes))
    if len(nodes) != 2 or len(shapes) != 2:
        return []
    if names == ("left", "right"):
        backs = [1, 2]
    elif names == ("rows", "labels") and (merged := _find_merged_sides(nodes, shapes)):
        return merged
    elif names == ("rows", "labels"):
        known = [shape_of(each) or () for each in nodes]
        backs = [max(len(each), 1) for each in known]
    elif names == ("batches", "others"):
        backs = [back + 2 for back in _find_differing([each[:-2] for each in shapes])]
    else:
        backs = _find_differing(shapes)
    if not backs:
        return []
    if _lacks_inner_dimensions(*sorted(shapes, key=len)) and names not in (("left", "right"), ("rows", "labels")):
        return []  # it is this line that has to give them
    short = next((i for i in (0, 1) if shapes[i] == shapes[1 - i][: len(shapes[i])] and len(shapes[i]) > 1), None)
    if short is not None and names not in (("left", "right"), ("rows", "labels")):
        return _find_shorter(nodes, shapes, short)
    sizes = (
        [shape[-back] for shape, back in zip(shapes, backs, strict=True)]
        if names != ("rows", "labels")
        else [shapes[0][0], shapes[1][0]]
    )
    return [
        Side(_name(node.node), size, trace_size(node, back, size, other))
        for node, size, back, other in zip(nodes, sizes, backs, sizes[::-1], strict=True)
    ]


def _find_merged_sides(nodes: list[SourceStep], shapes: list[list[int]]) -> list[Side]:
    """Return scores and targets that the line has made rows of, with the only dimension before it that differs."""
    inner = [find_input(each, each.node) for each in nodes if isinstance(each.node, ast.Call)]
    found = [(each, shape) for each in inner if each is not None and (shape := shape_of(each)) is not None]
    if len(found) != 2:
        return []
    (first, one), (second, other) = found
    odd = [place for place, sizes in enumerate(zip(one, other, strict=False)) if sizes[0] != sizes[1]]
    count = min(len(one), len(other))
    if len(odd) != 1 or [[prod(one[:count])], [prod(other[:count])]] != [each[:1] for each in shapes]:
        return []
    place = odd[0]
    return [
        Side(_name(each.node), own[place], trace_size(each, len(own) - place, own[place], wanted[place]))
        for each, own, wanted in ((first, one, other), (second, other, one))
    ]


def _lacks_inner_dimensions(small: list[int], large: list[int]) -> bool:
    """Return whether all sizes of a shape stand in a larger one in their order, at neither of its ends."""
    rest = iter(large)
    is_part = 1 < len(small) < len(large) and all(any(each == other for other in rest) for each in small)
    return is_part and small != large[: len(small)] and small != large[-len(small) :]


def _find_unfit_shapes(step: SourceStep, one: int, other: int) -> list[list[int]]:
    """Return the shapes of the first two arguments of a call, where two of their sizes are those that disagree."""
    known = [shape_of(step.at(each, ())) for each in step.node.args[:2]] if isinstance(step.node, ast.Call) else []
    shapes = [list(each) for each in known if each is not None]
    backs = _find_differing(shapes) if len(shapes) == 2 else []
    return shapes if backs and [shape[-backs[0]] for shape in shapes] == [one, other] else []


def _find_shorter(nodes: list[SourceStep], shapes: list[list[int]], short: int) -> list[Side]:
    """Return an operand that lacks the last dimension of the other, with the line that gave it."""
    first = nodes[short]
    while isinstance(first.node, ast.BinOp):
        first = first.at(first.node.right if isinstance(first.node.left, ast.Constant) else first.node.left)
    steps = [*trace_back(first)]
    made = find_handing(steps) or steps[-1]
    size = shapes[1 - short][-1]
    lacking = "dimension" if len(shapes[short]) + 1 == len(shapes[1 - short]) else "dimensions"
    name = f"{_name(nodes[short].node)} lacks the last {lacking} of {_name(nodes[1 - short].node)}:"
    return [Side(name, tuple(shapes[short]), SizeTrace(made), "it is"), Side(_name(nodes[1 - short].node), size, None)]


def _find_differing(shapes: list[list[int]]) -> list[int]:
    """Return the dimension, from the end, in which two shapes differ and do not broadcast."""
    for back, (a, b) in enumerate(zip(shapes[0][::-1], shapes[1][::-1], strict=False), 1):
        if a != b and 1 not in (a, b):
            return [back, back]
    return []


def _find_nodes(step: SourceStep, shapes: list[list[int]]) -> Iterator[SourceStep]:
    """Yield the two expressions of the line that have these shapes, in their order."""
    node = step.node
    sides: list[ast.expr] = []
    if isinstance(node, ast.BinOp):
        sides = [node.left, node.right]
    elif isinstance(node, ast.Call):
        called = look_up(step.context, node.func)
        is_method = isinstance(node.func, ast.Attribute) and not hasattr(
            look_up(step.context, node.func.value), "__spec__"
        )
        own = [node.func.value] if is_method and not is_module(called) and isinstance(node.func, ast.Attribute) else []
        sides = [*own, *node.args]
        if own and isinstance(node.func, ast.Attribute) and node.func.attr.startswith("masked_fill"):
            sides = [node.args[0], node.func.value]
    wanted = [tuple(each) for each in shapes]
    known = {shape: each for each in sides[::-1] if (shape := shape_of(step.at(each, ()))) is not None}
    if len(sides) > 2 and all(each in known for each in wanted):
        sides = [known[each] for each in wanted]
    for each in sides[:2]:
        shape = shape_of(step.at(each, ()))
        if not wanted or shape is None or shape in wanted or len(wanted[0]) < 2:
            yield step.at(each, ())


def _find_stored_sides(step: SourceStep, given: list[int], place: list[int]) -> list[Side]:
    """Return a value that a statement is to write into a part of an array, and the array."""
    statement = step.source.statement_of(step.node)
    target = statement.targets[0] if isinstance(statement, ast.Assign) else None
    backs = _find_differing([given, place])
    if not isinstance(statement, ast.Assign) or not isinstance(target, ast.Subscript) or not backs:
        return []
    value, whole, back = step.at(statement.value, ()), step.at(target.value, ()), backs[0]
    size, wanted = given[-back], place[-back]
    shape = shape_of(whole) or ()
    if len(shape) < back or shape[-back] != wanted:
        return []  # of a part, the bounds may be wrong
    pairs = ((value, size, wanted), (whole, wanted, size))
    return [Side(_name(each.node), one, trace_size(each, back, one, other)) for each, one, other in pairs]


def _find_masked_sides(step: SourceStep, node: ast.Subscript, mask: list[int], whole: list[int]) -> list[Side]:
    """Return a mask and what it chooses from, where one of their sizes differs."""
    place = next((i for i, (one, other) in enumerate(zip(mask, whole, strict=False)) if one != other), None)
    if place is None or isinstance(node.slice, ast.Tuple) or 1 in (mask[place], whole[place]):
        return []
    pairs = ((node.slice, mask, whole), (node.value, whole, mask))
    return [
        Side(_name(each), own[place], trace_size(step.at(each, ()), len(own) - place, own[place], other[place]))
        for each, own, other in pairs
    ]


def _find_sample_sides(step: SourceStep, one: list[int], other: list[int]) -> list[Side]:
    """Return the line that gives the samples of a loader a length of their own each."""
    backs = _find_differing([one, other])
    for keys in ((0, ITEM), (1, ITEM), (ITEM,)) if backs else ():
        first = step.at(step.node, keys)
        if not find_former(first):
            continue
        trace = trace_size(first, backs[0], one[-backs[0]], other[-backs[0]])
        if trace is not None and trace.step.node is not step.node:
            lengths = f"samples have {one[-backs[0]]} and"
            return [Side(lengths, other[-backs[0]], trace, "then")]
    return []


def _find_state_sides(step: SourceStep, hidden: list[int], state: list[int]) -> list[Side]:
    """Return the input of a recurrent layer, and the state that was given with it."""
    call = next((each for each in ast.walk(step.node) if isinstance(each, ast.Call) and len(each.args) > 1), None)
    backs = [3 - i for i, (one, other) in enumerate(zip(hidden, state, strict=True)) if one != other]
    if call is None or not backs:
        return []
    first, second = (step.at(each, ()) for each in call.args[:2])
    back, module = backs[0], look_up(step.context, call.func)
    size, own = hidden[-back], state[-back]
    if type(step.context.program.compute(second)) is tuple:
        second = step.at(second.node, (0,))
    given = Side(_name(second.node), own, trace_size(second, back, own, size), "is for")
    if back == 2:
        shape = shape_of(first) or ()
        place = len(shape) - shape.index(size) if size in shape else 0
        found = trace_size(first, place, size, own) if place else None
        return [Side(_name(first.node), size, found, "has a batch of"), given]
    made = trace_attribute(step, module, "num_layers" if back == 3 else "hidden_size", size)
    return [replace(given, verb="has"), Side(text_of(call.func), size, made, "takes")]


def _find_joined_sides(step: SourceStep, first: int, later: int, number: int) -> list[Side]:
    """Return two of the tensors that are put together."""
    node = step.node
    listed = node.args[0] if isinstance(node, ast.Call) and node.args else None
    parts = listed.elts if isinstance(listed, (ast.List, ast.Tuple)) else []
    if number >= len(parts):
        return []
    steps = [step.at(parts[0], ()), step.at(parts[number], ())]
    shapes = [shape_of(each) for each in steps]
    if shapes[0] is None or shapes[1] is None or len(shapes[0]) != len(shapes[1]):
        return []
    pairs = [*zip(shapes[0], shapes[1], strict=True)]
    if (first, later) not in pairs:
        return []
    back = len(pairs) - pairs.index((first, later))
    return [
        Side(_name(each.node), size, trace_size(each, back, size, other))
        for each, size, other in zip(steps, (first, later), (later, first), strict=True)
    ]


def order_sides(sides: list[Side]) -> list[Side]:
    """Return the sides, the one to blame first: that which lost the size, that which was left to a default."""

    def rank(side: Side) -> tuple[bool, bool]:
        trace = side.trace
        is_default = trace is not None and trace.number is not None and trace.number.root.is_default
        return trace is None or not trace.lost, not is_default

    return sorted(sides, key=rank)
