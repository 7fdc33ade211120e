"""Gradient scaler: scales losses of low precision up, and their gradients down before a step."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Iterable
from enum import Enum
from typing import Any

import numpy as np

from adjoint.core.dtype.device import cuda_devices
from adjoint.core.dtype.dtype import float16, float32
from adjoint.core.runtime.mode import ModeScope
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import StateDict
from adjoint.functions.creation.creation import tensor
from adjoint.optim.step.optimizer import Optimizer, list_gradients

_TOO_EARLY = (
    "Attempted {} but _scale is None.  This may indicate your script did not use scaler.scale(loss or outputs) earlier "
    "in the iteration."
)
LARGEST_FLOAT32 = float(np.finfo(np.float32).max)


class OptState(Enum):
    """Progress of an optimizer since the last update."""

    READY, UNSCALED, STEPPED = 0, 1, 2


class GradScaler:
    """Scaler of losses against vanishing gradients; it steps only if the gradients, divided by the scale, are finite.

    Otherwise the scale shrinks by `backoff_factor`. It grows by `growth_factor` after `growth_interval` iterations with
    finite gradients. For an absent device the scaler warns and does nothing.

    Raises: AssertionError for factors on the wrong side of 1; RuntimeError for steps and updates out of order.

    Source: Micikevicius et al., 2018.
    """

    def __init__(
        self,
        device: str = "cuda",
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        self._device, self._enabled = device, enabled
        if enabled and device == "cuda" and not cuda_devices.count:
            warnings.warn("GradScaler is enabled, but CUDA is not available.  Disabling.", stacklevel=2)
            self._enabled = False
        if self._enabled:
            if growth_factor <= 1.0:
                raise AssertionError("The growth factor must be > 1.0.")
            if backoff_factor >= 1.0:
                raise AssertionError("The backoff factor must be < 1.0.")
        self._scale, self._used = float(init_scale), False
        self._growth_factor, self._backoff_factor = growth_factor, backoff_factor
        self._growth_interval, self._growth_tracker = growth_interval, 0
        self._stages: dict[int, OptState] = {}  # of the optimizers, by their ids
        self._found: dict[int, bool] = {}  # whether it had a gradient that is not finite

    def scale(self, outputs: Any) -> Any:
        """Multiply a tensor, or each in an iterable, by the scale. Raises ValueError for other values."""
        if not self._enabled:
            return outputs
        if isinstance(outputs, Tensor):
            self._used = True
            return outputs * as_float32(self._scale)
        if isinstance(outputs, (list, tuple)):
            return type(outputs)(map(self.scale, outputs))
        if isinstance(outputs, Iterable):
            return map(self.scale, outputs)
        raise ValueError("outputs must be a Tensor or an iterable of Tensors")

    def unscale_(self, optimizer: Optimizer) -> None:
        """Divide the gradients of the optimizer's parameters by the scale, in place, and note if all are finite.

        Raises: RuntimeError the second time in an iteration, ValueError for gradients of float16.
        """
        if not self._enabled:
            return
        self._check_used("unscale_")
        stage = self._stages.get(id(optimizer))
        if stage is OptState.UNSCALED:
            raise RuntimeError("unscale_() has already been called on this optimizer since the last update().")
        if stage is OptState.STEPPED:
            raise RuntimeError("unscale_() is being called after step().")
        gradients = list_gradients(optimizer)
        if any(g.dtype is float16 for g in gradients):
            raise ValueError("Attempting to unscale FP16 gradients.")
        finite: list[Tensor] = []  # asked for once: a compiled step is cut there
        with ModeScope(recording=False):
            factor = as_float32(1.0 / self._scale)
            for g in gradients:
                finite.append(g.isfinite().all())
                g.mul_(factor)
            if gradients:
                self._found[id(optimizer)] = not bool(functools.reduce(lambda a, b: a & b, finite))
        self._stages[id(optimizer)] = OptState.UNSCALED

    def step(self, optimizer: Optimizer, *args: Any, **kwargs: Any) -> Any:
        """Return `optimizer.step(…)` on gradients without the scale, or None, with no step, if one is not finite.

        Raises: RuntimeError for a closure, and the second time in an iteration.
        """
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        if "closure" in kwargs:
            raise RuntimeError("Closure use is not currently supported if GradScaler is enabled.")
        self._check_used("step")
        stage = self._stages.get(id(optimizer))
        if stage is OptState.STEPPED:
            raise RuntimeError("step() has already been called since the last update().")
        if stage is not OptState.UNSCALED:
            self.unscale_(optimizer)
        if id(optimizer) not in self._found:
            raise AssertionError("No inf checks were recorded for this optimizer.")
        result = None if self._found[id(optimizer)] else optimizer.step(*args, **kwargs)
        self._stages[id(optimizer)] = OptState.STEPPED
        return result

    def update(self, new_scale: float | Tensor | None = None) -> None:
        """End the iteration: set the scale, or let it grow or shrink by the gradients seen."""
        if not self._enabled:
            return
        self._check_used("update")
        if new_scale is not None:
            if isinstance(new_scale, Tensor) and (new_scale.numel() != 1 or new_scale.requires_grad):
                raise AssertionError("new_scale should be a float or a 1-element tensor with requires_grad=False.")
            self._scale = float(np.float32(float(new_scale)))
        elif not self._found:
            raise AssertionError("No inf checks were recorded prior to update.")
        elif any(self._found.values()):
            self._scale, self._growth_tracker = round_to_float32(self._scale * self._backoff_factor), 0
        else:
            self._growth_tracker += 1
            if self._growth_tracker == self._growth_interval:
                grown = round_to_float32(self._scale * self._growth_factor)
                self._scale, self._growth_tracker = grown if grown <= LARGEST_FLOAT32 else self._scale, 0
        self._stages.clear()
        self._found.clear()

    def _check_used(self, called: str) -> None:
        if not self._used:
            raise AssertionError(_TOO_EARLY.format(called))

    def get_scale(self) -> float:
        """Return the scale; 1 if not enabled."""
        return self._scale if self._enabled else 1.0

    def get_growth_factor(self) -> float:
        """Return the factor by which the scale grows."""
        return self._growth_factor

    def set_growth_factor(self, new_factor: float) -> None:
        """Set the factor by which the scale grows."""
        self._growth_factor = new_factor

    def get_backoff_factor(self) -> float:
        """Return the factor by which the scale shrinks."""
        return self._backoff_factor

    def set_backoff_factor(self, new_factor: float) -> None:
        """Set the factor by which the scale shrinks."""
        self._backoff_factor = new_factor

    def get_growth_interval(self) -> int:
        """Return the number of finite iterations in a row after which the scale grows."""
        return self._growth_interval

    def set_growth_interval(self, new_interval: int) -> None:
        """Set the number of finite iterations in a row after which the scale grows."""
        self._growth_interval = new_interval

    def is_enabled(self) -> bool:
        """False for a scaler that does nothing."""
        return self._enabled

    def state_dict(self) -> StateDict:
        """Return the scale, its factors, and the number of iterations since it changed; {} if not enabled."""
        if not self._enabled:
            return {}
        names = ("scale", "growth_factor", "backoff_factor", "growth_interval")
        return {name: vars(self)[f"_{name}"] for name in names} | {"_growth_tracker": self._growth_tracker}

    def load_state_dict(self, state_dict: StateDict) -> None:
        """Continue from a `state_dict`. Raises RuntimeError for an empty one."""
        if not self._enabled:
            return
        if not state_dict:
            raise RuntimeError(
                "The source state dict is empty, possibly because it was saved from a disabled instance of GradScaler."
            )
        self._scale, self._growth_tracker = float(state_dict["scale"]), state_dict["_growth_tracker"]
        self._growth_factor, self._backoff_factor = state_dict["growth_factor"], state_dict["backoff_factor"]
        self._growth_interval = state_dict["growth_interval"]


def as_float32(number: float) -> Tensor:
    """Return a number as a tensor of no dimensions, float32, whatever the default type."""
    return tensor(number, dtype=float32)


def round_to_float32(x: float) -> float:
    """Round a positive number to the 24 bits of float32, by arithmetic alone. Source: Veltkamp, 1968."""
    spread = x * (2.0**29 + 1)
    return spread - (spread - x)
