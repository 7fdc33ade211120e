"""Remedies for passes backward: losses without a graph, graphs that are gone, values overwritten, wrong gradients."""

from __future__ import annotations

import ast
import inspect
import re

from adjoint.core.graph.source_location import definition_site
from adjoint.core.tensor.detach_record import detach_record_of
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Operand
from adjoint.diagnosis.causes.computing import open_program
from adjoint.diagnosis.causes.contexts import find_step
from adjoint.diagnosis.causes.operand_history import walk_back
from adjoint.diagnosis.causes.searches.cut_graphs import find_cut_cause
from adjoint.diagnosis.failure import Failure
from adjoint.diagnosis.operands import Origin, evaluate, find_origin, find_return_in, is_module
from adjoint.diagnosis.remedies.registry import argument_node, at, first_tensor, remedy
from adjoint.diagnosis.repairs.expression import bracket
from adjoint.diagnosis.repairs.trial import compute
from adjoint.diagnosis.source_expressions import SourceFile, find_assignment, parameter_names, text_of

CUTTING_METHODS = {
    "detach": "it cuts the graph",
    "item": "it gives a Python number",
    "numpy": "it gives an array",
    "tolist": "it gives Python numbers",
    **dict.fromkeys(("argmax", "argmin", "argsort"), "indices have no gradient"),
    **dict.fromkeys(("long", "int"), "integers have no gradient"),
    "round": "its gradient is 0",
    "bool": "truths have no gradient",
}
CUTTING_FUNCTIONS = {"tensor": "it copies values without their graph", "from_numpy": "arrays have no graph"}
INTEGER_TYPE = re.compile(r"\b(?:u?int\d*|long|bool|LongTensor|IntTensor)\)")
CHOICES = frozenset({"sample", "argmax", "argmin", "multinomial", "randint"})
INITIALISERS = frozenset({"uniform_", "normal_"})
CUTTING_BLOCKS = ("no_grad", "inference_mode", "set_grad_enabled")


@remedy(r"element \d+ of tensors does not require grad and does not have a grad_fn")
def find_cut(failure: Failure, match: re.Match[str]) -> str | None:
    """A loss without a graph: the line that cut it."""
    for describe in (
        _describe_once_differentiable,
        _describe_listed_outputs,
        _describe_record,
        describe_cut,
        _describe_copy,
        _describe_comparison,
        _describe_frozen_module,
    ):
        found = walk_back(failure, describe)
        if found is not None:
            return found
    late = walk_back(failure, _describe_late_request)
    step = find_step(open_program(failure), failure.stack)
    cut = None if late or step is None else find_cut_cause(failure, step)
    if cut is not None:
        return "the line of the cause with the value itself, without what takes it out of the graph"
    return late or "nothing that it is made of requires grad: requires_grad=True for what is to be learned"


def _describe_late_request(failure: Failure, source: SourceFile, node: ast.AST) -> str | None:
    """Return which tensor was told to require grad after the line had computed with it."""
    value = Origin(source, node).value
    for part in ast.walk(value) if value is not None else ():
        held = evaluate(part, failure.frame) if isinstance(part, ast.Name) else None
        if not isinstance(part, ast.Name) or not isinstance(held, Tensor) or not held.requires_grad:
            continue
        for other in ast.walk(source.scope_of(part)):
            is_call = isinstance(other, ast.Call) and text_of(other.func) == f"{part.id}.requires_grad_"
            is_set = isinstance(other, ast.Assign) and text_of(other.targets[0]) == f"{part.id}.requires_grad"
            if (is_call or is_set) and getattr(other, "lineno", 0) > part.lineno:
                told = f"{text_of(other)} at {source.place_of(other)} comes after {source.place_of(part)}"
                return f"{told}, which has computed with {part.id}: put it before"
    return None


