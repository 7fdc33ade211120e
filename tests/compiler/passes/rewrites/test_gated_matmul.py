"""Recurrent cells: the gates' product and the cell are one kernel for each step, a weight's gradient is one product."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.support.tracing import fused, graph_of, names, ops, values

import adjoint as ad
from adjoint import nn
from adjoint.compiler.llvm.jit.target import host
from adjoint.compiler.llvm.types import F32
from adjoint.compiler.passes.rewrites.gated_matmul import MIN_PANELLED_BYTES
from adjoint.compiler.passes.simplify import rewrite

pytest.importorskip("llvmlite")

STEPS = 6
PRODUCTS = ("mm", "gated_mm", "panel_mm")
LANES = max(16, host().lanes(F32))  # with vectors of 8, products of 8 units in 32 rows are planned apart


def trained(module: Any, x: Any, compiled: bool) -> tuple[list[Any], list[list[str]]]:
    """Results, state and gradients of a step, and the ops of its kernels."""

    def step(x: Any) -> Any:
        outputs, state = module(x)
        last = state if isinstance(state, tuple) else (state,)
        (outputs.sin().sum() + last[-1].square().sum()).backward()
        return outputs, *last

    for p in module.parameters():
        p.grad = None
    run = ad.compile(step) if compiled else step
    made = run(x)
    found = [t.detach().numpy().copy() for t in (*made, *(p.grad for p in module.parameters()))]
    return found, [ops(g) for g in run._program().fusion.order] if compiled else []


def check(module: Any, batch: int = 5, tolerance: float = 2e-6) -> list[list[str]]:
    """The kernels of a step, whose numbers are eager's."""
    dtype = next(iter(module.parameters())).dtype
    x = ad.randn(STEPS, batch, 7, dtype=dtype)
    expected, _ = trained(module, x, False)
    got, kernels = trained(module, x, True)
    for a, b in zip(got, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance * max(1.0, np.abs(b).max()))
    return kernels


def kernels_with(kernels: list[list[str]], *wanted: str) -> list[list[str]]:
    return [k for k in kernels if set(wanted) <= set(k)]


@pytest.mark.parametrize("batch", [1, 5, 32])
@pytest.mark.parametrize("units", [1, 2, 3])
def test_a_step_of_lstm_is_one_kernel_forward_and_one_backward(units: int, batch: int) -> None:
    ad.manual_seed(0)
    kernels = check(nn.LSTM(7, units * LANES), batch)
    cells = kernels_with(kernels, "gated_mm", "sigmoid", "tanh")
    assert len(cells) == STEPS
    assert len(kernels_with(kernels, "sigmoid")) == STEPS
    backward = [k for k in kernels_with(kernels, "cat") if k[0] in PRODUCTS]
    assert len(backward) == STEPS - 1  # the last step has no product before it
    assert sum(k[0] in PRODUCTS for k in kernels) == 1 + STEPS + len(backward) + 2  # gates of x, two weights


@pytest.mark.parametrize("batch", [1, 5, 32])
def test_a_step_of_gru_is_one_kernel(batch: int) -> None:
    ad.manual_seed(0)
    kernels = check(nn.GRU(7, 2 * LANES), batch)
    assert len(kernels_with(kernels, "gated_mm", "sigmoid", "tanh")) == STEPS
    assert len(kernels_with(kernels, "sigmoid")) == STEPS


def test_a_step_of_rnn_is_one_kernel_and_reads_a_weight_that_was_turned_once() -> None:
    ad.manual_seed(0)
    kernels = check(nn.RNN(7, 2 * LANES))
    assert kernels_with(kernels, "tanh") == [["panel_mm", "add", "tanh"]] * STEPS


@pytest.mark.sweep(2)
@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU])
@pytest.mark.parametrize("how", [
    {"hidden_size": 16, "dtype": ad.float64}, {"hidden_size": 20}, {"hidden_size": 3},
    {"hidden_size": 16, "bias": False}, {"hidden_size": 16, "bidirectional": True},
    {"hidden_size": 16, "num_layers": 2},
])  # fmt: skip
def test_the_numbers_are_eagers(kind: Any, how: dict[str, Any]) -> None:
    ad.manual_seed(0)
    tolerance = 1e-13 if how.get("dtype") == ad.float64 else 2e-6
    check(kind(7, **how), tolerance=tolerance)


def test_projections_and_states_that_are_given() -> None:
    ad.manual_seed(0)
    check(nn.LSTM(7, 2 * LANES, proj_size=LANES))
    module = nn.LSTM(7, LANES)
    state = ad.randn(1, 3, LANES), ad.randn(1, 3, LANES)
    check(lambda_module(module, state), 3)


