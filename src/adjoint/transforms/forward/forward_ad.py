"""Dual numbers: x + t ε, a tensor with its tangent; ops on them give f(x) + J t ε. As `torch.autograd.forward_ad`."""

from __future__ import annotations

from contextlib import ContextDecorator
from functools import wraps
from typing import Any, NamedTuple

from adjoint.core.runtime.mode import ModeScope, set_modes
from adjoint.core.tensor.tensor import Tensor
from adjoint.ops.elementwise.select import cast
from adjoint.transforms.forward.dual_level import (
    ForwardLevel,
    ForwardLevels,
    attach_tangent,
    current_levels,
    primal_of,
    tangent_of,
)

__all__ = ["UnpackedDualTensor", "dual_level", "enter_dual_level", "exit_dual_level", "make_dual", "unpack_dual"]


class UnpackedDualTensor(NamedTuple):
    """The parts of a dual tensor; the tangent is None if it has none."""

    primal: Tensor
    tangent: Tensor | None


def enter_dual_level() -> int:
    """Open a level of dual tensors, and return its number, 0. Raises RuntimeError if one is open already."""
    if _public_level() is not None:
        raise RuntimeError("Nested forward mode AD is not supported at the moment")
    ForwardLevel(public=True).__enter__()
    return 0


def exit_dual_level(*, level: int | None = None) -> None:
    """Close the level: its tangents are gone. Raises RuntimeError unless it was the last one to be opened."""
    newest = current_levels().levels[-1:]
    if not newest or not newest[0].public or level not in (None, 0):
        raise RuntimeError(
            "Trying to exit a forward AD level that was not the last one that was created. This is not supported."
        )
    newest[0].__exit__(None, None, None)


class dual_level(ContextDecorator):
    """A block, or a function, in which dual tensors can be made; afterwards their tangents are gone."""

    def __enter__(self) -> int:
        return enter_dual_level()

    def __exit__(self, *exception: object) -> None:
        exit_dual_level()


def make_dual(tensor: Tensor, tangent: Tensor, *, level: int | None = None) -> Tensor:
    """Return a view of `tensor` that carries `tangent`: itself, or a copy where it lies otherwise in memory.

    Raises RuntimeError without an open level, for another shape, and for tensors that carry tangents already;
    ValueError for integers.
    """
    opened = _public_level()
    if (opened is None) if level is None else (level < 0):
        raise RuntimeError(
            "Trying to create a dual Tensor for forward AD but no level exists, make sure to enter_dual_level() first."
        )
    for name, given in (("primal", tensor), ("tangent", tangent)):
        if not isinstance(given, Tensor):
            raise TypeError(f"Expected {name} to be a Tensor, but got: {type(given).__name__}")
        if given.array.dtype.kind not in "fcV":
            raise ValueError(f"Expected {name} to be floating point or complex, but got: {given.dtype}")
    if opened is None or level not in (None, 0):
        raise RuntimeError("Invalid level given to make_dual: the only level that can be open is 0")
    if tensor.array.shape != tangent.array.shape:
        raise RuntimeError(
            "Trying to set a forward gradient that has a different size than that of the original Tensor, this is not "
            f"supported. Tensor is of size {list(tensor.shape)} while the given forward gradient is of size "
            f"{list(tangent.shape)}."
        )
    if tangent_of(tensor, opened) is not None:
        raise RuntimeError(
            "Making a dual Tensor based on a Tensor that already has a forward gradient at the same level 0 is not "
            "supported."
        )
    if tangent_of(tangent, opened) is not None:
        raise RuntimeError(
            "Setting a forward grad that itself has a forward gradient at the same level 0 is not supported."
        )
    if tangent.array.dtype != tensor.array.dtype:
        tangent = cast(tangent, dtype=tensor.array.dtype)
    return attach_tangent(tensor, tangent, opened)


def unpack_dual(tensor: Tensor, *, level: int | None = None) -> UnpackedDualTensor:
    """Return a view of the tensor without its tangent, and the tangent."""
    opened = _public_level()
    if opened is None or (level is not None and level < 0):
        return UnpackedDualTensor(tensor, None)
    seen = level in (None, 0) and opened in current_levels().active()
    return UnpackedDualTensor(primal_of(tensor, opened), tangent_of(tensor, opened) if seen else None)


class _set_fwd_grad_enabled(ContextDecorator):
    """Switch the pushing on of tangents on or off at once; as a context, until the end of the block."""

    def __init__(self, mode: bool) -> None:
        self._mode = mode
        self._before = current_levels()
        set_modes(forward_levels=_make_levels(mode))

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exception: object) -> None:
        set_modes(forward_levels=_make_levels(self._before.enabled))

    def __call__(self, function: Any) -> Any:
        self.__exit__(None, None, None)  # a decorator changes nothing now

        @wraps(function)
        def call(*args: object, **kwargs: object) -> object:
            with ModeScope(forward_levels=_make_levels(self._mode)):
                return function(*args, **kwargs)

        return call


def _make_levels(enabled: bool) -> ForwardLevels | None:
    levels = current_levels().levels
    return None if enabled and not levels else ForwardLevels(levels, enabled)


def _is_fwd_grad_enabled() -> bool:
    """Return whether tangents are pushed on."""
    return current_levels().enabled


def _public_level() -> ForwardLevel | None:
    """This thread's open level of dual tensors."""
    return next((level for level in reversed(current_levels().levels) if level.public), None)


def __getattr__(name: str) -> int:
    if name == "_current_level":
        return -1 if _public_level() is None else 0
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
