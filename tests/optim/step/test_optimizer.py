import copy
import pickle
from typing import Any

import numpy as np
import pytest
from adjoint.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook, required
from tests.support.errors import assert_raises
from tests.support.optimizer_twins import parameters, walk

import adjoint as ad

OPTIMIZERS = [ad.optim.SGD, ad.optim.Adam, ad.optim.AdamW]


def one(value: float = 1.0) -> ad.Tensor:
    return ad.tensor([value], requires_grad=True)


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        *((kind, {"lr": -1}, "Invalid learning rate: -1") for kind in OPTIMIZERS),
        *((kind, {"lr": ad.ones(2)}, "Tensor lr must be 1-element") for kind in OPTIMIZERS),
        *((kind, {"weight_decay": -0.5}, "Invalid weight_decay value: -0.5") for kind in OPTIMIZERS),
        (ad.optim.SGD, {"momentum": -0.1}, "Invalid momentum value: -0.1"),
        (ad.optim.SGD, {"nesterov": True}, "Nesterov momentum requires a momentum and zero dampening"),
        (ad.optim.SGD, {"nesterov": True, "momentum": 0.9, "dampening": 0.1}, "Nesterov momentum requires"),
        (ad.optim.Adam, {"eps": -1e-8}, "Invalid epsilon value: -1e-08"),
        (ad.optim.Adam, {"betas": (1.0, 0.9)}, "Invalid beta parameter at index 0: 1.0"),
        (ad.optim.AdamW, {"betas": (0.9, -0.1)}, "Invalid beta parameter at index 1: -0.1"),
        (ad.optim.Adam, {"lr": ad.tensor(0.1), "foreach": True}, "lr as a Tensor is not supported"),
    ],
)
def test_options_refused(kind: Any, options: dict[str, Any], message: str) -> None:
    assert_raises(ValueError, message, lambda: kind([one()], **options))


@pytest.mark.parametrize("kind", OPTIMIZERS)
def test_choices_of_implementation(kind: Any) -> None:
    assert kind([one()], foreach=True).defaults["foreach"] is True
    assert kind([one()], fused=True).defaults["fused"] is True
    with pytest.raises(RuntimeError, match="`fused` does not support `differentiable`"):
        kind([one()], fused=True, differentiable=True)
    with pytest.raises(RuntimeError, match="`fused` and `foreach` cannot be `True` together"):
        kind([one()], fused=True, foreach=True)


@pytest.mark.parametrize(
    ("params", "error", "message"),
    [
        (one(), TypeError, "should be an iterable of Tensors or dicts, but got Tensor"),
        ([], ValueError, "optimizer got an empty parameter list"),
        ([1.0], TypeError, "optimizer can only optimize Tensors, but one of the params is float"),
        ([{"params": {one()}}], TypeError, "ordered collections"),
        ([{"lr": 0.1}], KeyError, "'params'"),
        ([{"params": [one()]}, one()], TypeError, "param_group must be a dict"),
        ([one() * 2], ValueError, r"can't optimize a non-leaf Tensor: parameter 0 of its group, shape \[1\]"),
        ([("a", one()), ("b", one() * 2)], ValueError, "can't optimize a non-leaf Tensor: parameter 'b'"),
        ([("a", one()), one()], ValueError, "Some param names are missing"),
        ([{"params": [one()], "lr": -2}], ValueError, "Invalid learning rate: -2 in parameter group 0"),
    ],
)
def test_parameters_refused(params: Any, error: type[Exception], message: str) -> None:
    assert_raises(error, message, ad.optim.SGD, params)


def test_a_parameter_in_two_groups() -> None:
    p = one()
    with pytest.raises(ValueError, match="some parameters appear in more than one parameter group: parameter 'again'"):
        ad.optim.SGD([{"params": [("w", p)]}, {"params": [("v", one()), ("again", p)]}])
    with pytest.raises(ValueError, match="cannot add param group without names to the optimizer"):
        ad.optim.SGD([{"params": [("w", p)]}, {"params": [one()]}])


def test_a_parameter_twice_in_a_group() -> None:
    p = one()
    with pytest.warns(UserWarning, match="duplicate parameters.*parameter 1 of its group"):
        ad.optim.SGD([p, p])


def test_an_error_changes_nothing() -> None:
    p, q = one(), one()
    groups: list[dict[str, Any]] = [{"params": p}, {"params": p}]
    assert_raises(ValueError, "more than one parameter group", ad.optim.SGD, groups)
    assert [list(group) for group in groups] == [["params"], ["params"]]
    assert groups[0]["params"] is p
    optimizer = ad.optim.SGD([p])
    for bad in ({"params": [q, p]}, {"params": [q, 3]}, {"params": [q], "momentum": -1}):
        before = dict(bad)
        with pytest.raises((ValueError, TypeError)):
            optimizer.add_param_group(bad)
        assert bad == before
        assert len(optimizer.param_groups) == 1


