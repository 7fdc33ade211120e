"""Optimizers, which change parameters along their gradients, and schedules of their learning rates."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adjoint.core.later import later

if TYPE_CHECKING:
    from adjoint.optim import lr_scheduler as lr_scheduler
    from adjoint.optim import swa_utils as swa_utils
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

__all__ = [
    "ASGD", "Adadelta", "Adafactor", "Adagrad", "Adam", "AdamW", "Adamax", "LBFGS", "Muon", "NAdam", "Optimizer",
    "RAdam", "RMSprop", "Rprop", "SGD", "SparseAdam", "lr_scheduler", "swa_utils",
]  # fmt: skip
_HOMES = {
    "adadelta": "Adadelta", "adafactor": "Adafactor", "adagrad": "Adagrad", "adam": "Adam", "adamax": "Adamax",
    "adamw": "AdamW", "asgd": "ASGD", "lbfgs": "LBFGS", "muon": "Muon", "nadam": "NAdam", "optimizer": "Optimizer",
    "radam": "RAdam", "rmsprop": "RMSprop", "rprop": "Rprop", "sgd": "SGD", "sparse_adam": "SparseAdam",
}  # fmt: skip
if not TYPE_CHECKING:
    _, __getattr__, __dir__ = later(__name__, _HOMES, parts="lr_scheduler swa_utils")
