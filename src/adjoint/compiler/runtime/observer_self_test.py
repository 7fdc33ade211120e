"""A trial of the frame observer on a Python that no version of this library was tested with.

In such a Python a known instruction may mean something else: another order on the stack, another flag. The table of
instructions does not tell that. So a small step is followed once, and what was seen of it is compared with what it
reads and writes.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable
from functools import cache

from adjoint.compiler.cache.disk_cache import default_disk_cache
from adjoint.compiler.cache.hashing import digest
from adjoint.compiler.cache.source_fingerprint import source_fingerprint
from adjoint.compiler.ir.graph import UntriedPythonError
from adjoint.compiler.trace.frames.frame_observer import FrameObserver
from adjoint.compiler.trace.frames.sources import BuiltinSource
from adjoint.core.graph.source_location import Site

TRIED_VERSIONS = frozenset(((3, 11), (3, 12), (3, 13), (3, 14), (3, 15)))  # on which all tests passed
SELF_TEST_SUFFIX = ".python"  # of the file that tells how this ended on an interpreter

scale = 2.0
table = {"gain": 3.0, "bias": 4.0}
levels = deque((1.0, 2.0))
visited = set[float]()


class Counter:
    """An object with an attribute, a method with a keyword, and a block."""

    def __init__(self) -> None:
        self.rate = 5.0
        self.count = 0
        self.blocks = 0

    def add(self, x: float, *, bias: float) -> float:
        """Read one attribute and write another."""
        self.count += 1
        return x * self.rate + bias

    def __enter__(self) -> float:
        self.blocks += 1
        return self.rate

    def __exit__(self, *error: object) -> None:
        """Leave the block."""


counter = Counter()


def make_step() -> Callable[[], float]:
    """A step with globals, a closure, attributes, methods, items, keyword calls, a block and a loop."""
    offset, weights, calls = 6.0, [7.0, 8.0], 0

    def step() -> float:
        nonlocal calls
        global scale  # noqa: PLW0603  to be seen
        calls += 1
        scale = total = offset + scale
        total += counter.add(table["gain"], bias=table["bias"])
        total += sum(levels, start=scale)
        visited.add(total)
        with counter as rate:
            for weight in weights:
                total += rate * weight
        return total if total > offset else -total

    return step


STEP_READS = frozenset((
    "attribute '__enter__' of class Counter", "attribute '__exit__' of class Counter", "attribute 'blocks' of Counter",
    "attribute 'count' of Counter", "attribute 'rate' of Counter", "closure variable 'calls'",
    "closure variable 'offset'", "closure variable 'weights'", "contents of a deque", "contents of a list",
    "contents of a set", "global 'counter'", "global 'levels'", "global 'scale'", "global 'table'", "global 'visited'",
    "item 'bias' of a dict", "item 'gain' of a dict", "method 'add' of Counter",
))  # fmt: skip
STEP_WRITES = frozenset(
    (
        "attribute 'blocks' of Counter",
        "attribute 'count' of Counter",
        "closure variable 'calls'",
        "contents of a set",
        "global 'scale'",
    )
)


def run_self_test() -> str:
    """Follow the step; return what went wrong, and nothing if all was seen."""
    observer, step = FrameObserver(_refuse), make_step()
    try:
        with observer.observe(step):
            step()
    except Exception as error:  # noqa: BLE001  of the observer, which this Python may lead anywhere
        return f"{type(error).__name__}: {error}"
    finally:
        for write in reversed(observer.writes):
            write.place.write(write.before)
    reads = {read.place for read in observer.reads}
    places = {place.what for place in reads if not isinstance(place, BuiltinSource) and place.name != "__code__"}
    writes = {write.place.what for write in observer.writes}
    differences = sorted(places ^ STEP_READS) + sorted(writes ^ STEP_WRITES)
    return f"what a step does with the {differences[0]} is seen wrongly" if differences else ""


def check_python() -> None:
    """Raise UntriedPythonError on a Python that is not known, and does not pass the trial."""
    if fault := fault_of_this_python():
        raise UntriedPythonError(
            f"this version of adjoint was not tested with Python {sys.version.partition(' ')[0]}, and a trial shows "
            f"that compiled steps may go wrong here: {fault}"
        )


@cache
def fault_of_this_python() -> str:
    """The fault that a trial found on this Python, or an earlier one on disk; nothing where none is needed."""
    is_tried = sys.version_info[:2] in TRIED_VERSIONS and "free-threading" not in sys.version
    if is_tried and sys.implementation.name == "cpython":
        return ""
    disk, key = default_disk_cache(), digest(f"{sys.version}\0{sys.executable}\0{source_fingerprint()}")
    known = disk.read(key, SELF_TEST_SUFFIX) if disk else None
    if known is not None:
        return known.decode()
    fault = run_self_test()
    if disk:
        disk.write(key, fault.encode(), SELF_TEST_SUFFIX)
    return fault


def _refuse(what: str, site: Site) -> None:
    raise RuntimeError(f"the step {what} at {site}")
