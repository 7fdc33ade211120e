"""The quick eager form of a recurrent layer: all times in one node, with the gradient through time written by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from adjoint.autograd.backward import grad
from adjoint.autograd.function.function import Function
from adjoint.autograd.grad_mode import enable_grad
from adjoint.core.runtime.mode import mode, nondefault
from adjoint.core.tensor.tensor import Tensor, wrap
from adjoint.core.typing import Operand, Operands
from adjoint.ops.linalg.blas_products import multiply_matrices
from adjoint.ops.nn.recurrent_kinds import SWEEP_BY_KIND
from adjoint.ops.nn.recurrent_steps import StepWeights, Sweep, order_of

SETTINGS = 4  # arguments before the tensors


class RecurrentSweep(Function):
    """(outputs (N, R), last state…) from gates (N, G), weights (G, R), (G,) or None, (R, H) or None, first state….

    `sizes`: the rows of each time. `composite` computes the same of the same arguments with recorded ops: what higher
    derivatives are taken of.
    """

    @staticmethod
    def forward(
        ctx: Any,
        kind: str,
        sizes: tuple[int, ...],
        reverse: bool,
        composite: Callable[..., Operands],
        gates: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        projection: Tensor | None,
        *start: Tensor,
    ) -> tuple[Tensor, ...]:
        ctx.set_materialize_grads(False)
        save = any(ctx.needs_input_grad)
        sweep = _make_sweep(kind, sizes, reverse, save, gates, weight, bias, projection, *start)
        if save:
            ctx.save_for_backward(gates, weight, bias, projection, *start)
            ctx.settings, ctx.composite, ctx.sweep = (kind, sizes, reverse), composite, sweep
        return _wrap_results(sweep)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> Operands:
        inputs = ctx.saved_tensors
        plain = all(g is None or type(g.array) is np.ndarray for g in grads)
        if not plain or mode.recording or (nondefault.count and mode.needs_slow_path):
            return *[None] * SETTINGS, *_differentiate_composite(ctx, inputs, grads)
        sweep, bias = ctx.sweep, inputs[2]
        g_out, *g_last = [None if g is None else g.array for g in grads]
        start = sweep.run_back(np.zeros_like(sweep.outputs) if g_out is None else g_out, g_last)
        needs_weight, _, needs_projection = ctx.needs_input_grad[SETTINGS + 1 : SETTINGS + 4]
        return (
            *[None] * SETTINGS,
            wrap(sweep.du),
            wrap(multiply_matrices(sweep.dv.T, sweep.states_before())) if needs_weight else None,
            None if bias is None else wrap(sweep.dv.sum(0)),
            wrap(multiply_matrices(sweep.d_outputs.T, sweep.emitted)) if needs_projection else None,
            *map(wrap, start),
        )


def run_sweep(
    kind: str, sizes: tuple[int, ...], reverse: bool, composite: Callable[..., Operands], *parts: Operand
) -> tuple[Tensor, ...]:
    """Return what `RecurrentSweep` does; without a node where nothing is recorded."""
    wanted = any(x is not None and x.node is not None for x in parts)
    if nondefault.count and (mode.is_intercepted or not mode.recording):
        wanted = mode.is_intercepted
    if wanted:
        recorded: tuple[Tensor, ...] = RecurrentSweep.apply(kind, sizes, reverse, composite, *parts)
        return recorded
    return _wrap_results(_make_sweep(kind, sizes, reverse, False, *parts))


def _make_sweep(
    kind: str,
    sizes: tuple[int, ...],
    reverse: bool,
    save: bool,
    gates: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    projection: Tensor | None,
    *start: Tensor,
) -> Sweep:
    weights = StepWeights(
        weight.array, None if bias is None else bias.array, None if projection is None else projection.array
    )
    return SWEEP_BY_KIND[kind](gates.array, order_of(sizes, reverse), weights, [s.array for s in start], save)


def _wrap_results(sweep: Sweep) -> tuple[Tensor, ...]:
    return wrap(sweep.outputs), *(wrap(states[-1].copy()) for states in sweep.states())


def _differentiate_composite(ctx: Any, inputs: Operands, grads: Operands) -> Operands:
    """Return the gradients of the inputs as recorded ops."""
    again = mode.recording
    with enable_grad():
        # twins, since one input may have been made of another
        twins = [None if x is None else x.view_as(x) if again else x.detach() for x in inputs]
        if not again:  # leaves, which are of the level of a vmap around the backward
            for x, needed in zip(twins, ctx.needs_input_grad[SETTINGS:], strict=True):
                if needed and x is not None:
                    x.requires_grad_()
        outputs = ctx.composite(*ctx.settings, *twins)
        pairs = [(out, g) for out, g in zip(outputs, grads, strict=True) if g is not None]
        wanted: list[Operand] = [x for x, needed in zip(twins, ctx.needs_input_grad[SETTINGS:], strict=True) if needed]
        given, seeds = zip(*pairs, strict=True)
        found = iter(grad(given, wanted, seeds, create_graph=again, allow_unused=True))
    return tuple(next(found) if needed else None for needed in ctx.needs_input_grad[SETTINGS:])
