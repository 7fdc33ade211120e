"""Writes in place that are refused, and that change nothing when they are."""

from typing import Any

import numpy as np
import pytest
from tests.ops.mutation.test_inplace_views import constant, leaf
from tests.support.errors import assert_raises

import adjoint as ad


@pytest.mark.parametrize("view", [
    lambda x: x[:1].expand(2, 4), lambda x: x[:1].expand(2, 4)[:, 1:], lambda x: x.unfold(1, 2, 1),
    lambda x: x.as_strided((2, 2), (1, 1)),
])  # fmt: skip
@pytest.mark.parametrize("write", [lambda y: y.add_(1.0), lambda y: y.__setitem__(..., 0.0), lambda y: y.mul_(y)])
@pytest.mark.parametrize("recorded", [True, False])
def test_memory_that_repeats_elements_is_not_written(view: Any, write: Any, recorded: bool) -> None:
    x = leaf(3, 4) * 1 if recorded else constant(3, 4)
    before = x.tolist()
    assert_raises(RuntimeError, "more than one element of the written-to tensor", lambda: write(view(x)))
    assert (x.tolist(), x._version) == (before, 0)


@pytest.mark.parametrize("view", [lambda x: x[:1].expand(2, 4)[:, 1:], lambda x: x.unfold(1, 2, 1)[:1, 1:]])
def test_one_value_is_written_to_all_of_them(view: Any) -> None:
    w = leaf(3, 4)
    x = w * 2.0
    before = x.tolist()
    view(x).fill_(5.0)
    assert x.tolist() == [[before[0][0], 5.0, 5.0, 5.0], *before[1:]]
    (x * x).sum().backward()
    assert w.grad is not None
    wanted = [[4.0 * before[0][0], 0.0, 0.0, 0.0], *([4.0 * v for v in row] for row in before[1:])]
    np.testing.assert_allclose(w.grad.numpy(), wanted)


def test_windows_that_do_not_overlap_are_written() -> None:
    x = constant(1, 4)
    x.unfold(1, 2, 2).add_(10.0)
    x.as_strided((2, 2), (2, 1)).mul_(2.0)
    assert x.tolist() == [[22.0, 24.0, 26.0, 28.0]]


@pytest.mark.parametrize("view", [lambda x: x, lambda x: x[1:], lambda x: x.view(2, 2).T, lambda x: x[1:][:1]])
def test_a_leaf_and_its_views_are_not_written(view: Any) -> None:
    x = leaf(4)
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad is being used in an in-place operation"):
        view(x).add_(1.0)
    assert (x.tolist(), x._version) == ([1.0, 2.0, 3.0, 4.0], 0)
    with ad.no_grad():
        view(x).add_(1.0)
    assert (x._version, x.is_leaf, x.requires_grad) == (1, True, True)


def test_an_old_view_of_what_became_a_leaf_is_not_written() -> None:
    x = constant(4)
    y = x[1:]
    x.requires_grad_()
    assert_raises(RuntimeError, "a view of a leaf Variable that requires grad", y.mul_, 2.0)


def test_a_part_of_a_view_that_is_a_leaf_is_not_written() -> None:
    y = constant(4)[1:].requires_grad_()
    assert_raises(RuntimeError, "a leaf Variable that requires grad", lambda: y[1:].mul_(2.0))
    assert y.is_leaf


def test_a_leaf_whose_memory_was_written_elsewhere_gets_no_gradient() -> None:
    x = constant(3)
    y = x[1:].requires_grad_()
    z = (y * 1).sum()
    x.mul_(leaf(3))
    assert_raises(RuntimeError, "leaf variable has been moved into the graph interior", z.backward)


def test_views_made_without_grad() -> None:
    x = leaf(3) * 1
    with ad.no_grad():
        y = x[1:]
    assert (y.requires_grad, y._base is x) == (False, True)
    assert_raises(RuntimeError, "A view was created in no_grad mode and is being modified inplace", y.mul_, 2.0)
    with ad.no_grad():
        y.mul_(2.0)
    assert (x.tolist(), x._version) == ([1.0, 4.0, 6.0], 1)


@pytest.mark.parametrize(("block", "called"), [(ad.no_grad, "no_grad"), (ad.inference_mode, "inference_mode")])
def test_views_of_views_made_in_another_mode(block: Any, called: str) -> None:
    x = ad.zeros(2)
    with block():
        y = x.view(2)
    z = y.requires_grad_().view(2)
    text = rf"Output 0 of ViewBackward0 is a view of a view which was created in .* both inside the {called} block"
    assert_raises(RuntimeError, text, z.div_, 2)


def test_a_view_made_without_grad_has_no_gradient_once_its_base_was_written() -> None:
    base = constant(3)
    with ad.no_grad():
        y = base[1:]
    base.mul_(leaf(3))
    assert y.tolist() == [4.0, 9.0]
    with pytest.raises(RuntimeError, match=r"view was created in no_grad mode and its base .* modified inplace"):
        (y * 2).sum().backward()


@pytest.mark.parametrize("pieces", [lambda x: x.split(2), lambda x: x.chunk(2), lambda x: x.unbind()])
def test_pieces_are_not_written_but_see_writes(pieces: Any) -> None:
    x, w = leaf(4, 2), leaf(4, 2)
    base = x * 1
    first, last = pieces(base)[0], pieces(base)[-1]
    assert_raises(RuntimeError, "output of a function that returns multiple views", first.add_, 1.0)
    base.mul_(w)
    (g,) = ad.autograd.grad(last.sum(), w)
    want = np.zeros((4, 2))
    want[4 - np.atleast_2d(last.tolist()).shape[0] :] = x.tolist()[4 - np.atleast_2d(last.tolist()).shape[0] :]
    np.testing.assert_array_equal(g.numpy(), want)


def test_without_history_pieces_are_written() -> None:
    x = constant(4)
    a, b = x.split(2)
    a.copy_(b)
    assert x.tolist() == [3.0, 4.0, 3.0, 4.0]


@pytest.mark.claim("P3")
def test_read_only_memory_is_not_written() -> None:
    array = np.arange(4.0)
    array.flags.writeable = False
    x = ad.from_numpy(array)
    for write in (lambda t: t.add_(1.0), lambda t: t[1:].zero_(), lambda t: t.__setitem__([0, 1], 5.0)):
        assert_raises(RuntimeError, "its memory is read-only", write, x)
    assert array.tolist() == [0.0, 1.0, 2.0, 3.0]
