"""Remedies for what drives a training: closures and schedules, gradient scalers, checkpoints' parts, weights."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from types import MethodType

from adjoint.core.graph.source_location import definition_site
from adjoint.core.tensor.tensor import Tensor
from adjoint.diagnosis.failure import Failure
from adjoint.diagnosis.operands import MISSING, Origin, evaluate, find_origin, is_module
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


@remedy(
    r"'\w+' object is not iterable|params argument given to the optimizer should be|"
    r"optimizer can only optimize Tensors, but one of the params is"
)
def give_parameters(failure: Failure, match: re.Match[str]) -> str | None:
    """Something else where an optimizer wants parameters: a model, names, a dictionary, generators in a list."""
    node = None if failure.line is None else failure.line.node
    found = (failure.locals.get(name, MISSING) for name in ("param", "given", "params"))  # the innermost first
    given = next((each for each in found if each is not MISSING and not isinstance(each, dict)), MISSING)
    is_of_optimizer = any("optim" in Path(frame.f_code.co_filename).parts for frame in failure.stack[0].called)
    if (
        given is MISSING
        or not isinstance(node, ast.Call)
        or not is_of_optimizer
        or (isinstance(given, Iterator) and "float" in failure.message)
    ):
        return None
    arguments = [*node.args, *(each.value for each in node.keywords if each.arg == "params")]
    argument = arguments[0] if arguments else node
    text = text_of(argument)
    has_groups = any(isinstance(each, ast.Dict) for each in ast.walk(argument))
    if isinstance(argument, ast.List) and not has_groups and (is_module(given) or isinstance(given, Iterator)):
        calls = ".parameters()" if is_module(given) else ""
        return f"one list of all parameters: [{', '.join(f'*{text_of(each)}{calls}' for each in argument.elts)}]"
    if is_module(given):
        model = failure.named_module()
        return f"an optimizer takes parameters: {model.text if has_groups and model else text}.parameters()"
    if isinstance(given, Tensor):
        return f"an optimizer takes a list of tensors: [{text}]"
    if isinstance(given, (str, tuple)):
        return _replace_names(argument, text)
    if isinstance(given, MethodType):
        named = arguments and text.endswith(f".{given.__name__}")
        return f"{given.__name__} is a method: {text if named else given.__name__}()"
    kind = type(given).__name__
    return f"{kind} is no parameter: an optimizer takes tensors, such as those of model.parameters()"


def _replace_names(argument: ast.expr, text: str) -> str:
    """Return what to write instead of a dictionary, or of names, where an optimizer wants parameters."""
    keys = argument.keys if isinstance(argument, ast.Dict) else []
    if any(isinstance(key, ast.Constant) and key.value == "params" for key in keys):
        return f"groups are a list, of one too: [{text}]"
    if text.endswith(".state_dict()"):
        return f"a state is a dictionary of copies by name: {text.removesuffix('.state_dict()')}.parameters()"
    if isinstance(argument, ast.Dict) or text.startswith("dict("):
        return f"params are tensors, and a dictionary gives its keys: {text}.values()"
    return "params are tensors, not names or pairs: [p for name, p in model.named_parameters() if …]"


@remedy(r"a parameter group needs its parameters under the key 'params'")
def name_group_key(failure: Failure, match: re.Match[str]) -> str | None:
    """A group of parameters under another key."""
    node = None if failure.line is None else failure.line.node
    for group in ast.walk(node) if node is not None else ():
        keys = (
            {key.value: key for key in group.keys if isinstance(key, ast.Constant)}
            if isinstance(group, ast.Dict)
            else {}
        )
        if keys and "params" not in keys and failure.line is not None:
            near = next((key for key in keys if "param" in str(key)), next(iter(keys)))
            return f"the key {near!r} at {failure.line.source.place_of(keys[near])} is to be 'params'"
    return None


@remedy(r"Attempted step but _scale is None|No inf checks were recorded")
def scale_loss(failure: Failure, match: re.Match[str]) -> str | None:
    """A scaler that has not scaled the loss."""
    node = None if failure.line is None else failure.line.node
    if failure.line is None or node is None:
        return None
    scaler, _ = _describe_owner(failure, "scaler")
    source = failure.line.source
    passes = [
        each
        for each in ast.walk(source.scope_of(node))
        if isinstance(each, ast.Call) and isinstance(each.func, ast.Attribute) and each.func.attr == "backward"
    ]
    plain = [each for each in passes if ".scale(" not in text_of(each.func)]
    if not plain or not isinstance(plain[-1].func, ast.Attribute):
        return (
            f"no gradient has come from a scaled loss: {scaler}.scale(loss).backward() before {scaler}.step(optimizer)"
        )
    loss = text_of(plain[-1].func.value)
    return f"{text_of(plain[-1])} at {source.place_of(plain[-1])} is not scaled: {scaler}.scale({loss}).backward()"


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
