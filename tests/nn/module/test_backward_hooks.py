"""Backward hooks of modules: what they see and replace, against PyTorch; in-place writes around them; errors."""

import gc
import threading
import warnings
import weakref
from collections import namedtuple
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from adjoint.nn.modules import module as everywhere
from tests.support.errors import assert_raises
from tests.support.oracle import torch

import adjoint as ad
import adjoint.nn.functional as F
from adjoint import nn

Pair = namedtuple("Pair", ["first", "second"])


def module_of(library: Any, function: Callable[..., Any]) -> Any:
    class Wrapped(library.nn.Module):  # type: ignore[misc, name-defined]
        def forward(self, *args: Any, **kwargs: Any) -> Any:
            return function(*args, **kwargs)

    return Wrapped()


def nothing(*_: Any) -> None:
    return None


def shown(value: Any) -> Any:
    if isinstance(value, (tuple, list)):
        return [shown(v) for v in value]
    return None if value is None else value.tolist()


def doubled_and_tripled(x: Any) -> tuple[Any, Any]:
    return x * 2, x * 3


def same_twice(x: Any) -> tuple[Any, Any]:
    y = x * 2
    return y, y


# The forward of a module with one argument or two, and what is done with the module `m` and its inputs.
CASES: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "one": (lambda x, y: x * y, lambda m, x, y: m(x, y).sum()),
    "among other values": (lambda n, x, t, y: x * n + y, lambda m, x, y: m(3, x, "text", y).sum()),
    "inputs in a list": (lambda xs: xs[0] * 2 + xs[1], lambda m, x, y: m([x, y]).sum()),
    "by keyword": (lambda x, y: x * y, lambda m, x, y: m(x, y=y).sum()),
    "nested outputs": (lambda x, y: (x * 2, [y * 3]), lambda m, x, y: (m(x, y)[0] + m(x, y)[1][0]).sum()),
    "None and others out": (lambda x: (None, x * 2, "text"), lambda m, x, y: m(x)[1].sum()),
    "several outputs": (lambda x, y: (x * y, x + y), lambda m, x, y: (m(x, y)[0] * m(x, y)[1]).sum()),
    "named tuple": (lambda x: Pair(x * 2, x * 3), lambda m, x, y: (m(x).first + m(x).second).sum()),
    "constant output": (lambda x: (x.detach(), x * 2), lambda m, x, y: m(x)[1].sum()),
    "output not used": (doubled_and_tripled, lambda m, x, y: m(x)[1].sum()),
    "input not used": (lambda x, y: x * 2, lambda m, x, y: m(x, y).sum()),
    "identity": (lambda x: x, lambda m, x, y: (m(x * 2) * 3 + x).sum()),
    "one input twice": (lambda x, y: x * y, lambda m, x, y: m(x, x).sum()),
    "one output twice": (same_twice, lambda m, x, y: (m(x)[0] * 2 + m(x)[1] * 5).sum()),
    "residual": (lambda x: x * 2, lambda m, x, y: (x + m(x)).sum()),
    "view": (lambda x: x.reshape(-1), lambda m, x, y: (m(x) * y).sum()),
    "parts": (lambda x: x.unbind(0), lambda m, x, y: (m(x)[0] * 2 + m(x)[1]).sum()),
    "two calls": (lambda x: x * x, lambda m, x, y: m(m(x)).sum()),
}


def record(library: Any, name: str, before: Any = None, after: Any = None) -> Any:
    """What the hooks of a case see, and the gradients of its inputs."""
    forward, use = CASES[name]
    seen: list[Any] = []
    module = module_of(library, forward)

    def pre(m: Any, grad_output: Any) -> Any:
        seen.append(shown(grad_output))
        return before and before(grad_output)

    def post(m: Any, grad_input: Any, grad_output: Any) -> Any:
        seen.append((m is module, shown(grad_input), shown(grad_output)))
        return after and after(grad_input)

    module.register_full_backward_pre_hook(pre)
    module.register_full_backward_hook(post)
    x, y = (library.tensor([float(i), 2.0], requires_grad=True) for i in (3, 5))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Full backward hook is firing")
        use(module, x, y).backward()
    return seen, shown([x.grad, y.grad])


