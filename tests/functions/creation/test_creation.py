"""Making tensors, against PyTorch: data, fills, ranges; memory shared with NumPy; what is refused."""

from typing import Any

import numpy as np
import pytest
from tests.support.errors import assert_raises
from tests.support.oracle import same, same_error

import adjoint as ad


@pytest.mark.parametrize("expression", [
    "t.tensor(1)", "t.tensor(1.5)", "t.tensor(True)", "t.tensor(1 + 2j)", "t.tensor([])", "t.tensor([[]])",
    "t.tensor([1, 2])", "t.tensor([1, 2.5])", "t.tensor([True, 2])", "t.tensor([1, True])",
    "t.tensor([True, False])", "t.tensor([[1, 2], [3, 4]])", "t.tensor((1.0, 2.0))",
    "t.tensor([1, 2], dtype=t.float64)", "t.tensor([1.7, -2.7], dtype=t.int32)",
    "t.tensor(1.0, requires_grad=True)", "t.tensor(n)", "t.tensor(h)", "t.tensor(b)", "t.tensor([n[0], n[1]])",
    "t.tensor([t.tensor(1.0), t.tensor(2.0)])", "t.as_tensor([1, 2])", "t.as_tensor(n)",
    "t.as_tensor(n, dtype=t.float16)", "t.asarray([1.5])", "t.asarray(n)", "t.from_numpy(n)", "t.zeros(2, 3)",
    "t.zeros((2, 3))", "t.zeros([2])", "t.zeros([])", "t.zeros(0)", "t.zeros(2, dtype=t.int64)", "t.ones(3)",
    "t.ones(2, 2, dtype=t.bool)", "t.ones((1,), requires_grad=True)", "t.zeros(t.Size([2, 1]))", "t.full((2,), 1)",
    "t.full((2,), 1.5)", "t.full((2,), True)", "t.full([], 3)", "t.full((2,), 1, dtype=t.float64)",
    "t.full((2, 2), t.tensor(3.5))", "t.full((2,), 2.5, dtype=t.int64)", "t.zeros_like(x)", "t.ones_like(x)",
    "t.full_like(x, 3)", "t.zeros_like(x, dtype=t.int32)", "t.full_like(i, 2.5)", "t.ones_like(i)",
    "t.empty(2, 3).shape", "t.empty_like(x).shape", "t.ones_like(x, requires_grad=True)", "t.arange(5)",
    "t.arange(5.0)", "t.arange(2, 9)", "t.arange(2, 9, 3)", "t.arange(5, 0, -2)", "t.arange(0, 1, 0.3)",
    "t.arange(0.5, 3)", "t.arange(5, dtype=t.float64)", "t.arange(0)", "t.arange(3, 3)", "t.arange(1, 2.5, 0.25)",
    "t.arange(0, -1, -0.1)", "t.arange(5, dtype=t.int32)", "t.arange(start=1, end=4)", "t.linspace(0, 1, 5)",
    "t.linspace(3, -2, 11)", "t.linspace(0, 1, 0)", "t.linspace(0, 1, 1)", "t.linspace(0, 10, 4, dtype=t.float64)",
    "t.linspace(start=0, end=1, steps=3)", "t.eye(3)", "t.eye(2, 3)", "t.eye(3, 2, dtype=t.int64)", "t.eye(0)",
    "t.tensor([1.0], dtype=t.float16)", "x.new_zeros(2)", "x.new_ones((2, 2))", "x.new_full((2,), 7)",
    "x.new_tensor([1, 2])", "i.new_zeros(2, 3)", "x.new_zeros(2, dtype=t.int64)", "t.tensor(b'ab'[0])",
    "t.tensor([2**40])", "t.scalar_tensor(3)", "t.scalar_tensor(3, dtype=t.int64)", "t.scalar_tensor(True)",
    "t.scalar_tensor(2.5, requires_grad=True)", "t.scalar_tensor(1j, dtype=t.complex64)",
])  # fmt: skip
def test_makers(expression: str) -> None:
    numpy_values = {"n": np.array([1.5, 2.5]), "h": np.array([1, 2], np.int16), "b": np.array([[True]])}
    expression = expression.replace("(n", "(t_n").replace("[n", "[t_n").replace(", n[", ", t_n[")
    expression = expression.replace("(h)", "(t_h)").replace("(b)", "(t_b)")
    holders = {f"t_{name}": _Raw(value) for name, value in numpy_values.items()}
    for name in holders:
        expression = expression.replace(name, f"{name}.array")
    same(expression, x=np.ones((2, 3)), i=np.array([1, 2, 3]), gradient=False, **holders)


