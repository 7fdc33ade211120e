"""What a workload is: the same step in plain PyTorch style and in JAX's, what it starts from, and what it must cost."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np

from . import updates

BATCHES = 4  # different ones, taken in turn
FLOAT = 4  # bytes
Step = Callable[..., Any]
Weights = dict[str, Any]  # arrays under the names that `named_parameters()` gives them
Batch = tuple[Any, ...]  # arrays: the arguments of one call


class NotYet(Exception):
    """The library lacks what the workload is made of."""


@dataclass(frozen=True)
class Start:
    """What every variant starts from: the same weights, and batches to be called with in turn."""

    weights: Weights
    batches: list[Batch]


@dataclass(frozen=True)
class Work:
    """What any implementation has to do in one step: multiplications and additions, and bytes read and written."""

    flops: float
    bytes: float

    def bound(self, flops_per_second: float, bytes_per_second: float) -> float:
        """Seconds: max(flops / peak, bytes / bandwidth)."""
        return max(self.flops / flops_per_second, self.bytes / bytes_per_second)


@dataclass(frozen=True)
class Workload:
    """One line of the table. `target`: the time of the fastest peer over ours, at least.

    `step(library, start)` is written once for Adjoint and PyTorch; `jax(start)` for JAX. `fused(library, start)` is
    PyTorch's with an optimizer in one kernel, `whole(torch, start)` a step that torch.compile takes as one graph.
    """

    name: str
    title: str
    target: float
    start: Callable[[], Start]
    step: Callable[[Any, Start], Step]
    jax: Callable[[Start], Step]
    work: Callable[[], Work]
    fused: Callable[[Any, Start], Step] | None = None
    whole: Callable[[Any, Start], Step] | None = None


@dataclass(frozen=True)
class Network:
    """A model to be trained: `build(library)` makes it, `loss(library, model, *batch)` judges it.

    `jax_loss(weights, buffers, *batch)` gives JAX's loss and the new buffers. `flops` are those of a step without the
    optimizer's.
    """

    build: Callable[[Any], Any]
    loss: Callable[..., Any]
    jax_loss: Callable[..., Any]
    start: Callable[[], Start]
    flops: float
    optimizer: str  # a name in `optim`
    options: Mapping[str, float]
    buffers: Callable[[], Weights] = field(default=dict)


def training(name: str, title: str, target: float, network: Network) -> Workload:
    """The workload of a whole training step: forward, backward, update."""
    return Workload(
        name=name,
        title=title,
        target=target,
        start=network.start,
        step=lambda library, start: training_step(library, network, start),
        jax=lambda start: jax_step(network, start),
        work=lambda: training_work(network),
        fused=lambda library, start: training_step(library, network, start, fused=True),
        whole=lambda torch, start: whole_step(torch, network, start),
    )


def training_step(library: Any, network: Network, start: Start, **options: Any) -> Step:
    """The usual step, as it is written for either library."""
    model = loaded(library, network.build(library), start.weights)
    optimizer = getattr(library.optim, network.optimizer)(model.parameters(), **network.options, **options)

    def step(*batch: Any) -> Any:
        optimizer.zero_grad()
        loss = network.loss(library, model, *batch)
        loss.backward()
        optimizer.step()
        return loss

    return step


def whole_step(torch: Any, network: Network, start: Start) -> Step:
    """The same step without an optimizer object, its update written by hand: one graph for torch.compile."""
    model = loaded(torch, network.build(torch), start.weights)
    update, moments = updates.UPDATES[network.optimizer]
    parameters = list(model.parameters())
    states = [[torch.zeros_like(p) for _ in range(moments)] for p in parameters]
    count = torch.zeros(())

    def step(*batch: Any) -> Any:
        loss = network.loss(torch, model, *batch)
        gradients = torch.autograd.grad(loss, parameters)
        with torch.no_grad():
            count.add_(1)
            for w, g, state in zip(parameters, gradients, states, strict=True):
                new, news = update(w, g, state, count, **network.options)
                for old, value in zip((w, *state), (new, *news), strict=True):
                    old.copy_(value)
        return loss.detach()

    return step


def jax_step(network: Network, start: Start) -> Step:
    """The same step as one jitted function of all state, which is donated."""
    import jax
    import jax.numpy as jnp

    update, moments = updates.UPDATES[network.optimizer]

    def whole(state: Any, *batch: Any) -> Any:
        weights, buffers, states, count = state
        count = count + 1
        (loss, buffers), gradients = jax.value_and_grad(network.jax_loss, has_aux=True)(weights, buffers, *batch)
        stepped = {k: update(w, gradients[k], states[k], count, **network.options) for k, w in weights.items()}
        weights, states = ({k: pair[i] for k, pair in stepped.items()} for i in (0, 1))
        return (weights, buffers, states, count), loss

    jitted = jax.jit(whole, donate_argnums=0)
    weights = {k: jnp.array(w) for k, w in start.weights.items()}
    states = {k: tuple(jnp.zeros_like(w) for _ in range(moments)) for k, w in weights.items()}
    state = (weights, {k: jnp.array(b) for k, b in network.buffers().items()}, states, jnp.zeros((), jnp.float32))

    def step(*batch: Any) -> Any:
        nonlocal state
        state, loss = jitted(state, *batch)
        return loss

    return step


def training_work(network: Network) -> Work:
    """Weights and moments are read and written once, the batch is read once; an update counts 2 flops for each."""
    start = network.start()
    states = 1 + updates.UPDATES[network.optimizer][1]
    count = sum(w.size for w in start.weights.values())
    batch = sum(array.nbytes for array in start.batches[0])
    return Work(network.flops + 2 * states * count, 2 * states * FLOAT * count + batch)


def loaded(library: Any, model: Any, weights: Weights) -> Any:
    """The model, its parameters overwritten."""
    named = dict(model.named_parameters())
    if list(named) != list(weights):
        raise ValueError(f"the model has the parameters {list(named)}, but there are weights for {list(weights)}")
    with library.no_grad():
        for name, parameter in named.items():
            parameter.copy_(library.tensor(weights[name]))
    return model


def needed(holder: Any, name: str) -> Any:
    """The member of a library by that name; NotYet where there is none."""
    if not hasattr(holder, name):
        raise NotYet(f"{holder.__name__}.{name}")
    return getattr(holder, name)


def drawn(shapes: Mapping[str, tuple[int, ...]], seed: int = 0) -> Weights:
    """Weights by shape: matrices and filters uniform within ±1/√fan-in, `norm` scales 1, everything else 0."""
    numbers = np.random.default_rng(seed)
    return {name: _drawn(numbers, name, shape).astype(np.float32) for name, shape in shapes.items()}


def _drawn(numbers: np.random.Generator, name: str, shape: tuple[int, ...]) -> Any:
    if len(shape) > 1:
        bound = np.prod(shape[1:]) ** -0.5
        return numbers.uniform(-bound, bound, shape)
    return np.ones(shape) if "norm" in name and name.endswith("weight") else np.zeros(shape)


def images(shape: tuple[int, ...], classes: int, batch: int) -> list[Batch]:
    """Batches of pixels from 0 to 1 with labels that a linear rule gives: as good as real ones, for the time."""
    numbers = np.random.default_rng(1)
    x = numbers.random((BATCHES, batch, *shape)).astype(np.float32)
    flat = x.reshape(BATCHES, batch, -1)
    y = ((flat - 0.5) @ numbers.normal(size=(flat.shape[-1], classes))).argmax(-1)
    return list(zip(x, y, strict=True))


def dense(batch: int, sizes: tuple[int, ...], first: int = 2) -> float:
    """Flops of linear layers in a row: 2·B·in·out for each product, of which a layer has 3; the first has `first`,
    2 where nobody wants the gradient of its input.
    """
    return sum(2.0 * batch * a * b * (3 if i else first) for i, (a, b) in enumerate(pairwise(sizes)))
