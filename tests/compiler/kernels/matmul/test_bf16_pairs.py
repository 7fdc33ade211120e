"""Products of operands rounded to bfloat16 against NumPy in float64: in vectors, and in tile registers."""

from __future__ import annotations

import sys
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.compiler.kernels.matmul.test_matmul import LAYOUTS, SHAPES, Guarded, matrix
from tests.support.kernels.matmul import Array, assert_close, multiply, narrowed, plan, write
from tests.support.kernels.tile_registers import TileRegisters

from adjoint.compiler.cache import plan_cache
from adjoint.compiler.kernels.matmul import plan as product_plan
from adjoint.compiler.kernels.matmul.bf16_rounding import Rounding, choose_rounding
from adjoint.compiler.kernels.matmul.matmul import MatmulPlan
from adjoint.compiler.llvm.jit import target
from adjoint.compiler.llvm.jit.target import Target
from adjoint.compiler.llvm.types import F32, F64

X86 = "x86_64-unknown-linux-gnu"
PAIRS = "+avx512f,+avx512bw,+avx512dq,+avx512vl,+avx512bf16"
TILES = ",+amx-tile,+amx-bf16"
rounds = pytest.mark.skipif(choose_rounding(target.host(), F32, "medium") is None, reason="this machine rounds nothing")


class Way(NamedTuple):
    """One way to round: on this machine, or on it with tile registers, which are memory."""

    emulated: bool
    precision: str

    @property
    def machine(self) -> Target:
        return tile_registers() if self.emulated else target.host()


@cache
def tile_registers() -> Target:
    return TileRegisters()


