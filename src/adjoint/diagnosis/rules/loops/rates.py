"""Rules on what a step takes: rates of groups that lie orders apart, and gradients cut off by hand."""

from __future__ import annotations

import ast

from adjoint.core.op.op import Op
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Operand, Operands
from adjoint.diagnosis.findings import Place
from adjoint.diagnosis.watch.events import OptimizerRecord, caller_place
from adjoint.diagnosis.watch.facts import Facts, is_array
from adjoint.diagnosis.watch.rule import WatchRule
from adjoint.diagnosis.watch.source_lines import line_of, nodes_in

MIN_RATIO = 100  # of the rates of two groups
MAX_RATE = 0.05  # of Adam and its kin, above which the larger one is the mistake
MAX_SGD_RATE = 1.0
MIN_RATE = 1e-7
MIN_ELEMENTS = 8
MIN_CUT = 0.9  # of the elements that have the limit's value
MIN_PASSES = 2


class GroupRates(WatchRule):
    """A group of parameters whose learning rate is orders of magnitude from that of the others."""

    def finish(self) -> None:
        for record in self.facts.optimizers.values():
            rates = record.rates[0] if record.rates else []
            if len(rates) < 2 or min(rates) <= 0 or max(rates) / min(rates) < MIN_RATIO:
                continue
            is_sgd = type(record.optimizer).__name__ in ("SGD", "ASGD", "Adagrad", "Adadelta", "LBFGS")
            if max(rates) > (MAX_SGD_RATE if is_sgd else MAX_RATE):
                self._report(record, rates, max(rates), "too large for this optimizer: the weights jump")
            elif min(rates) < MIN_RATE:
                self._report(record, rates, min(rates), "so small that nothing changes")

    def _report(self, record: OptimizerRecord, rates: list[float], rate: float, what: str) -> None:
        group = rates.index(rate)
        others = [each for each in rates if each != rate]
        problem = f"group {group} of {record.name} has lr={rate:g}, where the others have {others[0]:g}: {what}"
        near = record.place
        place = None if near is None else find_rate(near, rate) or near
        advice = "a rate within a factor of 100 of the others', such as 1e-4 beside 1e-3"
        self.report("group-rate-too-far", place, f"{record.name}.param_groups[{group}]", problem, advice, f"{rate:g}")


def find_rate(near: Place, rate: float) -> Place | None:
    """Return the line of a program that gives a group this rate."""
    file = near.site.file
    items = [item for made in nodes_in(file, ast.Dict) for item in zip(made.keys, made.values, strict=True)]
    values = [value for key, value in items if isinstance(key, ast.Constant) and key.value == "lr"]
    values += [keyword.value for keyword in nodes_in(file, ast.keyword) if keyword.arg == "lr"]
    found = (value for value in values if isinstance(value, ast.Constant) and value.value == rate)
    return next((line_of(file, value) for value in found), None)


class ClampedGradients(WatchRule):
    """Gradients that are clamped by hand to one sign, or to limits that nearly all of them exceed."""

    ops = frozenset({"clamp", "clamp_range", "clamp_min", "clamp_max"})

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self.found: dict[tuple[str, Place], tuple[str, set[int]]] = {}
        self.others: set[Place] = set()  # lines whose limits few gradients exceed

    def see_op(self, op: Op, inputs: Operands, out: Tensor) -> None:
        x = inputs[0]
        if out.node is not None or not is_array(x) or x.array.size < MIN_ELEMENTS or not self._is_gradient(x):
            return
        a, b = x.array, out.array
        place = caller_place()
        if (a < 0).any() and (a > 0).any() and (not (b < 0).any() or not (b > 0).any()):
            sign = "negative" if not (b < 0).any() else "positive"
            told = f"all {sign} gradients are set to 0: weights move in one direction alone"
        elif (a != b).mean() > MIN_CUT:
            told = f"{(a != b).mean():.0%} of the gradients are cut to {abs(b).max():.3g}: only their signs are left"
        else:
            self.others.add(place)
            return
        self.found.setdefault(("clamp", place), (told, set()))[1].add(self.facts.iteration)

    def _is_gradient(self, x: Tensor) -> bool:
        optimizers: list[Operand] = list(self.facts.made_optimizers)
        for optimizer in optimizers:
            for group in optimizer.param_groups:
                if any(p._grad is not None and p._grad.array is x.array for p in group["params"]):
                    return True
        return False

    def finish(self) -> None:
        for (_, place), (told, passes) in self.found.items():
            if len(passes) >= MIN_PASSES and (place not in self.others or "sign" not in told or "direction" in told):
                advice = "clamp to both signs, -1 to 1, or nn.utils.clip_grad_norm_"
                self.report("gradients-clamped", place, "grad", told, advice, len(passes))
