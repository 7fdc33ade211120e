"""Remedies that the message itself names: a method to be called first, what a function gives in one process alone."""

from __future__ import annotations

import ast
import re
from importlib import import_module

from adjoint.core.tensor.tensor import Tensor
from adjoint.diagnosis.call_stack import user_files
from adjoint.diagnosis.causes.computing import open_step
from adjoint.diagnosis.causes.numbers import trace_number
from adjoint.diagnosis.failure import Failure
from adjoint.diagnosis.operands import evaluate, find_origin, find_return_in, is_module
from adjoint.diagnosis.remedies.registry import at, find_class, find_named_argument, remedy
from adjoint.diagnosis.repairs.expression import bracket
from adjoint.diagnosis.repairs.trial import compute
from adjoint.diagnosis.source_expressions import find_expression, text_of

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


@remedy(r"^empty range (?:for randrange\(\) |in randrange\()\((-?\d+), (-?\d+)")
def draw_from_range(failure: Failure, match: re.Match[str]) -> str | None:
    """A range whose end is a difference below its begin, as of a crop that is larger than the image."""
    for part in ast.walk(failure.node) if failure.node is not None else ():
        sides = (part.left, part.right) if isinstance(part, ast.BinOp) and isinstance(part.op, ast.Sub) else ()
        values = [compute(each, failure.frame) for each in sides]
        if len(sides) != 2 or not all(type(each) is int for each in values) or values[0] >= values[1]:
            continue
        first = open_step(failure, sides[1])
        root = None if first is None else trace_number(first, values[1]).root
        where = "" if root is None or root.node is sides[1] else f", from {root.line()}"
        told = f"{text_of(sides[1])} is {values[1]}{where}, and {text_of(sides[0])} is {values[0]}"
        return f"{told}: {values[0]} or less for {text_of(sides[1])}, or a larger {text_of(sides[0])}"
    return None


@remedy(r"Cannot take a larger sample than population|Sample larger than population")
def draw_fewer(failure: Failure, match: re.Match[str]) -> str | None:
    """More items than there are, as of a memory that is not filled yet."""
    node = failure.node
    values = [compute(each, failure.frame) for each in node.args] if isinstance(node, ast.Call) else []
    if not isinstance(node, ast.Call) or len(values) < 2 or type(values[1]) is not int:
        return None
    held, count = node.args[0], text_of(node.args[1])
    size = values[0] if type(values[0]) is int else len(values[0]) if hasattr(values[0], "__len__") else None
    first = open_step(failure, node.args[1])
    root = None if first is None else trace_number(first, values[1]).root
    where = "" if root is None or root.node is node.args[1] else f", from {root.line()}"
    length = text_of(held) if type(values[0]) is int else f"len({text_of(held)})"
    told = f"{count} is {values[1]}{where}, and {length} {size}"
    return f"{told}: min({count}, {length}), or wait until there are as many"


@remedy(r"cannot import name '(\w+)' from partially initialized module '([\w.]+)'")
def import_later(failure: Failure, match: re.Match[str]) -> str | None:
    """Two files that import each other, of which one asks for a name before the other has made it."""
    for place in failure.stack:
        found = find_expression(place) if place.frame.f_globals.get("__name__") == match[2] else None
        made = [] if found is None else found[0].assignments_in(found[0].tree).get(match[1], [])
        if found is None or not isinstance(found[1], (ast.Import, ast.ImportFrom)):
            continue
        source, statement = found
        defined = [each for each in source.tree.body if getattr(each, "name", "") == match[1]]
        told = f"{text_of(statement)} at {source.place_of(statement)} runs before {match[2]} makes {match[1]}"
        if made:
            return f"{told}: {text_of(made[0])}, from {source.place_of(made[0])}, before that import"
        where = f", at {source.place_of(defined[0])}" if defined else ""
        return f"{told}{where}: that import below it, or within the function that needs it"
    return None


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


@remedy(r"expected Tensor as element (\d+) in argument \d+, but got (int|float|bool)")
def make_tensors(failure: Failure, match: re.Match[str]) -> str | None:
    """A number among the tensors that are to be joined."""
    place = int(match[1])
    for each in failure.operands:
        held = each.value if isinstance(each.value, (list, tuple)) else ()
        shapes = {tuple(part.shape) for part in held if isinstance(part, Tensor)}
        if len(held) > place and type(held[place]).__name__ == match[2] and len(shapes) == 1:
            told = f"{each.text}{at(each)} holds the number {held[place]!r} at place {place}"
            size = next(iter(shapes))
            way = f"torch.full({size}, {held[place]!r})" if size else f"torch.tensor({held[place]!r})"
            return f"{told}, among tensors of {size}: {way} in its place, where it is made"
    return None


@remedy(r"(\w+) should be a positive integer value, but got \1=")
def convert_count(failure: Failure, match: re.Match[str]) -> str | None:
    """A count that is a text, as those of the environment and of command lines are."""
    node = find_named_argument(failure, match[1])
    value = None if node is None else evaluate(node, failure.frame)
    if node is None or not isinstance(value, str):
        return None
    text = text_of(node)
    told = f"{text}{at(failure.find_operand(text))} is the text {value!r}, and {match[1]} a whole number"
    return f"{told}: {match[1]}=int({text})"


@remedy(r"num_samples should be a positive integer value, but got num_samples=0")
def fill_dataset(failure: Failure, match: re.Match[str]) -> str | None:
    """A dataset without samples."""
    for each in failure.operands:
        if hasattr(each.value, "__getitem__") and hasattr(type(each.value), "__len__") and len(each.value) == 0:
            told = f"{each.text}{at(each)} has no samples"
            return f"{told}: look at what fills it, such as a path or a filter that leaves nothing"
    owner = next((failure.locals[name] for name in ("dataset", "data_source") if name in failure.locals), None)
    code = getattr(getattr(type(owner), "__len__", None), "__code__", None)
    counted = find_return_in(code) if code is not None and user_files[code.co_filename] else None
    for part in ast.walk(counted.node) if counted is not None else ():
        if isinstance(part, ast.Attribute) and text_of(part.value) == "self" and counted is not None:
            made = counted.source.attribute_assignments.get((type(owner).__name__, part.attr), [])
            where = f" at {counted.source.place_of(made[0])}, {text_of(made[0])}," if made else ""
            told = f"{type(owner).__name__} has no samples, for {text_of(part)}{where} is empty"
            return f"{told}: look at the path and the filter there"
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
