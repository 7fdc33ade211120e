"""Eager calls by compiled kernels: which calls take one, and that they give what NumPy gives, whatever happens."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from tests.support.checks import raises
from tests.support.scripts import output_of
from tests.support.threads import in_threads

import adjoint as ad
import adjoint.nn.functional as F
from adjoint import compiler, nn, optim
from adjoint.core.op import eager_kernels
from adjoint.core.op.apply import apply
from adjoint.core.op.eager_kernels import KernelFunction, kernel_provider
from adjoint.functions.elementwise import activation
from adjoint.functions.nn import convolution as convolutions
from adjoint.ops.indexing import indexing
from adjoint.ops.nn import attention, convolution, normalization, pooling

CONV: Any = {"stride": (1, 1), "padding": (1, 1), "dilation": (1, 1), "groups": 1}
POOL: Any = {"size": (2, 2), "stride": (2, 2), "padding": (0, 0), "dilation": (1, 1), "extra": (0, 0)}
OVERLAPPING: Any = {"size": (3, 3), "stride": (2, 2), "padding": (1, 1), "dilation": (1, 1), "extra": (0, 0)}


@pytest.fixture(autouse=True)
def strict(monkeypatch: pytest.MonkeyPatch) -> None:
    """An error while a kernel is made is one of the test; kernels of other tests do not fill the place."""
    pytest.importorskip("llvmlite")
    monkeypatch.setattr(kernel_provider, "strict", True)
    monkeypatch.setattr(kernel_provider, "enabled", True)
    for slot in slots():
        monkeypatch.setattr(slot, "kernels", {})


@pytest.fixture
def everything(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels for the smallest arrays too."""
    monkeypatch.setattr(kernel_provider, "min_seconds", 0.0)


def slots() -> list[KernelFunction]:
    """Every function of these tests that may have kernels."""
    ops = [
        convolution.convolution, convolution.convolution_input, convolution.convolution_weight,
        convolutions._convolution, pooling.max_pool, pooling.max_pool_input, pooling.window_sum,
        pooling.window_sum_input, attention.attention, attention.attention_gradient, indexing.index_add,
        activation._gelu, activation._softmax, activation._log_softmax,
        normalization.standardize,
    ]  # fmt: skip
    rules = [
        activation._gelu_dx, activation._softmax_dx, normalization._dx_by_ops,
        normalization._dweight_by_ops,
    ]  # fmt: skip
    found: list[Any] = [op.op.native for op in ops] + [rule.native for rule in rules]
    return [*found, normalization._moments, optim.adam.UPDATE_KERNEL, optim.sgd.UPDATE_KERNEL]


def draw(*shape: int, dtype: Any = np.float32, seed: int = 0) -> Any:
    return np.random.default_rng([seed, *shape]).standard_normal(shape).astype(dtype)


def close(found: Any, expected: Any) -> None:
    """Equal within a few roundings of the largest element."""
    assert found.shape == expected.shape
    assert found.dtype == expected.dtype
    scale = float(np.abs(expected).max(initial=1e-30))
    steps = 64 if expected.dtype == np.float32 else 1024
    np.testing.assert_allclose(found, expected, rtol=0, atol=steps * float(np.finfo(expected.dtype).eps) * scale)


