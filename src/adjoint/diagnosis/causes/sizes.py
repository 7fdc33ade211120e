"""Sizes of tensors: the layer, the call or the operation that gave a dimension its size, several functions away."""

from __future__ import annotations

import ast
import re
from dataclasses import replace
from math import prod

from adjoint.core.runtime.package_name import is_name_of_package
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Operand
from adjoint.diagnosis.causes.called_functions import find_function_called, find_input
from adjoint.diagnosis.causes.computing import is_filled_later
from adjoint.diagnosis.causes.constructions import find_owner
from adjoint.diagnosis.causes.contexts import SourceStep
from adjoint.diagnosis.causes.held_values import find_parts, look_up
from adjoint.diagnosis.causes.layer_settings import OUTPUTS, SizeTrace, channel_place, trace_attribute, trace_setting
from adjoint.diagnosis.causes.numbers import NumberTrace, trace_number
from adjoint.diagnosis.causes.steps import find_former
from adjoint.diagnosis.operands import MISSING, is_module
from adjoint.diagnosis.source_expressions import text_of

MAX_STEPS = 40
MAKERS = re.compile(
    r"zeros|ones|empty|full|randn?|randint|normal|uniform|random|standard_normal|integers|eye|arange|tril"
)
CONVERTING = re.compile(r"from_numpy$|[tT]ensor$")
REDUCTIONS = re.compile(
    r"mean|sum|max|min|amax|amin|prod|std|var|norm|argmax|argmin|any|all|logsumexp|median|select|squeeze"
)
LOSING = re.compile(
    rf"{REDUCTIONS.pattern}|cat|concat|concatenate|hstack|vstack|stack|view|reshape|flatten|ravel|"
    r"transpose|permute|t|swapaxes|movedim|unflatten"
)


def shape_of(step: SourceStep) -> tuple[int, ...] | None:
    """Return the shape of the tensor that an expression gives; None where it is not known."""
    value = step.context.program.compute(step)
    is_array = isinstance(value, Tensor) or type(value).__module__ == "numpy"  # of others it may be the user's code
    shape = getattr(value, "shape", None) if is_array else None
    return None if shape is None else tuple(shape)


def trace_size(first: SourceStep, back: int, size: int, wanted: int) -> SizeTrace | None:
    """Return where the size of a tensor in one dimension, counted from the end, comes from.

    Where the size that is wanted stands in another dimension, the call that made a tensor of an array is told too.
    """
    step, seen, is_turned = first, set[object](), wanted > 0 and wanted in (shape_of(first) or ())
    converted: SourceStep | None = None
    setter: SourceStep | None = None
    for _ in range(MAX_STEPS):
        if step.mark in seen:
            return SizeTrace(step, converted=converted)
        seen.add(step.mark)
        if is_turned and isinstance(step.node, ast.Call) and CONVERTING.search(text_of(step.node.func)):
            converted = step
        found = SizeTrace(step, lost=True) if is_turned and _is_unknown_turn(step) else _leave(step, back, size, wanted)
        if isinstance(found, SizeTrace):
            return replace(found, converted=found.converted or converted, setter=setter)
        if found is None:
            is_told = step is not first or isinstance(step.node, ast.Call)
            return SizeTrace(step, converted=converted, setter=setter) if is_told else None
        call = found[0].context.call if isinstance(step.node, ast.Attribute) else None
        setter = call if call is not None and getattr(found[0].context.scope, "name", "") != "__init__" else setter
        step, back = found
    return SizeTrace(step)


