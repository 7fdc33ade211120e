"""Remedies for values of another kind than a call takes: lists, floats, strings, packed sequences, numbers."""

from __future__ import annotations

import ast
import inspect
import re
from numbers import Real

from adjoint import nn
from adjoint.core.runtime.similar_names import find_spelling
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Operand
from adjoint.data.loader import DataLoader
from adjoint.diagnosis.call_stack import user_files
from adjoint.diagnosis.failure import Failure
from adjoint.diagnosis.operands import MISSING, NamedValue, evaluate, find_return_in, is_module
from adjoint.diagnosis.remedies.registry import at, find_named_argument, name_argument, remedy
from adjoint.diagnosis.repairs.trial import compute
from adjoint.diagnosis.source_expressions import SourceFile, text_of

CONVERTING = ("to", "cuda", "cpu", "detach", "float", "long", "double", "numpy")
CONTEXT_ATTRIBUTES = ("saved_tensors", "save_for_backward", "needs_input_grad", "mark_dirty", "mark_non_differentiable")


@remedy(
    r"tuple indices must be|'PackedSequence' object has no attribute|must be Tensor, not PackedSequence|"
    r"type 'PackedSequence'|can only concatenate tuple|unsupported operand type|can't multiply sequence"
)
def pad_sequence(failure: Failure, match: re.Match[str]) -> str | None:
    """A packed sequence where a padded tensor belongs."""
    x = _find_operand(failure, "PackedSequence")
    if x is None:
        return None
    layer = "" if x.origin is None or x.origin.value is None else text_of(x.origin.value)
    told = f"{x.text}{at(x)} is packed{f', as {layer} gives it' if layer else ''}"
    return f"{told}: {x.text}, lengths = nn.utils.rnn.pad_packed_sequence({x.text}, batch_first=True) before this line"


@remedy(r"'list' object has no attribute|must be Tensor, not list|argument 'input' .* not list|'list' and 'Tensor'")
def convert_list_argument(failure: Failure, match: re.Match[str]) -> str | None:
    """A list where a tensor belongs."""
    named = re.search(r"argument '(\w+)'.* must be Tensor, not list", failure.message)
    given = None if named is None else find_named_argument(failure, named[1])
    if isinstance(given, ast.ListComp):  # its names are those of what it is made of
        return f"{text_of(given)} is a list, and one tensor is wanted: torch.stack({text_of(given)})"
    x = _find_operand(failure, "list")
    if x is None or not x.value:
        return None
    told = f"{x.text}{at(x)} is a list of {len(x.value)}"
    attribute = re.search(r"attribute '(\w+)'", failure.message)
    if all(isinstance(each, Tensor) for each in x.value):
        moved = attribute is not None and attribute[1] in ("to", "cuda", "cpu")
        if x.origin is not None and isinstance(x.origin.node, (ast.For, ast.AsyncFor)) and not moved:
            collated = _find_collated_list(failure, x)
            if collated is not None:
                return collated
            if "[" in x.text or "." in x.text:  # an entry of the batch, put together of lists
                told = f"{told} tensors, one for each place of the lists of the samples"
                return f"{told}: torch.stack({x.text}, 1) is {(len(x.value[0]), len(x.value))}"
            names = ", ".join(("x", "y", "z", *"abcdefgh")[: len(x.value)])
            told = f"{x.text}{at(x)} is a batch of {len(x.value)} tensors"
            return f"{told}: for {names} in {text_of(x.origin.node.iter)} there, or {x.text}[0] here"
        if attribute is not None and attribute[1] == "backward":
            return f"{told} tensors: sum({x.text}).backward(), one pass for all of them"
        if attribute is not None and attribute[1] == "zero_grad":
            return f"{told} tensors, and zero_grad is of models and optimizers: for p in {x.text}: p.grad = None"
        if attribute is not None and attribute[1] in CONVERTING:
            return f"{told} tensors: [each.{attribute[1]}(…) for each in {x.text}]"
        same = len({tuple(each.shape) for each in x.value}) == 1
        rows = len(x.value[0]) if x.value[0].ndim == 1 else 0
        loaders = [each for each in failure.frame.f_globals.values() if isinstance(each, DataLoader)]
        if same and any(each.batch_size == rows for each in loaders):  # of lists, which a loader puts together
            return f"{told} tensors, one for each place: torch.stack({x.text}, 1) is {(rows, len(x.value))}"
        return f"{told} tensors: torch.{'stack' if same else 'cat'}({x.text}) makes one of them"
    if all(isinstance(each, str) for each in x.value):
        call = None if failure.line is None or failure.node is None else failure.line.source.parents.get(failure.node)
        if attribute is not None and attribute[1] in ("to", "cuda", "cpu") and isinstance(call, ast.Call):
            way = f"{text_of(call)} if isinstance({x.text}, torch.Tensor) else {x.text}"
            return f"{told} texts, which no device holds: {way}"
        return f"{told} texts, and a layer takes numbers: torch.tensor([[vocab[word] for word in text.split()] …])"
    if all(is_module(each) for each in x.value):
        name = "" if attribute is None else attribute[1]
        each_part = f"[p for part in {x.text} for p in part.parameters()]"
        more = f", or {each_part}" if name == "parameters" else f", or a loop, for part in {x.text}"
        return f"{told} modules: nn.ModuleList({x.text}) registers and holds them{more}"
    name = "" if attribute is None else attribute[1]
    if name and all(hasattr(type(each), name) for each in x.value):
        return f"{told} {type(x.value[0]).__name__}: for each in {x.text}: each.{name}(…)"
    lengths = {len(each) for each in x.value if isinstance(each, (list, tuple))}
    if len(lengths) > 1 and _holds_numbers(x.value):
        return f"{told} lists of different lengths: [torch.tensor(row) for row in {x.text}]"
    return f"{told}: torch.tensor({x.text})" if _holds_numbers(x.value) else None


