"""`compile_all` and `adjoint.run --compile`: the training regions of whole programs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from adjoint.compiler.scripts import compile_all

PROGRAM = """
import torch
from torch import nn
torch.manual_seed(0)
model = nn.Linear(4, 2)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for i in range(15):
    x = torch.randn(3, 4)
    loss = model(x).square().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(f"{loss.item():.5f}")
"""


def run(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a program under `adjoint.run`."""
    command = [sys.executable, "-m", "adjoint.run", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def test_program_runs_compiled_and_reports(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(PROGRAM, encoding="utf-8")
    eager, compiled = run("train.py", folder=tmp_path), run("--compile", "train.py", folder=tmp_path)
    assert (compiled.returncode, compiled.stdout) == (0, eager.stdout), compiled.stderr
    assert "adjoint: 1 of 1 training region compiled" in compiled.stderr
    assert "train.py:9-12  3 calls" in compiled.stderr
    assert eager.stderr == ""


def test_a_program_that_goes_through_its_own_names_meets_no_others(tmp_path: Path) -> None:
    shown = "print(sorted(n for n, f in globals().items() if callable(f)))\n"
    (tmp_path / "train.py").write_text(PROGRAM + shown, encoding="utf-8")
    eager, compiled = run("train.py", folder=tmp_path), run("--compile", "train.py", folder=tmp_path)
    assert (compiled.returncode, compiled.stdout) == (0, eager.stdout), compiled.stderr
    assert "adjoint: 1 of 1 training region compiled" in compiled.stderr


def test_without_llvmlite_it_is_said_once_and_the_program_runs_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(PROGRAM, encoding="utf-8")
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.modules['llvmlite'] = None\n", encoding="utf-8")
    paths = os.pathsep.join((str(tmp_path), os.environ.get("PYTHONPATH", "")))
    command = [sys.executable, "-m", "adjoint.run", "--compile", "train.py"]
    variables = os.environ | {"PYTHONPATH": paths}
    done = subprocess.run(command, cwd=tmp_path, env=variables, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, run("train.py", folder=tmp_path).stdout)
    assert done.stderr.count("needs the package llvmlite") == 1
    assert "region" not in done.stderr


def test_modules_of_the_program_are_compiled_and_installed_ones_are_not(tmp_path: Path) -> None:
    (tmp_path / "inner.py").write_text(PROGRAM, encoding="utf-8")
    main = "import inner\nimport csv\nprint(csv.__spec__.cached is None)\n"
    (tmp_path / "main.py").write_text(main, encoding="utf-8")
    done = run("--compile", "main.py", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "inner.py:9-12  3 calls" in done.stderr
    assert not list(tmp_path.glob("__pycache__/inner*"))


def test_module_by_name(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(PROGRAM, encoding="utf-8")
    done = run("--compile", "-m", "train", folder=tmp_path)
    assert "train.py:9-12  3 calls" in done.stderr, done.stderr


def test_without_a_training_step_it_is_said(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import torch\nprint(torch.ones(2).sum())\n", encoding="utf-8")
    done = run("--compile", "train.py", folder=tmp_path)
    assert done.stdout == "tensor(2.)\n"
    assert "no training step was found" in done.stderr


@pytest.mark.skipif(not hasattr(signal, "SIGUSR1"), reason="needs a signal for users")
def test_report_on_a_signal(tmp_path: Path) -> None:
    text = PROGRAM + "import os, signal\nos.kill(os.getpid(), signal.SIGUSR1)\nprint('on')\n"
    (tmp_path / "train.py").write_text(text, encoding="utf-8")
    done = run("--compile", "train.py", folder=tmp_path)
    assert done.stdout.endswith("on\n")
    assert done.stderr.count("1 of 1 training region compiled") == 2


def test_error_in_a_compiled_region_names_the_line(tmp_path: Path) -> None:
    text = PROGRAM.replace("x = torch.randn(3, 4)", "x = torch.randn(3, 4 if i < 14 else 5)")
    (tmp_path / "train.py").write_text(text, encoding="utf-8")
    done = run("--compile", "train.py", folder=tmp_path)
    assert done.returncode == 1
    assert 'train.py", line 9' in done.stderr
    assert "loss = model(x).square().mean()" in done.stderr


def test_function_compiles_modules_imported_later(tmp_path: Path) -> None:
    text = PROGRAM.replace("import torch\n", "import adjoint as torch\n", 1)
    (tmp_path / "inner.py").write_text(text.replace("from torch import", "from adjoint import"), encoding="utf-8")
    program = "import adjoint\nadjoint.compile_all()\nadjoint.compile_all()\nimport inner\n"
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.stderr.count("inner.py:9-12  3 calls") == 1, done.stderr


@pytest.mark.parametrize("line", ["with torch.no_grad(): pass", "optimizer.zero_grad()", "model.load_state_dict(d)"])
def test_sources_without_a_step_are_not_searched(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compile_all, "find_training_regions", lambda tree: pytest.fail("searched"))
    compile_all.compile_source(line.encode(), "model.py", {})


@pytest.mark.parametrize(
    "line", ["optimizer.step()", "g = torch.autograd.grad(y, x)", "for p in model.parameters(): p.mul_(2)"]
)
def test_sources_that_may_have_a_step_are_searched(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    searched: list[object] = []
    monkeypatch.setattr(compile_all, "find_training_regions", lambda tree: searched.append(tree) or [])
    compile_all.compile_source(line.encode(), "train.py", {})
    assert searched
