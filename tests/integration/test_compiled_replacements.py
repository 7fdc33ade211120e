"""What a compiled step uses may be replaced: code, functions and methods of libraries, settings, tags on arguments."""

import functools
import math
import os
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import adjoint as ad
import adjoint.nn.functional as F
from adjoint import nn


def thrice(x: Any) -> Any:
    return x * 3


Change = tuple[Callable[[Any], Any], Callable[[], object], Callable[[], object]]  # a step, a change, and back


def replaced(step: Callable[[Any], Any], holder: Any, name: str, value: Any) -> Change:
    before = getattr(holder, name)
    return step, lambda: setattr(holder, name, value), lambda: setattr(holder, name, before)


def code_of_helper() -> Change:
    def helper(x: Any) -> Any:
        return x * 2

    return replaced(lambda x: helper(x), helper, "__code__", thrice.__code__)


def code_of_step() -> Change:
    def step(x: Any) -> Any:
        return x * 2

    return replaced(step, step, "__code__", thrice.__code__)


def builtin_hidden() -> Change:
    return lambda x: x * max(1, 4), lambda: globals().update(max=min), lambda: globals().pop("max")


def default_dtype() -> Change:
    return (
        lambda x: ad.ones(2).dtype.itemsize * x, lambda: ad.set_default_dtype(ad.float64),
        lambda: ad.set_default_dtype(ad.float32),
    )  # fmt: skip


def module_replaced() -> Change:
    first, second = ModuleType("facts_replaced"), ModuleType("facts_replaced")
    first.a, second.a = 2.0, 3.0  # type: ignore[attr-defined]
    sys.modules["facts_replaced"] = first

    def step(x: Any) -> Any:
        import facts_replaced  # type: ignore[import-not-found]

        return x * facts_replaced.a

    return step, lambda: sys.modules.update(facts_replaced=second), lambda: sys.modules.update(facts_replaced=first)


def environment() -> Change:
    def step(x: Any) -> Any:
        return x * float(os.environ.get("ADJOINT_FACT", "1")) * len(os.getenv("ADJOINT_FACT", "a"))

    return step, lambda: os.environ.update(ADJOINT_FACT="25"), lambda: os.environ.pop("ADJOINT_FACT")


def executed(name: str) -> Change:
    source = (
        "class A:\n    k = 2.0\n    def f(self, x):\n        return x * self.k\ndef step(x):\n    return A().f(x) * A.k"
    )
    namespace: dict[str, Any] = {"__name__": name} if name else {}
    exec(source, namespace)
    return replaced(namespace["step"], namespace["A"], "k", 3.0)


def parameters_counted(change: Callable[[Any], object], back: Callable[[Any], object]) -> Change:
    m = nn.Sequential(nn.Linear(2, 2), nn.ReLU())

    def step(x: Any) -> Any:
        names = [name for name, _ in m.named_parameters()]
        return x * len(names) + len(list(m.parameters())) + sum(map(len, names)) + m.training

    return step, lambda: change(m), lambda: back(m)


CHANGES: dict[str, Callable[[], Change]] = {
    "code of a helper": code_of_helper, "code of the step": code_of_step, "a builtin hidden": builtin_hidden,
    "the default dtype": default_dtype, "a module replaced": module_replaced, "the environment": environment,
    "a function of the library": lambda: replaced(lambda x: F.relu(x), F, "relu", thrice),
    "the same, by a longer way": lambda: replaced(lambda x: ad.nn.functional.relu(x), F, "relu", thrice),
    "a method of tensors": lambda: replaced(lambda x: x.exp(), ad.Tensor, "exp", thrice),
    "a function of Python's": lambda: replaced(lambda x: x * math.sqrt(4.0), math, "sqrt", lambda v: v * 7),
    "a number of Python's": lambda: replaced(lambda x: x * math.pi, math, "pi", 3.0),
    "a method of a layer": lambda: replaced(nn.Linear(1, 1), nn.Linear, "forward", lambda self, x: thrice(x)),
    "the same, inside": lambda: replaced(
        nn.Sequential(nn.Linear(1, 1), nn.ReLU()), nn.Linear, "forward", lambda self, x: thrice(x)
    ),
    **{f"executed as {name!r}": functools.partial(executed, name) for name in ("", "__main__", "some", "builtins")},
    "a parameter more": lambda: parameters_counted(
        lambda m: m[0].register_parameter("w", nn.Parameter(ad.ones(1))), lambda m: delattr(m[0], "w")
    ),
    "a parameter less": lambda: parameters_counted(
        lambda m: setattr(m[0], "bias", None), lambda m: setattr(m[0], "bias", nn.Parameter(ad.ones(2)))
    ),
    "a part more": lambda: parameters_counted(lambda m: m.append(nn.Linear(2, 2)), lambda m: m.pop(2)),
    "training": lambda: parameters_counted(lambda m: m.eval(), lambda m: m.train()),
    "training in __dict__": lambda: parameters_counted(
        lambda m: vars(m).update(training=False), lambda m: vars(m).update(training=True)
    ),
}  # fmt: skip


