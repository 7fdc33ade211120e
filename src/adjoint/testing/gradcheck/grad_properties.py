"""Checks of gradients besides their values: zero for zero, None for None, the same alone and in a batch."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from adjoint.autograd.backward import grad
from adjoint.autograd.function.function import Function
from adjoint.core.dtype.dtype import is_floating
from adjoint.core.random.generator import Generator, default_generator
from adjoint.core.tensor.tensor import Tensor, detach, wrap
from adjoint.core.typing import Array, NumpyDtype, Operands
from adjoint.testing.gradcheck.numerical import as_tuple, wants_grad

if TYPE_CHECKING:
    from adjoint.autograd.function.context import Context

BATCHED_GRAD_ADVICE = (
    "gradcheck or gradgradcheck failed while testing batched gradient computation: the backward was run by vmap over "
    "a batch of output gradients, as jacobian() and hessian() do with vectorize=True. The most common cause is an "
    "operation in it that vmap cannot take. Pass check_batched_grad=False to leave this check out."
)
BATCHED_TANGENT_ADVICE = (
    "gradcheck failed while testing batched gradient computation with forward-mode AD: the function was run by vmap "
    "over a batch of tangents. Pass check_batched_forward_grad=False to leave this check out."
)


class GradcheckError(RuntimeError):
    """A gradient that is not the derivative, or not what a gradient has to be."""

    __module__ = "adjoint.autograd.gradcheck"


def check_zero_for_zero(outputs: Sequence[Tensor], inputs: Sequence[Tensor], masked: bool | None) -> None:
    """Refuse a backward that makes something of gradients which are 0."""
    if not outputs:
        return
    zeros = [wrap(np.zeros_like(y.array)) for y in outputs]
    for x, g in zip(inputs, grad(outputs, inputs, zeros, allow_unused=True), strict=True):
        if g is None:
            continue
        if not (np.allclose(g.array, 0) if masked else (g.array == 0).all()):
            raise GradcheckError("backward not multiplied by grad_output")
        if g.array.dtype != x.array.dtype:
            raise GradcheckError("grad is incorrect type")
        if g.array.shape != x.array.shape:
            raise GradcheckError("grad is incorrect size")


class UndefinedGrad(Function):
    """The identity, through which no gradient comes back."""

    @staticmethod
    def forward(ctx: Context, x: Tensor) -> Tensor:
        """Return the tensor itself."""
        return x

    @staticmethod
    def backward(ctx: object, g: Tensor) -> None:
        """Return no gradient."""


def check_undefined(func: Any, arguments: Operands, inputs: Sequence[Tensor], count: int) -> None:
    """Refuse a backward to which None, for all its `count` outputs or for one of several, is not as good as 0."""
    every = range(count)
    for undefined in [every, *([k] for k in every)] if count > 1 else [every] * count:
        results = [y for y in as_tuple(func(*arguments)) if wants_grad(y)]
        outputs = [UndefinedGrad.apply(y) if k in undefined else y for k, y in enumerate(results)]
        zeros = [wrap(np.zeros_like(y.array)) for y in outputs]
        try:
            pulled = grad(outputs, inputs, zeros, allow_unused=True)
        except RuntimeError as error:
            _warn_of_undefined()
            raise GradcheckError(
                "Expected backward function to handle undefined output grads: the gradient of an output may be None, "
                "which stands for 0."
            ) from error
        if any(g is not None and not (g.array == 0).all() for g in pulled):
            _warn_of_undefined()
            raise GradcheckError(
                "Expected all input grads to be undefined or zero when all output grads are undefined or zero."
            )


def check_undefined_tangents(func: Any, arguments: Operands) -> None:
    """Refuse a function whose tangents differ when one input has the tangent 0 and when it has none."""
    from adjoint.transforms.forward.forward_ad import dual_level, make_dual, unpack_dual

    noise = Generator()
    with dual_level():
        duals = [
            make_dual(detach(x), wrap(random_direction(x, noise).reshape(x.array.shape))) if wants_grad(x) else x
            for x in arguments
        ]
        for i, x in enumerate(arguments):
            if not wants_grad(x):
                continue
            zero = make_dual(detach(x), wrap(np.zeros_like(x.array)))
            with_zero, without = (
                [
                    unpack_dual(y)[1]
                    for y in as_tuple(func(*duals[:i], given, *duals[i + 1 :]))
                    if isinstance(y, Tensor) and is_floating(y.array)
                ]
                for given in (zero, detach(x))
            )
            for k, (t, expected) in enumerate(zip(with_zero, without, strict=True)):
                if t is not None and expected is not None and not np.allclose(t.array, expected.array):
                    raise GradcheckError(
                        f"Mismatch in tangent values for output with index: {k} when input: {x} has an undefined "
                        f"tangent value. Got: {t} but expected: {expected}"
                    )


def check_batched(output: Tensor, k: int, inputs: Sequence[Tensor]) -> None:
    """Refuse a backward of the k-th output that gives other gradients for a batch of two than for each alone."""
    seeds = _draw_two_normal(output.array.shape, output.array.dtype)
    alone = [grad(output, inputs, wrap(np.asarray(v)), retain_graph=True, allow_unused=True) for v in seeds]
    try:
        batch = grad(output, inputs, wrap(seeds), retain_graph=True, allow_unused=True, is_grads_batched=True)
    except RuntimeError as error:
        raise GradcheckError(f"While computing batched gradients, got: {error}\n\n{BATCHED_GRAD_ADVICE}") from error
    for i, (x, together, *each) in enumerate(zip(inputs, batch, *alone, strict=True)):
        expected = [np.zeros_like(x.array) if g is None else g.array for g in each]
        _compare_batch(
            k, i, expected, [expected[0] * 0] * 2 if together is None else together.array, BATCHED_GRAD_ADVICE
        )


def check_batched_tangents(func: Any, arguments: Operands) -> None:
    """Refuse a function that gives other tangents for a batch of two than for each alone."""
    from adjoint.transforms.forward.forward_ad import dual_level, make_dual, unpack_dual
    from adjoint.transforms.vmap.vmap import vmap_dim0

    for i, x in enumerate(arguments):
        if not wants_grad(x):
            continue

        def push_tangent(t: Tensor, i: int = i) -> tuple[Tensor, ...]:
            with dual_level():
                duals = [detach(a) if isinstance(a, Tensor) else a for a in arguments]
                duals[i] = make_dual(duals[i], t)
                results = [unpack_dual(y) for y in as_tuple(func(*duals)) if y is not None]
                return tuple(wrap(np.zeros(y.shape, y.dtype.numpy)) if dy is None else dy for y, dy in results)

        tangents = _draw_two_normal(x.array.shape, x.array.dtype)
        alone = [push_tangent(wrap(np.asarray(t))) for t in tangents]
        try:
            batch = vmap_dim0(push_tangent, [wrap(tangents)])
        except RuntimeError as error:
            raise GradcheckError(
                f"While computing batched gradients, got: {error}\n\n{BATCHED_TANGENT_ADVICE}"
            ) from error
        for k, (together, *each) in enumerate(zip(batch, *alone, strict=True)):
            _compare_batch(k, i, [t.array for t in each], together.array, BATCHED_TANGENT_ADVICE)


def random_direction(x: Tensor, noise: Generator) -> Array:
    """Return a random vector of norm 1 without negative elements, one for each element of `x`."""
    u = noise.uniform((x.array.size,), np.float32).astype(x.array.real.dtype)
    return u / np.linalg.norm(u)


def _draw_two_normal(shape: tuple[int, ...], dtype: NumpyDtype) -> Array:
    """Two tensors of normal numbers, drawn one after the other; of complex ones both parts have variance 1/2."""
    real = np.empty(0, dtype).real.dtype
    if dtype == real:
        return np.stack([default_generator.normal(shape, real) for _ in range(2)])
    parts = [default_generator.normal((*shape, 2), real, 0.0, math.sqrt(0.5)) for _ in range(2)]
    drawn: Array = np.stack(parts).view(dtype)[..., 0]
    return drawn


def _compare_batch(k: int, i: int, expected: Sequence[Array], found: Any, advice: str) -> None:
    if not np.allclose(found, np.stack(expected)):
        raise GradcheckError(
            f"For output {k} and input {i}:\n\n{advice}\n\nGot:\n{wrap(np.asarray(found))}\n\nExpected:\n"
            f"{wrap(np.stack(expected))}"
        )


def _warn_of_undefined() -> None:
    warnings.warn(
        "Backwards compatibility: New undefined gradient support checking feature is enabled by default, but it may "
        "break existing callers of this function. If this is true for you, you can call this function with "
        '"check_undefined_grad=False" to disable the feature',
        UserWarning,
        stacklevel=4,
    )
