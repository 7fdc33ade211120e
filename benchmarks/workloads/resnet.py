"""A small residual network as for CIFAR: a first convolution, stages of basic blocks with BatchNorm, mean, linear."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from .cnn import jax_convolution
from .mlp import jax_cross_entropy
from .workload import Network, Start, Weights, Workload, drawn, images, training


@dataclass(frozen=True)
class ResNet:
    """Channels of the stages, each of one block; the second and later halve the image."""

    channels: tuple[int, ...]
    side: int
    batch: int

    def convolutions(self) -> Iterator[tuple[str, int, int, int, int]]:
        """(name, in, out, kernel, side of the result) of each, in the order of the model's parameters."""
        width, side = self.channels[0], self.side
        yield "first", 3, width, 3, side
        for i, channels in enumerate(self.channels):
            side = side if i == 0 else (side + 1) // 2
            yield f"stages.{i}.first", width, channels, 3, side
            yield f"stages.{i}.second", channels, channels, 3, side
            if channels != width:
                yield f"stages.{i}.shortcut", width, channels, 1, side
            width = channels


def workload(name: str, target: float, size: ResNet) -> Workload:
    """A training step with SGD and momentum."""
    network = Network(
        build=lambda library: build(library, size),
        loss=lambda library, model, x, y: library.nn.functional.cross_entropy(model(x), y),
        jax_loss=lambda w, buffers, x, y: jax_loss(size, w, buffers, x, y),
        start=lambda: Start(weights(size), images((3, size.side, size.side), 10, size.batch)),
        flops=flops(size),
        optimizer="SGD",
        options={"lr": 0.05, "momentum": 0.9},
        buffers=lambda: buffers(size),
    )
    channels = "/".join(map(str, size.channels))
    title = f"ResNet-{2 * len(size.channels) + 2} ({channels}), 3×{size.side}×{size.side}, batch {size.batch}, SGD"
    return training(name, title, target, network)


def build(library: Any, size: ResNet) -> Any:
    """The model, for either library."""
    nn, F = library.nn, library.nn.functional

    class Block(nn.Module):  # type: ignore[misc]
        """relu(norm(conv(relu(norm(conv(x))))) + shortcut(x))."""

        def __init__(self, inputs: int, outputs: int, stride: int) -> None:
            super().__init__()
            self.first = nn.Conv2d(inputs, outputs, 3, stride=stride, padding=1, bias=False)
            self.first_norm = nn.BatchNorm2d(outputs)
            self.second = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
            self.second_norm = nn.BatchNorm2d(outputs)
            self.shortcut = self.shortcut_norm = None
            if inputs != outputs:
                self.shortcut = nn.Conv2d(inputs, outputs, 1, stride=stride, bias=False)
                self.shortcut_norm = nn.BatchNorm2d(outputs)

        def forward(self, x: Any) -> Any:
            y = F.relu(self.first_norm(self.first(x)))
            y = self.second_norm(self.second(y))
            if self.shortcut is not None:
                x = self.shortcut_norm(self.shortcut(x))
            return F.relu(y + x)

    class Network(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            widths = size.channels
            self.first = nn.Conv2d(3, widths[0], 3, padding=1, bias=False)
            self.first_norm = nn.BatchNorm2d(widths[0])
            self.stages = nn.ModuleList(
                Block(widths[max(i - 1, 0)], widths[i], 1 if i == 0 else 2) for i in range(len(widths))
            )
            self.last = nn.Linear(widths[-1], 10)

        def forward(self, x: Any) -> Any:
            x = F.relu(self.first_norm(self.first(x)))
            for stage in self.stages:
                x = stage(x)
            return self.last(x.mean((2, 3)))

    return Network()


def weights(size: ResNet) -> Weights:
    """Each convolution, then the scale and shift of its norm."""
    shapes: dict[str, tuple[int, ...]] = {}
    for name, inputs, outputs, kernel, _ in size.convolutions():
        shapes[f"{name}.weight"] = (outputs, inputs, kernel, kernel)
        shapes |= {f"{name}_norm.weight": (outputs,), f"{name}_norm.bias": (outputs,)}
    return drawn(shapes | {"last.weight": (10, size.channels[-1]), "last.bias": (10,)})


def buffers(size: ResNet) -> Weights:
    """The running statistics of each norm."""
    found: Weights = {}
    for name, _, outputs, _, _ in size.convolutions():
        found |= {f"{name}.mean": np.zeros(outputs, np.float32), f"{name}.variance": np.ones(outputs, np.float32)}
    return found


def flops(size: ResNet) -> float:
    """3 · 2·B·pixels·out·in·k² for each convolution, 2 · for the first, and those of the linear layer."""
    total = 3 * 2.0 * size.batch * size.channels[-1] * 10
    for name, inputs, outputs, kernel, side in size.convolutions():
        total += (2 if name == "first" else 3) * 2.0 * size.batch * side**2 * outputs * inputs * kernel**2
    return total


def jax_loss(size: ResNet, w: Any, buffers: Any, x: Any, y: Any) -> Any:
    """The network in training mode and its cross entropy, and the new running statistics; in JAX."""
    import jax

    new: dict[str, Any] = {}

    def normalised(name: str, x: Any, stride: int = 1) -> Any:
        x = jax_convolution(x, w[f"{name}.weight"], stride)
        mean, variance = x.mean((0, 2, 3)), x.var((0, 2, 3))
        count = x.size // len(mean)
        for key, value in (("mean", mean), ("variance", variance * count / (count - 1))):
            new[f"{name}.{key}"] = 0.9 * buffers[f"{name}.{key}"] + 0.1 * jax.lax.stop_gradient(value)
        scale = w[f"{name}_norm.weight"] * jax.lax.rsqrt(variance + 1e-5)
        return (x - mean[:, None, None]) * scale[:, None, None] + w[f"{name}_norm.bias"][:, None, None]

    x = jax.nn.relu(normalised("first", x))
    for i in range(len(size.channels)):
        stride = 1 if i == 0 else 2
        z = jax.nn.relu(normalised(f"stages.{i}.first", x, stride))
        z = normalised(f"stages.{i}.second", z)
        if f"stages.{i}.shortcut.weight" in w:
            x = normalised(f"stages.{i}.shortcut", x, stride)
        x = jax.nn.relu(z + x)
    scores = x.mean((2, 3)) @ w["last.weight"].T + w["last.bias"]
    return jax_cross_entropy(scores, y), new


RESNET = workload("resnet", 1.3, ResNet((16, 32, 64), 32, 32))
TINY = workload("resnet", 1.0, ResNet((2, 4), 6, 3))
