"""Routines: eager calls on small arrays compute natively what NumPy does, and leave to it what is not for them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.support.checks import raises

import adjoint as ad
import adjoint.functions.loss.classification
import adjoint.functions.loss.ctc_recursion
import adjoint.functions.nn.normalization
import adjoint.nn.functional as F
import adjoint.ops.nn.attention
from adjoint.core.op import elementwise_kernels
from adjoint.core.op.eager_kernels import SmallArrayKernel, eager_kernels, kernel_provider, routine_slot
from adjoint.core.random.libm_functions import KERNELS, apply_libm
from adjoint.functions.nn.grid_sample import grid_sample
from adjoint.ops.linalg.sparse_product import sample_products, sparse_product
from adjoint.ops.nn.recurrent_kinds import SWEEP_BY_KIND
from adjoint.ops.nn.recurrent_steps import StepWeights, order_of

pytest.importorskip("llvmlite")
from adjoint.compiler.kernels.small_arrays.catalogue import ROUTINES
from adjoint.compiler.kernels.small_arrays.loading import routine

SHAPES = [(1, 1), (1, 7), (3, 5), (32, 32), (2, 3, 33), (5, 67), (3, 0), (0, 4)]
SPECIAL = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1e30, 1e-40]
Call = Callable[[Any, Any], Any]  # of two tensors of one shape


def _labels(x: Any) -> Any:
    return ad.arange(x.shape[0]) % max(x.shape[1], 1)


def _reduced_rows(reduce: str) -> Call:
    def call(x: Any, y: Any) -> Any:
        rows = (ad.arange(x.shape[0]) * 7 % 4).reshape(-1, *(1 for _ in x.shape[1:])).expand(x.shape)
        return ad.ones(4, *x.shape[1:], dtype=x.dtype).scatter_reduce(0, rows, x, reduce)

    return call


def _matrix(x: Any, width: int | None = None) -> Any:
    return x.reshape(-1, x.shape[-1])[:, :width].contiguous()


def _entries(x: Any) -> tuple[Any, Any]:
    """A row and a column for each row of the matrix."""
    count = len(_matrix(x))
    return ad.arange(count) * 7 % min(count, 4), ad.arange(count).flip(0)


def _gradient(of: Call) -> Call:
    def call(x: Any, y: Any) -> Any:
        x.requires_grad_()
        out = of(x, y)
        return ad.autograd.grad(out, x, y if out.ndim else None)[0]

    return call


def _sampled(x: Any, y: Any) -> tuple[Any, ...]:
    image, places = _repeat(x.reshape(-1)[:67], 2, 3, 4, 1), y.reshape(-1)[:67]
    grid = ad.stack([places, 2.5 * places.flip(0)], -1).repeat(2, 1, 1, 1)
    settings = [(padding, aligned) for padding in ("zeros", "border", "reflection") for aligned in (False, True)]
    return tuple(grid_sample(image, grid, "bilinear", *each) for each in settings)


def _sampled_gradients(which: int) -> Call:
    def call(x: Any, y: Any) -> tuple[Any, ...]:
        operand = (x, y)[which].requires_grad_()
        seeded = [(out, out.detach().nan_to_num().cos() / 64) for out in _sampled(x, y)]
        return tuple(ad.autograd.grad(out, operand, seed, retain_graph=True)[0] for out, seed in seeded)

    return call


def _norm(x: Any, y: Any) -> Any:
    vector = y[(0,) * (y.ndim - 1)] if y.numel() else ad.ones(y.shape[-1], dtype=y.dtype)
    return F.layer_norm(x, x.shape[-1:], vector, 2 * vector)


def _repeat(x: Any, *counts: int) -> Any:
    return x.reshape(*[1] * (len(counts) - 1), -1).repeat(*counts)


def _over_batch(x: Any) -> Any:
    return F.batch_norm(x, ad.zeros(2, dtype=x.dtype), ad.ones(2, dtype=x.dtype), *_channels(x), True)


def _by_statistics(x: Any) -> Any:
    mean, var = ad.arange(x.shape[1]) * 0.5, ad.arange(x.shape[1]) + 0.25
    return F.batch_norm(x, mean.to(x.dtype), var.to(x.dtype), *_channels(x))


def _moved_statistics(x: Any, y: Any) -> tuple[Any, Any]:
    x = _repeat(x, 5, 2)
    mean, var = ad.zeros(x.shape[1], dtype=x.dtype), ad.ones(x.shape[1], dtype=x.dtype)
    F.batch_norm(x, mean, var, training=True, momentum=0.3)
    return mean, var


def _image(x: Any) -> Any:
    return _repeat(x.reshape(-1)[:67], 1, 2, 5, 1)


def _over_columns(x: Any) -> Any:
    return F.batch_norm(x, None, None, *_channels(x), True)


def _over_groups(x: Any) -> Any:
    return F.group_norm(x, 2, *_channels(x))


def _channels(x: Any) -> tuple[Any, Any]:
    weight = ad.linspace(-1, 2, x.shape[1], dtype=x.dtype)
    return weight, weight * 3


def _slope(of: Callable[[Any], Any], *counts: int) -> Call:
    def call(x: Any, y: Any) -> Any:
        x = _repeat(x, *counts)
        phase = ad.arange(x.numel(), dtype=x.dtype).reshape(x.shape)
        x = (x + (0.7 * phase).cos()).requires_grad_()
        return ad.autograd.grad(of(x), x, (1.7 * phase).sin())[0]

    return call


def _of_libm(function: Callable[[float], float]) -> Call:
    def call(x: Any, y: Any) -> Any:
        numbers = np.nan_to_num(x.double().numpy()).clip(-1e6, 1e6)
        return ad.from_numpy(apply_libm(function, np.abs(numbers) + 0.25))

    return call


def _recurrent(kind: str, back: bool = False) -> Call:
    """A step for each row, of a layer with as many units as a row has elements."""

    def call(x: Any, y: Any) -> Any:
        sweep = SWEEP_BY_KIND[kind]
        units, gates = x.shape[-1], sweep.gate_count
        u = np.tile(x.numpy().reshape(-1, units), (1, gates))
        shapes = (gates * units, units), (gates * units,)
        hh, bias = ((0.5 / units**0.5 * np.resize(y.numpy(), shape)).astype(u.dtype) for shape in shapes)
        start, order = [np.zeros((1, units), u.dtype)] * 2, order_of((1,) * len(u), False)
        run = sweep(u, order, StepWeights(hh, bias if kind == "GRU" else None), start, True)
        if not back:
            return tuple(ad.tensor(found) for found in (run.outputs, *run.states()))
        d_start = run.run_back(y.numpy().reshape(-1, units), [None] * len(run.states()))
        return tuple(ad.tensor(found) for found in (run.du, run.dv, *d_start))

    return call


def _alignment(x: Any, y: Any) -> Any:
    """The loss of two sequences of three steps for each row, the second of which is shorter."""
    logs = F.log_softmax(F.pad(_matrix(x, 8), (0, 2)), -1).repeat(3, 1)
    steps = len(logs)
    targets = ad.tensor([[1, 1], [2, 1]])
    return F.ctc_loss(ad.stack([logs, logs.flip(0)], 1), targets, (steps, steps - 1), (2, 1), reduction="none").sum()


def _attention_gradients(x: Any, y: Any) -> Any:
    """Of more keys than queries, where rows are two or more."""
    few = x[..., : max(x.shape[-2] - 1, 1), :].clone()
    q, k, v = (each.detach().requires_grad_() for each in (few, y, 0.5 * y))
    return ad.autograd.grad(F.scaled_dot_product_attention(q, k, v), (q, k, v), few)


CALLS: dict[str, Call] = {
    **{
        f"{kind.lower()}_steps{'_back' * back}": _recurrent(kind, back)
        for kind in ("LSTM", "GRU", "RNN_TANH", "RNN_RELU")
        for back in (False, True)
    },
    "ctc_steps": _alignment, "ctc_steps_back": _gradient(_alignment),
    "few_queries": lambda x, y: F.scaled_dot_product_attention(x, y, 2 * y),
    "few_queries_gradient": _attention_gradients,
    **{f"libm_{function.__name__}": _of_libm(function) for function in KERNELS},
    "max_of_all": lambda x, y: x.max(), "min_of_all": lambda x, y: x.amin((0, 1)) if x.ndim == 2 else x.amin(),
    "cat": lambda x, y: ad.cat([x, y, x.flip(0)], -1), "stack": lambda x, y: ad.stack([x, y, x.flip(0)], 1),
    "relu": lambda x, y: x.relu(), "sigmoid": lambda x, y: x.sigmoid(),
    "silu": lambda x, y: F.silu(x), "gelu": lambda x, y: F.gelu(x), "gelu_dx": _gradient(lambda x, y: F.gelu(x)),
    "clamp": lambda x, y: x.clamp(-0.5, 0.25), "where": lambda x, y: ad.where(x > 0, x, y),
    "masked_fill": lambda x, y: y.masked_fill(x > 0, 3.5), "masked_keep": lambda x, y: ad.where(x > 0, y, 3.5),
    "softmax": lambda x, y: F.softmax(x, -1), "softmax_dx": _gradient(lambda x, y: F.softmax(x, -1)),
    "log_softmax": lambda x, y: F.log_softmax(x, -1), "log_softmax_dx": _gradient(lambda x, y: F.log_softmax(x, -1)),
    "logsumexp": lambda x, y: ad.logsumexp(x, -1),
    "logsumexp_dx": _gradient(lambda x, y: ad.logsumexp(x, -1, keepdim=True) * y),
    "layer_norm": _norm, "layer_norm_dx": _gradient(_norm),
    "batch_norm": lambda x, y: _over_batch(_repeat(x, 3, 2, 8)), "batch_norm_dx": _slope(_over_batch, 3, 2, 8),
    "batch_norm_columns": lambda x, y: _over_columns(_repeat(x, 5, 2)),
    "batch_norm_dx_columns": _slope(_over_columns, 5, 2),
    "group_norm": lambda x, y: _over_groups(_repeat(x, 3, 4, 8)), "group_norm_dx": _slope(_over_groups, 3, 4, 8),
    "running_norm": lambda x, y: _by_statistics(_repeat(x, 3, 2, 8)), "move_statistic": _moved_statistics,
    "running_norm_columns": lambda x, y: _by_statistics(_repeat(x, 5, 2)),
    "sum_windows": lambda x, y: F.avg_pool2d(_image(x), (2, 1), 2),
    "max_windows": lambda x, y: F.max_pool2d(_image(x), (3, 1), padding=(1, 0), stride=1),
    "max_windows_gradient": _gradient(lambda x, y: F.max_pool2d(_image(x), (2, 1), 1).abs().nan_to_num().sum()),
    "variance": lambda x, y: x.var(-1), "variance_of_all": lambda x, y: x.var(),
    "deviation": lambda x, y: x.std(-1), "deviation_of_all": lambda x, y: x.std(), "sum": lambda x, y: x.sum(-1),
    "sum_of_all": lambda x, y: x.sum(), "mean": lambda x, y: x.mean(-1), "mean_of_all": lambda x, y: x.mean(),
    "norm": lambda x, y: x.norm(dim=-1), "norm_of_all": lambda x, y: x.norm(),
    "max": lambda x, y: x.max(-1), "min": lambda x, y: x.min(-1),
    "sum_columns": lambda x, y: _repeat(x.abs(), 40, 2).sum(0), "max_rows": lambda x, y: _repeat(x, 150, 2).amax(-1),
    "max_columns": lambda x, y: _repeat(x, 150, 2).amax(0), "min_rows": lambda x, y: _repeat(x, 150, 2).amin(-1),
    "min_columns": lambda x, y: _repeat(x, 150, 2).amin(0),
    "running_sum": lambda x, y: (x.cumsum(-1), x.cumsum(0)),
    "running_sum_back": _gradient(lambda x, y: x.cumsum(0) * y),
    "running_product": lambda x, y: (x.cumprod(-1), x.cumprod(0)),
    "running_product_gradient": _gradient(lambda x, y: x.cumprod(0) * y),
    "gather": lambda x, y: x.gather(-1, (y.abs() * 100).long() % x.shape[-1]),
    "leading_largest": lambda x, y: tuple(x.topk(min(x.shape[-1], 5))),
    "leading_smallest": lambda x, y: tuple(x[..., :31].contiguous().sort()),
    "take_rows": lambda x, y: F.embedding(ad.arange(6) * 5 % len(_matrix(x)), _matrix(x)),
    "add_along_rows": lambda x, y: ad.ones_like(x).scatter_add(-1, (y.abs() * 100).long() % x.shape[-1], x),
    "put_along_rows": lambda x, y: ad.ones_like(x).scatter(-1, (y.abs() * 100).long() % x.shape[-1], x),
    "add_rows": lambda x, y: ad.zeros(4, *x.shape[1:], dtype=x.dtype).index_add(0, ad.arange(x.shape[0]) * 7 % 4, x),
    "larger_rows": _reduced_rows("amax"), "smaller_rows": _reduced_rows("amin"), "multiply_rows": _reduced_rows("prod"),
    "resample": lambda x, y: F.interpolate(_repeat(x, 1, 2, 1), scale_factor=1.7, mode="linear"),
    "sample_grid": _sampled, "sample_grid_dx": _sampled_gradients(0), "sample_grid_dgrid": _sampled_gradients(1),
    "sparse_product": lambda x, y: sparse_product(_matrix(y, 1).reshape(-1), _matrix(x), *_entries(x), height=4),
    "sampled_products": lambda x, y: sample_products(_matrix(x, 8), _matrix(y, 8), *_entries(x)),
    "mean_nll": lambda x, y: F.nll_loss(x, _labels(x)),
    "mean_nll_dx": lambda x, y: ad.autograd.grad(F.nll_loss(x.requires_grad_(), _labels(x)), x)[0],
}  # fmt: skip
# elsewhere they are errors and warnings
ROWS_NEEDED = {
    "max",
    "max_columns",
    "max_of_all",
    "max_rows",
    "min",
    "min_columns",
    "min_of_all",
    "min_rows",
    "sum_columns",
    "running_sum",
    "running_sum_back",
    "running_product",
    "running_product_gradient",
    "add_along_rows",
    "put_along_rows",
    "take_rows",
    "leading_largest",
    "leading_smallest",
    "gather",
    "logsumexp",
    "logsumexp_dx",
    "mean_nll",
    "mean_nll_dx",
    "variance",
    "variance_of_all",
    "deviation",
    "deviation_of_all",
    "batch_norm",
    "batch_norm_dx",
    "batch_norm_columns",
    "batch_norm_dx_columns",
    "running_norm",
    "running_norm_columns",
    "move_statistic",
    "sum_windows",
    "max_windows",
    "max_windows_gradient",
    "group_norm",
    "group_norm_dx",
    "layer_norm",
    "layer_norm_dx",
    "add_rows",
    "resample",
    "larger_rows",
    "smaller_rows",
    "multiply_rows",
    "few_queries",
    "few_queries_gradient",
    "sampled_products",
    "sparse_product",
    "sample_grid",
    "sample_grid_dx",
    "sample_grid_dgrid",
    *(name for name in CALLS if "_steps" in name),
}


def _routines() -> dict[str, SmallArrayKernel]:
    """Those that the library has, by name."""
    modules = [module for name, module in list(sys.modules.items()) if name.startswith("adjoint.")]
    held = [value for module in modules for value in vars(module).values()]
    held += [each for value in held if type(value) is dict for each in value.values()]
    return {value.name: value for value in held if isinstance(value, SmallArrayKernel)}


def _operands(shape: tuple[int, ...], dtype: Any, special: bool) -> tuple[Any, Any]:
    rng = np.random.default_rng(len(shape) + 7 * shape[-1])
    x, y = (rng.normal(size=shape).astype(dtype) for _ in range(2))
    if special:
        x.flat[: len(SPECIAL)] = SPECIAL[: x.size]
    return ad.from_numpy(x), ad.from_numpy(y)


def test_every_routine_is_used_and_tested() -> None:
    assert set(_routines()) == set(ROUTINES) == set(CALLS)


@pytest.mark.sweep(6)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", CALLS)
def test_values(name: str, shape: tuple[int, ...], dtype: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    if name in ROWS_NEEDED and (0 in shape or shape == (1, 1)):
        pytest.skip("nothing to take, or no freedom")
    if name.startswith("mean_nll") and len(shape) != 2:
        pytest.skip("of classes")
    used, answers = _routines()[name], []
    native = routine(name)
    assert native is not None
    monkeypatch.setattr(elementwise_kernels, "MIN_ELEMENTS", sys.maxsize)  # or some would take those kernels

    def spy(*operands: Any) -> Any:
        answers.append(native(*operands))
        return answers[-1]

    for special in (False, True):
        with monkeypatch.context() as patch:
            patch.setattr(used, "call", spy)
            found = CALLS[name](*_operands(shape, dtype, special))
        with eager_kernels(False):
            wanted = CALLS[name](*_operands(shape, dtype, special))
        pairs = zip(found, wanted, strict=True) if isinstance(found, tuple) else [(found, wanted)]
        for x, y in pairs:
            assert x.dtype is y.dtype
            np.testing.assert_allclose(x.numpy(), y.numpy(), rtol=3e-6 if dtype is np.float32 else 1e-13, atol=1e-6)
    assert answers
    assert all(answer is not None for answer in answers)


def gapped_arrays() -> list[Any]:
    x = np.random.default_rng(3).normal(size=(8, 8)).astype(np.float32)
    unaligned = np.frombuffer(bytes(65), np.uint8)[1:].view(np.float32).reshape(4, 4)
    return [x[:4, :4].T, x[::2, ::2], x[::-2, 4:], np.broadcast_to(x[:1, :4], (4, 4)), unaligned]


@pytest.mark.parametrize("name", ["softmax", "log_softmax_dx", "gather", "max", "variance"])
def test_arrays_with_gaps_are_copied_first(name: str) -> None:
    call = routine(name)
    assert call is not None
    assert ROUTINES[name].copies
    places = np.random.default_rng(4).integers(0, 4, (8, 4))[::2]
    rest: dict[str, tuple[Any, ...]] = {"gather": (places,), "max": (np.empty(4, np.int64),), "variance": (1.0,)}
    for x in gapped_arrays():
        others = (x.T,) if name == "log_softmax_dx" else rest.get(name, ())
        before = sys.getrefcount(x)
        got = call(x, *others)
        dense = [y.copy("C") if isinstance(y, np.ndarray) else y for y in (x, *others)]
        if name == "max":
            np.testing.assert_array_equal(others[0], x.argmax(1))
            assert call(x, np.empty(8, np.int64)[::2]) is None  # which it would write
        np.testing.assert_array_equal(got, call(*dense))
        assert got.flags.c_contiguous
        assert sys.getrefcount(x) == before


@pytest.mark.parametrize("name", ["softmax", "sum", "max"])
def test_what_is_not_for_it_is_left_alone(name: str) -> None:
    call = routine(name)
    assert call is not None
    rest = (np.empty(4, np.int64),) if name == "max" else ()
    fine = np.ones((4, 4), np.float32)
    assert call(fine, *rest) is not None
    wrong: list[Any] = [
        fine.astype(np.int32), fine.astype(np.float16), fine.astype(">f4"), ad.ones(4, 4), [1.0], 1.0, None,
        np.float32(1), *(gapped_arrays() if name == "sum" else ()),
    ]  # fmt: skip
    for operand in wrong:
        assert call(operand, *rest) is None
    if name == "max":
        assert call(fine, np.empty(4, np.int32)) is None
        assert call(fine, None) is None


def test_indices_out_of_range_are_left_alone() -> None:
    gather, nll = routine("gather"), routine("mean_nll")
    assert gather is not None
    assert nll is not None
    x = np.ones((2, 3))
    for bad in (3, -1, 2**62, -(2**63)):
        assert gather(x, np.array([[0], [bad]])) is None
        assert nll(x, np.array([bad, 0])) is None
        raises((IndexError, RuntimeError), "out of bounds", ad.tensor(x).gather, 1, ad.tensor([[0], [bad]]))
        raises(IndexError, "out of bounds", F.nll_loss, ad.tensor(x), ad.tensor([bad, 0]), ignore_index=-7)
    assert F.nll_loss(ad.tensor(x), ad.tensor([-100, 0])).item() == -1.0


def test_entries_out_of_range_are_left_alone() -> None:
    product, samples = routine("sparse_product"), routine("sampled_products")
    assert product is not None
    assert samples is not None
    x, fine, out = np.ones((2, 3)), np.array([0, 1]), np.zeros((2, 3))
    for bad in (2, -1, 2**62, -(2**63)):
        for rows, columns in ((np.array([0, bad]), fine), (fine, np.array([bad, 0]))):
            assert product(np.ones(2), rows, columns, x, out) is None
            assert samples(x, x, rows, columns) is None
    assert not out.any()


@pytest.mark.parametrize("rows", [[1, 1, 3, 3, 3, 5], [5, 1, 3, 1, 0, 5], [2] * 6, []])
def test_entries_in_any_order(rows: list[int]) -> None:
    for width in (1, 5, 70, 300):
        dense, values = np.arange(4.0 * width).reshape(4, width), np.arange(1.0, len(rows) + 1)
        columns = np.arange(len(rows)) % 4
        wanted = np.zeros((7, width))
        np.add.at(wanted, np.array(rows, np.int64), values[:, None] * dense[columns])
        given = (ad.tensor(x) for x in (values, dense, np.array(rows, np.int64), columns))
        np.testing.assert_array_equal(sparse_product(*given, height=7).numpy(), wanted)


def test_large_arrays_are_left_alone() -> None:
    call = routine("softmax")
    assert call is not None
    assert call(np.zeros((1, 2**16), np.float32)) is not None
    assert call(np.zeros((1, 2**16 + 1), np.float32)) is None


def test_results_are_new_arrays_and_nothing_leaks() -> None:
    call = routine("softmax")
    assert call is not None
    x = np.zeros((64, 64))
    before = sys.getrefcount(x), sys.getrefcount(np.float64), sys.getrefcount(x.dtype)
    for _ in range(1000):
        out = call(x)
        assert out.base is None
        assert out.flags.owndata
        assert out.flags.writeable
        call(1.0)
        call(x[:, ::2])
    del out
    assert (sys.getrefcount(x), sys.getrefcount(np.float64), sys.getrefcount(x.dtype)) == before


def test_sums_are_no_less_accurate_than_numpys() -> None:
    x = np.random.default_rng(0).normal(size=8000).astype(np.float32)
    exact = float(np.sum(x.astype(np.float64)))
    assert abs(ad.from_numpy(x).sum().item() - exact) <= abs(float(np.float32(exact)) - exact) + 1e-12


def test_without_kernels_numpy_does_all(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: Any) -> Any:
        raise AssertionError("a routine was called")

    for each in _routines().values():
        monkeypatch.setattr(each, "call", never)
    x = ad.ones(3, 4)
    with eager_kernels(False):
        assert F.softmax(x, -1).sum().item() == 3.0
    assert kernel_provider.enabled


def test_a_machine_without_routines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routine_slot, "call", lambda name: None)
    lone = SmallArrayKernel("softmax")
    assert lone.call(np.ones((2, 2))) is None
    assert lone.call(np.ones((2, 2))) is None
    assert repr(lone) == "<routine softmax>"


def test_the_node_of_an_extreme_is_named_as_pytorchs() -> None:
    x = ad.tensor([[1.0, 3.0, 2.0], [4.0, 0.0, 4.0]], requires_grad=True)
    values, places = x.max(1)
    assert type(values.grad_fn).__name__ == "MaxBackward0"
    values.sum().backward()
    assert places.tolist() == [1, 0]
    assert x.grad.tolist() == [[0, 1, 0], [1, 0, 0]]
