"""The calls that core/op/call_template.py writes out: they give what the plain call of an op gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.core.op.apply import apply
from adjoint.core.op.op import op_of
from adjoint.functions.linalg.matmul import _fold_rows, _linear
from adjoint.ops.elementwise.select import _where
from adjoint.ops.indexing.indexing import gather, index
from adjoint.ops.linalg.matmul import mm
from adjoint.ops.reduction import reduction

A, B = np.random.default_rng(0).normal(size=(2, 3, 3))
CALLS: list[tuple[Any, tuple[Any, ...], dict[str, Any]]] = [
    (reduction.sum, (A,), {"axes": (0,), "keepdims": False}),
    (reduction.all, (A > 0,), {"axes": (1,), "keepdims": True}), (mm, (A, B), {}),
    (gather, (A, np.array([[0], [2], [1]])), {"axis": 1}), (_linear, (A, B, A[0]), {}),
    (_linear, (A, B, None), {}), (_linear, (A[0], B, A[1]), {}), (_where, (A > 0, A, B), {}),
    (_fold_rows, (A.reshape(1, 3, 3), B), {}), (index, (A, np.array([2, 0])), {"pattern": (0, None)}),
    (index, (A, np.array([2, 0]), np.array([1, 1])), {"pattern": (0, 1)}),
]  # fmt: skip


def make_operands(values: tuple[Any, ...], wanting: int) -> tuple[Any, ...]:
    tensors = [None if value is None else ad.tensor(value) for value in values]
    for i, x in enumerate(tensors):
        if x is not None and x.is_floating_point() and wanting >> i & 1:
            x.requires_grad_()
    return tuple(tensors)


@pytest.mark.parametrize("wanting", range(8))
@pytest.mark.parametrize(("function", "values", "params"), CALLS, ids=lambda value: getattr(value, "__name__", ""))
def test_calls_give_what_apply_gives(
    function: Any, values: tuple[Any, ...], params: dict[str, Any], wanting: int
) -> None:
    results = []
    for call in (function, lambda *x, **given: apply(op_of(function), x, given)):
        operands = make_operands(values, wanting)
        out = call(*operands, **params)
        kept = out.node.saved_values if out.node is not None else None
        if out.requires_grad:
            out.sum().backward()
        grads = [x.grad for x in operands if x is not None]
        results.append((out, kept, grads))
    (out, kept, grads), (plain, plain_kept, plain_grads) = results
    assert out.dtype is plain.dtype
    assert type(out.grad_fn) is type(plain.grad_fn)
    np.testing.assert_array_equal(out.detach().numpy(), plain.detach().numpy())
    assert [x is None for x in kept or ()] == [x is None for x in plain_kept or ()]
    for g, plain_g in zip(grads, plain_grads, strict=True):
        assert (g is None) == (plain_g is None)
        assert g is None or ad.equal(g, plain_g)


def test_arrays_of_users_are_copied_before_they_are_kept() -> None:
    given = A.copy()
    x = ad.tensor(B, requires_grad=True)
    out = mm(given, x)
    given[:] = 0
    out.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), A.T @ np.ones((3, 3)))


def test_nothing_is_recorded_without_grad_and_frozen_inference_tensors_are_refused() -> None:
    x = ad.tensor(A, requires_grad=True)
    with ad.no_grad():
        assert not mm(x, x).requires_grad
    with ad.inference_mode():
        frozen = ad.tensor(B)
    with pytest.raises(RuntimeError, match="Inference tensors cannot be saved"):
        mm(x, frozen)


def test_a_result_that_the_caller_has_is_recorded_as_it_is() -> None:
    x, places = ad.tensor(A, requires_grad=True), ad.tensor([[0], [2], [1]])
    found = np.full((3, 1), 7.0)
    out = gather(x, places, computed=found, axis=1)
    assert out.array is found
    out.sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), [[1, 0, 0], [0, 0, 1], [0, 1, 0]])


def test_memory_that_others_see_is_copied_before_it_is_kept_and_no_other() -> None:
    shared = A.copy()
    x, w = ad.from_numpy(shared), ad.tensor(B, requires_grad=True)
    out = mm(x, w)
    assert not np.may_share_memory(out.node.saved_values[0], shared)
    own = ad.tensor(A)
    assert mm(own, w).node.saved_values[0] is own.array
    shared[:] = 0
    out.sum().backward()
    np.testing.assert_allclose(w.grad.numpy(), A.T @ np.ones((3, 3)))