def _holds_numbers(value: Operand) -> bool:
    """Return whether a list holds nothing but numbers, or lists of them."""
    return all(_holds_numbers(each) if isinstance(each, (list, tuple)) else isinstance(each, Real) for each in value)


def _find_operand(failure: Failure, kind: str) -> NamedValue | None:
    return next((each for each in failure.operands if type(each.value).__name__ == kind), None)


def _find_collated_list(failure: Failure, x: NamedValue) -> str | None:
    """Return what the user's `collate_fn` of a loader is to give in the place of a list."""
    loop = None if x.origin is None else x.origin.node
    loader = evaluate(loop.iter, failure.frame) if isinstance(loop, ast.For) else None
    code = getattr(getattr(loader, "collate_fn", None), "__code__", None)
    returned = find_return_in(code) if code is not None and user_files[code.co_filename] else None
    value = None if returned is None else getattr(returned.node, "value", None)
    place = None if x.origin is None else x.origin.place_in_tuple(x.text)
    part = value.elts[place] if isinstance(value, ast.Tuple) and place is not None else value
    if returned is None or not isinstance(part, ast.expr):
        return None
    is_even = len({tuple(each.shape) for each in x.value}) == 1
    stacked = f"torch.stack({text_of(part)})" if is_even else f"nn.utils.rnn.pad_sequence({text_of(part)}, True)"
    told = f"{x.text}{at(x)} is a list of {len(x.value)} tensors, as {returned.describe()}, gives it"
    return f"{told}: {stacked} there"


@remedy(
    r"slice indices must be integers|'float' object cannot be interpreted as an integer|"
    r"indices must be integers or slices, not float|received an invalid combination of arguments.*float|"
    r"type must be tuple of ints,? but got float|must be an? int(?:eger)?, (?:not|got) float"
)
def round_number(failure: Failure, match: re.Match[str]) -> str | None:
    """A float where a count or a place belongs."""
    node = failure.node
    for part in node.args if isinstance(node, ast.Call) else ():
        if isinstance(part, ast.BinOp) and isinstance(compute(part, failure.frame), float):
            wanted = f"int({text_of(part)})"
            if isinstance(part.op, ast.Div):
                wanted = f"{text_of(part.left)} // {text_of(part.right)}"
            return f"{text_of(part)} is {compute(part, failure.frame)}, and a whole number is wanted: {wanted}"
    for each in failure.operands:
        if isinstance(each.value, float):
            is_item = "[" in each.text or each.origin is None or each.origin.value is None
            made = "" if each.origin is None or each.origin.value is None or is_item else text_of(each.origin.value)
            if " / " in made:
                return (
                    f"{each.text}{at(each)} is {each.value}: // divides whole numbers, {made.replace(' / ', ' // ', 1)}"
                )
            made = made if each.text.isidentifier() or each.text.startswith("self.") else ""
            return f"{each.text}{at(each)} is {each.value}, and a whole number is wanted: int({made or each.text})"
    for node in ast.walk(failure.line.node) if failure.line is not None else ():
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
            text = text_of(node)
            return f"{text} is a float, and a whole number is wanted: {text_of(node.left)} // {text_of(node.right)}"
    return None