def test_groups_take_missing_options_from_the_defaults() -> None:
    p, q, r = one(), one(), one()
    given = {"params": iter([q]), "lr": 0.5}
    optimizer = ad.optim.SGD([{"params": p}, given], lr=0.1, momentum=0.9)
    assert [group["lr"] for group in optimizer.param_groups] == [0.1, 0.5]
    assert optimizer.param_groups[1] is given
    assert given["params"] == [q]
    optimizer.add_param_group({"params": [r], "momentum": 0.3})
    assert optimizer.param_groups[2]["lr"] == 0.1
    for t in (p, q, r):
        t.grad = ad.ones(1)
    optimizer.step()
    np.testing.assert_allclose([p.item(), q.item(), r.item()], [0.9, 0.5, 0.9])


@pytest.mark.parametrize("kind", OPTIMIZERS)
def test_a_subclass_completes_every_group_that_it_is_given(kind: Any) -> None:
    class Stabilised(kind):
        def add_param_group(self, param_group: dict[str, Any]) -> None:
            param_group.setdefault("every", 10)
            super().add_param_group(param_group)

    optimizer = Stabilised([{"params": [one()]}, {"params": [one()], "every": 3}], lr=0.1)
    optimizer.add_param_group({"params": [one()]})
    assert [group["every"] for group in optimizer.param_groups] == [10, 3, 10]
    assert [group["every"] for group in Stabilised([one()], lr=0.1).param_groups] == [10]
    with pytest.raises(ValueError, match="in parameter group 1"):
        Stabilised([{"params": [one()]}, {"params": [one()], "lr": -1}], lr=0.1)


def test_zero_grad() -> None:
    p, q = one(), one()
    optimizer = ad.optim.SGD([p, q])
    (p * p).sum().backward(create_graph=True)
    kept = p.grad
    optimizer.zero_grad(set_to_none=False)
    assert p.grad is kept
    assert (kept.tolist(), kept.requires_grad, q.grad) == ([0.0], False, None)
    optimizer.zero_grad()
    assert p.grad is None


def test_parameters_without_gradient_stay() -> None:
    p, q = one(), one()
    optimizer = ad.optim.Adam([p, q], weight_decay=0.1)
    p.grad = ad.ones(1)
    optimizer.step()
    assert q.item() == 1.0
    assert q not in optimizer.state
    assert p.item() != 1.0
    assert p.requires_grad
    assert p.is_leaf


def test_closure_is_evaluated_with_gradients_on() -> None:
    p = one(3.0)
    optimizer = ad.optim.SGD([p], lr=0.5)

    def closure() -> ad.Tensor:
        optimizer.zero_grad()
        loss = (p * p).sum()
        loss.backward()
        return loss

    with ad.no_grad():
        loss = optimizer.step(closure)
    assert loss.item() == 9.0
    assert p.item() == 0.0
    assert optimizer.step() is None


def test_hooks_around_the_step() -> None:
    p = one()
    optimizer = ad.optim.SGD([p], lr=1.0)
    p.grad = ad.ones(1)
    seen: list[Any] = []
    before = optimizer.register_step_pre_hook(lambda *given: seen.append(("before", *given, p.item())))
    after = optimizer.register_step_post_hook(lambda *given: seen.append(("after", *given, p.item())))
    optimizer.step(closure=None)
    assert seen == [
        ("before", optimizer, (optimizer,), {"closure": None}, 1.0),
        ("after", optimizer, (optimizer,), {"closure": None}, 0.0),
    ]
    before.remove()
    before.remove()
    with after:
        optimizer.step()
    optimizer.step()
    assert [entry[0] for entry in seen] == ["before", "after", "after"]


def test_pre_hook_may_replace_the_arguments() -> None:
    p = one()
    optimizer = ad.optim.SGD([p])
    p.grad = ad.ones(1)
    with optimizer.register_step_pre_hook(lambda o, args, kwargs: ((o, lambda: "loss"), {})):
        assert optimizer.step() == "loss"
    before = p.item()
    with (
        optimizer.register_step_pre_hook(lambda *_: 3),
        pytest.raises(RuntimeError, match="must return None or a tuple of"),
    ):
        optimizer.step()
    assert p.item() == before


class Descent(ad.optim.Optimizer):
    """An optimizer as users write them."""

    def __init__(self, params: Any, lr: float = 0.1) -> None:
        super().__init__(params, {"lr": lr})

    @ad.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            for p in group["params"]:
                p.sub_(p.grad * group["lr"])
                self.state[p]["steps"] = self.state[p].get("steps", 0) + 1


class Twice(Descent):
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        super().step()
        super().step()


def test_an_optimizer_of_the_users_own() -> None:
    p = one()
    p.grad = ad.ones(1)
    optimizer, seen = Twice([p]), []
    optimizer.register_step_post_hook(lambda *_: seen.append(p.item()))
    optimizer.step()
    np.testing.assert_allclose(p.item(), 0.8, rtol=1e-6)
    assert seen == [p.item()]
    other = Descent([one()])
    other.load_state_dict(optimizer.state_dict())
    assert other.state[other.param_groups[0]["params"][0]] == {"steps": 2}
    assert_raises(NotImplementedError, "Optimizer has neither a step", lambda: ad.optim.Optimizer([p], {}).step())


