"""Remedies for what drives a training: closures and schedules, gradient scalers, checkpoints' parts, weights."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from difflib import get_close_matches
from pathlib import Path
from types import MethodType

from adjoint.core.runtime.text_table import pluralize
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Operand
from adjoint.diagnosis.failure import Failure
from adjoint.diagnosis.operands import MISSING, Origin, evaluate, find_origin, find_return_in, is_module
from adjoint.diagnosis.remedies.registry import argument_node, at, find_producer, remedy
from adjoint.diagnosis.repairs.expression import bracket
from adjoint.diagnosis.repairs.trial import compute
from adjoint.diagnosis.source_expressions import find_attribute_assignment, text_of

METRIC = re.compile(r"(^|_)(val|valid|test|eval|loss|acc\w*|metric|error|score)(_|$)")


def _describe_owner(failure: Failure, default: str) -> tuple[str, str]:
    """Return the user's name of the object whose method was called, and the line that made it as " at train.py:9"."""
    node = failure.node
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
    held = {**failure.frame.f_globals, **failure.frame.f_locals}
    numbers = [key for key, each in held.items() if isinstance(each, (float, Tensor)) and METRIC.search(key)]
    metric = min(numbers, key=lambda key: ("val" not in key, "loss" not in key, key), default="loss")
    return f"{name}.step({metric}): it lowers the rate when that number, such as the validation loss, stops falling"


@remedy(r"Tried to step (\d+) times\. The specified number of total steps is (\d+)")
def count_steps(failure: Failure, match: re.Match[str]) -> str:
    """A schedule that is at its end."""
    name, where = _describe_owner(failure, "the schedule")
    node: ast.AST | None = failure.node
    loops: list[ast.For] = []
    while node is not None and failure.line is not None and not isinstance(node, (ast.FunctionDef, ast.Module)):
        node = failure.line.source.parents.get(node)
        loops += [node] if isinstance(node, ast.For) else []
    told = f"{name}{where} was made for {match[2]} steps"
    turns = " * ".join(_count_turns(each.iter) for each in loops[::-1])
    return f"{told}, and the loops make more: total_steps={turns} there" if turns else f"{told}, one for each step()"


def _count_turns(given: ast.expr) -> str:
    """Return the number of turns of a loop, as a text."""
    while isinstance(given, ast.Call) and given.args and text_of(given.func) in ("enumerate", "tqdm", "zip"):
        given = given.args[0]
    if isinstance(given, ast.Call) and text_of(given.func) == "range" and given.args:
        sizes = [bracket(each) for each in given.args[:2]]
        return sizes[0] if len(sizes) == 1 else f"({sizes[1]} - {sizes[0]})"
    return f"len({text_of(given)})"


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
    node = failure.node
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
    own = failure.find_operand(text)
    if isinstance(given, Iterator):
        told = f"{text}{at(own)} is a list of generators, and an optimizer takes one of parameters"
        return f"{told}: [p for each in {text} for p in each]"
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
    source = None if failure.line is None else failure.line.source
    for group in ast.walk(source.tree) if source is not None else ():
        keys = (
            {key.value: key for key in group.keys if isinstance(key, ast.Constant)}
            if isinstance(group, ast.Dict)
            else {}
        )
        near = next((key for key in keys if "param" in str(key) or get_close_matches(str(key), ["params"])), None)
        is_group = near is not None or {"lr", "weight_decay"} & {*keys}
        if keys and "params" not in keys and is_group and failure.line is not None:
            near = next(iter(keys)) if near is None else near
            return f"the key {near!r} at {failure.line.source.place_of(keys[near])} is to be 'params'"
    return None


@remedy(r"Attempted step but _scale is None|No inf checks were recorded")
def scale_loss(failure: Failure, match: re.Match[str]) -> str | None:
    """A scaler that has not scaled the loss."""
    node = failure.node
    if failure.line is None or node is None:
        return None
    scaler, _ = _describe_owner(failure, "scaler")
    if text_of(node).endswith(".update()"):
        return f"{scaler}.step(optimizer) comes first, and {scaler}.update() after it"
    source = failure.line.source
    passes = [
        each
        for each in ast.walk(source.scope_of(node))
        if isinstance(each, ast.Call) and isinstance(each.func, ast.Attribute) and each.func.attr == "backward"
    ]
    plain = [each for each in passes if ".scale(" not in text_of(each.func)]
    if not plain or not isinstance(plain[-1].func, ast.Attribute):
        for each in ast.walk(source.scope_of(node)):
            call = each.value if isinstance(each, ast.Expr) else None
            if isinstance(call, ast.Call) and text_of(call.func) == f"{scaler}.scale":
                told = f"nothing calls backward() of {text_of(call)} at {source.place_of(call)}"
                return f"{told}: {text_of(call)}.backward()"
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
            target, scores = failure.locals.get("target"), find_producer(failure, argument_node(failure, 0, "input"))
            largest = int(target.max()) if isinstance(target, Tensor) and target.numel() else -1
            if scores is not None and largest + 1 == int(match[2]) < int(match[1]):
                told = f"{told} has {match[2]} numbers, and the classes are 0 to {largest}"
                return f"{told}: {scores.text}{at(scores)} is to give {match[2]} scores, not {match[1]}"
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
    node = failure.node
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "add_param_group":
        own, where = _describe_owner(failure, "the optimizer")
        told = f"{own}{where} has {model.text}.{name} from the start"
        return f"{told}: leave {model.text} out of what it is made with, or set the lr of {own}.param_groups"
    told = f"each parameter belongs to one group, and {model.text}.{name} to two"
    modules = [each for each in failure.operands if is_module(each.value) and each.value is not model.value]
    whole = next((each for each in modules if any(inner is model.value for inner in each.value.modules())), None)
    prefix = "" if whole is None else next(n for n, each in whole.value.named_modules() if each is model.value)
    if whole is not None and not part:
        rest = f"[p for name, p in {whole.text}.named_parameters() if not name.startswith('{prefix}.')]"
        return f"{told}: {rest} in place of {whole.text}.parameters()"
    return f"{told}: leave {part or name} out of the other"


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


