"""Thousands of damaged and hostile files per format: clear errors, no code run, no altered value, bounded memory.

Each is loaded in a process that notes every system event and whose memory is limited to twice the file.
ADJOINT_NIGHTLY=1 runs 2,000 files of each format.
"""

import json
import os
import subprocess
import sys
from collections import Counter, OrderedDict
from pathlib import Path
from typing import Any

import pytest

import adjoint as ad
from adjoint import serialization

NIGHTLY = os.environ.get("ADJOINT_NIGHTLY") == "1"
ROOT = Path(__file__).parents[2]
KINDS = ["torch.pt", "legacy.pt", "ours.pt", "theirs.safetensors", "ours.safetensors"]

pytestmark = pytest.mark.skipif(
    not os.path.exists("/proc/self/status"), reason="memory is read and limited as on Linux"
)


def example(lib: Any, large: bool) -> Any:
    """A checkpoint with the tensors of a library."""
    weight = lib.arange(1_000_000.0 if large else 12.0).reshape(-1, 4)
    mask = lib.zeros(300_000, dtype=lib.bool) if large else lib.tensor([True, False, True])
    model = OrderedDict(weight=weight, bias=lib.ones(3, dtype=lib.float64), mask=mask, row=weight[1])
    return {"model": model, "epoch": 3, "lr": [0.1, None, "text", (1, 2)], "z": lib.tensor([1 + 2j, 3])}


def sound(kind: str, folder: Path, large: bool = False) -> Path:
    """A file that is not damaged."""
    path = folder / "archive.pt"  # whose name is that of the folder within
    if kind == "ours.pt":
        ad.save(example(ad, large), path)
    elif kind == "ours.safetensors":
        serialization.save_safetensors(example(ad, large), path)
    elif kind == "theirs.safetensors":
        torch, other = pytest.importorskip("torch"), pytest.importorskip("safetensors.torch")
        tensors = example(torch, large)["model"]
        other.save_file({name: tensor.clone() for name, tensor in tensors.items()}, path)
    else:
        torch = pytest.importorskip("torch")
        torch.save(example(torch, large), path, _use_new_zipfile_serialization=kind == "torch.pt")
    return path


def outcomes(kind: str, path: Path, first: int, count: int) -> list[dict[str, Any]]:
    """What a process of its own says of so many files made from the one at a path."""
    command = [sys.executable, "-m", "tests.support.files.damage_run", str(path), kind, str(first), str(count)]
    variables = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, sys.path)])}
    done = subprocess.run(command, cwd=path.parent, env=variables, capture_output=True, text=True, check=False)
    said = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 0, f"after {len(said)} files: {done.stderr[-3000:]}"
    return said


@pytest.mark.parametrize("kind", KINDS)
def test_damaged_and_hostile_files(kind: str, tmp_path: Path) -> None:
    count = 2000 if NIGHTLY else 100
    said = outcomes(kind, sound(kind, tmp_path), 0, count)
    assert len(said) == count
    assert [(one["seed"], one["wrong"]) for one in said if one["wrong"]] == []
    assert Counter(one["outcome"] for one in said)["refused"] > count / 2


@pytest.mark.parametrize("kind", KINDS)
def test_damaged_large_files(kind: str, tmp_path: Path) -> None:
    count = 200 if NIGHTLY else 10
    said = outcomes(kind, sound(kind, tmp_path, large=True), 5000, count)
    assert [(one["seed"], one["wrong"]) for one in said if one["wrong"]] == []
