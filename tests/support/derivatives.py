"""Functions with right and with wrong gradients, each for any library that has PyTorch's words."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest

import adjoint as ad

Build = Callable[[Any], tuple[Any, Any]]  # of a library: the function and its inputs


def leaf(t: Any, *values: float, dtype: str = "float64") -> Any:
    return t.tensor(values, dtype=getattr(t, dtype), requires_grad=True)


def function(t: Any, forward: Any, backward: Any, **more: Any) -> Any:
    members = {"forward": forward, "backward": backward, **more}
    return type("Made", (t.autograd.Function,), {name: staticmethod(f) for name, f in members.items()}).apply


def outcome(t: Any, check: str, build: Build, options: dict[str, Any]) -> Any:
    """True, or the error's type and how it begins."""
    func, inputs = build(t)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return getattr(t.autograd, check)(func, inputs, **options)
        except (RuntimeError, ValueError, AssertionError) as error:
            return type(error).__name__, str(error).split("\n", maxsplit=1)[0][:58]


def assert_as_torch(check: str, build: Build, **options: Any) -> Any:
    torch = pytest.importorskip("torch")
    found, expected = (outcome(t, check, build, options) for t in (ad, torch))
    assert found == expected
    return found


def right(t: Any) -> Any:
    return lambda x, y: (x @ y, t.exp(y) * 2.0, x.sum(1).sin()), (
        t.tensor([[0.3, 0.7], [0.1, 0.2]], dtype=t.float64, requires_grad=True), leaf(t, 1.5, 2.5)
    )  # fmt: skip


def with_a_constant_output(t: Any) -> Any:
    return lambda x: (x * 3, x.detach()), leaf(t, 1.0, 2.0)


def with_an_integer_output(t: Any) -> Any:
    return lambda x: (x * 2, x.long()), leaf(t, 1.5, 2.5)


def with_inputs_of_all_kinds(t: Any) -> Any:
    return lambda x, i, k, others: x[i] * k * others[0], (
        leaf(t, 1.0, 2.0), t.tensor([0, 1]), 3.0, [t.tensor([2.0], dtype=t.float64)]
    )  # fmt: skip


def that_reads_a_captured_tensor(t: Any) -> Any:
    x, y = leaf(t, 1.0, 2.0), leaf(t, 3.0, 4.0)
    return lambda *_: x * y, (x, y)


def of_an_unused_input(t: Any) -> Any:
    return lambda x, y: x * 2, (leaf(t, 1.0), leaf(t, 2.0))


def of_one_tensor_twice(t: Any) -> Any:
    x = leaf(t, 1.0, 2.0)
    return lambda x, y: x * y, (x, x)


def that_returns_a_list(t: Any) -> Any:
    return lambda x, y: [x * y, x], [leaf(t, 1.0), leaf(t, 2.0)]


def that_returns_its_input(t: Any) -> Any:
    return lambda x: x, leaf(t, 1.0, 2.0)


def that_returns_nothing(t: Any) -> Any:
    return lambda x: (), leaf(t, 1.0)


def of_no_elements(t: Any) -> Any:
    return lambda x: x * 2, t.zeros((0, 3), dtype=t.float64, requires_grad=True)


def of_a_scalar(t: Any) -> Any:
    return lambda x: x.sin(), t.tensor(0.4, dtype=t.float64, requires_grad=True)


def of_a_transposed_input(t: Any) -> Any:
    return lambda x: x.sin(), t.tensor([[0.1, 0.2, 0.3], [0.4, 0.5, 0.6]], dtype=t.float64).t().requires_grad_()


def of_a_non_leaf(t: Any) -> Any:
    return lambda x: x.sin(), leaf(t, 0.1, 0.2) * 2


def that_writes_in_place(t: Any) -> Any:
    return lambda x: x.clone().mul_(3), leaf(t, 1.0, 2.0)


def that_differentiates(t: Any) -> Any:
    return lambda x: t.autograd.grad((x**3).sum(), x, create_graph=True)[0], leaf(t, 1.0, 2.0)


def with_a_right_complex_rule(t: Any) -> Any:
    return function(t, lambda ctx, x: x * 1j, lambda ctx, g: g * -1j), leaf(t, 1 + 2j, 3j, dtype="complex128")


RIGHT = [
    right, with_a_constant_output, with_an_integer_output, with_inputs_of_all_kinds, that_reads_a_captured_tensor,
    of_an_unused_input, of_one_tensor_twice, that_returns_a_list, that_returns_its_input, that_returns_nothing,
    of_no_elements, of_a_scalar, of_a_transposed_input, of_a_non_leaf, that_writes_in_place, that_differentiates,
    with_a_right_complex_rule,
]  # fmt: skip


