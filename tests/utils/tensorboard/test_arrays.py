"""What a writer takes: tensors of every type, numbers, nested lists, and images of every layout."""

from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.utils.tensorboard.arrays import to_array, to_number, to_pixels, to_rgb


@pytest.mark.parametrize(
    "given",
    [2.5, np.float32(2.5), np.array([2.5]), [2.5], ad.tensor(2.5, requires_grad=True), ad.tensor([2.5]).bfloat16()],
)
def test_a_number_is_taken_however_it_is_held(given: Any) -> None:
    assert to_number(given) == 2.5
    assert to_array(given).shape == (1,)


def test_several_elements_are_no_scalar() -> None:
    with pytest.raises(ValueError, match=r"one element, and this value has shape \(2, 1\)"):
        to_number(ad.ones(2, 1))


@pytest.mark.parametrize("layout", ["CHW", "HWC", "CWH", "chw"])
def test_layouts_of_one_image_mean_the_same(layout: str) -> None:
    image = np.random.default_rng(0).random((3, 4, 5))
    given = np.einsum(f"chw->{layout.lower()}", image)
    assert np.array_equal(to_rgb(given, layout), image.transpose(1, 2, 0))


def test_a_gray_image_has_three_channels() -> None:
    image = np.arange(6.0).reshape(2, 3)
    assert np.array_equal(to_rgb(image, "HW"), np.stack([image] * 3, -1))


@pytest.mark.parametrize(("count", "size"), [(1, (2, 3)), (8, (2, 24)), (10, (4, 24))])
def test_a_batch_is_a_grid_of_eight_columns(count: int, size: tuple[int, int]) -> None:
    batch = np.arange(count * 6.0).reshape(count, 1, 2, 3) + 1
    grid = to_rgb(batch, "NCHW")
    assert grid.shape == (*size, 3)
    assert np.array_equal(grid[:2, :3, 0], batch[0, 0])
    assert np.array_equal(grid[-2:, (count - 1) % 8 * 3 :][:, :3, 2], batch[-1, 0])
    assert np.count_nonzero(grid) == batch.size * 3  # empty cells are black


@pytest.mark.parametrize("layout", ["CH", "CCHW", "CHWX", "HW"])
def test_a_layout_that_does_not_fit_is_refused(layout: str) -> None:
    with pytest.raises(ValueError, match="dataformats"):
        to_rgb(np.ones((3, 4, 5)), layout)


def test_floats_reach_from_zero_to_one_and_bytes_stay() -> None:
    assert to_pixels(np.array([-1.0, 0.5, 1.0, 2.0])).tolist() == [0, 127, 255, 255]
    assert to_pixels(np.array([0, 7, 255], np.uint8)).tolist() == [0, 7, 255]
