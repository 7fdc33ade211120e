"""What native code leaves on the objects that tell of writes is what Python would leave there."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Iterator

import pytest

pytest.importorskip("llvmlite")
import adjoint as ad
from adjoint.compiler.runtime import cpython_layout
from adjoint.compiler.runtime.write_marks import make_write_marker
from adjoint.core.graph.source_location import Site
from adjoint.core.tensor.mutation_log import Write, mutation_log
from adjoint.core.tensor.storage import INFERENCE, ReplacedStorage, Storage

if cpython_layout.find_write_slot_offsets() is None:
    pytest.skip("this Python cannot be written to from outside", allow_module_level=True)
HERE = Site("somewhere", 1, "step")


@pytest.fixture(autouse=True)
def _order_of_writes() -> Iterator[None]:
    """The orders that are made up here are far ahead: real writes would seem to be of the past."""
    last = mutation_log.last
    yield
    mutation_log.last = last


def test_a_mark_is_what_stamp_writes_and_counts_in_the_storages() -> None:
    x = ad.ones(2)
    ours, theirs = ([Write(weakref.ref(x)) for _ in range(3)] for _ in range(2))
    for group in (ours, theirs):
        group[0].outside, group[1].place, group[2].sequence_nr = True, Site("elsewhere", 2, "f"), 10**12
    storages = [Storage(), Storage()]
    storages[1].version = 2**40
    mark = make_write_marker(ours, [(storages[0], 2), (storages[1], 1), (storages[0], 3)], HERE)
    assert mark is not None
    for order in (5, 2**35, 2**35 + 1):
        assert mark(order) is None
        mutation_log.stamp(theirs, HERE, order)
        for a, b in zip(ours, theirs, strict=True):
            assert (a.sequence_nr, a.place, a.outside) == (b.sequence_nr, b.place, b.outside) == (order, HERE, False)
            assert a.place is HERE
    assert [s.version for s in storages] == [15, 2**40 + 3]


def test_nothing_is_leaked_and_nothing_lost() -> None:
    x = ad.ones(2)
    entries, storages = [Write(weakref.ref(x)) for _ in range(2)], [Storage()]
    before = sys.getrefcount(HERE), sys.getrefcount(entries[0])
    mark = make_write_marker(entries, [(storages[0], 1)], HERE)
    assert mark is not None
    order = 2**50
    for _ in range(1000):
        mark(order)
        mark(order + 1)
    alone = sys.getrefcount(2**50 + 7)
    assert sys.getrefcount(order) <= alone + 1
    assert storages[0].version == 2000
    del mark
    for entry in entries:
        entry.place = None
    assert (sys.getrefcount(HERE), sys.getrefcount(entries[0])) == before


def test_storages_that_count_otherwise_are_left_to_python() -> None:
    assert make_write_marker([], [(ReplacedStorage(Storage()), 1)], HERE) is None
    assert make_write_marker([], [(Storage(), 1), (INFERENCE, 1)], HERE) is not None


def test_versions_and_errors_after_many_calls() -> None:
    total = ad.zeros(3)
    add = ad.compile(lambda x: total.add_(x))
    w = ad.ones(3, requires_grad=True)
    add(ad.ones(3))
    for _ in range(6):
        product, version = w * total, total._version
        add(ad.ones(3))
        assert total._version == version + 1
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            product.sum().backward()
    (w * total).sum().backward()
    assert w.grad.tolist() == [7.0, 7.0, 7.0]
