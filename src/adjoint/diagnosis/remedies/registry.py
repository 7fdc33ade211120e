"""Registry of remedies, each a function of a failure that is found by the words of the error; and what they share."""

from __future__ import annotations

import ast
import copy
import inspect
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from types import ModuleType
from typing import NamedTuple, TypeAlias

from adjoint.core.typing import Operand, Shape
from adjoint.diagnosis.call_stack import user_files
from adjoint.diagnosis.failure import Failure
from adjoint.diagnosis.operands import MISSING, NamedValue, Origin, evaluate, find_origin, find_return_in, is_module
from adjoint.diagnosis.output_layer import OutputLayer, find_output_layer
from adjoint.diagnosis.repairs.expression import bracket, parameter_names
from adjoint.diagnosis.repairs.trial import compute
from adjoint.diagnosis.source_expressions import find_assignment, parse_source, text_of
from adjoint.diagnosis.source_expressions import parameter_names as parameters_of_scope

Remedy: TypeAlias = Callable[[Failure, "re.Match[str]"], "str | None"]
MAX_NAME_CHARACTERS = 40
MAX_STEPS_BACK = 6
registered_remedies: defaultdict[str, list[tuple[re.Pattern[str], Remedy, bool]]] = defaultdict(list)  # by modules


def remedy(pattern: str, *, is_last: bool = False) -> Callable[[Remedy], Remedy]:
    """Register a function for errors whose message has the pattern; it returns advice, or None to pass.

    What gives general advice comes last, after all that knows the line.
    """

    def register(function: Remedy) -> Remedy:
        registered_remedies[function.__module__].append((re.compile(pattern, re.DOTALL), function, is_last))
        return function

    return register


def try_in_order(ways: Iterable[Callable[..., str | None]], *given: Operand) -> str | None:
    """Return the advice of the first of several ways that has some."""
    return next(filter(None, (way(*given) for way in ways)), None)


def shape_of(text: str) -> Shape:
    """Return the sizes that a text such as "(32, 400)" or "4, 1, 28" tells."""
    return tuple(map(int, re.findall(r"\d+", text)))


def name_of_shape(failure: Failure, shape: Shape, default: str = "the input") -> str:
    """Return the user's name of the only tensor of that shape."""
    named = [each.text for each in failure.tensors() if tuple(each.value.shape) == shape]
    return named[0] if len(set(named)) == 1 else default


class BroadcastOperand(NamedTuple):
    """One of two operands: the user's name of it, and its shape."""

    name: str
    shape: Shape

    @property
    def is_named(self) -> bool:
        """False for what the function itself has made."""
        return not self.name.startswith("the ")


def name_operand(failure: Failure, shape: Shape, place: int) -> str:
    """Return the user's name of a tensor of that shape, or the text of the first (0) or second (1) operand."""
    node = failure.node
    parts: list[ast.expr] = []
    if isinstance(node, ast.BinOp):
        parts = [node.left, node.right]
    elif isinstance(node, ast.AugAssign):
        parts = [node.target, node.value]
    elif isinstance(node, ast.Compare):
        parts = [node.left, node.comparators[0]]
    elif isinstance(node, ast.Call):
        parts = node.args
    text = text_of(parts[place]) if place < len(parts) else ""
    value = evaluate(parts[place], failure.frame) if text else None
    if value is MISSING or (value is not None and hasattr(value, "shape") and tuple(value.shape) != shape):
        layer = failure.module()
        for key in ("_buffers", "_parameters") if layer is not None else ():
            for name, held in vars(layer.value)[key].items() if layer is not None else ():
                if held is not None and tuple(held.shape) == shape and layer is not None:
                    return f"{layer.text}.{name}{at(layer)}"
        text = text if value is MISSING else ""
    if (
        value is MISSING
        and 0 < len(text) <= MAX_NAME_CHARACTERS
        and name_of_shape(failure, shape, "") != _root_of(parts[place])
    ):
        return text  # a tensor of that shape is an index or a divisor within it
    default = text if 0 < len(text) <= MAX_NAME_CHARACTERS else ("the first", "the second")[place]
    return name_of_shape(failure, shape, default)


