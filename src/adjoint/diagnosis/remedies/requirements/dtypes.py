"""Remedies for types of numbers that a function does not compute with: masks, complex and real numbers, layouts."""

from __future__ import annotations

import ast
import copy
import re

import numpy as np

from adjoint.core.tensor.tensor import Tensor
from adjoint.diagnosis.failure import Failure
from adjoint.diagnosis.operands import NamedValue, evaluate
from adjoint.diagnosis.remedies.registry import at, find_named_argument, name_owner, remedy
from adjoint.diagnosis.repairs.expression import bracket
from adjoint.diagnosis.repairs.trial import runs
from adjoint.diagnosis.source_expressions import text_of

FULL_NAMES = {"float": "float32", "double": "float64", "half": "float16", "long": "int64", "int": "int32"}


def _operand_of_sign(failure: Failure) -> NamedValue | None:
    """Return the operand of `-x`, `+x` or `~x`."""
    node = failure.node
    if not isinstance(node, ast.UnaryOp):
        return None
    text = text_of(node.operand)
    return failure.find_operand(text) or NamedValue(text, evaluate(node.operand, failure.frame))


@remedy(r"The `\+` operator, on a bool tensor is not supported")
def count_mask(failure: Failure, match: re.Match[str]) -> str | None:
    """A mask with a sign before it."""
    x = _operand_of_sign(failure)
    return None if x is None else f"{x.text}{at(x)} is a mask, of bool: {x.text}.int() makes 0 and 1 of it"


@remedy(r"~ \(operator\.invert\) is only implemented on integer and bool tensors")
def invert_booleans(failure: Failure, match: re.Match[str]) -> str | None:
    """The opposite of a mask that is of floats."""
    x = _operand_of_sign(failure)
    if x is None:
        return None
    own = bracket(ast.parse(x.text, mode="eval").body)
    kind = str(x.value.dtype).rpartition(".")[2] if isinstance(x.value, Tensor) else "floats"
    return f"{x.text}{at(x)} is of {kind}, and a mask is of bool: ~{own}.bool(), or 1 - {x.text}"


@remedy(r"view_as_real is only supported for complex tensors")
def keep_real(failure: Failure, match: re.Match[str]) -> str | None:
    """The parts of numbers that have one."""
    x = next(iter(failure.tensors()), None)
    if x is None:
        return None
    kind = str(x.value.dtype).rpartition(".")[2]
    told = f"{x.text}{at(x)} is {kind}, real already"
    pairs = (
        f"; torch.view_as_complex({x.text}) makes complex numbers of its pairs" if x.value.shape[-1:] == (2,) else ""
    )
    return f"{told}: leave view_as_real out{pairs}"