class _Raw:
    """Brings an ndarray into an expression as it is."""

    def __init__(self, array: Any) -> None:
        self.array = array


@pytest.mark.parametrize(
    ("expression", "head"),
    [
        ("t.tensor([[1, 2], [3]])", "expected sequence of length 2 at dim 1 (got 1)"),
        ("t.tensor(300, dtype=t.uint8)", "value cannot be converted to type uint8 without overflow"),
        ("t.from_numpy([1])", "expected np.ndarray (got list)"),
        ("t.arange(0, 1, 0)", "step must be nonzero"),
        ("t.arange(0, 1, -1)", "upper bound and lower bound inconsistent with step sign"),
        ("t.zeros(-1)", ""),
        ("t.zeros(2.5)", ""),
        ("t.linspace(0, 1, -1)", "number of steps must be non-negative"),
        ("t.eye(-1)", "n must be greater or equal to 0, got -1"),
        ("t.tensor([1], requires_grad=True)", "require gradients"),
        ("t.zeros(2, dtype=t.int32, requires_grad=True)", "require gradients"),
        ("t.tensor(1.0, device='nowhere')", ""),
        ("t.scalar_tensor(1j)", "value cannot be converted to type float without overflow"),
    ],
)
def test_errors(expression: str, head: str) -> None:
    same_error(expression, head)


@pytest.mark.parametrize("data", ["a", ["a"], None, [None], object(), np.array(["a"]), np.array([object()])])
def test_data_without_numbers(data: Any) -> None:
    assert_raises(TypeError, r"can't convert|invalid data type", ad.tensor, data)


def test_from_numpy_shares_memory() -> None:
    array = np.zeros(3)
    x = ad.from_numpy(array)
    array[0] = 5
    x[1] = 7.0
    assert x.tolist() == array.tolist() == [5.0, 7.0, 0.0]
    assert np.shares_memory(x.numpy(), array)


def test_from_numpy_refuses_steps_between_elements() -> None:
    pairs = np.zeros(3, np.dtype([("a", np.int8), ("b", np.int16)]))
    assert_raises(ValueError, "strides not a multiple of the element byte size", lambda: ad.from_numpy(pairs["b"]))


def test_tensor_copies() -> None:
    array = np.zeros(3)
    x = ad.tensor(array)
    array[0] = 5
    assert x.tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize("write", [
    "x.add_(1)", "x.zero_()", "x.__setitem__(0, 1.0)", "x.copy_(ad.ones(3))", "x.normal_()", "x.view(3).mul_(2)",
])  # fmt: skip
def test_read_only_memory_is_never_written(write: str) -> None:
    array = np.arange(3.0, dtype=np.float32)
    array.flags.writeable = False
    x = ad.from_numpy(array)
    assert_raises(RuntimeError, "read-only", eval, write, {"x": x, "ad": ad})
    assert array.tolist() == [0.0, 1.0, 2.0]
    assert x._version == 0


def test_what_numpy_made_of_tensors_comes_back() -> None:
    rows: Any = [ad.ones(1, 2, requires_grad=True), ad.zeros(1, 2)]
    joined = ad.from_numpy(np.concatenate(rows))
    assert joined.tolist() == [[1.0, 1.0], [0.0, 0.0]]
    assert not joined.requires_grad


def test_negative_strides() -> None:
    array = np.arange(3.0)[::-1]
    assert_raises(ValueError, "stride in the given numpy array is negative", ad.from_numpy, array)
    for x in (ad.tensor(array), ad.as_tensor(array)):
        assert x.tolist() == [2.0, 1.0, 0.0]
        assert x.is_contiguous()


