"""Declaring an op: what is checked, what is recorded, how errors read."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.support.checks import raises

import adjoint as ad
from adjoint.core.op.families import binary, movement_op, primitive, unary, with_eager_fast_path
from adjoint.core.op.op import op_of, with_specified_integers
from adjoint.core.op.spec import Spec, broadcast_shapes, describe
from adjoint.functions.elementwise import pointwise


def test_a_rule_for_an_input_that_is_not_there() -> None:
    with pytest.raises(TypeError, match=r"op twice: rule dz= has no input 'z'; inputs are \('x',\)"):

        @unary(dz=lambda g: g)
        def twice(x: Any) -> Any:
            """2 x."""
            return x * 2


def test_a_rule_that_asks_for_what_is_not_kept() -> None:
    with pytest.raises(TypeError, match=r"op twice: rule dx asks for \['w'\], which it does not have"):

        @unary(dx=lambda g, w: g * w)
        def twice(x: Any) -> Any:
            """2 x."""
            return x * 2


@pytest.mark.claim("1.30")
def test_a_new_op_is_a_function_with_a_rule() -> None:
    @unary(dx=lambda g, x: g * (x * x * 3.0))
    def cube(x: Any) -> Any:
        """x³."""
        return x**3

    x = ad.tensor([2.0, 3.0], requires_grad=True)
    y = cube(x)
    assert y.grad_fn.name() == "CubeBackward0"
    (g,) = ad.autograd.grad(y.sum(), x, create_graph=True)
    assert g.tolist() == [12.0, 27.0]
    (h,) = ad.autograd.grad(g.sum(), x)
    assert h.tolist() == [12.0, 18.0]
    assert cube.__doc__ == "x³."
    assert repr(cube.op) == "cube"  # type: ignore[attr-defined]


@pytest.mark.claim("1.30")
def test_a_missing_rule_names_op_and_line() -> None:
    @unary()
    def opaque(x: Any) -> Any:
        """x."""
        return x.copy()

    x = ad.ones(2, requires_grad=True)
    y = opaque(x)
    assert y.requires_grad
    raises(RuntimeError, r"no gradient rule for opaque, used at .*test_op\.py:\d+", y.sum().backward)


def test_a_missing_rule_of_one_input_only_matters_for_that() -> None:
    @binary(dx=lambda g, y: g * y)
    def half(x: Any, y: Any) -> Any:
        """x y, of which only x is differentiated."""
        return x * y

    x = ad.tensor([2.0], requires_grad=True)
    half(x, ad.tensor([5.0])).sum().backward()
    assert x.grad.tolist() == [5.0]


def test_only_what_rules_name_is_kept() -> None:
    x, y = ad.ones(3, requires_grad=True), ad.ones(3, requires_grad=True)
    assert (x + y).grad_fn.saved_values is None
    assert (x * y.detach()).grad_fn.saved_values[0] is None
    assert (x * y.detach()).grad_fn.saved_values[1] is y.array
    assert x.exp().grad_fn.saved_values[0] is None
    assert x.sum().grad_fn.saved_values is None


def test_errors_name_the_op_and_its_operands() -> None:
    @primitive(spec=lambda x: Spec(x.shape, x.dtype))
    def picky(x: Any) -> Any:
        """Refuses."""
        raise ValueError("not today")

    raises(RuntimeError, r"picky\(f32\[2,3\]\): not today", lambda: picky(ad.ones(2, 3)))


def test_shapes_that_do_not_broadcast() -> None:
    raises(RuntimeError, r"mul: shapes \(2, 3\) and \(4,\) do not broadcast", lambda: ad.ones(2, 3) * ad.ones(4))


def test_variadic_rules_get_their_position() -> None:
    @primitive(spec=lambda *xs: xs[0], dxs=lambda g, i: g * float(i + 1))
    def total(*xs: Any) -> Any:
        """Σ xs, with gradients that tell the places."""
        return np.add.reduce(xs)

    leaves = [ad.ones(2, requires_grad=True) for _ in range(3)]
    total(*leaves).sum().backward()
    assert [t.grad.tolist() for t in leaves if t.grad is not None] == [[1.0, 1.0], [2.0, 2.0], [3.0, 3.0]]


def test_parameters_reach_rules_and_title() -> None:
    def title(node: Any) -> str:
        return f"Scale{node.params['by']:g}Backward"

    @primitive(spec=lambda x, *, by: x, dx=lambda g, by: g * by, node=title)
    def scale(x: Any, *, by: float) -> Any:
        """by · x."""
        return x * by

    x = ad.ones(2, requires_grad=True)
    y = scale(x, by=3.0)
    assert y.grad_fn.name() == "Scale3Backward"
    y.sum().backward()
    assert x.grad.tolist() == [3.0, 3.0]


def test_a_movement_that_is_a_view_shares_its_storage() -> None:
    @movement_op(spec=lambda x: x)
    def tail(x: Any) -> Any:
        """x without its first element."""
        return x[1:]

    x = ad.zeros(3)
    view = tail(x)
    x.fill_(2)
    assert view.tolist() == [2.0, 2.0]
    assert view._version == 1


def test_a_fused_op_has_its_own_evaluation() -> None:
    calls = []

    @with_eager_fast_path(composite=lambda x: x * 2.0, dx=lambda g: g * 2.0)
    def twice(x: Any) -> Any:
        calls.append(x.shape)
        return x * 2

    assert twice(ad.ones(3)).tolist() == [2.0, 2.0, 2.0]
    assert calls == [(3,)]


def test_users_who_turn_warnings_into_errors_still_get_infinities() -> None:
    assert (ad.ones(2) / 0).tolist() == [np.inf, np.inf]
    assert ad.tensor([0.0]).log().tolist() == [-np.inf]
    assert ad.tensor([1000.0]).exp().tolist() == [np.inf]
    assert (ad.tensor([np.inf]) - ad.tensor([np.inf])).isnan().all()


def test_spec() -> None:
    spec = Spec((2, 3), np.dtype(np.float32))
    assert repr(spec) == describe(np.zeros((2, 3), np.float32)) == "f32[2,3]"
    assert spec == Spec((2, 3), np.dtype(np.float32)) != Spec((2, 3), np.dtype(np.float64))
    assert hash(spec) == hash(Spec((2, 3), np.dtype(np.float32)))
    assert broadcast_shapes((2, 1), (3,), ()) == (2, 3)
    complaint = r"size of tensor a \(2\) must match the size of tensor b \(3\) at non-singleton dimension 0"
    raises(ValueError, complaint, lambda: broadcast_shapes((2,), (3,)))


@pytest.mark.parametrize("x", [3, True, np.array([3, -1]), np.array([3, -1], np.int32)])
def test_integers_get_the_type_of_the_spec_where_numpys_have_32_bits(x: Any) -> None:
    relu = op_of(pointwise.relu)
    narrow = with_specified_integers(lambda x: np.asarray(relu.evaluate(x)).astype(np.int32), relu.spec)
    expected = np.asarray(relu.evaluate(x))
    assert narrow(x).dtype == expected.dtype
    np.testing.assert_array_equal(narrow(x), expected)
