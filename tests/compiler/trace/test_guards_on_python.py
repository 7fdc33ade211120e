"""Whatever a compiled step reads from Python may change between calls, and whatever it writes there is written."""

from __future__ import annotations

import functools
import math
import os
import types
import uuid
from collections import namedtuple
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, ClassVar

import numpy as np
import pytest
from tests.support.checks import raises

import adjoint as ad
from adjoint import nn

pytest.importorskip("llvmlite")

SCALE: Any = 2.0
CONFIG: Any = {"scale": 2.0, "deep": {"list": [1.0, 2.0]}, "mode": "sum"}
TENSOR: Any = ad.ones(3)
Case = tuple[Callable[[Any], Any], list[Callable[[], None]]]


def _set_global(name: str, value: Any) -> Callable[[], None]:
    return lambda: globals().__setitem__(name, value)


def helper(x: Any) -> Any:
    """Reads a global of this module, for others."""
    return x * SCALE


class Plain:
    """An object of the user's."""

    kind = 3.0

    def __init__(self) -> None:
        self.scale = 2.0
        self.name = "double"
        self.table = {"a": 1.0}

    def apply(self, x: Any) -> Any:
        return x * self.scale + self.kind

    @property
    def twice(self) -> float:
        return self.scale * 2

    @staticmethod
    def shift(x: Any) -> Any:
        return x + 1


class Color(Enum):
    """Two choices."""

    RED = 1
    BLUE = 2


@dataclass
class Options:
    """A configuration."""

    rate: float = 0.5
    layers: list[float] = field(default_factory=lambda: [1.0, 2.0])
    color: Color = Color.RED
    registry: ClassVar[dict[str, float]] = {"bias": 1.0}


Pair = namedtuple("Pair", "a b")


def globals_and_helpers() -> Case:
    return lambda x: helper(x) + SCALE, [_set_global("SCALE", 3.0), _set_global("SCALE", 3), _set_global("SCALE", True)]


def replaced_helper() -> Case:
    return lambda x: helper(x), [_set_global("helper", lambda x: x - 1)]


def nested_dictionaries() -> Case:
    def f(x: Any) -> Any:
        y = x * CONFIG["scale"] + sum(CONFIG["deep"]["list"])
        return y.sum() if CONFIG["mode"] == "sum" else y

    return f, [
        lambda: CONFIG.update(scale=4.0),
        lambda: CONFIG["deep"]["list"].append(5.0),
        lambda: CONFIG["deep"].update(list=[0.5]),
        lambda: CONFIG.update(mode="none"),
    ]


def captured_tensor() -> Case:
    return lambda x: x + TENSOR, [_set_global("TENSOR", ad.full((3,), 5.0)), _set_global("TENSOR", ad.ones(1))]


def closure() -> Case:
    n, items = 1.0, [1.0]

    def change(value: float) -> Callable[[], None]:
        def run() -> None:
            nonlocal n
            n = value

        return run

    return lambda x: x * n + len(items), [change(4.0), lambda: items.append(2.0), change(-0.0), change(0.0)]


def attributes_of_objects() -> Case:
    p = Plain()

    def f(x: Any) -> Any:
        return p.apply(x) * p.twice + p.table["a"] + len(p.name) + getattr(p, "scale")  # noqa: B009

    return f, [
        lambda: setattr(p, "scale", 5.0),
        lambda: setattr(p, "kind", 1.0),
        lambda: p.table.update(a=7.0),
        lambda: setattr(p, "name", "x"),
        lambda: setattr(p, "apply", lambda x: x),
    ]


def classes_and_their_methods() -> Case:
    class Own(Plain):
        kind = 10.0

    p = Own()

    def doubled(self: Any, x: Any) -> Any:
        return x * 2 * self.kind

    return lambda x: p.apply(p.shift(x)) + Own.kind, [
        lambda: setattr(Own, "kind", 0.5),
        lambda: setattr(Own, "apply", doubled),
        lambda: setattr(Own, "shift", staticmethod(lambda x: x - 1)),
    ]


