"""Views and writes in place: who sees whose memory, whose history follows a write, and what is refused."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint as ad

f64 = ad.float64


def leaf(*shape: int, start: float = 1.0) -> Any:
    values = start + np.arange(float(np.prod(shape))).reshape(shape)
    return ad.tensor(values, requires_grad=True)


def constant(*shape: int) -> Any:
    return leaf(*shape).detach().clone()


def names(tensor: Any) -> list[str]:
    """The nodes from a tensor's own to the leaf, along the first edges."""
    found, node = [], tensor.grad_fn
    while node is not None:
        found.append(node.name())
        node = node.next_functions[0][0] if node.next_functions else None
    return found


VIEWS: dict[str, Callable[[Any], Any]] = {
    "slice": lambda x: x[1:], "step": lambda x: x[::2], "integer": lambda x: x[1], "None": lambda x: x[None],
    "ellipsis": lambda x: x[...], "view": lambda x: x.view(4, 3), "reshape": lambda x: x.reshape(12),
    "flatten": lambda x: x.flatten(), "ravel": lambda x: x.ravel(), "transpose": lambda x: x.transpose(0, 1),
    "permute": lambda x: x.permute(1, 0), "movedim": lambda x: x.movedim(0, 1), "expand": lambda x: x.expand(2, 3, 4),
    "expand to its own shape": lambda x: x.expand(3, 4), "unsqueeze": lambda x: x.unsqueeze(0),
    "squeeze": lambda x: x.squeeze(), "narrow": lambda x: x.narrow(0, 1, 2), "select": lambda x: x.select(1, 0),
    "diagonal": lambda x: x.diagonal(), "unfold": lambda x: x.unfold(1, 2, 2),
    "as_strided": lambda x: x.as_strided((2, 2), (1, 5)), "split": lambda x: x.split(2)[1],
    "chunk": lambda x: x.chunk(2)[1], "unbind": lambda x: x.unbind()[1],
}  # fmt: skip


@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS.keys())
def test_a_view_knows_its_base(view: Any) -> None:
    x = leaf(3, 4)
    y = view(x)
    assert y._is_view()
    assert y._base is x
    assert y[...]._base is x
    assert not x._is_view()
    assert x._base is None


@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS.keys())
def test_base_and_view_count_the_same_writes(view: Any) -> None:
    x = constant(3, 4)
    y, twin = view(x), x.detach()
    x.add_(1.0)
    twin.add_(1.0)
    assert x._version == y._version == twin._version == 2
    assert x.clone()._version == 0


@pytest.mark.parametrize("result", [
    lambda x: x + 1, lambda x: x.clone(), lambda x: x[[0, 1]], lambda x: x @ x.T, lambda x: x.mv(x[0]),
    lambda x: x[0] @ x.T, lambda x: x[0].dot(x[1]), lambda x: x.max(0).values, lambda x: x[:, :1].tile(1, 2),
    lambda x: x[:1].repeat_interleave(2, 0),
])  # fmt: skip
def test_a_result_in_memory_of_its_own_is_no_view(result: Any) -> None:
    x = leaf(3, 4)
    y = result(x)
    assert not y._is_view()
    y.add_(1.0)
    np.testing.assert_array_equal(x.detach().numpy(), leaf(3, 4).detach().numpy())
    y.detach_()
    assert y.is_leaf


def test_a_view_of_a_detached_twin_has_the_twin_for_its_base() -> None:
    x, w = leaf(3) * 1, leaf(2)
    twin = x.detach()
    part = twin[1:]
    assert twin._base is None
    assert part._base is twin
    part.mul_(w)
    assert (twin.requires_grad, names(twin)[0]) == (True, "CopySlices")
    assert x.tolist() == [1.0, 2.0, 6.0]
    assert names(x) == ["MulBackward0", "AccumulateGrad"]


def test_ravel_copies_what_does_not_lie_in_order() -> None:
    x = constant(3, 4)
    x[:, 0].ravel().zero_()
    x.T.ravel().zero_()
    assert x.tolist() == leaf(3, 4).tolist()


def test_flatten_gives_one_dimension_back_as_it_is() -> None:
    x = leaf(3)
    assert x.flatten() is x


@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS.keys())
def test_a_write_into_the_base_reaches_old_views(view: Any) -> None:
    x, w = leaf(3, 4), leaf(3, 4)
    base = x * 1
    y = view(base)
    base.mul_(w)
    assert np.shares_memory(y.detach().numpy(), base.detach().numpy())
    g = ad.tensor(np.cos(np.arange(float(y.numel()))).reshape(tuple(y.shape)))
    got = ad.autograd.grad(y, [x, w], g)
    want = ad.autograd.grad(view(x * w), [x, w], g)
    for a, b in zip(got, want, strict=True):
        np.testing.assert_array_equal(a.numpy(), b.numpy())