@remedy(
    r"(?:does not have a parameter, a buffer, or a parametrized element|no parameter or buffer) with name '?(\w+)'?"
)
def name_tensor(failure: Failure, match: re.Match[str]) -> str | None:
    """A tensor of a layer that is to be normalised or computed, under a name that the layer has not."""
    layer = next((each for each in failure.locals.values() if is_module(each) and match[1] not in dir(each)), None)
    node = failure.node
    if layer is None or not isinstance(node, ast.Call) or not node.args:
        return None
    names = [name for name, _ in layer.named_parameters(recurse=False)]
    if not names:
        parts = [name for name, each in layer.named_modules() if match[1] in vars(each)["_parameters"]]
        hint = f": one of its parts, {', '.join(parts)}" if parts else ""
        return f"{type(layer).__name__} has no parameters of its own{hint or ': only for layers that have weights'}"
    matrix = next((name for name in names if "weight" in name), names[0])
    told = f"{type(layer).__name__} has no {match[1]!r}, but {', '.join(names)}"
    return f"{told}: {text_of(node.func)}({text_of(node.args[0])}, name={matrix!r}), a call for each"


@remedy(r"parametrization (\w+) does not implement right_inverse")
def define_inverse(failure: Failure, match: re.Match[str]) -> str | None:
    """An assignment to a tensor that is computed of another."""
    statement = None if failure.line is None else failure.line.source.statement_of(failure.line.node)
    target = statement.targets[0] if isinstance(statement, ast.Assign) else None
    if not isinstance(target, ast.Attribute) or not isinstance(statement, ast.Assign):
        return None
    original = f"{text_of(target.value)}.parametrizations.{target.attr}.original"
    told = f"{text_of(target)} is computed by {match[1]} from {original}"
    way = f"def right_inverse(self, value) in {match[1]}, which gives the original that makes the value"
    return f"{told}: {way}; or {original}.copy_({text_of(statement.value)})"


@remedy(r"Only Tensors created explicitly by the user.*deepcopy")
def detach_state(failure: Failure, match: re.Match[str]) -> str:
    """A copy of a tensor with a graph, which an object may hold."""
    for operand in failure.operands:
        for path, owner, name in _find_computed(operand.value, operand.text):
            made = find_attribute_assignment(owner, name)
            kept = [] if made is None else made[0].attribute_assignments[type(owner).__name__, name]
            where = "" if made is None else f" at {made[0].place_of(kept[-1])}"
            return f"{path} holds a tensor with its graph: self.{name} = ….detach(){where}, where it is kept"
    x = next((each for each in failure.tensors() if not each.value.is_leaf), None)
    told = "it has a graph" if x is None else f"{x.text}{at(x)} is computed, with a graph"
    return f"{told}: {'.' if x is None else x.text + '.'}detach().clone() copies the values"


def _find_computed(owner: Operand, path: str) -> Iterator[tuple[str, Operand, str]]:
    """Yield the attributes of a module, or of another object, and of its parts, that hold tensors with graphs."""
    held = {} if isinstance(owner, Tensor) else getattr(owner, "__dict__", {})
    for name, value in {**held, **(held.get("_modules") or {}), **(held.get("_buffers") or {})}.items():
        values = list(value.values()) if isinstance(value, dict) else value
        each = values if isinstance(values, (list, tuple)) else [values]
        if not name.startswith("_") and any(isinstance(x, Tensor) and not x.is_leaf for x in each):
            yield f"{path}.{name}", owner, name
        elif is_module(value):
            yield from _find_computed(value, f"{path}[{name}]" if name.isdigit() else f"{path}.{name}")


