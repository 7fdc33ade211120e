"""Remedies for values that make no tensor, for states, files and devices, and for values out of their range."""

from __future__ import annotations

import ast
import os
import re
from contextlib import suppress

import numpy as np

from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Operand
from adjoint.diagnosis.failure import Failure
from adjoint.diagnosis.operands import Origin, evaluate
from adjoint.diagnosis.remedies.registry import argument_node, at, name_argument, remedy
from adjoint.diagnosis.repairs.expression import bracket, parameter_names
from adjoint.diagnosis.repairs.trial import compute
from adjoint.diagnosis.source_expressions import text_of

TYPE_NAME = re.compile(r"(?:b?float|u?int|complex)\d+$|(?:float|double|half|int|long|bool)$")


@remedy(r"expected sequence of length (\d+) at dim (\d+) \(got (\d+)\)")
def pad_rows(failure: Failure, match: re.Match[str]) -> str:
    """Rows of different lengths."""
    return "rows of one length: pad them, or make a list of tensors (nn.utils.rnn.pad_sequence pads those)"


@remedy(r"invalid data type 'str'")
def number_strings(failure: Failure, match: re.Match[str]) -> str:
    """Texts where numbers belong."""
    texts = next((each for each in failure.operands if _holds_digits(each.value)), None)
    if texts is not None:
        way = (
            f"{texts.text}.astype('float32')" if hasattr(texts.value, "astype") else f"[float(v) for v in {texts.text}]"
        )
        return f"{texts.text}{at(texts)} holds numbers as texts: {way}"
    rows = next((each for each in failure.locals.values() if isinstance(each, (list, tuple)) and each), None)
    first = rows[0] if rows is not None else None
    if rows is not None and isinstance(first, (list, tuple)) and all(_holds_digits(each) for each in rows):
        given = name_argument(failure, 0, "data", "rows")
        return f"{given} holds numbers as texts: [[float(v) for v in row] for row in {given}]"
    return "texts become numbers first: {name: i for i, name in enumerate(sorted(set(names)))}, and the i of each"


def _holds_digits(value: Operand) -> bool:
    """Return whether a list or an array holds texts that are numbers, perhaps beside numbers."""
    texts = value.ravel().tolist() if hasattr(value, "ravel") and hasattr(value, "dtype") else value
    if not isinstance(texts, (list, tuple)) or not any(isinstance(each, str) for each in texts):
        return False
    if not all(isinstance(each, (str, int, float)) for each in texts):
        return False
    with suppress(ValueError):
        return bool([float(each) for each in texts])
    return False


@remedy(r"can't convert (set|frozenset|dict_\w+) with elements of type object to a tensor")
def list_set(failure: Failure, match: re.Match[str]) -> str:
    """A set, which has no order, where a list belongs."""
    name = name_argument(failure, 0, "data", "the set")
    own = failure.find_operand(name)
    return f"{name}{at(own)} is a {match[1]}: torch.tensor(list({name})), or sorted({name}) for an order"


@remedy(r"elements of type object to a tensor|Could not infer dtype of NoneType|nested lists differ in depth")
def replace_none(failure: Failure, match: re.Match[str]) -> str | None:
    """A list with None, or with objects, among its numbers."""
    lists = [x for x in failure.locals.values() if isinstance(x, (list, tuple)) and x]
    values = next((x for x in lists if None in [each for each in x if each is None]), next(iter(lists), None))
    if any(frame.f_code.co_name == "default_collate" for frame in failure.stack[0].called):
        place = next((i for i, each in enumerate(values or ()) if each is None), None)
        return None if place is None else f"sample {place} of the batch holds None: a number for it in __getitem__"
    name = name_argument(failure, 0, "data", "the list")
    given = next(
        (each for each in failure.operands if getattr(getattr(each.value, "dtype", None), "kind", "") == "O"), None
    )
    if given is not None and any(isinstance(each, (list, tuple)) for each in given.value.ravel().tolist()):
        told = f"{given.text}{at(given)} holds lists as objects, for their lengths differ"
        return f"{told}: pad them to one length, or a tensor of each"
    places = [] if given is None else [i for i, each in np.ndenumerate(given.value) if each is None]
    if given is not None and places:
        at_place = ", ".join(map(str, places[0]))
        told = f"{given.text}{at(given)} holds None at [{at_place}]"
        return f"{told}: a number for it where the data is read, or {given.text}.astype('float32'), which makes it NaN"
    if given is not None:
        return f"{given.text}{at(given)} holds objects: {given.text}.astype('float32'), where all are numbers"
    if "nested" in failure.message and not any(each is None for each in values or ()):
        return None
    for i, value in enumerate(values or []):
        if value is None:
            return f"{name} has None at place {i}: a number for it, such as .get(key, 0) where a dict gave it"
        if not isinstance(value, (int, float, complex, list, tuple)):
            return f"{name} has a {type(value).__name__} at place {i}: numbers alone make a tensor"
    return None


