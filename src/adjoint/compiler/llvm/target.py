"""The machine kernels are compiled for: its vector width, its name in cache keys, and the code generator."""

from __future__ import annotations

from functools import cache, cached_property

import llvmlite
import llvmlite.binding as llvm

from adjoint.compiler.llvm.types import Type

# Not position-independent: the engine resolves every object's constants against one object's offset table, so that of
# several objects linked together some would read others' numbers.
OPTIONS = {"opt": 2, "reloc": "static", "codemodel": "jitdefault"}


class Target:
    """One machine: a triple, a CPU whose timings schedule the code, and the features which decide what it may use."""

    def __init__(self, triple: str, cpu: str, features: str) -> None:
        self.triple, self.cpu, self.features = triple, cpu, features
        self._machine = self._new_machine(jit=False)
        self._layout = str(self._machine.target_data)

    @classmethod
    def from_triple(cls, triple: str, cpu: str = "", features: str = "") -> Target:
        """Any machine LLVM was built for, to read its assembly."""
        llvm.initialize_all_targets()
        llvm.initialize_all_asmprinters()
        return cls(triple, cpu, features)

    @cached_property
    def vector_bits(self) -> int:
        """The width of the widest vector register: 512, 256 or 128."""
        if not self.triple.startswith(("x86_64", "i386", "i686")):
            return 128
        enabled = {feature for feature in self.features.split(",") if feature.startswith("+")}
        if "+avx512f" in enabled:
            return 512
        return 256 if "+avx2" in enabled else 128

    def lanes(self, type: Type) -> int:
        """How many elements of a scalar type one register holds."""
        return self.vector_bits // max(type.bits, 8)

    def fingerprint(self) -> str:
        """All that shapes machine code besides the IR."""
        version = ".".join(map(str, llvm.llvm_version_info))
        return f"{self.triple};{self.cpu};{self.features};{OPTIONS};llvm {version};llvmlite {llvmlite.__version__}"

    def emit_object(self, text: str) -> bytes:
        """A module's machine code as a relocatable object file; ValueError for text that is no LLVM assembly."""
        return bytes(self._machine.emit_object(self._parse(text)))

    def emit_assembly(self, text: str) -> str:
        """A module's machine code to read."""
        return str(self._machine.emit_assembly(self._parse(text)))

    def new_engine(self) -> llvm.ExecutionEngine:
        """An empty engine which runs objects made for this target."""
        return llvm.create_mcjit_compiler(self._parse(""), self._new_machine(jit=True))

    def _parse(self, text: str) -> llvm.ModuleRef:
        # A context of its own, because the global one keeps every constant it has seen.
        try:
            module = llvm.parse_assembly(text, context=llvm.create_context())
            module.triple, module.data_layout = self.triple, self._layout
            module.verify()
        except RuntimeError as error:
            raise ValueError(f"invalid LLVM assembly: {error}") from None
        return module

    def _new_machine(self, jit: bool) -> llvm.TargetMachine:
        # No passes run over the IR: it is written in explicit vectors, and they cost more time than they save.
        return llvm.Target.from_triple(self.triple).create_target_machine(
            cpu=self.cpu, features=self.features, jit=jit, **OPTIONS
        )


@cache
def host() -> Target:
    """The machine this process runs on."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    # The name may be of a lesser machine than the features, or of a greater one: only these say what may be used.
    return Target(llvm.get_process_triple(), llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten())
