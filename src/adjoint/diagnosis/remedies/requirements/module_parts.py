"""Remedies for parts of modules: functions where modules belong, names that are no texts, parametrizations, pruning."""

from __future__ import annotations

import ast
import copy
import inspect
import re

from adjoint import nn
from adjoint.core.tensor.tensor import Tensor
from adjoint.diagnosis.callbacks import find_callbacks
from adjoint.diagnosis.failure import Failure
from adjoint.diagnosis.operands import MISSING, evaluate, find_return_in, is_module
from adjoint.diagnosis.remedies.registry import argument_node, at, find_class, find_named_argument, name_owner, remedy
from adjoint.diagnosis.source_expressions import text_of


@remedy(r"(?:list|tuple) is not a Module subclass")
def give_single_module(failure: Failure, match: re.Match[str]) -> str | None:
    """A list of one module where the module itself is wanted."""
    node = failure.node
    for part in node.args if isinstance(node, ast.Call) else ():
        if isinstance(part, (ast.List, ast.Tuple)) and len(part.elts) == 1:
            return f"{text_of(part)} is a list: the module itself, {text_of(part.elts[0])}"
    return None


@remedy(r"`module` is not an nn\.Module, found <class '(\w+)'>|module should be of type: |Expected a Module; got")
@remedy(r"'(function|builtin_function_or_method)' object has no attribute '(?:train|modules|named_modules|parameters)'")
def make_module(failure: Failure, match: re.Match[str]) -> str | None:
    """A function where a module belongs."""
    node = failure.node
    for part in (*node.args, *(each.value for each in node.keywords)) if isinstance(node, ast.Call) else ():
        function = evaluate(part, failure.frame)
        if isinstance(part, ast.Lambda):
            body = text_of(part.body)
            first = part.args.args[0].arg if part.args.args else "x"
            told = f"{text_of(part)} is a function, and a module is wanted"
            return f"{told}: class Part(nn.Module) whose forward(self, {first}) has return {body}, and Part() here"
        if function is MISSING or is_module(function) or not callable(function):
            continue
        if isinstance(function, type) and hasattr(function, "forward"):
            return f"{text_of(part)} is a class: {text_of(part)}()"
        name = getattr(function, "__name__", "").replace("_", "") if inspect.isroutine(function) else ""
        wanted = next((each for each in dir(nn) if each.lower() == name), None)
        told = f"{text_of(part)} is a function, and a module is wanted"
        return f"{told}: nn.{wanted}()" if wanted else f"{told}: a class of nn.Module whose forward calls it"
    return None


@remedy(r"(module|buffer|parameter) name should be a string\. Got (\w+)|not a string \(type is '(\w+)'\)")
def write_name(failure: Failure, match: re.Match[str]) -> str | None:
    """A number as the name of a part."""
    node = failure.node
    if isinstance(node, ast.Subscript):
        given: ast.expr | None = node.slice
    else:
        given = find_named_argument(failure, "name") or argument_node(failure, 0)
    if given is None or not isinstance(node, ast.expr) or isinstance(given, ast.Dict):
        return None
    text = text_of(given)
    wanted: ast.expr = ast.Call(ast.Name("str", ast.Load()), [given], [])
    if isinstance(given, ast.Constant):
        wanted = ast.Constant(str(given.value))
    changed: ast.expr = copy.deepcopy(node, {id(given): wanted})
    own = failure.find_operand(text)
    return f"{text}{at(own)} is a {match[2] or match[3]}, and names are texts: {text_of(changed)}"


@remedy(r"""(module|parameter|buffer) name can't contain "\."(?:, got: (\S+))?""")
def leave_dots_out(failure: Failure, match: re.Match[str]) -> str | None:
    """A name with a dot, which stands between the names of a path."""
    names = [match[2]] if match[2] else []
    node = failure.node
    names += [each.value for each in ast.walk(node) if isinstance(each, ast.Constant)] if node is not None else []
    name = next((each for each in names if isinstance(each, str) and "." in each), None)
    if name is None:
        return "a name without dots: name.replace('.', '_')"
    return f"{name!r} has a dot, which leads to a part of a part: {name.replace('.', '_')!r}"


