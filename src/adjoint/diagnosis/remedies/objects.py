"""Remedies for objects that are no tensors where tensors belong: tuples, dicts, lists, methods, and single numbers."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator

from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Operand
from adjoint.diagnosis.failure import Failure
from adjoint.diagnosis.operands import MISSING, NamedValue, Origin, evaluate, find_origin, find_return, is_module
from adjoint.diagnosis.remedies.registry import at, remedy
from adjoint.diagnosis.repairs.trial import compute
from adjoint.diagnosis.source_expressions import SourceFile, text_of

RESULTS_OF_LAYERS = {
    "LSTM": "output, (h_n, c_n)",
    "GRU": "output, h_n",
    "RNN": "output, h_n",
    "LSTMCell": "h, c",
    "MultiheadAttention": "output, weights",
}


@remedy(
    r"tuple indices must be integers|'tuple' object has no attribute|'tuple' object cannot be|"
    r"nested lists differ|must be Tensor, not tuple|unsupported operand type\(s\) for .*'tuple'|but got tuple|"
    r"got <class 'tuple'>|expected np.ndarray \(got tuple\)|"
    r"only integer tensors of a single element can be converted to an index"
)
def unpack_tuple(failure: Failure, match: re.Match[str]) -> str | None:
    """Several results where one tensor belongs: those of a layer, or of a function that returns more than one."""
    given = next((each for each in failure.operands if isinstance(each.value, tuple)), None)
    if type(given.value if given is not None else None).__name__ == "PackedSequence":
        return None
    made = None if given is None or given.origin is None else given.origin.value
    if given is not None and len(given.value) == 1 and made is not None and at(given):
        single = f"{given.text}, = {text_of(made)} there, with the comma, or {given.text}[0] here"
        return f"{given.text}{at(given)} is a tuple of 1: {single}"
    if given is None and failure.message.endswith("must be Tensor, not tuple"):
        return _take_first_result(failure)
    if given is None or given.origin is None or not isinstance(made, ast.Call):
        return None
    attribute = re.search(r"attribute '(detach|detach_|to|clone|cpu|cuda|float)'$", failure.message)
    if attribute is not None and all(isinstance(each, Tensor) for each in given.value):
        call = f"{attribute[1]}({'…' if attribute[1] == 'to' else ''})"
        kind = f"{given.text}{at(given)} is a tuple of {len(given.value)} tensors"
        return f"{kind}: tuple(each.{call} for each in {given.text})"
    names = _name_results(failure, made)
    wanted = f"{names} = {text_of(made)}" if names else f"{given.text}, … = {text_of(made)}"
    statement = given.origin.node
    target = statement.targets[0] if isinstance(statement, ast.Assign) else None
    if isinstance(target, (ast.Tuple, ast.List)):  # one of several is itself a tuple, as an LSTM's state is
        told = next((text_of(each) for each in target.elts if text_of(each) == given.text), None)
        inner = names.partition("(")[2].rstrip(")") if names and "(" in names else "first, second"
        pair = [f"({inner})" if text_of(each) == told else text_of(each) for each in target.elts]
        wanted = f"{', '.join(pair)} = {text_of(made)}"
    count, first = len(given.value), re.split(r", | = ", names or "")[0]
    if isinstance(target, (ast.Tuple, ast.List)):
        first = inner.partition(",")[0]
    is_same = isinstance(target, ast.Name) and (not first or first == given.text)
    if is_same and not names:
        wanted = f"{given.text}, {', '.join(['_'] * (count - 1))} = {text_of(made)}"
    if is_same:
        return f"{given.text}{at(given)} is a tuple of {count}: {wanted} there"
    use = f"and {first} here" if first else "and one of them here"
    return f"{given.text}{at(given)} is a tuple of {count}: {wanted} there, {use}"


def _take_first_result(failure: Failure) -> str | None:
    """Return what to write for an argument of the line that is a call which gives several values."""
    source = None if failure.line is None else failure.line.source
    for call in failure.node.args if isinstance(failure.node, ast.Call) and source is not None else ():
        origin = Origin(source, call) if source is not None and isinstance(call, ast.Call) else None
        returned = None if origin is None else find_return(origin, failure.stack)
        parts = None if returned is None else getattr(returned.node, "value", None)
        if returned is not None and isinstance(parts, ast.Tuple):
            names = [text_of(each) if isinstance(each, ast.Name) else f"result{i}" for i, each in enumerate(parts.elts)]
            told = f"{text_of(call)} gives {len(names)} values, {returned.describe()}"
            return f"{told}: {', '.join(names)} = {text_of(call)} before it, and {names[0]} here"
    return None


def _name_results(failure: Failure, call: ast.Call) -> str | None:
    """Return names for what a call gives: of a layer those of its documentation, else those that it returns."""
    for place in failure.stack:
        layer = evaluate(call.func, place.frame)
        known = RESULTS_OF_LAYERS.get(type(layer).__name__)
        if known is not None:
            return known
    if failure.line is not None:
        returned = find_return(Origin(failure.line.source, call), failure.stack)
        value = None if returned is None else getattr(returned.node, "value", None)
        if isinstance(value, ast.Tuple) and all(isinstance(each, ast.Name) for each in value.elts):
            return ", ".join(text_of(each) for each in value.elts)
        named = [each for each in value.elts[1:] if isinstance(each, ast.Name)] if isinstance(value, ast.Tuple) else []
        target = returned.source.parents.get(call) if returned is not None else None
        if isinstance(value, ast.Tuple) and len(named) == len(value.elts) - 1 and isinstance(target, ast.Assign):
            return ", ".join([text_of(target.targets[0]), *map(text_of, named)])
    return None


@remedy(r"'(?:dict|OrderedDict|BatchEncoding)' object has no attribute|must be Tensor, not dict|'dict' and|and 'dict'")
def take_from_dict(failure: Failure, match: re.Match[str]) -> str | None:
    """A dictionary, such as a batch, where one of its values belongs."""
    given = next((each for each in failure.operands if isinstance(each.value, dict) and each.value), None)
    if given is None:
        return None
    keys = [key for key, value in given.value.items() if isinstance(value, Tensor)] or list(given.value)
    attribute = failure.message.rpartition("attribute ")[2].strip("'")
    is_of_losses = all(isinstance(each, Tensor) and each.numel() == 1 for each in given.value.values())
    if attribute in ("backward", "item") and is_of_losses:
        told = f"{given.text}{at(given)} is a dict of {len(keys)} numbers, {', '.join(map(repr, keys))}"
        recorded = [key for key, each in given.value.items() if each.requires_grad]
        if "loss" in keys or len(recorded) == 1:
            return f"{told}: {given.text}[{'loss' if 'loss' in keys else recorded[0]!r}].{attribute}()"
        if len(recorded) < len(keys):
            return f"{told}: sum({given.text}[key] for key in ({', '.join(map(repr, recorded))})).{attribute}()"
        return f"{told}: sum({given.text}.values()).{attribute}()"
    if attribute in ("to", "cuda", "cpu", "detach", "float", "long") and all(
        isinstance(each, Tensor) for each in given.value.values()
    ):
        return (
            f"{given.text}{at(given)} is a dict of tensors: "
            f"{{key: x.{attribute}(…) for key, x in {given.text}.items()}}"
        )
    wanted = [key for key in given.value if key == failure.message.rpartition("attribute ")[2].strip("'")]
    if wanted:
        return f"{given.text}{at(given)} is a dict: {given.text}[{wanted[0]!r}]"
    key = given.text if given.text in keys else keys[0]
    told = f"{given.text}{at(given)} is a dict of {', '.join(map(repr, given.value))}"
    outside = _name_outside(failure, given.value)
    if outside is not None:
        return f"{told}: {outside[0]}[{key!r}] in the call at {outside[1]}"
    return f"{told}: {given.text}[{key!r}]"


def _name_outside(failure: Failure, value: Operand) -> tuple[str, str] | None:
    """Return the name under which a call of the user's further out gives a value, and the place of that call."""
    for place in failure.stack[1:]:
        for name, held in place.frame.f_locals.items():
            if held is value and place.frame.f_locals is not failure.frame.f_locals:
                source = None if failure.line is None else failure.line.source
                return name, "" if source is None else f"line {place.frame.f_lineno}"
    return None


