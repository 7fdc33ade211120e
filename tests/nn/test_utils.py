"""Limits for gradients, and parameters as one vector: PyTorch's numbers."""

import math
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint import nn


def _model() -> Any:
    ad.manual_seed(3)
    model = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 2))
    model(ad.randn(6, 4)).square().sum().backward()
    return model


def _twin(model: Any, torch: Any) -> list[Any]:
    parameters = []
    for p in model.parameters():
        twin = torch.nn.Parameter(torch.from_numpy(p.detach().numpy().copy()))
        twin.grad = torch.from_numpy(p.grad.numpy().copy())
        parameters.append(twin)
    return parameters


@pytest.mark.parametrize("norm", [1, 2.0, 3, math.inf])
@pytest.mark.parametrize("limit", [0.1, 1e3])
def test_clipping_by_norm_is_as_in_torch(norm: float, limit: float) -> None:
    torch = pytest.importorskip("torch")
    model = _model()
    twins = _twin(model, torch)
    before = nn.utils.clip_grad_norm_(model.parameters(), limit, norm)
    expected = torch.nn.utils.clip_grad_norm_(twins, limit, norm)
    np.testing.assert_allclose(before.item(), expected.item(), rtol=1e-6)
    for p, twin in zip(model.parameters(), twins, strict=True):
        np.testing.assert_allclose(p.grad.numpy(), twin.grad.numpy(), rtol=1e-5)


def test_the_norm_after_clipping_is_the_limit() -> None:
    model = _model()
    nn.utils.clip_grad_norm_(model.parameters(), 0.25)
    total = nn.utils.get_total_norm([p.grad for p in model.parameters()])
    assert total.item() == pytest.approx(0.25, rel=1e-4)


def test_clipping_by_value() -> None:
    model = _model()
    expected = [p.grad.clamp(-0.05, 0.05) for p in model.parameters()]
    nn.utils.clip_grad_value_(model.parameters(), 0.05)
    for p, g in zip(model.parameters(), expected, strict=True):
        np.testing.assert_array_equal(p.grad.numpy(), g.numpy())


def test_no_gradients_have_norm_0_and_one_tensor_will_do() -> None:
    p = nn.Parameter(ad.ones(2))
    assert nn.utils.clip_grad_norm_([p], 1.0).item() == 0.0
    p.grad = ad.tensor([3.0, 4.0])
    assert nn.utils.clip_grad_norm_(p, 1.0).item() == pytest.approx(5.0)


def test_a_norm_that_is_not_finite() -> None:
    p = nn.Parameter(ad.ones(2))
    p.grad = ad.tensor([math.nan, 1.0])
    with pytest.raises(RuntimeError, match="non-finite"):
        nn.utils.clip_grad_norm_(p, 1.0, error_if_nonfinite=True)
    assert p.grad[1].item() == 1.0
    with pytest.warns(FutureWarning, match="deprecated"):
        assert math.isnan(nn.utils.clip_grad_norm(p, 1.0).item())


def test_parameters_as_a_vector_and_back() -> None:
    model, other = _model(), nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 2))
    vector = nn.utils.parameters_to_vector(model.parameters())
    assert vector.shape == (sum(p.numel() for p in model.parameters()),)
    nn.utils.vector_to_parameters(vector, other.parameters())
    for p, q in zip(model.parameters(), other.parameters(), strict=True):
        np.testing.assert_array_equal(p.detach().numpy(), q.detach().numpy())
    with pytest.raises(TypeError, match=r"expected torch\.Tensor, but got: list"):
        nn.utils.vector_to_parameters([1.0], model.parameters())  # type: ignore[arg-type]


def test_tensors_as_one_by_their_older_name() -> None:
    torch = pytest.importorskip("torch")
    from adjoint import _utils

    theirs = pytest.importorskip("torch._utils")
    tensors = [[[1.0, 2.0], [3.0, 4.0]], 5.0, [6.0]]
    for library, home in ((ad, _utils), (torch, theirs)):
        given = [library.tensor(t) for t in tensors]
        flat = home._flatten_dense_tensors(given)
        assert flat.tolist() == [1, 2, 3, 4, 5, 6]
        parts = home._unflatten_dense_tensors(flat, given)
        assert [part.tolist() for part in parts] == tensors
        parts[0][0, 1] = 9.0
        assert (flat[1].item(), given[0][0, 1].item()) == (9, 2)


def test_tensors_are_grouped_as_pytorch_groups_them() -> None:
    torch = pytest.importorskip("torch")
    name = "_group_tensors_by_device_and_dtype"
    theirs = getattr(pytest.importorskip("torch.utils._foreach_utils"), name)
    from adjoint.utils import _foreach_utils

    mine = getattr(_foreach_utils, name)
    found = []
    for library, group in ((ad, mine), (torch, theirs)):
        a, b, c = library.zeros(1), library.zeros(2).double(), library.zeros(3)
        groups = group([[a, b, c], [], [None, a, b]], with_indices=True)
        sizes = {kind: [[t if t is None else len(t) for t in tensors] for tensors in lists]
                 for kind, (lists, _) in groups.items()}  # fmt: skip
        found.append({str(k[1]).rpartition(".")[2]: (sizes[k], list(at)) for k, (_, at) in groups.items()})
    assert found[0] == found[1]
    assert set(found[0]) == {"float32", "float64"}
    assert mine([[ad.ones(1)]])[ad.device("cpu"), ad.float32][1] == []
    for wrong in ([], [[None]], [[ad.ones(1)], [1, 2]]):
        with pytest.raises(RuntimeError):
            mine(wrong)
