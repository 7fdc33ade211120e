"""Copies of what holds tensors, made inside a step; and sizes that values drawn in the step decide."""

from __future__ import annotations

import copy
import dataclasses
from collections import OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import adjoint as ad
import adjoint.nn.functional as F
from adjoint import nn

pytest.importorskip("llvmlite")
CALLS = 5
Pair = namedtuple("Pair", "h n")


@dataclasses.dataclass
class Record:
    h: Any
    n: int = 2
    parts: Any = None


class Plain:
    def __init__(self, h: Any) -> None:
        self.h, self.n = h, 2


HOLDERS: dict[str, Callable[[Any], Any]] = {
    "a tensor": lambda t: t,
    "a leaf": lambda t: t.clone().requires_grad_(),
    "a parameter": lambda t: nn.Parameter(t.clone()),
    "a record": lambda t: Record(t, parts=[t, 3]),
    "a frozen record": lambda t: dataclasses.make_dataclass("Frozen", ["h", "n"], frozen=True)(t, 1),
    "a plain object": Plain,
    "a namespace": lambda t: SimpleNamespace(h=t, n=2),
    "a dictionary": lambda t: {"h": t, "n": {"k": [t * 2, "text"]}},
    "an ordered dictionary": lambda t: OrderedDict(h=t, n=1),
    "a list": lambda t: [t, [t, 1.5]],
    "a tuple": lambda t: (t, 1, (t * 3,)),
    "a named tuple": lambda t: Pair(t, 2),
    "views": lambda t: [t, t[1:], t.view(2, 2), t.detach()],
    "transposed": lambda t: {"h": t.view(2, 2).T, "n": t},
    "a module": lambda t: nn.Linear(4, 2),
    "a state": lambda t: nn.Sequential(nn.Linear(4, 2), nn.BatchNorm1d(2)).state_dict(),
}  # fmt: skip


def tensors_in(value: Any) -> list[Any]:
    """All tensors behind a value, in order."""
    if isinstance(value, ad.Tensor):
        return [value]
    if isinstance(value, nn.Module):
        return list(value.parameters())
    if isinstance(value, list | tuple | deque):
        return [t for x in value for t in tensors_in(x)]
    if isinstance(value, dict):
        return [t for x in value.values() for t in tensors_in(x)]
    return [t for x in vars(value).values() for t in tensors_in(x)] if hasattr(value, "__dict__") else []


WAYS: dict[str, Callable[[Any], Any]] = {
    "deepcopy": copy.deepcopy,
    "copy": copy.copy,
    "asdict": lambda x: dataclasses.asdict(x) if dataclasses.is_dataclass(x) else copy.deepcopy(x),
    "astuple": lambda x: dataclasses.astuple(x) if dataclasses.is_dataclass(x) else copy.deepcopy([x, x]),
    "replace": lambda x: dataclasses.replace(x, n=5) if dataclasses.is_dataclass(x) else copy.copy(x),
}


@pytest.mark.sweep(3)
@pytest.mark.parametrize("is_made_inside", [False, True])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("holder", HOLDERS)
def test_copies_of_what_holds_tensors(holder: str, way: str, is_made_inside: bool) -> None:
    """Values, whether a write into the copy or the original is seen by the other, and another original later."""

    def case(wrap: Callable[[Any], Any]) -> list[Any]:
        ad.manual_seed(0)
        box = SimpleNamespace(it=HOLDERS[holder](ad.arange(4.0)))

        def step(x: Any) -> Any:
            held = HOLDERS[holder](x * 2) if is_made_inside else box.it
            twin = WAYS[way](held)
            ours, theirs = tensors_in(held), tensors_in(twin)
            with ad.no_grad():
                theirs[0].add_(1)
                ours[-1].mul_(2)
            return [t.detach() * 1 for t in (*ours, *theirs)], [t.requires_grad for t in theirs]

        run, seen = wrap(step), []
        for k in range(CALLS):
            if k == 3:
                box.it = HOLDERS[holder](ad.arange(4.0) - 1)
            results, flags = run(ad.ones(4) * k)
            left = [t.detach().clone() for t in tensors_in(box.it)]
            seen.append(([t.tolist() for t in (*results, *left)], flags))
        return seen

    assert case(ad.compile) == case(lambda step: step)


