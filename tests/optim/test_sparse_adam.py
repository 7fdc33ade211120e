"""Optimizers on the sparse gradients of embeddings, beside PyTorch's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint import optim

CASES = [
    ("SparseAdam", {"lr": 0.1}),
    ("SparseAdam", {"lr": 0.1, "maximize": True}),
    ("SGD", {"lr": 0.1}),
    ("SGD", {"lr": 0.1, "momentum": 0.9}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True}),
    ("Adagrad", {"lr": 0.1, "lr_decay": 0.01}),
]
LAYERS = [
    ("Embedding", {}),
    ("Embedding", {"padding_idx": 2}),
    ("EmbeddingBag", {"mode": "sum"}),
    ("EmbeddingBag", {"mode": "mean", "padding_idx": 1}),
]
TABLE = np.linspace(-1, 1, 18, dtype=np.float32).reshape(6, 3)
INDICES = np.array([[[1, 2, 1], [0, 2, 5]], [[3, 3, 3], [1, 0, 2]], [[5, 4, 1], [2, 2, 0]]])


def train(library: Any, layer: str, settings: dict[str, Any], name: str, options: dict[str, Any]) -> np.ndarray:
    """The table after three steps."""
    module = getattr(library.nn, layer)(6, 3, sparse=True, **settings)
    with library.no_grad():
        module.weight.copy_(library.tensor(TABLE))
    optimizer = getattr(library.optim, name)(module.parameters(), **options)
    for indices in INDICES:
        optimizer.zero_grad()
        module(library.tensor(indices)).pow(2).sum().backward()
        assert module.weight.grad.is_sparse
        optimizer.step()
    found: np.ndarray = module.weight.detach().numpy()
    return found


@pytest.mark.filterwarnings("ignore:Sparse invariant:UserWarning")  # of PyTorch
@pytest.mark.parametrize(("layer", "settings"), LAYERS)
@pytest.mark.parametrize(("name", "options"), CASES)
def test_steps_are_those_of_pytorch(name: str, options: dict[str, Any], layer: str, settings: dict[str, Any]) -> None:
    torch = pytest.importorskip("torch")
    expected = train(torch, layer, settings, name, options)
    np.testing.assert_allclose(train(ad, layer, settings, name, options), expected, rtol=3e-6, atol=3e-7)


def test_other_rows_stay_and_others_refuse() -> None:
    table = ad.nn.Embedding(5, 2, sparse=True)
    before = table.weight.detach().numpy().copy()
    optimizer = ad.optim.SparseAdam(table.parameters(), lr=0.1)
    table(ad.tensor([1, 3])).sum().backward()
    optimizer.step()
    moved = (table.weight.detach().numpy() != before).any(1)
    np.testing.assert_array_equal(moved, [False, True, False, True, False])
    with pytest.raises(RuntimeError, match="does not support sparse gradients, please consider SparseAdam"):
        ad.optim.AdamW(table.parameters()).step()


def test_parameters_are_dense() -> None:
    with pytest.raises(ValueError, match=r"Sparse params at indices \[\[0, 0\]\]: SparseAdam requires dense"):
        optim.SparseAdam([ad.eye(2).to_sparse().requires_grad_()])
