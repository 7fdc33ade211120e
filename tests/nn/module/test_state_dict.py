"""state_dict and load_state_dict: keys, messages, and that an error changes nothing."""

from collections import OrderedDict
from typing import Any

import pytest
from tests.support.oracle import torch

import adjoint as ad
from adjoint import nn


def model(nn: Any) -> Any:
    return nn.Sequential(
        OrderedDict([("conv", nn.Conv2d(1, 2, 3)), ("norm", nn.BatchNorm2d(2)), ("fc", nn.Linear(2, 3))])
    )


def values(module: Any) -> dict[str, Any]:
    return {name: t.tolist() for name, t in module.state_dict().items()}


def test_state_dict_is_detached_and_shares_memory() -> None:
    net = model(nn)
    state = net.state_dict()
    assert isinstance(state, OrderedDict)
    assert not state["fc.weight"].requires_grad
    assert state["fc.weight"].data_ptr() == net.fc.weight.data_ptr()
    assert net.state_dict(keep_vars=True)["fc.weight"] is net.fc.weight
    assert list(net.state_dict(prefix="net.")) == [f"net.{name}" for name in state]
    mine: dict[str, Any] = {"first": 1}
    assert net.fc.state_dict(destination=mine, prefix="x.") is mine
    assert list(mine) == ["first", "x.weight", "x.bias"]


def test_round_trip() -> None:
    net, other = model(nn), model(nn)
    net(ad.randn(2, 1, 3, 4).expand(2, 1, 3, 4).repeat(1, 1, 2, 1)[:, :, :5, :4])
    keys = other.load_state_dict(net.state_dict())
    assert keys == ([], [])
    assert values(other) == values(net)
    assert other.norm.num_batches_tracked.item() == 1


def test_loading_copies_and_assigning_does_not() -> None:
    net = model(nn)
    weight, state = net.fc.weight, model(nn).state_dict()
    net.load_state_dict(state)
    assert net.fc.weight is weight
    assert weight.data_ptr() != state["fc.weight"].data_ptr()
    assert weight.requires_grad
    net.fc.bias.requires_grad_(False)
    net.load_state_dict({name: t.double() for name, t in state.items()}, assign=True)
    assert isinstance(net.fc.weight, nn.Parameter)
    assert net.fc.weight is not weight
    assert net.fc.weight.dtype is ad.float64
    assert net.fc.weight.requires_grad
    assert not net.fc.bias.requires_grad
    assert list(net.state_dict()) == list(state)


def test_loading_converts_the_dtype() -> None:
    net = nn.Linear(2, 1)
    net.load_state_dict({"weight": ad.tensor([[1.5, 2.5]], dtype=ad.float64), "bias": ad.tensor([1])})
    assert (net.weight.tolist(), net.weight.dtype, net.bias.tolist()) == ([[1.5, 2.5]], ad.float32, [1.0])


CASES: list[Any] = [
    {"drop": ["fc.weight"]},
    {"drop": ["fc.weight", "conv.bias"]},
    {"add": {"other": (1,)}},
    {"drop": ["norm.running_mean"], "add": {"x.y": (2,), "fc.other": (1,)}},
    {"add": {"fc.weight": (3, 3)}},
    {"drop": ["fc.bias"], "add": {"fc.weight": (2, 3), "conv.weight": (2, 1, 3, 2), "new": (1,)}},
    {"add": {"fc.weight": None}},
]


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("strict", [True, False])
def test_messages_and_nothing_changed(case: Any, strict: bool) -> None:
    ours, theirs = _load(ad, case, strict), _load(torch, case, strict)
    assert ours == theirs


def _load(library: Any, case: Any, strict: bool) -> Any:
    net = model(library.nn)
    state = {name: t * 2 + 1 for name, t in net.state_dict().items()}
    for name in case.get("drop", ()):
        del state[name]
    for name, shape in case.get("add", {}).items():
        state[name] = 5 if shape is None else library.zeros(*shape)
    before = values(net)
    try:
        keys = net.load_state_dict(state, strict=strict)
    except RuntimeError as error:
        if library is ad:
            assert values(net) == before
        return str(error).replace("torch.", "").replace("adjoint.", "")
    return list(keys)


def test_not_a_mapping() -> None:
    with pytest.raises(TypeError, match="Expected state_dict to be dict-like, got"):
        nn.Linear(1, 1).load_state_dict([1])  # type: ignore[arg-type]


def test_saved_to_a_file(tmp_path: Any) -> None:
    net, other = model(nn), model(nn)
    ad.save(net.state_dict(), tmp_path / "model")
    other.load_state_dict(ad.load(tmp_path / "model"))
    assert values(other) == values(net)


def test_an_assigned_parameter_asks_for_a_gradient_where_its_predecessor_did() -> None:
    layer = nn.Linear(2, 1)
    layer.weight.requires_grad_(False)
    weight, bias = nn.Parameter(ad.ones(1, 2)), nn.Parameter(ad.ones(1), requires_grad=False)
    layer.load_state_dict({"weight": weight, "bias": bias}, assign=True)
    assert layer.weight is weight
    assert layer.bias is bias
    assert (layer.weight.requires_grad, layer.bias.requires_grad) == (False, True)


@pytest.mark.parametrize("value", [((1.0, 1.0), (2.0, 2.0)), 3])
def test_what_is_no_tensor_is_not_loaded(value: Any) -> None:
    for library in (ad, torch):
        layer = library.nn.Linear(2, 2, bias=False)
        for given in (value, layer.weight.detach().numpy().copy()):
            with pytest.raises(RuntimeError, match=r"expected torch\.Tensor or Tensor-like object from checkpoint but"):
                layer.load_state_dict({"weight": given})


def test_one_number_in_a_dimension_is_taken_for_one_without() -> None:
    torch = pytest.importorskip("torch")
    for library in (ad, torch):
        module = library.nn.Module()
        module.scale = library.nn.Parameter(library.tensor(1.0))
        module.load_state_dict({"scale": library.tensor([3.0])})
        assert (module.scale.item(), module.scale.dim()) == (3, 0)
        with pytest.raises(RuntimeError, match="size mismatch for scale"):
            module.load_state_dict({"scale": library.tensor([[3.0]])})