WAYS = [
    pytest.param(Way(False, "medium"), marks=rounds, id="host"),
    pytest.param(Way(True, "medium"), id="tiles", marks=pytest.mark.nightly),  # slow, and two parts do it too
    pytest.param(Way(True, "high"), id="tiles, two parts"),
]
every = pytest.mark.parametrize("way", WAYS)


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Operands are rounded whatever is gained."""
    monkeypatch.setattr(plan_cache, "MIN_EQUATIONS_TO_CACHE", sys.maxsize)
    monkeypatch.setattr(product_plan, "MIN_ROUNDING_SPEEDUP", 0.0)


def rounded(x: Array) -> Array:
    """To bfloat16, ties to even."""
    bits = np.ascontiguousarray(x).view(np.uint32).astype(np.uint64)
    near = (bits + 0x7FFF + (bits >> 16 & 1) & 0xFFFF0000).astype(np.uint32).view(np.float32)
    return np.where(np.isnan(x), np.float32(np.nan), near)


def paired(x: Array, y: Array, way: Way, *, direct: bool = False) -> MatmulPlan:
    product = plan(x, y, way.machine, direct=direct, precision=way.precision)
    assert product.blocking.is_paired
    assert product.blocking.is_tiled == way.emulated or "+amx-bf16" in way.machine.features
    return product


def check(x: Array, y: Array, way: Way, *, direct: bool = False) -> None:
    """The sums are those of rounded operands, which are near those of the operands themselves."""
    verify(multiply(x, y, way.machine, product=paired(x, y, way, direct=direct)), x, y, way)


def verify(result: Array, x: Array, y: Array, way: Way) -> None:
    wide, terms = (np.matmul(f(x.astype(np.float64)), f(y.astype(np.float64))) for f in (np.asarray, np.abs))
    if way.precision == "medium":
        assert_close(result, rounded(x), rounded(y))
        assert (np.abs(result - wide) <= 1.01 * 2.0**-7 * terms).all()
    else:  # 16 bits of each operand, and sums of float32
        limit = 1.01 * 2.0**-15.4 + 4 * np.finfo(np.float32).eps * np.sqrt(x.shape[-1])
        assert (np.abs(result - wide) <= limit * terms).all()


@pytest.mark.sweep(4)
@every
@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("layout", LAYOUTS)
def test_products_of_all_layouts(layout: str, way: Way) -> None:
    for m, n, k in SHAPES[:: 2 if way.emulated else 1]:
        if k > 1:
            check(matrix(m, k, layout=layout[0]), matrix(k, n, layout=layout[1], seed=1), way)


@pytest.mark.sweep(4)
@every
@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("direct", [False, True])
@pytest.mark.parametrize(
    ("left", "right"),
    [((3, 7, 20), (3, 20, 33)), ((4, 6, 16), (16, 40)), ((5, 17), (3, 17, 24)), ((2, 1, 5, 8), (1, 3, 8, 6))],
)
def test_batches_broadcast(left: tuple[int, ...], right: tuple[int, ...], direct: bool, way: Way) -> None:
    for layout in "NT":
        check(matrix(*left), matrix(*right, layout=layout, seed=1), way, direct=direct)


@rounds
@given(data=st.data())
@settings(max_examples=40, deadline=None)
def test_any_shape(data: st.DataObject) -> None:
    check_shape(Way(False, "medium"), data)


@given(data=st.data())
@settings(max_examples=10, deadline=None)
def test_any_shape_in_tile_registers(data: st.DataObject) -> None:
    check_shape(Way(True, "high"), data)


def check_shape(way: Way, data: st.DataObject) -> None:
    sizes = st.integers(1, 40) | st.sampled_from([48, 64, 65, 100])
    m, n = data.draw(sizes), data.draw(sizes)
    k = data.draw(st.integers(2, 70) | st.sampled_from([300, 5001]))
    batch = data.draw(st.lists(st.integers(1, 3), max_size=1))
    layout = data.draw(st.sampled_from(LAYOUTS))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(product_plan, "MIN_ROUNDING_SPEEDUP", 0.0)
        check(matrix(*batch, m, k, layout=layout[0]), matrix(*batch, k, n, layout=layout[1], seed=1), way)


@every
@pytest.mark.usefixtures("always")
def test_each_element_is_rounded_to_nearest_and_what_is_special_stays(way: Way) -> None:
    tiny, least = np.float32(1e-45), np.finfo(np.float32).tiny
    numbers = np.array(
        [1, -1, 1 + 2**-8, 1 + 3 * 2**-8, 1 + 2**-8 + 2**-20, np.pi, -0.1, 3e38, np.inf, -np.inf, np.nan, least, 1e-38,
         tiny, -tiny, 65504, 1e30, -1e-30],
        np.float32,
    )  # fmt: skip
    k = 33
    eye = np.eye(k, dtype=np.float32)
    expected = rounded(np.where(np.abs(numbers) < least, 0, numbers))
    if way.precision == "high":  # two parts each
        with np.errstate(invalid="ignore"):
            rest = rounded(numbers - expected)
        expected = np.where(np.isfinite(expected) & (np.abs(rest) >= least), expected + rest, expected)
    for column in (0, 31, 32):
        x = np.zeros((len(numbers), k), np.float32)
        x[:, column] = numbers
        for left in (x, np.asfortranarray(x)):
            result = multiply(left, eye, way.machine, product=paired(left, eye, way))
            np.testing.assert_array_equal(result[:, column], expected)
        for right in (x.T, np.asfortranarray(x.T)):
            result = multiply(eye, right, way.machine, product=paired(eye, right, way))
            np.testing.assert_array_equal(result[column], expected)


@every
@pytest.mark.usefixtures("always")
def test_nan_and_infinity_stay_in_their_rows_and_columns(way: Way) -> None:
    for m, n, k in SHAPES:
        if k == 1:
            continue
        x, y = matrix(m, k), matrix(k, n, layout="T", seed=1)
        x[m // 2, k // 2], y[k - 1, n - 1] = np.inf, np.nan
        with np.errstate(invalid="ignore"):
            wide = x.astype(np.float64) @ y.astype(np.float64)
        result = multiply(x, y, way.machine, product=paired(x, y, way))
        assert np.array_equal(np.isnan(result), np.isnan(wide))
        assert np.array_equal(np.isinf(result), np.isinf(wide))


@pytest.mark.sweep(4)
@every
@pytest.mark.usefixtures("always")
@pytest.mark.skipif(sys.platform != "linux", reason="asks the C library for guarded pages")
@pytest.mark.parametrize("layout", LAYOUTS)
def test_nothing_outside_the_operands_is_read(layout: str, way: Way) -> None:
    for m, n, k in [shape for shape in SHAPES if shape[2] > 1][:: 2 if way.emulated else 1]:
        for at_end in (True, False):
            with Guarded(4 * m * k, at_end) as left, Guarded(4 * k * n, at_end) as right:
                x, y = left.matrix(m, k, layout[0]), right.matrix(k, n, layout[1])
                x[...], y[...] = matrix(m, k), matrix(k, n, seed=1)
                verify(multiply(x, y, way.machine, product=paired(x, y, way)), x, y, way)
                del x, y


@pytest.mark.sweep(4)
@every
@pytest.mark.parametrize("layout", LAYOUTS)
def test_tiles_in_any_order_and_another_grid_give_the_same_bits(layout: str, way: Way) -> None:
    sizes: list[tuple[tuple[int, ...], int, int, int]] = [((), 200, 300, 257), ((9,), 64, 65, 200)]
    for batch, m, n, k in sizes if way.emulated else [*sizes, ((), 100, 130, 5001)]:
        x, y = matrix(*batch, m, k, layout=layout[0]), matrix(*batch, k, n, layout=layout[1], seed=1)
        if "+amx-bf16" in way.machine.features:  # for which the others are one tile
            x, y = np.concatenate([x] * 4, -2), np.concatenate([y] * 2, -1)
        product, machine = paired(x, y, way), way.machine
        assert product.tiles > 1
        one = product._replace(grid=(1, 1, 1), tiles=1, scratch=20 * product.scratch)
        forth = multiply(x, y, machine, product=product)
        verify(forth, x, y, way)
        assert np.array_equal(forth, multiply(x, y, machine, product=product, order=range(product.tiles)[::-1]))
        assert np.array_equal(forth, multiply(x, y, machine, product=one))


@rounds
def test_where_rounding_gains_time() -> None:
    for left, right in [((512, 512), (512, 512)), ((64, 784), (784, 256)), ((8, 128, 64), (8, 64, 128))]:
        product = plan(matrix(*left), matrix(*right), precision="medium")
        assert product.blocking.is_paired
        assert "inputs rounded to bfloat16" in product.reason
    for left, right in [((1, 784), (784, 256)), ((16, 16), (16, 16)), ((512, 512), (512, 1)), ((64, 2), (2, 64))]:
        assert not plan(matrix(*left), matrix(*right), precision="medium").blocking.is_paired


@pytest.mark.parametrize("precision", ["medium", "high"])
def test_where_tile_registers_gain_time(precision: str) -> None:
    machine = tile_registers()
    for left, right in [((512, 512), (512, 512)), ((32, 256), (256, 128)), ((8, 128, 64), (8, 64, 128))]:
        product = plan(matrix(*left), matrix(*right), machine, precision=precision)
        assert product.blocking.is_tiled
        assert "tile registers" in product.reason
    for left, right in [((1, 784), (784, 256)), ((4, 4), (4, 4)), ((512, 512), (512, 1)), ((64, 2), (2, 64))]:
        assert not plan(matrix(*left), matrix(*right), machine, precision=precision).blocking.is_tiled


def test_operands_without_neighbours_are_not_rounded() -> None:
    gaps, plain = matrix(128, 128, layout="S"), matrix(128, 128)
    assert gaps.strides[1] != 4
    for x, y in ((gaps, plain), (plain, gaps)):
        for precision in ("medium", "high"):
            assert plan(x, y, tile_registers(), precision=precision) == plan(x, y, tile_registers())


def test_other_precisions_are_float32() -> None:
    x = matrix(256, 256)
    assert not plan(x, x, tile_registers(), precision="highest").blocking.is_paired
    if "+amx-bf16" not in target.host().features:
        assert plan(x, x, precision="high") == plan(x, x)
    wide = x.astype(np.float64)
    assert plan(wide, wide, precision="medium") == plan(wide, wide)


@pytest.mark.parametrize(
    ("triple", "features", "medium", "high"),
    [
        (X86, PAIRS, Rounding(1, False), None),
        (X86, PAIRS + TILES, Rounding(1, True), Rounding(2, True)),
        (X86, PAIRS.replace(",+avx512bf16", ""), None, None),
        (X86, PAIRS.replace(",+avx512bf16", TILES), None, None),
        (X86, "+avx2,+fma,-avx512f,-avx512bf16", None, None),
        (X86, "", None, None),
        ("aarch64-unknown-linux-gnu", "+bf16", None, None),
    ],
)
def test_only_where_the_target_gains(triple: str, features: str, medium: Rounding, high: Rounding) -> None:
    machine = Target.from_triple(triple, "", features)
    assert choose_rounding(machine, F32, "highest") is None
    assert choose_rounding(machine, F64, "medium") is None
    for precision, expected in (("medium", medium), ("high", high)):
        assert choose_rounding(machine, F32, precision) == expected
        for layout in LAYOUTS:
            x, y = matrix(256, 257, layout=layout[0]), matrix(257, 256, layout=layout[1])
            product = plan(x, y, machine, precision=precision)
            assert product.blocking.rounding == expected
            assembly = machine.emit_assembly(write(product, (256, 1)))
            assert ("vdpbf16ps" in assembly) == (expected == Rounding(1, False))
            assert ("tdpbf16ps" in assembly) == (expected is not None and expected.is_tiled)
            assert ("vcvtne2ps2bf16" in assembly) == (expected is not None)


def test_tile_registers_are_given_back() -> None:
    machine = Target.from_triple(X86, "", PAIRS + TILES)
    product = plan(matrix(256, 270), matrix(270, 256), machine, precision="high")
    assembly = machine.emit_assembly(write(product, (256, 1)))
    words = [line.split()[0] for line in assembly.splitlines() if line.startswith("\t")]
    assert [words.count(word) for word in ("ldtilecfg", "tilerelease", "retq")] == [1, 1, 1]
    assert words.index("ldtilecfg") < words.index("tilezero") < words.index("tilerelease") < words.index("retq")


def test_small_terms_are_kept_apart_from_large_ones() -> None:
    machine = tile_registers()
    x, y = np.ones((16, 512), np.float32), np.full((512, 16), 1 + 2**-12, np.float32)
    result = multiply(x, y, machine, product=plan(x, y, machine, precision="high"))
    assert np.array_equal(result, np.full((16, 16), 512 + 0.125, np.float32))


@pytest.mark.skipif(target.host().vector_bits < 512, reason="this machine is narrow itself")
def test_a_narrow_machine_multiplies_exactly() -> None:
    x, y = matrix(100, 120), matrix(120, 90)
    product = plan(x, y, narrowed(), precision="medium")
    result = multiply(x, y, narrowed(), product=product)
    assert np.array_equal(result, multiply(x, y, narrowed()))


@pytest.mark.parametrize("features", [PAIRS, PAIRS + TILES])
def test_code_does_not_grow_with_the_sizes(features: str) -> None:
    machine = Target.from_triple(X86, "", features)
    lengths = []
    for size in (201, 1001, 5001):
        x: Any = np.broadcast_to(np.zeros(1, np.float32), (size, size))
        y = matrix(size, size) if size < 1000 else np.lib.stride_tricks.as_strided(x, (size, size), (4 * size, 4))
        product = plan(y, y, machine, precision="medium")
        assert product.blocking.is_paired
        lengths.append(write(product._replace(scratch=0), (size, 1)).count("\n"))
    assert max(lengths) < 1500
