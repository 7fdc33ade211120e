"""The options which optimizers have in common: what they may be, and how a step reads them."""

from __future__ import annotations

from typing import Any

from adjoint.core.runtime.mode import guard_on
from adjoint.core.tensor.tensor import Tensor
from adjoint.optim.step.param_groups import Group


def check_learning_rate(lr: Any) -> None:
    """Raise ValueError unless `lr`, a number or a tensor of one element, is at least 0."""
    check_one_element("lr", lr)
    check_number("learning rate", lr)


def check_number(what: str, value: Any, below: float | None = None) -> None:
    """Raise ValueError unless 0 ≤ value, and value < `below` if that is given."""
    if not value >= 0 or (below is not None and not value < below):
        raise ValueError(f"Invalid {what}: {value}")


def check_adaptive(options: Group) -> None:
    """Raise ValueError for what Adam and its kin cannot use: negative numbers, and betas outside [0, 1)."""
    check_learning_rate(options["lr"])
    check_number("epsilon value", options["eps"])
    for i, beta in enumerate(options["betas"]):
        check_one_element(f"betas[{i}]", beta)
        check_number(f"beta parameter at index {i}", beta, below=1)
    check_number("weight_decay value", options["weight_decay"])


def check_one_element(name: str, value: Any) -> None:
    """Raise ValueError for a tensor with more or fewer elements than one."""
    if isinstance(value, Tensor) and value.numel() != 1:
        raise ValueError(f"Tensor {name} must be 1-element")


def check_implementation(options: dict[str, Any]) -> None:
    """Raise RuntimeError for the choices of implementation that PyTorch excludes together."""
    if options["fused"]:
        if options["differentiable"]:
            raise RuntimeError("`fused` does not support `differentiable`")
        if options["foreach"]:
            raise RuntimeError("`fused` and `foreach` cannot be `True` together.")


def is_option_set(group: Group, name: str) -> bool:
    """Whether an option is set, or not 0. A compiled step that asks is retraced when this changes."""
    return bool(guard_on(group, lambda g: bool(g[name]), f"the option {name} of an optimizer"))


def as_scalar(number: Any) -> Any:
    """A number; or a tensor of one element without its dimensions, so that it takes the dtype of what it multiplies."""
    return number.reshape(()) if isinstance(number, Tensor) and number.ndim else number


def cast_option_scalars(numbers: tuple[Any, ...], p: Tensor) -> tuple[Any, ...]:
    """`numbers` as operands for `p`: where neither has dimensions, tensors take its dtype, or the wider would win."""
    if p.ndim:
        return numbers
    return tuple(n.to(p.dtype) if isinstance(n, Tensor) else n for n in numbers)
