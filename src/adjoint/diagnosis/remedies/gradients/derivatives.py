"""Remedies for derivatives: of outputs by tensors, and of functions that a transform takes."""

from __future__ import annotations

import ast
import re
from math import prod

from adjoint.core.graph.source_location import definition_site
from adjoint.core.tensor.tensor import Tensor
from adjoint.diagnosis.causes.operand_history import walk_back
from adjoint.diagnosis.failure import Failure
from adjoint.diagnosis.operands import MISSING, NamedValue, Origin, evaluate, find_origin, find_return_in, is_module
from adjoint.diagnosis.remedies.gradients.passes import describe_cut
from adjoint.diagnosis.remedies.registry import argument_node, at, name_of_shape, remedy, shape_of
from adjoint.diagnosis.remedies.requirements.made_sizes import find_bare_gradients
from adjoint.diagnosis.repairs.expression import parse
from adjoint.diagnosis.repairs.trial import compute
from adjoint.diagnosis.source_expressions import find_expression, text_of

TAKING_TUPLES = {"functional_call": 2, "jacobian": 1, "hessian": 1}  # after how many arguments the inputs follow


@remedy(r"grad can be implicitly created only for scalar outputs")
def reduce_loss(failure: Failure, match: re.Match[str]) -> str:
    """A loss of several elements, or an output whose gradients are to be added."""
    loss = next((each for each in failure.tensors() if each.value.numel() != 1), None)
    if loss is None:
        return "reduce the loss first: .mean() or .sum()"
    where = "" if loss.origin is None else f", from {loss.origin.place()},"
    told = f"{loss.text}{where} has {loss.value.numel()} elements"
    node = failure.node
    if isinstance(node, ast.Call) and text_of(node.func).endswith("grad"):
        others = ", ".join(map(text_of, (*node.args[1:], *(each for each in node.keywords if each.arg != "outputs"))))
        call = f"{text_of(node.func)}({loss.text}.sum(), {others})"
        return f"{told}: {call}, or grad_outputs=torch.ones_like({loss.text}), which is the same"
    unreduced = find_unreduced(failure, loss)
    if unreduced is not None:
        return f"{unreduced}: leave that out, or {loss.text}.mean().backward()"
    return f"{told}: {loss.text}.mean().backward(), or .sum()"


def find_unreduced(failure: Failure, loss: NamedValue) -> str | None:
    """Return which criterion or call leaves a value for each element, and where that was asked for."""
    made = None if loss.origin is None else loss.origin.value
    for call in ast.walk(made) if made is not None else ():
        if not isinstance(call, ast.Call) or failure.line is None or loss.origin is None:
            continue
        asked = next((each for each in call.keywords if each.arg == "reduction"), None)
        if asked is not None and text_of(asked.value) == "'none'":
            return f"{text_of(call.func)} at {loss.origin.place()} has reduction='none', a loss for each element"
        criterion = evaluate(call.func, failure.frame)
        if is_module(criterion) and getattr(criterion, "reduction", "") == "none":
            own = find_origin(loss.origin.source, call.func, failure.stack)
            named = NamedValue(text_of(call.func), criterion, own)
            return f"{named.text}{at(named)} has reduction='none', a loss for each element"
    return None


@remedy(r"One of the differentiated Tensors does not require grad")
def require_input_grad(failure: Failure, match: re.Match[str]) -> str | None:
    """A derivative with respect to a tensor that asks for none."""
    x = next((each for each in failure.tensors()[::-1] if not each.value.requires_grad), None)
    return None if x is None else f"{x.text}{at(x)}: {x.text}.requires_grad_() before it is used"


@remedy(r"object has no attribute 'ownership_token'|all inputs have to be Tensors or GradientEdges, but got (\w+)")
def give_inputs(failure: Failure, match: re.Match[str]) -> str | None:
    """A model, or something else, where the tensors belong by which is differentiated."""
    given = argument_node(failure, 1, "inputs")
    value = None if given is None else evaluate(given, failure.frame)
    if given is None or not is_module(value):
        return None
    return f"{text_of(given)} is a model, and inputs are tensors: list({text_of(given)}.parameters())"