@remedy(r"can only concatenate (list|str|tuple) \(not \"Tensor\"\)|unsupported operand .*'(list)' and 'Tensor'")
def convert_list(failure: Failure, match: re.Match[str]) -> str | None:
    """A list or a text that is joined with a tensor."""
    node = failure.node
    if not isinstance(node, (ast.BinOp, ast.AugAssign)):
        return None
    left, right = (node.left, node.right) if isinstance(node, ast.BinOp) else (node.target, node.value)
    if match[1] == "str":
        return f'a text takes numbers as f"{{…}}": f"… {{{text_of(right)}}}"'
    value = evaluate(left, failure.frame)
    if type(value).__name__ == "PackedSequence":
        return None
    if isinstance(node, ast.AugAssign) or (isinstance(value, (list, tuple)) and not value):
        return f"{text_of(left)} is a {match[1] or match[2]}: {text_of(left)}.append({text_of(right)})"
    if isinstance(value, (list, tuple)) and any(isinstance(each, Tensor) for each in value):
        return f"{text_of(left)} is a {match[1] or match[2]} of tensors: torch.stack({text_of(left)}) makes one of them"
    return f"{text_of(left)} is a {match[1] or match[2]}, no tensor: torch.tensor({text_of(left)})"


@remedy(
    r"only one element tensors can be converted|only integer tensors of a single element can be converted|"
    r"list indices must be integers or slices, not Tensor"
)
def index_list_by_each(failure: Failure, match: re.Match[str]) -> str | None:
    """A list that is read, or a count that is given, by a tensor of several elements."""
    for node in ast.walk(failure.line.node) if failure.line is not None else ():
        if not isinstance(node, ast.Subscript):
            continue
        owner, index = evaluate(node.value, failure.frame), evaluate(node.slice, failure.frame)
        if isinstance(owner, (list, tuple, str)) and isinstance(index, Tensor):
            name, x = text_of(node.value), text_of(node.slice)
            if index.numel() != 1:
                kind = f"{x} has {index.numel()} elements, and {name} is a {type(owner).__name__}"
                if owner and all(isinstance(each, (int, float)) for each in owner):
                    return f"{kind}: torch.tensor({name})[{x}]"
                return f"{kind}: [{name}[i] for i in {x}.tolist()]"
            if index.is_floating_point():
                own = next((each for each in failure.tensors() if each.text == x), None)
                made = (
                    "" if own is None or own.origin is None or own.origin.value is None else text_of(own.origin.value)
                )
                found = re.sub(r"\.(max|min)\(", r".arg\1(", made)
                advice = f"{x} = {found} there is the place" if found != made else f"{name}[int({x})]"
                return f"{x}{at(own)} is a value, {float(index):.4g}, and {name}[…] takes a place: {advice}"
            return f"{name} is a {type(owner).__name__}: {name}[int({x})]"
    return None


