"""`adjoint.testing.comparison`: tensors to test with, and what tests say when two of them differ."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from adjoint.core.dtype.dtype import as_dtype, bfloat16
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Array, DeviceLike, DtypeLike, Operand
from adjoint.functions.api.dim_args import parse_shape
from adjoint.functions.creation import creation, random
from adjoint.functions.elementwise.complex import view_as_real

__all__ = ["assert_allclose", "assert_close", "make_tensor"]

# relative and absolute tolerance by type, as PyTorch has them
TOLERANCES = {
    "bfloat16": (1.6e-2, 1e-5),
    "float16": (1e-3, 1e-5),
    "float32": (1.3e-6, 1e-5),
    "float64": (1e-7, 1e-7),
    "complex64": (1.3e-6, 1e-5),
    "complex128": (1e-7, 1e-7),
}

ALLCLOSE_TOLERANCES = {"float16": (1e-3, 1e-3), "float32": (1e-4, 1e-5), "float64": (1e-5, 1e-8)}  # of assert_allclose


def assert_close(
    actual: Any, expected: Any, *, allow_subclasses: bool = True, rtol: float | None = None,
    atol: float | None = None, equal_nan: bool = False, check_device: bool = True, check_dtype: bool = True,
    check_layout: bool = True, check_stride: bool = False, msg: Any = None,
) -> None:  # fmt: skip
    """Raise AssertionError unless |actual - expected| ≤ atol + rtol |expected| at every element.

    Args:
        actual, expected: tensors, numbers or arrays, or sequences and mappings of them.
        rtol, atol: relative and absolute tolerance, both or neither. Default: those of the dtype, 1.3e-6 and 1e-5 for
            float32, 1e-7 twice for float64, 0 for integers.
        equal_nan: True to take NaN as equal to NaN. Default: False.
        check_dtype: False to compare different dtypes. Default: True.
        check_stride: True to compare the strides of tensors too. Default: False.
        allow_subclasses, check_device, check_layout: ignored.
        msg: text of the error, or function that makes it from the text that it would have. Default: None.

    Raises: AssertionError, with the number of elements that differ and the greatest differences; ValueError for one
    tolerance alone.

    Example:
        >>> ad.testing.assert_close(ad.tensor(1.0), ad.tensor(1.0 + 1e-7))
        >>> ad.testing.assert_close(ad.tensor([1.0]), ad.tensor([2.0]), msg=lambda text: "far apart")
        Traceback (most recent call last):
            ...
        AssertionError: far apart
    """
    if (rtol is None) != (atol is None):
        raise ValueError(
            "Both 'rtol' and 'atol' must be either specified or unspecified, but got no "
            f"{'rtol' if rtol is None else 'atol'}"
        )
    fault = _difference(actual, expected, rtol, atol, equal_nan, check_dtype, check_stride)
    if fault:
        raise AssertionError(msg(fault) if callable(msg) else msg or fault)


def assert_allclose(
    actual: Tensor | float,
    expected: Any,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = True,
    msg: str = "",
) -> None:
    """Compare as `assert_close` does, with wider tolerances, numbers and arrays too, whatever their types. It warns."""
    warnings.warn(
        "`torch.testing.assert_allclose()` is deprecated since 1.12 and will be removed in a future release. Please "
        "use `torch.testing.assert_close()` instead. You can find detailed upgrade instructions in "
        "https://github.com/pytorch/pytorch/issues/61844.",
        FutureWarning,
        stacklevel=2,
    )
    x = actual if isinstance(actual, Tensor) else creation.tensor(actual)
    y = expected if isinstance(expected, Tensor) else creation.tensor(expected, dtype=x.dtype)
    if rtol is None and atol is None:
        wider = [ALLCLOSE_TOLERANCES.get(t.array.dtype.name, (0.0, 0.0)) for t in (x, y)]
        rtol, atol = (max(pair) for pair in zip(*wider, strict=True))
    assert_close(x, y, rtol=rtol, atol=atol, equal_nan=equal_nan, check_dtype=False, msg=msg or None)


def _difference(
    x: Operand,
    y: Operand,
    rtol: float | None,
    atol: float | None,
    equal_nan: bool,
    check_dtype: bool,
    check_stride: bool,
) -> str | None:
    rest = (rtol, atol, equal_nan, check_dtype, check_stride)
    if isinstance(x, Mapping) and isinstance(y, Mapping):
        if x.keys() != y.keys():
            return f"The keys of the mappings do not match: {sorted(map(str, x))} and {sorted(map(str, y))}"
        found = ((key, _difference(x[key], y[key], *rest)) for key in x)
    elif _is_sequence(x) and _is_sequence(y):
        if len(x) != len(y):
            return f"The length of the sequences mismatch: {len(x)} != {len(y)}"
        found = ((i, _difference(a, b, *rest)) for i, (a, b) in enumerate(zip(x, y, strict=True)))
    else:
        return _difference_of_tensors(x, y, *rest)
    return next((f"{fault}\n\nThe failure occurred for item [{key}]" for key, fault in found if fault), None)


def _is_sequence(x: Operand) -> bool:
    return isinstance(x, Sequence) and not isinstance(x, str)


def _difference_of_tensors(
    x: Operand,
    y: Operand,
    rtol: float | None,
    atol: float | None,
    equal_nan: bool,
    check_dtype: bool,
    check_stride: bool,
) -> str | None:
    if x is None or y is None or isinstance(x, str) or isinstance(y, str):
        return None if x == y else f"{x!r} is not {y!r}"
    both = isinstance(x, Tensor) and isinstance(y, Tensor)
    a, b = (np.asarray(_values(v) if isinstance(v, Tensor) else v) for v in (x, y))
    if a.shape != b.shape:
        return f"The values for attribute 'shape' do not match: {x.shape} != {y.shape}."
    if both and check_dtype and x.dtype != y.dtype:
        return f"The values for attribute 'dtype' do not match: {x.dtype} != {y.dtype}."
    if both and check_stride and x.stride() != y.stride():
        return f"The values for attribute 'stride()' do not match: {x.stride()} != {y.stride()}."
    kinds = [v.array.dtype.name if isinstance(v, Tensor) else w.dtype.name for v, w in ((x, a), (y, b))]
    defaults = [TOLERANCES.get(kind, (0.0, 0.0)) for kind in kinds]
    relative = max(d[0] for d in defaults) if rtol is None else rtol
    absolute = max(d[1] for d in defaults) if atol is None else atol
    close = np.isclose(a, b, relative, absolute, equal_nan)
    if close.all():
        return None
    with np.errstate(all="ignore"):
        gap = np.abs(a.astype(np.result_type(a, b, np.float64)) - b)
        part = gap / np.abs(b)
    largest, share = (np.max(v, initial=0, where=~np.isnan(v)) for v in (gap, part))
    return (
        f"{'Tensor-likes' if both else 'Scalars'} are not close!\n\nMismatched elements: {(~close).sum()} / {a.size} "
        f"({100 * (~close).mean():.1f}%)\nGreatest absolute difference: {largest} (up to {absolute} allowed)\n"
        f"Greatest relative difference: {share} (up to {relative} allowed)"
    )


def _values(x: Tensor) -> Array:
    """Return an array of the elements; bfloat16, which NumPy lacks, as float32."""
    return (x.detach().float() if x.dtype is bfloat16 else x.detach()).numpy()


def make_tensor(
    *shape: Any,
    dtype: DtypeLike,
    device: DeviceLike = "cpu",
    low: float | None = None,
    high: float | None = None,
    requires_grad: bool = False,
    noncontiguous: bool = False,
    exclude_zero: bool = False,
    memory_format: object = None,
) -> Tensor:
    """Random elements of [low, high): [-9, 9) unless given, [0, 10) of unsigned integers, all truths.

    Bounds that the type cannot hold are brought to the nearest that it can.
    """
    kind, size = as_dtype(dtype), parse_shape(shape)
    gaps = noncontiguous and math.prod(size) > 1
    wide = (*size[:-1], 2 * size[-1]) if gaps else size
    if kind.rank >= 2:
        out: Operand = creation.empty(wide, dtype=kind)
        bottom, top = (-9.0 if low is None else low), (9.0 if high is None else high)
        random.uniform_(view_as_real(out) if kind.is_complex else out, bottom, top)
        if exclude_zero:
            out[out == 0] = float(np.finfo(kind.numpy).tiny)
    else:
        limits = (0, 2) if kind.rank == 0 else (-9 if kind.is_signed else 0, 10)
        info = None if kind.rank == 0 else np.iinfo(kind.numpy)
        least, most = (0, 1) if info is None else (int(info.min), int(info.max))
        bottom = max(math.ceil(limits[0] if low is None else low), least)
        top = min(math.ceil(limits[1] if high is None else high), most + 1)
        out = random.randint(bottom, top, wide, dtype=kind)
        if exclude_zero:
            out[out == 0] = 1
    out = creation.as_tensor(out)
    if gaps:
        out = out[..., 1::2]
    return out.detach().requires_grad_(requires_grad) if requires_grad else out
