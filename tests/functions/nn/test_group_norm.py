"""Normalisation of groups and by the root of the mean square, against PyTorch."""

import numpy as np
import pytest
from tests.support.oracle import same, same_error

RNG = np.random.default_rng(1)
X = RNG.normal(size=(3, 4, 6))
W, B = RNG.normal(size=4), RNG.normal(size=4)


@pytest.mark.parametrize("call", [
    "rms_norm(x, (6,))", "rms_norm(x, [4, 6], eps=1e-3)", "rms_norm(x.mT, (4,), w)", "group_norm(x, 2, w, b)",
    "group_norm(x, 4)", "group_norm(x, 1, w, b, 0.1)", "group_norm(x[:, :, 0], 1)", "group_norm(x, 2, w)",
    "rms_norm(x, (5,))", "rms_norm(x, ())", "group_norm(x, 3)", "group_norm(x[0, 0], 2)", "group_norm(x, 2, w[:2])",
    "group_norm(x, 2, w, b[:3])", "group_norm(x[:1, :1, :1], 1)",
])  # fmt: skip
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_against_pytorch(call: str, dtype: type) -> None:
    same(f"t.nn.functional.{call}", x=X.astype(dtype), w=W.astype(dtype), b=B.astype(dtype), factor=10)


def test_errors() -> None:
    same_error("t.nn.functional.rms_norm(x, (5,))", "Given normalized_shape=[5], expected input with shape [*", x=X)
    same_error("t.nn.functional.group_norm(x, 3)", "Expected number of channels in input to be divisible by", x=X)
    same_error("t.nn.functional.rms_norm(x.long(), (6,))", "not implemented for", x=X)
