"""Normalisation against PyTorch: values, gradients, running statistics, errors."""

from typing import Any

import numpy as np
import pytest
from tests.support.oracle import same, same_error, tensor
from tests.support.second_gradients import same_second_gradients

import adjoint as ad
from adjoint.nn import functional as F

RNG = np.random.default_rng(1)


def normal(*shape: int, dtype: Any = np.float64) -> Any:
    return RNG.normal(size=shape).astype(dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    ("shape", "last"), [((4, 6), 1), ((2, 3, 4), 1), ((2, 3, 4), 2), ((3, 4), 2), ((2, 2, 3, 4), 3)]
)
def test_layer_norm(shape: Any, last: int, dtype: Any) -> None:
    normalized = shape[-last:]
    x, w, b = normal(*shape, dtype=dtype), normal(*normalized, dtype=dtype), normal(*normalized, dtype=dtype)
    same(f"t.nn.functional.layer_norm(x, {normalized})", x=x, factor=10)
    same(f"t.nn.functional.layer_norm(x, {normalized}, w)", x=x, w=w, factor=10)
    same(f"t.nn.functional.layer_norm(x, {normalized}, None, b, 0.1)", x=x, b=b, factor=10)
    same(f"t.nn.functional.layer_norm(x, {normalized}, w, b, eps=1e-3)", x=x, w=w, b=b, factor=10)


def test_layer_norm_errors() -> None:
    head = "Given normalized_shape=[3], expected input with shape [*, 3], but got input of size[2, 4]"
    same_error("t.nn.functional.layer_norm(x, (3,))", head, x=normal(2, 4))


SHAPES = [(5, 3), (4, 3, 5), (2, 3, 4, 5)]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("affine", [True, False])
def test_batch_norm(shape: Any, affine: bool, dtype: Any) -> None:
    x, w, b = normal(*shape, dtype=dtype), normal(3, dtype=dtype), normal(3, dtype=dtype)
    mean, var = normal(3, dtype=dtype), np.abs(normal(3, dtype=dtype)) + 0.5
    scale = {"w": w, "b": b} if affine else {"w": None, "b": None}
    call = "t.nn.functional.batch_norm(x, {}, {}, w, b, {}, 0.3, 1e-3)"
    same(call.format("None", "None", True), x=x, factor=10, **scale)
    same("(lambda m, v: (" + call.format("m", "v", True) + ", m, v))(m.detach(), v.detach())",
         x=x, m=mean, v=var, factor=10, **scale)  # fmt: skip
    same("(lambda m, v: (" + call.format("m", "v", False) + ", m, v))(m.detach(), v.detach())",
         x=x, m=mean, v=var, factor=10, **scale)  # fmt: skip


def test_batch_norm_errors() -> None:
    call = "t.nn.functional.batch_norm(x, m, v, w, None, {})"
    two, three = normal(2), normal(3)
    one = {"x": normal(1, 3), "m": None, "v": None, "w": None}
    same_error(call.format(True), "Expected more than 1 value per channel when training, got input size", **one)
    same_error(call.format(False), "running_mean must be defined in evaluation mode", **(one | {"x": normal(2, 3)}))
    same_error(call.format(True), "running_mean should contain 3 elements not 2", x=normal(4, 3), m=two, v=two, w=None)
    same_error(call.format(True), "weight should contain 3 elements not 2", x=normal(4, 3), m=three, v=three, w=two)


def test_statistics_carry_no_history() -> None:
    x = tensor(ad, normal(4, 3))
    mean, var = ad.zeros(3, dtype=ad.float64), ad.ones(3, dtype=ad.float64)
    ad.batch_norm(x, mean, var, training=True).sum().backward()
    assert not mean.requires_grad
    assert not var.requires_grad
    assert mean._version == 1


