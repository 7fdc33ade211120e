"""Rules on options of layers and optimizers that mean something else than in other libraries."""

from __future__ import annotations

import math

from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Operand
from adjoint.diagnosis.findings import Place
from adjoint.diagnosis.rules.modes import DROPOUTS
from adjoint.diagnosis.rules.targets import ERRORS
from adjoint.diagnosis.watch.events import ModuleCall, OptimizerRecord, OptimizerStep, caller_place
from adjoint.diagnosis.watch.facts import Facts, producer_of
from adjoint.diagnosis.watch.library_calls import LibraryCall
from adjoint.diagnosis.watch.rule import WatchRule
from adjoint.diagnosis.watch.source_lines import find_calls
from adjoint.nn.layers.normalization import BatchNorm
from adjoint.nn.module.module import Module

MAX_DROPOUT = 0.9
MAX_EPS = 1.0  # of Adam; nets of many classes have had up to that
MAX_NORM_MOMENTUM = 0.9
MAX_RELATIVE_STEP = 1e-5  # of a clipped step, against the size of the parameters: nothing is learned
MIN_CLIPPED = 4
SMALL_NORM = 1e-2  # to which nobody clips on purpose, if it stops all steps


class LayerOptions(WatchRule):
    """Dropout that drops nearly all, and batch norm whose statistics are those of the last batch."""

    max_steps = 1

    def before_step(self, step: OptimizerStep) -> None:
        for root in self.facts.names.models():
            for path, part in root.module.named_modules():
                self._check(".".join(filter(None, (root.name, path))), part)

    def _check(self, name: str, part: Module) -> None:
        if isinstance(part, DROPOUTS) and part.p >= MAX_DROPOUT:
            place = self.facts.names.origin_of_module(part)
            problem = f"{name} drops {part.p:.0%} of the values: p is the probability to drop, not that to keep"
            self.report("dropout-too-large", place, name, problem, f"nn.Dropout({1 - part.p:.2g})", part.p)
        momentum = getattr(part, "momentum", None) if isinstance(part, BatchNorm) else None
        if momentum is not None and MAX_NORM_MOMENTUM <= momentum < 1:
            place = self.facts.names.origin_of_module(part)
            problem = f"{name} has momentum={momentum:g}: it is the share of the new batch, so the running statistics "
            problem += "are those of the last batch"
            advice = f"momentum={1 - momentum:.2g} (other libraries count the share of the old)"
            self.report("batch-norm-momentum", place, name, problem, advice, momentum)
        elif momentum == 0 and part.running_mean is not None and part.training:
            place = self.facts.names.origin_of_module(part)
            problem = f"{name} has momentum=0: its running statistics stay as they are, and evaluation takes them"
            self.report("batch-norm-momentum", place, name, problem, "momentum=0.1, the default", momentum)


class DroppedOutput(WatchRule):
    """Dropout as the last layer: the loss gets logits that are 0 at random."""

    modules = DROPOUTS
    max_passes = 2

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self.dropped: tuple[Operand, Module, Place | None] | None = None  # the node of the last result of a dropout

    def leave_module(self, call: ModuleCall, output: Operand) -> None:
        if isinstance(call.module, DROPOUTS) and call.module.training and self.facts.iteration < 2:
            node = output.node if isinstance(output, Tensor) else None
            self.dropped = None if node is None or not call.module.p else (node, call.module, call.root.place)

    def see_call(self, call: LibraryCall) -> None:
        x = call.tensor("input")
        if self.dropped is None or x is None or self.dropped[0] not in (x.node, producer_of(x)):
            return
        _, module, place = self.dropped
        name = self.facts.names.name_of_module(module)
        problem = (
            f"{name} drops {module.p:.0%} of the values that {call.name} gets, {tuple(x.shape)}: logits are 0 at random"
        )
        advice = "put the dropout before the last layer"
        made = self.facts.names.origin_of_module(module) or place
        self.report("dropout-on-output", made, name, problem, advice, module.p)


class NormalizedOutput(WatchRule):
    """A batch norm as the last layer of a regression: its result has the mean and size that its parameters learn."""

    modules = (BatchNorm,)
    max_passes = 2

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self.last: tuple[Operand, Module] | None = None  # the last result's node

    def leave_module(self, call: ModuleCall, output: Operand) -> None:
        self.last = (output.node, call.module) if isinstance(output, Tensor) and output.node is not None else None

    def see_call(self, call: LibraryCall) -> None:
        x, target = call.tensor("input"), call.tensor("target")
        if self.last is None or x is None or target is None or call.name not in ERRORS or x.node is not self.last[0]:
            return
        y, module = target.array, self.last[1]
        if target.node is None and (abs(float(y.mean())) > 2 or float(y.std()) > 3):
            name = self.facts.names.name_of_module(module)
            problem = (
                f"{name} normalizes the prediction {tuple(x.shape)} to mean 0 and deviation 1, and the targets have "
            )
            problem += f"{y.mean():.3g} and {y.std():.3g}"
            place = self.facts.names.origin_of_module(module) or call.place
            self.report("norm-on-output", place, name, problem, "no batch norm after the last layer", f"{y.mean():.3g}")


