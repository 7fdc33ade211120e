"""Remedies for shapes that do not fit: layers, products, broadcasting, views, joins, indices."""

from __future__ import annotations

import re
from math import prod

from adjoint.core.dtype.dtype import bool_
from adjoint.core.typing import Shape
from adjoint.diagnosis.failure import Failure
from adjoint.diagnosis.remedies.registry import (
    at,
    describe_layer,
    first_tensor,
    locate_tensor,
    name_of_shape,
    name_operand,
    remedy,
    shape_of,
)


@remedy(r"linear: input is \(([\d, ]*)\), weight \((\d+), (\d+)\)")
def fit_linear(failure: Failure, match: re.Match[str]) -> str:
    """A linear layer whose input has other features."""
    shape, out, expected = shape_of(match[1]), int(match[2]), int(match[3])
    x = name_of_shape(failure, shape)
    for begin in range(len(shape) - 1):
        if prod(shape[begin:]) == expected:
            return f"flatten the input first: {x}.flatten({begin}) has {expected} features"
    if len(shape) > 1 and expected in shape[:-1]:
        return f"the last dimension holds the features, and dimension {shape.index(expected)} has {expected}: transpose"
    if len(shape) == 1 and prod(shape) % expected == 0:
        return f"reshape the input to (batch, {expected}): {x}.reshape(-1, {expected})"
    features = shape[-1] if shape else 1
    name, _ = describe_layer(failure)
    return f"{name} takes {expected} features, {x} has {features}: nn.Linear({features}, {out}) there"


@remedy(r"weight of size \[([\d, ]+)\], expected input\[([\d, ]+)\] to have (\d+) channels, but got (\d+)")
def fit_convolution(failure: Failure, match: re.Match[str]) -> str:
    """A convolution whose input has other channels."""
    shape, expected, found = shape_of(match[2]), int(match[3]), int(match[4])
    x = name_of_shape(failure, shape)
    if shape[-1] == expected:
        order = (0, len(shape) - 1, *range(1, len(shape) - 1))
        return f"channels come after the batch: {x}.permute{order}, which has {expected} channels"
    name, kind = describe_layer(failure, kind="Conv")
    out = shape_of(match[1])[0]
    return f"{name} takes {expected} channels, its input has {found}: nn.{kind}({found}, {out}, …) there"


@remedy(r"Kernel size: \(([\d x]+)\).*greater than actual input size")
def shrink_kernel(failure: Failure, match: re.Match[str]) -> str:
    """A window larger than what it moves over."""
    name, _ = describe_layer(failure)
    return f"give {name} padding, or a smaller kernel; layers before it made the input small"


@remedy(r"inner sizes differ, \(([\d, ]+)\) @ \(([\d, ]+)\)")
def fit_product(failure: Failure, match: re.Match[str]) -> str | None:
    """A matrix product whose inner sizes differ."""
    a, b = shape_of(match[1]), shape_of(match[2])
    x, y = name_operand(failure, a, 0), name_operand(failure, b, 1)
    if len(b) > 1 and a[-1] == b[-1]:
        return f"transpose the second: {x} @ {y}.mT is {a[:-1]} by {b[-2]}"
    if len(a) > 1 and len(b) > 1 and a[-2] == b[-2]:
        return f"transpose the first: {x}.mT @ {y}"
    if len(a) > 1 and len(b) > 1 and a[-2] == b[-1]:
        return f"the other way round: {y} @ {x}"
    return f"the last size of {x}, {a[-1]}, must be the last but one of {y}, {b[-2] if len(b) > 1 else b[-1]}"


@remedy(r"^where\(bool\[([\d,]*)\], \w+\[([\d,]*)\], \w+\[([\d,]*)\]\): operands could not be broadcast")
def fit_condition(failure: Failure, match: re.Match[str]) -> str:
    """A mask of another size than what it chooses from."""
    mask, *others = (shape_of(each) for each in match.groups())
    values = max(others, key=len)
    name, x = name_of_shape(failure, mask, "the mask"), name_of_shape(failure, values, "the input")
    told = f"{name}{locate_tensor(failure, name)} is {mask}, and {x} is {values}"
    if len(mask) <= len(values) and all(p >= q for p, q in zip(mask[::-1], values[::-1], strict=False)):
        cut = ", ".join(f":{n}" for n in values[-len(mask) :])
        return f"{told}: make the mask of that length, or cut it, {name}[{cut}]"
    return f"{told}: they must agree in each dimension, or have 1 there, counted from the last"