@pytest.mark.parametrize("shape", [(4, 3, 5), (2, 3, 4, 5), (1, 3, 2, 2, 2)])
def test_instance_norm(shape: Any) -> None:
    x, w, b = normal(*shape), normal(3), normal(3)
    mean, var = normal(3), np.abs(normal(3)) + 0.5
    call = "t.nn.functional.instance_norm(x, {}, {}, w, b, {}, 0.3, 1e-3)"
    same(call.format("None", "None", True), x=x, w=w, b=b, factor=10)
    same("t.nn.functional.instance_norm(x)", x=x, factor=10)
    for own in (True, False):
        same("(lambda m, v: (" + call.format("m", "v", own) + ", m, v))(m.detach(), v.detach())",
             x=x, m=mean, v=var, w=w, b=b, factor=10)  # fmt: skip


def test_instance_norm_errors() -> None:
    message = "Expected more than 1 spatial element when training, got input size"
    same_error("t.nn.functional.instance_norm(x)", message, x=normal(2, 3))
    same_error("t.nn.functional.instance_norm(x)", message, x=normal(2, 3, 1))
    same_error("t.nn.InstanceNorm2d(3)(x)", "expected 3D or 4D input (got 2D input)", x=normal(2, 3))
    same_error(
        "t.nn.InstanceNorm1d(3, affine=True).double()(x)", "to match num_features (3), but got: 2.", x=normal(2, 5)
    )
    with pytest.warns(UserWarning, match="input's size at dim=1 does not match num_features"):
        ad.nn.InstanceNorm1d(3)(ad.randn(2, 4, 5))


@pytest.mark.parametrize("p", [1.0, 2.0, 3.0])
@pytest.mark.parametrize("dim", [0, 1, -1])
def test_normalize(p: float, dim: int) -> None:
    same(f"t.nn.functional.normalize(x, {p}, {dim})", x=normal(3, 4), factor=10)
    same("t.nn.functional.normalize(x, eps=0.5)", x=normal(3, 4) * 0.01, factor=10)


def test_cosine_similarity() -> None:
    same("t.nn.functional.cosine_similarity(x, y)", x=normal(3, 4), y=normal(3, 4), factor=10)
    same("t.nn.functional.cosine_similarity(x, y, dim=0)", x=normal(3, 4), y=normal(3, 4), factor=10)
    same("t.nn.functional.cosine_similarity(x, y, -1)", x=normal(3, 1, 4), y=normal(1, 2, 4), factor=10)


@pytest.mark.parametrize("call", ["layer_norm(x, (3,), w, b)", "batch_norm(x, None, None, w, b, True)"])
def test_second_derivatives(call: str) -> None:
    same_second_gradients(f"t.nn.functional.{call}", 100, x=normal(5, 3), w=normal(3), b=normal(3))


@pytest.mark.parametrize("name", ["layer_norm", "group_norm", "batch_norm"])
def test_half_inputs_keep_their_type_beside_wider_weights(name: str) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(3, 4)).astype(np.float16)
    call = {
        "layer_norm": lambda x, w, b: F.layer_norm(x, (4,), w, b),
        "group_norm": lambda x, w, b: F.group_norm(x, 2, w, b),
        "batch_norm": lambda x, w, b: F.batch_norm(x, None, None, w, b, True),
    }[name]
    w, b = (rng.normal(size=4).astype(np.float32) for _ in range(2))
    out = call(*map(ad.tensor, (x, w, b)))
    assert out.dtype is ad.float16
    exact = call(ad.tensor(x.astype(np.float32)), ad.tensor(w), ad.tensor(b)).numpy()
    np.testing.assert_array_equal(out.numpy(), exact.astype(np.float16))


def test_instance_norm_takes_an_eps_of_0() -> None:
    out = F.instance_norm(ad.tensor([[[1.0, 3.0]]]), eps=0)
    np.testing.assert_allclose(out.numpy(), [[[-1, 1]]], rtol=1e-6)


def test_running_statistics_have_no_derivative_forward() -> None:
    x, mean, var = ad.rand(3, 2, 5), ad.rand(2), ad.rand(2)
    dual = ad.autograd.forward_ad
    with dual.dual_level():
        moved = dual.make_dual(x, ad.ones_like(x))
        moving = dual.make_dual(mean, ad.ones_like(mean))
        assert ad.nn.functional.batch_norm(x, moving, var).shape == x.shape
        with pytest.raises(RuntimeError, match="not differentiable wrt running_mean and running_var"):
            ad.nn.functional.batch_norm(moved, moving, var)
