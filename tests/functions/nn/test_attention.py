"""Scaled dot product attention against PyTorch, its op against the composite form, and what of it a step computes."""

import math
from typing import Any

import numpy as np
import pytest
from tests.support.oracle import same, same_error

import adjoint as ad
import adjoint.nn.functional as F
from adjoint.ops.nn import attention as ops

RNG = np.random.default_rng(0)
CALL = "t.nn.functional.scaled_dot_product_attention"


def normal(*shape: int, dtype: Any = np.float64) -> Any:
    return RNG.normal(size=shape).astype(dtype)


def hiding(*shape: int) -> Any:
    """A mask of truths whose second row from the end, and column 1, hide all."""
    mask = RNG.normal(size=shape) > -0.4
    mask[..., -2, :] = False
    mask[..., 1] = False
    return mask


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("q", "k", "v"), [
    ((3, 4), (5, 4), (5, 2)), ((2, 3, 4), (2, 5, 4), (2, 5, 2)), ((2, 3, 4), (1, 5, 4), (5, 2)),
    ((5, 4), (2, 3, 5, 4), (3, 5, 4)), ((2, 3, 6, 4), (2, 3, 6, 4), (2, 3, 6, 4)),
    ((2, 3, 6, 4), (2, 1, 7, 4), (1, 3, 7, 5)), ((2, 1, 3, 6, 4), (2, 2, 3, 4, 4), (2, 2, 3, 4, 1)),
    ((2, 3, 1, 1), (2, 3, 1, 1), (2, 3, 1, 1)), ((2, 0, 4), (2, 5, 4), (2, 5, 2)), ((2, 3, 4), (2, 0, 4), (2, 0, 2)),
    ((0, 2, 3, 4), (0, 2, 3, 4), (0, 2, 3, 4)), ((2, 3, 0), (2, 5, 0), (2, 5, 2)),
])  # fmt: skip
def test_values_and_gradients(q: Any, k: Any, v: Any, dtype: Any) -> None:
    given = {"q": normal(*q, dtype=dtype), "k": normal(*k, dtype=dtype), "v": normal(*v, dtype=dtype)}
    # not with a negative scale and `is_causal`: PyTorch's fused kernel hides keys with -inf before it scales
    for settings in ("", ", is_causal=True", ", scale=0.3, is_causal=True", ", scale=-2.0", ", scale=0.0"):
        same(f"{CALL}(q, k, v{settings})", **given, factor=4)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(6, 5), (1, 5), (3, 6, 5), (2, 1, 6, 5), (2, 3, 6, 5), (3, 6, 1), (1, 1, 1, 1)])
def test_masks(shape: Any, dtype: Any) -> None:
    given = {"q": normal(2, 3, 6, 4, dtype=dtype), "k": normal(2, 3, 5, 4, dtype=dtype)}
    given["v"] = normal(2, 3, 5, 2, dtype=dtype)
    same(f"{CALL}(q, k, v, m)", **given, m=RNG.normal(size=shape) > -0.3, factor=4)
    if shape[-1] > 1:  # else its gradient is 0, but for rounding
        same(f"{CALL}(q, k, v, m)", **given, m=normal(*shape, dtype=dtype), factor=4)
    same(f"{CALL}(q, k, v, m.detach())", **given, m=normal(*shape, dtype=dtype), factor=4)
    same(f"{CALL}(q, k, v, m.detach())", **given, m=normal(*shape, dtype=np.float32), factor=4)


def test_mask_of_one_row() -> None:
    same(f"{CALL}(q, k, v, m)", q=normal(2, 6, 4), k=normal(2, 5, 4), v=normal(2, 5, 2), m=normal(5))
    same(f"{CALL}(q, k, v, m)", q=normal(6, 4), k=normal(5, 4), v=normal(5, 2), m=normal(5) > 0)


