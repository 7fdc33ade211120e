"""Convolution, padding and unfold against PyTorch: values, gradients, errors; fused equals composed."""

from typing import Any

import numpy as np
import pytest
from tests.support.oracle import same, same_error, tensor, weights
from tests.support.second_gradients import same_second_gradients

import adjoint as ad
from adjoint.functions.nn import conv_transpose, convolution
from adjoint.nn import functional as F

RNG = np.random.default_rng(2)


def normal(*shape: int, dtype: Any = np.float64) -> Any:
    return RNG.normal(size=shape).astype(dtype)


SETTINGS = [
    "", "stride=2", "padding=1", "dilation=2", "stride=2, padding=2", "stride=3, padding=1, dilation=2",
    "padding='same'", "padding='valid'", "padding='same', dilation=2", "stride=(2,), padding=(1,)",
]  # fmt: skip


@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_settings(rank: int, settings: str) -> None:
    x, w, b = normal(2, 2, *(7, 6, 5)[:rank]), normal(3, 2, *(3, 2, 2)[:rank]), normal(3)
    if "(" in settings:
        settings = settings.replace("(2,)", str((2, 1, 3)[:rank])).replace("(1,)", str((1, 0, 1)[:rank]))
    same(f"t.nn.functional.conv{rank}d(x, w, b, {settings})", x=x, w=w, b=b, factor=10)
    same(f"t.nn.functional.conv{rank}d(x, w, None, {settings})", x=x, w=w, factor=10)
    same(f"t.nn.functional.conv{rank}d(x, w, b, {settings})", x=x[0], w=w, b=b, factor=10)