def cases() -> Iterator[Any]:
    x, w, b = draw(2, 3, 9, 8), draw(4, 3, 3, 3), draw(4)
    g = draw(2, 4, 9, 8)
    yield "convolution", convolution.convolution, (x, w), CONV
    yield "convolution-bias", convolutions._convolution, (x, w, b), CONV
    yield "convolution-strided", convolution.convolution, (x, w), {**CONV, "stride": (2, 1)}
    yield "convolution-depthwise", convolution.convolution, (x, draw(3, 1, 3, 3)), {**CONV, "groups": 3}
    yield "convolution-input", convolution.convolution_input, (g, w), {**CONV, "shape": x.shape}
    yield "convolution-weight", convolution.convolution_weight, (x, g), {**CONV, "shape": w.shape}
    yield "convolution-1d", convolution.convolution, (draw(2, 3, 20), draw(4, 3, 5)), {
        "stride": (1,), "padding": (2,), "dilation": (1,), "groups": 1,
    }  # fmt: skip
    for label, windows in (("", POOL), ("-overlapping", OVERLAPPING)):
        y = pooling.max_pool.op.evaluate(x, **windows)  # type: ignore[attr-defined]
        above = draw(*y.shape)
        yield f"max-pool{label}", pooling.max_pool, (x,), windows
        yield f"max-pool-input{label}", pooling.max_pool_input, (above, x), windows
        yield f"window-sum{label}", pooling.window_sum, (x,), windows
        yield f"window-sum-input{label}", pooling.window_sum_input, (above,), {**windows, "lengths": x.shape[2:]}
    q, k, v = (draw(2, 3, 10, 8, seed=i) for i in range(3))
    mask = draw(1, 1, 10, 10)
    yield "attention", attention.attention, (q, k, v, None), {"scale": 0.3, "causal": False}
    yield "attention-causal", attention.attention, (q, k, v, None), {"scale": 0.3, "causal": True}
    yield "attention-masked", attention.attention, (q, k, v, mask), {"scale": 0.3, "causal": False}
    above = draw(2, 10, 3, 8)
    yield "attention-gradient", attention.attention_gradient, (above, q, k, v, None), {"scale": 0.3, "causal": True}
    rows = np.array([3, 0, 3, -1, 5, 2])
    yield "index-add", indexing.index_add, (draw(6, 7), rows), {"shape": (8, 7), "pattern": (0,)}
    yield "gelu", activation._gelu, (draw(5, 33),), {}
    for f in (activation._softmax, activation._log_softmax):
        yield f.__name__, f, (draw(5, 33),), {"axis": 1}
        yield f"{f.__name__}-first", f, (draw(5, 33),), {"axis": 0}
    yield (
        "layer-norm",
        normalization.standardize,
        (draw(6, 40), draw(40), draw(40, seed=1)),
        {"axes": (1,), "eps": 1e-5},
    )
    yield "batch-norm", normalization.standardize, (x, draw(1, 3, 1, 1), None), {"axes": (0, 2, 3), "eps": 1e-5}


CASES = [pytest.param(f, inputs, params, id=name) for name, f, inputs, params in cases()]