def dataclasses_and_enums() -> Case:
    o = Options()

    def f(x: Any) -> Any:
        for factor in o.layers:
            x = x * factor
        return x * o.rate + (1.0 if o.color is Color.RED else 2.0) + o.registry["bias"]

    return f, [
        lambda: setattr(o, "rate", 0.25),
        lambda: o.layers.append(3.0),
        lambda: o.layers.pop(0) and None,
        lambda: setattr(o, "color", Color.BLUE),
        lambda: Options.registry.update(bias=9.0),
    ]


def named_tuples_and_sets() -> Case:
    held = {"pair": Pair(1.0, 2.0), "set": {1, 2}}
    return lambda x: x * held["pair"].b + len(held["set"]) + (3 in held["set"]), [
        lambda: held.update(pair=Pair(1.0, 3.0)),
        lambda: held["set"].add(3),
        lambda: held.update(set={3}),
    ]


def arrays() -> Case:
    table = np.array([1.0, 2.0, 3.0], np.float32)
    return lambda x: x * ad.from_numpy(table) + float(table[1]) + table.sum().item(), [
        lambda: table.__setitem__(1, 5.0),
        lambda: table.fill(0.5),
    ]


def functions_in_containers() -> Case:
    chain = [ad.exp, ad.tanh]

    def f(x: Any) -> Any:
        for function in chain:
            x = function(x)
        return functools.reduce(lambda a, g: g(a), chain, x)

    return f, [lambda: chain.append(ad.sin), lambda: chain.__setitem__(0, ad.cos), lambda: chain.clear()]


def modules_of_python() -> Case:
    settings = types.ModuleType("settings")
    settings.factor = 2.0  # type: ignore[attr-defined]
    return lambda x: x * settings.factor * math.pi, [lambda: setattr(settings, "factor", 3.0)]


def partials_and_defaults() -> Case:
    def scaled(x: Any, by: Any = 2.0, *, more: Any = 1.0) -> Any:
        return x * by + more

    held = {"f": functools.partial(scaled, by=3.0)}

    def new_defaults() -> None:
        scaled.__defaults__ = (7.0,)

    return lambda x: held["f"](x) + scaled(x), [
        lambda: held.update(f=functools.partial(scaled, by=4.0)),
        new_defaults,
        lambda: scaled.__kwdefaults__.update(more=5.0),
    ]


def parts_of_a_module() -> Case:
    model = nn.Sequential(nn.Linear(3, 3), nn.Tanh())
    model.gain = 2.0  # type: ignore[assignment]

    def f(x: Any) -> Any:
        return (model[0].weight @ x + model[0].bias * model.gain).detach() + sum(p.numel() for p in model.parameters())

    return f, [
        lambda: setattr(model, "gain", 3.0),
        lambda: setattr(model[0], "weight", nn.Parameter(ad.zeros(3, 3))),
        lambda: setattr(model[0], "bias", nn.Parameter(ad.ones(3))),
        lambda: model.append(nn.Linear(1, 1)) and None,
        lambda: model[0].requires_grad_(False) and None,
    ]


CHANGES: list[Callable[[], Case]] = [
    globals_and_helpers, replaced_helper, nested_dictionaries, captured_tensor, closure, attributes_of_objects,
    classes_and_their_methods, dataclasses_and_enums, named_tuples_and_sets, arrays, functions_in_containers,
    modules_of_python, partials_and_defaults, parts_of_a_module,
]  # fmt: skip


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    kept = {name: globals()[name] for name in ("SCALE", "helper", "TENSOR")}
    config = {"scale": 2.0, "deep": {"list": [1.0, 2.0]}, "mode": "sum"}
    CONFIG.update(config)
    Options.registry["bias"] = 1.0
    yield
    globals().update(kept)


@pytest.mark.parametrize("case", CHANGES, ids=lambda case: case.__name__)
def test_a_change_takes_effect_in_the_next_call(case: Callable[[], Case]) -> None:
    ad.manual_seed(0)
    step, changes = case()
    compiled = ad.compile(step)
    x = ad.tensor([0.5, -1.0, 2.0])
    last = None
    for change in [lambda: None, *changes]:
        change()
        for _ in range(2):
            expected, found = step(x).tolist(), compiled(x).tolist()
            np.testing.assert_allclose(found, expected, rtol=1e-6)
        last = expected, last
    count = compiled.compilations
    assert compiled(x).tolist() == pytest.approx(step(x).tolist(), rel=1e-6)
    assert compiled.compilations == count, "nothing changed"