def _leave(step: SourceStep, back: int, size: int, wanted: int) -> SizeTrace | tuple[SourceStep, int] | None:
    """Return the expression before, with the dimension there, or where the size comes from."""
    node = step.node
    if step.before == 0 and isinstance(node, ast.Call) and node.args:
        return step.at(node.args[0]), back
    if isinstance(node, ast.BinOp):
        return _leave_product(step, node, back, size)
    cut = _find_cut(step, back, size) if isinstance(node, ast.Subscript) and not step.keys else None
    if cut is not None:
        return cut
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice) and back == 1 and not step.keys:
        held = step.context.program.compute(step.at(node.value, ()))
        if held is MISSING:
            bounds = [each for each in ast.walk(node.slice) if isinstance(each, ast.Name)]
            number = trace_number(step.at(bounds[0], ()), MISSING) if bounds else None
            return SizeTrace(step, number, lost=bool(bounds))  # a part of something whose length is not known
    if isinstance(node, ast.UnaryOp):
        return step.at(node.operand), back
    if isinstance(node, ast.Compare):
        return step.at(node.left), back
    held = step.context.program.compute(step.at(node.value, ())) if isinstance(node, ast.Subscript) else None
    if isinstance(node, ast.Subscript) and (isinstance(held, Tensor) or type(held).__module__ == "numpy"):
        inner = step.at(node.value, step.keys)
        shape = shape_of(inner)
        if shape is not None and len(shape) >= back and shape[-back] != size:
            return SizeTrace(step, lost=wanted in shape)
        return inner, back
    owned = _trace_parameter(step, back) if isinstance(node, (ast.Name, ast.Attribute)) and not step.keys else None
    if owned is not None:
        return owned
    if isinstance(node, ast.Attribute) and node.attr in ("T", "mT", "H"):
        return (step.at(node.value), 3 - back) if back < 3 else None
    if isinstance(node, ast.Attribute) and node.attr in ("data", "values", "indices"):
        return step.at(node.value), back
    if isinstance(node, ast.Call):
        function, _ = find_function_called(step, node)
        if function is None:
            held = find_former(step) if step.keys else []
            return (held[0], back) if held else _leave_call(step, node, back, size, wanted)
    former = [each for each in find_former(step) if not _is_other(each, back, size)]
    return (former[0], back) if former else None


def _find_cut(step: SourceStep, back: int, size: int) -> SizeTrace | None:
    """Return the slice, of several dimensions, that gave one its size."""
    node = step.node
    slices = node.slice.elts if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Tuple) else []
    part = slices[-back] if len(slices) >= back else None
    if not isinstance(part, ast.Slice) or (part.lower is None and part.upper is None):
        return None
    bounds = [each.operand if isinstance(each, ast.UnaryOp) else each for each in (part.lower, part.upper) if each]
    if len(bounds) == 1 and (part.upper is None or isinstance(part.upper, ast.UnaryOp)):  # so many are left out
        left = step.at(bounds[0], ())
        is_literal = isinstance(left.node, ast.Constant)
        cut = None if is_literal else trace_number(left, step.context.program.compute(left))
        return SizeTrace(step, cut, lost=cut is not None)
    upper = None if part.upper is None else step.at(part.upper, ())
    if upper is not None and part.lower is None and step.context.program.compute(upper) != size:
        return None
    number = trace_number(upper, size) if upper is not None and not isinstance(upper.node, ast.Constant) else None
    return SizeTrace(step, number)


def _is_other(step: SourceStep, back: int, size: int) -> bool:
    """Return whether an expression is known to give something else than such a tensor."""
    if isinstance(step.node, ast.Constant) and not step.keys:
        return True
    shape = shape_of(step)
    return shape is not None and (len(shape) < back or shape[-back] != size)


def _leave_product(
    step: SourceStep, node: ast.BinOp, back: int, size: int
) -> SizeTrace | tuple[SourceStep, int] | None:
    """Return the side of a product, or of an elementwise operation, that has the size."""
    if isinstance(node.op, ast.MatMult):
        return step.at(node.right if back == 1 else node.left), back
    sides = [step.at(each) for each in (node.left, node.right) if not isinstance(each, ast.Constant)]
    shapes = [shape_of(each) for each in sides]
    for each, shape in zip(sides, shapes, strict=True):
        if shape is not None and len(shape) >= back and shape[-back] == size:
            return each, back
    unknown = [each for each, shape in zip(sides, shapes, strict=True) if shape is None]
    return (unknown[0], back) if unknown else None


