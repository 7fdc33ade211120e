"""Recurrent layers RNN, LSTM and GRU, stacked, in one or both directions."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any

from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import DeviceLike, DtypeLike, Operand
from adjoint.functions.creation.creation import empty, zeros
from adjoint.functions.nn.recurrent import Weights, equal_sizes, recurrent_layers
from adjoint.nn import init
from adjoint.nn.module.module import Module
from adjoint.nn.module.parameter import Parameter
from adjoint.nn.utils.packed_sequence import PackedSequence, pack_like, row_counts_of

__all__ = ["GRU", "LSTM", "RNN", "RNNBase"]
GATE_COUNTS = {"LSTM": 4, "GRU": 3, "RNN_TANH": 1, "RNN_RELU": 1}
# What a repr shows where it differs from this.
REPR_DEFAULTS: dict[str, object] = {
    "proj_size": 0,
    "num_layers": 1,
    "bias": True,
    "batch_first": False,
    "dropout": 0,
    "bidirectional": False,
}


class RNNBase(Module):
    """Base of RNN, LSTM and GRU: the parameters, uniform in ±1/√hidden_size at first, and the run over the steps.

    The input is (T, B, input_size), (B, T, input_size) if `batch_first`, (T, input_size), or a PackedSequence. The
    first state is zeros unless given. Returns the outputs of the last layer for each time, both directions side by
    side, and the last states of all layers (num_layers · directions, B, hidden_size).

    Raises: ValueError for another mode and for other ranks; RuntimeError for sizes that do not fit.
    """

    def __init__(
        self, mode: str, input_size: int, hidden_size: int, num_layers: int = 1, bias: bool = True,
        batch_first: bool = False, dropout: float = 0.0, bidirectional: bool = False, proj_size: int = 0,
        device: DeviceLike = None, dtype: DtypeLike = None,
    ) -> None:  # fmt: skip
        super().__init__()
        _check_settings(input_size, hidden_size, num_layers, bias, batch_first, dropout, proj_size)
        if mode not in GATE_COUNTS:
            raise ValueError(f"Unrecognized RNN mode: {mode}")
        self.mode = mode
        self.input_size, self.hidden_size, self.num_layers = input_size, hidden_size, num_layers
        self.bias, self.batch_first, self.bidirectional = bias, batch_first, bidirectional
        self.dropout = float(dropout)
        self.proj_size = proj_size
        self._all_weights: list[list[str]] = []
        rows, width = GATE_COUNTS[mode] * hidden_size, proj_size or hidden_size
        for layer in range(num_layers):
            inputs = input_size if layer == 0 else width * self._num_directions
            shapes: dict[str, tuple[int, ...]] = {"weight_ih": (rows, inputs), "weight_hh": (rows, width)}
            if bias:
                shapes |= {"bias_ih": (rows,), "bias_hh": (rows,)}
            if proj_size:
                shapes["weight_hr"] = (proj_size, hidden_size)
            for suffix in ("", "_reverse")[: self._num_directions]:
                named = {f"{name}_l{layer}{suffix}": shape for name, shape in shapes.items()}
                for name, shape in named.items():
                    self.register_parameter(name, Parameter(empty(shape, dtype=dtype, device=device)))
                self._all_weights.append(list(named))
        self.reset_parameters()

    @property
    def _num_directions(self) -> int:
        return 2 if self.bidirectional else 1

    @property
    def all_weights(self) -> list[list[Tensor]]:
        """Parameters of each direction of each layer."""
        return [[getattr(self, name) for name in names] for names in self._all_weights]

    @property
    def _flat_weights_names(self) -> list[str]:
        return [name for names in self._all_weights for name in names]

    @property
    def _flat_weights(self) -> list[Tensor]:
        return [weight for weights in self.all_weights for weight in weights]

    def flatten_parameters(self) -> None:
        """Do nothing: only other devices need the parameters in one piece of memory."""

    def reset_parameters(self) -> None:
        """Draw new values for all parameters."""
        bound = 1.0 / math.sqrt(self.hidden_size)
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    def forward(self, input: Tensor | PackedSequence, hx: Any = None) -> Any:
        if isinstance(input, PackedSequence):
            order, back = input.sorted_indices, input.unsorted_indices
            sizes, batch = row_counts_of(input)
            state = (
                self._initial_state(input.data, batch) if hx is None else _permute_batch(self._split_state(hx), order)
            )
            self._check(input.data, 2, batch, state)
            output, last = self._run_layers(input.data, sizes, state)
            return pack_like(input, output), self._join_state(_permute_batch(last, back))
        rank = input.ndim
        if rank not in (2, 3):
            kind = self.mode.partition("_")[0]
            raise ValueError(f"{kind}: Expected input to be 2D or 3D, got {rank}D instead")
        parts = None if hx is None else self._split_state(hx)
        if parts is not None:
            _check_ranks(rank, parts)
        if rank == 2:
            input = input.unsqueeze(0 if self.batch_first else 1)
            parts = None if parts is None else tuple(part.unsqueeze(1) for part in parts)
        batch = input.array.shape[0 if self.batch_first else 1]
        state = self._initial_state(input, batch) if parts is None else parts
        self._check(input, 3, batch, state)
        timed = input.transpose(0, 1) if self.batch_first else input  # (T, B, I)
        steps = timed.array.shape[0]
        output, last = self._run_layers(timed.reshape(steps * batch, self.input_size), equal_sizes(steps, batch), state)
        output = output.reshape(steps, batch, output.array.shape[1])
        if rank == 2:
            return output.squeeze(1), self._join_state(tuple(part.squeeze(1) for part in last))
        return output.transpose(0, 1) if self.batch_first else output, self._join_state(last)

    def _run_layers(
        self, rows: Tensor, sizes: Sequence[int] | Tensor, start: tuple[Tensor, ...]
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        each = [
            Weights(**{name.partition("_l")[0].removeprefix("weight_"): getattr(self, name) for name in names})
            for names in self._all_weights
        ]
        layers = [each[i : i + self._num_directions] for i in range(0, len(each), self._num_directions)]
        return recurrent_layers(self.mode, rows, start, layers, sizes, self.dropout, self.training)

    def _split_state(self, hx: Operand) -> tuple[Tensor, ...]:
        return (hx,)

    def _join_state(self, state: tuple[Tensor, ...]) -> Tensor:
        return state[0]

    def _sizes(self, batch: int) -> list[tuple[int, int, int]]:
        """Return the shapes of the states."""
        return [(self.num_layers * self._num_directions, batch, self.proj_size or self.hidden_size)]

    def _initial_state(self, input: Tensor, batch: int) -> tuple[Tensor, ...]:
        return tuple(zeros(shape, dtype=input.dtype) for shape in self._sizes(batch))

    def _check(self, input: Tensor, rank: int, batch: int, state: tuple[Tensor, ...]) -> None:
        kind = self._flat_weights[0].dtype
        if input.dtype != kind:
            raise ValueError(
                f"RNN input dtype ({input.dtype}) does not match weight dtype ({kind}). Convert input: "
                f"input.to({kind}), or convert model: model.to({input.dtype})"
            )
        if input.ndim != rank:
            raise RuntimeError(f"input must have {rank} dimensions, got {input.ndim}")
        if input.array.shape[-1] != self.input_size:
            raise RuntimeError(
                f"input.size(-1) must be equal to input_size. Expected {self.input_size}, got {input.array.shape[-1]}"
            )
        for i, (part, expected) in enumerate(zip(state, self._sizes(batch), strict=True)):
            if tuple(part.array.shape) != expected:
                which = f"hidden[{i}]" if len(state) > 1 else "hidden"
                raise RuntimeError(f"Expected {which} size {expected}, got {list(part.array.shape)}")

    def extra_repr(self) -> str:
        shown = [f"{name}={value}" for name, usual in REPR_DEFAULTS.items() if (value := getattr(self, name)) != usual]
        return ", ".join([f"{self.input_size}, {self.hidden_size}", *shown])


def _check_settings(
    input_size: int, hidden_size: int, num_layers: int, bias: bool, batch_first: bool, dropout: object, proj_size: int
) -> None:
    if not isinstance(dropout, (int, float)) or isinstance(dropout, bool) or not 0 <= dropout <= 1:
        raise ValueError(
            "dropout should be a number in range [0, 1] representing the probability of an element being zeroed"
        )
    if dropout > 0 and num_layers == 1:
        warnings.warn(
            "dropout option adds dropout after all but last recurrent layer, so non-zero dropout expects num_layers "
            f"greater than 1, but got dropout={dropout} and num_layers={num_layers}",
            stacklevel=4,
        )
    for name, value, kind in (
        ("bias", bias, bool),
        ("batch_first", batch_first, bool),
        ("input_size", input_size, int),
        ("hidden_size", hidden_size, int),
    ):
        if not isinstance(value, kind):
            raise TypeError(f"{name} should be of type {kind.__name__}, got: {type(value).__name__}")
    for name, value in (("input_size", input_size), ("hidden_size", hidden_size), ("num_layers", num_layers)):
        if value <= 0:
            raise ValueError(f"{name} must be greater than zero")
    if proj_size < 0:
        raise ValueError("proj_size should be a positive integer or zero to disable projections")
    if proj_size >= hidden_size:
        raise ValueError("proj_size has to be smaller than hidden_size")


def _check_ranks(rank: int, state: tuple[Tensor, ...]) -> None:
    """Raise RuntimeError unless the states have the batch dimension if and only if the input has one."""
    if any(part.ndim != rank for part in state):
        batched = "batched" if rank == 3 else "unbatched"
        named = "hx and cx" if len(state) > 1 else "hx"
        got = ", ".join(f"{part.ndim}-D" for part in state)
        got = f"({got}) tensors" if len(state) > 1 else f"{got} tensor"
        raise RuntimeError(f"For {batched} {rank}-D input, {named} should also be {rank}-D but got {got}")


def _permute_batch(state: tuple[Tensor, ...], order: Tensor | None) -> tuple[Tensor, ...]:
    return state if order is None else tuple(part.index_select(1, order) for part in state)


class RNN(RNNBase):
    """Recurrent neural network of one or more layers: h' = tanh(W_ih x + b_ih + W_hh h + b_hh).

    A call takes the input, a tensor or a `PackedSequence`, and optionally the first state h0, zeros by default. It
    returns the last layer's states at all steps, and the last state of each layer. The initial parameters are uniform
    in ±1/√hidden_size.

    Args:
        input_size: number of features of each input step.
        hidden_size: number of features of the state.
        num_layers: number of layers, each of which reads the outputs of the one before. Default: 1.
        nonlinearity: "tanh" or "relu". Default: "tanh".
        bias: False for layers without biases. Default: True.
        batch_first: True for inputs and outputs (N, T, ·) instead of (T, N, ·). Default: False.
        dropout: probability of dropout on the outputs of each layer but the last, in training. Default: 0.
        bidirectional: True for a second pass from the last step to the first. Default: False.
        device, dtype: placement ("cpu", or "meta" for no values) and dtype of the parameters. Default: None.

    Shapes:
        input (T, N, input_size), h0 (L·B, N, H) -> output (T, N, B·H), h (L·B, N, H)
        T steps; N sequences, optional; L = num_layers; H = hidden_size; B = 2 if bidirectional, else 1

    Raises: ValueError for sizes below 1 and a dropout outside [0, 1], RuntimeError in a call for other shapes.

    Source: Elman, Finding Structure in Time, 1990.

    Example:
        >>> output, h = nn.RNN(3, 4)(ad.zeros(7, 5, 3))
        >>> output.shape, h.shape
        (adjoint.Size([7, 5, 4]), adjoint.Size([1, 5, 4]))
    """

    def __init__(
        self, input_size: int, hidden_size: int, num_layers: int = 1, nonlinearity: str = "tanh", bias: bool = True,
        batch_first: bool = False, dropout: float = 0.0, bidirectional: bool = False, device: DeviceLike = None,
        dtype: DtypeLike = None, **others: Any,
    ) -> None:  # fmt: skip
        _refuse_projection(others)
        if nonlinearity not in ("tanh", "relu"):
            raise ValueError(f"Unknown nonlinearity '{nonlinearity}'. Select from 'tanh' or 'relu'.")
        super().__init__(
            f"RNN_{nonlinearity.upper()}", input_size, hidden_size, num_layers, bias, batch_first, dropout,
            bidirectional, device=device, dtype=dtype, **others,
        )  # fmt: skip
        self.nonlinearity = nonlinearity


class LSTM(RNNBase):
    """Long short-term memory network of one or more layers: c' = f c + i g, h' = o tanh(c').

    The gates i, f, o are σ, and g is tanh, of W_ih x + b_ih + W_hh h + b_hh. A call takes the input, a tensor or a
    `PackedSequence`, and optionally the first state (h0, c0), zeros by default. It returns the last layer's h at all
    steps, and the last state (h, c) of each layer. The initial parameters are uniform in ±1/√hidden_size.

    Args:
        input_size: number of features of each input step.
        hidden_size: number of features of c, and of h without a projection.
        num_layers: number of layers, each of which reads the outputs of the one before. Default: 1.
        bias: False for layers without biases. Default: True.
        batch_first: True for inputs and outputs (N, T, ·) instead of (T, N, ·). Default: False.
        dropout: probability of dropout on the outputs of each layer but the last, in training. Default: 0.
        bidirectional: True for a second pass from the last step to the first. Default: False.
        proj_size: size to which W_hr projects h, less than `hidden_size`. Default: 0, no projection.
        device, dtype: placement ("cpu", or "meta" for no values) and dtype of the parameters. Default: None.

    Shapes:
        input (T, N, input_size) -> output (T, N, B·H), h (L·B, N, H), c (L·B, N, hidden_size)
        T steps; N sequences, optional; L = num_layers; H = proj_size or hidden_size; B = 2 if bidirectional, else 1

    Raises: ValueError for sizes below 1 and a dropout outside [0, 1], RuntimeError in a call for other shapes.

    Sources: Hochreiter and Schmidhuber, 1997; Gers, Schmidhuber and Cummins, 2000; Sak, Senior and Beaufays, 2014.

    Example:
        >>> lstm = nn.LSTM(3, 4, num_layers=2, batch_first=True)
        >>> output, (h, c) = lstm(ad.zeros(5, 7, 3))
        >>> output.shape, h.shape, c.shape
        (adjoint.Size([5, 7, 4]), adjoint.Size([2, 5, 4]), adjoint.Size([2, 5, 4]))
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: DeviceLike = None,
        dtype: DtypeLike = None,
    ) -> None:
        super().__init__(
            "LSTM", input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, proj_size, device,
            dtype,
        )  # fmt: skip

    def _split_state(self, hx: Any) -> tuple[Tensor, Tensor]:
        h, c = hx
        return h, c

    def _join_state(self, state: tuple[Any, ...]) -> Any:
        return state

    def _sizes(self, batch: int) -> list[tuple[int, int, int]]:
        return [*super()._sizes(batch), (self.num_layers * self._num_directions, batch, self.hidden_size)]


