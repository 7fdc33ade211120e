"""Recurrent cells: one step of a recurrent layer."""

from __future__ import annotations

import math
from typing import Any

from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import DeviceLike, DtypeLike, Function, Operand
from adjoint.functions.creation.creation import empty, zeros
from adjoint.functions.nn import recurrent
from adjoint.nn import init
from adjoint.nn.module.module import Module
from adjoint.nn.module.parameter import Parameter

__all__ = ["GRUCell", "LSTMCell", "RNNCell", "RNNCellBase"]


class RNNCellBase(Module):
    """Base of the recurrent cells: the parameters, uniform in ±1/√hidden_size at first.

    The input is (B, input_size) or (input_size,), the state (B, hidden_size) or (hidden_size,), zeros unless given.

    Raises: ValueError for other ranks.
    """

    weight_ih: Parameter
    weight_hh: Parameter
    bias_ih: Parameter | None
    bias_hh: Parameter | None

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool,
        num_chunks: int,
        device: DeviceLike = None,
        dtype: DtypeLike = None,
    ) -> None:
        super().__init__()
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.bias = bias
        rows = num_chunks * hidden_size
        self.weight_ih = Parameter(empty(rows, input_size, dtype=dtype, device=device))
        self.weight_hh = Parameter(empty(rows, hidden_size, dtype=dtype, device=device))
        self.register_parameter("bias_ih", Parameter(empty(rows, dtype=dtype, device=device)) if bias else None)
        self.register_parameter("bias_hh", Parameter(empty(rows, dtype=dtype, device=device)) if bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new values."""
        bound = 1.0 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    def _run_cell(self, function: Function, input: Tensor, *given: Tensor | None) -> Tensor | tuple[Tensor, Tensor]:
        """Call `function` with input and states, checked and with a batch dimension; a state that is None is zeros."""
        rank, several = len(input.array.shape), len(given) > 1
        if rank not in (1, 2):
            raise ValueError(f"{self._get_name()}: Expected input to be 1D or 2D, got {rank}D instead")
        x: Operand = input if rank == 2 else input.unsqueeze(0)
        states = []
        for i, state in enumerate(given):
            if state is None:
                state = zeros(x.array.shape[0], self.hidden_size, dtype=x.dtype)
            elif len(state.array.shape) not in (1, 2):
                name = f"hx[{i}]" if several else "hidden"
                raise ValueError(f"{self._get_name()}: Expected {name} to be 1D or 2D, got {state.ndim}D instead")
            elif rank == 1:
                state = state.unsqueeze(0)
            states.append(state)
        out = function(x, states if several else states[0], self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh)
        if rank == 2:
            return out
        return tuple(part.squeeze(0) for part in out) if several else out.squeeze(0)

    def extra_repr(self) -> str:
        shown = f"{self.input_size}, {self.hidden_size}" + ("" if self.bias is True else f", bias={self.bias}")
        nonlinearity = getattr(self, "nonlinearity", "tanh")
        return shown if nonlinearity == "tanh" else f"{shown}, nonlinearity={nonlinearity}"


class RNNCell(RNNCellBase):
    """One step of a recurrent neural network: h' = tanh(W_ih x + b_ih + W_hh h + b_hh), or with relu for tanh.

    Shapes:
        input (N, input_size), optional h (N, hidden_size) -> h' (N, hidden_size); N is optional

    Raises: RuntimeError for another nonlinearity, ValueError for other ranks.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        nonlinearity: str = "tanh",
        device: DeviceLike = None,
        dtype: DtypeLike = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 1, device, dtype)
        self.nonlinearity = nonlinearity

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Operand:
        functions = {"tanh": recurrent.rnn_tanh_cell, "relu": recurrent.rnn_relu_cell}
        if self.nonlinearity not in functions:
            raise RuntimeError(f"Unknown nonlinearity: {self.nonlinearity}")
        return self._run_cell(functions[self.nonlinearity], input, hx)


class LSTMCell(RNNCellBase):
    """One step of a long short-term memory network: c' = f c + i g, h' = o tanh(c').

    The rows of the weights belong to i, f, g, o in this order. The initial parameters are uniform in ±1/√hidden_size.

    Args:
        input_size: number of features of the input.
        hidden_size: number of features of h and of c.
        bias: False for a cell without biases. Default: True.
        device, dtype: placement ("cpu", or "meta" for no values) and dtype of the parameters. Default: None.

    Shapes:
        input (N, input_size), optional (h, c) each (N, hidden_size) -> (h', c') each (N, hidden_size); N is optional

    Example:
        >>> h, c = nn.LSTMCell(3, 4)(ad.zeros(2, 3))
        >>> h.shape, c.shape
        (adjoint.Size([2, 4]), adjoint.Size([2, 4]))
    """

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, device: DeviceLike = None, dtype: DtypeLike = None
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 4, device, dtype)

    def forward(self, input: Tensor, hx: tuple[Tensor, Tensor] | None = None) -> Any:
        h, c = (None, None) if hx is None else hx
        return self._run_cell(recurrent.lstm_cell, input, h, c)


class GRUCell(RNNCellBase):
    """One step of a gated recurrent unit network: h' = (1 - z) n + z h.

    The rows of the weights belong to r, z, n in this order. The initial parameters are uniform in ±1/√hidden_size.

    Args:
        input_size: number of features of the input.
        hidden_size: number of features of the state.
        bias: False for a cell without biases. Default: True.
        device, dtype: placement ("cpu", or "meta" for no values) and dtype of the parameters. Default: None.

    Shapes:
        input (N, input_size), optional h (N, hidden_size) -> h' (N, hidden_size); N is optional

    Example:
        >>> nn.GRUCell(3, 4)(ad.zeros(2, 3)).shape
        adjoint.Size([2, 4])
    """

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, device: DeviceLike = None, dtype: DtypeLike = None
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 3, device, dtype)

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Operand:
        return self._run_cell(recurrent.gru_cell, input, hx)
