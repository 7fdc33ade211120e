"""Remedies for modules and what trains them: states, recurrent and attention layers, optimizers, batches, files."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping

from adjoint.core.graph.source_location import definition_site
from adjoint.diagnosis.failure import Failure
from adjoint.diagnosis.operands import Origin, is_module
from adjoint.diagnosis.remedies.registry import at, describe_layer, first_tensor, name_of_shape, remedy, shape_of
from adjoint.diagnosis.source_expressions import find_attribute_assignment, text_of


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
    node = None if failure.line is None else failure.line.node
    for key, value in state.items() if isinstance(state, Mapping) else ():
        if isinstance(value, Mapping) and missing[0] in value and isinstance(node, ast.Call) and node.args:
            name, held = text_of(node.args[0]), ", ".join(map(repr, failure.locals["state_dict"]))
            return f"{name} holds more than the state, {held}: load_state_dict({name}[{key!r}])"
    short, long = sorted((missing[0], unexpected[0]), key=len)
    prefix = long.removesuffix(short)
    if prefix == long or not prefix.endswith("."):
        return "the state belongs to another model; strict=False loads what fits"
    if long == unexpected[0]:
        return f'take the prefix away: {{name.removeprefix("{prefix}"): value for name, value in state.items()}}'
    return f"the state is of a part: load it into that, model.{prefix.rstrip('.')}.load_state_dict(state)"


@remedy(
    r"size mismatch for ([\w.]+): copying a param with shape \S*\[([\d, ]*)\]\) from checkpoint, "
    r".*? is \S*\[([\d, ]*)\]"
)
def match_sizes(failure: Failure, match: re.Match[str]) -> str:
    """A state of a model of other sizes."""
    saved, own = shape_of(match[2]), shape_of(match[3])
    return f"make the model as it was saved, {match[1]} of {saved} and not {own}, or leave these names out of the state"


@remedy(r"Expected hidden(?:\[\d\])? size \(([\d, ]+)\), got \[([\d, ]+)\]")
def fit_hidden_state(failure: Failure, match: re.Match[str]) -> str:
    """A first state of other sizes."""
    expected, found = shape_of(match[1]), shape_of(match[2])
    x, layer = name_of_shape(failure, found, "the state"), failure.module()
    value = None if layer is None else layer.value
    name = "the layer" if layer is None else layer.text
    if len(expected) == 3 and len(found) == 3 and expected[0] != found[0]:
        told = f"{getattr(value, 'num_layers', 1)} layers"
        told += " both ways" if getattr(value, "bidirectional", False) else ""
        return f"{x}{_where(failure, x)} is to be {expected}: {name} has {told}, one state each"
    if getattr(value, "batch_first", False) and len(found) == 3:
        where = f"{x}{_where(failure, x)}"
        return f"states are (layers, batch, hidden) with batch_first=True too: {where} is to be {expected}"
    if found[-1] != expected[-1]:
        return f"{x}{_where(failure, x)} is to be {expected}: {name} has {expected[-1]} hidden units"
    return f"{x}{_where(failure, x)} is to be {expected}: the batch has {expected[-2]} samples"


def _where(failure: Failure, name: str) -> str:
    return at(next((each for each in failure.operands if each.text == name), None))


@remedy(r"input\.size\(-1\) must be equal to input_size\. Expected (\d+), got (\d+)")
def fit_features(failure: Failure, match: re.Match[str]) -> str:
    """A recurrent layer whose input has other features."""
    layer = failure.module()
    name, kind = describe_layer(failure, kind="RNN")
    hidden = "…" if layer is None else layer.value.hidden_size
    wanted = f"nn.{kind}({match[2]}, {hidden}) there"
    return f"{name} takes {match[1]} features, its input has {match[2]}: {wanted}"


@remedy(r"'tuple' object has no attribute|argument '\w+' \(position \d+\) must be Tensor, not tuple")
def unpack_results(failure: Failure, match: re.Match[str]) -> str | None:
    """Several results where one tensor belongs."""
    given = next((each for each in failure.operands if type(each.value) is tuple), None)
    layer = failure.module()
    if given is not None and layer is not None and not failure.stack[0].called:  # a hook
        return f"{given.text} of {layer.text} is a tuple of {len(given.value)}: take one of them, {given.text}[0]"
    if given is None and layer is not None and type(layer.value).__name__ in ("GRU", "RNN", "GRUCell", "RNNCell"):
        return f"{layer.text} has one state, not the pair of an LSTM: {layer.text}(x, h0)"
    if given is None and layer is not None and "[" in layer.text:
        return f"{layer.text}{at(layer)} gets a tuple: the part before it gives several results, as an LSTM does"
    if given is None:
        return None
    kind = "it is made of several results"
    return f"{given.text}{at(given)} is a tuple, {kind}: output, state = …; or {given.text}[0]"


@remedy(r"embed_dim must be divisible by num_heads")
def divide_heads(failure: Failure, match: re.Match[str]) -> str:
    """A width that the heads do not divide."""
    width, heads = failure.locals["embed_dim"], failure.locals["num_heads"]
    fitting = [n for n in range(1, 33) if width % n == 0]
    nearest = width // heads * heads
    return f"{heads} heads do not divide {width}: {', '.join(map(str, fitting))} do; or a width of {nearest}"


@remedy(r"was expecting embedding dimension of (\d+), but got (\d+)")
def fit_width(failure: Failure, match: re.Match[str]) -> str:
    """Attention over tokens of another width."""
    x = next((each for each in failure.tensors()), None)
    told = "the input" if x is None else f"{x.text}{at(x)}, {tuple(x.value.shape)},"
    return f"{told} has {match[2]} features, and the layer's d_model or embed_dim is {match[1]}: make them one number"


@remedy(r"The shape of the (\d)D attn_mask is \S*\[([\d, ]+)\]\), but should be \(([\d, ]+)\)")
def fit_mask(failure: Failure, match: re.Match[str]) -> str:
    """A mask of another size."""
    found = shape_of(match[2])
    x = name_of_shape(failure, found, "the mask")
    return f"{x}{_where(failure, x)} is to be (queries, keys), ({match[3]}): make it of the input's length"


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
    return f"{name}{at(layer)} normalises {match[2]} channels, its input has {match[1]}: nn.{kind}({match[1]}) there"


@remedy(r"'(\w+)' object is not iterable|params argument given to the optimizer should be an iterable")
def give_parameters(failure: Failure, match: re.Match[str]) -> str | None:
    """A model or a tensor where an optimizer wants parameters."""
    model = failure.named_module()
    if model is not None:
        return f"an optimizer takes parameters: {model.text}.parameters()"
    tensor = next((each for each in failure.tensors()), None)
    return None if tensor is None else f"an optimizer takes a list of tensors: [{tensor.text}]"


@remedy(r"optimizer got an empty parameter list")
def register_parameters(failure: Failure, match: re.Match[str]) -> str:
    """A model that has registered nothing."""
    model = failure.named_module()
    hidden = [] if model is None else _find_unregistered_modules(model.value)
    if model is not None and hidden:
        name, kind = hidden[0]
        made = find_attribute_assignment(model.value, name)
        where = "" if made is None else f" at {Origin(*made).place()}"
        return f"{model.text}.{name}{where} is a plain {kind.lower()[-4:]}, which is not looked into: nn.{kind}(…)"
    return "a parameter is registered as self.name = nn.Parameter(…), or is part of a module that is"


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
    return f"{told} is computed from another: make its values first, then .detach().requires_grad_(), or nn.Parameter"


@remedy(r"parameters appear in more than one parameter group")
def list_once(failure: Failure, match: re.Match[str]) -> str:
    """A parameter that would be updated twice."""
    return "each parameter belongs to one group: leave it out of the others"


@remedy(r'is missing the required "forward" function')
def name_forward(failure: Failure, match: re.Match[str]) -> str:
    """A module without a forward, or with a misspelled one."""
    module = failure.modules[0] if failure.modules else None
    if type(module).__name__ in ("ModuleList", "ModuleDict"):
        name = next((each.text for each in failure.operands if each.value is module), "it")
        return f"{name} only holds modules: for layer in {name}: x = layer(x); or nn.Sequential(*{name})"
    methods = [name for name, value in vars(type(module)).items() if callable(value) and not name.startswith("_")]
    similar = [name for name in methods if set("forwad") <= set(name) or name in ("call", "predict", "run")]
    where = ""
    for name in similar or methods[:1]:
        code = getattr(vars(type(module))[name], "__code__", None)
        if code is not None:
            where = f": {name}, {definition_site(code).describe_briefly()}, is to be called forward"
    return f"a module's method that computes is called forward{where}"


@remedy(r"cannot assign (?:module|parameter)s? before Module.__init__\(\) call")
def call_super(failure: Failure, match: re.Match[str]) -> str:
    """A module that has no tables yet."""
    return "super().__init__() is the first line of __init__"


@remedy(r"`lengths` array must be sorted in decreasing order")
def sort_lengths(failure: Failure, match: re.Match[str]) -> str:
    """Sequences of mixed lengths."""
    return "enforce_sorted=False takes the sequences as they come"


@remedy(r"Weights only load failed")
def save_states(failure: Failure, match: re.Match[str]) -> str:
    """A file that holds objects, and not tensors alone."""
    return "save model.state_dict() and load it into a model; for a file that you trust, load(…, weights_only=False)"