def _root_of(node: ast.expr) -> str:
    """Return the text of what an expression begins with: of `x[0].exp() * 2`, it is x."""
    while isinstance(node, (ast.Call, ast.Subscript, ast.BinOp, ast.Compare)):
        if isinstance(node, ast.Call):
            node = node.func.value if isinstance(node.func, ast.Attribute) and not node.args else ast.Constant(None)
        elif isinstance(node, ast.BinOp):
            node = node.right if isinstance(node.left, ast.Constant) else node.left
        else:
            node = node.value if isinstance(node, ast.Subscript) else node.left
    return text_of(node)


def describe_layer(failure: Failure, name: str = "the layer", kind: str = "Module") -> tuple[str, str]:
    """Return the user's name of the module that failed with the line that made it, and its class; or the defaults."""
    layer = failure.module()
    return (name, kind) if layer is None else (f"{layer.text}{at(layer)}", type(layer.value).__name__)


def at(operand: NamedValue | None) -> str:
    """Return " at train.py:9" for the line that made an operand; of a part, also the call of a helper that made it."""
    if operand is None or operand.origin is None:
        return ""
    helper = operand.source if operand.source is not None and operand.source.value is MISSING else None
    return f" at {operand.origin.place()}" + ("" if helper is None else f", by {helper.text}{at(helper)},")


def locate_tensor(failure: Failure, name: str) -> str:
    """Return " at train.py:9" for the line that made the tensor, or the array, of that name."""
    return at(next((each for each in failure.operands if each.text == name and hasattr(each.value, "shape")), None))


def first_tensor(failure: Failure, default: str = "x") -> str:
    """Return the name of the line's first tensor."""
    return next((each.text for each in failure.tensors()), default)


def float_tensor(failure: Failure) -> str:
    """Return the name of a tensor of floats, with the line that made it, where integers are wanted."""
    found = [each for each in failure.tensors() if each.value.is_floating_point()]
    return f"{found[-1].text}{at(found[-1])}" if found else "the index"


def argument_node(failure: Failure, place: int, keyword: str = "") -> ast.expr | None:
    """Return the expression of an argument of the user's call, by its place or its name; `x` of `x.f()` is none."""
    node = failure.node
    if not isinstance(node, ast.Call):
        return None
    named = next((each.value for each in node.keywords if each.arg == keyword), None)
    given = node.args[: place + 1]
    is_there = len(given) > place >= 0 and not any(isinstance(each, ast.Starred) for each in given)
    return named or (given[place] if is_there else None)


def compute_argument(failure: Failure, place: int, keyword: str = "") -> Operand:
    """Return the value of an argument of the user's call, computed again of copies; MISSING where it cannot be."""
    node = argument_node(failure, place, keyword)
    return MISSING if node is None else compute(node, failure.frame)


def name_argument(failure: Failure, place: int, keyword: str = "", default: str = "the input") -> str:
    """Return the text of an argument of the user's call, as far as it is short."""
    node = argument_node(failure, place, keyword)
    text = "" if node is None else text_of(node)
    return text if 0 < len(text) <= MAX_NAME_CHARACTERS else default


def find_named_argument(failure: Failure, name: str) -> ast.expr | None:
    """Return the expression that the user's call gives for a parameter of that name, by its name or by its place."""
    node = failure.node
    if not isinstance(node, ast.Call):
        return None
    named = next((each.value for each in node.keywords if each.arg == name), None)
    names = parameter_names(node, failure.frame)
    place = names.index(name) if name in names else len(node.args)
    is_plain = not any(isinstance(each, ast.Starred) for each in node.args[: place + 1])
    return named or (node.args[place] if place < len(node.args) and is_plain else None)


