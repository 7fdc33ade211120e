"""Code generation for this machine and for others."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from tests.compiler.llvm.test_math import REFERENCES, samples
from tests.support.kernels.lanes import different, evaluate, same_bits, write

from adjoint.compiler.cache.disk_cache import DiskCache
from adjoint.compiler.llvm.jit import target
from adjoint.compiler.llvm.jit.target import Target
from adjoint.compiler.llvm.types import BOOL, F32, F64, I8, I32

OTHERS = {
    "haswell": ("x86_64-unknown-linux-gnu", "haswell", "+avx2,+fma", 256),
    "any x86": ("x86_64-unknown-linux-gnu", "x86-64", "", 128),
    "avx512": ("x86_64-unknown-linux-gnu", "skylake-avx512", "+avx512f,+avx512vl,+avx512bw,+avx512dq,+avx2,+fma", 512),
    "aarch64": ("aarch64-unknown-linux-gnu", "neoverse-v1", "", 128),
    "apple": ("arm64-apple-macosx", "apple-m1", "", 128),
}


@pytest.mark.parametrize("name", OTHERS)
def test_kernels_compile_for_other_machines(name: str) -> None:
    triple, cpu, features, bits = OTHERS[name]
    machine = Target.from_triple(triple, cpu, features)
    assert machine.vector_bits == bits
    for type in (F32, F64):
        expressions = {name: lambda b, x, name=name: getattr(b, name)(x) for name in REFERENCES}
        expressions["pow"] = lambda b, x: b.pow(x, b.add(x, 1.0))
        text, _ = write(expressions, [type], machine.lanes(type))
        assembly = machine.emit_assembly(text)
        assert all(f"kernel_{name}:" in assembly for name in expressions)
        assert "llvm." not in assembly
        if type is F32:
            # No function of float32 needs the C library, but for what a machine without the instruction lacks.
            functions = {*(name.rstrip("f") for name in REFERENCES), "pow"}
            assert not {word for word in re.findall(r"\b_?([a-z]+[0-9]*)\b", assembly) if word.rstrip("f") in functions}
        else:
            assert re.search(r"\b_?sin\b", assembly)
        # Wide registers are used even where the CPU's own preference is for half of them.
        assert bits != 512 or "zmm" in assembly
        assert machine.emit_object(text)


@pytest.mark.parametrize("name", ["haswell", "aarch64"])
def test_a_product_and_a_sum_are_not_contracted(name: str) -> None:
    triple, cpu, features, _ = OTHERS[name]
    machine = Target.from_triple(triple, cpu, features)
    contracted, fused = ("fmadd", "fma") if name == "haswell" else ("fml", "fml")
    text, _ = write({"k": lambda b, x, y: b.add(b.mul(x, y), x)}, [F32, F32], 4)
    assert contracted not in machine.emit_assembly(text)
    text, _ = write({"k": lambda b, x, y: b.fma(x, y, x)}, [F32, F32], 4)
    assert fused in machine.emit_assembly(text)


@pytest.mark.parametrize("name", ["haswell", "any x86"])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_a_lesser_machine_gives_the_same_bits(name: str, dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    host = target.host()
    if not host.triple.startswith("x86_64") or not {"+avx2", "+fma"} <= set(host.features.split(",")):
        pytest.skip("needs a machine that is no lesser itself")
    x = samples(dtype)[::7]
    expressions = {name: lambda b, v, name=name: getattr(b, name)(v) for name in REFERENCES}
    expressions |= {"pow": lambda b, v: b.pow(v, b.add(v, 1.0)), "modulo": lambda b, v: b.remainder(v, 1.25)}
    expressions |= {"round": lambda b, v: b.round(v), "integer": lambda b, v: b.cast(b.minimum(v, 99.0), I8)}
    want = evaluate(expressions, [x], 8)
    _, cpu, features, _ = OTHERS[name]
    lesser = Target(host.triple, cpu, features)
    monkeypatch.setattr(target, "host", lambda: lesser)
    got = evaluate(expressions, [x], 8)
    for function in set(expressions) - {"integer"}:
        assert same_bits(got[function], want[function]), f"{function}: {different(got[function], want[function], x)}"
    inside = np.abs(x) < 100
    assert np.array_equal(got["integer"][inside], want["integer"][inside])


def test_lanes_fill_a_register() -> None:
    machine = Target.from_triple(*OTHERS["haswell"][:3])
    assert [machine.lanes(type) for type in (F32, F64, I32, I8, BOOL)] == [8, 4, 8, 32, 32]
    assert target.host().lanes(F32) in (4, 8, 16)


def test_fingerprints_tell_machines_apart() -> None:
    prints = [Target.from_triple(*other[:3]).fingerprint() for other in OTHERS.values()]
    assert len(set(prints)) == len(prints)
    assert target.host().fingerprint() == target.host().fingerprint()
    assert "llvm " in target.host().fingerprint()


@pytest.mark.skipif(target.find_machine_key() is None, reason="nothing tells this machine from others")
def test_what_llvm_says_of_the_machine_is_remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = DiskCache.open(tmp_path / "machines")
    monkeypatch.setattr(target, "default_disk_cache", lambda: disk)
    asked = target.host.__wrapped__()
    with monkeypatch.context() as patch:
        patch.setattr(target, "binding", None)
        remembered = target.host.__wrapped__()
        assert remembered.fingerprint() == asked.fingerprint() == target.host().fingerprint()
        assert (remembered.triple, remembered.cpu, remembered.features) == (asked.triple, asked.cpu, asked.features)
        patch.setattr(target.llvmlite, "__version__", "another")
        with pytest.raises(TypeError):  # it asks LLVM
            target.host.__wrapped__()
    assert remembered.emit_object("define void @k() {\n  ret void\n}\n")
    for path in (tmp_path / "machines").glob("*.machine"):
        path.write_bytes(path.read_bytes()[:-1])
    assert target.host.__wrapped__().fingerprint() == asked.fingerprint()


@pytest.mark.parametrize("text", ["nonsense", "define void @f() {\n ret i32 0\n}", "define i32 @f() {\n ret void\n}"])
def test_text_that_is_no_module_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match="invalid LLVM assembly"):
        target.host().emit_object(text)
