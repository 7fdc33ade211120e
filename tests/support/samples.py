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
from adjoint.core.op.op import Op
from adjoint.core.random.generator import Generator
from adjoint.functions.elementwise import activation, gated_activation
from adjoint.functions.linalg import distance, matmul, products
from adjoint.functions.loss import classification, regression
from adjoint.functions.nn import conv_transpose, grid_sample, recurrent, resampling
from adjoint.functions.nn import convolution as convolutions
from adjoint.functions.shape import diag_tril, flip_roll, join
from adjoint.ops import creation
from adjoint.ops.elementwise import (
    arithmetic,
    bitwise,
    comparison,
    float_functions,
    scaled_sums,
    select,
    transcendental,
)
from adjoint.ops.elementwise import complex as of_complex
from adjoint.ops.indexing import indexing, nonzero, scatter, sort
from adjoint.ops.linalg import (
    cholesky_qr,
    eig_svd,
    fft,
    inverse_det_solve,
    ldl,
    lobpcg,
    lstsq,
    lu,
    matrix_exp,
    packed_factors,
    sparse_product,
    triangular,
)
from adjoint.ops.linalg import (
    matmul as contraction,
)
from adjoint.ops.movement import as_strided, memory_format, movement, sliding_windows
from adjoint.ops.mutation import view_update
from adjoint.ops.nn import activation as activations
from adjoint.ops.nn import attention, convolution, loss_terms, normalization
from adjoint.ops.nn import pooling as pools
from adjoint.ops.random import draws, sampling
from adjoint.ops.reduction import logsumexp, reduction, scan, variance
from adjoint.ops.special import bessel, gamma, incomplete_gamma, normal_cdf, orthogonal_polynomials, zeta

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


def _scaled_sums() -> list[Sample]:
    x, y = draw("augend", (3, 4)), draw("factor", (3, 4))
    ops = scaled_sums
    return [
        _sample(ops.add_product, x, y, draw("other", (3, 4)), np.array(0.7)),
        _sample(ops.add_product, x, draw("factor", (4,)), draw("other", (3, 1)), np.array(-1.5), label="broadcast"),
        _sample(ops.add_quotient, x, y, draw("divisor", (3, 4), 1.0, 2.0), np.array(0.7)),
        _sample(ops.interpolate, x, y, draw("weight", (3, 4), 0.1, 0.4)),
        _sample(ops.interpolate, x, y, draw("weight", (3, 4), 0.6, 0.9), label="far"),
        _sample(ops.approach, x, y, np.array(0.3), np.array(0.7)),
        _sample(ops.reach, x, y, np.array(0.8), np.array(0.2)),
    ]


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
        transcendental.erf: (-2, 2), select.copy: (-2, 2), comparison.logical_not: (-2, 2),
        comparison.isnan: (-2, 2), comparison.isinf: (-2, 2), comparison.isfinite: (-2, 2),
        float_functions.acosh: (1.2, 3), float_functions.asinh: (-2, 2), float_functions.atanh: unit,
        float_functions.erfc: (-2, 2),
        float_functions.sinc: (0.1, 2), float_functions.frac: (-2.33, 2.4), float_functions.signbit: (-2, 2),
        of_complex.conj: (-2, 2), of_complex.sgn: (-2.05, 2), of_complex.angle: (-2.05, 2),
        gamma.lgamma: positive, gamma.digamma: positive, normal_cdf.erfinv: unit,
        bessel.airy_ai: (-2, 2), bessel.i0: (-2, 2), bessel.i0e: (-2.05, 2), bessel.i1: (-2.05, 2),
        bessel.i1e: (-2.05, 2), bessel.bessel_j0: (-9, 9), bessel.bessel_j1: (-9.03, 9), bessel.bessel_y0: (0.5, 9),
        bessel.bessel_y1: (0.5, 9), bessel.modified_bessel_k0: positive, bessel.modified_bessel_k1: positive,
        bessel.scaled_modified_bessel_k0: positive, bessel.scaled_modified_bessel_k1: positive,
        bessel.spherical_bessel_j0: (-4.05, 4), normal_cdf.erfcx: (-2, 2), normal_cdf.log_ndtr: (-3, 3),
        normal_cdf.ndtri: (0.05, 0.95), zeta.entr: positive, float_functions.mantissa: (1.1, 1.9),
        float_functions.unit: positive, float_functions.exponent: positive,
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
        _sample(memory_format.copy_in_order, draw("laid", (2, 3, 4)), order=(0, 2, 1)),
        _sample(memory_format.copy_in_order, draw("laid", (2, 3, 4)), label="back", order=(0, 1, 2), back=(2, 0, 1)),
        _sample(select.cast, draw("cast", (3, 2)), dtype=np.dtype(np.float32), smooth=()),
        _sample(select.cast, draw("cast", (3, 2)), label="to-double", dtype=np.dtype(np.float64)),
        _sample(select.cast, draw("cast", (3, 2)), label="to-int", dtype=np.dtype(np.int64), smooth=()),
    ]


