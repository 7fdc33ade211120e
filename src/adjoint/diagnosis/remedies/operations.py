"""Remedies for single operations: indices, joins and splits, types, attention, vmap and derivatives of functions."""

from __future__ import annotations

import ast
import re
from math import prod

import numpy as np

from adjoint.diagnosis.causes.operand_history import walk_back
from adjoint.diagnosis.failure import Failure
from adjoint.diagnosis.operands import evaluate
from adjoint.diagnosis.remedies.registry import (
    argument_node,
    at,
    describe_layer,
    find_named_argument,
    first_tensor,
    locate_tensor,
    name_argument,
    remedy,
    shape_of,
)
from adjoint.diagnosis.repairs.expression import bracket
from adjoint.diagnosis.repairs.orders import find_order
from adjoint.diagnosis.source_expressions import SourceFile, text_of


def bracket_text(text: str) -> str:
    """Return the text of an operand, in brackets where an operator would take a part of it."""
    return bracket(ast.parse(text, mode="eval").body)


def _name_last_sizes(failure: Failure) -> str:
    """Return the last size of each tensor of the line, by its name."""
    if not failure.tensors():
        return "agree"
    return "are " + ", ".join(
        f"{each.value.shape[-1]} of {each.text}{at(each)}" for each in failure.tensors() if each.value.ndim
    )


@remedy(r"offsets\[0\] has to be 0")
def begin_offsets(failure: Failure, match: re.Match[str]) -> str:
    """Offsets of an EmbeddingBag that tell where each sequence ends."""
    x = name_argument(failure, 1, "offsets", "offsets")
    told = f"{x}{locate_tensor(failure, x)} begins with {int(failure.locals['offsets'][0])}, and it tells where each"
    return f"{told} sequence begins, the first at 0: torch.tensor([0, *lengths[:-1]]).cumsum(0) of the lengths"


@remedy(r"expected a tensor or a number, got (\w+)")
def give_tensor_or_number(failure: Failure, match: re.Match[str]) -> str | None:
    """A text, or another object, where a tensor or a number belongs."""
    node = failure.node
    for part in node.args if isinstance(node, ast.Call) else ():
        if type(evaluate(part, failure.frame)).__name__ == match[1]:
            own, kind = failure.find_operand(text_of(part)), {"str": "text"}.get(match[1], match[1])
            return f"{text_of(part)}{at(own)} is a {kind}: a number for it, or a tensor of numbers"
    return None


@remedy(r"where expected condition to be a boolean tensor|expected condition to be a boolean")
def ask_condition(failure: Failure, match: re.Match[str]) -> str:
    """A condition of numbers."""
    x = first_tensor(failure)
    return f"a condition holds truths: {x} > 0, or {x}.bool()"


@remedy(r"bitwise_(\w+) is not implemented for tensors of type float")
def compare_first(failure: Failure, match: re.Match[str]) -> str:
    """Logic of numbers."""
    numbers = [each for each in failure.tensors() if each.value.is_floating_point()]
    if len(numbers) == 1 and bool(((numbers[0].value == 0) | (numbers[0].value == 1)).all()):
        x = numbers[0]
        return f"{x.text}{at(x)} holds 0 and 1 as floats, and {match[1]} joins truths: {x.text}.bool()"
    sign = {"and": "&", "or": "|", "xor": "^"}.get(match[1])
    parts = [failure.node.left, failure.node.right] if isinstance(failure.node, ast.BinOp) else []
    if parts and sign and numbers and not any(isinstance(each, ast.Constant) for each in parts):
        sides = [bracket(each) for each in parts]
        written = [f"({each} > 0)" if any(x.text == each for x in numbers) else each for each in sides]
        told = f"{numbers[0].text}{at(numbers[0])} is of floats, and {sign} joins truths"
        return f"{told}: {f' {sign} '.join(written)}, with the bound that is meant"
    return "& | ~ join truths: compare both sides first, (x > 0) & (y > 0)"


