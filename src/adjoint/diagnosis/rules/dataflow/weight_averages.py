"""Rule on averages of weights: a copy that takes nearly all of the new ones in each step."""

from __future__ import annotations

import re

import numpy as np

from adjoint.core.op.op import Op
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Array, Operands
from adjoint.diagnosis.findings import Place
from adjoint.diagnosis.rules.loops.states import find_takings
from adjoint.diagnosis.watch.events import Backward, caller_place
from adjoint.diagnosis.watch.facts import Facts, address_of, is_array
from adjoint.diagnosis.watch.frames import find_library_call
from adjoint.diagnosis.watch.rule import WatchRule

MIN_NEW_SHARE = 0.8
MIN_SEEN = 3


class AverageFactor(WatchRule):
    """An average of weights, or a target network, that follows at once."""

    ops = frozenset({"add", "sub", "lerp", "mul"})
    max_passes = 8

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self.scaled: dict[int, tuple[Tensor, Tensor, float]] = {}  # a parameter times a number
        self.counts: dict[Place, tuple[int, float]] = {}
        # the copies that are averaged, by address, with their first values, how often, and the line
        self.copies: dict[int, tuple[Array, Array, int, Place]] = {}
        self.of_itself: dict[Place, set[int]] = {}  # the passes after which a parameter was averaged with itself

    def see_op(self, op: Op, inputs: Operands, out: Tensor) -> None:
        if not self.facts.optimizers or out.node is not None or len(inputs) < 2:
            return
        if op.name == "sub" and all(map(is_array, inputs[:2])):  # of lerp, that of a parameter with itself
            start, end = map(address_of, inputs[:2])
            if start == end and start in self.find_trained() and find_library_call("lerp", "lerp_") is not None:
                self.of_itself.setdefault(caller_place(), set()).add(self.facts.iteration)
        if op.name == "mul":
            for x, factor in (inputs[:2], inputs[1::-1]):
                if isinstance(factor, (int, float)) and is_array(x) and 0 < factor < 1:
                    self.scaled[id(out)] = out, x, float(factor)
            return
        parts = [self.scaled.get(id(x)) for x in inputs[:2]]
        trained = self.find_trained() if any(parts) else ()
        for i, part in enumerate(parts):
            scaled = (
                each
                for each in reversed(self.scaled.values())
                if is_array(inputs[1 - i]) and address_of(each[1]) == address_of(inputs[1 - i]) and each is not part
            )
            other = parts[1 - i] or next(scaled, None)  # in place
            if part is None or part[0] is not inputs[i] or address_of(part[1]) not in trained:
                continue
            is_rest = other is not None and abs(other[2] + part[2] - 1) < 1e-6
            if is_rest and other is not None and address_of(other[1]) == address_of(part[1]):
                self.of_itself.setdefault(caller_place(), set()).add(self.facts.iteration)
            elif is_rest and other is not None and address_of(other[1]) not in trained:
                array, first, count, place = self.copies.setdefault(
                    address_of(other[1]), (other[1].array, other[1].array.copy(), 0, caller_place())
                )
                self.copies[address_of(other[1])] = array, first, count + 1, place
                if part[2] >= MIN_NEW_SHARE:
                    count, _ = self.counts.get(caller_place(), (0, 0.0))
                    self.counts[caller_place()] = count + 1, part[2]

    def find_trained(self) -> set[int]:
        """Return the addresses of the parameters that optimizers have."""
        return {address_of(p) for record in self.facts.optimizers.values() for p in record.parameters()}

    def begin_backward(self, backward: Backward) -> None:
        self.scaled.clear()

    def finish(self) -> None:
        for place, passes in self.of_itself.items():
            if len(passes) >= MIN_SEEN - 1:
                problem = "the average of weights is of each parameter with itself: the average is the model"
                names = re.findall(r"[\w.]+", place.text)
                taken = next((line for name in names for line in find_takings(place, name) if line != place), place)
                advice = "copy.deepcopy(model) for it, or clone() of each tensor"
                self.report("average-factor", taken, "the average", problem, advice, len(passes))
        for array, first, count, place in self.copies.values():
            if count >= MIN_SEEN - 1 and self.facts.steps > MIN_SEEN and np.array_equal(array, first):
                problem = (
                    f"the average of the weights and their copy {array.shape} was taken {count} times, and the copy is "
                )
                problem += "as it was"
                advice = "write it into the copy: copy.data.copy_(…), or mul_() and add_() of it"
                self.report("average-not-kept", place, "the average", problem, advice, count)
        for place, (count, share) in self.counts.items():
            if count >= MIN_SEEN:
                problem = (
                    f"each step takes {share:.1%} of the new weights and {1 - share:.1%} of the average: it follows "
                )
                problem += "at once"
                advice = "exchange the factors: average * 0.995 + new * 0.005"
                self.report("average-factor", place, "the average", problem, advice, f"{share:.3g}")
