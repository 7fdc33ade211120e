"""Modules apart from their parameters, under functorch's names: what PyTorch's give."""

from typing import Any

from tests.support.errors import assert_raises

import adjoint as ad
from adjoint import nn
from adjoint.func import grad, stateless, vmap


def net(*, buffers: bool = False) -> Any:
    ad.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4) if buffers else nn.Tanh(), nn.Linear(4, 1))


def test_a_function_of_parameters_gives_what_the_module_gives() -> None:
    model, x = net(), ad.ones(5, 3)
    function, params = stateless.make_functional(model)
    assert all(isinstance(p, nn.Parameter) and p.requires_grad for p in params)
    assert params[0] is not model[0].weight
    assert function.param_names == ("0.weight", "0.bias", "2.weight", "2.bias")
    assert ad.equal(function(params, x), model(x))
    assert function([0 * p for p in params], x).abs().sum().item() == 0
    assert not any(p.requires_grad for p in stateless.make_functional(model, disable_autograd_tracking=True)[1])


def test_gradients_for_each_sample() -> None:
    function, params = stateless.make_functional(net())
    x = ad.arange(15.0).view(5, 3) / 15
    each = vmap(grad(lambda p, row: function(p, row).sum()), (None, 0))(params, x)
    function(params, x).sum().backward()
    for found, param in zip(each, params, strict=True):
        assert param.grad is not None
        assert ad.allclose(found.sum(0), param.grad, atol=1e-6)


def test_buffers_are_arguments_too() -> None:
    model = net(buffers=True)
    assert_raises(RuntimeError, "make_functional_with_buffers", stateless.make_functional, model)
    model.eval()
    function, params, buffers = stateless.make_functional_with_buffers(model)
    assert ad.equal(function(params, buffers, ad.ones(5, 3)), model(ad.ones(5, 3)))


def test_an_ensemble_is_one_function_under_vmap() -> None:
    models = [net(), net()]
    models[1].load_state_dict({name: 2 * value for name, value in models[0].state_dict().items()})
    function, params, buffers = stateless.combine_state_for_ensemble(models)
    out = vmap(function, (0, 0, None))(params, buffers, ad.ones(5, 3))
    assert not params[0].requires_grad
    assert all(ad.allclose(out[i], model(ad.ones(5, 3))) for i, model in enumerate(models))
    assert_raises(RuntimeError, "at least one model", stateless.combine_state_for_ensemble, [])
