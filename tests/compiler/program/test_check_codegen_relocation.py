"""State that is replaced: each call finds it where it lies then, binds nothing anew, and does what eager code does."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite")
import adjoint as ad
from adjoint import nn, optim
from adjoint.compiler.program.program import Program

Place = tuple[Callable[[], Any], Callable[[Any], None]]  # how code reads a tensor, and replaces it
CALLS = 9


def in_dict() -> Place:
    held = {"h": ad.ones(4)}
    return lambda: held["h"], lambda t: held.__setitem__("h", t)


def in_list() -> Place:
    held = [ad.ones(4)]
    return lambda: held[0], lambda t: held.__setitem__(0, t)


def in_deque() -> Place:
    held = deque([ad.ones(4)])
    return lambda: held[0], lambda t: held.__setitem__(0, t)


def in_attribute() -> Place:
    held = SimpleNamespace(h=ad.ones(4))
    return lambda: held.h, lambda t: setattr(held, "h", t)


def in_module() -> Place:
    held = nn.Module()
    held.h = ad.ones(4)
    return lambda: held.h, lambda t: setattr(held, "h", t)


def in_buffer() -> Place:
    held = nn.Module()
    held.register_buffer("h", ad.ones(4))
    return lambda: held.h, lambda t: setattr(held, "h", t)


def in_cell() -> Place:
    h = ad.ones(4)

    def put(t: Any) -> None:
        nonlocal h
        h = t

    return lambda: h, put


def in_global() -> Place:
    globals()["GLOBAL"] = ad.ones(4)

    def put(t: Any) -> None:
        global GLOBAL  # noqa: PLW0603  what the test is about
        GLOBAL = t

    return lambda: GLOBAL, put


def in_tuple() -> Place:
    held = {"h": (ad.ones(4), 1)}
    return lambda: held["h"][0], lambda t: held.__setitem__("h", (t, 1))


def in_new_list() -> Place:
    held = SimpleNamespace(parts=[ad.ones(4), 2.0])
    return lambda: held.parts[0], lambda t: setattr(held, "parts", [t, 2.0])


def in_new_dict() -> Place:
    held = SimpleNamespace(parts={"h": ad.ones(4), "by": 2.0})
    return lambda: held.parts["h"], lambda t: setattr(held, "parts", {"h": t, "by": 2.0})


GLOBAL: Any = None
PLACES = {
    f.__name__: f
    for f in (
        in_dict, in_list, in_deque, in_attribute, in_module, in_buffer, in_cell, in_global, in_tuple, in_new_list,
        in_new_dict,
    )
}  # fmt: skip


def is_same(a: Any, b: Any) -> None:
    np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-5)


def count_rebinds(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    from adjoint.compiler.program.program import Program

    seen: list[int] = []
    original = Program.holds
    monkeypatch.setattr(Program, "holds", lambda self: seen.append(1) or original(self))
    return seen


@pytest.mark.parametrize("place", PLACES)
def test_a_step_that_replaces_its_state_binds_nothing_anew(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = count_rebinds(monkeypatch)

    def run(wrap: Callable[[Any], Any]) -> tuple[list[Any], Callable[[Any], Any], Any]:
        get, put = PLACES[place]()

        def step(x: Any) -> Any:
            put(get() * 0.5 + x)
            return get() * 2.0

        step = wrap(step)
        results, between = [], []
        for n in range(30):
            results.append(step(ad.full((4,), float(n))))
            between.append(len(seen))
        assert between[-1] == between[len(between) // 2]
        return results, step, get()

    compiled, step, last = run(ad.compile)
    eager, _, expected = run(lambda f: f)
    for a, b in zip(compiled, eager, strict=True):
        is_same(a, b)
    is_same(last, expected)
    assert step.compilations == 1  # type: ignore[attr-defined]


def other_memories(get: Callable[[], Any], w: Any, given: Any, seed: int) -> dict[str, Callable[[], Any]]:
    """Make what a tensor may be replaced by, right or not for the program that is there."""
    rng = np.random.default_rng(seed)
    array = rng.normal(size=4).astype(np.float32)
    fixed = array.copy()
    fixed.flags.writeable = False
    return {
        "own": lambda: ad.tensor(array),
        "numpy": lambda: ad.from_numpy(array),
        "a view of what is written": lambda: w.detach(),
        "a part": lambda: ad.tensor(np.concatenate([array, array]))[2:6],
        "the argument": lambda: given,
        "not contiguous": lambda: ad.tensor(np.stack([array, array], 1))[:, 0],
        "not aligned": lambda: ad.from_numpy(np.frombuffer(bytearray(b"0" + array.tobytes()), np.float32, 4, 1)),
        "another shape": lambda: ad.tensor(array[:1]),
        "another type": lambda: ad.tensor(array.astype(np.float64)),
        "requires grad": lambda: ad.tensor(array, requires_grad=True),
        "the same": get,
        "a parameter": lambda: nn.Parameter(ad.tensor(array)),
        "with a history": lambda: ad.tensor(array, requires_grad=True) * 2.0,
        "read-only": lambda: ad.from_numpy(fixed) if fixed.flags.writeable else ad.tensor(fixed),
    }


STEPS: dict[str, Callable[[Callable[[], Any], Callable[[Any], None], Any, Any], Any]] = {
    "reads": lambda get, put, w, x: get() * 2.0 + x,
    "writes another": lambda get, put, w, x: (w.add_(1.0), get() * 2.0 + x)[1],
    "writes it": lambda get, put, w, x: (get().add_(x), w * get())[1],
    "writes the argument": lambda get, put, w, x: (x.add_(1.0), get() * w)[1],
    "replaces it": lambda get, put, w, x: put(get() * 0.5 + x) or get() * w,
}


@pytest.mark.sweep(4)
@pytest.mark.parametrize("what", other_memories(lambda: None, ad.ones(4), None, 0))
@pytest.mark.parametrize("does", STEPS)
@pytest.mark.parametrize("place", ["in_dict", "in_attribute", "in_cell", "in_new_list"])
def test_whatever_takes_the_place_counts_as_eagerly(place: str, does: str, what: str) -> None:
    def run(wrap: Callable[[Any], Any]) -> list[Any]:
        get, put = PLACES[place]()
        w = ad.arange(4.0) + 1.0
        step = wrap(lambda x: STEPS[does](get, put, w, x))
        found: list[Any] = []
        with ad.no_grad():
            for n in range(CALLS):
                x = ad.full((4,), 0.5 + n)
                if n > 1:  # four times another that fits, then what may not
                    kind = "own" if n < 6 else what
                    put(other_memories(get, w, x, n)[kind]())
                held, before = get(), get().detach().clone()
                try:
                    result = step(x)
                    found.append(result.detach().clone())
                except RuntimeError as error:
                    found.append(ad.zeros(0) if "compiled" in str(error) else ad.ones(0))
                found += [x.clone(), w.clone(), get().detach().clone()]
                if does in ("reads", "replaces it"):
                    is_same(held, before)
                found.append(ad.tensor([float(held._version > 0), float(get() is held)]))
        return found

    for a, b in zip(run(ad.compile), run(lambda f: f), strict=True):
        assert a.shape == b.shape
        is_same(a, b)


def test_parameters_that_get_other_memory() -> None:
    def run(wrap: Callable[[Any], Any]) -> list[Any]:
        ad.manual_seed(0)
        model = nn.Linear(3, 2)
        optimizer = optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

        def step(x: Any) -> Any:
            optimizer.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            optimizer.step()
            return loss

        step = wrap(step)
        losses = []
        for n in range(12):
            if n in (3, 4, 5, 9):
                model.weight.data = ad.full((2, 3), float(n))
                optimizer.state[model.bias]["momentum_buffer"] = ad.full((2,), 0.1 * n)
            version = model.weight._version
            losses += [step(ad.ones(4, 3) * n), model.weight.clone(), model.weight.grad.clone()]
            assert model.weight._version > version
        return losses

    for a, b in zip(run(ad.compile), run(lambda f: f), strict=True):
        is_same(a, b)


def test_gradients_that_are_replaced_are_found() -> None:
    w = ad.ones(3, requires_grad=True)
    twin = ad.ones(3, requires_grad=True)
    optimizer, its_twin = optim.SGD([w], lr=0.1), optim.SGD([twin], lr=0.1)
    step = ad.compile(lambda: optimizer.step())
    for n in range(12):
        kept = w.grad
        w.grad, twin.grad = ad.full((3,), float(n)), ad.full((3,), float(n))
        step()
        its_twin.step()
        is_same(w, twin)
        assert kept is None or kept.tolist() == [n - 1.0] * 3


def test_results_that_were_handed_out_stay_as_they_are() -> None:
    state = {"h": ad.zeros(100_000)}

    @ad.compile
    def step(x: Any) -> Any:
        state["h"] = state["h"] + x
        return state["h"]

    results = [step(ad.full((100_000,), 1.0)) for _ in range(12)]
    assert [r[0].item() for r in results] == [n + 1.0 for n in range(12)]
    assert results[-1] is state["h"]


def test_threads_that_replace_one_state() -> None:
    state = {"h": ad.zeros(8)}

    @ad.compile
    def step(x: Any) -> Any:
        state["h"] = x * 2.0 + state["h"] * 0.0
        return state["h"].sum()

    step(ad.ones(8))
    wrong: list[int] = []

    def work(k: int) -> None:
        x = ad.full((8,), float(k))
        wrong.extend(n for n in range(300) if step(x).item() != 16.0 * k)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_states_that_move_are_compared_with_all_memory_that_may_not_be_theirs() -> None:
    """Tensors of one memory come after others that lie apart: through each other, a constant one and an argument."""
    fixed = ad.ones(4)

    def pair_apart(x: Any) -> tuple[Any, Any]:
        return ad.ones(4), ad.ones(4)

    def pair_of_one_memory(x: Any) -> tuple[Any, Any]:
        whole = ad.arange(8.0)
        return whole[:4], whole[3:7]

    def with_the_fixed_one(x: Any) -> tuple[Any, Any]:
        return fixed.detach(), ad.ones(4)

    def with_the_argument(x: Any) -> tuple[Any, Any]:
        return x.detach(), ad.ones(4)

    def run(wrap: Any) -> list[list[float]]:
        held: dict[str, Any] = {}
        fixed.fill_(1.0)

        def step(x: Any) -> Any:
            held["a"].add_(1.0)
            held["b"].mul_(2.0)
            return held["a"] + held["b"] + fixed + x

        call = wrap(step)
        found = []
        for make in (*[pair_apart] * 5, pair_of_one_memory, pair_apart, with_the_fixed_one, with_the_argument):
            x = ad.ones(4)
            held["a"], held["b"] = make(x)
            found += [call(x).tolist() for _ in range(2)]  # the second time they have been written
        if wrap is ad.compile:
            (signature,) = call._programs.values()
            assert any(entry.program.relocated for entry in signature.entries)
        return found

    assert run(ad.compile) == run(lambda step: step)


def test_gradients_may_lie_anywhere_for_a_program_that_reads_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first program of a step that asks for a value computes the loss: gradients must only be there."""
    renewed: list[Program] = []
    original = Program.holds
    monkeypatch.setattr(Program, "holds", lambda self: renewed.append(self) or original(self))
    w = ad.ones(3, requires_grad=True)

    @ad.compile
    def step(x: Any) -> Any:
        loss = (w * x).sum()
        loss.backward()
        if loss.item() > 100:
            return None
        return loss + w.grad.sum()

    for n in range(12):
        w.grad = ad.full((3,), float(n))
        assert step(ad.ones(3) * n).item() == 3 * n + 6 * n
        if n == 5:
            renewed.clear()
    assert not renewed
    assert step.compilations == 1
