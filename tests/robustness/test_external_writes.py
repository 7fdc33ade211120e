"""Memory that NumPy sees too is written behind our back, may not be written, or is laid out oddly."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.support.checks import raises

import adjoint as ad
import adjoint.nn.functional as F
from adjoint.autograd import Function
from adjoint.core.tensor.external_aliases import externally_aliased
from adjoint.core.tensor.mutation_log import mutation_log

SIZES = [4, 300_000]


class Cube(Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x * x * x

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        (x,) = ctx.saved_tensors
        return grads[0] * 3.0 * x * x


class Exponential(Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        y = x.exp()
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return grads[0] * ctx.saved_tensors[0]


SAVERS: dict[str, Callable[[Any], Any]] = {  # each keeps its input, of which one dimension can be split in two
    "product": lambda x: x * x,
    "of two": lambda x: x * x.detach().clone(),
    "unary": lambda x: x.sin(),
    "general": lambda x: F.softplus(x) + ad.maximum(x, x * 0.5),
    "matmul": lambda x: x.reshape(2, -1) @ x.reshape(2, -1).t(),
    "reduction": lambda x: x.prod() + x.std(),
    "convolution": lambda x: F.conv1d(x.reshape(1, 1, -1), x.reshape(1, 1, -1)[:, :, :3]),
    "linear": lambda x: F.linear(x.reshape(2, -1), x.reshape(2, -1)),
    "function": lambda x: Cube.apply(x),
    "a view": lambda x: x[1:] * x[:-1],
    "in place": lambda x: (x * 1.0).mul_(x),
}
WRITES: dict[str, Callable[[Any], Any]] = {
    "item": lambda a: a.__setitem__(0, 5.0),
    "view": lambda a: a[1:].reshape(-1).__setitem__(slice(None), -3.0),
    "out=": lambda a: np.negative(a, out=a),
    "view that stays": lambda a: a.T[::-1].__iadd__(1.0),
}


def gradient(f: Callable[[Any], Any], values: Any) -> Any:
    x = ad.tensor(values, requires_grad=True)
    f(x).sum().backward()
    return x.grad.numpy()


@pytest.mark.sweep(4)
@pytest.mark.claim("P2")
@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("save", SAVERS)
@pytest.mark.parametrize("expose", ["detach", "data", "asarray", "from_numpy", "as_tensor", "Tensor", "a view"])
def test_what_numpy_sees_is_saved_as_a_copy(expose: str, save: str, write: str) -> None:
    values = np.array([1.0, 2.0, 0.5, 1.5], np.float32 if expose == "Tensor" else np.float64)  # whose type it keeps
    if expose in ("from_numpy", "as_tensor", "Tensor"):
        array = values.copy()
        x = getattr(ad, expose)(array).requires_grad_()
    else:
        x = ad.tensor(values, requires_grad=True)
        source = {"detach": x.detach(), "data": x.data, "asarray": x.detach(), "a view": x.detach()[:]}[expose]
        array = np.asarray(source) if expose == "asarray" else source.numpy()
    assert np.shares_memory(array, x.detach().numpy())
    y = SAVERS[save](x).sum()
    WRITES[write](array)
    y.backward()
    np.testing.assert_array_equal(x.grad.numpy(), gradient(SAVERS[save], values))


@pytest.mark.claim("P2")
@pytest.mark.parametrize("kept", [True, False])
@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("save", [name for name in SAVERS if name not in ("of two", "in place")])
def test_a_write_into_what_was_saved_before_is_noticed(save: str, write: str, kept: bool) -> None:
    x = ad.tensor([1.0, 2.0, 0.5, 1.5], dtype=ad.float64, requires_grad=True)
    h = x * 1.0
    y = SAVERS[save](h).sum()
    array = h.detach().numpy()
    WRITES[write](array)
    if not kept:
        del array
    raises(RuntimeError, rf"written through NumPy, by the array that got its memory at {__file__}:", y.backward)


@pytest.mark.claim("P2")
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("result", [lambda x: x.exp(), Exponential.apply, lambda x: x.sigmoid(), lambda x: x.tanh()])
def test_a_result_that_was_saved(result: Callable[[Any], Any], size: int) -> None:
    x = ad.full((size,), 0.5, requires_grad=True)
    y = result(x)
    array = y.detach().numpy()
    array[-1] = 5.0
    raises(RuntimeError, "through NumPy", y.sum().backward)


@pytest.mark.claim("P2")
@pytest.mark.parametrize("size", SIZES)
def test_reading_is_free(size: int) -> None:
    x = ad.full((size,), 0.5, requires_grad=True)
    y = x.exp()
    array = y.detach().numpy()
    total = array.sum() + y.detach().numpy()[1:].sum()
    y.sum().backward()
    assert total > 0
    np.testing.assert_array_equal(x.grad.numpy(), y.detach().numpy())


@pytest.mark.claim("P2")
def test_a_view_outlives_what_it_is_a_view_of() -> None:
    x = ad.tensor([1.0, 2.0, 3.0], requires_grad=True)
    tail = x.detach().numpy()[1:][1:]
    gc.collect()
    y = (x * x).sum()
    tail[:] = 100.0
    y.backward()
    assert x.grad.tolist() == [2.0, 4.0, 6.0]


@pytest.mark.claim("P2")
def test_a_part_that_was_given_away() -> None:
    x = ad.tensor([1.0, 2.0, 3.0], requires_grad=True)
    h = x * 1.0
    y = (h * h).sum()
    row = h.detach()[1:2].numpy()
    row += 1.0
    raises(RuntimeError, "through NumPy", y.backward)


@pytest.mark.claim("P2")
def test_only_a_part_was_made_ours() -> None:
    whole = np.arange(6.0)
    w = ad.ones(3, dtype=ad.float64, requires_grad=True)
    y = (ad.from_numpy(whole[:3]) * w + ad.from_numpy(whole[3:]) * w).sum()
    whole *= 100.0
    y.backward()
    assert w.grad.tolist() == [3.0, 5.0, 7.0]


@pytest.mark.claim("P2")
def test_a_read_only_view_of_what_is_written() -> None:
    array = np.ones(3)
    shown = array.view()
    shown.flags.writeable = False
    w = ad.ones(3, dtype=ad.float64, requires_grad=True)
    y = (ad.from_numpy(shown) * w).sum()
    array[:] = 7.0
    y.backward()
    assert w.grad.tolist() == [1.0, 1.0, 1.0]


@pytest.mark.claim("P2")
def test_memory_of_others() -> None:
    memory = bytearray(np.ones(3).tobytes())
    w = ad.ones(3, dtype=ad.float64, requires_grad=True)
    y = (ad.from_numpy(np.frombuffer(memory)) * w).sum()
    memory[:8] = np.float64(9.0).tobytes()
    y.backward()
    assert w.grad.tolist() == [1.0, 1.0, 1.0]


@pytest.mark.claim("P2")
def test_an_array_as_operand() -> None:
    array = np.array([2.0, 3.0])
    w = ad.ones(2, dtype=ad.float64, requires_grad=True)
    y = (w * array + array * w + ad.maximum(w, array * 0) + w / array).sum()
    array[:] = 100.0
    y.backward()
    np.testing.assert_allclose(w.grad.numpy(), [4.0 + 1 + 1 / 2, 6.0 + 1 + 1 / 3])


@pytest.mark.claim("P2")
@pytest.mark.parametrize("wrapped", [False, True])
def test_an_index_that_changes(wrapped: bool) -> None:
    at = np.array([0, 2])
    x = ad.arange(3, dtype=ad.float64, requires_grad=True)
    index = ad.from_numpy(at) if wrapped else at
    y = x[index].sum() + ad.gather(x, 0, ad.from_numpy(at)).sum() + x.index_select(0, ad.from_numpy(at)).sum()
    at[:] = 1
    y.backward()
    assert x.grad.tolist() == [3.0, 0.0, 3.0]


@pytest.mark.claim("P2")
@pytest.mark.parametrize(
    "seen",
    [
        lambda x: ad.Tensor(x),
        lambda x: ad.nn.Parameter(x, requires_grad=False),
        lambda x: x.unfold(0, 2, 2).reshape(4),
        lambda x: x.as_strided((4,), (1,)),
        lambda x: x.view(2, 2).t().t().reshape(4),
        lambda x: x.narrow(0, 0, 4).detach().expand(4),
    ],
)
def test_whichever_tensor_sees_the_memory(seen: Callable[[Any], Any]) -> None:
    x = ad.tensor([1.0, 2.0, 3.0, 4.0])
    other, w = seen(x), ad.ones(4, requires_grad=True)
    for given, saved in ((x, other), (other, x)):
        array = given.numpy()
        before, w.grad = saved.tolist(), None
        y = (saved * w).sum()
        array += 1.0
        y.backward()
        assert w.grad.tolist() == before


@pytest.mark.claim("P2")
def test_second_derivatives_keep_the_leaf() -> None:
    array = np.array([1.0, 2.0])
    x = ad.from_numpy(array).requires_grad_()
    (g,) = ad.autograd.grad((x * x * x).sum(), x, create_graph=True)
    array[:] = 50.0
    (gg,) = ad.autograd.grad(g.sum(), x)
    assert gg.tolist() == [6.0, 12.0]


@pytest.mark.claim("P2")
def test_our_own_writes_name_their_own_line() -> None:
    x = ad.tensor([1.0, 2.0], requires_grad=True)
    h = x * 1.0
    y = (h * h).sum()
    array = h.detach().numpy()
    h.add_(1.0)
    raises(RuntimeError, rf"written at {__file__}:", y.backward)
    assert array[0] == 2.0


@pytest.mark.claim("P2")
def test_a_write_before_anything_is_saved_counts() -> None:
    array = np.array([1.0, 2.0])
    x = ad.from_numpy(array).requires_grad_()
    array[:] = 3.0
    (x * x).sum().backward()
    array[:] = 4.0
    (x * x).sum().backward()
    assert x.grad.tolist() == [14.0, 14.0]


@pytest.mark.claim("P2")
def test_nothing_is_remembered_of_what_nobody_sees() -> None:
    gc.collect()
    before, sealed = len(externally_aliased), sum(len(w.checksums) for w in mutation_log.by_memory.values())
    x = ad.ones(3, requires_grad=True)
    for _ in range(100):
        y = x.exp()
        assert y.detach().numpy().sum() > 0
        assert x.detach().numpy().sum() == 3
        (ad.from_numpy(np.ones(3, np.float32)) * x).sum().backward()
    assert len(externally_aliased) == before
    assert sum(len(w.checksums) for w in mutation_log.by_memory.values()) == sealed


@pytest.mark.claim("P3")
def test_read_only_arrays_are_never_written() -> None:
    for array in (np.frombuffer(np.ones(3).tobytes()), np.broadcast_to(np.ones(1), (3,))):
        x = ad.from_numpy(array)
        for write in (x.zero_, lambda x=x: x.add_(1.0), lambda x=x: x.__setitem__(0, 2.0), x[1:].zero_):
            raises(RuntimeError, "read-only", write)
        assert array.tolist() == [1.0, 1.0, 1.0]
        assert not x.numpy().flags.writeable
        x.requires_grad_()
        (x * x).sum().backward()
        (x * x).sum().backward()
        assert x.grad.tolist() == [4.0, 4.0, 4.0]


@pytest.mark.claim("P3")
@pytest.mark.parametrize(
    "array",
    [np.arange(6.0)[::-1], np.arange(6.0).reshape(2, 3)[:, ::-1], np.arange(6.0).reshape(2, 3).T[::-1]],
    ids=["reversed", "mirrored", "mirrored transpose"],
)
def test_negative_strides(array: Any) -> None:
    raises(ValueError, "stride", ad.from_numpy, array)
    for x in (ad.tensor(array, requires_grad=True), ad.as_tensor(array).requires_grad_()):
        assert x.tolist() == array.tolist()
        (x * x).sum().backward()
        np.testing.assert_array_equal(x.grad.numpy(), 2 * array)


@pytest.mark.claim("P3")
@pytest.mark.parametrize("kind", [">f8", ">f4", ">i4"])
def test_big_endian(kind: str) -> None:
    array = np.arange(3).astype(kind)
    raises(ValueError, "byte order", ad.from_numpy, array)
    assert ad.tensor(array).tolist() == ad.as_tensor(array).tolist() == [0, 1, 2]


@pytest.mark.claim("P3")
@pytest.mark.parametrize("view", [lambda a: a.T, lambda a: a[::2, 1:], lambda a: a[:, None], lambda a: a[1]])
def test_strided_memory_is_shared(view: Callable[[Any], Any]) -> None:
    array = np.arange(12.0).reshape(4, 3)
    x = ad.from_numpy(view(array))
    array += 1.0
    np.testing.assert_array_equal(x.numpy(), view(array))
    x.mul_(2.0)
    np.testing.assert_array_equal(x.numpy(), view(array))
