"""Parametrizations, and the norms of weights under old and new names: PyTorch's numbers, names, text and errors."""

import copy
import pickle
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.support.errors import assert_raises

import adjoint as ad
from adjoint import nn, optim
from adjoint.nn.utils import parametrizations, parametrize, prune

pytestmark = pytest.mark.filterwarnings("ignore:`torch.nn.utils.weight_norm` is deprecated:FutureWarning")
MAKERS: dict[str, Callable[[Any], Any]] = {
    "weight_norm": lambda nn: nn.utils.weight_norm(nn.Linear(4, 3)),
    "weight_norm of all": lambda nn: nn.utils.weight_norm(nn.Linear(4, 3), dim=None),
    "weight_norm of a convolution": lambda nn: nn.utils.weight_norm(nn.Conv1d(4, 3, 1), dim=1),
    "spectral_norm": lambda nn: nn.utils.spectral_norm(nn.Linear(4, 3), n_power_iterations=2),
    "spectral_norm, transposed": lambda nn: nn.utils.spectral_norm(nn.ConvTranspose1d(4, 3, 1)),
    "parametrized weight_norm": lambda nn: nn.utils.parametrizations.weight_norm(nn.Linear(4, 3)),
    "parametrized weight_norm of all": lambda nn: nn.utils.parametrizations.weight_norm(nn.Linear(4, 3), dim=None),
    "parametrized spectral_norm": lambda nn: nn.utils.parametrizations.spectral_norm(nn.Linear(4, 3)),
    "of a vector": lambda nn: nn.utils.parametrizations.spectral_norm(nn.Linear(4, 3), "bias"),
    "reflections": lambda nn: nn.utils.parametrizations.orthogonal(nn.Linear(4, 3)),
    "tall reflections": lambda nn: nn.utils.parametrizations.orthogonal(nn.Linear(4, 6)),
    "exponential": lambda nn: nn.utils.parametrizations.orthogonal(nn.Linear(4, 4)),
    "Cayley": lambda nn: nn.utils.parametrizations.orthogonal(nn.Linear(4, 4), orthogonal_map="cayley"),
    "tall Cayley": lambda nn: nn.utils.parametrizations.orthogonal(nn.Linear(4, 5), orthogonal_map="cayley"),
    "no base": lambda nn: nn.utils.parametrizations.orthogonal(
        nn.Linear(4, 4), orthogonal_map="householder", use_trivialization=False
    ),
    "pruned": lambda nn: nn.utils.prune.l1_unstructured(nn.Linear(4, 3), "weight", 0.4),
    "pruned slices": lambda nn: nn.utils.prune.ln_structured(nn.Linear(4, 3), "weight", 1, 2, 0),
    "pruned twice": lambda nn: nn.utils.prune.l1_unstructured(
        nn.utils.prune.l1_unstructured(nn.Linear(4, 3), "weight", 3), "weight", 0.5
    ),
}


def inputs(model: Any) -> Any:
    x = np.random.default_rng(0).normal(size=(2, 4)).astype(np.float32)
    return x[:, :, None] if "Conv" in type(model).__name__ else x


@pytest.mark.parametrize("name", MAKERS)
def test_ours_is_pytorchs(name: str) -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("torch.nn.utils.prune")
    torch.manual_seed(3)
    theirs = MAKERS[name](torch.nn)
    ad.manual_seed(3)
    model = MAKERS[name](nn)
    assert repr(model) == repr(theirs)
    x = inputs(theirs)
    for training in (True, True, False):
        model.train(training), theirs.train(training)
        expected, out = theirs(torch.from_numpy(x)), model(ad.from_numpy(x))
        np.testing.assert_allclose(out.detach().numpy(), expected.detach().numpy(), rtol=1e-4, atol=1e-5)
        state = model.state_dict()
        assert list(state) == list(theirs.state_dict())
        for key, value in theirs.state_dict().items():
            np.testing.assert_allclose(state[key].numpy(), value.numpy(), rtol=1e-4, atol=1e-5, err_msg=key)
        model.zero_grad(), theirs.zero_grad()
        expected.square().sum().backward(), out.square().sum().backward()
        for (key, p), (ours, q) in zip(theirs.named_parameters(), model.named_parameters(), strict=True):
            assert key == ours
            np.testing.assert_allclose(q.grad.numpy(), p.grad.numpy(), rtol=1e-3, atol=1e-4, err_msg=key)


