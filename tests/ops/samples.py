"""Samples for every op: what it is tested on, in a domain where it is smooth.

A new op needs a line here; tests/ops/test_every_op.py then holds its value, spec, gradients and types.
"""

from __future__ import annotations

import importlib
import pkgutil
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any
from zlib import crc32

import numpy as np

import adjoint
from adjoint.core.generator import Generator
from adjoint.core.op import Op
from adjoint.functions import activation, classification, distance, linear, loss, pooling
from adjoint.functions import convolution as convolutions
from adjoint.ops import (
    arithmetic,
    assignment,
    attention,
    bitwise,
    comparison,
    contraction,
    convolution,
    creation,
    elementary,
    gamma,
    incomplete_gamma,
    indexing,
    linalg,
    movement,
    normalization,
    ordering,
    random,
    reduction,
    scan,
    scatter,
    selection,
    strides,
    transcendental,
    windows,
)
from adjoint.ops import pooling as pools

Shape = tuple[int, ...]
WINDOWS: Any = {"size": (3, 2), "stride": (2, 2), "padding": (1, 0), "dilation": (1, 1), "extra": (0, 1)}


@dataclass(frozen=True)
class Sample:
    """One application of an op."""

    name: str
    function: Any  # as declared; its op is `function.op`
    inputs: tuple[Any, ...]  # arrays, float64 where floating, and numbers
    params: dict[str, Any] = field(default_factory=dict)
    differentiable: tuple[int, ...] = ()  # which inputs have a gradient
    tolerance: float = 1e-6  # of the gradient against central differences in float64

    @property
    def op(self) -> Op:
        op: Op = self.function.op
        return op

    def arrays(self, dtype: Any) -> tuple[Any, ...]:
        """The inputs, the floating ones in `dtype`."""
        return tuple(x.astype(dtype) if isinstance(x, np.ndarray) and x.dtype.kind == "f" else x for x in self.inputs)

    def settings(self) -> dict[str, Any]:
        """The parameters; a generator is at the same place each time."""
        if "generator" not in self.params:
            return dict(self.params)
        return {**self.params, "generator": Generator().manual_seed(self.params["generator"])}


def draw(name: str, shape: Shape, low: float = -2.0, high: float = 2.0) -> Any:
    """Numbers in [low, high), the same for the same name, no two closer than a hundredth of their mean distance."""
    numbers = np.random.default_rng(crc32(name.encode()))
    n = int(np.prod(shape))
    steps = (numbers.permutation(n) + 0.2 + 0.6 * numbers.random(n)) / max(n, 1)
    return (low + (high - low) * steps).reshape(shape)


def _ints(name: str, shape: Shape, low: int, high: int) -> Any:
    return np.random.default_rng(crc32(name.encode())).integers(low, high, shape)


def _sample(function: Any, *inputs: Any, label: str = "", smooth: Any = None, **params: Any) -> Sample:
    """A sample that is differentiable in every floating array for which the op has a rule."""
    op: Op = function.op
    name = op.evaluate.__name__ + (f"-{label}" if label else "")
    if smooth is None:
        smooth = [i for i, x in enumerate(inputs) if np.ndim(x) >= 0 and getattr(x, "dtype", np.dtype(int)).kind == "f"]
    with_rule = tuple(i for i in smooth if op.rule(i) is not None)
    return Sample(name, function, tuple(inputs), params, with_rule)


