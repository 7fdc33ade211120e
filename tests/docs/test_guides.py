"""What guides show but a page cannot run: the program for several ranks, on two of them."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.ranks import environment_of_ranks, why_mpi_fails

GUIDES = Path(__file__).parents[2] / "docs" / "guides"


def test_program_for_several_processes_has_the_same_losses_on_two(tmp_path: Path) -> None:
    pytest.importorskip("llvmlite")
    if reason := why_mpi_fails():
        pytest.skip(reason)
    page = (GUIDES / "several_processes.md").read_text(encoding="utf-8")
    cells = re.findall(r"^```\{code-cell\} python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    (program,) = (cell for cell in cells if "init_process_group" in cell)
    (tmp_path / "train.py").write_text(program, encoding="utf-8")
    (command,) = re.findall(r"^python -m (adjoint\.distributed\.run) --nproc-per-node 4 train\.py$", page, re.MULTILINE)
    alone, together = (read_losses(command, ranks, tmp_path) for ranks in (1, 2))
    assert len(alone) == 8
    assert together == pytest.approx(alone, abs=2e-4)  # they are printed with four digits


def read_losses(launcher: str, ranks: int, folder: Path) -> list[float]:
    """Return the losses that train.py in `folder` prints, one for each epoch."""
    command = [sys.executable, "-m", launcher, f"--nproc-per-node={ranks}", "train.py"]
    done = subprocess.run(command, cwd=folder, env=environment_of_ranks(), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return [float(loss) for loss in re.findall(r"^epoch \d: loss (\S+)$", done.stdout, re.MULTILINE)]
