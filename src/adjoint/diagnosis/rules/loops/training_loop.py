"""Rules on loops: gradients that are cleared too often or come from another loss, schedules and samplers."""

from __future__ import annotations

from itertools import permutations

from adjoint.core.graph.source_location import definition_site
from adjoint.core.runtime.text_table import pluralize
from adjoint.core.tensor.mutation_log import owner
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Operand
from adjoint.data.sampler import WeightedRandomSampler
from adjoint.diagnosis.findings import Finding, Place, place_of_frame
from adjoint.diagnosis.rules.loops.steps import is_clear
from adjoint.diagnosis.watch.events import Backward, ModuleCall, OptimizerRecord, OptimizerStep, caller_frame
from adjoint.diagnosis.watch.facts import Facts, is_array
from adjoint.diagnosis.watch.library_calls import LibraryCall
from adjoint.diagnosis.watch.names import name_of_value, origin_of_name
from adjoint.diagnosis.watch.rule import WatchRule
from adjoint.diagnosis.watch.value_flow import DRAWS, FLOW_PASSES, MODULE_CALLS
from adjoint.nn.module.module import Module
from adjoint.optim.lr.schedules import LambdaLR

MIN_STEPS = 3
MIN_WATCHED_STEPS = 2
MAX_PASSES = 24
MAX_STEPS = 24
MAX_BASE_RATE = 0.5
SAME_RATE = 0.05  # relative distance of a factor from the rate
BINARY = ("binary_cross_entropy", "binary_cross_entropy_with_logits", "mse_loss")


class SharedParameters(WatchRule):
    """An optimizer that has all parameters of another one and more: it undoes what the other does."""

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self.order: list[int] = []  # the optimizers, each time that another one makes a step

    def after_step(self, step: OptimizerStep) -> None:
        key = id(step.record.optimizer)
        if len(self.order) < MAX_STEPS and self.order[-1:] != [key]:
            self.order.append(key)

    def finish(self) -> None:
        records = [each for each in self.facts.optimizers.values() if self.order.count(id(each.optimizer)) >= MIN_STEPS]
        for one, other in permutations(records, 2):
            whole, part = ({id(p) for p in each.parameters()} for each in (one, other))
            others = {id(p) for each in records if each is not one for p in each.parameters()}
            if part < whole and not (whole - part) & others:
                problem = (
                    f"{one.name} has all {pluralize(len(part), 'parameter')} of {other.name} too: its steps change "
                )
                problem += "them by its own loss, and undo those of the other"
                advice = f"give {one.name} only the parameters that its loss is to change"
                self.report("shared-parameters", one.built or one.made, one.name, problem, advice, len(part))


class CriticSigns(WatchRule):
    """A critic's score of what a generator made, which both of them make small, or large."""

    sees_roots_only = True
    max_passes = FLOW_PASSES

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self.scores: dict[
            int, tuple[Tensor, Module, bool]
        ] = {}  # by identity, and whether a generator is trained by it
        self.signs: dict[int, list[tuple[bool, int, Place]]] = {}  # by the critic

    def leave_module(self, call: ModuleCall, output: Operand) -> None:
        x = next(iter(call.tensors()), None)
        source = None if x is None else self.facts.flow.maker_past_moves(x)
        if isinstance(output, Tensor) and x is not None and source is not None and source.function in MODULE_CALLS:
            self.scores[id(output)] = output, call.module, x.node is not None

    def begin_backward(self, backward: Backward) -> None:
        for root in backward.roots:
            for term in self.facts.flow.terms(root):
                known = self.scores.get(id(term.value))
                if known is not None and known[0] is term.value and term.value.array.shape[-1:] == (1,):
                    signs = self.signs.setdefault(id(known[1]), [])
                    if (known[2], term.sign, backward.place) not in signs:  # a critic may make several steps
                        signs.append((known[2], term.sign, backward.place))
                        self._compare(known[1], signs, root)
        self.scores.clear()

    def _compare(self, critic: Module, signs: list[tuple[bool, int, Place]], root: Tensor) -> None:
        of_generator = {sign for is_trained, sign, _ in signs if is_trained}
        made = self.facts.flow.maker(root)
        if len(signs) == 2 and of_generator == {sign for _, sign, _ in signs} and not signs[0][0] and made is not None:
            name = self.facts.names.name_of_module(critic)
            sign = "minus" if -1 in of_generator else "plus"
            problem = (
                f"the score of {name} for what is generated is in both losses with a {sign}: the generator helps the "
            )
            problem += "critic, and learns to look fake"
            frame = caller_frame()
            advice = f"{name_of_value(root, frame)} with the other sign, -{name}(fake).mean()"
            self.report("generator-target", made.place, name_of_value(root, frame), problem, advice, sign)


