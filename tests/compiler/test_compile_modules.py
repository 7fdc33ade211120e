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


@pytest.mark.parametrize("reads", [False, True])
def test_a_number_of_a_module_that_the_program_counts_up_is_none_of_the_librarys(reads: bool) -> None:
    """`model.global_step += 1` beside the step makes no new program, and a forward that reads a number sees it."""

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer, self.global_step, self.scale = nn.Linear(3, 2), 0, 1.0

        def forward(self, x: Any) -> Any:
            return self.layer(x) * self.scale if reads else self.layer(x)

    model = Net()

    @ad.compile
    def step(x: Any) -> Any:
        loss = model(x).sum()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        model.zero_grad()
        return loss

    for n in range(8):
        expected = model(ad.ones(2, 3)).sum().item()
        assert step(ad.ones(2, 3)).item() == pytest.approx(expected, abs=1e-4)
        model.global_step += 1
        model.scale += n > 3
    assert step.compilations == 1 + reads


def test_a_number_that_a_module_of_the_library_reads_is_compared() -> None:
    layer = nn.Dropout(0.0)
    step = ad.compile(lambda x: layer(x).sum())
    assert step(ad.ones(64)).item() == 64
    layer.p = 1.0
    assert step(ad.ones(64)).item() == 0
