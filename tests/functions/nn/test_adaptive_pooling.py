"""Adaptive and fractional pooling against PyTorch: what they refuse, no windows, and indices that were written."""

from typing import Any

import numpy as np
import pytest
from tests.support.oracle import same, same_error, torch

import adjoint as ad

F = ad.nn.functional
ADAPTIVE = [f"adaptive_{kind}_pool{rank}d" for kind in ("avg", "max") for rank in (1, 2, 3)]
IMAGES = {1: (2, 3, 7), 2: (2, 3, 7, 6), 3: (2, 3, 7, 6, 5)}


def images(name: str) -> Any:
    shape = IMAGES[int(name[-2])]
    return np.sin(np.arange(float(np.prod(shape))).reshape(shape))


@pytest.mark.parametrize("name", ADAPTIVE)
def test_no_parts_have_a_result_but_no_gradient(name: str) -> None:
    same(f"t.nn.functional.{name}(x, 0)", x=images(name), gradient=False)
    x = ad.tensor(images(name), requires_grad=True)
    with pytest.raises(RuntimeError, match="Expected grad_output to have non-zero size for non-batch dimensions"):
        getattr(F, name)(x, 0).sum().backward()


@pytest.mark.parametrize("name", ADAPTIVE)
def test_what_adaptive_pooling_refuses(name: str) -> None:
    x = images(name)
    for kind in (np.uint8, np.int64, bool):
        with pytest.raises(NotImplementedError, match="not implemented for"):
            getattr(F, name)(ad.tensor(x.astype(kind)), 2)
        same(f"t.nn.functional.{name}(x, 2)", x=x.astype(kind))
    for call in ("(x, -1)", "(x[0, 0], 2)", "(x[..., :0], 2)", "(x, 2**62)"):
        same(f"t.nn.functional.{name}{call}", x=x)


@pytest.mark.parametrize("name", [f"{kind}_pool{rank}d" for kind in ("max", "adaptive_max") for rank in (1, 2, 3)])
def test_indices_that_were_written_are_noticed(name: str) -> None:
    x = ad.tensor(images(name), requires_grad=True)
    out, places = getattr(F, name)(x, 2, return_indices=True)
    out.sum().backward(retain_graph=True)
    places.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()


def test_nodes_have_their_names_from_pytorch() -> None:
    calls = [
        "max_pool2d(x, 2)", "max_pool2d(x, 2, return_indices=True)[0]", "avg_pool2d(x, 2)", "avg_pool2d(x, (7, 6))",
        "adaptive_max_pool2d(x, 2)", "adaptive_max_pool2d(x, 2, return_indices=True)[0]",
        "fractional_max_pool2d(x, 2, 3)",
    ]  # fmt: skip
    for call in calls:
        names = []
        for library in (ad, torch):
            x = library.tensor(images("2d"), requires_grad=True)
            names.append(eval(f"library.nn.functional.{call}", {"library": library, "x": x}).grad_fn.name())
        assert names[0] == names[1]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_means_of_half_precision_are_summed_in_float32(dtype: str) -> None:
    found = []
    for library in (ad, torch):
        x = library.tensor(images("2d"), dtype=getattr(library, dtype)).requires_grad_()
        out = library.nn.functional.avg_pool2d(x, 4, 1)
        out.sum().backward()
        found.append([out.tolist(), x.grad.tolist()])
    assert found[0] == found[1]


def test_windows_of_dilated_pooling_without_elements() -> None:
    x = np.array([[[[1.0]]], [[[-2.0]]]])
    same("t.nn.functional.max_pool2d(x, 2, None, 1, 2)", x=x, gradient=False)
    out, places = F.max_pool2d(ad.tensor(x), 2, None, 1, 2, return_indices=True)
    assert out.flatten().tolist() == [-np.inf, -np.inf]
    assert places.flatten().tolist() == [0, 0]


def test_what_fractional_pooling_refuses() -> None:
    x = images("2d")
    draws = "_random_samples=t.full((2, 3, 2), 0.5, dtype=x.dtype)"
    for kernel in ((), (1,)):
        same_error(f"t.nn.functional.fractional_max_pool2d(x, {kernel}, (3, 3))", "kernel_size must either be", x=x)
    for size, message in (((9, 3), "too large relative to input height"), ((3, 9), "too large relative to input width"),
                          ((3,), "output_size must either be"), ((), "output_size must either be")):  # fmt: skip
        same_error(f"t.nn.functional.fractional_max_pool2d(x, 2, {size}, {draws})", message, x=x)
    same_error(
        "t.nn.functional.fractional_max_pool3d(x, 2, (9, 3, 3))", "too large relative to input time", x=images("3d")
    )
    same("t.nn.functional.fractional_max_pool2d(x, 2, (0, 1))", x=x, gradient=False)
    same("t.nn.functional.fractional_max_pool3d(x, 2, (0, 1, 1))", x=images("3d"), gradient=False)
    same(f"t.nn.functional.fractional_max_pool2d(x, 2, 3, {draws}, return_indices=True)", x=x)


def test_volumes_without_a_batch_keep_their_channels_last() -> None:
    found = []
    for library in (ad, torch):
        x = library.tensor(images("3d")).to(memory_format=library.channels_last_3d)[0].clone()
        out, places = library.nn.functional.max_pool3d(x, 2, return_indices=True)
        found.append([x.stride(), out.stride(), places.stride(), library.nn.functional.max_pool3d(x, 2).stride()])
    assert found[0] == found[1]


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("lead", [(0,), (0, 2)])
def test_no_channels_or_no_examples_have_as_many_maxima(rank: int, lead: tuple[int, ...]) -> None:
    x = ad.zeros(*lead, *(4,) * rank, requires_grad=True)
    out, indices = getattr(F, f"adaptive_max_pool{rank}d")(x, 2, return_indices=True)
    assert out.shape == indices.shape == (*lead, *(2,) * rank)
    assert indices.dtype is ad.int64
    out.sum().backward()
    assert x.grad.shape == x.shape
