"""Line search for a step that satisfies the strong Wolfe conditions."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Operand
from adjoint.optim.step.hyperparameters import Number

DECREASE, CURVATURE = 1e-4, 0.9  # the constants of the two conditions
MIN_PARAMETER_CHANGE = 1e-9  # the change of a parameter below which an interval is not divided further


class LinePoint(NamedTuple):
    """Step `t` with the loss, its gradient, and its slope along the direction there."""

    t: Number
    loss: float
    gradient: Tensor
    slope: Tensor


def strong_wolfe(
    evaluate: Callable[[Number], tuple[float, Tensor]], t: Number, direction: Tensor, start: LinePoint, max_evals: int
) -> tuple[LinePoint, int]:
    """Return the point reached, and the number of calls of `evaluate`, which gives loss and gradient after a step.

    The conditions are loss ≤ loss₀ + 1e-4 t slope₀ and |slope| ≤ 0.9 |slope₀|. The step grows from `t` until it meets
    such a point, or an interval around one; then the interval shrinks. `max_evals` limits the points after the first.

    Source: Nocedal and Wright, Numerical Optimization, algorithms 3.5 and 3.6.
    """
    tried = 0

    def at(t: Number) -> LinePoint:
        nonlocal tried
        tried += 1
        loss, gradient = evaluate(t)
        return LinePoint(t, loss, gradient, gradient.dot(direction))

    bracket = _find_bracket(at, t, start, max_evals)
    if len(bracket) == 1:
        return bracket[0], tried
    reach = direction.abs().max()
    timid = False
    while tried <= max_evals and not abs(bracket[1].t - bracket[0].t) * reach < MIN_PARAMETER_CHANGE:
        t, timid = _keep_off_bracket_ends(_cubic_minimum(bracket[0], bracket[1]), bracket[0].t, bracket[1].t, timid)
        point = at(t)
        lowest_first = bracket[0].loss <= bracket[1].loss
        low, high = bracket if lowest_first else bracket[::-1]
        if _is_high(point, start) or point.loss >= low.loss:
            bracket = [low, point] if lowest_first else [point, low]
            continue
        flat = _is_flat(point, start)
        if not flat and point.slope * (high.t - low.t) >= 0:
            high = low
        bracket = [point, high] if lowest_first else [high, point]
        if flat:
            break
    return bracket[0] if bracket[0].loss <= bracket[1].loss else bracket[1], tried


def _find_bracket(at: Callable[[Number], LinePoint], t: Number, start: LinePoint, max_evals: int) -> list[LinePoint]:
    """Return one point that satisfies the conditions, or two with one between them."""
    before, point = start, at(t)
    for i in range(max_evals):
        if _is_high(point, start) or (i > 1 and point.loss >= before.loss):
            return [before, point]
        if _is_flat(point, start):
            return [point]
        if point.slope >= 0:
            return [before, point]
        bounds = point.t + 0.01 * (point.t - before.t), point.t * 10
        before, point = point, at(_cubic_minimum(before, point, bounds))
    return [start, point]


def _is_high(point: LinePoint, start: LinePoint) -> bool:
    return bool(point.loss > start.loss + DECREASE * point.t * start.slope)


def _is_flat(point: LinePoint, start: LinePoint) -> bool:
    return bool(abs(point.slope) <= -CURVATURE * start.slope)


def _keep_off_bracket_ends(t: Operand, one: Operand, other: Operand, timid: bool) -> tuple[Number, bool]:
    """Return `t`, and whether it is near an end of the interval; the second time in a row, move it off by a tenth."""
    least, most = min(one, other), max(one, other)
    away = 0.1 * (most - least)
    if not min(most - t, t - least) < away:
        return t, False
    if timid or t >= most or t <= least:
        return (most - away if abs(t - most) < abs(t - least) else least + away), False
    return t, True


def _cubic_minimum(a: LinePoint, b: LinePoint, bounds: tuple[Operand, Operand] | None = None) -> Number:
    """Return the minimum of the cubic through two points with their slopes, within `bounds` or between the two."""
    least, most = bounds or (min(a.t, b.t), max(a.t, b.t))
    bend = a.slope + b.slope - 3 * (a.loss - b.loss) / (a.t - b.t)
    square = bend**2 - a.slope * b.slope
    if not square >= 0:
        return (least + most) / 2.0
    root = square.sqrt()
    first, last = (a, b) if a.t <= b.t else (b, a)
    t = last.t - (last.t - first.t) * ((last.slope + root - bend) / (last.slope - first.slope + 2 * root))
    return min(max(t, least), most)
