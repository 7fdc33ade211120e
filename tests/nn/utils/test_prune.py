"""Pruning: the methods as classes, their masks and their errors as PyTorch's."""

import pickle
from typing import Any

import numpy as np
import pytest
from tests.support.errors import assert_raises

import adjoint as ad
from adjoint import nn
from adjoint.nn.utils import prune


def _layers(torch: Any) -> tuple[Any, Any]:
    """The same layer in both libraries."""
    values = np.random.default_rng(1).normal(size=(5, 4)).astype(np.float32)
    layers = []
    for library in (torch, ad):
        layer = library.nn.Linear(4, 5)
        with library.no_grad():
            layer.weight.copy_(library.from_numpy(values.copy()))
        layers.append(layer)
    return layers[0], layers[1]


METHODS: dict[str, Any] = {
    "identity": lambda p, m: p.identity(m, "weight"),
    "least": lambda p, m: p.l1_unstructured(m, "weight", 0.4),
    "none": lambda p, m: p.l1_unstructured(m, "weight", 0),
    "all": lambda p, m: p.l1_unstructured(m, "weight", 1.0),
    "rows": lambda p, m: p.ln_structured(m, "weight", 2, 2, 0),
    "columns by the largest": lambda p, m: p.ln_structured(m, "weight", 0.5, float("inf"), -1),
    "rows, then elements": lambda p, m: p.l1_unstructured(p.ln_structured(m, "weight", 2, 1, 0), "weight", 3),
    "elements, then rows": lambda p, m: p.ln_structured(p.l1_unstructured(m, "weight", 6), "weight", 0.4, 2, 0),
    "the largest elements, then rows": lambda p, m: p.ln_structured(
        p.custom_from_mask(m, "weight", m.weight.abs() < m.weight.abs().sort().values[:, [2]]), "weight", 2, 2, 0
    ),
    "three times": lambda p, m: p.l1_unstructured(
        p.l1_unstructured(p.l1_unstructured(m, "weight", 3), "weight", 0.5), "weight", 0.5
    ),
    "the class": lambda p, m: p.L1Unstructured.apply(m, "weight", 3) and m,
}  # fmt: skip


@pytest.mark.parametrize("name", METHODS)
def test_masks_are_pytorchs(name: str) -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("torch.nn.utils.prune")
    theirs, ours = _layers(torch)
    METHODS[name](torch.nn.utils.prune, theirs)
    METHODS[name](prune, ours)
    np.testing.assert_array_equal(ours.weight_mask.numpy(), theirs.weight_mask.numpy())
    np.testing.assert_array_equal(ours.weight.detach().numpy(), theirs.weight.detach().numpy())
    assert [n for n, _ in ours.named_parameters()] == [n for n, _ in theirs.named_parameters()]
    hooks = [type(next(iter(each._forward_pre_hooks.values()))).__name__ for each in (ours, theirs)]
    assert hooks[0] == hooks[1]


@pytest.mark.parametrize("make", ["random_unstructured", "random_structured"])
def test_random_choices_leave_out_as_many_as_asked(make: str) -> None:
    layer = nn.Linear(4, 5)
    if make == "random_unstructured":
        prune.random_unstructured(layer, "weight", 7)
        assert (layer.weight_mask == 0).sum().item() == 7
    else:
        prune.random_structured(layer, "weight", 2, 0)
        assert (layer.weight_mask.sum(1) == 0).sum().item() == 2
    layer(ad.ones(2, 4)).sum().backward()
    assert ((layer.weight_orig.grad == 0) == (layer.weight_mask == 0)).all()


def test_scores_choose_instead_of_sizes() -> None:
    layer, scores = nn.Linear(3, 2), ad.tensor([[1.0, 5.0, 6.0], [2.0, 7.0, 3.0]])
    prune.l1_unstructured(layer, "weight", 3, importance_scores=scores)
    assert layer.weight_mask.tolist() == [[0, 1, 1], [0, 1, 0]]
    with pytest.raises(AssertionError, match="importance_scores should have the same shape as parameter weight"):
        prune.l1_unstructured(nn.Linear(3, 2), "weight", 1, ad.ones(2))


def test_a_container_chooses_from_what_is_left() -> None:
    container = prune.PruningContainer()
    container._tensor_name = "test"
    method = prune.L1Unstructured(2)
    method._tensor_name = "test"
    container.add_pruning_method(method)
    t, before = ad.tensor([[1.0, 2, 3, 4], [5, 6, 7, 8]]), ad.tensor([[1, 1, 1, 0], [1, 1, 0, 1]])
    assert container.compute_mask(t, before).tolist() == [[0, 0, 1, 0], [1, 1, 0, 1]]
    assert (len(container), container[0], list(container)) == (1, method, [method])
    other = prune.L1Unstructured(2)
    other._tensor_name = "another"
    with pytest.raises(ValueError, match=r"acting on the parameter named 'test'.*Found 'another'"):
        container.add_pruning_method(other)
    assert_raises(TypeError, "<class 'int'> is not a BasePruningMethod subclass", container.add_pruning_method, 10)


def test_a_method_prunes_a_tensor_by_itself() -> None:
    t = ad.tensor([[1.0, -4.0], [3.0, 2.0]])
    assert prune.L1Unstructured(2).prune(t).tolist() == [[0, -4], [3, 0]]
    assert prune.CustomFromMask(ad.tensor([[1, 0], [0, 1]])).prune(t).tolist() == [[1, 0], [0, 2]]


def test_parameters_taken_together() -> None:
    layers = [nn.Linear(4, 3), nn.Linear(3, 2)]
    prune.global_unstructured([(each, "weight") for each in layers], prune.L1Unstructured, amount=7)
    assert sum(int((each.weight == 0).sum().item()) for each in layers) == 7
    prune.global_unstructured([(each, "weight") for each in layers], prune.l1_unstructured, amount=2)
    assert sum(int((each.weight == 0).sum().item()) for each in layers) == 9
    with pytest.raises(TypeError, match="parameters is not an Iterable"):
        prune.global_unstructured(3, prune.L1Unstructured, amount=1)
    with pytest.raises(TypeError, match="importance_scores must be of type dict"):
        prune.global_unstructured([], prune.L1Unstructured, ad.ones(1), amount=1)
    with pytest.raises(TypeError, match='Only "unstructured" PRUNING_TYPE supported'):
        prune.global_unstructured([(layers[0], "weight")], prune.LnStructured, amount=1, n=2)


def test_errors() -> None:
    layer = nn.Linear(2, 3)
    for amount, error in (("a", TypeError), (-1, ValueError), (1.5, ValueError), (20, ValueError)):
        assert_raises(error, "amount", prune.l1_unstructured, layer, "weight", amount)
    with pytest.raises(ValueError, match="Structured pruning can only be applied to multidimensional tensors"):
        prune.ln_structured(layer, "bias", 1, 2, 0)
    assert_raises(IndexError, "Invalid index 4", prune.random_structured, layer, "weight", 1, 4)
    assert [n for n, _ in layer.named_parameters()] == ["weight", "bias"]


def test_pruned_modules_can_be_pickled() -> None:
    layer = prune.l1_unstructured(nn.Linear(4, 5), "weight", 7)
    twin = pickle.loads(pickle.dumps(layer))
    np.testing.assert_array_equal(twin(ad.ones(1, 4)).detach().numpy(), layer(ad.ones(1, 4)).detach().numpy())
    prune.remove(twin, "weight")
    assert not prune.is_pruned(twin)
    assert prune.is_pruned(layer)