def name_owner(failure: Failure, default: str = "it") -> str:
    """Return the text of the object whose method the line calls or whose attribute it reads, with its line."""
    node = failure.node.func if isinstance(failure.node, ast.Call) else failure.node
    if not isinstance(node, ast.Attribute) or isinstance(evaluate(node.value, failure.frame), ModuleType):
        return default
    text = text_of(node.value)
    return f"{text}{at(failure.find_operand(text))}" if len(text) <= MAX_NAME_CHARACTERS else default


def find_settings(failure: Failure, call: ast.Call) -> Iterator[tuple[ast.expr, ast.expr, str]]:
    """Yield the arguments of the call, and of the call that made the module: each with the call, and the line."""
    for part in (*call.args, *(each.value for each in call.keywords)):
        yield part, call, ""
    layer: NamedValue | None = failure.module()
    made = None if layer is None or layer.origin is None else layer.origin.value
    if isinstance(made, ast.Call) and layer is not None and layer.text == text_of(call.func):
        whole = ast.Call(made, call.args, call.keywords)
        for part in (*made.args, *(each.value for each in made.keywords)):
            yield part, whole, at(layer)


def takes_input(failure: Failure) -> bool:
    """Return whether the layer works on what the forward around it was called with."""
    given = argument_node(failure, 0, "input")
    if failure.line is None or not isinstance(given, ast.Name):
        return False
    scope = failure.line.source.scope_of(given)
    return (
        given.id in parameters_of_scope(scope) and find_assignment(failure.line.source, scope, given.id, given) is None
    )


def find_part(failure: Failure, text: str) -> ast.expr | None:
    """Return the part of the line that is written so."""
    nodes = ast.walk(failure.line.node) if failure.line is not None else ()
    return next((each for each in nodes if isinstance(each, ast.expr) and text_of(each) == text), None)


def find_producer(failure: Failure, node: ast.expr | None) -> NamedValue | None:
    """Return the module whose call gave the value of an expression, directly or through functions of one input."""
    if failure.line is None or node is None:
        return None
    source, seen = failure.line.source, 0
    while seen < MAX_STEPS_BACK:
        seen += 1
        if isinstance(node, (ast.Name, ast.Attribute)):
            origin = find_origin(source, node, failure.stack)
            if origin is None or origin.value is None or origin.value is node:
                return None
            source, node = origin.source, origin.value_of(text_of(node))
            continue
        if not isinstance(node, ast.Call):
            return None
        for place in failure.stack:
            called = evaluate(node.func, place.frame)
            if is_module(called) and any(True for _ in called.parameters()):
                return _find_last_layer(
                    NamedValue(text_of(node.func), called, find_origin(source, node.func, (place,)))
                )
        is_method = isinstance(node.func, ast.Attribute) and not text_of(node.func).startswith(("F.", "torch.", "nn."))
        node = node.func.value if is_method and isinstance(node.func, ast.Attribute) else next(iter(node.args), None)
    return None


def _find_last_layer(made: NamedValue) -> NamedValue:
    """Return the last part of an `nn.Sequential` that has parameters, or the module itself."""
    parts = list(vars(made.value)["_modules"].items()) if type(made.value).__name__ == "Sequential" else []
    for place, (name, part) in reversed(list(enumerate(parts))):
        if any(True for _ in part.parameters()) and is_module(part):
            call = None if made.origin is None else made.origin.value
            is_listed = isinstance(call, ast.Call) and len(call.args) == len(parts)
            listed = call.args[place] if isinstance(call, ast.Call) and is_listed else None
            origin = made.origin if made.origin is None or listed is None else Origin(made.origin.source, listed)
            return NamedValue(f"{made.text}[{name}]", part, origin)
    return made


