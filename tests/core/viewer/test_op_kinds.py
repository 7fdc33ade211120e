"""Kinds of ops, which the viewer colours."""

import pytest
from tests.support.samples import SAMPLES

import adjoint as ad
import adjoint.nn.functional as F
from adjoint.core.op.op import Op
from adjoint.core.viewer.op_kinds import KINDS_BY_FOLDER, kind_of_op
from adjoint.core.viewer.page import ASSETS


def op_of(tensor: ad.Tensor) -> Op:
    op: Op = tensor.grad_fn.op
    return op


X = ad.ones(2, 3, requires_grad=True)


@pytest.mark.parametrize(
    ("tensor", "kind"),
    [
        (X.sin(), "elementwise"),
        (X.relu(), "activation"),
        (X.softmax(1), "activation"),
        (X @ X.t(), "matrix"),
        (F.linear(X, X), "matrix"),
        (X.t(), "movement"),
        (X[0], "movement"),
        (X.sum(), "reduction"),
        (F.layer_norm(X, (3,)), "normalization"),
        (F.mse_loss(X, ad.zeros(2, 3)), "loss"),
        (F.nll_loss(X, ad.tensor([0, 1])), "loss"),
    ],
)
def test_kinds(tensor: ad.Tensor, kind: str) -> None:
    assert kind_of_op(op_of(tensor)) == kind


def test_every_op_has_a_kind_that_has_a_colour() -> None:
    style = (ASSETS / "viewer.css").read_text(encoding="utf-8")
    kinds = {kind_of_op(function.op) for function in SAMPLES}
    assert kinds >= {"elementwise", "matrix", "movement", "reduction", "activation"}
    assert [kind for kind in {*kinds, *KINDS_BY_FOLDER.values()} if f".kind-{kind} " not in style] == []
