"""Products of operands rounded to bfloat16 against NumPy in float64."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.compiler.products import Array, assert_close, multiply, narrowed, plan, write
from tests.compiler.test_product import LAYOUTS, SHAPES, Guarded, matrix

from adjoint.compiler import plans
from adjoint.compiler.kernels.products import product_plan
from adjoint.compiler.kernels.products.pairs import gain
from adjoint.compiler.kernels.products.product import Product
from adjoint.compiler.llvm import target
from adjoint.compiler.llvm.target import Target
from adjoint.compiler.llvm.types import F32, F64

X86 = "x86_64-unknown-linux-gnu"
PAIRS = "+avx512f,+avx512bw,+avx512dq,+avx512vl,+avx512bf16"
rounding = pytest.mark.skipif(not gain(target.host(), F32, "medium"), reason="this machine rounds nothing")


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Operands are rounded whatever is gained."""
    monkeypatch.setattr(plans, "ENOUGH", sys.maxsize)
    monkeypatch.setattr(product_plan, "WORTH", 0.0)


def rounded(x: Array) -> Array:
    """To bfloat16, ties to even."""
    bits = np.ascontiguousarray(x).view(np.uint32).astype(np.uint64)
    near = (bits + 0x7FFF + (bits >> 16 & 1) & 0xFFFF0000).astype(np.uint32).view(np.float32)
    return np.where(np.isnan(x), np.float32(np.nan), near)


def paired(x: Array, y: Array, *, direct: bool = False) -> Product:
    product = plan(x, y, direct=direct, precision="medium")
    assert product.blocking.paired
    return product


def check(x: Array, y: Array, *, direct: bool = False) -> None:
    """The sums are those of rounded operands, which are near those of the operands themselves."""
    result = multiply(x, y, product=paired(x, y, direct=direct))
    assert_close(result, rounded(x), rounded(y))
    wide, terms = (np.matmul(f(x.astype(np.float64)), f(y.astype(np.float64))) for f in (np.asarray, np.abs))
    assert (np.abs(result - wide) <= 1.01 * 2.0**-7 * terms).all()


@rounding
@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("layout", LAYOUTS)
def test_products_of_all_layouts(layout: str) -> None:
    for m, n, k in SHAPES:
        if k > 1:
            check(matrix(m, k, layout=layout[0]), matrix(k, n, layout=layout[1], seed=1))


@rounding
@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("direct", [False, True])
@pytest.mark.parametrize(
    ("left", "right"),
    [((3, 7, 20), (3, 20, 33)), ((4, 6, 16), (16, 40)), ((5, 17), (3, 17, 24)), ((2, 1, 5, 8), (1, 3, 8, 6))],
)
def test_batches_broadcast(left: tuple[int, ...], right: tuple[int, ...], direct: bool) -> None:
    for layout in "NT":
        check(matrix(*left), matrix(*right, layout=layout, seed=1), direct=direct)


@rounding
@given(st.data())
@settings(max_examples=40, deadline=None)
def test_any_shape(data: st.DataObject) -> None:
    sizes = st.integers(1, 40) | st.sampled_from([48, 64, 65, 100])
    m, n = data.draw(sizes), data.draw(sizes)
    k = data.draw(st.integers(2, 70) | st.sampled_from([300, 5001]))
    batch = data.draw(st.lists(st.integers(1, 3), max_size=1))
    layout = data.draw(st.sampled_from(LAYOUTS))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(product_plan, "WORTH", 0.0)
        check(matrix(*batch, m, k, layout=layout[0]), matrix(*batch, k, n, layout=layout[1], seed=1))


@rounding
@pytest.mark.usefixtures("always")
def test_each_element_is_rounded_to_nearest_and_what_is_special_stays() -> None:
    tiny, least = np.float32(1e-45), np.finfo(np.float32).tiny
    numbers = np.array(
        [1, -1, 1 + 2**-8, 1 + 3 * 2**-8, 1 + 2**-8 + 2**-20, np.pi, -0.1, 3e38, np.inf, -np.inf, np.nan, least, 1e-38,
         tiny, -tiny, 65504, 1e30, -1e-30],
        np.float32,
    )  # fmt: skip
    k = 33
    for column in (0, 31, 32):
        x = np.zeros((len(numbers), k), np.float32)
        x[:, column] = numbers
        for left in (x, np.asfortranarray(x)):
            result = multiply(left, np.eye(k, dtype=np.float32), product=paired(left, np.eye(k, dtype=np.float32)))
            expected = rounded(np.where(np.abs(numbers) < least, 0, numbers))
            np.testing.assert_array_equal(result[:, column], expected)
        for right in (x.T, np.asfortranarray(x.T)):
            result = multiply(np.eye(k, dtype=np.float32), right, product=paired(np.eye(k, dtype=np.float32), right))
            np.testing.assert_array_equal(result[column], expected)


