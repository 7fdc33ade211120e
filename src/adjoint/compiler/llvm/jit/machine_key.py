"""The key by which a machine is known again: what LLVM told of it once need not be asked in every process.

It depends on the processor, as the system describes it, and on LLVM's library.
"""

from __future__ import annotations

import os
import platform
import sys

import llvmlite

from adjoint.compiler.cache.hashing import digest
from adjoint.core.runtime.threads import read_sysctl

# Lines of /proc/cpuinfo that list what the processor can do: of x86, and of ARM.
FEATURE_LINES = (b"flags", b"Features")
CHANGING_LINES = (b"cpu MHz", b"bogomips", b"BogoMIPS", b"processor")
# macOS tells an Intel processor's features, and of its own processors the family, which has them.
SYSCTL_NAMES = (
    "machdep.cpu.brand_string",
    "machdep.cpu.features",
    "machdep.cpu.leaf7_features",
    "hw.cpufamily",
    "hw.cpusubfamily",
    "kern.osrelease",
)
LIBRARY_NAMES = {"darwin": "libllvmlite.dylib", "win32": "llvmlite.dll"}  # of others, libllvmlite.so


def find_machine_key() -> str | None:
    """Return a digest of this machine with this LLVM; None where the facts that matter are not known."""
    name = LIBRARY_NAMES.get(sys.platform, "libllvmlite.so")
    library = os.path.join(os.path.dirname(llvmlite.__file__), "binding", name)
    try:
        facts, status = read_processor_facts(), os.stat(library)
    except OSError:
        return None
    made = (llvmlite.__version__, library, status.st_size, status.st_mtime_ns, sys.maxsize)
    return digest(repr((made, facts))) if facts else None


def read_processor_facts() -> list[bytes] | None:
    """Return facts that are the same in each process and differ where machine code may; None if they are not told."""
    if sys.platform == "darwin":
        facts = [fact for name in SYSCTL_NAMES if (fact := read_sysctl(name))]
        return [platform.machine().encode(), *facts] if facts else None
    try:
        with open("/proc/cpuinfo", "rb", buffering=0) as file:
            return parse_cpuinfo(file.read(8192), platform.machine())
    except OSError:
        return None


def parse_cpuinfo(text: bytes, machine: str) -> list[bytes] | None:
    """Return the facts of the first processor in Linux's list; None if its features are not among them."""
    lines = text.partition(b"\n\n")[0].splitlines()
    facts = sorted(line for line in lines if not line.startswith(CHANGING_LINES))
    return [machine.encode(), *facts] if any(line.startswith(FEATURE_LINES) for line in facts) else None
