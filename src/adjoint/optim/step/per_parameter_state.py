"""State of a parameter in an optimizer, made on the first step that changes the parameter."""

from __future__ import annotations

from typing import Any

from adjoint.core.dtype.dtype import default, float32, float64
from adjoint.core.runtime.mode import mode, tracing_paused
from adjoint.core.tensor.tensor import Tensor
from adjoint.functions.creation.creation import full, zeros_like
from adjoint.optim.step.param_groups import Group


def init_param_state(
    state: dict[str, Any], p: Tensor, zeros: tuple[str, ...], group: Group, ones: tuple[str, ...] = ()
) -> dict[str, Any]:
    """Return the state of `p`, after adding missing entries: a count of steps, `zeros` of its shape, and single `ones`.

    In a recorded step the tensors become copies, so that earlier steps stay as they were recorded.
    """
    if "step" not in state:
        with tracing_paused():
            state["step"] = make_scalar_state(0.0, group)
    for name in ones:
        if name not in state:
            with tracing_paused():
                state[name] = make_scalar_state(1.0)
    for name in zeros:
        if name not in state:
            with tracing_paused():
                state[name] = zeros_like(p)
    if mode.recording:
        for name, value in state.items():
            if isinstance(value, Tensor):
                state[name] = value.clone()
    return state


def increment_step_tensor(state: dict[str, Any]) -> Any:
    """Count one more step, and return the count as a float64 tensor without dimensions."""
    return state["step"].add_(1.0).to(float64)


def increment_step(state: dict[str, Any]) -> Any:
    """Do as `increment_step_tensor`, with a plain number outside of tracing and recording: it saves a third of Adam."""
    t = state["step"]
    t += 1.0
    return t.to(float64) if mode.recording or mode.extra else float(t.array)


def make_scalar_state(value: float, group: Group | None = None) -> Tensor:
    """Return a number of a parameter's state, as PyTorch has it: in the default dtype, where float32 counts to 2²⁴."""
    fused = group is not None and bool(group.get("fused"))
    return full((), value, dtype=float32 if fused else scalar_state_dtype())


def scalar_state_dtype() -> Any:
    """Return the dtype of single numbers."""
    return float64 if default.floating is float64 else float32
