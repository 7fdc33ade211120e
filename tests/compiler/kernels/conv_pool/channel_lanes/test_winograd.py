"""Convolutions by squares of 2 by 2 results: NumPy's numbers in three directions, NaN and infinity only where seen."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite")

from tests.support.kernels.single import equation
from tests.support.kernels.windowed import NARROW, check, text_of
from tests.support.symbolic_kernels import SizedKernels

import adjoint as ad
import adjoint.nn.functional as F
from adjoint.compiler.kernels.conv_pool.channel_lanes import winograd_shape
from adjoint.compiler.kernels.conv_pool.channel_lanes.channels_last import TURN
from adjoint.compiler.kernels.conv_pool.channel_lanes.winograd_plan import WinogradPlan
from adjoint.compiler.kernels.conv_pool.channel_lanes.winograd_weight_plan import WinogradWeightPlan
from adjoint.compiler.kernels.conv_pool.windowed_op import plan_windowed_op
from adjoint.compiler.llvm.jit.target import Target, host
from adjoint.compiler.llvm.types import F32
from adjoint.ops.nn.convolution import convolution, convolution_input, convolution_weight

Shape = tuple[int, ...]

# x, weight, padding
LAYERS: dict[str, tuple[Shape, Shape, tuple[int, int]]] = {
    "board": ((5, 48, 9, 9), (48, 48, 3, 3), (1, 1)),
    "few squares": ((3, 64, 3, 3), (64, 64, 3, 3), (1, 1)),
    "less than a register of places": ((4, 32, 3, 4), (48, 32, 3, 3), (1, 1)),
    "not all lanes": ((7, 60, 7, 8), (40, 60, 3, 3), (1, 1)),
    "two chunks": ((2, 32, 6, 5), (80, 32, 3, 3), (1, 1)),
    "inside": ((2, 33, 12, 8), (64, 33, 3, 3), (0, 0)),
    "outside": ((2, 32, 5, 6), (32, 32, 3, 3), (2, 1)),
    "bands": ((2, 64, 36, 52), (64, 64, 3, 3), (1, 1)),
    "parts of the summed channels": ((5, 288, 4, 5), (288, 288, 3, 3), (1, 1)),
    "bands inside": ((1, 64, 34, 40), (32, 64, 3, 3), (0, 0)),
}
layers = pytest.mark.parametrize("layer", LAYERS.values(), ids=LAYERS)
WINDOWS: dict[str, tuple[Shape, Shape, tuple[int, ...]]] = {
    "5 by 5": ((5, 32, 9, 9), (48, 32, 5, 5), (2, 2)),
    "5 by 5, one image at a time": ((3, 32, 14, 15), (64, 32, 5, 5), (2, 2)),
    "7 by 7, not all lanes": ((3, 33, 8, 7), (40, 33, 7, 7), (3, 3)),
    "4 by 4": ((2, 32, 9, 9), (32, 32, 4, 4), (1, 2)),
    "6 by 3": ((2, 32, 9, 9), (32, 32, 6, 3), (0, 2)),
    "a row": ((2, 32, 6, 12), (32, 32, 1, 7), (0, 3)),
    "a row in one row": ((3, 32, 1, 20), (32, 32, 1, 5), (0, 2)),
    "a column": ((2, 32, 12, 6), (80, 32, 7, 1), (3, 0)),
    "5 by 5 in bands": ((2, 64, 36, 40), (32, 64, 5, 5), (2, 2)),
    "one dimension": ((4, 32, 50), (80, 32, 5), (2,)),
    "one dimension of three taps": ((3, 40, 33), (32, 40, 3), (0,)),
}
# x, weight, padding, dilation
DILATED: dict[str, tuple[Shape, Shape, tuple[int, ...], tuple[int, ...]]] = {
    "apart": ((3, 32, 12, 12), (32, 32, 3, 3), (2, 2), (2, 2)),
    "phases of several sizes": ((2, 33, 13, 11), (40, 33, 3, 3), (2, 3), (2, 3)),
    "further than the padding": ((2, 64, 17, 9), (32, 64, 3, 3), (0, 2), (3, 2)),
    "phases of one place": ((2, 32, 5, 6), (80, 32, 3, 3), (6, 6), (6, 6)),
    "along rows alone": ((5, 32, 8, 20), (48, 32, 3, 3), (1, 4), (1, 4)),
    "too large for the cache, in no bands": ((1, 64, 36, 52), (32, 64, 3, 3), (2, 2), (2, 2)),
    "parts of the summed channels": ((3, 288, 6, 5), (288, 288, 3, 3), (2, 2), (2, 2)),
}
DILATED_WINDOWS: dict[str, tuple[Shape, Shape, tuple[int, ...], tuple[int, ...]]] = {
    "5 by 5": ((2, 32, 14, 15), (48, 32, 5, 5), (4, 4), (2, 2)),
    "7 by 3": ((2, 40, 16, 7), (32, 40, 7, 3), (3, 1), (2, 1)),
    "a row": ((2, 32, 6, 30), (32, 32, 1, 3), (0, 5), (7, 5)),
    "one dimension": ((3, 32, 41), (80, 32, 5), (3,), (3,)),
}
FEW_REGISTERS = Target("x86_64-unknown-linux-gnu", "", "+avx2,+fma", "0")  # 16 of 8 numbers
PLAIN: Any = {"stride": (1, 1), "dilation": (1, 1), "groups": 1}


@pytest.fixture
def _always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take squares whether or not another way takes less time."""
    monkeypatch.setattr(winograd_shape, "MAX_TIME", 1e9)
    monkeypatch.setattr(winograd_shape, "MAX_WEIGHT_TIME", 1e9)