def _leave_call(
    step: SourceStep, node: ast.Call, back: int, size: int, wanted: int
) -> SizeTrace | tuple[SourceStep, int] | None:
    """Return what a call of the library was given, or that it gave the size."""
    called = look_up(step.context, node.func)
    if is_module(called):
        return trace_module(step, called, node, back, size, wanted)
    name = text_of(node.func).rpartition(".")[2]
    base = look_up(step.context, node.func.value) if isinstance(node.func, ast.Attribute) else None
    is_function = isinstance(node.func, ast.Name) or hasattr(base, "__spec__") or hasattr(base, "bit_generator")
    arguments = node.args if is_function or not isinstance(node.func, ast.Attribute) else [node.func.value, *node.args]
    if MAKERS.fullmatch(name.removeprefix("new_").removesuffix("_like")):
        if name.endswith("_like") and arguments:
            return step.at(arguments[0]), back
        if name in ("tril", "triu"):
            return step.at(arguments[0]), back
        return SizeTrace(step, _find_made(step, node, name, back, size))
    if name in ("view", "reshape", "expand", "unflatten", "repeat"):
        sizes = arguments[1:]
        sizes = sizes[0].elts if len(sizes) == 1 and isinstance(sizes[0], (ast.Tuple, ast.List)) else sizes
        given = sizes[-back] if len(sizes) >= back else None
        if given is not None and step.context.program.compute(step.at(given, ())) == size:
            shape = shape_of(step.at(arguments[0]))
            is_there = shape is not None and len(shape) >= back and shape[-back] == size
            return (
                (step.at(arguments[0]), back) if is_there else (SizeTrace(step, trace_number(step.at(given, ()), size)))
            )
    if not arguments:
        return None
    first: ast.expr = arguments[0]
    if isinstance(first, (ast.List, ast.Tuple)) and first.elts:
        first = first.elts[0]
    made = shape_of(step) if name == "stack" and isinstance(first, ast.ListComp) else None
    if isinstance(first, ast.ListComp) and (back > 1 if made is None else len(made) == back):  # a row for each item
        counted = trace_number(step.at(first.generators[0].iter, ()), MISSING)
        if len(counted.steps) > 1 and name == "stack" and (made is not None or wanted > 0):
            return SizeTrace(step, counted)
    if name in ("matmul", "mm", "bmm") and len(arguments) > 1:
        return step.at(arguments[1 if back == 1 else 0]), back
    if name == "one_hot" and len(arguments) > 1 and back == 1:
        return SizeTrace(step, trace_number(step.at(arguments[1], ()), size))
    if CONVERTING.search(name) and isinstance(first, ast.Name) and is_filled_later(step, first):
        return SizeTrace(step)
    inner = step.at(first)
    if isinstance(first, ast.Name) and type(step.context.program.compute(inner)) in (list, tuple):
        inner = replace(inner, keys=(*inner.keys, 0))
    if name in ("cat", "concat", "hstack", "stack", "vstack"):
        parts = step.context.program.compute(step.at(arguments[0]))
        joined = [int(part.shape[-back]) for part in parts if len(part.shape) >= back] if _holds_tensors(parts) else []
        if joined and sum(joined) == wanted:
            return SizeTrace(step, _find_setting(step, node), lost=True)
        if joined and sum(joined) == size and name != "stack":
            return _trace_joined(step, arguments[0], joined, back)
    shape = shape_of(inner)
    is_reduced = REDUCTIONS.fullmatch(name) is not None and shape is not None and wanted in shape
    if is_reduced and wanted in (shape_of(step) or ()):  # of the others, too few were reduced
        return SizeTrace(step, lost=True)
    is_computed = name in ("view", "reshape", "flatten", "chunk", "split", "unfold")
    if is_computed and (shape is None or len(shape) < back or shape[-back] != size):
        if shape is not None and wanted in shape[-2:]:
            return SizeTrace(step, _find_setting(step, node) if name == "flatten" else None, lost=True)
        found = _find_layer(inner) if back == 1 else None
        if found is not None:
            return found
        setting = _find_setting(step, node)
        if setting is not None and name in ("view", "reshape"):
            return SizeTrace(step, setting, lost=True)
        return trace_flattened(step, inner, size, wanted)
    if shape is not None and len(shape) >= back and shape[-back] == size and not _turns(name):
        return inner, back
    if shape is not None and LOSING.fullmatch(name):
        if wanted in shape or name in ("cat", "concat", "hstack", "vstack"):
            return SizeTrace(step, _find_setting(step, node), lost=wanted in shape)
        if size in shape:
            return inner, len(shape) - shape.index(size)
    if shape is not None and (len(shape) < back or shape[-back] != size):
        return (inner, len(shape) - shape.index(size)) if size in shape else SizeTrace(step, _find_setting(step, node))
    return inner, back


