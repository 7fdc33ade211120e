"""The recursion of connectionist temporal classification on arrays: all times in one node, with its gradient."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from adjoint.autograd.backward import grad
from adjoint.autograd.function.function import Function
from adjoint.autograd.grad_mode import enable_grad
from adjoint.core.op.eager_kernels import SmallArrayKernel, kernel_provider
from adjoint.core.runtime.mode import mode, nondefault
from adjoint.core.tensor.tensor import Tensor, wrap
from adjoint.core.typing import Array, Operand, Operands

LOG_ZERO = -1e30  # the logarithm of a probability of 0: finite, so that no difference is NaN
MAX_SKIP = 2  # states by which a step may advance
STEPS, STEPS_BACK = SmallArrayKernel("ctc_steps"), SmallArrayKernel("ctc_steps_back")


class CtcRecursion(Function):
    """(final, before), (N, 1), from `spoken` (T, N, S), `skips` (N, S) or None, `spans` (N,) and `last` (N, 1).

    `composite` computes the same of the same arguments with recorded ops: what higher derivatives are taken of.

    Source: Graves and others, Connectionist Temporal Classification, 2006, equations 6 to 8.
    """

    @staticmethod
    def forward(
        ctx: Operand,
        composite: Callable[..., Operands],
        spoken: Tensor,
        skips: Tensor | None,
        spans: Tensor,
        last: Tensor,
    ) -> tuple[Tensor, Tensor]:
        ctx.set_materialize_grads(False)
        x, count = spoken.array, len(spans.array)
        alphas = np.full((len(x) + 1, *x.shape[1:]), LOG_ZERO, x.dtype)
        shares = np.zeros((len(x), MAX_SKIP + 1, *x.shape[1:]), x.dtype) if ctx.needs_input_grad[1] else None
        with np.errstate(all="ignore"):
            _advance(x, None if skips is None else skips.array, alphas, shares)
        places = [np.maximum(last.array[:, 0] - back, 0) for back in (0, 1)]
        rows = np.arange(count)
        if shares is not None:
            ctx.save_for_backward(spoken, skips, spans, last)
            ctx.composite, ctx.shares, ctx.places = composite, shares, places
            ctx.is_possible = alphas[1:] > LOG_ZERO
        final, before = [wrap(alphas[spans.array, rows, place][:, None]) for place in places]
        return final, before

    @staticmethod
    def backward(ctx: Operand, *grads: Tensor | None) -> Operands:
        spoken, skips, spans, last = ctx.saved_tensors
        plain = all(g is None or type(g.array) is np.ndarray for g in grads)
        if not plain or mode.recording or (nondefault.count and mode.needs_slow_path):
            again = mode.recording
            with enable_grad():
                twin = spoken.view_as(spoken) if again else spoken.detach().requires_grad_()
                outputs = ctx.composite(twin, skips, spans, last)
                pairs = [(out, g) for out, g in zip(outputs, grads, strict=True) if g is not None]
                given, seeds = zip(*pairs, strict=True)
                (d,) = grad(given, [twin], seeds, create_graph=again)
            return None, d, None, None, None
        arrived = np.zeros((len(ctx.shares) + 1, *spoken.array.shape[1:]), spoken.array.dtype)  # at each alpha
        rows = np.arange(len(spans.array))
        for place, g in zip(ctx.places, grads, strict=True):
            if g is not None:
                arrived[spans.array, rows, place] += g.array[:, 0]
        with np.errstate(all="ignore"):
            return None, wrap(_retreat(arrived[1:], ctx.shares, ctx.is_possible)), None, None, None


def _advance(x: Array, skips: Array | None, alphas: Array, shares: Array | None) -> None:
    """Write ln p of each state before and after each time, (T + 1, N, S), and what each predecessor has of it."""
    width = x.shape[2]
    alphas[0, :, 0] = 0.0
    alphas[1, :, :MAX_SKIP] = np.maximum(x[0, :, :MAX_SKIP], LOG_ZERO)
    if kernel_provider.enabled:
        allowed = np.zeros(x.shape[1:], np.bool_) if skips is None else np.ascontiguousarray(skips)
        if STEPS.call(np.ascontiguousarray(x), allowed, alphas, alphas[:0] if shares is None else shares) is not None:
            return
    terms = np.full((min(MAX_SKIP + 1, width), *x.shape[1:]), LOG_ZERO, x.dtype)
    barred = None if skips is None else ~skips
    for t in range(1, len(x)):
        before = alphas[t]
        terms[0] = before
        if width > 1:
            terms[1, :, 1:] = before[:, :-1]
        if barred is not None:
            terms[2, :, 2:] = before[:, :-2]
            np.copyto(terms[2], LOG_ZERO, where=barred)
        most = terms.max(0)
        powers = np.exp(terms - most)
        total = powers.sum(0)
        if shares is not None:
            np.divide(powers, total, out=shares[t, : len(terms)])
        np.maximum(most + np.log(total) + x[t], LOG_ZERO, out=alphas[t + 1])


def _retreat(arrived: Array, shares: Array, is_possible: Array) -> Array:
    """Return the gradient of x from that of each alpha, to which it adds those of later ones."""
    native = kernel_provider.enabled and STEPS_BACK.call(arrived, shares, is_possible, is_possible[0]) is not None
    for t in range(len(arrived) - 1, 0, -1) if not native else ():
        arrived[t] *= is_possible[t]
        stay, step, skip = arrived[t] * shares[t]
        before = arrived[t - 1]
        before += stay
        before[:, :-1] += step[:, 1:]
        before[:, :-2] += skip[:, 2:]
    arrived[0, :, MAX_SKIP:] = 0.0
    arrived[0] *= is_possible[0]
    return arrived