def find_default(node: ast.Call, name: str | None, failure: Failure) -> Operand:
    """Return the default of a parameter of the function that a call calls."""
    function = evaluate(node.func, failure.frame)
    if function is MISSING and isinstance(node.func, ast.Attribute):
        owner = evaluate(node.func.value, failure.frame)
        function = getattr(owner, node.func.attr, MISSING)
    parameter = inspect.signature(function).parameters.get(name or "") if callable(function) else None
    return MISSING if parameter is None else parameter.default


@remedy(r"'(int|float|bool)' object is not (?:iterable|subscriptable)")
def give_sequence(failure: Failure, match: re.Match[str]) -> str | None:
    """One number where several belong."""
    node = failure.node
    if not isinstance(node, ast.Call) or not failure.stack[0].called:
        return None
    named = [(each.arg, each.value) for each in node.keywords]
    function = evaluate(node.func, failure.frame)
    parameters = list(inspect.signature(function).parameters.values()) if isinstance(function, type) else []
    for i, (parameter, given) in enumerate(zip(parameters, node.args, strict=False)):
        default = parameter.default
        if isinstance(default, tuple) and type(evaluate(given, failure.frame)).__name__ == match[1]:
            parts = [*map(text_of, node.args[i : i + len(default)])]
            told = f"{parameter.name}, the argument {i + 1}, is {len(default)} numbers in one tuple"
            return f"{told}: {parameter.name}=({', '.join(parts)}{',' if len(parts) == 1 else ''})"
    pairs = [each for each in named if isinstance(find_default(node, each[0], failure), (tuple, list))]
    for name, value in [*pairs, *named, *(("", each) for each in node.args)]:
        if type(evaluate(value, failure.frame)).__name__ == match[1]:
            text, keyword = text_of(value), f"{name}=" if name else ""
            default = find_default(node, name, failure)
            if isinstance(default, tuple):
                told = f"{keyword}{text} is one number, and {len(default)} are wanted"
                return f"{told}: {keyword}{default}, as its default is"
            lists = [each for each in node.args if isinstance(each, (ast.List, ast.Tuple))]
            if value in node.args and len(lists) == 1:
                order = {id(value): lists[0], id(lists[0]): value}
                swapped = ", ".join(text_of(order.get(id(each), each)) for each in (*node.args, *node.keywords))
                return f"{text_of(lists[0])} comes before {text_of(value)}: {text_of(node.func)}({swapped})"
            rest = node.args[node.args.index(value) :] if value in node.args else [value]
            if all(type(evaluate(each, failure.frame)).__name__ == match[1] for each in rest):
                text = ", ".join(map(text_of, rest))
                if len(rest) > 1:
                    return f"{text} are several arguments, and one list of them is wanted: [{text}]"
            return f"{keyword}{text} is one number, and a list is wanted: {keyword}[{text}]"
    return None


@remedy(r"It looks like you're calling \.(\w+)\(\) on a Tensor")
def compute_for_each(failure: Failure, match: re.Match[str]) -> str:
    """A Python number of each example of vmap."""
    x = next((each.text for each in failure.tensors()), "the tensor")
    told = f"under vmap {x} has another value for each example"
    node: ast.AST | None = failure.node
    while failure.line is not None and node is not None and not isinstance(node, (ast.If, ast.IfExp, ast.While)):
        node = failure.line.source.parents.get(node)
    if isinstance(node, (ast.If, ast.IfExp, ast.While)) and any(each is failure.node for each in ast.walk(node.test)):
        test = text_of(node.test).replace(f".{match[1]}()", "")
        return f"{told}, and an if takes one way for all: torch.where({test}, a, b) computes both and chooses"
    return f"{told}: without .{match[1]}(), compute with the tensor itself"


