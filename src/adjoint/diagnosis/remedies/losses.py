"""Remedies for losses and lookups: targets of other types, shapes and ranges."""

from __future__ import annotations

import ast
import inspect
import re
from math import prod

from adjoint.core.runtime.text_table import pluralize
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Shape
from adjoint.diagnosis.failure import Failure
from adjoint.diagnosis.operands import Origin, evaluate, find_origin, find_return, find_return_in, is_module
from adjoint.diagnosis.output_layer import OutputLayer, find_output_layer
from adjoint.diagnosis.remedies.registry import (
    argument_node,
    at,
    compute_argument,
    find_decoder,
    name_argument,
    name_of_shape,
    remedy,
    shape_of,
)
from adjoint.diagnosis.remedies.shapes.number_origins import describe_number
from adjoint.diagnosis.remedies.shapes.unpacked_values import find_uneven_product
from adjoint.diagnosis.repairs.trial import compute
from adjoint.diagnosis.source_expressions import text_of
from adjoint.nn import functional


def name_target(failure: Failure) -> str:
    """Return the user's name of the targets of a loss."""
    function = getattr(functional, failure.message.partition("(")[0], None)
    names = list(inspect.signature(function).parameters) if inspect.isfunction(function) else []
    place = names.index("target") if "target" in names else 1
    if place > 1:
        return name_argument(failure, place, "target", "target")
    tensors = failure.tensors()
    target = failure.locals.get("target")
    named = next((each.text for each in tensors if each.value is target), None)
    if named is not None:
        return named
    return name_argument(failure, 1, "target", tensors[-1].text if len(tensors) > 1 else "target")


def find_scores_layer(failure: Failure) -> OutputLayer | None:
    """Return the layer whose result the first argument of a loss is."""
    node = argument_node(failure, 0, "input")
    return None if failure.line is None else find_output_layer(failure.line.source, node, failure.stack)


@remedy(
    r"expected target dtype to be Long or Byte, but got (\w+)|"
    r"^(?!.*Input type).*expected scalar type Long but found (\w+)"
)
def convert_classes(failure: Failure, match: re.Match[str]) -> str:
    """Classes that are no integers."""
    y = name_target(failure)
    value = next((each.value for each in failure.tensors() if each.text == y), None)
    scores = failure.locals.get("input")
    size, rows = tuple(getattr(value, "shape", ())), tuple(getattr(scores, "shape", ()))
    is_of_shares = value is not None and value.is_floating_point() and len(size) == len(rows) > 1 and size[1] > 1
    if is_of_shares and size[:1] == rows[:1] and size[1] != rows[1]:
        x = name_argument(failure, 0, "input", "the scores")
        return f"{y} has shares of {size[1]} classes, and {x} scores of {rows[1]}: one number for both"
    if len(size) == len(rows) > 1 and size[1] == 1:
        return f"classes are integers, one for each row: {y}.long().squeeze(1)"
    return f"classes are integers: {y}.long(); probabilities of classes have the shape of the scores"


@remedy(r"0D or 1D target tensor expected, multi-target not supported")
def drop_target_dimension(failure: Failure, match: re.Match[str]) -> str:
    """A column of classes."""
    y = name_target(failure)
    value = next((each.value for each in failure.tensors() if each.text == y), None)
    value = failure.locals.get("target") if value is None else value
    if isinstance(value, Tensor) and value.ndim > 1 and value.shape[-1] > 1:
        return _advise_rows(y, value)
    if not isinstance(value, Tensor) or value.is_floating_point():
        return f"one number for each row: {y}.squeeze(1)"
    return f"one class for each row: {y}.squeeze(1)"


def _advise_rows(y: str, value: Tensor) -> str:
    """Return what to give in place of a row of truths for each sample."""
    if not bool((value.sum(1) == 1).all()):
        told = f"{y} has rows of several truths, and a row of scores one class"
        return f"{told}: nn.BCEWithLogitsLoss() of the scores, with {y}.float()"
    return f"one-hot rows: {y}.argmax(1) gives the classes; cross_entropy takes them as probabilities too, {y}.float()"