@pytest.mark.parametrize("lead", [(), (2,), (2, 3)])
def test_rows_without_keys_are_zero_and_have_no_gradient(lead: Any) -> None:
    given = {"q": normal(*lead, 6, 4), "k": normal(*lead, 5, 4), "v": normal(*lead, 5, 2)}
    mask = hiding(6, 5)
    same(f"{CALL}(q, k, v, m)", **given, m=mask)
    same(f"{CALL}(q, k, v, m.detach())", **given, m=np.where(mask, 0.3, -math.inf))
    same(f"{CALL}(q, k, v, m)", **given, m=np.where(mask, 0.3, -math.inf))
    same(f"{CALL}(q, k, v, m)", **given, m=np.zeros((6, 5), bool))


def test_grouped_queries() -> None:
    for k, v in (((2, 2), (2, 2)), ((2, 2), (2, 3)), ((2, 6), (2, 1)), ((1, 3), (2, 3))):
        given = {"q": normal(2, 6, 3, 4), "k": normal(*k, 5, 4), "v": normal(*v, 5, 2)}
        same(f"{CALL}(q, k, v, enable_gqa=True)", **given)
        same(f"{CALL}(q, k, v, is_causal=True, enable_gqa=True)", **given)
    same(f"{CALL}(q, k, v, m, enable_gqa=True)", **given, m=hiding(6, 3, 5))
    same(f"{CALL}(q, k, v, enable_gqa=True)", q=normal(6, 3, 4), k=normal(2, 5, 4), v=normal(2, 5, 2))


def test_errors() -> None:
    q, k, v = normal(2, 3, 4), normal(2, 5, 4), normal(2, 5, 2)
    for head, call, given in (
        ("all be  at least 2 dimensional", "(q, k, v)", {"q": normal(4)}),
        ("to have the same dtype", "(q, k, v)", {"k": normal(2, 5, 4, dtype=np.float32)}),
        ("The size of tensor a (2) must match the size of tensor b (3)", "(q, k, v)", {"v": normal(3, 5, 2)}),
        ("The size of tensor a (5) must match the size of tensor b (4)", "(q, k, v, m)", {"m": hiding(3, 4)}),
        ("doesn't match the broadcast shape [7, 2, 3, 5]", "(q, k, v, m)", {"m": hiding(7, 1, 3, 5)}),
        ("Expected attn_mask dtype to be bool or float", "(q, k, v, m)", {"m": np.ones((3, 5), np.int64)}),
        ("Explicit attn_mask should not be set when is_causal=True", "(q, k, v, m, 0.0, True)", {"m": hiding(3, 5)}),
        ("dropout probability has to be between 0 and 1, but got 1.5", "(q, k, v, None, 1.5)", {}),
        ("must divide the number of heads in", "(q, k, v, enable_gqa=True)",
         {"q": normal(6, 3, 4), "k": normal(4, 5, 4), "v": normal(4, 5, 2)}),
        ("Dimension out of range", "(q, k, v, enable_gqa=True)", {"q": q[0], "k": k[0], "v": v[0]}),
    ):  # fmt: skip
        arrays: dict[str, Any] = {"q": q, "k": k, "v": v, **given}
        same_error(f"{CALL}{call}", head, **arrays)
    for arrays in ({"q": q, "k": normal(2, 5, 3), "v": v}, {"q": q, "k": k, "v": normal(2, 6, 2)}):
        same(f"{CALL}(q, k, v)", **arrays)
    same(f"{CALL}(q, k, v)", **{name: np.ones((2, 3, 4), np.int64) for name in "qkv"})
    with pytest.raises(TypeError, match="argument 'key' must be Tensor, not list"):
        F.scaled_dot_product_attention(ad.ones(2, 2), [1.0], ad.ones(2, 2))  # type: ignore[arg-type]
    with pytest.raises(RuntimeError, match=r"query \(2, 3\), key \(4, 5\), value \(4, 6\)"):
        F.scaled_dot_product_attention(ad.ones(2, 3), ad.ones(4, 5), ad.ones(4, 6))


