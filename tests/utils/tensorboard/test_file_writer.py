"""Without TensorBoard the error says what to install."""

import sys

import pytest


def test_without_tensorboard_the_import_fails_and_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    monkeypatch.delitem(sys.modules, "tensorboard.version", raising=False)
    with pytest.raises(ImportError, match="pip install tensorboard"):
        from adjoint.utils.tensorboard import SummaryWriter  # noqa: F401