@remedy(r"Got argnum=(\d+), but only (\d+) positional inputs")
def count_arguments(failure: Failure, match: re.Match[str]) -> str:
    """A derivative with respect to an argument that is not given."""
    source = None if failure.line is None else failure.line.source
    for node in source.nodes_of(ast.keyword) if source is not None else ():
        if source is not None and node.arg == "argnums":
            told = f"argnums={text_of(node.value)} at {source.place_of(node.value)}"
            return f"{told} counts the arguments from 0: argnums={int(match[2]) - 1} is the last of {match[2]}"
    return f"argnums counts the arguments from 0: argnums={int(match[2]) - 1} is the last of {match[2]}"


@remedy(r"IterableDataset: expected unspecified (\w+) option")
def leave_order(failure: Failure, match: re.Match[str]) -> str:
    """An order for samples that come as they come."""
    return f"an IterableDataset gives its samples in its own order: without {match[1]}=, and shuffle in its __iter__"


@remedy(r"a state dict has 'state' and 'param_groups', this no '(\w+)'")
def choose_state(failure: Failure, match: re.Match[str]) -> str | None:
    """A state of a model where an optimizer's belongs."""
    node = failure.node
    given = node.args[0] if isinstance(node, ast.Call) and node.args else None
    owner = text_of(node.func.value) if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) else "it"
    holder = given.value if isinstance(given, ast.Subscript) else given
    held = evaluate(holder, failure.frame) if holder is not None else None
    asked = given.slice.value if isinstance(given, ast.Subscript) and isinstance(given.slice, ast.Constant) else None
    for key, value in held.items() if isinstance(held, dict) else ():
        if isinstance(value, dict) and "param_groups" in value and holder is not None and failure.line is not None:
            saved = _find_saved_key(failure.line.source, asked)
            return f"{owner} takes an optimizer's state{saved}: {text_of(holder)}[{key!r}]"
    return f"{owner} takes the state of an optimizer, with its param_groups: what optimizer.state_dict() gave"


def _find_saved_key(source: SourceFile, key: Operand) -> str:
    """Return what a dictionary that is saved holds under a key, and where."""
    calls = (each for each in source.nodes_of(ast.Call) if each.args)
    for given in (each.args[0] for each in calls if text_of(each.func).endswith("save")):
        for name, value in zip(given.keys, given.values, strict=True) if isinstance(given, ast.Dict) else ():
            if isinstance(name, ast.Constant) and name.value == key:
                return f", and {source.place_of(value)} saves {text_of(value)} as {key!r}"
    return ""


@remedy(r"bernoulli_? expects p to be in \[0, 1\]")
def give_probabilities_first(failure: Failure, match: re.Match[str]) -> str | None:
    """Scores where probabilities belong."""
    x = next(iter(failure.tensors()), None)
    if x is None or not x.value.numel():
        return None
    told = f"{x.text}{at(x)} goes from {float(x.value.min()):.3g} to {float(x.value.max()):.3g}"
    return f"{told}, and probabilities lie between 0 and 1: torch.sigmoid({x.text})"


@remedy(r"(mat\d|self|input|batch\d) must be a (?:matrix|2-D|3-D|3D)|Expected (?:2|3)D tensors?")
def use_matmul(failure: Failure, match: re.Match[str]) -> str | None:
    """A vector, or a batch, where a matrix belongs."""
    shapes = [(each.text, tuple(each.value.shape)) for each in failure.tensors()[:2]]
    if len(shapes) < 2:
        return None
    told = ", ".join(f"{name} is {shape}" for name, shape in shapes)
    (a, p), (b, q) = shapes
    is_fitting = bool(p and q) and p[-1] == (q[-2] if len(q) > 1 else q[-1])
    return (
        f"{told}: {a} @ {b} takes vectors and batches too" if is_fitting else f"{told}: two matrices, (n, k) and (k, m)"
    )


