"""Terms of losses: NumPy's functions, which few elements take, have the bits of the ops that they stand for."""

from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.core.op.op import op_of
from adjoint.ops.nn.loss_terms import huber, smooth_l1, square_error

TERMS: list[tuple[Any, dict[str, float]]] = [(huber, {"delta": 0.7}), (smooth_l1, {"beta": 0.7}), (square_error, {})]


@pytest.mark.parametrize("kind", [ad.float32, ad.float64])
@pytest.mark.parametrize(("term", "params"), TERMS, ids=lambda x: getattr(x, "__name__", ""))
def test_few_elements_have_the_bits_of_the_ops(term: Any, params: dict[str, float], kind: Any) -> None:
    ad.manual_seed(0)
    x, y = ad.randn(5, 4, dtype=kind), ad.randn(4, dtype=kind)
    x[0] = ad.tensor([np.nan, np.inf, -np.inf, 0.0], dtype=kind)
    y[3] = 0.0
    x.requires_grad_(), y.requires_grad_()
    for a, b in ((x, y), (x[1, 1], y[2])):
        out = term(a, b, **params)
        assert out.detach().numpy().tobytes() == op_of(term).composite(a, b, **params).detach().numpy().tobytes()
        found = ad.autograd.grad(out.sum(), (x, y), retain_graph=True)
        wanted = ad.autograd.grad(out.sum(), (x, y), create_graph=True)  # by rules on tensors
        for g, w in zip(found, wanted, strict=True):
            np.testing.assert_array_equal(g.numpy(), w.detach().numpy())
