"""A compiled module passes for the module: as a part of others, for copies, attributes and checkpoints."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest
from tests.support.steps import mlp

import adjoint as ad
from adjoint import nn, optim

pytest.importorskip("llvmlite")


def test_it_is_a_module_with_the_modules_attributes() -> None:
    model = mlp()
    compiled = ad.compile(model)
    assert isinstance(compiled, nn.Module)
    compiled.eval()
    assert not model.training
    compiled.gain = 3
    assert model.gain == 3
    del compiled.gain
    assert not hasattr(model, "gain")
    assert repr(compiled) == f"<compiled {model!r}>"
    assert list(compiled.state_dict()) == list(model.state_dict())
    compiled.load_state_dict(model.state_dict())
    assert len(optim.SGD(compiled.parameters(), lr=0.1).param_groups[0]["params"]) == len(list(model.parameters()))


def test_it_can_be_a_part_of_a_module_and_compiled_with_it() -> None:
    inner = mlp()
    compiled = ad.compile(inner)
    whole = nn.Sequential(compiled, nn.Linear(3, 1))
    x = ad.randn(4, 12)
    expected = whole[1](inner(x)).detach().numpy()
    assert whole(x).detach().numpy() == pytest.approx(expected, rel=1e-5)
    assert len(list(whole.parameters())) == len(list(inner.parameters())) + 2
    outer = ad.compile(whole)
    assert outer(x).detach().numpy() == pytest.approx(expected, rel=1e-5)
    assert (outer.compilations, compiled.compilations) == (1, 1)


def test_copies_are_compiled_functions_of_copies() -> None:
    compiled = ad.compile(mlp())
    x = ad.randn(2, 12)
    expected = compiled(x).tolist()
    for twin in (copy.deepcopy(compiled), pickle.loads(pickle.dumps(compiled))):
        assert twin.function is not compiled.function
        assert twin.compilations == 0
        assert twin(x).tolist() == expected


def test_a_function_keeps_its_name_and_own_attributes() -> None:
    @ad.compile
    def doubled(x: Any) -> Any:
        """Twice x."""
        return x * 2

    doubled.note = "mine"
    assert (doubled.__name__, doubled.__doc__, doubled.note) == ("doubled", "Twice x.", "mine")
    assert not hasattr(doubled.function, "note")
    assert repr(doubled).startswith("<compiled <function")


def test_a_step_can_ask_whether_it_is_compiled() -> None:
    def f(x: Any) -> Any:
        return x, ad.compiler.is_compiling()

    x = ad.ones(1)
    assert f(x)[1] is False
    assert ad.compile(f)(x)[1] is True
    assert ad.func.vmap(lambda x: x * (2 if ad.compiler.is_compiling() else 1))(x).item() == 1.0