def find_both_layers(failure: Failure) -> tuple[OutputLayer, OutputLayer] | None:
    """Return the layers that gave the two sides of an operation, or the first two arguments of a function."""
    node = failure.node
    sides: list[ast.expr] = [node.left, node.right] if isinstance(node, ast.BinOp) else []
    sides = node.args[:2] if isinstance(node, ast.Call) else sides
    if failure.line is None or not sides:
        return None
    found = [find_output_layer(failure.line.source, each, failure.stack) for each in sides]
    made = [each for each in found if each is not None]
    return (made[0], made[1]) if len(made) == 2 and made[0].describe() != made[1].describe() else None


def find_decoder(failure: Failure) -> NamedValue | None:
    """Return the module with transposed convolutions whose call gave the first argument."""
    made = find_producer(failure, argument_node(failure, 0, "input"))
    if made is None or not any("ConvTranspose" in type(each).__name__ for each in made.value.modules()):
        return None
    return made


def require_grad_last(made: ast.expr) -> str | None:
    """Return `torch.randn(3).double().requires_grad_()` for an expression that asks for it in the middle, before."""
    flags = [
        (call, each)
        for call in ast.walk(made)
        if isinstance(call, ast.Call) and call is not made
        for each in call.keywords
        if each.arg == "requires_grad" and text_of(each.value) == "True"
    ]
    if len(flags) != 1:
        return None
    call, flag = flags[0]
    rest = ast.Call(call.func, call.args, [each for each in call.keywords if each is not flag])
    changed: ast.expr = copy.deepcopy(made, {id(call): rest})
    return f"{bracket(changed)}.requires_grad_()"


def find_class(kind: type) -> str | None:
    """Return the line of the user's program at which a class is defined, as `train.py:9`."""
    functions = (getattr(each, "__func__", each) for each in vars(kind).values())
    code = next((each.__code__ for each in functions if hasattr(each, "__code__")), None)
    source = None if code is None else parse_source(code.co_filename)
    for node in source.nodes_of(ast.ClassDef) if source is not None else ():
        if node.name == kind.__name__ and source is not None:
            return source.place_of(node)
    return None


def find_length(failure: Failure) -> Origin | None:
    """Return the result of `__len__` of the dataset whose `__getitem__` failed for a loader."""
    owner = failure.frame.f_locals.get("self")
    code = getattr(vars(type(owner)).get("__len__"), "__code__", None)
    if failure.frame.f_code.co_name != "__getitem__" or code is None:
        return None
    return find_return_in(code)


def find_getter(failure: Failure) -> Origin | None:
    """Return the result of `__getitem__` of the dataset whose samples a loader has put together, or was to."""
    owner = failure.locals.get("loader", failure.locals.get("self"))
    dataset = failure.locals.get("dataset", getattr(owner, "dataset", None))
    code = getattr(getattr(type(dataset), "__getitem__", None), "__code__", None)
    return None if code is None or not user_files[code.co_filename] else find_return_in(code)


def find_meaning(function: Operand, name: str) -> str:
    """Return what the function's documentation says of a parameter."""
    text = inspect.getdoc(function) or ""
    found = re.search(
        rf"^ *{name}(?: \(.*?\))?: (.+?)(?:\.(?:\s|$)|\n *\w+(?: \(.*?\))?: |\n\n|$)", text, re.MULTILINE | re.DOTALL
    )
    return "" if found is None else " ".join(found[1].split())


def named_parts(failure: Failure) -> list[NamedValue]:
    """Return the names and attributes of the line, those of gradients and of None too."""
    if failure.line is None:
        return []
    found = []
    for node in ast.walk(failure.line.node):
        is_changed = isinstance(failure.line.node, ast.AugAssign) and node is failure.line.node.target
        if isinstance(node, (ast.Name, ast.Attribute)) and (isinstance(node.ctx, ast.Load) or is_changed):
            value = evaluate(node, failure.frame)
            if value is not MISSING:
                found.append(NamedValue(text_of(node), value, find_origin(failure.line.source, node, failure.stack)))
    return sorted(found, key=lambda each: -len(each.text))
