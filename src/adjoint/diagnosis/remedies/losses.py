"""Remedies for losses and lookups: targets of other types, shapes and ranges."""

from __future__ import annotations

import ast
import inspect
import re
from functools import partial
from math import prod

from adjoint.core.dtype.dtype import int64
from adjoint.core.dtype.dtype_info import iinfo
from adjoint.core.runtime.text_table import pluralize
from adjoint.core.tensor.tensor import Tensor
from adjoint.diagnosis.causes.operand_history import walk_back
from adjoint.diagnosis.failure import Failure
from adjoint.diagnosis.output_layer import OutputLayer, find_output_layer
from adjoint.diagnosis.remedies.registry import (
    argument_node,
    at,
    compute_argument,
    describe_layer,
    find_producer,
    name_argument,
    remedy,
    shape_of,
)
from adjoint.diagnosis.remedies.shapes.merged_samples import keep_samples
from adjoint.diagnosis.remedies.shapes.number_origins import describe_number
from adjoint.diagnosis.remedies.shapes.unpacked_values import find_uneven_product
from adjoint.diagnosis.repairs.expression import bracket
from adjoint.diagnosis.source_expressions import SourceFile, text_of
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
    value = next((each.value for each in failure.tensors() if each.text == y), failure.locals.get("target"))
    scores = failure.locals.get("input")
    size, rows = tuple(getattr(value, "shape", ())), tuple(getattr(scores, "shape", ()))
    is_of_shares = value is not None and value.is_floating_point() and len(size) == len(rows) > 1 and size[1] > 1
    if is_of_shares and size[:1] == rows[:1] and size[1] != rows[1]:
        x = name_argument(failure, 0, "input", "the scores")
        return f"{y} has shares of {size[1]} classes, and {x} scores of {rows[1]}: one number for both"
    is_measured = isinstance(value, Tensor) and value.is_floating_point() and bool((value != value.round()).any())
    if isinstance(value, Tensor) and is_measured and rows[1:] in ((), (1,)):
        where = describe_layer(failure, "cross_entropy")[0]
        shape = "" if size == rows else f", and {y}.reshape{rows}"
        told = f"{y} holds numbers such as {_example(value):.4g}, and the model gives one for each"
        return f"{told}, which is no choice of classes: nn.MSELoss() in place of {where}{shape}"
    are_shares = is_measured and isinstance(value, Tensor) and bool(((value >= 0) & (value <= 1)).all())
    if size == rows and len(rows) > 1 and size[1] > 1 and are_shares:
        where, kind = describe_layer(failure, "nll_loss", "nll_loss")
        told = f"{y} holds a share of each class, and {where} takes classes: nn.CrossEntropyLoss() takes shares"
        return told + (", with scores that no log_softmax has changed" if "nll" in kind.lower() else "")
    if size == rows and len(rows) > 1 and size[1] > 1:
        return f"{y} has a number for each class, and a class for each row is wanted: {y}.argmax(1)"
    if isinstance(value, Tensor) and is_measured and len(rows) > 1 and size == rows[:1]:
        told = f"{y} holds numbers such as {_example(value):.4g}, which are no classes"
        mixed = f"of labels that are mixed, F.one_hot(labels, {rows[1]}).float() before"
        return f"{told}: {mixed}; numbers need nn.MSELoss() and a model that gives one for each"
    if len(size) == len(rows) > 1 and size[1] == 1:
        return f"classes are integers, one for each row: {y}.long().squeeze(1)"
    return f"classes are integers: {y}.long(); probabilities of classes have the shape of the scores"


