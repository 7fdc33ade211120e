"""The number of threads: asked for, from the environment, from the machine."""

from __future__ import annotations

import ctypes
import os
import sys
import textwrap
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from typing import Any

import pytest
from tests.support.checks import raises
from tests.support.scripts import output_of

import adjoint as ad
from adjoint.core.runtime import threads


@pytest.fixture(autouse=True)
def unasked(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nobody has asked yet, and the environment wishes nothing; the number is put back."""
    before = ad.get_num_threads()
    for name in ("ADJOINT_NUM_THREADS", "OMP_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    threads.count[0] = 0
    yield
    threads.count[0] = before


def test_what_was_set_is_what_is_told() -> None:
    ad.set_num_threads(3)
    assert ad.get_num_threads() == 3
    ad.set_num_threads(2**31 - 1)
    assert ad.get_num_threads() == 2**31 - 1


BLAS = """
import ctypes, adjoint as ad
from numpy._core import _multiarray_umath
library = ctypes.CDLL(_multiarray_umath.__file__)
name = next((n for n in ("scipy_openblas_get_num_threads64_", "openblas_get_num_threads64_",
                         "scipy_openblas_get_num_threads", "openblas_get_num_threads") if hasattr(library, n)), None)
if name is None:
    print("no OpenBLAS")
else:
    def told(): return library[name]()
"""
UNSET = {"OPENBLAS_NUM_THREADS": "", "OMP_NUM_THREADS": "", "MKL_NUM_THREADS": "", "BLIS_NUM_THREADS": ""}


def numbers_of_blas(program: str, **variables: str) -> list[int]:
    """What a process prints of the threads of NumPy's BLAS."""
    told = output_of(BLAS + textwrap.indent(program, "    "), **{**UNSET, **variables}).split("\n")
    if told[0] == "no OpenBLAS":
        pytest.skip("NumPy's BLAS is another one")
    return [int(word) for word in " ".join(told).split()]


@pytest.mark.needs_processes
def test_the_number_rules_numpys_blas() -> None:
    program = """
for n in (1, 2, 1):
    ad.set_num_threads(n)
    print(told())
"""
    assert numbers_of_blas(program) == [1, 2, 1]
    assert numbers_of_blas(program, OPENBLAS_NUM_THREADS="3") == [1, 2, 1]


SHARED = """
before = told()
large = ad.compile(lambda x: x.exp() * x)
large(ad.ones(4_000_000))
print(before, told())
"""


@pytest.mark.needs_processes
@pytest.mark.parametrize("variables", [{}, {"OPENBLAS_NUM_THREADS": "3"}, {"ADJOINT_NUM_THREADS": "1"}])
def test_numpys_own_products_keep_their_threads(variables: dict[str, str]) -> None:
    pytest.importorskip("llvmlite")
    before, beside = numbers_of_blas(SHARED, **{"ADJOINT_NUM_THREADS": "2", **variables})
    assert beside == before


HELD = """
from adjoint.core.runtime.threads import one_blas_thread
import os, threading
ad.set_num_threads(3)
with one_blas_thread:
    print(told(), one_blas_thread.count_threads())
    with one_blas_thread:
        print(told())
    print(told())
    ad.set_num_threads(2)
    print(told(), one_blas_thread.count_threads())
print(told())
try:
    with one_blas_thread:
        raise ValueError
except ValueError:
    print(told())

together = threading.Barrier(5)
def hold():
    for _ in range(200):
        with one_blas_thread:
            assert told() == 1
    with one_blas_thread:
        together.wait()
        assert told() == 1
        together.wait()
others = [threading.Thread(target=hold) for _ in range(4)]
for other in others:
    other.start()
together.wait()
if hasattr(os, "fork"):
    child = os.fork()
    if not child:
        os._exit(10 + told() if one_blas_thread.count_threads() == told() else 1)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) - 10)
else:
    print(2)
together.wait()
for other in others:
    other.join()
print(told())
"""


@pytest.mark.needs_processes
def test_blas_is_held_to_one_thread_until_the_last_leaves() -> None:
    in_nest = [1, 3, 1, 1, 1, 2, 2]
    after_error, in_child, at_end = 2, 2, 2
    assert numbers_of_blas(HELD) == [*in_nest, after_error, in_child, at_end]


class Interruption(Exception):
    """The error that a signal's handler raises."""


@pytest.mark.needs_threads
@pytest.mark.parametrize("at", range(7))
@pytest.mark.parametrize("depth", [1, 2])
def test_an_error_that_a_handler_raises_in_a_call_of_blas_leaves_it_its_threads(
    at: int, depth: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    number, calls = 3, 0

    def interrupt() -> None:
        nonlocal calls
        calls += 1
        if calls == at:
            with held:  # as a handler may that computes something
                pass
            raise Interruption

    def set_number(n: int) -> None:
        nonlocal number
        number = n
        interrupt()

    def get_number() -> int:
        interrupt()
        return number

    held = threads._OneBlasThread()
    blas = threads._Blas(set_number, get_number, "", ctypes.CDLL(None) if os.name == "posix" else ctypes.pythonapi)
    monkeypatch.setattr(threads, "_find_blas", lambda: blas)
    for _ in range(2):
        with suppress(Interruption), ExitStack() as stack:
            for _ in range(depth):
                stack.enter_context(held)
            assert number == 1
        assert number == 3
    assert held.count_threads() == 3


@pytest.mark.needs_processes
def test_a_product_takes_no_more_threads_than_blas_or_the_program_may_have() -> None:
    program = "from adjoint.core.runtime.threads import count_product_threads as count\nprint(count())"
    for blas, ours, expected in [("1", "4", 1), ("2", "1", 1), ("2", "2", 2)]:
        assert numbers_of_blas(program, OPENBLAS_NUM_THREADS=blas, ADJOINT_NUM_THREADS=ours) == [expected]


@pytest.mark.parametrize("number", [0, -2, 2**31, 10**30])
def test_a_number_that_is_not_positive(number: int) -> None:
    raises(RuntimeError, "set_num_threads expects a positive integer", ad.set_num_threads, number)


@pytest.mark.parametrize("number", [1.0, True, "2", None])
def test_a_number_that_is_no_int(number: Any) -> None:
    raises(TypeError, f"set_num_threads expects an int, but got {type(number).__name__}", ad.set_num_threads, number)


@pytest.mark.parametrize(
    ("variables", "number"),
    [
        ({"ADJOINT_NUM_THREADS": "3"}, 3),
        ({"OMP_NUM_THREADS": "5"}, 5),
        ({"ADJOINT_NUM_THREADS": "3", "OMP_NUM_THREADS": "5"}, 3),
        ({"ADJOINT_NUM_THREADS": "0", "OMP_NUM_THREADS": " 4,2"}, 4),
        ({"ADJOINT_NUM_THREADS": "9" * 30}, sys.maxsize),
    ],
)
def test_the_environment(monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], number: int) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert ad.get_num_threads() == number


def test_what_was_set_goes_before_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ADJOINT_NUM_THREADS", "3")
    ad.set_num_threads(2)
    assert ad.get_num_threads() == 2


@pytest.mark.parametrize("wish", ["", "many", "-1", "1.5", "²"])
def test_a_wish_that_is_no_number_is_none(monkeypatch: pytest.MonkeyPatch, wish: str) -> None:
    monkeypatch.setenv("ADJOINT_NUM_THREADS", wish)
    assert ad.get_num_threads() == threads._count_cores()


@pytest.mark.needs_processes
@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="the system does not tell")
def test_the_cores_on_which_the_process_may_run() -> None:
    program = (
        "import os, adjoint as ad; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))}); print(ad.get_num_threads())"
    )
    assert output_of(program) == "1"
    assert 1 <= ad.get_num_threads() <= len(os.sched_getaffinity(0))


