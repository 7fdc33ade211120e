"""Whole updates of a parameter by an optimizer, in place: rounded where the optimizer's own operations round."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from adjoint.compiler.kernels.small_arrays.entry import ALL_DIMS, ArrayOperand, SmallArrayEntry, Writer, sweep
from adjoint.compiler.llvm.types import Reg, Type

if TYPE_CHECKING:
    from adjoint.compiler.llvm.builder import Builder


def _in_place(arrays: int, update: Callable[..., dict[int, Reg]]) -> Writer:
    """The routine of `arrays` arrays of one shape, then numbers: update(b, *elements, *numbers) gives new elements."""

    def write(b: Builder, kind: Type, lanes: int, *operands: ArrayOperand | Reg) -> None:
        given = [a for a in operands[:arrays] if isinstance(a, ArrayOperand)]
        numbers = [b.broadcast(n, lanes) for n in operands[arrays:-1] if isinstance(n, Reg)]

        def body(index: Reg, mask: Reg | None) -> list[Reg]:
            places = [b.gep(a.data, index, kind) for a in given]
            elements = [b.load(place, kind.of(lanes), mask) for place in places]
            for i, value in update(b, *elements, *numbers).items():
                b.store(value, places[i], mask)
            return []

        sweep(b, given[0].size, lanes, [], body)

    return write


def _with_decay(b: Builder, g: Reg, p: Reg, weight_decay: Reg) -> Reg:
    return b.select(b.ne(weight_decay, 0.0), b.add(g, b.mul(p, weight_decay)), g)


def _adam(b: Builder, p: Reg, g: Reg, mean: Reg, square: Reg, *others: Reg) -> dict[int, Reg]:
    largest = others[0] if len(others) > 8 else None  # of amsgrad
    shrink, weight_decay, one_minus_beta1, beta2, one_minus_beta2, eps, negative_step_size, lift = others[-8:]
    p = b.mul(p, shrink)
    g = _with_decay(b, g, p, weight_decay)
    gap = b.sub(g, mean)
    far = b.sub(g, b.mul(gap, b.sub(1.0, one_minus_beta1)))
    mean = b.select(b.lt(one_minus_beta1, 0.5), b.add(mean, b.mul(gap, one_minus_beta1)), far)  # as `lerp_`
    square = b.add(b.mul(square, beta2), b.mul(b.mul(g, one_minus_beta2), g))
    divisor = square if largest is None else b.maximum(largest, square)
    size = b.add(b.mul(b.sqrt(divisor), lift), eps)
    new = {0: b.add(p, b.div(b.mul(mean, negative_step_size), size)), 2: mean, 3: square}
    return new if largest is None else new | {4: divisor}


def _sgd(b: Builder, p: Reg, g: Reg, negative_lr: Reg, weight_decay: Reg, momentum: Reg, share: Reg) -> dict[int, Reg]:
    return {0: b.add(p, b.mul(_with_decay(b, g, p, weight_decay), negative_lr))}


def _momentum(
    b: Builder, p: Reg, g: Reg, buffer: Reg, negative_lr: Reg, weight_decay: Reg, momentum: Reg, share: Reg
) -> dict[int, Reg]:
    buffer = b.add(b.mul(buffer, momentum), b.mul(_with_decay(b, g, p, weight_decay), share))
    return {0: b.add(p, b.mul(buffer, negative_lr)), 2: buffer}


def _rmsprop(b: Builder, p: Reg, g: Reg, square: Reg, *others: Reg) -> dict[int, Reg]:
    weight_decay, alpha, one_minus_alpha, eps, momentum, negative_lr = others[-6:]
    g = _with_decay(b, g, p, weight_decay)
    square = b.add(b.mul(square, alpha), b.mul(b.mul(g, one_minus_alpha), g))
    size = b.add(b.sqrt(square), eps)
    if len(others) == 6:
        return {0: b.add(p, b.div(b.mul(g, negative_lr), size)), 2: square}
    buffer = b.add(b.mul(others[0], momentum), b.div(g, size))
    return {0: b.add(p, b.mul(buffer, negative_lr)), 2: square, 3: buffer}


# The array that each answers with has no meaning but that the work is done.
ROUTINES = {
    "adam": SmallArrayEntry("xxxxffffffff", _in_place(4, _adam), less=ALL_DIMS),
    "adam_with_largest": SmallArrayEntry("xxxxxffffffff", _in_place(5, _adam), less=ALL_DIMS),
    "sgd": SmallArrayEntry("xxffff", _in_place(2, _sgd), less=ALL_DIMS),
    "momentum": SmallArrayEntry("xxxffff", _in_place(3, _momentum), less=ALL_DIMS),
    "rmsprop": SmallArrayEntry("xxxffffff", _in_place(3, _rmsprop), less=ALL_DIMS),
    "rmsprop_with_momentum": SmallArrayEntry("xxxxffffff", _in_place(4, _rmsprop), less=ALL_DIMS),
}
