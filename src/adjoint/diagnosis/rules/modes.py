"""Rules on modes: evaluation mode while training, and training mode while evaluating, of a model or its parts."""

from __future__ import annotations

from dataclasses import replace

from adjoint.core.graph.source_location import InstructionLocation, library_files
from adjoint.core.op.op import Op
from adjoint.core.runtime.text_table import pluralize
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Operand, Operands
from adjoint.diagnosis.findings import Place, place_of_frame
from adjoint.diagnosis.watch.events import Backward, ModuleCall, OptimizerStep, caller_frame
from adjoint.diagnosis.watch.facts import Facts, is_array
from adjoint.diagnosis.watch.frames import find_library_call
from adjoint.diagnosis.watch.rule import CHECKED_PASSES, WatchRule
from adjoint.diagnosis.watch.source_lines import find_uncalled
from adjoint.nn.layers.dropout import AlphaDropout, Dropout, FeatureAlphaDropout
from adjoint.nn.layers.normalization import BatchNorm
from adjoint.nn.module.module import Module

DROPOUTS = (Dropout, AlphaDropout, FeatureAlphaDropout)
MODE_DEPENDENT = (*DROPOUTS, BatchNorm)


class EvaluationMode(WatchRule):
    """A model in evaluation mode that is trained."""

    sees_roots_only = True

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self.set_at: dict[int, Place] = {}
        self.calls: list[ModuleCall] = []  # since the last backward pass
        self.passes: dict[int, list[ModuleCall]] = {}
        self.trained: dict[int, int] = {}
        self.modes: dict[int, tuple[Module, bool]] = {}  # in the passes since the last step
        self.steps: dict[int, tuple[Module, list[int], Place]] = {}  # in evaluation, and in training mode

    def mode_is_set(self, module: Operand, training: bool = True) -> None:
        """See `train()` and `eval()`."""
        frame = caller_frame()
        if not training and not library_files[frame.f_code.co_filename]:
            self.set_at[id(module)] = place_of_frame(frame)

    def leave_module(self, call: ModuleCall, output: Operand) -> None:
        if call.parent is None and call.is_recording and isinstance(output, Tensor) and output.node is not None:
            self.calls.append(call)

    def begin_backward(self, backward: Backward) -> None:
        for call in self.calls[-8:]:
            self.modes[id(call.module)] = call.module, call.module.training
            if call.module.training:
                self.trained[id(call.module)] = self.trained.get(id(call.module), 0) + 1
            elif mode_dependent(call.module):
                self.passes.setdefault(id(call.module), []).append(call)
        self.calls.clear()

    def before_step(self, step: OptimizerStep) -> None:
        modes, self.modes = self.modes, {}
        own = {id(p) for p in step.record.parameters()}
        for module, training in modes.values():
            if any(id(p) in own for p in module.parameters()):
                counts = self.steps.setdefault(id(module), (module, [0, 0], step.place))[1]
                counts[training] += 1

    def _check_steps(self) -> None:
        """Look for steps in evaluation mode between those in training mode, as a validation that trains."""
        for module, (in_evaluation, in_training), place in self.steps.values():
            if min(in_evaluation, in_training) >= 2 and id(module) in self.set_at and not mode_dependent(module):
                name = self.facts.names.name_of_module(module)
                problem = (
                    f"{name} is trained in evaluation mode too, in {in_evaluation} steps beside {in_training}: the "
                )
                problem += "validation changes its parameters"
                advice = "no backward and no step there: with torch.no_grad()"
                self.report("step-in-evaluation", place, name, problem, advice, in_evaluation)

    def finish(self) -> None:
        optimized = self.facts.find_optimizers()
        self._check_steps()
        for calls in self.passes.values():
            module, call = calls[0].module, calls[0]
            if len(calls) < 2 or not any(id(p) in optimized and p.requires_grad for p in module.parameters()):
                continue
            name, layers = self.facts.names.name_of_module(module), mode_dependent(module)
            self.report(
                "eval-while-training",
                next(find_uncalled(call.place, "train"), self.set_at.get(id(module)) or call.place),
                name,
                f"{name} is trained in evaluation mode ({pluralize(len(calls), 'step')}): {describe_layers(layers)}",
                f"call {name}.train() before the training loop, and again after each evaluation",
                len(calls),
            )


