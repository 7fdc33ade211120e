"""A language model over symbols: causal transformer blocks, normalised first, with GELU; trained with AdamW."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .mlp import jax_cross_entropy
from .workload import BATCHES, Batch, Network, Start, Weights, Workload, drawn, needed, training


@dataclass(frozen=True)
class GPT:
    """Layers, heads, width, the longest text, symbols; and the batch."""

    layers: int
    heads: int
    width: int
    block: int
    symbols: int
    batch: int


def workload(name: str, target: float, size: GPT) -> Workload:
    """A training step: predict each next symbol."""
    network = Network(
        build=lambda library: build(library, size),
        loss=lambda library, model, x, y: library.nn.functional.cross_entropy(
            model(x).reshape(-1, size.symbols), y.reshape(-1)
        ),
        jax_loss=lambda w, buffers, x, y: (jax_cross_entropy(jax_forward(size, w, x), y), buffers),
        start=lambda: Start(weights(size), texts(size)),
        flops=3 * forward_flops(size),
        optimizer="AdamW",
        options={"lr": 1e-3},
    )
    title = f"GPT {size.layers} layers, {size.heads} heads, width {size.width}, block {size.block}, batch {size.batch}"
    return training(name, f"{title}, vocabulary {size.symbols}, AdamW", target, network)


def build(library: Any, size: GPT) -> Any:
    """The model, for either library."""
    nn, F = library.nn, library.nn.functional
    attend = needed(F, "scaled_dot_product_attention")

    class Block(nn.Module):  # type: ignore[misc]
        """Attention, then a layer of four times the width, each beside a residual path."""

        def __init__(self) -> None:
            super().__init__()
            self.first_norm, self.second_norm = nn.LayerNorm(size.width), nn.LayerNorm(size.width)
            self.attend, self.project = nn.Linear(size.width, 3 * size.width), nn.Linear(size.width, size.width)
            self.widen, self.narrow = nn.Linear(size.width, 4 * size.width), nn.Linear(4 * size.width, size.width)

        def forward(self, x: Any) -> Any:
            B, T, D = x.shape
            parts = self.attend(self.first_norm(x)).split(D, dim=2)
            q, k, v = (part.view(B, T, size.heads, D // size.heads).transpose(1, 2) for part in parts)  # (B, H, T, D/H)
            y = attend(q, k, v, is_causal=True).transpose(1, 2).reshape(B, T, D)
            x = x + self.project(y)
            return x + self.narrow(F.gelu(self.widen(self.second_norm(x))))

    class Transformer(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.symbols, self.places = nn.Embedding(size.symbols, size.width), nn.Embedding(size.block, size.width)
            self.blocks = nn.ModuleList(Block() for _ in range(size.layers))
            self.last_norm, self.head = nn.LayerNorm(size.width), nn.Linear(size.width, size.symbols, bias=False)

        def forward(self, text: Any) -> Any:
            x = self.symbols(text) + self.places(library.arange(text.shape[1]))
            for block in self.blocks:
                x = block(x)
            return self.head(self.last_norm(x))

    return Transformer()


def weights(size: GPT) -> Weights:
    """Under the names that the model gives them."""
    D = size.width
    shapes: dict[str, tuple[int, ...]] = {"symbols.weight": (size.symbols, D), "places.weight": (size.block, D)}
    linear = {"attend": (3 * D, D), "project": (D, D), "widen": (4 * D, D), "narrow": (D, 4 * D)}
    for i in range(size.layers):
        for norm in ("first_norm", "second_norm"):
            shapes |= {f"blocks.{i}.{norm}.weight": (D,), f"blocks.{i}.{norm}.bias": (D,)}
        for name, shape in linear.items():
            shapes |= {f"blocks.{i}.{name}.weight": shape, f"blocks.{i}.{name}.bias": shape[:1]}
    return drawn(shapes | {"last_norm.weight": (D,), "last_norm.bias": (D,), "head.weight": (size.symbols, D)})


def texts(size: GPT) -> list[Batch]:
    """Batches of text and of what comes next; each symbol is the one before plus a small step, most of the time."""
    numbers = np.random.default_rng(1)
    steps = numbers.integers(0, 3, (BATCHES, size.batch, size.block + 1))
    text = (numbers.integers(0, size.symbols, (BATCHES, size.batch, 1)) + steps.cumsum(-1)) % size.symbols
    return [(np.ascontiguousarray(t[:, :-1]), np.ascontiguousarray(t[:, 1:])) for t in text]


def forward_flops(size: GPT) -> float:
    """Tokens · (L · (2·12·D² + 4·D·(T + 1)/2) + 2·D·V): the products, half the scores, for the mask leaves half."""
    D, T = size.width, size.block
    return size.batch * T * (size.layers * (24.0 * D * D + 4.0 * D * (T + 1) / 2) + 2.0 * D * size.symbols)


def jax_forward(size: GPT, w: Any, text: Any) -> Any:
    """(B, T) symbols to (B, T, V) scores, in JAX."""
    import jax
    import jax.numpy as jnp

    def linear(name: str, x: Any) -> Any:
        return x @ w[f"{name}.weight"].T + w[f"{name}.bias"]

    def norm(name: str, x: Any) -> Any:
        mean, variance = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
        return (x - mean) * jax.lax.rsqrt(variance + 1e-5) * w[f"{name}.weight"] + w[f"{name}.bias"]

    B, T = text.shape
    x = w["symbols.weight"][text] + w["places.weight"][:T]
    for i in range(size.layers):
        block = f"blocks.{i}."
        parts = jnp.split(linear(block + "attend", norm(block + "first_norm", x)), 3, axis=-1)
        q, k, v = (part.reshape(B, T, size.heads, -1) for part in parts)
        y = jax.nn.dot_product_attention(q, k, v, is_causal=True).reshape(B, T, -1)
        x = x + linear(block + "project", y)
        hidden = jax.nn.gelu(linear(block + "widen", norm(block + "second_norm", x)), approximate=False)
        x = x + linear(block + "narrow", hidden)
    return norm("last_norm", x) @ w["head.weight"].T


NARROW_SIZE = GPT(layers=4, heads=4, width=128, block=64, symbols=65, batch=12)
NARROW = workload("gpt-128", 1.4, NARROW_SIZE)
WIDE = workload("gpt-384", 1.15, GPT(layers=6, heads=6, width=384, block=256, symbols=65, batch=4))
TINY = workload("gpt", 1.0, GPT(layers=2, heads=2, width=8, block=5, symbols=7, batch=2))
