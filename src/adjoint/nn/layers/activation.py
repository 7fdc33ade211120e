"""Activation functions as modules."""

from __future__ import annotations

from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import DeviceLike, DtypeLike
from adjoint.functions.creation.creation import empty
from adjoint.nn import functional as F
from adjoint.nn import init
from adjoint.nn.module.from_function import make_module_class
from adjoint.nn.module.module import Module
from adjoint.nn.module.parameter import Parameter

__all__ = ["CELU", "ELU", "GELU", "GLU", "Hardshrink", "Hardsigmoid", "Hardswish", "Hardtanh", "LeakyReLU"]
__all__ += ["LogSigmoid", "LogSoftmax", "Mish", "PReLU", "RReLU", "ReLU", "ReLU6", "SELU", "SiLU", "Sigmoid", "Softmax"]
__all__ += ["Softmax2d", "Softmin", "Softplus", "Softshrink", "Softsign", "Tanh", "Tanhshrink", "Threshold"]

ReLU = make_module_class(F.relu, "ReLU", __name__)
LeakyReLU = make_module_class(F.leaky_relu, "LeakyReLU", __name__)
ReLU6 = make_module_class(F.relu6, "ReLU6", __name__, shown=False)
ELU = make_module_class(F.elu, "ELU", __name__)
SELU = make_module_class(F.selu, "SELU", __name__)
GELU = make_module_class(F.gelu, "GELU", __name__)
SiLU = make_module_class(F.silu, "SiLU", __name__)
Tanh = make_module_class(F.tanh, "Tanh", __name__)
Tanhshrink = make_module_class(F.tanhshrink, "Tanhshrink", __name__)
Hardtanh = make_module_class(F.hardtanh, "Hardtanh", __name__)
Sigmoid = make_module_class(F.sigmoid, "Sigmoid", __name__)
LogSigmoid = make_module_class(F.logsigmoid, "LogSigmoid", __name__)
Softplus = make_module_class(F.softplus, "Softplus", __name__)
Softmax = make_module_class(F.softmax, "Softmax", __name__)
Softmin = make_module_class(F.softmin, "Softmin", __name__)
LogSoftmax = make_module_class(F.log_softmax, "LogSoftmax", __name__)
CELU = make_module_class(F.celu, "CELU", __name__)
GLU = make_module_class(F.glu, "GLU", __name__)
Hardshrink = make_module_class(F.hardshrink, "Hardshrink", __name__, shown="values")
Hardsigmoid = make_module_class(F.hardsigmoid, "Hardsigmoid", __name__, shown=False)
Hardswish = make_module_class(F.hardswish, "Hardswish", __name__, shown=False)
Mish = make_module_class(F.mish, "Mish", __name__)
Softshrink = make_module_class(F.softshrink, "Softshrink", __name__, shown="values")
Softsign = make_module_class(F.softsign, "Softsign", __name__)
Threshold = make_module_class(F.threshold, "Threshold", __name__)


class PReLU(Module):
    """Rectifier with a learned slope: x where x > 0, else weight · x.

    Args:
        num_parameters: 1 slope for all elements, or the number of channels (dimension 1). Default: 1.
        init: initial slope. Default: 0.25.
        device, dtype: placement ("cpu", or "meta" for no values) and dtype of the weight. Default: None.

    Shapes:
        input of any shape -> the same shape

    Raises: RuntimeError in a call if `num_parameters` is neither 1 nor the number of channels.

    Source: He et al., Delving Deep into Rectifiers, 2015.

    Example:
        >>> layer = nn.PReLU()
        >>> layer(ad.tensor([-2.0, 3.0])).tolist()
        [-0.5, 3.0]
    """

    weight: Parameter

    def __init__(
        self, num_parameters: int = 1, init: float = 0.25, device: DeviceLike = None, dtype: DtypeLike = None
    ) -> None:
        super().__init__()
        self.num_parameters = num_parameters
        self.init = init
        self.weight = Parameter(empty(num_parameters, dtype=dtype, device=device))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set the first values anew."""
        init.constant_(self.weight, self.init)

    def forward(self, input: Tensor) -> Tensor:
        return F.prelu(input, self.weight)

    def extra_repr(self) -> str:
        return f"num_parameters={self.num_parameters}"


class Softmax2d(Module):
    """Softmax over the channels of (N, C, H, W) or (C, H, W), at each place. Raises ValueError for other ranks."""

    def forward(self, input: Tensor) -> Tensor:
        if input.ndim not in (3, 4):
            raise ValueError(f"Softmax2d: expected input to be 3D or 4D, got {input.ndim}D instead")
        return F.softmax(input, -3)


class RReLU(Module):
    """x where x > 0, else a x; a at random from [lower, upper) for each element in training, else their mean.

    Shapes:
        input of any shape -> the same shape
    """

    def __init__(self, lower: float = 1.0 / 8, upper: float = 1.0 / 3, inplace: bool = False) -> None:
        super().__init__()
        self.lower = lower
        self.upper = upper
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        return F.rrelu(input, self.lower, self.upper, self.training, self.inplace)

    def extra_repr(self) -> str:
        return f"lower={self.lower}, upper={self.upper}" + (", inplace=True" if self.inplace else "")