@pytest.mark.usefixtures("everything")
class TestKernels:
    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    @pytest.mark.parametrize(("f", "inputs", "params"), CASES)
    def test_an_op(self, f: Any, inputs: Any, params: Any, dtype: Any) -> None:
        inputs = tuple(x.astype(dtype) if x is not None and x.dtype.kind == "f" else x for x in inputs)
        expected = f.op.evaluate(*inputs, **params)
        found = f.op.native.find(inputs, params)
        close(found, expected)
        assert found.flags.c_contiguous
        again = f.op.native.find(inputs, params)
        assert again is not found
        np.testing.assert_array_equal(again, found)
        assert len(f.op.native.kernels) == 1

    @pytest.mark.parametrize(("f", "inputs", "params"), CASES)
    def test_an_op_through_its_call(self, f: Any, inputs: Any, params: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        expected = f.op.evaluate(*inputs, **params)
        monkeypatch.setattr(f.op, "evaluate", _never)
        close(apply(f.op, inputs, params).array, expected)

    def test_arrays_that_lie_in_another_order(self) -> None:
        for x in (
            draw(8, 3, 9, 2).transpose(3, 1, 2, 0),
            draw(4, 6, 18, 16)[::2, ::2, ::2, ::2],
            draw(2, 3, 8, 9).swapaxes(2, 3),
        ):
            w = draw(4, 3, 3, 3).transpose(0, 1, 3, 2)
            x = x[:2, :3]
            found = convolution.convolution.op.native.find((x, w), CONV)  # type: ignore[attr-defined]
            close(found, convolution.convolution.op.evaluate(x, w, **CONV))  # type: ignore[attr-defined]

    def test_an_array_that_is_repeated(self) -> None:
        x = np.broadcast_to(draw(33), (5, 33))
        close(activation._gelu.op.native.find((x,), {}), activation._gelu.op.evaluate(x))

    def test_arrays_that_may_not_be_written(self) -> None:
        x = draw(5, 33)
        x.flags.writeable = False
        close(activation._gelu.op.native.find((x,), {}), activation._gelu.op.evaluate(x))

    def test_arrays_out_of_line(self) -> None:
        x = np.frombuffer(b"\0" + draw(5, 33).tobytes(), np.uint8)[1:].view(np.float32).reshape(5, 33)
        assert not x.flags.aligned
        close(activation._gelu.op.native.find((x,), {}), activation._gelu.op.evaluate(x))

    def test_special_values(self) -> None:
        x = np.array([[np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-45, 3e38, -100.0] * 3], np.float32)
        found = activation._gelu.op.native.find((x,), {})
        with np.errstate(all="ignore"):
            expected = activation._gelu.op.evaluate(x)
        np.testing.assert_allclose(found, expected, rtol=1e-6)

    def test_numbers_tell_kernels_apart(self) -> None:
        x, slot = draw(6, 40), normalization.standardize.op.native  # type: ignore[attr-defined]
        small, large = (slot.find((x, None, None), {"axes": (1,), "eps": eps}) for eps in (1e-5, 1.0))
        assert len(slot.kernels) == 2
        assert np.abs(small).max() > np.abs(large).max()

    def test_types_without_kernels_are_left_to_numpy(self) -> None:
        for dtype in (np.float16, np.complex64, np.dtype(">f4")):
            assert normalization._moments.find((draw(6, 40).astype(dtype), (1,)), {}) is None

    def test_rules(self) -> None:
        g, x = draw(6, 40), draw(6, 40, seed=1)
        soft = activation._softmax.op.evaluate(x, axis=1)
        scale = draw(40)
        for rule, arguments in (
            (activation._gelu_dx, (g, x)), (activation._softmax_dx, (g, soft, 1)),
            (activation._log_softmax_dx, (g, x, 1)), (normalization._dx_by_ops, (g, x, scale, (1,), 1e-5)),
            (normalization._dx_by_ops, (g, x, None, (0,), 1e-5)),
            (normalization._dweight_by_ops, (g, x, (40,), (1,), 1e-5)),
        ):  # fmt: skip
            found = rule.native.find(arguments, {})
            with compiler.eager_kernels(False):
                expected = rule(*arguments)
            close(found, np.asarray(getattr(expected, "array", expected)))

    def test_an_index_out_of_range(self) -> None:
        x, rows = draw(6, 7), np.array([3, 0, 3, 8, 5, 2])
        settings = {"shape": (8, 7), "pattern": (0,)}
        assert indexing.index_add.op.native.find((x, rows), settings) is None  # type: ignore[attr-defined]
        with pytest.raises(IndexError, match="out of bounds"):
            apply(indexing.index_add.op, (x, rows), settings)  # type: ignore[attr-defined]

    @pytest.mark.parametrize("make", [
        lambda p: optim.Adam(p, lr=1e-2), lambda p: optim.AdamW(p, lr=1e-2, weight_decay=0.1),
        lambda p: optim.Adam(p, weight_decay=0.1, amsgrad=True, maximize=True), lambda p: optim.SGD(p, lr=0.1),
        lambda p: optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.1),
        lambda p: optim.SGD(p, lr=0.1, momentum=0.9, dampening=0.5),
    ])  # fmt: skip
    def test_an_optimizer(self, make: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
        def run() -> tuple[Any, list[Any], int]:
            p = nn.Parameter(ad.from_numpy(draw(7, 9)))
            optimizer = make([p])
            memory = p.array
            for i in range(4):
                p.grad = ad.from_numpy(draw(7, 9, seed=i + 1))
                optimizer.step()
            assert p.array is memory
            state = [t.array for t in optimizer.state.get(p, {}).values()]
            return p.array, state, p._version

        with monkeypatch.context() as patch:
            patch.setattr(optim.adam, "_update_parameter", _never)
            patch.setattr(optim.sgd, "_update_parameter", _never)
            found, state, version = run()
        with compiler.eager_kernels(False):
            expected, wanted, count = run()
        close(found, expected)
        for a, b in zip(state, wanted, strict=True):
            close(a, b)
        assert version > 0
        assert count > 0

    def test_a_step_by_a_kernel_counts_as_a_write(self) -> None:
        p = nn.Parameter(ad.from_numpy(draw(7, 9)))
        loss = (p * p).sum()
        p.grad = ad.from_numpy(draw(7, 9, seed=1))
        optim.SGD([p], lr=0.1).step()
        assert len(optim.sgd.UPDATE_KERNEL.kernels) == 1
        raises(RuntimeError, "modified by an inplace operation", loss.backward)

    def test_a_step_that_ops_must_do(self) -> None:
        base = ad.from_numpy(draw(7, 9))
        with_gaps, view = nn.Parameter(ad.from_numpy(draw(7, 18)[:, ::2])), base[1:]
        own = nn.Parameter(ad.from_numpy(draw(7, 9)))
        for p, g in ((with_gaps, draw(7, 9)), (view, draw(6, 9)), (own, own.array)):
            p.grad = ad.from_numpy(g)
            before = p.array.copy()
            optim.SGD([p], lr=0.5).step()
            close(p.array, before - np.float32(0.5) * (g if g is not own.array else before))
        assert not optim.sgd.UPDATE_KERNEL.kernels

    def test_threads(self) -> None:
        x = [draw(6, 40, seed=i) for i in range(8)]
        expected = [activation._gelu.op.evaluate(a) for a in x]

        def work(i: int) -> None:
            for _ in range(200):
                close(activation._gelu.op.native.find((x[i],), {}), expected[i])

        in_threads(work, 8)

    def test_within_a_compiled_step_and_a_transform(self) -> None:
        x = ad.from_numpy(draw(5, 33))
        first = F.gelu(x)
        count = len(activation._gelu.op.native.kernels)
        assert count == 1
        close(ad.compile(F.gelu)(x).array, first.array)
        close(ad.vmap(F.gelu)(x).array, first.array)
        assert len(activation._gelu.op.native.kernels) == count

    def test_gradients_of_higher_order(self) -> None:
        def second(x: Any) -> Any:
            x = x.requires_grad_()
            weight = ad.from_numpy(draw(33, dtype=np.float64))
            out = F.layer_norm(F.gelu(x), (33,), weight)
            (g,) = ad.autograd.grad((out * out * out).sum(), [x], create_graph=True)
            return ad.autograd.grad((g * g).sum(), [x])[0].array

        values = draw(5, 33, dtype=np.float64)
        found = second(ad.from_numpy(values.copy()))
        with compiler.eager_kernels(False):
            expected = second(ad.from_numpy(values.copy()))
        close(found, expected)

    @pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
    def test_a_forked_child(self) -> None:
        x = draw(6, 40)
        expected = activation._gelu.op.native.find((x,), {})
        y = draw(3, 5)
        child = os.fork()
        if not child:
            same = np.array_equal(activation._gelu.op.native.find((x,), {}), expected)
            new = activation._gelu.op.native.find((y,), {})
            os._exit(0 if same and new is not None else 1)
        assert os.waitpid(child, 0)[1] == 0

    def test_shapes_that_keep_changing(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(eager_kernels, "MAX_SHAPES_PER_OP", 2)
        found = [activation._gelu.op.native.find((draw(n),), {}) is not None for n in (3, 4, 5, 3, 4, 6)]
        assert found == [True, True, False, True, True, False]

    def test_a_fault_is_told_where_it_is_asked_for(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def faulty(*_: Any) -> Any:
            raise ValueError("no kernel today")

        monkeypatch.setattr("adjoint.compiler.eager.recipes.lower_all", faulty)
        x = draw(4, 5)
        raises(ValueError, "no kernel today", activation._gelu.op.native.find, (x,), {})
        monkeypatch.setattr(kernel_provider, "strict", False)
        assert activation._gelu.op.native.find((x,), {}) is None
        close(F.gelu(ad.from_numpy(x)).array, activation._gelu.op.evaluate(x))
        assert list(activation._gelu.op.native.kernels.values()) == [None]


class TestWhichCalls:
    def test_small_ones_are_left_to_numpy(self) -> None:
        F.gelu(ad.ones(100))
        assert not activation._gelu.op.native.kernels

    def test_large_ones_take_a_kernel_at_once(self) -> None:
        F.gelu(ad.ones(100_000))
        assert len(activation._gelu.op.native.kernels) == 1

    def test_none_where_they_are_switched_off(self) -> None:
        x = ad.ones(100_000)
        with compiler.eager_kernels(False):
            F.gelu(x)
        assert not activation._gelu.op.native.kernels
        compiler.eager_kernels(False)
        F.gelu(x)
        assert not activation._gelu.op.native.kernels
        compiler.eager_kernels(True)
        F.gelu(x)
        assert activation._gelu.op.native.kernels

    def test_training_takes_them(self) -> None:
        ad.manual_seed(0)
        model = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2))
        optimizer = optim.Adam(model.parameters())
        x = ad.randn(8, 3, 64, 64)

        def step() -> tuple[Any, list[Any]]:
            optimizer.zero_grad()
            loss = (model(x) ** 2).mean()
            loss.backward()
            return loss.item(), [p.grad.array.copy() for p in model.parameters()]

        state = {k: v.clone() for k, v in model.state_dict().items()}
        loss, gradients = step()
        running = model[1].running_var.array.copy()
        for op in (
            convolutions._convolution, convolution.convolution_weight, pooling.max_pool, pooling.max_pool_input,
        ):  # fmt: skip
            assert op.op.native.kernels, op.__name__
        model.load_state_dict(state)
        with compiler.eager_kernels(False):
            expected, wanted = step()
        assert loss == pytest.approx(expected, rel=1e-5)
        close(running, model[1].running_var.array)
        for a, b in zip(gradients[1:], wanted[1:], strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-5)


PROGRAM = """
import sys
{before}
import adjoint as ad
import adjoint.nn.functional as F
assert "llvmlite" not in sys.modules or sys.modules["llvmlite"] is None
(ad.ones(10, requires_grad=True) * 2).tanh().cumsum(0)[3].backward()
assert "adjoint.compiler" not in sys.modules
out = F.gelu(ad.ones(100_000))
assert abs(out[5].item() - 0.8413447) < 1e-6
print("adjoint.compiler.eager.kernels" in sys.modules and sys.modules.get("llvmlite") is not None)
"""


@pytest.mark.parametrize(
    ("before", "environment", "compiled"),
    [
        ("", {}, True),
        ("sys.modules['llvmlite'] = None", {}, False),
        ("", {"ADJOINT_EAGER_KERNELS": "0"}, False),
    ],
    ids=["present", "absent", "switched-off"],
)
def test_when_llvmlite_is_imported(before: str, environment: dict[str, str], compiled: bool) -> None:
    assert output_of(PROGRAM.format(before=before), **{"ADJOINT_EAGER_KERNELS": "1", **environment}) == str(compiled)


def _never(*_: Any, **__: Any) -> Any:
    raise AssertionError("NumPy was asked")
