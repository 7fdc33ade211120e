"""PyTorch's optimizers as functions of lists of tensors, and the private functions that other optimizers are built on.

`adjoint.optim.adam.adam(params, grads, exp_avgs, …)` updates these tensors in place, once.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import NamedTuple

from adjoint.autograd.grad_mode import set_grad_enabled
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Function, Operand, StateDict

capturable_doc = differentiable_doc = foreach_doc = fused_doc = maximize_doc = params_doc = ""
Tensors = Sequence[Tensor | None]


class FunctionalForm(NamedTuple):
    """Function of lists that does one step of an optimizer: the class, and the entries of the state that lists are."""

    module: str
    optimizer: str
    entries: tuple[str, ...]

    def run(self, params: Sequence[Tensor], grads: Tensors, *lists: Operand, **options: Operand) -> None:
        """Update the parameters and the lists of the state; parameters without a gradient stay."""
        name = self.optimizer.lower()
        if len(lists) != len(self.entries):
            raise TypeError(
                f"{name}: expected {len(self.entries)} lists after params and grads ({', '.join(self.entries)}) and "
                f"options by keyword, got {len(lists)} positional arguments"
            )
        if options.get("grad_scale") is not None or options.get("found_inf") is not None:
            raise NotImplementedError(f"{name}: grad_scale and found_inf are not here: see amp.GradScaler")
        places = [p.detach() for p in params]  # these share memory, and may be given gradients
        kind = getattr(import_module(f"adjoint.optim.{self.module}"), self.optimizer)
        optimizer = kind(places, **self.read_options(options, kind))
        for i, (place, grad) in enumerate(zip(places, grads, strict=True)):
            place.grad = grad
            given = dict(zip(self.entries, lists, strict=True))
            found = {entry: values[i] for entry, values in given.items() if i < len(values)}
            optimizer.state[place].update({entry: value for entry, value in found.items() if value is not None})
        optimizer.step()
        for i, place in enumerate(places):
            for entry, values in zip(self.entries, lists, strict=True):
                _write_back(values, i, optimizer.state[place].get(entry))

    def read_options(self, options: StateDict, kind: Function) -> StateDict:
        """Return the options as the constructor of the class takes them."""
        named = dict(options)
        for pair, names in _PAIRS.items():
            if names[0] in named:
                named[pair] = tuple(named.pop(name) for name in names)
        for ignored in ("grad_scale", "found_inf", "has_complex", "has_sparse_grad", "foreach", "fused"):
            named.pop(ignored, None)
        return named


_PAIRS = {
    "betas": ("beta1", "beta2"),
    "etas": ("etaminus", "etaplus"),
    "step_sizes": ("step_size_min", "step_size_max"),
}


def _write_back(values: Operand, i: int, value: Operand) -> None:
    """Let item `i` of a list be a value of the state, in its own memory if it has some."""
    if i >= len(values) or value is None or values[i] is value:
        return
    if isinstance(values[i], Tensor):
        values[i].fill_(value) if not isinstance(value, Tensor) else values[i].copy_(value)
    else:
        values[i] = value


_MOMENTS = ("exp_avg", "exp_avg_sq")
adadelta = FunctionalForm("adadelta", "Adadelta", ("square_avg", "acc_delta", "step")).run
adagrad = FunctionalForm("adagrad", "Adagrad", ("sum", "step")).run
adam = FunctionalForm("adam", "Adam", (*_MOMENTS, "max_exp_avg_sq", "step")).run
adamax = FunctionalForm("adamax", "Adamax", ("exp_avg", "exp_inf", "step")).run
adamw = FunctionalForm("adam", "AdamW", (*_MOMENTS, "max_exp_avg_sq", "step")).run
asgd = FunctionalForm("asgd", "ASGD", ("ax", "mu", "eta", "step")).run
nadam = FunctionalForm("nadam", "NAdam", (*_MOMENTS, "mu_product", "step")).run
radam = FunctionalForm("radam", "RAdam", (*_MOMENTS, "step")).run
rmsprop = FunctionalForm("rmsprop", "RMSprop", ("square_avg", "grad_avg", "momentum_buffer", "step")).run
rprop = FunctionalForm("rprop", "Rprop", ("prev", "step_size", "step")).run
sgd = FunctionalForm("sgd", "SGD", ("momentum_buffer",)).run


def use_grad_for_differentiable(func: Function) -> Function:
    """Decorate `step`: it is recorded only if the optimizer's option "differentiable" is set."""

    @functools.wraps(func)
    def step(self: Operand, *args: Operand, **kwargs: Operand) -> Operand:
        with set_grad_enabled(bool(self.defaults["differentiable"])):
            return func(self, *args, **kwargs)

    return step


def default_to_fused_or_foreach(
    params: Sequence[Tensor], differentiable: bool, use_fused: bool = False
) -> tuple[bool, bool]:
    """Return False for fused and for foreach: loops over parameters are as quick here."""
    return False, False


def get_capturable_supported_devices(supports_xla: bool = True) -> list[str]:
    """Return the devices whose steps are captured in graphs: none."""
    return []


def disable_dynamo_if_unsupported(single_tensor_fn: Function | None = None) -> Callable[[Function], Function]:
    """Decorate a function without a change."""
    return lambda function: function


def get_value(x: Operand) -> Operand:
    """Return a tensor of one element as a number."""
    return x.item() if isinstance(x, Tensor) else x


def to_scalar(x: Operand) -> Operand:
    """Return a tensor of one element without dimensions."""
    return x.squeeze() if isinstance(x, Tensor) and x.ndim else x


def dispatch_sqrt(x: Operand) -> Operand:
    """Return the root of a number or tensor."""
    return x.sqrt() if isinstance(x, Tensor) else x**0.5


def stack_if_compiling(x: Sequence[Operand]) -> Sequence[Operand]:
    """Return the list itself."""
    return x


def view_pairs_as_real(params: list[Tensor], *state_and_grads: list[Tensor]) -> None:
    """Replace complex tensors in lists by views of their real and imaginary parts."""
    for i, p in enumerate(params):
        if p.is_complex():
            for tensors in (params, *state_and_grads):
                view: Operand = tensors[i]
                tensors[i] = view.view_as_real() if hasattr(view, "view_as_real") else view
