"""Grad modes as contexts and decorators; none outlives its block."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from tests.support.checks import raises
from tests.support.threads import in_another_thread

import adjoint as ad
from adjoint.core.runtime.mode import nondefault

pytestmark = pytest.mark.claim("4.19")
needs_event_loop = pytest.mark.skipif(sys.platform == "emscripten", reason="a browser's loop waits for no coroutine")


@pytest.fixture(autouse=True)
def _modes_are_put_back() -> Iterator[None]:
    before = nondefault.count
    assert ad.is_grad_enabled()
    yield
    assert ad.is_grad_enabled()
    assert nondefault.count == before


def recorded() -> bool:
    """True if an op is recorded now; all three ways of an op are asked."""
    x = ad.ones(2, requires_grad=True)
    answers = {(x * x).requires_grad, ad.exp(x).requires_grad, x.sum().requires_grad, ad.is_grad_enabled()}
    assert len(answers) == 1
    return answers.pop()


def test_contexts() -> None:
    assert recorded()
    with ad.no_grad():
        assert not recorded()
        with ad.enable_grad():
            assert recorded()
            with ad.no_grad():
                assert not recorded()
            assert recorded()
        assert not recorded()
    assert recorded()


def test_decorators() -> None:
    @ad.no_grad()
    def hidden(x: int, *, y: int = 2) -> tuple[bool, int]:
        """Says what it sees."""
        return recorded(), x + y

    @ad.no_grad
    def hidden_too() -> bool:
        return recorded()

    @ad.enable_grad()
    def shown() -> bool:
        return recorded()

    assert hidden(1, y=5) == (False, 6)
    assert (hidden.__name__, hidden.__doc__) == ("hidden", "Says what it sees.")
    assert not hidden_too()
    with ad.no_grad():
        assert shown()
        assert not recorded()


def test_set_grad_enabled() -> None:
    with ad.set_grad_enabled(False):
        assert not recorded()
        with ad.set_grad_enabled(True):
            assert recorded()
        assert not recorded()
    assert recorded()
    ad.set_grad_enabled(False)
    try:
        assert not recorded()
        with ad.enable_grad():
            assert recorded()
        assert not recorded()
    finally:
        ad.set_grad_enabled(True)
    assert recorded()

    @ad.set_grad_enabled(False)
    def hidden() -> bool:
        return recorded()

    assert recorded()
    assert not hidden()


def test_exceptions() -> None:
    for block in (ad.no_grad(), ad.enable_grad(), ad.set_grad_enabled(False)):
        with pytest.raises(KeyError), block:
            raise KeyError

    @ad.no_grad()
    def fail() -> None:
        raise KeyError

    raises(KeyError, None, fail)


def test_recursion() -> None:
    @ad.no_grad()
    def count(n: int) -> int:
        assert not ad.is_grad_enabled()
        return 0 if n == 0 else 1 + count(n - 1)

    assert count(5) == 5
    block = ad.no_grad()
    with block, block:
        assert not recorded()
    assert recorded()


def test_a_suspended_generator_keeps_its_mode_to_itself() -> None:
    seen: list[Any] = []

    @ad.no_grad()
    def generate() -> Any:
        sent = None
        while True:
            seen.append(ad.is_grad_enabled())
            try:
                sent = yield sent
            except ValueError as error:
                sent = str(error)
            if sent == "stop":
                return "returned"

    steps = generate()
    assert next(steps) is None
    assert recorded()
    assert steps.send("echo") == "echo"
    assert recorded()
    assert steps.throw(ValueError("thrown")) == "thrown"
    assert recorded()
    with pytest.raises(StopIteration) as stop:
        steps.send("stop")
    assert stop.value.value == "returned"
    assert seen == [False, False, False]


def test_closing_a_generator() -> None:
    seen: list[bool] = []

    @ad.no_grad()
    def generate() -> Iterator[int]:
        try:
            yield 1
            yield 2
        finally:
            seen.append(ad.is_grad_enabled())

    steps = generate()
    next(steps)
    steps.close()  # type: ignore[attr-defined]
    assert seen == [False]
    next(generate())  # dropped half-way: closed too
    assert seen == [False, False]
    assert list(generate()) == [1, 2]


def test_an_exception_in_a_generator_reaches_the_caller() -> None:
    @ad.no_grad()
    def generate() -> Iterator[int]:
        yield 1
        raise KeyError("inside")

    steps = generate()
    next(steps)
    raises(KeyError, "inside", lambda: next(steps))


def test_with_inside_a_generator_is_the_users_own() -> None:
    def generate() -> Iterator[bool]:
        with ad.no_grad():
            yield recorded()

    with ad.enable_grad():
        assert list(generate()) == [False]


def test_classes() -> None:
    with pytest.warns(FutureWarning, match="Decorating classes is deprecated"):

        @ad.no_grad()
        class Table:
            def __init__(self, x: Any) -> None:
                self.twice = x * 2

            def thrice(self, x: Any) -> Any:
                return x * 3

    x = ad.ones(1, requires_grad=True)
    table = Table(x)
    assert isinstance(table, Table)
    assert not table.twice.requires_grad
    assert table.thrice(x).requires_grad  # only the making of it


@pytest.mark.needs_threads
def test_threads() -> None:
    seen: dict[str, bool] = {}

    def ask(name: str) -> None:
        seen[name] = recorded()

    with ad.no_grad():
        in_another_thread(lambda: ask("other"))
        ask("this")
    assert seen == {"other": True, "this": False}


def test_backward_under_no_grad() -> None:
    x = ad.ones(2, requires_grad=True)
    y = (x * x).sum()
    with ad.no_grad():
        y.backward()
        assert not recorded()
    assert x.grad is not None


def test_a_switch_within_a_block_ends_with_the_block() -> None:
    with ad.no_grad():
        ad.set_grad_enabled(True)
        assert recorded()
    assert recorded()
    with ad.no_grad():  # still obeyed: the count of unusual threads has not gone astray
        assert not recorded()
    ad.set_grad_enabled(False)
    with ad.enable_grad():
        ad.set_grad_enabled(True)
        assert recorded()
    assert not recorded()
    ad.set_grad_enabled(True)


class InterruptedLock:
    """A lock after whose acquisition a signal handler runs, the first time."""

    def __init__(self) -> None:
        self.interruptions = 0

    def __enter__(self) -> None:
        self.interruptions += 1
        if self.interruptions == 1:
            with ad.no_grad():
                assert not recorded()

    def __exit__(self, *error: object) -> None:
        pass


def test_a_signal_handler_while_a_block_begins_or_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    before = nondefault.count
    monkeypatch.setattr(nondefault, "lock", InterruptedLock())
    with ad.no_grad():
        assert nondefault.count == before + 1
        assert not recorded()
        monkeypatch.setattr(nondefault, "lock", InterruptedLock())
    assert nondefault.count == before
    assert recorded()


@needs_event_loop
def test_coroutines_have_the_mode_only_while_they_run() -> None:
    seen: list[tuple[str, bool]] = []

    @ad.no_grad()
    async def quiet(name: str) -> str:
        seen.append((name, ad.is_grad_enabled()))
        await asyncio.sleep(0)
        seen.append((name, ad.is_grad_enabled()))
        return name

    async def loud() -> None:
        for _ in range(4):
            seen.append(("loud", ad.is_grad_enabled()))
            await asyncio.sleep(0)

    async def all_of_them() -> list[Any]:
        return list(await asyncio.gather(quiet("a"), loud(), quiet("b")))

    assert asyncio.run(all_of_them()) == ["a", None, "b"]
    assert {on for name, on in seen if name == "loud"} == {True}
    assert {on for name, on in seen if name != "loud"} == {False}


@needs_event_loop
def test_asynchronous_generators() -> None:
    seen: list[Any] = []

    @ad.no_grad()
    async def count() -> AsyncIterator[int]:
        try:
            for i in range(3):
                seen.append(ad.is_grad_enabled())
                await asyncio.sleep(0)
                try:
                    yield i
                except KeyError:
                    seen.append("told")
        finally:
            seen.append(ad.is_grad_enabled())

    async def use() -> list[int]:
        found = []
        async for i in count():
            assert ad.is_grad_enabled()
            found.append(i)
        other: Any = count()
        await anext(other)
        assert await other.athrow(KeyError()) == 1
        await other.aclose()
        return found

    assert asyncio.run(use()) == [0, 1, 2]
    assert seen == [False, False, False, False, False, "told", False, False]


def test_numpy_where_nothing_is_recorded() -> None:
    x = ad.ones(2, requires_grad=True)
    raises(RuntimeError, r"Can't call numpy\(\) on Tensor that requires grad", x.numpy)
    with ad.no_grad():
        assert x.numpy().tolist() == [1.0, 1.0]


def test_multithreading_is_a_setting_and_no_more() -> None:
    assert ad.autograd.is_multithreading_enabled()
    with ad.autograd.set_multithreading_enabled(False):
        assert not ad.autograd.is_multithreading_enabled()
        ad.autograd.set_multithreading_enabled(True)
        assert ad.autograd.is_multithreading_enabled()
    assert ad.autograd.is_multithreading_enabled()


def test_what_the_switch_takes() -> None:
    with pytest.raises(TypeError, match="must be bool, not str"):
        ad.set_grad_enabled("no")  # type: ignore[arg-type]
    assert recorded()
    assert ad.no_grad().clone() is not None
    block = ad.set_grad_enabled(False)
    with block:
        assert not recorded()


def test_names() -> None:
    from adjoint.autograd import grad_mode

    assert {"enable_grad", "inference_mode", "no_grad", "set_grad_enabled"} <= set(grad_mode.__all__)
    assert ad.autograd.grad_mode is grad_mode