def scaled(gradients: Any) -> tuple[Any, ...]:
    return tuple(None if g is None else g * 10 for g in gradients)


@pytest.mark.parametrize("name", CASES)
def test_hooks_see_what_they_see_in_torch(name: str) -> None:
    ours = record(ad, name)
    assert ours == record(torch, name)
    assert ours[0]


@pytest.mark.parametrize("name", [name for name in CASES if name != "inputs in a list"])
def test_hooks_replace_what_they_replace_in_torch(name: str) -> None:
    replaced = [record(library, name, scaled, lambda g: list(scaled(g))) for library in (ad, torch)]
    assert replaced[0] == replaced[1]
    assert replaced[0][1] != record(ad, name)[1]


def test_a_gradient_may_be_taken_away() -> None:
    ours, theirs = (record(library, "one", None, lambda g: (None, g[1])) for library in (ad, torch))
    assert ours == theirs
    assert ours[1] == [None, [3.0, 2.0]]


def test_a_single_tensor_stands_for_a_tuple() -> None:
    module, x = module_of(ad, lambda x: x * 2), ad.ones(3, requires_grad=True)
    module.register_full_backward_pre_hook(lambda m, go: go[0] * 5)
    module.register_full_backward_hook(lambda m, gi, go: gi[0] + go[0])
    module(x).sum().backward()
    assert shown(x.grad) == [15.0] * 3


REFUSED: list[tuple[Any, type[Exception], str]] = [
    (lambda g: (), RuntimeError, "invalid number of {what}, got 0, but expected 1"),
    (lambda g: (g[0], g[0]), RuntimeError, "invalid number of {what}, got 2, but expected 1"),
    (lambda g: (5,), TypeError, "expected Variable, but hook 'hook' returned 'int'"),
    (lambda g: 5, TypeError, "should return None, a Tensor or a tuple of them, but returned 'int'"),
    (lambda g: (g[0].sum(),), RuntimeError, r"hook 'hook' has changed the size of value: \[2\] became \[\]"),
    (lambda g: (g[0].double(),), RuntimeError, "hook 'hook' has changed the type of value"),
]


@pytest.mark.parametrize(("returned", "kind", "message"), REFUSED)
@pytest.mark.parametrize("pre", [False, True])
def test_what_hooks_may_not_return(returned: Any, kind: type[Exception], message: str, pre: bool) -> None:
    module, x = module_of(ad, lambda x: x * 2), ad.ones(2, requires_grad=True)

    def hook(m: Any, gradients: Any, *_: Any) -> Any:
        return returned(gradients)

    (module.register_full_backward_pre_hook if pre else module.register_full_backward_hook)(hook)
    assert_raises(kind, message.format(what="grad_output" if pre else "grad_input"), lambda: module(x).sum().backward())
    assert x.grad is None


def test_without_an_input_that_wants_gradients() -> None:
    layer, seen = nn.Linear(2, 3), []
    answers = iter([None, (None,), [None], ad.ones(1)])

    def hook(m: Any, grad_input: Any, grad_output: Any) -> Any:
        seen.append((grad_input, shown(grad_output)))
        return next(answers)

    layer.register_full_backward_pre_hook(lambda m, go: (go[0] * 2,))
    layer.register_full_backward_hook(hook)
    for _ in range(2):
        with pytest.warns(UserWarning, match="no inputs require gradients"):
            layer(ad.ones(1, 2)).sum().backward()
    assert seen == [((None,), [[[2.0, 2.0, 2.0]]])] * 2
    assert shown(layer.bias.grad) == [4.0] * 3
    for _ in range(2):
        with (
            pytest.warns(UserWarning, match="no inputs require gradients"),
            pytest.raises(RuntimeError, match="where no input requires gradient should always return None"),
        ):
            layer(ad.ones(1, 2)).sum().backward()


def test_a_pre_hook_alone_does_not_warn() -> None:
    layer, seen = nn.Linear(2, 3), []
    layer.register_full_backward_pre_hook(lambda m, go: seen.append(len(go)))
    layer(ad.ones(1, 2)).sum().backward()
    assert seen == [1]