@remedy(r"Expected state_dict to be dict-like, got <class '([\w.]+)'>")
def give_state(failure: Failure, match: re.Match[str]) -> str | None:
    """A model or a path where a state belongs."""
    if match[1] == "str":
        return "it takes the state itself: load_state_dict(torch.load(path))"
    if match[1] == "NoneType":
        return None
    if match[1] in ("list", "tuple"):
        name = name_argument(failure, 0, default="states")
        return f"{name}{at(failure.find_operand(name))} is a {match[1]}, and one state is wanted: {name}[0], or a loop"
    text = name_argument(failure, 0, default="")
    if text.endswith(("parameters()", "modules()", "children()")):
        return f"it takes a state by name, not {text}: {text.rpartition('.')[0]}.state_dict()"
    if text.endswith(".values()"):
        return f"it takes a state by name, and {text} are its values alone: {text.removesuffix('.values()')}"
    if match[1] == "method":
        node = argument_node(failure, 0)
        method = None if node is None else evaluate(node, failure.frame)
        name = getattr(method, "__name__", "state_dict")
        made = _find_entry(failure, node, f".{name}")
        where = "" if made is None else f" at {made.place()}, {text_of(made.node)},"
        written = "model.state_dict()" if made is None else f"{text_of(made.node)}()"
        return f"{text}{where} is the method {name}, and not what it gives: {written} there"
    node = argument_node(failure, 0)
    given = None if node is None else evaluate(node, failure.frame)
    if hasattr(given, "state_dict") and text:
        return f"{text}{at(failure.find_operand(text))} is a {type(given).__name__}, no state: {text}.state_dict()"
    return "it takes a state, not a model: other.state_dict()" if "nn" in match[1] else "save model.state_dict()"


def _find_entry(failure: Failure, node: ast.expr | None, end: str) -> Origin | None:
    """Return the value of a dictionary of the program, read by a key, whose text ends so."""
    key = evaluate(node.slice, failure.frame) if isinstance(node, ast.Subscript) else None
    source = None if failure.line is None else failure.line.source
    for each in source.nodes_of(ast.Dict) if source is not None else ():
        for name, value in zip(each.keys, each.values, strict=True):
            is_named = isinstance(name, ast.Constant) and name.value == key
            if is_named and source is not None and text_of(value).endswith(end):
                return Origin(source, value)
    return None


@remedy(r"device type at start of device string: (\S+)|Invalid device string: '([^']*)'|autocast device_type '([^']*)'")
def name_device(failure: Failure, match: re.Match[str]) -> str:
    """A device by a name that is none."""
    name = match[1] or match[2] or match[3]
    given = next((each for each in failure.operands if each.value == name and isinstance(each.value, str)), None)
    told = repr(name) if given is None else f"{given.text}{at(given)} is {name!r}"
    if TYPE_NAME.match(name):
        return f"{told}, a text, and types are objects: torch.{name}"
    return f"{told}: 'cpu' instead; a graphics card is 'cuda' in PyTorch"


@remedy(r"(?:CPU only|not compiled with CUDA)")
def stay_on_cpu(failure: Failure, match: re.Match[str]) -> str:
    """A device that is not there."""
    return "leave the device out, or device='cpu'; `python -m adjoint.run --cuda=cpu` runs programs that name cuda"


@remedy(r"\[Errno 21\] Is a directory: '(.*)'")
def choose_file(failure: Failure, match: re.Match[str]) -> str:
    """A folder where a file belongs."""
    node = failure.node
    given = text_of(node.args[0]) if isinstance(node, ast.Call) and node.args else repr(match[1])
    return f"{given} is the folder {match[1]!r}: the path of a file in it, os.path.join({given}, name)"


