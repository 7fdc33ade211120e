"""Remedies for modules and what trains them: states, results of several parts, normalisation, optimizers, files."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from itertools import pairwise

from adjoint.core.graph.source_location import definition_site
from adjoint.core.runtime.similar_names import find_spelling
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Operand
from adjoint.diagnosis.failure import Failure
from adjoint.diagnosis.operands import MISSING, Origin, describe_value, evaluate, find_return_in, is_module
from adjoint.diagnosis.remedies.gradients.passes import find_freezing
from adjoint.diagnosis.remedies.registry import (
    at,
    first_tensor,
    name_argument,
    remedy,
    require_grad_last,
)
from adjoint.diagnosis.source_expressions import find_attribute_assignment, find_function, parse_source, text_of


@remedy(r"Missing key.*Unexpected key")
def rename_keys(failure: Failure, match: re.Match[str]) -> str | None:
    """A state whose names have a prefix that the model's have not, or the other way round."""
    missing, unexpected = (
        re.findall(r'"([^"]+)"', part) for part in re.split(r"Unexpected key", failure.message, maxsplit=1)
    )
    if not missing or not unexpected:
        return None
    for operand in failure.operands:
        for key, value in operand.value.items() if isinstance(operand.value, dict) else ():
            if isinstance(value, Mapping) and missing[0] in value:
                return (
                    f"{operand.text}{at(operand)} holds more than the state: load_state_dict({operand.text}[{key!r}])"
                )
    state = failure.locals.get("state_dict")
    node = failure.node
    for key, value in state.items() if isinstance(state, Mapping) else ():
        if isinstance(value, Mapping) and missing[0] in value and isinstance(node, ast.Call) and node.args:
            name, held = text_of(node.args[0]), ", ".join(map(repr, failure.locals["state_dict"]))
            return f"{name} holds more than the state, {held}: load_state_dict({name}[{key!r}])"
    if {"state", "param_groups"} <= {*unexpected}:
        given = name_argument(failure, 0, default="the state")
        owner = given.removesuffix(".state_dict()") if given.endswith(".state_dict()") else "optimizer"
        return f"{given} is the state of an optimizer: {owner}.load_state_dict(…) takes it, a model its own"
    short, long = sorted((missing[0], unexpected[0]), key=len)
    prefix = long.removesuffix(short)
    if prefix == long or not prefix.endswith("."):
        return _rename_parts(failure, missing, unexpected)
    if long == unexpected[0]:
        state_text = name_argument(failure, 0, default="state")
        others = [key for key in unexpected if not key.startswith(prefix)]
        kept = f' if k.startswith("{prefix}")' if others else ""
        told = f"it holds {others[0]} and other parts too, so " if others else ""
        return f'{told}take the prefix away: {{k.removeprefix("{prefix}"): v for k, v in {state_text}.items(){kept}}}'
    return f"the state is of a part: load it into that, model.{prefix.rstrip('.')}.load_state_dict(state)"


def _are_alike(failure: Failure, own: str, saved: str) -> bool:
    """Return whether the part of the model that a state lacks has the shapes of one that the state holds."""
    model = next((each.value for each in failure.operands if is_module(each.value)), None)
    state = failure.locals.get("state_dict")
    held = {} if model is None else dict(model.state_dict())
    pairs = [(name, f"{saved}.{name.removeprefix(own + '.')}") for name in held if name.startswith(f"{own}.")]
    known = [(held[name], state[other]) for name, other in pairs if isinstance(state, Mapping) and other in state]
    return all(tuple(x.shape) == tuple(y.shape) for x, y in known)


def _rename_parts(failure: Failure, missing: list[str], unexpected: list[str]) -> str:
    """Return how to rename a state whose names end as the model's do."""
    pairs = {}
    for key in missing:
        end = key.rpartition(".")[2]
        other = [name for name in unexpected if name.rpartition(".")[2] == end]
        if len(other) != 1:
            break
        pairs[key.rpartition(".")[0]] = other[0].rpartition(".")[0]
    if len(pairs) == 1 and len(missing) == len(unexpected):
        ((own, saved),) = pairs.items()
        if not _are_alike(failure, own, saved):
            return ""
        state = name_argument(failure, 0, default="state")
        told = f"{own} of the model was saved as {saved}"
        return f'{told}: {{k.replace("{saved}.", "{own}."): v for k, v in {state}.items()}}'
    return f"the state belongs to another model: it has {unexpected[0]}, and the model wants {missing[0]}"