def test_a_deep_copy_of_a_memory_that_tensors_see_without_a_view_runs_eagerly() -> None:
    memory = np.zeros(4, np.float32)
    box = [ad.from_numpy(memory), ad.from_numpy(memory)]

    @ad.compile
    def step(x: Any) -> Any:
        first, second = copy.deepcopy(box)
        first.add_(x)
        return second

    with pytest.warns(RuntimeWarning, match="runs eagerly: deepcopy"):
        assert step(ad.ones(4)).tolist() == [1.0] * 4
    assert step(ad.ones(4) * 2).tolist() == [2.0] * 4


def test_a_deep_copy_is_kept() -> None:
    def case(wrap: Callable[[Any], Any]) -> list[Any]:
        ad.manual_seed(0)
        model, kept = nn.Linear(3, 2), defaultdict(list)
        optimizer = ad.optim.SGD(model.parameters(), lr=0.1)

        def step(x: Any) -> Any:
            optimizer.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            kept["states"].append(copy.deepcopy(model.state_dict()))
            optimizer.step()
            return loss.detach()

        run = wrap(step)
        losses = [run(ad.ones(2, 3)).item() for _ in range(CALLS)]
        return [losses, [[t.tolist() for t in state.values()] for state in kept["states"]]]

    for a, b in zip(case(ad.compile), case(lambda step: step), strict=True):
        np.testing.assert_allclose(
            np.concatenate([np.ravel(x) for x in _flat(a)]), np.concatenate([np.ravel(x) for x in _flat(b)]), rtol=1e-5
        )


def _flat(value: Any) -> list[Any]:
    return [x for part in value for x in _flat(part)] if isinstance(value, list) else [value]


DRAWS: dict[str, Callable[[Any], Any]] = {
    "rand": lambda x: ad.rand(6) - 0.5,
    "randint": lambda x: ad.randint(0, 2, (6,)),
    "randn_like": lambda x: ad.randn_like(x),
    "bernoulli": lambda x: ad.bernoulli(ad.full((6,), 0.5)),
    "dropout": lambda x: F.dropout(x + 1, 0.5),
    "randperm": lambda x: ad.randperm(6) - 2,
    "of a matrix": lambda x: ad.linalg.inv(ad.randn(6, 6) + ad.eye(6) * 9)[0],
}
SIZES: dict[str, Callable[[Any, Any], Any]] = {
    "mask": lambda x, d: x[d > 0],
    "nonzero": lambda x, d: (d > 0).nonzero(),
    "two masks": lambda x, d: (x[d > 0].sum(), x[d <= 0], x[d > 0.25]),
    "unique": lambda x, d: ad.unique((d > 0).long()),
    "decision": lambda x, d: x * 2 if d.sum() > 0 else x[:2],
    "number": lambda x, d: x * d.sum().item(),
}
LATER: dict[str, Callable[[Any, Any], Any]] = {
    "nothing": lambda x, d: 0,
    "the draw": lambda x, d: d * 2,
    "another draw": lambda x, d: ad.rand(2),
    "a gradient": lambda x, d: ((w := x.clone().requires_grad_()) * d).sum().backward() or w.grad,
}


@pytest.mark.sweep(3)
@pytest.mark.parametrize("later", LATER)
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("draw", DRAWS)
@pytest.mark.filterwarnings("ignore:compiled function 'step' was called with:RuntimeWarning")
def test_sizes_and_decisions_by_what_the_step_draws(draw: str, size: str, later: str) -> None:
    def case(wrap: Callable[[Any], Any]) -> list[Any]:
        ad.manual_seed(0)

        def step(x: Any) -> Any:
            drawn = DRAWS[draw](x)
            return SIZES[size](x, drawn), LATER[later](x, drawn)

        run = wrap(step)
        return [*(flat_values(run(ad.arange(6.0) + k)) for k in range(CALLS)), ad.rand(2).tolist()]

    compiled, eager = case(ad.compile), case(lambda step: step)
    for a, b in zip(compiled, eager, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def flat_values(value: Any) -> list[float]:
    parts = value if isinstance(value, tuple) else (value,)
    return [x for p in parts for x in (flat_values(p) if isinstance(p, tuple) else np.ravel(np.array(p)).tolist())]
