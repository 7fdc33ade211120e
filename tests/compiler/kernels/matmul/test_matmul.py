"""The matrix product kernel against NumPy in float64."""

from __future__ import annotations

import ctypes
import mmap
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.kernels.matmul import Array, assert_close, multiply, narrowed, plan, write

from adjoint.compiler.llvm.jit import target
from adjoint.compiler.llvm.jit.target import Target

X86 = target.host().triple.startswith("x86_64")
WIDE = X86 and target.host().vector_bits == 512
MACHINES = ["host", pytest.param("narrowed", marks=pytest.mark.skipif(not WIDE, reason="the host has no more"))]
LAYOUTS = ["NN", "NT", "TN", "TT"]

# (m, n, k): each way to cut a product, with and without ragged edges
SHAPES = [
    (1, 1, 1), (3, 5, 1), (1, 10, 784), (1, 256, 100), (1, 40, 3), (50, 1, 64), (7, 1, 1), (33, 3, 70), (40, 2, 500),
    (4, 30, 200), (8, 17, 65), (32, 128, 64), (13, 65, 33), (61, 130, 20), (97, 72, 49), (100, 10, 31), (10, 100, 32),
]  # fmt: skip


def machine_named(name: str) -> Target:
    return narrowed() if name == "narrowed" else target.host()


