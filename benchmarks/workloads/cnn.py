"""A convolutional network after LeNet: two convolutions with pooling, two linear layers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .mlp import jax_cross_entropy
from .workload import Network, Start, Workload, dense, drawn, images, training


@dataclass(frozen=True)
class LeNet:
    """Pixels along a side, channels of the convolutions, the hidden layer, the batch."""

    side: int
    channels: tuple[int, int]
    hidden: int
    batch: int


def workload(name: str, target: float, size: LeNet) -> Workload:
    """A training step with Adam. Convolutions keep the size (padding 2 and 1), each pooling halves it."""
    (c1, c2), side = size.channels, size.side
    flat = c2 * (side // 4) ** 2

    def start() -> Start:
        weights = drawn({
            "0.weight": (c1, 1, 5, 5), "0.bias": (c1,), "3.weight": (c2, c1, 3, 3), "3.bias": (c2,),
            "7.weight": (size.hidden, flat), "7.bias": (size.hidden,), "9.weight": (10, size.hidden), "9.bias": (10,),
        })  # fmt: skip
        return Start(weights, images((1, side, side), 10, size.batch))

    network = Network(
        build=lambda library: build(library, size),
        loss=lambda library, model, x, y: library.nn.functional.cross_entropy(model(x), y),
        jax_loss=jax_loss,
        start=start,
        flops=flops(size, flat),
        optimizer="Adam",
        options={"lr": 1e-3},
    )
    title = f"CNN 1×{side}×{side}, conv 5×5×{c1}, conv 3×3×{c2}, {size.hidden}, 10, batch {size.batch}, Adam"
    return training(name, title, target, network)


def build(library: Any, size: LeNet) -> Any:
    """The model, for either library."""
    nn, (c1, c2) = library.nn, size.channels
    return nn.Sequential(
        nn.Conv2d(1, c1, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(c1, c2, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(c2 * (size.side // 4) ** 2, size.hidden), nn.ReLU(), nn.Linear(size.hidden, 10),
    )  # fmt: skip


def flops(size: LeNet, flat: int) -> float:
    """2·B·pixels·out·in·k² for each product; the first convolution has two, as nobody wants the image's gradient."""
    (c1, c2), pixels = size.channels, size.side**2
    convolutions = 2 * (2.0 * size.batch * pixels * c1 * 25) + 3 * (2.0 * size.batch * (pixels // 4) * c2 * c1 * 9)
    return convolutions + dense(size.batch, (flat, size.hidden, 10), first=3)


def jax_loss(w: Any, buffers: Any, x: Any, y: Any) -> Any:
    """The network and its cross entropy, in JAX."""
    import jax

    x = _pooled(jax.nn.relu(jax_convolution(x, w["0.weight"]) + w["0.bias"][:, None, None]))
    x = _pooled(jax.nn.relu(jax_convolution(x, w["3.weight"]) + w["3.bias"][:, None, None]))
    x = x.reshape(len(x), -1)
    x = jax.nn.relu(x @ w["7.weight"].T + w["7.bias"])
    return jax_cross_entropy(x @ w["9.weight"].T + w["9.bias"], y), buffers


def jax_convolution(x: Any, w: Any, stride: int = 1) -> Any:
    """(B, C, H, W) with (O, C, k, k), k odd, padded so that stride 1 keeps the size."""
    import jax

    edge = w.shape[-1] // 2
    return jax.lax.conv_general_dilated(x, w, (stride, stride), ((edge, edge), (edge, edge)))


def _pooled(x: Any) -> Any:
    import jax
    import jax.numpy as jnp

    return jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")


LENET = workload("cnn", 1.5, LeNet(28, (16, 32), 128, 64))
TINY = workload("cnn", 1.0, LeNet(8, (2, 3), 5, 3))