@remedy(r"\[Errno 2\] No such file or directory: '(.*)'")
def find_file(failure: Failure, match: re.Match[str]) -> str:
    """A file that is not there."""
    node = failure.node
    if isinstance(node, ast.Call) and text_of(node.func).endswith(("save", "to_file", "savez", "savetxt")):
        path = next((each for each in node.args if isinstance(compute(each, failure.frame), str)), None)
        folder = "the folder" if path is None else repr(os.path.dirname(str(compute(path, failure.frame))))
        return f"{folder} is not there: os.makedirs({folder}, exist_ok=True) before it"
    given = text_of(node.args[0]) if isinstance(node, ast.Call) and node.args else "name"
    held = {name: value for name, value in failure.frame.f_locals.items() if name != "self"}
    held |= {f"self.{name}": value for name, value in vars(failure.frame.f_locals.get("self") or object).items()}
    for name, folder in {**held, **failure.frame.f_globals}.items():
        if isinstance(folder, (str, os.PathLike)) and os.path.isfile(os.path.join(folder, match[1])):
            return f"{given} is the name of a file in {name}: os.path.join({name}, {given})"
    return "the path begins at the working folder: Path(__file__).parent / name begins at the program's"


@remedy(r"cannot assign '.*' (?:as|object to) parameter '(\w+)'")
def make_parameter(failure: Failure, match: re.Match[str]) -> str:
    """A plain tensor in a parameter's place, or a layer that holds one."""
    statement = None if failure.line is None else failure.line.source.statement_of(failure.line.node)
    if isinstance(statement, ast.Assign) and failure.line is not None:
        held, scope = evaluate(statement.value, failure.frame), failure.line.source.scope_of(statement)
        if isinstance(getattr(held, "__dict__", {}).get("_parameters", {}).get(match[1]), Tensor):
            text = text_of(statement.value)
            return f"{text} is a layer: {text_of(statement.targets[0])} = {text}.{match[1]}"
        target, value = text_of(statement.targets[0]), text_of(statement.value)
        if target in value and getattr(scope, "name", "__init__") == "forward":
            return (
                f"{target} stays the parameter: {match[1]} = {value}, a local name, and {match[1]} in its place below"
            )
        if isinstance(held, Tensor) or "(" in value:
            if re.search(r"\.weight\b", value) and target not in value:  # of another layer, which is to share it
                told = f"{value} is computed, and {target} a parameter, so that they cannot be one"
                layer = target.rpartition(".")[0]
                return f"{told}: F.linear(x, {value}) in the place of {layer}(x); or {target}.data = {value}.clone()"
            copied = f"with torch.no_grad(): {target}.copy_({value})"
            if getattr(scope, "name", "__init__") != "__init__" and target in value:
                return f"{target} stays the parameter that an optimizer has: {copied}"
            return f"{target} = nn.Parameter({value}); or {copied}"
    return f"nn.Parameter(…) around it; or with torch.no_grad(): {match[1]}.copy_(…) to change its values"


@remedy(r"(\w+) is not an Optimizer")
def give_optimizer(failure: Failure, match: re.Match[str]) -> str:
    """A model where a schedule wants an optimizer."""
    model = failure.named_module()
    name = "it" if model is None else model.text
    node = failure.node
    if match[1] in ("list", "tuple", "dict") and isinstance(node, ast.Call):
        given = name_argument(failure, 0, "optimizer", "optimizers")
        each = f"{given}.values()" if match[1] == "dict" else given
        told = f"{given} is a {match[1]}, and a schedule has one optimizer"
        return f"{told}: [{text_of(node.func)}(each, …) for each in {each}]"
    if model is None:
        return f"a schedule changes an optimizer's rate, and a {match[1]} is given: the optimizer itself"
    known = {**failure.frame.f_globals, **failure.frame.f_locals}
    optimizers = [key for key, each in known.items() if hasattr(each, "param_groups") and hasattr(each, "zero_grad")]
    told = f"a schedule changes an optimizer's rate, and {name} is a module"
    if len(optimizers) == 1 and isinstance(node, ast.Call):
        rest = [text_of(each) for each in (*node.args[1:], *node.keywords)]
        return f"{told}: {text_of(node.func)}({', '.join([*optimizers, *rest])})"
    return f"{told}: give it the optimizer of its parameters"


@remedy(r"parameter group that doesn't match the size of optimizer's group")
def rebuild_optimizer(failure: Failure, match: re.Match[str]) -> str:
    """A state of an optimizer of other parameters."""
    return "the state belongs to an optimizer of another model: make model and optimizer as they were saved"


@remedy(r"probability tensor contains either `inf`, `nan` or element < 0")
def make_probabilities(failure: Failure, match: re.Match[str]) -> str:
    """Weights that are no probabilities."""
    x = next((each for each in failure.tensors()), None)
    if x is None or not x.value.numel():
        return "probabilities come from softmax, not from scores"
    told = f"{x.text}{at(x)} goes from {float(x.value.min()):.4g} to {float(x.value.max()):.4g}"
    return f"{told}, and probabilities are wanted: torch.softmax({x.text}, -1) makes them of scores"