@remedy(r"shapes \(([\d, ]*)\) (?:and )?\(([\d, ]*)\)")
@remedy(r"\[([\d, ]*)\] does not expand to \[([\d, ]*)\]")
def fit_broadcast(failure: Failure, match: re.Match[str]) -> str:
    """Elementwise operands of which neither can be stretched to the other."""
    a, b = shape_of(match[1]), shape_of(match[2])
    x, y = name_operand(failure, a, 0), name_operand(failure, b, 1)
    for name, small, large in ((y, b, a), (x, a, b)):
        if len(small) < len(large) and small == large[: len(small)]:
            added = len(large) - len(small)
            return f"add dimensions at the end: {name}{'.unsqueeze(-1)' * added} is {(*small, *(1,) * added)}"
    if sorted(a) == sorted(b):
        return f"their dimensions come in different orders: transpose {x} or {y}"
    sizes = [(p, q) for p, q in zip(a[::-1], b[::-1], strict=False) if p != q and 1 not in (p, q)]
    table = _find_longer_table(failure, a, b)
    if table is not None:
        name, dim, size, where = table
        cut = ", ".join([":"] * dim + [f":{size}"])
        return f"{name}{where} is for inputs of one length: as much of it as the input has, {name}[{cut}]"
    told = " and ".join(f"{p} against {q}" for p, q in sizes)
    return f"{x} and {y} must agree in each dimension, or have 1 there, counted from the last: {told}"


@remedy(r"Expected (\d)D \(unbatched\) or (\d)D \(batched\) input to (\w+), but got input of size: \[([\d, ]+)\]")
def give_spatial_dimensions(failure: Failure, match: re.Match[str]) -> str:
    """An input of a convolution with fewer or more dimensions."""
    count, shape = int(match[2]), shape_of(match[4])
    x = name_of_shape(failure, shape)
    layer = describe_layer(failure)[0]
    missing = count - len(shape)
    told = f"{layer} takes (batch, channels, …), {count} dimensions, and {x}{locate_tensor(failure, x)} is {shape}"
    if missing <= 0:
        return f"{told}: flatten or leave out {1 - missing if missing else 1} of them"
    channels = getattr(getattr(failure.module(), "value", None), "in_channels", 0)
    if "transpose" in match[3] or (len(shape) == 2 and shape[1] == channels):
        return f"{told}: {x}[{', '.join([':'] * len(shape) + ['None'] * missing)}] is {(*shape, *(1,) * missing)}"
    return f"{told}: {x}[{', '.join(['None'] * missing)}] is {(*(1,) * missing, *shape)}"


@remedy(r"zero-dimensional tensor \(at position \d+\) cannot be concatenated")
def stack_numbers(failure: Failure, match: re.Match[str]) -> str:
    """Tensors without dimensions in a join along one."""
    x = next((each for each in failure.operands if isinstance(each.value, (list, tuple))), None)
    if x is None:
        return "torch.stack joins tensors without dimensions"
    return f"{x.text} holds tensors without dimensions{at(x)}: torch.stack({x.text}), or keep a dimension there"


def _find_longer_table(failure: Failure, a: Shape, b: Shape) -> tuple[str, int, int, str] | None:
    """Return the parameter or buffer that is longer than the input: its name, the dimension, the input's size."""
    module = None if not failure.modules else failure.modules[0]
    held = [*vars(module)["_parameters"].values(), *vars(module)["_buffers"].values()] if module is not None else []
    for own, other in ((a, b), (b, a)):
        table = next((each for each in failure.tensors() if tuple(each.value.shape) == own), None)
        if table is None or not any(table.value is each for each in held):
            continue
        sizes = list(zip(range(len(own))[::-1], own[::-1], other[::-1], strict=False))
        differing = [(dim, q) for dim, p, q in sizes if p != q and 1 not in (p, q)]
        if len(differing) == 1 and own[differing[0][0]] > differing[0][1]:
            return table.text, *differing[0], at(table)
    return None


