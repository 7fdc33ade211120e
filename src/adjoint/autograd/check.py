"""`gradcheck`: the gradients that rules give, against differences of the function's values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from adjoint.autograd.backward import grad
from adjoint.autograd.grad_mode import enable_grad
from adjoint.core.tensor import Tensor, wrap

Inputs = Tensor | Sequence[Any]
Jacobian = Any  # ndarray, elements of the input × elements of the output


class GradcheckError(RuntimeError):
    """A gradient that is not the derivative."""


def gradcheck(
    func: Callable[..., Any],
    inputs: Inputs,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
) -> bool:
    """True if |analytical - numerical| ≤ atol + rtol |numerical| for each Jacobian; central differences of `eps`.

    Every input that requires grad is checked, and must be float64: in less, differences are noise. If they differ,
    raises GradcheckError with both Jacobians, or returns False; ValueError if no input requires grad.
    """
    given = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)
    checked = [i for i, x in enumerate(given) if isinstance(x, Tensor) and x.requires_grad]
    if not checked:
        raise ValueError("gradcheck expects at least one input tensor to require gradient, but none of them does")
    for i in checked:
        if given[i].array.dtype != np.float64:
            raise ValueError(f"gradcheck needs float64 inputs, input {i} is {given[i].dtype}: it would see noise")
    fault = _compare(func, given, checked, eps, atol, rtol)
    if fault is not None and raise_exception:
        raise GradcheckError(fault)
    return fault is None


def gradgradcheck(
    func: Callable[..., Any],
    inputs: Inputs,
    grad_outputs: Inputs | None = None,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
) -> bool:
    """`gradcheck` of the gradients of `func` as functions of its inputs and of `grad_outputs`, random if left out."""
    given = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)
    outputs = _outputs(func, given)
    if grad_outputs is None:
        noise = np.random.default_rng(0)
        weights = tuple(wrap(noise.standard_normal(y.array.shape)).requires_grad_() for y in outputs)
    else:
        weights = (grad_outputs,) if isinstance(grad_outputs, Tensor) else tuple(grad_outputs)

    def gradients(*arguments: Any) -> tuple[Any, ...]:
        xs, vs = arguments[: len(given)], arguments[len(given) :]
        with enable_grad():
            wanted = [x for x in xs if isinstance(x, Tensor) and x.requires_grad]
            return grad(_outputs(func, xs), wanted, vs, create_graph=True, allow_unused=True, materialize_grads=True)

    return gradcheck(gradients, (*given, *weights), eps, atol, rtol, raise_exception)


def _compare(func: Any, given: tuple[Any, ...], checked: list[int], eps: float, atol: float, rtol: float) -> str | None:
    outputs = _outputs(func, given)
    for k, y in enumerate(outputs):
        again = grad_rows(y, [given[i] for i in checked])
        for i, analytical in zip(checked, again, strict=True):
            numerical = _differences(func, given, i, k, eps)
            if not np.allclose(analytical, numerical, rtol=rtol, atol=atol, equal_nan=True):
                return (
                    f"Jacobian mismatch for output {k} with respect to input {i},\n"
                    f"numerical:\n{numerical}\nanalytical:\n{analytical}\n"
                    f"largest difference: {np.nanmax(np.abs(analytical - numerical))}"
                )
    return None


def _outputs(func: Any, given: Sequence[Any]) -> list[Tensor]:
    """The floating outputs of `func` that depend on its inputs."""
    result = func(*given)
    outputs = [result] if isinstance(result, Tensor) else list(result)
    return [y for y in outputs if isinstance(y, Tensor) and y.node is not None]


def grad_rows(y: Tensor, inputs: list[Tensor]) -> list[Jacobian]:
    """The Jacobians of `y` by each input: one backward pass for each element of y."""
    jacobians = [np.zeros((x.numel(), y.numel())) for x in inputs]
    for column in range(y.numel()):
        unit = np.zeros(y.numel())
        unit[column] = 1.0
        weight = wrap(unit.reshape(y.array.shape).astype(y.array.dtype))
        for jacobian, g in zip(jacobians, grad(y, inputs, weight, retain_graph=True, allow_unused=True), strict=True):
            if g is not None:
                jacobian[:, column] = g.array.reshape(-1)
    return jacobians


def _differences(func: Any, given: tuple[Any, ...], i: int, k: int, eps: float) -> Jacobian:
    """(f(x + ε) - f(x - ε)) / 2ε for each element of input `i`, for output `k`."""
    x = given[i].array.copy()
    rows = []
    for place in np.ndindex(*x.shape):
        values = []
        for step in (eps, -eps):
            moved = x.copy()
            moved[place] += step
            arguments = list(given)
            arguments[i] = wrap(moved).requires_grad_()
            values.append(_outputs(func, arguments)[k].array.astype(np.float64).reshape(-1))
        rows.append((values[0] - values[1]) / (2 * eps))
    return np.array(rows).reshape(x.size, -1)
