"""The quick eager form of a recurrent layer: all times in one node, with the gradient through time written by hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import CodeType
from typing import Any

import numpy as np

from adjoint.autograd.backward import grad
from adjoint.autograd.grad_mode import enable_grad
from adjoint.core.graph.hooks import NodeHooks
from adjoint.core.graph.iterative_dealloc import with_iterative_dealloc
from adjoint.core.graph.node import FREED, GraphNode, OutputSlot, freed_error, next_sequence_nr
from adjoint.core.graph.source_location import user_instruction
from adjoint.core.runtime.mode import mode, nondefault
from adjoint.core.tensor.external_aliases import copy_if_aliased, externally_aliased
from adjoint.core.tensor.mutation_log import check_version, mutation_log
from adjoint.core.tensor.tensor import Tensor, restore_saved, wrap
from adjoint.core.typing import Operand, Operands
from adjoint.ops.linalg.blas_products import multiply_matrices
from adjoint.ops.nn.recurrent_kinds import SWEEP_BY_KIND
from adjoint.ops.nn.recurrent_steps import StepWeights, Sweep, order_of

Settings = tuple[str, tuple[int, ...], bool]  # the kind, the rows of each time, and whether the last time is the first
Inputs = tuple[Tensor | None, ...]


@with_iterative_dealloc
class RecurrentSweepBackward(GraphNode):
    """The node of `run_sweep`: its outputs have one gradient together.

    `composite` computes the same of the same arguments with recorded ops: what higher derivatives are taken of.
    """

    __slots__ = (
        "__weakref__",
        "code",
        "composite",
        "dtype",
        "hooks",
        "instruction_offset",
        "parents",
        "saved_values",
        "sequence_nr",
        "settings",
        "shape",
        "sweep",
    )
    op = None
    parents: tuple[Any, ...]
    saved_values: Any  # arrays of the inputs, None for absent ones
    code: CodeType
    hooks: NodeHooks | None

    def __init__(self, settings: Settings, composite: Callable[..., Operands], inputs: Inputs, sweep: Sweep) -> None:
        self.parents = tuple([None if x is None else x.node for x in inputs])
        arrays = tuple([None if x is None else x.array for x in inputs])
        self.saved_values = tuple([copy_if_aliased(a) for a in arrays]) if externally_aliased else arrays
        self.settings, self.composite, self.sweep = settings, composite, sweep
        self.hooks = None
        self.code, self.instruction_offset = user_instruction()
        self.sequence_nr = next_sequence_nr()

    @property
    def outputs(self) -> int:
        """The number of results: the outputs of all times, and the last states."""
        return 1 + len(self.sweep.states())

    def pull(self, arrived: Sequence[Tensor | None]) -> Operands:
        """Return the gradients of the inputs, from one run back over the steps."""
        saved = self.saved_values
        if saved is FREED:
            raise freed_error(self, "recorded")
        if mutation_log.last > self.sequence_nr:
            for array in saved:
                if array is not None:
                    check_version(array, self)
        plain = all(g is None or type(g.array) is np.ndarray for g in arrived)
        if not plain or mode.recording or (nondefault.count and mode.needs_slow_path):
            inputs = tuple([restore_saved(a, p) for a, p in zip(saved, self.parents, strict=True)])
            return _differentiate_composite(self, inputs, arrived)
        sweep = self.sweep
        g_out, *g_last = [None if g is None else g.array for g in arrived]
        start = sweep.run_back(np.zeros_like(sweep.outputs) if g_out is None else g_out, g_last)
        _, weight, bias, projection, *_ = self.parents
        return (
            wrap(sweep.du),
            None if weight is None else wrap(multiply_matrices(sweep.dv.T, sweep.states_before())),
            None if bias is None else wrap(sweep.dv.sum(0)),
            None if projection is None else wrap(multiply_matrices(sweep.d_outputs.T, sweep.emitted)),
            *map(wrap, start),
        )


def run_sweep(
    kind: str, sizes: tuple[int, ...], reverse: bool, composite: Callable[..., Operands], *inputs: Tensor | None
) -> tuple[Tensor, ...]:
    """Return outputs (N, R), last state… of gates (N, G), weight (G, R), (G,) or None, (R, H) or None, first state….

    `sizes`: the rows of each time. Modes must have their defaults, but for recording.
    """
    arrays: list[Operand] = [None if x is None else x.array for x in inputs]
    gates, weight, bias, projection, *start = arrays
    recorded = False
    if not nondefault.count or mode.recording:
        for x in inputs:
            recorded = recorded or (x is not None and x.node is not None)
    weights = StepWeights(weight, bias, projection)
    sweep = SWEEP_BY_KIND[kind](gates, order_of(sizes, reverse), weights, start, recorded)
    results = wrap(sweep.outputs), *[wrap(states[-1].copy()) for states in sweep.states()]
    if recorded:
        node = RecurrentSweepBackward((kind, sizes, reverse), composite, inputs, sweep)
        node.shape, node.dtype = sweep.outputs.shape, sweep.outputs.dtype
        for i, out in enumerate(results):
            out.node = OutputSlot(node, i, out.array.shape, out.array.dtype)
    elif nondefault.count and mode.detach_record is not None:
        for out in results:
            out._detach_record = mode.detach_record
    return results


def _differentiate_composite(node: RecurrentSweepBackward, inputs: Operands, grads: Sequence[Operand]) -> Operands:
    """Return the gradients of the inputs as recorded ops."""
    again, needed = mode.recording, [parent is not None for parent in node.parents]
    with enable_grad():
        # twins, since one input may have been made of another
        twins = [None if x is None else x.view_as(x) if again else x.detach() for x in inputs]
        if not again:  # leaves, which are of the level of a vmap around the backward
            for x, wanted in zip(twins, needed, strict=True):
                if wanted and x is not None:
                    x.requires_grad_()
        outputs = node.composite(*node.settings, *twins)
        pairs = [(out, g) for out, g in zip(outputs, grads, strict=True) if g is not None]
        sources: list[Operand] = [x for x, wanted in zip(twins, needed, strict=True) if wanted]
        given, seeds = zip(*pairs, strict=True)
        found = iter(grad(given, sources, seeds, create_graph=again, allow_unused=True))
    return tuple(next(found) if wanted else None for wanted in needed)
