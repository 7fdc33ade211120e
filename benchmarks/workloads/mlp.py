"""Multi-layer perceptrons with ReLU that classify: linear layers and little else."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from .workload import Network, Start, Weights, Workload, dense, drawn, images, training


@dataclass(frozen=True)
class Perceptron:
    """Sizes of the layers, the batch, and how it is trained."""

    sizes: tuple[int, ...]
    batch: int
    optimizer: str
    options: dict[str, float]


def workload(name: str, target: float, size: Perceptron) -> Workload:
    """A training step of a perceptron."""
    network = Network(
        build=lambda library: build(library, size.sizes),
        loss=lambda library, model, x, y: library.nn.functional.cross_entropy(model(x), y),
        jax_loss=jax_loss,
        start=lambda: Start(weights(size.sizes), images((size.sizes[0],), size.sizes[-1], size.batch)),
        flops=dense(size.batch, size.sizes),
        optimizer=size.optimizer,
        options=size.options,
    )
    layers = "-".join(map(str, size.sizes))
    return training(name, f"MLP {layers}, batch {size.batch}, {size.optimizer}", target, network)


def build(library: Any, sizes: tuple[int, ...]) -> Any:
    """The model, for either library."""
    nn = library.nn
    layers: list[Any] = []
    for inputs, outputs in pairwise(sizes):
        layers += [nn.Linear(inputs, outputs), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def weights(sizes: tuple[int, ...]) -> Weights:
    """Under the names that `Sequential` gives them."""
    shapes: dict[str, tuple[int, ...]] = {}
    for i, (inputs, outputs) in enumerate(pairwise(sizes)):
        shapes |= {f"{2 * i}.weight": (outputs, inputs), f"{2 * i}.bias": (outputs,)}
    return drawn(shapes)


def jax_forward(w: Any, x: Any) -> Any:
    """(B, in) to (B, classes), in JAX."""
    import jax

    last = 2 * (len(w) // 2 - 1)
    for i in range(0, last, 2):
        x = jax.nn.relu(x @ w[f"{i}.weight"].T + w[f"{i}.bias"])
    return x @ w[f"{last}.weight"].T + w[f"{last}.bias"]


def jax_loss(w: Any, buffers: Any, x: Any, y: Any) -> Any:
    """Cross entropy, in JAX."""
    return jax_cross_entropy(jax_forward(w, x), y), buffers


def jax_cross_entropy(scores: Any, y: Any) -> Any:
    """−mean log softmax(scores)[y], classes last."""
    import jax
    import jax.numpy as jnp

    return -jnp.take_along_axis(jax.nn.log_softmax(scores), y[..., None], axis=-1).mean()


SMALL = workload("mlp-64", 3.0, Perceptron((64, 128, 10), 32, "SGD", {"lr": 0.05, "momentum": 0.9}))
LARGE = workload("mlp-784", 1.5, Perceptron((784, 256, 128, 10), 128, "Adam", {"lr": 1e-3}))
TINY = workload("mlp", 1.0, Perceptron((8, 6, 3), 4, "SGD", {"lr": 0.05, "momentum": 0.9}))