def a_factor_off(t: Any) -> Any:
    return function(t, lambda ctx, x: x * 5.0, lambda ctx, g: g * 5.05), leaf(t, 1.0, 2.0)


def the_second_input_of_the_second_output(t: Any) -> Any:
    wrong = function(t, lambda ctx, a, b: (a * 2, b * 3), lambda ctx, ga, gb: (ga * 2, gb * 4))
    return wrong, (leaf(t, 1.0), leaf(t, 2.0))


def input_numbered_among_those_that_require_grad(t: Any) -> Any:
    wrong = function(t, lambda ctx, a, b: a * b, lambda ctx, g: (None, g * 4))
    return wrong, (t.tensor([3.0], dtype=t.float64), leaf(t, 2.0))


def a_hook_that_adds(t: Any) -> Any:
    def func(x: Any) -> Any:
        y = x.clone()
        y.register_hook(lambda g: g + 1e-2)
        return y

    return func, leaf(t, 1.0, 1.0)


def another_gradient_each_time(t: Any) -> Any:
    calls = []

    def backward(ctx: Any, g: Any) -> Any:
        calls.append(0)
        return g * (1 + 1e-7 * len(calls))

    return function(t, lambda ctx, x: x.clone(), backward), leaf(t, 1.0, 2.0)


def a_constant_that_moves(t: Any) -> Any:
    return lambda x: x.detach() * 2, leaf(t, 1.0)


def not_recorded(t: Any) -> Any:
    return t.no_grad()(lambda x: x * 2), leaf(t, 1.0)


def not_a_number(t: Any) -> Any:
    return lambda x: x * float("nan"), leaf(t, 1.0)


def single_precision(t: Any) -> Any:
    return lambda x: x * 2, leaf(t, 0.7, 0.3, dtype="float32")


def undefined_refused(t: Any) -> Any:
    def forward(ctx: Any, x: Any) -> Any:
        ctx.set_materialize_grads(False)
        return x.clone()

    def backward(ctx: Any, g: Any) -> Any:
        if g is None:
            raise RuntimeError("no gradient came")
        return g

    return function(t, forward, backward), leaf(t, 1.0)


def undefined_not_zero(t: Any) -> Any:
    def forward(ctx: Any, x: Any) -> Any:
        ctx.set_materialize_grads(False)
        return x.clone(), x * 2

    def backward(ctx: Any, g: Any, h: Any) -> Any:
        if g is None and h is None:
            return leaf(t, 1.0).detach()
        return (0 if g is None else g) + (0 if h is None else 2 * h)

    return function(t, forward, backward), leaf(t, 1.0)


def a_shape_that_depends_on_values(t: Any) -> Any:
    return lambda x: t.cat([x, x]) if (x >= 1).all() else x, leaf(t, 1.0)


def a_dtype_that_depends_on_values(t: Any) -> Any:
    return lambda x: x.to(t.float32) if (x >= 1).all() else x, leaf(t, 1.0)


def no_input_that_requires_grad(t: Any) -> Any:
    return lambda x: x * 2, leaf(t, 1.0).detach()


def nothing_but_a_nested_input(t: Any) -> Any:
    return lambda xs: xs[0] * 2, ([leaf(t, 1.0)],)


def overlapping_memory(t: Any) -> Any:
    return lambda x: x * 2, t.ones(1, dtype=t.float64).expand(3).requires_grad_()


def a_complex_factor_off(t: Any) -> Any:
    return function(t, lambda ctx, x: x * 1j, lambda ctx, g: g * 1j), leaf(t, 1 + 2j, dtype="complex128")


WRONG = [
    a_factor_off, the_second_input_of_the_second_output, input_numbered_among_those_that_require_grad, a_hook_that_adds,
    another_gradient_each_time, a_constant_that_moves, not_recorded, not_a_number, single_precision, undefined_refused,
    undefined_not_zero, a_shape_that_depends_on_values, a_dtype_that_depends_on_values, no_input_that_requires_grad,
    nothing_but_a_nested_input, overlapping_memory, a_complex_factor_off,
]  # fmt: skip


def half_detached(t: Any) -> Any:
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x * x

    return function(t, forward, lambda ctx, g: g * 2 * ctx.saved_tensors[0].detach()), leaf(t, 1.0, 2.0)


def power(t: Any) -> Any:
    return lambda x, y: (x**y, x * y), (leaf(t, 0.4, 1.3), leaf(t, 2.0, 0.5))
