"""Bags of rows: where the gradient of a maximum goes, and what is refused in PyTorch's words."""

from typing import Any

import pytest

import adjoint as ad
from adjoint.nn.functional import embedding_bag


def test_the_gradient_of_a_maximum_goes_to_the_first_row_that_has_it() -> None:
    table = ad.tensor([[1.0, 5.0], [1.0, 2.0], [0.0, 5.0]], requires_grad=True)
    out = embedding_bag(ad.tensor([[1, 0, 2]]), table, mode="max")
    assert out.tolist() == [[1, 5]]
    out.sum().backward()
    assert table.grad.tolist() == [[0, 1], [1, 0], [0, 0]]


def test_rows_for_padding_and_empty_bags_are_no_maximum() -> None:
    table: Any = ad.tensor([[9.0], [-1.0]], requires_grad=True)
    out = embedding_bag(ad.tensor([0, 1, 0]), table, ad.tensor([0, 2, 3]), mode="max", padding_idx=0)
    assert out.tolist() == [[-1], [0], [0]]
    out.sum().backward()
    assert table.grad.tolist() == [[0], [1]]


def test_weights_of_no_elements_have_a_gradient() -> None:
    weights = ad.ones(0).requires_grad_()
    none = ad.tensor([], dtype=ad.int64)
    out = embedding_bag(none, ad.ones(3, 2), ad.tensor([0, 0]), mode="sum", per_sample_weights=weights)
    out.sum().backward()
    assert tuple(weights.grad.shape) == (0,)


def test_errors() -> None:
    table, one = ad.ones(3, 2), ad.tensor([[1]])
    for bad in (-1, 3):
        with pytest.raises(RuntimeError, match="Expected idx >= 0 && idx < num_embeddings but found idx to be"):
            embedding_bag(ad.tensor([[bad]]), table)
    with pytest.raises(RuntimeError, match="padding_idx must be within the number of embeddings, -3 through 2"):
        embedding_bag(one, table, padding_idx=3)
    with pytest.raises(RuntimeError, match="to have the same type as tensor for argument #1 'per_sample_weights'"):
        embedding_bag(one, table, mode="sum", per_sample_weights=ad.ones(1, 1, dtype=ad.float64))
