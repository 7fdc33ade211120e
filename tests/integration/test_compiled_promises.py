"""A compiled step does what the step does: rules about names, memory and facts, each walked over generated instances.

A case makes its own state, and gives the step and what happens in call number k. It runs twice, plain and compiled.
"""

from collections.abc import Callable
from itertools import product
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint import nn, optim

Case = Callable[[Callable[[Any], Any]], Callable[[int], Any]]
CALLS = 5


def outcome(case: Case, wrap: Callable[[Any], Any]) -> list[Any]:
    """What each call gives, tensors as arrays; of an error its type and beginning."""
    call = case(wrap)
    seen = []
    for k in range(CALLS):
        try:
            seen.append(plain(call(k)))
        except Exception as error:  # noqa: BLE001  whatever the step raises is what is compared
            seen.append((type(error).__name__, str(error)[:60]))
    return seen


def plain(value: Any) -> Any:
    if isinstance(value, ad.Tensor):
        return value.detach().numpy().astype(np.float64)
    return [plain(x) for x in value] if isinstance(value, tuple | list) else value


def assert_compiled_as_eager(case: Case) -> None:
    assert_same(outcome(case, ad.compile), outcome(case, lambda step: step))


def assert_same(compiled: Any, eager: Any) -> None:
    if isinstance(eager, np.ndarray):
        np.testing.assert_allclose(compiled, eager, rtol=1e-5, atol=1e-5 * np.abs(eager).max(initial=0.1))
        return
    assert type(compiled) is type(eager), (compiled, eager)
    if isinstance(eager, list):
        assert len(compiled) == len(eager)
        for a, b in zip(compiled, eager, strict=True):
            assert_same(a, b)
    else:
        assert compiled == eager


# Two places that are one tensor, two tensors of one memory, or apart; the step rebinds or writes one; then they change.
HOLDERS = {
    "attributes": lambda: (SimpleNamespace(), "a", "b", setattr, getattr),
    "items": lambda: ({}, "a", "b", lambda h, k, v: h.__setitem__(k, v), lambda h, k: h[k]),
    "elements": lambda: ([None, None], 0, 1, lambda h, k, v: h.__setitem__(k, v), lambda h, k: h[k]),
}
RELATIONS = {
    "one": lambda t: t, "view": lambda t: t.view(2, 2).view(4), "detached": lambda t: t.detach(),
    "apart": lambda t: t.clone(),
}  # fmt: skip
ACTIONS = {
    "rebinds": lambda get, put, x: put("a", get("a") * 0.5 + x),
    "writes": lambda get, put, x: get("a").add_(x),
    "rebinds both": lambda get, put, x: (put("a", get("a") + x), put("b", get("a"))),
    "exchanges": lambda get, put, x: put("b", get("a")) or put("a", get("b") + x),
}


@pytest.mark.sweep(4)
@pytest.mark.parametrize("holder", HOLDERS)
@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize(("before", "after"), list(product(RELATIONS, RELATIONS)))
def test_names_and_memories_that_are_one_or_become_so(holder: str, action: str, before: str, after: str) -> None:
    def case(wrap: Callable[[Any], Any]) -> Callable[[int], Any]:
        held, a, b, setter, getter = HOLDERS[holder]()
        names = {"a": a, "b": b}
        start = ad.arange(4.0)
        setter(held, a, start)
        setter(held, b, RELATIONS[before](start))

        def step(x: Any) -> Any:
            ACTIONS[action](lambda k: getter(held, names[k]), lambda k, v: setter(held, names[k], v), x)
            return getter(held, a) * 10 + getter(held, b), (getter(held, a) - getter(held, b)).sum()

        run = wrap(step)

        def call(k: int) -> Any:
            if k == 2:
                setter(held, b, RELATIONS[after](getter(held, a)))
            return run(ad.ones(4)), getter(held, a), getter(held, b)

        return call

    assert_compiled_as_eager(case)


@pytest.mark.sweep(4)
@pytest.mark.parametrize("write", [0, 1])
@pytest.mark.parametrize("pattern", list(product("abc", repeat=5)), ids="".join)
def test_arguments_that_are_one_tensor_or_one_memory(pattern: tuple[str, ...], write: int) -> None:
    def case(wrap: Callable[[Any], Any]) -> Callable[[int], Any]:
        memory = np.ones(3, np.float32)
        pairs = {
            "a": (ad.zeros(3), ad.ones(3)), "b": (shared := ad.ones(3), shared),
            "c": (ad.from_numpy(memory), ad.from_numpy(memory)),
        }  # fmt: skip

        def step(x: Any, y: Any) -> Any:
            (x, y)[write].add_(1)
            return x * y if x is y else x * y + 1

        run = wrap(step)
        return lambda k: run(*pairs[pattern[k]])

    assert_compiled_as_eager(case)


