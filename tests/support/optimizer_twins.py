"""The same parameters here and in PyTorch, walked through the same gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import adjoint as ad

SHAPES: list[tuple[int, ...]] = [(3, 4), (4,), ()]
TOLERANCE: dict[str, dict[str, float]] = {
    "float32": {"rtol": 2e-5, "atol": 2e-6},
    "float64": {"rtol": 1e-12, "atol": 1e-13},
}


def arrays(dtype: str, key: int) -> list[Any]:
    """One array of normal numbers for each parameter; another `key` gives others."""
    rng = np.random.default_rng(key)
    return [np.asarray(rng.normal(size=shape)).astype(dtype) for shape in SHAPES]


def parameters(dtype: str = "float32") -> list[ad.Tensor]:
    return [ad.tensor(a, requires_grad=True) for a in arrays(dtype, 0)]


def torch_parameters(torch: Any, dtype: str = "float32") -> list[Any]:
    return [torch.tensor(a, requires_grad=True) for a in arrays(dtype, 0)]


def give_gradients(params: list[Any], make: Callable[[Any], Any], dtype: str, step: int) -> None:
    """The gradients of a step: the last parameter has none at every fifth."""
    for i, (p, a) in enumerate(zip(params, arrays(dtype, 1000 + step), strict=True)):
        p.grad = None if i == 2 and step % 5 == 4 else make(a)


def walk(optimizer: Any, params: list[Any], make: Callable[[Any], Any], dtype: str, steps: range) -> list[list[Any]]:
    """The parameters after each step."""
    path = []
    for step in steps:
        give_gradients(params, make, dtype, step)
        optimizer.step()
        path.append([p.detach().numpy().copy() for p in params])
    return path


def assert_same_path(ours: list[list[Any]], theirs: list[list[Any]], dtype: str) -> None:
    for step, (here, there) in enumerate(zip(ours, theirs, strict=True)):
        for a, b in zip(here, there, strict=True):
            np.testing.assert_allclose(a, b, **TOLERANCE[dtype], err_msg=f"after step {step}")


def to_torch(torch: Any, value: Any) -> Any:
    """Our state dict with PyTorch's tensors."""
    if isinstance(value, ad.Tensor):
        return torch.tensor(value.detach().numpy())
    if isinstance(value, dict):
        return {k: to_torch(torch, v) for k, v in value.items()}
    return [to_torch(torch, v) for v in value] if isinstance(value, list) else value
