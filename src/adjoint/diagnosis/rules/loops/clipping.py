"""Rules on gradients between backward and step: clipped too late or too early, and those that are still scaled."""

from __future__ import annotations

from collections.abc import Iterator

from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Operand
from adjoint.diagnosis.findings import Place
from adjoint.diagnosis.watch.events import OptimizerRecord, OptimizerStep, caller_place
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


class ForeignClip(WatchRule):
    """Gradients that are clipped twice between the steps of their optimizer, before the step of one without a clip."""

    sees_every_step = True

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self.clips: list[tuple[Place, set[int]]] = []  # since the last step
        self.counts: dict[int, dict[Place, int]] = {}  # by a parameter, the lines that clip it
        self.suspects: dict[int, tuple[OptimizerRecord, Place, int, int]] = {}  # with a clipped parameter and a count
        self.clipped: set[int] = set()  # parameters

    def gradients_are_clipped(self, parameters: Operand = None, *args: object, **kwargs: object) -> None:
        """See a call of `clip_grad_norm_` or `clip_grad_value_`."""
        frame: Operand = getattr(parameters, "gi_frame", None)
        if not isinstance(parameters, (Iterator, Tensor)):
            given = parameters.parameters() if isinstance(parameters, Module) else parameters
            self.clips.append((caller_place(), {id(p) for p in given}))
        elif frame is not None:
            named = frame.f_locals.get(".0")  # of `module.parameters()`, which goes on from there
            owner = named.gi_frame.f_locals.get("self") if getattr(named, "gi_frame", None) is not None else None
            if isinstance(owner, Module):
                self.clips.append((caller_place(), {id(p) for p in owner.parameters()}))

    def before_step(self, step: OptimizerStep) -> None:
        clips, self.clips = self.clips, []
        if not clips:
            return
        own = {id(p) for p in step.record.parameters()}
        for place, given in clips:
            self.clipped |= given
            for key in list(given)[:1]:
                lines = self.counts.setdefault(key, {})
                lines[place] = lines.get(place, 0) + 1
                if not given & own:
                    _, _, _, count = self.suspects.get(id(step.record), (None, None, 0, 0))
                    self.suspects[id(step.record)] = step.record, place, key, count + 1

    def finish(self) -> None:
        for record, place, key, count in self.suspects.values():
            is_clipped = any(id(p) in self.clipped for p in record.parameters())
            if not is_clipped and count >= MIN_SEEN and len(self.counts[key]) > 1:
                problem = f"the gradients that are clipped before {record.name}.step() are those of another optimizer, "
                problem += f"which clips them itself; those of {record.name} never are"
                advice = f"clip_grad_norm_ of the parameters of {record.name}"
                self.report("clipping-of-others", place, record.name, problem, advice, count)


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
