"""The backward walk: order, counts, sums; and that it gives PyTorch's gradients."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.checks import leaf, raises

import adjoint as ad
from adjoint.autograd import backward_steps, dependencies

f64 = ad.float64


def names(root: Any) -> list[str]:
    return [step.node.name() for step in backward_steps(root)]


def trunk_and_two_branches() -> tuple[Any, Any, Any]:
    """A leaf, exp of it, and the loss."""
    x, b = leaf([1.0, 2.0]), ad.tensor([3.0, 4.0], dtype=f64)
    a = ad.exp(x)
    return x, a, (a * b + a * b).sum()


@pytest.mark.claim("0.1")
def test_a_node_runs_once_after_all_who_used_its_output() -> None:
    x, a, loss = trunk_and_two_branches()
    runs: list[Any] = []
    a.grad_fn.register_prehook(lambda grads: runs.append(grads[0].numpy().copy()))
    loss.backward()
    assert len(runs) == 1
    np.testing.assert_array_equal(runs[0], [6.0, 8.0])
    np.testing.assert_allclose(x.grad.numpy(), [16.30969097, 59.11244879], rtol=1e-8)


@pytest.mark.claim("0.2")
def test_counts_are_of_edges_into_the_producer() -> None:
    _, a, loss = trunk_and_two_branches()
    counts = dependencies(loss)
    assert [(node.name(), count) for node, count in counts.items()] == [
        ("SumBackward0", 0), ("AddBackward0", 1), ("MulBackward0", 1), ("MulBackward0", 1), ("ExpBackward0", 2),
    ]  # fmt: skip
    assert counts[a.grad_fn] == 2


@pytest.mark.claim("0.3")
def test_order_and_decrements() -> None:
    x, a, loss = trunk_and_two_branches()
    first, second = [node for node, _ in loss.grad_fn.next_functions[0][0].next_functions]
    steps = list(backward_steps(loss))
    assert [s.node.name() for s in steps] == [
        "SumBackward0", "AddBackward0", "MulBackward0", "MulBackward0", "ExpBackward0",
    ]  # fmt: skip
    exp = a.grad_fn
    assert [s.counts[exp] for s in steps] == [2, 2, 2, 1, 0]
    assert {steps[2].node, *steps[2].queue} == {first, second}  # both products are queued when the sum has run
    assert all(exp not in s.queue for s in steps)
    np.testing.assert_allclose(x.grad.numpy(), [16.30969097, 59.11244879], rtol=1e-8)


@pytest.mark.claim("0.3")
def test_a_step_shows_what_has_arrived() -> None:
    _, a, loss = trunk_and_two_branches()
    steps = list(backward_steps(loss))
    np.testing.assert_array_equal(steps[3].gradients[a.grad_fn].numpy(), [3.0, 4.0])
    np.testing.assert_array_equal(steps[4].gradient.numpy(), [6.0, 8.0])
    assert repr(steps[3]) == "Step(MulBackward0, queue=[], counts={MulBackward0: 0, ExpBackward0: 1})"


@pytest.mark.claim("0.3")
def test_steps_left_half_way_accumulate_nothing() -> None:
    x, _, loss = trunk_and_two_branches()
    steps = backward_steps(loss, retain_graph=True)
    next(steps)
    assert ad.is_grad_enabled()
    steps.close()
    assert x.grad is None
    loss.backward()
    np.testing.assert_allclose(x.grad.numpy(), [16.30969097, 59.11244879], rtol=1e-8)


@pytest.mark.claim("0.4")
def test_root_is_seeded_with_one() -> None:
    _, _, loss = trunk_and_two_branches()
    first = next(backward_steps(loss))
    assert first.node is loss.grad_fn
    assert first.gradient.item() == 1.0


@pytest.mark.claim("0.5")
def test_leaf_is_not_queued() -> None:
    x, _, loss = trunk_and_two_branches()
    assert x.grad_fn is None
    assert x.is_leaf
    assert all("Accumulate" not in name for name in names(loss))
    assert x.grad is not None


@pytest.mark.claim("0.6")
def test_contributions_are_summed() -> None:
    a, b = leaf([1.0, 2.0, 3.0]), leaf([4.0, 5.0, 6.0])
    loss = (a * b + a * b).sum()
    loss.backward()
    assert loss.item() == 64.0
    np.testing.assert_array_equal(a.grad.numpy(), [8.0, 10.0, 12.0])
    np.testing.assert_array_equal(b.grad.numpy(), [2.0, 4.0, 6.0])


@pytest.mark.claim("0.7")
def test_diamond_at_a_leaf() -> None:
    x = leaf(1.0)
    z = ad.add(x, x)
    (one, two) = z.grad_fn.next_functions
    assert one[0] is two[0]
    assert one[0].name() == "AccumulateGrad"
    assert one[0].variable is x
    assert dependencies(z) == {z.grad_fn: 0}
    z.backward()
    assert x.grad.item() == 2.0


@pytest.mark.claim("0.8")
def test_product_plus_factor() -> None:
    x, y = leaf(2.0), leaf(3.0)
    w = x * y + x
    assert w.item() == 8.0
    assert list(dependencies(w).values()) == [0, 1]
    assert names(w) == ["AddBackward0", "MulBackward0"]
    assert (x.grad.item(), y.grad.item()) == (4.0, 2.0)


@pytest.mark.claim("0.9")
def test_what_a_node_shows() -> None:
    x, y = leaf(2.0), leaf(3.0)
    node = (x * y).grad_fn
    assert node.name() == "MulBackward0"
    assert [edge[0].variable for edge in node.next_functions] == [x, y]
    assert (node._saved_self.item(), node._saved_other.item()) == (2.0, 3.0)
    assert repr(node).startswith("<MulBackward0 object at 0x")


@pytest.mark.claim("0.10")
def test_one_op_uses_a_non_leaf_twice() -> None:
    x = leaf(1.0)
    y = ad.exp(x)
    z = y + y
    assert dependencies(z)[y.grad_fn] == 2
    assert names(z) == ["AddBackward0", "ExpBackward0"]
    assert x.grad.item() == pytest.approx(5.43656365691809, rel=1e-15)


@pytest.mark.claim("0.11")
def test_on_through_the_creator() -> None:
    r = leaf([0.5, 0.25])
    x = ad.sin(r)
    a = x * 3.0
    b = ad.tensor([3.0, 4.0], dtype=f64)
    (a * b + a * b).sum().backward()
    np.testing.assert_allclose(r.grad.numpy(), 6.0 * b.numpy() * np.cos([0.5, 0.25]))


@pytest.mark.claim("0.W1")
def test_a_dead_branch_holds_nothing_up() -> None:
    x = leaf(2.0)
    a = 3 * x
    dead = 7 * a
    live = 2 * a
    live.backward()
    assert dead.requires_grad
    assert x.grad.item() == 6.0


@pytest.mark.claim("0.W2")
def test_two_losses_over_one_trunk() -> None:
    x = leaf(2.0)
    a = 3 * x
    one, two = 2 * a, 5 * a
    one.backward(retain_graph=True)
    assert x.grad.item() == 6.0
    two.backward()
    assert x.grad.item() == 21.0


@pytest.mark.claim("0.W3")
def test_a_second_backward() -> None:
    x = leaf(2.0)
    y = x * x
    y.backward()
    raises(RuntimeError, "second time", y.backward)
    assert x.grad.item() == 4.0
    x.grad = None
    y = x * x
    y.backward(retain_graph=True)
    y.backward(retain_graph=True)
    assert x.grad.item() == 8.0


@pytest.mark.claim("0.W4")
@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_a_pass_after_an_exception(error: type[BaseException]) -> None:
    def graph() -> tuple[Any, Any, Any, Any]:
        x, y = leaf([0.3, 0.7]), leaf([1.5, 2.5])
        a = ad.exp(x) * y
        return x, y, a, (ad.sin(a) * a + y).sum()

    x, y, _, loss = graph()
    loss.backward()
    fresh = x.grad.numpy().tobytes(), y.grad.numpy().tobytes()

    x, y, a, loss = graph()
    with ad.no_grad():
        _ = a * 2
    _ = a * 3

    def fail(g: Any) -> None:
        raise error("in a hook")

    handle = a.register_hook(fail)
    raises(error, "in a hook", lambda: loss.backward(retain_graph=True))
    assert x.grad is None
    assert y.grad is None  # it had its gradient before the hook ran
    assert ad.is_grad_enabled()
    handle.remove()
    loss.backward(retain_graph=True)
    assert (x.grad.numpy().tobytes(), y.grad.numpy().tobytes()) == fresh


@pytest.mark.claim("0.W5")
def test_several_roots() -> None:
    def graph() -> tuple[Any, Any, Any]:
        x = leaf([0.1, 0.2, 0.3])
        a = ad.exp(x) / 3.0
        return x, (a * a).sum(), (ad.sin(a) * x).sum()

    x, one, two = graph()
    ad.autograd.backward([one, two])
    together = x.grad.numpy().tobytes()
    x, one, two = graph()
    (one + two).backward()
    assert x.grad.numpy().tobytes() == together


@pytest.mark.claim("0.W6")
def test_only_leaves_and_retainers_keep_a_gradient() -> None:
    import weakref

    x = leaf([1.0, 2.0])
    a, kept = x * 2, x * 3
    kept.retain_grad()
    seen: list[Any] = []
    a.register_hook(lambda g: seen.append(weakref.ref(g.array)))
    (a * kept).sum().backward()
    assert x.grad is not None
    np.testing.assert_array_equal(kept.grad.numpy(), [2.0, 4.0])
    assert a._grad is None
    assert seen[0]() is None  # what a node received is freed once it has run


@pytest.mark.claim("2.1")
def test_constants_get_no_gradient() -> None:
    x, c = leaf([1.0, 2.0]), ad.tensor([3.0, 4.0], dtype=f64)
    y = x * c
    assert y.grad_fn.next_functions[1] == (None, 0)
    assert y.grad_fn.saved_values[0] is None  # x is kept for the gradient of c only
    y.sum().backward()
    assert c.grad is None


@pytest.mark.claim("2.2")
def test_add_mul_sin_exp() -> None:
    for f, want in [
        (lambda x, y: x + y, (1.0, 1.0)),
        (lambda x, y: x * y, (3.0, 2.0)),
        (lambda x, y: ad.sin(x) + 0.0 * y, (math.cos(2.0), 0.0)),
        (lambda x, y: ad.exp(x) + 0.0 * y, (math.exp(2.0), 0.0)),
    ]:
        x, y = leaf(2.0), leaf(3.0)
        f(x, y).backward()
        assert (x.grad.item(), y.grad.item()) == pytest.approx(want, rel=1e-15)


@pytest.mark.claim("2.3")
def test_polynomial() -> None:
    x = leaf(5.0)
    y = x * x + 3 * x + 2
    y.backward(retain_graph=True)
    assert (y.item(), x.grad.item()) == (42.0, 13.0)
    y.backward()
    assert x.grad.item() == 26.0  # and not 52: gradients between root and leaf start anew


@pytest.mark.claim("2.4")
def test_accumulation() -> None:
    x = leaf(5.0)
    y = x * x + x
    y.backward()
    assert (y.item(), x.grad.item()) == (30.0, 11.0)


@pytest.mark.claim("2.5")
def test_each_node_once() -> None:
    a = leaf(1.0)
    b = a + a
    c = b + b
    assert names(c) == ["AddBackward0", "AddBackward0"]
    assert a.grad.item() == 4.0


OPS: list[Callable[[Any, Any], Any]] = [
    lambda x, y: x + y,
    lambda x, y: x * y,
    lambda x, y: x - y * 0.5,
    lambda x, y: ad.sin(x) * y,
    lambda x, y: ad.exp(x * 0.1) + y,
    lambda x, y: ad.tanh(x * y),
]


@pytest.mark.claim("2.6")
@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 30), st.integers(0, 30)), min_size=1, max_size=12))
def test_random_graphs_against_differences(plan: list[tuple[int, int, int]]) -> None:
    def f(values: list[Any]) -> Any:
        values = list(values)
        for op, i, j in plan:
            values.append(OPS[op](values[i % len(values)], values[j % len(values)]))
        return values[-1]

    start = [0.3, -0.7, 1.1]
    leaves = [leaf(v) for v in start]
    root = f(leaves)
    root.backward()
    for i, x in enumerate(leaves):
        moved = [[leaf(v + (e if i == k else 0.0)) for k, v in enumerate(start)] for e in (1e-6, -1e-6)]
        want = (f(moved[0]).item() - f(moved[1]).item()) / 2e-6
        got = 0.0 if x.grad is None else x.grad.item()
        assert abs(got - want) <= 1e-6 * max(1.0, abs(want))


@pytest.mark.claim("2.7")
def test_control_flow() -> None:
    def f(x: Any) -> Any:
        return x if x.item() < 1 else x * f(x - 1)

    x = leaf(3.5)
    y = f(x)
    y.backward()
    want = (f(leaf(3.5 + 1e-6)).item() - f(leaf(3.5 - 1e-6)).item()) / 2e-6
    assert x.grad.item() == pytest.approx(want, rel=1e-8)
    assert len(dependencies(f(leaf(3.5)))) != len(dependencies(f(leaf(1.5))))


@pytest.mark.claim("2.8")
def test_one_pass_for_a_thousand_inputs() -> None:
    x = leaf(np.linspace(0.0, 1.0, 1000))
    y = (ad.sin(x) * x).sum()
    assert len(names(y)) == len(dependencies(y)) == 3
    a = x.detach().numpy()
    np.testing.assert_allclose(x.grad.numpy(), np.cos(a) * a + np.sin(a))


@pytest.mark.claim("2.10")
def test_user_functions_compose() -> None:
    def square(x: Any) -> Any:
        return x * x

    def norm(x: Any) -> Any:
        return ad.sqrt(square(x).sum())

    x = leaf([3.0, 4.0])
    (norm(x) * square(norm(x))).backward()
    np.testing.assert_allclose(x.grad.numpy(), 3 * 5.0 * np.array([3.0, 4.0]))


@pytest.mark.claim("1.4")
def test_walk_is_linear() -> None:
    x = leaf(1.0)
    y = x
    for _ in range(60):
        y = y + y
    assert len(dependencies(y)) == 60
    (g,) = ad.autograd.grad(y, x, retain_graph=True)
    assert g.item() == 2.0**60
    y.backward()
    assert x.grad.item() == 2.0**60


def test_ready_nodes_run_newest_first() -> None:
    x = leaf(1.0)
    old = ad.sin(x)
    new = ad.cos(x)
    for root in (old + new, new + old):
        order = [step.node.name() for step in backward_steps(root, retain_graph=True)]
        assert order == ["AddBackward0", "CosBackward0", "SinBackward0"]


# What PyTorch does, checked against PyTorch: each program is run by both libraries.


def both(program: Callable[[Any, Any], Any]) -> Callable[[], None]:
    """Make of a program a test: it gives with Adjoint what it gives with PyTorch."""

    def test() -> None:
        torch = pytest.importorskip("torch")
        ours, theirs = program(ad, ad.tensor), program(torch, torch.tensor)
        assert len(ours) == len(theirs)
        for a, b in zip(ours, theirs, strict=True):
            if b is None or isinstance(b, (bool, int, str, tuple)):
                assert a == b
            else:
                np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-12, atol=1e-12)

    return test


@both
def test_grad_of_an_intermediate_which_is_also_a_target(lib: Any, tensor: Any) -> Any:
    x = tensor([1.0, 2.0], dtype=lib.float64, requires_grad=True)
    y = lib.exp(x)
    z = (y * y * x).sum()
    return (*lib.autograd.grad(z, [y, x], retain_graph=True), *lib.autograd.grad(z, [x]), x.grad)


@both
def test_grad_of_a_root_which_is_a_leaf(lib: Any, tensor: Any) -> Any:
    x = tensor(2.0, dtype=lib.float64, requires_grad=True)
    y = x * 3
    found = [*lib.autograd.grad(x, x), *lib.autograd.grad([x, x], x), *lib.autograd.grad([y, x], [x, y])]
    x.backward()
    return (*found, x.grad)


@both
def test_a_root_twice(lib: Any, tensor: Any) -> Any:
    x = tensor(2.0, dtype=lib.float64, requires_grad=True)
    y = x * x
    lib.autograd.backward([y, y], [None, tensor(5.0, dtype=lib.float64)])
    return (x.grad,)


@both
def test_a_root_below_another(lib: Any, tensor: Any) -> Any:
    x = tensor(2.0, dtype=lib.float64, requires_grad=True)
    y = x * x
    z = lib.exp(y)
    return lib.autograd.grad([y, z], [x, y])


@both
def test_unused_inputs(lib: Any, tensor: Any) -> Any:
    x, u = (tensor([1.0, 2.0], dtype=lib.float64, requires_grad=True) for _ in range(2))
    y = (x * x).sum()
    return (
        *lib.autograd.grad(y, [x, u], retain_graph=True, allow_unused=True),
        *lib.autograd.grad(y, [u, x], retain_graph=True, materialize_grads=True),
    )


@pytest.mark.claim("1.28")
@both
def test_third_derivative(lib: Any, tensor: Any) -> Any:
    x = tensor(2.0, dtype=lib.float64, requires_grad=True)
    found, y = [], x**3
    for _ in range(3):
        (y,) = lib.autograd.grad(y, x, create_graph=True)
        found.append(y)
    return (*found, found[-1].requires_grad)


@both
def test_third_derivatives_of_a_mixed_graph(lib: Any, tensor: Any) -> Any:
    x = tensor([0.3, 0.7], dtype=lib.float64, requires_grad=True)
    w = tensor([[0.2, -0.4], [1.5, 0.3]], dtype=lib.float64, requires_grad=True)
    found = []
    y = (lib.sin(x @ w) * lib.exp(x).sum() / (1.0 + x * x)).sum()
    for _ in range(3):
        gx, gw = lib.autograd.grad(y, [x, w], create_graph=True)
        found += [gx, gw]
        y = (gx * gx).sum() + (gw * gw).sum()
    return found


@both
def test_backward_with_create_graph(lib: Any, tensor: Any) -> Any:
    x = tensor(2.0, dtype=lib.float64, requires_grad=True)
    y = x**3
    (g,) = lib.autograd.grad(y, x, create_graph=True)
    penalty = y + g * g
    penalty.backward()
    return (x.grad, x.grad.requires_grad)


@both
def test_create_graph_under_no_grad(lib: Any, tensor: Any) -> Any:
    x = tensor(2.0, dtype=lib.float64, requires_grad=True)
    y = x**3
    with lib.no_grad():
        (g,) = lib.autograd.grad(y, x, create_graph=True)
    return (g, g.requires_grad)


@both
def test_backward_into_inputs_only(lib: Any, tensor: Any) -> Any:
    x, w = (tensor([1.0, 2.0], dtype=lib.float64, requires_grad=True) for _ in range(2))
    y = x * w
    y.retain_grad()
    z = (y * y).sum()
    z.backward(inputs=[w], retain_graph=True)
    found = [x.grad, w.grad.clone()]
    z.backward(inputs=[w, y])
    return (*found, x.grad, w.grad, y.grad)


@both
def test_grad_outputs(lib: Any, tensor: Any) -> Any:
    x = tensor([1.0, 2.0], dtype=lib.float64, requires_grad=True)
    v = tensor([3.0, 5.0], dtype=lib.float64, requires_grad=True)
    (g,) = lib.autograd.grad(x * x, x, v, create_graph=True)
    return (g, *lib.autograd.grad(g.sum(), [x, v]))


@pytest.mark.claim("1.23")
@both
def test_gradient_takes_the_type_of_its_leaf(lib: Any, tensor: Any) -> Any:
    x = tensor([1.0, 2.0], dtype=lib.float32, requires_grad=True)
    s = tensor(3.0, dtype=lib.float64, requires_grad=True)
    ((x.to(lib.float64) * 2.0).sum() + (x * s).sum()).backward()
    return (x.grad, s.grad, str(x.grad.dtype).split(".")[-1], str(s.grad.dtype).split(".")[-1])


def test_a_gradient_of_mixed_types_is_what_tensors_would_give() -> None:
    # NumPy would compute in float64 here, because of the 0-d float64; tensors, and compiled steps, do not.
    third = ad.tensor(1 / 3, dtype=f64, requires_grad=True)
    x = ad.tensor([0.1, 0.7], requires_grad=True)
    (x / third).sum().backward()
    assert third.grad.item() == float(np.float32(third.grad.item()))
    g, out = ad.tensor([1.0, 1.0]), x.detach() / third.detach()
    np.testing.assert_array_equal(x.grad.numpy(), (g / third.detach()).numpy())
    assert third.grad.item() == (-(g * out) / third.detach()).sum().item()


@pytest.mark.claim("1.25")
def test_detach_stops() -> None:
    x = leaf(2.0)
    (x.detach() * x).backward()
    assert x.grad.item() == 2.0


@both
def test_broadcast_gradients_have_the_shapes_of_the_operands(lib: Any, tensor: Any) -> Any:
    a, b, c = (lib.ones(s, dtype=lib.float64, requires_grad=True) for s in ((1, 3, 4), (2, 1, 4), (2, 3, 1)))
    (a + b + c).sum().backward()
    return (a.grad, b.grad, c.grad)


ERRORS: list[tuple[str, Callable[[Any, Any], Any]]] = [
    ("does not require grad and does not have a grad_fn", lambda lib, x: lib.ones(()).backward()),
    ("does not require grad and does not have a grad_fn", lambda lib, x: lib.autograd.grad(lib.ones(()), x)),
    ("element 1 of tensors does not require grad", lambda lib, x: lib.autograd.backward([x.sum(), lib.ones(())])),
    ("grad can be implicitly created only for scalar outputs", lambda lib, x: (x * 2).backward()),
    ("Mismatch in shape: grad_output\\[0\\] has a shape of", lambda lib, x: x.sum().backward(lib.ones(2))),
    (
        "For complex Tensors, both grad_output and output are required to have the same dtype",
        lambda lib, x: x.sum().backward(lib.tensor(1 + 1j)),
    ),
    ("One of the differentiated Tensors does not require grad", lambda lib, x: lib.autograd.grad(x.sum(), lib.ones(1))),
    ("appears to not have been used in the graph", lambda lib, x: lib.autograd.grad(x.sum(), x * 3)),
    ("`inputs` argument to `backward\\(\\)` cannot be empty", lambda lib, x: x.sum().backward(inputs=[])),
    ("got 2 tensors and 1 gradients", lambda lib, x: lib.autograd.backward([x.sum(), x.sum()], [None])),
    ("second time", lambda lib, x: [y.backward() for y in [(x * x).sum()] * 2]),
    ("allow_unused", lambda lib, x: lib.autograd.grad(x.sum(), x, allow_unused=False, materialize_grads=True)),
]


@pytest.mark.parametrize(("message", "program"), ERRORS)
def test_errors_are_those_of_pytorch(message: str, program: Callable[[Any, Any], Any]) -> None:
    torch = pytest.importorskip("torch")
    for lib in (torch, ad):
        raises((RuntimeError, ValueError), message, program, lib, lib.ones(2, requires_grad=True))


def test_a_rule_that_fails_changes_no_leaf() -> None:
    x, y = leaf([1.0, 2.0]), leaf([3.0, 4.0])
    bad = x * y
    loss = (bad + y).sum()
    bad.grad_fn.saved_values = (bad.grad_fn.saved_values[0], np.ones(7), None)
    raises(ValueError, "broadcast", loss.backward)
    assert x.grad is None
    assert y.grad is None


def test_gradients_of_the_caller_are_never_written() -> None:
    x = leaf([1.0, 2.0])
    seed = ad.tensor([1.0, 10.0], dtype=f64)
    y = x + x
    ad.autograd.backward([y, y, y], [seed, seed, seed])
    np.testing.assert_array_equal(seed.numpy(), [1.0, 10.0])
    np.testing.assert_array_equal(x.grad.numpy(), [6.0, 60.0])


def test_what_grad_returns_is_nobody_elses() -> None:
    x, y = leaf([1.0, 2.0]), leaf([3.0, 4.0])
    gx, gy = ad.autograd.grad((x + y).sum(), [x, y])
    gx.add_(1.0)
    np.testing.assert_array_equal(gy.numpy(), [1.0, 1.0])


def test_numpy_warnings_as_errors_do_not_reach_the_rules() -> None:
    x = leaf([0.0, 1.0])
    y = ad.log(x).sum()
    with np.errstate(all="raise"):
        y.backward()
    np.testing.assert_array_equal(x.grad.numpy(), [np.inf, 1.0])
