"""`ad.visualize`: what it draws of tensors, models and compiled steps, and what it says of what it cannot draw."""

import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import adjoint as ad
import adjoint.nn.functional as F
from adjoint import nn
from adjoint.core.viewer.page import GraphPage
from adjoint.utils.checkpoint import checkpoint


def read(page: GraphPage) -> dict[str, Any]:
    found = re.search(r'<script type="application/json" id="document">(.*?)</script>', page.html, re.DOTALL)
    assert found is not None
    [graph] = json.loads(found[1])["graphs"]
    return graph


@pytest.fixture
def draw(tmp_path: Path) -> Any:
    return lambda *args, **kwargs: read(ad.visualize(*args, path=tmp_path / "graph.html", **kwargs))


def labels(graph: dict[str, Any], kind: str = "") -> list[str]:
    return [node["label"] for node in graph["nodes"] if kind in ("", node.get("kind", ""))]


def path_of(graph: dict[str, Any], node: dict[str, Any]) -> list[str]:
    groups = {group["key"]: group for group in graph.get("groups", [])}
    path: list[str] = []
    key = node.get("group", "")
    while key:
        path.insert(0, groups[key]["label"])
        key = groups[key].get("parent", "")
    return path


def paths(graph: dict[str, Any]) -> dict[str, list[list[str]]]:
    found: dict[str, list[list[str]]] = {}
    for node in graph["nodes"]:
        found.setdefault(node["label"], []).append(path_of(graph, node))
    return found


class Attention(nn.Module):
    def __init__(self, size: int) -> None:
        super().__init__()
        self.query, self.key, self.value = nn.Linear(size, size), nn.Linear(size, size), nn.Linear(size, size)
        self.result = nn.Linear(size, size)

    def forward(self, x: ad.Tensor) -> ad.Tensor:
        weights = (self.query(x) @ self.key(x).transpose(-1, -2)).softmax(-1)
        return self.result(weights @ self.value(x))


class Block(nn.Module):
    def __init__(self, size: int) -> None:
        super().__init__()
        self.norm, self.attention = nn.LayerNorm(size), Attention(size)
        self.mlp = nn.Sequential(nn.Linear(size, size), nn.GELU(), nn.Linear(size, size), nn.GELU())

    def forward(self, x: ad.Tensor) -> ad.Tensor:
        x = x + self.attention(self.norm(x))
        return x + self.mlp(x)


class Model(nn.Module):
    def __init__(self, size: int = 8) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block(size) for _ in range(3))
        self.head = nn.Sequential(nn.ReLU(), nn.Linear(size, 2), nn.ReLU())

    def forward(self, x: ad.Tensor) -> ad.Tensor:
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def test_a_loss_has_its_ops_leaves_and_its_name(draw: Any) -> None:
    w = ad.ones(3, requires_grad=True)
    loss = (w.sin() * w).sum()
    graph = draw(loss)
    assert sorted(labels(graph)) == ["loss", "mul", "sin", "sum", "w"]
    assert labels(graph, "leaf") == ["w"]
    assert [node["subtitle"] for node in graph["nodes"] if node["label"] == "loss"] == [f"f32[] = {loss.item():.6g}"]
    by_key = {node["key"]: node["label"] for node in graph["nodes"]}
    edges = [(by_key[e["source"]], by_key[e["target"]], e.get("label", ""), e.get("nbytes", 0)) for e in graph["edges"]]
    assert set(edges) == {
        ("w", "sin", "", 0), ("w", "mul", "", 0), ("sin", "mul", "f32[3]", 12), ("mul", "sum", "f32[3]", 12),
        ("sum", "loss", "", 0),
    }  # fmt: skip


def test_saved_values_have_their_bytes(draw: Any) -> None:
    w = ad.ones(3, requires_grad=True)
    graph = draw((w.sin() * w).sum())
    saved = {node["label"]: node["tables"][0]["rows"] for node in graph["nodes"] if "tables" in node}
    assert saved["sin"] == [["x", "f32[3]", "12", "of a leaf"]]
    assert ["x", "f32[3]", "12", ""] in saved["mul"]
    assert [node["amounts"] for node in graph["nodes"] if node["label"] == "mul"] == [{"saved bytes": 12}]


