"""Made by `python3 dev.py stubs` from __init__.py and compat/namespace.py: not to be edited."""

from adjoint.compat.stubs import optimizers as _functional
from adjoint.optim import adam as adamw
from adjoint.optim import swa_utils as swa_utils
from adjoint.optim.adadelta import Adadelta as Adadelta
from adjoint.optim.adafactor import Adafactor as Adafactor
from adjoint.optim.adagrad import Adagrad as Adagrad
from adjoint.optim.adam import Adam as Adam
from adjoint.optim.adam import AdamW as AdamW
from adjoint.optim.adamax import Adamax as Adamax
from adjoint.optim.asgd import ASGD as ASGD
from adjoint.optim.lbfgs import LBFGS as LBFGS
from adjoint.optim.lr import schedules as lr_scheduler
from adjoint.optim.muon import Muon as Muon
from adjoint.optim.nadam import NAdam as NAdam
from adjoint.optim.radam import RAdam as RAdam
from adjoint.optim.rmsprop import RMSprop as RMSprop
from adjoint.optim.rprop import Rprop as Rprop
from adjoint.optim.sgd import SGD as SGD
from adjoint.optim.sparse_adam import SparseAdam as SparseAdam
from adjoint.optim.step import optimizer as optimizer
from adjoint.optim.step.optimizer import Optimizer as Optimizer

__all__ = [
    "ASGD", "Adadelta", "Adafactor", "Adagrad", "Adam", "AdamW", "Adamax", "LBFGS", "Muon", "NAdam", "Optimizer",
    "RAdam", "RMSprop", "Rprop", "SGD", "SparseAdam", "_functional", "adamw", "lr_scheduler", "optimizer",
    "swa_utils"
]
