"""Programs that check by looks: they do so from the third call on, and notice what the checks in Python notice."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite")
import adjoint as ad
import adjoint.nn.functional as F
from adjoint import nn, optim
from adjoint.compiler.runtime import cpython_layout
from adjoint.compiler.runtime.guard_checks import always_stale

if cpython_layout.find_slot_offsets() is None:
    pytest.skip("this Python cannot be read from outside", allow_module_level=True)

scale = ad.tensor([2.0, 3.0])
factor = 2.0


def looks(compiled: Any) -> bool:
    """True if the program that ran last checks by looks."""
    return compiled._latest.program.names["unchanged"] is not always_stale


def settled(compiled: Any, *arguments: Any) -> Any:
    """The function after calls enough to check by looks, which see nothing left to Python."""
    for _ in range(3):
        compiled(*arguments)
    survey = compiled._latest.program.guard_checks
    assert looks(compiled)
    assert len(survey.facts) == len(survey.outcome.guards)
    assert len(survey.state) == len(survey.outcome.state)
    return compiled


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm = nn.Linear(3, 4), nn.BatchNorm1d(4)
        self.scale, self.sizes = 2.0, [1.0, 2.0]

    def forward(self, x: Any) -> Any:
        return self.shifted(self.norm(self.first(x)) * self.scale) * self.sizes[1]

    def shifted(self, x: Any) -> Any:
        return x + 1.0


def renamed(model: Model) -> None:
    model.shifted = lambda x: x - 1.0  # type: ignore[method-assign]


CHANGES: dict[str, Callable[[Model], Any]] = {
    "mode": lambda model: model.eval(),
    "mode of a part": lambda model: model.norm.eval(),
    "hook": lambda model: model.register_forward_hook(lambda module, given, out: out * 3.0),
    "attribute": lambda model: setattr(model, "scale", 5.0),
    "list": lambda model: model.sizes.__setitem__(1, 7.0),
    "method": renamed,
    "parameter": lambda model: setattr(model.first, "bias", nn.Parameter(ad.ones(4))),
    "memory of a parameter": lambda model: setattr(model.first.bias, "data", ad.ones(4)),
    "requires_grad": lambda model: model.first.weight.requires_grad_(False),
    "part": lambda model: setattr(model, "first", nn.Linear(3, 4, bias=False)),
    "hook of a parameter": lambda model: model.first.weight.register_hook(lambda g: g * 3.0),
    "buffer": lambda model: model.norm.running_mean.fill_(5.0),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_of_a_model_takes_effect(change: str) -> None:
    ad.manual_seed(0)
    model, plain = Model(), Model()
    plain.load_state_dict(model.state_dict())
    x, target = ad.randn(5, 3), ad.randn(5, 4)
    compiled = ad.compile(lambda x: (model(x) - target).tanh().sum())

    def both() -> tuple[Any, Any]:
        results = []
        for step, owner in ((compiled, model), (lambda x: (plain(x) - target).tanh().sum(), plain)):
            for p in owner.parameters():
                p.grad = None
            loss = step(x)
            loss.backward()
            results.append([loss.item(), *(None if p.grad is None else p.grad.tolist() for p in owner.parameters())])
        return results[0], results[1]

    for _ in range(4):
        found, wanted = both()
    assert looks(compiled)
    for each in (model, plain):
        ad.manual_seed(1)
        CHANGES[change](each)
    for _ in range(4):
        found, wanted = both()
        for a, b in zip(found, wanted, strict=True):
            assert (a is None) == (b is None)
            if a is not None:
                assert ad.tensor(a).allclose(ad.tensor(b), rtol=1e-3, atol=1e-4)


def test_globals_and_closures_that_change(monkeypatch: pytest.MonkeyPatch) -> None:
    shift, table = ad.ones(2), {"by": ad.ones(2)}
    compiled = ad.compile(lambda x: x * scale + shift + table["by"] * factor)
    x = ad.ones(2)
    settled(compiled, x)
    assert compiled(x).tolist() == [5.0, 6.0]
    monkeypatch.setitem(globals(), "scale", ad.tensor([10.0, 10.0]))
    assert compiled(x).tolist() == [13.0, 13.0]
    shift = ad.zeros(2)
    assert compiled(x).tolist() == [12.0, 12.0]
    table["by"] = ad.zeros(2)
    assert compiled(x).tolist() == [10.0, 10.0]
    monkeypatch.setitem(globals(), "factor", 3.0)
    table["by"] = ad.ones(2)
    assert compiled(x).tolist() == [13.0, 13.0]
    for _ in range(9):
        assert compiled(x).tolist() == [13.0, 13.0]
    assert looks(compiled)


class Settings:
    by, shift = 2.0, 1.0

    def applied(self, x: Any) -> Any:
        return x * self.by + self.shift

    def negated(self, x: Any) -> Any:
        return -x


@pytest.mark.parametrize("name", ["by", "shift", "applied", "negated"])
@pytest.mark.parametrize("of_class", [False, True])
def test_each_attribute_of_an_object_counts(monkeypatch: pytest.MonkeyPatch, name: str, of_class: bool) -> None:
    settings, x = Settings(), ad.ones(2)
    if not of_class:
        settings.by, settings.shift = 2.0, 1.0

    def step(x: Any) -> Any:
        return settings.negated(settings.applied(x))

    compiled = settled(ad.compile(step), x)
    change = 5.0 if name in ("by", "shift") else (lambda *x: x[-1] * 3.0)
    monkeypatch.setattr(Settings if of_class else settings, name, change)
    for _ in range(4):
        assert compiled(x).tolist() == step(x).tolist()


@pytest.mark.parametrize("kind", ["SGD", "Adam", "AdamW"])
def test_the_steps_of_optimizers_are_looked_at_as_a_whole(kind: str) -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    optimizer = getattr(optim, kind)(model.parameters(), lr=0.1)

    @ad.compile
    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    x, y = ad.randn(5, 3), ad.tensor([0, 1, 1, 0, 1])
    first = step(x, y).item()
    settled(step, x, y)
    unchanged = step._latest.program.names["unchanged"]
    for n in range(20):
        optimizer.param_groups[0]["lr"] = 0.1 / (n + 2)
        step(x, y)
    assert step._latest.program.names["unchanged"] is unchanged
    assert step.compilations == 1
    assert step(x, y).item() < first


def test_options_of_an_optimizer() -> None:
    w = ad.ones(2, requires_grad=True)
    twin = ad.ones(2, requires_grad=True)
    optimizer, other = (optim.SGD([p], lr=0.1, momentum=0.9) for p in (w, twin))

    extra, its_twin = (ad.ones(2, requires_grad=True) for _ in range(2))

    def body(p: Any, q: Any, o: Any) -> None:
        o.zero_grad()
        (p * p + q * q).sum().backward()
        o.step()

    step = ad.compile(lambda: body(w, extra, optimizer))

    def both() -> None:
        step()
        body(twin, its_twin, other)
        assert w.allclose(twin, rtol=1e-6)

    for _ in range(3):
        both()
    assert looks(step)
    unchanged = step._latest.program.names["unchanged"]
    for momentum in (0.8, 0.5, 0.7):
        optimizer.param_groups[0]["momentum"] = other.param_groups[0]["momentum"] = momentum
        both()
    assert step._latest.program.names["unchanged"] is unchanged
    for options in ({"momentum": 0.0}, {"momentum": 0.5, "nesterov": True}, {"maximize": True}, {"weight_decay": 0.1}):
        for o in (optimizer, other):
            o.param_groups[0].update(options)
        for _ in range(3):
            both()
    for o, p in ((optimizer, extra), (other, its_twin)):
        o.add_param_group({"params": [p]})
    both()
    assert extra.tolist() == its_twin.tolist() != [1.0, 1.0]


def test_arguments_of_other_kinds() -> None:
    compiled = ad.compile(lambda x, y: x * 2.0 + y)
    x, y = ad.arange(6.0).reshape(2, 3), ad.ones(3)
    settled(compiled, x, y)
    wide = ad.arange(6.0).reshape(3, 2).t()
    for a, b in (
        (x, y), (wide, y), (x.double(), y), (x, ad.ones(2, 3)), (x, ad.tensor(1.0)), (x[::1, ::1], y),
        (x.clone().requires_grad_(), y), (x * ad.ones(3, requires_grad=True), y), (x, y.requires_grad_()), (x, 4.0),
    ):  # fmt: skip
        for _ in range(3):
            assert compiled(a, b).tolist() == (a * 2.0 + b).tolist()
            assert compiled(a, b).requires_grad == (a * 2.0 + b).requires_grad


def test_what_keeps_changing_is_looked_at_ever_more_rarely(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = ad.compile(lambda x: x * scale)
    x = ad.ones(2)
    compiled(x)
    taken, program = [], compiled._latest.program
    survey = program.guard_checks.take_checks
    monkeypatch.setattr(program.guard_checks, "take_checks", lambda: taken.append(1) or survey())
    for n in range(100):
        monkeypatch.setitem(globals(), "scale", ad.tensor([float(n), 1.0]))
        assert compiled(x).tolist() == [float(n), 1.0]
    assert compiled.compilations == 1
    assert 1 <= len(taken) <= 9


def test_probes_that_do_more_than_read_items() -> None:
    from adjoint.compiler.runtime.guard_lowering import checks_of_guard
    from adjoint.compiler.runtime.object_checks_ir import ITEM_IS, ITEM_NONZERO
    from adjoint.compiler.trace.guards import ProbeGuard

    group: dict[str, Any] = {"a": 0.5, "b": True, "c": [1], "d": None, "e": 0.0}

    def kinds(probe: Callable[[Any], Any]) -> Any:
        found = checks_of_guard(ProbeGuard(group, probe, "a fact"))
        return None if found is None else [look.kind for look in found]

    assert kinds(lambda g: g["a"] != 0) == [ITEM_NONZERO]
    assert kinds(lambda g: bool(g["a"]) and g["b"]) == [ITEM_NONZERO, ITEM_IS]
    assert kinds(lambda g: g["e"] != 0) == [ITEM_IS]
    assert kinds(lambda g: g["a"] > 0) == [ITEM_IS]
    assert kinds(lambda g: g["a"] != 1) == [ITEM_IS]
    assert kinds(lambda g: g["a"]) == [ITEM_IS]
    assert kinds(lambda g: g["a"] if type(g["a"]) is float else g["b"]) == [ITEM_IS]
    assert kinds(lambda g: g["d"] is None) == [ITEM_IS]
    for probe in (len, lambda g: g["c"], lambda g: g.get("a"), lambda g: "a" in g, lambda g: [*g], lambda g: 1):
        assert kinds(probe) is None


def test_gradients_that_somebody_holds_stay_as_they_are() -> None:
    w, b = ad.ones(2, requires_grad=True), ad.ones(2, requires_grad=True)

    @ad.compile
    def step(x: Any) -> Any:
        w.grad = b.grad = None
        loss = (w * x + b * x * 2.0).sum()
        loss.backward()
        return loss

    def steady() -> bool:
        return step._latest.program.gradients.are_free() is None

    for n in range(4):
        step(ad.full((2,), float(n)))
    assert steady()
    first = w.grad
    for n in range(4, 8):
        step(ad.full((2,), float(n)))
        assert (w.grad.tolist(), b.grad.tolist()) == ([n] * 2, [2.0 * n] * 2)
        assert first.tolist() == [3.0, 3.0]
    del first
    for n in range(8, 20):
        step(ad.full((2,), float(n)))
    assert steady()
    memory = b.grad.detach()
    step(ad.full((2,), 50.0))
    assert (b.grad.tolist(), memory.tolist()) == ([100.0, 100.0], [38.0, 38.0])
    del memory
    for change in (
        lambda: setattr(w, "grad", None), lambda: setattr(w, "grad", ad.ones(2)),
        lambda: setattr(w, "grad", b.grad), lambda: w.grad.zero_(),
    ):  # fmt: skip
        for n in range(1, 9):
            step(ad.full((2,), float(n)))
            change()
            step(ad.full((2,), n + 0.5))
            assert (w.grad.tolist(), b.grad.tolist()) == ([n + 0.5] * 2, [2.0 * n + 1.0] * 2)
            assert w.grad is not b.grad


def test_two_programs_that_set_the_same_gradients() -> None:
    w = ad.ones(2, requires_grad=True)

    def step(x: Any) -> None:
        w.grad = None
        (w * x).sum().backward()

    first, second = ad.compile(step), ad.compile(lambda x: step(x * 10.0))
    for n in range(1, 30):
        for compiled, by in ((first, 1.0), (second, 10.0)) if n % 3 else ((first, 1.0),):
            compiled(ad.full((2,), float(n)))
            assert w.grad.tolist() == [n * by, n * by]
            kept = w.grad if n % 5 == 0 else None
        if kept is not None:
            first(ad.zeros(2))
            assert kept.tolist() == [n * by, n * by]


class Scaled(nn.Module):
    def __init__(self, factor: float) -> None:
        super().__init__()
        self.layer = nn.Linear(2, 2)
        self.factor = nn.Parameter(ad.tensor(factor))

    def forward(self, x):
        return self.layer(x) * self.factor


def hide_in_class(model: nn.Module) -> None:
    type(model).layer = nn.Linear(2, 2)


def find_elsewhere(model: nn.Module) -> None:
    other = nn.Linear(2, 2)
    type(model).__getattr__ = lambda self, name: other if name == "layer" else nn.Module.__getattr__(self, name)


@pytest.mark.parametrize(
    "change",
    [
        lambda model: setattr(model, "layer", nn.Linear(2, 2)),
        lambda model: model._modules.update(layer=nn.Linear(2, 2)),
        lambda model: model.__dict__.update(layer=nn.Linear(2, 2)),
        lambda model: setattr(model, "factor", nn.Parameter(ad.tensor(5.0))),
        lambda model: model.__dict__.update(_parameters={**model._parameters, "factor": nn.Parameter(ad.tensor(7.0))}),
        hide_in_class,
        find_elsewhere,
    ],
    ids=["layer", "registry", "instance", "parameter", "other registry", "class", "getattr"],
)
def test_attributes_in_registries_are_checked_without_python_code(change) -> None:
    class Own(Scaled):  # which the test may change
        pass

    model, x = Own(3.0).eval(), ad.randn(3, 2)
    step, asked = ad.compile(lambda x: model(x)), []
    for _ in range(3):
        step(x)
    sys.setprofile(lambda frame, event, _: asked.append(frame.f_code.co_name))
    step(x)
    sys.setprofile(None)
    assert "__getattr__" not in asked
    change(model)
    np.testing.assert_allclose(step(x).detach().numpy(), model(x).detach().numpy(), rtol=1e-5)
