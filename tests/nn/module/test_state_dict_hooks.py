"""Hooks of state dicts: what they see, change and refuse, against PyTorch; own ways to save and load; extra state."""

import gc
import pickle
import weakref
from collections import OrderedDict
from typing import Any

import pytest
from tests.support.errors import assert_raises
from tests.support.oracle import torch

import adjoint as ad
from adjoint import nn


def model(library: Any) -> Any:
    return library.nn.Sequential(
        OrderedDict(
            [("a", library.nn.Linear(1, 1)), ("b", library.nn.Sequential(library.nn.Linear(1, 2), library.nn.ReLU()))]
        )
    )


def message(error: Exception) -> str:
    return str(error).replace("torch.", "").replace("adjoint.", "")


def test_hooks_around_saving() -> None:
    def run(library: Any) -> Any:
        net, seen = model(library), []
        for name, part in net.named_modules():
            part.register_state_dict_pre_hook(lambda m, prefix, keep, name=name: seen.append((name, prefix, keep)))

            def after(m: Any, state: Any, prefix: str, local: Any, name: str = name) -> None:
                seen.append((name, sorted(state), prefix, local))
                state[f"{prefix}added"] = library.ones(1)

            part.register_state_dict_post_hook(after)
        state = net.state_dict(prefix="net.", keep_vars=True)
        return seen, list(state), dict(state._metadata)

    assert run(ad) == run(torch)


def test_a_public_hook_returns_none_and_a_private_one_may_replace_the_dict_of_the_root() -> None:
    for library in (ad, torch):
        layer = library.nn.Linear(1, 1)
        with (
            layer.register_state_dict_post_hook(lambda *_: 1),
            pytest.raises(RuntimeError, match="state_dict post-hook must return None"),
        ):
            layer.state_dict()
        layer._register_state_dict_hook(lambda m, state, prefix, local: {"only": 1})
        assert layer.state_dict() == {"only": 1}
        assert list(library.nn.Sequential(layer).state_dict()) == ["0.weight", "0.bias"]


def test_metadata_has_the_versions_of_the_classes() -> None:
    class Third(nn.Module):
        _version = 3

    net = nn.Sequential(Third(), nn.Linear(1, 1))
    net[0].changed = 1
    assert net.state_dict()._metadata == {"": {"version": 1}, "0": {"version": 3}, "1": {"version": 1}}  # type: ignore[attr-defined]
    plain: dict[str, Any] = {}
    assert net.state_dict(destination=plain) is plain


def test_hooks_before_loading() -> None:
    def run(library: Any) -> Any:
        net, seen = model(library), []

        def before(m: Any, state: Any, prefix: str, local: Any, strict: bool, *lists: list[str]) -> None:
            seen.append((type(m).__name__, sorted(state), prefix, local, strict, lists))
            state[f"{prefix}weight"] = state.pop(f"{prefix}old")

        def plain(state: Any, prefix: str, *_: Any) -> None:
            seen.append((sorted(state), prefix))

        net.a.register_load_state_dict_pre_hook(before)
        net.a._register_load_state_dict_pre_hook(plain)
        net.b._register_load_state_dict_pre_hook(lambda m, *_: seen.append(m is net.b), with_module=True)
        state = net.state_dict()
        state["a.old"] = state.pop("a.weight") + 1
        keys = net.load_state_dict(state)
        assert "a.old" in state
        return seen, list(keys), (net.a.weight - state["a.old"]).tolist()

    assert run(ad) == run(torch)


def test_hooks_before_loading_may_name_faults() -> None:
    def run(library: Any) -> Any:
        net = model(library)

        def before(
            m: Any, state: Any, prefix: str, local: Any, strict: bool, missing: Any, extra: Any, said: Any
        ) -> None:
            missing.append("missing")
            extra.append("extra")
            said.append("mine")

        net.b.register_load_state_dict_pre_hook(before)
        weight = net.a.weight.tolist()
        with pytest.raises(RuntimeError) as caught:
            net.load_state_dict({name: t + 1 for name, t in net.state_dict().items()})
        if library is ad:
            assert net.a.weight.tolist() == weight
        return message(caught.value)

    assert run(ad) == run(torch)


def test_hooks_after_loading_see_the_values_and_settle_the_keys() -> None:
    def run(library: Any) -> Any:
        net, seen = model(library), []

        def after(m: Any, keys: Any) -> None:
            seen.append((type(m).__name__, list(keys.missing_keys), list(keys.unexpected_keys), m.weight.sum().item()))
            keys.missing_keys.clear()

        net.a.register_load_state_dict_post_hook(after)
        net.b[0].register_load_state_dict_post_hook(after)
        state = {name: library.ones(*t.shape) for name, t in net.state_dict().items()}
        del state["a.bias"], state["b.0.bias"]
        keys = net.load_state_dict(state)
        state["other"] = state["a.weight"]
        with pytest.raises(RuntimeError) as caught:
            net.load_state_dict(state)
        return seen, list(keys), message(caught.value), list(net.load_state_dict(state, strict=False))

    assert run(ad) == run(torch)


def test_hooks_after_loading_run_children_first_and_return_nothing() -> None:
    net, seen = model(ad), []
    for name, part in net.named_modules():
        part.register_load_state_dict_post_hook(lambda m, keys, name=name: seen.append(name))
    net.load_state_dict(net.state_dict())
    assert seen == ["a", "b.0", "b.1", "b", ""]
    net.register_load_state_dict_post_hook(lambda m, keys: keys)
    assert_raises(AssertionError, "not expected to return new values", lambda: net.load_state_dict(net.state_dict()))


