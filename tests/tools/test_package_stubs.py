"""Type checkers see PyTorch's names in `nn`, `optim` and `autograd`, which the table of compat gives at run time."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROGRAM = """
import adjoint as ad
from adjoint import autograd, nn, optim
from adjoint.nn import DataParallel

model = nn.DataParallel(nn.Linear(2, 3))
replicas: nn.Module = DataParallel(nn.Linear(2, 3))
optimizer: optim.Optimizer = optim.SparseAdam(model.parameters(), lr=0.1)
x = ad.ones(2, dtype=ad.float64, requires_grad=True)
assert autograd.gradcheck(ad.exp, x)
with autograd.forward_ad.dual_level():
    dual = autograd.forward_ad.make_dual(x, x)
jacobian = autograd.functional.jacobian(ad.exp, x)
schedule = optim.lr_scheduler.StepLR(optimizer, 1)
classes = [optim.optimizer.Optimizer, optim.adamw.AdamW, nn.modules.Linear, nn.parameter.Parameter]
functions = [nn.parallel.data_parallel, nn.grad.conv2d_input, ad.allclose, ad.pad, ad.set_default_device]
nn.NoSuchLayer
optim.NoSuchOptimizer
autograd.no_such_function
"""


def test_stubs_are_fresh() -> None:
    tool = ROOT / "tools" / "package_stubs.py"
    done = subprocess.run([sys.executable, str(tool), "--check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_program_is_checked(tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    (tmp_path / "program.py").write_text(PROGRAM)
    command = [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", "program.py"]
    environment = {"MYPYPATH": str(ROOT / "src")}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert [line.partition(" error: ")[2] for line in done.stdout.splitlines()[:-1]] == [
        'Module has no attribute "NoSuchLayer"  [attr-defined]',
        'Module has no attribute "NoSuchOptimizer"  [attr-defined]',
        'Module has no attribute "no_such_function"  [attr-defined]',
    ], done.stdout + done.stderr