def _unary() -> list[Sample]:
    positive, unit, beyond_minus_one = (0.2, 3.0), (-0.9, 0.9), (-0.8, 3.0)
    domains: dict[Any, tuple[float, float]] = {
        arithmetic.neg: (-2, 2), arithmetic.abs: (-2.05, 2), arithmetic.sign: (-2.05, 2), arithmetic.square: (-2, 2),
        arithmetic.reciprocal: positive, arithmetic.sqrt: positive, arithmetic.rsqrt: positive,
        arithmetic.floor: (-2.33, 2.4), arithmetic.ceil: (-2.33, 2.4), arithmetic.trunc: (-2.33, 2.4),
        arithmetic.round: (-2.33, 2.4), arithmetic.relu: (-2.05, 2), transcendental.exp: (-2, 2),
        transcendental.exp2: (-2, 2), transcendental.expm1: (-2, 2), transcendental.log: positive,
        transcendental.log2: positive, transcendental.log10: positive, transcendental.log1p: beyond_minus_one,
        transcendental.sin: (-3, 3), transcendental.cos: (-3, 3), transcendental.tan: (-1.2, 1.2),
        transcendental.asin: unit, transcendental.acos: unit, transcendental.atan: (-2, 2),
        transcendental.sinh: (-2, 2), transcendental.cosh: (-2, 2), transcendental.tanh: (-2, 2),
        transcendental.sigmoid: (-3, 3),
        transcendental.erf: (-2, 2), selection.copy: (-2, 2), comparison.logical_not: (-2, 2),
        comparison.isnan: (-2, 2), comparison.isinf: (-2, 2), comparison.isfinite: (-2, 2),
        elementary.acosh: (1.2, 3), elementary.asinh: (-2, 2), elementary.atanh: unit, elementary.erfc: (-2, 2),
        elementary.sinc: (0.1, 2), elementary.frac: (-2.33, 2.4), elementary.signbit: (-2, 2),
        gamma.lgamma: positive, gamma.digamma: positive, gamma.erfinv: unit,
    }  # fmt: skip
    shapes: list[Shape] = [(3, 4), (), (0, 2)]
    special = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0])
    return [
        *(
            _sample(f, draw(f.__name__, shape, *domain), label="x".join(map(str, shape)) or "0d")
            for f, domain in domains.items()
            for shape in shapes
        ),
        *(_sample(f, special, label="special") for f in (comparison.isnan, comparison.isinf, comparison.isfinite)),
        _sample(comparison.logical_not, np.array([0.0, 1.0, np.nan]), label="special"),
        _sample(bitwise.bitwise_not, _ints("not", (5,), -9, 9)),
        _sample(bitwise.bitwise_not, np.array([True, False]), label="bool"),
        _sample(selection.cast, draw("cast", (3, 2)), dtype=np.dtype(np.float32), smooth=()),
        _sample(selection.cast, draw("cast", (3, 2)), label="to-double", dtype=np.dtype(np.float64)),
        _sample(selection.cast, draw("cast", (3, 2)), label="to-int", dtype=np.dtype(np.int64), smooth=()),
    ]


PAIRS: list[tuple[Shape, Shape]] = [
    ((3, 4), (3, 4)), ((3, 1), (1, 4)), ((), (3,)), ((2, 3), ()), ((), ()), ((0, 3), (1, 3)), ((4, 1, 2), (3, 1)),
]  # fmt: skip