PAIRS: list[tuple[Shape, Shape]] = [
    ((3, 4), (3, 4)), ((3, 1), (1, 4)), ((), (3,)), ((2, 3), ()), ((), ()), ((0, 3), (1, 3)), ((4, 1, 2), (3, 1)),
]  # fmt: skip


o = orthogonal_polynomials
POLYNOMIALS = (
    o.chebyshev_polynomial_t, o.chebyshev_polynomial_u, o.chebyshev_polynomial_v, o.chebyshev_polynomial_w,
    o.hermite_polynomial_h, o.hermite_polynomial_he, o.laguerre_polynomial_l, o.legendre_polynomial_p,
    o.shifted_chebyshev_polynomial_t, o.shifted_chebyshev_polynomial_u, o.shifted_chebyshev_polynomial_v,
    o.shifted_chebyshev_polynomial_w,
)  # fmt: skip


def _binary() -> list[Sample]:
    either, positive, far = (-2.0, 2.0), (0.3, 2.5), (1.1, 2.7)
    domains: dict[Any, tuple[tuple[float, float], tuple[float, float]]] = {
        arithmetic.add: (either, either), arithmetic.sub: (either, either), arithmetic.mul: (either, either),
        arithmetic.div: (either, positive), arithmetic.maximum: (either, either), arithmetic.minimum: (either, either),
        arithmetic.pow: (positive, either), transcendental.atan2: (positive, either),
        arithmetic.floor_divide: ((3.1, 3.2), (1.1, 1.5)), arithmetic.remainder: ((3.1, 3.2), (1.1, 1.5)),
        arithmetic.fmod: ((-3.2, -3.1), (1.1, 1.5)), comparison.eq: (either, far), comparison.ne: (either, far),
        comparison.lt: (either, either), comparison.le: (either, either), comparison.gt: (either, either),
        regression._entropy: ((0.1, 0.9), (0.1, 0.9)), comparison.ge: (either, either),
        comparison.logical_and: (either, either),
        comparison.logical_or: (either, either), comparison.logical_xor: (either, either),
        float_functions.hypot: (either, positive), float_functions.logaddexp: (either, either),
        float_functions.xlogy: (positive, positive), float_functions.copysign: (positive, positive),
        float_functions.nextafter: (either, either), float_functions.heaviside: (either, either),
        incomplete_gamma.igamma: (positive, positive), incomplete_gamma.igammac: (positive, positive),
        float_functions.fmax: (either, either), float_functions.fmin: (either, either),
        zeta.xlog1py: (either, positive), zeta.zeta: (far, positive),
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
        bitwise.bitwise_and, bitwise.bitwise_or, bitwise.bitwise_xor, float_functions.gcd, float_functions.lcm,
        bitwise.bitwise_left_shift, bitwise.bitwise_right_shift,
    )  # fmt: skip
    of_truths = (
        arithmetic.add, arithmetic.mul, comparison.logical_and, comparison.logical_or, comparison.logical_xor,
        comparison.eq, bitwise.bitwise_and, bitwise.bitwise_or, bitwise.bitwise_xor,
    )  # fmt: skip
    x, y = _ints("x", (3, 4), -9, 9), _ints("y", (4,), 1, 5)
    samples += [_sample(f, x, y, label="int") for f in of_integers]
    truths = np.array([True, True, False, False]), np.array([True, False, True, False])
    samples += [_sample(f, *truths, label="bool") for f in of_truths]
    degrees = np.array([[0.0], [1.0], [2.0], [5.0], [9.0]])
    samples += [_sample(f, draw("of-polynomials", (3,)), degrees) for f in POLYNOMIALS]
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
        _sample(reduction.xor, _ints("xor", (3, 4), -9, 9), label="int", axes=(0,), keepdims=False),
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
        _sample(sort.most_frequent, np.round(x), axis=1),
        _sample(sort.most_frequent, np.array([[2.0, 1.0, 2.0, np.nan, np.nan, 1.0]]), label="ties", axis=1),
        _sample(nonzero.histogram, x, bins=4, low=-1.0, high=1.5),
        _sample(nonzero.histogram, x, label="own-range", bins=3, low=0.0, high=0.0),
        _sample(nonzero.nonzero_places, np.round(x), size=5, fill=-1),
        _sample(nonzero.nonzero_places, np.array([0.0, 2.0]), label="few", size=3, fill=7),
        _sample(nonzero.bin_edges, x.reshape(6, 4), bins=3, at=1, bounds=None),
        _sample(nonzero.bin_edges, x.reshape(6, 4), label="bounds", bins=4, at=0, bounds=(-1.0, 2.0)),
        _sample(nonzero.counts_in_bins, x.reshape(12, 2), np.ones(12), np.arange(3.0), np.array([0.4, 1.0, 1.5])),
        _sample(sort.isin, np.round(x), np.array([[1.0, 0.0]]), unique=False, invert=False),
        _sample(sort.isin, np.array(2), np.arange(3), label="numbers", unique=True, invert=True),
        _sample(sort.searchsorted, np.sort(x[0].ravel()), x, right=False, dtype=whole),
        _sample(sort.searchsorted, np.sort(np.round(x)), np.round(x), label="rows", right=True, dtype=whole),
        _sample(sort.leading, x, axis=1, count=2, descending=True),
        _sample(sort.leading, np.round(draw("parted", (2, 70)), 1), label="parted", axis=1, count=5, descending=False),
        _sample(sort.median_index, x, axis=1, ignore_nan=False),
        _sample(sort.median_index, np.array([[2.0, np.nan], [3.0, 5.0]]), label="some", axis=1, ignore_nan=True),
        _sample(sort.median_index, np.array([[2.0, np.nan], [3.0, 5.0]]), label="nan", axis=1, ignore_nan=False),
        _sample(sort.index_at_rank, x, axis=1, rank=1),
        _sample(sort.index_at_rank, np.array([2.0, 1.0, 2.0, np.nan]), label="ties", axis=0, rank=2),
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
        _sample(as_strided.diagonal, x, at=(1, 0, 2)),
        _sample(as_strided.diagonal, x, label="below", at=(-1, 2, 1)),
        _sample(as_strided.diagonal_back, draw("diagonal", (3, 2)), shape=(2, 3, 3), at=(1, 0, 2)),
        _sample(as_strided.unfold, x, dimension=1, size=2, step=1),
        _sample(as_strided.unfold_back, draw("pieces", (2, 2, 4, 2)), shape=(2, 3, 4), dimension=1, step=1),
        _sample(as_strided.as_strided, x, size=(3, 2), stride=(1, 2), storage_offset=2, geometry=((12, 4, 1), 0)),
        _sample(as_strided.restride, x, size=(3, 2), stride=(1, 2), start=2, geometry=((12, 4, 1), 0)),
        _sample(
            as_strided.restride,
            draw("thin", (3, 2)),
            label="shared",
            size=(4,),
            stride=(1,),
            start=0,
            geometry=((1, 1), 0),
        ),
        _sample(
            as_strided.strided_sum, draw("sums", (3, 2)), shape=(2, 3), stride=(1, 2), start=1, geometry=((3, 1), 0)
        ),
        _sample(memory_format.reinterpret, x, dtype=np.dtype(np.int64)),
        _sample(m.pad, x, widths=((0, 0), (1, 0), (2, 3))),
        _sample(m.pad, x, label="value", widths=((1, 1), (0, 0), (0, 0)), value=3.0),
        _sample(m.cat, draw("a", (2, 3)), draw("b", (2, 1)), draw("c", (2, 2)), axis=1),
        _sample(m.cat, draw("a", (2, 3)), np.zeros((0, 3)), label="empty", axis=0),
        _sample(sliding_windows.windows, draw("windows", (2, 9)), size=(3,), stride=(2,), dilation=(1,)),
        _sample(
            sliding_windows.windows, draw("windows", (5, 6)), label="2d", size=(2, 2), stride=(1, 2), dilation=(2, 1)
        ),
        _sample(sliding_windows.fold, draw("fold", (2, 4, 3)), shape=(2, 9), stride=(2,), dilation=(1,)),
        _sample(
            sliding_windows.fold, draw("fold", (3, 3, 2, 2)), label="2d", shape=(5, 6), stride=(1, 2), dilation=(2, 1)
        ),
    ]


