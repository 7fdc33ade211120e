"""Grad modes as contexts and decorators; none outlives its block."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

import adjoint as ad
from adjoint.core.mode import unusual


@pytest.fixture(autouse=True)
def _modes_are_put_back() -> Iterator[None]:
    before = unusual.count
    assert ad.is_grad_enabled()
    yield
    assert ad.is_grad_enabled()
    assert unusual.count == before


def recorded() -> bool:
    """True if an op is recorded now; all three ways of an op are asked."""
    x = ad.ones(2, requires_grad=True)
    answers = {(x * x).requires_grad, ad.exp(x).requires_grad, x.sum().requires_grad, ad.is_grad_enabled()}
    assert len(answers) == 1
    return answers.pop()


def test_4_19_contexts() -> None:
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


def test_4_19_decorators() -> None:
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


def test_4_19_set_grad_enabled() -> None:
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


def test_4_19_exceptions() -> None:
    for block in (ad.no_grad(), ad.enable_grad(), ad.set_grad_enabled(False)):
        with pytest.raises(KeyError), block:
            raise KeyError

    @ad.no_grad()
    def fail() -> None:
        raise KeyError

    with pytest.raises(KeyError):
        fail()


def test_4_19_recursion() -> None:
    @ad.no_grad()
    def count(n: int) -> int:
        assert not ad.is_grad_enabled()
        return 0 if n == 0 else 1 + count(n - 1)

    assert count(5) == 5
    block = ad.no_grad()
    with block, block:
        assert not recorded()
    assert recorded()


def test_4_19_a_suspended_generator_keeps_its_mode_to_itself() -> None:
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


def test_4_19_closing_a_generator() -> None:
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


def test_4_19_an_exception_in_a_generator_reaches_the_caller() -> None:
    @ad.no_grad()
    def generate() -> Iterator[int]:
        yield 1
        raise KeyError("inside")

    steps = generate()
    next(steps)
    with pytest.raises(KeyError, match="inside"):
        next(steps)


def test_4_19_with_inside_a_generator_is_the_users_own() -> None:
    def generate() -> Iterator[bool]:
        with ad.no_grad():
            yield recorded()

    with ad.enable_grad():
        assert list(generate()) == [False]


def test_4_19_classes() -> None:
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


def test_4_19_threads() -> None:
    seen: dict[str, bool] = {}

    def ask(name: str) -> None:
        seen[name] = recorded()

    with ad.no_grad():
        thread = threading.Thread(target=ask, args=("other",))
        thread.start()
        thread.join()
        ask("this")
    assert seen == {"other": True, "this": False}


def test_4_19_backward_under_no_grad() -> None:
    x = ad.ones(2, requires_grad=True)
    y = (x * x).sum()
    with ad.no_grad():
        y.backward()
        assert not recorded()
    assert x.grad is not None
