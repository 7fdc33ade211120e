"""Rule on copies of models: one that is trained, while the other is evaluated."""

from __future__ import annotations

import numpy as np

from adjoint.core.typing import Array, Operand
from adjoint.diagnosis.findings import Place
from adjoint.diagnosis.rules.states import COPIES
from adjoint.diagnosis.watch.events import ModuleCall
from adjoint.diagnosis.watch.facts import Facts, is_array
from adjoint.diagnosis.watch.rule import WatchRule
from adjoint.nn.module.module import Module


class UntrainedCopy(WatchRule):
    """A model that is evaluated after the training, and that is as it was: a copy of it was trained."""

    sees_roots_only = True

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self.trained: dict[int, Module] = {}
        self.evaluated: dict[int, tuple[Module, Place, int]] = {}
        self.first: dict[int, Array] = {}  # the first weight of each trained model, at its first call

    def enter_module(self, call: ModuleCall) -> None:
        key = id(call.module)
        if call.is_recording:
            self.trained[key] = call.module
            weight = first_weight(call.module)
            if weight is not None and key not in self.first:
                self.first[key] = weight.copy()
        elif self.facts.steps and call.place is not None and not call.module.training:
            self.evaluated[key] = call.module, call.place, self.facts.steps

    def finish(self) -> None:
        own = self.facts.find_optimizers()
        for key, (module, place, steps) in self.evaluated.items():
            name = self.facts.names.name_of_module(module)
            if key in self.trained or steps != self.facts.steps or any(id(p) in own for p in module.parameters()):
                continue
            weight = first_weight(module)
            for other, model in self.trained.items():
                is_same = other in self.first and weight is not None and np.array_equal(self.first[other], weight)
                if is_same and other not in self.evaluated and not COPIES.search(name):
                    trained = self.facts.names.name_of_module(model)
                    made = next((r.made for r in self.facts.names.models() if r.module is model), None)
                    problem = f"{name} is evaluated after {steps} steps, and is as it was before them: they trained "
                    problem += f"{trained}, a copy of it"
                    advice = f"train {name} itself, or return the copy and evaluate it"
                    self.report("copy-trained", made or place, name, problem, advice, steps)


def first_weight(module: Operand) -> Array | None:
    """Return the values of the first weight of a model."""
    return next((p.array for p in module.parameters() if is_array(p) and p.array.ndim > 1), None)