def _name_of_parameters(failure: Failure, given: ast.expr, place: int) -> str | None:
    """Return the name of one of a model's parameters, of `model.parameters()` or a list of them."""
    for call in ast.walk(given):
        method = call.func if isinstance(call, ast.Call) else None
        if isinstance(method, ast.Attribute) and method.attr == "parameters":
            model = evaluate(method.value, failure.frame)
            names = [name for name, _ in model.named_parameters()] if is_module(model) else []
            return f"{text_of(method.value)}.{names[place]}" if place < len(names) else None
    return None


@remedy(r"Tensor at index (\d+) appears to not have been used in the graph")
def find_unused_input(failure: Failure, match: re.Match[str]) -> str | None:
    """A tensor that the result does not depend on."""
    given, place = argument_node(failure, 1, "inputs"), int(match[1])
    output = argument_node(failure, 0, "outputs")
    inputs = failure.locals.get("inputs")
    name = None
    if isinstance(given, (ast.List, ast.Tuple)) and place < len(given.elts):
        name = text_of(given.elts[place])
    elif isinstance(inputs, (list, tuple)) and place < len(inputs):
        name = _name_parameter(failure, inputs[place]) or f"input {place}"
    elif given is not None:
        name = _name_of_parameters(failure, given, place) or text_of(given)
    if name is None or output is None:
        return None
    copied = _name_source(failure, given, output)
    if copied is not None:
        return f"{name} takes no part in {text_of(output)}{copied[1]}: {name} in the place of {copied[0]} there"
    own = failure.find_operand(name)
    if own is not None and own.source is not None and own.source.value is not MISSING and own.text != own.source.text:
        whole, part = own.source.text, None if own.origin is None else own.origin.value_of(own.text)
        told = f"{name}{at(own)} is made of {whole}, and {text_of(output)} of {whole} itself"
        joined = _join_parts(failure, whole, name)
        if joined is not None:
            return joined
        index = "" if part is None else f"; {text_of(part).replace(whole, 'its result', 1)} is that of the part"
        return f"{told}: the gradient of {whole}{index}, or compute with {name} before"
    cut = walk_back(failure, describe_cut)
    if cut is not None:
        return cut
    parts = find_bare_gradients(failure, output)
    if parts is not None:
        return parts
    return f"{name} takes no part in {text_of(output)}; allow_unused=True gives None for it"


def _join_parts(failure: Failure, whole: str, name: str) -> str | None:
    """Return what to write where a model takes a tensor, and derivatives are wanted by its columns."""
    if failure.line is None:
        return None
    source = failure.line.source
    scope = source.scope_of(failure.line.node)
    columns = {
        key: made[-1].value
        for key, made in source.assignments_in(scope).items()
        if len(made) == 1 and isinstance(made[-1], ast.Assign) and text_of(made[-1].value).startswith(f"{whole}[:, ")
    }
    widths = [getattr(compute(each, failure.frame), "shape", (0,))[-1] for each in columns.values()]
    if len(columns) < 2 or sum(widths) != getattr(compute(parse(whole), failure.frame), "shape", (0,))[-1]:
        return None  # a part of it alone
    line = getattr(failure.line.node, "lineno", 0)
    calls = [
        each
        for each in ast.walk(scope)
        if isinstance(each, ast.Call) and whole in map(text_of, each.args) and each.lineno < line
    ]
    if name not in columns or not calls:
        return None
    joined = f"torch.cat([{', '.join(columns)}], dim=-1)"
    arguments = [joined if text_of(each) == whole else text_of(each) for each in calls[-1].args]
    told = f"{text_of(calls[-1])} at {source.place_of(calls[-1])} works on {whole}, and not on {name}, a copy of a part"
    return f"{told}: {text_of(calls[-1].func)}({', '.join(arguments)}) there"


def _name_source(failure: Failure, given: ast.expr | None, output: ast.expr) -> tuple[str, str] | None:
    """Return the name of which an input is a copy, where it stands in what made the output, and the line of that."""
    if failure.line is None or given is None:
        return None
    made, computed = (find_origin(failure.line.source, each, failure.stack) for each in (given, output))
    if made is None or computed is None or made.value is None or computed.value is None:
        return None
    copied = next((each.id for each in ast.walk(made.value) if isinstance(each, ast.Name)), None)
    is_copy = text_of(made.value).startswith((f"{copied}.clone(", f"{copied}.detach("))
    used = {each.id for each in ast.walk(computed.value) if isinstance(each, ast.Name)}
    return (copied, f", {computed.place()}") if copied is not None and is_copy and copied in used else None


