"""Activation functions as modules."""

from __future__ import annotations

from adjoint.nn import functional as F
from adjoint.nn.from_function import module_from

__all__ = [
    "ELU", "GELU", "Hardtanh", "LeakyReLU", "LogSigmoid", "LogSoftmax", "ReLU", "ReLU6", "SELU", "SiLU", "Sigmoid",
    "Softmax", "Softmin", "Softplus", "Tanh", "Tanhshrink",
]  # fmt: skip

ReLU = module_from(F.relu, "ReLU", __name__)
LeakyReLU = module_from(F.leaky_relu, "LeakyReLU", __name__)
ReLU6 = module_from(F.relu6, "ReLU6", __name__, shown=False)
ELU = module_from(F.elu, "ELU", __name__)
SELU = module_from(F.selu, "SELU", __name__)
GELU = module_from(F.gelu, "GELU", __name__)
SiLU = module_from(F.silu, "SiLU", __name__)
Tanh = module_from(F.tanh, "Tanh", __name__)
Tanhshrink = module_from(F.tanhshrink, "Tanhshrink", __name__)
Hardtanh = module_from(F.hardtanh, "Hardtanh", __name__)
Sigmoid = module_from(F.sigmoid, "Sigmoid", __name__)
LogSigmoid = module_from(F.logsigmoid, "LogSigmoid", __name__)
Softplus = module_from(F.softplus, "Softplus", __name__)
Softmax = module_from(F.softmax, "Softmax", __name__)
Softmin = module_from(F.softmin, "Softmin", __name__)
LogSoftmax = module_from(F.log_softmax, "LogSoftmax", __name__)
