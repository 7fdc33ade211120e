"""Remedies for values that another object holds, or that come in pairs: wrapped data sets, zipped loaders, methods."""

from __future__ import annotations

import ast
import inspect
import re

from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Operand
from adjoint.data.loader import DataLoader
from adjoint.diagnosis.failure import Failure
from adjoint.diagnosis.operands import MISSING, NamedValue, evaluate, find_origin, is_module
from adjoint.diagnosis.remedies.registry import argument_node, at, name_argument, remedy, shape_of
from adjoint.diagnosis.repairs.trial import compute
from adjoint.diagnosis.source_expressions import SourceFile, find_expression, parse_source, text_of

MAX_DEPTH = 3  # of objects within objects

STARRED = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


@remedy(r"^'(\w+)' object has no attribute '(\w+)'")
def find_holder(failure: Failure, match: re.Match[str]) -> str | None:
    """An attribute of what an object holds: of the data set of a subset, of the module that another wraps."""
    for node in ast.walk(failure.line.node) if failure.line is not None else ():
        if not isinstance(node, ast.Attribute) or node.attr != match[2]:
            continue
        owner = evaluate(node.value, failure.frame)
        path = None if type(owner).__name__ != match[1] else _find_path(owner, match[2])
        if path is None:
            continue
        name = text_of(node.value)
        own = failure.find_operand(name)
        whole = f"{name}.{path}.{match[2]}"
        indices = vars(owner).get("indices")
        is_part = isinstance(indices, (list, tuple, range, Tensor)) and path == "dataset"
        told = f"{name}{at(own)} is a {match[1]}, and its {path} has {match[2]}"
        around = failure.line.source.parents.get(node) if failure.line is not None else None
        if isinstance(around, ast.Subscript):
            whole = text_of(around).replace(f"{name}.", f"{name}.{path}.", 1)
        return f"{told}: {whole}[{name}.indices] for those of the part" if is_part else f"{told}: {whole}"
    return None


@remedy(r"^'Subset' object has no attribute '(targets|labels|y)'")
def take_tensor_of_part(failure: Failure, match: re.Match[str]) -> str | None:
    """The classes of a part of a dataset of tensors."""
    for each in failure.operands:
        whole = getattr(each.value, "dataset", None)
        tensors = getattr(whole, "tensors", None)
        if isinstance(tensors, tuple) and len(tensors) > 1:
            told = f"{each.text}{at(each)} is a part of a {type(whole).__name__}, which holds tensors by place"
            return f"{told}: {each.text}.dataset.tensors[1][{each.text}.indices]"
    return None


def _find_path(owner: Operand, attribute: str) -> str | None:
    """Return the way to the nearest object within another that has an attribute: `dataset`, `module.encoder`."""
    queue: list[tuple[str, Operand]] = [("", owner)]
    for path, value in queue:
        tables = (vars(value).get(key) or () for key in ("_modules", "_parameters", "_buffers"))
        if path and (attribute in vars(value) or any(attribute in table for table in tables)):
            return path
        if path.count(".") < MAX_DEPTH - 1:
            held = {**getattr(value, "__dict__", {}), **getattr(value, "__dict__", {}).get("_modules", {})}
            parts = [(name, each) for name, each in held.items() if not name.startswith("_") and not name.isdigit()]
            queue += [
                (f"{path}.{name}".lstrip("."), each)
                for name, each in parts
                if hasattr(each, "__dict__") and not isinstance(each, (type, Tensor)) and not inspect.isroutine(each)
            ]
    return None


@remedy(r"^(\w+) has no (\w+)$")
def name_method(failure: Failure, match: re.Match[str]) -> str | None:
    """A class that defines a method by nearly the name that is asked for."""
    values = [each for place in failure.stack for each in {**place.frame.f_globals, **place.frame.f_locals}.values()]
    for kind in (each if isinstance(each, type) else type(each) for each in [*values, *failure.locals.values()]):
        if kind.__name__ != match[1]:
            continue
        own = [name for name, value in vars(kind).items() if inspect.isfunction(value)]
        similar = next((name for name in own if name.strip("_") == match[2].strip("_") != ""), None)
        code = getattr(vars(kind).get(similar or next(iter(own), "")), "__code__", None)
        source = None if code is None else parse_source(code.co_filename)
        if code is None or source is None:
            continue
        lines = [node for node in source.nodes_of(ast.ClassDef) if node.name == match[1]]
        where = f" at {source.place_of(lines[0])}" if lines else ""
        if similar is not None:
            return f"{match[1]}{where} defines {similar}: def {match[2]}(self) there"
        return f"{match[1]}{where} defines {', '.join(own)}: def {match[2]}(self) there"
    return None


