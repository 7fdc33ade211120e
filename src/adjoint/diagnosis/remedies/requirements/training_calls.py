"""Remedies for what drives a training: optimizers, scalers, autocast, data sets, averages, logs."""

from __future__ import annotations

import ast
import inspect
import re

from adjoint.core.tensor.tensor import Tensor
from adjoint.diagnosis.causes.computing import open_step
from adjoint.diagnosis.causes.numbers import trace_number
from adjoint.diagnosis.failure import Failure
from adjoint.diagnosis.operands import MISSING, NamedValue, evaluate
from adjoint.diagnosis.remedies.registry import (
    argument_node,
    at,
    find_named_argument,
    find_part,
    name_owner,
    remedy,
    require_grad_last,
)
from adjoint.diagnosis.repairs.trial import compute
from adjoint.diagnosis.source_expressions import text_of


def _find_parameter(failure: Failure, index: int) -> tuple[str, Tensor] | None:
    """Return a parameter of the group that the optimizer works on, under the name that a module of the frame gives."""
    group = failure.locals.get("group", failure.locals.get("param_group"))
    if not isinstance(group, dict) or not isinstance(group.get("params"), list) or index >= len(group["params"]):
        return None
    own = group["params"][index]
    names = {**failure.frame.f_globals, **failure.frame.f_locals}
    for name, value in names.items():
        if value is own:
            return name, own
        parts = getattr(value, "named_parameters", None)
        for inner, each in parts() if parts is not None and not isinstance(value, type) else ():
            if each is own:
                return f"{name}.{inner}", own
    return None


@remedy(r"loaded state dict: (\w+) has shape (\[.*?\]), but belongs to parameter (\d+) of its group, shape (\[.*?\])")
def load_own_state(failure: Failure, match: re.Match[str]) -> str:
    """The state of an optimizer whose parameters had other shapes."""
    told = f"the state is of an optimizer whose parameter {match[3]} was {match[2]}, and it is {match[4]} here"
    return f"{told}: the same model as when it was saved, or a new optimizer without the state"


@remedy(
    r"Muon only supports 2D parameters|(\w+) does not support complex parameters|has a sparse gradient\. This optimizer"
)
def take_other_optimizer(failure: Failure, match: re.Match[str]) -> str | None:
    """A parameter of a kind that an optimizer does not update."""
    index = re.search(r"parameter (\d+) of its group", failure.message)
    found = None if index is None else _find_parameter(failure, int(index[1]))
    shape = re.search(r"shape \[([\d, ]*)\]", failure.message)
    own = f"a parameter of shape [{'' if shape is None else shape[1]}]" if found is None else found[0]
    if "sparse" in match[0]:
        return f"{own} has a sparse gradient: torch.optim.SparseAdam for it, or sparse=False in its nn.Embedding"
    if match[1]:
        return f"{own} is complex: torch.optim.Adam, or torch.view_as_real of it as the parameter"
    given = argument_node(failure, 0, "params")
    text = "params" if given is None else text_of(given)
    told = f"Muon updates matrices, and {own} is {'' if found is None else f'{found[1].ndim}-D, '}none"
    return f"{told}: [p for p in {text} if p.ndim == 2] here, and torch.optim.AdamW for the others"


@remedy(r"(lr|betas\[\d\]) as a Tensor is not supported for capturable=False and foreach=True")
def give_number(failure: Failure, match: re.Match[str]) -> str | None:
    """A tensor where a number does."""
    name = match[1].partition("[")[0]
    given = find_named_argument(failure, name)
    if given is None:
        return None
    value = compute(given, failure.frame)
    own = failure.find_operand(text_of(given))
    number = f"{value.item():.3g}" if isinstance(value, Tensor) and value.numel() == 1 else f"{text_of(given)}.item()"
    return f"{name}={text_of(given)}{at(own)} is a tensor: {name}={number}, or leave foreach=True out"


@remedy(r"Only one of (\w+) and (\w+) should be (?:provided|set|given)|Only one of (\w+) or (\w+)")
def keep_one(failure: Failure, match: re.Match[str]) -> str | None:
    """Two arguments of which each says all."""
    first = match[1] or match[3]
    return f"leave {first}= out: {match[2] or match[4]}= does all" if find_named_argument(failure, first) else None


@remedy(r"new_scale should be a float or a 1-element tensor")
def give_one_scale(failure: Failure, match: re.Match[str]) -> str | None:
    """Several scales for one scaler."""
    given = find_named_argument(failure, "new_scale")
    value = None if given is None else compute(given, failure.frame)
    if given is None:
        return None
    told = f"new_scale={text_of(given)}{at(failure.find_operand(text_of(given)))}"
    if isinstance(value, Tensor):
        told += f" has {value.numel()} elements" if value.numel() != 1 else " requires grad"
    return f"{told}: new_scale=1024.0"


