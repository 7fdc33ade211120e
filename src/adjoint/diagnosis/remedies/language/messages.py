"""Remedies that the message itself names: a method to be called first, what a function gives in one process alone."""

from __future__ import annotations

import ast
import re
from importlib import import_module

from adjoint.core.tensor.tensor import Tensor
from adjoint.diagnosis.failure import Failure
from adjoint.diagnosis.operands import evaluate, find_origin, is_module
from adjoint.diagnosis.remedies.registry import at, find_class, remedy
from adjoint.diagnosis.repairs.expression import bracket
from adjoint.diagnosis.repairs.trial import compute
from adjoint.diagnosis.source_expressions import text_of

MAX_VARIANTS = 4


@remedy(r"please call \.?(\w+)\(\) first")
def call_first(failure: Failure, match: re.Match[str]) -> str | None:
    """A method that wants another one before it."""
    node = failure.node
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return None
    owner, method = bracket(node.func.value), node.func.attr
    given = ", ".join(map(text_of, (*node.args, *node.keywords)))
    return f"{owner}{at(failure.find_operand(owner))} first: {owner}.{match[1]}().{method}({given})"


@remedy(r"'NoneType' object has no attribute '(?:id|num_workers|seed|dataset)'")
def ask_for_worker(failure: Failure, match: re.Match[str]) -> str | None:
    """The worker's number, in a loader that reads in the main process."""
    for each in failure.operands:
        made = None if each.origin is None else each.origin.value
        if each.value is None and made is not None and text_of(made).endswith("get_worker_info()"):
            told = f"{each.text}{at(each)} is None in the main process, where a loader of num_workers=0 reads"
            numbers = f"({each.text}.id, {each.text}.num_workers)"
            return f"{told}: worker, count = (0, 1) if {each.text} is None else {numbers}"
    return None


@remedy(r"^Sample larger than population or is negative")
def wait_for_samples(failure: Failure, match: re.Match[str]) -> str | None:
    """More samples than a list, such as a replay buffer, holds."""
    node = failure.node
    if not isinstance(node, ast.Call) or len(node.args) + len(node.keywords) < 2:
        return None
    given = [*node.args, *(each.value for each in node.keywords)]
    held, count = (compute(each, failure.frame) for each in given[:2])
    if not hasattr(held, "__len__") or not isinstance(count, int):
        return None
    x, n = map(text_of, given[:2])
    told = f"{x}{at(failure.find_operand(x))} holds {len(held)}, and {n} is {count}"
    return f"{told}: if len({x}) >= {n} before it, or min({n}, len({x}))"


@remedy(r"\.(r?sample|sample_n)\(\) takes (?:from )?\d")
def give_sample_shape(failure: Failure, match: re.Match[str]) -> str | None:
    """Sizes of a sample one by one, where one tuple of them is taken."""
    node = failure.node
    if not isinstance(node, ast.Call) or len(node.args) < 2:
        return None
    return f"the shape of a sample is one tuple: {text_of(node.func)}(({', '.join(map(text_of, node.args))}))"


@remedy(r"must be Tensor, not (\w+)$")
def read_field(failure: Failure, match: re.Match[str]) -> str | None:
    """An object that holds tensors, such as what a model returns, where one of them belongs."""
    node = failure.node
    for part in node.args if isinstance(node, ast.Call) else ():
        value = evaluate(part, failure.frame)
        if (
            type(value).__name__ != match[1]
            or is_module(value)
            or match[1] in ("list", "tuple", "int", "float", "str", "ndarray")
        ):
            continue
        fields = value if isinstance(value, dict) else getattr(value, "__dict__", {})
        names = [str(name) for name, each in fields.items() if isinstance(each, Tensor)]
        known = [name for name in names if name in ("logits", "last_hidden_state", "sample", "out")]
        several = known or [name for name in names if fields[name].ndim] or names
        if several:
            x = text_of(part)
            read = f"{x}[{several[0]!r}]" if isinstance(value, dict) else f"{x}.{several[0]}"
            return f"{x}{at(failure.find_operand(x))} is of the class {match[1]}, with {', '.join(names)}: {read}"
    return None