@remedy(r"shapes \(([\d, ]*)\) (?:and )?\(([\d, ]*)\)|[Ss]izes? .*must match|equal size|batch")
def cut_last_batches(failure: Failure, match: re.Match[str]) -> str | None:
    """Batches of two loaders side by side, of which the last ones have different sizes."""
    for each in failure.operands:
        node = None if each.origin is None else each.origin.node
        call = node.iter if isinstance(node, (ast.For, ast.AsyncFor)) else None
        if isinstance(call, ast.Call) and text_of(call.func) == "enumerate" and call.args:
            call = call.args[0]
        if not isinstance(call, ast.Call) or text_of(call.func) != "zip" or each.origin is None:
            continue
        same = [x for x in failure.tensors() if x.origin is not None and x.origin.node is node and x.value.ndim]
        sizes = {len(x.value): x for x in same}
        loaders = [part for part in call.args if isinstance(evaluate(part, failure.frame), DataLoader)]
        if len(sizes) > 1 and len(loaders) > 1:
            told = " and ".join(f"{x.text} has {size} samples" for size, x in sizes.items())
            names = " and ".join(text_of(part) for part in loaders)
            return f"{told} at {each.origin.place()}: the last batches of {names} differ, DataLoader(…, drop_last=True)"
    return None


def _find_unreduced(source: SourceFile) -> list[str]:
    """Return the calls of a file with `reduction="none"`, each with its place."""
    calls = source.nodes_of(ast.Call)
    return [
        f"{text_of(call)} at {source.place_of(call)}"
        for call in calls
        for each in call.keywords
        if each.arg == "reduction" and isinstance(each.value, ast.Constant) and each.value.value == "none"
    ]


@remedy(
    r"must be real number, not (\w+)|unsupported format string passed to (\w+)\.__format__|required argument is not"
)
def format_number(failure: Failure, match: re.Match[str]) -> str | None:
    """A list or a tensor that is written as a number."""
    found = find_expression(failure.stack[0]) if failure.stack else None
    kind = match[1] or match[2]
    for node in ast.walk(found[1]) if found is not None else ():
        if not isinstance(node, (ast.Name, ast.Attribute, ast.Call, ast.Subscript)):
            continue
        value = compute(node, failure.frame)
        formatted = failure.locals.get("self")
        is_property = found is not None and isinstance(found[0].parents.get(node), ast.FormattedValue)
        value = formatted if value is MISSING and is_property and isinstance(formatted, Tensor) else value
        if value is MISSING or type(value).__name__ != kind:
            continue
        text = text_of(node)
        own = next((each for each in failure.operands if each.text == text), NamedValue(text, value))
        if isinstance(value, (list, tuple)) and len(value) == 1:
            return f"{text}{at(own)} is a {kind} of one number: {text}[0]"
        if isinstance(value, Tensor) and value.numel() == 1:
            return f"{text}{at(own)} is a tensor: {text}.item()"
        if isinstance(value, Tensor) and value.ndim:
            told = f"{text}{at(own)} has {value.numel()} elements, {tuple(value.shape)}"
            losses = [] if found is None else _find_unreduced(found[0])
            if len(losses) == 1:
                told = f"{told}, as {losses[0]} gives one loss for each sample"
            return f"{told}, and one number is printed: {text}.mean().item()"
        if isinstance(value, (list, tuple, Tensor)):
            return f"{text}{at(own)} holds {len(value)} numbers: one of them, {text}[0], or print it as it is, %s"
    return None


@remedy(r"expected torch.Tensor or Tensor-like object from checkpoint but received <class '[\w.]*?(\w+)'>")
def convert_state(failure: Failure, match: re.Match[str]) -> str:
    """A state whose values are no tensors."""
    state = name_argument(failure, 0, "state_dict", "state")
    own = failure.find_operand(state)
    way = "torch.from_numpy(v)" if match[1] == "ndarray" else "torch.as_tensor(v)"
    return f"{state}{at(own)} holds values of {match[1]}, no tensors: {{k: {way} for k, v in {state}.items()}}"