@remedy(r"The source state dict is empty, possibly because it was saved from a disabled instance of GradScaler")
def skip_empty_state(failure: Failure, match: re.Match[str]) -> str | None:
    """The state of a scaler that was disabled."""
    given, owner = argument_node(failure, 0, "state_dict"), name_owner(failure, "scaler").partition(" at ")[0]
    if given is None:
        return None
    text = text_of(given)
    source = given.func.value if isinstance(given, ast.Call) and isinstance(given.func, ast.Attribute) else given
    told = f"{text_of(source)}{at(failure.find_operand(text_of(source)))} is of a disabled scaler and has no state"
    return f"{told}: if {text}: {owner}.load_state_dict({text})"


@remedy(r"Expected `device_type` of type `str`, got: `<class '([\w.]+)'>`")
def name_device(failure: Failure, match: re.Match[str]) -> str | None:
    """A type where the device comes first."""
    given, node = find_named_argument(failure, "device_type") or argument_node(failure, 0), failure.node
    if given is None or not isinstance(node, ast.Call):
        return None
    kind = compute(given, failure.frame)
    text = text_of(given)
    if "float" in match[1].lower() or "dtype" in match[1].lower():
        return f"the device comes first, and {text} is a type: {text_of(node.func)}('cpu', dtype={text})"
    if hasattr(kind, "type"):
        return f"{text}{at(failure.find_operand(text))} is a device: {text_of(node.func)}({text}.type)"
    return f"{text} is no name of a device: {text_of(node.func)}('cpu')"


@remedy(r"autocast\(\)\(func\) requires a callable, but got (\w+)")
def use_block(failure: Failure, match: re.Match[str]) -> str | None:
    """A result that is put into autocast."""
    node = failure.node
    if not isinstance(node, ast.Call) or not node.args:
        return None
    return (
        f"it takes the function and not its result: with {text_of(node.func)}: and {text_of(node.args[0])} in the block"
    )


@remedy(r"Supported either datasets by position, or by name")
def name_datasets(failure: Failure, match: re.Match[str]) -> str | None:
    """Data sets of which some have a name."""
    node = failure.node
    if not isinstance(node, ast.Call):
        return None
    names = [text_of(each) if isinstance(each, ast.Name) else f"x{i}" for i, each in enumerate(node.args)]
    parts = [f"{name}={text_of(each)}" for name, each in zip(names, node.args, strict=True)]
    return f"all by name, or none: {text_of(node.func)}({', '.join([*parts, *map(text_of, node.keywords)])})"


@remedy(r"^Size mismatch between datasets")
def fit_datasets(failure: Failure, match: re.Match[str]) -> str | None:
    """Data sets of unlike lengths, whose samples go side by side."""
    found = [(each, len(each.value)) for each in failure.operands if hasattr(type(each.value), "__len__")]
    if len(found) < 2:
        return None
    told = ", ".join(f"{each.text}{at(each)} has {count}" for each, count in found)
    least = min(count for _, count in found)
    longer = next((each.text for each, count in found if count > least), "")
    return f"a sample has a part of each: {told}; torch.utils.data.Subset({longer}, range({least})) has {least}"


@remedy(r"ChainDataset only supports IterableDataset")
def concatenate_datasets(failure: Failure, match: re.Match[str]) -> str | None:
    """Data sets with a length in a chain of those that are only iterated."""
    x = next((each for each in failure.operands if type(each.value).__name__ == "ChainDataset"), None)
    made = None if x is None or x.origin is None else x.origin.value
    given = made.args[0] if isinstance(made, ast.Call) and made.args else None
    if x is None or given is None:
        return "ConcatDataset joins data sets that have a length"
    return f"{text_of(given)} have a length: {x.text} = ConcatDataset({text_of(given)}){at(x)}"


@remedy(r"Invalid rank (\d+), rank should be in the interval \[0, (\d+)\]")
def count_ranks(failure: Failure, match: re.Match[str]) -> str:
    """The number of a process beyond the last."""
    given = find_named_argument(failure, "rank")
    text = match[1] if given is None else text_of(given)
    own = None if given is None else failure.find_operand(text)
    told = f"rank={text}{at(own)} counts from 0, and num_replicas={int(match[2]) + 1} processes have 0 to {match[2]}"
    return f"{told}: rank={match[2]} is the last"