def _is_unknown_turn(step: SourceStep) -> bool:
    """Return whether a call exchanges dimensions of a tensor whose shape is not known."""
    call = step.node
    if not isinstance(call, ast.Call) or not _turns(text_of(call.func).rpartition(".")[2]):
        return False
    inner = find_input(step, call)
    return inner is not None and shape_of(inner) is None and find_function_called(step, call)[0] is None


def _turns(name: str) -> bool:
    return name in ("transpose", "permute", "t", "swapaxes", "movedim")


def _trace_parameter(step: SourceStep, back: int) -> SizeTrace | None:
    """Return the call that made the layer to which a parameter belongs, with the number that gave it a size."""
    value = look_up(step.context, step.node)
    found = find_owner(step.context.program, value) if type(value).__name__ == "Parameter" else None
    if found is None or not is_name_of_package(type(found[0]).__module__):
        return None
    module, name = found
    names = ["in_features", "in_channels", "embedding_dim"] if name == "weight" else []
    if len(value.shape) == back:
        names = ["out_features", "out_channels", "num_embeddings", "num_features"]
    attribute = next((each for each in names if hasattr(module, each)), None)
    return None if attribute is None else trace_attribute(step, module, attribute, getattr(module, attribute))


def _find_setting(step: SourceStep, node: ast.Call) -> NumberTrace | None:
    """Return where the setting of an operation, such as its dimension, comes from, if it is named there."""
    for each in (*(part.value for part in node.keywords), *node.args):
        if isinstance(each, (ast.Name, ast.Attribute, ast.Subscript)):
            value = step.context.program.compute(step.at(each, ()))
            if type(value) in (int, bool, tuple, list) and not (type(value) in (tuple, list) and _holds_tensors(value)):
                return trace_number(step.at(each, ()), value)
    return None


def _trace_joined(step: SourceStep, listed: ast.expr, sizes: list[int], back: int) -> SizeTrace:
    """Return a size that is the sum of others: where each of those comes from."""
    parts = listed.elts if isinstance(listed, (ast.List, ast.Tuple)) else []
    found = []
    for part, size in zip(parts, sizes, strict=False):
        trace = trace_size(step.at(part, ()), back, size, -1)
        found += [] if trace is None or isinstance(part, ast.Starred) else [(text_of(part), size, trace)]
    return SizeTrace(step, parts=tuple(found))


def _holds_tensors(value: Operand) -> bool:
    return isinstance(value, (tuple, list)) and any(isinstance(each, Tensor) for each in value)


def _find_layer(first: SourceStep) -> SizeTrace | None:
    """Return the layer of features from whose result a value was cut or put together; None where it is of images."""
    step = first
    for _ in range(MAX_STEPS):
        node, former = step.node, [*find_former(step)]
        if isinstance(node, ast.BinOp):
            former = [step.at(node.right if isinstance(node.op, ast.MatMult) else node.left)]
        elif isinstance(node, ast.Call) and find_function_called(step, node)[0] is None and not former:
            called = look_up(step.context, node.func)
            output = next((name for name in OUTPUTS if type(getattr(called, name, None)) is int), None)
            if is_module(called) and re.search("Conv|Pool|Upsample|Sequential", type(called).__name__):
                return None
            if is_module(called) and output is not None:
                return trace_attribute(step, called, output, getattr(called, output))
            is_method = isinstance(node.func, ast.Attribute) and not hasattr(
                look_up(step.context, node.func.value), "__spec__"
            )
            inner = (
                node.func.value if is_method and isinstance(node.func, ast.Attribute) else next(iter(node.args), None)
            )
            former = [] if inner is None else [step.at(inner, ())]
        if not former:
            return None
        step = former[0]
    return None