def test_dropout_divides_what_it_keeps() -> None:
    q, k = ad.zeros(2, 3, 4), ad.zeros(2, 400, 4)
    v = ad.eye(400)
    weights = F.scaled_dot_product_attention(q, k, v, dropout_p=0.25).numpy() * 400
    np.testing.assert_allclose(np.unique(weights), [0.0, 4 / 3], rtol=1e-6)
    assert 0.65 < np.count_nonzero(weights) / weights.size < 0.85
    assert not F.scaled_dot_product_attention(q, k, v, dropout_p=1.0).numpy().any()


def test_result_lies_with_the_rows_before_the_heads() -> None:
    """So that joining the heads copies nothing, as in PyTorch."""
    x = ad.tensor(normal(2, 3, 5, 4), requires_grad=True)
    out = F.scaled_dot_product_attention(x, x, x)
    assert out.transpose(1, 2).is_contiguous()
    assert out.grad_fn.name() == "ScaledDotProductFlashAttentionForCpuBackward0"


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("masked", [False, True])
def test_op_is_its_composite_form(causal: bool, masked: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """In blocks of a few heads, of a few rows, and of all at once."""
    given = [ad.tensor(normal(2, 3, n, 4), requires_grad=True) for n in (9, 7, 7)]
    mask = ad.tensor(hiding(2, 1, 9, 7)) if masked else None
    weights = ops.attention_weights(given[0], given[1], mask, 0.7, causal)
    composed = ops.movement.swap(weights @ given[2], 1, 2)
    g = ad.tensor(normal(2, 9, 3, 4))
    theirs = ad.autograd.grad(composed, given, g)
    for block, rows in ((2**15, 128), (130, 128), (20, 128), (2**15, 2), (1, 1)):
        monkeypatch.setattr(ops, "BLOCK_WEIGHTS", block)
        monkeypatch.setattr(ops, "MAX_CAUSAL_ROWS", rows)
        out = ops.attention(*given, mask, scale=0.7, causal=causal)
        np.testing.assert_allclose(out.detach().numpy(), composed.detach().numpy(), rtol=1e-12, atol=1e-13)
        for ours, expected in zip(ad.autograd.grad(out, given, g), theirs, strict=True):
            np.testing.assert_allclose(ours.numpy(), expected.numpy(), rtol=1e-11, atol=1e-13)


def test_a_gradient_written_between_two_passes_counts() -> None:
    """The three gradients come from one computation, which must not outlive the values it began with."""
    q, k, v = (ad.tensor(normal(1, 2, 3, 4), requires_grad=True) for _ in range(3))
    out = ops.attention(q, k, v, None, scale=1.0, causal=False)
    g = ad.tensor(normal(*out.shape))
    (first,) = ad.autograd.grad(out, q, g, retain_graph=True)
    g.mul_(2.0)
    (second,) = ad.autograd.grad(out, k, g, retain_graph=True)
    (fresh,) = ad.autograd.grad(out, k, g.clone(), retain_graph=True)
    np.testing.assert_array_equal(second.numpy(), fresh.numpy())
    (third,) = ad.autograd.grad(out, q, g)
    np.testing.assert_allclose(third.numpy(), 2 * first.numpy(), rtol=1e-12)


MASKED = [{"attn_mask": hiding(4, 5)}, {"attn_mask": normal(4, 5)}]


@pytest.mark.parametrize("settings", [{}, {"is_causal": True}, *MASKED])
def test_second_order(settings: Any) -> None:
    settings = {name: ad.tensor(x) if isinstance(x, np.ndarray) else x for name, x in settings.items()}
    given = [ad.tensor(normal(1, 2, *shape), requires_grad=True) for shape in ((4, 3), (5, 3), (5, 2))]

    def attend(q: Any, k: Any, v: Any) -> Any:
        return F.scaled_dot_product_attention(q, k, v, **settings)

    assert ad.autograd.gradcheck(attend, given)
    assert ad.autograd.gradgradcheck(attend, given)


def test_gradient_of_a_mask() -> None:
    given = [ad.tensor(normal(1, 2, *shape), requires_grad=True) for shape in ((4, 3), (5, 3), (5, 2))]
    mask = ad.tensor(normal(2, 4, 5), requires_grad=True)
    assert ad.autograd.gradcheck(F.scaled_dot_product_attention, [*given, mask])


def test_transforms() -> None:
    q, k, v = (ad.tensor(normal(5, 2, n, 3)) for n in (4, 6, 6))
    mask = ad.tensor(hiding(4, 6))

    def attend(q: Any, k: Any, v: Any) -> Any:
        return F.scaled_dot_product_attention(q, k, v, mask)

    whole = attend(q, k, v)
    np.testing.assert_allclose(ad.vmap(attend)(q, k, v).numpy(), whole.numpy(), rtol=1e-12)
    t = ad.tensor(normal(*q.shape))
    _, pushed = ad.func.jvp(attend, (q, k, v), (t, k, v))
    step = 1e-6
    ahead, behind = (
        attend(q + step * t, k * (1 + step), v * (1 + step)),
        attend(q - step * t, k * (1 - step), v * (1 - step)),
    )
    np.testing.assert_allclose(pushed.numpy(), ((ahead - behind) / (2 * step)).numpy(), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("settings", ["causal", "masked", "plain"])
def test_compiled_step_has_one_equation_each_way(settings: str) -> None:
    pytest.importorskip("llvmlite")
    mask = ad.tensor(hiding(6, 6)) if settings == "masked" else None
    projection = ad.tensor(normal(4, 12), requires_grad=True)
    x = ad.tensor(normal(2, 6, 4))

    def attend(x: Any) -> Any:
        projection.grad = None
        parts = (x @ projection).split(4, dim=2)
        q, k, v = (p.view(2, 6, 2, 2).transpose(1, 2) for p in parts)
        out = F.scaled_dot_product_attention(q, k, v, mask, is_causal=settings == "causal")
        loss = (out.transpose(1, 2).reshape(2, 6, 4) ** 2).sum()
        loss.backward()
        return loss

    expected = float(attend(x))
    slope = projection.grad.numpy().copy()
    step = ad.compile(attend)
    np.testing.assert_allclose(float(step(x)), expected, rtol=1e-12)
    np.testing.assert_allclose(projection.grad.numpy(), slope, rtol=1e-11, atol=1e-12)
    names = [value.op.name for value in step.graph.equations]
    assert names.count("attention") == names.count("attention_gradient") == 1


def test_nothing_is_kept_when_the_gradient_is_gone() -> None:
    q, k, v = (ad.tensor(normal(1, 2, 3, 4), requires_grad=name == "q") for name in "qkv")
    out = ops.attention(q, k, v, None, scale=1.0, causal=False)
    g = ad.tensor(normal(*out.shape))
    ad.autograd.grad(out, q, g)
    del g
    assert ops._gradient_cache.found is None
    assert ops._gradient_cache.arrays == ()


def test_backward_from_outside_of_a_compiled_function() -> None:
    pytest.importorskip("llvmlite")
    given = [ad.tensor(normal(2, 3, 5, 4), requires_grad=True) for _ in range(3)]

    def attend(q: Any, k: Any, v: Any) -> Any:
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)

    g = ad.tensor(normal(2, 3, 5, 4))
    expected = ad.autograd.grad(attend(*given), given, g)
    for ours, theirs in zip(ad.autograd.grad(ad.compile(attend)(*given), given, g), expected, strict=True):
        np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize(
    "settings", ["", ", is_causal=True", ", attn_mask=m", ", attn_mask=m.half()", ", attn_mask=m > 0"]
)
def test_half_precision_is_summed_in_float32(settings: str) -> None:
    x = np.sin(np.arange(96.0)).reshape(2, 2, 6, 4).astype(np.float16)
    same(
        f"t.nn.functional.scaled_dot_product_attention(x, x, x{settings})",
        x=x,
        m=np.cos(np.arange(36.0)).reshape(6, 6).astype(np.float32),
    )
    with pytest.raises(RuntimeError, match="to have the same dtype"):
        F.scaled_dot_product_attention(ad.tensor(x), ad.tensor(x).float(), ad.tensor(x))