@remedy(
    r"weights should be a 1d sequence but given weights have shape \(([\d, ]*)\)|(?:must|should) be (?:a )?1-?[dD]\b"
)
def take_one_row(failure: Failure, match: re.Match[str]) -> str | None:
    """A matrix where a vector of numbers is wanted."""
    given = find_named_argument(failure, "weights")
    x = next((each for each in failure.tensors() if each.value.ndim == 2), None)
    if match[1] and given is not None:
        value = compute(given, failure.frame)
        x = NamedValue(text_of(given), value, getattr(failure.find_operand(text_of(given)), "origin", None))
    if x is None or not isinstance(x.value, Tensor) or x.value.ndim != 2:
        return None
    rows, columns = x.value.shape
    told = f"{x.text}{at(x)} is ({rows}, {columns}), and a vector is wanted"
    if 1 in (rows, columns):
        return f"{told}: {x.text}.flatten()"
    return f"{told}: {x.text}[:, 0], {x.text}[0] or {x.text}.flatten()"


@remedy(r"Expected (\d+) (\w+?)s?, but got (\d+)$")
def give_as_many(failure: Failure, match: re.Match[str]) -> str | None:
    """One function for several groups of parameters."""
    given = find_named_argument(failure, f"{match[2]}")
    if not isinstance(given, ast.List) or len(given.elts) != 1 or find_part(failure, text_of(given)) is None:
        return None
    told = f"one for each of the {match[1]} parameter groups"
    return f"{told}: {text_of(given)} * {match[1]}, or {text_of(given.elts[0])} for all"


@remedy(r"a scalar has one element, and this value has shape \(([\d, ]*)\)")
def log_mean(failure: Failure, match: re.Match[str]) -> str | None:
    """Several values where a log takes one."""
    x = next((each for each in failure.tensors() if each.value.numel() != 1), None)
    return None if x is None else f"{x.text}{at(x)} has {x.value.numel()} values: {x.text}.mean().item()"


@remedy(r"can't assign a Tensor as its own grad")
def copy_gradient(failure: Failure, match: re.Match[str]) -> str | None:
    """A tensor that is to be its own gradient."""
    x = next(iter(failure.tensors()), None)
    return None if x is None else f"{x.text}.grad = {x.text}.detach().clone(), a copy of its values"


@remedy(r"inference tensor outside InferenceMode is not allowed")
def leave_inference(failure: Failure, match: re.Match[str]) -> str | None:
    """A tensor of inference mode that is to be written or learned."""
    node = failure.node
    x = next((each for each in failure.tensors() if each.value.is_inference()), None)
    name = name_owner(failure, "it") if x is None else f"{x.text}{at(x)}"
    text = name.partition(" at ")[0]
    method = text_of(node.func).rpartition(".")[2] if isinstance(node, ast.Call) else ""
    return f"{name} was made in inference_mode: no_grad() there, or {text} = {text}.clone() before {method or 'it'}"


@remedy(r"Can't detach views in-place")
def detach_view(failure: Failure, match: re.Match[str]) -> str:
    """A part of a tensor that is to lose its graph in place."""
    name = name_owner(failure, "it").partition(" at ")[0]
    return f"{name_owner(failure, 'it')} is a view of another tensor: {name} = {name}.detach()"


@remedy(r"get the gradient edge for a Tensor that does not require|multi_grad_hook: tensor \d+ does not require grad")
def require_gradient(failure: Failure, match: re.Match[str]) -> str | None:
    """A tensor without a gradient, of which one is asked for."""
    x = next((each for each in failure.tensors() if not each.value.requires_grad), None)
    if x is None:
        return None
    made = None if x.origin is None else x.origin.value_of(x.text)
    way = None if made is None else require_grad_last(made)
    told = f"{x.text}{at(x)} requires no gradient"
    return f"{told}: {x.text} = {way} there" if way else f"{told}: {x.text}.requires_grad_() before it"


@remedy(r"'(?:float|int)' object is not (?:iterable|subscriptable)|cannot unpack non-iterable (?:float|int) object")
def give_pair(failure: Failure, match: re.Match[str]) -> str | None:
    """A setting of `**settings` that is a pair, such as the two betas of Adam, for which one number is given."""
    call = failure.node
    kind = evaluate(call.func, failure.frame) if isinstance(call, ast.Call) else None
    spread = [each.value for each in call.keywords if each.arg is None] if isinstance(call, ast.Call) else []
    for name, parameter in inspect.signature(kind).parameters.items() if spread and isinstance(kind, type) else ():
        whole = open_step(failure, spread[0]) if isinstance(parameter.default, tuple) else None
        step = None if whole is None else whole.at(spread[0], (name,))
        value = MISSING if step is None else step.context.program.compute(step)
        if step is not None and isinstance(call, ast.Call) and type(value) in (int, float):
            where, pair = trace_number(step, value).root.place(), (value, *parameter.default[1:])
            return f"{name} at {where} is {value}, and {text_of(call.func)} takes {len(pair)} numbers: {name}={pair}"
    return None
