"""A checkpoint in a compiled step does as an eager one: what its function does besides computing happens twice."""

import warnings
from collections.abc import Callable
from typing import Any

import pytest
from tests.support.outcomes import assert_same, describe, run

import adjoint as ad
from adjoint import nn
from adjoint.utils.checkpoint import checkpoint, checkpoint_sequential


class Counting(nn.Module):
    """A layer that counts its calls, in Python and in a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0
        self.total = nn.Buffer(ad.zeros(()))
        self.linear = nn.Linear(4, 4)

    def forward(self, x: Any) -> Any:
        """Count, and apply a linear layer."""
        self.calls += 1
        with ad.no_grad():
            self.total += x.mean()
        return self.linear(x).tanh()


BLOCKS: dict[str, Callable[[], Any]] = {
    "batch norm": lambda: nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.ReLU()),
    "batch norm alone": lambda: nn.Sequential(nn.BatchNorm1d(4)),
    "dropout": lambda: nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5), nn.Linear(4, 4), nn.Dropout(0.25)),
    "counting": Counting,
    "counting last": lambda: nn.Sequential(nn.Linear(4, 4), nn.Sigmoid(), Counting()),
    "all": lambda: nn.Sequential(Counting(), nn.BatchNorm1d(4), nn.Dropout(0.5), nn.Tanh()),
}
WAYS: dict[str, Callable[[Any, Any], Any]] = {
    "plain": lambda block, x: checkpoint(block, x, use_reentrant=False),
    "reentrant": lambda block, x: checkpoint(block, x, use_reentrant=True),
    "to the end": lambda block, x: checkpoint(block, x, use_reentrant=False, early_stop=False),
    "other draws": lambda block, x: checkpoint(block, x, use_reentrant=False, preserve_rng_state=False) * 0 + x,
    "nested": lambda block, x: checkpoint(
        lambda y: checkpoint(block, y, use_reentrant=False) * 2, x, use_reentrant=False
    ),
    "twice": lambda block, x: checkpoint(block, checkpoint(block, x, use_reentrant=False), use_reentrant=False),
    "sequential": lambda block, x: checkpoint_sequential(nn.Sequential(block, nn.Tanh()), 2, x, use_reentrant=False),
}


@pytest.mark.sweep(3)
@pytest.mark.parametrize("passes", [1, 2])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", BLOCKS)
def test_what_a_block_does_happens_as_often_as_eagerly(kind: str, way: str, passes: int) -> None:
    def case(wrap: Callable[[Any], Any]) -> Callable[[int], Any]:
        ad.manual_seed(5)
        block = BLOCKS[kind]().double()  # gradients cancel before a batch norm

        def step(x: Any) -> Any:
            block.zero_grad()
            x = x.clone().requires_grad_()
            loss = (WAYS[way](block, x) * ad.arange(4.0, dtype=ad.float64)).square().sum()
            for i in range(passes):
                loss.backward(retain_graph=i + 1 < passes)
            return loss, x.grad

        compiled = wrap(step)

        def call(k: int) -> Any:
            loss, gradient = compiled(ad.arange(12.0, dtype=ad.float64).view(3, 4).sin() + k)
            seen = {"loss": loss, "gradient": gradient, **block.state_dict(keep_vars=True)}
            counts = [m.calls for m in block.modules() if isinstance(m, Counting)]
            return describe(seen, versions=False), counts, ad.rand(1).item()

        return call

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert_same(run(case, ad.compile, 3), run(case, lambda step: step, 3))