def _find_tensor(value: Operand, path: str) -> str | None:
    """Return the way to the first tensor within dicts and lists: `history['val'][0]`."""
    if isinstance(value, Tensor):
        return path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, (list, tuple)) else ()
    return next((found for key, each in items if (found := _find_tensor(each, f"{path}[{key!r}]")) is not None), None)


def _find_append(failure: Failure, path: str) -> str:
    """Return ", kept at train.py:9: history['val'].append(loss)" for the line that fills a list."""
    source = None if failure.line is None else failure.line.source
    for node in source.calls.get("append", ()) if source is not None else ():
        if text_of(node.func) == f"{path}.append" and source is not None:
            return f", kept at {source.place_of(node)}: {text_of(node)}"
    return ""


@remedy(r"Object of type (?:Tensor|Parameter) is not JSON serializable")
def give_plain_numbers(failure: Failure, match: re.Match[str]) -> str | None:
    """Tensors in what is written as JSON."""
    x = next(iter(failure.tensors()), None)
    if x is not None:
        return f"{x.text}{at(x)} is a tensor: {x.text}.{'item' if x.value.numel() == 1 else 'tolist'}()"
    for each in failure.operands:
        path = _find_tensor(each.value, each.text)
        if path is not None and path.count("[") > 1:
            filled = _find_append(failure, path.rpartition("[")[0])
            return f"{path} of {each.text}{at(each)} is a tensor{filled}: .item() of what is kept there"
        if isinstance(each.value, dict):
            keys = [repr(key) for key, value in each.value.items() if isinstance(value, Tensor)]
            return f"{each.text}{at(each)} holds tensors at {', '.join(keys)}: .item() of each, or .tolist()"
        if isinstance(each.value, list):
            return f"{each.text}{at(each)} holds tensors: [x.item() for x in {each.text}]"
    return None