@remedy(
    r"size mismatch for ([\w.]+): copying a param with shape \S*\[([\d, ]*)\]\) from checkpoint, "
    r".*? is \S*\[([\d, ]*)\]"
)
def match_sizes(failure: Failure, match: re.Match[str]) -> str:
    """A state of a model of other sizes."""
    saved, own = shape_of(match[2]), shape_of(match[3])
    strict = argument_node(failure, 1, "strict")
    if strict is not None and text_of(strict) == "False":
        state = name_argument(failure, 0, "state_dict", "state")
        names = tuple(re.findall(r"size mismatch for ([\w.]+):", failure.message))
        told = f"{match[1]} was saved as {saved} and is {own} here, and strict=False passes over names, not over sizes"
        return f"{told}: {{k: v for k, v in {state}.items() if k not in {names}}}"
    setting = _find_setting(failure)
    if setting is not None:
        name, value, wanted, where = setting
        told = f"{match[1]} was saved as {saved} and is {own} here"
        told = f"{told}: the state is of a model of {name}={wanted}, and {name} is {value}{where}"
        return f"{told}; make it so, or leave these names out of the state"
    if saved == own[::-1] and len(saved) == 2:
        told = f"{match[1]} was saved as {saved}, and is {own} here, the other way round"
        return f"{told}: .T of it, or a model of these sizes"
    return f"make the model as it was saved, {match[1]} of {saved} and not {own}, or leave these names out of the state"


def _find_setting(failure: Failure) -> tuple[str, int, int, str] | None:
    """Return the argument of the model's class whose number all sizes that differ are: its name, and both numbers."""
    shapes = re.findall(r"shape \S*\[([\d, ]*)\]\) from checkpoint, .*? is \S*\[([\d, ]*)\]", failure.message)
    pairs = [
        (q, p)
        for saved, own in shapes
        for p, q in zip(shape_of(saved), shape_of(own), strict=False)
        if p != q and p and q
    ]
    model = next((each for each in failure.operands if is_module(each.value)), None)
    call = None if model is None or model.origin is None else model.origin.value
    if model is None or not pairs or not isinstance(call, ast.Call):
        return None
    called = evaluate(call.func, failure.frame)  # the class, or a function that makes the model
    called = called if inspect.isclass(called) or inspect.isfunction(called) else type(model.value)
    names = [each for each in inspect.signature(called).parameters.values() if each.kind not in STARRED]
    given = {**{name.name: part for name, part in zip(names, call.args, strict=False)}}
    given |= {str(each.arg): each.value for each in call.keywords}
    for name in names:
        part = given.get(name.name)
        value = name.default if part is None else evaluate(part, failure.frame)
        wanted = next((p for q, p in pairs if q == value and type(value) is int), None)
        if wanted is not None and all(q * wanted == p * value for q, p in pairs):
            return name.name, value, wanted, at(model)
    return None


@remedy(r"Cannot register two (\w+) hooks on the same parameter (\w+)")
def leave_second_out(failure: Failure, match: re.Match[str]) -> str:
    """A module whose parameter is reparametrised already."""
    own = next((each for each in failure.operands if is_module(each.value)), None)
    name = "the module" if own is None else own.text
    told = f"{name} has {match[1]} of its {match[2]} already"
    return f'{told}: leave this one out, or skip such modules, if not hasattr({name}, "{match[2]}_orig")'


@remedy(r"^'(list|tuple|int|float|ndarray)' object has no attribute '(?:array|shape|node|dtype|ndim|device|dim)'")
@remedy(r"^\w+\(\): argument 'input' \(position \d+\) must be Tensor, not (list|tuple|int|float|ndarray)$")
def make_tensor_of_argument(failure: Failure, match: re.Match[str]) -> str | None:
    """A list or an array where a module or a function takes a tensor."""
    node = failure.line.node if failure.line is not None else None
    if not isinstance(node, ast.Call):
        return None
    given = [value for value in failure.locals.values() if type(value).__name__ == match[1]]
    for part in (*node.args, *(each.value for each in node.keywords)):
        value = compute(part, failure.frame)
        value = given[0] if value is MISSING and isinstance(part, ast.Call) and given else value
        is_of_tensors = isinstance(value, (list, tuple)) and any(isinstance(each, Tensor) for each in value)
        if type(value).__name__ != match[1] or is_of_tensors:
            continue
        text, own = text_of(part), failure.find_operand(text_of(part))
        count = f" of {len(value)}" if hasattr(value, "__len__") else ""
        function = "torch.from_numpy" if match[1] == "ndarray" else "torch.tensor"
        return f"{text}{at(own)} is a {match[1]}{count}, no tensor: {text_of(node.func)}({function}({text}))"
    return None