def _find_late_part(failure: Failure, node: ast.expr, part: str) -> str | None:
    """Return what to write where a part is made by a method that has not run for this model yet."""
    owner, source = evaluate(node, failure.frame), None if failure.line is None else failure.line.source
    for kind in type(owner).__mro__ if is_module(owner) and source is not None else ():
        for made in source.attribute_assignments.get((kind.__name__, part), ()) if source is not None else ():
            method = getattr(source.scope_of(made), "name", "") if source is not None else ""
            if source is None or method in ("", "__init__"):
                continue
            told = f"{text_of(node)} has no {part} yet: {method} makes it, {source.place_of(made)}"
            return f"{told}; run {text_of(node)} on an input first, or make self.{part} in __init__"
    return None


@remedy(r"(Missing|Unexpected) key\(s\) in state_dict: \"([\w.]+)\"")
def load_partly(failure: Failure, match: re.Match[str]) -> str | None:
    """A state with more, or fewer, parts than the model."""
    node = failure.node
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return None
    model, part = text_of(node.func.value), match[2].rpartition(".")[0] or match[2]
    told = f"the state has no {part}" if match[1] == "Missing" else f"{model} has no {part}, which the state holds"
    own = getattr(evaluate(node.func.value, failure.frame), "_modules", {})
    near = find_spelling(match[2].rpartition(".")[2], ("weight", "bias")) if match[1] == "Unexpected" else None
    if near is not None and part.partition(".")[0] in own:
        return f"{model} has {part}.{near}, and the state {match[2]}: {part}.{near} in the place of {match[2]} there"
    late = _find_late_part(failure, node.func.value, part) if match[1] == "Unexpected" else None
    if late is not None:
        return late
    rest = f", and {part} keeps its first values" if match[1] == "Missing" else ""
    given = [text_of(each) for each in (*node.args[:1], *node.keywords) if getattr(each, "arg", "") != "strict"]
    return f"{told}: {text_of(node.func)}({', '.join(given)}, strict=False) loads the others{rest}"


@remedy(r"'tuple' object has no attribute|argument '\w+' \(position \d+\) must be Tensor, not tuple")
def unpack_results(failure: Failure, match: re.Match[str]) -> str | None:
    """Several results where one tensor belongs."""
    given = next((each for each in failure.operands if type(each.value) is tuple), None)
    layer = failure.module()
    if given is not None and layer is not None and not failure.stack[0].called:  # a hook
        return f"{given.text} of {layer.text} is a tuple of {len(given.value)}: take one of them, {given.text}[0]"
    if given is None and layer is not None and type(layer.value).__name__ in ("GRU", "RNN", "GRUCell", "RNNCell"):
        return f"{layer.text} has one state, not the pair of an LSTM: {layer.text}(x, h0)"
    hook = _find_hook_before(failure)
    if given is None and layer is not None and hook is not None:
        told = f"the hook of {hook.describe()} gives a tuple in place of the output"
        return f"{told}: a tensor there, or None, which leaves the output"
    if given is None and layer is not None and "[" in layer.text:
        before = failure.part_before()
        told = "the part before it"
        if before is not None:
            told = f"{before.text}{at(before)}, {describe_value(before.value)},"
        told = f"{layer.text}{at(layer)} gets a tuple: {told} gives several results"
        return f"{told}: a module with forward(x): output, state = layer(x); return output, in its place"
    if given is None:
        return None
    if given.value and all(isinstance(each, str) for each in given.value):
        told = f"{given.text}{at(given)} holds texts, and a tensor of numbers is wanted"
        return f"{told}: {{name: i for i, name in enumerate(names)}}, and the i of each, where they are made"
    shapes = {each.shape if isinstance(each, Tensor) else None for each in given.value}
    made = None if given.origin is None else given.origin.node
    is_of_samples = isinstance(made, ast.For) or re.search(r"= zip\(\*", "" if made is None else text_of(made))
    if len(shapes) == 1 and len(given.value) > 1 and None not in shapes and is_of_samples:
        told = f"{given.text}{at(given)} is a tuple of {len(given.value)} samples, {tuple(given.value[0].shape)} each"
        return f"{told}: torch.stack({given.text}) where the batch is made{_find_collation(failure)}"
    kind = "it is made of several results"
    return f"{given.text}{at(given)} is a tuple, {kind}: output, state = …; or {given.text}[0]"


