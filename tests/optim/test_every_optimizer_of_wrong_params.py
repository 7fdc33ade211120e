"""Something else where an optimizer wants parameters: every optimizer says what to write."""

from __future__ import annotations

import inspect
import linecache
from typing import Any

import pytest

import adjoint as ad
from adjoint import nn, optim
from adjoint.diagnosis.error_explanation import add_uncaught_explanation

OPTIMIZERS = [
    name
    for name, value in sorted(inspect.getmembers(optim, inspect.isclass))
    if issubclass(value, optim.Optimizer) and value is not optim.Optimizer
]
REMEDIES = {
    "model": "an optimizer takes parameters: model.parameters()",
    "params=model": "an optimizer takes parameters: model.parameters()",
    "net": "an optimizer takes parameters: net.parameters()",
    "model.parameters": "parameters is a method: model.parameters()",
    "[model, net]": "one list of all parameters: [*model.parameters(), *net.parameters()]",
    "[model.parameters(), net.parameters()]": "one list of all parameters: [*model.parameters(), *net.parameters()]",
    "nn.ModuleList([model])": "an optimizer takes parameters: nn.ModuleList([model]).parameters()",
    "[{'params': model}]": "an optimizer takes parameters: model.parameters()",
    "{'params': model.parameters()}": "groups are a list, of one too: [{'params': model.parameters()}]",
    "model.state_dict()": "a state is a dictionary of copies by name: model.parameters()",
    "dict(model.named_parameters())": "a dictionary gives its keys: dict(model.named_parameters()).values()",
    "model.weight": "an optimizer takes a list of tensors: [model.weight]",
    "None": "NoneType is no parameter: an optimizer takes tensors, such as those of model.parameters()",
    "[model.weight, None]": "NoneType is no parameter",
    "used": "used gives its items once, and they were taken: list(…) there, or call it here",
}


@pytest.mark.parametrize("params", REMEDIES)
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_wrong_parameters_lead_to_the_right_ones(name: str, params: str) -> None:
    model, net = nn.Linear(2, 2), nn.Sequential(nn.Linear(1, 1))
    used = net.parameters()
    optim.SGD(used)  # a generator can be used once
    names: dict[str, Any] = {"optim": optim, "nn": nn, "model": model, "net": net, "used": used}
    call, file = f"optim.{name}({params})", f"wrong_params_{name}_{abs(hash(params))}.py"
    linecache.cache[file] = (len(call), None, [f"{call}\n"], file)
    with pytest.raises((TypeError, ValueError)) as found:
        eval(compile(call, file, "eval"), names)
    add_uncaught_explanation(found.value, found.value.__traceback__)
    text = "\n".join(found.value.__notes__)
    assert REMEDIES[params] in text
    assert f"{file}:1" in text


def test_all_optimizers_are_here() -> None:
    assert {"SGD", "Adam", "AdamW", "LBFGS", "Muon", "Rprop"} <= set(OPTIMIZERS)
    assert ad.optim is optim