@remedy(r"Subtraction, the `-` operator, with (?:a|two) bool tensors?")
def invert_mask(failure: Failure, match: re.Match[str]) -> str | None:
    """A mask that is taken from 1, or from another mask."""
    node = failure.node
    if "two" in match[0] and isinstance(node, ast.BinOp):
        a, b = bracket(node.left), bracket(node.right)
        return f"{a} and {b} are masks, of bool: {a} ^ {b} is where they differ, {a}.int() - {b}.int() the difference"
    if not isinstance(node, ast.BinOp) or not isinstance(node.left, ast.Constant) or node.left.value != 1:
        return None
    x = next((each for each in failure.tensors() if each.text == text_of(node.right)), None)
    return None if x is None else f"{x.text}{at(x)} is a mask, of bool: ~{x.text} is its opposite"


@remedy(r"result type (\w+) can't be cast to the desired output type (\w+)")
def widen_first(failure: Failure, match: re.Match[str]) -> str:
    """A result that the tensor's own type does not hold."""
    called = getattr(failure.node, "func", None)
    if called is not None and not text_of(called).endswith("_"):  # targets of a loss
        x = next((each for each in failure.tensors() if not each.value.is_floating_point()), None)
        if x is not None:
            kind, wanted = match[2].lower(), match[1].lower()
            return f"{x.text}{at(x)} is {kind}, and numbers of type {wanted} are wanted: {x.text}.{wanted}()"
    x = next((each for each in failure.tensors()), None)
    name = "the tensor" if x is None else f"{x.text}{at(x)}"
    origin = None if x is None or x.origin is None else x.origin.node
    if x is not None and isinstance(origin, ast.For) and re.search(r"(state_dict|buffers)\(", text_of(origin.iter)):
        told = f"{name} is {match[2].lower()}, a count such as that of BatchNorm's batches"
        return f"{told}: if {x.text}.is_floating_point(): before it, and {x.text}.copy_(…) for the others"
    return (
        f"{name} is {match[2].lower()}: make it .{match[1].lower()}() first, or write x = x + y, which makes a new one"
    )


@remedy(
    r"expanded size of the tensor \((\d+)\) must match the existing size \((\d+)\) at non-singleton dimension (\d+)"
)
def expand_ones(failure: Failure, match: re.Match[str]) -> str | None:
    """A dimension that is not 1, and cannot be repeated as a view."""
    node = failure.node
    if not any(
        "expand" in text_of(each.func) for each in ast.walk(node or ast.Module([], [])) if isinstance(each, ast.Call)
    ):
        return None
    x = next((each for each in failure.tensors() if int(match[2]) in each.value.shape), None)
    name = "it" if x is None else f"{x.text}{at(x)}, {tuple(x.value.shape)},"
    told = f"{name} has {match[2]} in dimension {match[3]}, where {match[1]} is wanted"
    sizes = [shape_of(each) for each in re.findall(r"[Ss]izes: \[([\d, ]+)\]", failure.message)]
    if len(sizes) == 2 and len(sizes[0]) == len(sizes[1]) == 2 and sizes[1][::-1] == (1, sizes[0][1]):
        return f"{told}: {'x' if x is None else x.text}.view(1, -1) for each row of {sizes[0]}"
    return f"{told}: expand repeats dimensions of 1 alone; unsqueeze one first, or make it of {match[1]}"


@remedy(
    r"permute\(\): number of dimensions.*input\.dim\(\) = (\d+) is not equal to len\(dims\) = (\d+)|"
    r"permute\(sparse_coo\): number of dimensions|length of the desired ordering",
)
def name_all_dimensions(failure: Failure, match: re.Match[str]) -> str | None:
    """An order of some of the dimensions, or of more than there are."""
    node = failure.node
    if not match[1] or not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        x = first_tensor(failure)
        return f"permute names each dimension of {x} once; {x}.transpose(a, b) changes two of them"
    count, named, x = int(match[1]), int(match[2]), bracket(node.func.value)
    own, order = failure.find_operand(x), ", ".join(map(text_of, node.args))
    size = "" if own is None else f", {tuple(own.value.shape)},"
    told = f"{x}{at(own)}{size} has {count} dimensions, and permute names {named}"
    if count > named == 3 and order == "0, 2, 1":
        return f"{told}: {x}.flatten(2).permute({order}) takes the last ones as one, or all {count} in their order"
    if count == named - 1 and order.startswith("0"):
        return f"{told}: a batch is missing, {x}.unsqueeze(0).permute({order})"
    return None