def _example(x: Tensor) -> float:
    """Return the first element that is not whole."""
    return float(x[x != x.round()][0])


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
    given = failure.locals.get("input")
    shape = tuple(given.shape) if isinstance(given, Tensor) else tuple(tensors[0].value.shape) if tensors else ()
    x = name_argument(failure, 0, "input", x)
    if len(shape) == 3 and len(found) == 1 and shape[:1] == found:
        told = f"{x} is {shape}, scores for each of {shape[1]} steps, and {y} one class for each sample"
        return f"{told}: those of the last step, {x}[:, -1], or their mean, {x}.mean(1)"
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
    if found == iinfo(int64).min:
        read = walk_back(failure, _describe_header)
        told = f"{y} holds what NaN becomes as an integer"
        return f"{told}, and {read}" if read else f"{told}: look where NaN comes from, with .isnan() of the floats"
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
def match_batches(failure: Failure, match: re.Match[str]) -> str | None:
    """Scores and classes of different numbers of samples."""
    scores, classes = int(match[1]), int(match[2])
    x, y = name_argument(failure, 0, "input", "the scores"), name_argument(failure, 1, "target", "the target")
    wanted = _match_dimensions(failure, x, y)
    if wanted is not None:
        return wanted
    merged = keep_samples(failure, scores, classes)
    if merged is not None:
        return merged
    if classes and scores % classes == 0 and scores > classes:
        target = compute_argument(failure, 1, "target")
        if isinstance(target, Tensor) and target.numel() == scores:
            return f"{x} has a row for each of the {scores} elements of {y}, {tuple(target.shape)}: {y}.reshape(-1)"
        uneven = find_uneven_product(failure)
        if uneven is not None:
            return uneven
        told = f"{x} has {scores // classes} rows for each of the {classes} of {y}"
        joined = walk_back(failure, partial(_find_join, scores // classes))
        if joined is None:
            return f"{told}: a view has merged dimensions"
        is_table = failure.locals.get("input") is not None and tuple(failure.locals["input"].shape) == (scores, scores)
        parts = [f"{y} + {i * classes}" if i else y for i in range(scores // classes)]
        if is_table:  # of each with each, where the other view of a sample is its class
            parts = [*parts[1:], parts[0]]
        return f"{told}{joined}: torch.cat([{', '.join(parts if is_table else [y] * len(parts))}])"
    shape = tuple(getattr(failure.locals.get("input"), "shape", ()))
    if len(shape) > 2 and shape[1] == classes:
        return None  # a state of each layer, perhaps
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
    return None


def _describe_header(failure: Failure, source: SourceFile, node: ast.AST) -> str | None:
    """Return which call of a line reads texts of a file, such as a header, as NaN."""
    for call in ast.walk(node):
        if isinstance(call, ast.Call) and text_of(call.func).endswith("genfromtxt"):
            told = f"{text_of(call)} at {source.place_of(call)} reads what is no number, such as a header, as NaN"
            return f"{told}: skip_header=1 there"
    return None


def _find_join(count: int, failure: Failure, source: SourceFile, node: ast.AST) -> str | None:
    """Return where as many batches are joined into one."""
    for call in ast.walk(node):
        parts = call.args[0] if isinstance(call, ast.Call) and call.args else None
        is_join = isinstance(call, ast.Call) and text_of(call.func).rpartition(".")[2] in ("cat", "concat", "vstack")
        if is_join and isinstance(parts, (ast.List, ast.Tuple)) and len(parts.elts) == count:
            return f", as {text_of(call)} at {source.place_of(call)} joins {count} batches"
    return None


@remedy(r"Expected input batch_size \((\d+)\) to match target batch_size \((\d+)\)", is_last=True)
def take_one_batch(failure: Failure, match: re.Match[str]) -> str:
    """Scores and classes of different numbers of samples, for whatever reason."""
    x, y = name_argument(failure, 0, "input", "the scores"), name_argument(failure, 1, "target", "the target")
    for each in failure.tensors() if int(match[1]) == int(match[2]) + 1 else ():
        value, ends = each.value, {len(other.value) for other in failure.tensors() if other.value.ndim == 1}
        is_offsets = value.ndim == 1 and len(value) == int(match[1]) and not value.is_floating_point()
        if is_offsets and int(value[0]) == 0 and int(value[-1]) in ends - {len(value)}:
            told = f"{each.text}{at(each)} holds where each sequence begins, and the end of the last, {int(value[-1])}"
            return f"{told}: {each.text}[:-1]"
    padded = walk_back(failure, _find_steps_first)
    if padded is not None:
        return f"{x} has {match[1]} rows, one for each step, and {y} {match[2]}: {padded}"
    return f"{x} has {match[1]} rows and {y} {match[2]}: both come from one batch"


def _find_steps_first(failure: Failure, source: SourceFile, node: ast.AST) -> str | None:
    """Return the call that puts steps before the samples of a batch."""
    for call in ast.walk(node):
        name = text_of(call.func).rpartition(".")[2] if isinstance(call, ast.Call) else ""
        if not isinstance(call, ast.Call) or name not in ("pad_sequence", "pad_packed_sequence"):
            continue
        if len(call.args) < 2 and not any(each.arg == "batch_first" for each in call.keywords):
            flag = ast.keyword("batch_first", ast.Constant(True))
            return f"{text_of(ast.Call(call.func, call.args, [*call.keywords, flag]))} at {source.place_of(call)}"
    return None


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


@remedy(r"\"log_softmax\" not implemented for \S*int")
def swap_arguments(failure: Failure, match: re.Match[str]) -> str | None:
    """Scores and classes that have changed places."""
    names = failure.tensors()[:2]
    if len(names) == 2 and names[1].value.is_floating_point():
        own = failure.node if isinstance(failure.node, ast.Call) else ast.Call(ast.Name("cross_entropy"), [], [])
        args = list(map(text_of, own.args))
        args = [*args[1::-1], *args[2:]] if len(args) > 1 else [names[1].text, names[0].text]
        return f"scores come first, then classes: {text_of(own.func)}({', '.join(args)})"
    x = next((each for each in failure.tensors() if each.text == name_argument(failure, 0, "input")), None)
    made = None if x is None or x.origin is None else x.origin.value
    for call in ast.walk(made) if made is not None else ():
        method = call.func if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) else None
        if x is not None and isinstance(call, ast.Call) and method is not None and method.attr in ("argmax", "argmin"):
            scores = text_of(call.args[0] if text_of(method.value) == "torch" else method.value)
            return f"{x.text}{at(x)} holds classes already, by {method.attr}: the scores, {scores}, in its place"
    return "scores are floats: .float()"


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
    made = find_producer(failure, argument_node(failure, 0, "input"))
    weight = next(iter(made.value.parameters(recurse=False)), None) if made is not None else None
    if made is not None and weight is not None and str(weight.dtype).endswith(given):
        told = f"{made.text}{at(made)} has parameters of {given}, and {layer.text}{at(layer)} of {wanted}"
        call = None if made.origin is None else made.origin.value
        if isinstance(call, ast.Call) and text_of(call.func).endswith("from_pretrained") and call.args:
            return f"{told}: {bracket(call.args[0])}.{method}() there"
        return f"{told}: {made.text}.{method}()"
    whole = "" if given != "float64" else f"; or {layer.text}.double() for parameters of float64"
    return f"{x}.{method}(), for the parameters are {wanted}{whole}"
