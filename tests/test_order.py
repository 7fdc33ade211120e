"""The order of tests, which the seed tells, and the tests that `-m oracle` runs."""

import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest
from tests.conftest import speaks_of_torch

ROOT = Path(__file__).parents[1]
TESTS = ROOT / "tests"
FILES = ["tests/test_dev.py", "tests/core/runtime/test_gc_pause.py", "tests/core/runtime/test_pytree.py"]


def collected(seed: int, *arguments: str, folder: Path = ROOT) -> list[str]:
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", *arguments]
    variables = {**os.environ, "ADJOINT_TEST_SEED": str(seed)}
    done = subprocess.run(command, env=variables, cwd=folder, capture_output=True, text=True, check=True)
    return [line for line in done.stdout.splitlines() if "::" in line]


def test_seed_tells_the_order_and_a_file_stays_together() -> None:
    orders = [collected(seed, *FILES) for seed in (1, 1, 2)]
    assert orders[0] == orders[1] != orders[2]
    assert sorted(orders[0]) == sorted(orders[2])
    for order in orders:
        files = [name.partition("::")[0] for name in order]
        assert len(list(dict.fromkeys(files))) == 1 + sum(a != b for a, b in pairwise(files))


def test_folders_within_folders_are_shuffled_too(tmp_path: Path) -> None:
    """Pytest asks a conftest's hooks about a folder's contents only where it has been there before."""
    within = tmp_path / "suite" / "part"
    within.mkdir(parents=True)
    (tmp_path / "pytest.ini").touch()
    (tmp_path / "suite" / "conftest.py").write_text(
        f"import sys\nsys.path.insert(0, {str(ROOT)!r})\nfrom tests.conftest import pytest_configure\n"
    )
    for i in range(6):
        (within / f"test_{i}.py").write_text("def test_it(): ...\n")
    one, other = (collected(seed, "suite", folder=tmp_path) for seed in (1, 2))
    assert one != sorted(one) == sorted(other) != other
    assert one != other


def test_fewer_files_keep_their_order() -> None:
    several = collected(1, *FILES)
    few = collected(1, FILES[0])
    assert few == [name for name in several if name in few]


@pytest.mark.parametrize(
    ("file", "expected"),
    [
        ("core/runtime/test_gc_pause.py", False),
        ("testing/test_comparison.py", True),  # looks for PyTorch within a test
        ("support/oracle.py", True),
        ("functions/test_loss.py", True),  # imports what does
        ("serialization/test_safetensors.py", True),
    ],
)
def test_files_that_compare_with_pytorch_are_known(file: str, expected: bool) -> None:
    assert speaks_of_torch(TESTS / file) == expected


def test_the_last_lines_of_a_run_are_its_failures_with_their_lines(tmp_path: Path) -> None:
    suite = tmp_path / "suite"
    suite.mkdir()
    (tmp_path / "pytest.ini").touch()
    (suite / "conftest.py").write_text(
        f"import sys\nsys.path.insert(0, {str(ROOT)!r})\nfrom tests.conftest import pytest_configure\n"
    )
    (suite / "test_it.py").write_text(
        "import json\nimport pytest\n\n\ndef test_one():\n    assert 1 == 2\n\n\ndef test_two():\n    json.loads('')\n"
        "\n\n@pytest.fixture\ndef broken():\n    raise ValueError\n\n\ndef test_three(broken): ...\n"
    )
    for workers in ((), ("-n", "2")):
        command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *workers, "suite"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        *_, title, one, two, three, total = done.stdout.splitlines()
        assert "short test summary info" in title
        names = {line.partition(" - ")[0] for line in (one, two, three)}
        file = "suite/test_it.py::test_"
        assert names == {f"FAILED {file}one (line 6)", f"FAILED {file}two (line 10)", f"ERROR {file}three (line 15)"}
        assert "2 failed, 1 error" in total
        assert done.stderr == ""