@remedy(r"repeat dims can not be smaller than number of dimensions")
def repeat_all_dimensions(failure: Failure, match: re.Match[str]) -> str:
    """Fewer numbers than dimensions."""
    x = next((each for each in failure.tensors()), None)
    name, count = ("x", 2) if x is None else (x.text, x.value.ndim)
    return f"a number for each dimension: {name}.repeat({', '.join(['2'] + ['1'] * (count - 1))})"


@remedy(r"split_with_sizes expects split_sizes to sum exactly to (\d+) .* but got split_sizes=\[([\d, ]+)\]")
def split_whole(failure: Failure, match: re.Match[str]) -> str:
    """Sizes of parts that are not the whole."""
    sizes, node = shape_of(match[2]), failure.node
    given = node.args[0] if isinstance(node, ast.Call) and node.args else None
    if not isinstance(given, (ast.List, ast.Tuple)) or sum(sizes[:-1]) >= int(match[1]):
        x = bracket(node.func.value) if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) else "it"
        given_text = "the sizes" if given is None else text_of(given)
        told = f"{given_text}, {list(sizes)}, add up to {sum(sizes)}"
        return f"{told}, and {x}{at(failure.find_operand(x))} has {match[1]} there: the sizes must add up to that"
    return (
        f"the parts add up to {sum(sizes)}, the whole is {match[1]}: {[*sizes[:-1], int(match[1]) - sum(sizes[:-1])]}"
    )


@remedy(r"bmm: expected \(b, n, k\) and \(b, k, m\), got \(([\d, ]+)\) and \(([\d, ]+)\)")
def batch_both(failure: Failure, match: re.Match[str]) -> str:
    """A product of batches with a single matrix, or with other batches."""
    a, b = shape_of(match[1]), shape_of(match[2])
    x, y = name_argument(failure, 0, "input", "a"), name_argument(failure, 1, "mat2", "b")
    told = f"{x}{locate_tensor(failure, x)} is {a}, {y}{locate_tensor(failure, y)} {b}, and bmm takes two batches"
    if len(a) == 2 and len(b) == 3 and a == b[:2]:  # a vector for each matrix
        return f"{told}: {x}.unsqueeze(1) is {(a[0], 1, a[1])}, {y} as it is; .squeeze(1) after it"
    if len(b) == 2 and len(a) == 3 and b == a[::2]:
        return f"{told}: {y}.unsqueeze(-1) is {(*b, 1)}; .squeeze(-1) after it"
    if len(a) > 3 or len(b) > 3:
        return f"{told} of 3 dimensions: {bracket_text(x)} @ {bracket_text(y)} takes any number of them"
    ordered = find_order(failure, argument_node(failure, 1, "mat2")) if len(a) == len(b) == 3 else None
    if ordered is not None:
        return f"{told}: {ordered[0]} is {ordered[1]}"
    return f"{told}: {bracket_text(x)} @ {bracket_text(y)} broadcasts a single matrix over the other's batch"


@remedy(
    r"num_channels \((\d+)\) must be divisible by num_groups \((\d+)\)|(?:in|out)_channels must be divisible by groups"
)
def divide_channels(failure: Failure, match: re.Match[str]) -> str:
    """Groups that do not divide the channels."""
    if not match[1]:
        a, b, groups = (int(failure.locals.get(name, 0)) for name in ("in_channels", "out_channels", "groups"))
        if not a or not b:
            return "groups= divides both numbers of channels"
        fitting = [str(n) for n in range(1, a + 1) if a % n == 0 and b % n == 0]
        told = f"{a} and {b} channels" if a != b else f"{a} channels"
        return f"groups={groups} does not divide {told}: {', '.join(fitting)} do"
    fitting = [str(n) for n in range(1, int(match[1]) + 1) if int(match[1]) % n == 0]
    return f"{match[2]} groups do not divide {match[1]} channels: {', '.join(fitting)} do"


