"""Files in memory: what `save` writes and what writers give in chunks; and how much memory a block takes."""

import io
import tracemalloc
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import adjoint as ad


def saved(value: Any, library: Any = ad, **options: Any) -> io.BytesIO:
    """What the library's `save` writes, from its begin on."""
    file = io.BytesIO()
    library.save(value, file, **options)
    file.seek(0)
    return file


def joined(chunks: Iterable[Any]) -> bytes:
    return b"".join(bytes(chunk) for chunk in chunks)


@contextmanager
def memory_peak() -> Iterator[list[int]]:
    """A list that has, after the block, the most bytes that Python held at once within it."""
    peak: list[int] = []
    tracemalloc.start()
    try:
        yield peak
        peak.append(tracemalloc.get_traced_memory()[1])
    finally:
        tracemalloc.stop()