class AdamOptions(WatchRule):
    """Betas of Adam in the wrong order, an eps above all gradients, and one model in two optimizers."""

    def _check_eps(self, record: OptimizerRecord, eps: Operand) -> None:
        """Look for an eps beside which the size of the gradients does not count."""
        if isinstance(eps, (int, float)) and eps > MAX_EPS and "Adam" in type(record.optimizer).__name__:
            problem = (
                f"eps={eps:g} of {record.name} is added to the root of the gradients' squares: each step is as many "
            )
            problem += "times smaller than lr"
            place = record.place
            self.report("eps-too-large", place, record.name, problem, "eps=1e-8", eps)

    def finish(self) -> None:
        records = list(self.facts.optimizers.values())
        for record in records:
            for group in record.optimizer.param_groups:
                self._check_eps(record, group.get("eps"))
                betas = group.get("betas")
                if isinstance(betas, (tuple, list)) and len(betas) == 2 and float(betas[0]) > float(betas[1]):
                    problem = (
                        f"betas={tuple(betas)} of {record.name}: the mean of gradients is over more steps than that "
                    )
                    problem += "of their squares"
                    advice = f"exchange them: betas={tuple(betas)[::-1]}"
                    place = record.place
                    self.report("betas-swapped", place, record.name, problem, advice, tuple(betas))
        for i, record in enumerate(records):
            mine = {id(p) for p in record.parameters()}
            for other in records[:i]:
                if mine != {id(p) for p in other.parameters()} or str(other.made) == str(record.made):
                    continue
                owner = next(
                    (r for r in self.facts.names.models() if any(id(p) in mine for p in r.module.parameters())), None
                )
                held = {id(p) for each in records for p in each.parameters()}
                free = [r for r in self.facts.names.models() if not any(id(p) in held for p in r.module.parameters())]
                if owner is None or not free:
                    continue
                wrong = other if owner.name.lower() in record.name.lower() else record
                right = record if wrong is other else other
                problem = (
                    f"{wrong.name} has the parameters of {owner.name}, as {right.name} does, and no optimizer has "
                )
                problem += f"those of {free[0].name}"
                advice = f"give {wrong.name} {free[0].name}.parameters()"
                self.report("two-optimizers", wrong.made, wrong.name, problem, advice, len(mine))


class ClipSize(WatchRule):
    """Gradients that are clipped to so little that no step changes anything."""

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self.limit: tuple[float, Place] | None = None
        self.norms: list[float] = []

    def gradients_are_clipped(
        self, parameters: Operand = None, max_norm: Operand = 0.0, *args: object, **kwargs: object
    ) -> None:
        """See a call of `clip_grad_norm_` or `clip_grad_value_`."""
        if type(max_norm) in (int, float) and max_norm > 0:
            self.limit = float(max_norm), caller_place()

    def before_step(self, step: OptimizerStep) -> None:
        if self.limit is None or not step.sizes or len(self.norms) >= 2 * MIN_CLIPPED:
            return
        optimizer: Operand = step.record.optimizer
        group = optimizer.param_groups[0]
        largest = max((size for size in step.sizes.values() if size is not None), default=0.0)
        scale = max((float(abs(p.array).max()) for p in step.record.parameters() if p.array.size), default=0.0)
        if type(optimizer).__name__ == "SGD":
            change = float(group["lr"]) * largest / max(1 - float(group.get("momentum") or 0), 0.01)
            self.norms.append(change / max(scale, 1e-12))
        else:  # Adam and its kin divide by the size of the gradient, plus eps
            eps = float(group.get("eps") or 0)
            self.norms.append(0.0 if largest < 0.1 * eps else math.inf)

    def finish(self) -> None:
        if self.limit is None or len(self.norms) < MIN_CLIPPED or max(self.norms) > MAX_RELATIVE_STEP:
            return
        limit, place = self.limit
        if limit > SMALL_NORM:
            if next(find_calls(place.site, ("scale",)), None) is not None:
                problem = (
                    f"gradients are clipped to {limit:g} while the scaler's factor is in them: once it is taken out, a "
                )
                problem += f"step changes the parameters by {max(self.norms):.1g} of their size at most"
                advice = "scaler.unscale_(optimizer) before clip_grad_norm_"
                self.report("clipping-before-unscale", place, "clip_grad_norm_", problem, advice, f"{limit:g}")
            return
        problem = (
            f"gradients are clipped to a norm of {limit:g}: a step changes the parameters by {max(self.norms):.1g} "
        )
        problem += "of their size at most, so nothing is learned"
        advice = "a limit near the usual norm of the gradients, such as 1.0"
        self.report("clipping-too-small", place, "clip_grad_norm_", problem, advice, f"{limit:g}")
