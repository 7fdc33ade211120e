"""A step as a library: an object file or a shared object, a header for C, and a loader for NumPy.

`NAME.o` is complete: any linker takes it into a program. `NAME.so` is made from it by the C compiler, where there is
one: whoever writes C has one, and no other program is sure to make what the system's loader wants. The weights are not
in the code: `NAME.bin` holds them, `NAME_load` reads it, and `NAME_save` writes it. `NAME_loader.py` calls a shared
object with NumPy's arrays.
"""

from __future__ import annotations

import platform
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from adjoint.compiler.program.export.entry_function import module_texts
from adjoint.compiler.program.export.exported_step import ExportedStep, ExportError
from adjoint.compiler.program.export.native.interface_text import write_header, write_loader

COMPILERS = ("cc", "gcc", "clang")


def write_library(step: ExportedStep, path: Path) -> list[Path]:
    """Write the library, its header, its memory, and the loader of a shared object; the first is the library.

    Raises: ExportError where a shared object is asked for that cannot be made here.
    """
    compiler = None if path.suffix == ".o" else _find_compiler(step, path)
    name = re.sub(r"^(?=\d)|\W", "_", path.stem)
    code = step.target.emit_linked_object(module_texts(step, name, defines_memory=True))
    if compiler is not None:
        code = _link_shared_object(code, compiler)
    files = {path: code, path.with_suffix(".bin"): step.memory.held_content()}
    files[path.with_suffix(".h")] = write_header(step, name, path).encode()
    if compiler is not None:  # under another name: Python would take NAME.so for a module
        files[path.with_name(f"{path.stem}_loader.py")] = write_loader(step, name, path).encode()
    for file, content in files.items():
        file.write_bytes(content)
    return [*files]


def _find_compiler(step: ExportedStep, path: Path) -> str:
    """The compiler that makes a shared object."""
    instead = f"export to {path.with_suffix('.o').name!r} and link that"
    if path.suffix != ".so":
        raise ExportError(f"a library's name ends in .so or .o, but got {path.name!r}")
    machine, _, system = step.target.triple.partition("-")
    if machine != platform.machine() or "linux" not in system or platform.system() != "Linux":
        raise ExportError(f"a shared object for {step.target.triple} cannot be made on this machine: {instead}")
    found = next(filter(None, map(shutil.which, COMPILERS)), None)
    if found is None:
        raise ExportError(f"a shared object needs a C compiler ({', '.join(COMPILERS)}), and none is here: {instead}")
    return found


def _link_shared_object(code: bytes, compiler: str) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        source, made = Path(folder, "step.o"), Path(folder, "step.so")
        source.write_bytes(code)
        command = [compiler, "-shared", "-o", str(made), str(source), "-lm"]
        answer = subprocess.run(command, capture_output=True, text=True, check=False)
        if answer.returncode:
            raise ExportError(f"{compiler} made no shared object: {answer.stderr.strip()}")
        return made.read_bytes()
