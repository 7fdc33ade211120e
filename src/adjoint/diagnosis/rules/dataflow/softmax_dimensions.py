"""The rule on the dimension of a softmax: not over the batch, queries, or the features of a weighted sum over steps."""

from __future__ import annotations

import weakref

import numpy as np

from adjoint.core.graph.source_location import library_files
from adjoint.core.op.op import Op
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Operand, Operands
from adjoint.diagnosis.findings import Place, place_of_frame
from adjoint.diagnosis.rules.probabilities import NORMALIZED, out_params, place_of_node
from adjoint.diagnosis.watch.events import Backward, ModuleCall, caller_frame, caller_place
from adjoint.diagnosis.watch.facts import Facts, is_array, op_name, producer_of
from adjoint.diagnosis.watch.frames import find_library_call
from adjoint.diagnosis.watch.library_calls import LibraryCall
from adjoint.diagnosis.watch.rule import WatchRule

KIND = "softmax-dimension"
MAX_SUSPECTS = 8
TOLERANCE = 1e-2  # of a sum of probabilities
PASSED_THROUGH = frozenset({"log", "clamp", "add", "dropout", "maximum", "minimum"})


class SoftmaxDimension(WatchRule):
    """A softmax over the batch where classes were meant, or over queries in attention."""

    ops = frozenset({"mean_nll", "bmm", "log_softmax", "softmax", "div", "sum", "gather"})
    sees_roots_only = True

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self.over_rows: list[tuple[str, tuple[int, ...], Place]] = []  # softmax over dimension 0, since the last loss
        self.samples = 0  # of the model's last input (N, features)
        self.of_output: list[Tensor] = []  # the softmax of what the model gave, since the last loss
        self.last_output: weakref.ref[Operand] | None = None  # the node of what the model gave last

    def see_op(self, op: Op, inputs: Operands, out: Tensor) -> None:
        x = inputs[0]
        if op.name == "div" or (out.node is not None and op.name in NORMALIZED):
            self._note_rows(op, inputs, out)
        if op.name == "sum":
            self._check_pooling(x, out)
        elif op.name == "gather":
            self._check_choice(x, inputs[1], out)
        elif op.name == "bmm":
            self._check_attention(x)
        elif op.name == "mean_nll":
            self._check_classes(x)
        elif op.name == "div":
            return
        elif op.name == "softmax" or find_library_call("cross_entropy") is None:
            made = self.last_output() if self.last_output is not None else None
            if made is not None and isinstance(x, Tensor) and x.node is made and x.array.ndim == 2:
                self.of_output.append(out)
        elif isinstance(x, Tensor):
            axis = 0 if x.array.ndim == 1 else 1
            if x.array.shape[axis] == 1:
                self.report(
                    "one-class",
                    caller_place(),
                    "cross_entropy",
                    f"cross_entropy gets logits {tuple(x.shape)} with one class: the loss is 0, whatever they are",
                    "give one output for each class, or use binary_cross_entropy_with_logits",
                    tuple(x.shape),
                )

    def _note_rows(self, op: Op, inputs: Operands, out: Tensor) -> None:
        """Note a softmax over dimension 0, a call or exponentials that are divided by their sum."""
        shape = out.array.shape
        if len(shape) < 2 or shape[0] < 2 or shape[0] == shape[1] or (len(shape) == 2 and shape[1] == 1):
            return
        name, axes = op.name, [out_params(out)["axis"]] if op.name in NORMALIZED else None
        if op.name == "div":
            name, axes = "softmax", _axes_of_own_softmax(*inputs[:2])
        if axes is None or list(axes) != [0]:
            return
        frame = caller_frame()
        if library_files[frame.f_code.co_filename]:
            return
        place = place_of_frame(frame)
        if len(shape) == 2 and op.name == "div" and shape[0] == self.samples:
            self._report_rows(name, shape, place)
        elif len(self.over_rows) < MAX_SUSPECTS:
            self.over_rows.append((name, shape, place))

    def _report_rows(self, name: str, shape: tuple[int, ...], place: Place) -> None:
        self.report(
            "softmax-dimension",
            place,
            name,
            f"{name} of {tuple(shape)} is taken over dimension 0, the batch: the values of a sample do not sum to 1",
            "take it over the classes: dim=-1" if len(shape) == 2 else "name the dimension of the classes or keys",
            f"dim=0 of {tuple(shape)}",
        )

    def begin_backward(self, backward: Backward) -> None:
        self.over_rows.clear()
        for out in self.of_output if self.facts.flow.is_open else ():
            if all(made.op != "permute" for made in self.facts.flow.users(out)):  # whose product sums over samples
                self._check_classes(out)
        self.of_output.clear()

    def leave_module(self, call: ModuleCall, output: Operand) -> None:
        if call.parent is None and call.is_recording and isinstance(output, Tensor) and output.node is not None:
            x = next(iter(call.tensors()), None)
            self.samples = x.array.shape[0] if x is not None and x.array.ndim == 2 else 0
            self._check_classes(output)
            self.last_output = weakref.ref(output.node)

    def _check_classes(self, x: Operand) -> None:
        made = producer_of(x)
        for _ in range(4):
            if op_name(made) not in PASSED_THROUGH:
                break
            made = producer_of(made.parents[0]) if made.parents and made.parents[0] is not None else None
        if op_name(made) not in NORMALIZED or library_files[made.code.co_filename]:
            return
        shape, axis = made.shape, (made.params or {}).get("axis")
        if axis == 0 and len(shape) in {2, 3} and shape[0] > 1 and shape[-1] > 1:
            self.report(
                "softmax-dimension",
                place_of_node(made),
                op_name(made),
                f"{op_name(made)} of {tuple(shape)} is taken over dimension 0, the batch: the classes of a sample do "
                "not sum to 1",
                "take it over the classes: dim=-1" if len(shape) == 2 else "name the dimension of the classes: dim=…",
                f"dim=0 of {tuple(shape)}",
            )

    def see_call(self, call: LibraryCall) -> None:
        target = call.tensor("target")
        for name, shape, place in self.over_rows if target is not None and not self.facts.has_found(KIND) else ():
            if target is not None and target.array.shape[:1] == shape[:1]:
                self._report_rows(name, shape, place)
        x = call.tensor("input") if call.name == "nll_loss" else None
        made: Operand = None if x is None else producer_of(x)
        if x is None or op_name(made) != "log_softmax" or library_files[made.code.co_filename]:
            return
        dim = 1 if x.array.ndim > 1 else 0
        sums, shape = np.exp(x.array).sum(dim), tuple(made.shape)
        axis = (made.params or {}).get("axis")
        if np.abs(sums - 1).max() > TOLERANCE:
            others = [i for i, size in enumerate(shape) if size == x.array.shape[dim] and i != axis]
            problem = f"log_softmax of {shape} is taken over dimension {axis}, and the classes that nll_loss reads are "
            problem += f"in another: the probabilities of a target sum to {sums.min():.3g} to {sums.max():.3g}"
            advice = f"take it over the classes: dim={others[-1] if others else -1}"
            self.report(KIND, place_of_node(made), "log_softmax", problem, advice, f"dim={axis} of {shape}")

    def _check_choice(self, x: Operand, index: Operand, out: Tensor) -> None:
        """Look at a choice of classes along another dimension than that of the softmax."""
        made: Operand = producer_of(x) if out.node is not None else None
        axis = (getattr(made, "params", None) or {}).get("axis")
        chosen = (out_params(out) or {}).get("axis")
        if op_name(made) not in NORMALIZED or axis in (None, chosen) or library_files[made.code.co_filename]:
            return
        if not is_array(index) or made.shape != tuple(x.shape) or index.array.shape[chosen] != 1:
            return
        classes = index.array.take([0], axis)
        if index.array.shape[axis] > 1 and (index.array != classes).any():  # or a choice of one whole distribution
            self.report(
                KIND,
                place_of_node(made),
                op_name(made),
                f"{op_name(made)} of {tuple(made.shape)} is taken over dimension {axis}, and gather picks classes of "
                f"dimension {chosen}: they do not sum to 1",
                f"take it over the classes: dim={chosen}",
                f"dim={axis} of {tuple(made.shape)}",
            )

    def _check_pooling(self, x: Operand, out: Tensor) -> None:
        """Look at a weighted sum whose weights are a softmax over another dimension: features, or the batch."""
        product: Operand = x.node if isinstance(x, Tensor) else None
        axes = (out_params(out) or {}).get("axes")
        over = x.array.ndim - 1 if x.array.ndim == 3 else 0  # of steps (batch, steps, features), or (batch, parts)
        if (
            op_name(product) != "mul"
            or x.array.ndim not in (2, 3)
            or list(axes or ()) != [1]
            or len(product.parents) != 2
        ):
            return
        for made, other in (product.parents, product.parents[::-1]):
            axis = (getattr(made, "params", None) or {}).get("axis")
            below = None if op_name(made) != "softmax" else made.parents[0]
            if axis != over or below is None or made.shape != x.array.shape or library_files[made.code.co_filename]:
                continue
            known = self.facts.flow.maker(x)
            values = [y for y in known.tensors if y.node is other] if known is not None else []
            if values and not ((values[0].array == 0) | (values[0].array == 1)).all():
                self.report(
                    "softmax-dimension",
                    place_of_node(made),
                    "softmax",
                    f"softmax of {tuple(made.shape)} is taken over dimension {axis}, and the weighted sum goes over "
                    "dimension 1: the weights of a sum are not 1 together",
                    "take it over what is summed: dim=1",
                    f"dim={axis} of {tuple(made.shape)}",
                )

    def _check_attention(self, x: Operand) -> None:
        made = producer_of(x) if isinstance(x, Tensor) and x.node is not None else None
        if made is not None and op_name(made) == "mul" and made.parents[0] is not None:  # dropout
            made = producer_of(made.parents[0])
        if made is None or op_name(made) != "softmax" or library_files[made.code.co_filename]:
            return
        shape, axis = made.shape, (made.params or {}).get("axis")
        if axis is not None and axis != len(shape) - 1 and shape == tuple(x.shape):
            self.report(
                "softmax-dimension",
                place_of_node(made),
                "softmax",
                f"softmax of {tuple(shape)} is taken over dimension {axis}, but the product with the values sums over "
                "the last: the weights of a query do not sum to 1",
                "take it over the keys: dim=-1",
                f"dim={axis} of {tuple(shape)}",
            )


def _axes_of_own_softmax(numerator: Operand, divisor: Operand) -> Operand:
    """Return the dimensions over which exponentials are summed that are divided by their sum; None for others."""
    made, total = producer_of(numerator), producer_of(divisor)
    while op_name(total) in ("add", "clamp_range"):
        total = producer_of(total.parents[0])
    if op_name(made) != "exp" or op_name(total) != "sum" or producer_of(total.parents[0]) is not made:
        return None
    return (total.params or {}).get("axes")
