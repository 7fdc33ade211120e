"""Optimizers, which change parameters along their gradients, and schedules of their learning rates."""

from __future__ import annotations

from adjoint.optim import lr_scheduler as lr_scheduler
from adjoint.optim.adam import Adam, AdamW
from adjoint.optim.optimizer import Optimizer
from adjoint.optim.sgd import SGD

__all__ = ["Adam", "AdamW", "Optimizer", "SGD", "lr_scheduler"]
