"""Tests on aarch64 without such a machine: `python3 tools/arm64.py [FOLDER] [pytest arguments …]`.

The first call makes a Debian of aarch64 in FOLDER (build/arm64 unless given), with Python, NumPy, llvmlite and pytest
for it; that takes a few minutes and 600 MB. Then the tests run under qemu's emulation of a user's program, five to ten
times slower than the processor. Without arguments those run whose bits or calls depend on the processor. It needs
debootstrap, dpkg and qemu-user-static: `apt-get install debootstrap qemu-user-static`. The exit status is pytest's, or
77 where these are missing or Debian's archive cannot be reached.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SUITE, VERSION = "bookworm", "3.11"  # of Debian, and its Python
MIRROR = os.environ.get("DEBIAN_MIRROR", "")  # debootstrap's own choice if empty
PLATFORMS = ("manylinux2014_aarch64", "manylinux_2_28_aarch64", "any")
PACKAGES = ("numpy>=2.0", "llvmlite>=0.45", "ml-dtypes>=0.5", "hypothesis>=6.100", "pytest>=8.4")
NOT_TO_BE_HAD = 77  # an exit status that pytest does not have
CLEARED = ("ADJOINT_CACHE_DIR", "ADJOINT_NIGHTLY", "ADJOINT_ORACLE", "VIRTUAL_ENV")  # of a run that starts this one
PARTS = (
    "tests/compiler/llvm", "tests/compiler/runtime", "tests/compiler/trace", "tests/compiler/kernels/matmul",
    "tests/integration", "tests/nn",
)  # fmt: skip


def main(arguments: list[str]) -> int:
    """Make the root if need be, and run the tests in it."""
    root = Path(arguments.pop(0)) if arguments and not arguments[0].startswith(("-", "tests")) else ROOT / "build/arm64"
    missing = [name for name in ("debootstrap", "dpkg-deb", "qemu-aarch64-static") if shutil.which(name) is None]
    if missing:
        sys.stderr.write(f"arm64.py needs {', '.join(missing)}: apt-get install debootstrap qemu-user-static\n")
        return NOT_TO_BE_HAD
    python = root.resolve() / "python"
    try:
        if not python.exists():
            make_root(root.resolve(), python)
    except subprocess.CalledProcessError as error:
        sys.stderr.write(f"arm64.py cannot make the system: {error}\n")
        return NOT_TO_BE_HAD
    where = {"PYTHONHOME": f"{root.resolve()}/usr", "PYTHONPATH": f"{root.resolve()}/packages:{ROOT / 'src'}"}
    inherited = {name: value for name, value in os.environ.items() if name not in CLEARED}
    command = [python, "-m", "pytest", "-p", "no:cacheprovider", "-q", *(arguments or PARTS)]
    return subprocess.run(command, cwd=ROOT, env={**inherited, **where}, check=False).returncode


def make_root(root: Path, python: Path) -> None:
    """Unpack Debian and the wheels without running either; `python`, written last, starts the emulation."""
    first_stage = ["debootstrap", "--arch=arm64", "--foreign", "--variant=minbase", "--include=python3"]
    subprocess.run([*first_stage, SUITE, str(root), *([MIRROR] if MIRROR else [])], check=True)
    for archive in sorted((root / "var/cache/apt/archives").glob("*.deb")):
        subprocess.run(["dpkg-deb", "--extract", archive, root], check=True)
    choice = [f"--platform={name}" for name in PLATFORMS] + [f"--python-version={VERSION}", "--only-binary=:all:"]
    install = [sys.executable, "-m", "pip", "install", "--quiet", f"--target={root}/packages", *choice, *PACKAGES]
    subprocess.run(install, check=True)
    # Tests start Python again by `sys.executable`: the name of this script, which the machine itself can start.
    start = f'exec qemu-aarch64-static -L "{root}" -0 "$0" "{root}/usr/bin/python{VERSION}" "$@"'
    python.write_text(f"#!/bin/sh\n{start}\n", encoding="utf-8")
    python.chmod(0o755)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
