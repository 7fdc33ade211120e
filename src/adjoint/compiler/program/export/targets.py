"""The machines that steps are exported to: their names, and the code generator for each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adjoint.compiler.llvm.jit.target import Target, binding, host
from adjoint.core.runtime.fork_safety import CachedProperty

if TYPE_CHECKING:
    import llvmlite.binding as llvm

WASM_FEATURES = "+simd128,+bulk-memory,+nontrapping-fptoint,+sign-ext,+mutable-globals"
# x86-64's levels. Source: System V Application Binary Interface, AMD64 supplement, "Micro-Architecture Levels".
LEVEL_2 = "+cx16,+sahf,+popcnt,+sse3,+ssse3,+sse4.1,+sse4.2"
LEVEL_3 = f"{LEVEL_2},+avx,+avx2,+bmi,+bmi2,+f16c,+fma,+lzcnt,+movbe"
LEVEL_4 = f"{LEVEL_3},+avx512f,+avx512bw,+avx512cd,+avx512dq,+avx512vl,+evex512"
LINUX_X86, LINUX_ARM, LINUX_RISCV = "x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu", "riscv64-unknown-linux-gnu"
TARGETS = {  # the triple, the processor, its features
    "wasm32": ("wasm32-unknown-unknown", "generic", WASM_FEATURES),
    "x86-64-v2": (LINUX_X86, "x86-64-v2", LEVEL_2),
    "x86-64-v3": (LINUX_X86, "x86-64-v3", LEVEL_3),
    "x86-64-v4": (LINUX_X86, "x86-64-v4", LEVEL_4),
    "aarch64": (LINUX_ARM, "generic", "+neon,+fp-armv8"),
    "riscv64": (LINUX_RISCV, "generic-rv64", "+m,+a,+f,+d,+c"),
    "aarch64-macos": ("arm64-apple-macosx11.0.0", "apple-m1", "+neon,+fp-armv8"),
    "x86-64-macos": ("x86_64-apple-macosx11.0.0", "x86-64-v3", LEVEL_3),
    "x86-64-windows": ("x86_64-pc-windows-msvc", "x86-64-v3", LEVEL_3),
}


class ExportTarget(Target):
    """A machine that this process need not be: its code is linked by others, and may be part of a library."""

    @CachedProperty
    def is_wasm(self) -> bool:
        """True for WebAssembly."""
        return self.triple.startswith("wasm")

    @property
    def has_fma(self) -> bool:
        """True if an instruction computes x * y + z with one rounding; the C library takes 200 times as long."""
        if self.is_x86:
            return not {"+fma", "+avx512f"}.isdisjoint(self.enabled_features)
        return not self.is_wasm

    @CachedProperty
    def pointer_bytes(self) -> int:
        """The bytes of an address."""
        return 4 if self.is_wasm else 8

    @CachedProperty
    def _machine(self) -> llvm.TargetMachine:
        machine = binding().Target.from_triple(self.triple)
        reloc = "static" if self.is_wasm else "pic"
        return machine.create_target_machine(
            cpu=self.cpu, features=self.features, opt=3, reloc=reloc, codemodel="default"
        )

    def emit_linked_object(self, texts: list[str]) -> bytes:
        """The machine code of several modules, linked to one, as a relocatable object file."""
        llvm, context = binding(), binding().create_context()
        whole, *others = (llvm.parse_assembly(text, context=context) for text in texts)
        for module in (whole, *others):
            module.triple, module.data_layout = self.triple, self._layout
        for module in others:
            whole.link_in(module)
        whole.verify()
        return bytes(self._machine.emit_object(whole))


def find_target(name: str) -> ExportTarget:
    """Return the machine of a name; "native" is that which this process runs on.

    Raises: ValueError, which lists the names.
    """
    if name == "native":
        here = host()
        facts = (here.triple, here.cpu, here.features)
    elif name in TARGETS:
        facts = TARGETS[name]
    else:
        raise ValueError(f"export() knows no target {name!r}; it knows 'native', {', '.join(map(repr, TARGETS))}")
    binding().initialize_all_targets()
    binding().initialize_all_asmprinters()
    return ExportTarget(*facts)
