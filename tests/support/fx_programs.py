"""Programs to trace: each a function of the library `t`, Adjoint or PyTorch, that returns a module or function."""

import math
from typing import Any


def mlp(t: Any) -> Any:
    return t.nn.Sequential(t.nn.Linear(4, 8), t.nn.ReLU(), t.nn.Dropout(0.0), t.nn.Linear(8, 2))


def residual_block(t: Any) -> Any:
    class Block(t.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.conv1 = t.nn.Conv2d(3, 3, 3, padding=1, bias=False)
            self.norm = t.nn.BatchNorm2d(3)
            self.layers = t.nn.ModuleList([t.nn.Conv2d(3, 3, 1), t.nn.Identity()])

        def forward(self, x: Any) -> Any:
            y = self.norm(self.conv1(x))
            for layer in self.layers:
                y = layer(y)
            y += x
            return t.nn.functional.relu(y, inplace=True).mean((2, 3))

    return Block()


def attention(t: Any) -> Any:
    class Attention(t.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.heads = 2
            self.qkv = t.nn.Linear(4, 12)
            self.norm = t.nn.LayerNorm(4)

        def forward(self, x: Any) -> Any:
            b, n, c = x.shape
            qkv = self.qkv(self.norm(x)).reshape(b, n, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
            q, k, v = qkv.unbind(0)
            weights = ((q @ k.transpose(-2, -1)) * (1 / math.sqrt(2))).softmax(dim=-1)
            return x + (weights @ v).transpose(1, 2).reshape(b, n, c)

    return Attention()


def parameters_and_buffers(t: Any) -> Any:
    class Affine(t.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.weight = t.nn.Parameter(t.ones(4))
            self.register_buffer("shift", t.arange(4.0))
            self.plain = t.full((4,), 2.0)
            self.inner = t.nn.Linear(4, 4)

        def forward(self, x: Any) -> Any:
            y = self.shift + x * self.weight - self.inner.bias
            z = self.plain.mul(x) + self.shift.add(y, alpha=2) + t.tensor([1.0, 2.0, 3.0, 4.0]) * x
            return z @ self.inner.weight.T, self.shift[:2] - x[:, 2:]

    return Affine()


def functions(t: Any) -> Any:
    def call(x: Any) -> Any:
        f = t.nn.functional
        y = t.relu(x) + f.relu(x) + t.softmax(x, -1) + f.softmax(x, dim=1) + f.gelu(x) + f.elu(x, 0.5)
        z = f.layer_norm(y, (4,)) + f.leaky_relu(y) + t.sigmoid(y) + f.silu(y) + f.softplus(y) + f.logsigmoid(y)
        z = (
            z
            + f.normalize(y)
            + f.pad(y[:, :2], (1, 1))
            + t.swapaxes(t.transpose(y, 0, 1), 0, 1)
            + f.threshold(y, 0.1, 2)
        )
        z = (
            z
            + t.special.expm1(y)
            + t.expm1(y)
            + t.linalg.norm(y)
            + t.norm(y)
            + abs(y)
            + f.one_hot(y.long() % 4, 4).sum(1)
        )
        w = t.einsum("ij,kj->ik", z, y) + t.cdist(z, y) + f.mse_loss(z, y) + t.fft.fft(y).real.sum()
        return t.cat([w, t.stack([w, w], dim=0).sum(0)], dim=1), f.cross_entropy(z, y.argmax(1))

    return call


def slices_and_attributes(t: Any) -> Any:
    def call(x: Any) -> Any:
        rows = x.shape[0]
        y = x[..., 1:, None] + x[:, -1:].unsqueeze(-1)
        z = x.T.reshape(-1, rows).contiguous()[::2]
        a, b = x.chunk(2, dim=-1)
        return y.to(t.float64), z, (a, b), x.view(x.size(0), -1).dtype, x[x > 0].numel(), t.zeros_like(x, dtype=t.int64)

    return call


def operators(t: Any) -> Any:
    def call(x: Any) -> Any:
        y = x * 1
        y += 1
        y *= 2
        return (
            2 - y, 2 / y, 2**y, y**2, -y, +y, y // 2, y % 3, 7 // y, y == x, y != x, y < 0, y <= x, y > x, y >= 1,
            (y > 0) & (x > 0), (y > 0) | (x > 0), ~(y > 0), y @ x.T, math.pi * y, float("inf") * y, abs(y),
        )  # fmt: skip

    return call


def dictionary(t: Any) -> Any:
    def call(x: Any, scale: Any = 2.0) -> Any:
        low, high = x.min(), x.max()
        return {"low": low, "all": [low, high, (x * scale, None)], "count": 3, "kind": t.float32}

    return call


def keywords(t: Any) -> Any:
    class Keywords(t.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.layer = t.nn.Linear(4, 4)

        def forward(self, x: Any, *, factor: int = 3, bias: Any = None) -> Any:
            return t.clamp(self.layer(input=x), min=-1.0, max=1.0) * factor

    return Keywords()


def in_place_methods(t: Any) -> Any:
    def call(x: Any) -> Any:
        y = x.clone()
        y.add_(1).mul_(2)
        y[:, 0].fill_(5)
        return y.masked_fill(y > 4, 0.0).detach()

    return call


def nested_modules(t: Any) -> Any:
    class Inner(t.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.layers = t.nn.Sequential(t.nn.Linear(4, 4), t.nn.Tanh())
            self.scale = t.nn.Parameter(t.ones(1))

        def forward(self, x: Any) -> Any:
            return self.layers(x) * self.scale

    class Outer(t.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = Inner(), Inner()
            self.by_name = t.nn.ModuleDict({"tail": t.nn.Linear(4, 1)})

        def forward(self, x: Any) -> Any:
            return self.by_name["tail"](self.second(self.first(x)) + self.first(x) * self.second.scale)

    return Outer()


def losses(t: Any) -> Any:
    def call(x: Any) -> Any:
        f = t.nn.functional
        y = x.detach()
        return (
            f.l1_loss(x, y), f.smooth_l1_loss(x, y, beta=0.5), f.huber_loss(x, y),
            f.kl_div(x, y.softmax(1), reduction="batchmean"),
            f.binary_cross_entropy_with_logits(x, y), f.nll_loss(f.log_softmax(x, 1), y.argmax(1)),
            f.cosine_similarity(x, y), f.triplet_margin_loss(x, y, x * 2), f.dropout(x, 0.0, training=False),
            f.embedding(y.long().abs() % 3, x), f.linear(x, y), f.scaled_dot_product_attention(x, y, x),
        )  # fmt: skip

    return call


PROGRAMS = {
    program.__name__: program
    for program in (
        mlp, residual_block, attention, parameters_and_buffers, functions, slices_and_attributes, operators, dictionary,
        keywords, in_place_methods, nested_modules, losses,
    )
}  # fmt: skip


def make_input(t: Any, name: str) -> Any:
    """Return an input of a program."""
    shape = {"residual_block": (2, 3, 4, 4), "attention": (2, 3, 4)}.get(name, (4, 4))
    return (t.arange(float(math.prod(shape))).reshape(shape) - 5.5) / 7
