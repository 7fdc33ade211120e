"""Where hooks are held: the dictionaries of modules and of all modules, handles, copies, and compiled calls."""

import copy
import gc
import pickle
import weakref
from collections import OrderedDict
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest
from adjoint.nn.modules import module as shared
from adjoint.utils.hooks import RemovableHandle
from tests.support.errors import assert_raises
from tests.support.oracle import torch

import adjoint as ad
from adjoint import nn
from adjoint.core.graph.hooks import add_hook
from adjoint.nn.module.hooks import global_hooks, has_hooks


class Scale(nn.Module):
    def forward(self, x: Any, scale: float = 1.0) -> Any:
        return x * 2 * scale


def doubled(module: Any, args: Any) -> Any:
    return args[0] * 2


def nothing(*_: Any) -> None:
    return None


REGISTER = [
    ("register_forward_pre_hook", "_forward_pre_hooks"),
    ("register_forward_hook", "_forward_hooks"),
    ("register_full_backward_pre_hook", "_backward_pre_hooks"),
    ("register_full_backward_hook", "_backward_hooks"),
    ("register_backward_hook", "_backward_hooks"),
    ("register_state_dict_pre_hook", "_state_dict_pre_hooks"),
    ("register_state_dict_post_hook", "_state_dict_hooks"),
    ("_register_state_dict_hook", "_state_dict_hooks"),
    ("register_load_state_dict_pre_hook", "_load_state_dict_pre_hooks"),
    ("_register_load_state_dict_pre_hook", "_load_state_dict_pre_hooks"),
    ("register_load_state_dict_post_hook", "_load_state_dict_post_hooks"),
]


@pytest.mark.parametrize(("register", "name"), REGISTER)
def test_each_kind_has_its_dictionary(register: str, name: str) -> None:
    for library in (ad, torch):
        module = library.nn.Linear(1, 1)
        assert getattr(module, name) == OrderedDict()
        handle = getattr(module, register)(lambda *_: None)
        assert list(getattr(module, name)) == [handle.id]
        assert handle.hooks_dict_ref() is getattr(module, name)
        for _ in range(2):
            handle.remove()
        assert not getattr(module, name)


@pytest.mark.parametrize("prepend", [False, True])
def test_options_stand_beside_the_hooks_until_they_are_removed(prepend: bool) -> None:
    for library in (ad, torch):
        module = library.nn.Linear(1, 1)
        module.register_forward_hook(nothing)
        after = module.register_forward_hook(nothing, prepend=prepend, with_kwargs=True, always_call=True)
        before = module.register_forward_pre_hook(nothing, with_kwargs=True)
        assert list(module._forward_hooks).index(after.id) == (0 if prepend else 1)
        assert dict(module._forward_hooks_with_kwargs) == {after.id: True}
        assert dict(module._forward_hooks_always_called) == {after.id: True}
        assert dict(module._forward_pre_hooks_with_kwargs) == {before.id: True}
        after.remove()
        before.remove()
        for name in ("_forward_hooks_with_kwargs", "_forward_hooks_always_called", "_forward_pre_hooks_with_kwargs"):
            assert not getattr(module, name)


def test_dictionaries_may_be_written_cleared_and_replaced() -> None:
    module = Scale()
    module._forward_pre_hooks[0] = doubled
    assert module(1) == 4
    module._forward_pre_hooks.clear()
    assert module(1) == 2
    handle = module.register_forward_pre_hook(doubled)
    kept = module._forward_pre_hooks
    module._forward_pre_hooks = OrderedDict()
    assert module(1) == 2
    module._forward_pre_hooks = kept
    assert module(1) == 4
    handle.remove()
    assert module(1) == 2


def test_a_module_without_hooks_holds_no_dictionaries() -> None:
    module = Scale()
    module(1)
    assert not [name for name in vars(module) if "hook" in name]
    assert hasattr(module, "_forward_hooks")
    assert not has_hooks(module)
    assert_raises(AttributeError, "no attribute '_other_hooks'", lambda: module._other_hooks)


def test_a_module_that_lacks_a_dictionary_gets_it() -> None:
    module = nn.Linear(1, 1)
    module.register_forward_hook(nothing)
    del module._load_state_dict_post_hooks, module._forward_pre_hooks
    other = pickle.loads(pickle.dumps(module))
    other.load_state_dict(module.state_dict())
    other.register_forward_pre_hook(doubled)
    assert other(ad.ones(1)).tolist() == (other.weight[0] * 2 + other.bias).tolist()
    assert len(other._forward_hooks) == 1


def test_init_again_starts_without_hooks() -> None:
    module = Scale()
    module.register_forward_pre_hook(doubled)
    nn.Module.__init__(module)
    assert module(1) == 2
    assert not has_hooks(module)


