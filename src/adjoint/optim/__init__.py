"""Optimizers, which change parameters along their gradients, and schedules of their learning rates.

Modules, in reading order:

- `line_search`: Line search for a step that satisfies the strong Wolfe conditions.
- `step`: The base of optimizers: groups, hyperparameters, state, and the fused update.
- `adadelta`: Adadelta optimizer: steps scaled by the moving averages of squared steps and squared gradients.
- `adafactor`: Adafactor optimizer: mean squares of a matrix factored into those of its rows and columns.
- `adagrad`: Adagrad optimizer: gradients over the root of the sum of their squares.
- `adam`: Adam and AdamW optimizers.
- `adamax`: Adamax optimizer: Adam with a decaying maximum in place of the root mean square.
- `asgd`: ASGD optimizer: gradient descent with an average of the parameters.
- `lbfgs`: L-BFGS optimizer: Newton's method with the curvature of the last gradients.
- `lr`: Schedules of learning rates.
- `muon`: Muon optimizer: steps by matrices whose singular values are near 1.
- `nadam`: NAdam optimizer: Adam with Nesterov momentum.
- `radam`: RAdam optimizer: Adam with a rectified step size.
- `rmsprop`: RMSprop optimizer: gradients over the root of the moving average of their squares.
- `rprop`: Rprop optimizer: steps by the signs of the gradient.
- `sgd`: Stochastic gradient descent, with momentum.
- `swa_utils`: Averages of a model's parameters over its training, and their learning rate schedule.
- `sparse_adam`: SparseAdam, Adam for sparse gradients: only the rows that a gradient has move, and so do their moving
  averages.
"""

from __future__ import annotations

from adjoint.core.runtime.lazy_import import attach_lazy_names

_PARTS = "lr_scheduler swa_utils"
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
__all__, __getattr__, __dir__ = attach_lazy_names(__name__, _HOMES, parts=_PARTS)
