"""The user's names for tensors and modules, from the variables of functions that run."""

from types import SimpleNamespace

import adjoint as ad
from adjoint import nn
from adjoint.diagnosis.visualization.user_names import UserNames, iter_parameter_names, read_user_names


def names_of(**variables: object) -> UserNames:
    names = UserNames()
    names.read_variables(variables)
    names.read_containers()
    return names


def test_variables_name_leaves_results_and_inputs() -> None:
    w, x = ad.ones(2, requires_grad=True), ad.ones(2)
    y = w * x
    names = names_of(w=w, x=x, y=y)
    assert {names.tensors[w.node], names.tensors[y.node]} == {"w", "y"}
    assert [(name, tensor is x) for name, tensor in names.inputs] == [("x", True)]


def test_a_variable_is_preferred_to_an_item() -> None:
    w, v = ad.ones(2, requires_grad=True), ad.ones(2, requires_grad=True)
    names = names_of(weights=[w, v], w=w, by_name={"v": v})
    assert names.tensors[w.node] == "w"
    assert names.tensors[v.node] == "weights[1]"


def test_the_innermost_frame_counts() -> None:
    weight = ad.ones(2, requires_grad=True)

    def inner(w: ad.Tensor) -> UserNames:
        return read_user_names()

    assert inner(weight).tensors[weight.node] == "w"


def test_modules_within_others_are_no_models_of_their_own() -> None:
    net = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    names = names_of(layer=net[0], net=net, trainer=SimpleNamespace(critic=nn.Linear(2, 2)))
    assert sorted(name for name, _ in names.outermost_modules()) == ["net", "trainer.critic"]


def test_no_code_of_the_user_runs() -> None:
    class Eager:
        def __init__(self) -> None:
            self.net = nn.Linear(2, 2)

        def __getattr__(self, name: str) -> object:
            raise AssertionError(name)

        @property
        def model(self) -> nn.Module:
            raise AssertionError("model")

    names = names_of(trainer=Eager(), slots=ad.Size([1]), number=1, **{"": None})
    assert [name for name, _ in names.outermost_modules()] == ["trainer.net"]


def test_a_shared_parameter_has_its_first_name() -> None:
    net = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    net[1].weight = net[0].weight
    assert [name for _, name in iter_parameter_names([("net", net)])] == [
        "net.0.weight", "net.0.bias", "net.1.bias",
    ]  # fmt: skip