def _binary() -> list[Sample]:
    either, positive, far = (-2.0, 2.0), (0.3, 2.5), (1.1, 2.7)
    domains: dict[Any, tuple[tuple[float, float], tuple[float, float]]] = {
        arithmetic.add: (either, either), arithmetic.sub: (either, either), arithmetic.mul: (either, either),
        arithmetic.div: (either, positive), arithmetic.maximum: (either, either), arithmetic.minimum: (either, either),
        arithmetic.pow: (positive, either), transcendental.atan2: (positive, either),
        arithmetic.floor_divide: ((3.1, 3.2), (1.1, 1.5)), arithmetic.remainder: ((3.1, 3.2), (1.1, 1.5)),
        arithmetic.fmod: ((-3.2, -3.1), (1.1, 1.5)), comparison.eq: (either, far), comparison.ne: (either, far),
        comparison.lt: (either, either), comparison.le: (either, either), comparison.gt: (either, either),
        loss._entropy: ((0.1, 0.9), (0.1, 0.9)), comparison.ge: (either, either),
        comparison.logical_and: (either, either),
        comparison.logical_or: (either, either), comparison.logical_xor: (either, either),
        elementary.hypot: (either, positive), elementary.logaddexp: (either, either),
        elementary.xlogy: (positive, positive), elementary.copysign: (positive, positive),
        elementary.nextafter: (either, either), elementary.heaviside: (either, either),
        incomplete_gamma.igamma: (positive, positive), incomplete_gamma.igammac: (positive, positive),
        elementary.fmax: (either, either), elementary.fmin: (either, either),
    }  # fmt: skip
    samples = [
        _sample(
            f,
            draw(f.__name__ + "x", x, *domain[0]),
            draw(f.__name__ + "y", y, *domain[1]),
            label=f"{'x'.join(map(str, x)) or '0d'}-{'x'.join(map(str, y)) or '0d'}",
        )
        for f, domain in domains.items()
        for x, y in PAIRS
    ]
    of_integers = (
        arithmetic.add, arithmetic.sub, arithmetic.mul, arithmetic.floor_divide, arithmetic.remainder, arithmetic.fmod,
        arithmetic.maximum, arithmetic.minimum, comparison.eq, comparison.lt, comparison.logical_xor,
        bitwise.bitwise_and, bitwise.bitwise_or, bitwise.bitwise_xor, elementary.gcd, elementary.lcm,
    )  # fmt: skip
    of_truths = (
        arithmetic.add, arithmetic.mul, comparison.logical_and, comparison.logical_or, comparison.logical_xor,
        comparison.eq, bitwise.bitwise_and, bitwise.bitwise_or, bitwise.bitwise_xor,
    )  # fmt: skip
    x, y = _ints("x", (3, 4), -9, 9), _ints("y", (4,), 1, 5)
    samples += [_sample(f, x, y, label="int") for f in of_integers]
    truths = np.array([True, True, False, False]), np.array([True, False, True, False])
    samples += [_sample(f, *truths, label="bool") for f in of_truths]
    x = draw("number", (3,), 0.3, 2.0)
    for f in (arithmetic.add, arithmetic.sub, arithmetic.mul, arithmetic.div, arithmetic.pow, arithmetic.maximum):
        samples += [_sample(f, x, 1.5, label="number"), _sample(f, 1.5, x, label="number-first")]
    samples += [
        _sample(arithmetic.pow, draw("square", (3,)), 2, label="square"),
        _sample(arithmetic.pow, draw("cube", (3,)), 3, label="cube"),
        _sample(arithmetic.pow, _ints("base", (3,), -3, 3), _ints("power", (3,), 0, 4), label="int"),
    ]
    return samples


