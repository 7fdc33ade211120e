"""Writing where a mask of the step is true: what is written, its gradients and its errors are what they are eagerly."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.compiler.ir.graph import TraceError

pytest.importorskip("llvmlite")
ROW, GRID = [True, False, True, True], [[True, False, False, True], [False] * 4, [False, True, True, True]]
NEVER = [False] * 4


def numbers(*shape: int) -> Any:
    return ad.from_numpy(np.random.default_rng(len(shape)).normal(size=shape))


def assigned(key: Callable[[Any], Any]) -> Callable[[Any, Any, Any], Any]:
    def write(x: Any, mask: Any, value: Any) -> None:
        x[key(mask)] = value

    return write


def itself(mask: Any) -> Any:
    return mask


# What writes, the shape that it writes to, the mask, the shape of the value.
WRITES: dict[str, tuple[Any, Any, Any, Any]] = {
    "a scalar": (assigned(itself), (4,), ROW, ()),
    "one element": (assigned(itself), (4,), ROW, (1,)),
    "as many as are true": (assigned(itself), (4,), ROW, (3,)),
    "of two dimensions": (assigned(itself), (3, 4), GRID, (5,)),
    "rows": (assigned(itself), (4, 2), ROW, (2,)),
    "a row for each": (assigned(itself), (4, 2), ROW, (3, 2)),
    "a number for each row": (assigned(itself), (4, 2), ROW, (3, 1)),
    "columns": (assigned(lambda m: (slice(None), m)), (2, 4), ROW, (2, 3)),
    "a number for each column": (assigned(lambda m: (slice(None), m)), (2, 4), ROW, (3,)),
    "a part of rows": (assigned(lambda m: (m, slice(1, 3))), (4, 5), ROW, (3, 2)),
    "of one row": (assigned(lambda m: (1, m)), (3, 4), ROW, (3,)),
    "after new and omitted dimensions": (assigned(lambda m: (None, ..., m)), (2, 4), ROW, (1, 2, 3)),
    "leading ones": (assigned(itself), (4,), ROW, (1, 1, 3)),
    "one truth": (assigned(itself), (4,), True, (4,)),
    "one untruth": (assigned(itself), (4,), False, (1, 4)),
    "nothing": (assigned(itself), (4,), NEVER, (0,)),
    "one for nothing": (assigned(itself), (4,), NEVER, (1,)),
    "through a view": (lambda x, m, v: x[1:].__setitem__(m, v), (5,), ROW, (3,)),
    "index_put_": (lambda x, m, v: x.index_put_((m,), v), (4,), ROW, (3,)),
    "index_put_ added": (lambda x, m, v: x.index_put_((m,), v, accumulate=True), (4, 2), ROW, (3, 2)),
    "masked_scatter_": (lambda x, m, v: x.masked_scatter_(m, v), (3, 4), GRID, (4, 2)),
    "masked_scatter_ of rows": (lambda x, m, v: x.masked_scatter_(m, v), (3, 4), ROW, (9,)),
    "masked_scatter_ of nothing": (lambda x, m, v: x.masked_scatter_(m, v), (4,), NEVER, (0,)),
}


def step(write: Any) -> Callable[..., list[Any]]:
    def run(x: Any, mask: Any, value: Any) -> list[Any]:
        leaves = [x.detach().requires_grad_(), value.detach().requires_grad_()]
        y = leaves[0] * 1
        write(y, mask, leaves[1])
        weights = ad.from_numpy(np.cos(np.arange(y.numel())).reshape(y.shape))
        return [y, *ad.autograd.grad((y * weights).sum(), leaves)]

    return run


@pytest.mark.parametrize("name", WRITES)
def test_writes(name: str) -> None:
    write, shape, mask, given = WRITES[name]
    x, value = numbers(*shape), numbers(*given)
    compiled = ad.compile(step(write))
    for truths in (np.array(mask), np.flip(np.array(mask))):  # as many are true, elsewhere
        arguments = (x, ad.tensor(truths), value)
        for got, expected in zip(compiled(*arguments), step(write)(*arguments), strict=True):
            np.testing.assert_array_equal(got.detach().numpy(), expected.detach().numpy())
    assert compiled.compilations == 1


@pytest.mark.parametrize(("write", "shape", "given"), [
    (assigned(itself), (4,), (2,)), (assigned(itself), (4,), (4,)), (assigned(itself), (4,), (0,)),
    (WRITES["masked_scatter_"][0], (3, 4), (5,)),
])  # fmt: skip
def test_a_value_of_another_size_is_refused_in_the_same_words(write: Any, shape: Any, given: Any) -> None:
    arguments = numbers(*shape), ad.tensor(ROW), numbers(*given)
    with pytest.raises(RuntimeError) as eager:
        step(write)(*arguments)
    with pytest.raises(RuntimeError) as compiled:
        ad.compile(step(write))(*arguments)
    assert str(compiled.value) == str(eager.value)


def test_a_shape_that_fits_no_number_of_truths_is_refused() -> None:
    with pytest.raises(RuntimeError, match=r"shape \[3, 3\] cannot be broadcast to indexing result of shape"):
        ad.compile(step(assigned(itself)))(numbers(4, 2), ad.tensor(ROW), numbers(3, 3))


def test_the_size_is_checked_in_each_call() -> None:
    compiled = ad.compile(step(assigned(itself)))
    compiled(numbers(4), ad.tensor(ROW), numbers(3))
    with pytest.raises(RuntimeError, match=r"\[3\] cannot be broadcast to indexing result of shape \[0\]"):
        compiled(numbers(4), ad.tensor(NEVER), numbers(3))


def test_integers_and_truths_are_written() -> None:
    def run(x: Any, truths: Any, mask: Any) -> Any:
        x, truths = x.clone(), truths.clone()
        x[mask] = 7
        truths[mask] = True
        return x, truths

    arguments = ad.arange(4), ad.tensor(NEVER), ad.tensor(ROW)
    for got, expected in zip(ad.compile(run)(*arguments), run(*arguments), strict=True):
        assert got.tolist() == expected.tolist()
        assert got.dtype is expected.dtype


def test_an_argument_is_written() -> None:
    x, mask = numbers(4), ad.tensor(ROW)
    expected = [0.5 if chosen else v for v, chosen in zip(x.tolist(), ROW, strict=True)]
    ad.compile(lambda x, mask: x.__setitem__(mask, 0.5))(x, mask)
    assert x.tolist() == expected


@pytest.mark.parametrize(("read", "words"), [
    (lambda x, m: x[:, None].expand(4, 4).clone().__setitem__((m, m), 0.0), "indexing with several masks reads"),
    (lambda x, m: x[:, None].repeat(1, 2).__setitem__((m, [0, 1, 1]), 0.0), "a mask and other tensors"),
])  # fmt: skip
def test_what_depends_on_the_number_of_truths_is_refused(read: Any, words: str) -> None:
    with pytest.raises(TraceError, match=f"{words}.*test_traced_masks.py:"):
        ad.compile(read)(numbers(4), ad.tensor(ROW))
