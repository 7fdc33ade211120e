"""That watching leaves no trace of its own, and what it makes of code that it cannot follow."""

from __future__ import annotations

import dis
import functools
import sys
import threading
from types import SimpleNamespace
from typing import Any

import pytest
from tests.support.threads import in_threads
from tests.support.watched_steps import Refused, places_read, refuse, seen, watched

import adjoint as ad
from adjoint import nn
from adjoint.compiler.trace.frames import AttributeSource, ContentsSource, FrameObserver

scale = 2.0
weight = ad.tensor([1.0, 2.0])
holder = SimpleNamespace(weight=weight, scale=0.5)
optimizer = ad.optim.SGD([ad.tensor([1.0], requires_grad=True)], lr=0.1)


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(2, 2)
        self.rest = nn.ModuleList([nn.Linear(2, 2)])
        self.gain = 2.0
        self.count = 0

    def forward(self, x: Any) -> Any:
        self.count += 1
        return self.fc(x) * self.gain


net = Net()


def reads_scale() -> float:
    return scale


def fails() -> None:
    raise ValueError(scale)


@pytest.fixture
def other_tracer() -> Any:
    def tracer(*_: Any) -> None:
        return None

    before = sys.gettrace()
    sys.settrace(tracer)
    try:
        yield tracer
    finally:
        sys.settrace(before)


def test_the_trace_function_is_put_back(other_tracer: Any) -> None:
    watched(reads_scale)
    assert sys.gettrace() is other_tracer


def test_the_trace_function_is_put_back_after_an_exception(other_tracer: Any) -> None:
    with pytest.raises(ValueError, match=r"2\.0"):
        watched(fails)
    assert sys.gettrace() is other_tracer


def test_the_trace_function_is_put_back_after_a_refusal(other_tracer: Any) -> None:
    with pytest.raises(Refused):
        watched(lambda: print(scale))  # noqa: T201
    assert sys.gettrace() is other_tracer


def test_an_exception_keeps_what_was_read() -> None:
    witness = FrameObserver(refuse)
    with pytest.raises(ValueError, match=r"2\.0"), witness.observe(fails):
        fails()
    assert [place.what for place in places_read(witness)] == ["global 'scale'"]


def test_other_threads_are_not_seen() -> None:
    go, done = threading.Event(), threading.Event()

    def other() -> None:
        go.wait()
        holder.scale = reads_scale() / 4
        done.set()

    def step() -> float:
        go.set()
        done.wait()
        return 1.0

    thread = threading.Thread(target=other)
    thread.start()
    reads, writes = seen(step)
    thread.join()
    assert "attribute 'scale' of SimpleNamespace" not in reads | writes
    assert "global 'scale'" not in reads


@pytest.mark.skipif(sys.version_info[:2] == (3, 12), reason="there one waits for the other, as Python would crash")
def test_two_threads_each_with_a_witness() -> None:
    found: dict[int, set[str]] = {}
    barrier = threading.Barrier(2)

    def run(i: int) -> None:
        def first() -> None:
            barrier.wait()
            reads_scale()
            barrier.wait()

        def second() -> None:
            barrier.wait()
            Net
            barrier.wait()

        found[i] = seen((first, second)[i])[0]

    in_threads(run, 2)
    assert {"global 'reads_scale'", "global 'scale'"} <= found[0]
    assert "global 'Net'" in found[1]
    assert "global 'scale'" not in found[1]


def test_threads_that_observe_at_once_survive() -> None:
    found: dict[int, set[str]] = {}

    def run(i: int) -> None:
        for _ in range(20):
            found[i] = seen(reads_scale)[0]

    in_threads(run, 2)
    assert found[0] == found[1] == {"global 'scale'"}


def test_a_module_is_a_holder() -> None:
    reads, writes = seen(lambda: net.fc.weight)
    assert reads == {"global 'net'", "attribute 'fc' of Net", "attribute 'weight' of Linear"}
    assert writes == set()


def test_a_part_of_a_module_list() -> None:
    reads, _ = seen(lambda: net.rest[0].bias)
    assert reads == {"global 'net'", "attribute 'rest' of Net", "attribute 'bias' of Linear"}


def test_modules_found_by_the_library_are_known() -> None:
    def step() -> None:
        for part in net.modules():
            part.seen = part.training  # type: ignore[assignment]

    witness = watched(step)
    try:
        assert {type(write.place.holder) for write in witness.writes} == {Net, nn.Linear, nn.ModuleList}
        assert {read.place.what for read in witness.reads} >= {"attribute 'training' of Linear"}
    finally:
        for part in net.modules():
            del part.seen


def test_a_modules_forward() -> None:
    reads, writes = seen(lambda: net(weight))
    assert {"method 'forward' of Net", "attribute 'gain' of Net", "attribute 'fc' of Net"} <= reads
    assert writes == {"attribute 'count' of Net"}


def test_tensors_are_left_to_theother_tracer() -> None:
    def step() -> Any:
        weight.grad = None
        weight.data = weight.data * 2
        return holder.weight.shape, weight.sum().item()

    reads, writes = seen(step)
    names = {"global 'weight'", "global 'holder'", "attribute 'weight' of SimpleNamespace"}
    assert reads == {*names, "definition of 'sum' in class Tensor"}
    assert writes == set()


def test_settings_of_an_optimizer() -> None:
    def step() -> None:
        for group in optimizer.param_groups:
            group["lr"] *= 0.5

    witness = watched(step)
    assert {read.place.what for read in witness.reads} >= {"attribute 'param_groups' of SGD", "item 'lr' of a dict"}
    assert [write.place for write in witness.writes] == [ContentsSource(optimizer.param_groups[0])]


def method(self: Any, x: float) -> float:
    return x + self.scale


class Plain:
    scale = 1.0

    def run(self, x: float) -> float:
        return x * self.scale


def test_a_replaced_method_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = Plain()
    witness = watched(lambda: plain.run(1.0))
    (read,) = [read for read in witness.reads if read.place == AttributeSource(plain, "run")]
    assert read.place.holds(read.value)
    monkeypatch.setattr(Plain, "run", method)
    assert not read.place.holds(read.value)
    monkeypatch.undo()
    assert read.place.holds(read.value)
    plain.run = functools.partial(method, plain)  # type: ignore[method-assign]
    assert not read.place.holds(read.value)


def test_long_functions_have_wide_arguments() -> None:
    names = {f"name{i}": float(i) for i in range(300)}
    source = "def step():\n    return " + " + ".join(names)
    namespace: dict[str, Any] = dict(names)
    exec(source, namespace)  # noqa: S102, RUF100
    assert any(ins.opname == "EXTENDED_ARG" for ins in dis.get_instructions(namespace["step"]))
    reads, _ = seen(namespace["step"])
    assert reads == {f"global {name!r}" for name in names}


def test_a_module_imported_by_the_step_keeps_what_it_sets(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "imported_by_the_step.py").write_text("registry = {}\nregistry['a'] = 1\nrate = 0.5\n")
    monkeypatch.syspath_prepend(tmp_path)

    def step() -> float:
        from imported_by_the_step import rate  # type: ignore[import-not-found]

        return rate * scale

    reads, writes = seen(step)
    assert reads == {"attribute 'rate' of module imported_by_the_step", "global 'scale'"}
    assert writes == set()
    sys.modules.pop("imported_by_the_step")


def test_a_list_in_itself() -> None:
    def step() -> int:
        made: list[Any] = []
        made.append(made)
        return len(made)

    assert seen(step) == (set(), set())
