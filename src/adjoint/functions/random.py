"""Random tensors: PyTorch's own CPU numbers for the same seed."""

from __future__ import annotations

from typing import Any

import numpy as np

from adjoint.core.device import device as Device
from adjoint.core.dtype import default, numpy_dtype
from adjoint.core.generator import Generator, default_generator
from adjoint.core.tensor import Tensor, method, wrap
from adjoint.functions.dims import sizes
from adjoint.ops import arithmetic, movement
from adjoint.ops import random as ops
from adjoint.ops.inplace import write

__all__ = [
    "Generator", "bernoulli", "default_generator", "get_rng_state", "initial_seed", "manual_seed", "normal", "rand",
    "rand_like", "randint", "randn", "randn_like", "randperm", "seed", "set_rng_state",
]  # fmt: skip


def manual_seed(seed: int) -> Generator:
    """Start the default generator's stream of `seed`."""
    return default_generator.manual_seed(seed)


def seed() -> int:
    """Start the default generator at a seed nobody can foresee, and return it."""
    return default_generator.seed()


def initial_seed() -> int:
    """The seed with which the default generator's stream began."""
    return default_generator.initial_seed()


def get_rng_state() -> Tensor:
    """The default generator's place in its stream: uint8 (5056,), PyTorch's own format."""
    return wrap(default_generator.get_state())


def set_rng_state(new_state: Tensor) -> None:
    """Put the default generator where `get_rng_state` found it. Raises RuntimeError for anything else."""
    default_generator.set_state(new_state.numpy())


def _finish(out: Tensor, requires_grad: bool, device: Any = None) -> Tensor:
    if device is not None:
        Device(device)
    return out.requires_grad_() if requires_grad else out


def rand(
    *size: Any, generator: Any = None, dtype: Any = None, device: Any = None, requires_grad: bool = False,
    layout: Any = None, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """Uniform over [0, 1)."""
    kind = numpy_dtype(dtype or default.floating)
    out = ops.uniform(shape=sizes(size), dtype=kind, low=0.0, high=1.0, generator=generator or default_generator)
    return _finish(out, requires_grad, device)


def randn(
    *size: Any, generator: Any = None, dtype: Any = None, device: Any = None, requires_grad: bool = False,
    layout: Any = None, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """Normal with mean 0 and standard deviation 1; of a complex number, both parts with variance 1/2."""
    kind = numpy_dtype(dtype or default.floating)
    return _finish(_standard(sizes(size), kind, generator or default_generator), requires_grad, device)


def _standard(shape: tuple[int, ...], kind: Any, generator: Generator) -> Tensor:
    if kind.kind != "c":
        return ops.normal(shape=shape, dtype=kind, mean=0.0, std=1.0, generator=generator)
    real = np.empty(0, kind).real.dtype
    parts = ops.normal(shape=(*shape, 2), dtype=real, mean=0.0, std=0.5**0.5, generator=generator)
    re, im = (movement.select(parts, axis=len(shape), at=i) for i in (0, 1))
    return arithmetic.add(re, arithmetic.mul(im, 1j))


def rand_like(
    input: Tensor, *, generator: Any = None, dtype: Any = None, device: Any = None, requires_grad: bool = False,
    memory_format: Any = None, layout: Any = None, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """`rand` in the shape and dtype of `input`."""
    kind = dtype or input.dtype
    return rand(*input.array.shape, generator=generator, dtype=kind, device=device, requires_grad=requires_grad)


def randn_like(
    input: Tensor, *, generator: Any = None, dtype: Any = None, device: Any = None, requires_grad: bool = False,
    memory_format: Any = None, layout: Any = None, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """`randn` in the shape and dtype of `input`."""
    kind = dtype or input.dtype
    return randn(*input.array.shape, generator=generator, dtype=kind, device=device, requires_grad=requires_grad)


def normal(
    mean: Any = 0.0, std: Any = 1.0, size: Any = None, *, generator: Any = None, dtype: Any = None, device: Any = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """Normal with the given mean and standard deviation: numbers with a `size`, or tensors, element by element."""
    if size is not None:
        kind = numpy_dtype(dtype or default.floating)
        out = ops.normal(shape=sizes((size,)), dtype=kind, mean=mean, std=std, generator=generator or default_generator)
        return _finish(out, requires_grad, device)
    shape = np.broadcast_shapes(*(v.array.shape for v in (mean, std) if isinstance(v, Tensor)))
    like = mean if isinstance(mean, Tensor) else std
    out = randn(*shape, generator=generator, dtype=like.dtype)
    return arithmetic.add(arithmetic.mul(out, std), mean)


def randint(
    low: int = 0, high: Any = None, size: Any = None, *, generator: Any = None, dtype: Any = None, device: Any = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """Integers of [low, high), all equally likely; `randint(high, size)` starts at 0. int64 unless named."""
    if size is None:
        low, high, size = 0, low, high
    elif high is None:
        low, high = 0, low
    kind = numpy_dtype(dtype or np.int64)
    out = ops.randint(shape=sizes((size,)), dtype=kind, low=low, high=high, generator=generator or default_generator)
    return _finish(out, requires_grad, device)


def randperm(
    n: int, *, generator: Any = None, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """The integers below n in random order."""
    out = ops.randperm(count=n, dtype=numpy_dtype(dtype or np.int64), generator=generator or default_generator)
    return _finish(out, requires_grad, device)


@method
def bernoulli(input: Tensor, p: float | None = None, *, generator: Any = None) -> Tensor:
    """1 with the probability that `input` has at the element, else 0. Raises RuntimeError outside [0, 1]."""
    source = generator or default_generator
    if p is not None:
        return ops.coin(shape=input.array.shape, dtype=input.array.dtype, p=p, generator=source)
    return ops.bernoulli(input.detach(), dtype=input.array.dtype, generator=source)


@method
def uniform_(self: Tensor, a: float = 0.0, b: float = 1.0, *, generator: Any = None) -> Tensor:
    """Fill with numbers uniform over [a, b)."""
    out = ops.uniform(
        shape=self.array.shape, dtype=self.array.dtype, low=a, high=b, generator=generator or default_generator
    )
    return write(self, out, "uniform_")


@method
def normal_(self: Tensor, mean: float = 0.0, std: float = 1.0, *, generator: Any = None) -> Tensor:
    """Fill with numbers normal with this mean and standard deviation."""
    out = ops.normal(
        shape=self.array.shape, dtype=self.array.dtype, mean=mean, std=std, generator=generator or default_generator
    )
    return write(self, out, "normal_")


@method
def bernoulli_(self: Tensor, p: Any = 0.5, *, generator: Any = None) -> Tensor:
    """Fill with 1 with probability p, else 0."""
    source = generator or default_generator
    if isinstance(p, Tensor):
        chances = movement.expand(p.detach(), shape=self.array.shape)
        out = ops.bernoulli(chances, dtype=self.array.dtype, generator=source)
    else:
        out = ops.coin(shape=self.array.shape, dtype=self.array.dtype, p=p, generator=source)
    return write(self, out, "bernoulli_")


@method
def exponential_(self: Tensor, lambd: float = 1.0, *, generator: Any = None) -> Tensor:
    """Fill with numbers exponential with rate `lambd`."""
    out = ops.exponential(
        shape=self.array.shape, dtype=self.array.dtype, rate=lambd, generator=generator or default_generator
    )
    return write(self, out, "exponential_")