def matrix(*shape: int, layout: str = "N", dtype: Any = np.float32, seed: int = 0) -> Array:
    """Numbers in row-major order, or in column-major order for layout T, or with steps of 2 and -3 for S."""
    draw = np.random.default_rng([seed, *shape]).standard_normal
    *batch, m, n = shape
    if layout == "T":
        return draw((*batch, n, m)).astype(dtype).swapaxes(-1, -2)
    if layout == "S":
        return draw((*batch, 2 * m, 3 * n)).astype(dtype)[..., ::2, ::-3]
    return draw(shape).astype(dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", MACHINES)
def test_products_of_all_layouts(name: str, layout: str, dtype: Any) -> None:
    for m, n, k in SHAPES:
        x, y = matrix(m, k, layout=layout[0], dtype=dtype), matrix(k, n, layout=layout[1], dtype=dtype, seed=1)
        assert_close(multiply(x, y, machine_named(name)), x, y)


@pytest.mark.parametrize("shape", [(0, 3, 4), (3, 0, 4), (3, 4, 0), (1, 1, 0), (40, 40, 0), (5, 1, 0)])
def test_without_elements_or_terms(shape: tuple[int, int, int]) -> None:
    m, n, k = shape
    x, y = matrix(m, k), matrix(k, n)
    assert plan(x, y).tiles == (1 if m * n else 0)
    assert np.array_equal(multiply(x, y), np.zeros((m, n), np.float32))
    empty = matrix(0, 3, 4)
    assert plan(empty, matrix(4, 5)).tiles == 0
    assert multiply(empty, matrix(4, 5)).shape == (0, 3, 5)


@pytest.mark.parametrize("direct", [False, True])
@pytest.mark.parametrize(
    ("left", "right"),
    [
        ((3, 7, 20), (3, 20, 33)), ((2, 3, 9, 8), (2, 3, 8, 4)), ((4, 6, 16), (16, 40)), ((2, 3, 5, 16), (3, 16, 9)),
        ((5, 16), (3, 16, 24)), ((2, 1, 5, 8), (1, 3, 8, 6)), ((3, 2, 1, 30), (30, 7)), ((1, 1, 4, 6), (6, 5)),
        ((2, 3, 4, 40), (1, 1, 40, 1)),
    ],
)  # fmt: skip
def test_batches_broadcast(left: tuple[int, ...], right: tuple[int, ...], direct: bool) -> None:
    x, y = matrix(*left), matrix(*right, seed=1)
    assert_close(multiply(x, y, direct=direct), x, y)
    turned = matrix(*right, layout="T", seed=1)
    assert_close(multiply(x, turned, direct=direct), x, turned)


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_any_shape_and_strides(data: st.DataObject) -> None:
    sizes = st.integers(1, 40) | st.sampled_from([48, 64, 65, 100, 128])
    m, n = data.draw(sizes), data.draw(sizes)
    k = data.draw(sizes | st.sampled_from([300, 2500]))
    batch = data.draw(st.lists(st.integers(1, 3), max_size=2))
    dtype = data.draw(st.sampled_from([np.float32, np.float64]))
    sides = []
    for size in ((m, k), (k, n)):
        layout = data.draw(st.sampled_from("NTS"))
        own = [1 if data.draw(st.booleans()) else b for b in batch]
        side = matrix(*own, *size, layout=layout, dtype=dtype)
        axis = data.draw(st.sampled_from([None, None, None, -1, -2]))
        if axis is not None:  # broadcast along a row or a column
            side = np.broadcast_to(side.take([0], axis), side.shape)
        sides.append(side)
    direct = data.draw(st.booleans())
    name = data.draw(st.sampled_from(["host", "narrowed"] if WIDE else ["host"]))
    assert_close(multiply(*sides, machine_named(name), direct=direct), *sides)


def test_result_with_gaps_is_written_between_them_only() -> None:
    for m, n, k in SHAPES:
        x, y = matrix(m, k), matrix(k, n, layout="T", seed=1)
        memory = np.full((m + 2, n + 5), 7.0, np.float32)
        out = memory[1:-1, 2:-3]
        out[...] = 0
        multiply(x, y, out=out)
        assert_close(out, x, y)
        out[...] = 7
        assert (memory == 7).all()


@pytest.mark.skipif(sys.platform != "linux", reason="asks the C library for guarded pages")
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", MACHINES)
def test_nothing_outside_the_operands_is_read(name: str, layout: str) -> None:
    for m, n, k in SHAPES:
        for at_end in (True, False):
            with Guarded(4 * m * k, at_end) as left, Guarded(4 * k * n, at_end) as right:
                x, y = left.matrix(m, k, layout[0]), right.matrix(k, n, layout[1])
                x[...], y[...] = matrix(m, k), matrix(k, n, seed=1)
                assert_close(multiply(x, y, machine_named(name)), x.copy(), y.copy())
                del x, y


@pytest.mark.parametrize("layout", LAYOUTS)
def test_tiles_in_any_order_give_the_same_bits(layout: str) -> None:
    for batch, m, n, k in [((), 200, 300, 257), ((9,), 64, 65, 200), ((2,), 300, 120, 100), ((), 1, 3000, 900)]:
        x, y = matrix(*batch, m, k, layout=layout[0]), matrix(*batch, k, n, layout=layout[1], seed=1)
        product = plan(x, y)
        assert product.tiles > 1
        forth = multiply(x, y)
        back = multiply(x, y, order=range(product.tiles)[::-1])
        assert_close(forth, x, y)
        assert np.array_equal(forth, back)


def test_another_grid_gives_the_same_bits() -> None:
    x, y = matrix(200, 2500), matrix(2500, 300)
    product = plan(x, y)
    one = product._replace(grid=(1, 1, 1), tiles=1, scratch=10 * product.scratch)
    assert np.array_equal(multiply(x, y, product=product), multiply(x, y, product=one))


@pytest.mark.parametrize(("m", "n"), [(64, 128), (256, 256)])
def test_tiles_of_a_long_depth_read_operands_few_times(m: int, n: int) -> None:
    x, y = matrix(m, 8192, layout="T"), matrix(8192, n)
    _, down, across = plan(x, y).grid
    assert down * across > 1
    assert down * y.nbytes + across * x.nbytes <= 3 * (x.nbytes + y.nbytes)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", MACHINES)
@pytest.mark.parametrize(("m", "n", "k"), [(131, 130, 1600), (97, 200, 2100), (331, 144, 700), (2, 256, 120_000)])
def test_left_operand_over_many_pages_is_packed(name: str, dtype: Any, m: int, n: int, k: int) -> None:
    x, y = matrix(m, k, layout="T", dtype=dtype), matrix(k, n, dtype=dtype, seed=1)
    machine = machine_named(name)
    product = plan(x, y, machine)
    assert product.blocking.pack_left
    pitch = product.left_pitch(product.blocking.rows)
    assert pitch & (pitch - 1) == 0
    assert_close(multiply(x, y, machine), x, y)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_tiles_pack_little_again(layout: str) -> None:
    """A tile packs its rows and its columns: few tiles share either, so that all packing takes a small part."""
    for m, n, k in [(1024, 384, 1024), (384, 1536, 1024), (256, 256, 256), (1024, 384, 1536)]:
        product = plan(matrix(m, k, layout=layout[0]), matrix(k, n, layout=layout[1]))
        _, down, across = product.grid
        packed = product.blocking.pack_right * k * n * (down - 1) + product.blocking.pack_left * k * m * (across - 1)
        assert down * across > 1
        assert packed * 32 <= m * n * k


def test_what_follows_is_prepared_for_each_block() -> None:
    x, y = matrix(61, 40), matrix(40, 130)
    product = plan(x, y, direct=True)
    blocks: list[tuple[int, int]] = []
    write(product, (130, 1), lambda origin, rows, columns: blocks.append((rows, columns)))
    panels, rows, longer = product.blocking.panels(61)
    heights = {rows + 1, rows} if 0 < longer < panels else {rows + (longer > 0)}
    assert {height for height, _ in blocks} == heights
    assert {width for _, width in blocks} == {product.blocking.width, 130 % product.blocking.width}


def test_finished_from_registers_gives_the_same_bits() -> None:
    x, y = matrix(61, 40), matrix(40, 130)
    assert plan(x, y, direct=True).direct
    assert np.array_equal(multiply(x, y, direct=True), multiply(x, y))


def test_nan_and_infinity_stay_in_their_rows_and_columns() -> None:
    for m, n, k in SHAPES:
        x, y = matrix(m, k), matrix(k, n, layout="T", seed=1)
        x[m // 2, k // 2], y[k - 1, n - 1] = np.inf, np.nan
        with np.errstate(invalid="ignore"):
            wide = x.astype(np.float64) @ y.astype(np.float64)
        result = multiply(x, y)
        assert np.array_equal(np.isnan(result), np.isnan(wide))
        assert np.array_equal(np.isinf(result), np.isinf(wide))


def test_long_sums_stay_exact_to_a_few_units() -> None:
    k = 200_000
    for m, n in [(1, 1), (5, 2), (2, 40)]:
        x, y = np.full((m, k), 0.1, np.float32), np.full((k, n), 0.3, np.float32)
        exact = k * np.float64(np.float32(0.1)) * np.float64(np.float32(0.3))
        for right in (y, np.ascontiguousarray(y.T).T):
            assert np.abs(multiply(x, right) / exact - 1).max() < 2e-5


def test_a_vector_streams_the_matrix_as_it_lies() -> None:
    vector, weight = matrix(1, 784), matrix(784, 256)
    for right in (weight, np.asfortranarray(weight)):
        blocking = plan(vector, right).blocking
        assert not blocking.pack_right
        assert blocking.rows == 1
    assert plan(vector, np.asfortranarray(weight)).blocking.along_depth
    assert not plan(weight, matrix(256, 1)).blocking.pack_left


def test_many_rows_of_great_depth_are_not_read_anew_for_every_few_columns() -> None:
    scores, weight = (np.broadcast_to(np.float32(0), shape) for shape in ((700, 8000), (8000, 128)))
    for strides in ((4 * 128, 4), (4, 4 * 8000)):
        product = plan(scores, np.lib.stride_tricks.as_strided(weight, weight.shape, strides))
        assert not product.blocking.along_depth


@pytest.mark.skipif(not WIDE, reason="narrower registers take another share of the second cache's bytes")
@pytest.mark.parametrize(
    ("m", "n", "k", "along"), [(128, 384, 1536, False), (256, 64, 2048, False), (5, 8, 4096, True)]
)
def test_lanes_run_along_a_depth_only_where_the_first_cache_holds_the_lines(
    m: int, n: int, k: int, along: bool
) -> None:
    assert plan(matrix(m, k), matrix(k, n, layout="T")).blocking.along_depth == along


def test_batch_of_rows_is_one_matrix() -> None:
    product = plan(matrix(4, 6, 16), matrix(16, 40))
    assert (product.merged, product.plane.m, product.plane.batch) == (1, 24, ())
    assert plan(matrix(4, 6, 16), matrix(4, 16, 40)).merged == 0


def test_plan_says_why() -> None:
    reason = plan(matrix(96, 64), matrix(64, 128, layout="T")).reason
    assert "right packed" in reason
    assert "(1, 64)" in reason
    assert "\n" not in reason
    assert "stretches" in plan(matrix(2, 100_000), matrix(100_000, 40)).reason


def test_code_does_not_grow_with_the_sizes() -> None:
    lengths = []
    for size in (200, 1000, 5000):
        x, y = (np.broadcast_to(np.float32(0), (size, size)) for _ in range(2))
        product = plan(x, y)._replace(scratch=0)
        lengths.append(write(product, (size, 1)).count("\n"))
    assert max(lengths) < 1000


@pytest.mark.parametrize(
    ("triple", "cpu", "features"),
    [
        ("x86_64-unknown-linux-gnu", "haswell", "+avx2,+fma"),
        ("x86_64-unknown-linux-gnu", "x86-64", ""),
        ("aarch64-unknown-linux-gnu", "neoverse-v1", ""),
    ],
)
def test_products_compile_for_other_machines(triple: str, cpu: str, features: str) -> None:
    machine = Target.from_triple(triple, cpu, features)
    for x, y in [(matrix(32, 64), matrix(64, 50, layout="T")), (matrix(1, 99), matrix(99, 30, layout="T"))]:
        text = write(plan(x, y, machine), (y.shape[1], 1))
        assert "KERNEL" in machine.emit_assembly(text)


class Guarded:
    """Memory between two pages that no one may touch, which begins or ends where one of them does."""

    def __init__(self, size: int, at_end: bool) -> None:
        page = mmap.PAGESIZE
        inner = -(-size // page) * page
        self.memory = mmap.mmap(-1, inner + 2 * page)
        held = ctypes.c_char.from_buffer(self.memory)
        self.start = ctypes.addressof(held)
        del held
        self.edges = (self.start, self.start + page + inner)
        self.first = page + (inner - size if at_end else 0)
        self.size = size

    def __enter__(self) -> Guarded:
        self._protect(0)
        return self

    def __exit__(self, *_: object) -> None:
        self._protect(mmap.PROT_READ | mmap.PROT_WRITE)

    def _protect(self, access: int) -> None:
        for edge in self.edges:
            assert ctypes.CDLL(None).mprotect(ctypes.c_void_p(edge), ctypes.c_size_t(mmap.PAGESIZE), access) == 0

    def matrix(self, m: int, n: int, layout: str) -> Array:
        flat = np.frombuffer(self.memory, np.float32, m * n, self.first)
        return flat.reshape(n, m).T if layout == "T" else flat.reshape(m, n)
