"""Remedies for what drives a training: closures and schedules, gradient scalers, checkpoints' parts, weights."""

from __future__ import annotations

import ast
import re

from adjoint.core.graph.source_location import definition_site
from adjoint.core.tensor.tensor import Tensor
from adjoint.diagnosis.failure import Failure
from adjoint.diagnosis.operands import Origin, evaluate, find_origin
from adjoint.diagnosis.remedies.registry import at, remedy
from adjoint.diagnosis.source_expressions import text_of


def _describe_owner(failure: Failure, default: str) -> tuple[str, str]:
    """Return the user's name of the object whose method was called, and the line that made it as " at train.py:9"."""
    node = None if failure.line is None else failure.line.node
    if failure.line is None or not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return default, ""
    origin = find_origin(failure.line.source, node.func.value, failure.stack)
    return text_of(node.func.value), "" if origin is None else f" at {origin.place()}"


@remedy(r"\.step\(\) missing 1 required positional argument: 'closure'")
def give_closure(failure: Failure, match: re.Match[str]) -> str:
    """An optimizer that computes the loss several times in a step."""
    name, _ = _describe_owner(failure, "optimizer")
    return f"{name}.step(closure): closure() clears the gradients, computes the loss, calls backward(), and returns it"


@remedy(r"\.step\(\) missing 1 required positional argument: 'metrics'")
def give_metric(failure: Failure, match: re.Match[str]) -> str:
    """A schedule that looks at a loss."""
    name, _ = _describe_owner(failure, "scheduler")
    return f"{name}.step(loss): it lowers the rate when that number, such as the validation loss, stops falling"


@remedy(r"Tried to step (\d+) times\. The specified number of total steps is (\d+)")
def count_steps(failure: Failure, match: re.Match[str]) -> str:
    """A schedule that is at its end."""
    name, where = _describe_owner(failure, "the schedule")
    return (
        f"{name}{where} was made for {match[2]} steps: total_steps=epochs * len(loader) where step() follows each "
        "batch, epochs where it follows each epoch"
    )


@remedy(r"unscale_\(\) has already been called on this optimizer|unscale_\(\) is being called after step\(\)")
def unscale_once(failure: Failure, match: re.Match[str]) -> str:
    """Gradients that are unscaled twice."""
    name, _ = _describe_owner(failure, "scaler")
    return (
        f"one {name}.unscale_(optimizer) for each step: leave out this one or the one before; {name}.update() ends a "
        "step"
    )


@remedy(r"one of the params is (?:str|tuple)")
def give_values(failure: Failure, match: re.Match[str]) -> str:
    """Names of parameters where the parameters belong."""
    return "params are tensors, not names or pairs: [p for name, p in model.named_parameters() if …]"


@remedy(r"weight tensor should be defined either for all (\d+) classes .* of shape: \[(\d+)\]")
def count_weights(failure: Failure, match: re.Match[str]) -> str | None:
    """Weights for other classes, which the loss was made with."""
    layer = failure.module()
    made = None if layer is None or layer.origin is None else layer.origin
    for node in ast.walk(made.node) if made is not None else ():
        if made is not None and isinstance(node, ast.keyword) and node.arg == "weight":
            origin = find_origin(made.source, node.value, failure.stack) or Origin(made.source, node.value)
            told = f"{text_of(node.value)} at {origin.place()}"
            return f"{told} has {match[2]} numbers: one for each of the {match[1]} classes"
    return None


@remedy(r"parameter (\d+) of its group, shape \[([\d, ]*)\]")
def name_repeated_parameter(failure: Failure, match: re.Match[str]) -> str | None:
    """A parameter that two groups hold: which one it is."""
    group = failure.locals.get("group", failure.locals.get("param_group"))
    model = failure.named_module()
    if model is None or not isinstance(group, dict) or not isinstance(group.get("params"), list):
        return None
    own = group["params"][int(match[1])]
    name = next((name for name, each in model.value.named_parameters() if each is own), None)
    if name is None:
        return None
    part = name.rpartition(".")[0]
    return f"each parameter belongs to one group, and {model.text}.{name} to two: leave {part or name} out of the other"


@remedy(r"Expected value argument \(Tensor.*within the support \((\w+)\(?(.*?)\)?\) of the distribution (\w+)\(")
def give_supported_value(failure: Failure, match: re.Match[str]) -> str:
    """A value that the distribution never gives."""
    value = failure.locals.get("value")
    x = next((each for each in failure.tensors() if each.value is value), None)
    name = "the value" if x is None else f"{x.text}{at(x)}"
    told = f", {float(value.min()):.4g} to {float(value.max()):.4g}," if isinstance(value, Tensor) else ""
    bounds = re.findall(r"=(-?[\d.]+)", match[2])
    wanted = f"values of {' to '.join(bounds)}" if bounds else f"what {match[1]} holds"
    return f"{name}{told} is not what {match[3]} can give: {wanted}"


@remedy(r"Got in_dim=(\d+) for some input, but that input is a Tensor of dimensionality 0")
def share_argument(failure: Failure, match: re.Match[str]) -> str | None:
    """An argument of vmap that all examples share."""
    node = None if failure.line is None else failure.line.node
    if not isinstance(node, ast.Call):
        return None
    values = [evaluate(each, failure.frame) for each in node.args]
    single = [text_of(each) for each, value in zip(node.args, values, strict=True) if getattr(value, "ndim", 1) == 0]
    if not single:
        return None
    dims = ", ".join("None" if getattr(value, "ndim", 1) == 0 else "0" for value in values)
    return f"{single[0]} has no dimension to go along: None for what all examples share, in_dims=({dims})"


@remedy(r"Expected f\(\*args\) to return a scalar")
def name_vector_function(failure: Failure, match: re.Match[str]) -> str | None:
    """The function whose gradient was asked for, and what it gave."""
    function, value = failure.locals.get("func"), failure.locals.get("value")
    code = getattr(function, "__code__", None)
    if code is None or not isinstance(value, Tensor):
        return None
    where = definition_site(code).describe_briefly()
    return (
        f"{code.co_name}, {where}, returns {tuple(value.shape)}: .mean() or .sum() of that; torch.func.jacrev gives "
        "the derivatives of each value"
    )
