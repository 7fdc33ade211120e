"""The optimizers' numbers are PyTorch's."""

from typing import Any

import numpy as np
import pytest
from tests.support.optimizer_twins import (
    SHAPES,
    arrays,
    assert_same_path,
    give_gradients,
    parameters,
    torch_parameters,
    walk,
)

import adjoint as ad
from adjoint.optim.step import hyperparameters

SGD: list[dict[str, Any]] = [
    {}, {"weight_decay": 0.1}, {"maximize": True}, {"momentum": 0.9}, {"momentum": 0.9, "dampening": 0.3},
    {"momentum": 0.9, "nesterov": True}, {"momentum": 0.8, "weight_decay": 0.05, "nesterov": True, "maximize": True},
    {"momentum": 0.5, "dampening": 1, "weight_decay": 0.05, "maximize": True},
]  # fmt: skip
ADAM: list[dict[str, Any]] = [
    {}, {"betas": (0.5, 0.9)}, {"betas": (0.3, 0.99)}, {"betas": (0.0, 0.99)}, {"eps": 1e-3}, {"weight_decay": 0.1},
    {"weight_decay": 0.0}, {"amsgrad": True}, {"maximize": True},
    {"amsgrad": True, "maximize": True, "weight_decay": 0.2, "betas": (0.8, 0.9), "eps": 1e-5},
]  # fmt: skip
CASES = [
    *(("SGD", options) for options in SGD), *(("Adam", options) for options in ADAM),
    ("Adam", {"weight_decay": 0.1, "decoupled_weight_decay": True}), *(("AdamW", options) for options in ADAM),
    ("Adadelta", {}), ("Adadelta", {"rho": 0.4, "eps": 1e-3, "weight_decay": 0.1, "maximize": True}), ("Adafactor", {}),
    ("Adafactor", {"beta2_decay": -0.5, "eps": (1e-3, 1e-2), "d": 2.0, "weight_decay": 0.1, "maximize": True}),
    ("Adagrad", {}),
    ("Adagrad", {"lr_decay": 0.1, "weight_decay": 0.1, "initial_accumulator_value": 0.2, "maximize": True}),
    ("Adamax", {}), ("Adamax", {"betas": (0.3, 0.9), "eps": 1e-3, "weight_decay": 0.1, "maximize": True}),
    ("ASGD", {}), ("ASGD", {"lambd": 0.1, "alpha": 0.5, "t0": 3, "weight_decay": 0.1, "maximize": True}),
    ("NAdam", {}), ("NAdam", {"betas": (0.3, 0.9), "weight_decay": 0.1, "momentum_decay": 0.02, "maximize": True}),
    ("NAdam", {"weight_decay": 0.1, "decoupled_weight_decay": True}), ("RAdam", {}),
    ("RAdam", {"betas": (0.3, 0.6), "weight_decay": 0.1}),
    ("RAdam", {"betas": (0.8, 0.9), "weight_decay": 0.1, "decoupled_weight_decay": True, "maximize": True}),
    ("RMSprop", {}), ("RMSprop", {"alpha": 0.4, "centered": True}),
    ("RMSprop", {"centered": True, "momentum": 0.6, "eps": 1e-3, "weight_decay": 0.1, "maximize": True}),
    ("Rprop", {}), ("Rprop", {"etas": (0.4, 1.7), "step_sizes": (1e-3, 0.1), "maximize": True}),
]  # fmt: skip
NAMES = sorted({name for name, _ in CASES})
named = pytest.mark.parametrize(("name", "options"), CASES)


@named
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_same_path_as_pytorch(name: str, options: dict[str, Any], dtype: str) -> None:
    torch = pytest.importorskip("torch")
    params, theirs = parameters(dtype), torch_parameters(torch, dtype)
    ours = walk(getattr(ad.optim, name)(params, lr=0.05, **options), params, ad.tensor, dtype, range(25))
    reference = getattr(torch.optim, name)(theirs, lr=0.05, foreach=False, **options)
    assert_same_path(ours, walk(reference, theirs, torch.tensor, dtype, range(25)), dtype)