def test_a_fault_before_a_hook_after_loading_still_changes_nothing() -> None:
    net, seen = model(ad), []
    net.b.register_load_state_dict_post_hook(lambda m, keys: seen.append(m[0].weight.tolist()))
    before = net.b[0].weight.tolist()
    state: dict[str, Any] = {name: t + 1 for name, t in net.state_dict().items()}
    state["a.weight"] = ad.ones(3)
    assert_raises(RuntimeError, r"size mismatch for a\.weight", net.load_state_dict, state)
    assert seen == [before]
    assert net.b[0].weight.tolist() == before


def test_modules_may_save_and_load_in_their_own_way() -> None:
    def run(library: Any) -> Any:
        class Packed(library.nn.Module):  # type: ignore[misc, name-defined]
            _version = 2

            def __init__(self) -> None:
                super().__init__()
                self.weight = library.nn.Parameter(library.zeros(2))
                self.inner = library.nn.Linear(1, 1)
                self.loaded: Any = None

            def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
                destination[f"{prefix}packed"] = self.weight.detach() * 2

            def _load_from_state_dict(self, state: Any, prefix: str, local: Any, *rest: Any) -> None:
                if f"{prefix}packed" in state:
                    state[f"{prefix}weight"] = state.pop(f"{prefix}packed") / 2
                super()._load_from_state_dict(state, prefix, local, *rest)
                self.loaded = (local.get("version"), self.weight.tolist())

        net = library.nn.Sequential(Packed())
        with library.no_grad():
            net[0].weight.add_(1)
        state = net.state_dict()
        other = library.nn.Sequential(Packed())
        keys = other.load_state_dict(state)
        return list(state), list(keys), other[0].loaded, other[0].weight.tolist()

    assert run(ad) == run(torch)


def test_own_state_may_be_loaded_by_itself() -> None:
    layer = nn.Linear(1, 1)
    lists: tuple[list[str], ...] = ([], [], [])
    layer._load_from_state_dict({"x.weight": ad.zeros(1, 1), "x.other": ad.ones(1)}, "x.", {}, True, *lists)
    assert lists == (["x.bias"], ["x.other"], [])
    assert layer.weight.tolist() == [[0.0]]
    layer._load_from_state_dict({"weight": 5}, "", {}, False, *lists)
    assert "expected torch.Tensor or Tensor-like object" in lists[2][0]


def test_extra_state() -> None:
    def run(library: Any) -> Any:
        class Counted(library.nn.Module):  # type: ignore[misc, name-defined]
            count: Any = 0

            def get_extra_state(self) -> Any:
                return {"count": self.count}

            def set_extra_state(self, state: Any) -> None:
                self.count = state["count"]

        net, other = (library.nn.Sequential(Counted(), library.nn.Linear(1, 1)) for _ in range(2))
        net[0].count = 5
        state = net.state_dict()
        said = []
        for wrong in ({k: v for k, v in state.items() if "extra" not in k}, {**state, "1._extra_state": 3}):
            with pytest.raises(RuntimeError) as caught:
                other.load_state_dict(wrong)
            said.append(message(caught.value))
        before = other[0].count if library is ad else 0
        other.load_state_dict(state)
        return state["0._extra_state"], said, before, other[0].count

    assert run(ad) == run(torch)
    for call in (lambda m: m.get_extra_state(), lambda m: m.set_extra_state(1)):
        with pytest.raises(RuntimeError, match="has no extra state"):
            call(nn.Linear(1, 1))


def remember(module: Any, *_: Any) -> None:
    module.loaded = True


def test_a_hook_before_loading_does_not_keep_its_module_and_travels_with_it() -> None:
    module = nn.Linear(1, 1)
    module.register_load_state_dict_pre_hook(remember)
    (hook,) = module._load_state_dict_pre_hooks.values()
    assert hook.__name__ == "remember"
    twin = pickle.loads(pickle.dumps(module))
    twin.load_state_dict(module.state_dict())
    assert twin.loaded
    assert not hasattr(module, "loaded")
    reference = weakref.ref(module)
    gc.disable()
    try:
        del module
        assert reference() is None
    finally:
        gc.enable()
    assert_raises(RuntimeError, "hook of a dead Module", hook, {}, "")
    assert_raises(RuntimeError, "module of this hook is gone", pickle.dumps, hook)


def test_extra_state_may_bring_a_part_with_it() -> None:
    class Holder(nn.Module):
        def __init__(self, held: Any) -> None:
            super().__init__()
            self.held = held

        def get_extra_state(self) -> Any:
            return self.held

        def set_extra_state(self, state: Any) -> None:
            self.held = state

    for held in ("text", 5, Holder(3)):
        module, other = Holder(held), Holder("another")
        other.load_state_dict(module.state_dict())
        assert other.held is held


def test_a_post_hook_is_not_registered_again_as_one_that_returns() -> None:
    def hook(*_: Any) -> None:
        """Changes nothing."""

    module = nn.Linear(2, 2)
    module.register_state_dict_post_hook(hook)
    with pytest.raises(RuntimeError, match="previously registered via register_state_dict_post_hook"):
        module._register_state_dict_hook(hook)
