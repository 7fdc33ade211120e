"""A recurrent network which classifies sequences: one LSTM layer, and a linear layer on its last output."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .mlp import jax_cross_entropy
from .workload import Network, Start, Workload, drawn, images, needed, training


@dataclass(frozen=True)
class Recurrent:
    """Numbers at each step of the input, hidden numbers, steps, the batch."""

    inputs: int
    hidden: int
    steps: int
    batch: int


def workload(name: str, target: float, size: Recurrent) -> Workload:
    """A training step with Adam."""
    H = size.hidden

    def start() -> Start:
        weights = drawn({
            "layer.weight_ih_l0": (4 * H, size.inputs), "layer.weight_hh_l0": (4 * H, H), "layer.bias_ih_l0": (4 * H,),
            "layer.bias_hh_l0": (4 * H,), "head.weight": (10, H), "head.bias": (10,),
        })  # fmt: skip
        return Start(weights, images((size.steps, size.inputs), 10, size.batch))

    network = Network(
        build=lambda library: build(library, size),
        loss=lambda library, model, x, y: library.nn.functional.cross_entropy(model(x), y),
        jax_loss=jax_loss,
        start=start,
        flops=flops(size),
        optimizer="Adam",
        options={"lr": 1e-3},
    )
    title = f"LSTM, input {size.inputs}, hidden {H}, sequence {size.steps}, batch {size.batch}, Adam"
    return training(name, title, target, network)


def build(library: Any, size: Recurrent) -> Any:
    """The model, for either library."""
    nn = library.nn
    layer = needed(nn, "LSTM")

    class Classifier(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.layer = layer(size.inputs, size.hidden, batch_first=True)
            self.head = nn.Linear(size.hidden, 10)

        def forward(self, x: Any) -> Any:
            outputs, _ = self.layer(x)  # (B, T, H)
            return self.head(outputs[:, -1])

    return Classifier()


def flops(size: Recurrent) -> float:
    """B·T · 2·4H · (2·in + 3·H), and the head: nobody wants the input's gradient."""
    gates = size.batch * size.steps * 8.0 * size.hidden * (2 * size.inputs + 3 * size.hidden)
    return gates + 3 * 2.0 * size.batch * size.hidden * 10


def jax_loss(w: Any, buffers: Any, x: Any, y: Any) -> Any:
    """A scan over time, and the cross entropy, in JAX."""
    import jax
    import jax.numpy as jnp

    incoming = x @ w["layer.weight_ih_l0"].T + w["layer.bias_ih_l0"] + w["layer.bias_hh_l0"]  # (B, T, 4H)
    zeros = jnp.zeros((len(x), w["head.weight"].shape[1]), x.dtype)

    def step(state: Any, gates: Any) -> Any:
        h, c = state
        i, f, g, o = jnp.split(gates + h @ w["layer.weight_hh_l0"].T, 4, axis=-1)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), None

    (h, _), _ = jax.lax.scan(step, (zeros, zeros), incoming.swapaxes(0, 1))
    return jax_cross_entropy(h @ w["head.weight"].T + w["head.bias"], y), buffers


LSTM = workload("lstm", 1.5, Recurrent(inputs=128, hidden=128, steps=32, batch=32))
TINY = workload("lstm", 1.0, Recurrent(inputs=3, hidden=4, steps=5, batch=2))