def _describe_record(failure: Failure, source: SourceFile, node: ast.AST) -> str | None:
    """Return where a tensor of the line was cut off its history, which a detached tensor knows."""
    for part in ast.walk(node):
        value = evaluate(part, failure.frame) if isinstance(part, (ast.Name, ast.Attribute)) else None
        is_cut = isinstance(value, Tensor) and value.is_floating_point() and not value.requires_grad
        record = detach_record_of(value) if is_cut else None
        if record is not None and isinstance(part, ast.expr):
            name, place = text_of(part), f"{record.what} at {record.site.describe_briefly()}"
            if record.what.startswith("detach"):
                return f"{name} lost its graph by {place}: leave that out of what the loss is made of"
            for written in source.assignments_in(source.scope_of(part)).get(name, ()):
                if isinstance(written, ast.Assign) and f"{name}.grad" in text_of(written.value):
                    made = f"{name} = … at {Origin(source, written).place()} makes a tensor that requires no grad"
                    return f"{made}: change the values of {name} itself, {name} -= … under no_grad()"
            told = f"{name} was made under {place}, where ops are not recorded"
            return f"{told}: {_find_other_case(failure, source, record.site.line) or 'compute it outside'}"
    return None


def _find_other_case(failure: Failure, source: SourceFile, line: int) -> str | None:
    """Return which comparison of a line is untrue for a letter's case alone."""
    for node in source.nodes_of(ast.Compare):
        if node.lineno == line and len(node.comparators) == 1:
            sides = [evaluate(each, failure.frame) for each in (node.left, node.comparators[0])]
            texts = [each for each in sides if isinstance(each, str)]
            if len(texts) == 2 and texts[0] != texts[1] and texts[0].lower() == texts[1].lower():
                return f"{text_of(node)} is untrue, as {text_of(node.left)} is {texts[0]!r}: {texts[0]!r} there"
    return None


def _describe_listed_outputs(failure: Failure, source: SourceFile, node: ast.AST) -> str | None:
    """Return the forward of a Function that gives a list, whose tensors have no graph."""
    for call in ast.walk(node):
        function = call.func if isinstance(call, ast.Call) and text_of(call.func).endswith(".apply") else None
        kind = evaluate(function.value, failure.frame) if isinstance(function, ast.Attribute) else None
        code = getattr(getattr(kind, "forward", None), "__code__", None)
        result = None if code is None else find_return_in(code)
        value = getattr(result.node, "value", None) if result is not None else None
        if result is not None and isinstance(value, ast.List):
            outputs = ", ".join(map(text_of, value.elts))
            return (
                f"{result.describe()}, gives a list, and a Function gives tensors or a tuple of them: return {outputs}"
            )
    return None


def _describe_once_differentiable(failure: Failure, source: SourceFile, node: ast.AST) -> str | None:
    """Return the Function in a derivative whose backward cannot be differentiated."""
    calls = [each for each in ast.walk(node) if isinstance(each, ast.Call) and isinstance(each.func, ast.Attribute)]
    for call in calls if any(text_of(each.func).endswith("autograd.grad") for each in calls) else ():
        kind = evaluate(call.func.value, failure.frame) if isinstance(call.func, ast.Attribute) else None
        backward = getattr(kind, "backward", None)
        if isinstance(kind, type) and inspect.isfunction(backward) and hasattr(backward, "__wrapped__"):
            where = definition_site(inspect.unwrap(backward).__code__).describe_briefly()
            told = f"backward of {kind.__name__}, {where}, is once_differentiable, so that its gradients have no graph"
            return f"{told}: leave the decorator out, and compute with tensors alone"
    return None


