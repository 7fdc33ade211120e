"""Models and steps that the compiler's tests run twice: once eagerly, once compiled."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

import adjoint as ad
import adjoint.nn.functional as F
from adjoint import nn, optim

Step = Callable[..., Any]
OPTIMIZERS: dict[str, Callable[[Any], Any]] = {
    "sgd": lambda p: optim.SGD(p, lr=0.05),
    "momentum": lambda p: optim.SGD(p, lr=0.05, momentum=0.9, weight_decay=1e-3),
    "nesterov": lambda p: optim.SGD(p, lr=0.05, momentum=0.9, nesterov=True),
    "dampening": lambda p: optim.SGD(p, lr=0.05, momentum=0.9, dampening=0.3),
    "adam": lambda p: optim.Adam(p, lr=1e-3),
    "adamw": lambda p: optim.AdamW(p, lr=1e-3, amsgrad=True),
}


def mlp() -> Any:
    """12 features, 3 classes."""
    ad.manual_seed(0)
    return nn.Sequential(nn.Linear(12, 20), nn.ReLU(), nn.Linear(20, 3))


def cnn() -> Any:
    """(1, 8, 8), 3 classes; with running statistics and random masks."""
    ad.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Dropout(0.25),
        nn.Linear(64, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 3),
    )  # fmt: skip


def batches(count: int, *shape: int, classes: int = 3) -> list[tuple[Any, Any]]:
    """Inputs and targets."""
    numbers = np.random.default_rng(1)
    return [
        (
            ad.from_numpy(numbers.normal(size=shape).astype(np.float32)),
            ad.from_numpy(numbers.integers(0, classes, shape[0])),
        )
        for _ in range(count)
    ]


def training(model: Any, optimizer: Any) -> Step:
    """The usual step."""

    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    return step


def close(a: Any, b: Any, rough: float = 2e-6) -> None:
    """Assert that two tensors agree, to the rounding of float32."""
    x, y = a.detach().numpy(), b.detach().numpy()
    assert x.shape == y.shape
    assert x.dtype == y.dtype
    np.testing.assert_allclose(x, y, rtol=20 * rough, atol=rough * max(1.0, float(np.abs(y).max(initial=0))))


def same_state(ours: Any, theirs: Any, rough: float = 2e-6) -> None:
    """Assert that two models have the same parameters, buffers and gradients."""
    for (name, a), b in zip(ours.state_dict().items(), theirs.state_dict().values(), strict=True):
        try:
            close(a, b, rough)
        except AssertionError as error:
            error.add_note(name)
            raise
    for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
        assert (a.grad is None) == (b.grad is None)
        if a.grad is not None:
            close(a.grad, b.grad, rough)


ULPS = 4  # by which a float may differ, counted at the size of the largest number around it


def facts(result: Any, tensors: Any, *state: Any) -> list[tuple[str, Any]]:
    """All that can be seen after a call: results, arguments, modules, optimizers, the random stream; by name."""
    seen = [*_leaves("result", result), *_leaves("argument", tensors)]
    for holder in state:
        seen += _leaves(type(holder).__name__, holder.state_dict())
        if isinstance(holder, nn.Module):
            seen += [pair for name, p in holder.named_parameters() for pair in _leaves(f"{name}.grad", p.grad)]
    return [*seen, ("random", ad.get_rng_state().numpy())]


def _leaves(name: str, thing: Any) -> list[tuple[str, Any]]:
    """The parts of a container by name; a tensor as an array of its own."""
    if isinstance(thing, ad.Tensor):
        return [(name, thing.detach().numpy().copy()), (f"{name}.requires_grad", thing.requires_grad)]
    if isinstance(thing, dict):
        return [pair for key, part in thing.items() for pair in _leaves(f"{name}.{key}", part)]
    if isinstance(thing, (list, tuple)):
        return [pair for i, part in enumerate(thing) for pair in _leaves(f"{name}.{i}", part)]
    return [(name, thing)]


def same_facts(
    ours: list[Any], theirs: list[Any], exact: list[Any] | None = None, *nudged: list[Any], sums: bool = False
) -> None:
    """Assert that two lists of facts agree: floats to rounding, NaN and infinities in their places, all else exactly.

    Where `exact`, the same in float64, shows that rounding puts theirs off by more, or `nudged`, theirs of inputs that
    differ in the last bit, that rounding of the inputs does, ours may be off by three times as much. With `sums`, the
    first result is a sum over the second, whose terms may cancel: the roundings of n terms walk apart as the root of n.
    So do those of a parameter's gradient, each row of which is a sum over its share of the second result.
    """
    terms = next((value.size for name, value in theirs if name.startswith("result.1")), 1) if sums else 1
    assert [name for name, _ in ours] == [name for name, _ in theirs]
    for i, ((name, x), (_, y)) in enumerate(zip(ours, theirs, strict=True)):
        if not isinstance(y, np.ndarray):
            assert type(x) is type(y), name
            assert x == y, name
            continue
        assert (x.shape, x.dtype) == (y.shape, y.dtype), name
        if y.dtype.kind != "f":
            np.testing.assert_array_equal(x, y, name)
            continue
        rough = 1e-12 if y.dtype == np.float64 else ULPS * float(np.finfo(y.dtype).eps)
        allowed = rough * max(1.0, _largest(y))
        if name == "result.0":
            allowed *= math.sqrt(terms)
        elif name.endswith(".grad") and y.size:
            allowed *= math.sqrt(max(terms / len(np.atleast_1d(y)), 1.0))
        near = 1e-3 * max(1.0, _largest(y))  # what is farther off is a difference of kind and not of rounding
        for others in ([exact] if exact is not None else [], nudged):
            distances = [_largest(y - other[i][1]) for other in others]
            allowed += 3 * max((distance for distance in distances if distance < near), default=0.0)
        np.testing.assert_allclose(x, y, rtol=rough, atol=allowed, err_msg=name)


def _largest(array: Any) -> float:
    return float(np.abs(array[np.isfinite(array)]).max(initial=0))
