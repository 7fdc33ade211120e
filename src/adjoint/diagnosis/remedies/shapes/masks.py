"""Remedies for masks of `where` of other sizes than what they choose from."""

from __future__ import annotations

import re

from adjoint.diagnosis.failure import Failure
from adjoint.diagnosis.remedies.registry import locate_tensor, name_of_shape, remedy, shape_of


@remedy(r"^where\(bool\[([\d,]*)\], \w+\[([\d,]*)\], \w+\[([\d,]*)\]\): operands could not be broadcast")
def fit_condition(failure: Failure, match: re.Match[str]) -> str | None:
    """A mask of another size than what it chooses from."""
    mask, *others = (shape_of(each) for each in match.groups())
    values = max(others, key=len)
    name, x = name_of_shape(failure, mask, "the mask"), name_of_shape(failure, values, "the input")
    told = f"{name}{locate_tensor(failure, name)} is {mask}, and {x} is {values}"
    if len(mask) <= len(values) and all(p >= q for p, q in zip(mask[::-1], values[::-1], strict=False)):
        cut = ", ".join(f":{n}" for n in values[-len(mask) :])
        return f"{told}: make the mask of that length, or cut it, {name}[{cut}]"
    is_square = len(mask) == 2 and len(values) == 3 and values[-1] == values[-2] == mask[1] and mask[0] == values[0]
    if is_square:  # of the keys of each sample, over the scores of attention
        return f"{told}: {name}[:, None], one truth for each key of each sample"
    if mask == values[: len(mask)]:
        return f"{told}: {name}{'.unsqueeze(-1)' * (len(values) - len(mask))}, one truth for each row"
    return None


@remedy(r"^where\(bool\[([\d,]*)\], \w+\[([\d,]*)\], \w+\[([\d,]*)\]\): operands could not be", is_last=True)
def fit_condition_sizes(failure: Failure, match: re.Match[str]) -> str:
    """A mask that no dimension of 1 makes fit."""
    mask, *others = (shape_of(each) for each in match.groups())
    values = max(others, key=len)
    name, x = name_of_shape(failure, mask, "the mask"), name_of_shape(failure, values, "the input")
    told = f"{name}{locate_tensor(failure, name)} is {mask}, and {x} is {values}"
    return f"{told}: they must agree in each dimension, or have 1 there, counted from the last"
