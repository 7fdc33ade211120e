"""Writes in place into what backward needs, through whatever sees it, and writes that overlap."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.support.checks import raises

import adjoint as ad
from adjoint.autograd import gradcheck

WRITES: dict[str, Callable[[Any], Any]] = {
    "itself": lambda y: y.add_(5.0), "view": lambda y: y[1:].mul_(2.0),
    "view of a view": lambda y: y.reshape(2, 2)[0].zero_(), "detached": lambda y: y.detach().add_(5.0),
    "data": lambda y: y.data.fill_(3.0), "view of detached": lambda y: y.detach()[2:].add_(1.0),
    "index": lambda y: y.__setitem__(0, 9.0), "mask": lambda y: y.masked_fill_(y.detach() > 2.0, 0.0),
    "positions": lambda y: y.__setitem__(ad.tensor([0, 3]), 9.0), "copy": lambda y: y.copy_(ad.zeros(4)),
    "out=": lambda y: ad.exp(ad.zeros(4), out=y.detach()),
}  # fmt: skip


@pytest.mark.claim("P1")
@pytest.mark.parametrize("recorded", [True, False])
@pytest.mark.parametrize("write", WRITES)
def test_what_backward_needs_was_written(write: str, recorded: bool) -> None:
    x = ad.tensor([1.0, 2.0, 0.5, 1.5], requires_grad=True)
    y = x.exp()
    z = y * 1.0
    with ad.set_grad_enabled(recorded):
        WRITES[write](y)
    raises(RuntimeError, r"modified by an inplace operation.*ExpBackward0 saved at.*written at", z.sum().backward)


@pytest.mark.claim("P1")
@pytest.mark.parametrize("write", WRITES)
def test_what_backward_does_not_need_may_be_written(write: str) -> None:
    x = ad.tensor([1.0, 2.0, 0.5, 1.5], requires_grad=True)
    y = x + 1.0
    z = y * 2.0
    with ad.no_grad():
        WRITES[write](y)
    z.sum().backward()
    assert x.grad.tolist() == [2.0] * 4


@pytest.mark.claim("P1")
@pytest.mark.parametrize("write", ["itself", "view", "view of a view", "index", "mask", "positions"])
def test_the_history_of_a_write_is_right(write: str) -> None:
    def f(x: Any) -> Any:
        y = x * 3.0
        view = y[1:]
        WRITES[write](y)
        return (y.sin() + y * y).sum() + (view * view).sum()

    gradcheck(f, [ad.tensor([1.0, 2.0, 0.5, 1.5], dtype=ad.float64, requires_grad=True)])


@pytest.mark.claim("P1")
@pytest.mark.parametrize("write", [lambda x: x.add_(1.0), lambda x: x[1:].zero_(), lambda x: x.__setitem__(0, 1.0)])
def test_a_leaf_is_not_written(write: Callable[[Any], Any]) -> None:
    x = ad.ones(3, requires_grad=True)
    raises(RuntimeError, "leaf Variable that requires grad", lambda: write(x))
    assert x.tolist() == [1.0, 1.0, 1.0]


OVERLAPS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "shifted up": (lambda t: t[1:].add_(t[:-1]), lambda a: np.concatenate([a[:1], a[1:] + a[:-1]])),
    "shifted down": (lambda t: t[:-1].mul_(t[1:]), lambda a: np.concatenate([a[:-1] * a[1:], a[-1:]])),
    "transposed": (lambda t: t.add_(t.t()), lambda a: a + a.T),
    "mirrored copy": (lambda t: t.copy_(t.flip(0)), lambda a: a[::-1]),
    "assigned to itself": (lambda t: t.__setitem__(slice(1, None), t[:-1]), lambda a: np.concatenate([a[:1], a[:-1]])),
    "product into itself": (lambda t: ad.matmul(t, t, out=t), lambda a: a @ a),
}


@pytest.mark.claim("P4")
@pytest.mark.parametrize("size", [4, 300])
@pytest.mark.parametrize("overlap", OVERLAPS)
def test_overlapping_writes_read_what_was_there_before(overlap: str, size: int) -> None:
    write, expected = OVERLAPS[overlap]
    start = np.random.default_rng(0).standard_normal((size, size))
    t = ad.tensor(start)
    write(t)
    np.testing.assert_allclose(t.numpy(), expected(start), rtol=1e-12, atol=1e-9)


@pytest.mark.claim("P4")
@pytest.mark.parametrize("size", [4, 300])
def test_out_that_overlaps_an_operand_in_part_is_refused(size: int) -> None:
    start = np.random.default_rng(0).standard_normal((size, size))
    t = ad.tensor(start)
    with pytest.raises(RuntimeError, match="some elements of the input tensor and the written-to tensor"):
        ad.add(t[:-1], t[:-1], out=t[1:])
    np.testing.assert_array_equal(t.numpy(), start)


@pytest.mark.claim("P4")
@pytest.mark.parametrize("overlap", [name for name in OVERLAPS if "into" not in name])
def test_gradients_of_overlapping_writes_are_right(overlap: str) -> None:
    def f(x: Any) -> Any:
        t = x * 2.0
        OVERLAPS[overlap][0](t)
        return t * t

    gradcheck(f, [ad.tensor(np.random.default_rng(1).standard_normal((3, 3)), requires_grad=True)])


@pytest.mark.claim("P4")
@pytest.mark.parametrize(
    "write",
    [
        lambda t: t.add_(1.0),
        lambda t: t.__setitem__(0, 1.0),
        lambda t: t[:2].add_(1.0),
        lambda t: t.copy_(ad.zeros(3, 2)),
        lambda t: ad.add(ad.ones(3, 2), 1.0, out=t),
    ],
)
@pytest.mark.parametrize("repeated", [lambda x: x[:1].expand(3, 2), lambda x: x.as_strided((3, 2), (1, 0))])
def test_memory_that_repeats_elements_is_not_written(
    write: Callable[[Any], Any], repeated: Callable[[Any], Any]
) -> None:
    x = ad.arange(4.0)
    raises(RuntimeError, "more than one element of the written-to tensor", lambda: write(repeated(x)))
    assert x.tolist() == [0.0, 1.0, 2.0, 3.0]