@remedy(r"padding='same' is not supported for strided convolutions")
def pad_by_half(failure: Failure, match: re.Match[str]) -> str | None:
    """A convolution with strides that is to keep the size."""
    kernel, stride = failure.locals.get("kernel_size"), failure.locals.get("stride")
    size = kernel[0] if isinstance(kernel, tuple) else kernel
    if not isinstance(size, int):
        return None
    told = f"with stride={stride} no padding keeps the size"
    return f"{told}: padding={(size - 1) // 2} gives the size divided by the stride"


@remedy(r"(\w+) must be an int or (\d) ints, got \((\d+)(?:, \d+)+\)")
def count_spatial_sizes(failure: Failure, match: re.Match[str]) -> str:
    """A window of more or fewer dimensions than its layer."""
    called = failure.node
    name = text_of(called.func) if isinstance(called, ast.Call) else "the layer"
    count = len(re.findall(r"\d+", failure.message.rpartition("got")[2]))
    other = re.sub(r"\d+d$", f"{count}d", name)
    told = f"{name} goes over {match[2]} dimension{'s' * (match[2] != '1')}, and {match[1]} has {count} numbers"
    return f"{told}: {match[1]}={match[3]}, or {other}"


@remedy(r"dropout probability has to be between 0 and 1, but got (\S+)")
def give_probability(failure: Failure, match: re.Match[str]) -> str | None:
    """A percentage, or a number of units, as a probability."""
    value = float(match[1])
    return f"a probability: p={value / 100:g} for {value:g} %" if 1 < value <= 100 else "a probability, such as p=0.5"


@remedy(r"Given normalized_shape=\[([\d, ]+)\], expected input with shape .*, but got input of size\[([\d, ]+)\]")
def fit_normalized_shape(failure: Failure, match: re.Match[str]) -> str:
    """A normalisation over other features."""
    name, size = describe_layer(failure, "normalized_shape")[0], shape_of(match[2])
    count = len(shape_of(match[1]))
    fitting = size[-1] if count == 1 else list(size[-count:])
    return f"{name} is over [{match[1]}], the input's last sizes are {list(size[-count:])}: nn.LayerNorm({fitting})"


@remedy(r"input_lengths must be of size batch_size|target_lengths must be of size batch_size")
def give_each_length(failure: Failure, match: re.Match[str]) -> str:
    """More or fewer lengths than samples."""
    told = re.search(r"expected (\d+) lengths, got shape \[(\d+)\]", failure.message)
    scores = next((each for each in failure.tensors() if each.value.ndim == 3), None)
    if told is not None and scores is not None and scores.value.shape[0] == int(told[2]):
        name = f"{scores.text}{at(scores)}, {tuple(scores.value.shape)},"
        return f"{name} is (batch, time, classes), and (time, batch, classes) is wanted: {scores.text}.transpose(0, 1)"
    return "one length for each sample: inputs are (time, batch, classes), lengths (batch,)"


@remedy(r"inconsistent input_size: got (\d+) expected (\d+)")
def fit_cell(failure: Failure, match: re.Match[str]) -> str:
    """A recurrent cell whose input has other features."""
    name, kind = describe_layer(failure, "the cell", "LSTMCell")
    return f"{name} takes {match[2]} features, its input has {match[1]}: nn.{kind}({match[1]}, …) there"


@remedy(r"Output size is too small")
def pool_less(failure: Failure, match: re.Match[str]) -> str:
    """A window larger than what is left."""
    name, _ = describe_layer(failure, "the window")
    return f"{name} has nothing left to go over: fewer poolings, padding before, or larger inputs"


@remedy(r"expected a 1D window tensor of size equal to win_length=(\d+), but got window with size \[(\d+)\]")
def fit_window(failure: Failure, match: re.Match[str]) -> str:
    """A window shorter or longer than a frame."""
    told = f"the window has {match[2]} values, and win_length is {match[1]}, which is n_fft where it is not given"
    return f"{told}: a window of {match[1]}, or win_length={match[2]}"


