"""Eager needs NumPy alone: llvmlite is not imported with the package, and may be missing; and importing is cheap."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from tests.support.scripts import SOURCE, output_of


def test_import_takes_this_tree() -> None:
    assert Path(output_of("import adjoint; print(adjoint.__file__)")) == SOURCE / "adjoint" / "__init__.py"


def test_import_leaves_llvmlite_and_the_compiler_alone() -> None:
    loaded = output_of("import sys, adjoint; print(*sys.modules)").split()
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
    assert output_of(program) == "[2.0, 4.0]"


def test_every_public_name_is_there_without_llvmlite() -> None:
    program = """
import sys
sys.modules["llvmlite"] = None
import adjoint as ad
for name in dir(ad):
    getattr(ad, name)
class Own(ad.Tensor):  # functions take subclasses from now on
    pass
print(len(dir(ad)) > 900, "adjoint.compiler.scripts.compile_all" in sys.modules)
"""
    assert output_of(program) == "True True"


def test_import_loads_nothing_outside_numpy_and_the_standard_library() -> None:
    program = "import sys, numpy; before = set(sys.modules); import adjoint; print(*set(sys.modules) - before)"
    roots = {name.partition(".")[0] for name in output_of(program).split()}
    assert "adjoint" in roots
    assert roots - {"adjoint", "numpy"} <= set(sys.stdlib_module_names)


@pytest.mark.claim("U13")
def test_training_needs_nothing_but_numpy() -> None:
    program = """
import sys
class Nothing:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("llvmlite", "torch", "jax", "scipy", "cffi", "ctypes.util"):
            raise ImportError(name)
sys.meta_path.insert(0, Nothing())
import adjoint as ad
from adjoint import nn, optim
ad.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
optimizer = optim.SGD(model.parameters(), lr=0.1)
x = ad.randn(16, 4)
losses = []
for _ in range(20):
    optimizer.zero_grad()
    loss = ((model(x) - x.sum(1, keepdim=True)) ** 2).mean()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
print(losses[-1] < losses[0] / 2, "llvmlite" in sys.modules)
"""
    assert output_of(program) == "True False"


@pytest.mark.claim("U13")
def test_the_eager_package_holds_no_machine_code() -> None:
    kinds = {p.suffix for p in (SOURCE / "adjoint").rglob("*")}
    assert kinds.isdisjoint({".so", ".pyd", ".dylib", ".c", ".pyx"})


@pytest.mark.claim("U14")
def test_import_costs_little_beyond_numpy() -> None:
    """Modules are counted, not milliseconds, which the machine decides: none that is costly and of no use yet."""
    program = "import sys, numpy; n = set(sys.modules); import adjoint; print(*sorted(set(sys.modules) - n))"
    loaded = output_of(program).split()
    costly = {
        "adjoint.compiler", "asyncio", "concurrent.futures", "ctypes.util", "doctest", "email", "http", "json",
        "logging", "multiprocessing", "numpy.testing", "pdb", "pydoc", "socket", "sqlite3", "ssl", "tkinter",
        "llvmlite", "unittest", "urllib", "xml",
    }  # fmt: skip
    assert costly.isdisjoint(loaded)
    assert len([name for name in loaded if not name.startswith("adjoint")]) < 40