def describe_cut(failure: Failure, source: SourceFile, node: ast.AST) -> str | None:
    """Return which call, attribute or block of a line cuts the graph; None if there is none."""
    parts = sorted(ast.walk(node), key=lambda part: _is_of_choice(source, part))
    for part in parts:
        if isinstance(part, ast.Call) and isinstance(part.func, ast.Attribute):
            why = CUTTING_METHODS.get(part.func.attr)
            if why:
                place = Origin(source, part).place()
                kept = getattr(source.parents.get(part), "func", None) if part.func.attr in ("item", "tolist") else None
                if isinstance(kept, ast.Attribute) and kept.attr == "append":
                    told = f"{text_of(part)} at {place} is a Python number, without a graph"
                    items = text_of(kept.value)
                    return f"{told}: {text_of(kept)}({text_of(part.func.value)}), and torch.stack({items}) of them"
                return f"{text_of(part.func)}(…) at {place}: {why}; leave it out of what the loss is made of"
            if part.func.attr in ("to", "type") and INTEGER_TYPE.search(text_of(part)):
                place = Origin(source, part).place()
                return (
                    f"{text_of(part)} at {place}: integers have no gradient; leave it out of what the loss is made of"
                )
        if isinstance(part, ast.Attribute) and part.attr == "data":
            return f"{text_of(part)} at {Origin(source, part).place()} has no graph: use the tensor itself"
    around: ast.AST | None = node
    while around is not None:
        if isinstance(around, (ast.With, ast.AsyncWith)):
            for item in around.items:
                text = text_of(item.context_expr)
                if any(block in text for block in CUTTING_BLOCKS):
                    line = Origin(source, around).place()
                    name = first_tensor(failure, "the tensor")
                    return f"with {text} at {line} records no graph: compute {name} outside of it"
        if isinstance(around, (ast.FunctionDef, ast.AsyncFunctionDef)):
            for decorator in around.decorator_list:
                if any(block in text_of(decorator) for block in CUTTING_BLOCKS):
                    line = Origin(source, decorator).place()
                    return f"@{text_of(decorator)} of {around.name} at {line} records no graph"
        around = source.parents.get(around)
    return None


def _is_of_choice(source: SourceFile, part: ast.AST) -> bool:
    """Return whether a method's owner was drawn or chosen, as actions are: it has no gradient in any case."""
    owner = part.func.value if isinstance(part, ast.Call) and isinstance(part.func, ast.Attribute) else None
    made = find_assignment(source, source.scope_of(owner), owner.id, owner) if isinstance(owner, ast.Name) else owner
    value = getattr(made, "value", made)
    return isinstance(value, ast.Call) and text_of(value.func).rpartition(".")[2] in CHOICES


def _describe_comparison(failure: Failure, source: SourceFile, node: ast.AST) -> str | None:
    """Return which comparison made truths of scores, whose result was computed with."""
    value = Origin(source, node).value
    used = value.func.value if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) else value
    if not isinstance(used, ast.Compare) or not any(
        isinstance(each, (ast.Lt, ast.Gt, ast.LtE, ast.GtE)) for each in used.ops
    ):
        return None
    told = f"{text_of(used)} at {Origin(source, used).place()} gives truths, which have no gradient"
    return f"{told}: {text_of(used.left)} itself in the loss, with a loss of scores or sigmoid"


def _describe_copy(failure: Failure, source: SourceFile, node: ast.AST) -> str | None:
    for part in ast.walk(node):
        if isinstance(part, ast.Call) and isinstance(part.func, ast.Attribute) and part.args:
            is_first = part is not (failure.line and failure.line.node) or isinstance(node, ast.FunctionDef)
            if part.func.attr == "grad" and is_first and not any(each.arg == "create_graph" for each in part.keywords):
                place = Origin(source, part).place()
                return f"create_graph=True in {text_of(part.func)}(…) at {place}: without, gradients have no graph"
            why = CUTTING_FUNCTIONS.get(part.func.attr)
            if why and not any(
                keyword.arg == "requires_grad" and getattr(keyword.value, "value", True) is not False
                for keyword in part.keywords
            ):
                if not any(isinstance(each, (ast.Name, ast.Call)) for each in ast.walk(part.args[0])):
                    continue  # of numbers that the line writes
                place = Origin(source, part).place()
                if isinstance(part.args[0], (ast.List, ast.Tuple, ast.ListComp)):
                    return f"{text_of(part.func)}(…) at {place}: {why}; torch.stack({text_of(part.args[0])}) keeps it"
                given = evaluate(part.args[0], failure.frame)
                kept = find_origin(source, part.args[0], failure.stack) if isinstance(part.args[0], ast.Name) else None
                kept_text = "" if kept is None or kept.value is None else text_of(kept.value)
                if kept is not None and re.search(r"\.(?:item|tolist|detach|numpy)\(\)|float\(", kept_text):
                    told = f"{kept_text} at {kept.place()} keeps values without their graph"
                    return f"{told}: the tensor itself there, and torch.stack({text_of(part.args[0])}) here"
                if isinstance(given, (list, tuple)) and given and all(isinstance(each, Tensor) for each in given):
                    return f"{text_of(part)} at {place}: {why}; torch.stack({text_of(part.args[0])}) keeps it"
                return f"{text_of(part.func)}(…) at {place}: {why}; compute with the tensor itself"
    return None