WRITABLE = {name: view for name, view in VIEWS.items() if name not in {"expand", "split", "chunk", "unbind"}}


@pytest.mark.parametrize("view", WRITABLE.values(), ids=WRITABLE.keys())
def test_a_write_into_a_view_reaches_its_base_and_other_views(view: Any) -> None:
    x, w = leaf(3, 4), leaf(3, 4)
    base = x * 1
    other, y = base.T, view(base)
    y.mul_(view(w))
    assert names(base)[0] == "CopySlices"
    got = ad.autograd.grad(other, [x, w], ad.tensor(np.cos(np.arange(12.0)).reshape(4, 3)))
    written = ad.zeros(3, 4)
    view(written).fill_(1.0)
    want = ad.autograd.grad(ad.where(written > 0, x * w, x).T, [x, w], ad.tensor(np.cos(np.arange(12.0)).reshape(4, 3)))
    for a, b in zip(got, want, strict=True):
        np.testing.assert_array_equal(a.numpy(), b.numpy())


def test_the_history_after_a_write_has_pytorchs_names() -> None:
    base = leaf(3) * 1
    y = base[1:]
    y.mul_(2.0)
    assert names(base) == ["CopySlices", "MulBackward0", "AccumulateGrad"]
    assert names(y)[-3:] == names(base)
    base[0] = leaf(1).sum()
    assert names(base)[:2] == ["CopySlices", "CopySlices"]


def test_swaps_and_copies_of_rows() -> None:
    x = leaf(3, 2)
    y = x * 1
    y[0], y[1] = y[1], y[0]  # both sides are views: the second one sees what the first wrote
    y[2] = y[0]
    y[0] += 1.0
    assert y.tolist() == [[4.0, 5.0], [3.0, 4.0], [3.0, 4.0]]
    (g,) = ad.autograd.grad(y.sum(), x)
    assert g.tolist() == [[0.0, 0.0], [3.0, 3.0], [0.0, 0.0]]


def test_a_real_swap_takes_a_copy() -> None:
    x = leaf(2)
    y = x * 1
    y[0], y[1] = y[1].clone(), y[0].clone()
    (g,) = ad.autograd.grad((y * ad.tensor([1.0, 10.0], dtype=f64)).sum(), x)
    assert (y.tolist(), g.tolist()) == ([2.0, 1.0], [10.0, 1.0])


@pytest.mark.claim("P4")
@pytest.mark.parametrize(("write", "value", "gradient"), [
    (lambda t: t[1:].add_(t[:-1]), [1.0, 3.0, 5.0], [2.0, 2.0, 1.0]),
    (lambda t: t[:-1].mul_(t[1:]), [2.0, 6.0, 3.0], [2.0, 4.0, 3.0]),
    (lambda t: t[[0, 2]].shape and t.__setitem__([0, 2], t[[2, 0]]), [3.0, 2.0, 1.0], [1.0, 1.0, 1.0]),
    (lambda t: t.__setitem__([2, 1, 0], t), [3.0, 2.0, 1.0], [1.0, 1.0, 1.0]),
    (lambda t: t.mul_(t), [1.0, 4.0, 9.0], [2.0, 4.0, 6.0]),
    (lambda t: t.add_(t.T), [[2.0, 5.0], [5.0, 8.0]], [[2.0, 2.0], [2.0, 2.0]]),
])  # fmt: skip
def test_what_overlaps_is_read_before_it_is_written(write: Any, value: Any, gradient: Any) -> None:
    """PyTorch refuses these, or reads what it has just written."""
    x = leaf(*np.shape(value))
    y = x * 1
    write(y)
    (g,) = ad.autograd.grad(y.sum(), x)
    assert (y.tolist(), g.tolist()) == (value, gradient)


def test_what_is_replaced_as_a_whole_stays_in_the_graph() -> None:
    for write in (
        lambda y, w: y.copy_(w), lambda y, w: y.__setitem__(..., w), lambda y, w: y.zero_(),
        lambda y, w: y.fill_(w.sum()), lambda y, w: y.__setitem__(slice(None), 2.0), lambda y, w: y.view(3)[:].copy_(w),
    ):  # fmt: skip
        x, w = leaf(3), leaf(3)
        y = x * 1
        write(y, w)
        (g,) = ad.autograd.grad(y.sum(), x)
        assert g.tolist() == [0.0, 0.0, 0.0]


def test_hooks_belong_to_the_value_they_were_put_on() -> None:
    x = leaf(2)
    y, seen = x * 1, []
    y.register_hook(lambda g: seen.append(("before", g.tolist())))
    y.mul_(3.0)
    y.register_hook(lambda g: seen.append(("after", g.tolist())))
    y.sum().backward()
    assert seen == [("after", [1.0, 1.0]), ("before", [3.0, 3.0])]