def normal(shape: Shape, seed: int) -> Any:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def draw(layer: tuple[Any, ...]) -> tuple[Any, Any, Any, Any]:
    shape, weights, padding, *gaps = layer
    one = (1,) * len(padding)
    settings: Any = {"stride": one, "dilation": gaps[0] if gaps else one, "groups": 1, "padding": padding}
    x, weight = normal(shape, 0), normal(weights, 1)
    return x, weight, normal(convolution.op.evaluate(x, weight, **settings).shape, 2), settings


def check_directions(
    x: Any, weight: Any, g: Any, settings: Any, target: Target | None = None, flat: bool = True
) -> None:
    forward = check(convolution, x, weight, target=target, flat=flat, **settings)
    back = check(convolution_input, g, weight, shape=x.shape, target=target, flat=flat, **settings)
    weights = check(convolution_weight, x, g, shape=weight.shape, target=target, flat=flat, **settings)
    assert [type(made.plan) for made in (forward, back)] == [WinogradPlan] * 2
    assert isinstance(weights.plan, WinogradWeightPlan)


@pytest.mark.usefixtures("_always")
@pytest.mark.sweep(2)
@pytest.mark.parametrize("flat", [True, False], ids=["flat", "apart"])
@layers
def test_layers(layer: Any, flat: bool) -> None:
    check_directions(*draw(layer), flat=flat)


@pytest.mark.usefixtures("_always")
@pytest.mark.skipif(host().vector_bits < 512, reason="this machine is narrow itself")
@layers
def test_layers_on_a_narrow_machine(layer: Any) -> None:
    check_directions(*draw(layer), NARROW)


@pytest.mark.usefixtures("_always")
@pytest.mark.sweep(4)  # each layer in one of the ways
@pytest.mark.parametrize("flat", [True, False], ids=["flat", "apart"])
@pytest.mark.parametrize("target", [None, NARROW], ids=["this machine", "narrow"])
@pytest.mark.parametrize("layer", [*WINDOWS.values(), *DILATED_WINDOWS.values()], ids=[*WINDOWS, *DILATED_WINDOWS])
def test_windows_of_other_sizes(layer: Any, flat: bool, target: Target | None) -> None:
    check_directions(*draw(layer), target, flat)


@pytest.mark.usefixtures("_always")
@pytest.mark.sweep(4)
@pytest.mark.parametrize("flat", [True, False], ids=["flat", "apart"])
@pytest.mark.parametrize("target", [None, NARROW], ids=["this machine", "narrow"])
@pytest.mark.parametrize("layer", DILATED.values(), ids=DILATED)
def test_taps_that_are_apart(layer: Any, flat: bool, target: Target | None) -> None:
    check_directions(*draw(layer), target, flat)


