"""Remedies for tensors of another number of dimensions, or of other sizes, than a function is defined for."""

from __future__ import annotations

import ast
import re

from adjoint.core.runtime.text_table import pluralize
from adjoint.core.tensor.tensor import Tensor
from adjoint.diagnosis.failure import Failure
from adjoint.diagnosis.operands import MISSING, NamedValue, find_origin
from adjoint.diagnosis.remedies.registry import argument_node, at, find_named_argument, first_tensor, remedy, shape_of
from adjoint.diagnosis.repairs.trial import compute
from adjoint.diagnosis.source_expressions import text_of


def _tell_shape(x: NamedValue) -> str:
    return f"{x.text}{at(x)} is {tuple(x.value.shape)}"


@remedy(r"(diag|cov|corrcoef)\(\): .*?(?:Got (\d)D|input with (\d) dimensions)")
def flatten_first(failure: Failure, match: re.Match[str]) -> str | None:
    """A batch of matrices, of which a function takes one."""
    count = int(match[2] or match[3])
    x = next((each for each in failure.tensors() if each.value.ndim == count), None)
    if x is None:
        return None
    if match[1] == "diag":
        return f"{_tell_shape(x)}, a batch of matrices: torch.diagonal({x.text}, dim1=-2, dim2=-1)"
    flat = tuple(x.value.flatten(1).shape)
    return f"{_tell_shape(x)}, and a row for each variable is wanted: {x.text}.flatten(1) is {flat}"


@remedy(r"linalg\.(\w+): A must be batches of square matrices, but they are (\d+) by (\d+)")
def take_square(failure: Failure, match: re.Match[str]) -> str | None:
    """A matrix that is not square."""
    shape = int(match[2]), int(match[3])
    x = next((each for each in failure.tensors() if tuple(each.value.shape[-2:]) == shape), None)
    if x is None:
        return None
    others = [text_of(each) for each in failure.node.args[1:]] if isinstance(failure.node, ast.Call) else []
    ways = {
        "inv": f"torch.linalg.pinv({x.text}) is its pseudoinverse",
        "solve": f"torch.linalg.lstsq({', '.join([x.text, *others])}).solution is nearest",
        "eig": f"torch.linalg.svd({x.text}) is for such",
        "eigh": f"torch.linalg.svd({x.text}) is for such",
        "eigvals": f"torch.linalg.svdvals({x.text}) is for such",
        "cholesky": f"{x.text} @ {x.text}.mT is square, and positive where its rows differ",
    }
    told = f"{_tell_shape(x)}, and a square matrix is wanted"
    return f"{told}: {ways.get(match[1], f'{x.text} @ {x.text}.mT is {(shape[0], shape[0])}')}"


@remedy(r"bincount only supports 1-d non-negative integral inputs")
def count_vector(failure: Failure, match: re.Match[str]) -> str | None:
    """Classes in a matrix, below 0, or of floats."""
    x = next(iter(failure.tensors()), None)
    if x is None:
        return None
    if x.value.ndim != 1:
        return f"{_tell_shape(x)}, and a vector is wanted: torch.bincount({x.text}.flatten())"
    if x.value.numel() and float(x.value.min()) < 0:
        return f"{x.text}{at(x)} holds {float(x.value.min()):g}, and classes begin at 0: {x.text}[{x.text} >= 0]"
    return None


@remedy(r"masked_fill only supports a 0-dimensional value tensor, but got tensor with (\d+) dimension")
def choose_by_mask(failure: Failure, match: re.Match[str]) -> str | None:
    """Many values where a mask is filled with one."""
    node = failure.node
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or len(node.args) != 2:
        return None
    mask, value, x = text_of(node.args[0]), text_of(node.args[1]), text_of(node.func.value)
    own = failure.find_operand(value)
    return f"{value}{at(own)} has many values, and it fills with one: torch.where({mask}, {value}, {x})"


@remedy(r"Index is supposed to be a vector")
def flatten_index(failure: Failure, match: re.Match[str]) -> str | None:
    """A matrix of indices."""
    given, node = find_named_argument(failure, "index"), failure.node
    x = None if given is None else failure.find_operand(text_of(given))
    if given is None or x is None or not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return None
    dim = find_named_argument(failure, "dim")
    flat = f"{text_of(node.func.value)}.index_select({'0' if dim is None else text_of(dim)}, {x.text}.flatten())"
    own = f", or {text_of(node.func.value)}[{x.text}] for that shape" if dim is None or text_of(dim) == "0" else ""
    return f"{_tell_shape(x)}, and indices in a vector are wanted: {flat}{own}"