@remedy(r"(\w+) has no extra state: it defines no (get|set)_extra_state")
def define_extra_state(failure: Failure, match: re.Match[str]) -> str:
    """A state beside parameters and buffers, of a class that has none."""
    module = failure.named_module()
    where = None if module is None else find_class(type(module.value))
    told = f"class {match[1]}{'' if where is None else f' at {where}'}"
    return f"{told} is to have def get_extra_state(self) and def set_extra_state(self, state)"


@remedy(r"`?(\w+)`? is not an nn\.Module$")
def get_attribute(failure: Failure, match: re.Match[str]) -> str | None:
    """A path that leads to a parameter, or to what is no module, where one to a module is wanted."""
    given = argument_node(failure, 0, "target")
    path = None if given is None else evaluate(given, failure.frame)
    owner = name_owner(failure, "the model")
    if not isinstance(path, str) or not path.endswith(match[1]):
        return None
    name = owner.partition(" at ")[0]
    return f"{match[1]} is no module: {name}.get_parameter({path!r}), or get_submodule({path.rpartition('.')[0]!r})"


@remedy(r"nn\.Module\.to only accepts floating point or complex dtypes, but got desired dtype=(\S+)")
def keep_floats(failure: Failure, match: re.Match[str]) -> str:
    """A model of integers."""
    name = name_owner(failure, "the model")
    kind = match[1].rpartition(".")[2]
    return f"{name} learns, and {kind} has no gradient: {name.partition(' at ')[0]}.to(torch.bfloat16) is half as large"


@remedy(r"\.to\(\) does not accept copy argument")
def copy_model(failure: Failure, match: re.Match[str]) -> str:
    """A copy of a model in another type."""
    node, name = failure.node, name_owner(failure, "model").partition(" at ")[0]
    given = [text_of(each) for each in node.args] if isinstance(node, ast.Call) else []
    return f"a module is changed in its place: copy.deepcopy({name}).to({', '.join(given)}) is a copy"


@remedy(r"does not have a parametrization on (\w+)")
def leave_removal_out(failure: Failure, match: re.Match[str]) -> str | None:
    """A parametrization that is taken away, and that was never made."""
    module = failure.named_module()
    if module is None:
        return None
    others = ", ".join(getattr(module.value, "parametrizations", {}))
    told = f"{module.text}{at(module)} has no parametrized {match[1]}"
    way = f"leave this line out, or register one for {module.text}.{match[1]} first"
    return f"{told}, but {others}" if others else f"{told}: {way}"


@remedy(r"Serialization of parametrized modules is only supported through state_dict")
def save_state(failure: Failure, match: re.Match[str]) -> str | None:
    """A file of a parametrized model."""
    model, node = failure.named_module(), failure.node
    if model is None or not isinstance(node, ast.Call):
        return None
    given = [f"{model.text}.state_dict()", *(text_of(each) for each in node.args[1:])]
    return f"{model.text}{at(model)} has parametrizations: {text_of(node.func)}({', '.join(given)})"


@remedy(
    r"(?:must|should) (?:always )?return (?:a [Tt]ensor|None|a sequence)|state_dict post-hook must return None|"
    r"forward pre-hook must return None or a tuple|a pre hook of \S+ must return None"
)
def return_wanted(failure: Failure, match: re.Match[str]) -> str | None:
    """A function or a method of the user's that gives another kind of value than is taken from it."""
    returned, name = None, ""
    callback = next(iter(find_callbacks(failure.stack, failure.message)), None)
    if callback is not None:
        made = callback.definition()
        returned, name = made if made and isinstance(made.node, ast.Lambda) else callback.find_return(), callback.name
    node = failure.node
    for part in node.args if isinstance(node, ast.Call) and returned is None else ():
        kind = evaluate(part.func, failure.frame) if isinstance(part, ast.Call) else type(evaluate(part, failure.frame))
        code = getattr(getattr(kind, "forward", None), "__code__", None)
        found = None if code is None else find_return_in(code)
        if isinstance(kind, type) and found is not None:
            returned, name = found, f"forward of {kind.__name__}"
    value = None if returned is None else getattr(returned.node, "value", getattr(returned.node, "body", None))
    if returned is None or not isinstance(value, ast.expr):
        return None
    text = text_of(value)
    wanted = "leave the return out"
    if "new_kwargs" in failure.message:
        wanted = f"return ({text},), kwargs, or nothing" if "forward" in match[0] else "return args, kwargs, or nothing"
    elif "ensor" in match[0] and isinstance(value, ast.Tuple) and value.elts:
        wanted = f"return {text_of(value.elts[0])}"
    elif "None" not in match[0]:
        return None
    return f"{name} at {returned.describe()}: {wanted} there"