class ForeignGradients(WatchRule):
    """Gradients of another model's loss that are still there when an optimizer makes its step."""

    max_passes = MAX_PASSES

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self.passes: list[tuple[int, Place, set[int]]] = []  # and the parameters that they gave a gradient
        self.steps: list[tuple[int, int]] = []  # passes before it, and the optimizer
        self.found: dict[int, list[tuple[OptimizerStep, Place, OptimizerRecord]]] = {}

    def begin_backward(self, backward: Backward) -> None:
        if len(self.facts.optimizers) < 2:
            return
        kept = {id(p) for record in self.facts.optimizers.values() for p in record.parameters() if not is_clear(p)}
        self.passes = [(number, place, ids & kept) for number, place, ids in self.passes[-8:]]
        ids = {id(leaf.variable) for leaf in self.facts.leaves_of(backward)}
        self.passes.append((self.facts.iteration, backward.place, ids))

    def before_step(self, step: OptimizerStep) -> None:
        own = {id(p) for p in step.record.parameters() if not is_clear(p)} if self.passes else set()
        for number, place, ids in self.passes[:-1]:
            used = [key for before, key in self.steps if before == number + 1 and key != id(step.record.optimizer)]
            if own and own <= ids and used and self.facts.iteration > number + 1:
                other = self.facts.optimizers[used[0]]
                self.found.setdefault(id(step.record.optimizer), []).append((step, place, other))
                break

    def after_step(self, step: OptimizerStep) -> None:
        if len(self.facts.optimizers) < 2:
            return
        own = {id(p) for p in step.record.parameters()}
        self.passes = [(number, place, ids - own) for number, place, ids in self.passes]
        self.steps = [*self.steps[-8:], (self.facts.iteration, id(step.record.optimizer))]

    def finish(self) -> None:
        for found in self.found.values():
            step, place, other = found[0]
            if len(found) < MIN_STEPS:
                continue
            name = step.record.name
            problem = f"{name} uses gradients of the loss of {other.name} too, which {place.site.describe_briefly()} "
            problem += "gave its parameters"
            advice = f"{name}.zero_grad() before its own backward(), and detach() what {other.name}'s loss gets of it"
            self.report("foreign-gradients", step.place, name, problem, advice, len(found))


class GeneratorTarget(WatchRule):
    """A generator whose loss has the same target as that of the discriminator for what it made."""

    sees_roots_only = True
    max_passes = MAX_PASSES

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self.made: list[tuple[Operand, Module]] = []  # memory of results of models
        self.of_data: dict[int, float] = {}  # targets of judges for what no model has made
        self.judged: list[tuple[Operand, Module, Module | None, bool]] = []  # memory of a score; is it attached
        self.targets: dict[tuple[int, int], set[float]] = {}  # of the judge, by judge and maker
        self.found: list[tuple[Place, float, Module]] = []
        self.blind: list[tuple[Place, float, Module, tuple[int, int]]] = []
        self.noise: dict[int, list[tuple[Tensor, Place]]] = {}  # the inputs of makers, in the first passes

    def leave_module(self, call: ModuleCall, output: Operand) -> None:
        if not is_array(output) or not self.facts.has_parameters(call.module):
            return  # losses that are modules judge nothing
        for x in call.tensors():
            memory: Operand = owner(x.array) if is_array(x) else None
            maker = next((module for known, module in self.made if known is memory), None)
            if maker is not call.module:
                self.judged = [*self.judged[-4:], (owner(output.array), call.module, maker, x.node is not None)]
        self.made = [*self.made[-4:], (owner(output.array), call.module)]

    def enter_module(self, call: ModuleCall) -> None:
        x = next(iter(call.tensors()), None)
        made = self.facts.flow.maker(x) if self.facts.flow.is_open else None
        known = self.noise.get(id(call.module), [])
        is_first = made is not None and made.op in DRAWS
        if call.is_recording and x is not None and x.node is None and (is_first or known):
            place = made.place if made is not None else known[0][1]
            self.noise.setdefault(id(call.module), known).append((x, place))

    def see_call(self, call: LibraryCall) -> None:
        x, target = call.tensor("input"), call.tensor("target")
        if call.name not in BINARY or x is None or target is None or not target.array.size:
            return
        low, high = float(target.array.min()), float(target.array.max())
        memory: Operand = owner(x.array)
        for known, judge, maker, is_attached in self.judged:
            if known is not memory or high - low > 0.3:
                continue
            if maker is None:
                self.of_data[id(judge)] = low
                continue
            key = id(judge), id(maker)
            if not is_attached:
                self.targets.setdefault(key, set()).add(round(low))
                if abs(self.of_data.get(id(judge), low + 1) - low) < 0.3:
                    self.blind.append((call.place, low, judge, key))
            elif self.targets.get(key) == {round(low)}:
                self.found.append((call.place, low, maker))

    def _check_noise(self) -> None:
        """Look for a maker that gets the same noise in each pass."""
        for maker in {key[1] for key in self.targets}:
            inputs = self.noise.get(maker, [])
            if len(inputs) >= MIN_STEPS and all(x is inputs[0][0] for x, _ in inputs):
                problem = f"the noise {tuple(inputs[0][0].shape)} of the generator is the same in {len(inputs)} "
                problem += "passes: it was drawn once, and the generator learns these samples alone"
                place = inputs[0][1]
                self.report("noise-repeats", place, "noise", problem, "draw it in each step", len(inputs))

    def finish(self) -> None:
        self._check_noise()
        blind = [each for each in self.blind if len(self.targets[each[3]]) == 1]
        if len(blind) >= MIN_WATCHED_STEPS:
            place, target, judge, _ = blind[0]
            name = self.facts.names.name_of_module(judge)
            problem = (
                f"{name} has {target:g} as its target for the data and for what a model makes: it tells them not apart"
            )
            self.report("discriminator-target", place, name, problem, f"{1 - target:g} for what is made", target)
        elif len(self.found) >= MIN_WATCHED_STEPS:
            place, target, maker = self.found[0]
            name = self.facts.names.name_of_module(maker)
            problem = f"the loss of {name} has {target:g} as its target, as the discriminator's has for what {name} "
            problem += "makes: it learns to be found out"
            self.report("generator-target", place, name, problem, f"{1 - target:g} as the target", target)


