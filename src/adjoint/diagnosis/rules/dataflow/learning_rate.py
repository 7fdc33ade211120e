"""Rule on learning rates: a loss that grows, steps as large as the parameters, or too small to change them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median

import numpy as np

from adjoint.core.runtime.text_table import pluralize
from adjoint.core.typing import Operand
from adjoint.diagnosis.findings import Place
from adjoint.diagnosis.watch.events import Backward, OptimizerStep
from adjoint.diagnosis.watch.facts import Facts, is_array
from adjoint.diagnosis.watch.library_calls import LibraryCall
from adjoint.diagnosis.watch.rule import WatchRule
from adjoint.diagnosis.watch.value_flow import factor_of

MAX_SAMPLED = 32  # parameters
SAMPLE = 256  # elements of a parameter that are compared before and after a step
CAUSES_IN_VALUES = ("input-not-normalized", "nan", "exploding-gradients")
TINY_RATE = 1e-7
SMALL_RATE = 1.0  # of a loss that adds up its elements, for each of them
MIN_FACTOR = 10.0  # of a loss
DIVERGED = 10.0  # times the first loss


class LearningRate(WatchRule):
    """A loss that grows, steps as large as the parameters, or too small to change them."""

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self.before: list[tuple[Operand, Operand]] = []
        self.multiplied: tuple[float, Place] | None = None  # by what the loss is, and where
        self.zeros: set[int] = set()  # parameters that began at 0
        self.ratios: dict[int, list[float]] = {}
        self.first_size: dict[int, float] = {}
        self.summed: tuple[str, int, Place] | None = None  # a loss that adds up its elements, how many, and where

    def see_call(self, call: LibraryCall) -> None:
        x = call.tensor("input")
        if call.arguments.get("reduction") == "sum" and x is not None and x.node is not None:
            module = self.facts.module()
            root = None if module is None else self.facts.names.roots.get(id(module))
            made = None if root is None or any(True for _ in root.module.parameters()) else root.made
            self.summed = call.name, x.array.size, made or call.place

    def begin_backward(self, backward: Backward) -> None:
        """Look for a number by which a loss is multiplied."""
        flow, factor = self.facts.flow, 1.0
        made = flow.maker(backward.roots[0]) if flow.is_open and len(backward.roots) == 1 else None
        place = None if made is None else made.place
        while made is not None and made.op in ("div", "mul") and len(made.tensors) == 1:
            factor *= factor_of(made)
            made = flow.maker(made.tensors[0])
        if factor >= MIN_FACTOR and place is not None:
            self.multiplied = factor, place
        if made is not None and made.op == "sum" and made.out.array.size == 1 and self.summed is None:
            self.summed = "the loss", made.tensors[0].array.size, made.place

    def before_step(self, step: OptimizerStep) -> None:
        self.before = []
        if step.sizes:
            for p in step.record.parameters()[:MAX_SAMPLED]:
                if step.number == 0 and is_array(p) and not p.array.any():
                    self.zeros.add(id(p))  # its first steps are large against it
                if step.sizes.get(id(p)) and is_array(p) and id(p) not in self.zeros:
                    self.before.append((p, p.array.ravel()[:SAMPLE].copy()))
            known = [size for size in step.sizes.values() if size is not None]
            self.first_size.setdefault(id(step.record.optimizer), max(known, default=0.0))

    def after_step(self, step: OptimizerStep) -> None:
        if not self.before:
            return
        changes, sizes = 0.0, 0.0
        with np.errstate(all="ignore"):
            for p, old in self.before:
                change = p.array.ravel()[:SAMPLE] - old
                changes += float(np.vdot(change, change).real)
                sizes += float(np.vdot(old, old).real)
        if math.isfinite(changes):
            ratio = math.sqrt(changes / sizes) if sizes > 0 else 0.0
            self.ratios.setdefault(id(step.record.optimizer), []).append(ratio)
        self.before = []

    def finish(self) -> None:
        facts = self.facts
        for key, record in facts.optimizers.items():
            if facts.has_found("zero-grad-forgotten", "zero-learning-rate", *CAUSES_IN_VALUES):
                return
            rate = max((max(each, default=0.0) for each in record.rates), default=0.0)
            ratios = self.ratios.get(key, [])
            losses = facts.losses()
            if rate <= 0 or not losses or len(facts.optimizers) > 1:
                continue
            is_tiny = rate <= TINY_RATE and record.rates[0] == record.rates[-1] and max(ratios, default=1.0) < TINY_RATE
            if len(ratios) >= 3 and (max(ratios) == 0 or is_tiny):
                self._report_too_small(record, rate, len(ratios))
            elif _diverges(losses):
                self._report_divergence(record, rate, losses)
            elif len(ratios) >= 6 and max(ratios) > 0.5 and median(losses) > DIVERGED * abs(losses[0]) > 0:
                self._report_divergence(record, rate, losses, max(ratios))
            elif len(ratios) >= 6 and (median(ratios) > 0.5 or sorted(ratios)[-3] > 2) and not _falls(losses):
                self._report_divergence(record, rate, losses, median(ratios))

    def _report_too_small(self, record: Operand, rate: float, count: int) -> None:
        self.report(
            "learning-rate-too-small",
            record.rate_place or record.place,
            record.name,
            f"{pluralize(count, 'step')} of {record.name} with lr={rate:.3g} changed no parameter, or hardly: the "
            "steps are below float32's precision",
            "set a larger lr, such as 1e-3",
            f"{rate:.3g}",
        )

    def _report_divergence(self, record: Operand, rate: float, losses: Sequence[float], ratio: float = 0.0) -> None:
        finite = [loss for loss in losses if math.isfinite(loss)]
        told = f"the loss goes from {losses[0]:.3g} to {losses[-1]:.3g} in {pluralize(len(losses), 'step')}"
        if self.summed is not None and self.summed[1] > rate / SMALL_RATE:
            name, count, place = self.summed
            what, remedy = ("is a sum", "mean()") if name == "the loss" else ('has reduction="sum"', 'reduction="mean"')
            problem = f"{name} {what} and adds up {count} elements: with lr={rate:.3g}, {told}"
            self.report("sum-too-large", place, record.name, problem, f"{remedy}, or as much smaller an lr", count)
            return
        if self.multiplied is not None:
            factor, place = self.multiplied
            problem = f"the loss is multiplied by {factor:g}, and its gradients with it: with lr={rate:.3g}, {told}"
            advice = "leave it out, or as much smaller an lr"
            self.report("learning-rate-too-large", place, record.name, problem, advice, f"{factor:g}")
            return
        if ratio:
            told += f"; a step changes the parameters by {ratio:.0%}"
        self.report(
            "learning-rate-too-large",
            record.rate_place or record.place,
            record.name,
            f"with lr={rate:.3g}, {told}",
            f"set lr to {rate / 10:.1g} or less, or clip the gradients",
            f"{max(finite, default=math.inf):.3g}",
        )


def _diverges(losses: Sequence[float]) -> bool:
    """Return whether losses end far above where they began."""
    if len(losses) < 4 or not math.isfinite(losses[0]):
        return False
    if not math.isfinite(losses[-1]):
        return True
    late = losses[-3:]
    return min(late) > DIVERGED * (abs(max(losses[:2], key=abs)) + 1e-3) and min(late) > 0


def _falls(losses: Sequence[float]) -> bool:
    third = max(1, len(losses) // 3)
    return median(losses[-third:]) < 0.9 * median(losses[:third])
