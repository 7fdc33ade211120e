"""Modules of nodes: what is inferred from parameters and lines agrees with what hooks have seen."""

import threading
from collections.abc import Callable

import pytest

import adjoint as ad
import adjoint.nn.functional as F
from adjoint import nn
from adjoint.core.graph.node import GraphNode, Leaf
from adjoint.diagnosis.visualization.graph_contents import GraphContents
from adjoint.diagnosis.visualization.module_calls import ModuleCalls, ModuleTree


class Residual(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(channels)

    def forward(self, x: ad.Tensor) -> ad.Tensor:
        return F.relu(x + self.norm(self.convolution(x)))


class Pooled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(1, 4, 3)
        self.stages = nn.Sequential(Residual(4), nn.MaxPool2d(2), Residual(4))
        self.head = nn.Linear(4, 2)

    def forward(self, x: ad.Tensor) -> ad.Tensor:
        x = self.stages(self.stem(x).relu())
        return self.head(x.mean((2, 3)))


def attend(q: ad.Tensor, k: ad.Tensor, v: ad.Tensor) -> ad.Tensor:
    return (q @ k.transpose(-1, -2) / 2).softmax(-1) @ v


class Attention(nn.Module):
    def __init__(self, size: int) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(size, 3 * size), nn.Linear(size, size)

    def forward(self, x: ad.Tensor) -> ad.Tensor:
        return self.out(attend(*self.qkv(x).chunk(3, -1)))


class Gated(nn.Module):
    def __init__(self, size: int) -> None:
        super().__init__()
        self.scale = nn.Parameter(ad.ones(size))
        self.parts = nn.ModuleDict({"attention": Attention(size), "mixing": nn.Linear(size, size)})

    def gate(self, x: ad.Tensor) -> ad.Tensor:
        return x.sigmoid() * self.scale

    def forward(self, x: ad.Tensor) -> ad.Tensor:
        x = x * 2.0
        x = x + self.gate(self.parts["attention"](x))
        return x.exp() + self.parts["mixing"](x)


class Stack(nn.Module):
    def __init__(self, size: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Gated(size) for _ in range(3))
        self.norm = nn.LayerNorm(size)

    def forward(self, x: ad.Tensor) -> ad.Tensor:
        for layer in self.layers:
            x = layer(x)
        return self.norm(x)


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell, self.head = nn.GRUCell(3, 4), nn.Linear(4, 2)

    def forward(self, x: ad.Tensor) -> ad.Tensor:
        h = ad.zeros(2, 4)
        for t in range(3):
            h = self.cell(x[t], h)
        return self.head(h)


MODELS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "sequential": (lambda: nn.Sequential(nn.ReLU(), nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2), nn.ReLU()), (2, 3)),
    "nested": (lambda: nn.Sequential(nn.Sequential(nn.Linear(3, 3), nn.ReLU()), nn.Sequential(nn.ReLU())), (2, 3)),
    "convolutions": (Pooled, (2, 1, 8, 8)),
    "attention": (lambda: Attention(4), (2, 3, 4)),
    "stack": (lambda: Stack(4), (2, 3, 4)),
    "encoder": (lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16), 2), (3, 2, 8)),
    "multihead": (lambda: nn.Sequential(nn.LayerNorm(8), nn.TransformerEncoderLayer(8, 2, 16), nn.ReLU()), (3, 2, 8)),
    "recurrent": (Recurrent, (3, 2, 3)),
    "batch norm": (lambda: nn.Sequential(nn.BatchNorm1d(3), nn.Linear(3, 3), nn.BatchNorm1d(3), nn.ReLU()), (4, 3)),
}


def dotted(path: tuple[str, ...]) -> str:
    return path[-1].partition("#")[0] if path else ""


@pytest.mark.parametrize("name", MODELS)
def test_what_is_inferred_agrees_with_what_hooks_see(name: str) -> None:
    make, shape = MODELS[name]
    model = make()
    calls = ModuleCalls("model", model)
    with calls.record():
        result = model(ad.ones(*shape))
    nodes = GraphContents([("result", result)], {}).nodes
    code = test_what_is_inferred_agrees_with_what_hooks_see.__code__
    inferred = ModuleTree([("model", model)]).infer_paths(nodes, {code})
    for node in nodes:
        seen = f"model.{dotted(calls.path_of(node))}".replace("model.model", "model")
        guess = dotted(inferred.get(node, ()))
        assert guess, (node, seen)
        if takes_parameter(node):  # the owner's, though the module around may use it without a call
            assert f"{guess}.".startswith(f"{seen}."), (node, seen, guess)
        else:
            assert f"{seen}.".startswith(f"{guess}."), (node, seen, guess)


def takes_parameter(node: GraphNode) -> bool:
    return any(isinstance(parent, Leaf) for parent in node.parents)


def test_what_is_computed_from_parameters_is_of_their_module() -> None:
    model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU())
    nodes = GraphContents([("result", model(ad.ones(1, 1, 5, 5)))], {}).nodes
    inferred = ModuleTree([("model", model)]).infer_paths(nodes, set())
    [norm] = [node for node in nodes if node.op is not None and node.op.name == "standardize"]
    assert dotted(inferred[norm]) == "model.1"


def test_what_is_computed_around_a_model_is_in_no_module() -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.ReLU())
    x = ad.ones(2, 3, requires_grad=True)
    first = model(x.sin())
    loss = (model(first.cos()).exp()).sum()
    nodes = GraphContents([("loss", loss)], {}).nodes
    code = test_what_is_computed_around_a_model_is_in_no_module.__code__
    inferred = ModuleTree([("model", model)]).infer_paths(nodes, {code})
    outside = [node.op.name for node in nodes if node.op is not None and node not in inferred]
    assert outside == ["sin", "cos", "exp", "sum"]


def test_calls_of_other_threads_are_left_out() -> None:
    other = nn.Linear(2, 2)

    class Waiting(nn.Module):
        def forward(self, x: ad.Tensor) -> ad.Tensor:
            thread = threading.Thread(target=other, args=(ad.ones(1, 2),))
            thread.start()
            thread.join()
            return x * 2

    calls = ModuleCalls("model", model := Waiting())
    with calls.record():
        model(ad.ones(1, 2))
    assert list(calls.boxes) == ["model#1"]


def test_calls_end_where_forward_raises() -> None:
    class Failing(nn.Module):
        def forward(self, x: ad.Tensor) -> ad.Tensor:
            raise ValueError("no")

    class Caught(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner, self.layer = Failing(), nn.Linear(3, 3)

        def forward(self, x: ad.Tensor) -> ad.Tensor:
            with pytest.raises(ValueError, match="no"):
                self.inner(x)
            return self.layer(x) * 2

    model = Caught()
    calls = ModuleCalls("model", model)
    with calls.record():
        result = model(ad.ones(1, 3))
    paths = [calls.path_of(node) for node in GraphContents([("result", result)], {}).nodes]
    assert paths == [("model#1", "layer#1"), ("model#1",)]