WRITES = {
    "captured": lambda b, x: b.add_(x), "a part": lambda b, x: b[:1].mul_(1.25),
    "with a factor": lambda b, x: b.mul_(2.0),
    "of the argument": lambda b, x: x.mul_(3.0), "no_grad": lambda b, x: ad.no_grad()(lambda: b.lerp_(x, 0.25))(),
    "data": lambda b, x: b.data.mul_(1.5),
}  # fmt: skip
USES = {
    "product": lambda w, b, x: (w * b + w * x).sum(),
    "exp": lambda w, b, x: (w * b * 0.01).exp().sum() * x.sum(),
    "softmax": lambda w, b, x: (ad.softmax(w / b, 0) * x).sum(),
    "old copy": lambda w, b, x: (w**2 * b).sum(),
}


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("when", ["before", "after", "copy before"])
def test_backward_outside_of_a_step_that_writes(write: str, use: str, when: str) -> None:
    """First and second derivatives: nothing is made again from memory that has another value by then."""

    def case(wrap: Callable[[Any], Any]) -> Callable[[int], Any]:
        b, w = ad.tensor([1.0, 2.0]), nn.Parameter(ad.tensor([0.5, 0.25]))

        def step(x: Any) -> Any:
            seen = b.clone() if when == "copy before" else b
            early = USES[use](w, b * 2, x * 2) if when == "after" else 0.0
            WRITES[write](b, x)
            return USES[use](w, seen, x) + early

        run = wrap(step)

        def call(k: int) -> Any:
            w.grad = None
            run(ad.tensor([1.0, 3.0])).backward()
            (g,) = ad.autograd.grad(run(ad.tensor([1.0, 3.0])), w, create_graph=True)
            return w.grad, g, ad.autograd.grad(g.sum(), w)[0] if g.requires_grad else None, b

        return call

    assert_compiled_as_eager(case)


def test_a_parameter_that_no_gradient_needs_may_be_written_before_backward() -> None:
    def case(wrap: Callable[[Any], Any]) -> Callable[[int], Any]:
        w = nn.Parameter(ad.tensor([0.5, 0.25]))
        run = wrap(lambda x: (x * w).exp().sum())

        def call(k: int) -> Any:
            w.grad = None
            loss = run(ad.ones(2))
            w.data.mul_(1.5)
            loss.backward()
            return w.grad

        return call

    assert_compiled_as_eager(case)


FACTS = {
    "requires_grad": lambda t, m: t.requires_grad, "numel": lambda t, m: t.numel(), "shape": lambda t, m: t.shape[0],
    "dtype": lambda t, m: str(t.dtype), "is_leaf": lambda t, m: t.is_leaf, "strides": lambda t, m: t.is_contiguous(),
    "count": lambda t, m: len(list(m.parameters())), "parts": lambda t, m: [type(x).__name__ for x in m.modules()],
    "frozen": lambda t, m: sum(p.requires_grad for p in m.parameters()),
    "buffers": lambda t, m: [name for name, _ in m.named_buffers()],
    "weight's type": lambda t, m: str(m[0].weight.dtype), "weight's shape": lambda t, m: tuple(m[0].weight.shape),
}  # fmt: skip
CHANGES = {
    "nothing": lambda t, m: None,
    "freeze": lambda t, m: t.requires_grad_(False), "data": lambda t, m: setattr(t, "data", ad.ones(6)),
    "type": lambda t, m: setattr(t, "data", ad.ones(4, dtype=ad.float64)),
    "strides": lambda t, m: setattr(t, "data", ad.ones(8)[::2]), "double": lambda t, m: m.double(),
    "freeze all": lambda t, m: m.requires_grad_(False), "register": lambda t, m: m[0].register_buffer("b", ad.ones(1)),
    "bias": lambda t, m: setattr(m[0], "bias", None),
    "_parameters": lambda t, m: m[0]._parameters.__setitem__("weight", nn.Parameter(ad.ones(3, 4))),
    "_buffers": lambda t, m: m[0]._buffers.__setitem__("b", ad.ones(2)),
    "_modules": lambda t, m: m._modules.__setitem__("1", nn.Sigmoid()), "append": lambda t, m: m.append(nn.Tanh()),
}  # fmt: skip


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("fact", FACTS)
def test_facts_of_tensors_and_modules_are_guarded(fact: str, change: str) -> None:
    def case(wrap: Callable[[Any], Any]) -> Callable[[int], Any]:
        t, m = nn.Parameter(ad.ones(4)), nn.Sequential(nn.Linear(4, 3), nn.ReLU())
        run = wrap(lambda x: (x * 2, FACTS[fact](t, m)))

        def call(k: int) -> Any:
            if k == 2:
                CHANGES[change](t, m)
            return run(ad.ones(2))

        return call

    assert_compiled_as_eager(case)


@pytest.mark.parametrize("change", [c for c in CHANGES if c not in ("data", "type", "strides", "double")])
def test_modules_that_are_called_are_guarded(change: str) -> None:
    def case(wrap: Callable[[Any], Any]) -> Callable[[int], Any]:
        ad.manual_seed(0)
        t, m = nn.Parameter(ad.ones(4)), nn.Sequential(nn.Linear(4, 3), nn.ReLU())
        run = wrap(lambda x: m(x))

        def call(k: int) -> Any:
            if k == 2:
                CHANGES[change](t, m)
            return run(ad.ones(4))

        return call

    assert_compiled_as_eager(case)