def lambda_module(module: Any, state: Any) -> Any:
    """The module with a first state."""

    class Started(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.module = module

        def forward(self, x: Any) -> Any:
            return self.module(x, state)

    return Started()


def test_the_bits_are_the_same_for_any_number_of_threads() -> None:
    ad.manual_seed(0)
    module, x = nn.LSTM(7, 8 * LANES), ad.randn(STEPS, 40, 7)
    before = ad.get_num_threads()
    made = []
    for number in (1, 2, 3):
        ad.set_num_threads(number)
        made.append(trained(module, x, True)[0])
    ad.set_num_threads(before)
    for other in made[1:]:
        for a, b in zip(made[0], other, strict=True):
            np.testing.assert_array_equal(a, b)


def test_gates_that_are_results_too() -> None:
    """They are stored in the order of their columns, though computed in another."""
    rng = np.random.default_rng(0)
    w, h = (rng.normal(size=s).astype(np.float32) for s in ((3 * LANES, 20), (4, 6, 20)))

    def steps(w: Any, h: Any) -> Any:
        made = []
        for x in h:
            gates = x @ w.t() + 1.0
            first, rest = gates[:, :LANES], gates[:, LANES:]
            made += [gates, ad.tanh(first) * rest[:, LANES:], ad.sigmoid(rest)]
        return made

    program = fused(steps, w, h)
    assert [ops(g)[0] for g in program.order] == ["copy"] + ["gated_mm"] * 4
    compiled = ad.compile(steps)
    for a, b in zip(compiled(*map(ad.from_numpy, (w, h))), steps(*map(ad.from_numpy, (w, h))), strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-5, atol=1e-5)


def test_gates_read_across_parts_are_stored_first() -> None:
    rng = np.random.default_rng(0)
    w, h = (rng.normal(size=s).astype(np.float32) for s in ((2 * LANES, 20), (4, 6, 20)))

    def steps(w: Any, h: Any) -> Any:
        made = []
        for x in h:
            gates = x @ w.t()
            made += [gates[:, :LANES] + gates[:, LANES:].flip(1), gates[:, LANES:].exp().sum(1)]
        return made

    compiled = ad.compile(steps)
    for a, b in zip(compiled(*map(ad.from_numpy, (w, h))), steps(*map(ad.from_numpy, (w, h))), strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("units", [8, 9, 24])
@pytest.mark.parametrize("rows", [1, 5, 20, 64])
def test_a_large_weight_that_many_products_read_lies_in_panels(rows: int, units: int) -> None:
    rng = np.random.default_rng(0)
    n = units * LANES
    x, w = rng.normal(size=(rows, n)).astype(np.float32), (rng.normal(size=(n, n)) / n**0.5).astype(np.float32)

    def steps(x: Any, w: Any) -> Any:
        for _ in range(4):
            x = ad.tanh(x @ w + 1.0) * x
        return x

    found = [ops(g) for g in fused(steps, x, w).order]
    kind = "panel_mm" if n * n * 4 >= MIN_PANELLED_BYTES and units % 2 == 0 else "mm"
    assert [each for each in found if each[0] == kind] == [[kind, "add", "tanh", "mul"]] * 4
    compiled, expected = ad.compile(steps)(*map(ad.from_numpy, (x, w))).numpy(), steps(*map(ad.from_numpy, (x, w)))
    np.testing.assert_allclose(compiled, expected.numpy(), rtol=2e-5, atol=2e-5)
    np.testing.assert_allclose(values(rewrite(graph_of(steps, x, w)), x, w)[0], expected.numpy(), rtol=2e-5, atol=2e-5)


def test_the_reference_takes_the_columns_apart() -> None:
    rng = np.random.default_rng(0)
    w, h = (rng.normal(size=s).astype(np.float32) for s in ((2 * LANES, 20), (4, 6, 20)))
    graph = rewrite(graph_of(lambda w, h: [(x @ w.t())[:, LANES:].exp() for x in h], w, h))
    assert names(graph).count("gated_mm") == 4
    for x, made in zip(h, values(graph, w, h), strict=True):
        np.testing.assert_allclose(made, np.exp(x @ w.T)[:, LANES:], rtol=1e-5)


def test_a_second_gradient_goes_through_the_copied_weight() -> None:
    """The backward half has products that are cut into parts; `create_graph` runs it op by op."""
    generator = np.random.default_rng(0)
    x, w = (generator.normal(size=s) * 0.3 for s in ((6, 3, LANES), (2 * LANES, LANES)))

    def cell(x: Any, w: Any) -> Any:
        h = x[0]
        for each in x:
            h = (ad.cat([each, h], 1) @ w).tanh()
        return h.square().sum()

    def gradients(function: Any) -> list[Any]:
        x_, w_ = (ad.from_numpy(a).requires_grad_() for a in (x, w))
        first = ad.autograd.grad(function(x_, w_), [x_, w_], create_graph=True)
        return [*first, *ad.autograd.grad(sum(g.square().sum() for g in first), [x_, w_])]

    for a, b in zip(gradients(ad.compile(cell)), gradients(cell), strict=True):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-9, atol=1e-12)


def products(count: int, m: int, k: int, n: int) -> list[Any]:
    rng = np.random.default_rng(0)
    return [rng.normal(size=s).astype(np.float32) for _ in range(count) for s in ((k, m), (k, n))]


def total(*arrays: Any) -> Any:
    """Σ Aᵢᵀ Bᵢ, one after another."""
    made = None
    for a, b in zip(arrays[::2], arrays[1::2], strict=True):
        made = a.t() @ b if made is None else made + a.t() @ b
    return made


def test_a_sum_of_short_products_is_one_long_product() -> None:
    arrays = products(5, 40, 8, 30)
    graph = rewrite(graph_of(total, *arrays))
    assert names(graph) == ["cat", "permute", "cat", "mm"]
    compiled = ad.compile(total)(*map(ad.from_numpy, arrays))
    np.testing.assert_allclose(compiled.numpy(), total(*map(ad.from_numpy, arrays)).numpy(), rtol=1e-4, atol=1e-5)


def test_a_term_or_an_operand_that_comes_twice() -> None:
    a, b, c = (np.random.default_rng(0).normal(size=s).astype(np.float32) for s in ((40, 3), (3, 30), (40, 3)))

    def function(a: Any, b: Any, c: Any) -> Any:
        return (a @ b + c @ b) + (a @ b).exp() + ad.cat([b, b]).sum(), (a @ c.t()) + (a @ c.t()) + ad.cat([b, b]).sum()

    for got, expected in zip(
        *(f(*map(ad.from_numpy, (a, b, c))) for f in (ad.compile(function), function)), strict=True
    ):
        np.testing.assert_allclose(got.numpy(), expected.numpy(), rtol=1e-4, atol=1e-4)


def test_other_terms_of_the_sum_are_added() -> None:
    arrays = [*products(3, 40, 4, 30), np.ones((40, 30), np.float32), np.ones((1, 30), np.float32)]

    def function(*arrays: Any) -> Any:
        *matrices, whole, row = arrays
        return (whole + total(*matrices[:4])) + matrices[4].t() @ matrices[5] + row

    graph = rewrite(graph_of(function, *arrays))
    assert names(graph) == ["cat", "permute", "cat", "mm", "add", "add"]
    expected = function(*map(ad.from_numpy, arrays)).numpy()
    np.testing.assert_allclose(values(graph, *arrays)[0], expected, rtol=1e-4, atol=1e-5)


def test_sums_stay_where_copies_cost_more_or_somebody_reads_a_term() -> None:
    assert "cat" not in names(rewrite(graph_of(total, *products(5, 40, 60, 30))))

    def read(*arrays: Any) -> Any:
        first = arrays[0].t() @ arrays[1]
        return first + arrays[2].t() @ arrays[3], first

    assert "cat" not in names(rewrite(graph_of(read, *products(2, 40, 4, 30))))


def test_what_is_joined_is_stored_at_its_place() -> None:
    """By the kernel of a product, in columns; by any kernel, in what lies one after another."""
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=s).astype(np.float32) for s in ((16, 24), (24, 32), (16, 32))]

    def columns(x: Any, w: Any, y: Any) -> Any:
        z = x @ w
        return ad.cat([z * 2, y, z.exp()], 1).sum(0), ad.cat([z.tanh(), z * y], 1) @ ad.cat([w, w], 1).t()

    def rows(x: Any, w: Any, y: Any) -> Any:
        z = (x @ w).exp()
        whole = ad.cat([z, y.sin().cumsum(0).cos(), z.sum(1, keepdim=True) * y], 0)
        return whole.flip(0).cumsum(1), z.cumsum(0)

    for function in (columns, rows):
        given = [ad.from_numpy(a) for a in arrays]
        for a, b in zip(ad.compile(function)(*given), function(*given), strict=True):
            np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-4, atol=1e-4)
    fusion = fused(columns, *arrays)
    (joining,) = [g for g in fusion.order if g.concatenations]
    assert ops(joining) == ["mm", "mul", "exp", "tanh", "mul", "cat"]
    assert [v.op.name for v in joining.stored] == ["mul", "exp", "cat"]  # of these two, other columns come from y
    fusion = fused(rows, *arrays)
    assert len(fusion.elided_concats) == 1
    assert len(fusion.placed_in_concat) == 3