@pytest.mark.parametrize("name", MAKERS)
def test_a_training_step_compiles(name: str) -> None:
    pytest.importorskip("llvmlite")
    losses = []
    for compiles in (lambda f: f, ad.compile):
        ad.manual_seed(0)
        model = MAKERS[name](nn)
        optimizer = optim.SGD(model.parameters(), lr=0.1)

        def step(x: Any, model: Any = model, optimizer: Any = optimizer) -> Any:
            optimizer.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            optimizer.step()
            return loss

        run = compiles(step)
        losses.append([run(ad.from_numpy(inputs(model)) * scale).item() for scale in (0.5, 1.0, 0.7)])
    np.testing.assert_allclose(losses[1], losses[0], rtol=2e-5)


class Symmetric(nn.Module):
    def forward(self, x: Any) -> Any:
        return x.triu() + x.triu(1).mT

    def right_inverse(self, a: Any) -> Any:
        return a.triu()


class Doubled(nn.Module):
    def forward(self, x: Any) -> Any:
        return x * 2


class Column(nn.Module):
    def forward(self, x: Any) -> Any:
        return x[:, :1]


def test_one_after_the_other_and_away_again() -> None:
    layer: Any = nn.Linear(3, 3)
    kind, weight = type(layer), layer.weight
    parametrize.register_parametrization(layer, "weight", Symmetric())
    assert parametrize.is_parametrized(layer, "weight")
    assert not parametrize.is_parametrized(layer, "bias")
    assert parametrize.type_before_parametrizations(layer) is kind
    assert isinstance(layer, kind)
    assert type(layer).__name__ == "ParametrizedLinear"
    assert layer.parametrizations.weight.original is weight
    assert (layer.weight == layer.weight.mT).all()
    parametrize.register_parametrization(layer, "weight", Doubled())
    assert (layer.weight == 2 * layer.parametrizations["weight"][0](weight)).all()
    twin = copy.deepcopy(layer)
    before = layer.weight.detach().clone()
    parametrize.remove_parametrizations(layer, "weight")
    assert type(layer) is kind
    assert layer.weight is weight
    assert (weight == before).all()
    assert (twin.weight == before).all()
    assert twin.parametrizations.weight.original is not weight
    assert_raises(RuntimeError, "Serialization of parametrized modules", pickle.dumps, twin)


def test_assignment_goes_through_the_inverse() -> None:
    layer: Any = parametrize.register_parametrization(nn.Linear(2, 2), "weight", Symmetric())
    layer.weight = ad.tensor([[1.0, 2.0], [2.0, 5.0]])
    assert layer.parametrizations.weight.original.tolist() == [[1.0, 2.0], [0.0, 5.0]]
    assert layer.weight.tolist() == [[1.0, 2.0], [2.0, 5.0]]
    parametrize.remove_parametrizations(layer, "weight", leave_parametrized=False)
    assert layer.weight.tolist() == [[1.0, 2.0], [0.0, 5.0]]
    other: Any = parametrize.register_parametrization(nn.Linear(2, 2), "weight", Doubled())
    with pytest.raises(RuntimeError, match="parametrization Doubled does not implement right_inverse"):
        other.weight = ad.ones(2, 2)