@pytest.mark.parametrize("change", CHANGES)
def test_what_may_be_replaced_is_guarded(change: str) -> None:
    ad.manual_seed(0)
    step, apply, undo = CHANGES[change]()
    compiled = ad.compile(step)
    x = ad.ones(1)
    changed = False
    try:
        for now in (False, False, True, True, False, True, False):
            if now != changed:
                (apply if now else undo)()
            changed = now
            np.testing.assert_allclose(compiled(x).detach().numpy(), step(x).detach().numpy(), rtol=1e-5)
    finally:
        if changed:
            undo()


@pytest.mark.parametrize("read", [
    lambda x: getattr(x, "tag", 1.0), lambda x: x.tag if hasattr(x, "tag") else 3.0, lambda x: vars(x).get("tag", 7.0),
], ids=["getattr", "hasattr", "vars"])  # fmt: skip
def test_attributes_of_arguments(read: Callable[[Any], Any]) -> None:
    compiled = ad.compile(lambda x: x * read(x))
    tensors = [ad.ones(1) for _ in range(3)]
    for which, tag in ((0, None), (1, None), (0, 5.0), (1, None), (1, 2.0), (0, None), (2, None), (1, None)):
        if tag is not None:
            tensors[which].tag = tag  # type: ignore[attr-defined]
        assert compiled(tensors[which]).item() == read(tensors[which])


@pytest.mark.parametrize("helper", [False, True])
@pytest.mark.parametrize("make", [
    lambda: lambda x, L=[]: x * len(L.append(1) or L), lambda: lambda x, *, L=[]: x * len(L.append(1) or L),
    lambda: lambda x, d={"n": 0}: d.update(n=d["n"] + 1) or x * d["n"],
], ids=["list", "keyword", "dict"])  # fmt: skip
def test_mutable_default_arguments(make: Callable[[], Any], helper: bool) -> None:
    f = make()
    compiled = ad.compile((lambda x: f(x)) if helper else f)
    assert [compiled(ad.ones(1)).item() for _ in range(4)] == [1.0, 2.0, 3.0, 4.0]


def test_modes_within_modes() -> None:
    w = nn.Parameter(ad.ones(1))

    @ad.compile
    def step(x: Any) -> Any:
        with ad.no_grad(), ad.enable_grad():
            return x * w

    for around in (ad.enable_grad, ad.no_grad, ad.inference_mode, ad.enable_grad, ad.inference_mode, ad.no_grad):
        with around():
            assert step(ad.ones(1)).requires_grad == step.function(ad.ones(1)).requires_grad


@pytest.mark.parametrize("warm", [False, True])
@pytest.mark.parametrize("cache", [
    functools.cache, functools.lru_cache(4), functools.lru_cache(None, typed=True), functools.lru_cache(4, typed=True),
], ids=["cache", "lru_cache", "typed", "typed lru_cache"])  # fmt: skip
@pytest.mark.parametrize("call", [
    lambda f: f(3), lambda f: f("a"), lambda f: f(n=3), lambda f: f(3, m=2.0), lambda f: f((1, 2)),
    lambda f: f(None, 1), lambda f: f([3][0]), lambda f: f(*[3]),
], ids=["int", "text", "keyword", "both", "tuple", "two", "unknown", "starred"])  # fmt: skip
def test_a_cleared_cache_is_filled_anew(call: Callable[[Any], Any], cache: Any, warm: bool) -> None:
    def outcome(wrap: Callable[[Any], Any]) -> list[Any]:
        rate = 2.0

        @cache
        def kept(n: Any = 0, m: float = 1.0) -> Any:
            return rate * m

        run = wrap(lambda x: x * call(kept))
        if warm:
            call(kept)
        seen = []
        for k in range(6):
            if k == 2:
                rate = 5.0
            if k in (3, 5):
                kept.cache_clear()
                rate = float(k)
            seen.append(run(ad.ones(1)).item())
        return seen

    assert outcome(ad.compile) == outcome(lambda step: step)


def test_a_tensor_in_a_cache_has_values() -> None:
    @functools.cache
    def positions(n: int) -> Any:
        return ad.arange(n) * 1.0

    step = ad.compile(lambda x: x * positions(3).sum())
    assert [step(ad.ones(1)).item() for _ in range(3)] == [3.0, 3.0, 3.0]
    assert positions(3).tolist() == [0.0, 1.0, 2.0]
    assert step.compilations == 1
