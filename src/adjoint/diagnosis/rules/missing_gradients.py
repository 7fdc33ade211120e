"""Rules on parameters that get no gradient, or that no optimizer has."""

from __future__ import annotations

import ast
import sys

from adjoint.core.graph.node import Leaf
from adjoint.core.runtime.text_table import pluralize
from adjoint.core.typing import Operand
from adjoint.diagnosis.findings import Place, place_of_instruction
from adjoint.diagnosis.rules.dataflow.lost_parts import (
    describe_lost_tensor,
    find_callers,
    find_holder,
    find_making,
    find_owner,
    is_from_lost_leaf,
    is_item,
    share_parameters,
)
from adjoint.diagnosis.watch.events import Backward, Cut, ModuleCall, OptimizerRecord, OptimizerStep, caller_frame
from adjoint.diagnosis.watch.facts import Facts
from adjoint.diagnosis.watch.frames import place_of_attribute
from adjoint.diagnosis.watch.names import describe_callee
from adjoint.diagnosis.watch.rule import WatchRule
from adjoint.diagnosis.watch.source_lines import find_uncalled, nodes_around
from adjoint.diagnosis.watch.value_flow import Made
from adjoint.nn.containers.containers import ModuleList
from adjoint.nn.module.module import Module
from adjoint.nn.module.parameter import Parameter

PERIOD = 16  # of the steps in which all models are looked through again
MAX_ENDS = 16  # ways that are followed
CAUSES_OF_ABSENCE = ("loss-of-another", "weights-overwritten", "sign-for-operator", "gradient-not-stopped")
FIRST_PASSES = 4  # whose graphs are walked for leaves
HIDDEN_CUTS = ("argmax()", "with no_grad", "no_grad", "@no_grad", "with inference_mode", "inference_mode")
# which programs use to print and to draw, too
UNRECORDED = "it is used only under"
BLOCKS = ("no_grad", "inference_mode", "set_grad_enabled")
WRITTEN_CUTS = ("detach()", ".data", "numpy()", "tensor()")
WEAK_CUTS = ("item()", "float()", "tolist()", "argmax()", "argmin()", "multinomial()", "bernoulli()")