def _describe_frozen_module(failure: Failure, source: SourceFile, node: ast.AST) -> str | None:
    for part in ast.walk(node):
        value = evaluate(part, failure.frame) if isinstance(part, (ast.Name, ast.Attribute)) else None
        held = getattr(value, "parameters", None)
        if callable(held) and "_modules" in getattr(value, "__dict__", ()):
            parameters = list(held())
            if parameters and not any(each.requires_grad for each in parameters):
                for target in source.outside_assignments.get("requires_grad", ()):
                    owner = evaluate(target.value, failure.frame)
                    if is_module(owner) and vars(owner).get("requires_grad") is True:
                        place = Origin(source, target).place()
                        told = (
                            f"{text_of(target)} at {place} sets an attribute of the module, and none of its parameters"
                        )
                        return f"{told}: {text_of(target.value)}.requires_grad_(True)"
                where = find_freezing(source, value, failure)
                return f"all parameters of {text_of(part)} are frozen{where}: leave those that are to be trained"
    return None


def find_freezing(source: SourceFile, module: Operand = None, failure: Failure | None = None) -> str:
    """Return the line that sets `requires_grad` to False, or by a condition; of a module that which freezes it."""
    found = []
    for node in ast.walk(source.tree):
        target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "func", None)
        given = node.args if isinstance(node, ast.Call) else []
        value = node.value if isinstance(node, ast.Assign) else next(iter(given), None)
        name = getattr(target, "attr", "")
        if name.rstrip("_") == "requires_grad" and getattr(value, "value", value is not None) is False:
            found.append(node)
            call = None if failure is None else _find_freezing_call(source, target, module, failure)
            if call is not None:
                return f" by {Origin(source, call).describe()}"
    return f" by {Origin(source, found[0]).describe()}" if found else ""


def _find_freezing_call(source: SourceFile, target: Operand, module: Operand, failure: Failure) -> ast.AST | None:
    """Return the statement that freezes a module: the loop over its parameters, or the call of the function around."""
    node: ast.expr = target.value
    made = find_assignment(source, source.scope_of(node), node.id, node) if isinstance(node, ast.Name) else None
    if isinstance(made, ast.For) and isinstance(made.iter, ast.Call) and isinstance(made.iter.func, ast.Attribute):
        node = made.iter.func.value  # of model.parameters()
    function = source.scope_of(node)
    names = parameter_names(function)
    if not isinstance(function, ast.FunctionDef) or not isinstance(node, ast.Name) or node.id not in names:
        return source.statement_of(target) if _holds(evaluate(node, failure.frame), module) else None
    place = names.index(node.id) - (names[0] == "self")
    for call in ast.walk(source.tree):
        is_of_function = isinstance(call, ast.Call) and text_of(call.func).rpartition(".")[2] == function.name
        given = call.args[place : place + 1] if isinstance(call, ast.Call) and is_of_function and place >= 0 else []
        if given and _holds(evaluate(given[0], failure.frame), module):
            return call
    return None


def _holds(owner: Operand, module: Operand) -> bool:
    """Return whether one module is another one, or a part of it is."""
    return is_module(owner) and any(each is module for each in owner.modules())


@remedy(r"only for real scalar outputs but got \w+\.(complex\d+)")
def make_real(failure: Failure, match: re.Match[str]) -> str | None:
    """A loss of complex values, which is complex itself."""
    method = failure.node.func if isinstance(failure.node, ast.Call) else None
    owner = method.value if isinstance(method, ast.Attribute) else None
    own = None if owner is None else failure.find_operand(text_of(owner))
    made = None if own is None or own.origin is None else own.origin.value
    given = [text_of(each) for each in made.args[:2]] if isinstance(made, ast.Call) else []
    if own is None:
        return None
    told = f"{own.text}{at(own)} is {match[1]}, and a loss is a real number"
    if len(given) == 2:
        return f"{told}: {own.text} = ({given[0]} - {given[1]}).abs().pow(2).mean() there"
    return f"{told}: of .abs() of what it is computed from"


