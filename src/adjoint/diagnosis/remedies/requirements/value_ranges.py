"""Remedies for values that a function cannot use: bounds in the wrong order, NaN, sums of 0, numbers too large."""

from __future__ import annotations

import ast
import copy
import re
from collections.abc import Iterator
from itertools import pairwise

from adjoint.core.tensor.tensor import Tensor
from adjoint.diagnosis.failure import Failure
from adjoint.diagnosis.operands import NamedValue, evaluate
from adjoint.diagnosis.remedies.registry import at, find_named_argument, find_settings, first_tensor, name_owner, remedy
from adjoint.diagnosis.repairs.trial import compute, runs
from adjoint.diagnosis.source_expressions import text_of


@remedy(
    r"min_val cannot be greater than max_val|Lower bound should be less|expects to return a \[from, to\)|"
    r"expects 'from' to be less than 'to'|max must be larger than min|lower must be less|must be less than `?b`?"
)
def exchange_bounds(failure: Failure, match: re.Match[str]) -> str | None:
    """A lower bound above the upper one: the two exchanged, if the call runs then."""
    node = failure.node
    if not isinstance(node, ast.Call):
        return None
    settings = [
        (part, whole, where, compute(part, failure.frame)) for part, whole, where in find_settings(failure, node)
    ]
    numbers = [each for each in settings if type(each[3]) in (int, float)]
    for (low, whole, where, first), (high, _, _, second) in pairwise(numbers):
        exchanged = copy.deepcopy(whole, {id(low): ast.Constant(second), id(high): ast.Constant(first)})
        if first > second and runs(exchanged, failure.frame):
            made = exchanged.func if isinstance(exchanged, ast.Call) and where else exchanged
            return f"the lower bound, {first}, comes first and is above the upper, {second}: {text_of(made)}{where}"
    if len(numbers) > 1 and numbers[0][3] == numbers[1][3]:
        return f"no number lies from {numbers[0][3]} to {numbers[1][3]}: the upper bound is to be above the lower"
    return None


def _find_values(failure: Failure) -> Iterator[tuple[NamedValue, Tensor]]:
    """Yield the tensors of the line, those that its arguments compute too."""
    node = failure.node
    for each in failure.tensors():
        yield each, each.value
    for part in (*node.args, *(each.value for each in node.keywords)) if isinstance(node, ast.Call) else ():
        value = compute(part, failure.frame) if isinstance(part, ast.Call) else None
        if isinstance(value, Tensor):
            yield NamedValue(text_of(part), value), value


@remedy(
    r"contains? (?:either )?`?(?:inf|nan|NaN|non-finite)|infs or NaNs|non-finite values|NaN or infinite|"
    r"entry = infinity or NaN|is not finite|contains? neither infs nor NaN"
)
def find_no_numbers(failure: Failure, match: re.Match[str]) -> str | None:
    """NaN or infinite values, where numbers are wanted: how many of which tensor."""
    for operand, value in _find_values(failure):
        if not (value.is_floating_point() or value.is_complex()) or bool(value.isfinite().all()):
            continue
        absent, total = int(value.isnan().sum()), value.numel()
        count, kind = (absent, "NaN") if absent else (int(value.isinf().sum()), "infinite")
        told = f"{count} of the {total} values of {operand.text}{at(operand)} {'is' if count == 1 else 'are'} {kind}"
        way = f"{operand.text}.nan_to_num()" if value.ndim > 1 else f"{operand.text}[{operand.text}.isfinite()]"
        is_short = operand.text.isidentifier()
        return f"{told}: look at the line that made it" + (f", or {way}" if is_short else "")
    return None


@remedy(
    r"sum of probabilities <= 0|weights sum to zero|there are no values|from empty tensor|on an empty tensor|"
    r"an empty tensor of \S+ has no median|Invalid number of data points \(0\)"
)
def give_some_weight(failure: Failure, match: re.Match[str]) -> str | None:
    """Weights that are all 0, and tensors without values."""
    for operand, value in _find_values(failure):
        if value.numel() == 0:
            told = f"{operand.text}{at(operand)}, {tuple(value.shape)}, is empty"
            if "classes" in failure.message:
                return f"{told}: num_classes=… tells the number of classes, which no label shows"
            return f"{told}: if {operand.text}.numel(): before it, or a batch with samples"
        if "weights" in failure.message or "probabilities" in failure.message:
            is_zero = value.is_floating_point() and bool((value.sum(-1) == 0).any())
            if is_zero:
                return f"{operand.text}{at(operand)} sums to 0: one weight above 0 at least, or {operand.text} + 1e-8"
    return None


