"""The collector, while it waits and afterwards."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest
from tests.support.checks import collector_off

from adjoint.core.runtime import gc_pause
from adjoint.core.runtime.gc_pause import MIN_OBJECTS_TO_PAUSE, OldGeneration, gc_paused


@pytest.fixture(autouse=True)
def _nothing_is_frozen(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Thaw the objects of the other tests, which tests/conftest.py has frozen, for the time of a test."""
    monkeypatch.setattr(gc_pause, "_old_generation", OldGeneration())
    gc.unfreeze()
    yield
    gc.freeze()


def test_nothing_is_collected_in_the_block() -> None:
    assert gc.isenabled()
    with gc_paused():
        assert not gc.isenabled()
        with gc_paused():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()


def test_after_an_error_it_collects_again() -> None:
    with pytest.raises(KeyError), gc_paused():
        raise KeyError
    assert gc.isenabled()


def test_one_that_was_off_stays_off() -> None:
    with collector_off():
        with gc_paused():
            pass
        assert not gc.isenabled()


def test_what_was_made_counts_as_old() -> None:
    with gc_paused():
        held: list[list[int]] = [[]]
    assert not any(x is held for x in gc.get_objects(generation=0))


def test_what_was_made_old_and_is_garbage_goes_in_time() -> None:
    """Many small compilations: the collector itself would never look at what they leave."""
    gc.collect()
    with gc_paused():
        gone = weakref.ref(_cycle(1))
    needed = len(gc.get_objects()) // MIN_OBJECTS_TO_PAUSE + 4
    for _ in range(needed):
        assert gc.isenabled()
        with gc_paused():
            _cycle(MIN_OBJECTS_TO_PAUSE // 2)
    assert gone() is None


def _cycle(elements: int) -> type:
    """A class, which is garbage when nobody holds it, of so many objects."""
    return type("Cycle", (), {"elements": [[] for _ in range(elements)]})


def test_what_the_user_has_frozen_stays_so() -> None:
    held: list[list[int]] = [[]]
    gc.freeze()
    try:
        with gc_paused():
            pass
        assert gc.get_freeze_count() > 0
        assert not any(x is held for x in gc.get_objects())  # they are those that are not frozen
    finally:
        gc.unfreeze()