@remedy(r"Expected target size \[([\d, ]+)\], got \[([\d, ]+)\]")
def put_classes_second(failure: Failure, match: re.Match[str]) -> str:
    """Classes of sequences or images whose sizes are not those of the scores without their classes."""
    expected, found = shape_of(match[1]), shape_of(match[2])
    tensors = failure.tensors()
    x, y = (tensors[0].text, tensors[-1].text) if len(tensors) > 1 else ("scores", "target")
    if len(found) == len(expected) + 1 and found[1] == 1:
        return f"one class for each place: {y}.squeeze(1) is {expected}"
    shape = tuple(tensors[0].value.shape) if tensors else ()
    if shape[:-1] == found:
        flat = f"{x}.reshape(-1, {shape[-1]}) with {y}.reshape(-1)"
        return f"classes are the second dimension of scores: {x}.movedim(-1, 1), or {flat}"
    if len(found) == len(expected) > 1 and found[0] == expected[0]:
        x = name_argument(failure, 0, "input", x)
        return f"{x} is {expected[1:]} in height and width, {y} {found[1:]}: F.interpolate({x}, size={y}.shape[1:])"
    return f"{y} is to be {expected}: the scores' sizes without the classes, dimension 1"


@remedy(r"Expected floating point type for target with class probabilities")
def give_probabilities(failure: Failure, match: re.Match[str]) -> str:
    """One-hot rows of integers."""
    y = name_target(failure)
    value = next((each.value for each in failure.tensors() if each.text == y), None)
    return f"as probabilities, they are floats: {y}.float()" if value is None else _advise_rows(y, value)


@remedy(r"expected scalar type \S*?(\w+) but found \S*?(float\w*|int\w*)$")
def convert_held_weight(failure: Failure, match: re.Match[str]) -> str | None:
    """Weights of a loss, or another tensor that a module holds, of another type than its input."""
    layer = failure.module()
    held = [] if layer is None else [*vars(layer.value)["_buffers"].items(), *vars(layer.value)["_parameters"].items()]
    name = next((name for name, each in held if each is not None and str(each.dtype).endswith(match[2])), None)
    if layer is None or name is None:
        return None
    owner = next((each for each in failure.operands if each.value is layer.value), layer)
    method = {"float32": "float", "float64": "double", "float16": "half"}.get(match[1], match[1])
    told = f"{owner.text}.{name}{at(owner)} is {match[2]}, and the input {match[1]}"
    return f"{told}: {name}=….{method}() there, or {owner.text}.{method}()"


@remedy(r"weight tensor should be defined either for all (\d+) classes")
def weight_each_class(failure: Failure, match: re.Match[str]) -> str:
    """Weights for other classes."""
    w = next((each for each in failure.tensors()[::-1] if each.value.ndim == 1), None)
    name = "weight" if w is None else f"{w.text}{at(w)}"
    return f"{name} is to have a number for each of the {match[1]} classes"


@remedy(r"Input type \(\S*?(\w+)\) and weight type \(\S*?(\w+)\) should be the same")
def convert_image(failure: Failure, match: re.Match[str]) -> str:
    """An image of bytes or doubles in a convolution of floats."""
    x = next((each for each in failure.tensors() if str(each.value.dtype).endswith(match[1])), None)
    name = "the input" if x is None else f"{x.text}{at(x)}"
    scale = " / 255" if match[1] == "uint8" else ""
    method = {"float32": "float", "float64": "double"}.get(match[2], match[2])
    if match[1].startswith("complex") and not match[2].startswith("complex"):
        return f"{name} is {match[1]}, the parameters are {match[2]}: .abs(), or torch.view_as_real of it"
    return f"{name} is {match[1]}, the parameters are {match[2]}: .{method}(){scale}"