def test_cached_computes_once() -> None:
    layer: Any = parametrize.register_parametrization(nn.Linear(2, 2), "weight", Doubled())
    assert layer.weight is not layer.weight
    with parametrize.cached():
        assert layer.weight is layer.weight


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match="Registering a parametrization may not change the shape of the tensor"):
        parametrize.register_parametrization(nn.Linear(2, 2), "weight", Column())
    wide: Any = parametrize.register_parametrization(nn.Linear(2, 2), "weight", Column(), unsafe=True)
    assert wide.weight.shape == (2, 1)
    with pytest.raises(ValueError, match="does not have a parameter, a buffer, or a parametrized element"):
        parametrize.register_parametrization(nn.Linear(2, 2), "gain", Doubled())
    with pytest.raises(ValueError, match="does not have a parametrization on weight"):
        parametrize.remove_parametrizations(nn.Linear(2, 2), "weight")
    with pytest.raises(ValueError, match="n_power_iterations"):
        parametrizations.spectral_norm(nn.Linear(2, 2), n_power_iterations=0)
    with pytest.raises(ValueError, match="orthogonal_map has to be one of"):
        parametrizations.orthogonal(nn.Linear(2, 2), orthogonal_map="fast")
    with pytest.raises(ValueError, match="Cannot leave unparametrized"):
        parametrize.remove_parametrizations(parametrizations.weight_norm(nn.Linear(2, 2)), "weight", False)


def test_transferred_to_another() -> None:
    layer = parametrizations.weight_norm(nn.Linear(2, 3))
    other: Any = parametrize.transfer_parametrizations_and_params(layer, nn.Linear(2, 3))
    assert (other.weight == layer.weight).all()


def test_old_checkpoints_of_weight_norm_load() -> None:
    old = nn.utils.weight_norm(nn.Linear(4, 3))
    new: Any = parametrizations.weight_norm(nn.Linear(4, 3))
    new.load_state_dict(old.state_dict())
    x = ad.randn(2, 4)
    assert (new(x) == old(x)).all()


@pytest.mark.parametrize("kind", ["weight", "spectral"])
def test_old_norms_are_removed(kind: str) -> None:
    norm, remove = getattr(nn.utils, f"{kind}_norm"), getattr(nn.utils, f"remove_{kind}_norm")
    layer: Any = norm(nn.Linear(4, 3)).eval()
    x = ad.randn(2, 4)
    before = layer(x)
    assert_raises(RuntimeError, f"Cannot register two {kind}_norm hooks", norm, layer)
    remove(layer)
    assert sorted(layer.state_dict()) == ["bias", "weight"]
    np.testing.assert_allclose(layer(x).detach().numpy(), before.detach().numpy(), rtol=1e-6)
    assert_raises(ValueError, f"{kind}_norm of 'weight' not found", remove, layer)


def test_fused_with_a_normalisation() -> None:
    ad.manual_seed(0)
    for make, fuse, shape, more in (
        (lambda: nn.Conv2d(3, 4, 2), nn.utils.fuse_conv_bn_eval, (2, 3, 5, 5), {}),
        (lambda: nn.ConvTranspose2d(3, 4, 2), nn.utils.fuse_conv_bn_eval, (2, 3, 5, 5), {"transpose": True}),
        (lambda: nn.Linear(3, 4), nn.utils.fuse_linear_bn_eval, (2, 3), {}),
    ):
        layer: Any = make()
        norm: Any = nn.BatchNorm1d(4) if len(shape) == 2 else nn.BatchNorm2d(4)
        x = ad.randn(*shape)
        norm(layer(x))
        assert_raises(AssertionError, "Fusion only for eval", fuse, layer, norm, **more)
        layer.eval(), norm.eval()
        np.testing.assert_allclose(
            fuse(layer, norm, **more)(x).detach().numpy(), norm(layer(x)).detach().numpy(), rtol=1e-4, atol=1e-5
        )


def test_skip_init_draws_nothing() -> None:
    place = ad.get_rng_state()
    layer = nn.utils.skip_init(nn.Linear, 4, 3)
    assert layer.weight.shape == (3, 4)
    assert not layer.weight.any()
    assert not layer.bias.any()
    assert (ad.get_rng_state() == place).all()
    assert_raises(RuntimeError, "Module must support a 'device' arg", nn.utils.skip_init, nn.ReLU)


