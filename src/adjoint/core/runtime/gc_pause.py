"""A pause of Python's garbage collector while many objects are made of which none is garbage."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

MIN_OBJECTS_TO_PAUSE = 100_000  # objects: fewer are not worth a walk over all there are


@contextmanager
def gc_paused() -> Iterator[None]:
    """A block without garbage collections, which take long and find nothing while a graph is made.

    What was made then counts as old, so that the next collection does not walk all of it either. The collector does
    not notice what comes to be old so, and might never look at it again: where a quarter more is old than a full
    collection had left, as in the collector's own rule, the next block begins with one.
    """
    collecting = gc.isenabled()
    if collecting and _old_generation.is_collection_due():
        gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            _old_generation.move_young_objects()
            gc.enable()


class OldGeneration:
    """A rough count of the objects that blocks have made old since the last full collection."""

    def __init__(self) -> None:
        self.added = 0
        self.old_objects = 0  # objects that were old after the first block since that collection
        self.collections = 0  # full ones until then
        self.is_unavailable = not hasattr(gc, "freeze")  # or the user has frozen objects, which must stay so

    def move_young_objects(self) -> None:
        """Make all objects old, unless that would thaw those that the user has frozen."""
        # The collector counts frozen objects one by one: it is asked until there are some, and not again.
        self.is_unavailable = self.is_unavailable or gc.get_freeze_count() > 0
        if self.is_unavailable:
            return
        young, middle, _ = gc.get_count()
        gc.freeze()
        self.add(young + middle * gc.get_threshold()[0])
        gc.unfreeze()  # into the oldest generation

    def add(self, added: int) -> None:
        """Count up to so many more; all objects are frozen just now, so that the collector knows their number."""
        if self.collections == _full_collections():
            self.added += added
        else:
            self.added, self.old_objects, self.collections = added, gc.get_freeze_count(), _full_collections()

    def is_collection_due(self) -> bool:
        """Return whether a full collection is due."""
        return self.added > max(MIN_OBJECTS_TO_PAUSE, self.old_objects // 4) and self.collections == _full_collections()


def _full_collections() -> int:
    return int(gc.get_stats()[2]["collections"])


_old_generation = OldGeneration()
