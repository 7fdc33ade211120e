"""Rules on norms and frozen layers: statistics of one value, dropout and statistics of what is not trained."""

from __future__ import annotations

import math

import numpy as np

from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Operand
from adjoint.diagnosis.findings import Place
from adjoint.diagnosis.rules.modes import DROPOUTS, describe_layers, mode_dependent
from adjoint.diagnosis.watch.events import ModuleCall, caller_place
from adjoint.diagnosis.watch.facts import Facts, is_array
from adjoint.diagnosis.watch.rule import CHECKED_PASSES, WatchRule
from adjoint.nn.layers.group_norm import GroupNorm
from adjoint.nn.layers.normalization import BatchNorm, LayerNorm
from adjoint.nn.module.module import Module


class SingleValueNorm(WatchRule):
    """A normalization whose statistics are over one value: its result does not depend on its input."""

    modules = (LayerNorm, GroupNorm, BatchNorm)

    def enter_module(self, call: ModuleCall) -> None:
        module = call.module
        inputs = call.tensors()
        if not inputs or not inputs[0].array.ndim:
            return
        x = inputs[0]
        if isinstance(module, LayerNorm):
            count, over = math.prod(module.normalized_shape), "its last dimensions"
        elif isinstance(module, GroupNorm):
            count, over = x.array[0].size // module.num_groups if x.array.shape[0] else 0, "a group"
        elif isinstance(module, BatchNorm) and (module.training or module.running_mean is None):
            count, over = x.array.size // max(x.array.shape[1], 1) if x.array.ndim > 1 else 0, "a channel"
        else:
            return
        is_early = count > 1 and self.facts.iteration < CHECKED_PASSES
        is_alike = (
            is_early and isinstance(module, BatchNorm) and x.node is not None and is_array(x) and has_alike_channels(x)
        )
        if count == 1 or is_alike:
            name = self.facts.names.name_of_module(module)
            self.report(
                "norm-of-one-value",
                self.facts.names.origin_of_module(module) or caller_place(),
                name,
                f"{name} normalizes over {over}, which has one value for an input {tuple(x.shape)}"
                f"{', many times over' if is_alike else ''}: the result is its bias, whatever the input",
                "normalize over more values: another dimension, fewer groups or a larger batch",
                1,
            )


def has_alike_channels(x: Tensor) -> bool:
    """Return whether each channel has the same value for all samples and places, and not all channels have 0."""
    values = np.moveaxis(x.array, 1, 0).reshape(x.array.shape[1], -1)
    return bool((values == values[:, :1]).all() and values[:, 0].any())


class FrozenDropout(WatchRule):
    """A network that is never trained, gives what another learns from, and drops values."""

    sees_roots_only = True
    max_passes = CHECKED_PASSES

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self.calls: dict[int, tuple[ModuleCall, int, list[Operand]]] = {}

    def leave_module(self, call: ModuleCall, output: Operand) -> None:
        module = call.module
        if call.parent is not None or not module.training or not isinstance(output, Tensor) or output.node is not None:
            return
        if any(isinstance(part, DROPOUTS) for part in mode_dependent(module)):
            known = [p.array.copy() for p in module.parameters() if is_array(p)][:1]
            first, count, before = self.calls.get(id(module), (call, 0, known))
            self.calls[id(module)] = first, count + 1, before

    def finish(self) -> None:
        optimized = self.facts.find_optimizers()
        for call, count, before in self.calls.values():
            own = list(call.module.parameters())
            if count < CHECKED_PASSES // 2 or not optimized or not own or any(id(p) in optimized for p in own):
                continue
            if np.array_equal(own[0].array, before[0]):
                name, layers = self.facts.names.name_of_module(call.module), mode_dependent(call.module)
                problem = f"{name} is not trained, and in training mode: {describe_layers(layers, evaluating=True)}"
                self.report("frozen-dropout", call.place, name, problem, f"{name}.eval() before the loop", count)


class FrozenNorm(WatchRule):
    """A batch norm whose parameters are frozen, and whose statistics change with each batch."""

    modules = (BatchNorm,)
    max_passes = CHECKED_PASSES

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self.counts: dict[int, tuple[Module, Place | None, int]] = {}

    def enter_module(self, call: ModuleCall) -> None:
        module = call.module
        own = list(module._parameters.values())
        if not call.is_recording or not module.training or getattr(module, "running_mean", None) is None:
            return
        if own and all(p is not None and not p.requires_grad for p in own):
            _, place, count = self.counts.get(id(module), (module, call.root.place, 0))
            self.counts[id(module)] = module, place, count + 1

    def finish(self) -> None:
        optimized = self.facts.find_optimizers()
        for module, place, count in self.counts.values():
            is_frozen = not any(p.requires_grad or id(p) in optimized for p in module.parameters())
            if count >= CHECKED_PASSES // 2 and optimized and is_frozen and not self.facts.has_found("frozen-norm"):
                name = self.facts.names.name_of_module(module)
                problem = f"{name} is frozen and in training mode: it uses the statistics of each batch, and changes "
                problem += "the running ones"
                self.report("frozen-norm", place, name, problem, f"{name}.eval() while the rest is trained", count)
