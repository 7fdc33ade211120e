"""Tensors with a dimension of size 0 have the shapes of eager calls in every mode, and raise where those raise."""

from collections.abc import Callable

import pytest

import adjoint as ad
import adjoint.nn.functional as F
from adjoint.func import jvp, vmap

Function = Callable[[ad.Tensor], ad.Tensor]
ROWS = ad.zeros(0, dtype=ad.int64)
FUNCTIONS: dict[str, Function] = {
    "softmax": lambda x: F.softmax(x, -1),
    "softmax of columns": lambda x: F.softmax(x, 0),
    "log_softmax": lambda x: F.log_softmax(x, -1),
    "softmin": lambda x: F.softmin(x, -1),
    "softmax in float64": lambda x: F.softmax(x, -1, dtype=ad.float64),
    "logsumexp": lambda x: ad.logsumexp(x, -1),
    "sum": lambda x: x.sum(-1),
    "mean": lambda x: x.mean(-1),
    "prod": lambda x: x.prod(-1),
    "amax": lambda x: x.amax(0),
    "cumsum": lambda x: x.cumsum(-1),
    "cumprod": lambda x: x.cumprod(-1),
    "logcumsumexp": lambda x: ad.logcumsumexp(x, -1),
    "cummax": lambda x: ad.cummax(x, -1).values,
    "sort": lambda x: x.sort(-1).values,
    "norm": lambda x: x.norm(dim=-1),
    "normalize": lambda x: F.normalize(x, dim=-1),
    "layer_norm": lambda x: F.layer_norm(x, x.shape[-1:]),
    "rms_norm": lambda x: F.rms_norm(x, x.shape[-1:]),
    "gelu": F.gelu,
    "tanh-gelu": lambda x: F.gelu(x, approximate="tanh"),
    "mse_loss": lambda x: F.mse_loss(x, x * 2),
    "bce_with_logits": lambda x: F.binary_cross_entropy_with_logits(x, x),
    "attention": lambda x: F.scaled_dot_product_attention(x[None], x[None], x[None]),
    "matmul": lambda x: x @ x.mT,
    "linear": lambda x: F.linear(x, ad.ones(3, x.shape[-1])),
    "einsum": lambda x: ad.einsum("ij,ik->jk", x, x),
    "cat": lambda x: ad.cat([x, x], -1),
    "roll": lambda x: x.roll(1, -1),
    "diagonal": ad.diagonal,
    "gather": lambda x: x.gather(-1, ad.zeros(*x.shape, dtype=ad.int64)),
    "scatter": lambda x: x.scatter(-1, ad.zeros(*x.shape, dtype=ad.int64), 1.0),
    "where": lambda x: ad.where(x > 0, x, -x),
    "no columns": lambda x: x[:, ROWS],
    "pad": lambda x: F.pad(x, (1, 1)),
    "trapezoid": ad.trapezoid,
    "cdist": lambda x: ad.cdist(x, x),
    "singular values": ad.linalg.svdvals,
}


@pytest.mark.parametrize("shape", [(2, 0), (0, 2), (0, 0)])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_shapes_are_those_of_eager_calls(name: str, shape: tuple[int, int]) -> None:
    function, x = FUNCTIONS[name], ad.zeros(*shape)
    modes: dict[str, Callable[[], ad.Tensor]] = {
        "vmap": lambda: vmap(function)(ad.zeros(3, *shape))[0],
        "jvp": lambda: jvp(function, (x,), (x,))[1],
        "compiled": lambda: ad.compile(function)(x),
        "gradient": lambda: function(x.clone().requires_grad_()),
    }
    try:
        expected = function(x)
    except (RuntimeError, IndexError):
        for call in modes.values():
            with pytest.raises((RuntimeError, IndexError)):
                call()
        return
    assert vmap(function)(ad.zeros(0, *shape)).shape == (0, *expected.shape)
    for mode, call in modes.items():
        found = call()
        assert (mode, found.shape, found.dtype) == (mode, expected.shape, expected.dtype)
    leaf = x.clone().requires_grad_()
    out = function(leaf)
    if out.requires_grad:  # the area under no samples is a constant
        (gradient,) = ad.autograd.grad(out.sum(), leaf, create_graph=True)
        assert gradient.shape == shape