def test_outputs_in_a_list_or_dict_are_not_seen() -> None:
    for forward in (lambda x: [x * 2], lambda x: {"a": x * 2}):
        module, seen = module_of(ad, forward), []
        module.register_full_backward_hook(lambda *_, seen=seen: seen.append(1))
        x = ad.ones(2, requires_grad=True)
        with pytest.warns(UserWarning, match="output should be a Tensor or a tuple of Tensors but received <class"):
            out = module(x)
        next(iter(out.values() if isinstance(out, dict) else out)).sum().backward()
        assert not seen
        assert shown(x.grad) == [2.0, 2.0]


def test_an_output_made_by_others_is_not_the_modules() -> None:
    weight = nn.Parameter(ad.ones(2))
    x = ad.ones(2, requires_grad=True)
    older = x * 3
    for kept in (weight, older):
        module, seen = module_of(ad, lambda _, kept=kept: kept), []
        module.register_full_backward_pre_hook(lambda m, go, seen=seen: seen.append(shown(go)))
        out = module(ad.ones(2, requires_grad=True))
        (out * 2 + kept * 5).sum().backward(retain_graph=True)
        assert seen == [[[2.0, 2.0]]]
    assert weight.is_leaf
    assert shown(weight.grad) == [7.0, 7.0]
    assert shown(x.grad) == [21.0, 21.0]


def test_the_output_stays_the_object_that_forward_hooks_saw() -> None:
    module, seen = module_of(ad, lambda x: x * 2), []
    module.register_forward_hook(lambda m, a, o: seen.append(o))
    module.register_full_backward_hook(lambda *_: None)
    out = module(ad.ones(2, requires_grad=True))
    assert seen[0] is out
    node = out.grad_fn
    assert (node.name(), node.next_functions[0][0].name()) == ("BackwardHookFunctionBackward", "MulBackward0")


def grow(y: Any) -> Any:
    y += 1
    y *= y.detach()
    return (y * y).sum()


def set_first(y: Any) -> Any:
    y[0] = 0.0
    return (y * y).sum()


def written_input(x: Any) -> Any:
    x *= 3
    return x * x


def used_again(m: Any, x: Any) -> Any:
    h = x * 2
    return (m(h) + h * h).sum()


def used_again_whole(m: Any, x: Any) -> Any:
    h = x * 2
    return (m(h[0]) + h * h).sum()


def written_afterwards(m: Any, x: Any) -> Any:
    h = x * 2
    return (m(h.clone()) + h.add_(1)).sum()


IN_PLACE: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "output": (lambda x: x * 3, lambda m, x: grow(m(x))),
    "part of the output": (lambda x: x * 3, lambda m, x: set_first(m(x))),
    "output that is the input": (lambda x: x, lambda m, x: grow(m(x * 2))),
    "output that is a view of the input": (lambda x: x.reshape(-1), lambda m, x: grow(m(x * 2))),
    "input": (written_input, used_again),
    "input that is a view": (written_input, used_again_whole),
    "inplace activation": (lambda x: F.relu(x, inplace=True), used_again),
    "input written afterwards": (lambda x: x * x, written_afterwards),
}


@pytest.mark.parametrize("name", IN_PLACE)
def test_in_place_writes_give_the_gradients_that_they_give_without_hooks(name: str) -> None:
    forward, use = IN_PLACE[name]

    def gradient(hooked: bool) -> Any:
        module, seen = module_of(ad, forward), []
        if hooked:
            module.register_full_backward_hook(lambda *_: seen.append(1))
        x = ad.tensor([[1.0, -2.0], [3.0, 4.0]], requires_grad=True)
        use(module, x).backward()
        assert len(seen) == hooked
        return shown(x.grad)

    assert gradient(True) == gradient(False)


def test_a_captured_output_that_is_written_later_keeps_its_history() -> None:
    def gradient(hooked: bool) -> Any:
        captured: list[Any] = []
        module = module_of(ad, lambda x: x * 3)
        module.register_forward_hook(lambda m, a, o: captured.append(o))
        if hooked:
            module.register_full_backward_hook(lambda *_: None)
        x = ad.tensor([1.0, -2.0], requires_grad=True)
        y = F.relu(module(x), inplace=True)
        (y * captured[0]).sum().backward()
        return shown(x.grad)

    assert gradient(True) == gradient(False) == [18.0, 0.0]