class Memory(nn.Module):
    """Keeps all sorts of things from call to call."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.count = 0
        self.hidden = ad.zeros(3)
        self.seen: list[Any] = []
        self.best: Any = None
        self.stats: dict[str, Any] = {"total": 0.0}

    def forward(self, x: Any) -> Any:
        self.count += 1
        self.hidden = self.hidden * 0.5 + self.linear(x).detach().sum(0)
        self.seen.append(self.hidden.sum())
        self.stats["total"] += x.sum()
        self.stats["last"] = (self.count, x.mean())
        if self.best is None:
            self.best = x
        if self.count % 4 == 0:
            return x * 2 + self.hidden
        return self.linear(x) * self.count + self.hidden


def test_what_a_step_keeps_is_kept_by_each_call() -> None:
    ad.manual_seed(0)
    model, twin = Memory(), Memory()
    twin.load_state_dict(model.state_dict())
    compiled = ad.compile(model)
    for i in range(14):
        x = ad.randn(2, 3)
        np.testing.assert_allclose(compiled(x).detach().numpy(), twin(x).detach().numpy(), rtol=1e-4, atol=1e-6)
        assert model.count == twin.count == i + 1
        np.testing.assert_allclose(model.hidden.numpy(), twin.hidden.numpy(), rtol=1e-5)
        assert [t.item() for t in model.seen] == pytest.approx([t.item() for t in twin.seen], rel=1e-5, abs=1e-5)
        assert model.stats["total"].item() == pytest.approx(twin.stats["total"].item(), rel=1e-5, abs=1e-5)
        assert model.stats["last"][0] == i + 1
        assert (model.best is x) is (i == 0)
    assert compiled.compilations <= 5, "a counter is no reason to compile anew, the branch on it is one"


def test_globals_closures_and_containers_are_written() -> None:
    total, log, table, members = 0.0, [1], {"a": 1}, {1}
    order = [3, 1, 2]
    array = np.zeros(3)

    def f(x: Any) -> Any:
        nonlocal total
        global SCALE  # noqa: PLW0603  what is to be tried
        total += 0.5
        SCALE = SCALE + 1
        log.append(len(order))
        table["b"] = x.sum()
        table.setdefault("c", []).append(1) if "c" not in table else None
        members.add(7)
        order.sort()
        array[1] = 4.0
        return x * total * SCALE

    def state() -> Any:
        return total, SCALE, list(log), table["b"].item(), table["c"], set(members), list(order), array.tolist()

    compiled = ad.compile(f)
    found = []
    for step in (f, compiled):
        total, SCALE_before = 0.0, 2.0
        globals()["SCALE"] = SCALE_before
        log[:], order[:], array[:] = [1], [3, 1, 2], 0.0
        table.clear()
        members.clear()
        values = []
        for i in range(4):
            values.append(step(ad.full((2,), float(i))).tolist())
            values.append(state())
        found.append(values)
    assert found[0] == found[1]


def test_a_failed_trace_takes_its_writes_back() -> None:
    held: dict[str, Any] = {"n": 1, "log": [1]}

    def f(x: Any) -> Any:
        held["n"] += 1
        held["log"].append(x)
        held["new"] = x * 2
        return os.listdir(".")

    raises(RuntimeError, "in the first call only", lambda: ad.compile(f)(ad.ones(2)))
    assert held == {"n": 1, "log": [1]}


def test_an_object_made_by_the_step_cannot_be_kept() -> None:
    held: dict[str, Any] = {}

    def f(x: Any) -> Any:
        held["p"] = Plain()
        return x

    with pytest.raises(RuntimeError, match=r"keeps a Plain which it made itself .* at .*test_guards_on_python.py:\d+"):
        ad.compile(f)(ad.ones(2))
    assert held == {}


def test_an_object_around_a_tensor_of_the_step_cannot_be_returned() -> None:
    def f(x: Any) -> Any:
        p = Plain()
        p.scale = x * 2
        return p

    raises(RuntimeError, "returns a Plain, whose scale is a tensor made by the step", lambda: ad.compile(f)(ad.ones(2)))


@pytest.mark.parametrize(
    "act",
    [lambda: uuid.uuid4(), lambda: os.listdir(".")],
    ids=["uuid", "listdir"],
)
def test_what_cannot_be_repeated_is_refused(act: Callable[[], Any]) -> None:
    with pytest.raises(RuntimeError, match=r"test_guards_on_python.py:\d+.*in the first call only"):
        ad.compile(lambda x: (act(), x)[1])(ad.ones(2))


def test_a_container_among_the_arguments_cannot_be_changed() -> None:
    def f(batch: Any) -> Any:
        batch["y"] = batch["x"] * 2
        return batch["y"]

    def g(options: Any) -> Any:
        options.rate = options.rate * 2
        return ad.ones(1) * options.rate

    for step, argument in ((f, {"x": ad.ones(2)}), (g, Options())):
        raises(RuntimeError, r"changes an argument .* at .*test_guards_on_python.py:\d+", ad.compile(step), argument)


def test_an_argument_that_is_also_captured() -> None:
    held = {"w": ad.ones(3)}
    compiled = ad.compile(lambda x: held["w"] * 2 + x)
    for x in (held["w"], ad.zeros(3), held["w"]):
        assert compiled(x).tolist() == (held["w"] * 2 + x).tolist()


def test_an_argument_whose_memory_the_step_writes() -> None:
    w = ad.zeros(3)

    def f(x: Any) -> Any:
        w.add_(1)
        return x * 2

    compiled = ad.compile(f)
    assert compiled(ad.ones(3)).tolist() == [2.0] * 3
    assert compiled(w).tolist() == [4.0] * 3
    assert compiled(w[:2]).tolist() == [6.0] * 2
    assert w.tolist() == [3.0] * 3


def test_results_that_share_memory_do_so_afterwards() -> None:
    def f(x: Any) -> Any:
        y = x * 2
        return y, y[0], x[1], x.T, y

    x = ad.arange(6.0).reshape(2, 3)
    y, row, second, turned, again = ad.compile(f)(x)
    assert again is y
    y.add_(1)
    x.add_(1)
    assert row.tolist() == y[0].tolist()
    assert second.tolist() == x[1].tolist()
    assert turned.tolist() == x.T.tolist()


def test_arguments_that_overlap() -> None:
    def f(a: Any, b: Any) -> Any:
        a.add_(1)
        return b * 2

    compiled = ad.compile(f)
    x, y = ad.zeros(4), ad.zeros(4)
    assert compiled(x, y).tolist() == [0.0] * 4
    assert compiled(x, x).tolist() == [4.0] * 4
    assert compiled(x[:2], x[1:3]).tolist() == [6.0, 4.0]
    assert x.tolist() == [3.0, 3.0, 2.0, 2.0]


def test_captured_views_see_what_is_written() -> None:
    base = ad.zeros(4)
    part = base[1:3]

    def f(x: Any) -> Any:
        base.add_(x)
        part.mul_(2)
        return part.sum()

    compiled = ad.compile(f)
    assert compiled(ad.ones(4)).item() == 4.0
    assert compiled(ad.ones(4)).item() == 12.0
    assert base.tolist() == [2.0, 6.0, 6.0, 2.0]
    assert part.tolist() == [6.0, 6.0]


def test_arguments_that_are_views_are_written_and_seen() -> None:
    def f(x: Any) -> Any:
        x[0].add_(1)
        return x[1:], x.sum()

    compiled = ad.compile(f)
    for _ in range(2):
        base = ad.zeros(6)
        x, alias = base.reshape(2, 3), base[4:]
        rest, total = compiled(x)
        assert total.item() == 3.0
        assert base.tolist() == [1.0] * 3 + [0.0] * 3
        alias.fill_(5.0)
        assert rest.tolist() == [[0.0, 5.0, 5.0]]
        assert x._version == base._version > 0
    assert compiled.compilations == 1