def _find_collation(failure: Failure) -> str:
    """Return the line of the result of the function that a loader of the user's frames puts its samples together by."""
    source = None if failure.line is None else failure.line.source
    for call in source.calls.get("DataLoader", ()) if source is not None else ():
        for each in call.keywords:
            values = [evaluate(each.value, place.frame) for place in failure.stack if each.arg == "collate_fn"]
            code = next((value.__code__ for value in values if hasattr(value, "__code__")), None)
            returned = None if code is None else find_return_in(code)
            if returned is not None:
                return f", at {returned.place()}"
    return ""


def _find_hook_before(failure: Failure) -> Origin | None:
    """Return the last `return` of the user's forward hook on the part before the one that failed."""
    parts = list(failure.modules[1].children()) if len(failure.modules) > 1 else []
    for before, part in pairwise(parts):
        hooks = vars(before).get("_forward_hooks") if part is failure.modules[0] else None
        hook = next(reversed(hooks.values())) if hooks else None
        code = getattr(getattr(hook, "call", hook), "__code__", None)
        if code is not None:
            return find_return_in(code)
    return None


@remedy(r"Expected more than 1 value per channel when training")
def give_larger_batches(failure: Failure, match: re.Match[str]) -> str:
    """Normalisation over one value."""
    layer = failure.module()
    name = "the model" if layer is None else layer.text
    return f"a batch of two or more (DataLoader(drop_last=True)), or {name}.eval() for single samples"


@remedy(r"expected (\d)D(?: or (\d)D)? input \(got (\d)D input\)")
def choose_dimensions(failure: Failure, match: re.Match[str]) -> str:
    """A layer for inputs of another number of dimensions."""
    layer, found = failure.module(), int(match[3])
    if layer is None:
        return f"the layer takes {match[1]} dimensions, its input has {found}"
    name = type(layer.value).__name__
    spatial = {2: "1d", 3: "1d", 4: "2d", 5: "3d"}.get(found)
    other = re.sub(r"\dd$", spatial or "", name)
    if name.endswith("2d") and found == 3:
        x = first_tensor(failure)
        return f"a batch dimension is missing: {x}.unsqueeze(0)"
    if spatial and other != name:
        return f"{layer.text}{at(layer)}: nn.{other} takes {found} dimensions"
    return f"{layer.text}{at(layer)} takes (batch, channels, …), {match[1]} dimensions: unsqueeze or flatten the input"


@remedy(r"running_mean should contain (\d+) elements not (\d+)")
def fit_channels(failure: Failure, match: re.Match[str]) -> str:
    """A normalisation of other channels."""
    layer = failure.module()
    name, kind = ("the layer", "BatchNorm") if layer is None else (layer.text, type(layer.value).__name__)
    shape: tuple[int, ...] = tuple(getattr(failure.locals.get("input"), "shape", ()))
    if len(shape) == 3 and shape[-1] == int(match[2]):
        return f"channels are dimension 1, and the input is {tuple(shape)}: transpose(1, 2) before {name}, and after it"
    before = failure.part_before()
    made = None if before is None or before.origin is None else before.origin.value
    given = made.args[1] if isinstance(made, ast.Call) and len(made.args) > 1 else ast.Constant(None)
    count = match[1] if isinstance(given, (ast.Constant, ast.Starred)) else text_of(given)  # such as sizes[i + 1]
    return f"{name}{at(layer)} normalises {match[2]} channels, its input has {match[1]}: nn.{kind}({count}) there"


@remedy(r"optimizer got an empty parameter list")
def register_parameters(failure: Failure, match: re.Match[str]) -> str:
    """A model that has registered nothing, or a generator that was used before."""
    used = next((each for each in failure.operands if isinstance(each.value, Iterator)), None)
    if used is not None:
        return f"{used.text}{at(used)} gives its items once, and they were taken: list(…) there, or call it here"
    model = failure.named_module()
    hidden = [] if model is None else _find_unregistered_modules(model.value)
    flags = [] if model is None else [p.requires_grad for p in model.value.parameters()]
    if model is not None and flags and not any(flags):
        told = f"no parameter of {model.text}{at(model)} requires grad: all are frozen"
        return f"{told}; requires_grad_(True) for those to be learned, such as those of the last layer"
    if model is not None and hidden:
        name, kind = hidden[0]
        made = find_attribute_assignment(model.value, name)
        where = "" if made is None else f" at {Origin(*made).place()}"
        return f"{model.text}.{name}{where} is a plain {kind.lower()[-4:]}, which is not looked into: nn.{kind}(…)"
    empty = ((each, each.origin) for each in failure.operands if each.value == [])
    frozen = next((each for each, origin in empty if origin and "requires_grad" in origin.describe()), None)
    if frozen is not None and frozen.origin is not None:
        where = find_freezing(frozen.origin.source)
        return f"{frozen.text}{at(frozen)} is empty, for all parameters are frozen{where}: leave those to be trained"
    return (
        _find_plain_tensor(failure)
        or _find_plain_container(failure)
        or "a parameter is registered as self.name = nn.Parameter(…), or is in a module"
    )


