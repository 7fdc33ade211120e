"""Python's garbage collector, told to wait while many objects are made and none of them is garbage."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def uncollected() -> Iterator[None]:
    """No collections in this block: while modules are loaded, or a graph is made, they find nothing and take long.

    What was made then counts as old, so that the next collection does not walk all of it either.
    """
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            if hasattr(gc, "freeze") and not gc.get_freeze_count():  # else the user has frozen objects
                gc.freeze()
                gc.unfreeze()  # into the oldest generation
            gc.enable()