def test_handle_of_any_dictionaries() -> None:
    hooks, one, two = (OrderedDict[int, Any]() for _ in range(3))
    for extra in (None, one, [one, two]):
        handle = RemovableHandle(hooks, extra_dict=extra)
        hooks[handle.id] = one[handle.id] = two[handle.id] = nothing
        with handle as entered:
            assert entered is handle
        assert not hooks
        assert len(one) == (extra is None)
        assert len(two) == (extra is None or extra is one)
        one.clear()
        two.clear()
    assert add_hook(hooks, nothing).hooks_dict_ref() is hooks


def test_handles_hold_nothing_alive() -> None:
    hooks = OrderedDict[int, Any]()
    handle = RemovableHandle(hooks)
    del hooks
    handle.remove()
    assert handle.hooks_dict_ref() is None
    twin = pickle.loads(pickle.dumps(handle))
    assert twin.id == handle.id
    assert twin.hooks_dict_ref() is None
    twin.remove()
    module = Scale()
    gone = weakref.ref(module)
    handle = module.register_forward_pre_hook(nothing)
    gc.disable()
    try:
        del module
        assert gone() is None
    finally:
        gc.enable()
    copied = copy.deepcopy(handle)
    copied.remove()
    assert copied.id == handle.id


def test_copied_handles_remove_the_hooks_of_the_copy() -> None:
    module = Scale()
    module.handle = module.register_forward_pre_hook(doubled, with_kwargs=False)
    module.other = module.register_forward_hook(nothing, always_call=True)
    for twin in (copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
        assert twin(1) == 4
        before = twin._version
        twin.handle.remove()
        twin.other.remove()
        assert twin._version == before + 2
        assert not twin._forward_hooks_always_called
        assert twin(1) == 2
        assert module(1) == 4


def test_a_new_hook_does_not_take_the_id_of_one_from_another_process() -> None:
    module = Scale()
    first = module.register_forward_hook(nothing)
    module._forward_hooks = OrderedDict({first.id + 1: nothing, first.id + 2: nothing})
    assert (module.register_forward_hook(nothing).id, len(module._forward_hooks)) == (first.id + 3, 3)


def test_hooks_that_are_methods_of_a_copied_module_are_those_of_the_copy() -> None:
    class Counting(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.seen = 0
            self.register_forward_hook(self.count)
            self.register_load_state_dict_pre_hook(Counting.loading)

        def count(self, *_: Any) -> None:
            self.seen += 1

        def loading(self, *_: Any) -> None:
            self.seen += 10

        def forward(self, x: Any) -> Any:
            return x

    module = Counting()
    twin = copy.deepcopy(module)
    twin(1)
    twin.load_state_dict({})
    assert (twin.seen, module.seen) == (11, 0)


def test_hooks_of_all_modules_under_torchs_names() -> None:
    module, seen = Scale(), []
    handle = shared.register_module_forward_hook(lambda m, a, k, o: seen.append(k), with_kwargs=True, always_call=True)
    assert list(shared._global_forward_hooks) == [handle.id]
    assert shared._global_forward_hooks_always_called == {handle.id: True}
    assert shared._global_forward_hooks_with_kwargs == {handle.id: True}
    before = global_hooks._version
    module(1, scale=2)
    shared._global_forward_hooks = OrderedDict()
    assert global_hooks._version > before
    module(1, scale=3)
    assert seen == [{"scale": 2}]
    shared._global_forward_pre_hooks[7] = doubled
    assert module(1) == 4
    shared._global_forward_pre_hooks.clear()
    assert module(1) == 2
    shared._global_forward_hooks_always_called.clear()
    shared._global_forward_hooks_with_kwargs.clear()
    assert_raises(AttributeError, "no attribute '_global_other'", lambda: shared._global_other)


def test_torchs_names_lead_to_the_same_objects() -> None:
    names = [name for name in torch.nn.modules.module.__all__ if name != "Module"]
    assert all(callable(getattr(shared, name)) for name in names)
    assert shared.Module is nn.Module
    assert nn.modules.Linear is nn.Linear
    assert nn.modules.module is shared
    assert_raises(AttributeError, "no attribute 'Nothing'", lambda: nn.modules.Nothing)


REGISTERED = [
    ("register_module_parameter_registration_hook", "weight", lambda: nn.Parameter(ad.ones(1))),
    ("register_module_buffer_registration_hook", "running_mean", lambda: ad.ones(1)),
    ("register_module_module_registration_hook", "child", Scale),
]


@pytest.mark.parametrize(("register", "name", "other"), REGISTERED)
def test_registrations_are_seen_and_may_be_replaced(register: str, name: str, other: Any) -> None:
    class Parts(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(ad.zeros(1))
            self.register_buffer("running_mean", ad.zeros(1))
            self.child = nn.Linear(1, 1)

    seen: list[Any] = []
    replacement = other()

    def replace(module: Any, at: str, value: Any) -> Any:
        seen.append((type(module), at))
        return replacement if type(module) is Parts else None

    with getattr(shared, register)(replace):
        module = Parts()
        setattr(module, name, other())
    assert seen.count((Parts, name)) == 2
    assert getattr(module, name) is replacement
    value = other()
    setattr(module, name, value)
    assert getattr(module, name) is value


def test_what_registration_hooks_see_of_none() -> None:
    def run(library: Any, register: Any) -> list[Any]:
        seen: list[Any] = []

        class Parts(library.nn.Module):  # type: ignore[misc, name-defined]
            def __init__(self) -> None:
                super().__init__()
                self.register_parameter("p", None)
                self.register_buffer("b", None)
                self.register_module("m", None)
                self.b = library.ones(1)
                self.b = None
                self.m = library.nn.Identity() if hasattr(library.nn, "Identity") else library.nn.ReLU()
                self.m = None
                self.p = library.nn.Parameter(library.ones(1))
                self.p = None

        def note(module: Any, name: str, value: Any) -> None:
            seen.append((name, value is None))

        with (
            register.register_module_parameter_registration_hook(note),
            register.register_module_buffer_registration_hook(note),
            register.register_module_module_registration_hook(note),
        ):
            Parts()
        return seen

    assert run(ad, shared) == run(torch, torch.nn.modules.module)


@pytest.mark.parametrize(("register", "name", "other"), REGISTERED)
def test_a_registration_hook_may_not_return_just_anything(register: str, name: str, other: Any) -> None:
    module = nn.Module()
    put = module.register_buffer if name == "running_mean" else module.__setattr__
    with getattr(shared, register)(lambda *_: 5), pytest.raises(TypeError, match=f"hook returned 'int' .* '{name}'"):
        put(name, other())
    assert not hasattr(module, name)


def test_compiled_calls_follow_hooks_however_they_come_and_go() -> None:
    pytest.importorskip("llvmlite")
    layer = nn.Linear(2, 2)
    compiled, x = ad.compile(lambda x: layer(x)), ad.ones(1, 2)

    def agrees() -> list[Any]:
        values = layer(x).tolist()
        for _ in range(2):
            assert compiled(x).tolist() == values
        return values

    plain = agrees()
    handle = layer.register_forward_hook(lambda m, a, o: o * 2)
    assert agrees() != plain
    layer._forward_hooks.clear()
    assert agrees() == plain
    layer._forward_hooks = OrderedDict({0: lambda m, a, o: o * 3})
    assert agrees() != plain
    layer._forward_hooks = OrderedDict()
    assert agrees() == plain
    handle.remove()
    replace = lambda: setattr(shared, "_global_forward_hooks", OrderedDict())  # noqa: E731  beside the other way
    for remove in (shared._global_forward_hooks.clear, replace):
        shared.register_module_forward_hook(lambda m, a, o: o * 4)
        assert agrees() != plain
        remove()
        assert agrees() == plain


def test_a_hook_added_and_removed_does_not_cost_a_compilation() -> None:
    pytest.importorskip("llvmlite")
    layer, x = nn.Linear(2, 2), ad.ones(1, 2)
    compiled = ad.compile(lambda x: layer(x))
    compiled(x)
    for register in (layer.register_forward_hook, layer.register_full_backward_hook):
        register(nothing).remove()
        compiled(x)
    assert compiled.compilations == 1


@pytest.mark.parametrize("old", [False, True])
def test_backward_hooks_in_a_compiled_step(old: bool) -> None:
    pytest.importorskip("llvmlite")
    first, second = nn.Linear(2, 2), nn.Linear(2, 2)

    def step(x: Any) -> Any:
        first.zero_grad()
        loss = (second(first(x)) * 1).sum()
        loss.backward()
        return loss

    def gradients(run: Any) -> Any:
        run(ad.ones(1, 2))
        return first.weight.grad.numpy().copy()

    def warned() -> Any:
        return pytest.warns(FutureWarning, match="multiple autograd Nodes") if old else nullcontext()

    compiled = ad.compile(step)
    plain = gradients(step)
    np.testing.assert_allclose(gradients(compiled), plain, rtol=1e-5)
    if old:
        second.register_backward_hook(lambda m, gi, go: tuple(g * 7 for g in gi))
    else:
        second.register_full_backward_pre_hook(lambda m, go: (go[0] * 2,))
        second.register_full_backward_hook(lambda m, gi, go: (gi[0] * 7,))
    with warned():
        changed = gradients(step)
    with warned():
        np.testing.assert_allclose(gradients(compiled), changed, rtol=1e-5)
    assert not np.allclose(changed, plain)
    second._backward_hooks.clear()
    second._backward_pre_hooks.clear()
    np.testing.assert_allclose(gradients(compiled), plain, rtol=1e-5)
