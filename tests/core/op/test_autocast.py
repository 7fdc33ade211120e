"""autocast against PyTorch: which function computes in which type, what blocks do, custom functions."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from tests.support.threads import in_another_thread

import adjoint as ad
import adjoint.nn.functional

pytest.importorskip("ml_dtypes")
NUMBERS = np.random.default_rng(0)
ARRAYS = {
    "x": NUMBERS.uniform(-2, 2, (4, 6)), "y": NUMBERS.uniform(0.1, 0.9, (4, 6)), "m": NUMBERS.normal(size=(6, 5)),
    "v": NUMBERS.normal(size=(6,)), "b": NUMBERS.normal(size=(5,)), "im": NUMBERS.normal(size=(2, 3, 8, 8)),
    "k": NUMBERS.normal(size=(4, 3, 3, 3)), "q": NUMBERS.normal(size=(2, 2, 5, 4)), "s": NUMBERS.normal(size=(4, 4)),
}  # fmt: skip
EXPRESSIONS = [
    "x @ m", "t.mm(x, m)", "t.mv(x, v)", "t.dot(v, v)", "v @ v", "t.bmm(q[0], q[1].transpose(1, 2))",
    "t.addmm(b, x, m)", "t.baddbmm(q[0] @ q[1].transpose(1, 2), q[0], q[1].transpose(1, 2))",
    "t.addbmm(q[0, 0] @ q[1, 0].T, q[0], q[1].transpose(1, 2))", "F.linear(x, m.T, b)", "F.linear(x, m.T)",
    "F.conv2d(im, k)", "F.conv1d(im[0], k[:, :, 0])", "F.scaled_dot_product_attention(q, q, q)", "F.prelu(x, v[:1])",
    "t.einsum('ij,jk->ik', x, m)", "t.einsum('ij->i', x)", "t.tensordot(x, m, 1)", "t.outer(v, b)", "x + 1", "x.exp()",
    "F.softmax(x, 1)", "F.log_softmax(x @ m, 1)", "F.layer_norm(x @ m, (5,), b, b)", "F.relu(x @ m)", "F.gelu(x @ m)",
    "F.mse_loss(x, y)", "F.mse_loss(x @ m, (x @ m).detach() * 2)", "F.l1_loss(x @ m, x @ m * 2)",
    "F.cross_entropy(x @ m, i)", "F.nll_loss(F.log_softmax(x @ m, 1), i)", "F.huber_loss(x @ m, x @ m * 2)",
    "F.smooth_l1_loss(x @ m, x @ m * 2)", "F.binary_cross_entropy_with_logits(x, y)", "F.binary_cross_entropy(y, y)",
    "F.kl_div(x @ m, (x @ m).softmax(1))", "F.cosine_embedding_loss(x @ m, x @ m * 2, i - i + 1)",
    "F.margin_ranking_loss(x, y, x.sign())", "F.triplet_margin_loss(x, y, x * 2)",
    "F.hinge_embedding_loss(x, i.sign()[:, None])",
    "t.cat([x, x @ m], 1)", "t.stack([s, s @ s])", "t.prod(x @ m)", "t.trace(s @ s)", "t.quantile(x @ m, 0.3)",
    "t.cdist(s @ s, s)", "(x.double() @ m.double())", "x.sum()", "(x @ m).sum()", "(x @ m).mean(0)", "(x @ m) + b",
    "F.batch_norm(F.conv2d(im, k), None, None, b[:4], b[:4], training=True)", "F.max_pool2d(F.conv2d(im, k), 2)",
    "F.embedding(i, m)", "x.half() @ m.half()",
]  # fmt: skip


def inputs(library: Any, kind: str) -> dict[str, Any]:
    made = {name: library.tensor(a.astype(np.float32)).to(getattr(library, kind)) for name, a in ARRAYS.items()}
    return {name: a.requires_grad_() for name, a in made.items()} | {"i": library.tensor([0, 2, 1, 4])}


@pytest.mark.parametrize("kind", ["float32", "bfloat16"])
@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_each_function_takes_pytorchs_type(expression: str, kind: str) -> None:
    torch = pytest.importorskip("torch")
    found = []
    for t in (ad, torch):
        names = inputs(t, kind)
        with warnings.catch_warnings(), t.autocast("cpu", dtype=t.bfloat16):
            warnings.simplefilter("ignore")
            try:
                out = eval(expression, {"t": t, "F": t.nn.functional, **names})
            except RuntimeError as error:
                found.append(("error", type(error)))
                continue
        out.float().sum().backward()
        told = {name: str(a.grad.dtype).partition(".")[2] for name, a in names.items() if a.grad is not None}
        found.append((str(out.dtype).partition(".")[2], told))
        if t is ad:
            ours = out.detach().float().tolist()
        else:
            np.testing.assert_allclose(ours, out.detach().float().tolist(), rtol=2**-5, atol=2**-5)
    assert found[0] == found[1]


def test_blocks_nest_and_end() -> None:
    x = ad.ones(2, 2)
    assert not ad.is_autocast_enabled("cpu")
    with ad.autocast("cpu"):
        assert ad.is_autocast_enabled("cpu")
        assert (x @ x).dtype is ad.bfloat16
        with ad.autocast("cpu", enabled=False):
            assert not ad.is_autocast_enabled("cpu")
            assert (x @ x).dtype is ad.float32
        with ad.amp.autocast("cpu", dtype=ad.float16):
            assert ad.get_autocast_dtype("cpu") is ad.float16
            assert (x @ x).dtype is ad.float16
        assert (x @ x).dtype is ad.bfloat16
        with pytest.raises(KeyError), ad.autocast("cpu", enabled=False):
            raise KeyError
        assert (x @ x).dtype is ad.bfloat16
    assert (x @ x).dtype is ad.float32
    assert ad.get_autocast_dtype("cpu") is ad.bfloat16


def test_a_function_is_decorated() -> None:
    @ad.autocast("cpu", dtype=ad.bfloat16)
    def product(x: Any) -> Any:
        """Square."""
        return x @ x

    assert product(ad.ones(2, 2)).dtype is ad.bfloat16
    assert product.__doc__ == "Square."
    with pytest.raises(TypeError, match="requires a callable, but got Tensor"):
        ad.autocast("cpu")(ad.ones(2))  # type: ignore[arg-type]


def test_switches() -> None:
    assert ad.amp.is_autocast_available("cpu")
    assert not ad.amp.is_autocast_available("toaster")
    ad.set_autocast_enabled("cpu", True)
    ad.set_autocast_dtype("cpu", ad.float16)
    try:
        assert (ad.ones(2, 2) @ ad.ones(2, 2)).dtype is ad.float16
    finally:
        ad.set_autocast_enabled("cpu", False)
        ad.set_autocast_dtype("cpu", ad.bfloat16)
    assert ad.is_autocast_cache_enabled()
    with ad.autocast("cpu", cache_enabled=False):
        assert not ad.is_autocast_cache_enabled()
    with pytest.raises(RuntimeError, match="unsupported autocast device_type 'toaster'"):
        ad.autocast("toaster")
    with pytest.raises(ValueError, match="type `str`"):
        ad.autocast(3)  # type: ignore[arg-type]


def test_what_is_not_there_is_not_switched_on() -> None:
    with pytest.warns(UserWarning, match="CUDA is not available"), ad.autocast("cuda"):
        assert (ad.ones(2, 2) @ ad.ones(2, 2)).dtype is ad.float32
    with pytest.warns(UserWarning, match="target dtype is not supported"), ad.autocast("cpu", dtype=ad.float64):
        assert not ad.is_autocast_enabled("cpu")
    with pytest.warns(FutureWarning, match="deprecated"):
        old = ad.cpu.amp.autocast()
    with old:
        assert ad.is_autocast_enabled("cpu")


@pytest.mark.needs_threads
def test_each_thread_has_its_own() -> None:
    seen = []
    with ad.autocast("cpu"):
        in_another_thread(lambda: seen.append((ad.ones(2, 2) @ ad.ones(2, 2)).dtype))
    assert seen == [ad.float32]


def test_parameters_are_converted_once_and_again_when_written() -> None:
    w = ad.ones(2, 2, requires_grad=True)
    x = ad.ones(2, 2)
    with ad.autocast("cpu"):
        a, b = x @ w, x @ w
        made = [node.next_functions[1][0] for node in (a.grad_fn, b.grad_fn)]
        assert made[0] is made[1]
        (a + b).sum().float().backward()
        with ad.no_grad():
            w += 1
        assert (x @ w).tolist() == [[4.0, 4.0], [4.0, 4.0]]
    assert w.grad.dtype is ad.float32
    assert w.grad.tolist() == [[4.0, 4.0], [4.0, 4.0]]


def test_training_follows_pytorch() -> None:
    torch = pytest.importorskip("torch")
    losses = []
    for t in (ad, torch):
        t.manual_seed(0)
        model = t.nn.Sequential(t.nn.Linear(6, 16), t.nn.GELU(), t.nn.LayerNorm(16), t.nn.Linear(16, 3))
        optimizer = t.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        x, y, told = t.randn(32, 6), t.arange(32) % 3, []
        for _ in range(10):
            optimizer.zero_grad()
            with t.autocast("cpu", dtype=t.bfloat16):
                loss = t.nn.functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            told.append(loss.item())
        losses.append(told)
    np.testing.assert_allclose(losses[0], losses[1], rtol=5e-3)


@pytest.mark.parametrize("kind", [None, "float32"])
def test_custom_functions(kind: str | None) -> None:
    torch = pytest.importorskip("torch")
    told = []
    for t in (ad, torch):
        seen: list[str] = []

        class Product(t.autograd.Function):  # type: ignore[misc, name-defined]
            @staticmethod
            @t.amp.custom_fwd(device_type="cpu", cast_inputs=None if kind is None else getattr(t, kind))
            def forward(ctx: Any, x: Any, w: Any) -> Any:
                ctx.save_for_backward(x, w)
                out = x @ w
                seen.append(str(out.dtype).partition(".")[2])  # noqa: B023
                return out

            @staticmethod
            @t.amp.custom_bwd(device_type="cpu")
            def backward(ctx: Any, g: Any) -> Any:
                x, w = ctx.saved_tensors
                out = g @ w.T
                seen.append(str(out.dtype).partition(".")[2])  # noqa: B023
                return out, x.T @ g

        x, w = t.ones(2, 2).requires_grad_(), t.ones(2, 2).requires_grad_()
        with t.autocast("cpu", dtype=t.bfloat16):
            out = Product.apply(x, w)
        out.float().sum().backward()
        told.append((seen, x.grad.tolist(), w.grad.tolist(), str(w.grad.dtype).partition(".")[2]))
    assert told[0] == told[1]