@remedy(r"expected grid to have size (\d) in last dimension, but got grid with sizes")
def give_coordinates(failure: Failure, match: re.Match[str]) -> str | None:
    """A grid whose places are no pairs of coordinates."""
    given = argument_node(failure, 1, "grid")
    x = None if given is None else failure.find_operand(text_of(given))
    if x is None or not isinstance(x.value, Tensor):
        return None
    shape = tuple(x.value.shape)
    wanted = "(batch, height, width, 2), x and y of -1 to 1" if match[1] == "2" else "(batch, depth, height, width, 3)"
    told = f"{_tell_shape(x)}, and a grid is {wanted}"
    if len(shape) == int(match[1]) + 2 and shape[1] == int(match[1]):
        return f"{told}: {x.text}.movedim(1, -1)"
    return told


@remedy(r"Expected a batch of (\d)D affine matrices of shape Nx(\d)x(\d) for size .*?Got \(([\d, ]+)\)")
def give_affine_rows(failure: Failure, match: re.Match[str]) -> str | None:
    """Matrices of an affine map in another shape."""
    shape, rows = shape_of(match[4]), (int(match[2]), int(match[3]))
    given = argument_node(failure, 0, "theta")
    name = "theta" if given is None else f"{text_of(given)}{at(failure.find_operand(text_of(given)))}"
    told = f"{name} is {shape}, and (batch, {rows[0]}, {rows[1]}) is wanted, a map and a shift in the last column"
    return f"{told}: {'theta' if given is None else text_of(given)}.unsqueeze(0)" if shape == rows else told


@remedy(r"bilinear\(\): input2 is \(([\d, ]+)\), but .* with leading sizes \(([\d, ]*)\)")
def fit_second_input(failure: Failure, match: re.Match[str]) -> str | None:
    """Two inputs of batches that differ."""
    second, leading = shape_of(match[1]), shape_of(match[2])
    inputs = [argument_node(failure, place) for place in (0, 1)]
    if inputs[0] is None or inputs[1] is None:
        return None
    names = [text_of(each) for each in inputs if each is not None]
    told = [f"{name}{at(failure.find_operand(name))}" for name in names]
    if second[:-1] == leading:
        return f"{told[1]} has {second[-1]} features, and the layer's in2_features are others: make them one number"
    return f"{told[0]} is for {leading[0] if leading else 1} samples, and {told[1]} for {second[0]}: one number of both"


@remedy(r"Only tensors with 2 dimensions are supported")
def flatten_weight(failure: Failure, match: re.Match[str]) -> str | None:
    """A weight of a convolution where an initialisation is for matrices."""
    x = next((each for each in failure.tensors() if each.value.ndim > 2), None)
    node = failure.node
    if x is None or not isinstance(node, ast.Call):
        return None
    kind = text_of(node.func).rpartition(".")[2]
    way = f"nn.init.dirac_({x.text})" if kind == "eye_" else f"{text_of(node.func)}({x.text}.flatten(1))"
    return f"{_tell_shape(x)}, and {kind} is for matrices: {way}"


@remedy(r"match the calculated number of sliding blocks .*= (\d+), but got input\.size\((\d)\)=(\d+)")
def count_blocks(failure: Failure, match: re.Match[str]) -> str | None:
    """Another number of blocks than fit into the result."""
    x = next((each for each in failure.tensors() if int(match[3]) in each.value.shape), None)
    size, kernel = find_named_argument(failure, "output_size"), find_named_argument(failure, "kernel_size")
    if x is None or size is None or kernel is None:
        return None
    told = f"{_tell_shape(x)}, {match[3]} blocks, and output_size={text_of(size)} with kernel_size={text_of(kernel)}"
    return f"{told} holds {match[1]}: the sizes, stride= and padding= of the unfold that made them"


@remedy(r"shape '\[([\d, ]+)\]' is invalid for input of size (\d+)")
def count_parameters(failure: Failure, match: re.Match[str]) -> str | None:
    """A vector with fewer values than the parameters it is to fill."""
    node = failure.node
    vector = argument_node(failure, 0, "vec")
    if not isinstance(node, ast.Call) or not text_of(node.func).endswith("vector_to_parameters") or vector is None:
        return None
    value = compute(vector, failure.frame)
    model = failure.named_module()
    if model is None or not isinstance(value, Tensor):
        return None
    count = sum(each.numel() for each in model.value.parameters())
    own = failure.find_operand(text_of(vector))
    return f"{text_of(vector)}{at(own)} has {value.numel()} values, and {model.text}{at(model)} {count} parameters"


@remedy(r"`mixture_distribution\.batch_shape` \(.*?\[([\d, ]*)\].*`component\w*\.batch_shape`\(.*?\[([\d, ]*)\]")
def join_events(failure: Failure, match: re.Match[str]) -> str | None:
    """Components of several numbers each, whose numbers count as components."""
    mixture, components = shape_of(match[1]), shape_of(match[2])
    given = argument_node(failure, 1, "component_distribution")
    if given is None or components[: len(mixture)] != mixture or len(components) <= len(mixture):
        return None
    count = len(components) - len(mixture)
    told = f"{text_of(given)} has batches of {components} and the components last, the mixture {mixture}"
    whole = f"torch.distributions.Independent({text_of(given)}, {count})"
    return f"{told}: {whole} makes one event of the last {'dimension' if count == 1 else pluralize(count, 'dimension')}"