def _find_plain_container(failure: Failure) -> str | None:
    """Return the attribute of a class of the user's that holds layers in a list or a dict."""
    for node in ast.walk(failure.line.node) if failure.line is not None else ():
        kind = evaluate(node.func, failure.frame) if isinstance(node, ast.Call) else MISSING
        if failure.line is None or not isinstance(kind, type) or not hasattr(kind, "forward"):
            continue
        source = failure.line.source
        for (owner, name), statements in source.attribute_assignments.items():
            value = getattr(statements[0], "value", None)
            is_listed = isinstance(value, (ast.List, ast.ListComp, ast.Dict, ast.DictComp))
            if owner == kind.__name__ and is_listed and value is not None and "nn." in text_of(value):
                container = "ModuleDict" if isinstance(value, (ast.Dict, ast.DictComp)) else "ModuleList"
                place = source.place_of(statements[0])
                return (
                    f"self.{name} at {place} is a plain {container.lower()[-4:]}, which is not looked into: "
                    f"nn.{container}(…)"
                )
    return None


def _find_plain_tensor(failure: Failure) -> str | None:
    """Return the attribute of the model that holds a tensor which is no parameter."""
    for node in ast.walk(failure.line.node) if failure.line is not None else ():
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or node.func.attr != "parameters":
            continue
        owner = evaluate(node.func.value, failure.frame)
        made = node.func.value.func if isinstance(node.func.value, ast.Call) else None
        kind = type(owner) if is_module(owner) else None if made is None else evaluate(made, failure.frame)
        code = getattr(getattr(kind, "forward", None), "__code__", None)
        source = None if code is None else parse_source(code.co_filename)
        table = source.attribute_assignments if source is not None else {}
        for (owner_name, name), statements in table.items():
            value = getattr(statements[0], "value", None)
            text = "" if value is None else text_of(value)
            if owner_name == getattr(kind, "__name__", "") and text.startswith("torch.") and source is not None:
                place = source.place_of(statements[0])
                return f"self.{name} at {place} is a plain tensor: nn.Parameter({text}) registers it"
    return None


def _find_unregistered_modules(module: object) -> list[tuple[str, str]]:
    """Return the attributes that hold modules in plain lists and dicts."""
    found = []
    for name, value in vars(module).items():
        held = list(value.values()) if type(value) is dict else value
        if type(value) in (list, tuple, dict) and not name.startswith("_"):
            kind = "Dict" if type(value) is dict else "List"
            found += [(name, f"Module{kind}")] if any(map(is_module, held)) else []
            found += [(name, f"Parameter{kind}")] if any(type(each).__name__ == "Parameter" for each in held) else []
    return found


@remedy(r"can't optimize a non-leaf Tensor")
def make_leaf(failure: Failure, match: re.Match[str]) -> str:
    """A tensor that was computed."""
    x = next((each for each in failure.tensors() if not each.value.is_leaf), None)
    told = "it" if x is None else f"{x.text}{at(x)}"
    made = None if x is None or x.origin is None else x.origin.value
    whole = None if made is None else require_grad_last(made)
    if x is not None and whole is not None:
        return f"{told} is computed of the tensor that requires grad, and is no leaf: {x.text} = {whole} there"
    return f"{told} is computed from another: make its values first, then .detach().requires_grad_(), or nn.Parameter"


