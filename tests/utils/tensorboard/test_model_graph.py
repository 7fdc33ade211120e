"""Nodes of a model's graph are named by the modules that made them."""

from types import SimpleNamespace
from typing import Any

import pytest

import adjoint as ad
from adjoint import nn
from adjoint.utils.tensorboard import model_graph


class Nodes(list[SimpleNamespace]):
    """What stands for the nodes of TensorBoard's GraphDef."""

    def add(self, **fields: Any) -> SimpleNamespace:
        shapes = SimpleNamespace(list=SimpleNamespace(shape=[]))
        self.append(SimpleNamespace(**fields, attr={"_output_shapes": shapes}))
        return self[-1]


def import_stand_in(name: str) -> Any:
    shape = SimpleNamespace(Dim=lambda size: size)
    return SimpleNamespace(
        GraphDef=lambda: SimpleNamespace(node=Nodes()),
        TensorShapeProto=type("Shape", (), {"Dim": shape.Dim, "__new__": lambda cls, dim: dim}),
    )


@pytest.fixture(autouse=True)
def without_tensorboard(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_graph, "import_tensorboard", import_stand_in)


def test_nodes_are_in_the_innermost_module_and_name_their_inputs() -> None:
    model = nn.Sequential(nn.Linear(4, 3), nn.Sequential(nn.ReLU(), nn.Linear(3, 2)))
    nodes = model_graph.make_model_graph(model, ad.ones(1, 4)).node
    places = {node.op: node.name.rpartition("/")[0] for node in nodes if node.op in {"Relu", "Output"}}
    assert places == {"Relu": "Sequential/1/0", "Output": "output"}
    assert {"input/0", "Sequential/0/weight", "Sequential/1/1/bias"} <= {node.name for node in nodes}
    known = {node.name for node in nodes}
    assert all(name in known for node in nodes for name in node.input)
    last = nodes[-1]
    assert last.attr["_output_shapes"].list.shape == [[1, 2]]


def test_what_the_model_does_itself_is_directly_in_it() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(2, 2)

        def forward(self, x: ad.Tensor, scale: ad.Tensor) -> ad.Tensor:
            return self.linear(x).exp() * scale

    nodes = model_graph.make_model_graph(Model(), (ad.ones(3, 2), ad.ones(2))).node
    assert [node.name.rpartition("_")[0] for node in nodes if node.op in {"Exp", "Mul"}] == ["Model/Exp", "Model/Mul"]


def test_the_model_is_left_as_it_was() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2), nn.Dropout())
    model[1].eval()
    x = ad.randn(4, 2)
    before, state = {name: value.clone() for name, value in model.state_dict().items()}, ad.get_rng_state()
    model_graph.make_model_graph(model, x)
    assert [module.training for module in model.modules()] == [True, True, False, True]
    assert all(ad.equal(before[name], value) for name, value in model.state_dict().items())
    assert ad.equal(state, ad.get_rng_state())
    assert not x.requires_grad
    assert model[0]._forward_hooks == {}


def test_a_deep_graph_is_walked() -> None:
    class Deep(nn.Module):
        def forward(self, x: ad.Tensor) -> ad.Tensor:
            for _ in range(3000):
                x = x * 1.5
            return x

    assert len(model_graph.make_model_graph(Deep(), ad.ones(1)).node) == 3002


def test_without_a_graph_the_error_says_so() -> None:
    with pytest.raises(ValueError, match="no result of the model requires grad"):
        model_graph.make_model_graph(nn.Identity(), ad.ones(2, dtype=ad.int64))
