"""Frames made of the tensor itself, transposed convolutions and grids: PyTorch's values, gradients and refusals."""

from typing import Any

import numpy as np
import pytest
from tests.support.oracle import same, torch

import adjoint as ad
from adjoint.nn import functional as F

WIDTHS = [(1, 2), (0, 3), (-1, 2), (2, -2), (0, 0), (1, 2, 2, 0), (-1, 1, -2, 1), (1, 1, 1, 2, 0, 1)]


def normal(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).normal(size=shape)


@pytest.mark.parametrize("widths", WIDTHS)
@pytest.mark.parametrize("mode", ["reflect", "replicate", "circular"])
def test_frames(mode: str, widths: Any) -> None:
    rank = len(widths) // 2
    for sizes in ((2, 3, 4, 5, 4)[: rank + 2], (3, 4, 5, 4)[: rank + 1]):
        same(f"t.nn.functional.pad(x, {widths}, '{mode}')", x=normal(*sizes))


@pytest.mark.parametrize(("shape", "widths", "mode"), [
    ((2, 3), (3, 1), "reflect"), ((2, 3), (1, 4), "circular"), ((2, 3, 4), (1, 1, 3, 0), "reflect"),
    ((3,), (1, 1), "replicate"), ((2, 3), (-2, -1), "replicate"), ((2, 3), (1, 1, 1), "reflect"),
    ((2, 3), (1, 1), "mirrored"), ((2, 0), (1, 1), "replicate"),
])  # fmt: skip
def test_frames_that_do_not_fit(shape: Any, widths: Any, mode: str) -> None:
    for library in (torch, ad):
        with pytest.raises((RuntimeError, NotImplementedError)):
            library.nn.functional.pad(library.zeros(*shape), widths, mode)
    with pytest.raises(RuntimeError, match="doesn't take in value argument"):
        F.pad(ad.zeros(1, 3), (1, 1), "reflect", 1.0)


@pytest.mark.parametrize("settings", [
    "b", "None, 2", "b, 2, 1, 1", "b, (2, 3), (0, 1), (1, 2)", "None, 1, 0, 0, 1, 2", "b, 3, 2, 2, 2, 2",
    "None, 1, 1, 2, 1, 3", "b, 2, 0, 2, 1, (3, 4)",
])  # fmt: skip
def test_transposed_convolutions(settings: str) -> None:
    groups = settings.endswith("2, 2")
    x, w, b = normal(2, 4, 5, 6), normal(4, 2, 3, 2, seed=1), normal(4 if groups else 2, seed=2)
    same(f"t.nn.functional.conv_transpose2d(x, w, {settings})", x=x, w=w, b=b)
    same(f"t.nn.functional.conv_transpose2d(x, w, {settings})", x=x[0], w=w, b=b)


@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
@pytest.mark.parametrize("aligned", [True, False])
def test_places_on_the_edges_of_a_grid(mode: str, padding: str, aligned: bool) -> None:
    """On the edges, where the gradient jumps, and far outside."""
    at = np.array([-1.0, 1.0, 0.0, -3.5, 2.25, 7.0, 0.3])
    grid = np.stack(np.meshgrid(at, at), -1)[None]
    image = normal(1, 2, 4, 5)
    made = []
    for library in (torch, ad):
        x, g = (library.from_numpy(a.copy()).requires_grad_() for a in (image, grid))
        out = library.nn.functional.grid_sample(x, g, mode, padding, aligned)
        gradients = library.autograd.grad((out * out.detach().cos()).sum(), (x, g), allow_unused=True)
        made.append([out, *gradients])
    for a, b in zip(made[1], made[0], strict=True):
        found, expected = (0.0 if t is None else t.detach().numpy() for t in (a, b))
        np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-8)


def test_the_loss_of_a_sequence_that_cannot_be() -> None:
    made = []
    for library in (torch, ad):
        logs = library.from_numpy(normal(3, 2, 4)).log_softmax(2).detach().requires_grad_()
        targets = library.tensor([[1, 1, 2], [1, 2, 3]])
        given = (logs, targets, library.tensor([3, 3]), library.tensor([3, 3]))
        each = library.nn.functional.ctc_loss(*given, reduction="none")
        forgiven = library.nn.functional.ctc_loss(*given, zero_infinity=True)
        (gradient,) = library.autograd.grad(forgiven, logs)
        made.append([each, forgiven, gradient])
    assert made[1][0].tolist()[0] == float("inf")
    for a, b in zip(made[1], made[0], strict=True):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("sizes", [(2, 2), (1, 1), (2, 3, 2), (1, 1, 1)])
@pytest.mark.parametrize("mode", ["nearest", "bilinear"])
def test_a_grid_has_a_gradient_where_nothing_depends_on_it(mode: str, sizes: tuple[int, ...]) -> None:
    x, grid = normal(1, 2, *sizes), normal(1, *sizes, len(sizes)) * 0.3
    for padding in ("zeros", "border", "reflection"):
        found = []
        for library in (ad, torch):
            places = library.tensor(grid, requires_grad=True)
            out = library.nn.functional.grid_sample(library.tensor(x), places, mode, padding, align_corners=True)
            out.square().sum().backward()
            found.append(places.grad.numpy())
        np.testing.assert_allclose(*found, atol=1e-12)


@pytest.mark.parametrize("mode", ["reflect", "replicate", "circular"])
@pytest.mark.parametrize("widths", [(1, 2, 0, 3), (2, 0, 1, 1), (-1, 1, 0, 2)])
def test_borders_without_a_history_are_those_with_one(mode: str, widths: tuple[int, ...]) -> None:
    x = ad.arange(60.0).reshape(1, 3, 4, 5)
    plain = F.pad(x, widths, mode=mode)
    recorded = F.pad(x.clone().requires_grad_(), widths, mode=mode)
    assert plain.node is None
    assert recorded.node is not None
    assert plain.tolist() == recorded.tolist()
    plain[0, 0, 0, 0] = -1
    assert x.min().item() == 0
    assert F.pad(x, widths, mode=mode).tolist() == recorded.tolist()
