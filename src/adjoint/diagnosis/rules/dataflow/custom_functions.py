"""Rule on functions of the user's with a backward of their own: gradients that are not those of their forward."""

from __future__ import annotations

from contextlib import suppress

import numpy as np

from adjoint.autograd.backward import grad
from adjoint.core.op.op import Op
from adjoint.core.random.generator import default_generator
from adjoint.core.runtime.mode import ModeScope
from adjoint.core.tensor.tensor import Tensor, constant
from adjoint.core.typing import Operand, Operands
from adjoint.diagnosis.findings import place_of_origin
from adjoint.diagnosis.operands import find_return_in
from adjoint.diagnosis.watch.facts import Facts, is_array
from adjoint.diagnosis.watch.rule import WatchRule

MAX_ELEMENTS = 1 << 14  # of all operands of a function that is carried out again
STEP = 1e-6
MIN_SHARE = 0.02  # by which both gradients differ, of the larger one
PASSED_SHARE = 0.01  # of elements that a function gives as they are: a clamp, a reversal of gradients


class CustomGradients(WatchRule):
    """A `Function` whose backward gives another gradient than the differences of its forward."""

    max_passes = 1

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self.seen: set[type] = set()

    def see_op(self, op: Op, inputs: Operands, out: Tensor) -> None:
        function: Operand = getattr(op, "function", None)
        if function is None or function in self.seen or out.node is None:
            return
        self.seen.add(function)
        state = default_generator.get_state()
        try:
            with ModeScope(anomaly_detector=None), suppress(Exception):  # of a forward that takes no doubles
                self._check(function, inputs, out)
        finally:
            default_generator.set_state(state)

    def _check(self, function: Operand, inputs: Operands, out: Tensor) -> None:
        places = [i for i, x in enumerate(inputs) if is_array(x) and x.array.dtype.kind == "f"]
        wanted = [i for i in places if inputs[i].requires_grad]
        if not wanted or not is_array(out) or sum(inputs[i].array.size for i in places) > MAX_ELEMENTS:
            return
        generator = np.random.default_rng(0)
        for i in wanted:
            x = inputs[i].array.astype(np.float64)
            direction = generator.standard_normal(x.shape)
            operand, base = _run(function, inputs, places, i, x)
            if not isinstance(base, Tensor) or base.shape != out.shape or not np.allclose(base.array, out.array, 1e-3):
                return  # it gives other numbers each time, or of doubles
            if base.shape == x.shape and np.isclose(base.array, x).mean() > PASSED_SHARE:
                return  # of elements that pass as they are, the gradient is changed on purpose
            weight = constant(generator.standard_normal(base.shape))
            after, before = (_run(function, inputs, places, i, x + sign * STEP * direction)[1] for sign in (1, -1))
            expected = float(((after - before).detach() * weight).sum().array) / (2 * STEP)
            (gradient,) = grad((base * weight).sum(), [operand], allow_unused=True)
            given = 0.0 if gradient is None else float((gradient.array * direction).sum())
            size = max(abs(expected), abs(given))
            if abs(expected) > STEP * size and abs(expected - given) > MIN_SHARE * size:
                self._report(function, i, inputs[i], expected, given)
                return

    def _report(self, function: Operand, i: int, x: Tensor, expected: float, given: float) -> None:
        place = place_of_origin(find_return_in(function.backward.__code__))
        names = function.forward.__code__.co_varnames
        start = 1 if names[:1] == ("ctx",) else 0
        name = names[start + i] if start + i < len(names) else f"argument {i}"
        self.report(
            "wrong-backward",
            place,
            function.__name__,
            f"backward of {function.__name__} gives {name} {tuple(x.shape)} another gradient than the differences of "
            f"its forward: {given:.4g} along a random direction, where they give {expected:.4g}",
            f"the derivative of forward by {name}, times the incoming gradient; "
            f"torch.autograd.gradcheck({function.__name__}.apply, …) of doubles tells when it is right",
            f"{given:.4g} for {expected:.4g}",
        )


def _run(function: Operand, inputs: Operands, places: list[int], i: int, x: Operand) -> tuple[Tensor, Operand]:
    """Return the operand `i`, made of `x`, and what the function of doubles gives for it."""
    args = list(inputs)
    for place in places:
        value = x if place == i else inputs[place].array.astype(np.float64)
        args[place] = constant(value).requires_grad_(place == i)
    return args[i], function.apply(*args)
