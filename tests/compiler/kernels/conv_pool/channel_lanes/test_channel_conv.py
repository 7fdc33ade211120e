"""Convolutions of small images with lanes along the result's channels: NumPy's numbers, for any geometry."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite")

from tests.support.kernels.single import equation
from tests.support.kernels.windowed import NARROW, check

from adjoint.compiler.kernels.conv_pool.channel_lanes import channel_conv_plan
from adjoint.compiler.kernels.conv_pool.channel_lanes.channel_conv_plan import ChannelConvolutionPlan
from adjoint.compiler.kernels.conv_pool.windowed_op import plan_windowed_op
from adjoint.compiler.llvm.jit.target import Target, host
from adjoint.ops.nn.convolution import convolution, convolution_input

Shape = tuple[int, ...]

# x, weight, stride, padding, dilation
LAYERS: dict[str, tuple[Shape, Shape, Shape, Shape, Shape]] = {
    "halving": ((9, 48, 4, 4), (40, 48, 4, 4), (2, 2), (1, 1), (1, 1)),
    "one place": ((7, 32, 4, 4), (48, 32, 4, 4), (2, 2), (0, 0), (1, 1)),
    "unused edge": ((3, 32, 5, 5), (64, 32, 4, 4), (2, 2), (0, 0), (1, 1)),
    "odd": ((3, 32, 9, 7), (64, 32, 3, 3), (2, 2), (1, 1), (1, 1)),
    "tall": ((2, 20, 6, 5), (70, 20, 5, 2), (1, 1), (2, 1), (1, 1)),
    "skipping": ((2, 32, 7, 7), (33, 32, 2, 2), (3, 3), (0, 1), (1, 1)),
    "dilated": ((3, 16, 6, 6), (80, 16, 3, 3), (1, 2), (2, 2), (2, 1)),
    "not all lanes": ((2, 19, 4, 3), (35, 19, 2, 3), (1, 1), (1, 1), (1, 1)),
    "line": ((4, 32, 13), (48, 32, 5), (1,), (2,), (1,)),
    "dilated line": ((5, 32, 12), (32, 32, 3), (1,), (4,), (4,)),
}


@pytest.fixture(autouse=True)
def _always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take these kernels whether or not another takes less time."""
    monkeypatch.setattr(channel_conv_plan, "MAX_TIME", 1e9)


@pytest.mark.sweep(3)  # each layer and type in one of the ways
@pytest.mark.parametrize(
    ("target", "flat"),
    [(None, True), (None, False), (NARROW, True)],
    ids=["host", "apart", "narrow"],
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64], ids=["f4", "f8"])
@pytest.mark.parametrize("layer", LAYERS.values(), ids=LAYERS)
def test_layers(layer: Any, dtype: Any, target: Target | None, flat: bool) -> None:
    shape, weights, stride, padding, dilation = layer
    settings: Any = {"stride": stride, "padding": padding, "dilation": dilation, "groups": 1}
    numbers = np.random.default_rng(0)
    x, weight = numbers.normal(size=shape).astype(dtype), numbers.normal(size=weights).astype(dtype)
    g = numbers.normal(size=convolution.op.evaluate(x, weight, **settings).shape).astype(dtype)
    forward = check(convolution, x, weight, target=target, flat=flat, **settings)
    back = check(convolution_input, g, weight, shape=shape, target=target, flat=flat, **settings)
    assert [type(made.plan) for made in (forward, back)] == [ChannelConvolutionPlan] * 2


def plan_of(shape: Shape, weights: Shape, **settings: Any) -> Any:
    params: Any = {"stride": (1, 1), "padding": (0, 0), "dilation": (1, 1), "groups": 1, **settings}
    value, _, _ = equation(convolution, np.zeros(shape, "f4"), np.zeros(weights, "f4"), **params)
    made = plan_windowed_op(value, host())
    assert made is not None
    return made.plan


def test_neighbouring_taps_are_one_run_where_channels_fill_registers() -> None:
    runs = plan_of((4, 32, 9, 9), (64, 32, 5, 3), padding=(2, 1), stride=(2, 1)).phases[0]
    assert (len(runs.runs), runs.run) == (5, 3)
    apart = plan_of((4, 20, 9, 9), (64, 20, 5, 3), padding=(2, 1), stride=(2, 1)).phases[0]
    assert apart.run == 1


@pytest.mark.skipif(host().vector_bits < 512, reason="what takes less time is another machine's")
def test_small_images_go_by_channels_and_large_ones_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    small = plan_of((16, 64, 4, 4), (64, 64, 4, 4), stride=(2, 2), padding=(1, 1))
    assert isinstance(small, ChannelConvolutionPlan)
    assert small.group * len(small.phases[0].places) >= small.rows
    for other in (
        plan_of((16, 16, 32, 32), (32, 16, 5, 5), padding=(2, 2)),
        plan_of((16, 64, 16, 16), (4, 64, 4, 4), stride=(2, 2), padding=(1, 1)),
        plan_of((16, 64, 4, 4), (64, 32, 4, 4), stride=(2, 2), padding=(1, 1), groups=2),
    ):
        assert not isinstance(other, ChannelConvolutionPlan)