@remedy(r"a leaf Variable that requires grad is being used in an in-place operation")
def update_without_recording(failure: Failure, match: re.Match[str]) -> str:
    """A leaf that is changed while the graph records: a parameter, or a tensor that is filled."""
    node = failure.node
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in INITIALISERS:
        target, arguments = text_of(node.func.value), "".join(f", {text_of(each)}" for each in node.args)
        return f"nn.init.{node.func.attr}({target}{arguments}), which records nothing"
    source, statement = (
        (None, node)
        if failure.line is None or node is None
        else (failure.line.source, failure.line.source.statement_of(node))
    )
    text = "" if source is None or statement is None else text_of(statement)
    layer = failure.module()
    if layer is not None and getattr(layer.value, "inplace", False):
        told = f"{layer.text}{at(layer)} writes into its input, a leaf that requires grad"
        return f"{told}: nn.{type(layer.value).__name__}() there, without inplace=True"
    x = next((each for each in failure.tensors() if each.value.is_leaf and each.value.requires_grad), None)
    if x is None or not text or "\n" in text:
        return "with torch.no_grad(): around it, where it is an update; else make a new tensor"
    made = "" if x.origin is None or x.origin.value is None else text_of(x.origin.value)
    if type(x.value) is Tensor and "requires_grad=True" in made:
        told = f"{x.text}{at(x)} requires grad from the start"
        return f"{told}: with torch.no_grad(): {text}, or requires_grad_() after the last write"
    return f"with torch.no_grad(): {text}"


@remedy(r"is a view and is being modified inplace|view of a leaf|views? to be modified inplace")
def write_no_view(failure: Failure, match: re.Match[str]) -> str | None:
    """A write into one of several views, or into a view of a leaf."""
    node = failure.node
    if isinstance(node, ast.AugAssign) and "leaf" not in match[0]:
        target = text_of(node.target)
        new = text_of(ast.BinOp(node.target, node.op, node.value))
        told = f"{target}{at(failure.find_operand(target))} is one of several views"
        return f"{told}: {target} = {new} makes a new tensor"
    if "leaf" in match[0] or not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return None
    target, name = text_of(node.func.value), node.func.attr
    if not name.endswith("_"):
        return None
    arguments = ", ".join(map(text_of, (*node.args, *node.keywords)))
    own = next((each for each in failure.tensors() if each.text == target), None)
    return f"{target}{at(own)} is one of several views: {target} = {target}.{name[:-1]}({arguments}) makes a new tensor"


@remedy(r"Can't call numpy\(\) on Tensor that requires grad")
def detach_first(failure: Failure, match: re.Match[str]) -> str:
    """An array of a tensor with a graph."""
    x = next((each for each in failure.operands if isinstance(each.value, (list, tuple))), None)
    if x is not None and not failure.tensors():
        return f"{x.text} holds tensors with graphs: .item() of each where it is kept{at(x)}"
    node = failure.node
    is_method = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "numpy"
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and is_method:
        return f"{bracket(node.func.value)}.detach().numpy()"
    given = argument_node(failure, 0)
    x = next((each for each in failure.tensors() if each.value.requires_grad), None)
    if given is not None and x is not None and x.text == text_of(given) and isinstance(node, ast.Call):
        return f"{x.text}{at(x)} has a graph: {text_of(node.func)}({x.text}.detach())"
    return f"{first_tensor(failure, 'the tensor') if x is None else x.text}.detach().numpy()"


@remedy(r"[Oo]nly Tensors of floating point (?:and complex )?dtype can require gradients")
def use_floats(failure: Failure, match: re.Match[str]) -> str:
    """A tensor of integers that is to be learned."""
    node = failure.node
    for part in node.args if isinstance(node, ast.Call) else ():
        value = compute(part, failure.frame) if isinstance(part, (ast.Call, ast.Name)) else None
        if isinstance(value, Tensor) and not value.is_floating_point() and isinstance(node, ast.Call):
            own = failure.find_operand(text_of(part))
            kind = str(value.dtype).rpartition(".")[2]
            return f"{text_of(part)}{at(own)} is {kind}, and integers have no gradient: {bracket(part)}.float()"
    return "dtype=torch.float32, or values with a point: integers have no gradient"