def _steps(x: np.ndarray[Any, Any]) -> Any:
    """The way from x (3, 4, 5) to a view of it, (3, 2), through a transpose that no slice can express."""
    view: Any = adjoint.tensor(x)[:, 1:3].transpose(0, 1)[..., 2].transpose(0, 1)
    return view.storage_.steps


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
        _sample(scatter.count_earlier, along),
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
        _sample(indexing.add_slices, draw("a", (4, 3)), draw("b", (2, 3)), np.array([3, 0]), axis=0),
        _sample(indexing.add_slices, draw("a", (3, 4)), draw("b", (3, 3)), np.array([1, 2, 1]), label="1", axis=1),
        _sample(indexing.add_along, draw("a", (3, 4)), draw("b", (3, 2)), np.array([[1, 1], [3, 0], [2, 1]]), axis=1),
        _sample(indexing.add_along, draw("a", (3, 2)), draw("b", (1, 2)), np.array([[1, 2]]), label="first", axis=0),
        _sample(distance._euclidean, draw("a", (4, 3)), draw("b", (2, 3)), by_product=True),
        _sample(distance._euclidean, draw("a", (4, 3)), draw("b", (2, 3)), label="pairs", by_product=False),
        _sample(distance._pdist, draw("points", (4, 3)), p=2.0),
        _sample(distance._pdist, draw("points", (4, 3)), label="cubic", p=3.0),
        _sample(distance._pdist, draw("points", (4, 3)), label="largest", p=np.inf),
        _sample(gamma.polygamma, draw("polygamma", (3, 2), 0.3, 3), n=1),
        _sample(float_functions.logit, draw("logit", (3, 2), 0.1, 0.9), eps=None),
        _sample(float_functions.logit, draw("logit", (3, 2), 0.1, 0.9), label="eps", eps=0.05),
        _sample(float_functions.threshold, draw("threshold", (3, 2)), threshold=0.103, value=1.5),
        _sample(float_functions.nan_to_num, draw("numbers", (3, 2)), nan=None, posinf=None, neginf=None),
        _sample(view_update.put_slice, x, draw("put", (2, 4, 2)), bounds=((0, 3, 2), (0, 4, 1), (1, 3, 1))),
        _sample(view_update.put_view, x, draw("put", (3, 2)), steps=_steps(x)),
        _sample(view_update.replace_content, draw("taken", (2, 3)), draw("content", (2, 3))),
        _sample(view_update.put_slice, x, np.array(0.5), label="0d", bounds=((0, 3, 2), (0, 4, 1), (1, 3, 1))),
        _sample(view_update.put_index, x, draw("put", (2, 4, 5)), np.array([2, 0]), pattern=(0,)),
        _sample(
            view_update.put_index,
            x,
            draw("put", (1, 5)),
            np.array([2, 0]),
            np.array([1, 1]),
            label="two",
            pattern=(0, 1),
        ),
        _sample(select._where, condition, draw("chosen", (2, 3)), draw("other", (2, 3))),
        _sample(select._where_, condition, draw("chosen", (2, 3)), draw("other", (2, 3))),
        _sample(select._where, condition, draw("chosen", (3,)), np.array(0.5), label="broadcast"),
        _sample(indexing._check_range, rows, low=-3, size=3, complaint="{} is out of range", error=IndexError),
        _sample(
            indexing.require, np.array(True), rows, low=-3, size=3, complaint="{} is out of range", error=IndexError
        ),
        _sample(pools.window_argmax, draw("pooled", (2, 6, 5)), **WINDOWS),
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
        _sample(
            conv_transpose._convolution_input,
            draw("g", (2, 4, 5)),
            weight,
            draw("bias", (3,)),
            shape=(2, 3, 7),
            **plain,
        ),
        _sample(convolutions._convolution, x, weight, draw("bias", (4,)), **plain),
        _sample(convolutions._convolution, image, kernel, draw("bias", (6,)), label="grouped", **grouped),
        _sample(contraction.mv, draw("a", (2, 4)), draw("b", (4,))),
        _sample(contraction.dot, draw("a", (4,)), draw("b", (4,))),
        _sample(matmul._addmm, draw("added", (2, 3)), draw("a", (2, 4)), draw("b", (4, 3)), beta=1, alpha=1),
        _sample(
            matmul._addmm, draw("row", (3,)), draw("a", (2, 4)), draw("b", (4, 3)), label="scaled", beta=0.5, alpha=-2.0
        ),
        _sample(matmul._linear, draw("in", (5, 3)), draw("weight", (4, 3)), draw("bias", (4,))),
        _sample(matmul._linear, draw("in", (2, 5, 3)), draw("weight", (4, 3)), draw("bias", (4,)), label="3d"),
        _sample(matmul._linear, draw("in", (5, 3)), draw("weight", (4, 3)), None, label="no-bias"),
        _sample(matmul._linear, draw("in", (3,)), draw("weight", (4, 3)), draw("bias", (4,)), label="1d"),
        _sample(matmul._fold_rows, draw("in", (2, 5, 3)), draw("weight", (3, 4))),
        _sample(activation._gelu, draw("gelu", (3, 4))),
        _sample(activation._gelu_tanh, draw("gelu_tanh", (3, 4))),
        _sample(activation._silu, draw("silu", (3, 4))),
        _sample(activations.leaky_relu, draw("leaky_relu", (3, 4)), negative_slope=0.2),
        _sample(activations.elu, draw("elu", (3, 4)), alpha=0.8, scale=1.5),
        _sample(activations.celu, draw("celu", (3, 4)), alpha=1.5),
        _sample(activations.softplus, draw("softplus", (3, 4)), beta=2.0, threshold=2.0),
        _sample(activations.logsigmoid, draw("logsigmoid", (3, 4))),
        _sample(activations.hardtanh, draw("hardtanh", (3, 4)), low=-1.0, high=1.0),
        _sample(activations.hardsigmoid, draw("hardsigmoid", (3, 4), -6.0, 6.0)),
        _sample(activations.hardswish, draw("hardswish", (3, 4), -6.0, 6.0)),
        _sample(activations.mish, draw("mish", (3, 4))),
        _sample(activations.softshrink, draw("softshrink", (3, 4)), lambd=1 / 3),
        _sample(activations.hardshrink, draw("hardshrink", (3, 4)), lambd=1 / 3),
        _sample(loss_terms.smooth_l1, draw("near", (3, 4)), draw("far", (3, 4), 5.0, 9.0), label="linear", beta=0.5),
        _sample(loss_terms.smooth_l1, draw("near", (3, 4)), draw("far", (3, 4), 5.0, 9.0), beta=20.0),
        _sample(loss_terms.huber, draw("near", (3, 4)), draw("far", (3, 4), 5.0, 9.0), label="linear", delta=0.5),
        _sample(loss_terms.huber, draw("near", (3, 4)), draw("far", (3, 4), 5.0, 9.0), delta=20.0),
        _sample(loss_terms.logit_entropy, draw("logits", (3, 4)), draw("chances", (3, 4), 0.0, 1.0)),
        _sample(loss_terms.square_error, draw("near", (3, 4)), draw("far", (3, 4))),
        *_scaled_sums(),
        _sample(activation._softmax, draw("softmax", (3, 4)), axis=1),
        _sample(activation._softmax, draw("softmax", (3, 4, 2)), label="first", axis=0),
        _sample(activation._log_softmax, draw("log_softmax", (3, 4)), axis=1),
        _sample(activation._log_softmax, draw("log_softmax", (3, 4, 2)), label="first", axis=0),
        _sample(
            recurrent._cell_gates,
            *(draw(f"cell{i}", shape) for i, shape in enumerate([(2, 3), (2, 4), (4, 3), (4, 4), (4,), (4,)])),
        ),
        _sample(logsumexp.logsumexp, draw("logsumexp", (3, 4)), axes=(1,), keepdims=False),
        _sample(logsumexp.logsumexp, draw("logsumexp", (3, 4, 2)), label="first", axes=(0, 2), keepdims=True),
        _sample(
            resampling._resample,
            draw("line", (2, 5, 3)),
            axis=1,
            taps=resampling.Taps([(np.array([0, 1, 1, 4, 3, 3]), None)]),
        ),
        _sample(
            resampling._repeat_taps,
            draw("line", (2, 5, 3)),
            axis=1,
            taps=resampling.Taps([(np.array([0, 1, 1, 3, 3, 3]), None)]),
        ),
        _sample(join._stack, draw("first", (2, 3)), draw("second", (2, 3)), axis=1),
        _sample(gated_activation._gate_half, draw("gated", (3, 4)), axis=1),
        _sample(gated_activation._gate_half, draw("gated", (4, 3)), label="first", axis=0),
        _sample(gated_activation._slope_negative, draw("prelu", (3, 4)), draw("slopes", (1, 4), 0.1, 0.9)),
        _sample(products._cross, draw("vectors", (2, 3)), draw("others", (2, 3)), axis=1),
        _sample(products._cross, draw("vectors", (3, 2)), draw("other", (3, 1)), label="first", axis=0),
        _sample(diag_tril._keep_triangle, draw("square", (2, 3, 4)), lower=True, diagonal=-1),
        _sample(diag_tril._keep_triangle, draw("square", (3, 4)), label="upper", lower=False, diagonal=1),
        _sample(flip_roll._roll, draw("rolled", (3, 4)), shifts=(1, -2), axes=(0, 1)),
        _sample(
            grid_sample._sample_natively,
            draw("images", (1, 2, 3, 4)),
            draw("places", (1, 2, 2, 2), -0.9, 0.9),
            mode="bilinear",
            padding_mode="zeros",
            align_corners=True,
        ),
        _sample(select.clamp_range, draw("limited", (3, 4)), low=-0.5, high=0.75),
        _sample(select.clamp_range, draw("limited", (3, 4)), label="below", low=0, high=None),
        _sample(indexing.take_along, draw("picked", (3, 4)), np.array([0, 3, 1]), axis=1),
        _sample(
            indexing.take_along,
            draw("picked", (2, 3, 4)),
            np.array([[0, 2, 1, 0], [1, 1, 2, 0]]),
            label="middle",
            axis=1,
        ),
        _sample(indexing.lookup_sparse, draw("table", (5, 3)), np.array([[1, 4], [1, 0]]), padding=None),
        _sample(
            sparse_product.sparse_product,
            draw("entries", (4,)),
            draw("dense", (3, 2)),
            np.array([0, 3, 3, 1]),
            np.array([2, 0, 1, 2]),
            height=4,
        ),
        _sample(
            sparse_product.sample_products,
            draw("left", (4, 2)),
            draw("right", (3, 2)),
            np.array([0, 3, 3, 1]),
            np.array([2, 0, 1, 2]),
        ),
        _sample(variance.variance, draw("var", (3, 4)), axes=(1,), keepdims=False, freedom=3.0),
        _sample(variance.deviation, draw("std", (3, 4)), axes=(0, 1), keepdims=True, freedom=12.0),
        _sample(variance.euclidean_norm, draw("norm", (3, 4)), axes=(1,), keepdims=False),
        _sample(variance.unit_vectors, draw("directions", (3, 4)), axis=1, least=1e-12),
        _sample(variance.unit_vectors, draw("directions", (3, 4)), label="short", axis=0, least=100.0),
        _sample(regression.squared_error, draw("squares", (4, 3)), draw("target", (4, 3)), reduction="mean"),
        _sample(regression.squared_error, draw("squares", (5,)), draw("target", (5,)), label="sum", reduction="sum"),
        _sample(classification._mean_nll, draw("logs", (4, 3)), np.array([2, 0, 1, 2]), ignore=-100),
        _sample(classification._mean_nll, draw("logs", (4, 3)), np.array([2, 9, 1, 9]), label="ignored", ignore=9),
        _sample(classification._spread_mean_nll, draw("g", ()), np.array([2, 0, 1, 2]), shape=(4, 3), ignore=-100),
        _sample(
            classification._spread_mean_nll, draw("g", ()), np.array([2, 9, 9]), label="ignored", shape=(3, 3), ignore=9
        ),
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
    f, groups, planes = normalization.standardize, normalization.standardize_groups, draw("planes", (2, 4, 9))
    return [
        _sample(f, x, weight, bias, label="layer", axes=(1, 2), eps=1e-3),
        _sample(f, x, *per_channel, label="batch", axes=(0, 2), eps=1e-3),
        _sample(f, x, None, None, label="plain", axes=(2,), eps=1e-3),
        _sample(groups, planes, draw("scale", (4,)), draw("shift", (4,)), groups=2, eps=1e-3),
        _sample(groups, planes, None, None, label="plain", groups=4, eps=1e-3),
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
        *(
            _sample(f, x)
            for f in (
                inverse_det_solve.inv,
                inverse_det_solve.cofactors,
                inverse_det_solve.det,
                inverse_det_solve.logabsdet,
                inverse_det_solve.sign_of_det,
                inverse_det_solve.slogdet,
            )
        ),
        _sample(inverse_det_solve.singular_at, np.stack([np.eye(3), np.ones((3, 3)), np.zeros((3, 3))])),
        _sample(inverse_det_solve.solve, x, draw("right", (2, 3, 2))),
        _sample(inverse_det_solve.solve, x, draw("shared", (3, 2)), label="broadcast"),
        _sample(triangular.solve_triangular, x, draw("right", (2, 3, 2)), upper=False),
        _sample(triangular.solve_triangular, x, draw("shared", (3, 2)), label="unit", upper=True, unitriangular=True),
        _sample(cholesky_qr.cholesky, definite, smooth=(0,)),
        _sample(cholesky_qr.minor_not_positive, np.stack([definite, definite - 2 * np.eye(3)])),
        _sample(cholesky_qr.qr, tall),
        _sample(cholesky_qr.qr, wide, label="wide", mode="complete"),
        _sample(cholesky_qr.qr, tall, label="r", mode="r", smooth=()),
        _sample(cholesky_qr.geqrf, tall),
        *(_sample(lu.lu, y, label=label) for label, y in {"square": x, "tall": tall, "wide": wide}.items()),
        _sample(lu.permutation_matrix, np.array([[3, 2, 3]]), rows=3, dtype=np.dtype(np.float64)),
        _sample(packed_factors.integers, np.array([[0.5, 2.0, 3.0]]), start=1, stop=3, smooth=()),
        _sample(eig_svd.eigh, definite, smooth=(0,)),
        _sample(eig_svd.eigvalsh, definite, smooth=(0,)),
        _sample(eig_svd.svd, tall, label="tall"),
        _sample(eig_svd.svd, wide, label="wide"),
        _sample(eig_svd.svd, tall, label="full", full=True, smooth=()),
        _sample(eig_svd.svdvals, tall),
        _sample(ldl.ldl, definite),
        _sample(ldl.ldl_solve, x, np.array([[1, 2, 3]] * 2), draw("right", (2, 3, 2)), smooth=(2,)),
        _sample(lstsq.rank, tall, 0.0, 1e-6),
        _sample(lstsq.rank, x, 2.0, 0.1, label="tolerances"),
        _sample(lstsq.pinv, tall, 0.0, 1e-6, label="tall"),
        _sample(lstsq.pinv, wide, 0.05, 0.0, label="wide"),
        _sample(lstsq.lstsq, tall, draw("observed", (2, 4, 2)), rcond=1e-6),
        _sample(matrix_exp.matrix_exp, x * np.array([[[0.01]], [[0.3]]])),
        _sample(matrix_exp.exp_along, x, draw("direction", (2, 3, 3))),
        _sample(matrix_exp.matrix_exp, x[:1] * 2.5, label="large", smooth=()),
        _sample(
            lobpcg.eigenpairs,
            np.diag([9.0, 6.0, 4.0, 2.5, 1.0, 0.5]) + 0.1,
            draw("start", (6, 2)),
            np.eye(6),
            smooth=(0,),
            k=2,
            largest=True,
            niter=200,
            tol=1e-13,
        ),
    ]


