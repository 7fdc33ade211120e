"""Modes of an export, under PyTorch's names, and its errors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum

from adjoint.core.typing import Operand
from adjoint.nn.module.module import Module


class OnnxExporterError(RuntimeError):
    """Model that ONNX cannot express; the message names the op and the user's line."""


class UnsupportedOperatorError(OnnxExporterError):
    """Op without a counterpart in ONNX."""


class OnnxExporterWarning(UserWarning):
    """Warning that the file differs from what was asked for."""


class TrainingMode(Enum):
    """Mode in which a model is exported with `dynamo=False`: that of inference, its own, or that of training."""

    EVAL = 0
    PRESERVE = 1
    TRAINING = 2


class OperatorExportTypes(Enum):
    """Form of ops without a counterpart; all but `ONNX` are refused."""

    ONNX = 0
    ONNX_ATEN = 1
    ONNX_ATEN_FALLBACK = 2
    ONNX_FALLTHROUGH = 3


@contextmanager
def training_mode(model: Operand, wanted: TrainingMode) -> Iterator[None]:
    """Export in a mode; each module gets its own back."""
    if not isinstance(model, Module) or wanted in (TrainingMode.PRESERVE, None):
        yield
        return
    before = [(module, module.training) for module in model.modules()]
    try:
        model.train(wanted is TrainingMode.TRAINING)
        yield
    finally:
        for module, is_training in before:
            module.training = is_training


@contextmanager
def exporting() -> Iterator[None]:
    """Let `is_in_onnx_export()` be true in this block."""
    _running.append(True)
    try:
        yield
    finally:
        _running.pop()


def is_in_onnx_export() -> bool:
    """Return whether a model is being exported."""
    return bool(_running)


def register_custom_op_symbolic(symbolic_name: str, symbolic_fn: Callable[..., object], opset_version: int) -> None:
    """Accept a translation that PyTorch's TorchScript exporter would use: like PyTorch's default one, ours does not."""


def unregister_custom_op_symbolic(symbolic_name: str, opset_version: int) -> None:
    """Accept the end of such a translation."""


_running: list[bool] = []
