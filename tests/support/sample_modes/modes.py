"""Modes of use, each with the samples that it takes and the check of one of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

from tests.support import torch_samples
from tests.support.converted import Sample
from tests.support.sample_modes import checks
from tests.support.torch_samples import compare, compare_compiled, compare_error


class Mode(NamedTuple):
    """A way in which functions are used: the samples' element types, and the check of one sample."""

    title: str
    kinds: tuple[str, ...]
    check: Callable[[Any, Any], None]
    takes: Callable[[Any], bool] = lambda op: True
    noncontiguous: bool = False


NARROW = ("uint8", "int8", "int16", "int32", "float16", "bfloat16")


def _differentiable(op: Any) -> bool:
    return bool(op.supports_autograd)


MODES: dict[str, Mode] = {
    "eager": Mode(
        "eager: values, types, gradients",
        ("float64", "complex128", "float32", "complex64", "int64", "bool"),
        partial(compare, times=1),
    ),
    "narrow": Mode("narrow types", NARROW, partial(compare, times=0)),
    "compiled": Mode("compiled, with gradients", ("float64", "float32", "int64"), compare_compiled),
    "compiled narrow": Mode("narrow types compiled", (*NARROW, "bool", "complex64"), compare_compiled),
    "vmap": Mode("vmap", ("float64", "int64"), checks.compare_mapped),
    "jvp": Mode("forward mode", ("float64", "complex128"), checks.compare_tangent, _differentiable),
    "second": Mode(
        "second order",
        ("float64", "complex128"),
        checks.compare_second,
        lambda op: _differentiable(op) and op.supports_gradgrad,
    ),
    "noncontiguous": Mode("noncontiguous", ("float64", "int64"), partial(compare, times=1), noncontiguous=True),
    "out": Mode("out=", ("float32", "int64"), checks.compare_out, lambda op: bool(op.supports_out)),
    "variants": Mode("methods, in-place methods, operators, aliases", ("float64", "int64"), checks.compare_variants),
    "0-d": Mode("0 dimensions", ("float64", "int64"), partial(checks.compare_derived, change=checks.as_number)),
    "empty": Mode(
        "no elements",
        ("float64", "int64"),
        partial(checks.compare_derived, change=checks.as_empty),
        lambda op: op.name != "nn.functional.pdist",  # which ends PyTorch's process
    ),
    "errors": Mode("errors", (), compare_error, lambda op: op.error_inputs_func is not None),
}


def samples_of(mode: Mode, op: Any, limit: int | None = None) -> Iterator[tuple[str, Any]]:
    """The samples of a function in a mode, each with its element type; at most `limit` of a type."""
    if not mode.takes(op):
        return
    if not mode.kinds:
        for given in op.error_inputs_func(op, "cpu"):
            yield "", given.sample_input
        return
    for kind in mode.kinds:
        for sample in torch_samples.samples(op, kind, limit, mode.noncontiguous):
            yield kind, sample


def has_counterpart(op: Any) -> bool:
    """Return whether there is such a function here at all."""
    return torch_samples.counterpart(op) is not None


__all__ = ["MODES", "Mode", "Sample", "has_counterpart", "samples_of"]
