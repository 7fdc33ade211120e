"""Training that is resumed from a checkpoint in a new process has the bits of training that never stopped."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import hashlib, sys
import numpy as np
import adjoint as ad
from adjoint import data, nn, optim
import adjoint.nn.functional as F

path, compiled, workers, schedule_name = sys.argv[1], sys.argv[2] == "compiled", int(sys.argv[3]), sys.argv[4]
begin, end = int(sys.argv[5]), int(sys.argv[6])


class Noisy(data.Dataset):
    def __len__(self): return 32
    def __getitem__(self, i):
        x = ad.arange(6.0) * (i + 1) / 32
        return x + 0.01 * ad.randn(6) + 0.01 * float(np.random.rand()), i % 3


if __name__ == "__main__":
    ad.manual_seed(begin + 100)  # what a new process happens to begin with
    np.random.seed(begin + 100)
    model = nn.Sequential(nn.Linear(6, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.3), nn.Linear(16, 3))
    optimizer = optim.AdamW(model.parameters(), lr=0.01, weight_decay=0.1)
    make = {"cycle": lambda: optim.lr_scheduler.OneCycleLR(optimizer, 0.05, total_steps=20),
            "plateau": lambda: optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=0)}
    schedule = make[schedule_name]()
    shuffling = ad.Generator().manual_seed(7)
    loader = data.DataLoader(Noisy(), 8, shuffle=True, num_workers=workers, generator=shuffling)

    def step(x, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    step = ad.compile(step) if compiled else step
    saved, done = None, 0
    if begin:
        saved = ad.load(path)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        schedule.load_state_dict(saved["schedule"])
        done = saved["done"]
        shuffling.set_state(saved["order"])
    while done < end:
        order = shuffling.get_state()  # of the epoch that begins
        batches = enumerate(loader, done - done % 4)
        if saved is not None:
            for _ in range(done % 4):
                next(batches)  # those that were done already
            ad.set_rng_state(saved["rng"])
            np.random.set_state(saved["numpy"])
            saved = None
        for _, (x, y) in batches:
            loss = step(x, y)
            schedule.step(*([loss.item()] if schedule_name == "plateau" else []))
            done += 1
            if done == end:
                break
    state = {
        "model": model.state_dict(), "optimizer": optimizer.state_dict(), "schedule": schedule.state_dict(),
        "done": done, "order": order, "rng": ad.get_rng_state(), "numpy": np.random.get_state(),
    }
    ad.save(state, path)
    digest = hashlib.sha256()
    moments = [value for entry in optimizer.state_dict()["state"].values() for value in entry.values()]
    for value in [*model.state_dict().values(), *moments]:
        digest.update(np.asarray(value).tobytes())
    digest.update(repr((schedule.state_dict(), optimizer.param_groups[0]["lr"], loss.item())).encode())
    digest.update(ad.get_rng_state().numpy().tobytes())
    digest.update(np.random.rand(3).tobytes())
    print(digest.hexdigest())
"""
ENVIRONMENT = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}


@pytest.mark.parametrize(
    ("way", "workers", "schedule"),
    [
        pytest.param("eager", 0, "cycle", marks=pytest.mark.nightly),
        ("eager", 2, "cycle"),
        pytest.param("compiled", 0, "cycle", marks=pytest.mark.nightly),
        ("compiled", 2, "plateau"),
    ],
)
def test_resumed_in_a_new_process(way: str, workers: int, schedule: str, tmp_path: Path) -> None:
    if way == "compiled":
        pytest.importorskip("llvmlite")
    program = tmp_path / "train.py"
    program.write_text(PROGRAM, encoding="utf-8")

    def run(path: str, begin: int, end: int) -> str:
        numbers = [str(workers), schedule, str(begin), str(end)]
        command = [sys.executable, program.name, path, way, *numbers]
        done = subprocess.run(command, cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    whole = run("whole", 0, 10)
    assert run("part", 0, 5) != whole
    assert run("part", 5, 10) == whole
    assert run("whole", 10, 11) == run("part", 10, 11)  # the files are as good as each other
