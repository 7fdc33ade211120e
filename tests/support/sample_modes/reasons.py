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
    Reason(DERIVATIVES, "as_strided_scatter", ANY, "PyTorch keeps the gradient of elements that are written over"),
    Reason(
        "eager|noncontiguous",
        "istft",
        "complex128",
        "PyTorch loses the gradient of the window where that is complex",
    ),
    Reason(
        "vmap|compiled( narrow)?",
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
    Reason(
        "second",
        "linalg.norm/subgradients_at_zero",
        ANY,
        "at 0 the second derivative is that of the chosen slope, 0; PyTorch's is NaN",
    ),
    Reason(
        "variants", "addbmm", ANY, "PyTorch's addbmm_ resizes its tensor, by accident: addmm_ and baddbmm_ refuse it"
    ),
    Reason("variants", "round", "int64", "special.round takes integers, as round does; PyTorch's does not"),
    Reason("out", "linalg.(eig|eigvals)", ANY, "eigenvalues are determined up to their order"),
    Reason(
        "0-d|empty",
        "masked.(var|std|prod)|nanmean",
        ANY,
        "the gradient of what is left out is 0, where PyTorch's is NaN; a dimension that is named twice is refused",
    ),
    Reason(
        "0-d",
        "nn.functional.cosine_similarity",
        ANY,
        "where a vector is shorter than eps, PyTorch's gradient is not that of its value",
    ),
    Reason(
        "0-d|empty|noncontiguous",
        "resize_",
        ANY,
        "new elements hold anything, and memory that NumPy sees is not resized",
    ),
    Reason("empty", "(nan)?median", "int64", "nothing has no median among integers; PyTorch's is the least integer"),
    Reason(
        "empty",
        "(nan)?quantile|trapz|trapezoid",
        ANY,
        "of nothing there is nothing to differentiate: whether a result asks for gradients is all that differs",
    ),
    Reason(
        "empty",
        "native_batch_norm|nn.functional.(multi_margin_loss|multilabel_margin_loss|nll_loss|scaled_dot_product_attention)",
        ANY,
        "arguments that do not fit together any more, without elements, are refused; PyTorch does not look at them",
    ),
    Reason("vmap", "cov", "float64", "weights of float32 are rounded otherwise in each library"),
    Reason(
        "narrow",
        r"(nn\.functional\.)?grid_sample(r_[23]d)?",
        "b?float16",
        "PyTorch computes the places in 16 bits, and is twelve times as far from the exact values",
    ),
    Reason(
        "narrow",
        r"histc|nn\.functional\.(multilabel_soft_margin_loss|multi_head_attention_forward)",
        "b?float16",
        "PyTorch rounds to 16 bits after each step, and is farther from the exact values",
    ),
    Reason("narrow", "matrix_exp", "b?float16", "PyTorch's series overflows to NaN in 16 bits"),
    Reason("narrow", "(view_as_)?complex", "float16", "NumPy has no complex numbers of 16-bit floats"),
    Reason("narrow", r"(special\.)?polygamma/.*", "int8|int16", "at poles PyTorch's is a large number"),
    Reason(
        "empty",
        r"nn\.functional\.pixel_unshuffle|repeat_interleave",
        ANY,
        "PyTorch returns an input without elements as it is, whatever the arguments ask for",
    ),
    Reason("compiled narrow", "item", "complex64", "numbers that a compiled step reads are real: others are refused"),
    Reason("out", "diff", "int64", "PyTorch refuses other types of `out` only where nothing is subtracted"),
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
        "jvp",
        "(nn.functional.)?grid_sample(r_[23]d)?|nn.functional.ctc_loss|normal",
        ANY,
        "PyTorch has no tangent, and at the kinks and draws of these samples differences tell nothing",
    ),
    Reason(
        "jvp",
        "masked.(softmax|log_softmax|softmin)",
        ANY,
        "of one element the tangent is 0; with it left out, PyTorch's is NaN",
    ),
    Reason("jvp", "cholesky_inverse", "complex128", "PyTorch has a tangent of the triangle that is not read"),
    Reason(
        "out", "nansum", ANY, "PyTorch has no such sum of floating numbers into integers; ours is of the `out`'s type"
    ),
    Reason("noncontiguous", "native_group_norm", ANY, "PyTorch takes contiguous tensors only"),
    Reason("out", "fft.ihfft(2|n)", ANY, "PyTorch leaves the `out` of a transform over one dimension as it was"),
    Reason("out", "bernoulli", ANY, "a draw into complex numbers is refused, also of no elements"),
    Reason(
        "out",
        "narrow_copy|nn.functional.(avg_pool3d|gelu)",
        ANY,
        "PyTorch writes past the strides of a strided out, or nothing into it",
    ),
]


def reason_of(mode: str, name: str, kind: str) -> str | None:
    """Why samples of this function may differ in this mode; None if nothing is known."""
    for reason in REASONS:
        parts = ((reason.modes, mode), (reason.names, name), (reason.kinds, kind))
        if all(re.fullmatch(pattern, value) for pattern, value in parts):
            return reason.why
    return None
