"""Sums with scaled products, quotients and shares: one op each, of the bits that several ops give, and their slopes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.core.op.elementwise_kernels import MIN_ELEMENTS

Of = Callable[[Any, Any, Any], Any]
CALLS: dict[str, tuple[str, Of, Of]] = {  # the node's name, the function, and the same by several ops
    "addcmul": ("AddcmulBackward0", lambda x, y, z: ad.addcmul(x, y, z), lambda x, y, z: x + y * z),
    "addcmul with a value": (
        "AddcmulBackward0", lambda x, y, z: ad.addcmul(x, y, z, value=-0.3), lambda x, y, z: x + y * -0.3 * z,
    ),
    "addcdiv": ("AddcdivBackward0", lambda x, y, z: ad.addcdiv(x, y, z, value=2), lambda x, y, z: x + y * 2.0 / z),
    "lerp": ("LerpBackward0", lambda x, y, z: ad.lerp(x, y, 0.3), lambda x, y, z: x + (y - x) * 0.3),
    "lerp from the other end": (
        "LerpBackward0", lambda x, y, z: ad.lerp(x, y, 0.75), lambda x, y, z: y - (y - x) * 0.25,
    ),
    "lerp by tensors": (
        "LerpBackward1",
        lambda x, y, z: ad.lerp(x, y, z),
        lambda x, y, z: ad.where(z.abs() < 0.5, x + (y - x) * z, y - (y - x) * (1 - z)),
    ),
}  # fmt: skip


def draw(shape: tuple[int, ...], dtype: Any, columns: int | None = None) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(shape[0])
    sizes = shape, shape if columns is None else (columns,), shape
    x, y, z = (ad.tensor(rng.uniform(0.1, 1.0, size), dtype=dtype).requires_grad_() for size in sizes)
    return x, y, z


@pytest.mark.parametrize("dtype", [ad.float32, ad.float64])
@pytest.mark.parametrize("shape", [(3, 4), (MIN_ELEMENTS, 2)])
@pytest.mark.parametrize("name", CALLS)
def test_one_op_gives_the_bits_of_several(name: str, shape: tuple[int, ...], dtype: Any) -> None:
    node, function, plain = CALLS[name]
    out = function(*draw(shape, dtype))
    assert out.grad_fn.name() == node
    np.testing.assert_array_equal(out.detach().numpy(), plain(*draw(shape, dtype)).detach().numpy())


@pytest.mark.parametrize("columns", [None, 4])
@pytest.mark.parametrize("name", CALLS)
def test_slopes(name: str, columns: int | None) -> None:
    _, function, _ = CALLS[name]
    given = draw((3, 4), ad.float64, columns)
    assert ad.autograd.gradcheck(function, given)
    assert ad.autograd.gradgradcheck(function, given)


@pytest.mark.parametrize("name", CALLS)
def test_compiled_steps_give_the_same(name: str) -> None:
    _, function, _ = CALLS[name]
    given = [each.detach() for each in draw((3, 4), ad.float32)]
    np.testing.assert_allclose(ad.compile(function)(*given).numpy(), function(*given).numpy(), rtol=1e-6)


@pytest.mark.parametrize("dtype", [ad.float16, ad.int64])
def test_other_types_take_several_ops(dtype: Any) -> None:
    x = ad.tensor([1, 2, 3], dtype=dtype)
    assert ad.addcmul(x, x, x).tolist() == [2, 6, 12]
    assert ad.addcmul(x, x, x).dtype is dtype