@rounding
@pytest.mark.usefixtures("always")
def test_nan_and_infinity_stay_in_their_rows_and_columns() -> None:
    for m, n, k in SHAPES:
        if k == 1:
            continue
        x, y = matrix(m, k), matrix(k, n, layout="T", seed=1)
        x[m // 2, k // 2], y[k - 1, n - 1] = np.inf, np.nan
        with np.errstate(invalid="ignore"):
            wide = x.astype(np.float64) @ y.astype(np.float64)
        result = multiply(x, y, product=paired(x, y))
        assert np.array_equal(np.isnan(result), np.isnan(wide))
        assert np.array_equal(np.isinf(result), np.isinf(wide))


@rounding
@pytest.mark.usefixtures("always")
@pytest.mark.skipif(sys.platform != "linux", reason="asks the C library for guarded pages")
@pytest.mark.parametrize("layout", LAYOUTS)
def test_nothing_outside_the_operands_is_read(layout: str) -> None:
    for m, n, k in [shape for shape in SHAPES if shape[2] > 1]:
        for at_end in (True, False):
            with Guarded(4 * m * k, at_end) as left, Guarded(4 * k * n, at_end) as right:
                x, y = left.matrix(m, k, layout[0]), right.matrix(k, n, layout[1])
                x[...], y[...] = matrix(m, k), matrix(k, n, seed=1)
                result = multiply(x, y, product=paired(x, y))
                assert_close(result, rounded(x), rounded(y))
                del x, y


@rounding
@pytest.mark.parametrize("layout", LAYOUTS)
def test_tiles_in_any_order_and_another_grid_give_the_same_bits(layout: str) -> None:
    for batch, m, n, k in [((), 200, 300, 257), ((9,), 64, 65, 200), ((), 100, 130, 5001)]:
        x, y = matrix(*batch, m, k, layout=layout[0]), matrix(*batch, k, n, layout=layout[1], seed=1)
        product = paired(x, y)
        assert product.tiles > 1
        one = product._replace(grid=(1, 1, 1), tiles=1, scratch=20 * product.scratch)
        forth = multiply(x, y, product=product)
        assert_close(forth, rounded(x), rounded(y))
        assert np.array_equal(forth, multiply(x, y, product=product, order=range(product.tiles)[::-1]))
        assert np.array_equal(forth, multiply(x, y, product=one))


@rounding
def test_where_rounding_gains_time() -> None:
    for left, right in [((512, 512), (512, 512)), ((64, 784), (784, 256)), ((8, 128, 64), (8, 64, 128))]:
        product = plan(matrix(*left), matrix(*right), precision="medium")
        assert product.blocking.paired
        assert "inputs rounded to bfloat16" in product.reason
    for left, right in [((1, 784), (784, 256)), ((16, 16), (16, 16)), ((512, 512), (512, 1)), ((64, 2), (2, 64))]:
        assert not plan(matrix(*left), matrix(*right), precision="medium").blocking.paired


def test_operands_without_neighbours_are_not_rounded() -> None:
    gaps, plain = matrix(128, 128, layout="S"), matrix(128, 128)
    assert gaps.strides[1] != 4
    for x, y in ((gaps, plain), (plain, gaps)):
        assert plan(x, y, precision="medium") == plan(x, y)


@pytest.mark.parametrize("precision", ["highest", "high"])
def test_other_precisions_are_float32(precision: str) -> None:
    x = matrix(256, 256)
    assert plan(x, x, precision=precision) == plan(x, x)
    wide = x.astype(np.float64)
    assert plan(wide, wide, precision="medium") == plan(wide, wide)


@pytest.mark.parametrize(
    ("triple", "features", "rounds"),
    [
        (X86, PAIRS, True),
        (X86, PAIRS + ",+amx-tile,+amx-bf16", False),  # two pipes for fma, one for pairs
        (X86, PAIRS.replace(",+avx512bf16", ""), False),
        (X86, "+avx2,+fma,-avx512f,-avx512bf16", False),
        (X86, "", False),
        ("aarch64-unknown-linux-gnu", "+bf16", False),
    ],
)
def test_only_where_the_target_gains(triple: str, features: str, rounds: bool) -> None:
    machine = Target.from_triple(triple, "", features)
    assert gain(machine, F32, "medium") == rounds
    assert not gain(machine, F32, "high")
    assert not gain(machine, F64, "medium")
    for layout in LAYOUTS:
        x, y = matrix(256, 257, layout=layout[0]), matrix(257, 256, layout=layout[1])
        product = plan(x, y, machine, precision="medium")
        assert product.blocking.paired == rounds
        assembly = machine.emit_assembly(write(product, (256, 1)))
        assert ("vdpbf16ps" in assembly) == rounds
        assert ("vcvtne2ps2bf16" in assembly) == rounds


@pytest.mark.skipif(target.host().vector_bits < 512, reason="this machine is narrow itself")
def test_a_narrow_machine_multiplies_exactly() -> None:
    x, y = matrix(100, 120), matrix(120, 90)
    product = plan(x, y, narrowed(), precision="medium")
    result = multiply(x, y, narrowed(), product=product)
    assert np.array_equal(result, multiply(x, y, narrowed()))


def test_code_does_not_grow_with_the_sizes() -> None:
    machine = Target.from_triple(X86, "", PAIRS)
    lengths = []
    for size in (201, 1001, 5001):
        x: Any = np.broadcast_to(np.zeros(1, np.float32), (size, size))
        y = matrix(size, size) if size < 1000 else np.lib.stride_tricks.as_strided(x, (size, size), (4 * size, 4))
        product = plan(y, y, machine, precision="medium")
        assert product.blocking.paired
        lengths.append(write(product._replace(scratch=0), (size, 1)).count("\n"))
    assert max(lengths) < 1500
