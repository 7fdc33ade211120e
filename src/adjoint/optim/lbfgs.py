"""L-BFGS optimizer: Newton's method with the curvature of the last gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from adjoint.autograd.grad_mode import enable_grad, no_grad
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Operand, StateDict
from adjoint.functions.creation.creation import zeros
from adjoint.functions.elementwise.complex import view_as_real
from adjoint.functions.shape.join import cat
from adjoint.optim.line_search import LinePoint, strong_wolfe
from adjoint.optim.step.hyperparameters import Number, as_scalar, declare_hyperparameters
from adjoint.optim.step.optimizer import Optimizer, ParamsT
from adjoint.optim.step.update_rule import counted_state

MIN_CURVATURE = 1e-10  # of a pair of changes that is remembered


class LBFGS(Optimizer):
    """Limited-memory BFGS optimizer: p ← p - t H g, with H an estimate of the inverse Hessian.

    H comes from the recent changes of p and g. One `step` makes up to `max_iter` iterations and calls the closure for
    each. The step length t is `lr`, and lr min(1, 1 / |g|₁) in the very first iteration. All parameters form one
    vector, in one group.

    Args:
        params: iterable of parameters, or of pairs (name, parameter).
        lr: learning rate, a number or a tensor of one element. Default: 1.
        max_iter: iterations per step. Default: 20.
        max_eval: calls of the closure per step. Default: 1.25 max_iter.
        tolerance_grad: largest |g| at which a step ends. Default: 1e-7.
        tolerance_change: change of loss and parameters below which a step ends. Default: 1e-9.
        history_size: number of changes that H is made of. Default: 100.
        line_search_fn: "strong_wolfe" for a line search for t. Default: None.

    Raises: ValueError for several groups and a negative rate.

    Source: Nocedal and Wright, Numerical Optimization, algorithms 7.4 and 7.5.

    Example:
        >>> p = nn.Parameter(ad.tensor([1.0, -2.0]))
        >>> def closure():
        ...     p.grad = None
        ...     (loss := (p - 3).square().sum()).backward()
        ...     return loss
        >>> optim.LBFGS([p], line_search_fn="strong_wolfe").step(closure).item(), p.detach()
        (29.0, tensor([3.0000, 3.0000]))
    """

    hyperparameters = declare_hyperparameters(
        "lr max_iter max_eval tolerance_grad tolerance_change history_size line_search_fn"
    )

    def __init__(
        self,
        params: ParamsT,
        lr: Number = 1,
        max_iter: int = 20,
        max_eval: int | None = None,
        tolerance_grad: float = 1e-7,
        tolerance_change: float = 1e-9,
        history_size: int = 100,
        line_search_fn: str | None = None,
    ) -> None:
        max_eval = max_iter * 5 // 4 if max_eval is None else max_eval
        super().__init__(params, self.collect_defaults(locals()))
        if len(self.param_groups) != 1:
            raise ValueError("LBFGS doesn't support per-parameter options (parameter groups)")

    @property
    def _params(self) -> list[Tensor]:
        return list(self.param_groups[0]["params"])

    @no_grad()
    def step(self, closure: Callable[[], Any]) -> Operand:
        """Change the parameters up to `max_iter` times; `closure()` computes the loss and the gradients.

        Returns the loss before. A compiled step decides by values as it does, unless that is more than 64 times in a
        call: then it runs eagerly, and the closure, or the model in it, is what to compile.

        Raises: RuntimeError for a line search of another name.
        """
        group = self.param_groups[0]
        if group["line_search_fn"] not in (None, "strong_wolfe"):
            raise RuntimeError("only 'strong_wolfe' is supported")
        state = counted_state(self, self._params[0])
        first, loss, gradient = self._evaluate(closure)
        calls = 1
        state["func_evals"] += 1
        if gradient.abs().max() <= group["tolerance_grad"]:
            return first
        lr: Operand = as_scalar(group["lr"])
        for i in range(1, group["max_iter"] + 1):
            state["n_iter"] += 1
            direction = _search_direction(state, gradient, group["history_size"])
            state["d"], state["prev_flat_grad"], state["prev_loss"] = direction, gradient, loss
            state["t"] = t = min(1.0, 1.0 / gradient.abs().sum()) * lr if state["n_iter"] == 1 else lr
            slope = gradient.dot(direction)
            if slope > -group["tolerance_change"]:
                break
            before, tried = loss, 0
            if group["line_search_fn"] is not None:
                start = LinePoint(0.0, loss, gradient, slope)
                trial = self._make_directional_evaluate(closure, direction)
                point, tried = strong_wolfe(trial, t, direction, start, group["max_eval"] - calls)
                state["t"], loss, gradient, _ = point
                t = point.t
                self._add_direction(direction, t)
            else:
                self._add_direction(direction, t)
                if i != group["max_iter"]:  # what comes after the last iteration, the next step computes
                    _, loss, gradient = self._evaluate(closure)
                    tried = 1
            calls += tried
            state["func_evals"] += tried
            if (
                calls >= group["max_eval"]
                or gradient.abs().max() <= group["tolerance_grad"]
                or (direction * t).abs().max() <= group["tolerance_change"]
                or abs(loss - before) < group["tolerance_change"]
            ):
                break
        return first

    def _evaluate(self, closure: Callable[[], Any]) -> tuple[Any, float, Tensor]:
        """Return the closure's result, the loss as a number, and all gradients as one vector."""
        with enable_grad():
            loss = closure()
        parts = [zeros(p.numel(), dtype=p.dtype) if p.grad is None else p.grad.detach() for p in self._params]
        return loss, loss.item(), cat([_as_real(part).reshape(-1) for part in parts])

    def _add_direction(self, direction: Tensor, t: Tensor | float) -> None:
        at = 0
        for p in map(_as_real, self._params):
            p.add_(direction[at : at + p.numel()].reshape(p.shape), alpha=t)
            at += p.numel()

    def _make_directional_evaluate(
        self, closure: Callable[[], Any], direction: Tensor
    ) -> Callable[[Number], tuple[float, Tensor]]:
        """Return the function that computes loss and gradient after a step, and undoes the step."""
        here = [p.clone() for p in self._params]

        def evaluate(t: Number) -> tuple[float, Tensor]:
            self._add_direction(direction, t)
            _, loss, gradient = self._evaluate(closure)
            for p, value in zip(self._params, here, strict=True):
                p.copy_(value)
            return loss, gradient

        return evaluate


