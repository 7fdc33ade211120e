"""Steps over images of any height and width, and lines of any length: two compilations, and eager's numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite")

import adjoint as ad
import adjoint.nn.functional as F
from adjoint import nn, optim

IMAGES = ((9, 8), (12, 15), (3, 40), (33, 18), (16, 16), (7, 7), (40, 31))


def make_step(function: Callable[..., Any], parameters: Sequence[Any] = ()) -> Callable[..., Any]:
    """A step that returns what the function does, and the gradients of the parameters and of a factor of the input."""
    factor = ad.ones(1, requires_grad=True)

    def step(x: Any) -> Any:
        out = function(x * factor)
        loss = (out * out).mean()
        return (out, *ad.autograd.grad(loss, (factor, *parameters)))

    return step


def check(step: Any, shapes: Sequence[tuple[int, ...]], compilations: int = 2, tolerance: float = 3e-6) -> Any:
    """Compare a compiled step with eager calls of it, for images of these shapes."""
    compiled = ad.compile(step)
    for shape in shapes:
        x = ad.randn(*shape)
        for ours, theirs in zip(compiled(x), step(x), strict=True):
            wanted = theirs.detach().numpy()
            atol = tolerance * max(float(np.abs(wanted).max(initial=0)), 1e-3)
            np.testing.assert_allclose(ours.detach().numpy(), wanted, rtol=0, atol=atol, err_msg=str(shape))
    assert compiled.compilations == compilations
    assert "s0" in str(compiled.graph)
    return compiled


FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "nearest": lambda x: F.interpolate(x, scale_factor=2),
    "nearest_by_three": lambda x: F.interpolate(x, scale_factor=3),
    "nearest_of_a_size": lambda x: F.interpolate(F.avg_pool2d(x, 2), size=x.shape[2:]),
    "nearest_exact": lambda x: F.interpolate(x, size=(8, 9), mode="nearest-exact"),
    "bilinear": lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"),
    "bilinear_of_a_size": lambda x: F.interpolate(F.avg_pool2d(x, 2), size=x.shape[2:], mode="bilinear"),
    "bilinear_to_corners": lambda x: F.interpolate(x, scale_factor=1.5, mode="bilinear", align_corners=True),
    "bicubic": lambda x: F.interpolate(x, scale_factor=2, mode="bicubic"),
    "to_one_size": lambda x: F.interpolate(x, size=(8, 8), mode="bilinear"),
    "grid": lambda x: F.grid_sample(
        x, F.affine_grid(1.2 * ad.eye(2, 3)[None].expand(2, 2, 3), list(x.shape), align_corners=False),
        padding_mode="border", align_corners=False,
    ),
    "unfold": lambda x: F.unfold(x, 3),
    "fold": lambda x: F.fold(F.unfold(x, 3), x.shape[2:], 3),
    "unpool": lambda x: F.max_unpool2d(*F.max_pool2d_with_indices(x, 2), 2, output_size=x.shape[2:]),
    "part_means": lambda x: F.adaptive_avg_pool2d(x, 3),
    "largest_of_parts": lambda x: F.adaptive_max_pool2d(x, 3),
    "largest": lambda x: F.adaptive_max_pool2d(x, 1),
    "without_padding": lambda x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False),
    "over_the_end": lambda x: F.max_pool2d(x, 3, 2, 1, ceil_mode=True),
    "power_mean": lambda x: F.lp_pool2d(x.abs() + 1, 2, 2),
    "same": lambda x: F.conv2d(x, ad.ones(3, 3, 4, 4) / 16, padding="same"),
}  # fmt: skip


@pytest.mark.sweep(2)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_of_images(name: str) -> None:
    shapes = [(2, 3, *size) for size in IMAGES]
    if name == "power_mean":  # 1 is a size of its own
        shapes = [shape for shape in shapes if min(shape[2:]) > 3]
    check(make_step(FUNCTIONS[name]), shapes)


def test_means_of_windows_over_the_end() -> None:
    shapes = [(2, 3, *size) for size in IMAGES if min(size) > 3]
    check(make_step(lambda x: F.avg_pool2d(x, 3, 2, ceil_mode=True)), shapes)


class UNet(nn.Module):
    """Down and up again, with what was there before beside it."""

    def __init__(self) -> None:
        super().__init__()
        self.down, self.middle = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 8, 3, padding=1)
        self.wider, self.out = nn.ConvTranspose2d(8, 8, 2, stride=2), nn.Conv2d(16, 2, 3, padding=1)

    def forward(self, x: Any) -> Any:
        before = F.relu(self.down(x))
        low = F.relu(self.middle(F.max_pool2d(before, 2)))
        return self.out(ad.cat([before, self.wider(low)], 1))


def make_lines() -> nn.Module:
    return nn.Sequential(
        nn.Conv1d(3, 8, 5, padding=2), nn.ReLU(), nn.MaxPool1d(2), nn.Conv1d(8, 8, 3, stride=2, padding=1, bias=False),
        nn.BatchNorm1d(8), nn.ReLU(), nn.Conv1d(8, 4, 3, dilation=2, padding=2), nn.AdaptiveAvgPool1d(1),
    )  # fmt: skip


def make_classifier() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(8, 8, 3, padding=1, stride=2, groups=4), nn.GELU(), nn.Conv2d(8, 8, 1), nn.AdaptiveAvgPool2d(1),
        nn.Flatten(), nn.Linear(8, 5),
    )  # fmt: skip


EVEN = ((12, 14), (20, 18), (32, 18), (16, 16), (6, 40), (64, 66))


@pytest.mark.sweep(2)
@pytest.mark.parametrize(
    ("make", "shapes"),
    [
        (UNet, [(2, 3, *size) for size in EVEN]),
        (make_lines, [(2, 3, n) for n in (50, 33, 100, 16, 250, 64)]),
        (make_classifier, [(2, 3, *size) for size in IMAGES if min(size) > 3]),
        (make_classifier, [(i % 3 + 3, 3, *size) for i, size in enumerate(EVEN)]),
    ],
)
def test_nets_of_any_size(make: Callable[[], nn.Module], shapes: list[tuple[int, ...]]) -> None:
    ad.manual_seed(0)
    net = make()
    check(make_step(net, list(net.parameters())), shapes, tolerance=1e-4)


def test_a_net_trains_on_images_of_many_sizes() -> None:
    def make() -> tuple[nn.Module, Any]:
        ad.manual_seed(0)
        net = UNet()
        optimizer = optim.Adam(net.parameters(), lr=1e-2)

        def step(x: Any) -> Any:
            optimizer.zero_grad()
            loss = (net(x) - x[:, :2]).square().mean()
            loss.backward()
            optimizer.step()
            return loss

        return net, step

    (ours, step), (theirs, eager) = make(), make()
    compiled = ad.compile(step)
    for size in EVEN * 2:
        x = ad.randn(3, 3, *size)
        np.testing.assert_allclose(compiled(x).item(), eager(x).item(), rtol=1e-4)
    assert compiled.compilations == 2
    for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=0, atol=2e-3)


def test_the_graph_tells_what_sizes_follow_from_those_of_the_image() -> None:
    weight = ad.randn(4, 3, 3, 3)
    step = ad.compile(lambda x: F.max_pool2d(F.conv2d(x, weight, stride=2, padding=1), 2), dynamic=True)
    assert step(ad.randn(2, 3, 12, 15)).shape == (2, 4, 3, 4)
    assert "f32[s0,4,((s1 - 1) // (2)) + 1,((s2 - 1) // (2)) + 1] = convolution" in str(step.graph)


def test_sizes_of_one_are_programs_of_their_own() -> None:
    shapes = [(2, 3, 12, 14), (2, 3, 9, 20), (2, 3, 2, 40), (2, 3, 1, 20), (2, 3, 3, 17), (2, 3, 1, 30)]
    weight = ad.randn(4, 3, 3, 3)
    check(make_step(lambda x: F.conv2d(x, weight, padding=1)), shapes, compilations=3)