def _reductions() -> list[Sample]:
    x, whole = draw("reduced", (2, 3, 4), 0.3, 2.0), np.dtype(np.int64)
    samples = []
    r = reduction
    for f in (r.sum, r.mean, r.max, r.min, r.prod, r.any, r.all):
        for axes, keepdims in [((0, 1, 2), False), ((1,), False), ((0, 2), True), ((), False)]:
            label = f"{''.join(map(str, axes)) or 'none'}{'-kept' if keepdims else ''}"
            samples.append(_sample(f, x, label=label, axes=axes, keepdims=keepdims))
        samples.append(_sample(f, np.array(0.7), label="0d", axes=(), keepdims=False))
    samples += [
        _sample(reduction.sum, np.zeros((0, 3)), label="empty", axes=(0,), keepdims=False),
        _sample(reduction.prod, np.zeros((0, 3)), label="empty", axes=(0,), keepdims=False),
        _sample(reduction.prod, np.array([[2.0, 0.0, 3.0], [0.0, 0.0, 5.0]]), label="zeros", axes=(1,), keepdims=False),
        _sample(reduction.sum, _ints("sum", (3, 4), -9, 9), label="int", axes=(1,), keepdims=False),
        _sample(reduction.prod, _ints("prod", (3, 4), -9, 9), label="int", axes=(1,), keepdims=True),
        _sample(reduction.max, _ints("max", (3, 4), -9, 9), label="int", axes=(0,), keepdims=False),
        _sample(reduction.any, np.array([[True, False], [False, False]]), label="bool", axes=(1,), keepdims=False),
        _sample(reduction.cumsum, x, axis=1),
        _sample(reduction.cumsum, _ints("cumsum", (4,), -9, 9), label="int", axis=0),
        _sample(scan.cumprod, x, axis=1),
        _sample(scan.cumprod, np.array([2.0, 0.0, 3.0, 0.0, 5.0]), label="zeros", axis=0),
        _sample(scan.logcumsumexp, draw("logs", (2, 5)), axis=1),
        _sample(scan.where_extreme, x, axis=1, largest=True),
        _sample(scan.where_extreme, np.array([2.0, 1.0, 2.0, np.nan, 3.0]), label="ties", axis=0, largest=False),
        _sample(reduction.argmax, x, axis=1, keepdims=False),
        _sample(reduction.argmax, x, label="kept", axis=2, keepdims=True),
        _sample(reduction.argmin, x, axis=0, keepdims=False),
        _sample(ordering.most_frequent, np.round(x), axis=1),
        _sample(ordering.most_frequent, np.array([[2.0, 1.0, 2.0, np.nan, np.nan, 1.0]]), label="ties", axis=1),
        _sample(ordering.histogram, x, bins=4, low=-1.0, high=1.5),
        _sample(ordering.histogram, x, label="own-range", bins=3, low=0.0, high=0.0),
        _sample(ordering.isin, np.round(x), np.array([[1.0, 0.0]]), unique=False, invert=False),
        _sample(ordering.isin, np.array(2), np.arange(3), label="numbers", unique=True, invert=True),
        _sample(ordering.searchsorted, np.sort(x[0].ravel()), x, right=False, dtype=whole),
        _sample(ordering.searchsorted, np.sort(np.round(x)), np.round(x), label="rows", right=True, dtype=whole),
        _sample(indexing.argsort, x, axis=1, descending=False),
        _sample(indexing.argsort, np.array([2.0, 1.0, 2.0, np.nan]), label="ties", axis=0, descending=True),
    ]
    return samples


def _movements() -> list[Sample]:
    x = draw("moved", (2, 3, 4))
    m = movement
    return [
        _sample(m.reshape, x, shape=(6, 4)),
        _sample(m.reshape, np.array(1.5), label="0d", shape=(1, 1)),
        _sample(m.permute, x, axes=(2, 0, 1)),
        _sample(m.permute, draw("t", (2, 3)), label="t", axes=(1, 0), called="t"),
        _sample(m.expand, draw("expand", (3, 1)), shape=(2, 3, 4)),
        _sample(m.expand, np.array(2.0), label="0d", shape=(0, 3)),
        _sample(m.flip, x, axes=(0, 2)),
        _sample(m.slice, x, bounds=((0, 2, 1), (1, 3, 1), (0, 4, 2))),
        _sample(m.slice, x, label="empty", bounds=((0, 2, 1), (1, 1, 1), (0, 4, 1))),
        _sample(m.unslice, draw("unslice", (2, 2)), shape=(4, 5), bounds=((0, 4, 2), (1, 3, 1))),
        _sample(m.select, x, axis=1, at=2),
        _sample(strides.diagonal, x, at=(1, 0, 2)),
        _sample(strides.diagonal, x, label="below", at=(-1, 2, 1)),
        _sample(strides.diagonal_back, draw("diagonal", (3, 2)), shape=(2, 3, 3), at=(1, 0, 2)),
        _sample(strides.unfold, x, dimension=1, size=2, step=1),
        _sample(strides.unfold_back, draw("pieces", (2, 2, 4, 2)), shape=(2, 3, 4), dimension=1, step=1),
        _sample(strides.as_strided, x, size=(3, 2), stride=(1, 2), storage_offset=2, geometry=((12, 4, 1), 0)),
        _sample(strides.restride, x, size=(3, 2), stride=(1, 2), start=2, geometry=((12, 4, 1), 0)),
        _sample(
            strides.restride,
            draw("thin", (3, 2)),
            label="shared",
            size=(4,),
            stride=(1,),
            start=0,
            geometry=((1, 1), 0),
        ),
        _sample(strides.strided_sum, draw("sums", (3, 2)), shape=(2, 3), stride=(1, 2), start=1, geometry=((3, 1), 0)),
        _sample(m.pad, x, widths=((0, 0), (1, 0), (2, 3))),
        _sample(m.pad, x, label="value", widths=((1, 1), (0, 0), (0, 0)), value=3.0),
        _sample(m.cat, draw("a", (2, 3)), draw("b", (2, 1)), draw("c", (2, 2)), axis=1),
        _sample(m.cat, draw("a", (2, 3)), np.zeros((0, 3)), label="empty", axis=0),
        _sample(windows.windows, draw("windows", (2, 9)), size=(3,), stride=(2,), dilation=(1,)),
        _sample(windows.windows, draw("windows", (5, 6)), label="2d", size=(2, 2), stride=(1, 2), dilation=(2, 1)),
        _sample(windows.fold, draw("fold", (2, 4, 3)), shape=(2, 9), stride=(2,), dilation=(1,)),
        _sample(windows.fold, draw("fold", (3, 3, 2, 2)), label="2d", shape=(5, 6), stride=(1, 2), dilation=(2, 1)),
    ]


