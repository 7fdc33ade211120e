"""Arrays joined natively: the elements of NumPy's call for any layout, and None for what does not go together."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.core.op.eager_kernels import MAX_CALLS_OF_SMALL_ROWS, LateKernel, kernel_provider
from adjoint.functions.shape import join

pytest.importorskip("llvmlite")
from adjoint.compiler.kernels.small_arrays.loading import routine

LAYOUTS: dict[str, Callable[[Any], Any]] = {
    "row-major": lambda x: x,
    "column-major": np.asfortranarray,
    "backward": lambda x: x[::-1].copy()[::-1],
    "expanded": lambda x: np.broadcast_to(x[:1], x.shape),
}
TYPES = [np.float32, np.float64, np.int64]


@pytest.fixture(autouse=True)
def strict(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel_provider, "strict", True)


def draw(shape: tuple[int, ...], dtype: Any) -> Any:
    return (np.random.default_rng([*shape]).random(shape) * 100).astype(dtype)


def native(name: str) -> Any:
    found = routine(name)
    assert found is not None
    return found


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(
    ("shapes", "axis"),
    [
        ([(2, 3), (2, 5)], 1), ([(2, 3), (4, 3), (1, 3)], 0), ([(7,), (0,), (3,)], 0), ([(3, 0), (3, 2)], 1),
        ([(2, 3, 4), (2, 1, 4), (2, 30, 4)], 1), ([(2, 3, 17), (2, 3, 19)], 2), ([(5, 2)], 0),
    ],
)  # fmt: skip
def test_arrays_along_a_dimension(shapes: list[tuple[int, ...]], axis: int, layout: str, dtype: Any) -> None:
    parts = [LAYOUTS[layout](draw(shape, dtype)) for shape in shapes]
    counts = [sys.getrefcount(part) for part in parts]
    found = native("cat")(float(axis), *parts)
    assert [sys.getrefcount(part) for part in parts] == counts
    assert found.flags.c_contiguous
    assert found.flags.owndata
    np.testing.assert_array_equal(found, np.concatenate(parts, axis), strict=True)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("shape", [(4,), (2, 3), (2, 0), (2, 3, 33)])
def test_arrays_along_a_new_dimension(shape: tuple[int, ...], layout: str, dtype: Any) -> None:
    parts = [LAYOUTS[layout](draw(shape, dtype) + i) for i in range(3)]
    for axis in range(len(shape) + 1):
        found = native("stack")(float(axis), *parts)
        assert found.flags.c_contiguous
        np.testing.assert_array_equal(found, np.stack(parts, axis), strict=True)


def test_numbers_become_a_vector() -> None:
    numbers = [np.asarray(float(i)) for i in range(3)]
    np.testing.assert_array_equal(native("stack")(0.0, *numbers), [0, 1, 2])
    assert native("cat")(0.0, *numbers) is None


def test_what_does_not_go_together_is_left_alone() -> None:
    x = draw((2, 3), np.float32)
    cat, stack = native("cat"), native("stack")
    for others in ([draw((2, 4), np.float32)], [x.astype(np.float64)], [x[0]], [1.0], [x > 0]):
        assert cat(0.0, x, *others) is None
        assert stack(0.0, x, *others) is None
    assert cat(0.0, x > 0, x > 0) is None
    assert cat(0.0) is None
    assert cat(0, x, x) is None
    assert cat(2.0, x, x) is None
    assert cat(-1.0, x, x) is None
    assert stack(3.0, x, x) is None
    assert cat(0.0, *[draw((512, 128), np.float32)] * 5) is None


def test_the_functions_give_the_same_before_and_with_the_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = ad.rand(3, 4, requires_grad=True), ad.rand(3, 4)
    for function, name in ((ad.cat, "CAT"), (ad.stack, "STACK")):
        results = []
        for kernel in (LateKernel(name.lower()), native(name.lower())):
            with monkeypatch.context() as patch:
                patch.setattr(getattr(join, name), "call", getattr(kernel, "call", kernel))
                out = function([x, y, x.t().contiguous().t()], -1)
                (out * out.detach().cos()).sum().backward()
            assert x.grad is not None
            results.append((out.detach().numpy(), x.grad.numpy().copy(), type(out.grad_fn).__name__))
            x.grad = None
        for a, b in zip(*results, strict=True):
            np.testing.assert_array_equal(a, b)


def test_the_kernel_comes_after_many_calls() -> None:
    kernel, x = LateKernel("cat"), draw((2, 3), np.float32)
    for _ in range(MAX_CALLS_OF_SMALL_ROWS):
        assert kernel.call(0.0, x, x) is None
    np.testing.assert_array_equal(kernel.call(0.0, x, x), np.concatenate([x, x]))


def test_tensors_of_inference_mode_join_others() -> None:
    with ad.inference_mode():
        constant = ad.ones(2)
        assert ad.cat([constant, constant]).is_inference()
    x = ad.ones(2, requires_grad=True)
    (ad.cat([x, constant]) * 3.0).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [3.0, 3.0]
    assert ad.cat([ad.ones(2), ad.ones(2)]).grad_fn is None


def test_arrays_are_joined_once_bfloat16_and_inference_mode_were_used(monkeypatch: pytest.MonkeyPatch) -> None:
    with ad.inference_mode():
        parts = [ad.ones(2, 3, dtype=ad.bfloat16), ad.zeros(1, 3, dtype=ad.bfloat16)]
        assert ad.cat(parts).dtype is ad.bfloat16
    assert ad.stack([x.clone() for x in parts[:1] * 2]).dtype is ad.bfloat16
    taken: list[object] = []
    native = routine("cat")
    assert native is not None
    monkeypatch.setattr(join.CAT, "call", lambda *operands: taken.append(operands) or native(*operands))
    x = ad.ones(2, 3, requires_grad=True)
    ad.cat([x, x * 2]).sum().backward()
    assert len(taken) == 1
    assert x.grad is not None
    assert x.grad.tolist() == [[3.0] * 3] * 2