@pytest.mark.parametrize("name", ["board", "bands", "not all lanes", "5 by 5", "phases of several sizes"])
@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.filterwarnings("ignore:invalid value encountered in matmul")
def test_what_is_not_finite_stays_where_its_window_is(name: str, value: float) -> None:
    x, weight, g, settings = draw({**LAYERS, **WINDOWS, **DILATED}[name])
    x[0, 3, 2, 2] = g[1 % len(g), 2, 1, 4] = value
    for op, inputs, shape in (
        (convolution, (x, weight), {}),
        (convolution_input, (g, weight), {"shape": x.shape}),
        (convolution_weight, (x, np.abs(g)), {"shape": weight.shape}),
    ):
        wanted = op.op.evaluate(*inputs, **shape, **settings)
        ours = compiled(op, inputs, {**shape, **settings})
        finite = np.isfinite(wanted)
        assert not finite.all()
        np.testing.assert_array_equal(np.isnan(ours), np.isnan(wanted))
        np.testing.assert_array_equal(ours[np.isinf(wanted)], wanted[np.isinf(wanted)])
        np.testing.assert_allclose(ours[finite], wanted[finite], rtol=1e-4, atol=1e-3)


@pytest.mark.filterwarnings("ignore:.* encountered in matmul")
def test_transforms_that_overflow_where_results_do_not() -> None:
    x, weight, g, settings = draw(LAYERS["board"])
    weight *= 1e-3
    x[0, 3, 2, 2:6] = g[1, 2, 1, 4:8] = [3e38, 1, -3e38, 1]
    check(convolution, x, weight, **settings)
    check(convolution_input, g, weight, shape=x.shape, **settings)
    check(convolution_weight, x, 1e-3 * normal(g.shape, 3), shape=weight.shape, **settings)


def compiled(op: Any, inputs: Any, params: Any) -> Any:
    step = ad.compile(lambda *tensors: op(*tensors, **params))
    return step(*map(ad.from_numpy, inputs)).numpy()