@remedy(r"Padding size should be less than the corresponding input dimension")
def reflect_less(failure: Failure, match: re.Match[str]) -> str:
    """More reflection than there is to reflect."""
    told = re.search(r"padding \((\d+), (\d+)\) at dimension (\d+) of input \[([\d, ]+)\]", failure.message)
    layer = failure.module()
    if told is None:
        return 'reflection repeats what is there: less padding, or mode="replicate"'
    size = shape_of(told[4])[int(told[3])]
    name, kind = ("it", "") if layer is None else (f"{layer.text}{at(layer)}", type(layer.value).__name__)
    advice = f"at most {size - 1}"
    if kind.startswith("Reflection"):
        other = kind.replace("Reflection", "Replication")
        return f"{name} reflects {told[1]} of {size} values: {advice}, nn.{kind}({size - 1}), or nn.{other}({told[1]})"
    return f'{name} reflects {told[1]} of {size} values, the edge left out: {advice}, or mode="replicate"'


def _flatten_rows(failure: Failure) -> str | None:
    """Return which tensor has the columns of the other once its last dimensions are merged."""
    tensors = failure.tensors()
    for x in tensors:
        for other in tensors:
            shape = tuple(x.value.shape)
            if len(shape) > 2 and other.value.ndim and prod(shape[1:]) == other.value.shape[-1]:
                told = f"{x.text}{at(x)} is {shape}, and {other.text} has {other.value.shape[-1]} columns"
                return f"{told}: {x.text}.flatten(1) is {(shape[0], prod(shape[1:]))}"
    return None


@remedy(r"must have the same number of columns|selected index k out of range|expected a non-empty list of Tensors")
def count_elements(failure: Failure, match: re.Match[str]) -> str:
    """Fewer elements than the call needs."""
    chosen = re.search(r"topk with k=(\d+) along a dimension of size (\d+)", failure.message)
    if chosen is not None:
        owner = failure.node.func if isinstance(failure.node, ast.Call) else None
        is_method = isinstance(owner, ast.Attribute) and not text_of(owner).startswith("torch.")
        x = bracket(owner.value) if isinstance(owner, ast.Attribute) and is_method else first_tensor(failure)
        asked, along = (find_named_argument(failure, each) for each in ("k", "dim"))
        k, dim = "k" if asked is None else text_of(asked), "-1" if along is None else text_of(along)
        k, most = ("k", f"k={chosen[2]}") if k.isdigit() else (k, chosen[2])
        told = f"{x} has {chosen[2]} elements there, and {k}{at(failure.find_operand(k))} is {chosen[1]}"
        return f"{told}: {most} at most, min({k}, {x}.shape[{dim}])"
    flat = _flatten_rows(failure) if match[0].startswith("must") else None
    if flat is not None:
        return flat
    ways = {
        "must": f"rows of both have one length: the last sizes {_name_last_sizes(failure)}",
        "selected": "k is at most the size of that dimension: min(k, x.shape[dim])",
        "expected": "the list is empty: nothing was added before, or a filter left nothing",
    }
    return ways[match[0].split()[0]]


@remedy(r"negative.*array\.copy\(\)")
def copy_array(failure: Failure, match: re.Match[str]) -> str:
    """An array that is read backwards."""
    told = walk_back(failure, _describe_flip)
    if told is None and failure.line is not None:  # in a function of the same file
        flips = [_describe_flip(failure, failure.line.source, each) for each in failure.line.source.tree.body]
        found = [each for each in flips if each is not None]
        told = found[0] if len(found) == 1 else None
    return told or "np.ascontiguousarray(…) or .copy() of the array, whose rows run backwards"


FLIPS = re.compile(r"\b(?:flip|fliplr|flipud|rot90)$")