@remedy(r"only one element tensors can be converted")
def compute_each(failure: Failure, match: re.Match[str]) -> str | None:
    """A function of Python's math, which takes one number, of a tensor of several."""
    for node in ast.walk(failure.line.node) if failure.line is not None else ():
        if isinstance(node, ast.Call) and re.match(r"(?:math|cmath)\.", text_of(node.func)):
            name = text_of(node.func)
            wanted = f"torch.{name.partition('.')[2]}({', '.join(map(text_of, node.args))})"
            return f"{name} takes one number: {wanted} computes each element"
    return None


@remedy(r"only one element tensors can be converted")
def join_list(failure: Failure, match: re.Match[str]) -> str | None:
    """A list of tensors that is to become one."""
    for node in ast.walk(failure.line.node) if failure.line is not None else ():
        if not isinstance(node, ast.Call) or not node.args:
            continue
        given, name = evaluate(node.args[0], failure.frame), text_of(node.args[0])
        if isinstance(given, (list, tuple)) and any(isinstance(x, Tensor) and x.numel() != 1 for x in given):
            own = failure.find_operand(name)
            alike = all(isinstance(x, Tensor) and x.shape == given[0].shape for x in given)
            join = "torch.stack" if alike else "torch.cat"
            told = f"{name}{at(own)} is a {type(given).__name__} of tensors"
            return f"{told}, and {text_of(node.func)} takes numbers: {join}({name}) joins them"
    return None


@remedy(r"only one element tensors can be converted|only integer tensors of a single element", is_last=True)
def reduce_elements(failure: Failure, match: re.Match[str]) -> str | None:
    """A tensor of several elements where one number belongs."""
    given = next((each for each in failure.tensors() if each.value.numel() != 1), None)
    if given is None:
        return None
    made = None if given.origin is None or given.origin.value is None else text_of(given.origin.value)
    whole = "" if made is None or "reduction='none'" not in made else ", by reduction='none' there"
    told = f"{given.text}{at(given)} has {given.value.numel()} elements{whole}, where one number is meant"
    return f"{told}: {given.text}.mean()"


@remedy(r"'(?:builtin_function_or_method|method|function|method_descriptor)'|for p type method|and q type method")
def call_method(failure: Failure, match: re.Match[str]) -> str | None:
    """A method or a function that is named, and not called."""
    for operand in _routines(failure):
        made = None if operand.origin is None else operand.origin.value_of(operand.text)
        is_same = isinstance(made, ast.Attribute) and made.attr == getattr(operand.value, "__name__", "")
        if isinstance(made, ast.Attribute) and is_same:  # m = x.mean, and m is used
            return f"{operand.text}{at(operand)} is a method: {operand.text} = {text_of(made)}() there"
        kind = "a method" if "." in operand.text else "a function"
        node = failure.node
        if isinstance(node, ast.Subscript) and text_of(node.value) == operand.text and operand.text.endswith(".size"):
            return f"{operand.text} is {kind}: {operand.text}({text_of(node.slice)})"
        is_number = operand.text.endswith(".size") and isinstance(node, (ast.BinOp, ast.AugAssign, ast.Compare))
        return f"{operand.text} is {kind}: {operand.text}({0 if is_number else ''})"
    return None


def _routines(failure: Failure) -> Iterator[NamedValue]:
    """Yield the parts of the line that are methods or functions, and are not called."""
    if failure.line is None:
        return
    source = failure.line.source
    called = {id(node.func) for node in ast.walk(failure.line.node) if isinstance(node, ast.Call)}
    for node in ast.walk(failure.line.node):
        if not isinstance(node, (ast.Name, ast.Attribute)) or (
            id(node) in called and "callable" not in failure.message
        ):
            continue
        value = evaluate(node, failure.frame)
        if value is MISSING and isinstance(node, ast.Attribute):
            owner = evaluate(node.value, failure.frame)
            value = MISSING if owner is MISSING else inspect.getattr_static(type(owner), node.attr, MISSING)
        if inspect.isroutine(value) and not isinstance(value, (staticmethod, classmethod)):
            yield NamedValue(text_of(node), value, _find_naming(failure, source, node, value))