def _steps(x: np.ndarray[Any, Any]) -> Any:
    """The way from x (3, 4, 5) to a view of it, (3, 2), through a transpose that no slice can express."""
    view: Any = adjoint.tensor(x)[:, 1:3].transpose(0, 1)[..., 2].transpose(0, 1)
    return view.memory.steps


def _apart(along: Any) -> Any:
    """Positions of which none is there twice."""
    return np.argsort(np.concatenate([along, along], 1)[:, :4], axis=1)[:, :2]


def _positions() -> list[Sample]:
    x = draw("indexed", (3, 4, 5))
    rows, columns = np.array([2, 0, 2, -1]), np.array([1, 1, 3, 0])
    along = _ints("along", (3, 2, 5), 0, 4)
    condition = np.array([[True, False, True], [False, False, True]])
    return [
        _sample(indexing.index, x, rows, pattern=(0,)),
        _sample(indexing.index, x, rows, columns, label="two", pattern=(0, 1)),
        _sample(indexing.index, x, rows, columns, label="apart", pattern=(0, None, 1)),
        _sample(indexing.index, x, columns.reshape(2, 2), label="later", pattern=(None, 0)),
        _sample(indexing.index_add, draw("rows", (4, 4, 5)), rows, shape=(3, 4, 5), pattern=(0,)),
        _sample(indexing.index_add, draw("two", (4, 5)), rows, columns, label="two", shape=(3, 4, 5), pattern=(0, 1)),
        _sample(indexing.gather, x, along, axis=1),
        _sample(indexing.scatter_add, draw("scatter", (3, 2, 5)), along, shape=(3, 4, 5), axis=1),
        _sample(scatter.scatter, x, draw("scattered", (3, 2, 5)), _apart(along), axis=1),
        *(
            _sample(
                scatter.scatter_reduce,
                draw("start", (3, 4, 5), 0.3, 2),
                draw("folded", (3, 2, 5), 0.4, 2.1),
                along,
                label=f"{reduce}{'' if include_self else '-alone'}",
                axis=1,
                reduce=reduce,
                include_self=include_self,
            )
            for reduce in ("prod", "amax", "amin")
            for include_self in (True, False)
        ),
        _sample(distance._pdist, draw("points", (4, 3)), p=2.0),
        _sample(distance._pdist, draw("points", (4, 3)), label="cubic", p=3.0),
        _sample(distance._pdist, draw("points", (4, 3)), label="largest", p=np.inf),
        _sample(gamma.polygamma, draw("polygamma", (3, 2), 0.3, 3), n=1),
        _sample(elementary.logit, draw("logit", (3, 2), 0.1, 0.9), eps=None),
        _sample(elementary.logit, draw("logit", (3, 2), 0.1, 0.9), label="eps", eps=0.05),
        _sample(elementary.threshold, draw("threshold", (3, 2)), threshold=0.103, value=1.5),
        _sample(elementary.nan_to_num, draw("numbers", (3, 2)), nan=None, posinf=None, neginf=None),
        _sample(assignment.put_slice, x, draw("put", (2, 4, 2)), bounds=((0, 3, 2), (0, 4, 1), (1, 3, 1))),
        _sample(assignment.put_view, x, draw("put", (3, 2)), steps=_steps(x)),
        _sample(assignment.taken, draw("taken", (2, 3)), draw("content", (2, 3))),
        _sample(assignment.put_slice, x, np.array(0.5), label="0d", bounds=((0, 3, 2), (0, 4, 1), (1, 3, 1))),
        _sample(assignment.put_index, x, draw("put", (2, 4, 5)), np.array([2, 0]), pattern=(0,)),
        _sample(
            assignment.put_index,
            x,
            draw("put", (1, 5)),
            np.array([2, 0]),
            np.array([1, 1]),
            label="two",
            pattern=(0, 1),
        ),
        _sample(selection._where, condition, draw("chosen", (2, 3)), draw("other", (2, 3))),
        _sample(selection._where_, condition, draw("chosen", (2, 3)), draw("other", (2, 3))),
        _sample(selection._where, condition, draw("chosen", (3,)), np.array(0.5), label="broadcast"),
        _sample(indexing._check_range, rows, low=-3, size=3, complaint="{} is out of range", error=IndexError),
        _sample(
            indexing.require, np.array(True), rows, low=-3, size=3, complaint="{} is out of range", error=IndexError
        ),
        _sample(pooling.window_argmax, draw("pooled", (2, 6, 5)), **WINDOWS),
        _sample(pools.window_sum, draw("pooled", (2, 6, 5)), **WINDOWS),
        _sample(pools.window_sum_input, draw("g", (2, 3, 3)), lengths=(6, 5), **WINDOWS),
        _sample(pools.max_pool, draw("pooled", (2, 6, 5)), **WINDOWS),
        _sample(pools.max_pool_input, draw("g", (2, 3, 3)), draw("pooled", (2, 6, 5)), **WINDOWS),
        _sample(pools.at_max, draw("values", (2, 6, 5)), draw("pooled", (2, 6, 5)), **WINDOWS),
    ]


