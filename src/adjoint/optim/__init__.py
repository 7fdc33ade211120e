"""Optimizers, which change parameters along their gradients, and schedules of their learning rates.

Modules, in reading order:

- `line_search`: A step along a direction that satisfies the strong Wolfe conditions.
- `step`: The base of optimizers: groups, hyperparameters, state, and the fused update.
- `adadelta`: Adadelta, whose steps are as large as those of late were, measured in the gradient of late.
- `adafactor`: Adafactor, which keeps of a matrix of mean squares only the means of its rows and columns.
- `adagrad`: Adagrad, which divides each gradient by the root of the sum of all its squares so far.
- `adam`: Adam, whose steps follow a running mean of the gradient over that of its square.
- `adamax`: Adamax: Adam with the largest gradient of late in place of the root of the mean square.
- `asgd`: ASGD: gradient descent, and the average of the parameters on its way.
- `lbfgs`: L-BFGS: Newton's method, with the curvature taken from the last gradients.
- `lr`: Schedules of learning rates.
- `muon`: Muon, whose steps are matrices with all their singular values near 1.
- `nadam`: NAdam: Adam with Nesterov's momentum.
- `radam`: RAdam: Adam which waits for its mean square to be worth dividing by.
- `rmsprop`: RMSprop, which divides each gradient by the root of its running mean square.
- `rprop`: Rprop, which heeds only the signs of the gradient.
- `sgd`: Stochastic gradient descent.
- `swa_utils`: Averages of a model's parameters over its training, and their learning rate schedule.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from adjoint.core.runtime.lazy_import import attach_lazy_names

if TYPE_CHECKING:
    from adjoint.optim import swa_utils as swa_utils
    from adjoint.optim.adadelta import Adadelta
    from adjoint.optim.adafactor import Adafactor
    from adjoint.optim.adagrad import Adagrad
    from adjoint.optim.adam import Adam, AdamW
    from adjoint.optim.adamax import Adamax
    from adjoint.optim.asgd import ASGD
    from adjoint.optim.lbfgs import LBFGS
    from adjoint.optim.lr import schedules as lr_scheduler
    from adjoint.optim.muon import Muon
    from adjoint.optim.nadam import NAdam
    from adjoint.optim.radam import RAdam
    from adjoint.optim.rmsprop import RMSprop
    from adjoint.optim.rprop import Rprop
    from adjoint.optim.sgd import SGD
    from adjoint.optim.step.optimizer import Optimizer

__all__ = [
    "ASGD", "Adadelta", "Adafactor", "Adagrad", "Adam", "AdamW", "Adamax", "LBFGS", "Muon", "NAdam", "Optimizer",
    "RAdam", "RMSprop", "Rprop", "SGD", "lr_scheduler", "swa_utils",
]  # fmt: skip
_HOMES = {
    "adadelta": "Adadelta",
    "adafactor": "Adafactor",
    "adagrad": "Adagrad",
    "adam": "Adam AdamW",
    "adamax": "Adamax",
    "asgd": "ASGD",
    "lbfgs": "LBFGS",
    "muon": "Muon",
    "nadam": "NAdam",
    "radam": "RAdam",
    "rmsprop": "RMSprop",
    "rprop": "Rprop",
    "sgd": "SGD",
    "step.optimizer": "Optimizer",
}
if not TYPE_CHECKING:
    _, __getattr__, __dir__ = attach_lazy_names(__name__, _HOMES, parts="lr_scheduler swa_utils")
