"""Declared hyperparameters of optimizers: their checks, and their values in a step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from adjoint.core.dtype.dtype import float64
from adjoint.core.runtime.mode import guard_on, runtime_input
from adjoint.core.tensor.tensor import Tensor
from adjoint.optim.step.param_groups import Group

Number = float | Tensor  # a hyperparameter, or what is computed of some; a traced step gets each as a tensor
Check = Callable[[str, Any], None]  # (name, value) → ValueError for a value that the optimizer cannot use
ERROR_LABELS = {"lr": "learning rate", "eps": "epsilon value"}  # PyTorch's; others are "… value"


def check_one_element(name: str, value: object) -> None:
    """Raise ValueError for a tensor with more or fewer elements than one."""
    if isinstance(value, Tensor) and value.numel() != 1:
        raise ValueError(f"Tensor {name} must be 1-element")


def check_non_negative(name: str, value: Number) -> None:
    """Raise ValueError unless the value is at least 0."""
    if not value >= 0:
        raise ValueError(f"Invalid {ERROR_LABELS.get(name, f'{name} value')}: {value}")


def check_learning_rate(name: str, lr: Number) -> None:
    """Raise ValueError unless `lr`, a number or a tensor of one element, is at least 0."""
    check_one_element(name, lr)
    check_non_negative(name, lr)


def check_betas(name: str, betas: tuple[Number, ...]) -> None:
    """Raise ValueError unless each of the decay rates, numbers or tensors of one element, is in [0, 1)."""
    for i, beta in enumerate(betas):
        check_one_element(f"{name}[{i}]", beta)
        if not 0 <= beta < 1:
            raise ValueError(f"Invalid beta parameter at index {i}: {beta}")


def require(is_valid: Callable[[Any], bool], message: str) -> Check:
    """Return a check that raises ValueError with `message`, formatted with the value, unless `is_valid(value)`."""

    def check(name: str, value: object) -> None:
        check_one_element(name, value)
        if not is_valid(value):
            raise ValueError(message.format(value))

    return check


def accept(name: str, value: object) -> None:
    """Accept any value."""


COMMON_CHECKS: dict[str, Check] = {
    "lr": check_learning_rate,
    "betas": check_betas,
    "eps": check_non_negative,
    "weight_decay": check_non_negative,
}


def declare_hyperparameters(names: str, **checks: Check) -> dict[str, Check]:
    """Return the check of each hyperparameter of an optimizer, in the order of its groups' keys.

    Args:
        names: names of the hyperparameters, separated by spaces.
        checks: checks of this optimizer, besides or in place of those that all optimizers have in common.
    """
    return {name: checks.get(name) or COMMON_CHECKS.get(name, accept) for name in names.split()}


def check_implementation(options: Group) -> None:
    """Raise RuntimeError for the choices of implementation that PyTorch excludes together."""
    if options["fused"]:
        if options["differentiable"]:
            raise RuntimeError("`fused` does not support `differentiable`")
        if options["foreach"]:
            raise RuntimeError("`fused` and `foreach` cannot be `True` together.")


def as_scalar(number: Number) -> Number:
    """Return a number, or a tensor of one element without dimensions, which takes the dtype of what it multiplies."""
    return number.reshape(()) if isinstance(number, Tensor) and number.ndim else number


def _in_double(number: Number) -> Number:
    """Return a tensor as float64, as a Python number is: what is made of it (1 - lr weight_decay) is rounded once."""
    return number.to(float64) if isinstance(number, Tensor) else number


class OptionReader:
    """Reader of a parameter group's options in a step.

    A compiled step reads each number anew at every call, and is retraced when a flag changes.
    """

    __slots__ = ("group",)

    def __init__(self, group: Group) -> None:
        self.group = group

    def flag(self, name: str) -> bool:
        """Return True if an option is set, or not 0."""
        is_set: bool = guard_on(self.group, lambda g: bool(g[name]), f"the option {name} of an optimizer")
        return is_set

    def number(self, key: str | tuple[str, int]) -> Number:
        """Return a number, or a tensor without dimensions; `key` is a name, or a tuple of a name and an index."""
        return _in_double(as_scalar(runtime_input(self.group, key)))

    def optional(self, name: str) -> tuple[Number, bool]:
        """Return a number, and whether it is not 0. A 0 is no input of a compiled step."""
        is_set = self.flag(name)
        return (_in_double(runtime_input(self.group, name)) if is_set else 0), is_set

    def betas(self) -> tuple[Number, Number]:
        """Return the decay rates of the moving averages of a gradient and of its square."""
        return self.number(("betas", 0)), self.number(("betas", 1))

    def is_slow(self, name: str, index: int | None = None) -> bool:
        """True if a moving average keeps more than half of itself at each step, for a decay rate that is a number."""

        def probe(group: Group) -> bool:
            decay = group[name] if index is None else group[name][index]
            return type(decay) is float and 0.5 < decay < 1.5

        return bool(guard_on(self.group, probe, f"{name} near 1"))


def cast_option_scalars(numbers: tuple[Number, ...], p: Tensor) -> tuple[Number, ...]:
    """Return `numbers` as operands for `p`: without dimensions, tensors take its dtype, or the wider would win."""
    if p.ndim:
        return numbers
    return tuple(n.to(p.dtype) if isinstance(n, Tensor) else n for n in numbers)