@remedy(r"Tensor must have a last dimension of size 2")
def pair_parts(failure: Failure, match: re.Match[str]) -> str | None:
    """Numbers that are no pairs of a real and an imaginary part."""
    x = next(iter(failure.tensors()), None)
    if x is None:
        return None
    shape = tuple(x.value.shape)
    told = f"{x.text}{at(x)} is {shape}, and its last dimension is to be 2, a real and an imaginary part"
    if shape and shape[-1] % 2 == 0:
        pairs = (*shape[:-1], shape[-1] // 2, 2)
        return f"{told}: {x.text}.reshape{pairs}"
    return f"{told}: torch.complex(real, imag) takes them apart"


@remedy(r"tensor\.H is only supported on matrices .* Got (\d+)-D")
def transpose_batch(failure: Failure, match: re.Match[str]) -> str:
    """The conjugate transpose of a batch of matrices."""
    owner = name_owner(failure, "x")
    name = owner.partition(" at ")[0]
    return f"{owner} is {match[1]}-D, a batch of matrices: {name}.mH" if int(match[1]) > 2 else f"{owner} is no matrix"


@remedy(r"[Ii]ntegral inputs not supported|Expected a floating point or complex tensor as input|must be floating")
def convert_all(failure: Failure, match: re.Match[str]) -> str | None:
    """Several tensors of integers: all of them as floats, if the call runs then."""
    node = failure.node
    whole = [each for each in failure.tensors() if not each.value.is_floating_point() and not each.value.is_complex()]
    if not isinstance(node, ast.Call) or len(whole) < 2:
        return None
    texts = {each.text for each in whole}
    parts = [each for each in ast.walk(node) if isinstance(each, ast.expr) and text_of(each) in texts]
    changed = copy.deepcopy(
        node, {id(each): ast.Call(ast.Attribute(each, "float", ast.Load()), [], []) for each in parts}
    )
    told = ", ".join(f"{each.text}{at(each)}" for each in whole)
    return f"{told} are of integers: {text_of(changed)}" if runs(changed, failure.frame) else None


@remedy(r"Cannot have onesided output if window or input is complex")
def keep_both_sides(failure: Failure, match: re.Match[str]) -> str | None:
    """A complex signal, whose two sides differ."""
    node = failure.node
    if not isinstance(node, ast.Call):
        return None
    rest = [each for each in node.keywords if each.arg != "onesided"]
    changed = ast.Call(node.func, node.args, [*rest, ast.keyword("onesided", ast.Constant(False))])
    x = next((each for each in failure.tensors() if each.value.is_complex()), None)
    told = "the window" if x is None else f"{x.text}{at(x)}"
    return f"{told} is complex, and both sides of its spectrum differ: {text_of(changed)}"


@remedy(r"istft requires a complex-valued input")
def keep_phase(failure: Failure, match: re.Match[str]) -> str | None:
    """A spectrum without its phase, as abs() leaves it."""
    x = next((each for each in failure.tensors() if not each.value.is_complex()), None)
    if x is None:
        return None
    told = f"{x.text}{at(x)} is real, the size of a spectrum without its phase"
    return f"{told}: the complex result of torch.stft(…, return_complex=True), or torch.polar({x.text}, phase)"


@remedy(r"torch\.(finfo|iinfo)\(\) requires an? (?:floating point|integer) input type")
def ask_other_limits(failure: Failure, match: re.Match[str]) -> str | None:
    """The limits of the other kind of numbers."""
    node = failure.node
    other = "iinfo" if match[1] == "finfo" else "finfo"
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return None
    changed = ast.Call(ast.Attribute(node.func.value, other, ast.Load()), node.args, node.keywords)
    given = text_of(node.args[0]) if node.args else "the type"
    return f"{given} is of {'integers' if other == 'iinfo' else 'floats'}: {text_of(changed)}"


@remedy(r"result type (\w+) can't be cast to the desired output type (\w+)")
def make_output_wider(failure: Failure, match: re.Match[str]) -> str | None:
    """A tensor for the result that is of a smaller type."""
    given = find_named_argument(failure, "out")
    node = failure.node
    keyword = (
        next((each.value for each in node.keywords if each.arg == "out"), None) if isinstance(node, ast.Call) else None
    )
    given = given or keyword
    if given is None:
        return None
    own = failure.find_operand(text_of(given))
    kind, result = match[2].lower(), match[1].lower()
    wanted = FULL_NAMES.get(result, result)
    return f"{text_of(given)}{at(own)} is {kind}, and the result {result}: dtype=torch.{wanted} there"


@remedy(r"required rank (\d) tensor to use (channels_last\w*) format")
def add_batch(failure: Failure, match: re.Match[str]) -> str | None:
    """An order of memory for images, of a tensor that is no batch of images."""
    x, rank = next(iter(failure.tensors()), None), int(match[1])
    if x is None:
        return None
    told = f"{x.text}{at(x)} is {tuple(x.value.shape)}, and {match[2]} is of {rank} dimensions"
    if x.value.ndim == rank - 1:
        return f"{told}, (batch, channels, …): {x.text}.unsqueeze(0)"
    return (
        f"{told}: memory_format=torch.{'channels_last_3d' if x.value.ndim == 5 else 'channels_last'}"
        if (x.value.ndim in (4, 5))
        else f"{told}: leave memory_format= out"
    )


@remedy(r"Tensor\.item\(\) cannot be called on meta tensors")
def leave_meta(failure: Failure, match: re.Match[str]) -> str:
    """A number of a tensor that has none."""
    x = next((each for each in failure.tensors() if str(each.value.device) == "meta"), None)
    name = name_owner(failure, "it") if x is None else f"{x.text}{at(x)}"
    return f"{name} is on the device meta, which has shapes and no values: device='cpu' there"


@remedy(r"given numpy array has byte order different from the native")
def swap_bytes(failure: Failure, match: re.Match[str]) -> str | None:
    """An array of NumPy in the order of bytes of another machine."""
    for each in failure.operands:
        kind = each.value.dtype if isinstance(each.value, np.ndarray) else None
        if kind is not None and not kind.isnative:
            wanted = f"{kind.kind}{kind.itemsize}"
            return f"{each.text}{at(each)} is {kind.str!r}, big-endian: {each.text}.astype({wanted!r})"
    return None
