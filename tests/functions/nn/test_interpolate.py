"""Images at other sizes, against PyTorch: interpolation, averages over parts, shuffled channels."""

import numpy as np
import pytest
from tests.support.oracle import same

import adjoint as ad
import adjoint.nn.functional as F
from adjoint import full, ones

RNG = np.random.default_rng(2)
LINE, IMAGE, VOLUME = RNG.normal(size=(3, 4, 6)), RNG.normal(size=(2, 4, 5, 6)), RNG.normal(size=(2, 2, 3, 4, 5))
BY_RANK = {1: LINE, 2: IMAGE, 3: VOLUME}
MODES = [
    ("nearest", 1), ("nearest", 2), ("nearest", 3), ("nearest-exact", 2), ("linear", 1), ("bilinear", 2),
    ("trilinear", 3), ("bicubic", 2), ("area", 1), ("area", 2), ("area", 3),
]  # fmt: skip
HOW = [
    "size=(3, 4, 5)", "size=(9, 10, 11)", "size=1", "size=5", "scale_factor=2", "scale_factor=1.7", "scale_factor=0.6",
    "scale_factor=(1.5, 2.5, 0.7)", "scale_factor=0.6, recompute_scale_factor=True",
]  # fmt: skip


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize(("mode", "rank"), MODES)
def test_interpolate(mode: str, rank: int, how: str) -> None:
    if "(" in how:
        what, _, numbers = how.partition("=")
        how = f"{what}={numbers}[:{rank}]"
    for corners in (None, True, False) if "near" not in mode and mode != "area" else (None,):
        for dtype in (np.float32, np.float64):
            same(
                f"t.nn.functional.interpolate(x, {how}, mode={mode!r}, align_corners={corners})",
                x=BY_RANK[rank].astype(dtype), factor=20,
            )  # fmt: skip


@pytest.mark.parametrize("kind", ["int16", "int64", "bool", "complex64"])
@pytest.mark.parametrize("mode", ["nearest", "nearest-exact", "bilinear", "bicubic"])
def test_other_integers_are_not_interpolated(mode: str, kind: str) -> None:
    with pytest.raises(NotImplementedError, match="not implemented for"):
        F.interpolate(ones(1, 1, 2, 2).to(getattr(ad, kind)), 3, mode=mode)


@pytest.mark.parametrize("call", [
    "adaptive_avg_pool1d(x, 3)", "adaptive_avg_pool1d(x, 4)", "adaptive_avg_pool1d(x, 6)", "adaptive_avg_pool1d(x, 9)",
    "adaptive_avg_pool1d(x[0], [2])", "adaptive_avg_pool1d(x[0, 0], 2)",
])  # fmt: skip
def test_averages_over_parts_of_a_line(call: str) -> None:
    same(f"t.nn.functional.{call}", x=LINE)


def test_no_parts() -> None:
    same("t.nn.functional.adaptive_avg_pool1d(x, 0)", x=LINE, gradient=False)


@pytest.mark.parametrize("size", ["(2, 3)", "(3, None)", "4", "7", "1"])
def test_averages_over_parts_of_an_image(size: str) -> None:
    same(f"t.nn.functional.adaptive_avg_pool2d(x, {size})", x=IMAGE)
    same(f"t.nn.functional.adaptive_avg_pool2d(x, {size})", x=IMAGE[0])


@pytest.mark.parametrize("size", ["2", "(1, 3, 2)"])
def test_averages_over_parts_of_a_volume(size: str) -> None:
    same(f"t.nn.functional.adaptive_avg_pool3d(x, {size})", x=VOLUME)


@pytest.mark.parametrize("call", [
    "pixel_shuffle(x, 2)", "pixel_shuffle(x[0], 2)", "pixel_shuffle(x, 3)", "pixel_shuffle(x[0, 0], 2)",
    "pixel_shuffle(x, 0)", "pixel_unshuffle(x[:, :, :3], 3)", "pixel_unshuffle(x, 2)", "pixel_unshuffle(x[0], 1)",
    "pixel_unshuffle(x.mT, 2)", "pixel_unshuffle(x, -1)",
])  # fmt: skip
def test_channels_for_places(call: str) -> None:
    same(f"t.nn.functional.{call}", x=IMAGE)


