"""The values that nodes keep, as users see them: names, identity, hooks on one of them."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.support.checks import raises

import adjoint as ad
from adjoint.autograd import SavedTensor

EXPRESSIONS = [
    ("x * y", "self other"), ("x / y", "self other"), ("x + y", "alpha"), ("x - y", "alpha"),
    ("x ** 2", "self exponent"), ("x.exp()", "result"), ("x.sin()", "self"), ("x.tanh()", "result"),
    ("x.relu()", "result"), ("maximum(x, y)", "self other"), ("x.sum()", "self_sym_sizes"),
    ("x.sum(1, keepdim=True)", "dim keepdim self_sym_sizes"), ("x.mean()", "self_sym_sizes self_sym_numel"),
    ("x.mean(1)", "dim keepdim self_sym_numel self_sym_sizes"), ("x.prod(1)", "dim keepdim self"),
    ("x.amax(1)", "dim keepdim self result"), ("x.cumsum(1)", "dim"), ("x.softmax(1)", "dim result"),
    ("x.log_softmax(1)", "dim result"), ("x @ z", "self mat2 self_sym_sizes mat2_sym_sizes"),
    ("x @ z.detach()", "mat2 self_sym_sizes mat2_sym_sizes"), ("x.transpose(0, 1)", "dim0 dim1"),
    ("x.permute(1, 0)", "dims"), ("x.view(4, 3)", "self_sym_sizes"), ("x.expand(2, 3, 4)", "self_sym_sizes"),
    ("x[1]", "dim index self_sym_sizes"), ("x[:, 1:3]", "dim start end step self_sym_sizes"),
    ("x[:, i]", "indices self_sym_sizes"), ("x.gather(1, j)", "dim index"), ("where(x > 0.5, x, y)", "condition"),
    ("stack([x, y])", "dim"), ("x.clamp(0.25, 0.75)", "self min max"), ("x.var(1, keepdim=True)", "self dim keepdim"),
    ("x.std(1)", "self dim keepdim result"), ("cat([x, y], 1)", "dim"), ("atan2(x, y)", "self other"),
    ("x.flip(0)", "dims"), ("addmm(y[:, :2], x, z, beta=0.5)", "alpha beta mat1 mat1_sym_sizes mat2 mat2_sym_sizes"),
    ("addbmm(x[:, :3], w, w)", "batch1_sym_argsize_0 batch1_sym_argsize_1 batch2_sym_argsize_2 alpha beta"),
    ("baddbmm(w, w, w, beta=2)", "alpha beta"), ("div(x, y, rounding_mode='floor')", "rounding_mode"),
    ("div(x, 2.0, rounding_mode='trunc')", "rounding_mode"),
    ("F.unfold(v, (2, 1), stride=2)", "kernel_size dilation padding stride"),
    ("F.unfold(v, 3)", "self_sym_argsize_minus_1 self_sym_argsize_minus_2"), ("linalg.qr(x)[0]", "mode"),
    ("F.mse_loss(x, y)", "self target reduction"), ("F.mse_loss(x, y, reduction='sum')", "self target reduction"),
    ("F.nll_loss(x, k)", "weight target"), ("F.nll_loss(x, k, c, ignore_index=2)", "weight target ignore_index"),
]  # fmt: skip


@pytest.mark.parametrize(("expression", "names"), EXPRESSIONS)
def test_names_and_values_are_pytorchs(expression: str, names: str) -> None:
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    arrays = {"x": rng.random((3, 4)), "y": rng.random((3, 4)), "z": rng.random((4, 2))}
    arrays |= {"w": rng.random((2, 3, 3)), "v": rng.random((1, 2, 3, 4))}
    indices = {"i": np.array([0, 2]), "j": np.array([[0], [1], [2]]), "k": np.array([3, 0, 2]), "c": rng.random(4)}
    nodes = []
    for library in (ad, torch):
        given = {name: library.tensor(a, requires_grad=True) for name, a in arrays.items()}
        given |= {name: library.tensor(a) for name, a in indices.items()}
        functions = {name: getattr(library, name) for name in ("atan2", "cat", "maximum", "stack", "where")}
        functions |= {name: getattr(library, name) for name in ("addbmm", "addmm", "baddbmm", "div", "linalg")}
        functions["F"] = library.nn.functional
        nodes.append(eval(expression, functions | given).grad_fn)
    ours, theirs = nodes
    for name in names.split():
        assert f"_saved_{name}" in dir(ours)
        assert_same(getattr(ours, f"_saved_{name}"), getattr(theirs, f"_saved_{name}"))


def assert_same(ours: Any, theirs: Any) -> None:
    if isinstance(ours, ad.Tensor):
        assert np.allclose(ours.detach().numpy(), theirs.detach().numpy())
    elif isinstance(ours, tuple) and not isinstance(ours, ad.Size):
        assert len(ours) == len(theirs)
        for x, y in zip(ours, theirs, strict=True):
            assert_same(x, y)
    else:
        assert tuple(ours) == tuple(theirs) if isinstance(ours, ad.Size) else ours == theirs


@pytest.fixture(params=["young", "old"])
def age(request: pytest.FixtureRequest) -> Callable[[], object]:
    """Let the collector age what there is, or not: it keeps old objects apart, and searches go through it."""
    return gc.collect if request.param == "old" else lambda: None


def test_inputs_are_the_tensors_themselves_and_outputs_are_not(age: Callable[[], object]) -> None:
    x = ad.rand(3, requires_grad=True)
    y = x * x
    z = x * y
    e = y.exp()
    age()
    assert z.grad_fn._saved_self is x
    assert z.grad_fn._saved_other is y
    assert z.grad_fn._raw_saved_other.data is y
    assert e.grad_fn._saved_result is not e
    assert e.grad_fn._saved_result.grad_fn is e.grad_fn
    maker = y.grad_fn
    del y
    assert z.grad_fn._saved_other.grad_fn is maker  # made anew, with its history


def test_inputs_are_not_taken_for_others_of_their_memory(age: Callable[[], object]) -> None:
    x = ad.rand(3)
    y = ad.rand(3, requires_grad=True).exp()
    z = x * y
    square = y * y
    age()
    detached, result = x.detach(), y.grad_fn._saved_result
    assert z.grad_fn._saved_self is x is not detached
    assert square.grad_fn._saved_self is y is not result


def test_an_output_counts_writes_with_the_tensor() -> None:
    y = ad.rand(3, requires_grad=True).exp()
    seen = y.grad_fn._saved_result
    with ad.no_grad():
        y += 1
    assert (y._version, seen._version) == (1, 1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        _ = y.grad_fn._saved_result


def test_values_are_gone_after_backward_and_parameters_are_not() -> None:
    x = ad.rand(2, 3, requires_grad=True)
    y = (x * x).sum(1)
    y.sum().backward()
    with pytest.raises(RuntimeError, match="directly access saved tensors after they have already been freed"):
        _ = y.grad_fn.next_functions[0][0]._saved_self
    assert y.grad_fn._saved_dim == (1,)


@pytest.mark.parametrize("name", ["_saved_nothing", "_raw_saved_alpha", "__array__", "nothing"])
def test_a_name_that_is_not_kept_is_no_attribute(name: str) -> None:
    x = ad.rand(2, requires_grad=True)
    raises(AttributeError, f"'AddBackward0' object has no attribute '{name}'", getattr, (x + x).grad_fn, name)


def test_hooks_on_one_value() -> None:
    x = ad.tensor([1.0, 2.0], requires_grad=True)
    y = x * x
    saved = y.grad_fn._raw_saved_self
    assert saved.unpack_hook is None
    unpack = lambda packed: packed[0] * 10  # noqa: E731  its identity is asked for
    saved.register_hooks(lambda tensor: (tensor, "packed"), unpack)
    assert saved.data[1] == "packed"
    assert saved.unpack_hook is unpack
    assert y.grad_fn._saved_self.tolist() == [10.0, 20.0]
    y.sum().backward()
    assert x.grad.tolist() == [11.0, 22.0]


def test_what_hooks_on_one_value_refuse() -> None:
    x = ad.rand(2, requires_grad=True)
    y = x * x
    saved = y.grad_fn._raw_saved_self
    saved.register_hooks(lambda t: t, lambda t: t)
    raises(RuntimeError, "hooks have already been set", lambda: saved.register_hooks(lambda t: t, lambda t: t))
    y.sum().backward()
    raises(RuntimeError, "after it has been freed", lambda: saved.register_hooks(lambda t: t, lambda t: t))
    with pytest.raises(RuntimeError, match="value None is forbidden"):
        (x * ad.rand(2)).grad_fn._raw_saved_self.register_hooks(lambda t: t, lambda t: t)
    for hooks in ((lambda t: t,), (1, 1)):
        raises(TypeError, "incompatible function arguments", (y * x).grad_fn._raw_saved_self.register_hooks, *hooks)
    raises(RuntimeError, "SavedTensor object from Python is forbidden", SavedTensor)


def test_hooks_on_a_value_keep_history_for_a_second_derivative() -> None:
    x = ad.tensor([1.0, 2.0], requires_grad=True)
    y = x**3
    y.grad_fn._raw_saved_self.register_hooks(lambda t: t, lambda t: t)
    (g,) = ad.autograd.grad(y.sum(), x, create_graph=True)
    g.sum().backward()
    assert x.grad.tolist() == [6.0, 12.0]


def test_a_weight_that_was_freed() -> None:
    loss = ad.nn.NLLLoss(weight=ad.ones(5))(ad.randn(3, 5, requires_grad=True), ad.tensor([1, 0, 4]))
    assert loss.grad_fn._saved_weight.tolist() == [1.0] * 5
    loss.backward()
    with pytest.raises(RuntimeError, match="after they have already been freed"):
        _ = loss.grad_fn._saved_weight
    with pytest.raises(AttributeError, match="_saved_nothing"):
        _ = ad.linalg.qr(ad.eye(2, requires_grad=True))[0].grad_fn._saved_nothing
