"""The machine kernels are compiled for: its vector width, its name in cache keys, and the code generator.

LLVM is brought in when something is to be compiled: where all code is there already, it is not needed.
"""

from __future__ import annotations

import ctypes
import sys
from functools import cache
from typing import TYPE_CHECKING, Any

import llvmlite

from adjoint.compiler.cache.disk_cache import default_disk_cache
from adjoint.compiler.llvm.jit.machine_key import find_machine_key
from adjoint.compiler.llvm.types import Type
from adjoint.core.runtime.fork_safety import CachedProperty, hold_across_fork
from adjoint.core.runtime.lazy_import import importing

if TYPE_CHECKING:
    import llvmlite.binding as llvm

# Not position-independent: the engine resolves every object's constants against one object's offset table, so that of
# several objects linked together some would read others' numbers.
OPTIONS: dict[str, Any] = {"opt": 2, "reloc": "static", "codemodel": "jitdefault"}
ARCH_PRCTL, REQUEST, TILE_DATA = 158, 0x1023, 18  # of x86-64
MACHINE_FILE_SUFFIX = ".machine"  # of what LLVM has told of a machine


class Target:
    """One machine: a triple, a CPU whose timings schedule the code, and the features which decide what it may use.

    `version`: LLVM's; asked for if it is not given.
    """

    def __init__(self, triple: str, cpu: str, features: str, version: str = "") -> None:
        self.triple, self.cpu, self.features = triple, cpu, features
        self.version = version or ".".join(map(str, binding().llvm_version_info))

    @classmethod
    def from_triple(cls, triple: str, cpu: str = "", features: str = "") -> Target:
        """Any machine LLVM was built for, to read its assembly."""
        binding().initialize_all_targets()
        binding().initialize_all_asmprinters()
        return cls(triple, cpu, features)

    @CachedProperty
    def vector_bits(self) -> int:
        """The width of the widest vector register: 512, 256 or 128."""
        if not self.is_x86:
            return 128
        if "+avx512f" in self.enabled_features:
            return 512
        return 256 if "+avx2" in self.enabled_features else 128

    @CachedProperty
    def vector_registers(self) -> int:
        """The number of vector registers: 16 or 32. WebAssembly has none of its own, and mostly runs on x86."""
        few = self.triple.startswith("wasm") or (self.is_x86 and self.vector_bits < 512)
        return 16 if few else 32

    @property
    def panel_registers(self) -> int:
        """The registers of columns beside which those of a matrix product's sums leave room for enough rows."""
        return self.vector_registers // 8

    @property
    def has_fma(self) -> bool:
        """True if x * y + z is rounded once, if need be by the C library, so that all machines give the same bits."""
        return True

    @CachedProperty
    def is_x86(self) -> bool:
        """True for x86, of 64 bits or 32."""
        return self.triple.startswith(("x86_64", "i386", "i686"))

    @CachedProperty
    def enabled_features(self) -> frozenset[str]:
        """The features that the code may use, each with its plus sign."""
        return frozenset(feature for feature in self.features.split(",") if feature.startswith("+"))

    @property
    def slowdown(self) -> float:
        """The time of arithmetic here over that with 512-bit registers, with which the costs were measured."""
        return 512 / self.vector_bits

    def lanes(self, type: Type) -> int:
        """Return how many elements of a scalar type one register holds."""
        return self.vector_bits // max(type.bits, 8)

    @CachedProperty
    def _fingerprint(self) -> str:
        built = f"llvm {self.version};llvmlite {llvmlite.__version__}"
        return f"{self.triple};{self.cpu};{self.features};{OPTIONS};{built}"

    def fingerprint(self) -> str:
        """Return the facts that shape machine code besides the IR."""
        return self._fingerprint

    def emit_object(self, text: str) -> bytes:
        """A module's machine code as a relocatable object file; ValueError for text that is no LLVM assembly."""
        return bytes(self._machine.emit_object(self._parse(text)))

    def emit_assembly(self, text: str) -> str:
        """A module's machine code to read."""
        return str(self._machine.emit_assembly(self._parse(text)))

    def new_engine(self) -> llvm.ExecutionEngine:
        """An empty engine which runs objects made for this target."""
        return binding().create_mcjit_compiler(self._parse(""), self._new_machine(jit=True))

    def _parse(self, text: str) -> llvm.ModuleRef:
        # A context of its own, because the global one keeps every constant it has seen.
        try:
            module = binding().parse_assembly(text, context=binding().create_context())
            module.triple, module.data_layout = self.triple, self._layout
            module.verify()
        except RuntimeError as error:
            raise ValueError(f"invalid LLVM assembly: {error}") from None
        return module

    @CachedProperty
    def _layout(self) -> str:
        return str(self._machine.target_data)

    @CachedProperty
    def _machine(self) -> llvm.TargetMachine:
        return self._new_machine(jit=False)

    def _new_machine(self, jit: bool) -> llvm.TargetMachine:
        # No passes run over the IR: it is written in explicit vectors, and they cost more time than they save.
        machine = binding().Target.from_triple(self.triple)
        return machine.create_target_machine(cpu=self.cpu, features=self.features, jit=jit, **OPTIONS)


@cache
def binding() -> Any:
    """LLVM, ready to compile for this machine."""
    with importing():
        import llvmlite.binding as llvm
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    hold_across_fork(llvm.ffi.lib._lock._lock)  # LLVM has locks of its own beneath this one, which nobody can renew
    return llvm


def usable_features(features: str) -> str:
    """The features of the processor without those that this process may not use, which it asks for now."""
    if "+amx-tile" not in features or may_use_tiles():
        return features
    return features.replace("+amx-", "-amx-")


@cache
def may_use_tiles() -> bool:
    """Ask Linux for tile registers (AMX); true if this process, its threads and its forks, may use them from here on.

    Source: Linux kernel documentation, "Using XSTATE features in user space applications".
    """
    if sys.platform != "linux" or sys.maxsize < 1 << 32:
        return False
    return int(ctypes.CDLL(None).syscall(ARCH_PRCTL, REQUEST, TILE_DATA)) == 0


@cache
def host() -> Target:
    """The machine this process runs on: as LLVM told an earlier process on it, or tells now."""
    disk, key = default_disk_cache(), find_machine_key()
    known = disk.read(key, MACHINE_FILE_SUFFIX) if disk and key else None
    if known is not None:
        triple, cpu, features, version = known.decode().split("\n")
        return Target(triple, cpu, usable_features(features), version)
    # The name may be of a lesser machine than the features, or of a greater one: only these say what may be used.
    features = binding().get_host_cpu_features().flatten()
    found = Target(binding().get_process_triple(), binding().get_host_cpu_name(), usable_features(features))
    if disk and key:
        disk.write(key, f"{found.triple}\n{found.cpu}\n{features}\n{found.version}".encode(), MACHINE_FILE_SUFFIX)
    return found
