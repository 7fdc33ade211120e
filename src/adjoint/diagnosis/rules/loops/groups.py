"""Rules on groups of parameters: options that nobody reads, rates that follow one group alone, or a loaded state."""

from __future__ import annotations

import ast

from adjoint.core.typing import Operand
from adjoint.diagnosis.findings import Place
from adjoint.diagnosis.rules.source.text_rule import TextRule
from adjoint.diagnosis.source_expressions import SourceFile, text_of
from adjoint.diagnosis.watch.events import OptimizerRecord, OptimizerStep, caller_place
from adjoint.diagnosis.watch.facts import Facts
from adjoint.diagnosis.watch.rule import WatchRule
from adjoint.diagnosis.watch.source_lines import find_rate_writes, line_of, nodes_in

MIN_CHANGES = 2  # of a rate


class UnreadOptions(WatchRule):
    """An option of a group that a program sets, and that neither the optimizer nor the program reads."""

    def finish(self) -> None:
        for record in self.facts.optimizers.values():
            near = record.step_place
            known = {"params", "initial_lr", *record.optimizer.defaults}
            others = {key for group in record.optimizer.param_groups for key in group} - known
            nodes = nodes_in(near.site.file, ast.Subscript) if near is not None and others else []
            for key in sorted(others):
                uses = [node for node in nodes if text_of(node.slice) == repr(key)]
                if near is not None and uses and all(isinstance(node.ctx, ast.Store) for node in uses):
                    options = ", ".join(repr(each) for each in record.optimizer.defaults)
                    problem = f"{key!r} is no option of {type(record.optimizer).__name__}, and nobody reads it: its "
                    problem += f"lr stays {record.optimizer.param_groups[0]['lr']:g}"
                    place = line_of(near.site.file, uses[0])
                    self.report("unread-attribute", place, key, problem, f"one of {options}", key)


class DefaultsWrite(TextRule):
    """An option that is set in the defaults of an optimizer, which only groups that are added later take."""

    def read(self, source: SourceFile) -> None:
        names = {record.name for record in self.facts.optimizers.values()}
        for node in source.nodes_of(ast.Subscript):
            owner, _, attribute = text_of(node.value).rpartition(".")
            if isinstance(node.ctx, ast.Store) and attribute == "defaults" and owner in names:
                key = text_of(node.slice)
                problem = f"{text_of(node)} is for groups that are added later: the steps read {key} of param_groups"
                advice = f"for group in {owner}.param_groups: group[{key}] = …"
                self.blame("unread-attribute", (source, node), "defaults", problem, advice)


class ExchangedDecay(WatchRule):
    """Weight decay for biases and norms, and none for the weights."""

    def finish(self) -> None:
        for record in self.facts.optimizers.values():
            dims: dict[bool, set[bool]] = {}  # by whether a group decays: whether it has matrices
            for group in record.optimizer.param_groups:
                if "weight_decay" in group:
                    dims.setdefault(bool(group["weight_decay"]), set()).update(p.ndim > 1 for p in group["params"])
            if dims.get(True) == {False} and dims.get(False) == {True} and record.made is not None:
                decay = max(group["weight_decay"] for group in record.optimizer.param_groups)
                lines = [
                    line_of(record.made.site.file, node)
                    for node in nodes_in(record.made.site.file, ast.Constant)
                    if node.value == decay
                ]
                problem = f"weight_decay={decay:g} is for biases and norms alone, and all matrices have none"
                place = lines[0] if lines else record.built or record.made
                self.report("decay-exchanged", place, "weight_decay", problem, "exchange the two values", decay)


class LeadingGroup(WatchRule):
    """A rate that a program sets for the first group alone, where all groups began with the same one."""

    def finish(self) -> None:
        for record in self.facts.optimizers.values():
            rows = [row for row in record.rates if len(row) > 1]
            if not rows or len(rows) < len(record.rates) or len({row[0] for row in rows}) <= MIN_CHANGES:
                continue
            others = {rate for row in rows for rate in row[1:]}
            writes = [place for place in find_rate_writes(record.step_place) if "param_groups[" in place.text]
            if others == {rows[0][0]} and writes and all("param_groups[0]" in place.text for place in writes):
                problem = f"the rate of group 0 of {record.name} goes from {rows[0][0]:g} to {rows[-1][0]:g}, and that "
                problem += f"of {len(rows[0]) - 1} more stays {rows[0][0]:g}"
                advice = f'for group in {record.name}.param_groups: group["lr"] = …'
                name = f"{record.name}.param_groups[0]"
                self.report("group-rate-left", writes[0], name, problem, advice, f"{rows[0][0]:g}")


class LoadedRates(WatchRule):
    """A loaded state of an optimizer that replaces the rate which it was made with, where no schedule goes on."""

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self.loaded: dict[int, tuple[Operand, Place, float, float]] = {}  # with the rates before and after
        self.scheduled: set[int] = set()
        self.found: list[tuple[OptimizerRecord, Place, float, float]] = []

    def schedule_steps(self, schedule: Operand, *args: object, **kwargs: object) -> None:
        """See the step of a schedule, the first of which it makes itself."""
        self.scheduled.add(id(getattr(schedule, "optimizer", None)))

    def optimizer_is_loaded(self, optimizer: Operand, state: Operand) -> None:
        """See the state of an optimizer that is about to be loaded."""
        before = {float(group["lr"]) for group in optimizer.param_groups}
        after = {float(group["lr"]) for group in state["param_groups"]}
        if len(before) == len(after) == 1 and before != after:
            self.loaded[id(optimizer)] = optimizer, caller_place(), before.pop(), after.pop()

    def before_step(self, step: OptimizerStep) -> None:
        optimizer, place, before, after = self.loaded.pop(id(step.record.optimizer), (None, step.place, 0.0, 0.0))
        if optimizer is step.record.optimizer and step.record.rates[-1] == [after] * len(step.record.rates[-1]):
            self.found.append((step.record, place, before, after))

    def finish(self) -> None:
        for record, place, before, after in self.found:
            if id(record.optimizer) not in self.scheduled and next(find_rate_writes(place), None) is None:
                problem = (
                    f"{record.name} was made with lr={before:g}, and the loaded state sets {after:g}: that is the "
                )
                problem += "rate of its steps"
                advice = f'for group in {record.name}.param_groups: group["lr"] = {before:g}, after this line'
                self.report("rate-overwritten", place, record.name, problem, advice, f"{after:g}")
