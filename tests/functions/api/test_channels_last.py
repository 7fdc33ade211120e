"""Functions of images that lie channels last: results and gradients lie so too, and are those of row-major images."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint as ad

torch: Any = pytest.importorskip("torch")
Case = tuple[Callable[[Any, Any, Any], Any], tuple[int, ...], tuple[int, ...]]  # of F, x and a weight; their shapes
PLANE, VOLUME, NONE = (2, 4, 6, 6), (2, 4, 6, 6, 6), (0,)
CASES: dict[str, Case] = {
    "conv2d": (lambda F, x, w: F.conv2d(x, w, padding=1), PLANE, (8, 4, 3, 3)),
    "conv2d grouped": (lambda F, x, w: F.conv2d(x, w, groups=2, padding="same"), PLANE, (6, 2, 3, 3)),
    "conv3d": (lambda F, x, w: F.conv3d(x, w), VOLUME, (8, 4, 3, 3, 3)),
    "conv_transpose2d": (lambda F, x, w: F.conv_transpose2d(x, w, stride=2), PLANE, (4, 8, 3, 3)),
    "conv_transpose3d": (lambda F, x, w: F.conv_transpose3d(x, w), VOLUME, (4, 8, 2, 2, 2)),
    "max_pool2d": (lambda F, x, w: F.max_pool2d(x, 2), PLANE, NONE),
    "max_pool2d with indices": (lambda F, x, w: F.max_pool2d(x, 3, 2, 1, return_indices=True), PLANE, NONE),
    "max_pool3d": (lambda F, x, w: F.max_pool3d(x, 2), VOLUME, NONE),
    "avg_pool2d": (lambda F, x, w: F.avg_pool2d(x, 2), PLANE, NONE),
    "adaptive_avg_pool2d": (lambda F, x, w: F.adaptive_avg_pool2d(x, (3, 2)), PLANE, NONE),
    "adaptive_max_pool2d": (lambda F, x, w: F.adaptive_max_pool2d(x, (3, 2), return_indices=True), PLANE, NONE),
    "lp_pool2d": (lambda F, x, w: F.lp_pool2d(x, 2, 2), PLANE, NONE),
    "batch_norm": (lambda F, x, w: F.batch_norm(x, None, None, w, training=True), PLANE, (4,)),
    "batch_norm of volumes": (lambda F, x, w: F.batch_norm(x, None, None, w, training=True), VOLUME, (4,)),
    "group_norm": (lambda F, x, w: F.group_norm(x, 2, w), PLANE, (4,)),
    "rms_norm": (lambda F, x, w: F.rms_norm(x, (4, 6, 6)), PLANE, NONE),
    "pad": (lambda F, x, w: F.pad(x, (1, 2)), PLANE, NONE),
    "pad reflected": (lambda F, x, w: F.pad(x, (1, 2, 0, 1), "reflect"), PLANE, NONE),
    "pad repeated": (lambda F, x, w: F.pad(x, (1, 2, 0, 1, 1, 1), "replicate"), VOLUME, NONE),
    "interpolate nearest": (lambda F, x, w: F.interpolate(x, scale_factor=2), PLANE, NONE),
    "interpolate bilinear": (lambda F, x, w: F.interpolate(x, (4, 7), mode="bilinear"), PLANE, NONE),
    "interpolate trilinear": (lambda F, x, w: F.interpolate(x, (4, 7, 3), mode="trilinear"), VOLUME, NONE),
    "pixel_unshuffle": (lambda F, x, w: F.pixel_unshuffle(x, 2), PLANE, NONE),
}  # fmt: skip


def results(library: Any, case: str, last: bool, weight_last: bool = False) -> list[Any]:
    """Outputs and gradients of one library; images of channels that lie last, or row-major ones."""
    function, shape, weight_shape = CASES[case]
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=s).astype(np.float32) for s in (shape, weight_shape)]
    form = library.channels_last if len(shape) == 4 else library.channels_last_3d
    x, w = map(library.tensor, arrays)
    x = x.contiguous(memory_format=form) if last else x
    w = w.contiguous(memory_format=form) if weight_last else w
    x, w = x.requires_grad_(), w.requires_grad_()
    out = function(library.nn.functional, x, w)
    found = list(out) if isinstance(out, tuple) else [out]
    g = library.tensor(rng.normal(size=tuple(found[0].shape)).astype(np.float32))
    wanted = [x, w] if weight_shape != NONE else [x]
    return [*found, *library.autograd.grad(found[0], wanted, library.empty_like(found[0]).copy_(g))]


def lie(found: list[Any]) -> list[Any]:
    return [[t.stride(d) for d in range(t.ndim) if t.shape[d] > 1] for t in found]


@pytest.mark.parametrize("case", CASES)
def test_channels_stay_last(case: str) -> None:
    ours, theirs = results(ad, case, last=True), results(torch, case, last=True)
    assert lie(ours) == lie(theirs)
    for mine, plain, found in zip(ours, results(ad, case, last=False), theirs, strict=True):
        np.testing.assert_array_equal(mine.detach().numpy(), plain.detach().numpy())
        np.testing.assert_allclose(mine.detach().numpy(), found.detach().numpy(), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("case", [c for c in CASES if c.startswith("conv")])
def test_weights_decide_as_images_do(case: str) -> None:
    assert lie(results(ad, case, last=False, weight_last=True)) == lie(
        results(torch, case, last=False, weight_last=True)
    )


@pytest.mark.parametrize("case", CASES)
def test_row_major_images_stay_row_major(case: str) -> None:
    assert all(t.is_contiguous() for t in results(ad, case, last=False))


def test_the_result_has_the_node_of_the_function() -> None:
    x = ad.rand(1, 2, 4, 4).to(memory_format=ad.channels_last).requires_grad_()
    out = ad.nn.functional.max_pool2d(ad.nn.functional.conv2d(x, ad.rand(3, 2, 2, 2)), 2)
    assert out.grad_fn.name() == "MaxPool2DWithIndicesBackward0"
    x.grad = None
    out.sum().backward()
    assert x.grad.is_contiguous(memory_format=ad.channels_last)


def test_what_is_not_padded_is_no_view_of_itself() -> None:
    x = ad.rand(1, 2, 4, 4).to(memory_format=ad.channels_last).requires_grad_()
    out = ad.nn.functional.pad(x, (0, 0, 0, 0), "replicate")
    assert out is not x
    assert not out._is_view()
    assert out.is_contiguous(memory_format=ad.channels_last)


@pytest.mark.parametrize("shape", [(2, 1, 4, 5), (2, 3, 1, 1), (2, 1, 1, 1), (1, 3, 4, 5), (0, 3, 4, 5)])
@pytest.mark.parametrize("last", [True, False])
def test_where_sizes_leave_the_order_open(shape: tuple[int, ...], last: bool) -> None:
    found = []
    for library in (ad, torch):
        x = library.zeros(*shape)
        x = x.to(memory_format=library.channels_last) if last else x
        found.append(library.nn.functional.conv_transpose2d(x, library.zeros(shape[1], 2, 3, 3)))
    assert [found[0].stride(d) for d in range(4) if shape[0] and found[0].shape[d] > 1] == [
        found[1].stride(d) for d in range(4) if shape[0] and found[1].shape[d] > 1
    ]


def test_gradients_of_each_example() -> None:
    w = ad.rand(3, 2, 2, 2).to(memory_format=ad.channels_last)
    x = ad.rand(4, 1, 2, 5, 5)

    def loss(w: Any, image: Any) -> Any:
        return ad.nn.functional.conv2d(image.to(memory_format=ad.channels_last), w).square().sum()

    together = ad.func.vmap(ad.func.grad(loss), in_dims=(None, 0))(w, x)
    for each, image in zip(together, x, strict=True):
        np.testing.assert_allclose(each.numpy(), ad.func.grad(loss)(w, image).numpy(), rtol=1e-4)
    y = ad.nn.functional.conv2d(x[0].to(memory_format=ad.channels_last), w.requires_grad_())
    gs = ad.rand(3, *y.shape)
    (batch,) = ad.autograd.grad(y, [w], gs, is_grads_batched=True, retain_graph=True)
    for each, g in zip(batch, gs, strict=True):
        np.testing.assert_allclose(each.numpy(), ad.autograd.grad(y, [w], g, retain_graph=True)[0].numpy(), rtol=1e-4)


def test_clamp_keeps_channels_last() -> None:
    for library in (ad, torch):
        x = library.rand(2, 3, 4, 5).to(memory_format=library.channels_last)
        for bounds in ((0.25, 0.5), (0, 0.5), (None, 0.5)):
            assert x.clamp(*bounds).is_contiguous(memory_format=library.channels_last)