def test_nodes_know_the_lines_of_the_user(draw: Any) -> None:
    w = ad.ones(3, requires_grad=True)
    h = w.sin()
    loss = h.sum()
    line = test_nodes_know_the_lines_of_the_user.__code__.co_firstlineno + 2
    graph = draw(loss)
    assert {node["label"]: node["sites"] for node in graph["nodes"] if "sites" in node} == {
        "sin": [[0, line]], "sum": [[0, line + 1]],
    }  # fmt: skip


def expected_modules() -> dict[str, list[list[str]]]:
    blocks = [["blocks", str(i)] for i in range(3)]
    return {
        "standardize": [[*block, "norm"] for block in blocks],
        "softmax": [[*block, "attention"] for block in blocks],
        "add": [block for block in blocks for _ in range(2)],
        "gelu": [[*block, "mlp"] for block in blocks for _ in range(2)],
        "relu": [["head"]] * 2,
    }


def test_modules_of_a_loss_are_found_from_parameters_and_lines(draw: Any) -> None:
    model = Model()
    loss = F.cross_entropy(model(ad.ones(2, 4, 8))[:, 0], ad.tensor([0, 1]))
    found = paths(draw(loss))
    assert found["log_softmax"] == [[]]
    for label, expected in expected_modules().items():
        assert found[label] == [["model", *path] for path in expected], label


def test_modules_of_a_model_that_runs_are_known(draw: Any) -> None:
    model = Model()
    found = paths(draw(model, ad.ones(2, 4, 8)))
    blocks = [["Model", f"blocks.{i}"] for i in range(3)]
    assert found["standardize"] == [[*block, "norm"] for block in blocks]
    assert found["softmax"] == [[*block, "attention"] for block in blocks]
    assert found["gelu"] == [[*block, "mlp", name] for block in blocks for name in ("1", "3")]
    assert found["relu"] == [["Model", "head", name] for name in ("0", "2")]
    assert found["weight"].count(["Model", "head", "1"]) == 1
    assert found["x"] == [["Model", "blocks.0", "norm"]]


def test_calls_of_modules_tell_what_they_took_and_gave(draw: Any) -> None:
    graph = draw(Model(), ad.ones(2, 4, 8))
    details = {group["label"]: dict(group["details"]) for group in graph["groups"]}
    assert details["head"]["inputs"] == "f32[2,4,8]"
    assert details["head"]["outputs"] == "f32[2,4,2]"
    assert details["Model"]["parameters"] == f"{sum(p.numel() for p in Model().parameters()):,}"


def test_parameters_without_a_gradient_are_listed(draw: Any) -> None:
    class Forgetful(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.used, self.unused = nn.Linear(2, 2), nn.Linear(2, 2)

        def forward(self, x: ad.Tensor) -> ad.Tensor:
            return self.used(x)

    model, other = Forgetful(), nn.Linear(2, 2)
    assert dict(draw(model, ad.ones(1, 2))["summary"])["get no gradient"] == "unused.weight, unused.bias"
    loss = model(ad.ones(1, 2)).sum()
    assert dict(draw(loss)["summary"])["get no gradient"] == "model.unused.weight, model.unused.bias"
    model.unused.requires_grad_(False)
    assert "get no gradient" not in dict(draw(loss)["summary"])
    assert other.weight.grad is None


def test_a_lazy_model_is_drawn(draw: Any) -> None:
    model = nn.Sequential(nn.LazyLinear(3), nn.LazyBatchNorm1d())
    assert "linear" in labels(draw(model, ad.ones(4, 2)))


def test_a_module_that_is_called_twice_has_two_boxes_and_its_weight_stands_outside(draw: Any) -> None:
    layer = nn.Linear(3, 3)
    found = paths(draw(nn.Sequential(layer, nn.ReLU(), layer), ad.ones(1, 3)))
    assert found["linear"] == [["Sequential", "0"], ["Sequential", "0 (call 2)"]]
    assert found["weight"] == [["Sequential"]]


def test_a_model_stays_as_it_was(draw: Any) -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.Dropout(), nn.BatchNorm1d(3))
    state = {name: value.clone() for name, value in model.state_dict().items()}
    random = ad.get_rng_state()
    with ad.no_grad():
        draw(model, ad.ones(4, 3), backward=False)
    assert all(ad.equal(value, state[name]) for name, value in model.state_dict().items())
    assert ad.equal(ad.get_rng_state(), random)
    assert all(parameter.grad is None for parameter in model.parameters())


