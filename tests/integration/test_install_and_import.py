"""Eager needs NumPy alone: llvmlite is not imported with the package, and may be missing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src"


def run(program: str) -> str:
    """Run `program` in a new interpreter that finds the package in this tree; return what it printed."""
    environment = {**os.environ, "PYTHONPATH": str(SOURCE)}
    command = [sys.executable, "-W", "error", "-c", program]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_import_takes_this_tree() -> None:
    assert Path(run("import adjoint; print(adjoint.__file__)")) == SOURCE / "adjoint" / "__init__.py"


def test_import_leaves_llvmlite_and_the_compiler_alone() -> None:
    loaded = run("import sys, adjoint; print(*sys.modules)").split()
    assert "adjoint" in loaded
    assert not [name for name in loaded if name.startswith(("llvmlite", "adjoint.compiler"))]


def test_import_and_gradient_without_llvmlite() -> None:
    program = """
import sys
sys.modules["llvmlite"] = None
import adjoint as ad
x = ad.tensor([1.0, 2.0], requires_grad=True)
(x * x).sum().backward()
print(x.grad.tolist())
"""
    assert run(program) == "[2.0, 4.0]"


def test_import_loads_nothing_outside_numpy_and_the_standard_library() -> None:
    program = "import sys, numpy; before = set(sys.modules); import adjoint; print(*set(sys.modules) - before)"
    roots = {name.partition(".")[0] for name in run(program).split()}
    assert "adjoint" in roots
    assert roots - {"adjoint", "numpy"} <= set(sys.stdlib_module_names)