def _name_parameter(failure: Failure, tensor: object) -> str | None:
    """Return the name of a parameter of one of the models that the user's frames hold."""
    for place in failure.stack:
        for name, value in {**place.frame.f_globals, **place.frame.f_locals}.items():
            for own, each in value.named_parameters() if is_module(value) else ():
                if each is tensor:
                    return f"{name}.{own}"
    return None


@remedy(r"forward gradient that has a different size .* size \[([\d, ]*)\] while the given .* size \[([\d, ]*)\]")
def fit_tangent(failure: Failure, match: re.Match[str]) -> str:
    """A direction of another shape than the tensor that it moves."""
    size, given = shape_of(match[1]), shape_of(match[2])
    tangent, x = name_of_shape(failure, given, "the tangent"), name_of_shape(failure, size, "the tensor")
    where = at(failure.find_operand(tangent))
    told = f"{tangent}{where} is {list(given)}, a direction for {x}, which is {list(size)}"
    way = f"{tangent}.reshape({x}.shape)" if prod(size) == prod(given) else f"one of that shape, torch.randn_like({x})"
    return f"{told}: {way}"


@remedy(r"")
def join_inputs(failure: Failure, match: re.Match[str]) -> str | None:
    """Inputs of a function or a model that follow each other, where one tuple of them belongs."""
    node = failure.node
    called = text_of(node.func).rpartition(".")[2] if isinstance(node, ast.Call) else ""
    if not isinstance(node, ast.Call) or called not in TAKING_TUPLES:
        return None
    before = TAKING_TUPLES[called]
    inputs = node.args[before:]
    is_each_tensor = all(isinstance(evaluate(each, failure.frame), Tensor) for each in inputs)
    if len(inputs) < 2 or not is_each_tensor:
        return None
    first = ", ".join(map(text_of, node.args[:before]))
    given = ", ".join(map(text_of, inputs))
    return f"{called} takes the inputs as one tuple: {text_of(node.func)}({first}, ({given}))"


@remedy(r"called random operation while in randomness error mode")
def draw_numbers(failure: Failure, match: re.Match[str]) -> str:
    """Random numbers in a function that vmap maps."""
    told = "randomness='different' draws numbers for each example, randomness='same' one for all"
    for place in failure.stack:
        source, _ = find_expression(place) or (None, None)
        for node in source.nodes_of(ast.Call) if source is not None else ():
            if source is not None and text_of(node.func).endswith("vmap"):
                return f"{text_of(node.func)}(…, randomness='different') at {Origin(source, node).place()}: {told}"
    return f"torch.vmap(…, randomness='different'): {told}"


@remedy(
    r"Expected (?:all elements of )?parameter_and_buffer_dicts to be (?:a dict|dictionaries)|"
    r"parameters_and_buffers.*(?:dict|Dict)"
)
def give_names(failure: Failure, match: re.Match[str]) -> str:
    """A list of parameters where a dictionary of them by name belongs."""
    given, model = argument_node(failure, 1), argument_node(failure, 0)
    name = "model" if model is None else text_of(model)
    told = "" if given is None else f"{text_of(given)} has no names: "
    held = re.fullmatch(r"(?:list|tuple)\(([\w.]+)\.values\(\)\)", "" if given is None else text_of(given))
    if held is not None:
        return f"{told}{held[1]} itself, which has them"
    values = MISSING if given is None else evaluate(given, failure.frame)
    if given is not None and isinstance(values, (list, tuple)):
        known = {**failure.frame.f_globals, **failure.frame.f_locals}
        named = [key for key, each in known.items() if isinstance(each, dict) and len(each) == len(values)]
        named = [key for key in named if all(isinstance(each, Tensor) for each in known[key].values())]
        own = failure.find_operand(text_of(given))
        told = f"{text_of(given)}{at(own)} is a {type(values).__name__} without names"
        names = named[0] if len(named) == 1 else f"dict({name}.named_parameters())"
        return f"{told}: dict(zip({names}, {text_of(given)}))"
    return f"{told}dict({name}.named_parameters())"