class AbsoluteSchedule(WatchRule):
    """`LambdaLR` with a function that gives the rate itself, and not its factor."""

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self.known: set[int] = set()
        self.suspects: list[tuple[int, int, Finding]] = []  # with the optimizer and the group

    def schedule_steps(self, schedule: Operand, *args: object, **kwargs: object) -> None:
        """See the step of a schedule."""
        if not isinstance(schedule, LambdaLR) or schedule._is_initial or id(schedule) in self.known:
            return
        self.known.add(id(schedule))
        optimizer = schedule.optimizer
        factors = {
            float(g["lr"]) / float(base or 1)
            for g, base in zip(optimizer.param_groups, schedule.base_lrs, strict=False)
        }
        if len(factors) > 1:
            return  # a group that learns with another rate
        rows = zip(schedule.lr_lambdas, schedule.base_lrs, optimizer.param_groups, strict=False)
        for i, (function, base, group) in enumerate(rows):
            code = getattr(function, "__code__", None)
            if code is None or not 0 < float(base) < MAX_BASE_RATE:
                continue
            factor = float(group["lr"]) / float(base)
            if abs(factor - float(base)) <= SAME_RATE * float(base):
                place = Place(definition_site(code))
                problem = f"the function of LambdaLR gives {factor:g}, the rate itself: it is a factor of lr={base:g}, "
                problem += f"so the rate is {factor * float(base):.3g}"
                advice = "a factor that begins at 1"
                finding = Finding("absolute-schedule", place, "LambdaLR", f"{factor:g}", problem, advice)
                self.suspects.append((id(optimizer), i, finding))

    def finish(self) -> None:
        for key, i, finding in self.suspects:
            record = self.facts.optimizers.get(key)
            rates = [each[i] for each in record.rates if i < len(each)] if record is not None else []
            if not rates or max(rates) <= rates[0]:  # else it is a warm-up, and rises
                self.facts.report.add(finding)


class SamplerWeights(WatchRule):
    """A weighted sampler with a weight for each class, where it takes one for each sample."""

    def loader_is_read(self, loader: Operand) -> None:
        """See a pass over a loader begin."""
        sampler = getattr(loader, "sampler", None)
        if not isinstance(sampler, WeightedRandomSampler):
            return
        count, samples = len(sampler.weights), len(loader.dataset)
        if count < samples / 2:
            frame = caller_frame()
            name = name_of_value(sampler, frame)
            made = origin_of_name(name, frame)
            problem = f"the sampler has {count} weights and the dataset {samples} samples: it draws only the first "
            problem += f"{count} of them"
            advice = "a weight for each sample: weights = class_weights[labels]"
            self.report("sampler-weights", made or place_of_frame(frame), name, problem, advice, count)
