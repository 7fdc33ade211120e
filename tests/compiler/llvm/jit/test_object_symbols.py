"""Kernels of real steps as objects of eight targets, and the functions that these need of a process."""

from __future__ import annotations

import pytest

import adjoint as ad
import adjoint.nn.functional as F
from adjoint import nn, optim
from adjoint.compiler.kernels.lowerings import lower_all
from adjoint.compiler.llvm.builder import Builder
from adjoint.compiler.llvm.jit import engine
from adjoint.compiler.llvm.jit.object_symbols import find_undefined_symbols
from adjoint.compiler.llvm.jit.target import Target
from adjoint.compiler.llvm.types import F64
from adjoint.compiler.program import buffer_binding, program
from adjoint.compiler.runtime import gradient_slots, native_entry, object_checks_ir, thread_pool, write_marks

# Triple, processor, features, the format's first bytes, and what may be missing besides `pow`.
TARGETS = {
    "Windows x64 as llvmlite loads it": ("x86_64-pc-windows-msvc-elf", "haswell", "+avx2,+fma", b"\x7fELF", "__chkstk"),
    "Windows x64": ("x86_64-pc-windows-msvc", "haswell", "+avx2,+fma", b"\x64\x86", "__chkstk _fltused"),
    "Windows arm64": ("aarch64-pc-windows-msvc-elf", "", "", b"\x7fELF", "__chkstk"),
    "macOS arm64": ("arm64-apple-darwin23.0.0", "apple-m1", "", b"\xcf\xfa\xed\xfe", ""),
    "macOS x64": ("x86_64-apple-darwin23.0.0", "haswell", "+avx2,+fma", b"\xcf\xfa\xed\xfe", ""),
    "Linux x64 of 2008": ("x86_64-unknown-linux-gnu", "nehalem", "", b"\x7fELF", "fma fmaf"),
    "Linux arm64": ("aarch64-unknown-linux-gnu", "neoverse-n1", "", b"\x7fELF", ""),
    "Linux riscv64": ("riscv64-unknown-linux-gnu", "generic-rv64", "+m,+a,+f,+d,+c,+v", b"\x7fELF", "fma fmaf"),
}

EVERY_DAY = ("Windows x64 as llvmlite loads it", "macOS arm64", "Linux arm64")


@pytest.fixture(scope="module")
def bindings() -> list[buffer_binding.Binding]:
    """The programs of a training step, of a small convolutional network and of attention."""
    found: list[buffer_binding.Binding] = []

    class Recording(buffer_binding.Binding):
        def __init__(self, *arguments: object) -> None:
            super().__init__(*arguments)
            found.append(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(program, "Binding", Recording)
        model = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 3))
        optimizer = optim.AdamW(model.parameters())

        @ad.compile
        def step(x: ad.Tensor, y: ad.Tensor) -> ad.Tensor:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y) + (x.sin() * x.exp()).tanh().mean()
            loss = loss + x.abs().pow(1.7).clamp(0, 9).mean()
            loss.backward()
            optimizer.step()
            return loss

        step(ad.randn(4, 8), ad.zeros(4, dtype=ad.int64))
        net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(36, 2))
        ad.compile(lambda x: net(x).sum())(ad.randn(2, 3, 8, 8))
        ad.compile(lambda q: F.scaled_dot_product_attention(q, q, q).amax())(ad.randn(1, 2, 16, 8))
    assert len(found) >= 3
    return found


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in EVERY_DAY else [pytest.mark.nightly]) for name in TARGETS]
)
def test_programs_become_objects_that_need_little(
    name: str, bindings: list[buffer_binding.Binding], monkeypatch: pytest.MonkeyPatch
) -> None:
    triple, cpu, features, magic, others = TARGETS[name]
    machine = Target.from_triple(triple, cpu, features)
    monkeypatch.setattr(thread_pool, "host", lambda: machine)
    texts = [str(kernel.code) for each in bindings for kernel in lower_all(each.fusion, machine).values()]
    texts += [module.text() for module in (native_entry, object_checks_ir, write_marks, gradient_slots)]
    objects = [machine.emit_object(text) for text in texts]
    assert len(objects) > 10
    assert all(data.startswith(magic) for data in objects)
    assert find_undefined_symbols(objects) - {"pow", *others.split()} == set()
    assert "pow" in find_undefined_symbols(objects)


@pytest.mark.parametrize("name", TARGETS)
def test_missing_functions_are_named(name: str) -> None:
    machine = Target.from_triple(*TARGETS[name][:3])
    objects = []
    for kernel, function in (("one", "no_such_function"), ("two", "another"), ("three", "one")):
        b = Builder(machine)
        with b.kernel(kernel) as (args, _, _):
            out = b.argument(args, 0)
            b.store(b.external(function, [b.load(out, F64)], F64), out)
        objects.append(machine.emit_object(b.text()))
    extra = set(TARGETS[name][4].split())
    assert find_undefined_symbols(objects) - extra == {"no_such_function", "another"}
    with pytest.raises(LookupError, match=r"does not have: .*another, no_such_function"):
        engine._link_with_llvm(objects)


def test_other_formats_are_not_read() -> None:
    assert find_undefined_symbols([b"", b"\0asm\1\0\0\0", b"\xca\xfe\xba\xbe" + bytes(40)]) == set()