def test_a_hook_on_a_view_that_was_then_written_sees_its_whole_gradient() -> None:
    x = leaf(3)
    base, seen = x * 1, []
    y = base[1:]
    y.register_hook(lambda g: seen.append(g.tolist()))
    y.mul_(3.0)
    base.sum().backward()
    assert seen == [[3.0, 3.0]]
    assert x.grad.tolist() == [1.0, 3.0, 3.0]


def test_a_retained_gradient_is_that_of_the_last_value() -> None:
    x = leaf(3)
    base = x * 1
    y = base[1:]
    base.retain_grad()
    y.retain_grad()
    y.mul_(3.0)
    (base * ad.tensor([1.0, 2.0, 4.0], dtype=f64)).sum().backward(retain_graph=True)
    assert base.grad.tolist() == [1.0, 2.0, 4.0]
    assert y.grad is None  # nothing was computed from it
    y.sum().backward()
    assert y.grad.tolist() == [1.0, 1.0]


def test_writes_under_create_graph() -> None:
    x, w = leaf(3), leaf(3)
    y = x**2
    y[1:].mul_(w[1:])
    y[0] += y[2]
    (g,) = ad.autograd.grad((y * y).sum(), x, create_graph=True)
    (second,) = ad.autograd.grad(g.sum(), x)

    def plain(x: Any) -> Any:
        a, b, c = x[0] ** 2, x[1] ** 2 * w[1], x[2] ** 2 * w[2]
        return (a + c) ** 2 + b**2 + c**2

    (want,) = ad.autograd.grad(plain(x), x, create_graph=True)
    (want_second,) = ad.autograd.grad(want.sum(), x)
    np.testing.assert_allclose(g.detach().numpy(), want.detach().numpy(), rtol=1e-14)
    np.testing.assert_allclose(second.numpy(), want_second.numpy(), rtol=1e-14)


def test_a_gradient_with_history_is_written() -> None:
    x = leaf(2)
    (g,) = ad.autograd.grad((x**3).sum(), x, create_graph=True)
    g[0] = 0.0
    g.mul_(2.0)
    (second,) = ad.autograd.grad(g.sum(), x)
    assert second.tolist() == [0.0, 24.0]


def test_an_empty_part_keeps_nothing_from_being_written() -> None:
    x, w = leaf(2, 3), leaf(2, 3)
    y = x * 1
    y[:, 3:] *= w[:, 3:]
    y.mul_(w)
    (g,) = ad.autograd.grad(y.sum(), x)
    np.testing.assert_array_equal(g.numpy(), w.detach().numpy())


def test_a_quotient_does_not_need_its_own_value() -> None:
    x, w = leaf(2), leaf(2)
    y = x / w
    y.mul_(2.0)
    y[0] = 5.0
    gx, gw = ad.autograd.grad(y.sum(), [x, w])
    assert (gx.tolist(), gw.tolist()) == ([0.0, 1.0], [0.0, -1.0])


@pytest.mark.parametrize("ask_no_more", [lambda x: x.requires_grad_(False), lambda x: x.detach_()])
def test_a_leaf_that_asks_no_more_gets_no_gradient(ask_no_more: Any) -> None:
    x, w = leaf(2), leaf(2)
    y = (x * w).sum()
    ask_no_more(x)
    y.backward()
    assert (x.grad, w.grad.tolist()) == (None, [1.0, 2.0])


@pytest.mark.parametrize("ask_no_more", [lambda x: x.requires_grad_(False), lambda x: x.detach_()])
def test_a_leaf_that_asks_again_is_the_leaf_it_was(ask_no_more: Any) -> None:
    x, seen = leaf(2), []
    x.register_hook(lambda g: seen.append(g.tolist()))
    y = (x * 3).sum()
    ask_no_more(x)
    x.requires_grad_()
    (y + (x * 2).sum()).backward()
    assert (x.grad.tolist(), seen) == ([5.0, 5.0], [[5.0, 5.0]])


def test_memory_that_numpy_sees() -> None:
    """The alias is written under the tensor's version: the tensor sees it, and so does a view."""
    array = np.arange(4.0)
    x = ad.from_numpy(array)
    y = x[1:]
    y.add_(1.0)
    assert array.tolist() == [0.0, 2.0, 3.0, 4.0]
    array[3] = 9.0
    assert y.tolist() == [2.0, 3.0, 9.0]
    assert x._version == y._version == 1


@pytest.mark.parametrize("make", [
    lambda x: x[:, [2, 0]], lambda x: x.index_select(1, ad.tensor([1, 1])), lambda x: x.T.log_softmax(1),
    lambda x: x.T.softmax(0), lambda x: ad.cat([x.T, x.T]), lambda x: x.T.cumprod(0),
])  # fmt: skip
def test_results_lie_in_order(make: Any) -> None:
    """So that `view` takes them, as it takes PyTorch's."""
    y = make(leaf(3, 4))
    assert y.is_contiguous()
    assert y.view(-1).shape == (y.numel(),)
