"""Exported libraries, called from C and from NumPy alone."""

import platform
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import adjoint as ad
import adjoint.nn.functional as F
from adjoint import nn, optim

GCC = shutil.which("gcc")
needs_compiler = pytest.mark.skipif(GCC is None or platform.system() != "Linux", reason="no gcc on the path, on Linux")
PROGRAM = """
#include "train.h"
#include <stdlib.h>
int main(int count, char **words) {
    if (train_load("train.bin")) return 1;
    float x[32 * 8], loss;
    int64_t y[32];
    for (int call = 1; call < count; call++) {
        for (int i = 0; i < 32 * 8; i++) x[i] = (float)(i % 7) - 3;
        for (int i = 0; i < 32; i++) y[i] = (i + atoi(words[call])) % 4;
        if (atoi(words[call]) < 0) y[3] = 9;
        int failed = train_step(x, y, &loss);
        if (failed) printf("failed %d\\n", failed); else printf("%.9g\\n", loss);
    }
    return train_save("after.bin");
}
"""


def training_step() -> tuple[object, nn.Module]:
    ad.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
    optimizer = optim.Adam(model.parameters(), lr=1e-2)

    @ad.compile
    def step(x: ad.Tensor, y: ad.Tensor) -> ad.Tensor:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    return step, model


def batch(shift: int) -> tuple[ad.Tensor, ad.Tensor]:
    return (ad.arange(32 * 8) % 7 - 3).float().view(32, 8), (ad.arange(32) + shift) % 4


@needs_compiler
def test_a_program_in_c_trains_as_python(tmp_path: Path) -> None:
    step, model = training_step()
    step(*batch(0))
    made = step.export(tmp_path / "train.o")
    assert [path.name for path in made] == ["train.o", "train.bin", "train.h"]
    (tmp_path / "main.c").write_text(PROGRAM)
    command = [str(GCC), "-Wall", "-Wextra", "-Werror", "main.c", "train.o", "-lm", "-o", "main"]
    subprocess.run(command, cwd=tmp_path, check=True)
    answer = subprocess.run(["./main", "0", "1", "-9", "2"], cwd=tmp_path, check=True, capture_output=True, text=True)
    losses = [step(*batch(shift)).item() for shift in (0, 1, 2)]
    first, second, failed, third = answer.stdout.splitlines()
    assert failed == "failed 1"
    assert np.allclose([float(first), float(second), float(third)], losses, rtol=1e-6)
    after = (tmp_path / "after.bin").read_bytes()
    assert len(after) == len((tmp_path / "train.bin").read_bytes())
    assert np.ascontiguousarray(model[0].weight.detach().numpy()).tobytes() in after


@needs_compiler
def test_a_shared_object_is_called_with_numpy_alone(tmp_path: Path) -> None:
    step, model = training_step()
    x, y = batch(1)
    step(x, y)
    made = step.export(tmp_path / "train.so", "native")
    assert [path.name for path in made] == ["train.so", "train.bin", "train.h", "train_loader.py"]
    np.savez(tmp_path / "batch.npz", x=x.numpy(), y=y.numpy())
    code = """
import numpy as np, sys, train_loader
given = np.load("batch.npz")
print(float(train_loader.step(given["x"], given["y"])))
assert train_loader.state()["lr"] == 0.01 and "adjoint" not in sys.modules
try:
    train_loader.step(given["x"], given["y"] + 9)
except IndexError as error:
    print(error)
np.save("weight.npy", train_loader.state()["0.weight"])
"""
    command = [sys.executable, "-c", code]
    answer = subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, text=True)
    loss, error = answer.stdout.splitlines()
    assert float(loss) == step(x, y).item()
    assert error.startswith("Target")
    assert np.array_equal(np.load(tmp_path / "weight.npy"), model[0].weight.detach().numpy())


def test_what_cannot_be_made_is_told_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    step = ad.compile(lambda x: x + 1)
    step(ad.ones(3))
    with pytest.raises(RuntimeError, match=r"a library's name ends in \.so or \.o, but got 'step\.dll'"):
        step.export(tmp_path / "step.dll")
    other = "x86-64-v2" if platform.machine() == "aarch64" else "aarch64"
    with pytest.raises(RuntimeError, match=r"cannot be made on this machine: export to 'step\.o' and link that"):
        step.export(tmp_path / "step.so", other)
    if platform.system() == "Linux":
        monkeypatch.setenv("PATH", "")
        with pytest.raises(RuntimeError, match="needs a C compiler"):
            step.export(tmp_path / "step.so")
    assert [*tmp_path.iterdir()] == []
