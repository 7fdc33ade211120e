"""Positions in short rows: the few largest or smallest, which native code inserts in order, and those of a vector."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import adjoint as ad
from adjoint.core.op.eager_kernels import eager_kernels


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("descending", [True, False])
@pytest.mark.parametrize("shape", [(1,), (31,), (4, 32), (3, 5, 7), (2, 200)])
def test_few_leading_elements_are_those_of_a_stable_sort(shape: tuple[int, ...], descending: bool, dtype: type) -> None:
    numbers = np.random.default_rng(shape[-1]).integers(-3, 3, shape).astype(dtype)  # many are equal
    numbers.flat[:: max(shape[-1] // 3, 1)] = np.nan
    x = ad.tensor(numbers)
    count = min(shape[-1], 9)
    with eager_kernels(False):
        order = x.argsort(-1, descending, stable=True)
    for found, size in ((x.topk(count, largest=descending), count), (x.sort(-1, descending), shape[-1])):
        np.testing.assert_array_equal(found.indices.numpy(), order[..., :size].numpy())
        np.testing.assert_array_equal(found.values.numpy(), x.gather(-1, order[..., :size]).numpy())


def test_their_gradients_go_to_their_places() -> None:
    x = ad.tensor([[1.0, 3.0, 2.0], [6.0, 5.0, 4.0]], requires_grad=True)
    values, indices = x.topk(2)
    (values * ad.tensor([1.0, 10.0])).sum().backward()
    assert indices.tolist() == [[1, 2], [0, 1]]
    assert x.grad is not None
    assert x.grad.tolist() == [[0, 1, 10], [1, 10, 0]]
    assert values.grad_fn.name() == "TopkBackward0"


@pytest.mark.parametrize(
    "search",
    [
        lambda x: x.argmax(0), lambda x: x.argmin(0), lambda x: x.argmax(), lambda x: x.max(0).indices,
        lambda x: x.min(0).values, lambda x: x.median(0).indices, lambda x: x.kthvalue(2).indices,
    ],
)  # fmt: skip
def test_positions_in_a_vector_are_arrays(search: Callable[[ad.Tensor], ad.Tensor]) -> None:
    """NumPy answers such a search with a scalar, of which nobody can have a view."""
    found = search(ad.tensor([3.0, 1.0, 2.0]))
    assert type(found.array) is np.ndarray
    assert found.numpy().shape == found.shape == ()