@remedy(r"amount=(\S+) should either be a float in the range \[0, 1\] or a non-negative integer")
def choose_share(failure: Failure, match: re.Match[str]) -> str:
    """A share of the weights that is none."""
    number = match[1]
    told = f"amount={number}: a float is a share, 0.0 to 1.0, and an int a number of weights"
    return f"{told}: amount={float(number) / 100:g} for {number} %" if 1 < float(number) <= 100 else told


@remedy(r"Invalid type for amount: (.+?)\. Must be int or float")
def read_share(failure: Failure, match: re.Match[str]) -> str:
    """A share that is written as a text."""
    number = re.fullmatch(r"([\d.]+) ?(%?)", match[1])
    if number is None:
        return f"amount is {match[1]}: a share such as amount=0.2, or a number of weights"
    share = float(number[1]) / 100 if number[2] else float(number[1])
    return f"amount={match[1]!r} is a text: amount={share:g}"


@remedy(r"has no parameter or buffer with name '(\w+)'|cannot be applied as parameter `(\w+)` is None")
@remedy(r"'\w+' object has no attribute '(\w+)'")
def name_parameters(failure: Failure, match: re.Match[str]) -> str | None:
    """A parameter by a name that the module has not."""
    module = failure.named_module()
    wanted = match[1] or (match[2] if match.re.groups > 1 else "")
    node = failure.node
    given = [evaluate(each, failure.frame) for each in node.args] if isinstance(node, ast.Call) else []
    if module is None or wanted not in given:
        return None
    names = [name for name, each in vars(module.value)["_parameters"].items() if isinstance(each, Tensor)]
    if not names or wanted in names:
        return None
    meant = names[0] if len(names) == 1 else min(names, key=lambda name: (not name.startswith(wanted[:3]), name))
    told = f"{module.text}{at(module)} has the parameters {', '.join(names)}, and no {wanted}"
    return f"{told}: {meant!r}"


@remedy(r"global_unstructured\(\): parameters is not an Iterable")
def list_pairs(failure: Failure, match: re.Match[str]) -> str | None:
    """A module where pairs of modules and names are wanted."""
    module = failure.named_module()
    return None if module is None else f"pairs of a module and a name: [({module.text}, 'weight')]"


@remedy(r"To fuse, linear\.out_features == bn\.num_features")
def fit_fused(failure: Failure, match: re.Match[str]) -> str | None:
    """A normalisation of other features than the layer gives."""
    found = [each for each in failure.operands if is_module(each.value)]
    linear = next((each for each in found if hasattr(each.value, "out_features")), None)
    norm = next((each for each in found if hasattr(each.value, "num_features")), None)
    if linear is None or norm is None:
        return None
    told = f"{linear.text}{at(linear)} gives {linear.value.out_features} features"
    told += f", and {norm.text}{at(norm)} normalises {norm.value.num_features}"
    return f"{told}: nn.{type(norm.value).__name__}({linear.value.out_features})"


@remedy(r"Module must support a 'device' arg to skip initialization")
def make_plainly(failure: Failure, match: re.Match[str]) -> str | None:
    """A module without parameters, which has nothing to skip."""
    node = failure.node
    if not isinstance(node, ast.Call) or not node.args:
        return None
    call = f"{text_of(node.args[0])}({', '.join(map(text_of, (*node.args[1:], *node.keywords)))})"
    return f"{text_of(node.args[0])} takes no device=, and has no values to skip: {call}"


@remedy(r"Expected iterable for input sequences, but got arg of type: <class '(\w+)'>")
def list_sequences(failure: Failure, match: re.Match[str]) -> str:
    """A single value where sequences are wanted."""
    given = argument_node(failure, 0, "sequences")
    text = "it" if given is None else text_of(given)
    return f"{text} is a {match[1]}: a list of tensors, one for each sample"


@remedy(r"ParameterDict update sequence element #(\d+) (?:has length (\d+)|should be Iterable)")
def pair_items(failure: Failure, match: re.Match[str]) -> str:
    """Items that are no pairs."""
    told = f"element {match[1]} has {match[2]} parts" if match[2] else f"element {match[1]} is no pair"
    return f"{told}, and a name and a tensor are wanted: (name, tensor)"
