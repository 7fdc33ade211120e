"""Small programs whose graphs and kernels are kept as text beside this file; `test_pipeline.py` compares them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import adjoint as ad
import adjoint.nn.functional as F
from adjoint import nn, optim
from adjoint.utils.checkpoint import checkpoint

Program = tuple[Callable[..., Any], tuple[Any, ...]]
PROGRAMS: dict[str, Callable[[], Program]] = {}


def program(*arguments: Callable[[], Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register a function with the arguments that it is traced with."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        PROGRAMS[function.__name__] = lambda: (function, tuple(make() for make in arguments))
        return function

    return register


def step(make: Callable[[], Program]) -> Callable[[], Program]:
    """Register what makes a training step, with modules and an optimizer, and its arguments."""
    PROGRAMS[make.__name__] = make
    return make


def floats(*shape: int) -> Callable[[], Any]:
    """Return a maker of zeros: only shapes and types count."""
    return lambda: ad.zeros(*shape)


def indices(*shape: int) -> Callable[[], Any]:
    """Return a maker of indices."""
    return lambda: ad.zeros(*shape, dtype=ad.int64)


@program(floats(64), floats(64))
def elementwise(x: Any, y: Any) -> Any:
    return ad.exp(x * 2.0 + y) * ad.exp(x * 2.0 + y) * 1.0


@program(floats(5, 1, 4), floats(3, 1))
def broadcasting(x: Any, y: Any) -> Any:
    return (x + y).transpose(0, 2), ad.maximum(x - y, y)


@program(floats(8, 40))
def softmax(x: Any) -> Any:
    return F.softmax(x, -1)


@program(floats(8, 40))
def reductions(x: Any) -> Any:
    return x.sum(0), x.max(), x.var(1), (x - x.mean(1, keepdim=True)).square().sum()


@program(floats(6, 10), indices(6))
def cross_entropy_gradient(x: Any, y: Any) -> Any:
    x.requires_grad_()
    loss = F.cross_entropy(x, y)
    return loss, *ad.autograd.grad(loss, x)


@program(floats(8, 40), floats(40), floats(40))
def layer_norm_gradient(x: Any, weight: Any, bias: Any) -> Any:
    weight.requires_grad_()
    return ad.autograd.grad(F.layer_norm(x, (40,), weight, bias).square().sum(), weight)


@program(floats(70, 64), floats(48, 64), floats(48))
def linear_gelu(x: Any, weight: Any, bias: Any) -> Any:
    return F.gelu(F.linear(x, weight, bias))


@program(floats(70, 64), floats(64, 48))
def matmul_of_computed(x: Any, w: Any) -> Any:
    return (x.relu() * 2.0) @ w.exp(), (x @ w).T


@program(floats(2, 3, 16, 16), floats(8, 3, 3, 3), floats(8))
def conv_relu_pool(x: Any, weight: Any, bias: Any) -> Any:
    return F.max_pool2d(F.conv2d(x, weight, bias, padding=1).relu(), 2)


@program(floats(2, 4, 16, 8), floats(2, 4, 16, 8), floats(2, 4, 16, 8))
def attention(q: Any, k: Any, v: Any) -> Any:
    return F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(2, 16, 32)


@program(indices(12), floats(30, 8))
def embedding_gradient(words: Any, table: Any) -> Any:
    table.requires_grad_()
    return ad.autograd.grad(F.embedding(words, table).square().sum(), table)


@program(floats(4, 16))
def dropout(x: Any) -> Any:
    return F.dropout(x.tanh(), 0.25)


@program(floats(4, 16), floats(4, 32), floats(128, 16), floats(128, 32))
def lstm_cell(x: Any, h: Any, weight: Any, recurrent: Any) -> Any:
    c = h * 0.5
    for _ in range(4):
        i, f, g, o = (x @ weight.T + h @ recurrent.T).chunk(4, 1)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        h = o.sigmoid() * c.tanh()
    return h


@program(floats(40, 6))
def sort_and_scan(x: Any) -> Any:
    values, order = x.sort(0)
    return values.cumsum(0).flip(0), order


@program(floats(9, 3), indices(5))
def indexing(x: Any, i: Any) -> Any:
    return x[i] + x[1:6] * x[-1]


@program(floats(6, 4), floats(2, 4))
def in_place(x: Any, y: Any) -> Any:
    out = x.clone()
    out[2:4] = y
    out[:, 0].mul_(3.0)
    return out.add_(1.0)


@program(floats(3, 4), floats(5, 4))
def concatenation(x: Any, y: Any) -> Any:
    whole = ad.cat([x.exp(), y.neg()])
    return whole.square(), *whole.split([2, 6])


@program(floats(32, 16), floats(16, 16))
def checkpointed(x: Any, w: Any) -> Any:
    w.requires_grad_()
    loss = checkpoint(lambda x: (x @ w).tanh().exp(), x, use_reentrant=False).sum()
    return loss, *ad.autograd.grad(loss, w)


@program(floats(1024, 512), floats(512, 512))
def rematerialized(x: Any, w: Any) -> Any:
    w.requires_grad_()
    for _ in range(4):
        x = F.gelu(x @ w)
    return ad.autograd.grad(x.sum(), w)


@step
def mlp_step() -> Program:
    model = nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3))
    optimizer = optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    return step, (ad.ones(4, 6), ad.tensor([0, 1, 2, 0]))


@step
def batch_norm_adam_step() -> Program:
    model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8))
    optimizer = optim.Adam(model.parameters(), lr=0.1)

    def step(x: Any) -> Any:
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss

    return step, (ad.ones(6, 4),)
