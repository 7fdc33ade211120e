"""Remedies by the wording of an error, after all others: what was wanted, what was given, and by which name."""

from __future__ import annotations

import ast
import re

from adjoint.core.runtime.text_table import pluralize
from adjoint.core.tensor.tensor import Tensor
from adjoint.diagnosis.callbacks import find_callbacks
from adjoint.diagnosis.failure import Failure
from adjoint.diagnosis.operands import MISSING, NamedValue, describe_value, evaluate, is_module
from adjoint.diagnosis.remedies.registry import argument_node, at, find_named_argument, name_argument, remedy, shape_of
from adjoint.diagnosis.repairs.expression import Edit, bracket, parse
from adjoint.diagnosis.repairs.trial import compute
from adjoint.diagnosis.source_expressions import text_of


@remedy(
    r"Mismatch in shape: grad_output\[(\d+)\] has a shape of \S*\[([\d, ]*)\]\) "
    r"and output\[\d+\] .* \S*\[([\d, ]*)\]"
)
def fit_output_gradient(failure: Failure, match: re.Match[str]) -> str:
    """A gradient that is given for an output of another shape."""
    node = failure.node
    owner = node.func.value if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) else None
    given = text_of(node.args[0]) if isinstance(node, ast.Call) and node.args else "the gradient"
    outputs = argument_node(failure, 2, "grad_outputs")
    if isinstance(node, ast.Call) and text_of(node.func).endswith("grad") and outputs is not None:
        name = name_argument(failure, 0, "outputs", "the output")
        told = f"{text_of(outputs)} is [{match[2]}], and {name} [{match[3]}]"
        return f"{told}: a gradient of that shape, torch.ones_like({name})"
    name = "the output" if owner is None or evaluate(owner, failure.frame) is MISSING else text_of(owner)
    if name == "the output":
        wanted = shape_of(match[3])
        held = [key for key, x in failure.frame.f_locals.items() if isinstance(x, Tensor) and tuple(x.shape) == wanted]
        if len(held) != 1:
            return f"{given} is {list(shape_of(match[2]))}, and the output {list(wanted)}: a gradient of that shape"
        name = held[0]
    own = failure.find_operand(given)
    if own is not None and isinstance(own.value, Tensor) and own.value.numel() == 1 and not match[3]:
        told = f"{given}{at(own)} is [{match[2]}], a list of one number, and {name} has no dimensions"
        return f"{told}: {name}.backward({given}.squeeze()), or torch.tensor(1.0) there"
    return f"{given} is [{match[2]}], and {name} [{match[3]}]: a gradient of that shape, torch.ones_like({name})"


@remedy(r"(\w+)(?: option)? is mutually exclusive with ([\w, ]+)")
def leave_one_out(failure: Failure, match: re.Match[str]) -> str:
    """Arguments of which one says all that the other says."""
    return f"{match[1]}= decides it alone: leave {match[2].strip()} out"


@remedy(r"(\w+) momentum requires a momentum and zero dampening")
def give_momentum(failure: Failure, match: re.Match[str]) -> str:
    """Nesterov's method without a momentum."""
    return "momentum=0.9 beside nesterov=True, and no dampening"


@remedy(r"(\w+) (?:should|must) be (an? [\w\- ]+?|positive|non-negative|\w+ than [\d.]+),? but got (?:\w+=)?(\S+)")
def give_wanted_value(failure: Failure, match: re.Match[str]) -> str:
    """A setting out of its range."""
    wanted = match[2].removesuffix(" value")
    own = _find_argument(failure, match[1])
    if own is None:
        return f"{match[1]} is {match[3]}, and {wanted} is wanted"
    if "integer" in wanted and re.fullmatch(r"\S*?\d+\.0\W*", match[3]):
        return f"{match[1]}={own.text}{at(own)} is {match[3]}, and {wanted} is wanted: {match[1]}=int({own.text})"
    return f"{match[1]}={own.text}{at(own)}: {wanted} is wanted"


def _find_argument(failure: Failure, name: str) -> NamedValue | None:
    """Return the expression that the user's call gives for a parameter of that name."""
    node = failure.node
    given = find_named_argument(failure, name) or find_named_argument(failure, "tensor")
    if given is None or not isinstance(node, ast.Call):
        return None
    text = text_of(given)
    return failure.find_operand(text) or NamedValue(text, evaluate(given, failure.frame))