@remedy(r"MaxUnpool\w*\.forward\(\) missing 1 required positional argument: 'indices'")
def return_indices(failure: Failure, match: re.Match[str]) -> str:
    """Places of greatest values that the pooling has not given."""
    given = argument_node(failure, 0)
    own = None if given is None else failure.find_operand(text_of(given))
    made = None if own is None or own.origin is None else own.origin.value
    pool = text_of(made.func) if isinstance(made, ast.Call) else "pool"
    made_by = (
        None
        if failure.line is None or not isinstance(made, ast.Call)
        else find_origin(failure.line.source, made.func, failure.stack)
    )
    told = f"{pool}{at(NamedValue('', None, made_by))} gives them, made with return_indices=True"
    return f"{told}: y, indices = {pool}(x){at(own)}, and {_call(failure)}"


def _call(failure: Failure) -> str:
    name = text_of(failure.node.func) if isinstance(failure.node, ast.Call) else "unpool"
    return f"{name}(y, indices)"


@remedy(r"a leaf Variable that requires grad has been used in an in-place operation")
def copy_leaf(failure: Failure, match: re.Match[str]) -> str | None:
    """A custom function that writes into a parameter."""
    node = failure.node
    x = next((each for each in failure.tensors() if each.value.is_leaf and each.value.requires_grad), None)
    if x is None or not isinstance(node, ast.Call) or not text_of(node.func).endswith(".apply"):
        return None
    return f"{x.text}{at(x)} is a leaf that requires grad, which forward writes: {text_of(node.func)}({x.text}.clone())"


@remedy(r"'[<>]=?' not supported between instances of '(\w+)' and '(\w+)'")
def compare_numbers(failure: Failure, match: re.Match[str]) -> str | None:
    """A text where a call of the library wants a number."""
    node = failure.node
    if not failure.stack[0].called or "str" not in match.groups() or not isinstance(node, ast.Call):
        return None
    given = [*node.args, *(each.value for each in node.keywords)]
    for part in [*given, *(item for each in given if isinstance(each, (ast.List, ast.Tuple)) for item in each.elts)]:
        value = compute(part, failure.frame)
        if isinstance(value, str):
            name = next((f"{each.arg}=" for each in node.keywords if each.value is part), "")
            told = f"{name}{text_of(part)}{at(failure.find_operand(text_of(part)))} is a text, and a number is wanted"
            return f"{told}: {name}{value}" if re.fullmatch(r"-?[\d.]+(e-?\d+)?", value) else told
    return None


@remedy(r"Padding length must be divisible by 2")
def pad_both_sides(failure: Failure, match: re.Match[str]) -> str:
    """An odd number of paddings, or more than there are dimensions."""
    given, x = argument_node(failure, 1, "pad"), first_tensor(failure)
    pads = None if given is None else compute(given, failure.frame)
    own = next((each for each in failure.tensors() if each.text == x), None)
    if own is not None and isinstance(pads, (list, tuple)) and len(pads) > 2 * own.value.ndim:
        told = f"{own.text}{at(own)} has {own.value.ndim} dimensions, and {len(pads)} paddings are given"
        return f"{told}: {2 * own.value.ndim} at most, two for each from the last dimension on"
    return "two numbers for each dimension, from the last on: (left, right, top, bottom)"


@remedy(r"input\.dim\(\) = (\d) is not equal to len\(dims\) = (\d)")
def permute_all(failure: Failure, match: re.Match[str]) -> str | None:
    """A permutation of more or fewer dimensions: of an image without channels, or a batch of images."""
    call, count, wanted = failure.node, int(match[1]), int(match[2])
    owner = call.func.value if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) else None
    value = MISSING if owner is None else compute(owner, failure.frame)
    if not isinstance(call, ast.Call) or owner is None or not isinstance(value, Tensor):
        return None
    dims = [compute(each, failure.frame) for each in call.args]
    told = f"{text_of(owner)} is {tuple(value.shape)}, and {text_of(call)} is of {wanted} dimensions"
    if count == 2 and dims == [2, 0, 1]:
        return f"{told}: a grey image has no channels, {text_of(owner)}[..., None].expand(-1, -1, 3) before it"
    if count == wanted + 1 and sorted(dims) == [*range(wanted)]:
        shifted = [*dims, wanted] if dims[0] == 0 else [0, *(each + 1 for each in dims)]
        order = ", ".join(map(str, shifted))
        return f"{told}: {text_of(owner)}.permute({order}) leaves the batch first"
    return f"{told}: {text_of(owner)}.unsqueeze(0) before it" if count == wanted - 1 and dims[0] == 0 else None