@remedy(r"[Tt]arget (-?\d+) is out of bounds: classes are 0 to (-?\d+)")
def count_classes(failure: Failure, match: re.Match[str]) -> str:
    """A class that the scores have not."""
    found, last = int(match[1]), int(match[2])
    y = name_target(failure)
    value = next((each.value for each in failure.tensors() if each.text == y), None)
    if "ctc_loss" in failure.message:
        return (
            f"log_probs have {last + 1} classes with the blank, and {y} holds {found}: {found + 1} outputs are needed"
        )
    if found < 0:
        return f"classes begin at 0; ignore_index={found} leaves such targets out"
    if value is not None and value.numel() and int(value.min()) == 1 and found == last + 1:
        return f"the classes in {y} go from 1 to {found}, and they begin at 0: {y} - 1"
    beyond = value[value > last].unique() if value is not None else None
    if beyond is not None and len(beyond) == 1 and found > 2 * (last + 1) and value is not None:
        where = at(next((each for each in failure.tensors() if each.value is value), None))
        told = f"{y}{where} holds {found} beside the classes 0 to {last}, perhaps for places without one"
        layer = failure.module()
        by = describe_number(layer, 2, "ignore_index", found)
        return f"{told}: ignore_index={found}{f' in {layer.text}{at(layer)}{by}' if layer is not None and by else ''}"
    scored = find_scores_layer(failure)
    if scored is None:
        return f"the scores have {last + 1} classes: the last layer needs {found + 1} outputs, or {y} is wrong"
    count = max(found, int(value.max()) if isinstance(value, Tensor) and value.numel() else 0) + 1
    return (
        f"{scored.describe()} gives {pluralize(last + 1, 'score')}, and {y} goes to {count - 1}: "
        f"{scored.write_with(count)} there"
    )


@remedy(r"Expected input batch_size \((\d+)\) to match target batch_size \((\d+)\)")
def match_batches(failure: Failure, match: re.Match[str]) -> str:
    """Scores and classes of different numbers of samples."""
    scores, classes = int(match[1]), int(match[2])
    x, y = name_argument(failure, 0, "input", "the scores"), name_argument(failure, 1, "target", "the target")
    wanted = _match_dimensions(failure, x, y)
    if wanted is not None:
        return wanted
    merged = _keep_samples(failure, scores, classes)
    if merged is not None:
        return merged
    if classes and scores % classes == 0 and scores > classes:
        target = compute_argument(failure, 1, "target")
        if isinstance(target, Tensor) and target.numel() == scores:
            return f"{x} has a row for each of the {scores} elements of {y}, {tuple(target.shape)}: {y}.reshape(-1)"
        uneven = find_uneven_product(failure)
        if uneven is not None:
            return uneven
        return f"{x} has {scores // classes} rows for each of the {classes} of {y}: a view has merged dimensions"
    if scores and classes % scores == 0:
        return f"{x} is to have a row for each of the {classes} of {y}: {x}.reshape(-1, classes) with {y}.reshape(-1)"
    for each in failure.tensors():
        size = tuple(each.value.shape)
        steps = abs(scores - classes) // size[0] if size and size[0] else 0
        if steps and len(size) > 1 and prod(size[:2]) == max(scores, classes) == min(scores, classes) + steps * size[0]:
            name, part, cut = (x, each.text, f":-{steps}") if scores > classes else (y, each.text, f"{steps}:")
            told = f"{x} has {scores} rows and {y} {classes}, as one is shifted by {pluralize(steps, 'step')}"
            if part not in name:
                continue
            return f"{told}: {part}[:, {cut}] in place of {part} in {name}, made flat by .reshape"
    return f"{x} has {scores} rows and {y} {classes}: both come from one batch"


