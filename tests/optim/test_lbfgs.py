"""L-BFGS takes PyTorch's way, to the same number of calls."""

import copy
from typing import Any

import numpy as np
import pytest
from tests.support.errors import assert_raises

import adjoint as ad
from adjoint import nn, optim

OPTIONS: list[dict[str, Any]] = [
    {}, {"lr": 0.3, "max_iter": 7}, {"history_size": 3, "lr": 0.5}, {"line_search_fn": "strong_wolfe"},
    {"line_search_fn": "strong_wolfe", "lr": 1e-4, "max_iter": 5},
    {"line_search_fn": "strong_wolfe", "lr": 40.0, "max_eval": 9},
    {"line_search_fn": "strong_wolfe", "tolerance_change": 1e-3, "tolerance_grad": 1e-2}, {"max_eval": 4},
]  # fmt: skip
each = pytest.mark.parametrize("options", OPTIONS)


class Descent:
    """Rosenbrock's valley in six dimensions, or a bowl for fixed steps, by the optimizer of one library."""

    def __init__(self, library: Any, options: dict[str, Any]) -> None:
        self.library = library
        self.valley = "line_search_fn" in options
        self.params = [
            library.tensor([-1.2, 1.0, 0.7], dtype=library.float64, requires_grad=True),
            library.tensor([[0.1, 2.0, -0.5]], dtype=library.float64, requires_grad=True),
            library.tensor(2.0, dtype=library.float64, requires_grad=True),  # has no gradient
        ]
        self.optimizer = library.optim.LBFGS(self.params, **options)
        self.calls = 0

    def loss(self) -> Any:
        self.optimizer.zero_grad()
        self.calls += 1
        x = self.library.cat([p.reshape(-1) for p in self.params[:2]])
        bowl = (self.library.arange(1, 7) * (x - 1) ** 2).sum() + (x**4).sum() / 50
        loss = (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum() if self.valley else bowl
        loss.backward()
        return loss

    def run(self, steps: int) -> list[Any]:
        path = []
        for _ in range(steps):
            loss = self.optimizer.step(self.loss)
            path.append([loss.item(), self.calls, *(p.detach().numpy().copy() for p in self.params)])
        return path


def assert_same(ours: list[Any], theirs: list[Any], tolerance: float = 1e-7) -> None:
    for here, there in zip(ours, theirs, strict=True):
        assert here[1] == there[1]
        for a, b in zip(here, there, strict=True):
            np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)


@each
def test_same_path_as_pytorch(options: dict[str, Any]) -> None:
    torch = pytest.importorskip("torch")
    ours, theirs = Descent(ad, options), Descent(torch, options)
    assert_same(ours.run(3), theirs.run(3))
    here, there = (d.optimizer.state_dict()["state"][0] for d in (ours, theirs))
    assert here.keys() == there.keys()
    for key in ("func_evals", "n_iter"):
        assert here[key] == there[key]
    for key in ("old_dirs", "old_stps", "ro", "al"):
        assert len(here.get(key, [])) == len(there.get(key, []))


@each
def test_state_from_pytorch(options: dict[str, Any]) -> None:
    torch = pytest.importorskip("torch")
    ours, theirs = Descent(ad, options), Descent(torch, options)
    theirs.run(1)
    ours.optimizer.load_state_dict(theirs.optimizer.state_dict())
    with ad.no_grad():
        for p, q in zip(ours.params, theirs.params, strict=True):
            p.copy_(ad.tensor(q.detach().numpy()))
    ours.calls = theirs.calls
    assert_same(ours.run(2), theirs.run(2))


def test_refusals() -> None:
    p = ad.ones(2, requires_grad=True)
    with pytest.raises(ValueError, match="doesn't support per-parameter options"):
        optim.LBFGS([{"params": [p]}, {"params": [ad.ones(1, requires_grad=True)]}])
    with pytest.raises(RuntimeError, match="only 'strong_wolfe' is supported"):
        optim.LBFGS([p], line_search_fn="golden").step(lambda: (p * p).sum())
    assert_raises(TypeError, "closure", lambda: optim.LBFGS([p]).step())


def test_a_copy_goes_on_the_same_way() -> None:
    first = Descent(ad, {"line_search_fn": "strong_wolfe"})
    first.run(1)
    twin = Descent(ad, {"line_search_fn": "strong_wolfe"})
    twin.params, twin.optimizer = copy.deepcopy((first.params, first.optimizer))
    twin.calls = first.calls
    assert_same(twin.run(2), first.run(2), 0)


def test_a_compiled_model_in_the_closure() -> None:
    pytest.importorskip("llvmlite")

    def train(compiles: Any) -> list[Any]:
        ad.manual_seed(0)
        model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1)).double()
        optimizer = optim.LBFGS(model.parameters(), max_iter=5, line_search_fn="strong_wolfe")
        x, y = ad.linspace(-1, 1, 24, dtype=ad.float64).reshape(8, 3), ad.linspace(0, 1, 8, dtype=ad.float64)[:, None]

        @compiles
        def loss_of(x: Any, y: Any) -> Any:
            loss = ((model(x) - y) ** 2).mean()
            loss.backward()
            return loss

        def closure() -> Any:
            optimizer.zero_grad()
            return loss_of(x, y)

        losses = [optimizer.step(closure).item() for _ in range(4)]
        return [losses, *(p.detach().numpy() for p in model.parameters())]

    for a, b in zip(train(ad.compile), train(lambda f: f), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("search", [None, "strong_wolfe"])
def test_a_compiled_step_decides_as_eagerly(search: str | None) -> None:
    pytest.importorskip("llvmlite")
    ad.manual_seed(0)
    start, target = ad.randn(6, dtype=ad.float64), ad.randn(6, dtype=ad.float64)
    found = []
    for compiles in (False, True):
        p = start.clone().requires_grad_()
        optimizer = optim.LBFGS([p], lr=0.3, max_iter=2, history_size=2, line_search_fn=search)

        def closure(p: Any = p, optimizer: Any = optimizer) -> Any:
            optimizer.zero_grad()
            loss = ((p - target) ** 4).sum() + (p * p.roll(1)).sin().sum()
            loss.backward()
            return loss

        step: Any = lambda optimizer=optimizer, closure=closure: optimizer.step(closure)  # noqa: E731
        step = ad.compile(step) if compiles else step
        losses = [step().item() for _ in range(6)]
        state = optimizer.state[p]
        found.append([*losses, *p.tolist(), state["n_iter"], state["func_evals"], len(state["old_dirs"])])
    assert found[1] == pytest.approx(found[0], rel=1e-6)
