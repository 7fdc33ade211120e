"""Rules on gradients between backward and step: clipped too late or too early, and those that are still scaled."""

from __future__ import annotations

from collections.abc import Iterator

from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Operand
from adjoint.diagnosis.findings import Place
from adjoint.diagnosis.watch.events import OptimizerStep, caller_place
from adjoint.diagnosis.watch.facts import Facts
from adjoint.diagnosis.watch.rule import WatchRule
from adjoint.nn.module.module import Module

MIN_SEEN = 2


class ClipOrder(WatchRule):
    """Gradients that are clipped when they have been used, before there are any, or none at all."""

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self.seen: list[tuple[Place, str]] = []

    def gradients_are_clipped(self, parameters: Operand = None, *args: object, **kwargs: object) -> None:
        """See a call of `clip_grad_norm_` or `clip_grad_value_`."""
        if isinstance(parameters, Iterator):
            is_empty = getattr(parameters, "gi_frame", parameters) is None
            what = "empty" if is_empty else "right"
        else:
            given = (
                [parameters]
                if isinstance(parameters, Tensor)
                else list(parameters.parameters() if isinstance(parameters, Module) else parameters)
            )
            what = "right" if any(getattr(p, "grad", None) is not None for p in given) else "none"
        zeroed = self.facts.zeroed
        if what == "right" and zeroed and zeroed[-1][0] == self.facts.iteration == self.facts.stepped_at:
            what = "none"  # cleared since the step
        if what != "empty" and self.facts.iteration == self.facts.stepped_at:
            what = "used" if self.facts.steps and what == "right" else "none"
        self.seen.append((caller_place(), what))

    def finish(self) -> None:
        late = self.seen[1:]
        words = {
            "empty": "gets a generator whose parameters were taken: no gradient is clipped",
            "used": "comes after the step, which used the gradients as they were",
            "none": "comes before backward(): there are no gradients yet",
        }
        for what, told in words.items():
            if len(late) >= MIN_SEEN and all(each == what for _, each in late):
                advice = (
                    "a list of the parameters" if what == "empty" else "clip between backward() and optimizer.step()"
                )
                self.report(
                    "clipping-in-vain", late[0][0], "clip_grad_norm_", f"clipping {told}", advice, len(self.seen)
                )


class ScaledGradients(WatchRule):
    """Gradients of a scaled loss that are clipped or used before they are unscaled, or unscaled without a scale."""

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self.is_scaled = self.was_scaled = False  # the last loss, and any
        self.unscaled: set[int] = set()  # optimizers, since that loss
        self.found: dict[tuple[str, Place], int] = {}

    def loss_is_scaled(self, scaler: Operand, *args: object) -> None:
        """See a call of `GradScaler.scale`."""
        self.is_scaled = scaler.is_enabled() and scaler.get_scale() > 1
        self.was_scaled = True
        self.unscaled.clear()

    def gradients_are_unscaled(self, scaler: Operand, optimizer: Operand = None, *args: object) -> None:
        """See a call of `GradScaler.unscale_`, which its `step` calls too."""
        self.unscaled.add(id(optimizer))
        if not self.was_scaled and scaler.is_enabled() and scaler.get_scale() > 1:
            self._count("unscaled", caller_place())

    def gradients_are_clipped(self, *args: object, **kwargs: object) -> None:
        """See a call of `clip_grad_norm_` or `clip_grad_value_`."""
        if self.is_scaled and not self.unscaled:
            self._count("clipped", caller_place())

    def before_step(self, step: OptimizerStep) -> None:
        if self.is_scaled and id(step.record.optimizer) not in self.unscaled:
            self._count("used", step.place)

    def _count(self, what: str, place: Place) -> None:
        self.found[what, place] = self.found.get((what, place), 0) + 1

    def finish(self) -> None:
        words = {
            "unscaled": (
                "the gradients are divided by the scale of the loss, which backward() did not have",
                "scaler.scale(loss).backward()",
            ),
            "clipped": (
                "gradients are clipped that still have the scale of the loss: the limit is that many times too small",
                "scaler.unscale_(optimizer) before it",
            ),
            "used": (
                "the step takes gradients that still have the scale of the loss",
                "scaler.step(optimizer) and scaler.update()",
            ),
        }
        for (what, place), count in self.found.items():
            is_known = what == "clipped" and self.facts.has_found("clipping-before-unscale")
            if count >= MIN_SEEN and not is_known:
                problem, advice = words[what]
                self.report("scaled-gradients", place, "scaler", problem, advice, count)
