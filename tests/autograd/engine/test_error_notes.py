"""Whatever goes wrong in backward, the error names the op and the line of the forward program."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import Any

import pytest
from tests.support.checks import function

import adjoint as ad
from adjoint.autograd import Function, backward_steps

HERE = f"{__file__}:"


def line_of(function: Callable[..., Any], text: str) -> str:
    """`file:line` of the line of a function that has `text` in it."""
    import inspect

    lines, first = inspect.getsourcelines(function)
    return f"{HERE}{first + next(i for i, line in enumerate(lines) if text in line)}"


class Failing(Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x * 2

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        raise KeyError("mine")


Misshapen = function(lambda ctx, x: x * 2, lambda ctx, *grads: grads[0][:1], "Misshapen")


def notes_of(error: pytest.ExceptionInfo[Any]) -> list[str]:
    return [note for note in getattr(error.value, "__notes__", ()) if note.startswith("in ")]


@pytest.mark.claim("U7")
def test_an_error_in_a_functions_backward() -> None:
    def program() -> Any:
        x = ad.ones(3, requires_grad=True)
        y = Failing.apply(x)  # here
        return (y * y).sum()

    with pytest.raises(KeyError) as error:
        program().backward()
    assert error.value.args == ("mine",)  # type and message stay what they were
    assert notes_of(error) == [f"in the backward of FailingBackward, recorded at {line_of(program, '# here')}"]
    assert "in the backward of FailingBackward" in "".join(traceback.format_exception(error.value))


@pytest.mark.claim("U7")
def test_a_gradient_of_the_wrong_shape() -> None:
    def program() -> Any:
        return Misshapen.apply(ad.ones(3, requires_grad=True)).sum()  # here

    with pytest.raises(RuntimeError, match="returned an invalid gradient at index 0") as error:
        program().backward()
    assert notes_of(error) == [f"in the backward of MisshapenBackward, recorded at {line_of(program, '# here')}"]


@pytest.mark.claim("U7")
@pytest.mark.parametrize("attach", ["tensor", "prehook", "hook"])
@pytest.mark.parametrize("create_graph", [False, True])
def test_an_error_in_a_hook(attach: str, create_graph: bool) -> None:
    def hook(*_: Any) -> None:
        raise ZeroDivisionError("of the hook")

    def program() -> Any:
        x = ad.ones(3, requires_grad=True)
        y = x * x  # here
        add = {"tensor": y.register_hook, "prehook": y.grad_fn.register_prehook, "hook": y.grad_fn.register_hook}
        add[attach](hook)
        return y.sum()

    with pytest.raises(ZeroDivisionError) as error:
        program().backward(create_graph=create_graph)
    assert error.value.args == ("of the hook",)
    assert notes_of(error) == [f"in the backward of MulBackward0, recorded at {line_of(program, '# here')}"]


@pytest.mark.claim("U7")
def test_an_error_in_an_ops_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    from adjoint.ops.elementwise.transcendental import exp

    def rule(g: Any, out: Any) -> Any:
        raise FloatingPointError("in the rule")

    def program() -> Any:
        return ad.exp(ad.ones(3, requires_grad=True)).sum()  # here

    loss = program()
    monkeypatch.setattr(exp.op, "rules", (rule,))  # type: ignore[attr-defined]
    with pytest.raises(FloatingPointError) as error:
        loss.backward()
    assert notes_of(error) == [f"in the backward of ExpBackward0, recorded at {line_of(program, '# here')}"]


@pytest.mark.claim("U7")
def test_of_passes_within_each_other_the_innermost_node_is_named() -> None:
    class Outer(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            with ad.enable_grad():
                Failing.apply(ad.ones(1, requires_grad=True)).sum().backward()  # inner

    with pytest.raises(KeyError) as error:
        Outer.apply(ad.ones(3, requires_grad=True)).sum().backward()
    assert notes_of(error) == [f"in the backward of FailingBackward, recorded at {line_of(Outer, '# inner')}"]


@pytest.mark.claim("U7")
def test_step_by_step_too() -> None:
    loss = Failing.apply(ad.ones(3, requires_grad=True)).sum()
    with pytest.raises(KeyError) as error:
        list(backward_steps(loss))
    assert len(notes_of(error)) == 1


@pytest.mark.claim("U7")
def test_autograd_grad_too() -> None:
    x = ad.ones(3, requires_grad=True)
    with pytest.raises(KeyError) as error:
        ad.autograd.grad(Failing.apply(x).sum(), x)
    assert "FailingBackward" in notes_of(error)[0]


@pytest.mark.claim("U7")
def test_values_freed_name_the_line_in_the_message() -> None:
    def program() -> Any:
        x = ad.ones(3, requires_grad=True)
        return (x * x).sum()  # here

    loss = program()
    loss.backward()
    with pytest.raises(RuntimeError, match="second time") as error:
        loss.backward()
    assert f"MulBackward0, recorded at {line_of(program, '# here')}" in str(error.value)
    assert notes_of(error) == []  # said once


@pytest.mark.claim("U8")
def test_values_written_name_both_lines() -> None:
    def program() -> Any:
        x = ad.ones(3, requires_grad=True) * 1
        y = x * x  # saved
        x.add_(1)  # written
        return y.sum()

    with pytest.raises(RuntimeError, match="modified by an inplace operation") as error:
        program().backward()
    assert line_of(program, "# saved") in str(error.value)
    assert line_of(program, "# written") in str(error.value)


@pytest.mark.claim("U7")
def test_a_missing_rule_names_the_line() -> None:
    from adjoint.core.op.families import unary

    @unary()
    def twist(x: Any) -> Any:
        """x, without a rule."""
        return x * 1

    def program() -> Any:
        return twist(ad.ones(2, requires_grad=True)).sum()  # here

    with pytest.raises(RuntimeError, match="no gradient rule for twist") as error:
        program().backward()
    assert line_of(program, "# here") in str(error.value)


@pytest.mark.claim("U7")
def test_an_interrupt_passes_as_it_is() -> None:
    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    x = ad.ones(3, requires_grad=True)
    y = x * x
    y.register_hook(interrupt)
    with pytest.raises(KeyboardInterrupt) as error:
        y.sum().backward()
    assert notes_of(error) == []
