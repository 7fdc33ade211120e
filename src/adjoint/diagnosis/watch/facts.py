"""Facts about a watched program that all rules may read."""

from __future__ import annotations

import weakref

import numpy as np

from adjoint.core.graph.node import Leaf
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Operand, Operands
from adjoint.diagnosis.findings import Place, Report
from adjoint.diagnosis.watch.events import Backward, Cut, ModuleCall, OptimizerRecord
from adjoint.diagnosis.watch.names import Names
from adjoint.diagnosis.watch.value_flow import FLOW_PASSES, ValueFlow
from adjoint.nn.module.module import Module
from adjoint.optim.step.optimizer import Optimizer

MAX_CUTS = 2000
MAX_WAITING = 12  # passes


class Facts:
    """The facts that the watch knows so far: names, calls, optimizers, passes, steps."""

    def __init__(self, report: Report) -> None:
        self.report = report
        self.names = Names()
        self.flow = ValueFlow()
        # those that autograd.grad gave without a graph, and of what
        self.gradients: list[tuple[weakref.ref[Tensor], Place, Operands]] = []
        self.time = 0  # of events that are compared in order
        self.calls: list[ModuleCall] = []  # that run, the outermost first
        self.optimizers: dict[int, OptimizerRecord] = {}
        self.iteration = 0  # the number of backward passes
        self.round = 0  # the same, but for those that come before each of several optimizers has made a step
        self.steps = 0  # of all optimizers
        self.stepped_at = 0  # the passes that had run at the last step
        self.backwards: list[Backward] = []
        self.cuts: list[Cut] = []
        self.data_reads: list[tuple[Operand, int, str, Place]] = []  # memory read through `.data`, and its last write
        self.data_writes: list[tuple[str, Place]] = []  # recorded results whose `.data` was set
        self.awaits_samples = False  # too few of those that were watched have come again
        self.trainings = 0  # optimizers that were made
        self.made_optimizers: weakref.WeakKeyDictionary[Optimizer, Place] = weakref.WeakKeyDictionary()
        self.rate_places: weakref.WeakKeyDictionary[Optimizer, Place] = weakref.WeakKeyDictionary()
        # the lines that made loaders and schedules
        self.constructions: weakref.WeakKeyDictionary[Operand, Place] = weakref.WeakKeyDictionary()
        self.called: dict[int, tuple[Module, list[ModuleCall]]] = {}  # the first calls of each module
        self.with_parameters: dict[int, tuple[Module, bool]] = {}  # the modules that were asked for, and the answers
        self.leaves: tuple[Backward | None, set[Leaf]] = None, set()  # of the last pass
        self.zeroed: list[tuple[int, Place]] = []  # how many passes had run when gradients were cleared, and where

    def tick(self) -> int:
        """Return the next time."""
        self.time += 1
        return self.time

    def waits(self) -> bool:
        """Return whether one of several optimizers has made no step yet."""
        return self.iteration < MAX_WAITING and len(self.made_optimizers) > max(len(self.optimizers), 1)

    def end_pass(self) -> None:
        """Count a backward pass; while an optimizer waits for its first step, the second round goes on."""
        self.iteration += 1
        self.round += not (self.waits() and self.round == FLOW_PASSES - 1)
        if self.round >= FLOW_PASSES and self.flow.is_open:
            self.flow.close()

    def leaves_of(self, backward: Backward) -> set[Leaf]:
        """Return the leaves from which the roots of the current pass were computed."""
        if self.leaves[0] is not backward:
            self.leaves = backward, leaves_below(backward.roots)
        return self.leaves[1]

    def has_parameters(self, module: Module) -> bool:
        """Return whether a module had parameters when it was asked for first."""
        known = self.with_parameters.get(id(module))
        if known is None:
            known = self.with_parameters[id(module)] = module, next(iter(module.parameters()), None) is not None
        return known[1]

    def module(self) -> Module | None:
        """Return the module whose forward runs, the innermost."""
        return self.calls[-1].module if self.calls else None

    def cut(self, what: str, place: Place, parameters: frozenset[int] | None = None) -> None:
        """Note a place where a history ends, and the ids of the parameters it came from if they are known."""
        if len(self.cuts) < MAX_CUTS:
            self.cuts.append(Cut(what, place, self.tick(), self.module(), parameters))

    def find_optimizers(self) -> dict[int, OptimizerRecord]:
        """Return the optimizer of each parameter, by the parameter's id."""
        return {id(p): record for record in self.optimizers.values() for p in record.parameters()}

    def losses(self) -> list[float]:
        """Return the losses of all backward passes."""
        return [backward.loss for backward in self.backwards if backward.loss is not None]

    def has_found(self, *kinds: str) -> bool:
        """Return whether the report has a finding of one of these kinds."""
        return any(finding.kind in kinds for finding in self.report)


def producer_of(x: Operand) -> Operand:
    """Return the node of an op that made the tensor, past movements of its elements; None for leaves and data."""
    node = x.node if isinstance(x, Tensor) else x
    while node is not None and type(node) is not Leaf:
        op = getattr(node, "op", None)
        if op is None or op.family != "movement":
            break
        node = node.parents[0] if node.parents else None
    return None if node is None or type(node) is Leaf else node


def op_name(node: Operand) -> str:
    """Return the name of the op that made a node."""
    op = getattr(node, "op", None)
    return "" if op is None else op.name


def address_of(x: Tensor) -> int:
    """Return where the first element of a tensor lies."""
    return int(x.array.__array_interface__["data"][0])


def is_array(x: Operand) -> bool:
    """Return whether a tensor has values here, and not in a trace."""
    return isinstance(x, Tensor) and type(x.array) is np.ndarray


def leaves_below(roots: tuple[Tensor, ...]) -> set[Leaf]:
    """Return the leaves from which the tensors were computed."""
    found: set[Operand] = set()
    stack = [root.node for root in roots if root.node is not None]
    leaves: set[Leaf] = set()
    while stack:
        node = stack.pop()
        if node in found:
            continue
        found.add(node)
        if type(node) is Leaf:
            leaves.add(node)
        else:
            stack.extend(parent for parent in node.parents if parent is not None)
    return leaves
