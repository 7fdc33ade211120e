"""Targets of exported steps: their names, registers, and objects for all of them."""

from pathlib import Path

import pytest

import adjoint as ad
from adjoint.compiler.llvm.builder import Builder
from adjoint.compiler.llvm.types import F32
from adjoint.compiler.program.export.targets import TARGETS, find_target

MAGIC = {"wasm32": b"\0asm", "aarch64-macos": b"\xcf\xfa\xed\xfe", "x86-64-macos": b"\xcf\xfa\xed\xfe"}


@pytest.mark.parametrize(
    ("name", "bits", "registers", "has_fma"),
    [
        ("wasm32", 128, 16, False),
        ("x86-64-v2", 128, 16, False),
        ("x86-64-v3", 256, 16, True),
        ("x86-64-v4", 512, 32, True),
        ("aarch64", 128, 32, True),
    ],
)
def test_facts(name: str, bits: int, registers: int, has_fma: bool) -> None:
    target = find_target(name)
    assert (target.vector_bits, target.vector_registers, target.has_fma) == (bits, registers, has_fma)


def test_a_product_and_sum_is_one_instruction_only_where_there_is_one() -> None:
    for name, word in (("wasm32", "@llvm.fmuladd.f32"), ("x86-64-v3", "@llvm.fma.f32")):
        b = Builder(find_target(name))
        with b.kernel("k") as (args, _, _):
            x = b.load(b.argument(args, 0), F32)
            b.store(b.fma(x, x, x), b.argument(args, 0))
        assert word in b.text()


def test_objects_for_all_targets(tmp_path: Path) -> None:
    step = ad.compile(lambda x, w: (x @ w).exp().sum(1))
    step(ad.rand(8, 8), ad.rand(8, 8))
    assert len(TARGETS) >= 8
    for name in TARGETS:
        path = tmp_path / (f"{name}.wasm" if name == "wasm32" else f"{name}.o")
        made = step.export(path, name)
        assert made[0] == path
        content = path.read_bytes()
        if "windows" in name:
            assert content[:2] == b"\x64\x86"
        else:
            assert content.startswith(MAGIC.get(name, b"\x7fELF"))