def test_a_leaf_may_not_be_written_in_a_hooked_module() -> None:
    module, x = module_of(ad, written_input), ad.ones(2, requires_grad=True)
    module.register_full_backward_hook(lambda *_: None)
    assert_raises(RuntimeError, "leaf Variable that requires grad is being used in an in-place operation", module, x)
    assert shown(x) == [1.0, 1.0]


def test_second_derivatives() -> None:
    def run(library: Any) -> Any:
        seen: list[Any] = []
        module = module_of(library, lambda x: x**3)

        def hook(m: Any, grad_input: Any, grad_output: Any) -> Any:
            seen.append(shown(grad_input))
            return (grad_input[0] * grad_input[0],)

        module.register_full_backward_hook(hook)
        x = library.tensor([2.0], requires_grad=True)
        (first,) = library.autograd.grad(module(x * 1.0).sum(), x, create_graph=True)
        first.sum().backward()
        return seen, shown(first), shown(x.grad)

    assert run(ad) == run(torch) == ([[[12.0]]], [144.0], [288.0])  # d (3x²)² / dx = 36 x³


def test_gradients_that_are_not_of_the_inputs_do_not_run_hooks() -> None:
    layer, seen = nn.Linear(2, 2), []
    layer.register_full_backward_hook(lambda *_: seen.append("after"))
    layer.register_full_backward_pre_hook(lambda *_: seen.append("before"))
    ad.autograd.grad(layer(ad.ones(1, 2, requires_grad=True)).sum(), layer.weight)
    assert seen == ["before"]


def test_a_graph_may_be_walked_again_after_a_hook_raised() -> None:
    layer, failing = nn.Linear(2, 2), [True]

    def hook(*_: Any) -> None:
        if failing[0]:
            raise ValueError("mine")

    layer.register_full_backward_hook(hook)
    x = ad.ones(1, 2, requires_grad=True)
    loss = layer(x).sum()
    assert_raises(ValueError, "mine", loss.backward, retain_graph=True)
    assert x.grad is None
    failing[0] = False
    loss.backward()
    assert shown(x.grad) == [shown(layer.weight.sum(0))]


@pytest.mark.needs_threads
def test_many_threads_may_call_one_hooked_module() -> None:
    layer, calls = nn.Linear(3, 3), []
    layer.register_full_backward_hook(lambda *_: calls.append(1))
    x = ad.ones(1, 3, requires_grad=True)

    def run() -> None:
        for _ in range(25):
            layer(x).sum().backward()

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(calls) == 100
    np.testing.assert_allclose(x.grad.numpy(), 100 * layer.weight.sum(0, keepdim=True).detach().numpy(), rtol=1e-4)


def test_steps_with_hooks_leave_nothing_behind() -> None:
    net = nn.Sequential(nn.Linear(4, 4), nn.ReLU(inplace=True), nn.Linear(4, 1))
    for module in net.modules():
        module.register_full_backward_pre_hook(lambda *_: None)
        module.register_full_backward_hook(lambda *_: None)
    x = ad.ones(2, 4, requires_grad=True)
    gone: list[weakref.ref[Any]] = []
    gc.disable()
    try:
        for _ in range(3):
            out = net(x)
            gone.append(weakref.ref(out))
            out.sum().backward()
            del out
        assert [reference() for reference in gone] == [None] * 3
    finally:
        gc.enable()


def test_old_hooks_see_the_node_of_the_output() -> None:
    def run(library: Any) -> Any:
        seen: list[Any] = []
        module = library.nn.Sigmoid()
        module.register_backward_hook(lambda m, gi, go: seen.append((m is module, len(gi), shown(go))))
        x = library.ones(2, requires_grad=True)
        with warnings.catch_warnings():  # torch warns of a leaf as if it were another node
            warnings.filterwarnings("ignore" if library is torch else "error", category=FutureWarning)
            out = module(x)
        out.backward(library.ones(2) * 2)
        module.register_backward_hook(lambda m, gi, go: (gi[0] * 0,))
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore" if library is torch else "error", category=FutureWarning)
            module(x).sum().backward()
        return seen, np.round(np.array(shown(x.grad)), 5).tolist()

    assert run(ad) == run(torch)


