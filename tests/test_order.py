"""The order of tests and the cases of sweeps, which the seed tells, and the tests that `-m oracle` runs."""

import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.order import takes_whole_sweeps
from tests.support.torch_use import find_torch_use, mentions_torch

ROOT = Path(__file__).parents[1]
TESTS = ROOT / "tests"
FILES = ["tests/test_dev.py", "tests/core/runtime/test_gc_pause.py", "tests/core/runtime/test_pytree.py"]


def collected(seed: int, *arguments: str, folder: Path = ROOT) -> list[str]:
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", *arguments]
    variables = {**os.environ, "ADJOINT_TEST_SEED": str(seed), "ADJOINT_NIGHTLY": ""}
    done = subprocess.run(command, env=variables, cwd=folder, capture_output=True, text=True, check=True)
    return [line for line in done.stdout.splitlines() if "::" in line]


def test_seed_tells_the_order_and_a_file_stays_together() -> None:
    orders = [collected(seed, *FILES) for seed in (1, 1, 2)]
    assert orders[0] == orders[1] != orders[2]
    assert sorted(orders[0]) == sorted(orders[2])
    for order in orders:
        files = [name.partition("::")[0] for name in order]
        assert len(list(dict.fromkeys(files))) == 1 + sum(a != b for a, b in pairwise(files))
    few = collected(1, FILES[0])
    assert few == [name for name in orders[0] if name in few]


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


def make_suite(folder: Path, text: str) -> None:
    """Write a suite of one file, whose order is drawn as that of these tests."""
    suite = folder / "suite"
    suite.mkdir()
    (folder / "pytest.ini").touch()
    (suite / "conftest.py").write_text(
        f"import sys\nsys.path.insert(0, {str(ROOT)!r})\nfrom tests.conftest import pytest_configure\n"
    )
    (suite / "test_it.py").write_text(text)


def test_a_run_of_folders_takes_one_of_each_n_neighbours_of_a_sweep(tmp_path: Path) -> None:
    make_suite(
        tmp_path,
        "import pytest\n\n\n@pytest.mark.sweep(4)\n@pytest.mark.parametrize('case', range(42))\n"
        "def test_case(case): ...\n\n\ndef test_other(): ...\n",
    )
    drawn = []
    for seed in (1, 2):
        names = collected(seed, "suite", folder=tmp_path)
        drawn.append(sorted(int(name.partition("[")[2][:-1]) for name in names if "[" in name))
        assert len(names) == 12
        assert [case // 4 for case in drawn[-1]] == list(range(11))
    assert drawn[0] != drawn[1]


@pytest.mark.parametrize(
    ("arguments", "keyword", "nightly", "expected"),
    [
        (["tests"], "", "", False),
        (["tests/ops", "tests/nn"], "", "", False),
        (["tests"], "relu", "", True),
        (["tests", "tests/test_order.py"], "", "", True),
        (["tests/test_order.py::test_it[1]"], "", "", True),
        (["tests"], "", "1", True),
    ],
)
def test_sweeps_are_whole_at_night_and_for_who_names_what_runs(
    arguments: list[str], keyword: str, nightly: str, expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ADJOINT_NIGHTLY", nightly)
    config: Any = SimpleNamespace(args=arguments, option=SimpleNamespace(keyword=keyword))
    assert takes_whole_sweeps(config) == expected


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
def test_files_that_mention_pytorch_are_known(file: str, expected: bool) -> None:
    assert mentions_torch(TESTS / file) == expected


CASES_WITH_PYTORCH = """
try:
    import torch
except ImportError:
    torch = None
CASES = []
CASES.append(torch)

@parametrize("case", CASES)
def test(case): ...

def other(): ...
"""
HELPERS = """
from tests.support.derivatives import assert_as_torch, right

def test(): right()

def other(): assert_as_torch()
"""


@pytest.mark.parametrize(
    ("text", "whole", "names"),
    [
        ("import torch", True, {"torch"}),
        ("torch: Any = pytest.importorskip('torch')\ndef test(): ...", True, {"torch"}),
        ("from tests.support.oracle import same as alike", True, {"alike"}),
        ("def test():\n    import torch", False, {"test"}),
        ("def f(): return find_spec('torch')\ndef test(): f()\ndef other(): ...", False, {"f", "test"}),
        ("@pytest.fixture\ndef theirs():\n    pytest.importorskip('torch.nn')\ndef test(theirs): ...",
         False, {"theirs", "test"}),
        ("class Tests:\n    def setup(self):\n        self.torch = importorskip('torch')", False, {"Tests"}),
        (CASES_WITH_PYTORCH, False, {"torch", "CASES", "test"}),
        (HELPERS, False, {"assert_as_torch", "other"}),
        ("PROGRAM = 'import torch'\ndef test(): run(PROGRAM)", False, set()),
    ],
)  # fmt: skip
def test_tests_that_look_for_pytorch_are_known(text: str, whole: bool, names: set[str], tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(text)
    assert find_torch_use(tmp_path / "test_it.py") == (whole, names)


def test_the_last_lines_of_a_run_are_its_failures_with_their_lines(tmp_path: Path) -> None:
    make_suite(
        tmp_path,
        "import json\nimport pytest\n\n\ndef test_one():\n    assert 1 == 2\n\n\ndef test_two():\n    json.loads('')\n"
        "\n\n@pytest.fixture\ndef broken():\n    raise ValueError\n\n\ndef test_three(broken): ...\n",
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
