"""Which tensors share memory in a compiled step, and what a write to one does to the others: as eagerly."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.support.checks import collector_off, raises
from tests.support.steps import facts

import adjoint as ad
import adjoint.nn.functional as F
from adjoint import nn, optim

Step = Callable[..., Any]


def tensor(*shape: int, requires_grad: bool = False) -> ad.Tensor:
    count = ad.zeros(shape).numel()
    return (ad.arange(float(count)).reshape(shape) / 4 - 1).requires_grad_(requires_grad)


def outcomes(step: Step, arguments: Callable[[], tuple[ad.Tensor, ...]], compiled: bool) -> Any:
    """What three calls return, and leave in their arguments and the gradients of these."""
    run = ad.compile(step) if compiled else step
    found = []
    for _ in range(3):
        given = arguments()
        returned = run(*given)
        names = {f"x{i}": x for i, x in enumerate(given)}
        found.append(list(facts(returned, {**names, **{f"{n}.grad": x.grad for n, x in names.items()}})))
    return found


def check(step: Step, *arguments: Callable[[], ad.Tensor]) -> None:
    def given() -> tuple[ad.Tensor, ...]:
        return tuple(make() for make in arguments)

    ours, eager = outcomes(step, given, True), outcomes(step, given, False)
    for got, want in zip(ours, eager, strict=True):
        assert [name for name, _ in got] == [name for name, _ in want]
        for (name, x), (_, y) in zip(got, want, strict=True):
            if isinstance(y, np.ndarray):
                np.testing.assert_allclose(x, y, rtol=1e-5, atol=1e-7, err_msg=name)
            else:
                assert x == y, name


def matrix() -> ad.Tensor:
    return tensor(3, 4)


def turned() -> ad.Tensor:
    return tensor(4, 3).mT


def learned() -> ad.Tensor:
    return tensor(3, 4, requires_grad=True)


COPIES: dict[str, Callable[[ad.Tensor], ad.Tensor]] = {
    "flatten": lambda x: x.flatten(), "ravel": lambda x: x.ravel(), "reshape": lambda x: x.reshape(2, 6),
    "contiguous": lambda x: x.contiguous(), "reshape of a part": lambda x: x[:, 1:].reshape(-1),
    "unsqueeze": lambda x: x.unsqueeze(0), "flatten of what was turned": lambda x: x.mT.flatten(),
    "contiguous of what was turned": lambda x: x.mT.contiguous(),
    "flatten of a computed one": lambda x: (x * 2).flatten(),
    "flatten of an expanded one": lambda x: x[:1].expand(3, 4).flatten(),
}  # fmt: skip


@pytest.mark.parametrize("make", [matrix, turned])
@pytest.mark.parametrize("name", COPIES)
def test_what_copies_sees_no_writes(name: str, make: Callable[[], ad.Tensor]) -> None:
    def step(x: ad.Tensor) -> Any:
        v = COPIES[name](x)
        x.mul_(2)
        return v * 1, v.is_contiguous()

    check(step, make)


@pytest.mark.parametrize("make", [matrix, turned])
@pytest.mark.parametrize("name", COPIES)
def test_what_copies_is_written_alone(name: str, make: Callable[[], ad.Tensor]) -> None:
    def step(x: ad.Tensor) -> Any:
        v = COPIES[name](x)
        v[0] += 5
        return v * 1, x * 1

    check(step, make)


def test_a_copy_of_a_leaf_may_be_written() -> None:
    def step(x: ad.Tensor) -> Any:
        v = x.mT.contiguous()
        v.mul_(3)
        v.sum().backward()
        return v.detach()

    check(step, learned)


def test_a_written_tensor_keeps_its_order() -> None:
    """What a tensor takes over may lie otherwise: from then on it lies as the tensor does."""

    def step(x: ad.Tensor, y: ad.Tensor) -> Any:
        z = x.mT * 1
        z.copy_(y)
        v = z.flatten()
        w = y.flatten()
        z.add_(1)
        y.add_(2)
        return v * 1, w * 1, z.is_contiguous(), y.is_contiguous()

    check(step, matrix, lambda: tensor(4, 3))
    check(step, turned, lambda: tensor(4, 3))
    check(step, turned, lambda: tensor(3, 4).mT)


@pytest.mark.parametrize("make", [matrix, turned])
def test_a_gradient_lies_as_its_leaf(make: Callable[[], ad.Tensor]) -> None:
    def step(x: ad.Tensor) -> Any:
        leaf = x.detach().requires_grad_()
        (leaf * 2).sum().backward()
        v = leaf.grad.flatten()
        leaf.grad.add_(1)
        return v * 1, leaf.grad.is_contiguous()

    check(step, make)


def test_a_gradient_that_is_handed_out_is_memory_of_its_own() -> None:
    def step(x: ad.Tensor) -> Any:
        (g,) = ad.autograd.grad(x.sum(), x)
        g[-2, ...] += 0.5
        g[0] *= 3
        v = g.flatten()
        v[1] = 7
        return g

    check(step, learned)


def test_each_leaf_has_a_gradient_of_its_own() -> None:
    def step(x: ad.Tensor, y: ad.Tensor) -> Any:
        (x + y).sum().backward()
        x.grad.mul_(0.5)  # type: ignore[union-attr]
        y.grad[0] = 4  # type: ignore[index]

    check(step, learned, learned)


def test_a_view_of_a_gradient_sees_what_is_added() -> None:
    def step(x: ad.Tensor) -> Any:
        x.sum().backward()
        v, w = x.grad[0], x.grad.detach()  # type: ignore[index,union-attr]
        (x * x).sum().backward()
        return v * 1, w * 1

    check(step, learned)


def test_retained_gradients_are_apart() -> None:
    def step(x: ad.Tensor) -> Any:
        v, w = x * 2, x * 3
        v.retain_grad()
        w.retain_grad()
        (v + w).sum().backward()
        v.grad.mul_(0.5)  # type: ignore[union-attr]
        return v.grad, w.grad

    check(step, learned)


def test_a_tensor_that_a_step_made_leaves_no_symbol() -> None:
    s = tensor(3, requires_grad=True)

    def step(x: ad.Tensor) -> Any:
        v = s.view_as(s)
        v.retain_grad()
        v.mean().backward()
        return x * 1

    with collector_off():  # what the step made is part of a cycle
        ad.compile(step)(tensor(3))
        assert s.detach().numpy().tolist() == [-1, -0.75, -0.5]
        with ad.no_grad():
            s.add_(1)
        assert s.tolist() == [0, 0.25, 0.5]


DETACHED: dict[str, Step] = {
    "written through an index": lambda x, v: x.__setitem__((None,), v * 2),
    "written at a part": lambda x, v: x[0].mul_(2),
    "its twin is written": lambda x, v: v.mul_(2),
    "its twin is written at a part": lambda x, v: v[1].fill_(3),
    "a part's twin is written": lambda x, v: x[0].detach().fill_(3),
    "twice": lambda x, v: (x[0].detach().fill_(3), v[:, 1].add_(1), x[:, :2].detach()[1].mul_(4), x.add_(1)),
    "with itself": lambda x, v: x.__setitem__((None,), v),
    "by data": lambda x, v: x.data[1:].data[0].fill_(9),
}


@pytest.mark.parametrize("make", [matrix, turned])
@pytest.mark.parametrize("name", DETACHED)
def test_detached_twins_see_writes(name: str, make: Callable[[], ad.Tensor]) -> None:
    def step(x: ad.Tensor) -> Any:
        v, part = x.detach(), x[1].detach()
        DETACHED[name](x, v)
        return v * 1, part * 1, x * 1

    check(step, make)


def test_a_twin_of_a_turned_tensor_is_written() -> None:
    def step(x: ad.Tensor) -> Any:
        v = x.mT.detach()
        v[0] = 7
        w = v.detach()
        x[1].add_(1)
        w[:, 0].mul_(2)
        return x * 1, v * 1, w * 1

    check(step, matrix)
    check(step, turned)


@pytest.mark.parametrize("write", [lambda v: v.sin_(), lambda v: v.add_(1), lambda v: v[0].mul_(2)])
def test_a_write_over_what_an_op_in_place_saved(write: Step) -> None:
    def step(x: ad.Tensor) -> Any:
        v = x * 2
        F.relu(v, inplace=True)
        write(v)
        v.mean().backward()

    check(step, learned)


def test_a_write_after_a_copy_does_not_reach_what_was_copied() -> None:
    def step(x: ad.Tensor, y: ad.Tensor) -> Any:
        z = x * 2
        y.copy_(z.detach())
        square = (z * z).sum()
        y.add_(1)
        square.backward()
        return y * 1

    check(step, learned, matrix)


def test_a_leaf_from_outside_is_written_into_a_part() -> None:
    """A leaf that the step meets there first stays one."""
    s = tensor(3, 4, requires_grad=True)

    def step(x: ad.Tensor) -> Any:
        v = x * x
        v[...] = s
        v.mean().backward()
        g, s.grad = s.grad, None
        return g

    check(step, matrix)


def test_a_write_to_what_was_saved_is_refused() -> None:
    def step(x: ad.Tensor) -> Any:
        v = x * 2
        w = v * v
        v.add_(1)
        w.sum().backward()

    for run in (step, ad.compile(step)):
        raises(RuntimeError, "modified by an inplace operation", run, learned())


def refused(step: Step, *given: Any) -> tuple[list[Any], Any]:
    """What the step returns, and the error of its `backward()`."""
    result = step(*given)
    with pytest.raises(RuntimeError) as raised:
        result.sum().backward()
    return result.tolist(), raised


def test_a_result_whose_saved_values_the_step_wrote() -> None:
    """Nothing is wrong until its gradient is asked for."""

    def make() -> Step:
        p = tensor(3, 4, requires_grad=True)
        optimizer = optim.SGD([p], lr=0.05)

        def step(x: ad.Tensor) -> ad.Tensor:
            v: ad.Tensor = x * p * p
            v.sum().backward(retain_graph=True)
            optimizer.step()
            return v

        return step

    ours, eager = refused(ad.compile(make()), matrix()), refused(make(), matrix())
    assert ours[0] == eager[0]
    for _, raised in (ours, eager):
        assert "modified by an inplace operation" in str(raised.value)


def test_a_result_without_a_gradient_rule() -> None:
    def step(x: ad.Tensor) -> ad.Tensor:
        return ad.heaviside(x, x * 0)

    ours, eager = refused(ad.compile(step), learned()), refused(step, learned())
    assert ours[0] == eager[0]
    for _, raised in (ours, eager):
        assert raised.type is NotImplementedError
        assert "the derivative for heaviside is not implemented" in str(raised.value)


def test_results_beside_one_without_a_gradient() -> None:
    def step(x: ad.Tensor) -> Any:
        return ad.heaviside(x, x * 0), x * x, F.dropout(x, 0.5)

    compiled, x = ad.compile(step), learned()
    for _ in range(2):
        x.grad = None
        raises(NotImplementedError, None, compiled(x)[0].sum().backward)
        compiled(x)[1].sum().backward()
        assert x.grad.tolist() == (x * 2).tolist()


def test_a_step_without_views_gets_no_copies() -> None:
    """What a copy would stand for is told from the symbols alone, wherever nobody else has them."""
    model, x = nn.Linear(4, 3), matrix()
    optimizer = optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    @ad.compile
    def step(x: ad.Tensor) -> ad.Tensor:
        optimizer.zero_grad()
        loss = F.relu(model(x)).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    for _ in range(2):
        step(x)
    assert "copy" not in [v.op.name for v in step.graph.equations]


def at_rows(x: Any) -> None:
    x.expand(2, 4)[ad.tensor([0])] = -1.0


def at_parts(x: Any) -> None:
    x.expand(3, 4)[ad.tensor([0, 2]), 1:3] = ad.tensor([[5.0, 6.0], [7.0, 8.0]])


def at_repeated_places(x: Any) -> None:
    rows, columns = ad.tensor([[0], [1]]), ad.tensor([[1, 2], [3, 1]])
    x.expand(2, 4)[rows, columns] = ad.tensor([[1.0, 2.0], [3.0, 4.0]])


def at_rows_of_a_part(x: Any) -> None:
    x.view(2, 2, 1).expand(2, 2, 3)[1][ad.tensor([0])] = 9.0


@pytest.mark.parametrize("assign", [at_rows, at_parts, at_repeated_places, at_rows_of_a_part])
def test_places_of_an_expanded_tensor_are_places_of_its_base(assign: Any) -> None:
    def step(x: Any) -> Any:
        y = x * 1
        assign(y)
        return y

    x = ad.arange(4.0)
    with pytest.warns(UserWarning, match="expanded tensor is deprecated"):
        expected = step(x)
    with pytest.warns(UserWarning, match="expanded tensor is deprecated"):
        assert ad.equal(ad.compile(step)(x), expected)


@pytest.mark.parametrize(
    "write",
    [
        lambda y: y.expand(2, 4).add_(1),
        lambda y: y.expand(2, 4).index_fill_(0, ad.tensor([1]), 7.0),
    ],
)
def test_a_write_to_memory_seen_twice_is_refused(write: Any) -> None:
    """As in an eager run: which of the values stays would be chance."""

    def step(x: Any) -> Any:
        y = x * 1
        write(y)
        return y

    for run in (step, ad.compile(step)):
        raises(RuntimeError, "more than one element of the written-to tensor", run, ad.arange(4.0))


def test_a_mask_of_an_expanded_tensor_does_not_compile() -> None:
    """Eagerly the last of the values that are true stays; which that is nobody knows before."""

    def step(x: Any) -> Any:
        y = x * 1
        y.expand(2, 4)[y.expand(2, 4) > 1] = 0.0
        return y

    refused = r"ran eagerly: RuntimeError: .*more than one element of the written-to tensor.* clone\(\)"
    with pytest.warns(UserWarning, match="deprecated"), pytest.warns(RuntimeWarning, match=refused):
        assert ad.compile(step)(ad.arange(4.0)).tolist() == [0.0, 1.0, 0.0, 0.0]