@remedy(r"you can only change requires_grad flags of leaf variables")
def detach_computed(failure: Failure, match: re.Match[str]) -> str | None:
    """A computed tensor that is to have no gradient."""
    x = next((each for each in failure.tensors() if not each.value.is_leaf), None)
    if x is None:
        return None
    return f"{x.text}{at(x)} is computed, and has its graph from what it is made of: {x.text} = {x.text}.detach()"


@remedy(r"einsum\(\): output subscript (\w) does not appear in the equation")
def name_output_letter(failure: Failure, match: re.Match[str]) -> str | None:
    """A letter of einsum's result that no operand has."""
    node = failure.node
    equation = evaluate(node.args[0], failure.frame) if isinstance(node, ast.Call) and node.args else MISSING
    if not isinstance(equation, str):
        return None
    inputs, _, output = equation.replace(" ", "").partition("->")
    letters = [each for each in sorted(set(inputs) - {",", "."} - set(output)) if inputs.count(each) == 1]
    told = f"{match[1]!r} in the result {output!r} is a letter of no operand, {inputs}"
    short = output.replace(match[1], "")
    return f"{told}: {' or '.join(letters)} is meant" if letters else f"{told}: leave it out, {inputs}->{short}"


@remedy(r"cannot assign '(?:\w+\.)*(\w+)' object to buffer '(\w+)'")
def make_buffer_tensor(failure: Failure, match: re.Match[str]) -> str:
    """A list where a module keeps a tensor."""
    own = _find_argument(failure, match[2])
    if own is None:
        return f"{match[2]} is a {match[1]}, no tensor: torch.tensor(…) around it"
    return f"{match[2]}={own.text}{at(own)} is a {match[1]}, no tensor: {match[2]}=torch.tensor({own.text})"


@remedy(r"unsupported operand type\(s\) for \+: 'int' and 'str'")
def sum_values(failure: Failure, match: re.Match[str]) -> str | None:
    """The sum of a dictionary, which goes through its keys."""
    node = failure.node
    for call in ast.walk(node) if node is not None else ():
        if isinstance(call, ast.Call) and text_of(call.func) == "sum" and call.args:
            held = evaluate(call.args[0], failure.frame)
            name = text_of(call.args[0])
            if isinstance(held, dict):
                return f"{name} is a dict, and sum goes through its keys: sum({name}.values())"
    return None


@remedy(r"Expected more than 1 spatial element when training, got input size \[([\d, ]+)\]")
def keep_space(failure: Failure, match: re.Match[str]) -> str:
    """A normalisation over one place of each channel."""
    layer = failure.module()
    name = "the normalisation" if layer is None else f"{layer.text}{at(layer)}"
    return f"{name} gets [{match[1]}], one value for each channel, which it makes 0: leave it out there"


@remedy(r"Expected weight to be a vector of size equal to the number of channels.* input of shape \[([\d, ]+)\]")
def fit_group_channels(failure: Failure, match: re.Match[str]) -> str:
    """A normalisation of groups of other channels."""
    layer, channels = failure.module(), match[1].replace(" ", "").split(",")[1]
    if layer is None:
        return f"the input has {channels} channels: a weight for each"
    groups, own = getattr(layer.value, "num_groups", 1), getattr(layer.value, "num_channels", "other")
    told = f"{layer.text}{at(layer)} normalises {own} channels, its input has {channels}"
    return f"{told}: nn.GroupNorm({groups}, {channels})"


@remedy(r"Input batch size (\d+) doesn't match hidden\d? batch size (\d+)|hidden.* has inconsistent hidden_size")
def fit_cell_state(failure: Failure, match: re.Match[str]) -> str | None:
    """The state of a cell of another batch, or one where a pair belongs."""
    layer, node = failure.module(), failure.node
    given = node.args[1] if isinstance(node, ast.Call) and len(node.args) > 1 else None
    if layer is None or given is None:
        return None
    value, x = evaluate(given, failure.frame), text_of(given)
    own = failure.find_operand(x)
    if type(layer.value).__name__ == "LSTMCell" and not isinstance(value, tuple) and hasattr(value, "shape"):
        first = text_of(node.args[0]) if isinstance(node, ast.Call) else "x"
        return f"the state of an LSTMCell is a pair, and {x}{at(own)} is one: h, c = {layer.text}({first}, ({x}, c))"
    sizes = re.search(r"hidden_size: got (\d+), expected (\d+)", failure.message)
    if sizes is not None and getattr(value, "ndim", 0) == 2:
        told = f"{x}{at(own)} has {sizes[1]} values for each sample, and {layer.text} {sizes[2]} hidden units"
        return f"{told}: torch.zeros({value.shape[0]}, {sizes[2]}) for it"
    if not match[1]:
        return None
    return f"{x}{at(own)} is for {match[2]} samples, and the input has {match[1]}: torch.zeros({match[1]}, …)"


