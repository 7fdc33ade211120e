"""Remedies for indices of gather and scatter with fewer dimensions than what they choose from."""

from __future__ import annotations

import ast
import re

from adjoint.core.tensor.tensor import Tensor
from adjoint.diagnosis.failure import Failure
from adjoint.diagnosis.remedies.registry import (
    argument_node,
    at,
    remedy,
    shape_of,
)
from adjoint.diagnosis.repairs.expression import bracket
from adjoint.diagnosis.repairs.trial import compute
from adjoint.diagnosis.source_expressions import text_of


@remedy(r"Index tensor must have the same number of dimensions as (?:input|self) tensor")
def give_index_dimensions(failure: Failure, match: re.Match[str]) -> str | None:
    """An index of gather or scatter with fewer dimensions."""
    tensors = failure.tensors()
    call = failure.node
    method = call.func if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) else None
    given = argument_node(failure, 1, "index")
    if method is not None and given is not None and isinstance(given, ast.Subscript):
        held, places = compute(method.value, failure.frame), compute(given, failure.frame)
        if isinstance(held, Tensor) and isinstance(places, Tensor) and held.ndim - places.ndim > 0:
            way = f"{text_of(given)}{'.unsqueeze(-1)' * (held.ndim - places.ndim)}"
            told = f"{text_of(given)} is {tuple(places.shape)}, and {text_of(method.value)} {tuple(held.shape)}"
            return f"{told}: an index has as many dimensions, {way}"
    computed = _give_computed_dimensions(failure)
    if len(tensors) < 2 or computed is not None:
        return computed
    x, index = tensors[0], tensors[1]
    missing = x.value.ndim - index.value.ndim
    if missing <= 0:
        return None
    dim = failure.locals.get("dim", -1)
    is_of_rows = isinstance(dim, int) and x.value.ndim > 2 and dim % x.value.ndim == index.value.ndim - 1
    if is_of_rows and missing == 1:
        sizes = ", ".join(["-1"] * index.value.ndim)
        whole = f"{index.text}.unsqueeze(-1).expand({sizes}, {x.text}.shape[-1])"
        return f"the index has all dimensions of {x.text}, {tuple(x.value.shape)}: {whole} takes whole rows"
    source = tensors[2].value if len(tensors) > 2 else None
    if source is not None and tuple(source.shape[: index.value.ndim]) == tuple(index.value.shape):
        whole = f"{index.text}{'.unsqueeze(-1)' * missing}.expand_as({tensors[2].text})"
        told = f"{index.text}{at(index)} has one place for each row of {tensors[2].text}, and each value needs one"
        return f"{told}: {whole}"
    place = dim % x.value.ndim if isinstance(dim, int) else -1
    if missing == 1 and tuple(index.value.shape) == (*x.value.shape[:place], *x.value.shape[place + 1 :]):
        place = -1 if place == index.value.ndim else place
    else:
        place = -1
    told = f"{index.text}{f'.unsqueeze({place})' * missing} has {x.value.ndim} dimensions, as {x.text}"
    return told if "scatter" in failure.message else f"{told}; .squeeze({place}) after it"


def _give_computed_dimensions(failure: Failure) -> str | None:
    """Return what to write where a method of a computed tensor, such as `model(x).gather(1, a)`, takes an index."""
    told = re.match(r"gather\(\w+\[([\d,]*)\], \w+\[([\d,]*)\]\)", failure.message)
    given, dim = argument_node(failure, 1, "index"), failure.locals.get("dim")
    method = failure.node.func if isinstance(failure.node, ast.Call) else None
    owner = method.value if isinstance(method, ast.Attribute) else None
    if told is None or given is None or failure.line is None or not isinstance(owner, ast.Call):
        return None
    shape, places = shape_of(told[1]), shape_of(told[2])
    place = dim % len(shape) if isinstance(dim, int) and shape else -1
    if place < 0 or places != (*shape[:place], *shape[place + 1 :]):
        return None
    own = failure.find_operand(text_of(given))
    whole = (*places[:place], 1, *places[place:])
    place = -1 if place == len(places) and place > 1 else place
    after = failure.line.source.parents.get(failure.node) if failure.node is not None else None
    is_squeezed = isinstance(after, ast.Attribute) and after.attr in ("squeeze", "flatten", "reshape", "view")
    advice = f"{text_of(given)}{at(own)} is {places}, and {text_of(owner)} {shape}: {bracket(given)}.unsqueeze({place})"
    return f"{advice} is {whole}{'' if is_squeezed else f'; .squeeze({place}) after it'}"
