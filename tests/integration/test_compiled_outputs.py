"""What training steps return and keep, over several calls between which the program changes things: as eagerly."""

from collections import defaultdict
from collections.abc import Callable
from itertools import product
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tests.support.outcomes import assert_same, describe, run, written_through

import adjoint as ad
from adjoint import nn, optim

CASES = 300
KEPT = ("returned", "list", "dict", "attribute", "the last two")
KINDS: dict[str, Callable[[Any, Any, Any, Any], Any]] = {
    "gradient": lambda w, x, y, loss: w.grad, "view of it": lambda w, x, y, loss: w.grad.view(6),
    "detached gradient": lambda w, x, y, loss: w.grad.detach(), "copy": lambda w, x, y, loss: w.grad.clone(),
    "parameter": lambda w, x, y, loss: w, "detached parameter": lambda w, x, y, loss: w.detach(),
    "output": lambda w, x, y, loss: y, "detached": lambda w, x, y, loss: y.detach(), "row": lambda w, x, y, loss: y[0],
    "loss": lambda w, x, y, loss: loss, "argument": lambda w, x, y, loss: x, "view": lambda w, x, y, loss: x.view(6),
    "several": lambda w, x, y, loss: (y, y.T, [w.grad, y]), "chunks": lambda w, x, y, loss: y.chunk(3, 1),
    "dict": lambda w, x, y, loss: {"a": y.detach(), "b": y.detach()[1:]},
}  # fmt: skip
OPTIMIZERS: dict[str, Callable[[Any], Any]] = {
    "none": lambda p: None, "sgd": lambda p: optim.SGD(p, lr=0.1, momentum=0.9),
    "adam": lambda p: optim.Adam(p, lr=0.1),
}  # fmt: skip
BETWEEN: dict[str, Callable[[Any], Any]] = {
    "nothing": lambda s: None, "no gradient": lambda s: setattr(s.w, "grad", None),
    "written": lambda s: ad.no_grad()(lambda: s.w.add_(0.5))(), "gradient written": lambda s: s.w.grad.mul_(0),
    "gradient set": lambda s: setattr(s.w, "grad", ad.ones(2, 3)),
    "one gradient": lambda s: setattr(s.v, "grad", s.w.grad),
}  # fmt: skip
EVERY = list(product(KEPT, KINDS, KINDS, OPTIMIZERS, BETWEEN, (False, True)))


@pytest.mark.sweep(4)
@pytest.mark.parametrize("number", range(CASES))
def test_what_a_training_step_hands_out(number: int) -> None:
    picked = EVERY[int(np.random.default_rng(number).integers(len(EVERY)))]
    kept, first, second, optimizer_kind, between, inside = picked

    def case(wrap: Callable[[Any], Any]) -> Callable[[int], Any]:
        s = SimpleNamespace(w=nn.Parameter(ad.ones(2, 3) * 0.5), v=nn.Parameter(ad.ones(2, 3) * 0.25), one=None)
        s.many, s.named = [], {}
        optimizer = OPTIMIZERS[optimizer_kind]([s.w, s.v])

        def pick(kind: str, *of: Any) -> Any:
            needs_gradient = kind in ("gradient", "view of it", "detached gradient", "copy", "several")
            return KINDS[kind](s.w, *of) if inside or not needs_gradient else None

        def step(x: Any) -> Any:
            if optimizer is not None:
                optimizer.zero_grad()
            y = s.w * x + s.v
            loss = (y**2).sum()
            if inside:
                loss.backward()
                if optimizer is not None:
                    optimizer.step()
            one, two = pick(first, x, y, loss), pick(second, x, y, loss)
            if kept in ("list", "the last two"):
                s.many.append(one)
            if kept == "the last two" and len(s.many) > 2:
                s.many.pop(0)
            if kept == "dict":
                s.named["one"] = one
            if kept == "attribute":
                s.one = one
            return (one if kept == "returned" else None), two, loss

        compiled = wrap(step)

        def call(k: int) -> Any:
            if k:
                BETWEEN[between](s)
            x = ad.arange(6.0).view(2, 3) * 0.1 + k
            results = compiled(x)
            if not inside:
                results[2].backward(retain_graph=True)
            found = flattened({"x": x, "g": s.w.grad, "made": results, "many": s.many, "named": s.named, "one": s.one})
            seen = describe({"w": s.w, "v": s.v, **found})
            return seen, written_through(found) if k % 2 else None

        return call

    assert_same(run(case, ad.compile, 5), run(case, lambda step: step, 5), str(picked))


