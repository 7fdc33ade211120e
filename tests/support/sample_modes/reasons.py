"""What differs from PyTorch for a reason: the modes, the functions and the element types, and a sentence."""

from __future__ import annotations

import re
from typing import NamedTuple


class Reason(NamedTuple):
    """Samples that may differ; each part is a pattern for the whole name."""

    modes: str
    names: str
    kinds: str
    why: str


DERIVATIVES = "eager|noncontiguous|0-d|empty"
ANY = ".*"
REASONS: list[Reason] = [
    Reason(ANY, "chalf", ANY, "NumPy has no complex numbers of 16-bit floats"),
    Reason(ANY, "to_sparse", ANY, "there are no sparse tensors"),
    Reason(ANY, r"nn\.functional\.embedding(_bag)?", ANY, "there are no sparse gradients: `sparse=True` is refused"),
    Reason(DERIVATIVES, "as_strided_scatter", ANY, "PyTorch keeps the gradient of elements that are written over"),
    Reason(
        "eager|noncontiguous",
        "istft",
        "complex128",
        "PyTorch loses the gradient of the window where that is complex",
    ),
    Reason(
        "vmap|compiled",
        "as_strided/partial_views",
        ANY,
        "a tensor of a trace, or of a batch, counts as in memory of its own, without what lies around its view",
    ),
    Reason(
        "vmap",
        "argwhere|bincount|nonzero|repeat_interleave|resize_|unique|unique_consecutive",
        ANY,
        "the shape depends on the values of each example, which is refused; PyTorch goes on if the shapes agree",
    ),
    Reason(
        "eager|noncontiguous|vmap|variants",
        "special.airy_ai|special.bessel_[jy][01]",
        ANY,
        "PyTorch's own is wrong by up to 2e-5; the tests of special functions have the true values",
    ),
    Reason("vmap", "cov", "float64", "weights of float32 are rounded otherwise in each library"),
    Reason(
        "narrow",
        "grid_sampler_[23]d",
        "bfloat16",
        "PyTorch computes the places in bfloat16, and is twelve times as far from the exact values",
    ),
    Reason(
        "errors",
        "__rdiv__",
        ANY,
        "TypeError as of the other operators, where PyTorch looks for `reciprocal` of a number",
    ),
    Reason(
        "errors", "gather", ANY, "an `out` that must grow is given other memory, which no longer overlaps the input"
    ),
    Reason(
        "out", "narrow_copy", ANY, "PyTorch writes the elements of a strided out one after another, past its strides"
    ),
]


def reason_of(mode: str, name: str, kind: str) -> str | None:
    """Why samples of this function may differ in this mode; None if nothing is known."""
    for reason in REASONS:
        parts = ((reason.modes, mode), (reason.names, name), (reason.kinds, kind))
        if all(re.fullmatch(pattern, value) for pattern, value in parts):
            return reason.why
    return None
