"""The watch of a program: hooks that turn what it does into events of rules, and are all removed at its end."""

from __future__ import annotations

import sys
import threading
import weakref
from bisect import bisect_right
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import wraps
from itertools import product

import numpy as np

from adjoint import autograd
from adjoint.autograd.backward import pass_watchers
from adjoint.core.graph.node import Leaf
from adjoint.core.graph.source_location import library_files
from adjoint.core.runtime.mode import has_interpreter, mode
from adjoint.core.tensor.mutation_log import mutation_log, owner
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Function, Operand
from adjoint.data.loader import DataLoader, LoaderIterator
from adjoint.diagnosis.findings import Report, place_of_frame
from adjoint.diagnosis.watch.events import (
    Backward,
    ModuleCall,
    OptimizerRecord,
    OptimizerStep,
    caller_frame,
    root_mean_square,
)
from adjoint.diagnosis.watch.facts import Facts
from adjoint.diagnosis.watch.frames import is_constructor, user_frames
from adjoint.diagnosis.watch.library_calls import find_written_losses
from adjoint.diagnosis.watch.names import describe_callee, name_of_value, place_of_rate
from adjoint.diagnosis.watch.op_observer import OpObserver
from adjoint.diagnosis.watch.patches import Patches, call_first, classes_below
from adjoint.diagnosis.watch.rule import RuleHandlers, WatchRule, find_rules_of_events
from adjoint.nn import functional
from adjoint.nn import utils as nn_utils
from adjoint.nn.module.module import Module
from adjoint.optim.lr.scheduler import LRScheduler
from adjoint.optim.step.hooks import register_optimizer_step_post_hook, register_optimizer_step_pre_hook
from adjoint.optim.step.optimizer import Optimizer

WATCHED_STEPS = frozenset({1, 2, 4})  # of an optimizer, in which ops are watched
LATE_STEP = 12  # the same, where the samples of those steps have not come again
MEASURED_STEPS = 6  # in which the sizes of gradients are measured, as in those whose ops are watched
QUIET_PERIOD = 4  # later steps of which one is seen by all rules, the others by those that must see every step
EARLY_STEPS = 32  # after which it is one of twice as many
MAX_KNOWN_CALLS = 8  # of each module
MAX_TRAININGS = 8  # of which the first steps are watched
MAX_TRAINING_EVALUATIONS = 4  # the same, of models in training mode: agents that act
MAX_EVALUATIONS = 12  # calls of models in evaluation after which the ops of the program are seen too


