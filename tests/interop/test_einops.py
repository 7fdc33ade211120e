"""einops works on tensors as it is, whichever of the two was imported first; its values are those on arrays."""

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support.scripts import start

import adjoint as ad
from adjoint import nn

einops = pytest.importorskip("einops")
X = np.random.default_rng(0).standard_normal((2, 4, 6))
W = np.random.default_rng(1).standard_normal((6, 3))
CALLS = [
    "rearrange(X, 'b h w -> b (h w)')", "rearrange(X, 'b (h k) w -> k b w h', k=2)",
    "rearrange([X, X], 'n b h w -> b h w n')", "rearrange(X, '... w -> w ...')", "reduce(X, 'b h w -> b w', 'mean')",
    "reduce(X, 'b (h k) w -> b h w', 'max', k=2)",
    "reduce(X, 'b h w -> ', 'sum')", "reduce(X, 'b h w -> h', 'min')", "reduce(X, 'b h w -> b 1 w', 'prod')",
    "repeat(X, 'b h w -> b h k w', k=3)", "repeat(X, 'b h w -> b (h k) w', k=2)",
    "repeat(X, 'b h w -> (b k) w h', k=2)", "einsum(X, W, 'b h w, w o -> b o h')", "pack([X, X[:, 0]], 'b * w')[0]",
    "unpack(*pack([X, X[:, 0]], 'b * w'), 'b * w')[1]",
]  # fmt: skip


@pytest.mark.parametrize("call", CALLS)
def test_values_and_gradients(call: str) -> None:
    expected = eval(call, vars(einops) | {"X": X, "W": W})
    x = ad.tensor(X, requires_grad=True)
    out = eval(call, vars(einops) | {"X": x, "W": ad.tensor(W)})
    assert isinstance(out, ad.Tensor)
    np.testing.assert_allclose(out.detach().numpy(), expected, rtol=1e-12)
    out.sum().backward()
    h, direction = 1e-6, np.sin(np.arange(X.size)).reshape(X.shape)
    ends = [eval(call, vars(einops) | {"X": X + s * h * direction, "W": W}).sum() for s in (1, -1)]
    assert (x.grad.numpy() * direction).sum() == pytest.approx((ends[0] - ends[1]) / (2 * h), rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("name", ["any", "all"])
def test_truths(name: str) -> None:
    out = einops.reduce(ad.tensor(X) > 0, "b h w -> w", name)
    np.testing.assert_array_equal(out.numpy(), einops.reduce(X > 0, "b h w -> w", name))


def test_what_else_it_asks() -> None:
    x = ad.tensor(X, requires_grad=True)
    assert einops.parse_shape(x, "b _ w") == {"b": 2, "w": 6}
    np.testing.assert_array_equal(einops.asnumpy(x), X)
    with pytest.raises(einops.EinopsError):
        einops.rearrange(x, "b h -> h b")
    with pytest.raises(NotImplementedError, match="non-floating"):
        einops.reduce(ad.arange(4), "a -> ", "mean")


def test_the_functions_for_array_api_libraries() -> None:
    from einops import array_api

    x = ad.tensor(X, requires_grad=True)
    out = array_api.rearrange(x, "b h w -> w (b h)")
    assert out.requires_grad
    np.testing.assert_array_equal(out.detach().numpy(), einops.rearrange(X, "b h w -> w (b h)"))
    np.testing.assert_allclose(array_api.reduce(x, "b h w -> h", "max").detach().numpy(), X.max((0, 2)))
    np.testing.assert_array_equal(array_api.repeat(x.detach(), "b h w -> (b k) h w", k=2).numpy(), np.repeat(X, 2, 0))


def test_layers() -> None:
    from adjoint.interop.einops import EinMix, Rearrange, Reduce

    ad.manual_seed(0)
    model = nn.Sequential(
        Rearrange("b (h k) w -> b h (k w)", k=2),
        EinMix("b h c -> b h o", weight_shape="c o", bias_shape="o", c=12, o=5),
        Reduce("b h o -> b o", "mean"),
    )  # fmt: skip
    out = model(ad.tensor(X, dtype=ad.float32))
    assert out.shape == (2, 5)
    assert out.requires_grad
    assert list(model.state_dict()) == ["1.weight", "1.bias"]
    out.sum().backward()
    assert all(p.grad is not None for p in model.parameters())
    assert repr(model[0]) == "Rearrange('b (h k) w -> b h (k w)', k=2)"
    twin = pickle.loads(pickle.dumps(model[2]))
    np.testing.assert_allclose(twin(ad.tensor(X)).numpy(), X.mean(1))
    grouped = EinMix("b (g c) w -> b (g o) w", weight_shape="g c o", g=2, c=2, o=3)
    assert grouped(ad.tensor(X, dtype=ad.float32)).shape == (2, 6, 6)


def test_compiled_as_eagerly() -> None:
    pytest.importorskip("llvmlite")

    def f(x: Any) -> Any:
        return einops.reduce(einops.rearrange(x, "b (h k) w -> b h (k w)", k=2).exp(), "b h c -> b", "mean")

    np.testing.assert_allclose(ad.compile(f)(ad.tensor(X)).numpy(), f(ad.tensor(X)).numpy(), rtol=1e-12)


@pytest.mark.parametrize("program", [
    "import einops, adjoint as ad\nx = ad.ones(2, 3)", "import adjoint as ad, einops\nx = ad.ones(2, 3)",
    "import adjoint as ad, einops\nx = ad.randn(2, 3)",
    "import adjoint as ad\nx = ad.ones(2, 3)\nimport einops",
    "import adjoint as ad\nx = ad.ones(2, 3)\nimport einops\nimport adjoint.interop.einops as here; here.register()",
])  # fmt: skip
def test_order_of_imports(program: str, tmp_path: Path) -> None:
    program += "\nprint(tuple(einops.rearrange(x, 'a b -> b a').shape))"
    done = start(tmp_path, "-c", program)
    assert done.out == "(3, 2)", done.error
