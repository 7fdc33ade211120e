"""A process that forks while other threads import, hold locks or compile: the new one is stuck nowhere."""

import os

import pytest
from tests.support.scripts import output_of

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="no processes that fork")

SETUP = """
import importlib.abc, importlib.machinery, os, sys, threading, time
import adjoint as ad
from adjoint.core import forking

begun, parent = threading.Event(), os.getpid()

class Slow(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name, path, target=None):
        return importlib.machinery.ModuleSpec(name, self) if name == "adjoint.slow" else None
    def create_module(self, spec): return None
    def exec_module(self, module):
        begun.set()
        module.half = True
        if os.getpid() == parent: time.sleep(SECONDS)
        module.whole = True

def forked(job):
    if (pid := os.fork()) == 0:
        try:
            os._exit(job())
        finally:
            os._exit(77)
    for _ in range(2000):
        done, status = os.waitpid(pid, os.WNOHANG)
        if done: return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(pid, 9)
    return "stuck"

sys.meta_path.insert(0, Slow())
def slow():
    import adjoint.slow
    return 5 if adjoint.slow.whole else 6
"""


@pytest.mark.needs_processes
@pytest.mark.needs_threads
def test_a_fork_waits_for_an_import_of_ours() -> None:
    job = """
thread = threading.Thread(target=slow)
thread.start()
begun.wait()
import adjoint
print(forked(lambda: 5 if hasattr(sys.modules["adjoint.slow"], "whole") else 6))
thread.join()
"""
    assert output_of("SECONDS = 0.5" + SETUP + job, strict=False).split() == ["5"]


@pytest.mark.needs_processes
@pytest.mark.needs_threads
def test_an_import_that_does_not_end_begins_anew() -> None:
    job = """
forking.FORK_WAIT_SECONDS = 0.05
thread = threading.Thread(target=slow)
thread.start()
begun.wait()
print(forked(slow), hasattr(sys.modules["adjoint.slow"], "whole"))
thread.join()
print(slow())
"""
    assert output_of("SECONDS = 2" + SETUP + job, strict=False).split() == ["5", "False", "5"]


@pytest.mark.needs_processes
@pytest.mark.needs_threads
def test_a_thread_that_imports_something_else_is_not_waited_for() -> None:
    job = """
class Other(Slow):
    def find_spec(self, name, path, target=None):
        return importlib.machinery.ModuleSpec(name, self) if name == "other" else None
sys.meta_path.insert(0, Other())
thread = threading.Thread(target=lambda: __import__("other"))
thread.start()
begun.wait()
print(forked(lambda: 3), thread.is_alive())
"""
    assert output_of("SECONDS = 3" + SETUP + job, strict=False).split() == ["3", "True"]


@pytest.mark.needs_processes
@pytest.mark.needs_threads
def test_locks_that_another_thread_holds() -> None:
    job = """
apart, inside = forking.reset_after_fork(threading.Lock()), forking.hold_across_fork(threading.RLock())
free = threading.Event()
def work():
    with inside, apart:
        begun.set()
        time.sleep(0.3)
    with apart:
        free.set()
        time.sleep(0.5)
threading.Thread(target=work).start()
begun.wait()
print(forked(lambda: 4 if free.is_set() and apart.acquire(timeout=5) and inside.acquire(timeout=5) else 6))
"""
    assert output_of("SECONDS = 0" + SETUP + job, strict=False).split() == ["4"]


@pytest.mark.needs_processes
@pytest.mark.needs_threads
def test_a_cached_property_that_another_thread_computes() -> None:
    job = """
class Slow:
    @forking.CachedProperty
    def value(self):
        begun.set()
        if os.getpid() == parent: time.sleep(0.5)
        return 4
slow = Slow()
thread = threading.Thread(target=lambda: slow.value)
thread.start()
begun.wait()
print(forked(lambda: slow.value + Slow().value), "value" in vars(slow))
thread.join()
"""
    assert output_of("SECONDS = 0" + SETUP + job, strict=False).split() == ["8", "False"]


@pytest.mark.needs_processes
@pytest.mark.needs_threads
def test_a_compiled_step_in_a_process_forked_in_the_middle_of_one() -> None:
    job = """
@ad.compile
def step(x):
    return (x.sin() * x.cos()).sum()

x, stop = ad.linspace(0, 1, 1000), threading.Event()
expected = step(x).item()
def work():
    while not stop.is_set():
        step(ad.ones(threading.get_ident() % 97 + 2))
        step(x)
threads = [threading.Thread(target=work) for _ in range(3)]
for thread in threads: thread.start()
print({forked(lambda: 9 if step(x).item() == expected and step(ad.ones(3)).item() > 0 else 6) for _ in range(10)})
stop.set()
for thread in threads: thread.join()
"""
    assert output_of("SECONDS = 0" + SETUP + job, strict=False).split() == ["{9}"]
