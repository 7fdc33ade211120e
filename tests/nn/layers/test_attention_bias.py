"""Masks of causal attention as tensors of a class of their own."""

import numpy as np
import pytest
from adjoint.nn.attention.bias import CausalBias, CausalVariant, causal_lower_right, causal_upper_left
from tests.support.errors import assert_raises

import adjoint as ad
from adjoint.nn.functional import scaled_dot_product_attention


def test_corners() -> None:
    assert causal_upper_left(2, 3).tolist() == [[True, False, False], [True, True, False]]
    assert causal_lower_right(2, 3).tolist() == [[True, True, False], [True, True, True]]
    made = causal_lower_right(2, 3)
    assert (made.variant, made.seq_len_q, made.seq_len_kv) == (CausalVariant.LOWER_RIGHT, 2, 3)
    assert isinstance(made, CausalBias)
    assert_raises(AssertionError, "only supports 2D tensors", causal_upper_left, 2)
    assert_raises(AssertionError, "must be a CausalVariant", CausalBias, 1, 2, 3)


def test_they_go_without_the_flag() -> None:
    x = ad.randn(2, 5, 4)
    with pytest.raises(ValueError, match="CausalBias should not be used with causal=True"):
        scaled_dot_product_attention(x, x, x, attn_mask=causal_upper_left(5, 5), is_causal=True)


def test_attention_takes_them_as_masks() -> None:
    q, k, v = (ad.randn(2, 3, n, 4) for n in (5, 5, 5))
    np.testing.assert_allclose(
        scaled_dot_product_attention(q, k, v, attn_mask=causal_upper_left(5, 5)).numpy(),
        scaled_dot_product_attention(q, k, v, is_causal=True).numpy(),
        rtol=1e-6,
    )