class Watch:
    """Watches this thread from `start` to `stop`: ops in the first `steps` steps, all else to the end."""

    def __init__(self, rules: Sequence[type[WatchRule]], report: Report, steps: int) -> None:
        self.facts = Facts(report)
        self.steps = steps
        self.rules = [rule(self.facts) for rule in rules]
        self.places = find_rules_of_events(tuple(rules))
        self.handlers: dict[tuple[Operand, ...], RuleHandlers] = {}
        self.step_limits = sorted({rule.max_steps for rule in self.rules})
        self.observer = OpObserver(self.facts, self._find_rules("see_op"), self._find_rules("see_call"))
        self.patches, self.op_patches = Patches(), Patches()
        self.handles: list[Operand] = []
        self.thread = threading.get_ident()
        self.package: Operand = sys.modules["adjoint"]
        self.current_steps: list[OptimizerStep] = []
        self.is_compiler_watched = False
        self.evaluations = 0
        self.unrecorded_calls: dict[tuple[int, bool, int, int], int] = {}  # by the module, its mode and where it is
        self.is_skipping = False  # the parts of a model that runs are left out
        self.is_resting = False  # ops of this step are not watched
        self.is_quiet = False  # nor are modules that are known, and only rules that must see every step see it

    def _find_rules(self, event: str) -> list[WatchRule]:
        """Return the rules that look at an event."""
        return [self.rules[i] for i in self.places.get(event, ())]

    def start(self) -> None:
        """Begin to watch."""
        self.handles = [
            register_optimizer_step_pre_hook(self._before_step),
            register_optimizer_step_post_hook(self._after_step),
        ]
        pass_watchers.append(self._backward)
        for kind in (Optimizer, Module):
            self.patches.replace(kind, "zero_grad", call_first(self._note_zero_grad))
        self.patches.replace(Optimizer, "__init__", call_first(self.note_optimizer))
        self.patches.replace(Optimizer, "load_state_dict", call_first(self._call("optimizer_is_loaded")))
        for kind in classes_below(LRScheduler):
            if "step" in vars(kind):
                self.patches.replace(kind, "step", call_first(self._call("schedule_steps")))
        self.patches.replace(Module, "__call__", self._watch_calls)
        self.patches.replace(Module, "train", call_first(self._call("mode_is_set")))
        self.patches.replace(Module, "load_state_dict", call_first(self._call("state_is_loaded")))
        for made in (DataLoader, LRScheduler):
            self.patches.replace(made, "__init__", call_first(self._note_construction))
        self.patches.replace(DataLoader, "__iter__", call_first(self._call("loader_is_read")))
        self.patches.replace(LoaderIterator, "__next__", self._watch_batches)
        for name in ("clip_grad_norm_", "clip_grad_value_"):
            self.patches.replace(nn_utils, name, call_first(self._call("gradients_are_clipped")))
        for name in ("register_forward_hook", "register_forward_pre_hook", "register_full_backward_hook"):
            self.patches.replace(Module, name, call_first(self._call("hook_is_registered")))
        scaler = self.package.amp.GradScaler
        self.patches.replace(scaler, "scale", call_first(self._call("loss_is_scaled")))
        self.patches.replace(scaler, "unscale_", call_first(self._call("gradients_are_unscaled")))
        for name in ("dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_alpha_dropout"):
            self.patches.replace(functional, name, call_first(self._call("dropout_is_called")))
        for holder, name in product((Tensor, self.package), ("argmax", "max", "topk")):
            self.patches.replace(holder, name, call_first(self._call("best_is_chosen")))
        for holder, name in product((Tensor, self.package), ("std", "var")):
            self.patches.replace(holder, name, call_first(self._call("deviation_is_taken")))
        self.patches.replace(self.package, "manual_seed", call_first(self._call("seed_is_set")))
        self.patches.replace(functional, "batch_norm", call_first(self._call("batch_norm_is_called")))
        self.op_patches.replace(Tensor, "detach", call_first(self._note_cut("detach()")))
        self.op_patches.replace(Tensor, "data", self._watch_data)
        self.op_patches.replace(Tensor, "item", call_first(self._note_cut("item()")))
        self.op_patches.replace(Tensor, "tolist", call_first(self._note_cut("tolist()")))
        self.op_patches.replace(Tensor, "numpy", call_first(self._note_cut("numpy()")))
        self.op_patches.replace(Tensor, "__float__", call_first(self._note_cut("float()")))
        for name in ("tensor", "multinomial", "bernoulli"):  # whose results have no history
            self.op_patches.replace(self.package, name, call_first(self._note_cut(f"{name}()")))
        self.op_patches.replace(autograd, "grad", self._note_gradients)
        self._watch_compiler()
        self.observer.start()

    def stop(self) -> None:
        """Remove all hooks, and add the findings that only the whole watch tells."""
        self._stop_ops()
        self.patches.restore()
        for handle in self.handles:
            handle.remove()
        if self._backward in pass_watchers:
            pass_watchers.remove(self._backward)
        self.facts.report.steps = self.facts.steps
        self.facts.flow.close()
        RuleHandlers(self._find_rules("finish"), "finish", is_limited=False).call(self.facts.round)

    def _watch_compiler(self) -> None:
        """See what is compiled, once the compiler is loaded."""
        kind = getattr(sys.modules.get("adjoint.compiler.compile"), "CompiledFunction", None)
        if kind is not None and not self.is_compiler_watched:
            self.is_compiler_watched = True
            self.patches.replace(kind, "__init__", call_first(self._call("function_is_compiled")))
            self.patches.replace(kind, "_dispatch", call_first(self._call("compiled_is_called")))

    def _watch_batches(self, give: Function) -> Function:
        """Return `LoaderIterator.__next__` that shows the rules each batch."""
        read, show = self._call("batch_is_read"), self._call("batch_is_given")

        def call(iterator: Operand) -> Operand:
            read(iterator)
            batch = give(iterator)
            show(batch)
            return batch

        return wraps(give)(call)

    def _stop_ops(self) -> None:
        self.observer.stop()
        self.op_patches.restore()

    def _is_ours(self) -> bool:
        """Return whether the event belongs to the program that is watched."""
        return threading.get_ident() == self.thread and not has_interpreter()

    def _call(self, event: str) -> Operand:
        """Return a function that passes an event of a method on to the rules that define it."""
        handlers = RuleHandlers(self._find_rules(event), event, is_limited=False)

        def notice(*args: object, **kwargs: object) -> None:
            if self._is_ours():
                handlers.call(self.facts.round, *args, **kwargs)

        return notice

    def _note_cut(self, what: str) -> Operand:
        def notice(tensor: Operand = None, *args: object, **kwargs: object) -> None:
            if not isinstance(tensor, Tensor) or tensor.node is None or not mode.recording or not self._is_ours():
                return
            frame, called = sys._getframe(2), what
            if frame.f_code.co_name == "data" and frame.f_back is not None:  # the property
                frame, called = frame.f_back, ".data"
            if library_files[frame.f_code.co_filename]:
                return
            own = frozenset({id(tensor)}) if type(tensor.node) is Leaf else None
            self.facts.cut(called, place_of_frame(frame), own)
            if called == ".data" and type(tensor.node) is not Leaf and type(tensor.array) is np.ndarray:
                memory: Operand = owner(tensor.array)
                write = mutation_log.by_memory.get(id(memory))
                before = -1 if write is None else write.sequence_nr
                name = name_of_value(tensor, frame)
                self.facts.data_reads.append((memory, before, name, place_of_frame(frame)))

        return notice

    def _watch_data(self, data: property) -> property:
        """Return `Tensor.data` that notes the recorded results which are given other memory."""

        def assign(tensor: Operand, value: object) -> None:
            frame = sys._getframe(1)
            is_result = tensor.node is not None and type(tensor.node) is not Leaf
            if is_result and self._is_ours() and not library_files[frame.f_code.co_filename]:
                self.facts.data_writes.append((name_of_value(tensor, frame), place_of_frame(frame)))
            data.__set__(tensor, value)

        return property(data.fget, assign, data.fdel, data.__doc__)

    def _note_gradients(self, grad: Function) -> Function:
        """Return `autograd.grad` that also notes the gradients which have no graph."""

        def call(*args: object, **kwargs: object) -> Operand:
            found = grad(*args, **kwargs)
            if self._is_ours():
                place = place_of_frame(caller_frame())
                outputs = args[0] if args else kwargs.get("outputs")
                sources = tuple(outputs) if isinstance(outputs, (list, tuple)) else (outputs,)
                made = [(weakref.ref(x), place, sources) for x in found if isinstance(x, Tensor) and x.node is None]
                self.facts.gradients = [*self.facts.gradients[-MAX_KNOWN_CALLS:], *made]
            return found

        return wraps(grad)(call)

    def note_optimizer(self, optimizer: Optimizer, *args: object, **kwargs: object) -> None:
        """Note the line that makes an optimizer."""
        if self._is_ours():
            self.facts.made_optimizers[optimizer] = place_of_frame(caller_frame())
            given = place_of_rate(caller_frame())
            if given is not None:
                self.facts.rate_places[optimizer] = given
            self.facts.trainings += 1
            if self.facts.trainings <= MAX_TRAININGS:  # its first steps are those of another training
                self.is_resting = self.is_quiet = False
                self.observer.resume()

    def _note_construction(self, made: Operand, *args: object, **kwargs: object) -> None:
        """Note the line that makes a loader or a schedule."""
        if self._is_ours():
            around = (frame for frame in user_frames(caller_frame()) if not is_constructor(frame, made))
            self.facts.constructions[made] = place_of_frame(next(around, caller_frame()))

    def _note_zero_grad(self, owner: Operand, *args: object, **kwargs: object) -> None:
        if self._is_ours():
            self.facts.zeroed.append((self.facts.iteration, place_of_frame(caller_frame())))

    def _watch_calls(self, call: Function) -> Function:
        """Return `Module.__call__` that passes calls on to the rules: without hooks, which would slow each of them."""

        def _watched_call(module: Module, *args: object, **kwargs: object) -> Operand:
            if self.is_skipping or not self._is_ours():
                return call(module, *args, **kwargs)
            if self.is_resting and self._is_familiar(module):
                self.is_skipping = True
                try:
                    return call(module, *args, **kwargs)
                finally:
                    self.is_skipping = False
            self._enter_module(module, (*args, *kwargs.values()))
            output = None
            try:
                output = call(module, *args, **kwargs)
            finally:
                self._leave_module(module, output)
            return output

        return _watched_call

    def _is_familiar(self, module: Module) -> bool:
        """Return whether a call of an outermost module is one of many, which a quiet step need not see."""
        record = mode.detach_record
        if id(module) not in self.facts.names.known or mode.recording or record is None:
            return self.is_quiet and mode.recording and id(module) in self.facts.names.known
        key = id(module), module.training, id(record.code), record.instruction_offset
        count = self.unrecorded_calls[key] = self.unrecorded_calls.get(key, 0) + 1
        return self.is_quiet and count > MAX_EVALUATIONS

    def _enter_module(self, module: Module, args: tuple[Operand, ...]) -> None:
        facts = self.facts
        parent = facts.calls[-1] if facts.calls else None
        call = ModuleCall(module, args, parent, facts.tick(), mode.recording, mode.detach_record)
        if parent is None:
            frame = caller_frame()
            call.place = place_of_frame(frame)
            facts.names.note_call(module, frame)
            self.is_skipping = self.is_resting and mode.recording  # nobody looks at the parts in such a step
            if self.is_resting:
                (self.observer.pause if mode.recording else self.observer.resume)()  # evaluations are seen
        facts.calls.append(call)
        known = facts.called.setdefault(id(module), (module, []))[1]
        if not known and parent is not None and module._parameters:
            call.place = place_of_frame(caller_frame())
        if len(known) < MAX_KNOWN_CALLS:
            known.append(call)
        self._find_module_handlers("enter_module", module, parent is None).call(facts.round, call)

    def _leave_module(self, module: Module, output: Operand) -> None:
        calls = self.facts.calls
        if len(calls) == 1:
            self.is_skipping = False
            is_evaluation = not calls[0].is_recording
            self.evaluations += is_evaluation
            limit = MAX_TRAINING_EVALUATIONS if module.training else MAX_EVALUATIONS
            if self.is_resting and not (is_evaluation and self.evaluations <= limit):
                self.observer.pause()
        while calls:
            call = calls.pop()
            if call.module is module:
                handlers = self._find_module_handlers("leave_module", module, call.parent is None)
                handlers.call(self.facts.round, call, output)
                break

    def _find_module_handlers(self, event: str, module: Module, is_root: bool) -> RuleHandlers:
        """Return the handlers of rules that look at such a module."""
        key = event, type(module), is_root
        found = self.handlers.get(key)
        if found is None:
            rules = [
                rule
                for rule in self._find_rules(event)
                if (is_root or not rule.sees_roots_only) and (not rule.modules or isinstance(module, rule.modules))
            ]
            found = self.handlers[key] = RuleHandlers(rules, event)
        return found

    def _find_step_handlers(self, event: str, number: int = 0) -> RuleHandlers:
        """Return the handlers of rules that look at this backward pass, or at a step of this number."""
        key = event, self.is_quiet, bisect_right(self.step_limits, number)
        found = self.handlers.get(key)
        if found is None:
            rules = [
                rule
                for rule in self._find_rules(event)
                if number < rule.max_steps and (rule.sees_every_step or not self.is_quiet)
            ]
            found = self.handlers[key] = RuleHandlers(
                rules, event, is_limited=event in ("begin_backward", "see_written_loss")
            )
        return found

    def _backward(self, roots: Sequence[Operand], is_retained: bool) -> AbstractContextManager[None]:
        if not self._is_ours():
            return nullcontext()
        facts = self.facts
        tensors = tuple(root for root in roots if isinstance(root, Tensor))
        loss = float(tensors[0].array.item()) if len(tensors) == 1 and tensors[0].array.size == 1 else None
        began = max((root.node.sequence_nr for root in tensors if root.node is not None), default=-1)
        backward = Backward(tensors, place_of_frame(caller_frame()), is_retained, facts.iteration, loss, began)
        is_seeing = mode.anomaly_detector is self.observer
        self.observer.pause()
        for written in find_written_losses(facts.flow, tensors) if facts.flow.is_open else ():
            self._find_step_handlers("see_written_loss").call(facts.round, written)
        self._find_step_handlers("begin_backward").call(facts.round, backward)
        backward.roots = ()
        facts.backwards.append(backward)
        facts.end_pass()
        return self.observer.resume_at_end() if is_seeing else nullcontext()

    def _before_step(self, optimizer: Optimizer, args: tuple[Operand, ...], kwargs: dict[str, Operand]) -> None:
        if not self._is_ours():
            return
        facts = self.facts
        self._watch_compiler()
        frame = caller_frame()
        record = facts.optimizers.get(id(optimizer))
        if record is None:
            name, made = describe_callee(frame)
            record = OptimizerRecord(optimizer, name or type(optimizer).__name__, made, place_of_frame(frame))
            record.built = self.facts.made_optimizers.get(optimizer, made)
            record.rate_place = self.facts.rate_places.get(optimizer)
            facts.optimizers[id(optimizer)] = record
            facts.names.note_tensors(record.parameters(), frame)
        record.rates.append([float(group["lr"]) for group in optimizer.param_groups if "lr" in group])
        is_measured = record.steps < MEASURED_STEPS or not self.is_resting
        sizes = _gradient_sizes(record) if is_measured and record.steps < self.steps else {}
        step = OptimizerStep(record, record.steps, place_of_frame(frame), sizes)
        self.current_steps.append(step)
        if len(args) < 2 and not kwargs.get("closure"):  # a closure's ops are the program's own
            self.observer.pause()
        self._find_step_handlers("before_step", step.number).call(facts.round, step)

    def _after_step(self, optimizer: Optimizer, args: tuple[Operand, ...], kwargs: dict[str, Operand]) -> None:
        if not self._is_ours() or not self.current_steps:
            return
        step = self.current_steps.pop()
        self._find_step_handlers("after_step").call(self.facts.round, step)
        step.record.steps += 1
        self.facts.steps += 1
        self.facts.stepped_at = self.facts.iteration
        if step.record.steps >= self.steps:
            self._stop_ops()
        number = step.record.steps
        is_late = number + 1 == LATE_STEP and self.facts.awaits_samples
        self.is_resting = number + 1 not in WATCHED_STEPS and not is_late and not self.facts.waits()
        period = QUIET_PERIOD if number < EARLY_STEPS else 2 * QUIET_PERIOD
        self.is_quiet = self.is_resting and number >= MEASURED_STEPS and number % period != 0
        (self.observer.pause if self.is_resting else self.observer.resume)()


def _gradient_sizes(record: OptimizerRecord) -> dict[int, float | None]:
    sizes: dict[int, float | None] = {}
    for p in record.parameters():
        grad = p._grad
        known = grad is not None and type(grad.array) is np.ndarray
        sizes[id(p)] = root_mean_square(grad.array) if known else None
    return sizes