@remedy(r"'(\w+)' object has no attribute '((?:named_)?parameters|(?:load_)?state_dict|train|eval|modules)'")
def derive_from_module(failure: Failure, match: re.Match[str]) -> str | None:
    """A class of the user's with parameters that is no module."""
    kind = failure.frame.f_globals.get(match[1], failure.frame.f_locals.get(match[1]))
    place = find_class(kind) if isinstance(kind, type) else None
    if place is None or not isinstance(kind, type) or (hasattr(kind, "forward") and hasattr(kind, "add_module")):
        return None
    told = f"{match[1]} at {place} is no module, which have {match[2]}()"
    return f"{told}: class {match[1]}(nn.Module) there, and super().__init__() first in its __init__"


@remedy(r"num_samples should be a positive integer value, but got num_samples=0")
def fill_dataset(failure: Failure, match: re.Match[str]) -> str | None:
    """A dataset without samples."""
    for each in failure.operands:
        if hasattr(each.value, "__getitem__") and hasattr(type(each.value), "__len__") and len(each.value) == 0:
            told = f"{each.text}{at(each)} has no samples"
            return f"{told}: look at what fills it, such as a path or a filter that leaves nothing"
    return None


@remedy(
    r"^linalg\.(?:inv|det|slogdet|eig\w*|cholesky|matrix_\w+): .*must have at least 2 dimensions\. Given \w+\[(\d+)\]"
)
def give_matrix(failure: Failure, match: re.Match[str]) -> str | None:
    """A vector in the place of a matrix."""
    node = failure.node
    if not isinstance(node, ast.Call) or not node.args:
        return None
    x = text_of(node.args[0])
    told = f"{x}{at(failure.find_operand(x))} is a vector of {match[1]}, and a matrix is wanted"
    return f"{told}: torch.diag({x}) has it on its diagonal, {x}.unsqueeze(0) is one row"


@remedy(r"^'bool' object has no attribute '(?:array|node|shape|dtype|ndim)'")
def test_for_none(failure: Failure, match: re.Match[str]) -> str | None:
    """A comparison of None, which gives one truth, where a mask belongs."""
    for part in ast.walk(failure.line.node) if failure.line is not None else ():
        for side in (part.left, *part.comparators) if isinstance(part, ast.Compare) else ():
            x = text_of(side)
            if evaluate(side, failure.frame) is None and x != "None":
                told = f"{x}{at(failure.find_operand(x))} is None, so that {text_of(part)} is one truth and no mask"
                return f"{told}: if {x} is not None before it"
    return None


@remedy(r"training mode is expected to be boolean")
def call_train(failure: Failure, match: re.Match[str]) -> str | None:
    """A model whose name has become that of its method `train`."""
    node = failure.node
    method = evaluate(node.func, failure.frame) if isinstance(node, ast.Call) else None
    if not isinstance(node, ast.Call) or getattr(method, "__name__", "") != "train":
        return None
    x = text_of(node.func)
    origin = None if failure.line is None else find_origin(failure.line.source, node.func, failure.stack)
    where = "" if origin is None else f" at {origin.place()}"
    return f"{x}{where} is the method train, which was not called: {x}.train() in a line of its own there"


@remedy(r"not supported between instances of 'generator' and '(?:int|float)'")
def put_parameters_first(failure: Failure, match: re.Match[str]) -> str | None:
    """An optimizer whose settings come before its parameters."""
    node = failure.node
    if not isinstance(node, ast.Call) or len(node.args) < 2:
        return None
    first, second = map(text_of, node.args[:2])
    settings = f"**{first}" if isinstance(node.args[0], ast.Dict) else f"lr={first}"
    return f"parameters come first, then the settings: {text_of(node.func)}({second}, {settings})"


@remedy(r"onnx\.export: the arguments do not fit the model")
def give_example(failure: Failure, match: re.Match[str]) -> str | None:
    """An export without the inputs of which the model is traced."""
    node = failure.node
    if not isinstance(node, ast.Call) or len(node.args) < 2:
        return None
    given = evaluate(node.args[1], failure.frame)
    model, path = text_of(node.args[0]), text_of(node.args[1])
    if isinstance(given, str):
        told = "the inputs come second, a tuple of tensors as the model takes them, and the path third"
        return f"{told}: {text_of(node.func)}({model}, (example,), {path})"
    return f"{path} is to be a tuple of the inputs of {model}: ({path},)"