@pytest.mark.parametrize("window", [3, 5, 7])
def test_errors_are_no_larger_than_those_of_sums_in_order(window: int) -> None:
    x, weight, g, settings = draw(((16, 64, 12, 12), (64, 64, window, window), (window // 2, window // 2)))
    for op, inputs, shape in (
        (convolution, (x, weight), {}),
        (convolution_input, (g, weight), {"shape": x.shape}),
        (convolution_weight, (x, g), {"shape": weight.shape}),
    ):
        wide = op.op.evaluate(*(a.astype(np.float64) for a in inputs), **shape, **settings)
        theirs = op.op.evaluate(*inputs, **shape, **settings)
        ours = compiled(op, inputs, {**shape, **settings})
        error = np.sqrt(np.square(ours - wide).mean())
        assert error < 2 * np.sqrt(np.square(theirs - wide).mean()) + 1e-7 * np.abs(wide).max()


def plan_of(op: Any, *shapes: Shape, dtype: str = "f4", **params: Any) -> Any:
    value, _, _ = equation(op, *(np.zeros(shape, dtype) for shape in shapes), **params)
    made = plan_windowed_op(value, host())
    assert made is not None
    return made.plan


@pytest.mark.skipif(host().vector_bits < 512, reason="what takes less time is another machine's")
def test_squares_are_taken_where_they_take_less_time() -> None:
    same: Any = {**PLAIN, "padding": (1, 1)}
    assert isinstance(plan_of(convolution, (8, 32, 14, 14), (32, 32, 3, 3), **same), WinogradPlan)
    wide = {**same, "padding": (2, 2)}
    assert isinstance(plan_of(convolution, (8, 32, 14, 14), (32, 32, 5, 5), **wide), WinogradPlan)
    both = (8, 32, 14, 14), (8, 32, 14, 14)
    assert isinstance(plan_of(convolution_weight, *both, shape=(32, 32, 5, 5), **wide), WinogradWeightPlan)
    apart = {**wide, "dilation": (2, 2)}
    assert isinstance(plan_of(convolution, (8, 32, 14, 14), (32, 32, 3, 3), **apart), WinogradPlan)
    others = (
        plan_of(convolution, (8, 3, 14, 14), (32, 3, 3, 3), **same),
        plan_of(convolution, (8, 32, 14, 14), (4, 32, 3, 3), **same),
        plan_of(convolution, (8, 32, 1, 14), (32, 32, 3, 3), **same),
        plan_of(convolution, (8, 32, 14, 14), (32, 32, 3, 3), dtype="f8", **same),
        plan_of(convolution, (8, 32, 14, 14), (32, 32, 3, 3), **{**same, "stride": (2, 2)}),
        plan_of(convolution, (8, 64, 14, 14), (64, 32, 3, 3), **{**same, "groups": 2}),
        plan_of(convolution, (8, 32, 15, 600), (32, 32, 3, 3), **{**same, "padding": (1, 0)}),
    )
    assert not any(isinstance(plan, WinogradPlan) for plan in others)


@pytest.mark.usefixtures("_always")
def test_few_images_are_shared_among_tiles() -> None:
    same: Any = {**PLAIN, "padding": (1, 1)}
    one = plan_of(convolution, (1, 64, 48, 48), (64, 64, 3, 3), **same)
    assert one.shape.bands > 1
    assert one.tiles > 2
    weight = plan_of(convolution_weight, (4, 32, 9, 9), (4, 32, 9, 9), shape=(32, 32, 3, 3), **same)
    assert weight.tiles == 2


@pytest.mark.parametrize(("inner", "size", "parts"), [(32, 9, 1), (288, 5, 6)], ids=["one part", "parts"])
def test_any_number_of_images_gives_the_same_bits(inner: int, size: int, parts: int) -> None:
    check_any_number_of_images(inner, size, 3, parts)


def test_any_number_of_images_and_a_window_of_another_size() -> None:
    check_any_number_of_images(32, 9, 5, 1)


def test_any_number_of_images_and_taps_that_are_apart() -> None:
    check_any_number_of_images(32, 16, 3, 1, gap=2)


def check_any_number_of_images(inner: int, size: int, window: int, parts: int, gap: int = 1) -> None:
    padding = window // 2 * gap

    def step(x: Any, w: Any) -> Any:
        x, w = x.requires_grad_(), w.requires_grad_()
        y = F.conv2d(x, w, padding=padding, dilation=gap)
        return (y, *ad.autograd.grad((y * y).sum(), (x, w)))

    weight = normal((48, inner, window, window), 1)
    if host().vector_bits == 512:
        settings: Any = {**PLAIN, "padding": (padding, padding), "dilation": (gap, gap)}
        plan = plan_of(convolution, (4, inner, size, size), weight.shape, **settings)
        assert plan.parts == parts
    general = SizedKernels(step, [normal((4, inner, size, size), 0), weight], [(0,), ()])
    assert general.guards == []
    for images in (2, 3, 16, 37):
        x = normal((images, inner, size, size), 0)
        fixed = SizedKernels(step, [x, weight], [(), ()])
        for ours, theirs in zip(general(x, weight), fixed(x, weight), strict=True):
            np.testing.assert_array_equal(ours, theirs)


@pytest.mark.usefixtures("_always")
@pytest.mark.parametrize("triple", ["aarch64-linux-gnu", "x86_64-linux-gnu"])
def test_other_machines(triple: str) -> None:
    target = Target.from_triple(triple)
    settings: Any = {**PLAIN, "padding": (1, 1)}
    value, _, _ = equation(convolution, np.zeros((2, 64, 9, 9), "f4"), np.zeros((64, 64, 3, 3), "f4"), **settings)
    made = plan_windowed_op(value, target)
    assert made is not None
    assert isinstance(made.plan, WinogradPlan)
    assert TURN in target.emit_assembly(text_of(made, F32))


def test_blocks_of_sums_fit_few_registers_however_wide_a_chunk_is() -> None:
    """A chunk of four registers of channels left room for two rows, whose sums are waited for."""
    x, weight = np.zeros((4, 64, 14, 14), "f4"), np.zeros((64, 64, 3, 3), "f4")
    for value, *_ in (
        equation(convolution, x, weight, padding=(1, 1), **PLAIN),
        equation(convolution_weight, x, x, shape=weight.shape, padding=(1, 1), **PLAIN),
    ):
        found = plan_windowed_op(value, FEW_REGISTERS)
        assert found is not None
        plan = found.plan
        assert isinstance(plan, WinogradPlan | WinogradWeightPlan)
        assert plan.shape.chunks == 1
        assert plan.shape.width == 64
        assert 8 <= plan.rows * plan.vectors <= 13
        assert plan.rows >= 3