@remedy(r"'(int|float|list|dict|str)' object is not callable")
def give_function(failure: Failure, match: re.Match[str]) -> str | None:
    """A value where a function belongs."""
    node = failure.node
    if not isinstance(node, ast.Call):
        return None
    for keyword in node.keywords:
        if type(evaluate(keyword.value, failure.frame)).__name__ == match[1] and failure.stack[0].called:
            text = text_of(keyword.value)
            example = f"lambda epoch: {text} ** epoch" if keyword.arg == "lr_lambda" else f"lambda x: {text}"
            return f"{keyword.arg}={text} is no function: {keyword.arg}={example}"
    value = evaluate(node.func, failure.frame)
    if type(value).__name__ == match[1] != "str":
        own = failure.find_operand(text_of(node.func))
        last = text_of(node.func).rpartition(".")[2].replace("_", "").lower()
        layer = next((name for name in dir(nn) if name.lower() == last), None)
        if layer is not None and match[1] in ("int", "float"):
            return f"{text_of(node.func)}{at(own)} is {value}, a number, and no layer: nn.{layer}({value}) there"
        if isinstance(value, (list, tuple)) and value and all(map(callable, value)):
            given = ", ".join(map(text_of, (*node.args, *node.keywords)))
            told = f"{text_of(node.func)}{at(own)} is a {match[1]} of {len(value)} {type(value[0]).__name__}"
            return f"{told}, each to be called: [f({given}) for f in {text_of(node.func)}]"
        if isinstance(value, (int, float)):
            return f"{text_of(node.func)}{at(own)} is the number {value}, and is called: a function there"
        return f"{text_of(node.func)}{at(own)} is a {match[1]}: square brackets read its parts, round ones call"
    return None


@remedy(
    r"'[\w.]*(?:OrderedDict|dict)' object has no attribute '(eval|train|parameters|to|state_dict|forward|cuda)'|"
    r"'[\w.]*(?:OrderedDict|dict)' object is not callable"
)
def load_into_model(failure: Failure, match: re.Match[str]) -> str | None:
    """A state where its model belongs."""
    for each in failure.operands:
        if isinstance(each.value, dict) and any(isinstance(value, Tensor) for value in each.value.values()):
            return (
                f"{each.text}{at(each)} is a state, no model: make the model, then model.load_state_dict({each.text})"
            )
    return None


@remedy(r"'(DataLoader|generator|_?\w*Iterator|map|filter|zip)' object is not subscriptable")
def read_next(failure: Failure, match: re.Match[str]) -> str | None:
    """A place asked of what gives its items one after the other."""
    node = failure.node
    if not isinstance(node, ast.Subscript):
        return None
    name = text_of(node.value)
    if match[1] == "DataLoader":
        return f"{name} gives batches one after the other: next(iter({name})) is the first, {name}.dataset[i] a sample"
    return f"{name} gives its items one after the other: list({name})[{text_of(node.slice)}]"


@remedy(r"unsupported operand type\(s\) for \+: '(?:generator|map|filter|zip)' and")
def join_iterators(failure: Failure, match: re.Match[str]) -> str | None:
    """Two generators, such as those of parameters(), that are added."""
    node = failure.node
    if not isinstance(node, ast.BinOp):
        return None
    a, b = text_of(node.left), text_of(node.right)
    return f"generators do not add up: [*{a}, *{b}] is one list of both"


