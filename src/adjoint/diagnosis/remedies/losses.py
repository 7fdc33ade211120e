"""Remedies for losses and lookups: targets of other types, shapes and ranges."""

from __future__ import annotations

import re

from adjoint.diagnosis.failure import Failure
from adjoint.diagnosis.remedies.registry import at, describe_layer, first_tensor, name_of_shape, remedy, shape_of


def _target(failure: Failure) -> str:
    """Return the user's name of the last tensor of a loss."""
    tensors = failure.tensors()
    return tensors[-1].text if len(tensors) > 1 else "target"


@remedy(r"expected target dtype to be Long or Byte, but got (\w+)|expected scalar type Long but found (\w+)")
def convert_classes(failure: Failure, match: re.Match[str]) -> str:
    """Classes that are no integers."""
    y = _target(failure)
    return f"classes are integers: {y}.long(); probabilities of classes have the shape of the scores"


@remedy(r"0D or 1D target tensor expected, multi-target not supported")
def drop_target_dimension(failure: Failure, match: re.Match[str]) -> str:
    """A column of classes."""
    y = _target(failure)
    value = next((each.value for each in failure.tensors() if each.text == y), None)
    if value is not None and value.ndim > 1 and value.shape[-1] > 1:
        return f"of one-hot rows, {y}.argmax(-1) gives the classes; as probabilities they are floats: {y}.float()"
    return f"one class for each row: {y}.squeeze(1)"


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
    return f"{y} is to be {expected}: the scores' sizes without the classes, dimension 1"


@remedy(r"Expected floating point type for target with class probabilities")
def give_probabilities(failure: Failure, match: re.Match[str]) -> str:
    """One-hot rows of integers."""
    y = _target(failure)
    return f"one-hot rows: {y}.argmax(1) gives the classes; as probabilities they are floats, {y}.float()"


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
    return f"{name} is {match[1]}, the parameters are {match[2]}: .{method}(){scale}"


@remedy(r"Target (-?\d+) is out of bounds: classes are 0 to (-?\d+)")
def count_classes(failure: Failure, match: re.Match[str]) -> str:
    """A class that the scores have not."""
    found, last = int(match[1]), int(match[2])
    y = _target(failure)
    value = next((each.value for each in failure.tensors() if each.text == y), None)
    if found < 0:
        return f"classes begin at 0; ignore_index={found} leaves such targets out"
    if value is not None and value.numel() and int(value.min()) == 1 and found == last + 1:
        return f"the classes in {y} go from 1 to {found}, and they begin at 0: {y} - 1"
    return f"the scores have {last + 1} classes: the last layer needs {found + 1} outputs, or {y} is wrong"


@remedy(r"Expected input batch_size \((\d+)\) to match target batch_size \((\d+)\)")
def match_batches(failure: Failure, match: re.Match[str]) -> str:
    """Scores and classes of different numbers of samples."""
    scores, classes = int(match[1]), int(match[2])
    names = [each.text for each in failure.tensors()[:2]]
    x, y = names if len(names) == 2 else ("the scores", "the target")
    if classes and scores % classes == 0 and scores > classes:
        return f"{x} has {scores // classes} rows for each of the {classes} of {y}: a view has merged dimensions"
    if scores and classes % scores == 0:
        return f"{x} is to have a row for each of the {classes} of {y}: {x}.reshape(-1, classes) with {y}.reshape(-1)"
    return f"{x} has {scores} rows and {y} {classes}: both come from one batch"


@remedy(r"\"log_softmax\" not implemented for \S*int")
def swap_arguments(failure: Failure, match: re.Match[str]) -> str | None:
    """Scores and classes that have changed places."""
    names = failure.tensors()[:2]
    if len(names) == 2 and names[1].value.is_floating_point():
        return f"scores come first, then classes: cross_entropy({names[1].text}, {names[0].text})"
    return "scores are floats: .float()"


@remedy(
    r"target size \(\S*\[([\d, ]*)\]\)\) (?:that is different to|must be the same as) "
    r"(?:the )?input size \(\S*\[([\d, ]*)\]"
)
def match_target_shape(failure: Failure, match: re.Match[str]) -> str:
    """Probabilities and truths of different shapes."""
    target, given = shape_of(match[1]), shape_of(match[2])
    x, y = name_of_shape(failure, given), name_of_shape(failure, target, "the target")
    if given[:-1] == target and given[-1:] == (1,):
        return f"{x}.squeeze(-1), or {y}.unsqueeze(-1): both of one shape"
    if given[:-1] == target:
        return f"{x} has {given[-1]} scores for one truth: a last layer of 1 output, then .squeeze(-1)"
    return f"{y}, {target}, is to have the shape of {x}, {given}"


@remedy(r"all elements of input should be between 0 and 1")
def use_logits(failure: Failure, match: re.Match[str]) -> str:
    """Scores where probabilities belong."""
    x = first_tensor(failure)
    return f"probabilities: torch.sigmoid({x}); or binary_cross_entropy_with_logits({x}, …), which takes scores"


@remedy(r"expected m1 and m2 to have the same dtype, but got: (\w+) != (\w+)|expected .*same dtype.*?: (\w+) != (\w+)")
def convert_input(failure: Failure, match: re.Match[str]) -> str:
    """An input of another type than the parameters."""
    given, wanted = [word for word in match.groups() if word][:2]
    x = next((each.text for each in failure.tensors() if str(each.value.dtype).endswith(given)), "the input")
    layer = failure.module()
    method = {"float32": "float", "float64": "double", "float16": "half", "bfloat16": "bfloat16"}.get(wanted, wanted)
    whole = "" if given != "float64" or layer is None else f"; or {layer.text}.double() for parameters of float64"
    return f"{x}.{method}(), for the parameters are {wanted}{whole}"


@remedy(r"index out of range in self: (-?\d+), embedding has (\d+) rows")
def grow_embedding(failure: Failure, match: re.Match[str]) -> str:
    """A row that the table has not."""
    index, rows = int(match[1]), int(match[2])
    name, _ = describe_layer(failure, "the table")
    if index < 0:
        return f"rows are counted from 0: {index} stands perhaps for padding, which is a row too (padding_idx=)"
    return f"indices go from 0 to {rows - 1}: {name} needs nn.Embedding({index + 1}, …), or the indices begin at 1"


@remedy(r"Expected tensor for argument #1 'indices'")
def convert_indices(failure: Failure, match: re.Match[str]) -> str:
    """Rows that are no integers."""
    x = next((each.text for each in failure.tensors() if each.value.is_floating_point()), "x")
    return f"rows are integers: {x}.long()"
