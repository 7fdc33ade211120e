"""Private functions that packages call do what PyTorch's do."""

from __future__ import annotations

from typing import Any

import pytest

import adjoint as ad
from adjoint import nn


def test_softmax_and_its_gradient() -> None:
    x = ad.tensor([[0.5, -1.0, 2.0], [1.0, 0.0, 0.25]], dtype=ad.float64, requires_grad=True)
    grad = ad.tensor([[1.0, 2.0, -0.5], [0.0, 1.0, 3.0]], dtype=ad.float64)
    for function, backward in (("_softmax", "_softmax_backward_data"), ("_log_softmax", "_log_softmax_backward_data")):
        out = getattr(ad, function)(x, 1, False)
        (expected,) = ad.autograd.grad(out, x, grad)
        ad.testing.assert_close(getattr(ad, backward)(grad, out.detach(), 1, ad.float64), expected)
    assert ad._softmax(x.half(), 0, True).dtype == ad.float32
    assert ad.library.ops.aten._softmax(x, 0, False).tolist() == ad.softmax(x, 0).tolist()


def test_rows_and_columns_of_sparse_matrices() -> None:
    rows, columns = ad.tensor([0, 0, 2, 3]), ad.tensor([1, 2, 0, 1])
    starts = ad._convert_indices_from_coo_to_csr(rows, 5)
    assert starts.tolist() == [0, 2, 2, 3, 4, 4]
    assert ad._convert_indices_from_csr_to_coo(starts, columns).tolist() == [[0, 0, 2, 3], [1, 2, 0, 1]]
    turned = ad._convert_indices_from_csr_to_coo(starts, columns, out_int32=True, transpose=True)
    assert (turned.tolist(), turned.dtype) == ([[1, 2, 0, 1], [0, 0, 2, 3]], ad.int32)


def test_unique_values_have_places_for_all_results() -> None:
    x = ad.tensor([[1, 2], [1, 2], [0, 1]])
    assert [each.tolist() for each in ad._VF.unique_dim(x, 0, True, True, True)] == [
        [[0, 1], [1, 2]],
        [1, 1, 0],
        [1, 2],
    ]
    assert [each.tolist() for each in ad._VF.unique_dim(x, 0)] == [[[0, 1], [1, 2]], [], []]
    assert [each.tolist() for each in ad._unique2(ad.tensor([3, 1, 3]), return_counts=True)] == [[1, 3], [], [1, 2]]


@pytest.mark.parametrize("shapes", [((5, 2), (2, 2, 3)), ((4, 5), (5, 3)), ((2, 4, 3), (3, 5)), ((2, 4, 3), (2, 3, 2))])
def test_products_of_groups(shapes: Any) -> None:
    a, b = (ad.arange(float(ad.Size(shape).numel())).reshape(shape) for shape in shapes)
    offs = ad.tensor([2, 5], dtype=ad.int32)
    if a.ndim == b.ndim == 3:
        assert nn.functional.grouped_mm(a, b).tolist() == (a @ b).tolist()
        return
    found = nn.functional.grouped_mm(a, b, offs=offs)
    groups = [(slice(0, 2), 0), (slice(2, 5), 1)]
    if a.ndim == b.ndim:
        expected = ad.stack([a[:, part] @ b[part] for part, _ in groups])
    elif a.ndim == 2:
        expected = ad.cat([a[part] @ b[i] for part, i in groups])
    else:
        expected = ad.cat([a[i] @ b[:, part] for part, i in groups], -1)
    assert found.tolist() == expected.tolist()
    assert ad._grouped_mm(a, b, offs=offs, out_dtype=ad.float64).dtype == ad.float64
    with pytest.raises(ValueError, match="need offs"):
        nn.functional.grouped_mm(a, b)


def test_swapped_tensors_are_what_the_other_was() -> None:
    first, second = ad.ones(2, requires_grad=True), nn.Parameter(ad.zeros(3))
    held = (first * 2).sum()
    first.mark = "first"  # type: ignore[attr-defined]
    ad.utils.swap_tensors(first, second)
    assert (first.tolist(), second.tolist()) == ([0.0] * 3, [1.0] * 2)
    assert (type(first), type(second)) == (nn.Parameter, ad.Tensor)
    assert second.mark == "first"  # type: ignore[attr-defined]
    held.backward()
    (first * 3).sum().backward()
    assert (first.grad.tolist(), second.grad.tolist()) == ([3.0] * 3, [2.0] * 2)  # type: ignore[union-attr]


def test_devices_types_and_checks() -> None:
    assert ad.get_device_module("cpu") is ad.cpu
    with pytest.raises(RuntimeError, match="cuda"):
        ad.get_device_module("cuda")
    assert (ad.get_autocast_cpu_dtype(), ad.get_autocast_gpu_dtype()) == (ad.bfloat16, ad.float16)
    with ad.autocast("cpu"):
        assert ad.is_autocast_cpu_enabled()
    assert ad._shape_as_tensor(ad.ones(2, 3)).tolist() == [2, 3]
    cast = ad.amp.autocast_mode._cast([ad.ones(1), {"a": (ad.ones(1).double(), 1)}], "cpu", ad.float16)
    assert (cast[0].dtype, cast[1]["a"][0].dtype) == (ad.float16, ad.float64)
    ad._check_with(KeyError, True, lambda: "no")
    with pytest.raises(KeyError, match="no"):
        ad._check_with(KeyError, False, lambda: "no")
    ad._check_tensor_all(ad.tensor([True, True]))
    with pytest.raises(RuntimeError, match="some are not"):
        ad._check_tensor_all(ad.tensor([True, False]), lambda: "some are not")
    with pytest.raises(TypeError, match="tensor of bools"):
        ad._check_tensor_all(ad.ones(2))
    assert ad._utils._get_device_index("cpu", allow_cpu=True) == -1
    with pytest.raises(ValueError, match="non cpu device"):
        ad._utils._get_device_index("cpu")


def test_facts_about_what_is_not_here() -> None:
    from adjoint.fx.experimental.symbolic_shapes import free_symbols, guard_or_false, has_free_symbols

    assert guard_or_false(bool(ad.ones(1)))
    assert (free_symbols(ad.ones(2)), has_free_symbols(3)) == (set(), False)
    assert not hasattr(ad.library.ops.absent_package, "function")
    assert ad.autograd._profiler_enabled() is False
    assert ad.mtia.is_available() is False
    assert str(ad._C._get_accelerator()) == "cpu"
    assert issubclass(ad.jit.TracerWarning, Warning)
