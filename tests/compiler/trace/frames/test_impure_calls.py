"""What a step may not do while it is compiled, because it would happen once only."""

from __future__ import annotations

import contextlib
import csv
import datetime as dt
import functools
import io
import itertools
import logging
import os
import random
import secrets
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from tests.support.scripts import output_of
from tests.support.watched_steps import Refused, refuse, watched

from adjoint.compiler.trace.frames import FrameObserver
from adjoint.data import DataLoader

logger = logging.getLogger(__name__)
generator = np.random.default_rng(0)
own_random = random.Random(0)
stream = io.StringIO()
say = functools.partial(print, "loss")
begun = (i for i in range(10))
counting = itertools.count()
listed = iter([1, 2, 3])
loaded = iter(DataLoader([1, 2, 3]))
table = csv.DictReader(["number", "1", "2"])
numbers = [1, 2, 3]


def numbered() -> Iterator[int]:
    i = 0
    while True:
        yield i
        i += 1


suspended = numbered()
next(suspended)
fresh = numbered()


def noisy(x: Any) -> None:
    print(x)  # noqa: T201  it is this that is refused


def loop() -> None:
    for _ in listed:
        return


def caught() -> None:
    with contextlib.suppress(Refused):
        print(1)  # noqa: T201


STEPS: dict[str, tuple[Callable[[], Any], str]] = {
    "print": (lambda: print("loss"), "calls print(), which prints"),  # noqa: T201
    "print of a condition": (lambda: print("a" if numbers else "b"), "calls print()"),  # noqa: T201
    "print with star": (lambda: print(*numbers), "calls print()"),  # noqa: T201
    "print in a helper": (lambda: noisy(1), "calls print()"),
    "print in a partial": (lambda: say(), "calls print()"),
    "print in a map": (lambda: list(map(print, numbers)), "calls print()"),
    "input": (lambda: input(), "calls input(), which waits for input"),
    "open": (lambda: open(os.devnull), "calls io.open(), which opens a file"),  # noqa: SIM115, PTH123, RUF100
    "stream": (lambda: stream.write("x"), "write(), which reads or writes a file"),
    "stdout": (lambda: sys.stdout.write("x"), "write(), which reads or writes a file"),
    "logging": (lambda: logging.info("x"), "calls logging.info(), which writes to a log"),  # noqa: LOG015
    "logger": (lambda: logger.warning("x"), "calls logging.Logger.warning(), which writes to a log"),
    "time": (lambda: time.time(), "calls time.time(), which reads the clock"),
    "perf_counter": (lambda: time.perf_counter(), "calls time.perf_counter()"),
    "monotonic_ns": (lambda: time.monotonic_ns(), "calls time.monotonic_ns()"),
    "sleep": (lambda: time.sleep(0), "calls time.sleep(), which waits"),
    "localtime": (lambda: time.localtime(), "reads the clock"),
    "datetime": (lambda: dt.datetime.now(), "now(), which reads the clock"),  # noqa: DTZ005
    "date": (lambda: dt.date.today(), "today(), which reads the clock"),  # noqa: DTZ011
    "random": (lambda: random.random(), "which draws random numbers outside of adjoint"),
    "randint": (lambda: random.randint(0, 3), "which draws random numbers outside of adjoint"),
    "shuffle": (lambda: random.shuffle(numbers), "which draws random numbers outside of adjoint"),
    "Random": (lambda: own_random.gauss(0, 1), "calls random.Random.gauss(), which draws random numbers"),
    "numpy.random": (lambda: np.random.rand(3), "which draws random numbers outside of adjoint"),  # noqa: NPY002
    "numpy.random.seed": (lambda: np.random.seed(3), "which draws random numbers outside of adjoint"),  # noqa: NPY002
    "Generator": (lambda: generator.normal(), "Generator.normal(), which draws random numbers outside of adjoint"),
    "default_rng": (lambda: np.random.default_rng(), "which draws random numbers outside of adjoint"),
    "urandom": (lambda: os.urandom(4), "which draws random numbers outside of adjoint"),
    "secrets": (lambda: secrets.token_hex(), "calls secrets.token_hex(), which draws random numbers"),
    "uuid": (lambda: uuid.uuid4(), "calls uuid.uuid4(), which makes an identifier that is new each time"),
    "numpy.save": (lambda: np.save(os.devnull, np.ones(1)), "which reads or writes a file"),
    "environment": (lambda: os.environ.__setitem__("ADJOINT_TEST", "1"), "sets an environment variable"),
    "next of a generator": (lambda: next(begun), "advances the generator '<genexpr>', which was there before the step"),
    "next of a generator not begun": (lambda: next(fresh), "advances the generator 'numbered'"),
    "send": (lambda: suspended.send(None), "advances the generator 'numbered'"),  # type: ignore[attr-defined]
    "next of a count": (lambda: next(counting), "advances a count, which was there before the step"),
    "for over an iterator": (loop, "advances a list_iterator, which was there before the step"),
    "zip of an iterator": (lambda: list(zip(listed, numbers, strict=False)), "advances a list_iterator"),
    "next of a loader's iterator": (lambda: next(loaded), "advances a LoaderIterator, which was there before the step"),
    "next of a reader of tables": (lambda: next(table), "advances a DictReader, which was there before the step"),
    "unpacking an iterator": (lambda: [*listed], "advances a list_iterator"),
    "caught by the step": (caught, "calls print()"),
}


@pytest.mark.parametrize(("step", "phrase"), [pytest.param(*value, id=key) for key, value in STEPS.items()])
def test_refused(step: Callable[[], Any], phrase: str) -> None:
    with pytest.raises(Refused) as info:
        watched(step)
    assert phrase in str(info.value)


def test_the_line_is_the_users() -> None:
    with pytest.raises(Refused, match=f"at line {noisy.__code__.co_firstlineno + 1}$"):
        watched(lambda: noisy(1))


def test_a_generator_resumed_by_c_code() -> None:
    witness = FrameObserver(refuse)
    with (
        pytest.raises(Refused, match="advances the generator 'numbered', which had begun before the step"),
        witness.observe(),
    ):
        next(suspended)  # no frame of the step's: C code has the generator


HARMLESS: list[Callable[[], Any]] = [
    lambda: time.gmtime(0),
    lambda: logger.isEnabledFor(10),
    lambda: next(iter(numbers)),
    lambda: [*zip(numbers, numbers, strict=True)],
    lambda: next(i for i in numbers),
    lambda: next(numbered()),
    lambda: callable(print),
    lambda: dt.datetime(2020, 1, 1, tzinfo=dt.UTC).year,
    lambda: os.path.join("a", "b"),  # noqa: PTH118, RUF100
]


@pytest.mark.parametrize("step", HARMLESS)
def test_not_refused(step: Callable[[], Any]) -> None:
    assert watched(step).writes == []


LATER = """
import sys
import adjoint as ad
import adjoint.compiler.step_compiler
found = [name for name in ("logging", "uuid") if name in sys.modules]
import logging, uuid
logging.basicConfig(format="%(message)s", stream=sys.stdout)
for call in (lambda: logging.warning("logged"), lambda: uuid.uuid4()):
    try:
        ad.compile(lambda x: (call(), x + 1)[1])(ad.ones(2))
    except RuntimeError as error:
        found.append(str(error).split(" at ")[0])
print(*found, sep="\\n")
"""


def test_modules_imported_after_the_compiler_are_known_too() -> None:
    assert output_of(LATER).splitlines() == [
        "logged",
        "the step '<lambda>' calls uuid.uuid4(), which makes an identifier that is new each time",
    ]
