"""Direct convolution kernels in three directions: NumPy's numbers, for any geometry, on any target."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite")

from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.support.kernels.single import equation
from tests.support.kernels.windowed import NARROW, check, text_of

from adjoint.compiler.ir.graph import Value
from adjoint.compiler.kernels.conv_pool.conv_plan import ConvolutionPlan
from adjoint.compiler.kernels.conv_pool.conv_weight_plan import ConvolutionWeightPlan
from adjoint.compiler.kernels.conv_pool.windowed_op import plan_windowed_op
from adjoint.compiler.llvm.jit.target import Target, host
from adjoint.compiler.llvm.types import F32, F64
from adjoint.core.op.spec import Spec
from adjoint.ops.nn.convolution import convolution, convolution_input, convolution_weight
from adjoint.ops.reduction.reduction import sum

Shape = tuple[int, ...]

# x, weight, stride, padding, dilation, groups
LAYERS: dict[str, tuple[Shape, Shape, Shape, Shape, Shape, int]] = {
    "first": ((3, 1, 28, 28), (16, 1, 5, 5), (1, 1), (0, 0), (1, 1), 1),
    "inside": ((2, 16, 12, 12), (32, 16, 3, 3), (1, 1), (0, 0), (1, 1), 1),
    "same": ((2, 16, 14, 14), (20, 16, 3, 3), (1, 1), (1, 1), (1, 1), 1),
    "wide": ((2, 3, 32, 32), (16, 3, 3, 3), (1, 1), (1, 1), (1, 1), 1),
    "halving": ((2, 8, 16, 16), (12, 8, 3, 3), (2, 2), (1, 1), (1, 1), 1),
    "shortcut": ((2, 8, 16, 16), (12, 8, 1, 1), (2, 2), (0, 0), (1, 1), 1),
    "pointwise": ((2, 7, 5, 9), (11, 7, 1, 1), (1, 1), (0, 0), (1, 1), 1),
    "whole": ((9, 6, 5, 5), (10, 6, 5, 5), (1, 1), (0, 0), (1, 1), 1),
    "depthwise": ((3, 9, 16, 16), (9, 1, 3, 3), (1, 1), (1, 1), (1, 1), 9),
    "multiplier": ((2, 5, 9, 20), (15, 1, 3, 3), (2, 1), (1, 2), (1, 1), 5),
    "grouped": ((2, 6, 9, 13), (9, 2, 3, 2), (2, 3), (1, 1), (2, 1), 3),
    "sparse": ((2, 4, 19, 23), (5, 4, 3, 3), (1, 2), (3, 4), (4, 3), 1),
    "skipping": ((2, 3, 11, 12), (4, 3, 2, 2), (3, 4), (0, 1), (1, 1), 1),
    "skipping a long way": ((2, 2, 13, 150), (4, 2, 5, 6), (4, 3), (2, 1), (1, 1), 1),
    "patches": ((2, 3, 12, 140), (5, 3, 4, 4), (4, 4), (0, 0), (1, 1), 1),
    "overhanging": ((2, 2, 4, 3), (3, 2, 2, 3), (1, 1), (4, 5), (1, 1), 1),
    "tall": ((1, 2, 70, 21), (3, 2, 7, 7), (2, 2), (3, 3), (1, 1), 1),
    "long": ((2, 3, 100), (5, 3, 9), (1,), (4,), (1,), 1),
    "line": ((3, 6, 33), (9, 2, 3), (2,), (1,), (2,), 3),
    "volume": ((2, 3, 7, 9, 10), (5, 3, 3, 3, 3), (1, 1, 1), (1, 1, 1), (1, 1, 1), 1),
    "halving volume": ((2, 3, 8, 7, 12), (5, 3, 3, 3, 3), (2, 2, 2), (1, 1, 1), (1, 1, 1), 1),
    "depthwise volume": ((2, 5, 6, 5, 9), (10, 1, 3, 3, 3), (1, 1, 1), (1, 1, 1), (1, 1, 1), 5),
    "skipping volume": ((2, 4, 9, 5, 11), (6, 2, 2, 1, 3), (3, 1, 2), (0, 1, 2), (2, 1, 2), 2),
    "film": ((2, 4, 6, 8, 9), (3, 4, 1, 3, 3), (1, 1, 1), (0, 1, 1), (1, 1, 1), 1),
    "time": ((2, 4, 6, 5, 3), (3, 4, 3, 1, 1), (1, 1, 1), (1, 0, 0), (1, 1, 1), 1),
    "voxels": ((2, 4, 3, 5, 3), (6, 2, 1, 1, 1), (1, 1, 1), (0, 0, 0), (1, 1, 1), 2),
    "doubling": ((2, 4, 6, 4, 8), (6, 4, 2, 2, 2), (2, 2, 2), (0, 0, 0), (1, 1, 1), 1),
    "point": ((1, 1, 1, 1), (1, 1, 1, 1), (1, 1), (0, 0), (1, 1), 1),
}
layers = pytest.mark.parametrize("layer", LAYERS.values(), ids=LAYERS)
dtypes = pytest.mark.parametrize("dtype", [np.float32, np.float64], ids=["f4", "f8"])
narrow = pytest.mark.skipif(host().vector_bits < 512, reason="this machine is narrow itself")


def normal(shape: Shape, dtype: Any, seed: int) -> Any:
    return np.random.default_rng(seed).normal(size=shape).astype(dtype)


def three_directions(layer: Any, dtype: Any, target: Target | None = None, flat: bool = True) -> None:
    shape, weights, stride, padding, dilation, groups = layer
    settings: Any = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    x, weight = normal(shape, dtype, 0), normal(weights, dtype, 1)
    g = normal(convolution.op.evaluate(x, weight, **settings).shape, dtype, 2)
    check(convolution, x, weight, target=target, flat=flat, **settings)
    check(convolution_input, g, weight, shape=shape, target=target, flat=flat, **settings)
    check(convolution_weight, x, g, shape=weights, target=target, flat=flat, **settings)


@pytest.mark.sweep(2)
@layers
@dtypes
def test_layers(layer: Any, dtype: Any) -> None:
    three_directions(layer, dtype)


@pytest.mark.sweep(2)
@layers
def test_layers_with_their_dimensions_apart(layer: Any) -> None:
    three_directions(layer, np.float32, flat=False)


@pytest.mark.sweep(2)
@narrow
@layers
def test_layers_on_a_narrow_machine(layer: Any) -> None:
    assert NARROW.vector_bits < host().vector_bits
    three_directions(layer, np.float32, NARROW)


MANY_CHANNELS: dict[str, tuple[Shape, Shape, Shape, Shape, Shape, int]] = {
    "same": ((3, 32, 7, 9), (64, 32, 3, 8), (1, 1), (2, 7), (2, 2), 1),
    "halving": ((2, 16, 10, 8), (96, 16, 3, 3), (2, 2), (1, 1), (1, 1), 1),
    "transposed": ((9, 48, 4, 4), (40, 48, 4, 4), (2, 2), (1, 1), (1, 1), 1),
    "pointwise": ((4, 48, 5, 6), (70, 48, 1, 1), (1, 1), (0, 0), (1, 1), 1),
    "not all lanes": ((2, 15, 6, 5), (64, 15, 3, 8), (1, 1), (2, 4), (1, 1), 1),
    "in part a second register": ((2, 30, 6, 5), (64, 30, 3, 2), (1, 1), (0, 0), (1, 1), 1),
    "few places": ((1, 16, 2, 2), (64, 16, 2, 2), (1, 1), (0, 0), (1, 1), 1),
    "grouped": ((3, 64, 6, 7), (128, 32, 3, 2), (1, 2), (1, 1), (2, 1), 2),
    "volume": ((2, 16, 4, 5, 6), (64, 16, 3, 3, 3), (1, 1, 1), (1, 1, 1), (1, 1, 1), 1),
    "long": ((2, 32, 50), (64, 32, 9), (1,), (4,), (1,), 1),
}
targets = pytest.mark.parametrize("target", [None, pytest.param(NARROW, marks=narrow)], ids=["host", "narrow"])


@pytest.mark.sweep(4)
@pytest.mark.parametrize("layer", MANY_CHANNELS.values(), ids=MANY_CHANNELS)
@dtypes
@targets
def test_gradients_of_weights_with_lanes_along_channels(layer: Any, dtype: Any, target: Target | None) -> None:
    shape, weights, stride, padding, dilation, groups = layer
    settings: Any = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    x, weight = normal(shape, dtype, 0), normal(weights, dtype, 1)
    g = normal(convolution.op.evaluate(x, weight, **settings).shape, dtype, 2)
    made = check(convolution_weight, x, g, shape=weights, target=target, **settings)
    assert isinstance(made.plan, ConvolutionWeightPlan)
    assert made.plan.by_channel
    one = check(convolution_weight, x[:1], g[:1], shape=weights, target=target, **settings)
    assert isinstance(one.plan, ConvolutionWeightPlan)
    assert one.plan.by_channel, "how many images there are has no part in it"


sizes = {1: st.integers(1, 30), 2: st.integers(1, 20), 3: st.integers(1, 9)}
few = st.integers(1, 3)


@given(data=st.data())
@settings(max_examples=15, deadline=None)
def test_any_geometry(data: Any) -> None:
    rank = data.draw(st.integers(1, 3))
    groups, batch, inward, outward = (data.draw(few) for _ in range(4))
    spatial, taps, stride, dilation = (tuple(data.draw(s) for _ in range(rank)) for s in (sizes[rank], few, few, few))
    padding = tuple(data.draw(st.integers(0, 4)) for _ in range(rank))
    assume(all(n + 2 * p > d * (k - 1) for n, p, d, k in zip(spatial, padding, dilation, taps, strict=True)))
    layer = (
        (batch, groups * inward, *spatial), (groups * outward, inward, *taps), stride, padding, dilation, groups
    )  # fmt: skip
    three_directions(layer, data.draw(st.sampled_from([np.float32, np.float64])), flat=data.draw(st.booleans()))


def test_few_images_are_split_by_channels_and_large_ones_by_rows() -> None:
    settings: Any = {"stride": (1, 1), "padding": (1, 1), "dilation": (1, 1), "groups": 1}
    apart: Any = {**settings, "dilation": (1, 2)}
    one = check(convolution, normal((1, 32, 32, 32), np.float32, 0), normal((64, 32, 3, 8), np.float32, 1), **apart)
    assert isinstance(one.plan, ConvolutionPlan)
    assert one.plan.chunks > 1
    large = check(convolution, normal((1, 8, 150, 150), np.float32, 0), normal((4, 8, 3, 3), np.float32, 1), **settings)
    assert isinstance(large.plan, ConvolutionPlan)
    assert large.plan.bands[1] > 1
    assert large.tiles == large.plan.chunks * large.plan.bands[1]
    twice: Any = {**settings, "stride": (2, 2)}
    g = normal((1, 8, 110, 110), np.float32, 0)
    back = check(convolution_input, g, normal((8, 4, 3, 3), np.float32, 1), shape=(1, 4, 220, 220), **twice)
    assert isinstance(back.plan, ConvolutionPlan)
    assert back.plan.bands[1] > 1


def test_few_images_of_many_channels_are_framed_few_times() -> None:
    settings: Any = {"stride": (1, 1), "padding": (1, 1), "dilation": (1, 1), "groups": 1}
    for images in (1, 2, 4, 8):
        x, weight = np.zeros((images, 256, 8, 8), "f8"), np.zeros((256, 256, 3, 3), "f8")
        operands = [Value(None, (), {}, Spec(a.shape, a.dtype)) for a in (x, weight)]
        made = plan_windowed_op(Value(convolution.op, tuple(operands), settings, Spec(x.shape, x.dtype)), host())
        assert made is not None
        assert isinstance(made.plan, ConvolutionPlan)
        assert made.plan.bands == (1, 1)
        assert made.plan.chunks * images == 8


def test_large_volumes_are_split_by_slices_and_by_rows_of_one_slice() -> None:
    settings: Any = {"stride": (1, 1, 1), "padding": (1, 1, 1), "dilation": (1, 1, 1), "groups": 1}
    deep = check(convolution, normal((1, 2, 30, 20, 50), "f4", 0), normal((2, 2, 3, 3, 3), "f4", 1), **settings)
    assert isinstance(deep.plan, ConvolutionPlan)
    assert deep.plan.bands[0] > 1
    assert deep.plan.bands[1] == 1
    twice: Any = {**settings, "stride": (2, 2, 1)}
    g = normal((1, 6, 16, 20, 30), "f4", 0)
    back = check(convolution_input, g, normal((6, 1, 3, 3, 3), "f4", 1), shape=(1, 1, 32, 40, 30), **twice)
    assert isinstance(back.plan, ConvolutionPlan)
    assert back.plan.bands[0] > 1
    broad = check(convolution, normal((1, 1, 2, 140, 200), "f4", 0), normal((2, 1, 3, 3, 3), "f4", 1), **settings)
    assert isinstance(broad.plan, ConvolutionPlan)
    assert broad.plan.bands[0] == 2
    assert broad.plan.bands[1] > 1


def test_a_thread_has_scratch_of_its_own() -> None:
    settings: Any = {"stride": (1, 1), "padding": (1, 1), "dilation": (1, 1), "groups": 1}
    value, _, _ = equation(convolution, np.zeros((8, 4, 9, 9), "f4"), np.zeros((4, 4, 3, 3), "f4"), **settings)
    spatial = plan_windowed_op(value, host())
    assert spatial.scratch > 0
    assert spatial.scratch % 64 == 0
    assert f"mul i64 %thread, {spatial.scratch}" in text_of(spatial, F32)


def test_long_windows_without_stride_are_loops() -> None:
    rows: Any = {"stride": (1,), "padding": (150,), "dilation": (1,), "groups": 2}
    x, weight, g = normal((2, 2, 340), "f4", 0), normal((2, 1, 300), "f4", 1), normal((2, 2, 341), "f4", 2)
    line = check(convolution, x, weight, **rows)
    assert text_of(line, F32).count("fma") < 100
    check(convolution_input, g, weight, shape=(2, 2, 340), **rows)
    wide: Any = {"stride": (1, 1), "padding": (10, 9), "dilation": (1, 1), "groups": 1}
    check(convolution, normal((1, 2, 22, 24), "f4", 0), normal((3, 2, 21, 19), "f4", 1), **wide)
    check(
        convolution_input,
        normal((1, 3, 22, 24), "f4", 0),
        normal((3, 2, 21, 19), "f4", 1),
        shape=(1, 2, 22, 24),
        **wide,
    )
    deep: Any = {"stride": (1, 2, 2), "padding": (3, 3, 3), "dilation": (1, 1, 1), "groups": 1}
    x, weight, g = normal((1, 2, 5, 9, 8), "f4", 0), normal((3, 2, 7, 7, 7), "f4", 1), normal((1, 3, 5, 5, 4), "f4", 2)
    check(convolution, x, weight, **deep)
    check(convolution_weight, x, g, shape=weight.shape, **deep)


def test_nan_stays_where_its_window_is() -> None:
    plain: Any = {"stride": (1, 1), "padding": (0, 0), "dilation": (1, 1), "groups": 1}
    x, weight, g = np.ones((1, 1, 20, 20), "f4"), np.ones((1, 1, 3, 3), "f4"), np.ones((2, 1, 18, 18), "f4")
    x[0, 0, 10, 10] = g[0, 0, 17, 17] = np.nan
    check(convolution, x, weight, **plain)
    check(convolution_input, g, weight, shape=(2, 1, 20, 20), **plain)
    # Behind g's last element, under the mask of a register it shares, lies what must not count.
    g[0, 0, 17, 17] = 1
    g[1, 0, 0, 0] = np.nan
    check(convolution_weight, np.ones((2, 1, 20, 20), "f4"), g, shape=(1, 1, 3, 3), **plain)


def test_other_equations_are_left_to_numpy() -> None:
    empty, _, _ = equation(
        convolution, np.ones((0, 1, 3)), np.ones((1, 1, 2)), stride=(1,), padding=(0,), dilation=(1,), groups=1
    )
    total, _, _ = equation(sum, np.ones(3), axes=(0,), keepdims=False)
    assert [plan_windowed_op(value, host()) for value in (empty, total)] == [None] * 2


@pytest.mark.parametrize("triple", ["aarch64-linux-gnu", "x86_64-linux-gnu"])
def test_other_machines(triple: str) -> None:
    target = Target.from_triple(triple)
    settings: Any = {"stride": (2, 2), "padding": (1, 1), "dilation": (1, 1), "groups": 1}
    value, _, _ = equation(convolution, np.zeros((2, 3, 9, 9)), np.zeros((4, 3, 3, 3)), **settings)
    spatial = plan_windowed_op(value, target)
    assert spatial.plan.type == F64
    assert "f" in target.emit_assembly(text_of(spatial, F64))