@remedy(r"parameters appear in more than one parameter group")
def list_once(failure: Failure, match: re.Match[str]) -> str:
    """A parameter that would be updated twice."""
    found = _find_shared_parameters(failure)
    if found is None:
        return "each parameter belongs to one group: leave it out of the others"
    (whole, model), (part, _) = found
    source = None if failure.line is None else failure.line.source
    where = "" if source is None else f" at {source.place_of(whole)}"
    told = f"{text_of(whole)}{where} has the parameters of {text_of(part)} too"
    name = text_of(part.func.value) if isinstance(part.func, ast.Attribute) else "…"
    rest = f"[p for n, p in {model}.named_parameters() if not n.startswith('{name.removeprefix(model + '.')}.')]"
    return f"{told}: {rest} there" if name.startswith(f"{model}.") else f"{told}: leave them out there"


def _find_shared_parameters(failure: Failure) -> tuple[tuple[ast.Call, str], tuple[ast.Call, str]] | None:
    """Return two calls `model.parameters()` of the groups, the first of which has all that the second has."""
    line = failure.line
    nodes: list[ast.AST] = [] if line is None else [line.node]
    for operand in failure.operands:
        nodes += [] if operand.origin is None else [operand.origin.node]
    held: dict[str, tuple[ast.Call, str, set[int]]] = {}
    for call in (each for node in nodes for each in ast.walk(node) if isinstance(each, ast.Call)):
        owner = call.func.value if isinstance(call.func, ast.Attribute) and call.func.attr == "parameters" else None
        module: Operand = MISSING if owner is None else evaluate(owner, failure.frame)
        if owner is not None and is_module(module):
            held[text_of(call)] = call, text_of(owner), {id(p) for p in module.parameters()}
    pairs = [(a, b) for a in held.values() for b in held.values() if a is not b and a[2] >= b[2]]
    return None if not pairs else (pairs[0][0][:2], pairs[0][1][:2])


@remedy(r'is missing the required "forward" function')
def name_forward(failure: Failure, match: re.Match[str]) -> str:
    """A module without a forward, or with a misspelled one."""
    module = failure.modules[0] if failure.modules else None
    called = failure.line.node if failure.line is not None else None
    owner = called.func.value if isinstance(called, ast.Call) and isinstance(called.func, ast.Attribute) else None
    held = MISSING if owner is None else evaluate(owner, failure.frame)
    module = held if type(held).__name__ in ("ModuleList", "ModuleDict") else module
    if type(module).__name__ in ("ModuleList", "ModuleDict"):
        name = next((each.text for each in failure.operands if each.value is module), "it")
        return f"{name} only holds modules: for layer in {name}: x = layer(x); or nn.Sequential(*{name})"
    nested = _find_nested_forward(type(module))
    if nested is not None:
        return f"forward at {nested.place()} is inside of another function: indent it as __init__ is"
    methods = [name for name, value in vars(type(module)).items() if callable(value) and not name.startswith("_")]
    similar = [name for name in methods if set("forwad") <= set(name) or name in ("call", "predict", "run")]
    where = ""
    for name in similar or methods[:1]:
        code = getattr(vars(type(module))[name], "__code__", None)
        if code is not None:
            where = f": {name}, {definition_site(code).describe_briefly()}, is to be called forward"
    return f"a module's method that computes is called forward{where}"


def _find_nested_forward(kind: type) -> Origin | None:
    """Return the function `forward` that a method of the class holds."""
    code = getattr(vars(kind).get("__init__"), "__code__", None)
    source = None if code is None else parse_source(code.co_filename)
    scope = None if source is None or code is None else find_function(source, code.co_firstlineno)
    for node in ast.walk(scope) if scope is not None else ():
        if source is not None and isinstance(node, ast.FunctionDef) and node.name == "forward":
            return Origin(source, node)
    return None


@remedy(r"cannot assign (?:module|parameter|buffer)s? before Module.__init__\(\) call")
def call_super(failure: Failure, match: re.Match[str]) -> str:
    """A module that has no tables yet."""
    name = failure.frame.f_code.co_name
    kind = type(failure.frame.f_locals.get("self"))
    if name != "__init__" and hasattr(kind, "__dataclass_fields__"):
        return f"super().__init__() is the first line of {name}: a dataclass makes an __init__ that does not call it"
    if name != "__init__":
        return f"{name} runs before nn.Module.__init__(): super().__init__() is the first line of __init__"
    owner = failure.frame.f_code.co_qualname.rpartition(".")[0].rpartition(".")[2]
    place = "" if failure.line is None else f", before {failure.line.place()}"
    return f"super().__init__() is the first line of __init__ of {owner}{place}"
