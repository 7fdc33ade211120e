"""Every function in PyTorch's table of sample inputs: ours gives the same, for each element type, or is named here."""

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.support.converted import Other
from tests.support.torch_samples import (
    TABLE,
    compare,
    compare_compiled,
    compare_error,
    compare_forward,
    counterpart,
    label,
    samples,
)

pytestmark = pytest.mark.filterwarnings("ignore:torch.qr is deprecated:UserWarning")  # by PyTorch's own samples
COUNTS = {"float64": 8, "int64": 3, "bool": 2, "float32": 2, "complex128": 2, "bfloat16": 1}
INTERNAL = "an internal of PyTorch: there only as torch.ops.aten"
# of what PyTorch's table has: not here yet, or never
MISSING: dict[str, str] = {
    "chalf": "NumPy has no complex numbers of 16-bit floats",
    **dict.fromkeys(("max_pool2d_with_indices_backward", "native_dropout_backward", "slice"), INTERNAL),
}
# what is compared of these, and why not more; `name type` is of one element type alone
DIFFERENT: dict[str, str] = {
    **dict.fromkeys(
        ("grid_sampler_2d bfloat16", "grid_sampler_3d bfloat16"),
        "PyTorch computes the places in bfloat16, and is twelve times as far from the exact values",
    ),
    "histc bfloat16": "PyTorch finds the bins in bfloat16, so that numbers near an edge fall beside it",
    "matrix_exp bfloat16": "PyTorch multiplies in bfloat16, as we do in float32, and overflows",
    "nn.functional.rms_norm complex128": "not there for complex numbers",
    "istft complex128": "of an inverse transform PyTorch loses the gradient of the window where that is complex",
}
VALUES_ONLY: dict[str, str] = {
    "masked.logaddexp": "of what neither mask admits PyTorch's gradient is NaN; ours is 0, as of all that is left out",
    "as_strided_scatter": "PyTorch passes on the gradient of elements that were written over",
}
FIRST_ONLY: dict[str, str] = {
    "linalg.norm/subgradients_at_zero": "at 0 our second derivative is that of the chosen slope, 0; PyTorch's is NaN",
}
FACTORS: dict[str, tuple[float, str]] = {
    "pca_lowrank": (100, "second derivatives through factors of nearly singular products"),
    "svd_lowrank": (100, "second derivatives through factors of nearly singular products"),
    "special.airy_ai": (1e3, "PyTorch's own is wrong by 2e-5; elementwise/test_special.py has the true values"),
    "special.bessel_j0": (10, "PyTorch's own is wrong by 2e-7; elementwise/test_special.py has the true values"),
    "special.bessel_y1": (10, "PyTorch's own is wrong by 3e-7; elementwise/test_special.py has the true values"),
}
# PyTorch's, too, is no transpose of the gradient, which a repeated index gives to each of its sources
LAST_SOURCE_ONLY = ("nn.functional.max_unpool1d", "nn.functional.max_unpool2d", "nn.functional.max_unpool3d")
SAME_WORDS: dict[str, str] = {
    "__rdiv__": "TypeError as of the other operators, where PyTorch looks for `reciprocal` of a number",
    "gather": "an `out` that must grow is given other memory, which no longer overlaps the input",
}
# shapes that depend on values, or values that Python sees
UNTRACED = re.compile(
    r"allclose|argwhere|equal|linspace/tensor_overload|logspace/tensor_overload|masked_select|nonzero|tensor_split|"
    r"to_sparse|unique|unique_consecutive"
)
OPS = [pytest.param(op, id=label(op)) for op in TABLE]


def every(op: Any, kinds: dict[str, int], check: Callable[[Any, Any], None]) -> None:
    """Check samples of each element type. Skips if there is none that this library could be given."""
    if label(op) in MISSING:
        pytest.skip(MISSING[label(op)])
    assert counterpart(op) is not None, "neither there nor said to be missing"
    checked = sum(one(op, sample, check) for sample in drawn(op, kinds))
    if not checked:
        pytest.skip("no sample that this library could be given")


def drawn(op: Any, kinds: dict[str, int]) -> Iterator[Any]:
    for kind, count in kinds.items():
        if f"{label(op)} {kind}" not in DIFFERENT:
            yield from samples(op, kind, count)


def one(op: Any, sample: Any, check: Callable[[Any, Any], None]) -> bool:
    try:
        check(op, sample)
    except Other:
        return False
    return True


@pytest.mark.sweep(3)
@pytest.mark.parametrize("op", OPS)
def test_ours_gives_what_pytorch_gives(op: Any) -> None:
    times = 0 if label(op) in VALUES_ONLY else 1 if label(op) in FIRST_ONLY else 2
    factor = FACTORS.get(label(op), (1.0, ""))[0]
    every(op, COUNTS, lambda op, sample: compare(op, sample, times, factor))


@pytest.mark.sweep(4)
@pytest.mark.parametrize("op", [p for p in OPS if p.values[0].supports_autograd])
def test_forward_mode_agrees_with_the_gradient(op: Any) -> None:
    if label(op) in LAST_SOURCE_ONLY:
        pytest.skip("the tangent of a repeated index is that of its last source, as the value is")
    every(op, {"float64": 2}, compare_forward)


@pytest.mark.sweep(4)
@pytest.mark.parametrize("op", [p for p in OPS if not UNTRACED.fullmatch(str(p.id))])
def test_compiled_gives_what_eager_gives(op: Any) -> None:
    every(op, {"float32": 1}, compare_compiled)


@pytest.mark.parametrize("op", [p for p in OPS if p.values[0].error_inputs_func and p.id not in SAME_WORDS])
def test_ours_refuses_what_pytorch_refuses(op: Any) -> None:
    if label(op) in MISSING:
        pytest.skip(MISSING[label(op)])
    for given in op.error_inputs_func(op, "cpu"):
        one(op, given.sample_input, compare_error)


@pytest.mark.parametrize("op", [p for p in OPS if p.id in MISSING])
def test_what_is_said_to_be_missing_is(op: Any) -> None:
    assert counterpart(op) is None, "it is there: take it from MISSING"


def test_exceptions_are_of_the_table() -> None:
    names = {label(op) for op in TABLE}
    named = {*MISSING, *(name.split()[0] for name in DIFFERENT), *VALUES_ONLY, *FIRST_ONLY, *FACTORS, *SAME_WORDS}
    assert named <= names