@remedy(r"shape '\[([-\d, ]*)\]' is invalid for input of size (\d+)")
def fit_view(failure: Failure, match: re.Match[str]) -> str:
    """A view with another number of elements."""
    wanted, size = [int(n) for n in re.findall(r"-?\d+", match[1])], int(match[2])
    rest = prod(n for n in wanted if n > 0)
    if -1 in wanted:
        return f"{size} elements cannot be divided by {rest}: the sizes other than -1 must divide them"
    known = [n for n in wanted[1:] if n > 0]
    if known and size % prod(known) == 0:
        return f"{wanted} would hold {rest} elements; {[size // prod(known), *known]} holds the {size}"
    if len(wanted) == 2 and size % wanted[0] == 0:
        return f"{wanted} would hold {rest} elements; {[wanted[0], size // wanted[0]]} holds the {size}"
    return f"{wanted} would hold {rest} elements, and there are {size}: the sizes must multiply to that"


@remedy(r"view size is not compatible with input tensor's size and stride")
def reshape_instead(failure: Failure, match: re.Match[str]) -> str:
    """A view of memory in another order."""
    x = first_tensor(failure)
    return f"{x}.reshape(…), which copies where it must, or {x}.contiguous().view(…)"


@remedy(r"Sizes of tensors must match except in dimension")
def fit_cat(failure: Failure, match: re.Match[str]) -> str | None:
    """Tensors to be joined that differ in another dimension."""
    shapes = [tuple(each.value.shape) for each in failure.tensors()]
    for dim in range(min(map(len, shapes), default=0)):
        if len({(*shape[:dim], *shape[dim + 1 :]) for shape in shapes}) == 1:
            return f"they differ in dimension {dim} alone: cat([…], dim={dim})"
    return "pad or cut the others to one size"


@remedy(r"equal size, but got (\[[\d, ]*\]) at entry (\d+) and (\[[\d, ]*\]) at entry (\d+)")
def fit_stack(failure: Failure, match: re.Match[str]) -> str:
    """Tensors to be stacked that differ in size."""
    return (
        f"bring entry {match[4]}, {match[3]}, and entry {match[2]}, {match[1]}, to one size: "
        "nn.utils.rnn.pad_sequence pads them; for samples of a DataLoader, in `__getitem__` or in collate_fn="
    )


@remedy(r"index (-?\d+) is out of bounds for dimension (\d+) with size (\d+)")
def stay_in_bounds(failure: Failure, match: re.Match[str]) -> str:
    """An index past the end."""
    size = int(match[3])
    return f"indices of dimension {match[2]} go from 0 to {size - 1}, or -{size} to -1"


@remedy(r"Dimension out of range \(expected to be in range of \[(-?\d+), (-?\d+)\], but got (-?\d+)\)")
def stay_in_dimensions(failure: Failure, match: re.Match[str]) -> str:
    """A dimension that the tensor has not."""
    x = next((each for each in failure.tensors()), None)
    told = "the tensor" if x is None else f"{x.text}, {tuple(x.value.shape)},"
    return f"{told} has {int(match[2]) + 1} dimensions, 0 to {match[2]}; -1 is the last"


@remedy(r"subscript (\w) has size (\d+) for operand (\d+) which does not broadcast with previously seen size (\d+)")
def fit_subscripts(failure: Failure, match: re.Match[str]) -> str:
    """A letter of einsum with two sizes."""
    shapes = ", ".join(f"{each.text} is {tuple(each.value.shape)}" for each in failure.tensors())
    return f"{match[1]!r} is {match[4]}, and {match[2]} in operand {match[3]}: another letter there; {shapes}"


@remedy(r"a Tensor with (\d+) elements cannot be converted to Scalar")
def reduce_first(failure: Failure, match: re.Match[str]) -> str:
    """A number asked of several elements."""
    x = first_tensor(failure)
    if any(each.value.dtype == bool_ for each in failure.tensors()[:1]):
        return (
            f"it holds a truth for each element: {x}.sum().item() counts them, {x}.float().mean().item() is the share"
        )
    return f"reduce it first, {x}.mean().item() or .sum(); {x}.tolist() gives all {match[1]}"


@remedy(r"Boolean value of Tensor with more than one value is ambiguous")
def ask_any_or_all(failure: Failure, match: re.Match[str]) -> str:
    """A decision by several elements."""
    return "(…).any() or .all() for one answer; torch.where(condition, a, b) chooses by element; & | ~ for and, or, not"