def flattened(tree: Any, name: str = "") -> dict[str, Any]:
    """The leaves of a tree of lists, tuples and dicts, by their places."""
    if not isinstance(tree, dict | list | tuple):
        return {name: tree}
    parts = tree.items() if isinstance(tree, dict) else enumerate(tree)
    return {place: x for key, part in parts for place, x in flattened(part, f"{name}.{key}").items()}


class Momentum(optim.Optimizer):
    """An optimizer as users write them: the state of a parameter is made at its first step."""

    def __init__(self, params: Any) -> None:
        super().__init__(params, {"lr": 0.1})

    @ad.no_grad()
    def step(self) -> None:  # type: ignore[override]
        """Add up gradients, and follow them."""
        for group in self.param_groups:
            for p in group["params"]:
                state = self.state[p]
                if not state:
                    state["v"] = ad.zeros_like(p)
                state["v"].mul_(0.9).add_(p.grad)
                p.add_(state["v"], alpha=-group["lr"])


STORES: dict[str, Callable[[], Any]] = {
    "dict": dict, "defaultdict of None": lambda: defaultdict(lambda: None), "defaultdict": lambda: defaultdict(dict),
    "optimizer": lambda: None,
}  # fmt: skip


@pytest.mark.parametrize("kind", STORES)
def test_state_that_the_first_step_makes_for_a_tensor(kind: str) -> None:
    """A tensor is the key; the item may come to be by its lookup."""

    def case(wrap: Callable[[Any], Any]) -> Callable[[int], Any]:
        w, store = nn.Parameter(ad.tensor([1.0, 2.0])), STORES[kind]()
        optimizer = Momentum([w])

        def step(x: Any) -> Any:
            w.grad = None
            (w * x).square().sum().backward()
            if kind == "optimizer":
                optimizer.step()
                return w.grad
            if kind == "defaultdict":
                entry = store[w]
                if not entry:
                    entry["v"] = ad.zeros_like(w)
                return entry["v"].add_(x) * 2
            if store.get(w) is None:
                store[w] = ad.zeros_like(w)
            return store[w].add_(x) * 2

        compiled = wrap(step)

        def call(k: int) -> Any:
            made = compiled(ad.ones(2) * (k + 1))
            held = optimizer.state[w].get("v") if store is None else store[w]
            return describe(flattened({"w": w, "made": made, "held": held}))

        return call

    assert_same(run(case, ad.compile, 4), run(case, lambda step: step, 4))


@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.parametrize(
    "pack", [lambda t: t * 2, lambda t: t.half(), lambda t: (t.shape, t.reshape(-1))], ids=["double", "half", "flat"]
)
def test_hooks_on_saved_tensors(pack: Callable[[Any], Any], inside: bool) -> None:
    """They are called, as often as eagerly, and what they make of a value is what backward sees."""

    def unpack(packed: Any) -> Any:
        return packed[1].reshape(packed[0]) if isinstance(packed, tuple) else packed.float()

    def case(wrap: Callable[[Any], Any]) -> Callable[[int], Any]:
        w, calls = nn.Parameter(ad.tensor([0.5, -1.0])), []

        def note(t: Any) -> Any:
            calls.append(tuple(t.shape))
            return pack(t)

        def step(x: Any) -> Any:
            with ad.autograd.graph.saved_tensors_hooks(note, unpack):
                loss = (w * x).exp().sum() + (w * w).sin().sum()
            if inside:
                loss.backward()
            return loss

        compiled = wrap(step)

        def call(k: int) -> Any:
            w.grad = None
            loss = compiled(ad.ones(2) * (k + 1))
            if not inside:
                loss.backward()
            return describe({"loss": loss, "w": w}), len(calls)

        return call

    assert_same(run(case, ad.compile, 3), run(case, lambda step: step, 3))
