"""What an installation is for: train eagerly, compile, save and load, run a script. Needs the package and pytest alone.

`python3 dev.py release` runs this file in environments that have the wheel and no source tree.
"""

from __future__ import annotations

import subprocess
import sys
import warnings
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, entry_points, version
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

import adjoint as ad
import adjoint.nn.functional as F
from adjoint import nn, optim

Step = Callable[[ad.Tensor, ad.Tensor], ad.Tensor]
SCRIPT = """
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(3, 1)
optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
x = torch.randn(32, 3)
y = x.sum(1, keepdim=True)
for _ in range(200):
    optimizer.zero_grad()
    loss = ((model(x) - y) ** 2).mean()
    loss.backward()
    optimizer.step()
print("small" if loss.item() < 1e-2 else loss.item())
"""


def training() -> tuple[nn.Module, Step, ad.Tensor, ad.Tensor]:
    """A small classifier, its training step, and a batch that it can learn by heart."""
    ad.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.LayerNorm(32), nn.Linear(32, 3))
    optimizer = optim.AdamW(model.parameters(), lr=1e-2)
    x = ad.randn(64, 8)

    def step(x: ad.Tensor, y: ad.Tensor) -> ad.Tensor:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    return model, step, x, x[:, :3].argmax(1)


def losses_of(step: Step, x: ad.Tensor, y: ad.Tensor) -> list[float]:
    return [step(x, y).item() for _ in range(60)]


def test_an_mlp_learns_eagerly() -> None:
    _, step, x, y = training()
    losses = losses_of(step, x, y)
    assert losses[-1] < losses[0] / 4


def test_a_compiled_step_has_the_losses_of_the_eager_one() -> None:
    expected = losses_of(*training()[1:])
    _, step, x, y = training()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        compiled = ad.compile(step)
        losses = losses_of(compiled, x, y)
    if find_spec("llvmlite") is None:
        assert losses == expected
        assert ["llvmlite" in str(warning.message) for warning in caught] == [True]
    else:
        np.testing.assert_allclose(losses, expected, rtol=1e-4)
        assert compiled.compilations == 1
        assert "kernel" in str(compiled.explain())


def test_a_model_is_saved_and_loaded(tmp_path: Path) -> None:
    model, step, x, y = training()
    step(x, y)
    ad.save(model.state_dict(), tmp_path / "model.pt")
    other = training()[0]
    assert not np.array_equal(other(x).detach().numpy(), model(x).detach().numpy())
    other.load_state_dict(ad.load(tmp_path / "model.pt"))
    assert np.array_equal(other(x).detach().numpy(), model(x).detach().numpy())


def test_bfloat16_works_or_names_the_package_that_it_needs() -> None:
    if find_spec("ml_dtypes") is None:
        with pytest.raises(ImportError, match="pip install ml_dtypes"):
            ad.ones(2).to(ad.bfloat16)
    else:
        assert ad.ones(2).to(ad.bfloat16).sum().item() == 2


def test_the_command_runs_a_script_written_for_pytorch(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    done = subprocess.run([*command(), "train.py"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "small\n"), done.stderr


def command() -> list[str]:
    """The installed command, or the module where the source tree is used as it stands."""
    try:
        assert version("adjoint-autograd") == ad.__version__
    except PackageNotFoundError:
        return [sys.executable, "-m", "adjoint"]
    (entry,) = entry_points(group="console_scripts", name="adjoint")
    installed = Path(sys.executable).with_name("adjoint")
    assert (entry.value, installed.exists()) == ("adjoint.__main__:main", True)
    return [str(installed)]
