"""Containers: used as the lists and dicts they look like, with their contents registered."""

from collections import OrderedDict
from typing import Any

import pytest
from tests.support.errors import assert_raises
from tests.support.oracle import torch

import adjoint as ad
from adjoint import nn


def sequence(library: Any) -> Any:
    return library.nn.Sequential(library.nn.ReLU(), library.nn.Tanh(), library.nn.Sigmoid(), library.nn.Identity())


def names(module: Any) -> Any:
    return [(name, type(child).__name__) for name, child in module.named_children()]


ACTIONS = [
    "m.append(nn.SiLU())", "m.extend([nn.SiLU(), nn.ELU()])", "m.pop(1)",
    "m.pop(-1)", "m.__setitem__(0, nn.SiLU())", "m.__setitem__(-1, nn.SiLU())", "m.__delitem__(0)",
    "m.__delitem__(slice(1, 3))", "m.__delitem__(-1)", "m[1:]", "m[::2]", "m[-1]", "m[7]", "m[-7]", "m + m",
    "m.add_module('x', nn.SiLU())",
    "len(m)", "[type(c).__name__ for c in m]", "m.append(5)", "nn.SiLU() in m", "m[0] in m",
]  # fmt: skip


@pytest.mark.parametrize("kind", ["Sequential", "ModuleList"])
@pytest.mark.parametrize("action", ACTIONS)
def test_as_lists(kind: str, action: str) -> None:
    assert _act(ad, kind, action) == _act(torch, kind, action)


def _act(library: Any, kind: str, action: str) -> Any:
    m = sequence(library)
    if kind == "ModuleList":
        m = library.nn.ModuleList(m)
    try:
        result = eval(action, {"m": m, "nn": library.nn})
    except (IndexError, TypeError, AssertionError, AttributeError) as error:
        return type(error).__name__
    shown = names(result) if isinstance(result, library.nn.Module) else result
    return names(m), type(result).__name__, shown


@pytest.mark.parametrize("kind", ["Sequential", "ModuleList"])
@pytest.mark.parametrize("index", [0, 1, 4, -1])
def test_insert(kind: str, index: int) -> None:
    module = sequence(ad) if kind == "Sequential" else nn.ModuleList(sequence(ad))
    expected = list(module)
    expected.insert(index, added := nn.SiLU())
    assert module.insert(index, added) is module
    assert list(module) == expected
    assert [name for name, _ in module.named_children()] == ["0", "1", "2", "3", "4"]
    assert_raises(AssertionError, "module should be of type", module.insert, 0, 5)


def test_sequential_of_names() -> None:
    net = nn.Sequential(OrderedDict([("a", nn.ReLU()), ("b", nn.Tanh())]))
    assert net.a is net[0]
    assert names(net[1:]) == [("b", "Tanh")]
    net[1] = nn.SiLU()
    assert names(net) == [("a", "ReLU"), ("b", "SiLU")]
    assert net(ad.tensor([-1.0])).item() == 0.0
    assert isinstance(net[:1], nn.Sequential)


def test_sequential_takes_modules_only() -> None:
    assert_raises(TypeError, "is not a Module subclass", lambda: nn.Sequential(lambda x: x))
    assert_raises(ValueError, "supports only objects of Sequential class", lambda: nn.Sequential() + nn.ModuleList())


def test_module_list_has_no_forward_and_registers() -> None:
    layers = nn.ModuleList(nn.Linear(2, 2) for _ in range(2))
    layers += [nn.Linear(2, 1)]
    assert len(list(layers.parameters())) == 6
    with pytest.raises(NotImplementedError, match=r'Module \[ModuleList\] is missing the required "forward" function'):
        layers(ad.zeros(2))


def test_module_dict() -> None:
    layers = nn.ModuleDict({"a": nn.ReLU(), "b": nn.Tanh()})
    layers["c"] = nn.SiLU()
    layers.update([("d", nn.ELU())])
    assert list(layers) == list(layers.keys()) == ["a", "b", "c", "d"]
    assert "a" in layers
    assert len(layers) == 4
    assert [type(m).__name__ for m in layers.values()] == ["ReLU", "Tanh", "SiLU", "ELU"]
    assert isinstance(layers.pop("a"), nn.ReLU)
    del layers["b"]
    assert [k for k, _ in layers.items()] == ["c", "d"]
    assert list(nn.ModuleDict(layers)) == ["c", "d"]
    layers.clear()
    assert not len(layers)
    with pytest.raises(KeyError):
        layers["c"]


def test_parameter_list() -> None:
    kept = nn.ParameterList([nn.Parameter(ad.ones(1)), ad.zeros(2, 3)])
    kept.append(ad.ones(2))
    kept += [nn.Parameter(ad.ones(4))]
    assert [n for n, _ in kept.named_parameters()] == ["0", "1", "2", "3"]
    assert all(p.requires_grad for p in kept)
    assert isinstance(kept[1], nn.Parameter)
    assert kept[-1] is kept[3]
    assert len(kept[1:]) == 3
    kept[0] = ad.zeros(5)
    assert (tuple(kept[0].shape), len(kept)) == ((5,), 4)
    assert_raises(IndexError, "index 4 is out of range", lambda: kept[4])
    assert repr(kept).splitlines()[:3] == [
        "ParameterList(",
        "    (0): Parameter containing: [adjoint.float32 of size 5]",
        "    (1): Parameter containing: [adjoint.float32 of size 2x3]",
    ]


def test_changes_are_counted() -> None:
    layers = nn.ModuleList([nn.ReLU()])
    for action in (lambda: layers.append(nn.Tanh()), lambda: layers.insert(0, nn.SiLU()), lambda: layers.pop(0)):
        before = layers._version
        action()
        assert layers._version > before


def test_lists_of_parameters_hold_other_values_too() -> None:
    held = nn.ParameterList([ad.ones(2), 5, "x"])
    assert (held[1], held[2], len(held), list(held.state_dict())) == (5, "x", 3, ["0"])
    assert "(1): Object of type: int" in repr(held)
    with pytest.raises(TypeError, match=r"ParameterList\.extend should be called with an iterable, but got Parameter"):
        held.extend(nn.Parameter(ad.ones(2)))
    assert_raises(RuntimeError, "ParameterList should not be called", lambda: held(ad.ones(1)))


def test_chains_repeated_and_joined() -> None:
    chain = nn.Sequential(nn.ReLU(), nn.Tanh())
    assert [type(m).__name__ for m in 2 * chain] == ["ReLU", "Tanh", "ReLU", "Tanh"]
    chain *= 2
    assert len(chain) == 4
    chain += nn.Sequential(nn.GELU())
    assert isinstance(chain[-1], nn.GELU)
    for times, error in ((0, ValueError), (1.5, TypeError)):
        with pytest.raises(error, match=r"factor|operand"):
            chain * times
    assert_raises(IndexError, "Index out of range: 10", lambda: chain.insert(10, nn.ReLU()))
    assert_raises(TypeError, r"Sequential\.extend should be called with an iterable, but got int", chain.extend, 3)
