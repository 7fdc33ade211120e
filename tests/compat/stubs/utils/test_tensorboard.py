"""TensorBoard's writer: tensorboardX gets arrays where a program gives tensors."""

import sys
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint import nn


class Recorder:
    """What stands for tensorboardX's writer: it notes what it is given."""

    def __init__(self, log_dir: str = "") -> None:
        self.log_dir, self.given = log_dir, []

    def add_histogram(self, tag: str, values: Any, global_step: int | None = None) -> None:
        self.given.append((tag, values, global_step))

    def add_scalars(self, main_tag: str, tag_scalar_dict: dict[str, Any]) -> None:
        self.given.append((main_tag, tag_scalar_dict))

    def add_graph(self, model: Any) -> None:
        self.given.append(model)


def test_tensors_and_parameters_are_given_as_arrays(monkeypatch: pytest.MonkeyPatch) -> None:
    package = ModuleType("tensorboardX")
    package.SummaryWriter = Recorder  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "tensorboardX", package)
    from adjoint.utils.tensorboard import SummaryWriter

    from adjoint.utils import tensorboard

    assert tensorboard.writer.SummaryWriter is SummaryWriter
    layer = nn.Linear(3, 2)
    writer = SummaryWriter("runs")
    assert isinstance(writer, Recorder)
    assert writer.log_dir == "runs"
    writer.add_histogram("weight", layer.weight, 4)
    writer.add_histogram("kept", values=[ad.tensor(2.0), 3.0])
    writer.add_scalars("losses", {"train": ad.tensor(0.5, requires_grad=True), "test": 1.0})
    writer.add_graph(layer)
    (tag, values, step), (_, kept, _), (_, losses), model = writer.given
    assert (tag, type(values), step) == ("weight", np.ndarray, 4)
    assert np.array_equal(values, layer.weight.detach().numpy())
    assert kept == [2.0, 3.0]
    assert losses == {"train": 0.5, "test": 1.0}
    assert np.isscalar(losses["train"])
    assert model is layer


def test_without_tensorboardx_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tensorboardX", None)
    with pytest.raises(ImportError, match="pip install tensorboardX"):
        from adjoint.utils.tensorboard import SummaryWriter  # noqa: F401