@remedy(
    r"(?:supports?|expect\w*|must be|needs?|should be|wants?|required)\D{0,40}?(\d)-?D\b.*?"
    r"(?:got|found|with|given)\D{0,40}?(\d)-?(?:D\b|dim)",
    is_last=True,
)
def fit_dimensions(failure: Failure, match: re.Match[str]) -> str | None:
    """A tensor with another number of dimensions than the function takes."""
    wanted, count = int(match[1]), int(match[2])
    x = next((each for each in failure.tensors() if each.value.ndim == count), None)
    if x is None or wanted == count:
        return None
    told = f"{x.text}{at(x)}, {tuple(x.value.shape)}, has {count} dimensions, and {wanted} are wanted"
    if count == wanted + 1:
        return f"{told}: a loop over {x.text}, or {x.text}.flatten(0, 1), {tuple(x.value.flatten(0, 1).shape)}"
    return f"{told}: {x.text}.unsqueeze(0)" if count == wanted - 1 else told


SHAPE = r"[\[(](\d+(?:, ?\d+)*),?[\])]"


@remedy(
    rf"(?:expected|Expected|should be|must be|has to be)[^\[(]*?{SHAPE}.*?(?:got|found|but)\D*?{SHAPE}", is_last=True
)
@remedy(rf"{SHAPE}[^\[(]*(?:does not match|do not match|differs? from|vs\.?|and|shape = )[^\[(]*{SHAPE}", is_last=True)
def name_told_shapes(failure: Failure, match: re.Match[str]) -> str | None:
    """Two shapes of a message that are to agree: the operands that have them."""
    first, second = shape_of(match[1]), shape_of(match[2])
    named = [next((each for each in failure.tensors() if tuple(each.value.shape) == n), None) for n in (second, first)]
    given, wanted = named
    if given is None or first == second:
        return None
    if wanted is None:
        return f"{given.text}{at(given)} is {second}, and {first} is wanted"
    return f"{given.text}{at(given)} is {second}, and {wanted.text}{at(wanted)} {first}: both of one shape"


@remedy(
    r"negative|positive|greater than (?:0|zero)|larger than (?:0|zero)|>=? ?0|between 0 and 1|\[0, 1\]", is_last=True
)
def name_values_outside(failure: Failure, match: re.Match[str]) -> str | None:
    """Values below 0, or above 1, of a tensor or a number that the message tells of."""
    is_share = "1" in match[0]
    is_strict = match[0] != "negative" and not match[0].startswith(">=") and not is_share
    found = []
    for each in failure.operands:
        value = each.value
        if isinstance(value, Tensor) and value.numel() and not value.is_complex():
            low, high = float(value.min()), float(value.max())
        elif isinstance(value, (int, float)) and not isinstance(value, bool):
            low = high = float(value)
        else:
            continue
        if low < 0 or (is_strict and low == 0) or (is_share and high > 1):
            found.append((each, low, high))
    if len(found) > 1:
        found = [each for each in found if re.search(rf"\b{re.escape(each[0].text)}\b", failure.message)]
    if len(found) != 1:
        return None
    x, low, high = found[0]
    if isinstance(x.value, Tensor) and not x.value.is_floating_point() and not is_share:
        return f"{x.text}{at(x)} goes from {low:.4g} to {high:.4g}, and positive values are wanted"
    told = f"{x.text}{at(x)} " + (f"goes from {low:.4g} to {high:.4g}" if low != high else f"is {low:.4g}")
    if not isinstance(x.value, Tensor):
        return f"{told}, and {'a share of 0 to 1' if is_share else 'a positive number'} is wanted"
    if is_share:
        return f"{told}, and values of 0 to 1 are wanted: torch.sigmoid({x.text}), where they are scores"
    return f"{told}, and positive values are wanted: {x.text}.exp() of a logarithm, or F.softplus({x.text})"


