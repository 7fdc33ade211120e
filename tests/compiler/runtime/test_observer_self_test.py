"""The trial of the frame observer on untried Pythons: it passes here, and finds what means something else."""

from __future__ import annotations

import dis
from collections.abc import Iterator
from typing import Any

import pytest

import adjoint as ad
from adjoint.compiler.cache.disk_cache import DiskCache
from adjoint.compiler.runtime import observer_self_test
from adjoint.compiler.runtime.observer_self_test import counter, fault_of_this_python, make_step, run_self_test
from adjoint.compiler.trace.frames.bytecode import change_stack
from adjoint.compiler.trace.frames.decode import HANDLERS

READERS = (
    "LOAD_GLOBAL", "LOAD_DEREF", "LOAD_ATTR", "LOAD_METHOD", "STORE_GLOBAL", "STORE_DEREF", "STORE_ATTR",
    "BINARY_SUBSCR", "BINARY_OP", "COPY", "CALL",
)  # fmt: skip


def instructions() -> set[str]:
    code: Any = make_step()
    return {ins.opname for ins in dis.get_instructions(code)}


@pytest.fixture
def _untried(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(observer_self_test, "TRIED_VERSIONS", frozenset())
    monkeypatch.setattr("adjoint.compiler.trace.frames.decode._decoded_codes", {})
    monkeypatch.setattr(observer_self_test, "default_disk_cache", lambda: None)
    fault_of_this_python.cache_clear()
    yield
    fault_of_this_python.cache_clear()


def test_all_is_seen_on_this_python_and_put_back() -> None:
    before = dict(vars(counter)), observer_self_test.scale
    assert run_self_test() == ""
    assert (dict(vars(counter)), observer_self_test.scale) == before


@pytest.mark.parametrize("name", sorted(instructions() & {*READERS}))
def test_an_instruction_that_means_something_else_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(HANDLERS, name, change_stack(0))
    monkeypatch.setattr("adjoint.compiler.trace.frames.decode._decoded_codes", {})
    assert run_self_test() != ""


@pytest.mark.usefixtures("_untried")
def test_steps_are_compiled_on_an_untried_python_that_passes() -> None:
    step = ad.compile(lambda x: x * 2)
    assert step(ad.ones(1)).item() == 2.0
    assert step.compilations == 1


@pytest.mark.usefixtures("_untried")
def test_steps_run_eagerly_on_an_untried_python_that_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(HANDLERS, "LOAD_GLOBAL", change_stack(0))
    scales = [2.0]
    step = ad.compile(lambda x: x * scales[0])
    with pytest.warns(RuntimeWarning, match="was not tested with Python .* seen wrongly"):
        assert step(ad.ones(1)).item() == 2.0
    scales[0] = 4.0
    assert step(ad.ones(1)).item() == 4.0  # without another warning, which would be an error


@pytest.mark.usefixtures("_untried")
def test_the_outcome_is_kept_with_what_is_known_of_the_machine(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk, runs = DiskCache.open(tmp_path / "cache"), []
    monkeypatch.setattr(observer_self_test, "default_disk_cache", lambda: disk)
    monkeypatch.setattr(observer_self_test, "run_self_test", lambda: runs.append(1) or "a fault")
    for _ in range(2):
        fault_of_this_python.cache_clear()
        assert fault_of_this_python() == "a fault"
    assert len(runs) == 1


def test_no_trial_is_needed_on_the_pythons_of_the_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(observer_self_test, "run_self_test", lambda: pytest.fail("tried"))
    fault_of_this_python.cache_clear()
    assert fault_of_this_python() == ""