def _match_dimensions(failure: Failure, x: str, y: str) -> str | None:
    """Return what to write where scores or classes have lost the batch, or have it in another place."""
    told = re.search(r"input \(([\d, ]*)\) needs a target of \(([\d, ]*)\), got \(([\d, ]*)\)", failure.message)
    given, expected, found = (shape_of(each) for each in told.groups()) if told is not None else ((), (), ())
    own = failure.find_operand(x)
    made = "" if own is None or own.origin is None or own.origin.value is None else text_of(own.origin.value)
    if len(given) == 1 and found == (1,):
        told_of = f"{x}{at(own)} is one row of scores, without the batch of {y}"
        squeezed = _find_bare_squeeze(failure)
        if squeezed is not None and "squeeze()" not in made + x:
            return f"{told_of}: {squeezed} takes a batch of 1 out too, .flatten(1) there, or .squeeze(dim)"
        return (
            f"{told_of}: .squeeze() takes that too, leave it out"
            if "squeeze()" in made + x
            else (f"{told_of}: {x}.unsqueeze(0)")
        )
    if len(expected) == 1 and found == ():
        return f"{y}{at(failure.find_operand(y))} is one class, without the batch of {x}: {y}.unsqueeze(0)"
    if len(expected) == 2 and found == expected[::-1] and failure.line is not None:
        scope = failure.line.source.scope_of(failure.line.node)
        for call in ast.walk(scope):
            is_padding = isinstance(call, ast.Call) and text_of(call.func).endswith("pad_sequence")
            if isinstance(call, ast.Call) and is_padding and "batch_first" not in text_of(call):
                place = failure.line.source.place_of(call)
                return f"{text_of(call)} at {place} puts the steps first, and {y} the samples: batch_first=True there"
        return f"{x} is for {expected}, {y} is {found}: {y}.T, or the scores of samples first"
    return None


def _find_bare_squeeze(failure: Failure) -> str | None:
    """Return the `squeeze()` of all dimensions in a forward of the program, with its place."""
    source = None if failure.line is None else failure.line.source
    for each in ast.walk(source.tree) if source is not None else ():
        is_method = isinstance(each, ast.Call) and isinstance(each.func, ast.Attribute) and each.func.attr == "squeeze"
        is_bare = isinstance(each, ast.Call) and is_method and not each.args and not each.keywords
        if source is not None and is_bare and getattr(source.scope_of(each), "name", "") == "forward":
            return f".squeeze() at {source.place_of(each)}"
    return None


def _keep_samples(failure: Failure, rows: int, samples: int) -> str | None:
    """Return what to write where a `view(-1, …)` in the user's forward has made more rows than there are samples."""
    merged = _find_merging_view(failure) if rows > samples > 0 else None
    view = None if merged is None else merged.value
    if merged is None or not isinstance(view, ast.Call):
        return None
    columns = compute(view.args[1], failure.frame)
    told = f"{merged.describe()} makes {rows} rows of {samples} samples: .flatten(1) keeps one row for each"
    if not isinstance(columns, int):
        return f"{told}, and the Linear after it needs in_features of that width" if rows % samples == 0 else None
    if columns * rows % samples:
        return None
    width = columns * rows // samples
    scores = argument_node(failure, 0, "input")
    origin = find_origin(failure.line.source, scores, failure.stack) if scores is not None and failure.line else None
    call = scores if isinstance(scores, ast.Call) else None if origin is None else origin.value
    model = evaluate(call.func, failure.frame) if isinstance(call, ast.Call) else None
    layers = dict(model.named_modules()) if model is not None and is_module(model) else {}
    taking = [(name, each) for name, each in layers.items() if getattr(each, "in_features", None) == columns]
    if len(taking) != 1:
        return f"{told}, of {width}, for which the layer after it is made"
    name, layer = taking[0]
    return f"{told}, and self.{name} takes {width}: nn.{type(layer).__name__}({width}, {layer.out_features})"


def _find_merging_view(failure: Failure) -> Origin | None:
    """Return the `view(-1, …)` of the user's forward that gave the scores."""
    node: ast.expr | None = argument_node(failure, 0, "input")
    if isinstance(node, ast.Name) and failure.line is not None:
        origin = find_origin(failure.line.source, node, failure.stack)
        node = None if origin is None else origin.value
    returned = None
    if isinstance(node, ast.Call) and failure.line is not None:
        returned = find_return(Origin(failure.line.source, node), failure.stack)
        made = evaluate(node.func.func, failure.frame) if isinstance(node.func, ast.Call) else None
        code = getattr(getattr(made, "forward", None), "__code__", None)
        returned = find_return_in(code) if returned is None and code is not None else returned
    scope = None if returned is None else returned.source.scope_of(returned.node)
    for each in ast.walk(scope) if scope is not None else ():
        is_view = isinstance(each, ast.Call) and text_of(each.func).endswith((".view", ".reshape"))
        has_rest = isinstance(each, ast.Call) and len(each.args) == 2 and text_of(each.args[0]) == "-1"
        if returned is not None and is_view and has_rest:
            return Origin(returned.source, each)
    return None


