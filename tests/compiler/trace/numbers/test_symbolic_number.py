"""Python numbers that differ from call to call: inputs of one program, with Python's own arithmetic."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.compiler.trace.guards import guard_code
from adjoint.compiler.trace.numbers.symbolic_number import NumberArithmetic, SymbolicNumber, specialize_numbers
from adjoint.compiler.trace.sizes.batch_sizes import BatchSizes

pytest.importorskip("llvmlite")


@pytest.mark.parametrize("kind", [ad.int64, ad.float32, ad.bool])
@pytest.mark.parametrize(
    "write",
    [
        lambda x, n: x.__setitem__(0, n * 0.5),
        lambda x, n: x.__setitem__(slice(1, None), n + 1),
        lambda x, n: x.__setitem__(x >= 0, n * 2.5),
        lambda x, n: x.__setitem__(ad.tensor([0, 2]), n % 3),
    ],
    ids=["place", "slice", "mask", "places"],
)
def test_a_number_that_is_written_in_brackets_is_no_constant(write: Callable[..., None], kind: ad.dtype) -> None:
    def run(compile: Callable[[Any], Any]) -> tuple[list[Any], Any]:
        x, count = ad.ones(3, dtype=kind), ad.zeros(1)

        def step(y: ad.Tensor) -> ad.Tensor:
            n = count.item()
            write(x, n)
            count[0] = n + 1.25
            return y * 2

        run = compile(step)
        return [(run(ad.ones(2)).tolist(), x.tolist(), count.tolist()) for _ in range(5)], run

    (eager, _), (compiled, step) = run(lambda step: step), run(ad.compile)
    assert compiled == eager
    assert step.compilations == 1


def number(value: float) -> Any:
    """A number of a step."""
    return NumberArithmetic().add_source("x0", value, lambda name: "x0", "argument 0")


def replayed(result: Any, value: float) -> Any:
    """What the program's lines make of another value; None if a guard fails."""
    names: dict[str, Any] = {"x0": value, "floor": math.floor, "ceil": math.ceil, "trunc": math.trunc}
    for line in result.arithmetic.lines:
        if line.name:
            names[line.name] = eval(line.code, names)
        elif not eval(guard_code(line), {**names, "_unordered": lambda x: x != x, "_signed": lambda x: x}):
            return None
    return names[result.name]


@pytest.mark.parametrize(
    "f",
    [
        lambda n: n + 2,
        lambda n: 2 - n,
        lambda n: n * 0.5 - n / 3,
        lambda n: n // 2 + n % 3,
        lambda n: 7 // n,
        lambda n: 2.0**n,
        lambda n: n**2 + (-n) + abs(n),
        lambda n: round(n * 1.26, 1),
        lambda n: divmod(n, 2)[1] + divmod(9, n)[0],
        lambda n: math.floor(n * 1.5) + math.ceil(n / 4),
    ],
)
@pytest.mark.parametrize("values", [(3, 5), (2.5, 4.75), (1, 9)])
def test_arithmetic_is_pythons(f: Callable[[Any], Any], values: tuple[float, float]) -> None:
    result = f(number(values[0]))
    assert specialize_numbers(result) == f(values[0])
    again = f(number(values[0]))
    if type(again) is SymbolicNumber:
        found = replayed(again, values[1])
        assert found is None or found == f(values[1])
        assert found is not None or type(values[0]) is int, "only an int's power is settled"


def test_it_passes_for_a_float_or_an_int() -> None:
    assert isinstance(number(2.0), float)
    assert isinstance(number(2), int)
    assert not isinstance(number(2), str)
    n = number(3)
    assert [10, 20, 30, 40][n] == 40
    assert list(range(n)) == [0, 1, 2]
    assert f"{n:03d}" == "003"
    assert {n: 1}[3] == 1
    assert math.sqrt(number(4.0)) == 2.0
    assert np.asarray(number(4.0)).dtype == np.float64
    assert [line.code for line in n.arithmetic.lines if not line.name].count("x0") == 1, "one guard: that it is 3"


@pytest.mark.parametrize("value", [0.0, -0.0, math.nan, math.inf, 1.5, 0, 3])
def test_a_settled_number_is_told_from_all_others(value: float) -> None:
    n = number(value)
    float(n)
    (line,) = n.arithmetic.lines
    for other in (0.0, -0.0, math.nan, math.inf, -math.inf, 1.5, 0, 3, True):
        from adjoint.compiler.trace.numbers.symbolic_number import GUARD_NAMES

        same = type(other) is type(value) and repr(other) == repr(value)
        assert bool(eval(guard_code(line), {"x0": other, **GUARD_NAMES})) == same