@remedy(
    r"(?:expected|must be|should be|requires?|needs?) (?:an? )?int(?:eger)?s?,? (?:but )?(?:got|not|found)[^a-z]*str"
)
@remedy(r"'str' object cannot be interpreted as an integer")
def read_number(failure: Failure, match: re.Match[str]) -> str | None:
    """A text of digits where a number belongs, or a name where parts have numbers."""
    node = failure.node
    owner = evaluate(node.value, failure.frame) if isinstance(node, ast.Subscript) else None
    if is_module(owner) and isinstance(node, ast.Subscript):
        own = failure.find_operand(text_of(node.value))
        told = f"{text_of(node.value)}{at(own)} holds its parts by number, and {text_of(node.slice)} is a text"
        return f"{told}: nn.ModuleDict({{name: …}}) there holds them by name"
    for part in (*node.args, *(each.value for each in node.keywords)) if isinstance(node, ast.Call) else ():
        value = compute(part, failure.frame)
        if isinstance(value, str) and value.strip().lstrip("-").isdigit():
            wanted = value.strip() if isinstance(part, ast.Constant) else f"int({text_of(part)})"
            own = failure.find_operand(text_of(part))
            made = None if own is None or own.origin is None else own.origin.node
            is_option = isinstance(made, ast.Call) and text_of(made.func).endswith("add_argument")
            wanted = "type=int there" if is_option else wanted
            return f"{text_of(part)}{at(own)} is a text, and a whole number is wanted: {wanted}"
    return None


@remedy(r"'(list|tuple)' object cannot be interpreted as an integer")
def give_one_size(failure: Failure, match: re.Match[str]) -> str | None:
    """A list of sizes where a layer takes one."""
    node = failure.node
    if not isinstance(node, ast.Call):
        return None
    for part in (*node.args, *(each.value for each in node.keywords)):
        value, text = compute(part, failure.frame), text_of(part)
        if type(value).__name__ == match[1] and value and all(type(each) is int for each in value):
            changed = text_of(Edit(part, parse(f"{bracket(part)}[0]")).apply(node))
            told = f"{text}{at(failure.find_operand(text))} is {value}, and one number is taken there"
            return f"{told}: {changed} for the first, and a layer for each of the others"
    return None


@remedy(r"doesn't support per-parameter options \(parameter groups\)")
def give_one_group(failure: Failure, match: re.Match[str]) -> str | None:
    """Groups of parameters for an optimizer that takes one."""
    names = [each.text for each in failure.tensors()]
    return f"it takes one group of all parameters: [{', '.join(names)}]" if names else "one list of all parameters"


@remedy(r"'(\w+)' object (?:has no attribute|is not \w+|cannot be|does not support)|'(\w+)' has no len", is_last=True)
def name_other_kind(failure: Failure, match: re.Match[str]) -> str | None:
    """A value of a kind that the library cannot work on, where a tensor or a module belongs."""
    x = failure.culprit
    kind = match[1] or match[2]
    if x is None or type(x.value).__name__ != kind or not failure.stack[0].called:
        return None
    told = f"{x.text}{at(x)} is a {kind}, {describe_value(x.value)}"
    if isinstance(x.value, str):
        return f"{told}, and numbers are wanted: indices of a vocabulary, or float({x.text}) of digits"
    return f"{told}, and no tensor"


@remedy(r"^index (-?\d+) is out of range$")
def count_parts(failure: Failure, match: re.Match[str]) -> str | None:
    """A part of a list of modules by a number that it has not."""
    holder = next((each for each in failure.operands if is_module(each.value) and hasattr(each.value, "__len__")), None)
    if holder is None:
        return None
    count = len(vars(holder.value)["_modules"])
    number = next((each for each in failure.operands if type(each.value) is int and str(each.value) == match[1]), None)
    loop = None if number is None or number.origin is None else number.origin.node
    if isinstance(loop, ast.For) and text_of(loop.iter).startswith("range(") and number is not None:
        told = f"{holder.text}{at(holder)} has {count} parts, and {number.text}{at(number)} goes to {match[1]}"
        return f"{told}: for {number.text} in range(len({holder.text})) there"
    return f"{holder.text}{at(holder)} has {count} parts, {holder.text}[0] to {holder.text}[{count - 1}]"


@remedy(r"different number of parameter groups: (\d+), the optimizer has (\d+)")
def match_groups(failure: Failure, match: re.Match[str]) -> str:
    """A state of an optimizer with other groups."""
    node = failure.node
    owner = text_of(node.func.value) if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) else "it"
    told = f"the state has {pluralize(int(match[1]), 'group')}, and {owner} {match[2]}"
    return f"{told}: make {owner} with the groups that were saved"


LITERALS: dict[str, type[ast.expr]] = {"dict": ast.Dict, "list": ast.List}