def optimizer_case(change: Callable[[Any, Any], None], clear_only: bool) -> Case:
    def case(wrap: Callable[[Any], Any]) -> Callable[[int], Any]:
        v, w = nn.Parameter(ad.ones(2)), nn.Parameter(ad.ones(2))
        optimizer = optim.SGD([v], lr=ad.tensor(0.5))

        def step(x: Any) -> None:
            optimizer.zero_grad()
            (v * w * x).sum().backward()
            if not clear_only:
                optimizer.step()

        run = wrap(step)

        def call(k: int) -> Any:
            if k == 2:
                change(optimizer, w)
            run(ad.ones(2))
            return v, w, v.grad, w.grad

        return call

    return case


@pytest.mark.parametrize("clear_only", [False, True])
@pytest.mark.parametrize("change", [
    lambda o, w: o.add_param_group({"params": [w], "lr": 0.25}),
    lambda o, w: o.param_groups[0].__setitem__("lr", ad.tensor(0.125)),
    lambda o, w: o.param_groups[0].__setitem__("lr", 0.125),
    lambda o, w: o.param_groups[0]["lr"].fill_(0.125),
    lambda o, w: o.param_groups[0]["params"].append(w),
], ids=["group", "another tensor", "a number", "filled", "parameter"])  # fmt: skip
def test_groups_and_options_of_an_optimizer_are_guarded(change: Callable[[Any, Any], None], clear_only: bool) -> None:
    assert_compiled_as_eager(optimizer_case(change, clear_only))


def read_only(values: Any) -> Any:
    values.flags.writeable = False
    return ad.from_numpy(values)


MEMORIES = {
    "read-only": lambda: read_only(np.ones((3, 3), np.float32)),
    "expanded": lambda: ad.ones(1, 3).expand(3, 3),
    "bytes": lambda: ad.frombuffer(bytes(36), dtype=ad.float32).view(3, 3),
    "own": lambda: ad.ones(3, 3),
    "transposed": lambda: ad.ones(3, 3).T,
}
IN_PLACE = {
    "add_": lambda x: x.add_(1.0),
    "fill_": lambda x: x.fill_(2.0),
    "row": lambda x: x[0].mul_(2.0),
    "put": lambda x: x.__setitem__((slice(None), 0), 5.0),
    "copy_": lambda x: x.copy_(ad.zeros(3, 3)),
}


@pytest.mark.filterwarnings("ignore:The given (buffer|NumPy array) is not writ")
@pytest.mark.parametrize("captured", [False, True])
@pytest.mark.parametrize("memory", MEMORIES)
@pytest.mark.parametrize("write", IN_PLACE)
def test_memory_that_may_not_be_written(memory: str, write: str, captured: bool) -> None:
    def case(wrap: Callable[[Any], Any]) -> Callable[[int], Any]:
        state = SimpleNamespace(t=ad.ones(3, 3))
        other = MEMORIES[memory]()

        def step(x: Any) -> Any:
            IN_PLACE[write](state.t if captured else x)
            return x + state.t

        run = wrap(step)

        def call(k: int) -> Any:
            given = other if k in (1, 3) else ad.ones(3, 3)
            if captured:
                state.t = given
            return run(given if not captured else ad.ones(3, 3)), given

        return call

    assert_compiled_as_eager(case)


@pytest.mark.parametrize("step", [
    lambda x: (ad.ones(2, 3, dtype=ad.complex64) * x).abs(), lambda x: ad.full((2, 3), 1j).imag * x,
    lambda x: ad.cat([ad.zeros(2, 3, dtype=ad.complex64), x + 0j]).real,
    lambda x: ad.zeros(3, dtype=ad.complex64).expand(2, 3).real + x,
    lambda x: ad.ones(2, 2, dtype=ad.complex128)[0].real,
], ids=["ones", "full", "cat", "expand", "alone"])  # fmt: skip
def test_complex_constants_made_inside(step: Any) -> None:
    def case(wrap: Callable[[Any], Any]) -> Callable[[int], Any]:
        run = wrap(step)
        return lambda k: run(ad.ones(2, 3) * k)

    assert_compiled_as_eager(case)


@pytest.mark.sweep(4)
@pytest.mark.parametrize("fact", ["is_leaf", "requires_grad"])
@pytest.mark.parametrize("pattern", list(product("pnc", repeat=5)), ids="".join)
def test_flags_of_arguments(pattern: tuple[str, ...], fact: str) -> None:
    """A parameter, a tensor with a history and a constant, in any order."""

    def case(wrap: Callable[[Any], Any]) -> Callable[[int], Any]:
        p = nn.Parameter(ad.ones(2))
        run = wrap(lambda x: x * 2 if getattr(x, fact) else x * 3)

        def call(k: int) -> Any:
            p.grad = None
            y = run({"p": p, "n": p * 1.5, "c": ad.ones(2)}[pattern[k]])
            if y.requires_grad:
                y.sum().backward()
            return y, y.requires_grad, p.grad

        return call

    assert_compiled_as_eager(case)