@remedy(r"expected Tensor as element (\d+) in argument 0, but got (\w+)")
def convert_element(failure: Failure, match: re.Match[str]) -> str | None:
    """Something that is no tensor among those to be joined."""
    node = failure.node
    if not isinstance(node, ast.Call) or not node.args:
        return None
    given, place, kind = node.args[0], int(match[1]), match[2]
    function = text_of(node.func)
    if isinstance(given, (ast.List, ast.Tuple)) and place < len(given.elts):
        name = text_of(given.elts[place])
        own = failure.find_operand(name)
        ways = {"ndarray": f"torch.from_numpy({name})", "list": f"torch.tensor({name})", "tuple": f"{name}[0]"}
        advice = ways.get(kind, f"torch.tensor([{name}])")
        if kind == "NoneType":
            function = text_of(node.func)
            return f"{name}{at(own)} is None, no tensor: a value for it, or {function}(…) only if {name} is not None"
        return f"{name}{at(own)} is {'an' if kind == 'ndarray' else 'a'} {kind}, no tensor: {advice} in its place"
    name = text_of(given)
    own = failure.find_operand(name)
    if kind == "NoneType":
        told = f"{name}{at(own)} holds None at place {place}"
        return f"{told}: {function}([x for x in {name} if x is not None]) leaves it out"
    if kind in ("list", "tuple"):
        told = f"{name}{at(own)} holds {kind}s, no tensors"
        whole = evaluate(given, failure.frame)
        part = whole[place] if isinstance(whole, (list, tuple)) else ()
        first = next((i for i, x in enumerate(part) if isinstance(x, Tensor)), 0)
        if not all(isinstance(x, Tensor) for x in part):  # a sample and its label
            return f"{told}: {function}([part[{first}] for part in {name}]) joins the tensors in them"
        return f"{told}: {function}([x for part in {name} for x in part]) joins what they hold"
    kept = None if own is None or own.origin is None else text_of(own.origin.node)
    if kept is not None and kind in ("float", "int") and ".item()" in kept:
        told = f"{name}{at(own)} holds Python numbers, by {kept}"
        tensors = f"{kept.replace('.item()', '')} keeps the tensors"
        is_trained = failure.line is not None and "backward" in failure.line.source.calls
        return f"{told}: {tensors}" if is_trained else f"{told}: torch.tensor({name})"
    whole = evaluate(given, failure.frame)
    if isinstance(whole, (list, tuple)) and all(isinstance(x, (int, float)) for x in whole):
        return f"{name}{at(own)} holds numbers, no tensors: torch.tensor({name})"
    inner = "torch.from_numpy(x)" if kind == "ndarray" else "torch.tensor(x)"
    return f"{name}{at(own)} holds a {kind} at place {place}, no tensor: {function}([{inner} for x in {name}])"


@remedy(r"Number of indices \((\d+)\) should be equal to source\.size\(dim\): \((\d+)\), for dim: (\d+)")
def count_indices(failure: Failure, match: re.Match[str]) -> str:
    """An index with another length than the values."""
    index, source = name_argument(failure, 1, "index", "index"), name_argument(failure, 2, "source", "source")
    return (
        f"{index} has {match[1]} places, and {source} {match[2]} rows in dimension {match[3]}: one place for each row"
    )


@remedy(r"\(ctx\) has no attribute '(\w+)': forward has not set it")
def set_in_forward(failure: Failure, match: re.Match[str]) -> str | None:
    """A value that backward reads, and forward did not keep."""
    source = None if failure.line is None else failure.line.source
    scope = None if source is None or failure.line is None else source.scope_of(failure.line.node)
    similar = find_spelling(match[1], CONTEXT_ATTRIBUTES)
    if similar is not None and failure.line is not None:
        return f"{text_of(failure.line.node).rpartition('.')[0]}.{similar} is meant, perhaps"
    owner = None if source is None or scope is None else source.parents.get(scope)
    for node in owner.body if isinstance(owner, ast.ClassDef) else ():
        if isinstance(node, ast.FunctionDef) and node.name == "forward" and source is not None and node.args.args:
            ctx = node.args.args[0].arg
            names = [each.arg for each in node.args.args]
            value = match[1] if match[1] in names else "…"
            return f"{ctx}.{match[1]} = {value} in forward, {source.place_of(node)}, which backward reads"
    return None


@remedy(r"Got unsupported ScalarType (\w+)")
def widen_for_numpy(failure: Failure, match: re.Match[str]) -> str:
    """An array of a tensor of a type that NumPy has not."""
    node = failure.node
    inner = node.func.value if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) else None
    name = "x" if inner is None else text_of(inner)
    return f"NumPy has no {match[1].lower()}: {name}.float().numpy()"
