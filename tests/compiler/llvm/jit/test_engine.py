"""Loading objects, finding their kernels, and giving their memory back."""

from __future__ import annotations

import gc
import struct
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from tests.support.checks import raises
from tests.support.kernels.lanes import call
from tests.support.scripts import Done, start

from adjoint.compiler.llvm.builder import Builder
from adjoint.compiler.llvm.jit import elf_loader, engine, target
from adjoint.compiler.llvm.types import F64, I64


def counting(name: str, value: int) -> bytes:
    """An object whose kernel stores a number."""
    b = Builder()
    with b.kernel(name) as (args, _, _):
        b.store(b.constant(value, I64), b.argument(args, 0))
    return target.host().emit_object(b.text())


@pytest.fixture(params=["linked here", "linked by LLVM"])
def linker(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both ways in which code is loaded."""
    if request.param == "linked by LLVM":
        monkeypatch.setattr(elf_loader, "link", lambda objects: None)


@pytest.mark.skipif(not elf_loader.SUPPORTED_HOST, reason="LLVM links for other machines")
def test_kernels_are_linked_without_llvm() -> None:
    image = elf_loader.link([counting("one", 1)])
    assert image.get_function_address("one")
    assert not image.get_function_address("two")
    image.close()


@pytest.mark.skipif(not elf_loader.SUPPORTED_HOST, reason="LLVM links for other machines")
@pytest.mark.parametrize("fault", ["another machine", "a part of it", "data", "no relocation that is known", "no ELF"])
def test_what_is_not_known_is_left_to_llvm(fault: str) -> None:
    data = bytearray(counting("one", 1))
    whole = elf_loader.ObjectFile(bytes(data))
    table = struct.unpack_from("<40xQ", data)[0]
    if fault == "another machine":
        data[18] = 183
    elif fault == "a part of it":
        del data[100:]
    elif fault == "data":
        (first, *_) = whole.find_loaded_sections()
        data[table + 64 * first + 8] |= elf_loader.SHF_WRITE
    elif fault == "no ELF":
        data[0] = 0
    else:
        b = Builder()
        with b.kernel("k") as (args, _, _):
            value = b.load(b.argument(args, 0), F64)
            b.store(b.mul(value, 2.25), b.argument(args, 0))
        data = bytearray(target.host().emit_object(b.text()))
        (row, *_) = [s.offset for s in elf_loader.ObjectFile(bytes(data)).sections if s.kind == elf_loader.SHT_RELA]
        data[row + 8] = 9
    assert elf_loader.link([bytes(data)]) is None


@pytest.mark.usefixtures("linker")
def test_many_objects_in_one_engine() -> None:
    loaded, out = engine.load([counting("one", 1), counting("two", 2)]), np.zeros(1, "i8")
    call(loaded, "two", [out])
    assert out[0] == 2
    call(loaded, "one", [out])
    assert out[0] == 1


@pytest.mark.usefixtures("linker")
def test_an_unknown_kernel_is_an_error() -> None:
    raises(KeyError, "no kernel named three", lambda: engine.load([counting("one", 1)]).address("three"))


@pytest.mark.skipif(sys.platform != "linux", reason="the symbols of other object formats are not read")
def test_a_missing_function_is_an_error_and_not_the_end_of_the_process() -> None:
    b = Builder()
    with b.kernel("k") as (args, _, _):
        value = b.load(b.argument(args, 0), F64)
        b.store(b.external("no_such_function", [value], F64), b.argument(args, 0))
    raises(LookupError, "process does not have: no_such_function", engine.load, [target.host().emit_object(b.text())])


@pytest.mark.usefixtures("linker")
@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0)])
def test_objects_keep_their_constants_in_any_company(order: tuple[int, ...]) -> None:
    objects = []
    for i in range(3):
        b = Builder()
        with b.kernel(f"kernel{i}") as (args, _, _):
            out = b.argument(args, 0)
            value = b.load(out, F64)
            # One with constants, one with a call and a table, one with a call and constants.
            value = b.mul(value, i + 2.25) if i != 1 else value
            value = b.sin(value) if i else value
            value = b.load(b.gep(b.table([1.5, 2.5], F64), 1, F64), F64) if i == 1 else value
            b.store(value, out)
        objects.append(target.host().emit_object(b.text()))
    loaded = engine.load([objects[i] for i in order])
    for i, want in enumerate([0.5 * 2.25, 2.5, np.sin(0.5 * 4.25)]):
        values = np.array([0.5])
        call(loaded, f"kernel{i}", [values])
        assert values[0] == pytest.approx(want, rel=1e-15)


@pytest.mark.usefixtures("linker")
@pytest.mark.parametrize("last", [0, 1])
def test_objects_may_use_each_others_functions(last: int) -> None:
    b, user = Builder(), Builder()
    with b.function("shared", [F64], F64, visible=True) as (x,):
        b.returns(b.mul(x, 3.0))
    with user.kernel("k") as (args, _, _):
        pointer = user.argument(args, 0)
        user.store(user.external("shared", [user.load(pointer, F64)], F64), pointer)
    out = np.array([2.0])
    objects = [target.host().emit_object(v.text()) for v in (user, b)]
    call(engine.load([objects[1 - last], objects[last]]), "k", [out])
    assert out[0] == 6.0


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_dropped_programs_give_their_memory_back() -> None:
    def resident() -> int:
        gc.collect()
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * 4096

    def compile_and_drop(first: int, last: int) -> None:
        for i in range(first, last):
            engine.load([counting(f"kernel{i}", i)]).address(f"kernel{i}")

    compile_and_drop(0, 100)
    before = resident()
    compile_and_drop(100, 300)
    assert (resident() - before) / 200 < 20_000


@pytest.mark.usefixtures("linker")
def test_threads_compile_and_load_at_once() -> None:
    def work(i: int) -> int:
        out = np.zeros(1, "i8")
        call(engine.load([counting(f"kernel{i}", i)]), f"kernel{i}", [out])
        return int(out[0])

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(work, range(64))) == list(range(64))


SHUTDOWN = """
import sys, types

early = sys.modules["early"] = sys.early = types.ModuleType("early")
from adjoint.compiler.llvm.builder import Builder
from adjoint.compiler.llvm.jit import elf_loader, engine, target

if {is_by_llvm}:
    elf_loader.link = lambda objects: None
sys.engine = engine
b = Builder()
with b.kernel("one"):
    pass
early.engine = engine.load([target.host().emit_object(b.text())])
"""


@pytest.mark.parametrize("is_by_llvm", [False, True])
def test_an_engine_that_outlives_its_module_says_nothing(is_by_llvm: bool, tmp_path: Path) -> None:
    """Shutdown empties the modules in the order in which they were imported, the last first."""
    done = start(tmp_path, "-c", SHUTDOWN.format(is_by_llvm=is_by_llvm))
    assert done == Done(0, "", "")