class TrainingWhileEvaluating(WatchRule):
    """A model in training mode that is evaluated without recording, and dropout that is always on."""

    ops = frozenset({"dropout_factor"})

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self.suspects: dict[tuple[int, InstructionLocation], ModuleCall] = {}  # by the module and where recording ends
        self.used_records: set[InstructionLocation] = set()
        # the outermost module that was evaluated last, its input, and the passes before
        self.last: tuple[Module, Operand, int] | None = None

    def see_op(self, op: Op, inputs: Operands, out: Tensor) -> None:
        call = self.facts.calls[-1] if self.facts.calls else None
        if call is None or call.module.training or isinstance(call.module, DROPOUTS):
            return
        frame = caller_frame()
        if call.root.module.training or frame.f_locals.get(next(iter(frame.f_code.co_varnames), "")) is not call.module:
            return
        name = self.facts.names.name_of_module(call.module)
        self.report(
            "dropout-in-evaluation",
            place_of_frame(frame),
            name,
            f"dropout is on in {name}, which is in evaluation mode",
            "F.dropout(x, p, training=self.training), or an nn.Dropout layer",
        )

    def enter_module(self, call: ModuleCall) -> None:
        if call.is_recording:
            self.last = None
            for x in call.tensors():
                record = getattr(x, "_detach_record", None)
                if record is not None:
                    self.used_records.add((record.code, record.instruction_offset))
            return
        record = call.record
        if record is None or not call.module.training or not self.facts.steps:
            return
        inputs = [x.array for x in call.tensors()]
        now = self.facts.iteration
        is_again = call.parent is None and inputs and self.last is not None and self.last[::2] == (call.module, now)
        if is_again and self.last is not None and self.last[1] is inputs[0]:  # whose samples are wanted
            self.used_records.add((record.code, record.instruction_offset))
        self.last = (call.module, inputs[0], now) if call.parent is None and inputs else self.last
        location = record.code, record.instruction_offset
        if call.parent is None:
            if (id(call.module), location) not in self.suspects and not library_files[record.code.co_filename]:
                self.suspects[id(call.module), location] = call
        elif isinstance(call.module, MODE_DEPENDENT) and not call.root.module.training:
            part = outermost_in_mode(call, training=True)  # that eval() of the model did not reach
            if part is not call and not library_files[record.code.co_filename]:
                self.suspects.setdefault((id(part.module), location), replace(part, place=call.root.place))

    def finish(self) -> None:
        optimized = self.facts.find_optimizers()
        reported = set()
        for (_, location), call in self.suspects.items():
            module = call.module
            if location in self.used_records or not mode_dependent(module):
                continue
            if id(module) in reported or not any(id(p) in optimized for p in module.parameters()):
                continue
            reported.add(id(module))
            name = self.facts.names.name_of_module(module)
            self.report(
                "train-while-evaluating",
                next(find_uncalled(call.place, "eval"), call.place),
                name,
                f"{name} is evaluated in training mode: {describe_layers(mode_dependent(module), evaluating=True)}",
                f"call {name}.eval() before it, and {name}.train() before training goes on",
            )


class PartInEvaluation(WatchRule):
    """A part of a model that is trained in evaluation mode, while the whole is in training mode."""

    modules = MODE_DEPENDENT
    max_passes = CHECKED_PASSES

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self.set_at: dict[int, Place] = {}
        self.calls: dict[int, list[ModuleCall]] = {}  # by the part

    def mode_is_set(self, module: Operand, training: bool = True) -> None:
        """See `train()` and `eval()`."""
        frame = caller_frame()
        if not training and not library_files[frame.f_code.co_filename]:
            self.set_at[id(module)] = place_of_frame(frame)

    def enter_module(self, call: ModuleCall) -> None:
        if not call.is_recording or call.module.training or not call.root.module.training:
            return
        part = outermost_in_mode(call, training=False)
        is_untrained = isinstance(call.module, BatchNorm) and has_initial_statistics(call.module)
        if is_untrained or (part is not call and not isinstance(call.module, BatchNorm)):
            self.calls.setdefault(id(part.module), []).append(replace(part, place=call.root.place))

    def finish(self) -> None:
        optimized = self.facts.find_optimizers()
        for calls in self.calls.values():
            module, passes = calls[0].module, self.facts.iteration
            is_trained = any(id(p) in optimized and p.requires_grad for p in module.parameters())
            if len(calls) < 2 or passes < 2 or not is_trained:
                continue
            name, layers = self.facts.names.name_of_module(module), mode_dependent(module)
            self.report(
                "eval-while-training",
                self.set_at.get(id(module)) or calls[0].place,
                name,
                f"{name} is trained in evaluation mode, while the model is in training mode: {describe_layers(layers)}",
                f"call {name}.train(), or leave out its eval()",
                len(calls),
            )