class GRU(RNNBase):
    """Gated recurrent unit network of one or more layers: h' = (1 - z) n + z h.

    The gates r and z are σ of W_ih x + b_ih + W_hh h + b_hh. The candidate n is tanh(W_in x + b_in + r (W_hn h +
    b_hn)). A call takes the input, a tensor or a `PackedSequence`, and optionally the first state h0, zeros by default.
    It returns the last layer's states at all steps, and the last state of each layer. The initial parameters are
    uniform in ±1/√hidden_size.

    Args:
        input_size: number of features of each input step.
        hidden_size: number of features of the state.
        num_layers: number of layers, each of which reads the outputs of the one before. Default: 1.
        bias: False for layers without biases. Default: True.
        batch_first: True for inputs and outputs (N, T, ·) instead of (T, N, ·). Default: False.
        dropout: probability of dropout on the outputs of each layer but the last, in training. Default: 0.
        bidirectional: True for a second pass from the last step to the first. Default: False.
        device, dtype: placement ("cpu", or "meta" for no values) and dtype of the parameters. Default: None.

    Shapes:
        input (T, N, input_size), h0 (L·B, N, H) -> output (T, N, B·H), h (L·B, N, H)
        T steps; N sequences, optional; L = num_layers; H = hidden_size; B = 2 if bidirectional, else 1

    Raises: ValueError for sizes below 1 and a dropout outside [0, 1], RuntimeError in a call for other shapes.

    Source: Cho et al., Learning Phrase Representations using RNN Encoder-Decoder, 2014.

    Example:
        >>> output, h = nn.GRU(3, 4, bidirectional=True)(ad.zeros(7, 5, 3))
        >>> output.shape, h.shape
        (adjoint.Size([7, 5, 8]), adjoint.Size([2, 5, 4]))
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        device: DeviceLike = None,
        dtype: DtypeLike = None,
        **others: Any,
    ) -> None:
        _refuse_projection(others)
        super().__init__(
            "GRU", input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, device=device,
            dtype=dtype, **others,
        )  # fmt: skip


def _refuse_projection(others: dict[str, object]) -> None:
    if "proj_size" in others:
        raise ValueError("proj_size argument is only supported for LSTM, not RNN or GRU")