@pytest.mark.parametrize("groups", [1, 2, 4])
def test_groups(groups: int) -> None:
    x, w, b = normal(2, 4, 6, 5), normal(8, 4 // groups, 3, 3), normal(8)
    same(f"t.nn.functional.conv2d(x, w, b, 1, 1, 1, {groups})", x=x, w=w, b=b, factor=10)
    x, w = normal(2, 4, 9), normal(4, 4 // groups, 2)
    same(f"t.nn.functional.conv1d(x, w, None, stride=2, groups={groups})", x=x, w=w, factor=10)


def test_sizes() -> None:
    one = np.float32
    same(
        "t.nn.functional.conv2d(x, w, b)", x=normal(1, 1, 1, 1, dtype=one), w=normal(1, 1, 1, 1, dtype=one),
        b=normal(1, dtype=one),
    )  # fmt: skip
    same("t.nn.functional.conv2d(x, w, padding=1)", x=normal(1, 1, 1, 1), w=normal(2, 1, 3, 3))
    same("t.nn.functional.conv2d(x, w)", x=normal(0, 2, 4, 4), w=normal(3, 2, 3, 3), gradient=False)
    same("t.nn.functional.conv2d(x, w)", x=normal(8, 3, 12, 12, dtype=one), w=normal(16, 3, 5, 5, dtype=one), factor=20)


def test_types_are_to_be_the_same() -> None:
    x, w, b = ad.ones(1, 1, 6), ad.ones(1, 1, 3), ad.ones(1).double()
    with pytest.raises(RuntimeError, match=r"and bias type .* should be the same: .* Float but found Double"):
        ad.nn.functional.conv1d(x, w, b)
    with pytest.raises(RuntimeError, match=r"and weight type .* should be the same: .* Long but found Float"):
        ad.nn.functional.conv_transpose1d(x.long(), w)


def test_errors() -> None:
    x, w, b = normal(2, 3, 5, 5), normal(4, 3, 3, 3), normal(4)
    head = "Given groups=1, weight of size [4, 3, 3, 3], expected input[2, 2, 5, 5] to have 3 channels, but got 2"
    same_error("t.nn.functional.conv2d(x, w)", head, x=normal(2, 2, 5, 5), w=w)
    same_error(
        "t.nn.functional.conv2d(x, w)", "Expected 3D (unbatched) or 4D (batched) input to conv2d", x=normal(5, 5), w=w
    )
    same_error(
        "t.nn.functional.conv2d(x, w)", "Kernel size can't be greater than actual input size", x=x, w=normal(4, 3, 7, 7)
    )
    head = "padding='same' is not supported for strided convolutions"
    same_error("t.nn.functional.conv2d(x, w, stride=2, padding='same')", head, x=x, w=w)
    same_error("t.nn.functional.conv2d(x, w, padding='full')", "nvalid padding string", x=x, w=w)
    for call in (
        "x, w, v",
        "x, w.float()",
        "x, w, b, groups=0",
        "x, w, b, 0",
        "x, w, b, 1, -1",
        "x, w, b, dilation=0",
        "x, w, b, (1, 1, 1)",
    ):
        same(f"t.nn.functional.conv2d({call})", x=x, w=w, b=b, v=normal(3))


def test_second_derivatives() -> None:
    call = "t.nn.functional.conv2d(x, w, b, (2, 1), (1, 2), (1, 2), 2).square()"
    same_second_gradients(call, 100, x=normal(2, 4, 7, 6), w=normal(6, 2, 3, 2), b=normal(6))


@pytest.mark.parametrize("groups", [1, 2])
def test_fused_equals_composite(groups: int) -> None:
    op: Any = convolution._convolution
    settings = {"stride": (2, 1), "padding": (1, 0), "dilation": (1, 2), "groups": groups}
    arrays = [normal(2, 4, 7, 6), normal(6, 4 // groups, 3, 2), normal(6)]
    results = []
    for form in (op, op.op.composite):
        x, w, b = (tensor(ad, value) for value in arrays)
        out = form(x, w, b, **settings)
        out.backward(ad.tensor(weights(out.shape)))
        results.append([part.detach().numpy() for part in (out, x.grad, w.grad, b.grad)])
    for fused, composed in zip(*results, strict=True):
        np.testing.assert_allclose(fused, composed, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("groups", [1, 2])
def test_fused_transposed_equals_composite(groups: int) -> None:
    op: Any = conv_transpose._convolution_input
    settings = {"stride": (2, 1), "padding": (1, 0), "dilation": (1, 2), "groups": groups}
    arrays = [normal(2, 6, 4, 4), normal(6, 4 // groups, 3, 2), normal(4)]
    results = []
    for form in (op, op.op.composite):
        g, w, b = (tensor(ad, value) for value in arrays)
        out = form(g, w, b, shape=(2, 4, 8, 6), **settings)
        out.backward(ad.tensor(weights(out.shape)))
        results.append([part.detach().numpy() for part in (out, g.grad, w.grad, b.grad)])
    for fused, composed in zip(*results, strict=True):
        np.testing.assert_allclose(fused, composed, rtol=1e-12, atol=1e-12)


PADS = [(1, 2), (0, 0), (2, 1, 0, 3), (1, 1, 1, 1, 1, 1), (-1, 2), (-1, -2, 1, -1), ()]


@pytest.mark.parametrize("widths", PADS)
@pytest.mark.parametrize("value", ["None", "0.0", "-1.5"])
def test_pad(widths: Any, value: str) -> None:
    same(f"t.nn.functional.pad(x, {widths}, 'constant', {value})", x=normal(2, 3, 4, 5))
    same(f"t.nn.functional.pad(x, {widths})", x=np.arange(120).reshape(2, 3, 4, 5))


def test_pad_errors() -> None:
    for widths in ((1,), (1, 1, 1, 1, 1, 1)):
        same(f"t.nn.functional.pad(x, {widths})", x=normal(2, 3))
    with pytest.raises(RuntimeError, match="Padding size should be less than the corresponding input dimension"):
        ad.nn.functional.pad(ad.zeros(2, 3, 4), (4, 1), mode="reflect")


@pytest.mark.parametrize(
    "settings", ["2", "(3, 2)", "2, stride=2", "3, padding=1", "2, dilation=2", "(2, 3), (2, 1), (1, 0), (2, 2)"]
)
def test_unfold(settings: str) -> None:
    same(f"t.nn.functional.unfold(x, {settings})", x=normal(2, 3, 6, 5))
    same(f"t.nn.functional.unfold(x, {settings})", x=normal(3, 6, 5))


@pytest.mark.parametrize("settings", [{}, {"stride": (2, 1)}, {"stride": [2, 1]}, {"padding": 1, "dilation": (1, 2)}])
def test_settings_that_are_known_to_fit_give_what_others_give(settings: dict[str, Any]) -> None:
    x, weight, bias = ad.rand(1, 4, 6, 7), ad.rand(6, 2, 3, 2), ad.rand(6)
    both = ad.cat([x, x])
    expected = F.conv2d(both, weight, bias, groups=2, **settings)[:1]
    for _ in range(2):
        ad.testing.assert_close(F.conv2d(x, weight, bias, groups=2, **settings), expected)
    with pytest.raises(RuntimeError, match="bias has shape"):
        F.conv2d(x, weight, ad.rand(4), groups=2, **settings)
    with pytest.raises(RuntimeError, match="Kernel size"):
        F.conv2d(x[:, :, :1, :1], weight, bias, groups=2, stride=1)
