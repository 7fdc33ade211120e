"""Results that come later: given once, waited for, followed by others."""

from threading import Timer
from typing import Any

import pytest
from tests.support.errors import assert_raises

from adjoint import futures, jit


def test_a_result_is_given_once() -> None:
    future: futures.Future[int] = futures.Future()
    assert not future.done()
    assert_raises(RuntimeError, "not completed", future.value)
    Timer(0.01, future.set_result, (3,)).start()
    assert (future.wait(), future.value(), future.done()) == (3, 3, True)
    for give, value in ((future.set_result, 4), (future.set_exception, ValueError())):
        assert_raises(RuntimeError, "completed already", give, value)


def test_an_error_is_raised_by_those_who_wait() -> None:
    future: futures.Future[int] = futures.Future()
    assert_raises(AssertionError, "not an Exception", future.set_exception, 1)
    future.set_exception(KeyError("no"))
    for ask in (future.wait, future.value):
        with pytest.raises(KeyError):
            ask()


def test_what_follows_is_a_future_too() -> None:
    future: futures.Future[int] = futures.Future()
    seen: list[int] = []
    future.add_done_callback(lambda done: seen.append(done.value()))
    after, failed = future.then(lambda done: done.value() + 1), future.then(lambda done: 1 / 0)
    assert not after.done()
    future.set_result(1)
    assert (seen, after.wait(), future.then(lambda done: 5).value()) == ([1], 2, 5)
    with pytest.raises(ZeroDivisionError):
        failed.wait()


def test_all_together() -> None:
    several: list[Any] = [futures.Future(), futures.Future()]
    together = futures.collect_all(several)
    several[1].set_result("b")
    assert not together.done()
    several[0].set_result("a")
    assert together.wait() == several
    assert (futures.wait_all([several[0], *several]), futures.collect_all([]).wait()) == (["a", "a", "b"], [])


def test_fork_returns_one() -> None:
    assert isinstance(jit.fork(max, 1, 2), futures.Future)
    assert jit.wait(jit.fork(max, 1, 2)) == 2
