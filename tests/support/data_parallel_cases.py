"""Random training programs for several ranks, each beside the same program of one process on all ranks' batches."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import adjoint as ad
import adjoint.distributed as dist
from adjoint import nn
from adjoint.utils.checkpoint import checkpoint

STEPS, ROWS, WIDTH = 3, 4, 5
MODES = ("eager", "step", "module")  # what is compiled: nothing, the whole step, or the model alone


class Net(nn.Module):
    """A small model with whatever data-parallel training may meet: branches, tied and frozen weights, buffers."""

    def __init__(self, draw: random.Random) -> None:
        super().__init__()
        width = draw.randint(2, 9)
        self.first, self.last = nn.Linear(WIDTH, width), nn.Linear(width, 3)
        self.branches = nn.ModuleList(nn.Linear(width, width) for _ in range(3))  # the third is never used
        self.has_branches, self.is_tied = draw.random() < 0.4, draw.random() < 0.3
        self.is_checkpointed = draw.random() < 0.2
        self.norm = nn.BatchNorm1d(width) if draw.random() < 0.3 else nn.LayerNorm(width)
        self.scale = nn.Parameter(ad.ones(width))
        if draw.random() < 0.3:
            self.first.bias.requires_grad_(False)

    def forward(self, x: ad.Tensor, branch: int) -> ad.Tensor:
        h = self.first(x)
        h = checkpoint(self._middle, h, use_reentrant=False) if self.is_checkpointed else self._middle(h)
        if self.has_branches:
            h = h + self.branches[branch](h)
        if self.is_tied:
            h = h @ self.first.weight @ self.first.weight.T
        return self.last(h)

    def _middle(self, h: ad.Tensor) -> ad.Tensor:
        return ad.tanh(self.norm(h) * self.scale)


@dataclass
class Case:
    """One program: what it does besides forward, backward and the update."""

    seed: int
    options: dict[str, Any]
    optimizer: str
    modes: tuple[str, ...]
    branches: tuple[int, ...]
    accumulates: bool
    clips: bool
    asks: bool
    sets_to_none: bool
    doubles: bool
    has_hook: bool
    penalty: bool


def make_case(seed: int, count: int) -> Case:
    """Return the case of this number, for so many ranks."""
    draw = random.Random(seed)

    def maybe(chance: float) -> bool:
        return draw.random() < chance

    options: dict[str, Any] = {"bucket_cap_mb": draw.choice([25, 2e-4, 5e-5]), "find_unused_parameters": True}
    if maybe(0.4):
        options["gradient_as_bucket_view"] = True
    if maybe(0.2):
        options["static_graph"] = True
    modes = tuple(draw.choice(MODES) for _ in range(count)) if maybe(0.5) else (draw.choice(MODES),) * count
    return Case(
        seed, options, draw.choice(["SGD", "AdamW", "Adagrad"]), modes, tuple(draw.randrange(2) for _ in range(count)),
        maybe(0.3), maybe(0.4), maybe(0.3), maybe(0.7), maybe(0.2), maybe(0.2), maybe(0.15),
    )  # fmt: skip


class Training:
    """One side of a case: `wrap` makes the model that is trained, which `losses` calls on the batches of a step."""

    def __init__(self, case: Case, wrap: Callable[[nn.Module], nn.Module]) -> None:
        ad.manual_seed(case.seed)
        self.case = case
        draw = random.Random(case.seed + 1)
        nets = [Net(draw).to(ad.float64) for _ in range(1 + case.doubles)]
        self.models = [wrap(net) for net in nets]
        self.nets = nets
        self.seen = 0.0
        if case.has_hook:
            nets[0].scale.register_hook(lambda grad: 2 * grad)
        trained = [p for net in nets for p in net.parameters() if p.requires_grad]
        # a large eps: gradients that are zero but for rounding move nothing
        kinds = {"SGD": {"momentum": 0.9}, "AdamW": {"weight_decay": 0.1, "eps": 1e-2}, "Adagrad": {"eps": 1e-2}}
        self.optimizer = getattr(ad.optim, case.optimizer)(trained, lr=0.05, **kinds[case.optimizer])
        self.trained = trained

    def losses(self, models: list[Any], parts: list[ad.Tensor], branches: tuple[int, ...]) -> ad.Tensor:
        """Return the mean of the losses of these ranks' batches."""
        total: Any = 0
        for part, branch in zip(parts, branches, strict=True):
            for model in models:
                out = model(part, branch)
                loss = out.square().mean() + out.sin().sum() / 10
                if self.case.penalty:
                    (slope,) = ad.autograd.grad(loss, self.nets[0].last.weight, create_graph=True, allow_unused=True)
                    loss = loss if slope is None else loss + slope.square().sum()
                total = total + loss
        return total / len(parts)

    def step(self, models: list[Any], batches: list[list[ad.Tensor]], branches: tuple[int, ...]) -> None:
        """Train on the batches, one after another; all but the last without an exchange."""
        self.optimizer.zero_grad(set_to_none=self.case.sets_to_none)
        for i, parts in enumerate(batches):
            with nullcontext() if i == len(batches) - 1 else self.no_sync():
                loss = self.losses(models, parts, branches)
                loss.backward()
        if self.case.clips:
            norm = nn.utils.clip_grad_norm_(self.trained, 0.5)
            if self.case.asks and norm.item() > 1.0:
                self.seen += 1
        elif self.case.asks:
            self.seen += loss.item() > 0.7
        self.optimizer.step()

    def no_sync(self) -> Any:
        """Return the block of a pass that is accumulated."""
        from contextlib import ExitStack

        stack = ExitStack()
        for model in self.models:
            if hasattr(model, "no_sync"):
                stack.enter_context(model.no_sync())
        return stack