def _contractions() -> list[Sample]:
    plain = {"stride": (1,), "padding": (0,), "dilation": (1,), "groups": 1}
    grouped = {"stride": (2, 1), "padding": (1, 0), "dilation": (1, 2), "groups": 2}
    x, weight = draw("signal", (2, 3, 7)), draw("kernel", (4, 3, 3))
    image, kernel = draw("image", (2, 4, 6, 5)), draw("taps", (6, 2, 3, 2))
    return [
        _sample(contraction.mm, draw("mm", (2, 3)), draw("mm2", (3, 4))),
        _sample(contraction.mm, np.zeros((2, 0)), np.zeros((0, 3)), label="empty"),
        _sample(contraction.bmm, draw("bmm", (5, 2, 3)), draw("bmm2", (5, 3, 4))),
        _sample(contraction.bmm, draw("bmm", (2, 1, 2, 3)), draw("bmm2", (4, 3, 2)), label="broadcast"),
        _sample(convolution.convolution, x, weight, **plain),
        _sample(convolution.convolution, image, kernel, label="grouped", **grouped),
        _sample(convolution.convolution_input, draw("g", (2, 4, 5)), weight, shape=(2, 3, 7), **plain),
        _sample(
            convolution.convolution_input,
            draw("g", (2, 6, 3, 3)),
            kernel,
            label="grouped",
            shape=(2, 4, 6, 5),
            **grouped,
        ),
        _sample(convolution.convolution_weight, x, draw("g", (2, 4, 5)), shape=(4, 3, 3), **plain),
        _sample(
            convolution.convolution_weight,
            image,
            draw("g", (2, 6, 3, 3)),
            label="grouped",
            shape=(6, 2, 3, 2),
            **grouped,
        ),
        _sample(convolutions._convolution, x, weight, draw("bias", (4,)), **plain),
        _sample(convolutions._convolution, image, kernel, draw("bias", (6,)), label="grouped", **grouped),
        _sample(linear._addmm, draw("added", (2, 3)), draw("a", (2, 4)), draw("b", (4, 3)), beta=1, alpha=1),
        _sample(
            linear._addmm, draw("row", (3,)), draw("a", (2, 4)), draw("b", (4, 3)), label="scaled", beta=0.5, alpha=-2.0
        ),
        _sample(linear._linear, draw("in", (5, 3)), draw("weight", (4, 3)), draw("bias", (4,))),
        _sample(linear._linear, draw("in", (2, 5, 3)), draw("weight", (4, 3)), draw("bias", (4,)), label="3d"),
        _sample(linear._linear, draw("in", (5, 3)), draw("weight", (4, 3)), None, label="no-bias"),
        _sample(activation._gelu, draw("gelu", (3, 4))),
        _sample(activation._gelu_tanh, draw("gelu_tanh", (3, 4))),
        _sample(activation._silu, draw("silu", (3, 4))),
        _sample(activation._softmax, draw("softmax", (3, 4)), axis=1),
        _sample(activation._softmax, draw("softmax", (3, 4, 2)), label="first", axis=0),
        _sample(activation._log_softmax, draw("log_softmax", (3, 4)), axis=1),
        _sample(activation._log_softmax, draw("log_softmax", (3, 4, 2)), label="first", axis=0),
        _sample(classification._mean_nll, draw("logs", (4, 3)), np.array([2, 0, 1, 2]), ignore=-100),
        _sample(classification._mean_nll, draw("logs", (4, 3)), np.array([2, 9, 1, 9]), label="ignored", ignore=9),
        _sample(
            classification._mean_weighted_nll,
            draw("logs", (4, 3)),
            np.array([2, 9, 1, 0]),
            np.array([0.5, 2.0, 1.0]),
            ignore=9,
        ),
    ]


