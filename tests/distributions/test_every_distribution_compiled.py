"""Distributions in compiled steps: the same numbers as eagerly."""

import importlib.util
from typing import Any

import numpy as np
import pytest
from tests.support.distributions import CASES, Case

import adjoint as ad
from adjoint import distributions as d
from adjoint import nn, optim

pytestmark = pytest.mark.skipif(importlib.util.find_spec("llvmlite") is None, reason="needs llvmlite")
EACH = pytest.mark.parametrize("case", [pytest.param(c, id=n) for n, c in CASES.items() if c.parameters])


@EACH
def test_log_prob(case: Case) -> None:
    def step(value: Any, *leaves: Any) -> Any:
        distribution = eval(case.make, {"d": d, **dict(zip(case.parameters, leaves, strict=True))})
        result = distribution.log_prob(value)
        return result, *ad.autograd.grad(result.sum(), leaves)

    kind = getattr(ad, case.dtype)
    value = ad.tensor(case.value, dtype=kind)
    leaves = [ad.tensor(v, dtype=kind, requires_grad=True) for v in case.parameters.values()]
    compiled = ad.compile(step)
    for _ in range(2):
        for ours, eager in zip(compiled(value, *leaves), step(value, *leaves), strict=True):
            np.testing.assert_allclose(ours.detach().numpy(), eager.detach().numpy(), rtol=1e-5, atol=1e-6)


# VonMises rejects proposals, so its values decide how many rounds there are: no two calls need make one program.
@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.parameters])
def test_samples(name: str) -> None:
    case = CASES[name]
    leaves = [ad.tensor(v) for v in case.parameters.values()]

    def step(*leaves: Any) -> Any:
        return eval(case.make, {"d": d, **dict(zip(case.parameters, leaves, strict=True))}).sample((4,))

    runs = []
    for run in (step, ad.compile(step)):
        ad.manual_seed(9)
        runs.append([run(*leaves).numpy() for _ in range(3)])
    for eager, compiled in zip(*runs, strict=True):
        np.testing.assert_allclose(compiled, eager, rtol=2e-4, atol=1e-5)


@pytest.mark.parametrize("make", [
    "d.Normal(a, b)", "d.Laplace(a, b)", "d.Gamma(b, b)", "d.Beta(b, b)", "d.Gumbel(a, b)", "d.StudentT(b, a)",
    "d.Dirichlet(b)", "d.Exponential(b)", "d.Uniform(a, a + b)", "d.Cauchy(a, b)", "d.LogNormal(a, b)",
])  # fmt: skip
def test_a_reparameterised_step(make: str) -> None:
    def step(a: Any, b: Any) -> Any:
        distribution = eval(make, {"d": d, "a": a, "b": b})
        sample = distribution.rsample((50,))
        loss = (sample**2).mean() - distribution.entropy().mean() if "Log" not in make else sample.log().mean()
        loss.backward()
        return loss

    runs = []
    for run in (step, ad.compile(step)):
        ad.manual_seed(5)
        a = ad.tensor([0.5, -1.0, 2.0], requires_grad=True)
        b = ad.tensor([0.5, 1.5, 0.8], requires_grad=True)
        losses = [run(a, b).item() for _ in range(3)]
        runs.append([losses, *(x.grad.numpy() for x in (a, b) if x.grad is not None)])
    for eager, compiled in zip(*runs, strict=True):
        np.testing.assert_allclose(compiled, eager, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", ["Categorical", "Bernoulli", "OneHotCategorical", "Normal"])
def test_a_reinforce_step(kind: str) -> None:
    def policy(outputs: Any) -> Any:
        return d.Normal(outputs, 1.0) if kind == "Normal" else getattr(d, kind)(logits=outputs)

    runs = []
    for way in (lambda f: f, ad.compile):
        ad.manual_seed(11)
        model = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 3))
        optimizer = optim.Adam(model.parameters(), lr=1e-2)

        def step(states: Any, rewards: Any, model: Any = model, optimizer: Any = optimizer) -> Any:
            optimizer.zero_grad()
            distribution = policy(model(states))
            actions = distribution.sample()
            gain = distribution.log_prob(actions) + 0.01 * distribution.entropy()
            loss = -(gain * (rewards if gain.dim() == 1 else rewards.unsqueeze(-1))).mean()
            loss.backward()
            optimizer.step()
            return loss, actions

        run = way(step)
        states, rewards = ad.randn(32, 4), ad.randn(32)
        losses = [[x.detach().numpy().copy() for x in run(states, rewards)] for _ in range(4)]
        runs.append([x for pair in losses for x in pair] + [p.detach().numpy() for p in model.parameters()])
    for eager, compiled in zip(*runs, strict=True):
        np.testing.assert_allclose(compiled, eager, rtol=1e-4, atol=1e-5)