@pytest.mark.parametrize("call", [
    "interpolate(x)", "interpolate(x, 2, 2)", "interpolate(x, 2, align_corners=True)", "interpolate(x, (2, 3, 4))",
    "interpolate(x, scale_factor=(2, 3, 4))", "interpolate(x, 2, recompute_scale_factor=True)",
    "interpolate(x, 2, mode='linear')", "interpolate(x, 2, mode='trilinear')", "interpolate(x[0, 0], 2)",
    "interpolate(x, 0)", "interpolate(x, 3, mode='fine')",
])  # fmt: skip
def test_errors_are_of_pytorchs_class(call: str) -> None:
    same(f"t.nn.functional.{call}", x=IMAGE)


def test_antialias_is_for_images_and_kernels_that_widen() -> None:
    for image, mode in ((ones(1, 1, 4), "linear"), (ones(1, 1, 4, 4), "nearest")):
        with pytest.raises(ValueError, match="Anti-alias option is restricted"):
            F.interpolate(image, 2, mode=mode, antialias=True)
    with pytest.raises(ValueError, match="Lanczos mode requires antialias"):
        F.interpolate(ones(1, 1, 4, 4), 2, mode="lanczos")


@pytest.mark.parametrize("how", ["size=(3, 4)", "size=(9, 3)", "size=1", "scale_factor=2", "scale_factor=(0.6, 1.7)"])
@pytest.mark.parametrize("mode", ["bilinear", "bicubic", "lanczos"])
def test_antialias(mode: str, how: str) -> None:
    for corners in (None, True):
        for dtype in (np.float32, np.float64):
            same(
                f"t.nn.functional.interpolate(x, {how}, mode={mode!r}, align_corners={corners}, antialias=True)",
                x=IMAGE.astype(dtype), factor=20,
            )  # fmt: skip


@pytest.mark.parametrize("mode", ["bilinear", "bicubic", "lanczos"])
def test_a_plain_image_stays_plain(mode: str) -> None:
    small = F.interpolate(full((1, 2, 12, 7), 3.0), (5, 9), mode=mode, antialias=True)
    assert small.shape == (1, 2, 5, 9)
    np.testing.assert_allclose(small.numpy(), 3.0, rtol=1e-6)


def test_sizes_are_as_many_as_dimensions() -> None:
    with pytest.raises(RuntimeError, match="output_size must have 2 numbers, not 3"):
        F.adaptive_avg_pool2d(ones(1, 1, 4, 4), (1, 2, 3))


def test_sizes_may_be_tensors() -> None:
    x = np.random.default_rng(0).standard_normal((1, 2, 5, 6)).astype(np.float32)
    torch = pytest.importorskip("torch")
    found, wanted = (
        t.nn.functional.interpolate(t.tensor(x), size=[t.tensor([7], dtype=t.int32), t.tensor(3)]) for t in (ad, torch)
    )
    assert np.array_equal(found.numpy(), wanted.numpy())


@pytest.mark.parametrize("mode", ["nearest", "bilinear", "bicubic"])
def test_weights_are_made_once_for_sizes_and_types(mode: str) -> None:
    image = ad.arange(48.0).reshape(1, 1, 6, 8).requires_grad_()
    double = image.detach().double().requires_grad_()
    for _ in range(2):
        for x in (image, double):
            x.grad = None
            F.interpolate(x, scale_factor=0.5, mode=mode).square().sum().backward()
    assert image.grad is not None
    assert double.grad is not None
    assert (image.grad.dtype, double.grad.dtype) == (ad.float32, ad.float64)
    np.testing.assert_allclose(image.grad.numpy(), double.grad.numpy(), rtol=1e-5, atol=1e-4)
