"""The ways in which a workload is run: ours eager and compiled, PyTorch's three, JAX's."""

from __future__ import annotations

import importlib
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from .workloads.workload import NotYet, Start, Step, Workload

OURS, EAGER = "adjoint compiled", "adjoint eager"


@dataclass(frozen=True)
class Variant:
    """`make(workload, start)` gives the step, or None where the workload has no such way; `array` makes its arguments.

    `package` is what must be installed.
    """

    package: str
    make: Callable[[Workload, Start], Step | None]
    array: Callable[[Any], Any]


def _adjoint(workload: Workload, start: Start, *, compiled: bool) -> Step:
    import adjoint

    step = workload.step(adjoint, start)
    return adjoint.compile(step) if compiled else step


def _torch(workload: Workload, start: Start) -> Step:
    import torch

    return workload.step(torch, start)


def _fused(workload: Workload, start: Start) -> Step | None:
    import torch

    return None if workload.fused is None else workload.fused(torch, start)


def _compiled(workload: Workload, start: Start) -> Step:
    return _torch_compile(workload.step, start)


def _whole(workload: Workload, start: Start) -> Step | None:
    if workload.whole is None:
        return None
    import torch._dynamo

    torch._dynamo.config.trace_autograd_ops = True  # so that the gradient is a part of the graph
    return _torch_compile(workload.whole, start, fullgraph=True)


def _torch_compile(make: Callable[[Any, Start], Step], start: Start, **options: Any) -> Step:
    if not any(map(shutil.which, ("g++", "clang++", "c++"))):
        raise NotYet("torch.compile: there is no C++ compiler")
    import torch

    return torch.compile(make(torch, start), **options)


def _jax(workload: Workload, start: Start) -> Step:
    return workload.jax(start)


def _tensor(package: str) -> Callable[[Any], Any]:
    return lambda array: importlib.import_module(package).tensor(array)


def _jax_array(array: Any) -> Any:
    import jax.numpy as jnp

    return jnp.array(array)


VARIANTS: dict[str, Variant] = {
    OURS: Variant("adjoint", lambda *given: _adjoint(*given, compiled=True), _tensor("adjoint")),
    EAGER: Variant("adjoint", lambda *given: _adjoint(*given, compiled=False), _tensor("adjoint")),
    "torch eager": Variant("torch", _torch, _tensor("torch")),
    "torch eager, fused optimizer": Variant("torch", _fused, _tensor("torch")),
    "torch.compile": Variant("torch", _compiled, _tensor("torch")),
    "torch.compile, one graph": Variant("torch", _whole, _tensor("torch")),
    "jax.jit, state donated": Variant("jax", _jax, _jax_array),
}


def numbers(result: Any) -> list[float]:
    """A few numbers that tell one result from another: of each array its only element, or mean, mean size and ends."""
    return [x for part in (result if isinstance(result, (tuple, list)) else (result,)) for x in _told(part)]


def difference(found: Sequence[Sequence[float]], expected: Sequence[Sequence[float]]) -> float:
    """The largest |a − b| of all calls, over the largest |b| of the same call."""
    return max(
        max(abs(a - b) for a, b in zip(one, other, strict=True)) / (max(map(abs, other)) or 1.0)
        for one, other in zip(found, expected, strict=True)
    )


def _told(part: Any) -> Iterator[float]:
    import numpy as np

    array = np.asarray(part.detach().numpy() if hasattr(part, "detach") else part).astype(np.float64)
    if array.size == 1:
        yield array.item()
    else:
        yield from map(float, (array.mean(), abs(array).mean(), array.flat[0], array.flat[-1]))