def test_hooks_of_all_optimizers() -> None:
    p, seen = one(), list[str]()
    p.grad = ad.ones(1)
    optimizer, other = ad.optim.SGD([p]), ad.optim.Adam([p])
    optimizer.register_step_pre_hook(lambda *_: seen.append("own before"))
    optimizer.register_step_post_hook(lambda *_: seen.append("own after"))
    with (
        register_optimizer_step_pre_hook(lambda o, args, kwargs: seen.append("before " + type(o).__name__)),
        register_optimizer_step_post_hook(lambda o, args, kwargs: seen.append("after " + type(o).__name__)),
    ):
        optimizer.step()
        other.step()
    optimizer.step()
    assert seen == [
        "before SGD", "own before", "own after", "after SGD", "before Adam", "after Adam", "own before", "own after",
    ]  # fmt: skip


def test_hooks_around_state_dicts() -> None:
    p, seen = one(), list[Any]()
    optimizer = ad.optim.SGD([p], lr=0.5)
    optimizer.register_state_dict_pre_hook(lambda o: seen.append((o, "second")))
    optimizer.register_state_dict_pre_hook(lambda o: seen.append((o, "first")), prepend=True)
    optimizer.register_state_dict_post_hook(lambda o, state: {**state, "note": 7})
    optimizer.register_state_dict_post_hook(lambda o, state: None)
    saved = optimizer.state_dict()
    assert seen == [(optimizer, "first"), (optimizer, "second")]
    assert saved["note"] == 7

    def faster(o: Any, state: Any) -> Any:
        group = {**state["param_groups"][0], "lr": state["param_groups"][0]["lr"] * 2}
        return {**state, "param_groups": [group]}

    loading = ad.optim.SGD([one()])
    loading.register_load_state_dict_pre_hook(faster)
    loading.register_load_state_dict_pre_hook(lambda o, state: state.pop("note"), prepend=True).remove()
    loading.register_load_state_dict_post_hook(lambda o: seen.append((o, o.param_groups[0]["lr"])))
    loading.load_state_dict(saved)
    assert seen[2:] == [(loading, 1.0)]
    assert saved["param_groups"][0]["lr"] == 0.5


def test_a_compiled_step_sees_the_hooks_of_all_optimizers() -> None:
    pytest.importorskip("llvmlite")
    p, seen = one(), list[None]()
    optimizer = ad.optim.SGD([p], lr=0.5)

    @ad.compile
    def step() -> Any:
        optimizer.zero_grad()
        loss = (p * p).sum()
        loss.backward()
        optimizer.step()
        return loss

    step()
    with register_optimizer_step_pre_hook(lambda o, args, kwargs: seen.append(None)):
        step()
    assert seen == [None]


def test_named_parameters_of_a_module() -> None:
    model = ad.nn.Linear(2, 1)
    optimizer = ad.optim.Adam(model.named_parameters(), lr=0.1)
    assert optimizer.param_groups[0]["param_names"] == ["weight", "bias"]
    assert optimizer.state_dict()["param_groups"][0]["param_names"] == ["weight", "bias"]
    optimizer.add_param_group({"params": [("extra", one())]})
    assert optimizer.param_groups[1]["param_names"] == ["extra"]
    with pytest.raises(ValueError, match="cannot add param group without names"):
        optimizer.add_param_group({"params": [one()]})


def test_options_without_a_default() -> None:
    class Strict(ad.optim.Optimizer):
        pass

    with pytest.raises(ValueError, match="didn't specify a value of required optimization parameter lr"):
        Strict([one()], {"lr": required})
    assert Strict([{"params": [one()], "lr": 0.5}], {"lr": required}).param_groups[0]["lr"] == 0.5
    assert repr(required) == "<required parameter>"


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda pair: pickle.loads(pickle.dumps(pair))])
def test_copies_go_on_the_same_way(copied: Any) -> None:
    params = parameters()
    optimizer = ad.optim.Adam(params)
    walk(optimizer, params, ad.tensor, "float32", range(3))
    twin_params, twin = copied((params, optimizer))
    here = walk(optimizer, params, ad.tensor, "float32", range(3, 6))
    assert twin.state[twin_params[0]]["step"].item() == 3
    there = walk(twin, twin_params, ad.tensor, "float32", range(3, 6))
    for a, b in zip(here[-1], there[-1], strict=True):
        np.testing.assert_array_equal(a, b)
    assert twin.register_step_pre_hook(lambda *_: None).remove() is None


def test_gradients_that_are_views_become_zeros() -> None:
    p = ad.nn.Parameter(ad.ones(4))
    p.grad = ad.arange(8.0)[4:]
    ad.optim.SGD([p], lr=0.1).zero_grad(set_to_none=False)
    assert p.grad.tolist() == [0] * 4