@pytest.mark.parametrize("kind", [">f4", ">f8", ">i4", ">i8", ">i2"])
def test_other_byte_order(kind: str) -> None:
    array = np.arange(3).astype(kind)
    if array.dtype.isnative:
        pytest.skip("this machine's own order")
    assert_raises(ValueError, "byte order", ad.from_numpy, array)
    for x in (ad.tensor(array), ad.as_tensor(array)):
        assert x.tolist() == [0, 1, 2]
        assert x.numpy().dtype.isnative


def test_shared_views_of_numpy_memory() -> None:
    array = np.zeros((4, 6))
    part = ad.from_numpy(array[1:3, ::2])
    part.fill_(1)
    assert array.sum() == 6
    assert part.stride() == (6, 2)


def test_default_dtype() -> None:
    ad.set_default_dtype(ad.float64)
    try:
        assert ad.tensor(1.5).dtype is ad.zeros(2).dtype is ad.arange(1.0).dtype is ad.float64
        assert (ad.tensor([1]) / 2).dtype is ad.float64
    finally:
        ad.set_default_dtype(ad.float32)
    assert ad.tensor(1.5).dtype is ad.float32
    assert_raises(TypeError, "expected a floating dtype", ad.set_default_dtype, ad.int32)


@pytest.mark.parametrize("make", [
    "zeros(2", "tensor(1.0", "rand(2", "arange(3", "full((2,), 1", "as_tensor([1]", "randint(3, (2,)",
])  # fmt: skip
def test_devices(make: str) -> None:
    assert eval(f"ad.{make}, device='cpu')", {"ad": ad}).device == ad.device("cpu")
    assert_raises(RuntimeError, "CPU only", eval, f"ad.{make}, device='cuda:0')", {"ad": ad})


def test_ragged_lists() -> None:
    assert_raises(ValueError, r"expected sequence of length 2 at dim 1 \(got 3\)", ad.tensor, [[1, 2], [1, 2, 3]])
    for ragged in ([np.ones((3, 3)), np.ones((3, 0))], [[np.ones((3, 2))], [np.ones((3, 1))]], [[1, 2, 3], np.ones(2)]):
        assert_raises(ValueError, "expected sequence of length", ad.tensor, ragged)
    assert_raises(TypeError, "not a sequence", lambda: ad.tensor([[np.ones(3), np.float64(1.0)]]))
    assert_raises(TypeError, "not a sequence: nested lists differ in depth at dim 1", ad.tensor, [[1, 2], 3])


def test_impossible_allocation_is_an_error_and_leaves_all_usable() -> None:
    assert_raises(RuntimeError, "can't allocate memory", lambda: ad.ones(2**44, 2**10))
    assert ad.ones(2).tolist() == [1.0, 1.0]


def test_full_keeps_the_sign_of_zero() -> None:
    assert np.signbit(ad.full((2,), -0.0).numpy()).all()
    assert not np.signbit(ad.full((2,), 0.0).numpy()).any()


@pytest.mark.parametrize("kind", [ad.int8, ad.int16, ad.int32])
def test_ranges_of_narrow_integers_count_with_the_fractions(kind: ad.dtype) -> None:
    for bounds, narrow, wide in (
        ((3.1,), [0, 1, 2, 3], [0, 1, 2]),
        ((1.0, 5.000001, 2.0), [1, 3, 5], [1, 3]),
        ((0.5, 3.2, 1.5), [0, 1], [0, 1, 2]),
        ((0.0, -8.000001, -4.0), [0, -4, -8], [0, -4]),
        ((5, 1, -1.5), [5, 4, 3], [5, 4, 3, 2]),
        ((-2.5, 2.5), [-2, -1, 0, 1, 2], [-2, -1, 0, 1]),
    ):
        assert ad.arange(*bounds, dtype=kind).tolist() == narrow
        assert ad.arange(*bounds, dtype=ad.int64).tolist() == wide
    assert ad.arange(0, 1, 0.5, dtype=kind).tolist() == [0, 0]
    assert_raises(ValueError, "step must be nonzero", ad.arange, 0, 1, 0.5, dtype=ad.int64)