def _made() -> list[Sample]:
    drawn = {"shape": (3, 4), "dtype": np.dtype(np.float32), "generator": 7}
    wide = {"shape": (5,), "dtype": np.dtype(np.float64), "generator": 7}
    return [
        _sample(creation.full, shape=(2, 3), value=1.5, dtype=np.dtype(np.float32)),
        _sample(creation.full, label="int", shape=(), value=3, dtype=np.dtype(np.int64)),
        _sample(creation.iota, count=5, start=2, step=3, dtype=np.dtype(np.int64)),
        _sample(creation.iota, label="float", count=4, start=0.5, step=-0.25, dtype=np.dtype(np.float32)),
        *(
            _sample(function, np.array(-1.0), np.array(2.5), label=kind, steps=5, dtype=np.dtype(kind), **params)
            for function, params in ((creation.even_steps, {}), (creation.even_ratios, {"base": 2.0}))
            for kind in ("float32", "int64")
        ),
        _sample(draws.uniform, low=-1.0, high=2.0, **drawn),
        _sample(draws.uniform, label="double", low=-1.0, high=2.0, **wide),
        _sample(draws.normal, mean=1.0, std=2.0, **drawn),
        _sample(draws.normal, label="double", mean=1.0, std=2.0, **wide),
        _sample(draws.exponential, rate=2.0, **drawn),
        _sample(draws.coin, p=0.3, **drawn),
        _sample(draws.dropout_factor, p=0.3, **drawn),
        _sample(draws.randint, low=-2, high=9, **{**drawn, "dtype": np.dtype(np.int64)}),
        _sample(draws.randperm, count=6, dtype=np.dtype(np.int64), generator=7),
        _sample(draws.rrelu_slopes, draw("slopes", (3, 4)), low=0.1, high=0.3, generator=7, smooth=()),
        _sample(draws.bernoulli, draw("p", (3, 4), 0.1, 0.9), dtype=np.dtype(np.float32), generator=7),
        _sample(draws.serial_normal, mean=1.0, std=2.0, **drawn),
        _sample(draws.standard_deviation, draw("spread", (3, 4), 0.1, 2.0), smooth=()),
        _sample(draws.random_integers, low=5, **{**drawn, "dtype": np.dtype(np.int32)}),
        _sample(draws.random_integers, label="fewest words", low=None, **{**drawn, "dtype": np.dtype(np.int64)}),
        _sample(sampling.cauchy, median=1.0, sigma=2.0, **drawn),
        _sample(sampling.log_normal, mean=0.5, std=0.25, **drawn),
        _sample(sampling.geometric, p=0.3, **drawn),
        _sample(sampling.poisson, draw("rates", (3, 4), 0.5, 20.0), generator=7),
        _sample(
            sampling.binomial,
            draw("trials", (3, 4), 5.0, 90.0),
            draw("chances", (4,), 0.1, 0.9),
            generator=7,
            smooth=(),
        ),
        _sample(
            sampling.multinomial,
            draw("likely", (3, 4), 0.1, 0.9),
            count=2,
            replacement=False,
            by_column=False,
            generator=7,
            smooth=(),
        ),
        _sample(sampling.standard_gamma, draw("shapes", (3, 4), 0.2, 9.0), generator=7, smooth=()),
        _sample(
            sampling.standard_gamma_gradient,
            draw("shapes", (3, 4), 0.2, 20.0),
            draw("found", (3, 4), 0.1, 20.0),
            smooth=(),
        ),
        _sample(sampling.dirichlet, draw("concentration", (3, 4), 0.2, 9.0), generator=7, smooth=()),
        _sample(
            sampling.dirichlet_gradient,
            draw("part", (3, 4), 0.01, 0.99),
            draw("own", (3, 4), 0.2, 20.0),
            draw("whole", (3, 4), 21.0, 40.0),
            smooth=(),
        ),
    ]