PAIR = (lambda a, b: (a.clone(), b.clone()), "outputs are generated by different autograd Nodes")
MISSING = [
    (lambda a, b: [a.clone(), b.clone()], "does not return a single Tensor or a tuple of Tensors"),
    (lambda a, b: {"a": a.clone(), "b": 1}, "does not return a single Tensor or a tuple of Tensors"),
    PAIR,
    (lambda a, b: (a * b).clone(), "the forward contains multiple autograd Nodes"),
]


@pytest.mark.parametrize(("forward", "message"), MISSING)
def test_old_hooks_warn_of_what_they_miss(forward: Any, message: str) -> None:
    for library in (ad, torch):
        module = module_of(library, forward)
        module.register_backward_hook(lambda *_: None)
        with pytest.warns(FutureWarning, match=message):
            module(library.ones(2, requires_grad=True), library.ones(2, requires_grad=True))


def test_old_hooks_warn_of_inputs_that_are_no_tensors_and_pass_outputs_without_history() -> None:
    module = module_of(ad, lambda xs: xs[0].clone())
    module.register_backward_hook(lambda *_: None)
    with pytest.warns(FutureWarning, match="does not take as input a single Tensor or a tuple of Tensors"):
        module([ad.ones(2, requires_grad=True)])
    for forward in (lambda x: None, lambda x: x.detach(), lambda x: [], lambda x: {"n": 1}):
        quiet = module_of(ad, forward)
        quiet.register_backward_hook(lambda *_: None)
        quiet(ad.ones(1))


def test_old_hooks_say_how_many_gradients_there_are() -> None:
    module = nn.Sigmoid()
    x = ad.ones(2, requires_grad=True)
    for returned, got in (((), 0), ((x, x), 2)):
        with (
            module.register_backward_hook(lambda m, gi, go, returned=returned: returned),
            pytest.raises(RuntimeError, match=f"got {got}, but expected 1"),
        ):
            module(x).sum().backward()


def test_an_old_hook_does_not_keep_its_module() -> None:
    module = nn.Sigmoid()
    module.register_backward_hook(lambda *_: None)
    out = module(ad.ones(2, requires_grad=True)).sum()
    reference = weakref.ref(module)
    del module
    gc.collect()
    assert reference() is None
    assert_raises(RuntimeError, "hook of a dead Module", out.backward)


@pytest.mark.parametrize("first", ["register_backward_hook", "register_full_backward_hook"])
def test_old_and_full_hooks_do_not_mix(first: str) -> None:
    second = {"register_backward_hook": "register_full_backward_hook"}.get(first, "register_backward_hook")
    module = nn.Sigmoid()
    with getattr(module, first)(nothing), pytest.raises(RuntimeError, match=r"Cannot use both .* on a single Module"):
        getattr(module, second)(nothing)
    assert module._is_full_backward_hook is ("full" in first)
    getattr(module, second)(nothing)
    one, other = (getattr(everywhere, name.replace("register_", "register_module_")) for name in (first, second))
    with one(nothing), pytest.raises(RuntimeError, match=r"Cannot use both .* as a global Module hook"):
        other(nothing)
    other(nothing).remove()


def test_old_hooks_for_all_modules_come_first() -> None:
    module, seen = nn.Sigmoid(), []
    module.register_backward_hook(lambda m, gi, go: seen.append("own"))
    with everywhere.register_module_backward_hook(lambda m, gi, go: seen.append(type(m).__name__)):
        module(ad.ones(2, requires_grad=True)).sum().backward()
    assert seen == ["Sigmoid", "own"]


def test_full_hooks_for_all_modules_beside_old_ones_of_one() -> None:
    module, seen = nn.Sigmoid(), []
    module.register_backward_hook(lambda m, gi, go: seen.append("old"))
    with everywhere.register_module_full_backward_hook(lambda m, gi, go: seen.append("full")):
        with pytest.warns(FutureWarning, match="multiple autograd Nodes"):
            out = module(ad.ones(2, requires_grad=True))
        out.sum().backward()
    assert sorted(seen) == ["full", "old"]