@remedy(r"in_dims is not compatible with the structure of `inputs`|in_dims: has structure|got in_dim=")
def match_inputs(failure: Failure, match: re.Match[str]) -> str | None:
    """Another number of mapped dimensions than inputs."""
    node = failure.node
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Call):
        return None
    given = next((each.value for each in node.func.keywords if each.arg == "in_dims"), None)
    if not isinstance(given, ast.Tuple):
        return None
    sizes = [getattr(compute(each, failure.frame), "shape", None) for each in node.args]
    leading = [size[0] for size in sizes if size]
    batch = max(leading, key=leading.count, default=None)
    wanted = ["0" if size is not None and size and size[0] == batch else "None" for size in sizes]
    told = f"in_dims={text_of(given)} has {len(given.elts)} entries for {len(node.args)} inputs"
    return f"{told}: in_dims=({', '.join(wanted)}{',' if len(wanted) == 1 else ''})"


@remedy(
    r"Got in_dim=(\d+) for (?:some input, but that input is a Tensor of dimensionality 0|"
    r"an input but the input is of type)"
)
def share_argument(failure: Failure, match: re.Match[str]) -> str | None:
    """An argument of vmap that all examples share."""
    node = failure.node
    if not isinstance(node, ast.Call):
        return None
    values = [compute(each, failure.frame) for each in node.args]
    held = next((value for value in values if isinstance(value, dict)), None)
    if held is not None and len(values) == 1:
        dims = ", ".join(f"{key!r}: {0 if getattr(value, 'ndim', 0) else None}" for key, value in held.items())
        return f"{text_of(node.args[0])} holds values that all examples share: in_dims=({{{dims}}},)"
    single = [text_of(each) for each, value in zip(node.args, values, strict=True) if not getattr(value, "ndim", 0)]
    if not single:
        return None
    value = values[0]
    if len(values) == 1 and isinstance(value, (list, tuple)) and all(isinstance(each, (int, float)) for each in value):
        return f"{single[0]} is a {type(value).__name__} of numbers, and vmap maps tensors: torch.tensor({single[0]})"
    dims = ", ".join("None" if not getattr(value, "ndim", 0) else "0" for value in values)
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


@remedy(r"`(\w+)` must only return Tensors, got type <class '([\w.]+)'>")
def return_tensor(failure: Failure, match: re.Match[str]) -> str | None:
    """A function that vmap maps, and that gives a Python number."""
    code = getattr(failure.frame.f_globals.get(match[1], failure.frame.f_locals.get(match[1])), "__code__", None)
    result = None if code is None else find_return_in(code)
    where = match[1] if result is None else f"{match[1]}, {result.describe()},"
    value = getattr(getattr(result, "node", None), "value", None)
    way = f"torch.tensor({text_of(value)})" if isinstance(value, ast.Constant) else "a tensor computed of its inputs"
    return f"{where} gives a {match[2]}, and vmap stacks tensors: {way}"


@remedy(r"Error\(s\) in reparametrizing for \w+:.*Unexpected key\(s\): '([\w.]+)'.*Missing key\(s\): (.*)\.$")
def prefix_names(failure: Failure, match: re.Match[str]) -> str | None:
    """Values by other names than the parameters of the model have."""
    given = argument_node(failure, 1)
    missing = [each for each in re.findall(r"'([\w.]+)'", match[2]) if each.endswith(f".{match[1]}")]
    if given is None or not missing:
        return None
    prefix = missing[0].removesuffix(match[1])
    name = text_of(given)
    return f"the model has {missing[0]}, and {name} {match[1]}: {{{prefix!r} + k: v for k, v in {name}.items()}}"


@remedy(r"Dimension out of range \(expected to be in range of \[(-?\d+), (-?\d+)\].*: out_dims of vmap")
def place_examples(failure: Failure, match: re.Match[str]) -> str:
    """A dimension for the examples that the results have not."""
    told = f"the results have the dimensions {match[1]} to {match[2]}, that of the examples too"
    return f"{told}: out_dims=0, the default"