SAMPLES: list[Sample] = [
    *_unary(), *_binary(), *_reductions(), *_movements(), *_positions(), *_contractions(), *_attention(),
    *_factorisations(), *_made(),
]  # fmt: skip


def _of_complex() -> list[Sample]:
    z, real, parts = (draw(name, (3, 4, 6)) for name in ("of complex", "of real", "parts"))
    z = z + 1j * draw("imaginary", (3, 4, 6))
    transforms = [
        _complex(fft.fft_c2c, z, label=label, axes=axes, inverse=inverse, scale=scale)
        for label, axes, inverse, scale in (("forward", (2,), False, 1.0), ("inverse", (0, 2), True, 0.25))
    ]
    lines = [
        _complex(fft.line_c2c, z, label="forward", axes=(2,), inverse=False, scale=0.5),
        _complex(fft.line_c2c, z, label="inverse", axes=(1,), inverse=True, scale=1.0),
        _complex(fft.line_r2c, real, axes=(1,), scale=0.5),
        _complex(fft.line_c2r, z[..., :4], label="7", axes=(2,), n=7, scale=0.5),
    ]
    return [
        *lines,
        _complex(eig_svd.eig, np.array([[3.0, 1.0, -0.4], [0.5, 2.0, 0.6], [-0.2, 0.3, 1.0]])),
        _complex(of_complex.conj, z), _complex(of_complex.sgn, z), _complex(of_complex.angle, z),
        _complex(arithmetic.abs, z), _complex(of_complex.view_as_real, z),
        _complex(of_complex.view_as_complex, parts[..., :2]), *transforms,
        *(
            _complex(fft.fft_r2c, real[..., :n], label=f"{n}", axes=axes, scale=0.5)
            for n, axes in ((6, (2,)), (5, (0, 2)))
        ),
        *(
            _complex(fft.fft_c2r, z[..., :4], label=f"{n}", axes=axes, n=n, scale=0.5)
            for n, axes in ((6, (2,)), (7, (0, 2)))
        ),
    ]  # fmt: skip


def _complex(function: Any, *inputs: Any, label: str = "", **params: Any) -> Sample:
    return _sample(function, *inputs, label=label, smooth=range(len(inputs)), **params)


COMPLEX: list[Sample] = _of_complex()  # of complex numbers, or giving them: tests/ops/test_every_complex_op.py


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
