"""Running a function in other threads: what it raises there, the test raises."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

SMALL_STACK_BYTES = 256 * 1024  # one frame for each node of a deep graph would not fit
LONGEST_SECONDS = 600  # what takes longer hangs


def in_threads(work: Callable[[int], Any], count: int = 8, stack_bytes: int = 0) -> None:
    """Run `work(i)` for all i below `count` at once. Raise the first error that one of them raises."""
    errors: list[BaseException] = []
    ready = threading.Barrier(count)

    def run(number: int) -> None:
        try:
            ready.wait()
            work(number)
        except BaseException as error:  # noqa: BLE001  raised again below
            errors.append(error)

    before = threading.stack_size(stack_bytes)
    try:
        workers = [threading.Thread(target=run, args=(n,), daemon=True) for n in range(count)]
        for worker in workers:
            worker.start()
    finally:
        threading.stack_size(before)
    for worker in workers:
        worker.join(LONGEST_SECONDS)
        assert not worker.is_alive()
    if errors:
        raise errors[0]


def in_another_thread(call: Callable[[], Any], stack_bytes: int = 0) -> None:
    """Run `call()` in one other thread."""
    in_threads(lambda _: call(), 1, stack_bytes)
