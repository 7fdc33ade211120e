"""Modules of graphs: they train, compile, change and hold modules."""

from __future__ import annotations

import sys
import traceback
from typing import Any

import pytest

import adjoint as ad
from adjoint import fx, nn, optim


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 8)
        self.rest = nn.Sequential(nn.Tanh(), nn.Linear(8, 1))
        self.scale = nn.Parameter(ad.ones(1))

    def forward(self, x: Any) -> Any:
        return (self.rest(self.first(x)) * self.scale).pow(2).mean()


def losses_of(model: nn.Module, *, is_compiled: bool) -> list[float]:
    optimizer = optim.Adam(model.parameters(), lr=0.01)

    def step(x: ad.Tensor) -> ad.Tensor:
        optimizer.zero_grad()
        loss: ad.Tensor = model(x)
        loss.backward()
        optimizer.step()
        return loss

    run = ad.compile(step) if is_compiled else step
    x = ad.arange(12.0).reshape(3, 4) / 10
    return [run(x).item() for _ in range(4)]


@pytest.mark.parametrize("is_compiled", [False, True])
def test_a_traced_module_trains_as_the_module(is_compiled: bool) -> None:
    ad.manual_seed(0)
    expected = losses_of(Net(), is_compiled=is_compiled)
    ad.manual_seed(0)
    assert losses_of(fx.symbolic_trace(Net()), is_compiled=is_compiled) == expected


def test_a_compiled_call_follows_a_changed_graph() -> None:
    traced = fx.symbolic_trace(lambda x: ad.relu(x) + 1)
    run = ad.compile(lambda x: traced(x))
    x = ad.tensor([-1.0, 1.0])
    assert run(x).tolist() == [1.0, 2.0]
    (relu, _) = traced.graph.find_nodes(op="call_function")
    relu.target = ad.neg
    traced.recompile()
    assert run(x).tolist() == traced(x).tolist() == [2.0, 0.0]


def test_it_shares_the_modules_and_state_that_it_names() -> None:
    net = Net()
    traced = fx.symbolic_trace(net)
    assert type(traced).__name__ == "Net"
    assert traced.first is net.first
    assert traced.scale is net.scale
    assert traced.get_submodule("rest.1") is net.rest[1]
    assert list(traced.state_dict()) == ["scale", *(name for name in net.state_dict() if name != "scale")]
    with pytest.raises(RuntimeError, match="was not provided in ``root``"):
        fx.GraphModule({}, traced.graph)
    with pytest.raises(RuntimeError, match="Unsupported type 3 passed for root!"):
        fx.GraphModule(3, traced.graph)  # type: ignore[arg-type]


def test_modules_come_and_go() -> None:
    traced = fx.symbolic_trace(Net())
    assert traced.add_submodule("new.inner", nn.Identity())
    assert not traced.add_submodule("scale.inner", nn.Identity())
    assert traced.delete_submodule("new.inner")
    assert not traced.delete_submodule("new.inner")
    assert not traced.delete_submodule("absent.inner")
    traced.delete_all_unused_submodules()
    assert [name for name, _ in traced.named_modules()] == ["", "first", "rest", "rest.0", "rest.1"]


def test_tracebacks_show_the_line_of_the_code() -> None:
    traced = fx.symbolic_trace(lambda x: x @ x)
    try:
        traced(ad.ones(2, 3))
    except RuntimeError:
        text = "".join(traceback.format_exception(*sys.exc_info()))
    assert "matmul = x @ x" in text
    with pytest.raises(NotImplementedError, match="to_folder"):
        traced.to_folder("folder")


def test_another_graph_takes_its_place() -> None:
    traced = fx.symbolic_trace(lambda x: x + 1)
    traced.graph = fx.Tracer().trace(lambda x: x * 3)
    assert traced(ad.tensor(2.0)).item() == 6.0
    assert "x * 3" in traced.code
