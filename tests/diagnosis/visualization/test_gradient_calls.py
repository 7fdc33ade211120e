"""Calls that have recorded a gradient."""

import adjoint as ad
from adjoint import nn
from adjoint.autograd import grad
from adjoint.diagnosis.visualization.gradient_calls import find_gradient_calls
from adjoint.diagnosis.visualization.graph_contents import GraphContents
from adjoint.diagnosis.visualization.graph_document import draw_tensors
from adjoint.diagnosis.visualization.user_names import UserNames


def calls_of(root: ad.Tensor) -> dict[str, set[str]]:
    nodes = GraphContents([("root", root)], {}).nodes
    found: dict[str, set[str]] = {}
    for node, text in find_gradient_calls(nodes).items():
        found.setdefault(text, set()).add(node.name())
    return found


def test_the_nodes_of_a_gradient_are_told_from_those_of_its_arguments() -> None:
    x = ad.ones(3, requires_grad=True)
    (g,) = ad.autograd.grad((x**3).sum(), x, create_graph=True)
    assert calls_of(g.sin().sum()) == {"ad.autograd.grad((x**3).sum()…": {"MulBackward0", "PowBackward0"}}


def test_calls_over_several_lines_and_other_names() -> None:
    x = ad.ones(3, requires_grad=True)
    (g,) = grad(
        x.exp().sum(), x,
        create_graph=True,
    )  # fmt: skip
    assert list(calls_of((g * g).sum())) == ["grad( x.exp().sum(), x, creat…"]


def test_backward_that_is_recorded_counts() -> None:
    x = ad.ones(3, requires_grad=True)
    (x**3).sum().backward(create_graph=True)
    assert x.grad is not None
    assert list(calls_of(x.grad.sum())) == ["(x**3).sum().backward(create_…"]


def test_other_calls_do_not() -> None:
    x = ad.ones(3, requires_grad=True)

    def gradient(y: ad.Tensor) -> ad.Tensor:
        return y * 2

    grad = 3.0
    assert calls_of((gradient(x).sin() * grad).sum()) == {}
    assert calls_of(eval("x.sum()", {"x": x})) == {}


def test_gradients_of_a_model_are_boxes_beside_it() -> None:
    net = nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 1))
    x = ad.ones(4, 2, requires_grad=True)
    u = net(x)
    (du,) = ad.autograd.grad(u.sum(), x, create_graph=True)
    names = UserNames()
    names.read_variables({"net": net, "x": x})
    [graph] = draw_tensors([("loss", (du * u).sum())], names, backward=True).graphs
    groups = {group.key: group for group in graph.groups}
    assert [(group.label, group.parent) for group in graph.groups if group.kind == "gradient"] == [
        ("ad.autograd.grad(u.sum(), x, …", ""),
    ]  # fmt: skip
    inside = {node.label for node in graph.nodes if node.group and groups[node.group].kind == "gradient"}
    assert inside >= {"mm", "mul"}
    assert {node.label for node in graph.nodes if node.group.startswith("m net")} >= {"linear", "tanh"}