class MissingGradients(WatchRule):
    """Parameters of a model or an optimizer that never get a gradient, with the reason."""

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self.with_gradient: set[int] = set()
        self.waiting: list[Operand] = []  # parameters of models that have had no gradient
        # tensors that require grad, in how many passes, and the version at the first
        self.leaf_uses: dict[int, tuple[Operand, int, int]] = {}
        self.first_roots: dict[int, Place] = {}
        self.last_pass = -1, -1  # the times between which the last loss was computed
        self.loss_times: dict[int, tuple[int, int]] = {}  # those of the loss before the first step of an optimizer
        self.pass_times: list[int] = []
        self.ends: dict[int, tuple[Made, bool]] = {}  # where the way from a parameter to the first losses ends

    def begin_backward(self, backward: Backward) -> None:
        self.last_pass = self.last_pass[1], self.facts.tick()
        self.pass_times.append(self.last_pass[1])
        if backward.iteration < FIRST_PASSES:
            leaves = self.facts.leaves_of(backward)
            if self.facts.flow.is_open:
                self._note_ends(backward, {id(leaf.variable) for leaf in leaves})
            for leaf in leaves:
                tensor: Operand = leaf.variable
                if tensor is not None:
                    _, count, version = self.leaf_uses.get(id(tensor), (tensor, 0, tensor._version))
                    self.leaf_uses[id(tensor)] = tensor, count + 1, version
            if backward.iteration == 1:
                known = [tensor for tensor, _, _ in self.leaf_uses.values() if isinstance(tensor, Parameter)]
                self.facts.names.note_tensors(known, caller_frame())
            for root in backward.roots:
                if type(root.node) is Leaf:
                    self.first_roots.setdefault(
                        backward.iteration, describe_callee(caller_frame())[1] or backward.place
                    )

    def _note_ends(self, backward: Backward, reached: set[int]) -> None:
        """Find where the ways from parameters end that a loss does not come from, of one parameter of each module."""
        for part in [part for root in self.facts.names.models() for part in root.module.modules()]:
            own = [p for p in part._parameters.values() if p is not None and p.requires_grad]
            if own and not any(id(p) in reached for p in own) and len(self.ends) < MAX_ENDS:
                end = self.facts.flow.find_end(own[0], backward.roots)
                if end is not None:
                    self.ends.setdefault(id(own[0]), end)

    def before_step(self, step: OptimizerStep) -> None:
        self.loss_times.setdefault(id(step.record.optimizer), self.last_pass)
        self.with_gradient.update(id(p) for p in step.record.parameters() if p._grad is not None)
        if step.number < FIRST_PASSES or step.number % PERIOD == 0:
            self.waiting = [p for root in self.facts.names.models() for p in root.module.parameters()]
        self.with_gradient.update(id(p) for p in self.waiting if p._grad is not None)
        self.waiting = [p for p in self.waiting if p._grad is None]

    def finish(self) -> None:
        records = [record for record in self.facts.optimizers.values() if record.steps >= 2]
        if not records:
            return
        if not self.facts.backwards:
            self._report_no_backward(records[0])
            return
        if self.facts.has_found(*CAUSES_OF_ABSENCE) or any(map(self._is_independent, records)):
            return
        self._report_replaced(records, missing := self._missing(records))
        self._report_not_in_optimizer(records)
        self._report_unreached(missing)

    def _report_no_backward(self, record: OptimizerRecord) -> None:
        if not any(id(p) in self.with_gradient for p in record.parameters()):
            self.report(
                "no-backward",
                next(find_uncalled(record.step_place, "backward"), record.step_place),
                record.name,
                f"{record.name} made {pluralize(record.steps, 'step')}, but backward() has not been called: no "
                "parameter has a "
                "gradient",
                "call loss.backward() before the step",
                record.steps,
            )

    def _is_independent(self, record: OptimizerRecord) -> bool:
        """Report a loss from which no parameter of the optimizer got a gradient."""
        parameters = [p for p in record.parameters() if p.requires_grad]
        if self.facts.has_found("step-before-backward", "zero-grad-before-step"):
            return True  # when the step is made, they have none
        if not parameters or any(id(p) in self.with_gradient for p in parameters):
            return False
        models = {id(p) for root in self.facts.names.models() for p in root.module.parameters()}
        if any(id(p) not in models for p in parameters) and models & self.with_gradient:
            return False  # parameters that were replaced
        if self.first_roots:
            place = next(iter(self.first_roots.values()))
            problem = "the loss of backward() is a tensor made anew, not computed from the parameters"
        else:
            place = self.facts.backwards[0].place
            problem = f"the loss does not depend on any parameter of {record.name}"
        cut = self._find_cut(*self.loss_times[id(record.optimizer)]) or self._find_cut(-1)
        if self.first_roots and cut is not None and not cut.what.startswith(HIDDEN_CUTS):
            cut = None  # it is the line that makes the tensor
        if cut is not None:
            place, problem = cut.place, f"{problem}: {cut.what} ended the history here"
        self.report(
            "loss-independent-of-model",
            place,
            record.name,
            f"{problem}; all {len(parameters)} have no gradient",
            "compute the loss from the model's output by recorded ops: no tensor(…), item(), numpy() or detach()",
            len(parameters),
        )
        return True

    def _missing(self, records: list[OptimizerRecord]) -> list[Operand]:
        """Return the parameters that require grad and have never had one, of models that are trained."""
        trained = self.facts.find_optimizers()
        found = {id(p): p for record in records for p in record.parameters()}
        for root in self.facts.names.models():
            parts = list(root.module.parameters())
            if any(id(p) in trained and id(p) in self.with_gradient for p in parts):
                found.update({id(p): p for p in parts})
        return [p for key, p in found.items() if p.requires_grad and key not in self.with_gradient]

    def _report_replaced(self, records: list[OptimizerRecord], missing: list[Operand]) -> None:
        """Report an optimizer whose parameters are no longer those of the model."""
        names = self.facts.names
        models = {id(p): p for root in names.models() for p in root.module.parameters()}
        trained = self.facts.find_optimizers()
        new = [p for key, p in models.items() if key not in trained and p.requires_grad and key in self.with_gradient]
        for record in records:
            mine = {id(p) for p in record.parameters()}
            stale = [p for p in missing if id(p) in mine and id(p) not in models]
            if not stale or not new:
                continue
            first = names.name_of_parameter(new[0])
            self.report(
                "optimizer-before-parameters",
                record.built or names.origin_of_parameter(new[0]),
                record.name,
                f"{record.name} has {pluralize(len(stale), 'parameter')} that the model has no longer, and lacks "
                f"{len(new)} of the "
                f"model's: {first} …"
                if len(new) > 1
                else f"{record.name} updates a parameter that the model has no longer, and lacks {first}",
                "make the optimizer after the last change of the model's parameters",
                len(new),
            )
            missing[:] = [p for p in missing if id(p) not in {id(s) for s in stale}]

    def _report_not_in_optimizer(self, records: list[OptimizerRecord]) -> None:
        names, trained = self.facts.names, self.facts.find_optimizers()
        if self.facts.has_found("optimizer-before-parameters", "step-forgotten", "two-optimizers"):
            return
        for root in names.models():
            parts = list(root.module.named_parameters())
            if not any(id(p) in trained for _, p in parts) and len(records) > 1 and not share_parameters(records):
                continue
            absent = [
                (name, p)
                for name, p in parts
                if p.requires_grad and id(p) not in trained and id(p) in self.with_gradient
            ]
            if absent:
                own = [id(p) for _, p in parts]
                record = max(records, key=lambda each: sum(id(p) in own for p in each.parameters()))
                self._report_absent([f"{root.name}.{name}" for name, _ in absent], absent[0][1], record)
        self._report_lone(records[0])
        self._report_unregistered(records[0])

    def _report_lone(self, record: OptimizerRecord) -> None:
        """Report parameters of no model that get gradients and that no optimizer has, and no line changes."""
        names, trained = self.facts.names, self.facts.find_optimizers()
        registered = {id(p) for root in names.roots.values() for p in root.module.parameters()}
        lone = [
            p
            for p, count, version in self.leaf_uses.values()
            if isinstance(p, Parameter) and count >= 2 and p._version == version
        ]
        absent = [p for p in lone if id(p) not in trained and id(p) not in registered and id(p) in names.tensors]
        if absent:
            self._report_absent([names.tensors[id(p)] for p in absent], absent[0], record)

    def _report_absent(self, found: list[str], first: Operand, record: OptimizerRecord) -> None:
        self.report(
            "not-in-optimizer",
            record.built or self.facts.names.origin_of_parameter(first),
            found[0],
            f"{_join(found)} {'get' if len(found) > 1 else 'gets'} gradients, but no optimizer has "
            f"{'them' if len(found) > 1 else 'it'}",
            f"give {record.name} all parameters that shall learn, or requires_grad_(False) to those that shall not",
            len(found),
        )

    def _report_unregistered(self, record: OptimizerRecord) -> None:
        """Report modules and tensors in use that no model has registered."""
        names, trained = self.facts.names, self.facts.find_optimizers()
        registered = {id(part) for root in names.roots.values() for part in root.module.modules()}
        reported = set()
        for module, calls in self.facts.called.values():
            own = [p for p in module._parameters.values() if p is not None and p.requires_grad]
            call = calls[0]
            if id(module) in registered or not own or call.parent is None or not call.is_recording:
                continue
            if any(id(p) in trained for p in own):
                continue
            holder = next((c for c in find_callers(call) if id(c.module) in registered), None)
            if holder is None or (id(holder.module), type(module)) in reported:
                continue
            reported.add((id(holder.module), type(module)))
            name, place = find_holder(holder.module, module)
            made_anew = not name
            owner = names.name_of_module(holder.module)
            what = f"{owner}.{name}" if name else f"{type(module).__name__} in forward of {owner}"
            self.report(
                "unregistered-module",
                place or find_making(call.place) or call.place or names.origin_of_module(holder.module),
                what,
                f"{what} is {'made anew in each forward' if made_anew else 'no submodule'}: parameters() does not "
                "list its weights, and no optimizer has them",
                "make it in __init__ as an attribute" if made_anew else "keep it in nn.ModuleList or nn.ModuleDict",
                sum(p.numel() for p in own),
            )
        for tensor, count, _ in self.leaf_uses.values():
            if count < 2 or id(tensor) in trained:
                continue
            for root in names.roots.values():
                for part in root.module.modules():
                    held = {**vars(part), **part._buffers}.items()
                    listed = (key for key, value in held if key[:1] != "_" and is_item(tensor, value))
                    key = next((key for key, value in held if value is tensor), next(listed, None))
                    if key is not None:
                        self._report_tensor_attribute(part, key, tensor)

        for root in names.models():
            for part in root.module.modules():
                for key, value in vars(part).items():
                    if is_from_lost_leaf(value, trained.keys()):
                        self._report_tensor_attribute(part, key, value)

    def _report_tensor_attribute(self, part: Module, key: str, tensor: Operand) -> None:
        name = f"{self.facts.names.name_of_module(part)}.{key}"
        problem, advice = describe_lost_tensor(name, tensor, vars(part).get(key))
        self.report("not-a-parameter", place_of_attribute(part, key), name, problem, advice, tuple(tensor.shape))

    def _report_unreached(self, missing: list[Operand]) -> None:
        names = self.facts.names
        owners: dict[int, tuple[Module | None, list[Operand]]] = {}
        for p in missing:
            owner = find_owner(p, [root.module for root in names.models()])
            owners.setdefault(id(owner) if owner is not None else id(p), (owner, []))[1].append(p)
        groups: dict[tuple[str, Place | None, str], list[Operand]] = {}
        for owner, parts in owners.values():
            why, place, advice = self._explain(owner, parts[0])
            groups.setdefault((why, place, advice), []).extend(parts)
        trained = self.facts.find_optimizers()
        for (why, place, advice), parts in groups.items():
            if why.startswith(UNRECORDED) and not any(id(p) in trained for p in parts):
                continue  # features of a part that nobody trains
            called = [names.name_of_parameter(p) for p in parts]
            self.report(
                "no-gradient",
                place,
                called[0],
                f"{_join(called)} never get{'s' if len(called) == 1 else ''} a gradient: {why}",
                advice,
                len(called),
            )

    def _explain(self, owner: Module | None, parameter: Operand) -> tuple[str, Place | None, str]:
        """Return why a parameter got no gradient, the line to blame, and what to do."""
        names = self.facts.names
        calls = [] if owner is None else self.facts.called.get(id(owner), (owner, []))[1]
        if not calls and id(parameter) not in self.leaf_uses and id(parameter) not in self.ends:
            own = (cut for cut in self.facts.cuts if cut.parameters == frozenset({id(parameter)}))
            is_of_module = "." in names.tensors.get(id(parameter), "")  # one that has never been called
            if (cut := self._find_cut(-1) if owner is None and not is_of_module else next(own, None)) is not None:
                return f"{cut.what} ends the history", cut.place, f"leave out {cut.what}, or do not train it"
            return (
                "the forward pass does not use it",
                names.origin_of_parameter(parameter)
                or getattr(self.facts.find_optimizers().get(id(parameter)), "built", None),
                "use it in forward, or remove it",
            )
        unrecorded = [call for call in calls if not call.is_recording]
        if calls and len(unrecorded) == len(calls):
            record = calls[0].record
            what, place = (
                ("no_grad", calls[0].root.place)
                if record is None
                else (record.what, place_of_instruction((record.code, record.instruction_offset)))
            )
            return (
                f"{UNRECORDED} {what}",
                place,
                "leave this forward out of the block, or freeze the parameter",
            )
        sibling = self._find_sibling(calls)
        if sibling is not None:
            name = names.name_of_module(sibling)
            return (
                f"its result is lost, for {name} gets the same input and not that result",
                calls[0].place or names.origin_of_parameter(parameter),
                "give each layer the result of the one before: x = layer(x)",
            )
        made, is_cut = self.ends.get(id(parameter), (None, False))
        if made is not None and is_cut:
            if (block := self._find_block(made)) is not None:
                return f"{UNRECORDED} {block.what}", block.place, "leave this line out of the block"
            what = self._name_cut(made)
            return f"{what} ends the history of its result", made.place, f"leave out {what} on this way"
        time = calls[0].time if calls else -1
        loss_time = next((each for each in self.pass_times if each > time), sys.maxsize)
        if (cut := self._find_cut(time, loss_time, parameter)) is not None:
            return f"{cut.what} ends the history of its result", cut.place, f"leave out {cut.what} on this way"
        if made is None:
            place, why = names.origin_of_parameter(parameter), "its result does not lead to the loss"
        else:
            place, why = made.place, f"its result ends with {made.name} here, and does not lead to the loss"
        return why, place, "use the result in the loss, or remove the layer"

    def _find_block(self, made: Made) -> Cut | None:
        """Return the block without recording around the line of an op, if one was seen."""
        lines = {node.lineno for node in nodes_around(made.place, ast.With)}
        lines |= {each.lineno for node in nodes_around(made.place, ast.FunctionDef) for each in node.decorator_list}
        blocks = (cut for cut in self.facts.cuts if cut.what.lstrip("@").startswith(BLOCKS))
        return next((cut for cut in blocks if cut.place.site.line in lines), None)

    def _name_cut(self, made: Made) -> str:
        """Return what ends the history of an op's operand or result."""
        if any(x.node is not None for x in made.tensors):
            return f"{made.name}()"
        detached = [cut.what for cut in self.facts.cuts if cut.place.site.line == made.place.site.line]
        return next(iter(detached), f"{made.name}()")

    def _find_sibling(self, calls: list[ModuleCall]) -> Module | None:
        """Return a layer of the same list that got the very same input, although its result was used."""
        if not calls or not calls[0].tensors() or calls[0].parent is None:
            return None
        module, x = calls[0].module, calls[0].tensors()[0]
        lists = [part for part in calls[0].parent.module.modules() if isinstance(part, ModuleList)]
        layers = next((list(part) for part in lists if any(each is module for each in part)), [])
        for each in layers:
            others = self.facts.called.get(id(each), (each, []))[1] if each is not module else []
            trained = any(id(p) in self.with_gradient for p in each.parameters())
            if trained and any(call.tensors() and call.tensors()[0] is x for call in others):
                return each
        return None

    def _find_cut(self, since: int, until: int = sys.maxsize, parameter: Operand = None) -> Cut | None:
        """Return the first cut after a time, those that programs print by only if there is no other."""
        cuts = [
            cut
            for cut in self.facts.cuts
            if since < cut.time < until
            and (parameter is None or cut.parameters is None or id(parameter) in cut.parameters)
        ]
        strong = [cut for cut in cuts if not cut.what.startswith(WEAK_CUTS)]
        written = [cut for cut in strong if cut.what in WRITTEN_CUTS]  # and no op, such as a check of an argument
        return next(iter(written or strong or cuts), None)


def _join(names: list[str]) -> str:
    if len(names) <= 3:
        return ", ".join(names)
    return f"{', '.join(names[:2])} and {len(names) - 2} more"
