"""Optimizers, which change parameters along their gradients, and schedules of their learning rates."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from adjoint.optim.adadelta import Adadelta
from adjoint.optim.adafactor import Adafactor
from adjoint.optim.adagrad import Adagrad
from adjoint.optim.adam import Adam
from adjoint.optim.adamax import Adamax
from adjoint.optim.adamw import AdamW
from adjoint.optim.asgd import ASGD
from adjoint.optim.lbfgs import LBFGS
from adjoint.optim.muon import Muon
from adjoint.optim.nadam import NAdam
from adjoint.optim.optimizer import Optimizer
from adjoint.optim.radam import RAdam
from adjoint.optim.rmsprop import RMSprop
from adjoint.optim.rprop import Rprop
from adjoint.optim.sgd import SGD
from adjoint.optim.sparse_adam import SparseAdam

if TYPE_CHECKING:
    from adjoint.optim import lr_scheduler as lr_scheduler
    from adjoint.optim import swa_utils as swa_utils

__all__ = [
    "ASGD", "Adadelta", "Adafactor", "Adagrad", "Adam", "AdamW", "Adamax", "LBFGS", "Muon", "NAdam", "Optimizer",
    "RAdam", "RMSprop", "Rprop", "SGD", "SparseAdam", "lr_scheduler", "swa_utils",
]  # fmt: skip
_LATER = ("lr_scheduler", "swa_utils")  # imported when they are first asked for, as in adjoint/__init__.py


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module 'adjoint.optim' has no attribute {name!r}")
    return import_module(f"adjoint.optim.{name}")