def test_pruning_comes_and_goes() -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("torch.nn.utils.prune")
    values = np.random.default_rng(1).normal(size=(3, 4)).astype(np.float32)
    states = []
    for library, tools in ((torch, torch.nn.utils.prune), (ad, prune)):
        layer = library.nn.Linear(4, 3)
        with library.no_grad():
            layer.weight.copy_(library.from_numpy(values.copy()))
        tools.custom_from_mask(layer, "bias", library.tensor([1.0, 0.0, 1.0]))
        tools.ln_structured(layer, "weight", 0.5, 1, 1)
        tools.l1_unstructured(layer, "weight", 2)
        tools.identity(layer, "weight")
        assert tools.is_pruned(layer)
        states.append({key: value.numpy().copy() for key, value in layer.state_dict().items() if "weight" in key})
        tools.remove(layer, "weight"), tools.remove(layer, "bias")
        assert not tools.is_pruned(layer)
        states[-1]["left"] = layer.weight.detach().numpy().copy()
        assert_raises(ValueError, "has to be pruned before pruning can be removed", tools.remove, layer, "weight")
    assert list(states[0]) == list(states[1])
    for key, value in states[0].items():
        np.testing.assert_array_equal(states[1][key], value)


def test_orthogonal_and_complex_weights_have_the_largest_singular_value_1() -> None:
    layer = nn.Linear(2, 2, dtype=ad.complex64)
    with ad.no_grad():
        layer.weight.copy_(ad.tensor([[3 + 4j, 0], [0, 1j]]))
    parametrizations.spectral_norm(layer)
    np.testing.assert_allclose(layer.weight.detach().numpy(), [[0.6 + 0.8j, 0], [0, 0.2j]], atol=1e-5)


def test_norms_of_weights_without_a_shape_are_refused() -> None:
    with pytest.raises(ValueError, match="`WeightNorm` can't have uninitialized parameters"):
        nn.utils.weight_norm(nn.LazyLinear(3))
    with pytest.raises(ValueError, match="`SpectralNorm` can't have uninitialized parameters"):
        nn.utils.spectral_norm(nn.LazyLinear(3))


def test_a_module_called_with_other_parameters_under_an_old_name() -> None:
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        layer = nn.Linear(2, 1)
        out = nn.utils.stateless.functional_call(layer, {"weight": ad.ones(1, 2), "bias": ad.zeros(1)}, ad.ones(3, 2))
    assert out.tolist() == [[2.0]] * 3
    assert [w.category for w in seen] == [FutureWarning]


def test_a_state_dict_tells_that_spectral_norm_has_both_vectors() -> None:
    layer = nn.utils.spectral_norm(nn.Linear(3, 4))
    assert layer.state_dict()._metadata[""] == {"version": 1, "spectral_norm": {"weight.version": 1}}
    nn.utils.remove_spectral_norm(layer)
    assert layer.state_dict()._metadata[""] == {"version": 1}


def test_spectral_norm_takes_checkpoints_from_before_it_had_both_vectors() -> None:
    torch = pytest.importorskip("torch")
    x = np.random.default_rng(0).normal(size=(2, 3)).astype(np.float32)
    found: list[Any] = []
    for library, make in ((ad, ad.from_numpy), (torch, torch.from_numpy)):
        library.manual_seed(0)
        layer = library.nn.utils.spectral_norm(library.nn.Linear(3, 4))
        weight = np.random.default_rng(1).normal(size=(4, 3)).astype(np.float32)
        layer.weight_orig.data.copy_(make(weight))
        layer.bias.data.zero_()
        layer.weight_u.data.copy_(make(np.full(4, 0.5, np.float32)))
        layer(make(x))
        state = layer.state_dict()
        del state._metadata[""]["spectral_norm"], state["weight_v"]
        assert_raises(RuntimeError, r'Missing key.*"weight"', layer.load_state_dict, state)
        state["weight"] = layer.weight.detach().clone()
        fresh = library.nn.utils.spectral_norm(library.nn.Linear(3, 4)).eval()
        fresh.load_state_dict(state)
        layer.eval()
        np.testing.assert_allclose(fresh(make(x)).detach().numpy(), layer(make(x)).detach().numpy(), 1e-4, 1e-6)
        found.append(fresh.weight_v.numpy())
    np.testing.assert_allclose(*found, rtol=1e-4)
