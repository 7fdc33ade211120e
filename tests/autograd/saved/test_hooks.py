"""Hooks on the tensors that nodes keep, and writes into these tensors."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.support.checks import collector_off, raises

import adjoint as ad
from adjoint.autograd import graph
from adjoint.autograd.graph import disable_saved_tensors_hooks, save_on_cpu, saved_tensors_hooks


def same(x: Any) -> Any:
    return x


class Recording(saved_tensors_hooks):
    """Hooks that leave tensors as they are, and note what they see."""

    def __init__(self) -> None:
        self.packed: list[ad.Tensor] = []
        self.unpacked = 0
        super().__init__(self._pack, self._unpack)

    def _pack(self, tensor: ad.Tensor) -> ad.Tensor:
        self.packed.append(tensor)
        return tensor

    def _unpack(self, tensor: ad.Tensor) -> ad.Tensor:
        self.unpacked += 1
        return tensor


def leaf(*values: float) -> ad.Tensor:
    return ad.tensor(values, requires_grad=True)


def grad(y: ad.Tensor, x: ad.Tensor, **options: Any) -> Any:
    return ad.autograd.grad(y.sum(), x, **options)[0]


def test_pack_gets_inputs_themselves_and_outputs_without_history() -> None:
    x, y = leaf(1.0, 2.0), leaf(3.0, 4.0) * 2
    hooks = Recording()
    with hooks:
        x * y
        y.exp()
    assert hooks.packed[0] is x
    assert hooks.packed[1] is y
    assert not hooks.packed[2].requires_grad
    assert np.allclose(hooks.packed[2].numpy(), np.exp([6.0, 8.0]))


@pytest.mark.parametrize(
    ("f", "count"),
    [
        (lambda x, c: x * c, 1),  # the derivative by x needs c alone
        (lambda x, c: x * x, 2),
        (lambda x, c: x * 3, 0),  # a number is no tensor
        (lambda x, c: x + c, 0),
        (lambda x, c: x.exp(), 1),
    ],
)
def test_only_what_the_rules_need_is_packed_and_unpacked_once(f: Callable[..., ad.Tensor], count: int) -> None:
    hooks = Recording()
    with hooks:
        y = f(leaf(1.0, 2.0), ad.tensor([3.0, 4.0]))
    assert (len(hooks.packed), hooks.unpacked) == (count, 0)
    y.sum().backward()
    assert (len(hooks.packed), hooks.unpacked) == (count, count)


def test_the_innermost_hooks_count() -> None:
    x = leaf(1.0, 2.0)
    with saved_tensors_hooks(lambda t: 3 * t, same):
        with saved_tensors_hooks(lambda t: 5 * t, same):
            inner = x * x
        outer = x * x
    plain = x * x
    assert [grad(y, x).tolist() for y in (inner, outer, plain)] == [[10, 20], [6, 12], [2, 4]]


def test_what_is_unpacked_keeps_its_history_for_a_second_derivative() -> None:
    x = leaf(1.0, 2.0)
    with saved_tensors_hooks(lambda t: 2 * t, same):
        y = x**3
    first = grad(y, x, create_graph=True)
    assert first.tolist() == [12.0, 48.0]  # 3 (2x)²
    assert grad(first, x).tolist() == [12.0, 24.0]  # 2x · 6, x packed as 2x


def test_where_and_mixed_types_unpack_once() -> None:
    x = leaf(-1.0, 2.0)
    hooks = Recording()
    with hooks:
        y = ad.where(x > 0, x.exp(), x) * ad.tensor(2.0, dtype=ad.float64)
    y.sum().backward()
    assert hooks.unpacked == len(hooks.packed)
    assert np.allclose(x.grad.numpy(), [2, 2 * np.exp(2)])


def test_an_op_in_place_packs_the_values_from_before() -> None:
    x = leaf(0.5, 1.0)
    y = x * 1
    with saved_tensors_hooks(same, same):
        y.sin_()
        y *= y
    y.sum().backward()
    assert np.allclose(x.grad.numpy(), np.sin([1.0, 2.0]))  # (sin² x)' = sin 2x


@pytest.mark.parametrize("registered", [False, True])
def test_a_pack_hook_may_not_write(registered: bool) -> None:
    def double(t: ad.Tensor) -> ad.Tensor:
        t *= 2
        return t

    def attempt() -> None:
        if registered:
            x.exp().grad_fn._raw_saved_result.register_hooks(double, same)
        with saved_tensors_hooks(double, same):
            x.exp()

    x = leaf(1.0, 2.0)
    raises(RuntimeError, "A saved tensor pack hook is modifying its input in place", attempt)
    assert x.exp().grad_fn.next_functions[0][0].variable is x  # the hooks are gone


def test_errors_of_hooks_reach_the_user_and_leave_the_modes() -> None:
    def fail(_: Any) -> Any:
        raise LookupError("not packed")

    x = leaf(1.0, 2.0)
    with saved_tensors_hooks(fail, same), pytest.raises(LookupError, match="not packed"):
        x.exp()
    with saved_tensors_hooks(same, fail):
        y = x.exp()
    raises(LookupError, "not packed", y.sum().backward)
    with saved_tensors_hooks(same, lambda _: 1):
        y = x.exp()
    raises(TypeError, r"Output of saved tensor unpack_hook expected to be a Tensor but got .* int", y.sum().backward)
    assert x.grad is None
    x.exp().sum().backward()


def test_disabled_hooks_raise_the_message_given() -> None:
    with disable_saved_tensors_hooks("outer"):
        with disable_saved_tensors_hooks("inner"), pytest.raises(RuntimeError, match="inner"), save_on_cpu():
            pass
        with pytest.raises(RuntimeError, match="outer"), save_on_cpu():
            pass
    with save_on_cpu(), pytest.raises(RuntimeError, match="late"), disable_saved_tensors_hooks("late"):
        pass
    with save_on_cpu():
        pass


def test_hooks_entered_or_left_by_an_unpack_hook_end_with_it() -> None:
    outer = Recording()

    def leave(t: Any) -> Any:
        outer.__exit__()
        return t

    def enter(t: Any) -> Any:
        outer.__enter__()
        return t

    x = leaf(1.0)
    for meddle in (leave, enter):
        with outer:
            with saved_tensors_hooks(same, meddle):
                y = x.exp()
            y.sum().backward()
            before = len(outer.packed)
            x.exp()
            assert len(outer.packed) == before + 1
    outer.__exit__()  # one too many does nothing
    before = len(outer.packed)
    x.exp()
    assert len(outer.packed) == before


@pytest.mark.parametrize("pin_memory", [False, True])
def test_save_on_cpu_keeps_the_numbers(pin_memory: bool) -> None:
    x = leaf(1.0, 2.0)
    with save_on_cpu(pin_memory):
        y = x * x
        assert np.array_equal(y.grad_fn._saved_self.detach().numpy(), x.detach().numpy())
    assert grad(y, x).tolist() == [2, 4]


def test_hooks_and_what_they_packed_die_with_the_graph() -> None:
    def scope() -> weakref.ref[Any]:
        hooks = Recording()
        with hooks:
            y = leaf(1.0, 2.0).exp().tanh()
        hooks.packed.clear()
        y.sum().backward()
        return weakref.ref(hooks)

    with collector_off():
        reference = scope()
        gc.collect(0)  # Recording's own bound methods are a cycle; nothing else may hold it
        assert reference() is None


def test_packed_values_are_freed_by_backward() -> None:
    x = leaf(1.0, 2.0)
    with saved_tensors_hooks(same, same):
        y = x.exp()
    y.sum().backward()
    raises(RuntimeError, "Trying to backward through the graph a second time", y.sum().backward)


# Writing into what is kept.


@pytest.mark.parametrize("through", ["itself", "view", "base"])
def test_a_write_into_a_kept_tensor_copies_it(through: str) -> None:
    def run() -> ad.Tensor:
        x = leaf(1.0, 2.0)
        base = x.clone()
        kept = base[:] if through == "base" else base
        y = (kept**2).sum()
        (base[:1] if through == "view" else base).sin_()
        y.backward()
        assert x.grad is not None
        return x.grad

    raises(RuntimeError, "modified by an inplace operation", run)
    with graph.allow_mutation_on_saved_tensors() as kept:
        assert run().tolist() == [2, 4]
        assert not kept.cloned
    with graph.allow_mutation_on_saved_tensors():
        assert run().tolist() == [2, 4]


def test_a_kept_tensor_is_copied_once_a_version_and_only_while_it_is_kept() -> None:
    with graph.allow_mutation_on_saved_tensors() as kept:
        x = leaf(1.0, 2.0).clone()
        y, z = x**2, x**2
        x.sin_()
        assert len(kept.cloned) == 1
        w = x**2
        x.sin_()
        assert len(kept.cloned) == 2
        del y, z
        assert len(kept.cloned) == 1
        del w
        assert not kept.cloned
        y = (x**2).sum()
        y.backward()
        x.sin_()
        assert not kept.cloned


def test_backward_belongs_into_the_block_that_allows_writes() -> None:
    with graph.allow_mutation_on_saved_tensors():
        y = (leaf(1.0, 2.0) ** 2).sum()
        with (
            pytest.raises(RuntimeError, match="contexts cannot be nested"),
            graph.allow_mutation_on_saved_tensors(),
        ):
            pass
    raises(AssertionError, "outside of the 'allow_mutation_on_saved_tensors' context", y.backward)


def test_a_tensor_at_the_place_of_one_that_is_gone_keeps_its_own_values() -> None:
    x = ad.tensor([1.0, 2.0], requires_grad=True)
    with graph.allow_mutation_on_saved_tensors():
        squares = []
        for factor in (1.0, 2.0, 3.0):
            y: Any = x * factor
            squares.append(y * y)
            y.zero_()
            del y
        ad.stack(squares).sum().backward()
    assert x.grad.tolist() == [28.0, 56.0]
