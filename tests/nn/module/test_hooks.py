"""Hooks of modules: order, what hooks may replace, errors, removal, and changes during a call."""

import copy
import sys
from contextlib import ExitStack
from typing import Any

import pytest
from tests.support.errors import assert_raises
from tests.support.oracle import torch

import adjoint as ad
from adjoint import nn
from adjoint.core.graph.hooks import RemovableHandle
from adjoint.core.runtime.compile_slot import compile_slot
from adjoint.nn.module.hooks import global_hooks, has_hooks


class Scale(nn.Module):
    def forward(self, x: Any, scale: float = 1.0) -> Any:
        return x * 2 * scale


def doubled(module: Any, args: Any) -> Any:
    return args[0] * 2


@pytest.mark.claim("4.1")
def test_call_goes_through_the_compiled_call_if_there_is_one() -> None:
    module = Scale()
    assert nn.Module.__call__ is nn.Module._wrapped_call_impl
    assert module._compiled_call_impl is None
    before = module._version
    module._compiled_call_impl = lambda *args, **kwargs: ("compiled", args, kwargs)
    assert module(1, scale=2) == ("compiled", (1,), {"scale": 2})
    assert module._version > before
    assert "_compiled_call_impl" not in copy.deepcopy(module).__dict__


@pytest.mark.claim("4.1")
def test_compile_uses_the_package_compile(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def fake(function: Any, **options: Any) -> Any:
        seen.append((function, options))
        return lambda *args: ("through", function(*args))

    monkeypatch.setattr(compile_slot, "call", fake)
    module = Scale()
    module.compile(backend="test")
    assert module(3) == ("through", 6.0)
    assert seen == [(module._call_impl, {"backend": "test"})]
    with module.register_forward_pre_hook(doubled):
        assert module(3) == ("through", 12.0)


@pytest.mark.claim("4.2")
def test_order_of_a_call() -> None:
    seen: list[str] = []
    module = Scale()
    module.forward = lambda x: seen.append("forward") or x  # type: ignore[func-returns-value]
    with ExitStack() as stack:
        for hook in (
            nn.register_module_forward_pre_hook(lambda m, a: seen.append("every pre")),
            nn.register_module_forward_hook(lambda m, a, o: seen.append("every post")),
            module.register_forward_hook(lambda m, a, o: seen.append("post")),
            module.register_forward_pre_hook(lambda m, a: seen.append("pre")),
        ):
            stack.enter_context(hook)
        module(1)
    assert seen == ["every pre", "pre", "forward", "every post", "post"]


@pytest.mark.claim("4.3")
def test_one_frame_between_user_and_forward() -> None:
    class Frames(nn.Module):
        def forward(self) -> list[str]:
            names, frame = [], sys._getframe(1)
            while frame is not None and frame.f_code.co_name != "test_one_frame_between_user_and_forward":
                names.append(frame.f_code.co_name)
                frame = frame.f_back  # type: ignore[assignment]
            return names

    module = Frames()
    assert module() == ["_wrapped_call_impl"]
    handle = module.register_forward_pre_hook(lambda m, a: None)
    assert len(module()) > 1
    handle.remove()
    assert module() == ["_wrapped_call_impl"]


@pytest.mark.claim("4.5")
def test_pre_hook_replaces_the_arguments() -> None:
    module = Scale()
    handle = module.register_forward_pre_hook(lambda m, a: a[0] + 10)
    assert module(1) == 22
    handle.remove()
    with module.register_forward_pre_hook(lambda m, a: (a[0] + 1, 5)):
        assert module(1) == 20
    with module.register_forward_pre_hook(lambda m, a: None):
        assert module(1) == 2


@pytest.mark.claim("4.6")
def test_prepend_and_kwargs() -> None:
    module = Scale()
    seen: list[int] = []
    module.register_forward_pre_hook(lambda m, a: seen.append(1))
    module.register_forward_pre_hook(lambda m, a: seen.append(0), prepend=True)
    module.register_forward_pre_hook(lambda m, a, k: ((a[0] + 1,), {"scale": k["scale"] * 2}), with_kwargs=True)
    assert module(1, scale=3) == 24
    assert seen == [0, 1]


@pytest.mark.claim("4.6")
def test_pre_hook_with_kwargs_returns_a_pair() -> None:
    module = Scale()
    module.register_forward_pre_hook(lambda m, a, k: a, with_kwargs=True)
    assert_raises(RuntimeError, "forward pre-hook must return None or a tuple", module, 1)


@pytest.mark.claim("4.7")
def test_forward_hook_replaces_the_output() -> None:
    module = Scale()
    module.register_forward_hook(lambda m, a, o: o + 1)
    module.register_forward_hook(lambda m, a, k, o: (o, k), with_kwargs=True)
    module.register_forward_hook(lambda m, a, o: None)
    assert module(1, scale=2) == (5, {"scale": 2})


@pytest.mark.claim("4.7")
def test_always_call() -> None:
    seen: list[Any] = []
    module = Scale()
    module.register_forward_hook(lambda m, a, o: seen.append(("normal", o)))
    module.register_forward_hook(lambda m, a, o: seen.append(("always", o)), always_call=True)
    with nn.register_module_forward_hook(lambda m, a, o: seen.append(("everywhere", o)), always_call=True):
        module(1)
        assert seen == [("everywhere", 2), ("normal", 2), ("always", 2)]
        seen.clear()
        assert_raises(TypeError, "unexpected keyword", module, 1, other=2)
    assert seen == [("everywhere", None), ("always", None)]


@pytest.mark.claim("4.7")
def test_always_call_after_a_failing_hook_runs_once() -> None:
    seen: list[Any] = []
    module = Scale()
    module.register_forward_hook(lambda m, a, o: seen.append("first"), always_call=True)
    module.register_forward_hook(lambda m, a, o: 1 / 0)
    module.register_forward_hook(lambda m, a, o: seen.append(o), always_call=True)
    module.register_forward_hook(lambda m, a, o: int("none"), always_call=True)
    with (
        pytest.raises(ZeroDivisionError),
        pytest.warns(UserWarning, match="raised an exception that was silenced .* invalid"),
    ):
        module(1)
    assert seen == ["first", 2]


@pytest.mark.claim("4.8")
def test_grad_input_is_none_for_an_input_that_wants_none() -> None:
    layer = nn.Linear(2, 2)
    seen: list[Any] = []
    layer.register_full_backward_hook(lambda m, gi, go: seen.append((m, gi, [g.tolist() for g in go])))
    with pytest.warns(UserWarning, match="no inputs require gradients") as warned:
        layer(ad.ones(1, 2)).sum().backward()
    assert [w.filename for w in warned] == [__file__]
    assert seen == [(layer, (None,), [[[1.0, 1.0]]])]
    assert layer.weight.grad is not None


@pytest.mark.claim("4.8")
def test_backward_hooks_prepend_and_remove() -> None:
    layer = nn.Linear(2, 2)
    seen: list[int] = []
    handles = [
        layer.register_full_backward_hook(lambda m, gi, go: seen.append(1)),
        layer.register_full_backward_hook(lambda m, gi, go: seen.append(0), prepend=True),
        layer.register_full_backward_pre_hook(lambda m, go: seen.append(-1)),
        layer.register_full_backward_pre_hook(lambda m, go: seen.append(-2), prepend=True),
    ]
    x = ad.ones(1, 2, requires_grad=True)
    layer(x).sum().backward()
    assert seen == [-2, -1, 0, 1]
    for handle in handles:
        handle.remove()
        handle.remove()
    layer(x).sum().backward()
    assert len(seen) == 4
    assert layer(x).grad_fn.name() == "AddmmBackward0"


@pytest.mark.claim("4.9")
@pytest.mark.parametrize("library", ["adjoint", "torch"])
def test_the_complete_order_of_hooks_around_a_call(library: str) -> None:
    lib: Any = ad if library == "adjoint" else torch
    register: Any = nn if lib is ad else torch.nn.modules.module
    seen: list[str] = []

    class Traced(lib.nn.Module):  # type: ignore[misc, name-defined]
        def forward(self, x: Any, scale: float = 1.0) -> Any:
            seen.append("fwd")
            return x * 2 * scale

    def note(text: str, result: Any = None) -> Any:
        seen.append(text)
        return result

    def shown(gradients: Any) -> str:
        return str([g.item() for g in gradients])

    module = Traced()
    module.register_forward_pre_hook(lambda m, a: note("pre1"))
    module.register_forward_pre_hook(lambda m, a: note("pre0"), prepend=True)
    module.register_forward_pre_hook(lambda m, a, k: note("prekw", (a, {"scale": 3.0})), with_kwargs=True)
    module.register_forward_hook(lambda m, a, o: note("post1"))
    module.register_forward_hook(lambda m, a, o: note("post0"), prepend=True)
    module.register_forward_hook(lambda m, a, k, o: note("postkw", o + 1), with_kwargs=True)
    module.register_full_backward_pre_hook(lambda m, go: note(f"bpre{shown(go)}", (go[0] * 10,)))
    module.register_full_backward_hook(lambda m, gi, go: note(f"bhook({shown(gi)},{shown(go)})", (gi[0] + 0.5,)))
    handles = [
        register.register_module_forward_pre_hook(lambda m, a: note("gpre")),
        register.register_module_forward_hook(lambda m, a, o: note("gpost")),
        register.register_module_full_backward_pre_hook(lambda m, go: note("gbpre")),
        register.register_module_full_backward_hook(lambda m, gi, go: note("gbhook")),
    ]
    x = lib.tensor(1.0, requires_grad=True)
    y = module(x)
    y.backward()
    for handle in handles:
        handle.remove()
    assert y.item() == 7
    assert x.grad.item() == 60.5
    assert seen == [
        "gpre", "pre0", "pre1", "prekw", "fwd", "gpost", "post0", "post1", "postkw", "gbpre", "bpre[1.0]", "gbhook",
        "bhook([60.0],[10.0])",
    ]  # fmt: skip


@pytest.mark.claim("4.10")
def test_global_hooks_reach_all_modules_and_leave_no_trace() -> None:
    net = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    seen: list[str] = []
    before = global_hooks._version
    handle = nn.register_module_forward_hook(lambda m, a, o: seen.append(type(m).__name__))
    assert isinstance(handle, RemovableHandle)
    net(ad.ones(1, 2))
    handle.remove()
    net(ad.ones(1, 2))
    assert seen == ["Linear", "ReLU", "Sequential"]
    assert not has_hooks(net)
    assert global_hooks._version == before + 2


def test_no_backward_hooks_without_recording() -> None:
    layer = nn.Linear(2, 2)
    layer.register_full_backward_hook(lambda m, gi, go: None)
    with ad.no_grad():
        assert not layer(ad.ones(1, 2)).requires_grad


def test_hooks_count_as_changes() -> None:
    module = Scale()
    for register in (
        module.register_forward_pre_hook, module.register_forward_hook, module.register_full_backward_pre_hook,
        module.register_full_backward_hook,
    ):  # fmt: skip
        before = module._version
        handle = register(lambda *_: None)
        assert module._version == before + 1
        handle.remove()
        handle.remove()
        assert module._version == before + 2


def test_hooks_added_and_removed_during_a_call_count_from_where_their_turn_is() -> None:
    def run(library: Any) -> list[str]:
        seen: list[str] = []
        handles: dict[str, Any] = {}

        class Doubled(library.nn.Module):  # type: ignore[misc, name-defined]
            def forward(self, x: Any) -> Any:
                handles["added in forward"] = self.register_forward_hook(lambda *_: seen.append("added in forward"))
                return x * 2

        def first(m: Any, *_: Any) -> None:
            seen.append("first")
            m.register_forward_pre_hook(lambda *_: seen.append("pre"))
            m.register_forward_hook(lambda *_: seen.append("post"))
            m.register_full_backward_hook(lambda *_: seen.append("backward"))
            for name in ("second", "third"):
                handles[name].remove()

        module = Doubled()
        handles["first"] = module.register_forward_pre_hook(first)
        handles["second"] = module.register_forward_pre_hook(lambda *_: seen.append("second"))
        handles["third"] = module.register_forward_hook(lambda *_: seen.append("third"))
        x = library.ones(1, requires_grad=True)
        module(x).backward()
        seen.append("|")
        handles["first"].remove()
        handles["added in forward"].remove()
        module(x).backward()
        return seen

    ours, theirs = run(ad), run(torch)
    assert ours == theirs
    assert ours[:4] == ["first", "second", "post", "added in forward"]
    assert ours[-1] == "backward"


@pytest.mark.parametrize("kind", ["forward_pre_hook", "forward_hook", "full_backward_hook", "full_backward_pre_hook"])
def test_hooks_that_remove_themselves_run_once(kind: str) -> None:
    module, seen = Scale(), []
    handles = []

    def hook(*_: Any) -> None:
        seen.append(kind)
        handles[0].remove()

    handles.append(getattr(module, f"register_{kind}")(hook))
    for _ in range(2):
        module(ad.ones(1, requires_grad=True)).backward()
    assert seen == [kind]
    assert not has_hooks(module)


def test_warnings_for_hooks_that_fail_while_another_error_is_on_its_way() -> None:
    def run(library: Any) -> Any:
        register: Any = nn if library is ad else torch.nn.modules.module

        class Failing(library.nn.Module):  # type: ignore[misc, name-defined]
            def forward(self) -> None:
                raise ValueError("forward")

        def fail(*_: Any) -> None:
            raise KeyError("hook")

        module = Failing()
        module.register_forward_hook(fail, always_call=True)
        module.register_forward_hook(fail)
        with (
            register.register_module_forward_hook(fail, always_call=True),
            pytest.warns(UserWarning, match="silenced") as warned,
            pytest.raises(ValueError, match="forward"),
        ):
            module()
        return [str(w.message) for w in warned]

    assert run(ad) == run(torch)
    assert len(run(ad)) == 2


def test_always_call_hooks_are_given_keywords_and_the_arguments_as_they_were_then() -> None:
    seen: list[Any] = []

    def note(m: Any, args: Any, kwargs: Any, out: Any) -> None:
        seen.append((args, kwargs, out))

    module = Scale()
    module.register_forward_pre_hook(lambda m, a, k: ((5,), {"scale": "wrong"}), with_kwargs=True)
    module.register_forward_pre_hook(lambda m, a: 1 / 0)
    module.register_forward_hook(note, with_kwargs=True, always_call=True)
    with nn.register_module_forward_hook(note, with_kwargs=True, always_call=True), pytest.raises(ZeroDivisionError):
        module(1, scale=2)
    assert seen == [((5,), {"scale": "wrong"}, None)] * 2


def test_ctrl_c_is_passed_on_at_once() -> None:
    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    module, seen = Scale(), []
    module.register_forward_hook(interrupt)
    module.register_forward_hook(lambda *_: seen.append(1), always_call=True)
    with pytest.raises(KeyboardInterrupt):
        module(1)
    assert not seen


def test_containers_none_and_other_values_pass_through_forward_hooks() -> None:
    class Plain(nn.Module):
        def forward(self, x: Any, *rest: Any, **named: Any) -> Any:
            return x

    module, seen = Plain(), []
    module.register_forward_pre_hook(lambda m, a, k: seen.append((a, k)), with_kwargs=True)
    module.register_forward_hook(lambda m, a, o: seen.append(o))
    for value in (None, {"a": [ad.ones(1)]}, [1, (2, None)], "text"):
        assert module(value, None, key={}) is value
        assert seen[-2] == ((value, None), {"key": {}})
        assert seen[-1] is value