@pytest.mark.needs_threads
def test_processors_of_one_core_count_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2, 3}, raising=False)
    monkeypatch.setattr(threads, "_siblings", lambda processor: f"{processor % 2},{processor % 2 + 2}\n")
    assert ad.get_num_threads() == 2


@pytest.mark.needs_threads
def test_where_nothing_is_told_of_siblings_each_processor_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(processor: int) -> str:
        raise FileNotFoundError(processor)

    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 5}, raising=False)
    monkeypatch.setattr(threads, "_siblings", missing)
    assert ad.get_num_threads() == 3


@pytest.mark.needs_threads
def test_where_no_affinity_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    for told, number in ((6, 6), (None, 1)):
        monkeypatch.setattr(os, "cpu_count", lambda told=told: told)
        threads.count[0] = 0
        assert ad.get_num_threads() == number


def test_a_compiled_step_may_ask_and_may_not_set() -> None:
    pytest.importorskip("llvmlite")
    ad.set_num_threads(2)
    scaled = ad.compile(lambda x: x * ad.get_num_threads())
    assert scaled(ad.ones(2)).tolist() == [2.0, 2.0]
    ad.set_num_threads(3)
    assert scaled(ad.ones(2)).tolist() == [3.0, 3.0]

    @ad.compile
    def sets(x: Any) -> Any:
        ad.set_num_threads(1)
        return x

    raises(RuntimeError, r"set_num_threads\(\)", lambda: sets(ad.ones(2)))
    assert ad.get_num_threads() == 3


def test_a_python_without_its_lock_is_warned_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "_is_gil_enabled", lambda: True, raising=False)
    threads.warn_without_gil()
    monkeypatch.setattr(sys, "_is_gil_enabled", lambda: False)
    with pytest.warns(RuntimeWarning, match="without its global lock.*PYTHON_GIL=1"):
        threads.warn_without_gil()