def test_outputs_of_every_structure_are_drawn(draw: Any) -> None:
    x = ad.ones(3, requires_grad=True)
    graph = draw({"a": x.sin(), "b": (x.cos(), [x.exp(), 3])})
    assert labels(graph, "output") == ["a", "b[0]", "b[1][0]"]
    assert sorted(labels(draw((x.sin(), x.detach())), "output")) == ["output[0]"]


class Mute:
    def __repr__(self) -> str:
        raise ValueError("no text")


class Twice(ad.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: ad.Tensor, y: ad.Tensor) -> tuple[ad.Tensor, ad.Tensor]:
        ctx.save_for_backward(x)
        ctx.times, ctx.mute = 2, Mute()
        return x * y, x + y

    @staticmethod
    def backward(ctx: Any, g: ad.Tensor, h: ad.Tensor) -> tuple[ad.Tensor, ad.Tensor]:
        return g + h, g * h


def test_functions_of_the_user_are_one_node_with_what_they_keep(draw: Any) -> None:
    x = ad.ones(3, requires_grad=True)
    first, second = Twice.apply(x, x.sin())
    graph = draw((first + second).sum())
    [node] = [node for node in graph["nodes"] if node.get("kind") == "function"]
    assert node["label"] == "Twice"
    assert ["times", "2"] in node["details"]
    assert "Mute" in dict(node["details"])["mute"]
    assert ["outputs", "f32[3], f32[3]"] in node["details"]
    assert node["tables"][0]["rows"] == [["saved_tensors[0]", "f32[3]", "0", "of a leaf"]]


def test_functions_of_the_library_have_kinds_of_their_own(draw: Any) -> None:
    x = ad.ones(4, 3, requires_grad=True)
    kinds = {node["label"]: node["kind"] for node in draw((x.chunk(2)[0] * x.svd()[1].sum()).sum())["nodes"]}
    assert kinds["Split"] == "movement"
    recurrent = {node["label"]: node["kind"] for node in draw(nn.LSTM(3, 4)(ad.ones(5, 2, 3))[0].sum())["nodes"]}
    assert "function" not in {*kinds.values(), *recurrent.values()}


def test_checkpointed_calls_are_boxes(draw: Any) -> None:
    def segment(x: ad.Tensor) -> ad.Tensor:
        return (x.sin() * x).cos()

    x = ad.ones(3, requires_grad=True)
    graph = draw(checkpoint(segment, x, use_reentrant=False).sum())
    assert paths(graph)["cos"] == [["checkpoint segment"]]
    assert paths(graph)["sum"] == [[]]
    again = draw(checkpoint(segment, x, use_reentrant=True).sum())
    assert [node["badges"] for node in again["nodes"] if "badges" in node] == [["recomputed in backward"]]


def test_what_is_special_about_a_node_is_written_at_it(draw: Any) -> None:
    x = ad.ones(3, requires_grad=True)
    y = x.sin()
    y.register_hook(lambda g: g)
    with ad.autograd.graph.saved_tensors_hooks(lambda t: t.numpy(), ad.tensor):
        z = y.exp()
    z[0] = 1.0
    loss = z.sum()
    badges = {node["label"]: node["badges"] for node in draw(loss)["nodes"] if "badges" in node}
    assert badges == {"sin": ["hook"], "exp": ["packed by hooks"]}
    assert "in-place write" in labels(draw(loss))
    loss.backward()
    assert {node["label"] for node in draw(loss)["nodes"] if "freed" in node.get("badges", [])} >= {"sin", "exp"}


def test_a_saved_value_that_was_overwritten_is_marked(draw: Any) -> None:
    x = ad.ones(3, requires_grad=True)
    y = x.exp()
    loss = (y * y).sum()
    with ad.no_grad():
        y.add_(1.0)
    [node] = [node for node in draw(loss)["nodes"] if node["label"] == "exp"]
    assert node["badges"] == ["a saved value was overwritten"]
    assert "modified by an inplace operation" in dict(node["details"])["backward will raise"]


