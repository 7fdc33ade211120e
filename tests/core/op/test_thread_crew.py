"""Threads that share the parts of a call: each part runs once, and a thread that is not running is not waited for."""

from __future__ import annotations

import os
import threading
import time

import pytest
from tests.support.checks import raises

from adjoint.core.op.thread_crew import STALL_SHARE, ThreadCrew


def count_parts(crew: ThreadCrew, parts: int, threads: int) -> tuple[list[int], set[int]]:
    """How often each part ran, and the threads on which they did."""
    counts, idents = [0] * parts, set()

    def work(part: int) -> None:
        counts[part] += 1
        idents.add(threading.get_ident())

    crew.run(work, parts, threads)
    return counts, idents


@pytest.mark.needs_threads
@pytest.mark.parametrize("parts", [0, 1, 2, 7, 64])
@pytest.mark.parametrize("threads", [1, 2, 5])
def test_each_part_runs_once(parts: int, threads: int) -> None:
    crew = ThreadCrew()
    for _ in range(20):
        assert count_parts(crew, parts, threads)[0] == [1] * parts


@pytest.mark.needs_threads
def test_one_thread_is_the_one_that_calls() -> None:
    assert count_parts(ThreadCrew(), 8, 1)[1] == {threading.get_ident()}


@pytest.mark.needs_threads
def test_two_threads_work_at_the_same_time() -> None:
    barrier = threading.Barrier(2)
    ThreadCrew().run(lambda _: barrier.wait(60), 2, 2)  # passes only where both are there


@pytest.mark.needs_threads
def test_a_thread_that_has_begun_nothing_is_not_waited_for() -> None:
    crew, gate = ThreadCrew(), threading.Event()
    executor = crew._start()
    busy = [executor.submit(gate.wait, 60) for _ in range(executor._max_workers)]  # no thread is left to help
    counts, idents = count_parts(crew, 8, 3)
    assert not any(each.done() for each in busy)
    gate.set()
    assert counts == [1] * 8
    assert idents == {threading.get_ident()}


def stall(crew: ThreadCrew, seconds: float) -> None:
    """A call in which another thread has a part in hand for so long, as if its processor were taken away."""
    caller, begun = threading.get_ident(), threading.Event()

    def work(part: int) -> None:
        if threading.get_ident() == caller:
            assert begun.wait(60)
        else:
            begun.set()
            time.sleep(seconds)

    crew.run(work, 2, 2)


@pytest.mark.needs_threads
def test_after_a_stall_calls_run_on_one_thread_for_some_time() -> None:
    crew = ThreadCrew()
    stall(crew, 0.3)
    remaining = crew.alone_until - time.perf_counter()
    assert 0 < remaining < STALL_SHARE * 60
    crew.alone_until += 60  # the machine that runs this test may be slow
    counts, idents = count_parts(crew, 8, 2)
    assert counts == [1] * 8
    assert idents == {threading.get_ident()}
    crew.alone_until = 0.0
    barrier = threading.Barrier(2)
    crew.run(lambda _: barrier.wait(60), 2, 2)


@pytest.mark.needs_threads
def test_a_stall_soon_after_another_doubles_the_time_on_one_thread() -> None:
    crew = ThreadCrew()
    crew.alone_seconds, crew.alone_until = 60.0, time.perf_counter()
    stall(crew, 2.0)
    assert crew.alone_seconds >= 120
    crew.alone_until = time.perf_counter() - 1000  # several threads ran for longer than one had
    stall(crew, 1.0)
    assert crew.alone_seconds < 120


@pytest.mark.needs_threads
def test_an_error_in_a_part_is_raised_when_no_other_is_running() -> None:
    crew, running = ThreadCrew(), set()

    def work(part: int) -> None:
        running.add(part)
        time.sleep(0.001)
        running.discard(part)
        if part == 3:
            raise ValueError("part 3")

    for threads in (1, 2, 4):
        raises(ValueError, "part 3", crew.run, work, 8, threads)
        assert not running
        assert count_parts(crew, 8, threads)[0] == [1] * 8


@pytest.mark.needs_threads
def test_a_call_within_a_call_runs_on_its_own_thread() -> None:
    crew, inner = ThreadCrew(), []

    def work(part: int) -> None:
        if threading.get_ident() == caller:
            inner.append(count_parts(crew, 4, 2))

    caller = threading.get_ident()
    crew.run(work, 8, 2)
    assert all(each == ([1] * 4, {caller}) for each in inner)
    assert not crew._callers


@pytest.mark.needs_processes
@pytest.mark.needs_threads
@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system does not fork")
def test_a_forked_process_starts_threads_of_its_own() -> None:
    crew = ThreadCrew()
    assert count_parts(crew, 8, 2)[0] == [1] * 8
    child = os.fork()
    if child == 0:
        status = 2
        try:
            crew.forget_threads()
            barrier = threading.Barrier(2)
            crew.run(lambda _: barrier.wait(60), 2, 2)
            status = 0
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
