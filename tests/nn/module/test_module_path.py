"""Where a module sits: the path in error messages, and what a tracer is told."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import adjoint as ad
from adjoint import nn
from adjoint.core.runtime.mode import ModeScope
from adjoint.nn.module.hooks import global_hooks


class Encoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc1 = nn.Linear(64, 8)
        self.layers = nn.ModuleList([nn.Linear(8, 8)])

    def forward(self, x: Any) -> Any:
        x = self.fc1(x)
        for layer in self.layers:
            x = layer(x)
        return x


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder = Encoder()

    def forward(self, x: Any) -> Any:
        return self.encoder(x)


def notes(call: Any, *args: Any) -> list[str]:
    with pytest.raises((RuntimeError, KeyError, ZeroDivisionError, AttributeError, TypeError)) as caught:
        call(*args)
    return [note for note in getattr(caught.value, "__notes__", []) if note.startswith("in ")]


def test_shape_errors_name_the_module() -> None:
    with pytest.raises(RuntimeError, match=r"input is \(32, 31\), weight \(8, 64\) expects last size 64") as caught:
        Model()(ad.zeros(32, 31))
    assert caught.value.__notes__[0] == "in fc1 (Model.encoder.fc1): Linear(in_features=64, out_features=8, bias=True)"


def test_notes_of_other_places() -> None:
    model = Model()
    assert notes(model.encoder.fc1, ad.zeros(1, 2)) == ["in Linear: Linear(in_features=64, out_features=8, bias=True)"]
    model.encoder.layers[0] = nn.Conv2d(3, 1, 2)
    assert notes(model, ad.zeros(2, 64)) == [
        "in layers.0 (Model.encoder.layers.0): Conv2d(3, 1, kernel_size=(2, 2), stride=(1, 1))"
    ]
    model.encoder.forward = lambda x: {}["key"]
    assert notes(model, 1) == ["in encoder (Model.encoder): Encoder"]
    assert notes(nn.Sequential(nn.ReLU(), model), 1) == ["in encoder (Sequential.1.encoder): Encoder"]


def test_hooks_are_within_the_module() -> None:
    model = Model()
    model.encoder.register_forward_hook(lambda m, a, o: 1 / 0)
    assert notes(model, ad.zeros(1, 64)) == ["in encoder (Model.encoder): Encoder"]


def test_an_error_raised_again_is_noted_and_passed_on() -> None:
    class Stubborn(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Linear(2, 2)

        def forward(self, x: Any) -> Any:
            try:
                return self.inner(x)
            except RuntimeError as error:
                raise ValueError("mine") from error

    with pytest.raises(ValueError, match="mine") as caught:
        Stubborn()(ad.zeros(3))
    assert caught.value.__notes__ == ["in Stubborn: Stubborn"]
    assert caught.value.__cause__.__notes__[:1] == ["in Linear: Linear(in_features=2, out_features=2, bias=True)"]


def test_a_failing_repr_does_not_hide_the_error() -> None:
    class Silent(nn.Module):
        def extra_repr(self) -> str:
            raise KeyError("repr")

        def forward(self) -> None:
            raise ValueError("real")

    with pytest.raises(ValueError, match="real"):
        Silent()()


class Recorder:
    """A tracer that is told of modules and nothing else."""

    def __init__(self) -> None:
        self.path: list[str] = []
        self.entered: list[str] = []
        self.watched: list[tuple[Any, Any, str]] = []

    def enter_module(self, name: str) -> None:
        self.path.append(name)
        self.entered.append(".".join(self.path))

    def leave_module(self) -> None:
        self.path.pop()

    def watch(self, subject: Any, probe: Any, what: str, *_: Any) -> None:
        self.watched.append((subject, probe, what))


@contextmanager
def tracing() -> Iterator[Recorder]:
    recorder = Recorder()
    with ModeScope(interpreter=recorder):
        yield recorder
    assert not recorder.path


class Plain(nn.Module):
    def forward(self, x: Any) -> Any:
        return x


def nested() -> Any:
    return nn.Sequential(Plain(), nn.Sequential(Plain(), Plain()))


@pytest.mark.claim("4.4")
def test_tracer_follows_the_path() -> None:
    with tracing() as tracer:
        nested()(1)
    assert tracer.entered == ["Sequential", "Sequential.0", "Sequential.1", "Sequential.1.0", "Sequential.1.1"]


@pytest.mark.claim("4.4")
def test_path_is_left_when_forward_raises() -> None:
    net = nested()
    net[1][0].forward = lambda x: 1 / 0
    with tracing() as tracer, pytest.raises(ZeroDivisionError):
        net(1)
    assert tracer.entered[-1] == "Sequential.1.0"


@pytest.mark.claim("4.4")
def test_a_part_called_past_its_parent() -> None:
    class Reaching(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.store = nn.ModuleDict({"a": Plain()})
            self.hidden = [Plain()]

        def forward(self, x: Any) -> Any:
            return self.hidden[0](self.store["a"](x))

    with tracing() as tracer:
        Reaching()(1)
    assert tracer.entered == ["Reaching", "Reaching.store.a", "Reaching.Plain"]


def test_tracer_watches_all_parts_and_the_global_hooks() -> None:
    net = nested()
    with tracing() as tracer:
        net(1)
    assert any(subject is global_hooks for subject, _, _ in tracer.watched)
    for name, part in net.named_modules():
        probes = [probe for subject, probe, what in tracer.watched if subject is part and name in what]
        before = [probe(part) for probe in probes]
        part.extra = 1
        assert [probe(part) for probe in probes] != before


def test_tracer_watches_containers_that_are_only_read() -> None:
    layers, table, kept = nn.ModuleList([Plain()]), nn.ModuleDict({"a": Plain()}), nn.ParameterList([ad.zeros(1)])
    for container, read in ((layers, list), (layers, len), (layers, lambda c: c[0]), (table, list),
    (table, lambda c: c["a"]),
                            (table, lambda c: list(c.items())), (kept, list), (kept, len)):  # fmt: skip
        with tracing() as tracer:
            read(container)
        assert container in [subject for subject, _, _ in tracer.watched]


def test_compiled_call_is_not_used_inside_a_trace() -> None:
    module = Plain()
    module._compiled_call_impl = lambda x: "compiled"
    assert module(1) == "compiled"
    with tracing() as tracer:
        assert module(1) == 1
    assert tracer.entered == ["Plain"]