def test_float_arguments_are_inputs() -> None:
    def f(x: Any, rate: float, *, more: float = 1.0) -> Any:
        return (x * rate + more * 2).sum() * rate**2, rate / 2

    compiled = ad.compile(f)
    x = ad.arange(5, dtype=ad.float32)
    for rate in (0.1, 0.2, -3.0, 1e-8):
        for more in (1.0, 2.5):
            (a, b), (c, d) = compiled(x, rate, more=more), f(x, rate, more=more)
            np.testing.assert_allclose(a.numpy(), c.numpy(), rtol=1e-6)
            assert b == d
    assert compiled.compilations == 1


def test_int_arguments_become_inputs_when_they_vary() -> None:
    def f(x: Any, t: int) -> Any:
        return x * t / (1 - 0.9**t)

    compiled = ad.compile(f)
    x = ad.arange(5, dtype=ad.float64)
    for t in range(1, 9):
        np.testing.assert_allclose(compiled(x, t).numpy(), f(x, t).numpy(), rtol=1e-14)
    assert compiled.compilations == 2
    whole = ad.compile(lambda x, t: x + t)
    for t in (1, 2, 2**40, -5):
        assert whole(ad.ones(2, dtype=ad.int64), t).tolist() == [1 + t] * 2


def test_a_decision_on_a_number_is_a_guard() -> None:
    def f(x: Any, t: float) -> Any:
        return x * 2 if t > 0.5 else x - 1

    compiled = ad.compile(f)
    x = ad.ones(2)
    for t in (0.1, 0.2, 0.9, 0.7, 0.3):
        assert compiled(x, t).tolist() == f(x, t).tolist()
    assert compiled.compilations == 2
    assert "argument 1 > (0.5): False → True" in str(compiled.recompilations[1])


def test_a_number_of_turns_makes_a_program_for_each() -> None:
    def f(x: Any, n: int) -> Any:
        return sum(x[i] * 2 for i in range(n)) + x

    compiled = ad.compile(f)
    compiled._sizes = BatchSizes(clock=lambda: 0.0)  # no program has to be paid
    x = ad.arange(5.0)
    for n in (1, 2, 3, 2):
        assert compiled(x, n).tolist() == f(x, n).tolist()
    assert compiled.compilations == 3


def test_promotion_is_that_of_python_numbers() -> None:
    def f(x: Any, k: Any) -> Any:
        return x * k

    for dtype in (ad.float32, ad.float64, ad.int64, ad.bool):
        x = ad.ones(2).to(dtype)
        for ks in ((1.5, 2.5), (2, 3, 4)):
            compiled = ad.compile(f)
            for k in ks:
                ours, eager = compiled(x, k), f(x, k)
                assert ours.dtype == eager.dtype
                assert ours.tolist() == eager.tolist()


def test_errors_of_arithmetic_are_those_of_the_step() -> None:
    compiled = ad.compile(lambda x, t: x * (1 / t))
    assert compiled(ad.ones(1), 2.0).item() == 0.5
    with pytest.raises(ZeroDivisionError):
        compiled(ad.ones(1), 0.0)
    assert compiled(ad.ones(1), 4.0).item() == 0.25


def test_an_item_is_a_number_that_each_call_reads() -> None:
    class Totals:
        loss, count = 0.0, 0
        log: list[float] = []  # noqa: RUF012  one for the class is what is to be tried

    w = ad.randn(3, requires_grad=True)

    def step(x: Any) -> Any:
        w.grad = None
        loss = (x * w).square().mean()
        loss.backward()
        Totals.loss += loss.item() * len(x)
        Totals.count += len(x)
        Totals.log.append(loss.item())
        right = (x > 0).sum().item()
        return loss.item(), {"right": right, "share": right / 6, "mean": Totals.loss / Totals.count}

    found = []
    for f in (step, ad.compile(step)):
        Totals.loss, Totals.count, Totals.log = 0.0, 0, []
        results = []
        for i in range(5):
            ad.manual_seed(i)
            results.append(f(ad.randn(2, 3)))
        found.append((results, Totals.loss, Totals.count, list(Totals.log)))
    (eager, *sums), (compiled, *totals) = found
    for (a, b), (c, d) in zip(eager, compiled, strict=True):
        assert c == pytest.approx(a, rel=1e-6)
        assert type(c) is float
        assert type(d["right"]) is int
        assert d == pytest.approx(b, rel=1e-6)
    assert totals[0] == pytest.approx(sums[0], rel=1e-6)
    assert totals[1] == sums[1]
    assert totals[2] == pytest.approx(sums[2], rel=1e-6)


def test_an_item_in_a_product_is_the_tensor() -> None:
    x = ad.tensor([1.0, 2.0, 4.0])
    f = lambda x: (x * x.sum().item(), x.mean().item() ** 2 / (x[0].item() - 1.5), (x[0] > 0).item())  # noqa: E731
    a, b = ad.compile(f)(x), f(x)
    assert a[0].tolist() == b[0].tolist()
    assert a[0].dtype == b[0].dtype
    assert a[1:] == pytest.approx(b[1:])
    assert a[2] is True