def _find_naming(failure: Failure, source: SourceFile, node: ast.Name | ast.Attribute, value: Operand) -> Origin | None:
    """Return the statement that gave a name or an attribute a method, in whichever function of the class it stands."""
    owner, attribute = MISSING, ""
    if isinstance(node, ast.Attribute):
        owner, attribute = evaluate(node.value, failure.frame), node.attr
    for kind in type(owner).__mro__ if owner is not MISSING else ():
        for made in source.attribute_assignments.get((kind.__name__, attribute), ()):
            given = Origin(source, made).value_of(f"self.{attribute}")
            if isinstance(given, ast.Attribute) and given.attr == getattr(value, "__name__", ""):
                return Origin(source, made)
    return find_origin(source, node, failure.stack)


@remedy(
    r"iteration over a 0-d tensor|len\(\) of a 0-d tensor|invalid index of a 0-dim tensor|"
    r"too many indices for tensor of dimension 0"
)
def count_dimensions(failure: Failure, match: re.Match[str]) -> str | None:
    """A single number where a tensor of several belongs."""
    node = failure.node
    statement = None if failure.line is None or node is None else failure.line.source.statement_of(node)
    target = statement.targets[0] if isinstance(statement, ast.Assign) else None
    if isinstance(target, ast.Subscript) and "index" in match[0] and (target is node or statement is node):
        name = text_of(target.value)
        told = f"{name}{at(failure.find_operand(name))} is one number, and has no places to write to"
        return f"{told}: torch.zeros(n) there for n of them, or a list and {name}.append(…)"
    if isinstance(node, ast.Call) and text_of(node.func) in ("len", "list", "enumerate", "zip", "tuple") and node.args:
        node = node.args[0]
    elif isinstance(node, (ast.For, ast.AsyncFor)):
        node = node.iter
    elif isinstance(node, (ast.Subscript, ast.Starred, ast.Assign)):
        node = node.value
    if not isinstance(node, ast.expr) or failure.line is None:
        return None
    name, origin = text_of(node), find_origin(failure.line.source, node, failure.stack)
    told = f"{name}{'' if origin is None else f', from {origin.place()},'} is one number, without dimensions"
    if "len()" in match[0]:
        return f"{told}: {name}.numel() is 1, the number of its elements"
    value = compute(node, failure.frame)
    if (
        "iteration" in match[0]
        and isinstance(node, ast.Name)
        and isinstance(value, Tensor)
        and not value.is_floating_point()
    ):
        return f"{told}: range({name}) counts to it, {name}.item() is it as a Python number"
    if "iteration" in match[0]:
        return f"{told}: use it as it is, {name}.item() for a Python number, or leave out what reduced it"
    return f"{told}: {name} itself is meant, or leave out what reduced it"


METHODS_OF_LISTS = frozenset(("add", "push", "add_module_list", "put"))


@remedy(r"'(ParameterDict|ModuleDict|ParameterList|ModuleList)' object has no attribute '(\w+)'")
def name_container_keys(failure: Failure, match: re.Match[str]) -> str | None:
    """A part that a container of modules or parameters has not."""
    for node in ast.walk(failure.line.node) if failure.line is not None else ():
        owner = evaluate(node.value, failure.frame) if isinstance(node, ast.Attribute) else MISSING
        if not is_module(owner) and type(owner).__name__ != match[1]:
            continue
        if isinstance(node, ast.Attribute) and node.attr == match[2]:
            name = text_of(node.value)
            tables = [vars(owner).get(table) or {} for table in ("_modules", "_parameters", "_keys")]
            keys = list(dict.fromkeys(key for table in tables for key in table))
            if match[2] in METHODS_OF_LISTS and match[1].endswith("List"):
                return f"{name} is a {match[1]}, and takes a part by {name}.append(…)"
            if match[1].endswith("List"):
                return f"{name} holds {len(keys)} parts by number, {name}[0] the first: it has no {match[2]}"
            parent = None if failure.line is None else failure.line.source.parents.get(node)
            if match[2] == "get" and isinstance(parent, ast.Call) and parent.args:
                return f"{name} is a {match[1]}, which has no get: {name}[{text_of(parent.args[0])}]"
            return f"{name} has the keys {', '.join(map(repr, keys))}: {name}[{(keys or [match[2]])[0]!r}]"
    return None