@remedy(
    r"Expected parameter (\w+) .* of distribution (\w+)\(.*to satisfy the constraint (?:IndependentConstraint\()?(\w+)"
)
def satisfy_constraint(failure: Failure, match: re.Match[str]) -> str:
    """A parameter of a distribution outside of its range."""
    if "nan" in failure.message.rsplit("invalid values", 1)[-1]:
        return f"{match[1]} holds NaN: look where it begins, ad.autograd.set_detect_anomaly(True) names the line"
    ways = {
        "GreaterThan": "F.softplus({0}) or {0}.exp() is positive",
        "Positive": "F.softplus({0}) or {0}.exp() is positive",
        "Simplex": "logits={0} takes scores, or softmax makes probabilities of them",
        "PositiveDefinite": "a symmetric matrix with eigenvalues above 0, such as A @ A.mT + 1e-3 * torch.eye(n)",
        "Interval": "logits={0} takes scores, or sigmoid makes probabilities of them",
    }
    x = next((each for each in failure.tensors() if each.value is failure.locals.get("value")), None)
    call = failure.node
    names = parameter_names(call, failure.frame) if isinstance(call, ast.Call) else []
    node = argument_node(failure, names.index(match[1]) if match[1] in names else -1, match[1])
    if match[3] in ("LessThan", "GreaterThan") and {"low", "high"} <= {*names} and isinstance(call, ast.Call):
        low, high = (argument_node(failure, names.index(name), name) for name in ("low", "high"))
        if low is not None and high is not None:
            told = f"low, {text_of(low)}, is to be below high, {text_of(high)}"
            return f"{told}: {text_of(call.func)}({text_of(high)}, {text_of(low)})"
    name = text_of(node) if x is None and node is not None else match[1] if x is None else f"{x.text}{at(x)}"
    advice = ways.get(match[3], f"values that satisfy {match[3]}")
    told = match[1] if name == match[1] else f"{name}, the {match[1]}"
    is_short = node is not None and len(text_of(node)) < 40 and not re.search(r"tensor\(", text_of(node))
    text = x.text if x is not None else bracket(node) if node is not None and is_short else "x"
    if match[3] in ("GreaterThan", "Positive") and "log" in text.rpartition(".")[2]:
        return f"{told} of {match[2]}, is a logarithm by its name, and is to be above 0: {text}.exp()"
    return f"{told} of {match[2]}: {advice.format(text)}"


@remedy(r"Value is not broadcastable with batch_shape\+event_shape: \S*\[([\d, ]*)\]\) vs \S*\[([\d, ]*)\]")
def fit_distribution(failure: Failure, match: re.Match[str]) -> str:
    """A value of another shape than what the distribution gives."""
    x = next((each for each in failure.tensors() if str(list(each.value.shape)) == f"[{match[1]}]"), None)
    name = "the value" if x is None else f"{x.text}{at(x)}"
    given, wanted = ([int(n) for n in re.findall(r"\d+", each)] for each in match.groups())
    for i in range(len(wanted)):
        if x is not None and len(given) == len(wanted) - 1 and given == [*wanted[:i], *wanted[i + 1 :]]:
            told = f"{name} is {given}, and the distribution {wanted}"
            return f"{told}: {x.text}.unsqueeze({i}), one for all in dimension {i}"
    return f"{name} is [{match[1]}], and a sample of the distribution [{match[2]}]: the last sizes of both agree"


@remedy(r"input matrix is singular|factorization could not be completed because the input is not positive-definite")
def regularise_matrix(failure: Failure, match: re.Match[str]) -> str:
    """A matrix that has no inverse, or no Cholesky factor."""
    x = next((each for each in failure.tensors()), None)
    name = "A" if x is None else x.text
    where = "" if x is None else at(x)
    if "singular" in match[0]:
        return f"{name}{where} has dependent rows: add a small multiple of the identity, or torch.linalg.lstsq"
    return f"{name}{where} is not positive definite: {name} + 1e-6 * torch.eye(n), or check that it is symmetric"


@remedy(r"must be batches of square matrices, but they are (\d+) by (\d+) matrices")
def use_square(failure: Failure, match: re.Match[str]) -> str | None:
    """A matrix with other rows than columns, of which the inverse is asked."""
    if "inv" not in failure.message and "solve" not in failure.message:
        return None
    return "torch.linalg.pinv inverts matrices that are not square, lstsq solves with them"