@remedy(r"^slice indices must be integers or None or have an __index__ method")
def cut_at_whole_numbers(failure: Failure, match: re.Match[str]) -> str | None:
    """A slice whose bounds are numbers with a point."""
    for node in ast.walk(failure.line.node) if failure.line is not None else ():
        bounds = [each for each in (node.lower, node.upper, node.step) if each] if isinstance(node, ast.Slice) else []
        for part in bounds:
            value = compute(part, failure.frame)
            is_fraction = isinstance(value, float) or (isinstance(value, Tensor) and value.is_floating_point())
            if is_fraction and failure.line is not None:
                origin = find_origin(failure.line.source, part, failure.stack)
                where = at(NamedValue("", None, origin))
                whole = ":".join(f"int({text_of(each)})" for each in bounds)
                return f"{text_of(part)}{where} is {float(value):g}, no whole number: {whole}"
    return None


IN_PLACE = {"mul_": "*=", "add_": "+=", "sub_": "-=", "div_": "/="}


@remedy(r"^'(float|int)' object has no attribute '(mul_|add_|sub_|div_)'")
def write_number(failure: Failure, match: re.Match[str]) -> str | None:
    """A number of Python that is changed as if it were a tensor."""
    for node in ast.walk(failure.line.node) if failure.line is not None else ():
        call = failure.line.source.parents.get(node) if failure.line is not None else None
        if isinstance(node, ast.Attribute) and node.attr == match[2] and isinstance(call, ast.Call) and call.args:
            name = text_of(node.value)
            told = f"{name} is a number of Python, a {match[1]}"
            return f"{told}: {name} {IN_PLACE[match[2]]} {text_of(call.args[0])}"
    return None


@remedy(r"argument '(\w+)' \(position \d+\) must be Tensor, not (int|float|bool)$")
def fill_like_input(failure: Failure, match: re.Match[str]) -> str | None:
    """A number where a tensor of one for each element belongs, such as the label of all samples."""
    node = failure.node
    if not isinstance(node, ast.Call) or len(node.args) < 2:
        return None
    first, other = node.args[:2]
    value = compute(other, failure.frame)
    if type(value).__name__ != match[2]:
        return None
    if failure.message.startswith(("cross_entropy(", "nll_loss(")):
        told = f"{match[1]}={text_of(other)} is one number, and a class for each row is wanted"
        return f"{told}: torch.tensor([{text_of(other)}])"
    text = f"torch.full_like({text_of(first)}, {float(value)})"
    return f"{match[1]}={text_of(other)} is one number, and one for each element is wanted: {text}"


@remedy(r"cannot register a hook on a tensor that doesn't require gradient|can't retain_grad on Tensor that has")
def require_gradient(failure: Failure, match: re.Match[str]) -> str | None:
    """A hook on a result of frozen parameters, or of none."""
    x = next(iter(failure.tensors()), None)
    made = None if x is None or x.origin is None else x.origin.value
    if x is None or not isinstance(made, ast.Call):
        return None
    module = evaluate(made.func, failure.frame)
    is_frozen = is_module(module) and not any(p.requires_grad for p in module.parameters())
    why = f", as all parameters of {text_of(made.func)} are frozen" if is_frozen else ""
    source = text_of(made.args[0]) if made.args and is_frozen else x.text
    if not is_frozen:
        return f"{x.text}{at(x)} has no gradient: {x.text}.requires_grad_() before it"
    return f"{x.text}{at(x)} has no gradient{why}: {source}.requires_grad_() before it, or unfreeze a parameter"


@remedy(r"'(\w+)' object (?:has no attribute 'grad'|is not iterable)")
def give_parameters(failure: Failure, match: re.Match[str]) -> str | None:
    """A model where its parameters are wanted, as for clipping."""
    given = argument_node(failure, 0, "parameters")
    node = failure.node
    if given is None or not isinstance(node, ast.Call) or not is_module(evaluate(given, failure.frame)):
        return None
    rest = [text_of(each) for each in (*node.args[1:], *node.keywords)]
    call = f"{text_of(node.func)}({', '.join([f'{text_of(given)}.parameters()', *rest])})"
    return f"{text_of(given)} is a module, and its parameters are wanted: {call}"