def _normalizations() -> list[Sample]:
    x, weight, bias = draw("standardize", (2, 3, 4)), draw("scale", (3, 4)), draw("shift", (3, 4))
    per_channel = draw("scale-channel", (1, 3, 1)), draw("shift-channel", (1, 3, 1))
    f = normalization.standardize
    return [
        _sample(f, x, weight, bias, label="layer", axes=(1, 2), eps=1e-3),
        _sample(f, x, *per_channel, label="batch", axes=(0, 2), eps=1e-3),
        _sample(f, x, None, None, label="plain", axes=(2,), eps=1e-3),
    ]


def _attention() -> list[Sample]:
    plain = {"scale": 0.6, "causal": False}
    q, k, v = draw("queries", (2, 3, 5, 4)), draw("keys", (2, 3, 6, 4)), draw("values", (2, 3, 6, 2))
    square = tuple(draw(f"square-{name}", (1, 2, 4, 3)) for name in "qkv")
    added = draw("added", (1, 3, 5, 6))
    taken = added > -0.5
    taken[0, 1, 2] = False
    above, beside = draw("above", (2, 5, 3, 2)), draw("beside", (1, 4, 2, 3))
    return [
        _sample(attention.attention, q, k, v, None, **plain),
        _sample(attention.attention, q, k, v, None, label="causal", scale=0.6, causal=True),
        _sample(attention.attention, *square, None, label="square", scale=-0.6, causal=True),
        _sample(attention.attention, q, k, v, taken, label="truths", **plain),
        _sample(attention.attention, q, k, v, added, label="added", smooth=(0, 1, 2), **plain),
        _sample(attention.attention, q[..., :0, :], k, v, None, label="no-rows", **plain),
        _sample(attention.attention, q, k[..., :0, :], v[..., :0, :], None, label="no-keys", **plain),
        _sample(attention.attention_gradient, above, q, k, v, None, **plain),
        _sample(attention.attention_gradient, above, q, k, v, added, label="added", **plain),
        _sample(attention.attention_gradient, beside, *square, None, label="square", scale=-0.6, causal=True),
        _sample(attention.safe_softmax, draw("safe", (3, 4))),
        *_normalizations(),
    ]