def run_case(seed: int, are_alike: bool = False) -> None:
    """Train the case's models on this rank's part, and alone on all parts, and hold that both have the same values.

    `are_alike`: the other ranks are this one's mirrors.
    """
    rank, count = dist.get_rank(), dist.get_world_size()
    case = make_case(seed, count)
    case.branches = case.branches[:1] * count if are_alike else case.branches
    case.penalty = case.penalty and all(mode != "module" for mode in case.modes)
    ddp = Training(case, lambda net: nn.parallel.DistributedDataParallel(net, **case.options))
    alone = Training(case, lambda net: net)
    has_statistics = any(isinstance(net.norm, nn.BatchNorm1d) for net in alone.nets)
    models = [ad.compile(m) for m in ddp.models] if case.modes[rank] == "module" else ddp.models

    def step(*batches: ad.Tensor) -> None:
        ddp.step(models, [[x] for x in batches], case.branches[rank : rank + 1])

    train = ad.compile(step) if case.modes[rank] == "step" else step
    for number in range(STEPS):
        ad.manual_seed(100 * case.seed + number)
        batches = [list(ad.randn(count, ROWS, WIDTH, dtype=ad.float64)) for _ in range(1 + case.accumulates)]
        if are_alike:
            batches = [parts[:1] * count for parts in batches]
        train(*(parts[rank] for parts in batches))
        alone.step(alone.models, batches, case.branches)
        for (name, a), b in zip(named(ddp), [p for _, p in named(alone)], strict=True):
            assert (a.grad is None) == (b.grad is None), (case, number, name)
            for x, y in ((a, b), (a.grad, b.grad)):
                if x is not None:
                    gap = (x - y).abs().max().item()
                    assert gap <= 1e-10 * max(1.0, y.abs().max().item()), (case, number, name, gap)
        if has_statistics:
            for a, b in zip(ddp.nets, alone.nets, strict=True):
                b.load_state_dict({**b.state_dict(), **dict(a.named_buffers())})


def named(training: Training) -> Iterator[tuple[str, ad.Tensor]]:
    """Yield the names and the parameters of the models."""
    for net in training.nets:
        yield from net.named_parameters()