@remedy(r"hook returned an invalid number of grad_\w+, got (\d+), but expected (\d+)")
@remedy(r"'(dict|list|str|int|float|ndarray)' object has no attribute 'array'", is_last=True)
def return_other_kind(failure: Failure, match: re.Match[str]) -> str | None:
    """A function of the user's, such as a hook, whose result the library cannot take."""
    callback = next(iter(find_callbacks(failure.stack, failure.message)), None)
    returned = None if callback is None else callback.find_return()
    if callback is None or returned is None:
        return None
    value = getattr(returned.node, "value", None)
    if not match[1].isdigit() and not isinstance(value, LITERALS.get(match[1], ast.Constant)):
        return None  # another value is to blame
    told = f"{callback.name} at {returned.describe()}, gives"
    if match[1].isdigit():
        return f"{told} {pluralize(int(match[1]), 'value')}, and {match[2]} is wanted: as many as it gets, or None"
    return f"{told} a {match[1]}: a tensor, or a tuple of tensors, there"


@remedy(r"'str' object is not callable", is_last=True)
def give_hook(failure: Failure, match: re.Match[str]) -> str | None:
    """The name of a function, as a text, where a function was registered."""
    source = None if failure.line is None else failure.line.source
    for call in source.nodes_of(ast.Call) if source is not None and failure.stack[0].called else ():
        if not text_of(call.func).rpartition(".")[2].startswith("register_"):
            continue
        for given in call.args[:1]:
            if isinstance(given, ast.Constant) and isinstance(given.value, str) and source is not None:
                told = f"{text_of(call)} at {source.place_of(call)} registers a text"
                return f"{told}: the function itself, {given.value}, without quotes"
    return None


@remedy(r"[Ee]xpected (\d+) (\w+?)s?, but got (\d+)$")
def give_as_many(failure: Failure, match: re.Match[str]) -> str:
    """Another number of settings than there are groups."""
    return f"{match[3]} are given, and {pluralize(int(match[1]), match[2])} are wanted: one for each parameter group"


@remedy(r"dimension (-?\d+) must have length (\d+)\. Got (\d+) and (\d+)")
def name_lengths(failure: Failure, match: re.Match[str]) -> str:
    """Vectors of another length than a function is defined for."""
    names = ", ".join(f"{each.text}{at(each)} {tuple(each.value.shape)}" for each in failure.tensors())
    return f"vectors of {match[2]} in dimension {match[1]} are wanted, and it is {match[3]} and {match[4]}: {names}"


@remedy(r"You must implement either the backward")
def define_backward(failure: Failure, match: re.Match[str]) -> str | None:
    """A custom function that has no backward."""
    names = [found[1] for note in failure.error.__notes__ if (found := re.search(r"of (\w+)Backward", note))]
    source = None if failure.line is None else failure.line.source
    for node in source.nodes_of(ast.ClassDef) if source is not None else ():
        if node.name in names and source is not None:
            told = f"{node.name} at {source.place_of(node)} has no backward"
            return f"{told}: @staticmethod def backward(ctx, grad), which returns a gradient for each argument"
    return None


@remedy(r"Tensor is not a Module subclass")
def hold_parameters(failure: Failure, match: re.Match[str]) -> str:
    """A tensor in a container of modules."""
    return "tensors that are learned are parameters: nn.ParameterList([nn.Parameter(…)]) holds them"


@remedy(r"Can't (?:pickle|get local object) .*(?:<lambda>|<locals>)")
def save_values(failure: Failure, match: re.Match[str]) -> str | None:
    """A model that holds a function without a name that a file could keep."""
    model = failure.named_module()
    if model is None:
        return None
    for name, value in vars(model.value).items():
        if getattr(value, "__name__", "") == "<lambda>":
            told = f"{model.text}.{name} is a lambda, which no file can keep"
            return f"{told}: {model.text}.state_dict() is saved without it, or a function with def"
    return f"save its values: {model.text}.state_dict()"


@remedy(r"No KL\(p \|\| q\) is implemented for p type (\w+) and q type (\w+)")
def draw_divergence(failure: Failure, match: re.Match[str]) -> str:
    """Two distributions without a formula for their divergence."""
    return (
        f"{match[1]} and {match[2]} have no formula: both of one kind, or (p.log_prob(x) - q.log_prob(x)) of samples x"
    )


@remedy(r"size of tensor a \((\d+)\) must match the size of tensor b \((\d+)\)", is_last=True)
def name_unequal_sizes(failure: Failure, match: re.Match[str]) -> str | None:
    """Two tensors that a function computes with elementwise, of sizes that differ."""
    sizes = int(match[1]), int(match[2])
    named = [next((each for each in failure.tensors() if size in each.value.shape), None) for size in sizes]
    a, b = named
    if a is None or b is None or a is b:
        return None
    told = ", ".join(f"{each.text}{at(each)} {tuple(each.value.shape)}" for each in (a, b))
    return f"{told}: both of one size, or 1 in that dimension"