@remedy(r"\"log_softmax\" not implemented for \S*int")
def swap_arguments(failure: Failure, match: re.Match[str]) -> str | None:
    """Scores and classes that have changed places."""
    names = failure.tensors()[:2]
    if len(names) == 2 and names[1].value.is_floating_point():
        return f"scores come first, then classes: cross_entropy({names[1].text}, {names[0].text})"
    x = next((each for each in failure.tensors() if each.text == name_argument(failure, 0, "input")), None)
    made = None if x is None or x.origin is None else x.origin.value
    for call in ast.walk(made) if made is not None else ():
        method = call.func if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) else None
        if x is not None and isinstance(call, ast.Call) and method is not None and method.attr in ("argmax", "argmin"):
            scores = text_of(call.args[0] if text_of(method.value) == "torch" else method.value)
            return f"{x.text}{at(x)} holds classes already, by {method.attr}: the scores, {scores}, in its place"
    return "scores are floats: .float()"


@remedy(
    r"target size \(\S*\[([\d, ]*)\]\)\) (?:that is different to|must be the same as) "
    r"(?:the )?input size \(\S*\[([\d, ]*)\]"
)
def match_target_shape(failure: Failure, match: re.Match[str]) -> str:
    """Probabilities and truths of different shapes."""
    return _advise_shape(failure, shape_of(match[1]), shape_of(match[2]))


@remedy(r"^(?:mse|l1|smooth_l1|huber)_loss\(\w+\[([\d,]*)\], \w+\[([\d,]*)\]\): .*do not broadcast")
def match_regressionname_target(failure: Failure, match: re.Match[str]) -> str:
    """Predictions and targets of different shapes."""
    return _advise_shape(failure, shape_of(match[2]), shape_of(match[1]))


@remedy(r"^(\w*(?:loss|similarity|distance))\((?:\w+\[[\d,]*\](?:, )?)+\): .*do not broadcast")
def match_rows(failure: Failure, match: re.Match[str]) -> str | None:
    """Inputs of a loss over pairs or triples, of different numbers of rows."""
    named = [(each.text, at(each), tuple(each.value.shape)) for each in failure.tensors() if each.value.ndim]
    if len({shape[0] for *_, shape in named}) < 2:
        return None
    told = ", ".join(f"{name}{where} is {shape}" for name, where, shape in named)
    return f"{match[1]} takes one row of each: {told}; all of one number of rows"