@named
def test_settings_as_tensors_give_the_same_bits(
    name: str, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A traced step gets each number as a 0-d float64 tensor."""
    params = parameters()
    plain = walk(getattr(ad.optim, name)(params, lr=0.05, **options), params, ad.tensor, "float32", range(6))

    def as_tensor(holder: Any, key: Any) -> ad.Tensor:
        value = holder[key[0]][key[1]] if isinstance(key, tuple) else holder[key]
        return ad.tensor(float(value), dtype=ad.float64)

    monkeypatch.setattr(hyperparameters, "runtime_input", as_tensor)
    params = parameters()
    traced = walk(getattr(ad.optim, name)(params, lr=0.05, **options), params, ad.tensor, "float32", range(6))
    for here, there in zip(plain, traced, strict=True):
        for a, b in zip(here, there, strict=True):
            np.testing.assert_array_equal(a, b)


@named
def test_a_step_reads_no_value(name: str, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    params = parameters()
    optimizer = getattr(ad.optim, name)(params, lr=0.05, **options)
    for step in range(3):
        give_gradients(params, ad.tensor, "float32", step)
        with monkeypatch.context() as patch:
            for reader in ("numpy_view", "numpy", "item", "tolist", "__bool__", "__float__", "__int__", "__array__"):
                patch.setattr(ad.Tensor, reader, _refuse)
            optimizer.step()
    assert any((p.detach().numpy() != a).any() for p, a in zip(params, arrays("float32", 0), strict=True))


def _refuse(*_: Any, **__: Any) -> Any:
    raise AssertionError("a value was read")


@pytest.mark.parametrize("name", [n for n in NAMES if n != "Rprop"])
def test_options_of_groups_and_their_changes(name: str) -> None:
    torch = pytest.importorskip("torch")
    paths = []
    for library, params in ((ad, parameters("float64")), (torch, torch_parameters(torch, "float64"))):
        optim: Any = library.optim
        groups = [{"params": params[:1], "lr": 0.2}, {"params": params[1:], "weight_decay": 0.3, "maximize": True}]
        optimizer = getattr(optim, name)(groups, lr=0.01)
        path = walk(optimizer, params, library.tensor, "float64", range(5))
        optimizer.param_groups[0]["lr"] = 0.003
        optimizer.param_groups[1]["weight_decay"] = 0.0
        if name == "SGD":
            optimizer.param_groups[1]["momentum"] = 0.7
        elif "betas" in optimizer.defaults:
            optimizer.param_groups[1]["betas"] = (0.7, 0.8)
        paths.append(path + walk(optimizer, params, library.tensor, "float64", range(5, 12)))
    assert_same_path(paths[0], paths[1], "float64")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("shape", [(), (1,)])
def test_learning_rate_as_a_tensor(name: str, shape: tuple[int, ...]) -> None:
    params, plain = parameters("float64"), parameters("float64")
    rate = ad.full(shape, 0.05, dtype=ad.float64)
    ours = walk(getattr(ad.optim, name)(params, lr=rate), params, ad.tensor, "float64", range(5))
    assert_same_path(
        ours, walk(getattr(ad.optim, name)(plain, lr=0.05), plain, ad.tensor, "float64", range(5)), "float64"
    )


def test_amsgrad_may_be_switched_on_later() -> None:
    params = parameters()
    optimizer = ad.optim.Adam(params)
    walk(optimizer, params, ad.tensor, "float32", range(3))
    optimizer.param_groups[0]["amsgrad"] = True
    walk(optimizer, params, ad.tensor, "float32", range(3, 4))
    entries = optimizer.state[params[0]]
    assert ad.equal(entries["max_exp_avg_sq"], entries["exp_avg_sq"])


@pytest.mark.parametrize(
    ("name", "options", "entries"),
    [
        ("SGD", {}, set()),
        ("SGD", {"momentum": 0.9}, {"momentum_buffer"}),
        ("Adam", {}, {"step", "exp_avg", "exp_avg_sq"}),
        ("AdamW", {"amsgrad": True}, {"step", "exp_avg", "exp_avg_sq", "max_exp_avg_sq"}),
        ("RMSprop", {"momentum": 0.9}, {"step", "square_avg", "momentum_buffer"}),
    ],
)
def test_state_has_pytorchs_entries(name: str, options: dict[str, Any], entries: set[str]) -> None:
    params = parameters("float64")
    optimizer = getattr(ad.optim, name)(params, **options)
    walk(optimizer, params, ad.tensor, "float64", range(4, 6))  # the last parameter has no gradient at step 4
    for p, shape, steps in zip(params, SHAPES, (2, 2, 1), strict=True):
        state = optimizer.state[p]
        assert state.keys() == entries
        for entry, value in state.items():
            assert not value.requires_grad
            if entry == "step":
                assert (value.shape, value.dtype, value.item()) == ((), ad.float32, steps)
            else:
                assert (value.shape, value.dtype) == (shape, ad.float64)


@pytest.mark.parametrize("options", [{}, {"momentum": 0.9}, {"momentum": 0.9, "nesterov": True}, {"weight_decay": 0.2}])
def test_differentiable_steps_are_recorded(options: dict[str, Any]) -> None:
    torch = pytest.importorskip("torch")
    slopes = []
    for library in (ad, torch):
        lib: Any = library
        start = lib.tensor([1.0, -2.0, 3.0], requires_grad=True)
        p = start * 1.0
        optimizer = lib.optim.SGD([p], lr=0.1, differentiable=True, **options)
        for power in (2, 3):
            p.retain_grad()
            p.grad = start**power
            optimizer.step()
        slopes.append(lib.autograd.grad(p.sum(), start)[0].detach().numpy())
    np.testing.assert_allclose(slopes[0], slopes[1], rtol=1e-5)