@remedy(r"Overflow when unpacking long long|cannot hold all the numbers from 0 to (\d+)")
def take_wider_type(failure: Failure, match: re.Match[str]) -> str | None:
    """Numbers beyond the type that is to hold them."""
    node = failure.node
    if match[1] and isinstance(node, ast.Call):
        kind = find_named_argument(failure, "dtype")
        rest = [each for each in node.keywords if each.arg != "dtype"]
        told = "" if kind is None else f"{text_of(kind)} does not reach to {match[1]}: "
        return f"{told}{text_of(ast.Call(node.func, node.args, rest))}, which is of int64"
    given = node.args[0] if isinstance(node, ast.Call) and node.args else None
    value = None if given is None else compute(given, failure.frame)
    if given is None or not isinstance(node, ast.Call) or isinstance(value, (list, tuple)):
        return "integers end at 2**63 - 1: dtype=torch.float64 holds larger ones, rounded"
    changed = f"{text_of(node.func)}(float({text_of(given)}))"
    text = text_of(given)
    return f"{text}{at(failure.find_operand(text))} is beyond int64, which ends at 2**63 - 1: {changed}"


@remedy(r"Invalid (beta parameter|learning rate|epsilon value|[\w ]+? value).*: (\S+)")
def choose_hyperparameter(failure: Failure, match: re.Match[str]) -> str | None:
    """A number that an optimizer cannot use, under the name of its parameter."""
    label = match[1].removesuffix(" value").removesuffix(" parameter")
    name = {"beta": "betas", "learning rate": "lr", "epsilon": "eps"}.get(label, label.replace(" ", "_"))
    given = find_named_argument(failure, name)
    text = match[2] if given is None else text_of(given)
    own = None if given is None else failure.find_operand(text)
    if name == "betas":
        return f"betas={text}{at(own)} are to lie in [0, 1): betas=(0.9, 0.999)"
    told = f"{name}={text}{at(own)} is {match[2]}" if own is not None else f"{name}={text}"
    try:
        value = float(match[2])
    except ValueError:
        return None
    if name == "lr" and value == 0:
        return f"{told}: a number above 0, as in lr=1e-3"
    return f"{told} is below 0: {name}={-value:g}" if own is None else f"{told}, below 0: {name}={-value:g} there"


@remedy(r"expected to be greater than ndim - 1 = (\d+)")
def raise_degrees(failure: Failure, match: re.Match[str]) -> str:
    """Degrees of freedom too few for the size of a matrix."""
    size = int(match[1]) + 1
    return f"the matrix is ({size}, {size}): df={size} or more"


@remedy(r"offsets\[-1\] can not be greater than input's length \D*(\d+)\D* but got offsets\[-1\] of (\d+)")
def end_offsets(failure: Failure, match: re.Match[str]) -> str | None:
    """Begins of bags beyond the last index."""
    x = next(
        (each for each in failure.tensors() if each.value.numel() and int(each.value.max()) == int(match[2])), None
    )
    name = first_tensor(failure, "the input")
    told = "the offsets" if x is None else f"{x.text}{at(x)}"
    count = f"{name} has {match[1]} indices"
    return f"{told} tell where each bag begins: the last begins at {match[2]}, and {count}, 0 to {int(match[1]) - 1}"


@remedy(r"Negative strides are not supported")
def flip_instead(failure: Failure, match: re.Match[str]) -> str:
    """Steps backwards through a tensor."""
    return f"{first_tensor(failure)}.flip(0) goes backwards"


@remedy(r"the number of steps must be a positive|requires? at least one|must transform at least one axis")
def give_an_axis(failure: Failure, match: re.Match[str]) -> str | None:
    """An empty list of dimensions."""
    given = find_named_argument(failure, "dim")
    if given is None:
        return None
    return f"dim={text_of(given)} names no dimension: leave it out for all of them, or dim=(-1,)"


@remedy(r"Inhomogeneous total count not supported by `(\w+)`|inhomogeneous total_count is not supported")
def count_alike(failure: Failure, match: re.Match[str]) -> str | None:
    """Distributions of unlike numbers of trials, of which a function has no formula."""
    given = find_named_argument(failure, "total_count")
    if given is not None:
        return f"total_count={text_of(given)} is one whole number for all: a distribution for each count"
    owner = name_owner(failure, "the distribution")
    name = re.split(" at ", owner)[0]
    value = evaluate(ast.parse(name, mode="eval").body, failure.frame)
    counts = getattr(value, "total_count", None)
    held = "" if not isinstance(counts, Tensor) else f", {sorted(set(counts.flatten().tolist()))}"
    return f"{owner} has different counts{held}: one distribution for each of them"


@remedy(r"^random_split: lengths are whole numbers")
def count_samples(failure: Failure, match: re.Match[str]) -> str:
    """Lengths of parts that a product with a fraction gave."""
    own = next((each for each in failure.operands if isinstance(each.value, float)), None)
    made = None if own is None or own.origin is None else own.origin.value_of(own.text)
    if own is None or made is None:
        return "int(…) around the lengths, and the last is len(dataset) less the others"
    return f"{own.text}{at(own)} is {own.value}: {own.text} = int({text_of(made)}) there"
