"""Masks and positions from before the step: constants of its program until they are written or replaced."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint import nn

READS: dict[str, Callable[[Any, Any], Any]] = {
    "mask": lambda d, x: x[d.m], "not": lambda d, x: x[~d.m], "and": lambda d, x: x[d.m & (d.y > 0)],
    "equal": lambda d, x: x[d.y == 1] * 2, "masked_select": lambda d, x: ad.masked_select(x, d.m).sum(),
    "nonzero": lambda d, x: x[d.m.nonzero()[:, 0]], "where": lambda d, x: x[ad.where(d.m)[0]],
    "view": lambda d, x: x[1:][d.m[1:]], "matrix": lambda d, x: x.view(2, 2)[d.m.view(2, 2)],
    "with a slice": lambda d, x: x.view(4, 1)[d.m, :], "mean": lambda d, x: x[d.m].mean() * d.m.sum(),
    "element": lambda d, x: x[d.masks[0]], "loop": lambda d, x: sum(x[m].sum() for m in d.masks),
    "assigned": lambda d, x: ad.cat([x[d.m], put(x * 2, d.m)]), "written": lambda d, x: x[d.m.logical_not_()],
    "decided": lambda d, x: x[d.m] * (2 if x[d.m].sum() > 6 else 1), "sized": lambda d, x: (x[x > 2], d.m.nonzero())[1],
}  # fmt: skip
CHANGES: dict[str, Callable[[Any, bool], Any]] = {
    "nothing": lambda d, v: None, "item": lambda d, v: d.m.__setitem__(0, v), "copy_": lambda d, v: d.m.copy_(mask(v)),
    "another": lambda d, v: setattr(d, "m", mask(v)), "data": lambda d, v: setattr(d.m, "data", mask(v)),
    "numpy": lambda d, v: d.m.numpy().__setitem__(0, v), "labels": lambda d, v: d.y.__setitem__(3, int(v)),
    "in a list": lambda d, v: d.masks.__setitem__(0, mask(v)), "of a list": lambda d, v: d.masks[0].__setitem__(0, v),
}  # fmt: skip


def mask(first: bool) -> Any:
    return ad.tensor([first, True, True, False])


def put(x: Any, m: Any) -> Any:
    x[m] = 7.0
    return x


def outcome(read: str, change: str, wrap: Callable[[Any], Any]) -> tuple[list[Any], Any]:
    d = SimpleNamespace(m=ad.tensor([True, False, True, False]), y=ad.tensor([1, 0, 2, 1]), masks=[mask(True)])
    run = wrap(lambda x: READS[read](d, x))
    seen = []
    for k in range(6):
        if k in (2, 4):
            CHANGES[change](d, k == 2)
        seen.append(run(ad.arange(4.0) + k).tolist())
    return seen, run


@pytest.mark.sweep(3)
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("read", READS)
def test_masks_from_before_the_step(read: str, change: str) -> None:
    compiled, step = outcome(read, change, ad.compile)
    assert compiled == outcome(read, change, lambda step: step)[0]
    if change == "nothing" and read not in ("written", "decided", "sized"):
        assert step.compilations == 1


def test_a_training_step_of_the_nodes_that_have_labels() -> None:
    def losses(wrap: Callable[[Any], Any]) -> list[float]:
        ad.manual_seed(0)
        data = SimpleNamespace(x=ad.randn(8, 3), y=ad.randint(0, 2, (8,)), train_mask=ad.tensor([True, False] * 4))
        model = nn.Linear(3, 2)
        optimizer = ad.optim.SGD(model.parameters(), lr=0.5)

        def step() -> Any:
            optimizer.zero_grad()
            out = model(data.x)
            loss = nn.functional.cross_entropy(out[data.train_mask], data.y[data.train_mask])
            loss.backward()
            optimizer.step()
            return loss

        run = wrap(step)
        return [run().item() for _ in range(5)]

    np.testing.assert_allclose(losses(ad.compile), losses(lambda step: step), rtol=1e-5)


def test_a_mask_among_the_arguments_is_no_constant() -> None:
    step = ad.compile(lambda x, m: x[m])
    assert [step(ad.arange(2.0), ad.tensor(m)).tolist() for m in ([True, False], [False, True])] == [[0.0], [1.0]]