def _find_made(step: SourceStep, node: ast.Call, name: str, back: int, size: int) -> NumberTrace | None:
    """Return the argument that gave a new tensor the size."""
    given = next((each.value for each in node.keywords if each.arg in ("size", "shape")), None)
    arguments = [given] if given is not None else list(node.args)
    sized = [each for each in arguments if isinstance(each, (ast.Tuple, ast.List))]
    if not sized and len(arguments) == 1 and not isinstance(arguments[0], ast.Constant):
        value = step.context.program.compute(step.at(arguments[0], ()))
        if isinstance(value, tuple) and len(value) >= back:
            return trace_number(step.at(arguments[0], (len(value) - back,)), size)
    sizes = sized[-1].elts if sized else arguments
    if name == "eye":
        sizes = [*sizes, *sizes][:2]
    if len(sizes) < back:
        return None
    chosen = step.at(sizes[-back], ())
    value = step.context.program.compute(chosen)
    return trace_number(chosen, size) if value is MISSING or value == size else None


def trace_module(
    step: SourceStep, module: Operand, node: ast.Call, back: int, size: int, wanted: int
) -> SizeTrace | tuple[SourceStep, int] | None:
    """Return the layer that gave the size, or what the layers were given."""
    parts = find_parts(module)
    parts = parts if step.before is None else parts[: step.before]
    inner = step.at(node.args[0]) if node.args else None
    for place, part in reversed([*enumerate(parts)]):
        given = inner if place == 0 else replace(step, before=place)
        if not is_name_of_package(type(part).__module__):
            return replace(step, before=place + 1), back
        if hasattr(part, "hidden_size") and hasattr(part, "batch_first"):
            width = part.hidden_size * (2 if part.bidirectional else 1)
            if back == 1 and size in (width, part.hidden_size):
                return trace_attribute(step, part, "hidden_size", part.hidden_size)
            made = step.context.program.find_construction(part)
            is_state = step.keys[-1:] == (1,)
            if is_state and made is not None and (back == 3 or not part.batch_first):
                return SizeTrace(made)
            back = 3 if back == 2 and is_state else back
            inner = None if inner is None else replace(inner, keys=())
        output = next((name for name in OUTPUTS if getattr(part, name, None) == size), None)
        if output is not None and back == channel_place(part):
            return trace_attribute(step, part, output, size)
        if type(part).__name__ == "Flatten" and back == 1 and given is not None:
            return trace_flattened(step, given, size, wanted)
        if back != channel_place(part) and re.search("Conv|Pool|Upsample|Pad|Unfold", type(part).__name__):
            setting = trace_setting(step, part) or SizeTrace(step)
            shape = shape_of(given) if given is not None else None
            is_fixed = type(part).__name__.startswith("Adaptive")
            if given is None or shape is None or len(shape) < back or is_fixed:
                return setting
            image = trace_size(given, back, shape[-back], -1)  # through the layers before
            return setting if image is None else replace(setting, image=image.image or image)
        if type(part).__name__ == "Embedding":
            back -= 1
    if inner is None:
        return None
    shape = shape_of(inner)
    if shape is not None and len(shape) >= back and shape[-back] != size:
        return SizeTrace(step)
    return inner, back


def trace_flattened(step: SourceStep, inner: SourceStep, size: int, wanted: int) -> SizeTrace:
    """Return where a number of features comes from that is a product of sizes: from that which does not fit."""
    shape = shape_of(inner) or ()
    merged = shape if size == prod(shape) else shape[:-1]
    odd = [place for place, each in enumerate(merged) if wanted > 0 and wanted % each]
    if len(shape) > 2 and size in (prod(shape[1:]), prod(shape[2:])):
        others = prod(shape[2:])
        is_wide = others == 1 or (wanted > 0 and wanted % shape[1] != 0 and wanted % others == 0)
        back = len(shape) - 1 if is_wide and size != others else 1
    elif len(shape) > 1 and size == prod(merged) and len(odd) == 1 and odd != [0]:
        back = len(shape) - odd[0]  # of rows and steps that were made one
    else:
        return SizeTrace(step)
    trace = trace_size(inner, back, shape[-back], -1)
    if trace is None:
        return SizeTrace(step)
    name = "it" if inner.before is not None else text_of(inner.node)
    return SizeTrace(step, parts=((f"{size} of {shape}: {name}", shape[-back], trace),))