def _advise_shape(failure: Failure, target: Shape, given: Shape) -> str:
    """Return how a loss's input and its target come to one shape."""
    x = name_argument(failure, 0, "input", name_of_shape(failure, given))
    y = name_argument(failure, 1, "target", name_of_shape(failure, target, "the target"))
    if given[:-1] == target and given[-1:] == (1,):
        return f"{x}.squeeze(-1), or {y}.unsqueeze(-1): both of one shape"
    if given[:-1] == target:
        layer = find_scores_layer(failure)
        told = f"{x} has" if layer is None else f"{layer.describe()} gives"
        classes = next((each for each in failure.tensors() if each.text in (y, y.partition(".")[0])), None)
        rows = _find_read_rows(failure, x)
        if rows is not None and given == (*target, given[-1]):
            return rows
        is_of_classes = classes is not None and not classes.value.is_floating_point() and classes.value.numel()
        if classes is not None and is_of_classes and float(classes.value.max()) > 1:
            most, y = int(classes.value.max()), classes.text
            return f"{y}{at(classes)} holds classes of 0 to {most}, and {x} a score for each: F.cross_entropy({x}, {y})"
        return f"{told} {given[-1]} scores for one truth of {y}: 1 output there, then .squeeze(-1)"
    if len(given) == 3 and given[::2] == target and given[1] > 1:
        return f"{x} has a row for each of {given[1]} steps, and {y} one for each sample: {x}[:, -1], the last step"
    merged = _keep_samples(failure, given[0], target[0]) if given and target else None
    if merged is not None:
        return merged
    decoder = find_decoder(failure)
    if len(given) == len(target) > 2 and given[:2] == target[:2] and decoder is not None:
        told = f"{decoder.text}{at(decoder)} gives {x} as {given}, and {y} is {target}"
        if all(a < b for a, b in zip(given[2:], target[2:], strict=True)):
            return f"{told}: output_padding=1 in ConvTranspose{len(given) - 2}d adds the row that its stride left out"
        return f"{told}: F.interpolate({x}, size={y}.shape[2:])"
    if len(given) == len(target) and given[:1] == target[:1] and given[2:] == target[2:] and given[1:2] != target[1:2]:
        return _advise_outputs(find_scores_layer(failure), given[1], y, target[1])
    if sorted(n for n in given if n != 1) == sorted(n for n in target if n != 1):
        return f"{x} is {given}, {y} is {target}: {y}.reshape({x}.shape)"
    if prod(given) == prod(target) and given[:1] == target[:1]:
        flat, deep = (x, y) if len(given) < len(target) else (y, x)
        if 2 in (len(given), len(target)):
            return f"{x} is {given}, {y} is {target}: {deep}.flatten(1) has the shape of {flat}"
        return f"{x} is {given}, {y} is {target}: {y}.reshape({x}.shape)"
    if given[:-1] == target[:-1]:
        return _advise_outputs(find_scores_layer(failure), given[-1], y, target[-1])
    own = failure.find_operand(y)
    made = None if own is None or own.origin is None else own.origin.node
    is_fixed = made is not None and not isinstance(made, (ast.For, ast.AsyncFor))
    if is_fixed and given[1:] == target[1:] and given[:1] < target[:1]:
        told = f"{y}{at(own)} is for {target[0]} samples, and this batch has {given[0]}"
        return f"{told}: {y}[:{given[0]}], made for each batch, or DataLoader(drop_last=True)"
    return f"{x} is {given}, {y} is {target}: both of one shape"


def _find_read_rows(failure: Failure, name: str) -> str | None:
    """Return what to write where an index, such as that of actions, was to take one value of each row."""
    own = failure.find_operand(name)
    made = None if own is None or own.origin is None else own.origin.value
    index = evaluate(made.slice, failure.frame) if isinstance(made, ast.Subscript) else None
    if own is None or not isinstance(made, ast.Subscript) or not isinstance(index, Tensor) or index.ndim != 1:
        return None
    scores, places = text_of(made.value), text_of(made.slice)
    told = f"{text_of(made)}{at(own)} takes the rows of the numbers in {places}"
    return f"{told}: {scores}.gather(1, {places}.unsqueeze(1)).squeeze(1) takes one value of each row"


def _advise_outputs(layer: OutputLayer | None, given: int, target: str, wanted: int) -> str:
    """Return which layer gives more or fewer values for each sample than there are targets."""
    if layer is None:
        return f"the last layer gives {given} values for each sample, and {target} has {wanted}: make it {wanted} there"
    return f"{layer.describe()} gives {given}, and {target} has {wanted}: {layer.write_with(wanted)} there"


@remedy(r"expected m1 and m2 to have the same dtype, but got: (\w+) != (\w+)|expected .*same dtype.*?: (\w+) != (\w+)")
def convert_input(failure: Failure, match: re.Match[str]) -> str | None:
    """An input of another type than the parameters."""
    given, wanted = [word for word in match.groups() if word][:2]
    named = (each.text for each in failure.tensors() if str(each.value.dtype).endswith(given))
    x = next(named, name_argument(failure, 0))
    layer = failure.module()
    if layer is None:
        return None
    if given.startswith("complex"):
        own = failure.find_operand(x)
        told = f"{x}{at(own)} is {given}, and the parameters are {wanted}"
        return f"{told}: {x}.abs() for the magnitudes, or torch.view_as_real({x}).flatten(-2) for both parts"
    method = {"float32": "float", "float64": "double", "float16": "half", "bfloat16": "bfloat16"}.get(wanted, wanted)
    whole = "" if given != "float64" else f"; or {layer.text}.double() for parameters of float64"
    return f"{x}.{method}(), for the parameters are {wanted}{whole}"