@remedy(r"shape '\[([\d, ]*)\]' is invalid for input of size \d+")
def count_parameters(failure: Failure, match: re.Match[str]) -> str | None:
    """A vector with fewer numbers than the parameters that it is to fill."""
    node = failure.node
    if not isinstance(node, ast.Call) or not text_of(node.func).endswith("vector_to_parameters") or len(node.args) < 2:
        return None
    vector, owner = evaluate(node.args[0], failure.frame), node.args[1]
    model = owner.func.value if isinstance(owner, ast.Call) and isinstance(owner.func, ast.Attribute) else owner
    held = evaluate(model, failure.frame)
    if not hasattr(held, "parameters") or not hasattr(vector, "numel"):
        return None
    x, count = text_of(node.args[0]), sum(each.numel() for each in held.parameters())
    told = (
        f"{x}{at(failure.find_operand(x))} has {vector.numel()} numbers, and the parameters of {text_of(model)} {count}"
    )
    return f"{told}: the vector of a model of the same sizes"


@remedy(r"not supported between instances of '(?:list|tuple)' and '(?:int|float)'")
def give_one_number(failure: Failure, match: re.Match[str]) -> str | None:
    """A list of one number among the settings of a call."""
    node = failure.node
    for keyword in node.keywords if isinstance(node, ast.Call) else ():
        value, held = evaluate(keyword.value, failure.frame), text_of(keyword.value)
        items = value.items() if keyword.arg is None and isinstance(value, dict) else [(keyword.arg, value)]
        for name, each in items:
            if isinstance(each, (list, tuple)) and all(isinstance(part, (int, float)) for part in each):
                own = f"{held}[{name!r}]" if keyword.arg is None else held
                told = f"{own}{at(failure.find_operand(held))} is the {type(each).__name__} {each}"
                return f"{told}, and one number is wanted: {own}[0], or {each[0] if each else 0} there"
    return None


@remedy(r"not supported between instances of 'str' and '(?:int|float)'")
def give_number(failure: Failure, match: re.Match[str]) -> str:
    """A text where a number belongs."""
    node = failure.node
    for keyword in node.keywords if isinstance(node, ast.Call) else ():
        value = evaluate(keyword.value, failure.frame)
        if isinstance(value, str) and keyword.arg:
            kind = "int" if value.strip().lstrip("-").isdigit() else "float"
            return f"{keyword.arg} is a text: {kind}({text_of(keyword.value)}), or {keyword.arg}={value}"
        if isinstance(value, dict):  # **settings
            for name, each in value.items():
                if isinstance(each, str) and re.fullmatch(r"[-+\d.eE]+", each):
                    held = text_of(keyword.value)
                    told = f"{name!r} of {held}{at(failure.find_operand(held))} is the text {each!r}"
                    return f"{told}, and a number is wanted: float({held}[{name!r}]), or {each} without quotes"
    for argument in node.args if isinstance(node, ast.Call) else ():
        value = evaluate(argument, failure.frame)
        if isinstance(value, str):
            return f"{text_of(argument)} is a text, where a number is wanted: float({text_of(argument)})"
    return "a number is compared with a text: float(…) of it"


@remedy(r"has no torch\.([\w.]*?)(\w+) \(")
def name_variants(failure: Failure, match: re.Match[str]) -> str | None:
    """A name that nothing has, where some that begin so are there: `BatchNorm` of `BatchNorm1d`, `BatchNorm2d`."""
    home = import_module(f"{__name__.partition('.')[0]}.{match[1]}".rstrip("."))
    names = sorted(name for name in dir(home) if name.lower().startswith(match[2].lower()) and name != match[2])
    if not names:
        return None
    known = ", ".join(f"{match[1]}{name}" for name in names[:MAX_VARIANTS])
    return f"{match[1]}{match[2]} does not exist: {known} {'do' if len(names) > 1 else 'does'}"