@remedy(r"[Cc]an't (?:pickle|get) (?:local object |<function |attribute )?'?([\w.]+)\.<locals>\.(<lambda>|\w+)")
def name_function(failure: Failure, match: re.Match[str]) -> str | None:
    """A lambda, or a function within another, in what is saved or sent to a process."""
    source = None if failure.line is None else failure.line.source
    call = failure.node
    outer, name = match[1].rpartition(".")[2], match[2]
    wanted = ast.Lambda if name == "<lambda>" else ast.FunctionDef
    for node in ast.walk(source.tree) if source is not None else ():
        is_named = isinstance(node, wanted) and getattr(node, "name", name) == name
        if source is not None and is_named and getattr(source.scope_of(node), "name", outer) == outer:
            kind = "a lambda" if name == "<lambda>" else f"{name}, a function within {outer}"
            told = f"{kind}, stands at {source.place_of(node)}, and pickle finds functions by their names"
            is_saved = isinstance(call, ast.Call) and "save" in text_of(call.func)
            rest = "; or save model.state_dict(), which holds none" if is_saved else ""
            return f"{told}: def at the top of the file{rest}"
    return None


@remedy(r"Default process group has not been initialized")
def begin_processes(failure: Failure, match: re.Match[str]) -> str:
    """Work for several processes in a program that has begun none."""
    node = failure.node
    called = text_of(node.func).rpartition(".")[2] if isinstance(node, ast.Call) else "it"
    alone = ""
    if called == "DistributedDataParallel" and isinstance(node, ast.Call) and node.args:
        alone = f"; a single process needs no {called}: {text_of(node.args[0])} alone"
    return f'torch.distributed.init_process_group("gloo") before it, in each process that torchrun starts{alone}'


@remedy(r"weight_norm of '(\w+)' not found in|[Ss]pectral_norm of '(\w+)' not found in")
def name_normalised(failure: Failure, match: re.Match[str]) -> str | None:
    """A layer that has no such normalisation, of which it is to be freed."""
    node = failure.node
    if not isinstance(node, ast.Call) or not node.args:
        return None
    name, layer = text_of(node.args[0]), evaluate(node.args[0], failure.frame)
    owner = failure.frame.f_locals.get("self")
    parts = owner.named_modules() if owner is not None and is_module(owner) else ()
    path = next((path for path, each in parts if each is layer), None)
    told = f"{name}{'' if path is None else f', self.{path},'} has no {match[0].partition(' ')[0]}"
    return f"{told}: leave it out here, or give it one where it is made"


@remedy(r"'GradScaler' object has no attribute '(backward|scale_loss)'")
def scale_first(failure: Failure, match: re.Match[str]) -> str | None:
    """A scaler that is to call backward itself."""
    scaler = next((each for each in failure.operands if type(each.value).__name__ == "GradScaler"), None)
    source = None if failure.line is None else failure.line.source
    call = None if source is None or failure.line is None else source.parents.get(failure.line.node)
    loss = text_of(call.args[0]) if isinstance(call, ast.Call) and call.args else "loss"
    if scaler is None:
        return None
    return f"{scaler.text} scales the loss, and the loss has backward: {scaler.text}.scale({loss}).backward()"


@remedy(r"parametrization may not change the (shape|dtype) of the tensor.*: (\(.*?\)|\S+)\n.*: (\(.*?\)|\S+)")
def keep_shape(failure: Failure, match: re.Match[str]) -> str | None:
    """A parametrization that gives a tensor of another shape."""
    node = failure.node
    for argument in node.args[1:] if isinstance(node, ast.Call) else ():
        made: Operand = compute(argument, failure.frame)
        kind = type(made) if is_module(made) else None
        if kind is None and isinstance(argument, ast.Call):
            kind = evaluate(argument.func, failure.frame)
        code = getattr(getattr(kind, "forward", None), "__code__", None)
        result = None if code is None else find_return_in(code)
        if result is not None and kind is not None:
            told = f"{kind.__name__}, {result.describe()}, gives {match[3]} for {match[2]}"
            return f"{told}: the same {match[1]}, or unsafe=True"
    return None


@remedy(r"all optimizer param(?: group)?s should be with/without names")
def drop_names(failure: Failure, match: re.Match[str]) -> str | None:
    """Groups of which one holds pairs of a name and a parameter, and another parameters alone."""
    for each in failure.operands:
        if isinstance(each.value, list) and each.value and isinstance(each.value[0], tuple):
            return f"{each.text}{at(each)} holds pairs of a name and a parameter: [p for name, p in {each.text}]"
    return None


@remedy(r"(\w+) must have the same length as optimizer\.param_groups\. \w+ has (\d+) values, param_groups has (\d+)")
def give_each_group(failure: Failure, match: re.Match[str]) -> str:
    """Other numbers of values than the optimizer has groups."""
    groups = pluralize(int(match[3]), "group")
    return f"{match[1]} has {match[2]} values, and the optimizer {groups}: one value for each, or one number for all"


@remedy(r"environment variable (\w+) expected, but not set")
def start_by_torchrun(failure: Failure, match: re.Match[str]) -> str:
    """A program of several processes that was started as one."""
    alone = "rank=0, world_size=1 and init_method='tcp://127.0.0.1:29500' in the call for a single process"
    return f"torchrun --nproc-per-node=2 with the program sets {match[1]} and the others; or {alone}"