class SkippedMode(WatchRule):
    """`F.dropout` or `F.batch_norm` with training=False, in a module that is in training mode."""

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self.counts: dict[Place, tuple[str, str, set[int]]] = {}

    def dropout_is_called(self, x: Operand, p: float = 0.5, training: bool = True, *args: object) -> None:
        """See a call of a function of dropout."""
        if not training and p:
            self._count_skip(f"dropout of {p:g}", "never drops")

    def batch_norm_is_called(
        self,
        x: Operand,
        running_mean: Operand = None,
        running_var: Operand = None,
        weight: Operand = None,
        bias: Operand = None,
        training: bool = False,
        *args: object,
    ) -> None:
        """See a call of the function of batch norm."""
        if not training and is_array(running_mean) and not running_mean.array.any():
            self._count_skip(
                "batch_norm", "batch_norm uses running statistics that are never changed, mean 0 and variance 1"
            )

    def _count_skip(self, name: str, what: str) -> None:
        frame, module = caller_frame(), self.facts.module()
        if module is None or not module.training or not self.facts.calls[-1].is_recording:
            return
        if find_library_call("forward") is not None:  # of a layer, which may be in another mode
            return
        if not library_files[frame.f_code.co_filename]:
            name = f"{name} in {self.facts.names.name_of_module(module)}"
            self.counts.setdefault(place_of_frame(frame), (name, what, set()))[2].add(self.facts.iteration)

    def finish(self) -> None:
        for place, (name, what, passes) in self.counts.items():
            if len(passes) >= 2:
                problem = f"{name}: {what}, for it gets training=False in {len(passes)} passes in training mode"
                advice = "training=self.training, or a layer: nn.Dropout, nn.BatchNorm"
                self.report("eval-while-training", place, name, problem, advice, len(passes))


def outermost_in_mode(call: ModuleCall, training: bool) -> ModuleCall:
    """Return the call farthest out of which all calls within, to this one, are of modules in a mode."""
    while call.parent is not None and call.parent.module.training == training:
        call = call.parent
    return call


def has_initial_statistics(norm: Module) -> bool:
    """Return whether the running statistics of a batch norm are those that it was made with."""
    mean: Operand = getattr(norm, "running_mean", None)
    variance: Operand = getattr(norm, "running_var", None)
    if not is_array(mean) or not is_array(variance):
        return False
    return not mean.array.any() and bool((variance.array == 1).all())


def mode_dependent(module: Module) -> list[Module]:
    """Return the parts of a module that work differently in training and evaluation mode."""
    return [
        part
        for part in module.modules()
        if (isinstance(part, DROPOUTS) and getattr(part, "p", 0) > 0)
        or (isinstance(part, BatchNorm) and part.running_mean is not None)
    ]


def describe_layers(layers: list[Module], evaluating: bool = False) -> str:
    """Return what the mode does to layers."""
    dropouts = sum(isinstance(layer, DROPOUTS) for layer in layers)
    norms = len(layers) - dropouts
    told = []
    if dropouts:
        told.append(f"{dropouts} dropout layer{'s' * (dropouts > 1)} {'drop' if evaluating else 'do not drop'}")
    if norms:
        does = "use the batch's statistics and change the running ones" if evaluating else "use running statistics"
        told.append(f"{norms} batch norm layer{'s' * (norms > 1)} {does}")
    return ", ".join(told)