def _describe_flip(failure: Failure, source: SourceFile, node: ast.AST) -> str | None:
    """Return what reads an array backwards, with its line, and a copy of that."""
    for part in ast.walk(node):
        slices = [part.slice, *getattr(part.slice, "elts", ())] if isinstance(part, ast.Subscript) else []
        steps = [text_of(each.step) for each in slices if isinstance(each, ast.Slice) and each.step is not None]
        is_flip = isinstance(part, ast.Call) and FLIPS.search(text_of(part.func)) is not None
        if is_flip or any(step.startswith("-") for step in steps):
            told = f"{text_of(part)} at {source.place_of(part)} reads an array backwards"
            return f"{told}: {text_of(part)}.copy() there"
    return None


@remedy(r"support the deepcopy protocol")
def copy_leaf(failure: Failure, match: re.Match[str]) -> str:
    """A copy of a tensor with a graph."""
    x = next((each for each in failure.tensors() if not each.value.is_leaf), None)
    name = "it" if x is None else f"{x.text}{at(x)}"
    return f"{name} has a graph: .detach().clone() copies the values"


@remedy(r"non-empty 2D or 3D \(batch mode\) tensor expected for input, but got (\d)D")
def choose_pooling(failure: Failure, match: re.Match[str]) -> str | None:
    """A pooling for inputs of another number of dimensions."""
    layer = failure.module()
    if layer is None:
        return None
    other = re.sub(r"\dd$", {"4": "2d", "5": "3d"}.get(match[1], ""), type(layer.value).__name__)
    return f"{layer.text}{at(layer)}: nn.{other} takes {match[1]} dimensions"


@remedy(r"size is \(([\d, ]+)\): one number for each is needed")
def give_both_sizes(failure: Failure, match: re.Match[str]) -> str:
    """Fewer sizes than spatial dimensions."""
    return "size=(height, width), or one number for all"


@remedy(r"calling \.item\(\) on a Tensor.*vmap")
def stay_in_tensors(failure: Failure, match: re.Match[str]) -> str:
    """A Python number of each example of vmap."""
    return "compute with the tensor itself, torch.where(condition, a, b) for decisions"


@remedy(r"Jacobian mismatch for output (\d+) with respect to input (\d+)")
def check_in_double(failure: Failure, match: re.Match[str]) -> str:
    """A comparison of derivatives, in float32 or of a wrong rule."""
    single = any(str(each.value.dtype).endswith("float32") for each in failure.tensors())
    if single or "float32" in str(failure.locals.get("inputs", "")) or not failure.tensors():
        return "differences need float64: .double() for the inputs; if they differ then, the backward is wrong"
    return "the backward of the function is wrong: compare it with the derivative by hand"


@remedy(r"Inference tensors cannot be saved for backward")
def leave_inference_mode(failure: Failure, match: re.Match[str]) -> str:
    """A tensor of inference mode in a computation that is differentiated."""
    x = next((each for each in failure.tensors() if each.value.is_inference()), None)
    name = "it" if x is None else f"{x.text}{at(x)}"
    return f"{name} was made in inference_mode: no_grad() there, or {'x' if x is None else x.text}.clone()"


@remedy(r"'numpy\.\w+' object has no attribute|must be Tensor, not ndarray$", is_last=True)
def keep_tensors(failure: Failure, match: re.Match[str]) -> str:
    """An array where a tensor belongs."""
    made = next((each for each in failure.operands if isinstance(each.value, np.generic)), None)
    if made is not None and failure.message.endswith(("'backward'", "'grad'", "'detach'")):
        told = f"{made.text}{at(made)} is a number of NumPy, without a graph"
        return f"{told}: compute it with tensors, torch.stack(losses).mean() of losses that keep theirs"
    array = next((each for each in failure.operands if isinstance(each.value, np.ndarray)), None)
    if failure.modules and array is not None:
        return f"{array.text}{at(array)} is an array: torch.from_numpy({array.text})"
    if failure.modules:
        return "its input is an array: torch.from_numpy(…) before it; what a forward hook returns replaces the output"
    array = next((each for each in failure.operands if isinstance(each.value, np.ndarray)), None)
    if array is not None:
        return f"{array.text}{at(array)} is an array, and a tensor is wanted: torch.from_numpy({array.text})"
    return "torch.from_numpy(…) makes a tensor of an array"