def _search_direction(state: StateDict, gradient: Tensor, history_size: int) -> Tensor:
    """Add the last change to the history, and return -H g by two loops over it."""
    if state["n_iter"] == 1:
        state.update(old_dirs=[], old_stps=[], ro=[], H_diag=1)
        return -gradient
    memory = [state[name] for name in ("old_dirs", "old_stps", "ro")]
    change, step = gradient - state["prev_flat_grad"], state["d"] * state["t"]
    curvature = change.dot(step)
    if curvature > MIN_CURVATURE:
        for held, new in zip(memory, (change, step, 1.0 / curvature), strict=True):
            if len(held) == history_size:
                held.pop(0)
            held.append(new)
        state["H_diag"] = curvature / change.dot(change)
    shares = state.setdefault("al", [None] * history_size)
    remembered = list(enumerate(zip(*memory, strict=True)))
    q = -gradient
    for i, (change, step, weight) in reversed(remembered):
        shares[i] = step.dot(q) * weight
        q.add_(change, alpha=-shares[i])
    q = q * state["H_diag"]
    for i, (change, step, weight) in remembered:
        q.add_(step, alpha=shares[i] - change.dot(q) * weight)
    return q


def _as_real(x: Tensor) -> Tensor:
    return view_as_real(x) if x.is_complex() else x
