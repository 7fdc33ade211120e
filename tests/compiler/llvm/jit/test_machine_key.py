"""Facts of processors, as systems write them, and the key that is made of them."""

from __future__ import annotations

import ctypes
import platform
import sys

import pytest

from adjoint.compiler.llvm.jit import machine_key
from adjoint.compiler.llvm.jit.machine_key import parse_cpuinfo, read_processor_facts
from adjoint.core.runtime import threads

X86 = "processor\t: {n}\nmodel name\t: One\ncpu MHz\t\t: {n}00.0\nflags\t\t: fpu sse2\nbogomips\t: {n}.0\n"
ARM = "processor\t: {n}\nBogoMIPS\t: {n}.00\nFeatures\t: fp asimd\nCPU part\t: 0xd0c\n"


@pytest.mark.parametrize("text", [X86, ARM])
def test_facts_are_those_that_stay(text: str) -> None:
    facts = [parse_cpuinfo(f"{text.format(n=n)}\n{text.format(n=n + 1)}".encode(), "m") for n in (1, 2)]
    assert facts[0] == facts[1]
    assert facts[0] is not None
    assert any(b"fp" in fact for fact in facts[0])
    assert parse_cpuinfo(text.replace("fp", "other").encode(), "m") != facts[0]
    assert parse_cpuinfo(text.format(n=1).encode(), "another") != facts[0]


def test_a_list_without_features_tells_nothing() -> None:
    assert parse_cpuinfo(b"processor\t: 0\nisa\t\t: rv64imafdc\n", "riscv64") is None


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_this_machine_is_known_the_second_time() -> None:
    assert read_processor_facts() == read_processor_facts()


def test_macos_is_asked_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    told = {"machdep.cpu.brand_string": b"Apple M1\0", "hw.cpufamily": b"\x01\x02\x03\x04"}
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(machine_key, "read_sysctl", lambda name: told.get(name, b""))
    assert read_processor_facts() == [platform.machine().encode(), *told.values()]
    told.clear()
    assert read_processor_facts() is None


def test_sysctl_reads_as_many_bytes_as_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    def by_name(name: bytes, held: ctypes.Array[ctypes.c_char] | None, size: object, *new: object) -> int:
        if name != b"hw.perflevel0.physicalcpu":
            return -1
        size._obj.value = 4
        if held is not None:
            held[:4] = (6).to_bytes(4, sys.byteorder)
        return 0

    class Library:
        sysctlbyname = staticmethod(by_name)

    monkeypatch.setattr(ctypes, "CDLL", lambda name: Library)
    assert threads.read_sysctl("hw.perflevel0.physicalcpu") == (6).to_bytes(4, sys.byteorder)
    assert threads.read_sysctl("hw.unknown") == b""
    monkeypatch.setattr(sys, "platform", "darwin")
    assert threads._count_cores() == 6
