"""The demo on ranks: two have the losses of one process."""

import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from tests.support.ranks import environment_of_ranks, why_mpi_fails

pytestmark = pytest.mark.skipif(find_spec("sklearn") is None, reason="scikit-learn is not installed")

PROGRAM = Path(__file__).parents[2] / "examples" / "digits_ranks.py"


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "error", str(PROGRAM), *arguments]
    return subprocess.run(command, env=environment_of_ranks(), capture_output=True, text=True, check=False)


def test_two_ranks_have_the_losses_of_one_process() -> None:
    if reason := why_mpi_fails():
        pytest.skip(reason)
    done = run("--epochs=1")
    assert done.returncode == 0, done.stderr
    told = re.findall(r"^(one process|2 ranks) +44 steps .* last loss (\S+)$", done.stdout, re.MULTILINE)
    assert [name for name, _ in told] == ["one process", "2 ranks"]
    worst = re.search(r"differ by at most (\S+), relatively; 1e-04 is allowed", done.stdout)
    assert worst is not None
    assert float(worst[1]) < 1e-5


def test_a_batch_is_divided_by_the_ranks() -> None:
    done = run("--ranks=5")
    assert done.returncode == 2
    assert "--ranks must divide 32, the size of a batch, and 5 does not" in done.stderr
