"""Rule on adversarial samples: a step of the input down the loss, of the labels that it is to miss."""

from __future__ import annotations

from adjoint.core.op.op import Op
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Operand, Operands
from adjoint.diagnosis.findings import Place
from adjoint.diagnosis.watch.facts import Facts
from adjoint.diagnosis.watch.library_calls import LibraryCall
from adjoint.diagnosis.watch.rule import WatchRule
from adjoint.diagnosis.watch.value_flow import FLOW_PASSES
from adjoint.nn.module.parameter import Parameter

LOSSES = ("cross_entropy", "nll_loss", "binary_cross_entropy_with_logits", "binary_cross_entropy")


class AttackDirection(WatchRule):
    """An input less the sign of the gradient of its loss: it becomes easier, where it was to become harder."""

    ops = frozenset({"sub"})
    max_passes = FLOW_PASSES

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self.last: Operand = None  # the labels of the last loss
        self.step: tuple[Place, Operand, tuple[int, ...]] | None = None

    def see_op(self, op: Op, inputs: Operands, out: Tensor) -> None:
        flow, x = self.facts.flow, inputs[0]
        made = flow.maker(inputs[1]) if len(inputs) > 1 else None
        if made is None or self.last is None or not isinstance(x, Tensor) or isinstance(x, Parameter):
            return
        if x.array.ndim < 2 or not any(each.op == "sign" for each in (made, *map(flow.maker, made.tensors)) if each):
            return
        step = flow.maker(out)
        if step is not None:
            self.step = step.place, self.last, tuple(x.shape)

    def see_call(self, call: LibraryCall) -> None:
        target = call.tensor("target")
        if call.name not in LOSSES or target is None:
            return
        self.last = target.array
        step, self.step = self.step, None
        if step is not None and step[1] is target.array:
            problem = (
                f"the input {step[2]} goes down the loss of its own labels: it becomes easier to recognise, and not "
            )
            problem += "harder"
            self.report("attack-downhill", step[0], "x_adv", problem, "x + eps * grad.sign()", step[2])