def test_higher_derivatives_and_views_are_drawn(draw: Any) -> None:
    x = ad.ones(2, 3, requires_grad=True)
    (g,) = ad.autograd.grad((x**3).sum(), x, create_graph=True)
    assert "pow" in labels(draw(g.square().sum()))
    assert "permute" in labels(draw(x.t()[1].sum()))
    values, _ = x.max(1)
    assert labels(draw(values.sum()), "leaf") == ["x"]


def test_a_long_loop_folds(draw: Any) -> None:
    w = x = ad.ones(3, requires_grad=True)
    for _ in range(2000):
        x = x * w
    graph = draw(x.sum())
    children: dict[str, int] = {}
    for item in (*graph["nodes"], *graph["groups"]):
        inside = item["group" if "group" in item else "parent"] if ("group" in item or "parent" in item) else ""
        children[inside] = children.get(inside, 0) + 1
    assert len(graph["nodes"]) == 2003
    assert max(children.values()) <= 40


@pytest.mark.parametrize(
    ("subject", "told"),
    [
        (3, "got int"),
        (None, "got NoneType"),
        ([1, "a"], "got a list without tensors"),
        ({}, "got a dict without tensors"),
        (np.ones(2), r"got a NumPy array, f64\[2\]: arrays have no history"),
        (nn.Linear, "got the class Linear: make a module of it"),
        (len, "got the function len: call it, and visualize what it returns"),
        (nn.Linear(2, 2), "it runs the module, so Linear needs inputs"),
    ],
)
def test_what_has_no_graph_is_named(draw: Any, subject: object, told: str) -> None:
    with pytest.raises(TypeError, match=told):
        draw(subject)


def test_tensors_without_history_say_why(draw: Any) -> None:
    x = ad.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match=r"this Tensor, f32\[2\], is a leaf: nothing made it"):
        draw(x)
    with pytest.raises(RuntimeError, match=r"has no history. Its history was cut off by detach\(\) at .*\.py:\d+"):
        draw((x * 2).detach())
    with pytest.raises(TypeError, match="only a module takes inputs, and this is a Tensor"):
        draw(x * 2, x)
    with pytest.raises(RuntimeError, match=r"Linear returned .* without history"):
        draw(nn.Linear(2, 2).requires_grad_(False), ad.ones(1, 2))
    with pytest.raises(RuntimeError, match="outside of vmap"):
        ad.vmap(lambda row: draw(row * x))(ad.ones(2, 2))


def test_a_compiled_step_shows_its_own_page(tmp_path: Path) -> None:
    class Step:
        def page(self) -> GraphPage:
            return GraphPage("step", "<p>kernels</p>")

    assert ad.visualize(Step(), path=tmp_path / "step.html").html == "<p>kernels</p>"
    assert (tmp_path / "step.html").read_text(encoding="utf-8") == "<p>kernels</p>"
    with pytest.raises(TypeError, match="only a module takes inputs, and this is a Step"):
        ad.visualize(Step(), ad.ones(1))


def test_a_compiled_step_shows_its_program(tmp_path: Path) -> None:
    step = ad.compile(lambda x: x.sin() * 2)
    step(ad.ones(3))
    assert "<html" in ad.visualize(step, path=tmp_path / "step.html").html


def test_a_file_that_cannot_be_written_leaves_no_trace(tmp_path: Path) -> None:
    x = ad.ones(2, requires_grad=True)
    with pytest.raises(FileNotFoundError):
        ad.visualize(x.sin(), path=tmp_path / "absent" / "graph.html")


def test_objects_with_models_lend_their_names(draw: Any) -> None:
    trainer = SimpleNamespace(net=nn.Sequential(nn.Linear(3, 3), nn.ReLU()), scale=ad.ones(3, requires_grad=True))
    graph = draw((trainer.net(ad.ones(1, 3)) * trainer.scale).sum())
    assert paths(graph)["linear"] == [["trainer.net", "0"]]
    assert "trainer.scale" in labels(graph, "leaf")
