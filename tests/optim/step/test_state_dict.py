import copy
from typing import Any

import numpy as np
import pytest
from tests.support.optimizer_twins import assert_same_path, parameters, to_torch, torch_parameters, walk

import adjoint as ad

CASES: list[tuple[str, dict[str, Any]]] = [
    ("SGD", {"momentum": 0.9, "dampening": 0.2}), ("SGD", {}), ("Adam", {"amsgrad": True}), ("AdamW", {}),
]  # fmt: skip
each = pytest.mark.parametrize(("name", "options"), CASES)


def groups(params: list[Any]) -> list[dict[str, Any]]:
    return [{"params": params[:1], "lr": 0.2}, {"params": params[1:]}]


def assert_same_continuation(torch: Any, ours: Any, params: list[Any], reference: Any, theirs: list[Any]) -> None:
    here = walk(ours, params, ad.tensor, "float64", range(7, 14))
    assert_same_path(here, walk(reference, theirs, torch.tensor, "float64", range(7, 14)), "float64")


@each
def test_from_pytorch(name: str, options: dict[str, Any]) -> None:
    torch = pytest.importorskip("torch")
    theirs, params = torch_parameters(torch, "float64"), parameters("float64")
    reference = getattr(torch.optim, name)(groups(theirs), lr=0.05, foreach=False, **options)
    walk(reference, theirs, torch.tensor, "float64", range(7))
    ours = getattr(ad.optim, name)(groups(params))
    ours.load_state_dict(reference.state_dict())
    for p, q in zip(params, theirs, strict=True):
        p.data = ad.tensor(q.detach().numpy())
    assert_same_continuation(torch, ours, params, reference, theirs)


@each
def test_to_pytorch(name: str, options: dict[str, Any]) -> None:
    torch = pytest.importorskip("torch")
    theirs, params = torch_parameters(torch, "float64"), parameters("float64")
    ours = getattr(ad.optim, name)(groups(params), lr=0.05, **options)
    walk(ours, params, ad.tensor, "float64", range(7))
    reference = getattr(torch.optim, name)(groups(theirs), foreach=False)
    reference.load_state_dict(to_torch(torch, ours.state_dict()))
    for group in reference.param_groups:
        group["foreach"] = False
    with torch.no_grad():
        for p, q in zip(params, theirs, strict=True):
            q.copy_(torch.tensor(p.detach().numpy()))
    assert_same_continuation(torch, ours, params, reference, theirs)


@each
def test_same_layout_as_pytorch(name: str, options: dict[str, Any]) -> None:
    torch = pytest.importorskip("torch")
    theirs, params = torch_parameters(torch), parameters()
    reference = getattr(torch.optim, name)(groups(theirs), **options)
    ours = getattr(ad.optim, name)(groups(params), **options)
    walk(reference, theirs, torch.tensor, "float32", range(2))
    walk(ours, params, ad.tensor, "float32", range(2))
    here, there = ours.state_dict(), reference.state_dict()
    assert (here["param_groups"], here["state"].keys()) == (there["param_groups"], there["state"].keys())
    for number, entries in there["state"].items():
        assert here["state"][number].keys() == entries.keys()
        for entry, value in entries.items():
            assert here["state"][number][entry].numpy().dtype == value.numpy().dtype


def trained() -> tuple[list[ad.Tensor], ad.optim.Adam]:
    params = parameters()
    optimizer = ad.optim.Adam(groups(params), amsgrad=True)
    walk(optimizer, params, ad.tensor, "float32", range(3))
    return params, optimizer


def test_through_a_file(tmp_path: Any) -> None:
    params, optimizer = trained()
    ad.save({"optimizer": optimizer.state_dict()}, tmp_path / "state")
    twin_params = parameters()
    for p, q in zip(twin_params, params, strict=True):
        p.data = q.detach().clone()
    twin = ad.optim.Adam(groups(twin_params))
    twin.load_state_dict(ad.load(tmp_path / "state")["optimizer"])
    assert twin.param_groups[0]["betas"] == (0.9, 0.999)
    here = walk(optimizer, params, ad.tensor, "float32", range(3, 6))
    there = walk(twin, twin_params, ad.tensor, "float32", range(3, 6))
    for a, b in zip(here[-1], there[-1], strict=True):
        np.testing.assert_array_equal(a, b)


def test_loading_copies_and_keeps_the_groups() -> None:
    _, optimizer = trained()
    saved = optimizer.state_dict()
    before = copy.deepcopy(saved)
    twin_params = parameters("float64")
    twin = ad.optim.Adam(groups(twin_params))
    kept = twin.param_groups[0]
    twin.load_state_dict(saved)
    assert twin.param_groups[0] is kept
    assert kept["params"] == twin_params[:1]
    walk(twin, twin_params, ad.tensor, "float64", range(2))
    for number, entries in before["state"].items():
        for entry, value in entries.items():
            assert ad.equal(saved["state"][number][entry], value)
    assert twin.state[twin_params[0]]["exp_avg"].dtype is ad.float64
    assert twin.state[twin_params[0]]["step"].dtype is ad.float32


def test_what_does_not_fit_is_refused_and_changes_nothing() -> None:
    params, optimizer = trained()
    good = optimizer.state_dict()

    def broken(change: Any) -> dict[str, Any]:
        bad = copy.deepcopy(good)
        change(bad)
        return bad

    cases = [
        (broken(lambda d: d["param_groups"].pop()), ValueError, "parameter groups: 1, the optimizer has 2"),
        (broken(lambda d: d["param_groups"][1]["params"].pop()), ValueError, "doesn't match the size"),
        (broken(lambda d: d["state"][0].update(exp_avg=ad.zeros(2))), ValueError, r"exp_avg .*\[2\].*\[3, 4\]"),
        (broken(lambda d: d.pop("state")), KeyError, "this no 'state'"),
        ({}, KeyError, "state"),
    ]
    for bad, error, message in cases:
        entries = optimizer.state[params[0]]
        options = [dict(group) for group in optimizer.param_groups]
        bad.get("param_groups", [{}])[0]["lr"] = 77.0
        with pytest.raises(error, match=message):
            optimizer.load_state_dict(bad)
        assert optimizer.state[params[0]] is entries
        assert [dict(group) for group in optimizer.param_groups] == options


def test_old_checkpoints() -> None:
    _, optimizer = trained()
    saved = copy.deepcopy(optimizer.state_dict())
    for entries in saved["state"].values():
        entries["step"] = 3
    for group in saved["param_groups"]:
        for option in ("maximize", "foreach", "decoupled_weight_decay"):
            del group[option]
    twin_params = parameters()
    twin = ad.optim.AdamW(groups(twin_params))
    twin.load_state_dict(saved)
    walk(twin, twin_params, ad.tensor, "float32", range(1))
    assert twin.state[twin_params[0]]["step"].item() == 4
    assert twin.param_groups[0]["decoupled_weight_decay"] is True
    assert twin.param_groups[0]["maximize"] is False


def test_names_are_kept() -> None:
    p = ad.ones(2, requires_grad=True)
    optimizer = ad.optim.SGD([("weight", p)])
    assert optimizer.state_dict()["param_groups"][0]["param_names"] == ["weight"]
    optimizer.load_state_dict(ad.optim.SGD([ad.ones(2, requires_grad=True)]).state_dict())
    assert optimizer.param_groups[0]["param_names"] == ["weight"]