def _factorisations() -> list[Sample]:
    x = draw("square", (2, 3, 3)) + 3 * np.eye(3)
    tall, wide = draw("tall", (2, 4, 3)) + np.eye(4, 3), draw("wide", (2, 5)) + np.eye(2, 5)
    definite = np.array([[3.0, 0.5, -0.2], [0.5, 2.0, 0.3], [-0.2, 0.3, 1.0]])
    return [
        *(_sample(f, x) for f in (linalg.inv, linalg.cofactors, linalg.det, linalg.logabsdet, linalg.sign_of_det)),
        _sample(linalg.solve, x, draw("right", (2, 3, 2))),
        _sample(linalg.solve, x, draw("shared", (3, 2)), label="broadcast"),
        _sample(linalg.cholesky, definite, smooth=(0,)),
        _sample(linalg.eigh, definite, smooth=(0,)),
        _sample(linalg.qr, tall),
        _sample(linalg.svd, tall, label="tall"),
        _sample(linalg.svd, wide, label="wide"),
    ]


def _made() -> list[Sample]:
    drawn = {"shape": (3, 4), "dtype": np.dtype(np.float32), "generator": 7}
    wide = {"shape": (5,), "dtype": np.dtype(np.float64), "generator": 7}
    return [
        _sample(creation.full, shape=(2, 3), value=1.5, dtype=np.dtype(np.float32)),
        _sample(creation.full, label="int", shape=(), value=3, dtype=np.dtype(np.int64)),
        _sample(creation.iota, count=5, start=2, step=3, dtype=np.dtype(np.int64)),
        _sample(creation.iota, label="float", count=4, start=0.5, step=-0.25, dtype=np.dtype(np.float32)),
        _sample(random.uniform, low=-1.0, high=2.0, **drawn),
        _sample(random.uniform, label="double", low=-1.0, high=2.0, **wide),
        _sample(random.normal, mean=1.0, std=2.0, **drawn),
        _sample(random.normal, label="double", mean=1.0, std=2.0, **wide),
        _sample(random.exponential, rate=2.0, **drawn),
        _sample(random.coin, p=0.3, **drawn),
        _sample(random.dropout_factor, p=0.3, **drawn),
        _sample(random.randint, low=-2, high=9, **{**drawn, "dtype": np.dtype(np.int64)}),
        _sample(random.randperm, count=6, dtype=np.dtype(np.int64), generator=7),
        _sample(random.bernoulli, draw("p", (3, 4), 0.1, 0.9), dtype=np.dtype(np.float32), generator=7, smooth=()),
    ]


SAMPLES: list[Sample] = [
    *_unary(), *_binary(), *_reductions(), *_movements(), *_positions(), *_contractions(), *_attention(),
    *_factorisations(), *_made(),
]  # fmt: skip


def declared_ops() -> dict[int, tuple[str, Op]]:
    """Every op that a module of the package has by name: from its identity to where it is declared."""
    found: dict[int, tuple[str, Op]] = {}
    for module in _modules():
        for value in vars(module).values():
            op = getattr(value, "op", None)
            if isinstance(op, Op):
                found.setdefault(id(op), (f"{op.evaluate.__module__}.{op.evaluate.__name__}", op))
    return found


def _modules() -> list[ModuleType]:
    """The package's modules, besides the compiler, which declares no ops."""
    names = [m.name for m in pkgutil.walk_packages(adjoint.__path__, "adjoint.")]
    return [importlib.import_module(name) for name in names if not name.startswith("adjoint.compiler")]
